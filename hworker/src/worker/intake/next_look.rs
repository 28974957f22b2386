//! When the server is looked at again while short jobs come in numbers, and its answer brought all that there was.

use std::time::{Duration, Instant};

/// While there is something to start, or the server is soon to be looked at, what has finished waits at most so long for more to go
/// with it, and as long as others have the core before such a look.
pub(crate) const HOLD: Duration = Duration::from_millis(2);

/// So many short jobs of one call, that left none behind, are numbers: the server is looked at again when as many as half of
/// them have ended, or after `HOLD`, so that it works while others run, and is not asked to wake this worker for each. A call for one job costs as
/// much as one for many; Linux treats network cards alike (NAPI).
pub(crate) const NUMBERS: usize = 32;

/// When the server is looked at again: when so many settlements are there to be sent, of older jobs too, or at this time at the latest.
pub(crate) struct NextLook {
    pub(crate) settlements: usize,
    pub(crate) at: Instant,
}

impl NextLook {
    /// After a call that brought so many short jobs.
    pub(crate) fn after(jobs: usize) -> Self {
        Self { settlements: jobs / 2, at: Instant::now() + HOLD }
    }

    pub(crate) fn is_due(&self, settlements: usize) -> bool {
        settlements >= self.settlements || self.at <= Instant::now()
    }
}
