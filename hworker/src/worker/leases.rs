//! The leases that this worker believes to hold, and what it lately did with those that it ended.
//!
//! A lease goes from reserved to running to ending. Whoever turns it to ending, the task that runs the body or the
//! supervisor, is the one who settles it; nobody starts or settles it again. Once the server has the settlement the
//! lease is remembered for a while, in case a failover brings it back.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::execute::Job;
use crate::context::Context;
use crate::store::{Lease, Settlement};

/// Settlements that the server has are remembered for so long, at most so many.
const REMEMBERED_FOR: Duration = Duration::from_secs(60);
const REMEMBERED: usize = 100_000;

/// And at most so many bytes of them.
const REMEMBERED_BYTES: usize = 32 * 1024 * 1024;

/// The table of one queue.
#[derive(Debug, Default)]
pub(super) struct Leases {
    table: Mutex<Table>,
    emptied: Notify,
}

#[derive(Debug, Default)]
struct Table {
    held: HashMap<Arc<str>, State>,
    settled: HashMap<Arc<str>, Arc<Settlement>>,
    order: VecDeque<(Instant, Arc<str>)>,
    /// The bytes of `settled`.
    bytes: usize,
}

/// How far a lease is.
#[derive(Debug)]
enum State {
    /// Handed over, its body not started.
    Reserved { since: Instant },
    /// Its body runs.
    Running(Running),
    /// A settlement or release of it was made, and may have been sent.
    Ending,
}

/// A body that runs.
#[derive(Debug, Clone)]
pub(super) struct Running {
    pub(super) job: Arc<Job>,
    pub(super) context: Context,
    pub(super) deadline: Instant,
    /// It runs on a thread of its own and cannot be dropped.
    pub(super) blocking: bool,
}

/// What the server's list of leases means.
#[derive(Debug, Default)]
pub(super) struct Comparison {
    /// Held by the server for us, never seen by us.
    pub(super) unseen: Vec<Lease>,
    /// Settled by us, and brought back by a failover: to be settled again.
    pub(super) revived: Vec<Arc<Settlement>>,
    /// Believed to be held, but gone: the job was given to another.
    pub(super) lost: Vec<Arc<str>>,
}

impl Leases {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A lease was handed over.
    pub(super) fn reserved(&self, lease: &Lease) {
        let state = State::Reserved { since: Instant::now() };
        self.table().held.insert(Arc::clone(&lease.name), state);
    }

    /// The body is about to start. False where the lease is ending or lost: then it must not.
    pub(super) fn start(&self, lease: &Lease, running: Running) -> bool {
        match self.table().held.get_mut(&lease.name) {
            Some(state @ State::Reserved { .. }) => {
                *state = State::Running(running);
                true
            }
            _ => false,
        }
    }

    /// The lease ends. True for the one caller who must see to its settlement.
    pub(super) fn end(&self, lease: &Lease) -> bool {
        match self.table().held.get_mut(&lease.name) {
            Some(state @ (State::Reserved { .. } | State::Running(_))) => {
                *state = State::Ending;
                true
            }
            Some(State::Ending) | None => false,
        }
    }

    /// A lease that was never seen is given back: it must never be started.
    pub(super) fn never_start(&self, lease: &Lease) {
        self.table().held.insert(Arc::clone(&lease.name), State::Ending);
    }

    /// The server has these settlements.
    pub(super) fn settled(&self, batch: &[Arc<Settlement>]) {
        let mut table = self.table();
        let now = Instant::now();
        for settlement in batch {
            let name = &settlement.lease.name;
            table.held.remove(name);
            if table.settled.insert(Arc::clone(name), Arc::clone(settlement)).is_none() {
                table.order.push_back((now, Arc::clone(name)));
                table.bytes += settlement.size();
            }
        }
        while let Some((at, name)) = table.order.front() {
            let fits = table.order.len() <= REMEMBERED && table.bytes <= REMEMBERED_BYTES;
            if fits && at.elapsed() < REMEMBERED_FOR {
                break;
            }
            let name = Arc::clone(name);
            table.order.pop_front();
            if let Some(settlement) = table.settled.remove(&name) {
                table.bytes -= settlement.size();
            }
        }
        if table.held.is_empty() {
            self.emptied.notify_waiters();
        }
    }

    /// How many leases the server should count, give or take what is under way.
    pub(super) fn count(&self) -> usize {
        self.table().held.len()
    }

    /// What is reserved or running: taken before the server is asked, so that what was handed over since is not
    /// taken for lost.
    pub(super) fn believed(&self) -> HashSet<Arc<str>> {
        let table = self.table();
        let alive = table.held.iter().filter(|(_, state)| !matches!(state, State::Ending));
        alive.map(|(name, _)| Arc::clone(name)).collect()
    }

    /// Holds the server's list against `believed` and the table.
    pub(super) fn compare(&self, believed: &HashSet<Arc<str>>, server: Vec<Lease>) -> Comparison {
        let table = self.table();
        let mut comparison = Comparison::default();
        let mut there = HashSet::with_capacity(server.len());
        for lease in server {
            there.insert(Arc::clone(&lease.name));
            if table.held.contains_key(&lease.name) {
                continue;
            }
            match table.settled.get(&lease.name) {
                Some(settlement) => comparison.revived.push(Arc::clone(settlement)),
                None => comparison.unseen.push(lease),
            }
        }
        comparison.lost = believed.difference(&there).cloned().collect();
        comparison
    }

    /// A lease was given to another: whatever ran under it is cancelled, and nothing is settled. Says which job it was.
    pub(super) fn lose(&self, name: &Arc<str>) -> Option<Arc<Job>> {
        let mut table = self.table();
        // An ending lease is gone because it was settled, by us.
        if !matches!(table.held.get(name), Some(State::Reserved { .. } | State::Running(_))) {
            return None;
        }
        let state = table.held.remove(name);
        if table.held.is_empty() {
            self.emptied.notify_waiters();
        }
        drop(table);
        match state {
            Some(State::Running(running)) => {
                running.context.end();
                Some(running.job)
            }
            _ => None,
        }
    }

    /// Loses every lease.
    pub(super) fn lose_all(&self) {
        for name in self.believed() {
            self.lose(&name);
        }
    }

    /// Cancels what runs; each body's task then gives its lease back.
    pub(super) fn cancel_running(&self) {
        for running in self.running() {
            running.context.end();
        }
    }

    /// What runs.
    pub(super) fn running(&self) -> Vec<Running> {
        let table = self.table();
        let running = table.held.values().filter_map(|state| match state {
            State::Running(running) => Some(running.clone()),
            _ => None,
        });
        running.collect()
    }

    /// Leases that were handed over so long ago and did not start.
    pub(super) fn not_started_for(&self, age: Duration) -> Vec<Lease> {
        let table = self.table();
        let stuck = table.held.iter().filter(|(_, state)| match state {
            State::Reserved { since } => since.elapsed() > age,
            _ => false,
        });
        stuck.map(|(name, _)| Lease::parse(name)).collect()
    }

    /// Completes when no lease is held. Cancel safe.
    pub(super) async fn emptied(&self) {
        loop {
            let emptied = self.emptied.notified();
            tokio::pin!(emptied);
            emptied.as_mut().enable();
            if self.count() == 0 {
                return;
            }
            emptied.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::End;

    #[test]
    fn what_is_remembered_stays_within_its_bytes() {
        let leases = Leases::default();
        let settlement = |number: usize| {
            let lease = Lease::parse(&format!("{number}.0"));
            let envelope = vec![b'x'; 1024 * 1024];
            let end = End::Retried { job: "a", delay_ms: 0, envelope };
            Arc::new(Settlement { lease, end })
        };
        for number in 0..100 {
            leases.settled(&[settlement(number)]);
        }
        let table = leases.table();
        let held: usize = table.settled.values().map(|one| one.size()).sum();
        assert_eq!(table.bytes, held);
        assert!(held <= REMEMBERED_BYTES && held > REMEMBERED_BYTES / 2, "{held}");
        assert!(table.settled.contains_key("99.0") && !table.settled.contains_key("0.0"));
    }
}
