//! When the server is looked at again while short jobs come in numbers, and its answer brought all that there was.

use std::time::{Duration, Instant};

use super::HOLD;
use super::plan::CALL_JOBS;
use crate::store::{CallTime, SCRIPT_JOBS};

/// So many short jobs of one call, that left none behind, are numbers: the server is looked at again when as many as half of
/// them have ended, or after `HOLD`, so that it works while others run, and is not asked to wake this worker for each. A call for one job costs as
/// much as one for many; Linux treats network cards alike (NAPI).
pub(super) const NUMBERS: usize = 32;

/// Where no call takes less besides its jobs, looks are `HOLD` apart, and each brings as many jobs as have gathered until then. On a server
/// that flushes its file before it answers, whoever enqueues waits for what a call costs, whether it brings one job or hundreds.
const LONG_CALL: Duration = Duration::from_micros(200);

/// When the server is looked at again: when so many settlements are there to be sent, of older jobs too, or at this time at the latest.
pub(super) struct NextLook {
    pub(super) settlements: usize,
    pub(super) at: Instant,
    /// How many jobs are asked for then, at most.
    pub(super) jobs: usize,
}

impl NextLook {
    /// After a call that brought so many short jobs.
    pub(super) fn after(jobs: usize, call: &CallTime) -> Self {
        let at = Instant::now() + HOLD;
        if call.beside_jobs() >= LONG_CALL {
            Self { settlements: usize::MAX, at, jobs: SCRIPT_JOBS }
        } else {
            Self { settlements: jobs / 2, at, jobs: CALL_JOBS }
        }
    }

    pub(super) fn is_due(&self, settlements: usize) -> bool {
        settlements >= self.settlements || self.at <= Instant::now()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_is_looked_at_again_when_half_has_ended_and_later_for_more_where_a_call_is_long() {
        let us = Duration::from_micros;
        let mut call = CallTime::default();
        call.add(us(1_400), 200);
        let look = NextLook::after(64, &call);
        assert!(look.is_due(32), "one call says nothing");
        (0..2 * CallTime::CALLS).for_each(|_| call.add(us(1_400), 200));
        let began = Instant::now();
        let look = NextLook::after(64, &call);
        assert!(!look.is_due(1_000), "however many have ended");
        assert!(began + HOLD <= look.at && look.at <= Instant::now() + HOLD);
        assert_eq!(look.jobs, SCRIPT_JOBS);

        call.add(us(500), 200);
        let look = NextLook::after(64, &call);
        assert!(look.is_due(32), "the server can do better");
        assert!(!look.is_due(31));
        assert_eq!(look.jobs, CALL_JOBS);
    }

    #[test]
    fn a_few_dozen_late_calls_do_not_make_a_server_one_that_flushes() {
        let us = Duration::from_micros;
        let mut call = CallTime::default();
        (0..1_000).for_each(|_| call.add(us(250), 75));
        (0..40).for_each(|_| call.add(us(600), 75));
        assert!(NextLook::after(64, &call).is_due(32));
    }
}
