//! What a job's body says at its end: return forms, verdicts, and how a return type is told apart.

use std::error::Error as StdError;
use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::envelope::describe;
use crate::error::BoxError;
use crate::guarded::guarded;
use crate::strict_json;

/// What a job may return to say how its attempt ended, where `Ok` and `Err` are not enough.
///
/// ```
/// # use hworker::Outcome;
/// #[hworker::job]
/// async fn poll_invoice(id: u64) -> Outcome {
///     match id {
///         0 => Outcome::Failure("there is no invoice 0".into()),
///         1 => Outcome::Retry("not issued yet".into()),
///         _ => Outcome::Success,
///     }
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The job is done.
    Success,
    /// The attempt failed and counts; the job runs again after its backoff until its attempts are used up.
    Retry(String),
    /// The job failed and never runs again by itself.
    Failure(String),
}

/// A decision that a body takes from inside, carried by an error.
///
/// It is an error itself, so `?` takes it through `anyhow`, `Box<dyn Error>` and every error type that keeps
/// its source: the worker finds it anywhere in the chain. An enum that `thiserror` derives takes it as a variant
/// `#[error(transparent)] Verdict(#[from] hworker::Verdict)`, of which [`job`](macro@crate::job) has an example.
///
/// ```
/// # async fn charge(_: u64) -> Result<(), std::io::Error> { Ok(()) }
/// #[hworker::job]
/// async fn pay(order: u64) -> Result<(), hworker::BoxError> {
///     charge(order).await.map_err(hworker::fail)?;
///     Ok(())
/// }
/// ```
#[derive(Debug)]
pub struct Verdict(Marked);

/// The decision inside a [`Verdict`], which is its source, so that a wrapper that forwards `source()` of what it wraps does
/// not hide it. The sources of the error that led to it follow.
#[derive(Debug)]
struct Marked {
    decision: Decision,
    because: Option<BoxError>,
}

/// What a verdict decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decision {
    Fail,
    RetryIn(Duration),
    Snooze(Duration),
    SlowDown(Duration),
}

/// The job fails for good: it does not run again, however many attempts it has left.
#[must_use]
pub fn fail(because: impl Into<BoxError>) -> Verdict {
    Verdict::new(Decision::Fail).because(because)
}

/// The attempt failed and counts; the job runs again after `delay` instead of its own backoff, as long as it has
/// attempts left.
#[must_use]
pub fn retry_in(delay: Duration) -> Verdict {
    Verdict::new(Decision::RetryIn(delay))
}

/// The job runs again after `delay`, and this attempt does not count.
#[must_use]
pub fn snooze(delay: Duration) -> Verdict {
    Verdict::new(Decision::Snooze(delay))
}

/// The job runs again after `delay`, this attempt does not count, and no other job that shares its limit starts before that: none with its
/// key where its limit has one, and where the job has no limit none of its type. For a service that answers "too many requests".
///
/// A limit that is used under several names is held up in the last one that the job has. The shortest delay is 10 ms.
///
/// ```
/// # use std::time::Duration;
/// # struct Answer { status: u16, retry_after: Duration }
/// # async fn call(_: &str) -> Answer { Answer { status: 429, retry_after: Duration::from_secs(9) } }
/// #[hworker::job]
/// async fn sync_shop(shop: String) -> Result<(), hworker::BoxError> {
///     let answer = call(&shop).await;
///     if answer.status == 429 {
///         return Err(hworker::slow_down(answer.retry_after).into());
///     }
///     Ok(())
/// }
/// ```
#[must_use]
pub fn slow_down(delay: Duration) -> Verdict {
    Verdict::new(Decision::SlowDown(delay))
}

impl Verdict {
    fn new(decision: Decision) -> Self {
        Self(Marked { decision, because: None })
    }

    /// Attaches the error that led to the decision; its text is kept in the job's record.
    #[must_use]
    pub fn because(mut self, error: impl Into<BoxError>) -> Self {
        self.0.because = Some(error.into());
        self
    }

    /// Finds the decision in the chain of sources of `error`.
    pub(crate) fn find(error: &(dyn StdError + 'static)) -> Option<Decision> {
        chain(error).find_map(|error| error.downcast_ref::<Marked>()).map(|marked| marked.decision)
    }

    /// Whether an error is only the mark of a verdict, whose text says nothing of the cause.
    pub(crate) fn is_mark(error: &(dyn StdError + 'static)) -> bool {
        error.is::<Marked>()
    }
}

/// So many sources of an error are looked at: they may come back to it, or have no end.
const SOURCES: usize = 100;

/// An error and its sources, one after the other; none is asked for its source before that is asked for.
pub(crate) fn chain<'a>(
    error: &'a (dyn StdError + 'static),
) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    let mut last: Option<&'a (dyn StdError + 'static)> = None;
    (0..=SOURCES).map_while(move |_| {
        last = last.map_or(Some(error), StdError::source);
        last
    })
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.because {
            Some(error) => error.fmt(f),
            None => self.0.fmt(f),
        }
    }
}

impl StdError for Verdict {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&self.0)
    }
}

impl fmt::Display for Marked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.decision {
            Decision::Fail => f.write_str("the job failed for good"),
            Decision::RetryIn(delay) => write!(f, "the job asked to run again in {delay:?}"),
            Decision::Snooze(delay) => write!(f, "the job snoozed for {delay:?}"),
            Decision::SlowDown(delay) => write!(f, "the job asked to slow down for {delay:?}"),
        }
    }
}

impl StdError for Marked {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.because.as_ref()?.source()
    }
}

/// How a body ended by itself.
#[derive(Debug)]
pub enum Returned {
    /// It is done.
    Success,
    /// It asks to run again, with this message.
    Retry(String),
    /// It failed for good, with this message.
    Failure(String),
    /// It returned an error.
    Error(BoxError),
    /// It is done, and its result is kept.
    Value(ReturnValue),
    /// It returned an error that is kept.
    ErrorValue(Box<(BoxError, ReturnValue)>),
}

/// A value that a body returned, as JSON; else why it cannot be written.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReturnValue(pub(crate) Result<String, String>);

impl fmt::Debug for ReturnValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What jobs return stays out of logs.
        f.write_str("ReturnValue")
    }
}

impl ReturnValue {
    /// The value as JSON. That it cannot be written, or panics, is no failure of the job: its effects have happened.
    fn of<T: Returnable>(value: &T) -> Self {
        let mut written = Err("its type panics".to_owned());
        guarded(|| written = written_as_json(value));
        Self(written)
    }
}

fn written_as_json<T: Returnable>(value: &T) -> Result<String, String> {
    let (json, is_doubtful) = strict_json::to_vec(value).map_err(|error| describe(&error))?;
    if is_doubtful {
        serde_json::from_slice::<T>(&json)
            .map_err(|error| format!("nobody could read it: {}", describe(&error)))?;
    }
    String::from_utf8(json).map_err(|_| "it is no UTF-8".to_owned())
}

/// What a job that keeps its result returns.
#[diagnostic::on_unimplemented(
    message = "a job that keeps its result returns `Result<T, E>`",
    label = "`{Self}` is no such type",
    note = "return `()` where there is nothing to keep but the end of the job"
)]
pub trait Returns {
    /// What it returns when it is done.
    type Value;
    /// What it returns when it has failed.
    type Error;
}

impl Returns for () {
    type Value = ();
    type Error = ();
}

#[diagnostic::do_not_recommend]
impl<T: Returnable, E> Returns for Result<T, E> {
    type Value = T;
    type Error = E;
}

/// A value that can be kept.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be kept as a result",
    label = "this type does not implement both `serde::Serialize` and `serde::Deserialize`",
    note = "derive both for it; where its crate has a feature `serde`, switch that on"
)]
pub trait Returnable: Serialize + DeserializeOwned {}

#[diagnostic::do_not_recommend]
impl<T: Serialize + DeserializeOwned> Returnable for T {}

impl From<Outcome> for Returned {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Success => Self::Success,
            Outcome::Retry(message) => Self::Retry(message),
            Outcome::Failure(message) => Self::Failure(message),
        }
    }
}

/// An error that a job may return: anything that turns into `Box<dyn Error + Send + Sync>`.
#[diagnostic::on_unimplemented(
    message = "a job cannot return the error type `{Self}`",
    label = "this error type is not `Into<Box<dyn Error + Send + Sync>>`",
    note = "a std error, `anyhow::Error`, `String` or `Box<dyn Error + Send + Sync>` will do"
)]
pub trait JobError {
    #[doc(hidden)]
    fn boxed(self) -> BoxError;
}

#[diagnostic::do_not_recommend]
impl<E: Into<BoxError>> JobError for E {
    fn boxed(self) -> BoxError {
        self.into()
    }
}

/// A value that a job may return: anything that serialises.
#[diagnostic::on_unimplemented(
    message = "a job cannot return `{Self}`",
    label = "this type does not implement `serde::Serialize`",
    note = "return `()`, a type that implements `serde::Serialize`, `Result<T, E>` or `hworker::Outcome`"
)]
pub trait JobOutput {}

#[diagnostic::do_not_recommend]
impl<T: Serialize> JobOutput for T {}

// Which form a return type has is decided by its type: method lookup tries the impl with the most references
// first, so `(&&&&tag).form()` picks `Outcome` before a `Result` in a `Result` before `Result<T, E>` before any `T`, whatever
// alias hides it ("autoref specialisation", as in the `anyhow!` macro).

/// Carries the type of a returned value into method lookup.
#[derive(Debug)]
pub struct Tag<R>(PhantomData<fn() -> R>);

/// The tag of a returned value.
#[must_use]
pub fn tag<R>(_: &R) -> Tag<R> {
    Tag(PhantomData)
}

/// `Outcome`, `Result<Outcome, E>` and `Result<Result<Outcome, E>, F>`.
#[derive(Debug)]
pub struct OutcomeForm;
/// `Result<Result<T, E>, F>`, as of a body that awaits a fallible task: serde could write the inner `Err` as a value.
#[derive(Debug)]
pub struct NestedForm;
/// `Result<T, E>`.
#[derive(Debug)]
pub struct ResultForm;
/// Any other value.
#[derive(Debug)]
pub struct ValueForm;

/// Picks `OutcomeForm`.
pub trait IsOutcome {
    /// The form.
    fn form(&self) -> OutcomeForm {
        OutcomeForm
    }
}
impl IsOutcome for &&&Tag<Outcome> {}
impl<E> IsOutcome for &&&Tag<Result<Outcome, E>> {}
impl<E, F> IsOutcome for &&&Tag<Result<Result<Outcome, E>, F>> {}

/// Picks `NestedForm`.
pub trait IsNested {
    /// The form.
    fn form(&self) -> NestedForm {
        NestedForm
    }
}
impl<T, E, F> IsNested for &&Tag<Result<Result<T, E>, F>> {}

/// Picks `ResultForm`.
pub trait IsResult {
    /// The form.
    fn form(&self) -> ResultForm {
        ResultForm
    }
}
impl<T, E> IsResult for &Tag<Result<T, E>> {}

/// Picks `ValueForm`.
pub trait IsValue {
    /// The form.
    fn form(&self) -> ValueForm {
        ValueForm
    }
}
impl<T> IsValue for Tag<T> {}

/// Turns an `Outcome`, alone or in one `Result` or two, into a [`Returned`].
#[diagnostic::on_unimplemented(
    message = "a job cannot return the error type in `{Self}`",
    label = "this error type is not `Into<Box<dyn Error + Send + Sync>>`",
    note = "a std error, `anyhow::Error`, `String` or `Box<dyn Error + Send + Sync>` will do"
)]
pub trait IntoOutcome {
    /// The end of the body.
    fn returned(self) -> Returned;
}
impl IntoOutcome for Outcome {
    fn returned(self) -> Returned {
        self.into()
    }
}
#[diagnostic::do_not_recommend]
impl<E: JobError> IntoOutcome for Result<Outcome, E> {
    fn returned(self) -> Returned {
        self.map_or_else(|error| Returned::Error(error.boxed()), Returned::from)
    }
}
#[diagnostic::do_not_recommend]
impl<E: JobError, F: JobError> IntoOutcome for Result<Result<Outcome, E>, F> {
    fn returned(self) -> Returned {
        self.map_or_else(|error| Returned::Error(error.boxed()), IntoOutcome::returned)
    }
}

#[allow(clippy::unused_self)] // a method, so that the form that was picked decides which
impl OutcomeForm {
    /// The end of the body.
    pub fn returned(self, value: impl IntoOutcome) -> Returned {
        value.returned()
    }
}

#[allow(clippy::unused_self)]
impl NestedForm {
    /// The end of the body.
    pub fn returned<T: JobOutput, E: JobError, F: JobError>(
        self,
        value: Result<Result<T, E>, F>,
    ) -> Returned {
        match value {
            Ok(inner) => ResultForm.returned(inner),
            Err(error) => Returned::Error(error.boxed()),
        }
    }
}

#[allow(clippy::unused_self)]
impl ResultForm {
    /// The end of the body.
    pub fn returned<T: JobOutput, E: JobError>(self, value: Result<T, E>) -> Returned {
        match value {
            Ok(_) => Returned::Success,
            Err(error) => Returned::Error(error.boxed()),
        }
    }

    /// The end of the body of a job that keeps its result.
    pub fn kept<T: Returnable, E: JobError>(self, value: Result<T, E>) -> Returned {
        match value {
            Ok(value) => Returned::Value(ReturnValue::of(&value)),
            Err(error) => Returned::Error(error.boxed()),
        }
    }

    /// The same of a job that keeps its error too.
    pub fn kept_with_error<T: Returnable, E: JobError + Returnable>(
        self,
        value: Result<T, E>,
    ) -> Returned {
        match value {
            Ok(value) => Returned::Value(ReturnValue::of(&value)),
            Err(error) => {
                let written = ReturnValue::of(&error);
                Returned::ErrorValue(Box::new((error.boxed(), written)))
            }
        }
    }
}

/// No type has it: what a job that keeps its result does not return.
#[diagnostic::on_unimplemented(
    message = "a job that keeps its result returns `Result<T, E>`",
    label = "`{Self}` is no such type"
)]
pub trait NotKept {}

#[allow(clippy::unused_self)]
impl OutcomeForm {
    /// None.
    pub fn kept<R: NotKept>(self, _: R) -> Returned {
        Returned::Success
    }

    /// None.
    pub fn kept_with_error<R: NotKept>(self, _: R) -> Returned {
        Returned::Success
    }
}

#[allow(clippy::unused_self)]
impl NestedForm {
    /// None.
    pub fn kept<R: NotKept>(self, _: R) -> Returned {
        Returned::Success
    }

    /// None.
    pub fn kept_with_error<R: NotKept>(self, _: R) -> Returned {
        Returned::Success
    }
}

#[allow(clippy::unused_self)]
impl ValueForm {
    /// The end of the body.
    pub fn returned<T: JobOutput>(self, _: T) -> Returned {
        Returned::Success
    }

    /// The end of the body of a job that keeps its result.
    pub fn kept<R: Returns<Value = ()>>(self, _: R) -> Returned {
        Returned::Value(ReturnValue::of(&()))
    }

    /// The same of a job that keeps its error too.
    pub fn kept_with_error<R: Returns<Value = ()>>(self, value: R) -> Returned {
        self.kept(value)
    }
}
