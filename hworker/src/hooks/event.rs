//! What happens to jobs and workers.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Serialize, Serializer};

use crate::envelope::JobId;
use crate::time::millis;

/// What happened to a job or a worker; [`WorkerBuilder::observe`](crate::WorkerBuilder::observe) gets it, and [`EventReader`](crate::EventReader) reads it
/// in another process. The arguments of the job are not in it.
///
/// As JSON what is none is left out, and how long the body ran is `elapsed_ms`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Event {
    /// What happened.
    pub kind: EventKind,
    /// When, in milliseconds since 1970 by the server's clock.
    pub at: u64,
    /// The queue of the job; of a worker all that it serves, separated by commas.
    pub queue: String,
    /// The name of the job type; none where it is not known, and of a worker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// The id of the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<JobId>,
    /// The number of the attempt, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// The worker. Of a job that was taken back: the one that died.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// Why, of what did not end well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// How long the body ran, if it had started.
    #[serde(
        rename = "elapsed_ms",
        serialize_with = "in_ms",
        skip_serializing_if = "Option::is_none"
    )]
    pub elapsed: Option<Duration>,
    /// It was written with others of which one did not count any more, as its worker had lost the job, and it may be that one. Never so of what is
    /// observed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unsure: bool,
}

#[allow(clippy::ref_option, reason = "serde passes it so")]
fn in_ms<S: Serializer>(elapsed: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    elapsed.map(millis).serialize(serializer)
}

impl Serialize for EventKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum EventKind {
    /// A job was enqueued by a program that tells it.
    Enqueued,
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
    /// A reader was too late: more came than is kept, and what came before the next event is gone.
    Missed,
}

impl EventKind {
    /// All, in no order that means anything.
    pub const ALL: [Self; 13] = [
        Self::Enqueued,
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
        Self::Missed,
    ];

    /// The word for it, as in `worker_started`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Enqueued => "enqueued",
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
            Self::Missed => "missed",
        }
    }
}

/// From the word for it; an error says which there are.
impl FromStr for EventKind {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|kind| kind.name() == word).ok_or_else(|| {
            let all = Self::ALL.map(Self::name).join(", ");
            format!("`{word}` is no kind of event; there are {all}")
        })
    }
}

/// Which events are written to the server, where other processes [read](crate::Client::events) them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Events {
    /// None.
    #[default]
    Off,
    /// How attempts and jobs end.
    Ends,
    /// These, and what is enqueued and started.
    All,
}

impl FromStr for Events {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        match word {
            "off" => Ok(Self::Off),
            "ends" => Ok(Self::Ends),
            "all" => Ok(Self::All),
            _ => Err(format!("`{word}` is none of `off`, `ends`, `all`")),
        }
    }
}

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
