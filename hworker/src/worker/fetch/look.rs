//! When the server is looked at again while short jobs come in numbers, and its answer brought all that there was.

use std::time::{Duration, Instant};

use super::HOLD;
use crate::store::CallTime;

/// So many short jobs of one call, that left none behind, are numbers: the server is looked at again when as many as half of
/// them have ended, or after `HOLD`, so that it works while others run, and is not asked to wake this worker for each. A call for one job costs as
/// much as one for many; Linux treats network cards alike (NAPI).
pub(super) const NUMBERS: usize = 32;

/// Where no call takes less besides its jobs, the next is not made before as long has passed. On a server that flushes its file before it
/// answers, whoever enqueues waits for what a call costs, whether it brings one job or hundreds.
const LONG_CALL: Duration = Duration::from_micros(300);

/// When the server is looked at again: when so many settlements are there to be sent, of older jobs too, or at this time at the latest.
pub(super) struct NextLook {
    pub(super) settlements: usize,
    pub(super) at: Instant,
}

impl NextLook {
    /// After a call that brought so many short jobs.
    pub(super) fn after(jobs: usize, call: &CallTime) -> Self {
        let now = Instant::now();
        if call.beside_jobs() >= LONG_CALL {
            Self { settlements: usize::MAX, at: now + call.beside_jobs().min(HOLD) }
        } else {
            Self { settlements: jobs / 2, at: now + HOLD }
        }
    }

    pub(super) fn is_due(&self, settlements: usize) -> bool {
        settlements >= self.settlements || self.at <= Instant::now()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn us(us: u64) -> Duration {
        Duration::from_micros(us)
    }

    #[test]
    fn the_server_is_looked_at_again_when_half_has_ended_and_later_where_a_call_is_long() {
        let mut call = CallTime::default();
        call.add(us(1_400), 200);
        assert!(call.beside_jobs() < LONG_CALL, "one says nothing");
        (0..32).for_each(|_| call.add(us(1_400), 200));
        assert_eq!(call.beside_jobs(), us(1_000), "two microseconds a job are not the call's");
        let began = Instant::now();
        let look = NextLook::after(64, &call);
        assert!(!look.is_due(64), "as long as the call itself took, all may have ended");
        assert!((us(1_000)..HOLD).contains(&(look.at - began)));

        (0..32).for_each(|_| call.add(Duration::from_secs(1), 1));
        let look = NextLook::after(64, &call);
        assert!(look.at <= Instant::now() + HOLD, "no longer than what has ended waits for others");

        call.add(us(600), 200);
        assert!(call.beside_jobs() < LONG_CALL, "the server can do better");
        assert!(NextLook::after(64, &call).is_due(32));
        assert!(!NextLook::after(64, &call).is_due(31));
    }
}
