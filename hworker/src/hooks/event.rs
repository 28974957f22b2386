//! What happens to jobs and workers.

use std::fmt;
use std::time::Duration;

use crate::envelope::JobId;

/// What happened to a job or a worker; [`WorkerBuilder::observe`](crate::WorkerBuilder::observe) gets it. The arguments of the job are not in it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Event {
    /// What happened.
    pub kind: EventKind,
    /// When, in milliseconds since 1970 by the server's clock.
    pub at: u64,
    /// The queue of the job; of a worker all that it serves, separated by commas.
    pub queue: String,
    /// The name of the job type; none where it is not known, and of a worker.
    pub job: Option<String>,
    /// The id of the job.
    pub id: Option<JobId>,
    /// The number of the attempt, from 1.
    pub attempt: Option<u32>,
    /// The worker. Of a job that was taken back: the one that died.
    pub worker: Option<String>,
    /// Why, of what did not end well.
    pub message: Option<String>,
    /// How long the body ran, if it had started.
    pub elapsed: Option<Duration>,
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum EventKind {
    /// A body has started.
    Started,
    /// A job is done.
    Done,
    /// An attempt failed, and the job runs again.
    Retried,
    /// A job put itself off, or what shares its limits.
    Snoozed,
    /// A job has failed for good.
    Failed,
    /// Somebody cancelled the job, or another of its key took its place.
    Cancelled,
    /// The job was not started in time.
    Expired,
    /// A job that no worker can run was put aside.
    Broken,
    /// A worker died, and its job was given back.
    Recovered,
    /// The worker takes jobs.
    WorkerStarted,
    /// It takes no more.
    WorkerStopped,
}

impl EventKind {
    /// All, in no order that means anything.
    pub const ALL: [Self; 11] = [
        Self::Started,
        Self::Done,
        Self::Retried,
        Self::Snoozed,
        Self::Failed,
        Self::Cancelled,
        Self::Expired,
        Self::Broken,
        Self::Recovered,
        Self::WorkerStarted,
        Self::WorkerStopped,
    ];

    /// The word for it, as in `worker_started`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Done => "done",
            Self::Retried => "retried",
            Self::Snoozed => "snoozed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Expired => "expired",
            Self::Broken => "broken",
            Self::Recovered => "recovered",
            Self::WorkerStarted => "worker_started",
            Self::WorkerStopped => "worker_stopped",
        }
    }
}

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
