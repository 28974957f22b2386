//! Code of the user around the bodies of a worker.

use std::fmt;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{self, Poll, Wake};
use std::thread::{self, Thread};

use super::attempt::decide::chain;
use super::attempt::panic::{self, Caught, Panic};
use crate::context::Context;
use crate::error::BoxError;
use crate::job::Body;
use crate::log::{one_line, say};
use crate::outcome::{Returned, Verdict};

/// What a [`Layer`] gives back: the rest of the attempt, to be awaited.
pub type Around<'a> = Pin<Box<dyn Future<Output = Ending> + Send + 'a>>;

/// Code that runs around every body of a worker; [`WorkerBuilder::layer`](crate::WorkerBuilder::layer) adds one.
///
/// ```
/// use hworker::{Around, Context, Ending, Layer, Next};
///
/// /// Gives each body the tenant of its job.
/// struct Tenants;
///
/// tokio::task_local! { static TENANT: Option<String>; }
///
/// impl Layer for Tenants {
///     fn around<'a>(&'a self, attempt: &'a Context, next: Next<'a>) -> Around<'a> {
///         let tenant = attempt.meta("tenant");
///         Box::pin(TENANT.scope(tenant, next.run()))
///     }
/// }
///
/// # fn demo() -> Result<(), hworker::Error> {
/// let worker = hworker::Worker::builder().layer(Tenants);
/// # Ok(()) }
/// ```
///
/// Its time counts for the timeout of the attempt, and it is dropped with the body when that is cut off. A layer that panics before it ran `next` is
/// left out in this attempt; where it panics later the ending of the body stands. Both are in the log.
pub trait Layer: Send + Sync + 'static {
    /// Runs `next`, which is the layers further in and the body, and gives its ending; or another one, on purpose.
    fn around<'a>(&'a self, attempt: &'a Context, next: Next<'a>) -> Around<'a>;
}

/// The layers of a worker, the first one outermost.
#[derive(Default)]
pub(crate) struct Layers(Vec<Box<dyn Layer>>);

impl Layers {
    /// Adds one, further in than those before.
    pub(crate) fn add(&mut self, layer: impl Layer) {
        self.0.push(Box::new(layer));
    }
}

impl fmt::Debug for Layers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Layers({})", self.0.len())
    }
}

/// What a layer is around: the layers further in, and the body.
pub struct Next<'a> {
    layers: &'a [Box<dyn Layer>],
    attempt: &'a Context,
    inner: &'a Mutex<Inner>,
}

impl fmt::Debug for Next<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Next").field("attempt", self.attempt).finish_non_exhaustive()
    }
}

impl<'a> Next<'a> {
    /// Runs it to its end.
    ///
    /// # Cancel safety
    /// Dropping this drops the body.
    #[must_use = "the body does not run until this is awaited"]
    pub fn run(self) -> Around<'a> {
        around(self.layers, self.attempt, self.inner)
    }
}

/// How the rest of an attempt ended. The error itself stays with the worker.
#[derive(Debug)]
pub struct Ending {
    kind: &'static str,
    message: Option<String>,
    instead: Option<Verdict>,
}

impl Ending {
    /// Ends the attempt so, whatever the body returned, or without it: [`fail`](crate::fail), [`retry_in`](crate::retry_in), [`snooze`](crate::snooze) or
    /// [`slow_down`](crate::slow_down).
    #[must_use]
    pub fn because(verdict: Verdict) -> Self {
        Self { kind: "error", message: Some(verdict.to_string()), instead: Some(verdict) }
    }

    /// Whether the body succeeded.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.kind == "done"
    }

    /// `done`, `error`, `panic`, `retry` or `failure`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        self.kind
    }

    /// The text of the error or the panic, if the body did not succeed.
    #[must_use]
    pub fn message(&self) -> Option<&str> {
        self.message.as_deref()
    }

    fn of(result: &Result<Returned, Panic>) -> Self {
        let (kind, message) = match result {
            Ok(Returned::Success | Returned::Value(_)) => ("done", None),
            Ok(Returned::Failure(message)) => ("failure", Some(message.clone())),
            Ok(Returned::Retry(message)) => ("retry", Some(message.clone())),
            Ok(Returned::Error(error)) => ("error", Some(chain(error))),
            Ok(Returned::ErrorValue(both)) => ("error", Some(chain(&both.0))),
            Err(panic) => ("panic", Some(panic.message.clone())),
        };
        Self { kind, message, instead: None }
    }
}

/// The body, and what it returned.
enum Inner {
    Waits(Started),
    Runs,
    Ended(Result<Returned, Panic>),
}

type Started = Pin<Box<dyn Future<Output = Returned> + Send>>;

fn replace(inner: &Mutex<Inner>, with: Inner) -> Inner {
    std::mem::replace(&mut inner.lock().unwrap_or_else(PoisonError::into_inner), with)
}

/// The body with the layers of the worker around it.
pub(crate) fn wrap(layers: &Arc<Layers>, attempt: &Context, body: Body) -> Body {
    if layers.0.is_empty() {
        return body;
    }
    let (layers, attempt) = (Arc::clone(layers), attempt.clone());
    match body {
        Body::Async(body) => Body::Async(Box::pin(run(layers, attempt, body))),
        Body::Blocking(body) => Body::Blocking(Box::new(move || {
            let body = Box::pin(async move { body() });
            block_on(pin!(run(layers, attempt, body)))
        })),
    }
}

/// Blocks the thread of a body. Not as tokio does, which lets nothing within block the thread again, as such a body may.
fn block_on<T>(mut future: Pin<&mut impl Future<Output = T>>) -> T {
    struct Unparks(Thread);
    impl Wake for Unparks {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Arc::new(Unparks(thread::current())).into();
    loop {
        match future.as_mut().poll(&mut task::Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

async fn run(layers: Arc<Layers>, attempt: Context, body: Started) -> Returned {
    let inner = Mutex::new(Inner::Waits(body));
    let ending = around(&layers.0, &attempt, &inner).await;
    let inner = inner.into_inner().unwrap_or_else(PoisonError::into_inner);
    match (ending.instead, inner) {
        (Some(verdict), _) => Returned::Error(verdict.into()),
        (None, Inner::Ended(Ok(returned))) => returned,
        (None, Inner::Ended(Err(panic))) => panic.resume(),
        (None, Inner::Waits(_) | Inner::Runs) => {
            let why: BoxError = "a layer gave the ending of another attempt".into();
            Returned::Error(why)
        }
    }
}

fn around<'a>(
    layers: &'a [Box<dyn Layer>],
    attempt: &'a Context,
    inner: &'a Mutex<Inner>,
) -> Around<'a> {
    Box::pin(async move {
        let Some((first, rest)) = layers.split_first() else { return body(inner).await };
        let next = Next { layers: rest, attempt, inner };
        let panic = match panic::catch(|| first.around(attempt, next)) {
            Ok(layer) => match Caught::new(layer).await {
                Ok(ending) => return ending,
                Err(panic) => panic,
            },
            Err(panic) => panic,
        };
        say!(WARN, { id = attempt.id().clone(), why = one_line(&panic.message) },
            job.id = %id, "a layer has panicked, and is left out: {why}");
        let ended = match &*inner.lock().unwrap_or_else(PoisonError::into_inner) {
            Inner::Ended(result) => Some(Ending::of(result)),
            Inner::Waits(_) | Inner::Runs => None,
        };
        match ended {
            Some(ending) => ending,
            None => around(rest, attempt, inner).await,
        }
    })
}

async fn body(inner: &Mutex<Inner>) -> Ending {
    let result = match replace(inner, Inner::Runs) {
        Inner::Waits(body) => Caught::new(body).await,
        // The layer that panicked was around it while it ran.
        Inner::Runs => Ok(Returned::Error("a layer has dropped the body while it ran".into())),
        Inner::Ended(result) => result,
    };
    let ending = Ending::of(&result);
    replace(inner, Inner::Ended(result));
    ending
}
