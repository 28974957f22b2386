//! Where a job can be.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use crate::keys::Ended;

/// Where a job is. Each job is in one of these states.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "web", derive(utoipa::ToSchema), schema(rename_all = "lowercase"))]
#[non_exhaustive]
pub enum JobState {
    /// Ready to be taken.
    Waiting,
    /// Waiting for a time: delayed, or with an attempt above 1 for its next attempt.
    Scheduled,
    /// Put aside by a worker that could not run it, for one that can.
    Parked,
    /// Held by a worker.
    Running,
    /// It will not run again by itself.
    Failed,
    /// It was cancelled, and will not run.
    Cancelled,
    /// It was not started in time, and will not run.
    Expired,
    /// It succeeded. Only where such jobs are kept
    /// ([`keep_done`](crate::WorkerBuilder::keep_done)).
    Done,
    /// It could not be decoded, or no worker could run it.
    Broken,
}

impl JobState {
    /// All of them, in the order in which a job goes its way.
    pub const ALL: [Self; 9] = [
        Self::Waiting,
        Self::Scheduled,
        Self::Parked,
        Self::Running,
        Self::Failed,
        Self::Cancelled,
        Self::Expired,
        Self::Done,
        Self::Broken,
    ];

    /// Of a job that is known by its id: `w`aiting, `f`ollowing another, `s`cheduled, `p`arked or `r`unning.
    pub(crate) fn of_standing(stands: char) -> Self {
        match stands {
            's' => Self::Scheduled,
            'p' => Self::Parked,
            'r' => Self::Running,
            _ => Self::Waiting,
        }
    }

    /// Its name, as in `state:failed`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Scheduled => "scheduled",
            Self::Parked => "parked",
            Self::Running => "running",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Expired => "expired",
            Self::Done => "done",
            Self::Broken => "broken",
        }
    }

    /// Whether there are records of such jobs.
    pub(crate) fn ended(self) -> Option<Ended> {
        match self {
            Self::Failed => Some(Ended::Failed),
            Self::Cancelled => Some(Ended::Cancelled),
            Self::Expired => Some(Ended::Expired),
            Self::Done => Some(Ended::Done),
            _ => None,
        }
    }
}

impl From<Ended> for JobState {
    fn from(ended: Ended) -> Self {
        match ended {
            Ended::Failed => Self::Failed,
            Ended::Cancelled => Self::Cancelled,
            Ended::Expired => Self::Expired,
            Ended::Done => Self::Done,
        }
    }
}

impl Serialize for JobState {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.name())
    }
}

impl fmt::Display for JobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The text was no state; the error names them all.
impl FromStr for JobState {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|state| state.name() == text).ok_or_else(|| {
            let all = Self::ALL.map(Self::name).join(", ");
            format!("`{text}` is no state of a job; there are {all}")
        })
    }
}
