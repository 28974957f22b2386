//! When the server is looked at again while short jobs come in numbers, and its answer brought all that there was.

use std::time::{Duration, Instant};

use super::HOLD;

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
        if call.is_long() {
            Self { settlements: usize::MAX, at: now + call.beside_jobs().min(HOLD) }
        } else {
            Self { settlements: jobs / 2, at: now + HOLD }
        }
    }

    pub(super) fn is_due(&self, settlements: usize) -> bool {
        settlements >= self.settlements || self.at <= Instant::now()
    }
}

/// The least that any of the last calls took, from being sent to being answered, besides the time for its jobs. What most of them take
/// says little of the server: on a busy machine they wait for a core.
#[derive(Debug, Clone, Copy)]
pub(super) struct CallTime {
    /// Of the last calls, fewer than `CALLS`, and of the `CALLS` before them.
    least: [Duration; 2],
    calls: u32,
}

impl Default for CallTime {
    fn default() -> Self {
        Self { least: [Duration::MAX, Duration::ZERO], calls: 0 }
    }
}

impl CallTime {
    const CALLS: u32 = 16;

    /// The server's for one job, about.
    const JOB: Duration = Duration::from_micros(2);

    pub(super) fn add(&mut self, took: Duration, jobs: usize) {
        let jobs = Self::JOB.saturating_mul(u32::try_from(jobs).unwrap_or(u32::MAX));
        let [last, _] = &mut self.least;
        *last = took.saturating_sub(jobs).min(*last);
        self.calls += 1;
        if self.calls == Self::CALLS {
            *self = Self { least: [Duration::MAX, *last], calls: 0 };
        }
    }

    fn beside_jobs(&self) -> Duration {
        let [last, before] = self.least;
        last.min(before)
    }

    /// Whether each call costs the server, or the way there, far more than its jobs do, as where it writes to disk before it answers.
    fn is_long(&self) -> bool {
        self.beside_jobs() >= LONG_CALL
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
        assert!(!call.is_long(), "one says nothing");
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
        assert!(!call.is_long(), "the server can do better");
        assert!(NextLook::after(64, &call).is_due(32));
        assert!(!NextLook::after(64, &call).is_due(31));
    }
}
