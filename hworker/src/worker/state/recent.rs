//! The recent settlements of a queue: a failover may bring their leases back.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::store::{Lease, Settlement};

/// How many settlements one worker remembers at most.
const SETTLEMENTS: usize = 100_000;

/// How many bytes they have at most.
const BYTES: usize = 32 * 1024 * 1024;

/// What the queues of a worker remember together. Each keeps an equal share, and more while all of it fits: one busy queue beside idle ones
/// remembers as much as a single queue.
#[derive(Debug, Default)]
pub(crate) struct Total {
    queues: AtomicUsize,
    settlements: AtomicUsize,
    bytes: AtomicUsize,
}

impl Total {
    fn fits(&self, own: &Recent) -> bool {
        let queues = self.queues.load(Ordering::Relaxed).max(1);
        let fits = |own: usize, all: &AtomicUsize, most: usize| {
            own <= most / queues || all.load(Ordering::Relaxed) <= most
        };
        fits(own.settlements.len(), &self.settlements, SETTLEMENTS)
            && fits(own.bytes, &self.bytes, BYTES)
    }
}

/// Oldest first, each with the time at which the server had it.
#[derive(Debug)]
pub(crate) struct Recent {
    settlements: VecDeque<(Instant, Settlement)>,
    bytes: usize,
    total: Arc<Total>,
}

impl Recent {
    pub(crate) fn new(total: Arc<Total>) -> Self {
        total.queues.fetch_add(1, Ordering::Relaxed);
        Self { settlements: VecDeque::new(), bytes: 0, total }
    }

    /// Adds settlements that the server has.
    pub(crate) fn add(&mut self, settlements: Vec<Settlement>) {
        let bytes = settlements.iter().map(Settlement::kept).sum();
        self.bytes += bytes;
        self.total.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.total.settlements.fetch_add(settlements.len(), Ordering::Relaxed);
        let now = Instant::now();
        self.settlements.extend(settlements.into_iter().map(|settlement| (now, settlement)));
    }

    /// Forgets settlements of this age and returns them. If the rest is too large, forgets more of it, but not the newest.
    #[must_use = "it is to be dropped where nobody waits"]
    pub(crate) fn forget(&mut self, age: Duration) -> Vec<Settlement> {
        let mut forgotten = Vec::new();
        while let Some((settled_at, _)) = self.settlements.front() {
            let fits = self.settlements.len() == 1 || self.total.fits(self);
            if fits && settled_at.elapsed() < age {
                break;
            }
            let Some((_, oldest)) = self.settlements.pop_front() else { break };
            self.bytes -= oldest.kept();
            self.total.bytes.fetch_sub(oldest.kept(), Ordering::Relaxed);
            self.total.settlements.fetch_sub(1, Ordering::Relaxed);
            forgotten.push(oldest);
        }
        // Room that a busy hour needed is not kept in a quiet one.
        if self.settlements.len() < self.settlements.capacity() / 4 {
            self.settlements.shrink_to(2 * self.settlements.len());
        }
        forgotten
    }

    /// Takes the leases out of `leases` that were settled lately, and returns their settlements, oldest first.
    pub(crate) fn take_settled(&self, leases: &mut HashSet<Lease>) -> Vec<Settlement> {
        let mut settled = Vec::new();
        for (_, settlement) in self.settlements.iter().rev() {
            if leases.is_empty() {
                break;
            }
            if leases.remove(&settlement.lease) {
                settled.push(settlement.clone());
            }
        }
        settled.reverse();
        settled
    }
}

impl Drop for Recent {
    fn drop(&mut self) {
        // The queue is no longer served.
        self.total.queues.fetch_sub(1, Ordering::Relaxed);
        self.total.settlements.fetch_sub(self.settlements.len(), Ordering::Relaxed);
        self.total.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::End;

    const AGE: Duration = Duration::from_secs(60);

    fn acked(token: u64) -> Settlement {
        Settlement { lease: Lease::Token(token), end: End::Acked { job: "a" } }
    }

    fn retried(token: u64, bytes: usize) -> Settlement {
        let end = End::Retried { job: "a", delay_ms: 0, envelope: vec![b'x'; bytes] };
        Settlement { lease: Lease::Token(token), end }
    }

    fn alone() -> Recent {
        Recent::new(Arc::default())
    }

    #[test]
    fn how_a_lease_was_settled_is_known_whatever_its_name_and_end() {
        let mut recent = alone();
        let by_hand = Settlement { lease: Lease::parse("by hand"), ..acked(0) };
        recent.add(vec![acked(1), retried(2, 10), by_hand, acked(3)]);
        recent.add(vec![acked(4)]);
        let mut leases = HashSet::from(["1", "2", "by hand", "4", "5"].map(Lease::parse));
        let settled = recent.take_settled(&mut leases);
        assert_eq!(leases, HashSet::from([Lease::Token(5)]));
        let settled: Vec<_> =
            settled.iter().map(|one| (one.lease.to_string(), one.is_ack())).collect();
        let known = [("1", true), ("2", false), ("by hand", true), ("4", true)];
        assert_eq!(settled, known.map(|(lease, is_ack)| (lease.to_owned(), is_ack)));
    }

    #[test]
    fn what_is_remembered_stays_within_its_bounds_and_the_newest_stays() {
        let mut recent = alone();
        let mut forgotten = 0;
        for token in 0..100 {
            recent.add(vec![retried(token, 1024 * 1024)]);
            forgotten += recent.forget(AGE).len();
        }
        let held: usize = recent.settlements.iter().map(|(_, one)| one.size()).sum();
        assert_eq!(recent.bytes, held);
        assert!(held <= BYTES && held > BYTES / 2, "{held}");
        assert_eq!(forgotten + recent.settlements.len(), 100);
        recent.add(vec![retried(100, 2 * BYTES)]);
        drop(recent.forget(AGE));
        assert_eq!(recent.settlements.len(), 1, "however large it is");
        recent.add((0..2 * SETTLEMENTS as u64).map(acked).collect());
        drop(recent.forget(AGE));
        assert_eq!(recent.settlements.len(), SETTLEMENTS);
        // The payload stays at the server.
        let end = End::Broken { reason: "why".into(), bytes: BYTES };
        recent.add(vec![Settlement { lease: Lease::Token(2), end }]);
        assert_eq!(recent.forget(AGE).len(), 1);
    }

    #[test]
    fn what_is_old_is_forgotten_and_its_room_given_back() {
        let mut recent = alone();
        recent.add((0..10_000).map(acked).collect());
        assert!(recent.forget(AGE).is_empty());
        recent.settlements.iter_mut().take(9_900).for_each(|(settled_at, _)| *settled_at -= AGE);
        assert_eq!(recent.forget(AGE).len(), 9_900);
        assert!(recent.settlements.capacity() < 1_000, "{}", recent.settlements.capacity());
        assert_eq!(recent.forget(Duration::ZERO).len(), 100);
        assert_eq!((recent.bytes, recent.settlements.capacity()), (0, 0));
        assert_eq!(recent.total.settlements.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn queues_share_what_is_remembered() {
        let total = Arc::<Total>::default();
        let [mut busy, mut other, _idle, _another] =
            [0; 4].map(|_| Recent::new(Arc::clone(&total)));
        let settle = |recent: &mut Recent, jobs: usize| {
            recent.add((0..jobs as u64).map(acked).collect());
            drop(recent.forget(AGE));
            recent.settlements.len()
        };
        assert_eq!(settle(&mut busy, 2 * SETTLEMENTS), SETTLEMENTS, "nobody else needs it");
        assert_eq!(settle(&mut other, SETTLEMENTS), SETTLEMENTS / 4, "its share");
        assert_eq!(settle(&mut busy, 1), SETTLEMENTS - SETTLEMENTS / 4, "what is left");
        drop(other);
        assert_eq!(settle(&mut busy, SETTLEMENTS), SETTLEMENTS, "what another has left");
    }
}
