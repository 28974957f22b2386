//! Why there is no result.

use std::fmt;
use std::time::Duration;

use crate::envelope::JobId;

/// Why there is no result.
#[derive(Debug)]
#[non_exhaustive]
pub enum ResultError<E = ()> {
    /// The job has failed, expired or broken: it does not run again by itself.
    Job(JobFailure<E>),
    /// It was cancelled or deleted; why.
    Cancelled(String),
    /// It has not ended within the time for which was waited.
    NotYet {
        /// The job.
        id: JobId,
        /// How long was waited.
        waited: Duration,
        /// It is older than the time for which results of its type are kept: what was kept of it may be gone.
        may_be_gone: bool,
    },
    /// It is done, and what it returned was too large to be kept: 1 MB at most.
    TooLarge {
        /// How many bytes it has as JSON.
        bytes: u64,
    },
    /// What it returned does not fit the type of this program, which may have another version than the worker.
    Changed {
        /// What does not fit.
        why: String,
        /// The result.
        json: RawResult,
    },
    /// It cannot be had: it could not be written as JSON, or it is encrypted and this program lacks the key, or the server cannot be asked.
    Unavailable(String),
}

/// How a job failed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct JobFailure<E = ()> {
    /// `error`, `panic`, `timeout`, `failure`, `crash`, `deadline`, `killed`, `expired` or `broken`.
    pub kind: String,
    /// The text of the error or panic.
    pub message: String,
    /// The number of the last attempt, from 1; 0 where no worker could read the job.
    pub attempt: u32,
    /// The error itself, where the job type has `keep_error` and it was this one that ended the job.
    pub error: Option<E>,
}

/// A result as JSON, which no log shows.
#[derive(Clone, PartialEq, Eq)]
pub struct RawResult(pub(super) String);

impl RawResult {
    /// The JSON.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for RawResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RawResult")
    }
}

impl<E> fmt::Display for JobFailure<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind, self.message)
    }
}

impl<E> fmt::Display for ResultError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Job(failure) => write!(f, "the job has failed: {failure}"),
            Self::Cancelled(why) => write!(f, "the job was cancelled: {why}"),
            Self::NotYet { id, waited, may_be_gone } => {
                write!(f, "there is no result of job {id} within {waited:?}")?;
                let older = "; it is older than results of its type are kept, so it may have ended and its result be gone";
                f.write_str(if *may_be_gone { older } else { "" })
            }
            Self::TooLarge { bytes } => {
                write!(
                    f,
                    "the job is done, and its result of {bytes} bytes was too large to be kept"
                )
            }
            Self::Changed { why, .. } => {
                write!(f, "the job is done, and its result does not fit its type here: {why}")
            }
            Self::Unavailable(why) => write!(f, "the result cannot be had: {why}"),
        }
    }
}

impl<E: fmt::Debug> std::error::Error for ResultError<E> {}
