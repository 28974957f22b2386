//! What is to be done about an entry that is due.

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

/// Of an entry that was due at `seen`, and had so many runs. All times are in ms.
pub(super) fn plan(timing: &Timing, calendar: &Calendar, seen: u64, fired: u64, now: u64) -> Plan {
    let left = timing.count.map_or(u64::MAX, |count| u64::from(count).saturating_sub(fired));
    let most = match timing.catch_up {
        CatchUp::Skip | CatchUp::One => 1,
        CatchUp::All => MOST,
    };
    let mut runs = last_due(calendar, seen, now, most);
    let mut missed = (runs.first() != Some(&seen)).then_some(seen);
    if timing.catch_up == CatchUp::Skip {
        let is_on_time = |due: &u64| now.saturating_sub(*due) <= ON_TIME;
        runs.retain(is_on_time);
        if runs.is_empty() {
            missed = Some(seen);
        }
    }
    runs.truncate(usize::try_from(left).unwrap_or(usize::MAX));
    let is_over = left <= runs.len() as u64;
    let next = calendar.next_after(now.max(seen)).filter(|_| !is_over);
    Plan { runs, missed, next }
}

/// The last runs that are due by now, at most so many, the first of all at `seen`.
fn last_due(calendar: &Calendar, seen: u64, now: u64, most: usize) -> Vec<u64> {
    // Those of a time that grows until there are enough: a second's entry may have been due for a month.
    let mut span = ON_TIME;
    loop {
        let from = now.saturating_sub(span).max(seen);
        let mut due = Vec::new();
        if from == seen {
            due.push(seen);
        }
        let mut at = from;
        while let Some(next) = calendar.next_after(at).filter(|next| *next <= now) {
            due.push(next);
            at = next;
        }
        if due.len() >= most || from == seen {
            return due.split_off(due.len().saturating_sub(most));
        }
        span = span.saturating_mul(4);
    }
}
