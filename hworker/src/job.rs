//! What a job type is to the runtime: its name, its policies, and how an attempt is started from its arguments.

use std::any::{TypeId, type_name};
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::context::{Context, States};
use crate::error::BoxError;
use crate::outcome::Returned;

/// A job type: the struct that `#[hworker::job]` writes beside the function, one field per argument.
///
/// The attribute implements it; there is no need to do so by hand.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a job",
    note = "put `#[hworker::job]` on the function and import it by its name"
)]
pub trait Job: for<'de> Arguments<'de> + Send + Sized + 'static {
    /// The name that travels with each job of this type.
    const NAME: &'static str;
    /// Everything the runtime knows about the type.
    #[doc(hidden)]
    const DEFINITION: &'static Definition;
}

/// A type that an argument of a job may have: anything that serde can write and read back.
///
/// The attribute asks for it with `for<'a>` on the implementations that it derives, where the compiler believes it; so
/// the one place that complains about an argument is the implementation of [`Job`], instead of one for each method
/// that the derived code calls.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an argument of a job",
    label = "an argument of this job does not implement both `serde::Serialize` and `serde::Deserialize`",
    note = "derive both for it; where its crate has a feature `serde`, switch that on",
    note = "what is not an argument, such as a pool, is taken as `hworker::State<T>` or under `#[inject]`"
)]
pub trait Argument<'de>: Serialize + Deserialize<'de> {}

#[diagnostic::do_not_recommend]
impl<'de, T: Serialize + Deserialize<'de>> Argument<'de> for T {}

/// The arguments of a job together.
pub trait Arguments<'de>: Serialize + Deserialize<'de> {}

impl<'de, T: Serialize + Deserialize<'de>> Arguments<'de> for T {}

/// The static description of a job type.
#[derive(Debug)]
pub struct Definition {
    /// The wire name.
    pub name: &'static str,
    /// Further names under which jobs of this type may wait.
    pub aliases: &'static [&'static str],
    /// The queue that it goes to unless the call says otherwise.
    pub queue: &'static str,
    /// Where it is written: `module_path!()`, `file!()`, `line!()`.
    pub place: Place,
    /// What is done with attempts that do not succeed.
    pub policy: Policy,
    /// Whether the body is not async and so runs on a thread of its own.
    pub blocking: bool,
    /// Adds what the parameters need from the worker.
    pub needs: fn(&mut Needs),
    /// Decodes the arguments and makes the body, without running it.
    pub start: fn(Invocation<'_>) -> Result<Body, StartError>,
}

/// A place in the user's source.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    /// `module_path!()`
    pub module: &'static str,
    /// `file!()`
    pub file: &'static str,
    /// `line!()`
    pub line: u32,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// The policies of a job type.
#[derive(Debug)]
pub struct Policy {
    /// How long an attempt may run, in milliseconds.
    pub timeout_ms: u64,
    /// How many attempts a job has.
    pub max_attempts: u32,
    /// How long to wait before the next attempt.
    pub backoff: Backoff,
    /// What a panic leads to.
    pub on_panic: OnFault,
    /// What a returned error leads to.
    pub on_error: OnError,
    /// What running over the timeout leads to.
    pub on_timeout: OnFault,
    /// What the death of the worker leads to.
    pub on_crash: OnFault,
}

impl Policy {
    /// What holds where the attribute says nothing: 120 s, 25 attempts, `exp(5s, 6h)`, retry.
    pub const DEFAULT: Self = Self {
        timeout_ms: 120_000,
        max_attempts: 25,
        backoff: Backoff::DEFAULT,
        on_panic: OnFault::Retry,
        on_error: OnError::Always(OnFault::Retry),
        on_timeout: OnFault::Retry,
        on_crash: OnFault::Retry,
    };
}

/// What an attempt that did not succeed leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnFault {
    /// The job runs again, as long as it has attempts left.
    Retry,
    /// The job has failed.
    Fail,
}

/// What a returned error leads to.
#[derive(Debug, Clone, Copy)]
pub enum OnError {
    /// The same for every error.
    Always(OnFault),
    /// The user's function decides for each.
    Decide(fn(&(dyn std::error::Error + Send + Sync + 'static)) -> OnFault),
}

/// How long to wait before the next attempt; all times in milliseconds.
#[derive(Debug, Clone, Copy)]
pub enum Backoff {
    /// The same delay before every attempt; 0 is at once, at the back of the queue.
    Fixed(u64),
    /// The first, second, ... delay; the last one for all that follow.
    List(&'static [u64]),
    /// Doubling from `first_ms` up to `cap_ms`, with jitter.
    Exponential {
        /// The delay before the second attempt.
        first_ms: u64,
        /// No delay is longer.
        cap_ms: u64,
    },
    /// The user's function of the attempt that has ended (from 1) and its error.
    Custom(fn(u32, &(dyn std::error::Error + Send + Sync + 'static)) -> Duration),
}

impl Backoff {
    /// `exp(5s, 6h)`
    pub const DEFAULT: Self = Self::Exponential { first_ms: 5_000, cap_ms: 6 * 3_600_000 };
}

/// What the parameters of jobs need from the worker, collected when it starts.
#[derive(Debug, Default)]
pub struct Needs {
    pub(crate) states: Vec<(TypeId, &'static str)>,
}

impl Needs {
    /// The worker must have been given a value of type `T`.
    pub fn state<T: 'static>(&mut self) {
        let need = (TypeId::of::<T>(), type_name::<T>());
        if !self.states.contains(&need) {
            self.states.push(need);
        }
    }
}

/// A parameter of a job that is not an argument: [`State`](crate::State), [`Context`], or a type of the user's under `#[inject]`.
///
/// ```
/// use hworker::{BoxError, Context, Inject, Needs, State};
///
/// #[derive(Clone)]
/// struct Pool;
/// struct Connection(Pool);
///
/// impl Inject for Connection {
///     fn needs(needs: &mut Needs) {
///         State::<Pool>::needs(needs);
///     }
///     fn inject(context: &Context) -> Result<Self, BoxError> {
///         let State(pool) = State::<Pool>::inject(context)?;
///         Ok(Connection(pool))
///     }
/// }
///
/// #[hworker::job]
/// async fn tidy(#[inject] connection: Connection) {
///     let Connection(_pool) = connection;
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be given to a job",
    label = "`hworker::Inject` is not implemented for this type",
    note = "an argument of the job needs no `#[inject]`; a pool or client is given as `State<T>`",
    note = "a parameter whose type is called `State` or `Context` is taken for hworker's"
)]
pub trait Inject: Sized {
    /// Names what the worker must have been given, so that a missing piece is an error when the worker starts.
    fn needs(needs: &mut Needs) {
        let _ = needs;
    }

    /// Makes the value for one attempt.
    ///
    /// # Errors
    /// Any error; the attempt then ends with it, as if the body had returned it.
    fn inject(context: &Context) -> Result<Self, BoxError>;
}

/// One attempt about to start.
#[derive(Debug)]
pub struct Invocation<'a> {
    pub(crate) args: &'a str,
    pub(crate) context: Context,
}

impl Invocation<'_> {
    /// The arguments, decoded.
    ///
    /// # Errors
    /// Where the JSON does not fit the type.
    pub fn args<J: Job>(&self) -> Result<J, StartError> {
        serde_json::from_str(self.args).map_err(StartError::Args)
    }

    /// The value of an injected parameter.
    ///
    /// # Errors
    /// Whatever the type's [`Inject::inject`] says.
    pub fn inject<T: Inject>(&self) -> Result<T, StartError> {
        T::inject(&self.context).map_err(StartError::Inject)
    }
}

/// Why an attempt could not be started.
#[derive(Debug)]
pub enum StartError {
    /// The arguments in the envelope do not fit: the job is broken.
    Args(serde_json::Error),
    /// An injected parameter could not be made.
    Inject(BoxError),
}

/// The body of an attempt, ready to run.
pub enum Body {
    /// Of an async fn.
    Async(Pin<Box<dyn Future<Output = Returned> + Send>>),
    /// Of a fn that blocks.
    Blocking(Box<dyn FnOnce() -> Returned + Send>),
}

impl Body {
    /// The body of an async fn.
    pub fn from_future(future: impl Future<Output = Returned> + Send + 'static) -> Self {
        Self::Async(Box::pin(future))
    }

    /// The body of a fn that blocks.
    pub fn from_blocking(body: impl FnOnce() -> Returned + Send + 'static) -> Self {
        Self::Blocking(Box::new(body))
    }
}

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Async(_) => "Body::Async",
            Self::Blocking(_) => "Body::Blocking",
        })
    }
}

/// What `inventory` collects: one entry for each `#[hworker::job]` that the program links.
#[derive(Debug)]
pub struct Registration(pub &'static Definition);

impl Registration {
    /// Of a job type.
    #[must_use]
    pub const fn of<J: Job>() -> Self {
        Self(J::DEFINITION)
    }
}

inventory::collect!(Registration);

/// Everything the worker was given with `.state(..)`, by type.
pub(crate) fn missing_states(needs: &Needs, states: &States) -> Vec<&'static str> {
    needs.states.iter().filter(|(id, _)| !states.has(*id)).map(|(_, name)| *name).collect()
}
