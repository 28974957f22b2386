//! Unique jobs: of those that have one key, one waits or runs. And ids that the caller gives.

mod arguments;
mod receipt;

use std::borrow::Cow;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use arguments::of_arguments;
pub use receipt::{Receipt, Submitted};

use crate::envelope::JobId;
use crate::time::millis;

/// How the jobs of a type are unique, as the attribute writes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Uniqueness {
    /// What their keys are told apart by: the name of the type, or one that several share.
    pub scope: &'static str,
    /// How long a job holds its key.
    pub until: Until,
    /// What becomes of a job whose key another holds.
    pub on_conflict: OnConflict,
    /// How long a job is put off, in ms, each time another comes, and how long at most.
    pub debounce: Option<(u64, Option<u64>)>,
}

/// How long a job holds its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Until {
    /// Until it starts for the first time: another may wait while it runs.
    Start,
    /// Until it has ended, however it does.
    Finish,
    /// For so many milliseconds from its enqueue, whatever becomes of it.
    Period(u64),
}

/// What becomes of a job whose key another holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnConflict {
    /// The other stays as it is, and this one is not enqueued.
    Keep,
    /// This one is refused: [`Error::Conflict`](crate::Error::Conflict).
    Refuse,
    /// This one waits until the other has ended. One job follows at most, with the arguments of the last that came.
    Follow,
    /// This one takes the place of the other while that waits: where it stands, or when it is due. One that runs is kept.
    Replace,
    /// The other is due when this one would be, while it waits. One that runs is kept.
    Reschedule,
    /// This one comes instead of the other while that waits, when this one is due. One that runs is kept.
    ReplaceAndReschedule,
}

impl OnConflict {
    fn word(self) -> &'static str {
        match self {
            Self::Keep => "keep",
            Self::Refuse => "refuse",
            Self::Follow => "follow",
            Self::Replace => "replace",
            Self::Reschedule => "reschedule",
            Self::ReplaceAndReschedule => "replace_and_reschedule",
        }
    }
}

impl Uniqueness {
    /// What a job of this key is told to hold; the key as the server keeps it.
    pub(crate) fn lock(&self, key: &str) -> KeyLock {
        let latest = self.debounce.and_then(|(_, max)| max);
        lock(self.scope, key, self.until, self.on_conflict, latest)
    }
}

fn lock(
    scope: &str,
    key: &str,
    until: Until,
    on_conflict: OnConflict,
    latest: Option<u64>,
) -> KeyLock {
    let (by, lasts) = match until {
        Until::Start => ('s', None),
        Until::Finish => ('f', None),
        Until::Period(ms) => ('p', Some(ms)),
    };
    KeyLock {
        held_by: format!("{by}{scope}:{key}"),
        conflict: Cow::Borrowed(on_conflict.word()),
        lasts,
        latest,
    }
}

/// What a job holds beside its id: a key.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub(crate) struct KeyLock {
    /// What the key holds it by, `s`tart, `f`inish or a `p`eriod, and the key; empty where there is none.
    pub(crate) held_by: String,
    /// What is done if another holds it.
    pub(crate) conflict: Cow<'static, str>,
    /// How long a period lasts, in ms.
    pub(crate) lasts: Option<u64>,
    /// How long one may be put off, in ms.
    pub(crate) latest: Option<u64>,
}

/// How one job is unique, whatever its type says: [`Enqueue::unique`](crate::Enqueue::unique) takes it.
///
/// ```
/// use std::time::Duration;
/// use hworker::{OnConflict, Unique};
/// let once_a_day = Unique::by("customer-7").lasting(Duration::from_secs(86_400));
/// let newest = Unique::by("customer-7").until_start().on_conflict(OnConflict::Replace);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct Unique {
    key: String,
    scope: Option<String>,
    until: Until,
    on_conflict: OnConflict,
}

impl Unique {
    /// By this key, among the jobs of its type on its queue, until it has ended; another job is kept.
    pub fn by(key: impl Into<String>) -> Self {
        Self { key: key.into(), scope: None, until: Until::Finish, on_conflict: OnConflict::Keep }
    }

    /// Among all jobs of the queue that name this scope: `[A-Za-z0-9._:-]{1,100}`.
    pub fn scope(self, name: impl Into<String>) -> Self {
        Self { scope: Some(name.into()), ..self }
    }

    /// Until it starts for the first time.
    pub fn until_start(self) -> Self {
        Self { until: Until::Start, ..self }
    }

    /// For so long from its enqueue, whatever becomes of it.
    pub fn lasting(self, period: Duration) -> Self {
        Self { until: Until::Period(millis(period)), ..self }
    }

    /// What becomes of it if another holds its key.
    pub fn on_conflict(self, on_conflict: OnConflict) -> Self {
        Self { on_conflict, ..self }
    }

    /// What is wrong with it.
    pub(crate) fn check(&self) -> Result<(), String> {
        let is_of_scope = |c: char| c.is_ascii_alphanumeric() || "._:-".contains(c);
        match &self.scope {
            Some(scope) if !(1..=100).contains(&scope.len()) || !scope.chars().all(is_of_scope) => {
                Err("the scope of a unique job has 1 to 100 of `A-Z a-z 0-9 . _ : -`".into())
            }
            _ if self.key.is_empty() => Err("the key of a unique job is empty".into()),
            _ if self.until == Until::Period(0) => {
                Err("the period of a unique job is longer than zero".into())
            }
            _ if self.on_conflict == OnConflict::Follow && self.until != Until::Finish => {
                Err("a job follows another that is unique until it has ended".into())
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    /// What a job of this type is told to hold; the key as the server keeps it.
    pub(crate) fn lock(&self, job: &str, key: &str) -> KeyLock {
        lock(self.scope.as_deref().unwrap_or(job), key, self.until, self.on_conflict, None)
    }
}

/// An id that the caller gives, or what is wrong with it.
pub(crate) fn own_id(id: &str) -> Result<JobId, String> {
    let fits = (1..=200).contains(&id.len()) && !id.contains(|c: char| c.is_control() || c == '#');
    if id.starts_with("cron:") {
        Err("the ids of jobs that begin with `cron:` are those of cron entries; give another"
            .into())
    } else if fits {
        Ok(id.into())
    } else {
        Err("the id of a job has 1 to 200 bytes, no control characters and no `#`".into())
    }
}
