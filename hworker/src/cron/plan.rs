//! What is to be done about an entry that is due.

use std::collections::VecDeque;

use crate::calendar::{Calendar, CatchUp, Timing};

/// A run that is due for no longer than this is not missed, in ms.
const ON_TIME: u64 = 60_000;

/// At most so many runs that were missed are made up for.
const MOST: usize = 100;

/// What is to be done.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// When they were due, in ms.
    pub(super) runs: Vec<u64>,
    /// When the first of those was due that are left out.
    pub(super) missed: Option<u64>,
    pub(super) next: Option<u64>,
}

/// Of an entry that was due at `seen`, and had so many runs. All times are in ms. That the last run of a count was the last is for the server to
/// say: one that is skipped does not count.
pub(super) fn plan(timing: &Timing, calendar: &Calendar, seen: u64, fired: u64, now: u64) -> Plan {
    let left = timing.count.map_or(u64::MAX, |count| u64::from(count).saturating_sub(fired));
    let most = match timing.catch_up {
        CatchUp::One => 1,
        CatchUp::Skip | CatchUp::All => MOST,
    };
    let mut runs = last_due(calendar, seen, now, most);
    if timing.catch_up == CatchUp::Skip {
        runs.retain(|due| now.saturating_sub(*due) <= ON_TIME);
    }
    let missed = (runs.front() != Some(&seen)).then_some(seen);
    runs.truncate(usize::try_from(left).unwrap_or(usize::MAX));
    let next = calendar.next_after(now.max(seen)).filter(|_| left > 0);
    Plan { runs: runs.into(), missed, next }
}

/// The last runs that are due by now, at most so many, the first of all at `seen`.
fn last_due(calendar: &Calendar, seen: u64, now: u64, most: usize) -> VecDeque<u64> {
    // It may have ended long ago.
    let now = calendar.last().map_or(now, |last| last.min(now)).max(seen);
    // Those of a time that grows until there are enough: a second's entry may have been due for a month.
    let mut span = ON_TIME;
    loop {
        let from = now.saturating_sub(span).max(seen);
        let mut due = VecDeque::new();
        if from == seen {
            due.push_back(seen);
        }
        let mut at = from;
        while let Some(next) = calendar.next_after(at).filter(|next| *next <= now) {
            if due.len() == most {
                due.pop_front();
            }
            due.push_back(next);
            at = next;
        }
        if due.len() >= most || from == seen {
            return due;
        }
        span = span.saturating_mul(4);
    }
}
