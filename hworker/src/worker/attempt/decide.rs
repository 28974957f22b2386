//! Decides what happens to a job after an attempt, as one pure table.

use std::error::Error as StdError;
use std::fmt::{self, Write};
use std::time::Duration;

use crate::backoff::{self, CallBackoff};
use crate::error::BoxError;
use crate::job::{OnError, OnFault, Policy};
use crate::outcome::{self, Decision, ReturnValue, Returned, Verdict};
use crate::worker::attempt::panic::{self, Panic};

/// How many bytes of an error's text are logged and go into a record.
pub(crate) const MESSAGE_BYTES: usize = 4_000;

/// A job that asks for no time starts no more than a hundred times in a second.
const SLOWEST: Duration = Duration::from_millis(10);

/// How an attempt ended.
#[derive(Debug)]
pub(crate) enum Finish {
    Returned(Returned),
    Panicked(Panic),
    TimedOut(Duration),
    /// The process of the body ended before the body.
    Killed(String),
    /// In the process of the body it was decided what happens to the job.
    Decided(Transition),
}

impl From<Result<Returned, Panic>> for Finish {
    fn from(result: Result<Returned, Panic>) -> Self {
        result.map_or_else(Self::Panicked, Self::Returned)
    }
}

/// What happens to the job.
#[derive(Debug, Clone)]
pub(crate) enum Transition {
    /// It is done; with its result, where that is kept.
    Ack(Option<ReturnValue>),
    /// Runs again after the delay, as the next attempt.
    Retry(Duration, Evidence),
    /// Runs again after the delay, as the same attempt.
    Snooze(Duration),
    /// The same, and what shares its limits waits too.
    SlowDown(Duration),
    Fail(Evidence),
    Cancel(Evidence),
    /// It did not start in time.
    Expire(Evidence),
}

/// Why an attempt did not succeed, for the job's record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Evidence {
    pub(crate) kind: &'static str,
    pub(crate) message: String,
    pub(crate) place: Option<String>,
    pub(crate) backtrace: Option<String>,
    /// The error itself, where it is kept.
    pub(crate) error: Option<Box<ReturnValue>>,
}

impl Evidence {
    pub(crate) fn new(kind: &'static str, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), place: None, backtrace: None, error: None }
    }
}

/// What bounds the attempts of this job: the policy of its type, and its own settings.
#[derive(Debug)]
pub(crate) struct Attempts<'a> {
    pub(crate) policy: &'a Policy,
    pub(crate) number: u32,
    pub(crate) max: u32,
    pub(crate) backoff: Option<&'a CallBackoff>,
    /// How long from now an attempt may still start.
    pub(crate) time_left: Option<Duration>,
}

pub(crate) fn decide(finish: &Finish, attempts: &Attempts<'_>) -> Transition {
    let policy = attempts.policy;
    match finish {
        Finish::Returned(Returned::Success) => Transition::Ack(None),
        Finish::Returned(Returned::Value(value)) => Transition::Ack(Some(value.clone())),
        Finish::Returned(Returned::Failure(message)) => {
            Transition::Fail(Evidence::new("failure", message.as_str()))
        }
        Finish::Returned(Returned::Retry(message)) => {
            attempts.after(OnFault::Retry, Evidence::new("retry", message.as_str()))
        }
        Finish::Returned(Returned::Error(error)) => attempts.after_error(error, None),
        Finish::Returned(Returned::ErrorValue(both)) => {
            let (error, value) = &**both;
            attempts.after_error(error, Some(Box::new(value.clone())))
        }
        Finish::Panicked(panic) => {
            let Panic { message, place, backtrace } = panic.clone();
            let evidence = Evidence { place, backtrace, ..Evidence::new("panic", message) };
            attempts.after(policy.on_panic, evidence)
        }
        Finish::TimedOut(timeout) => {
            let message = format!("ran longer than its timeout of {timeout:?}");
            attempts.after(policy.on_timeout, Evidence::new("timeout", message))
        }
        Finish::Killed(why) => {
            attempts.after(policy.on_panic, Evidence::new("killed", why.as_str()))
        }
        Finish::Decided(transition) => transition.clone(),
    }
}

impl Attempts<'_> {
    /// After an attempt that left no error: its message stands for one.
    pub(crate) fn after(&self, fault: OnFault, evidence: Evidence) -> Transition {
        let error = evidence.message.clone().into();
        self.again(fault, evidence, &error)
    }

    fn after_error(&self, error: &BoxError, value: Option<Box<ReturnValue>>) -> Transition {
        let evidence = Evidence { error: value, ..Evidence::new("error", chain(error)) };
        // If the chain panics there is no verdict, and the evidence says so.
        match panic::catch(|| Verdict::find(error.as_ref())).unwrap_or_default() {
            Some(Decision::Fail) => Transition::Fail(evidence),
            Some(Decision::Snooze(delay)) => Transition::Snooze(delay),
            Some(Decision::SlowDown(delay)) => Transition::SlowDown(delay.max(SLOWEST)),
            Some(Decision::RetryIn(delay)) => self.within_bounds(delay, evidence),
            None => {
                let fault = match self.policy.on_error {
                    OnError::Always(fault) => fault,
                    OnError::Decide(function) => function(error.as_ref()),
                };
                self.again(fault, evidence, error)
            }
        }
    }

    fn again(&self, fault: OnFault, evidence: Evidence, error: &BoxError) -> Transition {
        match fault {
            OnFault::Fail => Transition::Fail(evidence),
            OnFault::Retry => {
                let delay = backoff::delay(&self.policy.backoff, self.backoff, self.number, error);
                self.within_bounds(delay, evidence)
            }
        }
    }

    fn within_bounds(&self, delay: Duration, evidence: Evidence) -> Transition {
        let too_late = self.time_left.is_some_and(|left| delay > left);
        if self.number >= self.max || too_late {
            return Transition::Fail(evidence);
        }
        Transition::Retry(delay, evidence)
    }
}

/// The text of an error and its sources, each once, because many errors repeat the text of their source. Reads no more than a record keeps.
/// A panic is told in the text.
pub(crate) fn chain(error: &BoxError) -> String {
    let mut text = String::new();
    let read = panic::catch(|| {
        for error in outcome::chain(error.as_ref()).filter(|error| !Verdict::is_mark(*error)) {
            add(&mut text, &written(error));
            if text.len() > MESSAGE_BYTES {
                break;
            }
        }
    });
    if let Err(Panic { message, .. }) = read {
        add(&mut text, &format!("its source could not be read, it panicked: {message}"));
    }
    text
}

fn add(text: &mut String, more: &str) {
    if !text.contains(more) {
        let separator = if text.is_empty() { "" } else { ": " };
        text.extend([separator, more]);
    }
}

/// The text of one error, or a note that it could not be written.
fn written(error: &(dyn StdError + 'static)) -> String {
    let mut text = Text::default();
    match panic::catch(|| write!(text, "{error}")) {
        Ok(Err(_)) if !text.is_full() => "its text could not be written".to_owned(),
        Ok(_) => text.0,
        Err(Panic { message, .. }) => {
            format!("its text could not be written, it panicked: {message}")
        }
    }
}

/// A text that stops just above the limit of a record, so that the record shows that something is missing.
#[derive(Default)]
struct Text(String);

impl Text {
    fn is_full(&self) -> bool {
        self.0.len() > MESSAGE_BYTES
    }
}

impl Write for Text {
    fn write_str(&mut self, piece: &str) -> fmt::Result {
        for character in piece.chars() {
            if self.is_full() {
                return Err(fmt::Error);
            }
            self.0.push(character);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Sending(std::io::Error);

    impl std::fmt::Display for Sending {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("sending failed")
        }
    }

    impl std::error::Error for Sending {
        fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
            Some(&self.0)
        }
    }

    #[test]
    fn a_verdict_keeps_the_sources_of_its_error() {
        let sending = || Sending(std::io::Error::other("connection refused"));
        let verdicts: [BoxError; 3] = [
            Box::new(sending()),
            crate::outcome::fail(sending()).into(),
            crate::outcome::fail("x").because(sending()).into(),
        ];
        for error in verdicts {
            assert_eq!(chain(&error), "sending failed: connection refused");
        }
        assert_eq!(chain(&crate::outcome::fail("no").into()), "no");
    }
}
