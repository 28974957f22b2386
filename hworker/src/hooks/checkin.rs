//! What is told of the runs of a cron entry.

use std::time::Duration;

use crate::envelope::JobId;

/// A run of a cron entry begins or has ended, for a service that raises an alarm where one does not come;
/// [`WorkerBuilder::on_checkin`](crate::WorkerBuilder::on_checkin) gets it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Checkin {
    /// Whether it begins, or how it ended.
    pub state: CheckinState,
    /// The name of the entry.
    pub entry: String,
    /// The queue of the entry.
    pub queue: String,
    /// The id of the run's job: the same when it begins and when it has ended.
    pub id: JobId,
    /// The name of the job type.
    pub job: String,
    /// When it was due, in milliseconds since 1970.
    pub due: u64,
    /// The cron expression of the entry, when the run was due.
    pub cron: Option<String>,
    /// So many milliseconds lie between its runs, where it has no expression.
    pub every_ms: Option<u64>,
    /// The zone of its times; without one they are in UTC.
    pub timezone: Option<String>,
    /// How long its last attempt ran; none when it begins, or where it never did.
    pub elapsed: Option<Duration>,
}

/// What a [`Checkin`] tells of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckinState {
    /// Its first attempt begins.
    Started,
    /// It is done.
    Ok,
    /// It has failed for good, was cancelled, or did not start before it expired. An attempt that is tried again is no end.
    Failed,
}
