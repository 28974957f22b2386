//! Limits, as the leases tell them: of no limit more jobs are held at once than it allows, more start in a time, or pass another.

use std::collections::{HashMap, HashSet, VecDeque};

use crate::jobs::{AT_A_RATE, Limited, limited};
use crate::ledger::{Ended, Event, Lease};

/// What leases hold, and whose turn it is.
#[derive(Debug, Default)]
pub(crate) struct Limits {
    /// How many leases hold a limit of a queue.
    holds: HashMap<(u8, String), usize>,
    /// What each lease holds.
    of: HashMap<Lease, Vec<String>>,
    /// The job of a key in strict order that has begun, and is not at its end.
    turns: HashMap<(u8, u32), u32>,
    /// The leases of those that start at a rate. One that somebody put into the plain list is leased there too, and does not start.
    rated: HashSet<Lease>,
    /// The tokens of those that start at a rate, of the last second.
    starts: [VecDeque<u64>; 2],
}

/// How many may hold it at once.
fn most(limit: &str) -> Option<usize> {
    let name = limit.split(['=', '~', '@']).next()?;
    match name {
        "sixes" => Some(6),
        "each" => Some(3),
        "key" => Some(2),
        "order" => Some(1),
        _ => None,
    }
}

impl Limits {
    /// A lease of this worker is there, of the list that it names. Says what is wrong.
    pub(crate) fn hold(&mut self, lease: Lease, list: &str, worker: &str) -> Option<String> {
        let mut wrong = None;
        for limit in list.split('+').skip(1) {
            if limit == "rate" {
                self.rated.insert(lease);
            }
            let Some(most) = most(limit) else { continue };
            let own = if limit.ends_with('@') { worker } else { "" };
            let limit = format!("{limit}{own}");
            let held = self.holds.entry((lease.0, limit.clone())).or_default();
            *held += 1;
            if *held > most {
                wrong = Some(format!("{held} leases hold {limit}, the last is {lease:?}"));
            }
            self.of.entry(lease).or_default().push(limit);
        }
        wrong
    }

    /// It is gone.
    pub(crate) fn free(&mut self, lease: Lease) {
        self.rated.remove(&lease);
        for limit in self.of.remove(&lease).unwrap_or_default() {
            let limit = (lease.0, limit);
            if let Some(held) = self.holds.get_mut(&limit) {
                *held -= 1;
                if *held == 0 {
                    self.holds.remove(&limit);
                }
            }
        }
    }

    /// Follows whose turn it is. A job that is put to another place in its list by hand lets others pass: `moved` are these.
    pub(crate) fn turn(
        &mut self,
        events: &[Event],
        moved: impl Iterator<Item = u32>,
    ) -> Vec<String> {
        moved.for_each(|n| self.gives_way(n));
        for event in events {
            if let Event::LeaseEnded { n, lease, how } = event
                && let Some(Limited::InOrder(key)) = limited(*n)
                && !matches!(how, Ended::Retried | Ended::Released | Ended::Recovered)
            {
                self.turns.remove(&(lease.0, key));
            }
        }
        let mut wrong = Vec::new();
        for event in events {
            let Event::Granted { n, lease, .. } = event else { continue };
            let Some(Limited::InOrder(key)) = limited(*n) else { continue };
            if !self.of.contains_key(lease) {
                // From the plain list, where somebody put it who does not know its limits: its worker puts it behind the others.
                continue;
            }
            let turn = *self.turns.entry((lease.0, key)).or_insert(*n);
            if turn != *n {
                wrong.push(format!("job {n} of the key {key} passed job {turn}"));
            }
        }
        wrong
    }

    /// Others of its key may pass it.
    pub(crate) fn gives_way(&mut self, n: u32) {
        if let Some(Limited::InOrder(key)) = limited(n) {
            self.turns.retain(|(_, of), _| *of != key);
        }
    }

    /// Whether a lease is one of a list whose jobs start at a rate.
    pub(crate) fn is_at_a_rate(&self, lease: Lease) -> bool {
        self.rated.contains(&lease)
    }

    /// A job that starts at a rate has a lease; gives how many have had one in less than a second, where that is too many. A token is a
    /// time in us.
    pub(crate) fn starts(&mut self, (queue, token): Lease) -> Option<usize> {
        if !self.is_at_a_rate((queue, token)) {
            return None;
        }
        let starts = self.starts.get_mut(usize::from(queue))?;
        starts.push_back(token);
        while starts.front().is_some_and(|first| first + 998_000 < token) {
            starts.pop_front();
        }
        (starts.len() > AT_A_RATE).then_some(starts.len())
    }
}
