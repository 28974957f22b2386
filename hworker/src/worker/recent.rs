//! What a lane has settled lately, in little room: a failover may bring it back.

use std::collections::{HashSet, VecDeque};
use std::time::{Duration, Instant};

use super::remembered::{Amount, Remembered};
use crate::store::{End, Lease, Settlement};

/// So few that are settled by several calls, within this time, are forgotten as one: where jobs are settled singly, what has to be
/// known of a call takes twice the room of its job. No more, as the newest are kept in any case.
const TOGETHER: Amount = Amount { settlements: 100, bytes: 64 * 1024 };
const TOGETHER_WITHIN: Duration = Duration::from_secs(1);

/// The settlements that a lane remembers.
#[derive(Debug, Default)]
pub(super) struct Recent {
    /// The oldest first.
    settlements: VecDeque<Kept>,
    /// How many of them are forgotten as one, the oldest first.
    batches: VecDeque<Batch>,
    amount: Amount,
}

/// A settlement. Nearly all are acks, for which a third of its room is enough.
#[derive(Debug)]
enum Kept {
    Ack { token: u64, job: &'static str },
    Other(Box<Settlement>),
}

/// What is forgotten as one, since it is hardly ever asked for.
#[derive(Debug)]
struct Batch {
    first: Instant,
    last: Instant,
    amount: Amount,
}

impl Recent {
    /// The server has these settlements.
    pub(super) fn add(&mut self, settlements: Vec<Settlement>, of_all: &Remembered) {
        let bytes = settlements.iter().map(Settlement::kept).sum();
        let more = Amount { settlements: settlements.len(), bytes };
        of_all.add(&mut self.amount, more);
        self.settlements.extend(settlements.into_iter().map(Kept::of));
        let now = Instant::now();
        match self.batches.back_mut().filter(|newest| newest.has_room_for(more, now)) {
            Some(newest) => {
                newest.last = now;
                newest.amount += more;
            }
            None => self.batches.push_back(Batch { first: now, last: now, amount: more }),
        }
    }

    /// Forgets what was settled so long ago, and more where that is too much. Gives what there is to drop.
    #[must_use = "it is to be dropped where nobody waits"]
    pub(super) fn forget(&mut self, age: Duration, of_all: &Remembered) -> Vec<Settlement> {
        let mut forgotten = Vec::new();
        while let Some(oldest) = self.batches.front() {
            // The newest is kept however large it is.
            let fits = self.batches.len() == 1 || of_all.fits(self.amount);
            if fits && oldest.last.elapsed() < age {
                break;
            }
            let Some(Batch { amount, .. }) = self.batches.pop_front() else { break };
            of_all.remove(&mut self.amount, amount);
            let settlements = self.settlements.drain(..amount.settlements);
            forgotten.extend(settlements.filter_map(Kept::into_droppable));
        }
        give_room_back(&mut self.settlements);
        give_room_back(&mut self.batches);
        forgotten
    }

    /// Takes those out of these leases that were settled lately; gives how, the oldest first.
    pub(super) fn take_settled(&self, leases: &mut HashSet<Lease>) -> Vec<Settlement> {
        let mut settled = Vec::new();
        for kept in self.settlements.iter().rev() {
            if leases.is_empty() {
                break;
            }
            if leases.remove(&kept.lease()) {
                settled.push(kept.settlement());
            }
        }
        settled.reverse();
        settled
    }
}

/// What a busy hour needed is not kept in a quiet one.
fn give_room_back<T>(ring: &mut VecDeque<T>) {
    if ring.len() < ring.capacity() / 4 {
        ring.shrink_to(2 * ring.len());
    }
}

impl Batch {
    fn has_room_for(&self, more: Amount, now: Instant) -> bool {
        now.saturating_duration_since(self.first) < TOGETHER_WITHIN
            && self.amount.settlements + more.settlements <= TOGETHER.settlements
            && self.amount.bytes + more.bytes <= TOGETHER.bytes
    }
}

impl Kept {
    fn of(settlement: Settlement) -> Self {
        match settlement {
            Settlement { lease: Lease::Token(token), end: End::Acked { job } } => {
                Self::Ack { token, job }
            }
            other => Self::Other(Box::new(other)),
        }
    }

    fn lease(&self) -> Lease {
        match self {
            Self::Ack { token, .. } => Lease::Token(*token),
            Self::Other(settlement) => settlement.lease.clone(),
        }
    }

    fn settlement(&self) -> Settlement {
        match self {
            Self::Ack { token, job } => {
                Settlement { lease: Lease::Token(*token), end: End::Acked { job } }
            }
            Self::Other(settlement) => (**settlement).clone(),
        }
    }

    fn into_droppable(self) -> Option<Settlement> {
        match self {
            Self::Ack { .. } => None,
            Self::Other(settlement) => Some(*settlement),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::remembered::BYTES;

    const AGE: Duration = Duration::from_secs(60);

    fn acked(token: u64) -> Settlement {
        Settlement { lease: Lease::Token(token), end: End::Acked { job: "a" } }
    }

    fn retried(token: u64, bytes: usize) -> Settlement {
        let end = End::Retried { job: "a", delay_ms: 0, envelope: vec![b'x'; bytes] };
        Settlement { lease: Lease::Token(token), end }
    }

    fn foreign(name: &str) -> Settlement {
        Settlement { lease: Lease::parse(name), end: End::Acked { job: "a" } }
    }

    #[test]
    fn an_ack_takes_24_bytes_also_where_it_is_settled_alone() {
        // 100,000 are remembered.
        assert!(size_of::<Kept>() <= 24);
        let (mut recent, of_all) = (Recent::default(), Remembered::by(1));
        (0..10 * TOGETHER.settlements as u64).for_each(|n| recent.add(vec![acked(n)], &of_all));
        // Ten, unless the machine is very slow.
        assert!((10..100).contains(&recent.batches.len()), "{}", recent.batches.len());
        assert!(recent.batches.iter().all(|one| one.amount.settlements <= TOGETHER.settlements));
        recent.add(vec![acked(0)], &of_all);
        recent.add(vec![retried(0, TOGETHER.bytes)], &of_all);
        recent.add(vec![acked(0)], &of_all);
        let newest = recent.batches.iter().rev().take(2);
        assert_eq!(newest.map(|one| one.amount.settlements).collect::<Vec<_>>(), [1, 1]);
        recent.batches.iter_mut().for_each(|batch| batch.first -= TOGETHER_WITHIN);
        let before = recent.batches.len();
        recent.add(vec![acked(0)], &of_all);
        assert_eq!(recent.batches.len(), before + 1, "the newest has begun too long ago");
    }

    #[test]
    fn how_a_lease_was_settled_is_known_whatever_its_name_and_end() {
        let (mut recent, of_all) = (Recent::default(), Remembered::by(1));
        recent.add(vec![acked(1), retried(2, 10), foreign("by hand"), acked(3)], &of_all);
        recent.add(vec![acked(4)], &of_all);
        let leases = ["1", "2", "by hand", "4", "5"].map(Lease::parse);
        let mut leases = HashSet::from(leases);
        let settled = recent.take_settled(&mut leases);
        assert_eq!(leases, HashSet::from([Lease::Token(5)]));
        let settled: Vec<_> =
            settled.iter().map(|one| (one.lease.to_string(), one.is_ack())).collect();
        let known = [("1", true), ("2", false), ("by hand", true), ("4", true)];
        assert_eq!(settled, known.map(|(lease, is_ack)| (lease.to_owned(), is_ack)));
    }

    #[test]
    fn what_is_remembered_stays_within_its_bytes() {
        let (mut recent, of_all) = (Recent::default(), Remembered::by(1));
        let mut forgotten = 0;
        for token in 0..100 {
            recent.add(vec![retried(token, 1024 * 1024)], &of_all);
            forgotten += recent.forget(AGE, &of_all).len();
        }
        let kept: Vec<_> = recent.settlements.iter().map(Kept::settlement).collect();
        let held: usize = kept.iter().map(Settlement::size).sum();
        assert_eq!(recent.amount, Amount { settlements: kept.len(), bytes: held });
        assert!(held <= BYTES && held > BYTES / 2, "{held}");
        assert_eq!(kept.last().map(|one| one.lease.clone()), Some(Lease::Token(99)));
        assert_eq!(forgotten + kept.len(), 100);
    }

    #[test]
    fn a_payload_that_stays_at_the_server_takes_no_room_among_what_is_remembered() {
        let (mut recent, of_all) = (Recent::default(), Remembered::by(1));
        recent.add(vec![acked(1)], &of_all);
        let end = End::Broken { reason: "why".into(), bytes: BYTES };
        recent.add(vec![Settlement { lease: Lease::Token(2), end }], &of_all);
        assert!(recent.forget(AGE, &of_all).is_empty());
        assert_eq!(recent.amount.settlements, 2);
    }

    #[test]
    fn what_is_old_is_forgotten_and_its_room_given_back() {
        let (mut recent, of_all) = (Recent::default(), Remembered::by(1));
        recent.add(vec![acked(1), retried(2, 10)], &of_all);
        assert!(recent.forget(AGE, &of_all).is_empty());
        assert_eq!(recent.amount.settlements, 2, "it is not old");
        assert_eq!(recent.forget(Duration::ZERO, &of_all).len(), 1, "an ack has nothing to drop");
        assert_eq!(recent.amount, Amount::default());
        assert_eq!(recent.settlements.capacity() + recent.batches.capacity(), 0);

        for _ in 0..100 {
            recent.add((0..100).map(acked).collect(), &of_all);
        }
        recent.batches.iter_mut().take(99).for_each(|batch| batch.last -= AGE);
        drop(recent.forget(AGE, &of_all));
        assert_eq!(recent.amount.settlements, 100);
        assert!(recent.settlements.capacity() < 1_000, "{}", recent.settlements.capacity());
    }

    #[test]
    fn queues_share_what_is_remembered_and_none_forgets_its_newest() {
        let of_all = Remembered::by(4);
        let (mut busy, mut other) = (Recent::default(), Recent::default());
        let settle = |recent: &mut Recent, bytes: usize| {
            recent.add(vec![retried(1, bytes)], &of_all);
            drop(recent.forget(AGE, &of_all));
            recent.amount.bytes
        };
        let step = BYTES / 16;
        let alone = (0..32).map(|_| settle(&mut busy, step)).max();
        assert!(alone.is_some_and(|most| most > BYTES / 2 && most <= BYTES), "{alone:?}");
        // More than its share.
        assert!(settle(&mut other, BYTES / 3) >= BYTES / 3, "its newest");
        for _ in 0..8 {
            settle(&mut other, step);
        }
        drop(busy.forget(AGE, &of_all));
        let (busy, other) = (busy.amount.bytes, other.amount.bytes);
        assert!(busy + other <= BYTES, "{busy} and {other}");
        assert!(other > BYTES / 4 - 2 * step, "about its share: {other}");
    }
}
