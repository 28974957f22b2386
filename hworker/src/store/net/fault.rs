//! Why a call to the server did not do its work, sorted by what is to be done about it.

use std::fmt;
use std::sync::Arc;

use redis::RedisError;

use super::advice;
use crate::envelope::JobId;
use crate::error::{Cause, Error};

/// A call that failed. Callers that share a call get clones.
#[derive(Debug, Clone)]
pub(crate) struct Fault {
    pub(crate) kind: FaultKind,
    /// Whether the bytes may have reached the server; if so, the call may have been executed.
    pub(crate) sent: bool,
    cause: Arc<dyn std::error::Error + Send + Sync>,
}

/// What a caller can do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FaultKind {
    /// The connection is of no more use: make a new one. Also if the server has become a replica (`READONLY`, and `UNBLOCKED` for a call
    /// that waited), since a new connection may lead to the new master, and if the slot of a queue has moved to another server.
    Connection,
    /// Something takes connections and says nothing: a server that hangs, or none.
    Silent,
    /// The server does not serve now but will: it loads its data, a script keeps it busy, or the slot is on its way to
    /// another server.
    Busy,
    /// The server refuses to write: its memory or its disk is full.
    Full,
    /// The server does not know the script.
    NoScript,
    /// The server refuses for good: wrong password, not allowed, not understood.
    Denied,
    /// The reply is not one that the operation gives.
    Reply,
    /// It was executed, but is not known to be as safe as was asked for.
    NotDurable,
}

impl Fault {
    /// Whether what was asked may still be under way to the server: it was sent, and not answered.
    pub(crate) fn may_be_under_way(&self) -> bool {
        self.sent && self.kind == FaultKind::Connection
    }

    /// Whether the connection ended with it: the server says so of a request that is larger than it takes, if it says anything.
    pub(crate) fn ends_connection(&self) -> bool {
        self.may_be_under_way() || self.cause.to_string().contains("Protocol error")
    }

    pub(crate) fn not_sent(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self { kind: FaultKind::Connection, sent: false, cause: Arc::from(cause.into()) }
    }

    pub(crate) fn outside_runtime() -> Self {
        Self::denied("this has to be awaited inside a tokio runtime")
    }

    /// Something took the connection, and says nothing.
    pub(super) fn silent(why: impl Into<String>) -> Self {
        Self { kind: FaultKind::Silent, sent: false, cause: text(why) }
    }

    pub(super) fn denied(why: impl Into<String>) -> Self {
        Self { kind: FaultKind::Denied, sent: false, cause: text(why) }
    }

    pub(crate) fn no_answer(after: std::time::Duration) -> Self {
        let cause = text(format!("the server did not answer, and was silent for {after:?}"));
        Self { kind: FaultKind::Connection, sent: true, cause }
    }

    /// It was under way when something ended.
    pub(crate) fn unanswered(cause: &str) -> Self {
        Self { kind: FaultKind::Connection, sent: true, cause: text(cause) }
    }

    /// It was executed, but is not known to be as safe as was asked for.
    pub(super) fn not_durable(why: impl Into<String>) -> Self {
        Self { kind: FaultKind::NotDurable, sent: true, cause: text(why) }
    }

    pub(crate) fn reply(operation: &'static str, detail: impl fmt::Display) -> Self {
        let cause = text(format!("the reply to {operation} is not understood: {detail}"));
        Self { kind: FaultKind::Reply, sent: true, cause }
    }

    /// An error of the redis crate, either while connecting (`sent` is false) or from a call.
    pub(crate) fn from_redis(error: RedisError, sent: bool) -> Self {
        let advice = advice::of(&error, !sent);
        let kind = match &advice {
            Some(advice) if advice.for_good => FaultKind::Denied,
            _ => kind(&error),
        };
        // An error that the server itself sent means that it did not execute the call.
        let refused = matches!(
            kind,
            FaultKind::Busy | FaultKind::Full | FaultKind::NoScript | FaultKind::Denied
        );
        let sent = sent && !refused && !is_elsewhere(&error);
        let cause = advice.map_or_else(|| Arc::new(error) as _, |advice| text(advice.text));
        Self { kind, sent, cause }
    }

    /// The public error of an enqueue, for a job that has this id.
    pub(crate) fn into_error_of(self, id: JobId, doing: impl FnOnce(&JobId) -> String) -> Error {
        match self.kind {
            FaultKind::NotDurable => Error::NotDurable { id, source: self.into_cause() },
            _ if self.sent => Error::Uncertain { id, source: self.into_cause() },
            _ => self.into_error(doing(&id)),
        }
    }

    /// Whether the call was certainly not executed and another try may succeed.
    pub(crate) fn is_retryable(&self) -> bool {
        !self.sent && {
            matches!(self.kind, FaultKind::Connection | FaultKind::Silent | FaultKind::Busy)
        }
    }

    /// Names what it is about. Only for faults before anything was sent.
    pub(crate) fn about(self, whom: impl fmt::Display) -> Self {
        Self { sent: false, cause: text(format!("{whom}: {}", self.cause)), ..self }
    }

    /// Names the server in the text, for an error that is shown without a log.
    pub(crate) fn at(self, server: impl fmt::Display) -> Self {
        Self { cause: text(format!("{server}: {}", self.cause)), ..self }
    }

    /// Whether it refused because a key is of another type than it ought to be; then nothing was done.
    pub(crate) fn is_of_another_type(&self) -> bool {
        self.kind == FaultKind::Denied && self.cause.to_string().contains("WRONGTYPE")
    }

    /// Whether a server of a cluster said that it does not serve, for as long as it loads its data, or sees too little of the
    /// others: they may have put another in its place.
    pub(super) fn says_out_of_service(&self) -> bool {
        let error = self.cause.downcast_ref::<RedisError>();
        let says = |error| ["LOADING", "CLUSTERDOWN"].iter().any(|code| has_code(error, code));
        error.is_some_and(says)
    }

    /// Turns it into one that a new connection, to another server, may cure.
    pub(super) fn elsewhere(self) -> Self {
        Self { kind: FaultKind::Connection, ..self }
    }

    /// For a call that certainly changed nothing: no byte of it has left, or it is a read.
    pub(crate) fn certainly_not_done(self) -> Self {
        Self { sent: false, ..self }
    }

    /// Of the faults of two servers, the one that says more: a refusal says more than a server that cannot be reached.
    pub(super) fn after(self, before: Option<Self>) -> Self {
        before.filter(|before| before.kind == FaultKind::Denied).unwrap_or(self)
    }

    /// The public error of a call that was to do `doing`.
    pub(crate) fn into_error(self, doing: impl Into<String>) -> Error {
        let doing = doing.into();
        match self.kind {
            FaultKind::Full | FaultKind::Denied => {
                Error::Refused { doing, source: Cause::new(self.cause) }
            }
            FaultKind::Reply => {
                Error::Protocol { operation: "a call", detail: self.cause.to_string() }
            }
            FaultKind::Connection
            | FaultKind::Silent
            | FaultKind::Busy
            | FaultKind::NoScript
            | FaultKind::NotDurable => Error::Unavailable { doing, source: Cause::new(self.cause) },
        }
    }

    /// The public error of a change that may have been made.
    pub(crate) fn into_error_of_change(self, doing: String) -> Error {
        if self.sent && self.kind != FaultKind::Reply {
            return Error::Unanswered { doing, source: self.into_cause() };
        }
        self.into_error(doing)
    }

    /// For a call that was partly done.
    pub(crate) fn half_done(self) -> Self {
        Self { kind: FaultKind::Connection, sent: true, ..self }
    }

    pub(crate) fn into_cause(self) -> Cause {
        Cause::new(self.cause)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cause.fmt(f)
    }
}

fn text(text: impl Into<String>) -> Arc<dyn std::error::Error + Send + Sync> {
    Arc::from(Box::<dyn std::error::Error + Send + Sync>::from(text.into()))
}

fn kind(error: &RedisError) -> FaultKind {
    let is = |codes: &[&str]| codes.iter().any(|code| has_code(error, code));
    if is(&["NOSCRIPT"]) {
        FaultKind::NoScript
    } else if is(&["LOADING", "BUSY", "MASTERDOWN", "ASK", "TRYAGAIN", "CLUSTERDOWN", "NOREPLICAS"])
        || says(error, "max number of clients")
        // The redis crate keeps no code of what refuses a `SELECT`.
        || (says(error, "is busy running") && error.to_string().contains("switch database"))
    {
        FaultKind::Busy
    } else if is(&["OOM", "MISCONF"]) {
        FaultKind::Full
    } else if is_elsewhere(error)
        // `WAIT` and `WAITAOF` on a replica.
        || says(error, "cannot be used with replica instances")
    {
        FaultKind::Connection
    } else if error.code().is_some() || is_setup(error) {
        FaultKind::Denied
    } else {
        FaultKind::Connection
    }
}

/// Whether the server says that another one is to be asked; then it executed nothing.
fn is_elsewhere(error: &RedisError) -> bool {
    ["READONLY", "MOVED", "UNBLOCKED"].iter().any(|code| has_code(error, code))
}

/// Whether the server said `code`. Redis 6.2 wraps what went wrong inside a script: `ERR Error running script (...):
/// @user_script:5: -OOM command not allowed`.
fn has_code(error: &RedisError, code: &str) -> bool {
    let wrapped = || {
        let detail = error.detail()?;
        let (_, inner) = detail.split_once("@user_script:")?;
        inner.split_whitespace().find(|word| word.strip_prefix('-') == Some(code))
    };
    error.code() == Some(code) || (error.code() == Some("ERR") && wrapped().is_some())
}

/// Whether the server said so without a code for it.
fn says(error: &RedisError, words: &str) -> bool {
    error.code() == Some("ERR") && error.detail().is_some_and(|detail| detail.contains(words))
}

fn is_setup(error: &RedisError) -> bool {
    use redis::ErrorKind::{AuthenticationFailed, InvalidClientConfig, RESP3NotSupported};
    matches!(error.kind(), AuthenticationFailed | InvalidClientConfig | RESP3NotSupported)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(line: &str) -> RedisError {
        let reply = redis::parse_redis_value(format!("-{line}\r\n").as_bytes()).expect("a reply");
        reply.extract_error().expect_err("an error")
    }

    #[test]
    fn a_script_that_a_replica_refuses_is_certainly_not_executed() {
        let plain = "READONLY You can't write against a read only replica.";
        // As Redis 6.2 wraps it.
        let wrapped = "ERR Error running script (call to f_6b1bf486c81ceb7edf3c093f4c48582e38c0e791): @user_script:29: \
                       @user_script: 29: -READONLY You can't write against a read only replica. ";
        for line in [plain, wrapped] {
            let fault = Fault::from_redis(error(line), true);
            assert!(fault.is_retryable() && fault.kind == FaultKind::Connection, "{fault:?}");
        }
    }

    #[test]
    fn what_a_server_says_without_a_code_of_its_own() {
        let kind_of = |line: &str| kind(&error(line));
        for full in
            ["max number of clients reached", "max number of clients + cluster connections reached"]
        {
            assert_eq!(kind_of(&format!("ERR {full}")), FaultKind::Busy);
        }
        let replica = "ERR WAIT cannot be used with replica instances.";
        assert_eq!(kind_of(replica), FaultKind::Connection);
        assert_eq!(kind_of("ERR unknown command"), FaultKind::Denied);
    }
}
