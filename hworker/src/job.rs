//! What a job type is to the runtime: its name, its policies, and how an attempt is started from its arguments.

mod failed;
mod schema;

use std::any::Any;
use std::future::Future;
use std::pin::Pin;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::args::Args;
use crate::backoff::Backoff;
use crate::calendar::Timing;
use crate::context::{Context, Inject, Needs, States};
use crate::encryption::Encrypted;
use crate::envelope::{JobId, describe};
use crate::error::BoxError;
use crate::limit::{Limit, LimitValues};
use crate::outcome::Returned;
use crate::priority::Priority;
use crate::unique::Uniqueness;

pub use failed::{Failed, OnFailed};
pub use schema::Schema;
#[cfg(feature = "schema")]
pub use schema::{IsDeep, IsShallow, Tag};

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
    /// What [`Handle::result`](crate::Handle::result) gives: what the function returns where `keep_result` is set, else `()`.
    type Output;
    /// The error with which the function fails, where `keep_error` is set, else `()`.
    type Failure;
    /// What an enqueue gives: a [`Handle`](crate::Handle) where `keep_result` is set, else a [`JobId`].
    type Handle: OfJob;
    /// Everything the runtime knows about the type.
    #[doc(hidden)]
    const DEFINITION: &'static Definition;

    /// The key by which the job is unique, where its type is.
    #[doc(hidden)]
    fn unique_key(&self) -> Option<String> {
        None
    }

    /// What these arguments say of the limits of the type.
    #[doc(hidden)]
    fn limit_values(&self) -> LimitValues {
        LimitValues::default()
    }
}

/// What an enqueue gives: the id of the job, or what has it and more.
pub trait OfJob: Sized + Send + 'static {
    /// That of a job with this id. `at`: where it is.
    #[doc(hidden)]
    fn of(id: JobId, at: impl FnOnce() -> Whereabouts) -> Self;
}

impl OfJob for JobId {
    fn of(id: JobId, _: impl FnOnce() -> Whereabouts) -> Self {
        id
    }
}

/// Where a job was enqueued to.
#[doc(hidden)]
#[derive(Debug)]
pub struct Whereabouts {
    /// The name of the shard, which is that of the queue where it is not spread.
    pub(crate) shard: Box<str>,
    /// The client, which is nothing to this module.
    pub(crate) client: Box<dyn Any + Send>,
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
    /// The version of its arguments.
    pub version: u32,
    /// Makes arguments of this version of those of an older one.
    pub upgrade: Option<Upgrade>,
    /// The queue that it goes to unless the call says otherwise.
    pub queue: &'static str,
    /// The priority of its jobs unless the call says otherwise.
    pub priority: Priority,
    /// How many of its jobs run at once, start in a time, and wait.
    pub limits: &'static [Limit],
    /// How its jobs are unique, if they are.
    pub unique: Option<Uniqueness>,
    /// When it runs again and again.
    pub crons: &'static [DeclaredCron],
    /// Where it is written: `module_path!()`, `file!()`, `line!()`.
    pub place: Place,
    /// What is done with attempts that do not succeed.
    pub policy: Policy,
    /// Whether its arguments are encrypted.
    pub encrypted: Encrypted,
    /// The arguments that no tool shows.
    pub redact: &'static [&'static str],
    /// The arguments by their names, as the manifest has them, in JSON.
    pub parameters: &'static str,
    /// The JSON Schema of the arguments.
    pub schema: Schema,
    /// How long its result is kept, in milliseconds.
    pub keep_ms: Option<u64>,
    /// Whether the body is not async and so runs on a thread of its own.
    pub blocking: bool,
    /// Whether it runs in a process of its own, and what bounds that.
    pub isolate: Option<Isolation>,
    /// What is enqueued when it has failed for good.
    pub on_failed: Option<OnFailed>,
    /// Adds what the parameters need from the worker.
    pub needs: fn(&mut Needs),
    /// Decodes the arguments and drops them: [`decode`].
    pub decode: fn(&str) -> serde_json::Result<()>,
    /// Decodes the arguments and gives what they say of the limits: [`limit_values`].
    pub limit_values: fn(&str) -> serde_json::Result<LimitValues>,
    /// Decodes the arguments and gives the key by which the job is unique: [`unique_key`].
    pub unique_key: fn(&str) -> serde_json::Result<Option<String>>,
    /// Decodes the arguments and makes the body, without running it.
    pub start: fn(Invocation<'_>) -> Result<Body, StartError>,
}

/// What bounds the processes in which the bodies of a type run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Isolation {
    /// The largest resident size, in bytes.
    pub memory: Option<u64>,
    /// The time of a processor that an attempt may use, in seconds.
    pub cpu_s: Option<u64>,
    /// After so many jobs the process is replaced.
    pub recycle: Option<u32>,
}

/// Makes arguments of the newest version of those of an older one, whose number it is told.
pub type Upgrade = fn(u32, Args) -> Result<Args, BoxError>;

impl Definition {
    /// The version of its arguments as an envelope says it: nothing for the first.
    pub(crate) fn args_v(&self) -> Option<u32> {
        Some(self.version).filter(|version| *version > 1)
    }

    /// Arguments of an older version as those of this one, in JSON; else what went wrong. `None` where they are read as they are. The
    /// function of the user may panic.
    pub(crate) fn upgraded(&self, from: u32, args: &str) -> Option<Result<String, String>> {
        let upgrade = self.upgrade.filter(|_| from < self.version)?;
        let old = serde_json::from_str(args).map_err(|error| describe(&error));
        let new = old.and_then(|old| upgrade(from, old).map_err(|error| error.to_string()));
        Some(new.and_then(|new| serde_json::to_string(&new).map_err(|error| describe(&error))))
    }
}

/// A cron entry that a job type declares.
#[derive(Debug)]
pub struct DeclaredCron {
    /// Its name.
    pub name: &'static str,
    /// When it runs.
    pub timing: fn() -> Timing,
    /// The arguments of its runs, as JSON.
    pub args: fn() -> serde_json::Result<Box<RawValue>>,
}

/// A place in the user's source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
#[derive(Debug, Clone, Copy)]
pub struct Policy {
    /// How long an attempt may run, in milliseconds.
    pub timeout_ms: u64,
    /// How many attempts a job has.
    pub max_attempts: u32,
    /// How long it may wait for its first attempt, in milliseconds, if that has an end.
    pub expires_ms: Option<u64>,
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
    /// What becomes of a running body whose job somebody cancels.
    pub on_cancel: OnCancel,
}

impl Policy {
    /// What holds where the attribute says nothing: 120 s, 25 attempts, `exp(5s, 6h)`, retry.
    pub const DEFAULT: Self = Self {
        timeout_ms: 120_000,
        max_attempts: 25,
        expires_ms: None,
        backoff: Backoff::DEFAULT,
        on_panic: OnFault::Retry,
        on_error: OnError::Always(OnFault::Retry),
        on_timeout: OnFault::Retry,
        on_crash: OnFault::Retry,
        on_cancel: OnCancel::Drop,
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

/// What becomes of a running body whose job somebody cancels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnCancel {
    /// It is dropped, if it is async.
    Drop,
    /// It goes on, and can ask its context.
    Token,
}

/// What a returned error leads to.
#[derive(Debug, Clone, Copy)]
pub enum OnError {
    /// The same for every error.
    Always(OnFault),
    /// The user's function decides for each.
    Decide(fn(&(dyn std::error::Error + Send + Sync + 'static)) -> OnFault),
}

/// One attempt about to start.
pub struct Invocation<'a> {
    pub(crate) args: &'a str,
    pub(crate) context: &'a Context,
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
        T::inject(self.context).map_err(StartError::Inject)
    }
}

impl std::fmt::Debug for Invocation<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The arguments stay out of logs.
        f.debug_struct("Invocation").field("context", self.context).finish_non_exhaustive()
    }
}

/// Whether arguments fit a job type.
///
/// # Errors
/// Where the JSON does not fit the type.
pub fn decode<J: Job>(args: &str) -> serde_json::Result<()> {
    serde_json::from_str::<J>(args).map(drop)
}

/// What arguments say of the limits of their job type.
///
/// # Errors
/// Where the JSON does not fit the type.
pub fn limit_values<J: Job>(args: &str) -> serde_json::Result<LimitValues> {
    Ok(serde_json::from_str::<J>(args)?.limit_values())
}

/// The key that arguments give a job of a type that is unique.
///
/// # Errors
/// Where the JSON does not fit the type.
pub fn unique_key<J: Job>(args: &str) -> serde_json::Result<Option<String>> {
    Ok(serde_json::from_str::<J>(args)?.unique_key())
}

/// Why an attempt could not be started.
#[derive(Debug)]
pub enum StartError {
    /// The arguments in the envelope do not fit: the job is parked for a worker that can read them.
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

#[cfg(feature = "testing")]
impl Definition {
    /// Why a test cannot run it that gives these states, and has keys or not.
    pub(crate) fn lacks(&self, states: &States, has_keys: bool) -> Option<String> {
        let mut needs = Needs::default();
        (self.needs)(&mut needs);
        let missing = missing_states(&needs, states);
        if !missing.is_empty() {
            let missing = missing.join("`, `");
            return Some(format!("it takes `State<{missing}>`: call `kit.state(..)` first"));
        }
        if self.encrypted != Encrypted::No && !has_keys {
            return Some("it is encrypted, and HWORKER_ENCRYPTION_KEYS names no keys".to_owned());
        }
        let isolated = "its bodies run in processes of their own, which a test does not start";
        self.isolate.map(|_| isolated.to_owned())
    }
}

/// Everything the worker was given with `.state(..)`, by type.
pub(crate) fn missing_states<'a>(needs: &'a Needs, states: &States) -> Vec<&'a str> {
    needs.states.iter().filter(|(id, _)| !states.has(*id)).map(|(_, name)| &**name).collect()
}

#[cfg(test)]
mod tests;
