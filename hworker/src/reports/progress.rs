//! How far a job is, and the lines of its log: as they are stored and as they are read. `docs/wire-format.md` describes the texts.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// How far a job is, as its body said it last with [`Context::progress`](crate::Context::progress).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "web", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct Progress {
    /// How much is done.
    pub done: u64,
    /// Of how much.
    pub of: u64,
    /// What the body is doing.
    pub note: Option<String>,
    /// When it said so, in milliseconds since 1970 by the clock of its worker.
    pub at: u64,
    /// The attempt that said so.
    pub attempt: u32,
    /// How much was done when this attempt first said how far it is.
    pub first_done: u64,
    /// When that was.
    pub first_at: u64,
}

impl Progress {
    /// How much is done, from 0 to 100; of nothing, 100.
    #[must_use]
    pub fn percent(&self) -> f64 {
        if self.of == 0 {
            return 100.0;
        }
        100.0 * self.done.min(self.of) as f64 / self.of as f64
    }

    /// How much this attempt gets done in a second; `None` before it has got anything done.
    #[must_use]
    pub fn per_second(&self) -> Option<f64> {
        let ms = self.at.checked_sub(self.first_at).filter(|ms| *ms > 0)?;
        let done = self.done.checked_sub(self.first_done).filter(|done| *done > 0)?;
        Some(1_000.0 * done as f64 / ms as f64)
    }

    /// How long the rest takes at that pace, from [`at`](Self::at) on.
    #[must_use]
    pub fn time_left(&self) -> Option<Duration> {
        let rest = self.of.saturating_sub(self.done) as f64;
        Duration::try_from_secs_f64(rest / self.per_second()?).ok()
    }
}

/// A line of the log of a job, which its body wrote with [`Context::log`](crate::Context::log).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "web", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct LogLine {
    /// When it was written, in milliseconds since 1970 by the clock of the worker.
    pub at: u64,
    /// The attempt that wrote it.
    pub attempt: u32,
    /// What it says.
    pub text: String,
}

/// A [`Progress`] as it is stored.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct StoredProgress {
    pub(super) done: u64,
    pub(super) of: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) note: Option<Box<RawValue>>,
    pub(super) at: u64,
    pub(super) attempt: u32,
    pub(super) first_done: u64,
    pub(super) first_at: u64,
}

/// A [`LogLine`] as it is stored.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct StoredLine {
    pub(super) at: u64,
    pub(super) attempt: u32,
    pub(super) text: Box<RawValue>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lr6_the_time_that_is_left_is_known_from_the_pace_of_this_attempt() {
        let progress = |done, at| Progress {
            done,
            of: 100,
            note: None,
            at,
            attempt: 2,
            first_done: 20,
            first_at: 10_000,
        };
        let half = progress(50, 13_000);
        assert_eq!(half.percent().to_string(), "50");
        assert_eq!(half.per_second(), Some(10.0));
        assert_eq!(half.time_left(), Some(Duration::from_secs(5)));
        let begun = progress(20, 10_000);
        assert_eq!((begun.per_second(), begun.time_left()), (None, None));
        assert_eq!(Progress { of: 0, ..begun }.percent().to_string(), "100");
        assert_eq!(Progress { done: 120, ..half }.percent().to_string(), "100");
    }
}
