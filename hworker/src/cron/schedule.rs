//! A schedule as a program writes it.

use std::fmt;
use std::time::Duration;

use super::template::Template;
use crate::calendar::{CatchUp, Overlap, Timing};
use crate::time::millis;

/// When a job runs again and again, and what it is; `.cron(..)` and `.every(..)` of a job make one, and
/// [`CronControl::upsert`](crate::CronControl::upsert) takes it.
///
/// ```
/// # use std::time::Duration;
/// use hworker::{CatchUp, Overlap};
/// # #[hworker::job] async fn report(customer: u64) { let _ = customer; }
/// let weekdays = report::with(7).cron("0 9 * * MON-FRI").timezone("Europe/Berlin");
/// let often = report::with(7)
///     .every(Duration::from_secs(30))
///     .overlap(Overlap::Skip)
///     .catch_up(CatchUp::One)
///     .splay(Duration::from_secs(10));
/// ```
#[must_use = "nothing runs until an entry is set: `control.cron(\"name\").upsert(..)`"]
pub struct Schedule {
    pub(super) timing: Timing,
    pub(super) template: Template,
}

impl Schedule {
    pub(crate) fn new(timing: Timing, template: Template) -> Self {
        Self { timing, template }
    }

    /// The zone of its times, as `Europe/Berlin`. Without it they are in UTC.
    pub fn timezone(mut self, name: impl Into<String>) -> Self {
        self.timing.timezone = Some(name.into());
        self
    }

    /// What is done about runs that are missed, as while no worker is there.
    pub fn catch_up(mut self, catch_up: CatchUp) -> Self {
        self.timing.catch_up = catch_up;
        self
    }

    /// What is done when a run is due while the one before waits or runs.
    pub fn overlap(mut self, overlap: Overlap) -> Self {
        self.timing.overlap = overlap;
        self
    }

    /// Has its runs be up to so much later than written: always the same time for one entry of one queue, so that not all entries are due
    /// at the full hour.
    pub fn splay(mut self, most: Duration) -> Self {
        self.timing.splay = Some(millis(most));
        self
    }

    /// It does not run before: `"2026-12-01"` or `"2026-12-01T09:00"`, in its zone.
    pub fn start(mut self, time: impl Into<String>) -> Self {
        self.timing.start = Some(time.into());
        self
    }

    /// It does not run after: `"2026-12-31"`, which includes that day, or `"2026-12-31T18:00"`, in its zone.
    pub fn end(mut self, time: impl Into<String>) -> Self {
        self.timing.end = Some(time.into());
        self
    }

    /// It has so many runs in all.
    pub fn count(mut self, runs: u32) -> Self {
        self.timing.count = Some(runs);
        self
    }

    /// Days of the week, in its zone, on which it does not run: `"sat, sun"`. A run that falls on one is left out, and not moved.
    pub fn skip_days(mut self, days: impl Into<String>) -> Self {
        self.timing.skip_days = Some(days.into());
        self
    }
}

impl fmt::Debug for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The arguments stay out of logs.
        f.debug_struct("Schedule").field("timing", &self.timing).finish_non_exhaustive()
    }
}
