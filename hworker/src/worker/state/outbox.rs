//! The outbox: settlements stay here until the server has them, however often a connection breaks.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::store::{SCRIPT_BYTES, SCRIPT_JOBS, SCRIPT_MOVES, Settlement};

/// A server ends no connection because of the size of a smaller request: Redis and Valkey allow no limit below 1 MB.
const LARGE: usize = 256 * 1024;

/// The settlements of one queue.
#[derive(Debug, Default)]
pub(crate) struct Outbox(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    /// Oldest first.
    first: VecDeque<Settlement>,
    /// Settlements with bytes of their own that failed, maybe because of one of them. They are sent one by one, then more at once with each
    /// call, so that none of them holds up the others.
    again: VecDeque<Settlement>,
    /// How many of these go together.
    together: usize,
    /// These are next.
    turn: bool,
    wake_at: WakeAt,
}

impl Waiting {
    fn count(&self) -> usize {
        self.first.len() + self.again.len()
    }
}

/// When the fetch loop is woken.
#[derive(Debug, Default)]
pub(crate) enum WakeAt {
    /// When this many wait, or when no job is left to start.
    LastOr(usize),
    /// When this many wait.
    Count(usize),
    /// Never because of settlements: the loop waits for the server.
    #[default]
    Never,
}

impl Outbox {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a settlement. Returns whether to wake the fetch loop; `last`: no job is left to start. The loop is woken once: a caller may
    /// have to wait before it can wake it, and later callers have no reason to.
    pub(crate) fn push(&self, settlement: Settlement, last: bool) -> bool {
        let mut waiting = self.waiting();
        waiting.first.push_back(settlement);
        let wakes = match waiting.wake_at {
            WakeAt::LastOr(count) => last || waiting.count() >= count,
            WakeAt::Count(count) => waiting.count() >= count,
            WakeAt::Never => false,
        };
        if wakes {
            waiting.wake_at = WakeAt::Never;
        }
        wakes
    }

    pub(crate) fn set_wake_at(&self, wake_at: WakeAt) {
        self.waiting().wake_at = wake_at;
    }

    /// Takes as many settlements as one script carries.
    pub(crate) fn take(&self) -> Vec<Settlement> {
        let mut waiting = self.waiting();
        let Waiting { first, again, together, turn, .. } = &mut *waiting;
        let fails_again = !again.is_empty() && (*turn || first.is_empty());
        *turn = !fails_again;
        let (from, most) = if fails_again { (again, *together) } else { (first, SCRIPT_JOBS) };
        if fails_again {
            *together = together.saturating_mul(2);
        }
        let count = fitting(from.iter()).min(most);
        from.drain(..count).collect()
    }

    /// Puts back settlements that the server may not have. One that failed alone goes last.
    pub(crate) fn put_back(&self, batch: Vec<Settlement>) {
        let mut waiting = self.waiting();
        let alone = batch.len() == 1;
        for settlement in batch.into_iter().rev() {
            if !settlement.has_bytes() {
                waiting.first.push_front(settlement);
                continue;
            }
            (waiting.together, waiting.turn) = (1, false);
            if alone {
                waiting.again.push_back(settlement);
            } else {
                waiting.again.push_front(settlement);
            }
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.waiting().count()
    }
}

/// How many of these one script carries, from the first on.
fn fitting<'a>(settlements: impl ExactSizeIterator<Item = &'a Settlement>) -> usize {
    let (all, mut bytes, mut moves) = (settlements.len(), 0, 0);
    let fitting = settlements.take(SCRIPT_JOBS).take_while(|settlement| {
        bytes += settlement.size();
        moves += usize::from(!settlement.is_ack());
        bytes <= SCRIPT_BYTES && moves <= SCRIPT_MOVES
    });
    // One always goes, however large it is.
    fitting.count().max(1).min(all)
}

/// Whether a server may refuse it for its size.
pub(crate) fn is_large(settlement: &Settlement) -> bool {
    settlement.largest() >= LARGE
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{End, Lease};

    fn ack(token: u64) -> Settlement {
        Settlement { lease: Lease::Token(token), end: End::Acked { job: "a" }, event: None }
    }

    #[test]
    fn the_fetch_loop_is_woken_once_when_enough_wait_or_the_last_has_ended() {
        let pushed = |wake_at, last| {
            let outbox = Outbox::default();
            outbox.set_wake_at(wake_at);
            [last, false, last].map(|last| outbox.push(ack(1), last))
        };
        assert_eq!(pushed(WakeAt::LastOr(2), false), [false, true, false]);
        assert_eq!(pushed(WakeAt::LastOr(usize::MAX), true), [true, false, false]);
        assert_eq!(pushed(WakeAt::Count(2), true), [false, true, false]);
        assert_eq!(pushed(WakeAt::Never, true), [false; 3]);

        let outbox = Outbox::default();
        for wake_at in [WakeAt::LastOr(1), WakeAt::Count(1)] {
            outbox.set_wake_at(wake_at);
            assert_eq!([true; 3].map(|last| outbox.push(ack(1), last)), [true, false, false]);
            outbox.take();
        }
    }

    #[test]
    fn a_script_carries_many_acks_and_fewer_of_what_is_moved() {
        let outbox = Outbox::default();
        let put = |end: End, count: u64| {
            for token in 0..count {
                outbox.push(
                    Settlement { lease: Lease::Token(token), end: end.clone(), event: None },
                    false,
                );
            }
        };
        put(End::Acked { job: "a" }, 900);
        put(End::Released { delay_ms: 0, envelope: None }, 600);
        put(End::Acked { job: "a" }, 1100);
        let taken: Vec<_> = std::iter::repeat_with(|| outbox.take().len()).take(5).collect();
        assert_eq!(taken, [1000, 250, 1000, 350, 0]);
    }

    #[test]
    fn what_failed_goes_one_by_one_and_holds_up_no_other() {
        let outbox = Outbox::default();
        let failed = |token| {
            let end = End::Retried { job: "a", delay_ms: 0, envelope: vec![0; 10] };
            Settlement { lease: Lease::Token(token), end, event: None }
        };
        let tokens = |batch: &[Settlement]| -> Vec<_> {
            batch.iter().map(|settlement| settlement.lease.token()).collect()
        };
        for token in 1..=4 {
            outbox.push(failed(token), false);
        }
        outbox.push(ack(5), false);
        let all = outbox.take();
        assert_eq!(tokens(&all), [1, 2, 3, 4, 5]);
        outbox.put_back(all);
        let first = outbox.take();
        assert_eq!(tokens(&first), [5], "what the server can refuse to nobody");
        let alone = outbox.take();
        assert_eq!(tokens(&alone), [1]);
        outbox.put_back(alone);
        outbox.push(ack(6), false);
        outbox.push(ack(7), false);
        assert_eq!(outbox.count(), 6);
        assert_eq!(tokens(&outbox.take()), [6, 7], "in turn with what has not failed");
        let rest: Vec<_> = std::iter::repeat_with(|| tokens(&outbox.take())).take(3).collect();
        assert_eq!(rest, [vec![2], vec![3, 4], vec![1]]);
    }
}
