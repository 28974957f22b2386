//! Settlements on their way to the server: they stay here until it has them, however often a connection breaks.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::store::{SCRIPT_BYTES, SCRIPT_JOBS, SCRIPT_MOVES, Settlement};

/// The settlements of one queue, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    waiting: Mutex<VecDeque<Settlement>>,
    /// How many must be waiting before the loop that sends them is woken, and in the lowest bit whether the last that is
    /// there to be started wakes it too.
    wake_at: AtomicUsize,
}

/// When the loop that sends is woken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WakeAt {
    /// When so many wait, or when nothing more is there to be started.
    LastOr(usize),
    /// When so many wait.
    Count(usize),
    /// Not because of settlements: it waits for the server.
    Never,
}

impl WakeAt {
    fn as_bits(self) -> usize {
        let (count, last) = match self {
            Self::LastOr(count) => (count, true),
            Self::Count(count) => (count, false),
            Self::Never => (usize::MAX, false),
        };
        count.min(usize::MAX >> 1) << 1 | usize::from(last)
    }
}

impl Outbox {
    fn waiting(&self) -> MutexGuard<'_, VecDeque<Settlement>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says whether the loop that sends is to be woken; `last` where nothing more is there to be started. It is woken once: who
    /// wakes it may have to wait for its turn, and those who come after him have no reason to.
    pub(super) fn push(&self, settlement: Settlement, last: bool) -> bool {
        let mut waiting = self.waiting();
        waiting.push_back(settlement);
        let count = waiting.len();
        drop(waiting);
        let wakes = |wake_at: usize| {
            let wakes = count >= wake_at >> 1 || (last && wake_at & 1 == 1);
            wakes.then_some(WakeAt::Never.as_bits())
        };
        self.wake_at.fetch_update(Ordering::AcqRel, Ordering::Acquire, wakes).is_ok()
    }

    /// From now on, until it is woken.
    pub(super) fn set_wake_at(&self, wake_at: WakeAt) {
        self.wake_at.store(wake_at.as_bits(), Ordering::Release);
    }

    /// Takes as many as one script carries.
    pub(super) fn take(&self) -> Vec<Settlement> {
        let mut waiting = self.waiting();
        let count = fitting(waiting.iter());
        // Not collected, which makes room for four where there is one.
        let mut batch = Vec::with_capacity(count);
        batch.extend(waiting.drain(..count));
        batch
    }

    /// Puts back what the server may not have got.
    pub(super) fn put_back(&self, batch: Vec<Settlement>) {
        let mut waiting = self.waiting();
        for settlement in batch.into_iter().rev() {
            waiting.push_front(settlement);
        }
    }

    pub(super) fn count(&self) -> usize {
        self.waiting().len()
    }
}

/// How many of these one script carries, from the first on.
pub(super) fn fitting<'a>(settlements: impl ExactSizeIterator<Item = &'a Settlement>) -> usize {
    let (all, mut bytes, mut moves) = (settlements.len(), 0, 0);
    let fitting = settlements.take(SCRIPT_JOBS).take_while(|settlement| {
        bytes += settlement.size();
        moves += usize::from(!settlement.is_ack());
        bytes <= SCRIPT_BYTES && moves <= SCRIPT_MOVES
    });
    // One always goes, however large it is.
    fitting.count().max(1).min(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{End, Lease};

    #[test]
    fn who_sends_is_woken_by_the_last_only_where_he_waits_for_it() {
        let push_to = |wake_at, last| {
            let outbox = Outbox::default();
            outbox.set_wake_at(wake_at);
            let settlement = || Settlement { lease: Lease::Token(1), end: End::Acked { job: "a" } };
            [outbox.push(settlement(), last), outbox.push(settlement(), false)]
        };
        assert_eq!(push_to(WakeAt::LastOr(2), false), [false, true]);
        assert_eq!(push_to(WakeAt::LastOr(usize::MAX), true), [true, false]);
        assert_eq!(push_to(WakeAt::Count(2), true), [false, true]);
        assert_eq!(push_to(WakeAt::Never, true), [false, false]);
    }

    #[test]
    fn who_sends_is_woken_once_until_he_has_looked() {
        let outbox = Outbox::default();
        let push = || {
            outbox.push(Settlement { lease: Lease::Token(1), end: End::Acked { job: "a" } }, true)
        };
        for wake_at in [WakeAt::LastOr(1), WakeAt::Count(1)] {
            outbox.set_wake_at(wake_at);
            assert_eq!([push(), push(), push()], [true, false, false]);
            outbox.take();
            outbox.set_wake_at(wake_at);
            outbox.take();
        }
    }

    #[test]
    fn one_that_goes_alone_takes_the_room_of_one() {
        let outbox = Outbox::default();
        outbox.push(Settlement { lease: Lease::Token(1), end: End::Acked { job: "a" } }, true);
        assert_eq!(outbox.take().capacity(), 1);
    }

    #[test]
    fn a_script_carries_many_acks_and_fewer_of_what_is_moved() {
        let outbox = Outbox::default();
        let put = |end: End, count: u64| {
            for token in 0..count {
                outbox.push(Settlement { lease: Lease::Token(token), end: end.clone() }, false);
            }
        };
        put(End::Acked { job: "a" }, 900);
        put(End::Released { delay_ms: 0, envelope: None }, 600);
        put(End::Acked { job: "a" }, 1100);
        let taken: Vec<_> = std::iter::repeat_with(|| outbox.take().len()).take(5).collect();
        assert_eq!(taken, [1000, 250, 1000, 350, 0]);
    }
}
