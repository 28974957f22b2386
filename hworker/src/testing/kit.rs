//! What a test has.

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use uuid::Uuid;

use super::asked::Enqueued;
use super::perform::{Perform, Performed, perform_with};
use crate::client::{Client, Recorded, Recorder};
use crate::context::Context;
use crate::embedded::Server;
use crate::enqueue::Enqueue;
use crate::error::Error;
use crate::job::Job;
use crate::registry::Registry;
use crate::worker::{Around, Layer, Next, Worker, WorkerBuilder, once};

/// What a test of `#[hworker::test]` has: all that it enqueues, and what its jobs need. Clones share everything.
#[derive(Clone, Default)]
pub struct Kit {
    pub(super) recorder: Arc<Recorder>,
    settings: Arc<Mutex<Vec<Setting>>>,
    inline: Arc<Mutex<Vec<Performed<serde_json::Value>>>>,
}

/// Gives a worker something.
type Setting = Arc<dyn Fn(WorkerBuilder) -> WorkerBuilder + Send + Sync>;

/// A layer of several workers.
struct Shared(Arc<dyn Layer>);

impl Layer for Shared {
    fn around<'a>(&'a self, attempt: &'a Context, next: Next<'a>) -> Around<'a> {
        self.0.around(attempt, next)
    }
}

/// The server of all tests of this process. Nobody drops it: it ends with the process.
static SERVER: OnceLock<Result<Server, String>> = OnceLock::new();

impl Kit {
    /// A value that jobs may take as [`State<T>`](crate::State), as of [`WorkerBuilder::state`].
    pub fn state<T: Clone + Send + Sync + 'static>(&self, state: T) -> &Self {
        self.set(Arc::new(move |worker| worker.state(state.clone())))
    }

    /// A layer around bodies, as of [`WorkerBuilder::layer`].
    pub fn layer(&self, layer: impl Layer) -> &Self {
        let layer: Arc<dyn Layer> = Arc::new(layer);
        self.set(Arc::new(move |worker| worker.layer(Shared(Arc::clone(&layer)))))
    }

    fn set(&self, setting: Setting) -> &Self {
        self.settings.lock().unwrap_or_else(PoisonError::into_inner).push(setting);
        self
    }

    /// A worker with what this kit has.
    pub(super) fn worker(&self) -> WorkerBuilder {
        let settings = self.settings.lock().unwrap_or_else(PoisonError::into_inner).clone();
        settings.iter().fold(Worker::builder(), |worker, setting| setting(worker))
    }

    /// What was enqueued of a job type so far, in its order.
    ///
    /// # Panics
    /// Where arguments are encrypted, and no key of the client opens them.
    #[must_use]
    pub fn enqueued<J: Job>(&self) -> Vec<Enqueued<J>> {
        Enqueued::of(&self.recorder)
    }

    /// Forgets what was enqueued so far.
    pub fn clear(&self) {
        let mut state = self.recorder.state();
        state.recorded.clear();
        state.unsent.clear();
    }

    /// Runs one attempt of a job, with the states and layers of this kit. No server is needed.
    pub fn perform<J: Job>(&self, job: Enqueue<J>) -> Perform<J> {
        Perform::new(job, self.worker())
    }

    /// Runs each job once from now on when it is enqueued, before the enqueue returns, with the states and layers of this kit; delays mean nothing then.
    /// That it fails is no failure of the enqueue: [`performed`](Self::performed) has it.
    pub fn run_inline(&self) {
        let kit = self.clone();
        self.recorder.state().inline = Some(Arc::new(move |job: Recorded| {
            let kit = kit.clone();
            Box::pin(async move {
                let done = kit.perform_recorded(job).await;
                kit.inline.lock().unwrap_or_else(PoisonError::into_inner).push(done);
            })
        }));
    }

    async fn perform_recorded(&self, job: Recorded) -> Performed<serde_json::Value> {
        let mut registry = Registry::new();
        if let Some(definition) = Registry::collect().by_name().get(&*job.job) {
            registry.add(definition);
        }
        let worker = self.worker().registry(registry).client(&job.client);
        let attempt = Box::pin(once::attempt(worker, &job.queue, job.envelope, |_| ())).await;
        match attempt {
            Ok(attempted) => perform_with(attempted),
            Err(error) => panic!("job {} cannot run: {error}", job.job),
        }
    }

    /// How jobs ended that ran [inline](Self::run_inline), in the order in which they did. A result is there where it is kept.
    #[must_use]
    pub fn performed(&self) -> Vec<Performed<serde_json::Value>> {
        self.inline.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Gives the test a server: a private Redis or Valkey, one for all tests of the process, with keys of its own for each test. What was enqueued goes there,
    /// and so does what is enqueued from now on, by whichever client. Gives the client for it, which also is the default client of the test now.
    ///
    /// # Errors
    /// [`Error::Config`] where there is no `valkey-server` or `redis-server` on the `PATH`, or it cannot be started.
    pub async fn with_server(&self) -> Result<Client, Error> {
        if let Some(client) = self.recorder.state().server.clone() {
            return Ok(client);
        }
        let start = || {
            let server = SERVER.get_or_init(|| Server::start().map_err(|error| error.to_string()));
            server.as_ref().map(|server| server.url().clone())
        };
        let started = tokio::task::spawn_blocking(start).await;
        let url = match started {
            Ok(Ok(url)) => url,
            Ok(Err(why)) => return Err(Error::config(why.clone())),
            Err(_) => return Err(Error::config("the runtime of the test ends")),
        };
        let prefix = format!("t{}", Uuid::new_v4().simple());
        let client = Client::builder().redis_url(url).prefix(prefix).build()?;
        let unsent = {
            let mut state = self.recorder.state();
            state.server = Some(client.clone());
            std::mem::take(&mut state.unsent)
        };
        for send in unsent {
            send(client.clone()).await?;
        }
        Ok(client)
    }
}

impl fmt::Debug for Kit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kit").field("recorder", &self.recorder).finish_non_exhaustive()
    }
}

/// Runs a test; `#[hworker::test]` calls it. `threads`: those of its runtime, `None` for the one of the test.
///
/// # Panics
/// Where there can be no runtime.
#[doc(hidden)]
pub fn run<T>(threads: Option<usize>, test: impl AsyncFnOnce(Kit) -> T) -> T {
    let mut builder = match threads {
        None => tokio::runtime::Builder::new_current_thread(),
        Some(threads) => {
            let mut builder = tokio::runtime::Builder::new_multi_thread();
            builder.worker_threads(threads);
            builder
        }
    };
    let runtime =
        builder.enable_all().build().unwrap_or_else(|error| panic!("no runtime: {error}"));
    let kit = Kit::default();
    let _installed = kit.recorder.install(runtime.handle().id());
    runtime.block_on(test(kit))
}
