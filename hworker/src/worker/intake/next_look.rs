//! When to look at the server again while many short jobs arrive and its last answer brought all it had.

use std::time::{Duration, Instant};

/// How long a settlement waits at most for others to go with it, while there is a job to start or the server is looked at soon. Before such
/// a look other tasks have the core for as long.
pub(crate) const HOLD: Duration = Duration::from_millis(2);

/// This many short jobs from one call that left none behind mean that more will come. The server is looked at again when half of them have
/// ended, or after `HOLD`. So it works while others run, and is not asked to wake this worker for each job. A call for one job costs as
/// much as one for many; Linux treats network cards alike (NAPI).
pub(crate) const NUMBERS: usize = 32;

/// When to look at the server again: when this many settlements wait, also those of older jobs, or at this time at the latest.
pub(crate) struct NextLook {
    pub(crate) settlements: usize,
    pub(crate) at: Instant,
}

impl NextLook {
    /// After a call that brought this many short jobs.
    pub(crate) fn after(jobs: usize) -> Self {
        Self { settlements: jobs / 2, at: Instant::now() + HOLD }
    }

    pub(crate) fn is_due(&self, settlements: usize) -> bool {
        settlements >= self.settlements || self.at <= Instant::now()
    }
}
