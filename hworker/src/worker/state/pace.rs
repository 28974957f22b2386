//! The pace: how long bodies run, and so how many jobs to fetch ahead. It goes by time, not by count: short jobs cost no call of their own,
//! and no job waits here while another worker could run it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// As many jobs are fetched ahead as the slots will start within this time.
const AHEAD: Duration = Duration::from_millis(5);

/// How long a job that was fetched ahead may wait before it goes back.
pub(crate) const AHEAD_AT_MOST: Duration = Duration::from_millis(10);

/// How many jobs of a queue, or of a shard, are fetched ahead at most, however short they are. Also the limit for all queues together,
/// unless one thread starts more of them within `AHEAD`.
const AHEAD_JOBS: u64 = 1000;

/// The time that a job takes this worker beside its body. With a body that does nothing it comes to 1.4 us.
const JOB_NS: u64 = 1_000;

/// Bodies that take less are short.
const SHORT_NS: u64 = 100_000;

/// Each body's time enters the mean with a weight of one in this many.
const WEIGHT: u64 = 16;

/// The pace of one queue.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// The moving mean of the bodies' times in ns; 0 before the first.
    mean_ns: AtomicU64,
    /// Jobs that were fetched ahead had to be given back: no more are fetched ahead until a body has ended.
    halted: AtomicBool,
    /// The server has more jobs than were claimed.
    backlog: AtomicBool,
    /// A body seems to block a thread.
    blocked: AtomicBool,
    /// How many jobs are fetched ahead or claimed, as the fetch loop last said.
    ahead: AtomicU64,
}

/// What one consumer sees of all consumers of a session when it fetches ahead.
#[derive(Debug, Default)]
pub(crate) struct Paces {
    all: u64,
    /// How many of them have a backlog.
    busy: u64,
    /// How many jobs the others have fetched ahead.
    ahead: u64,
}

impl Paces {
    pub(crate) fn seen_by<'a>(one: &Pace, all: impl Iterator<Item = &'a Pace>) -> Self {
        let mut consumers = Self::default();
        for pace in all {
            consumers.all += 1;
            consumers.busy += u64::from(pace.has_backlog());
            consumers.ahead += pace.ahead.load(Ordering::Relaxed);
        }
        consumers.ahead -= one.ahead.load(Ordering::Relaxed).min(consumers.ahead);
        consumers
    }
}

impl Pace {
    /// Notes that a body ran for this long.
    pub(crate) fn ran(&self, time: Duration) {
        let time = nanos(time).max(1);
        // Two bodies that end at once may count as one, which changes little.
        let mean = self.mean_ns.load(Ordering::Relaxed);
        let next = if mean == 0 { time } else { mean - mean / WEIGHT + time / WEIGHT };
        self.mean_ns.store(next.max(1), Ordering::Relaxed);
        self.halted.store(false, Ordering::Release);
    }

    /// How many jobs this consumer may fetch ahead. All consumers share the slots; together they may have as many jobs ahead as the slots
    /// will start within `AHEAD`. Each may have an equal part. One with a backlog has what the others leave, but no more than an equal part
    /// among those with a backlog.
    pub(crate) fn ahead(&self, slots: usize, consumers: &Paces) -> usize {
        let (mean, backlog) = (self.mean_ns.load(Ordering::Relaxed), self.has_backlog());
        // Without a mean nothing is known yet.
        if mean == 0 || self.halted.load(Ordering::Acquire) {
            return 0;
        }
        let of_thread = (nanos(AHEAD) / (JOB_NS + mean)).max(AHEAD_JOBS);
        let of_all = ((slots as u64).saturating_mul(nanos(AHEAD)) / mean).min(of_thread);
        let equal_part = of_all / consumers.all.max(1);
        let left = of_all.saturating_sub(consumers.ahead).min(of_all / consumers.busy.max(1));
        let part = if backlog { left.max(equal_part) } else { equal_part };
        part.min(AHEAD_JOBS) as usize
    }

    /// Sets how many jobs wait for a slot, or will when the fetch loop has carried out its plan.
    pub(crate) fn set_ahead(&self, jobs: usize) {
        self.ahead.store(jobs as u64, Ordering::Relaxed);
    }

    /// Whether bodies end sooner than a call to the server.
    pub(crate) fn is_short(&self) -> bool {
        (1..SHORT_NS).contains(&self.mean_ns.load(Ordering::Relaxed))
    }

    /// Notes that jobs that were fetched ahead are given back.
    pub(crate) fn halt(&self) {
        self.halted.store(true, Ordering::Release);
    }

    /// Sets whether the server has more jobs than were claimed.
    pub(crate) fn set_backlog(&self, backlog: bool) {
        self.backlog.store(backlog, Ordering::Release);
    }

    pub(crate) fn has_backlog(&self) -> bool {
        self.backlog.load(Ordering::Acquire)
    }

    /// Sets whether a body seems to block a thread.
    pub(crate) fn set_blocked(&self, blocked: bool) {
        self.blocked.store(blocked, Ordering::Release);
    }

    /// Whether the number of jobs done counts, and not the start of each: bodies are short, none blocks, and there are always more.
    pub(crate) fn drains(&self) -> bool {
        self.is_short() && self.has_backlog() && !self.blocked.load(Ordering::Acquire)
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alone() -> Paces {
        Paces { all: 1, busy: 1, ahead: 0 }
    }

    #[test]
    fn what_is_fetched_ahead_follows_the_time_that_bodies_take() {
        let pace = Pace::default();
        let ahead = |slots: [usize; 3]| slots.map(|slots| pace.ahead(slots, &alone()));
        pace.set_backlog(true);
        assert_eq!(ahead([100; 3]), [0; 3], "nothing is known but that more waits");
        pace.set_backlog(false);
        pace.ran(Duration::from_millis(10));
        assert_eq!(ahead([1, 2, 1_000]), [0, 1, 500]);
        let settled = |us: u64| (0..200).for_each(|_| pace.ran(Duration::from_micros(us)));
        let one_of = |all| pace.ahead(100, &Paces { all, busy: 0, ahead: 0 });
        settled(1);
        assert_eq!([1, 2].map(one_of), [1_000; 2]);
        assert!((400..=420).contains(&one_of(6)), "{}", one_of(6));
        settled(10);
        // A thread would not start more than a thousand of them within the time.
        assert_eq!([1, 2, 6, 96].map(one_of), [1_000, 500, 166, 10]);
        pace.ran(Duration::from_secs(1));
        assert_eq!(ahead([10; 3]), [0; 3], "one that is long is noticed at once");
    }

    #[test]
    fn a_lane_with_a_backlog_has_what_the_others_leave() {
        let paces: Vec<_> = (0..10).map(|_| Pace::default()).collect();
        let ahead = |one: usize| paces[one].ahead(100, &Paces::seen_by(&paces[one], paces.iter()));
        let begins = |one: usize| {
            paces[one].set_backlog(true);
            paces[one].set_ahead(ahead(one));
            ahead(one)
        };
        for pace in &paces {
            pace.ran(Duration::from_millis(1));
        }
        assert_eq!([ahead(0), ahead(1)], [50; 2], "an equal part");
        assert_eq!([begins(0), ahead(0), ahead(1)], [500, 500, 50], "all that may be ahead");
        assert_eq!([begins(1), ahead(0)], [50, 250], "the first has as much still");
        paces[0].set_ahead(250);
        assert_eq!([begins(1), ahead(0)], [250, 250], "of two each has half");
        paces[0].set_backlog(false);
        assert_eq!([ahead(0), ahead(1)], [50, 250], "what was fetched has to be started");
        paces[0].set_ahead(0);
        assert_eq!(ahead(1), 500);

        for pace in &paces {
            pace.set_ahead(50);
        }
        assert_eq!([begins(0), begins(9)], [50; 2], "when all begin at once nobody has more");
    }

    #[test]
    fn nothing_is_fetched_ahead_from_a_halt_until_a_body_has_ended() {
        let pace = Pace::default();
        pace.ran(Duration::from_micros(10));
        pace.halt();
        assert_eq!(pace.ahead(10, &alone()), 0);
        pace.ran(Duration::from_micros(10));
        assert!(pace.ahead(10, &alone()) > 0);
    }
}
