//! What calls to a server take, besides what their jobs take there.

use std::time::Duration;

/// The least that any of the last calls took, from being sent to being answered, besides the time for its jobs. What most of them take
/// says little of the server: on a busy machine they wait for a core.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CallTime {
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
    /// So many that a machine which is slow for a moment does not make a server look slow: with 16 that came about once a second where
    /// all share two cores, and passed late.
    pub(crate) const CALLS: u32 = 64;

    /// The server's for one job, about.
    const JOB: Duration = Duration::from_micros(2);

    pub(crate) fn add(&mut self, took: Duration, jobs: usize) {
        let jobs = Self::JOB.saturating_mul(u32::try_from(jobs).unwrap_or(u32::MAX));
        let [last, _] = &mut self.least;
        *last = took.saturating_sub(jobs).min(*last);
        self.calls += 1;
        if self.calls == Self::CALLS {
            *self = Self { least: [Duration::MAX, *last], calls: 0 };
        }
    }

    /// Zero before there were so many.
    pub(crate) fn beside_jobs(&self) -> Duration {
        let [last, before] = self.least;
        last.min(before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_takes_what_the_quickest_of_the_last_took_besides_its_jobs() {
        let us = Duration::from_micros;
        let mut time = CallTime::default();
        time.add(us(1_400), 200);
        assert_eq!(time.beside_jobs(), us(0), "one says nothing");
        (0..2 * CallTime::CALLS).for_each(|_| time.add(us(1_400), 200));
        assert_eq!(time.beside_jobs(), us(1_000));
        time.add(us(600), 200);
        assert_eq!(time.beside_jobs(), us(200), "the server can do better");
        (0..2 * CallTime::CALLS).for_each(|_| time.add(us(1_400), 200));
        assert_eq!(time.beside_jobs(), us(1_000), "it could once");
    }
}
