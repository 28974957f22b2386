//! One attempt of a job, without a server.

use std::fmt;
use std::pin::Pin;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::context::Context;
use crate::enqueue::{Enqueue, to_perform};
use crate::envelope::Rewrite;
use crate::error::Error;
use crate::hooks::EventKind;
use crate::job::Job;
use crate::registry::Registry;
use crate::reports::{Progress, unwritten};
use crate::worker::once::{self, Attempted};
use crate::worker::{Layer, Worker, WorkerBuilder};

/// Runs one attempt of a job in this task, as a worker would: the arguments are written and read, `timeout`, panics, `on_error` and layers count. No server
/// is needed, and nothing is enqueued but what the body does.
///
/// ```
/// #[hworker::job]
/// async fn divide(a: u32, b: u32) -> Result<(), hworker::BoxError> {
///     a.checked_div(b).ok_or("by zero")?;
///     Ok(())
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), hworker::Error> {
/// let done = hworker::testing::perform(divide::with(1, 0)).await?;
/// assert_eq!((done.kind, done.message.as_deref()), (hworker::EventKind::Retried, Some("by zero")));
/// # Ok(()) }
/// ```
pub fn perform<J: Job>(job: Enqueue<J>) -> Perform<J> {
    Perform::new(job, Worker::builder())
}

/// An attempt that is about to run; [`perform`] makes it. It runs when it is awaited.
///
/// # Errors
/// Awaited, it gives [`Error::Config`] where a state is missing that the job takes, and as [`Enqueue::enqueue`] where it could not be enqueued.
#[must_use = "nothing runs until it is awaited"]
pub struct Perform<J: Job> {
    job: Enqueue<J>,
    worker: WorkerBuilder,
    attempt: u32,
    checkpoint: Option<Vec<u8>>,
}

impl<J: Job> Perform<J> {
    pub(super) fn new(job: Enqueue<J>, worker: WorkerBuilder) -> Self {
        Self { job, worker, attempt: 1, checkpoint: None }
    }

    /// A value that the job may take as [`State<T>`](crate::State).
    #[track_caller]
    pub fn state<T: Clone + Send + Sync + 'static>(mut self, state: T) -> Self {
        self.worker = self.worker.state(state);
        self
    }

    /// A layer around the body, further in than those before.
    pub fn layer(mut self, layer: impl Layer) -> Self {
        self.worker = self.worker.layer(layer);
        self
    }

    /// Which attempt it is, from 1.
    pub fn attempt(mut self, number: u32) -> Self {
        self.attempt = number.max(1);
        self
    }

    /// What [`Context::restored`] gives.
    ///
    /// # Panics
    /// Where it cannot be written as JSON.
    pub fn restored(mut self, checkpoint: &impl Serialize) -> Self {
        let written = serde_json::to_vec(checkpoint);
        self.checkpoint = Some(written.unwrap_or_else(|error| panic!("a checkpoint: {error}")));
        self
    }

    async fn run(self) -> Result<Performed<J::Output>, Error>
    where
        J::Output: DeserializeOwned,
    {
        let (client, queue, payload) = to_perform(self.job)?;
        let mut rewrite =
            Rewrite::of(&payload).ok_or_else(|| Error::config("it is no envelope"))?;
        rewrite.set("attempt", &self.attempt);
        let payload = rewrite.to_bytes();
        let worker = self.worker.client(&client).registry(Registry::new().with::<J>());
        let prepare = |context: &Context| {
            if let Some(checkpoint) = self.checkpoint {
                context.report().unwritten().set("checkpoint", checkpoint);
            }
        };
        Ok(perform_with(Box::pin(once::attempt(worker, &queue, payload, prepare)).await?))
    }
}

impl<J: Job> IntoFuture for Perform<J>
where
    J::Output: DeserializeOwned,
{
    type Output = Result<Performed<J::Output>, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

impl<J: Job> fmt::Debug for Perform<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Perform").field("job", &J::NAME).finish_non_exhaustive()
    }
}

/// How an attempt ended.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Performed<T> {
    /// `Done`, `Retried`, `Failed`, `Snoozed` or `Cancelled`.
    pub kind: EventKind,
    /// What went wrong: `error`, `panic`, `timeout` and the like.
    pub error: Option<&'static str>,
    /// What was said of it.
    pub message: Option<String>,
    /// After so long it would run again.
    pub again_in: Option<Duration>,
    /// How long the body ran.
    pub elapsed: Duration,
    /// How far the body said that it was.
    pub progress: Option<Progress>,
    /// What it logged by [`Context::log`].
    pub log: Vec<String>,
    checkpoint: Option<Vec<u8>>,
    value: Option<Result<T, String>>,
}

impl<T> Performed<T> {
    /// What it returned: of a type with `keep_result` that, of others `()`.
    ///
    /// # Panics
    /// Where it is not done, or what it returned cannot be kept, with what went wrong.
    #[track_caller]
    pub fn value(self) -> T {
        let kind = self.kind;
        match self.value {
            Some(Ok(value)) => value,
            Some(Err(why)) => panic!("its result cannot be kept: {why}"),
            None => panic!("it is {kind}, not done: {}", self.message.unwrap_or_default()),
        }
    }

    /// What it saved last by [`Context::checkpoint`], if that is of this type.
    #[must_use]
    pub fn checkpoint<C: DeserializeOwned>(&self) -> Option<C> {
        serde_json::from_slice(self.checkpoint.as_ref()?).ok()
    }
}

pub(super) fn perform_with<T: DeserializeOwned>(attempted: Attempted) -> Performed<T> {
    let Attempted { kind, value, why, again_in, context, ran } = attempted;
    let (progress, log) = unwritten(&context);
    let checkpoint = context.report().unwritten().fields.get("checkpoint").cloned();
    // What keeps no result gives `()`.
    let value = value.unwrap_or_else(|| Ok("null".to_owned()));
    let value = value.and_then(|json| serde_json::from_str(&json).map_err(|why| why.to_string()));
    let (error, message) = why.map_or((None, None), |(kind, message)| (Some(kind), Some(message)));
    let value = (kind == EventKind::Done).then_some(value);
    Performed { kind, error, message, again_in, elapsed: ran, progress, log, checkpoint, value }
}
