//! The recent settlements of a session: a failover may bring their leases back.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::store::{Lease, Settlement};

/// How long settlements are remembered after the server has them.
const REMEMBERED_FOR: Duration = Duration::from_secs(60);

/// How many settlements one worker remembers at most.
const SETTLEMENTS: usize = 100_000;

/// How many bytes they have at most.
const BYTES: usize = 32 * 1024 * 1024;

/// What all queues of a session remember together.
#[derive(Debug, Default)]
pub(crate) struct Recent(Mutex<Ring>);

#[derive(Debug, Default)]
struct Ring {
    /// Oldest first, each with the time at which the server had it, and the label of its shard.
    settlements: VecDeque<(Instant, Arc<str>, Settlement)>,
    bytes: usize,
}

impl Recent {
    /// Adds settlements of this shard that the server has.
    pub(crate) fn add(&self, label: &Arc<str>, settlements: Vec<Settlement>) {
        let now = Instant::now();
        let mut ring = self.ring();
        ring.bytes += settlements.iter().map(Settlement::kept).sum::<usize>();
        ring.settlements.extend(settlements.into_iter().map(|one| (now, Arc::clone(label), one)));
        ring.forget(now);
    }

    /// Forgets old settlements, even if nothing more is settled.
    pub(crate) fn forget_old(&self) {
        self.ring().forget(Instant::now());
    }

    /// Takes the leases out of `leases` that this shard settled lately, and returns their settlements, oldest first.
    pub(crate) fn take_settled(
        &self,
        label: &Arc<str>,
        leases: &mut HashSet<Lease>,
    ) -> Vec<Settlement> {
        let mut settled = Vec::new();
        for (_, of, settlement) in self.ring().settlements.iter().rev() {
            if leases.is_empty() {
                break;
            }
            if of == label && leases.remove(&settlement.lease) {
                settled.push(settlement.clone());
            }
        }
        settled.reverse();
        settled
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ring {
    /// Forgets old settlements. If the rest is too large, forgets more of it, but not the newest.
    fn forget(&mut self, now: Instant) {
        while let Some((settled_at, _, oldest)) = self.settlements.front() {
            let fits = self.settlements.len() <= SETTLEMENTS && self.bytes <= BYTES;
            let stays = fits || self.settlements.len() == 1;
            if stays && now.saturating_duration_since(*settled_at) < REMEMBERED_FOR {
                break;
            }
            self.bytes -= oldest.kept();
            self.settlements.pop_front();
        }
        // Room that a busy hour needed is not kept in a quiet one.
        if self.settlements.len() < self.settlements.capacity() / 4 {
            self.settlements.shrink_to(2 * self.settlements.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::End;

    fn acked(token: u64) -> Settlement {
        Settlement { lease: Lease::Token(token), end: End::Acked { job: "a" }, event: None }
    }

    fn retried(token: u64, bytes: usize) -> Settlement {
        let end = End::Retried { job: "a", delay_ms: 0, envelope: vec![b'x'; bytes] };
        Settlement { lease: Lease::Token(token), end, event: None }
    }

    #[test]
    fn how_a_lease_was_settled_is_known_whatever_its_name_and_end() {
        let (recent, here, there) = (Recent::default(), Arc::from("here"), Arc::from("there"));
        let by_hand = Settlement { lease: Lease::parse("by hand"), ..acked(0) };
        recent.add(&here, vec![acked(1), retried(2, 10), by_hand, acked(3)]);
        recent.add(&there, vec![acked(5)]);
        recent.add(&here, vec![acked(4)]);
        let mut leases = HashSet::from(["1", "2", "by hand", "4", "5"].map(Lease::parse));
        let settled = recent.take_settled(&here, &mut leases);
        assert_eq!(leases, HashSet::from([Lease::Token(5)]), "it is of another queue");
        let settled: Vec<_> =
            settled.iter().map(|one| (one.lease.to_string(), one.is_ack())).collect();
        let known = [("1", true), ("2", false), ("by hand", true), ("4", true)];
        assert_eq!(settled, known.map(|(lease, is_ack)| (lease.to_owned(), is_ack)));
    }

    #[test]
    fn what_is_remembered_stays_within_its_bounds_and_the_newest_stays() {
        let (recent, label) = (Recent::default(), Arc::from("a"));
        for token in 0..100 {
            recent.add(&label, vec![retried(token, 1024 * 1024)]);
        }
        let held: usize = recent.ring().settlements.iter().map(|(_, _, one)| one.size()).sum();
        assert_eq!(recent.ring().bytes, held);
        assert!(held <= BYTES && held > BYTES / 2, "{held}");
        let count = || recent.ring().settlements.len();
        recent.add(&label, vec![retried(100, 2 * BYTES)]);
        assert_eq!(count(), 1, "however large it is");
        recent.add(&label, (0..2 * SETTLEMENTS as u64).map(acked).collect());
        assert_eq!(count(), SETTLEMENTS);
        // The payload stays at the server.
        let end = End::Broken { reason: "why".into(), bytes: BYTES, kept: None, note: None };
        recent.add(&label, vec![Settlement { lease: Lease::Token(2), end, event: None }]);
        assert_eq!(count(), SETTLEMENTS);
    }

    #[test]
    fn what_is_old_is_forgotten_and_its_room_given_back() {
        let (recent, label) = (Recent::default(), Arc::from("a"));
        recent.add(&label, (0..10_000).map(acked).collect());
        let mut ring = recent.ring();
        let old = |entry: &mut (Instant, _, _)| entry.0 -= REMEMBERED_FOR;
        ring.settlements.iter_mut().take(9_900).for_each(old);
        ring.forget(Instant::now());
        assert_eq!(ring.settlements.len(), 100);
        assert!(ring.settlements.capacity() < 1_000, "{}", ring.settlements.capacity());
        ring.forget(Instant::now() + REMEMBERED_FOR);
        assert_eq!((ring.bytes, ring.settlements.capacity()), (0, 0));
    }
}
