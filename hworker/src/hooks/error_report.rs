//! What is told of an attempt that failed.

use std::time::Duration;

use crate::envelope::JobId;

/// An attempt that failed, for a service that collects errors; [`WorkerBuilder::report_errors`](crate::WorkerBuilder::report_errors) gets it.
/// The arguments of the job are not in it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ErrorReport {
    /// The id of the job, the same over all its attempts.
    pub id: JobId,
    /// The name of the job type.
    pub job: String,
    /// The queue that it was taken from.
    pub queue: String,
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// How many attempts it has at most.
    pub max_attempts: u32,
    /// The job has failed for good. Else it runs again.
    pub is_last: bool,
    /// As in [`AttemptError::kind`](crate::AttemptError): `error`, `panic`, `timeout`, `retry`, `failure`, `crash` or `deadline`.
    pub kind: &'static str,
    /// The text of the error with its sources, or of the panic; at most about 4,000 bytes.
    pub message: String,
    /// Where it panicked, as `file:line:column`.
    pub place: Option<String>,
    /// The backtrace of a panic, if `RUST_BACKTRACE` enabled them; at most about 8,000 bytes.
    pub backtrace: Option<String>,
    /// The worker that ran the attempt. Of a `crash` that is not the last: the one that died.
    pub worker: String,
    /// The tags of the job.
    pub tags: Vec<String>,
    /// How long the attempt ran, if it had started and that is known.
    pub elapsed: Option<Duration>,
}
