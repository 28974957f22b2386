//! The leases that this worker believes to hold, and what it lately did with those that it ended.
//!
//! A lease goes from reserved to running to ending. Whoever turns it to ending, the task that runs the body or the
//! supervisor, is the one who settles it; nobody starts or settles it again. Once the server has the settlement the
//! lease is remembered for a while, in case a failover brings it back.

use std::collections::HashSet;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::store::{Lease, LeaseMap, Settlement};
use crate::worker::state::job::{Job, Running};
use crate::worker::state::recent::{Recent, Total};

/// Settlements that the server has are remembered for so long.
const REMEMBERED_FOR: Duration = Duration::from_secs(60);

/// The table of one queue.
#[derive(Debug)]
pub(crate) struct Leases {
    table: Mutex<Table>,
    emptied: Notify,
}

#[derive(Debug)]
struct Table {
    held: LeaseMap<State>,
    /// The session whose list of leases was compared last.
    session_number: u64,
    settled: Recent,
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

/// What the server's list of leases means.
#[derive(Debug, Default)]
pub(crate) struct Comparison {
    /// Held by the server for us, never seen by us.
    pub(crate) unseen: Vec<Lease>,
    /// Settled by us, and brought back by a failover: to be settled again.
    pub(crate) revived: Vec<Settlement>,
    /// Believed to be held, but gone: the job was given to another.
    pub(crate) lost: Vec<Lease>,
}

impl Table {
    /// Turns a lease to ending, if it is not; gives what it was.
    fn end(&mut self, lease: &Lease) -> Option<State> {
        match self.held.get_mut(lease)? {
            State::Ending => None,
            state => Some(std::mem::replace(state, State::Ending)),
        }
    }

    fn compare(&self, believed: &HashSet<Lease>, server: Vec<Lease>) -> Comparison {
        let mut comparison = Comparison::default();
        let there: HashSet<_> = server.iter().cloned().collect();
        let mut unknown: HashSet<_> =
            server.into_iter().filter(|lease| !self.held.contains_key(lease)).collect();
        comparison.revived = self.settled.take_settled(&mut unknown);
        comparison.unseen = unknown.into_iter().collect();
        comparison.lost = believed.difference(&there).cloned().collect();
        comparison
    }
}

impl Leases {
    pub(crate) fn new(total: Arc<Total>) -> Self {
        let settled = Recent::new(total);
        let table = Table { held: LeaseMap::default(), session_number: 0, settled };
        Self { table: Mutex::new(table), emptied: Notify::new() }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Jobs were handed over under that session. Leaves out those whose leases were meanwhile taken for lost on their way,
    /// and were given back or are about to be: another may have them by now.
    pub(crate) fn reserved(&self, session_number: u64, jobs: &mut Vec<(Lease, Vec<u8>)>) {
        let since = Instant::now();
        let mut table = self.table();
        if session_number != table.session_number {
            jobs.clear();
        }
        table.held.reserve(jobs.len());
        jobs.retain(|(lease, _)| match table.held.entry(lease.clone()) {
            Entry::Vacant(place) => {
                place.insert(State::Reserved { since });
                true
            }
            Entry::Occupied(_) => false,
        });
    }

    /// The body is about to start. False where the lease is ending or lost: then it must not.
    pub(crate) fn start(&self, running: Running) -> bool {
        match self.table().held.get_mut(&running.job.lease) {
            Some(state @ State::Reserved { .. }) => {
                *state = State::Running(running);
                true
            }
            _ => false,
        }
    }

    /// The lease ends. True for the one caller who must see to its settlement.
    pub(crate) fn end(&self, lease: &Lease) -> bool {
        let ended = self.table().end(lease);
        // What it held is dropped here, outside the lock.
        ended.is_some()
    }

    /// A lease that was never seen is to be given back: it must never be started.
    pub(crate) fn never_start(&self, lease: &Lease) {
        self.table().held.entry(lease.clone()).or_insert(State::Ending);
    }

    /// The server has these settlements.
    pub(crate) fn settled(&self, settlements: Vec<Settlement>) {
        let mut table = self.table();
        for settlement in &settlements {
            table.held.remove(&settlement.lease);
        }
        table.settled.add(settlements);
        let forgotten = table.settled.forget(REMEMBERED_FOR);
        if table.held.is_empty() {
            self.emptied.notify_waiters();
        }
        // What is forgotten is dropped outside the lock.
        drop(table);
        drop(forgotten);
    }

    /// Forgets what was settled too long ago to be asked for, also where nothing more is settled.
    pub(crate) fn forget_old(&self) {
        let forgotten = self.table().settled.forget(REMEMBERED_FOR);
        drop(forgotten);
    }

    /// How many leases are known: as many as the server should count, give or take what is under way.
    pub(crate) fn count(&self) -> usize {
        self.table().held.len()
    }

    /// What is reserved or running: taken before the server is asked, so that what was handed over since is not
    /// taken for lost.
    pub(crate) fn believed(&self) -> HashSet<Lease> {
        let table = self.table();
        let alive = table.held.iter().filter(|(_, state)| !matches!(state, State::Ending));
        alive.map(|(lease, _)| lease.clone()).collect()
    }

    /// Holds the list with which a session begins against `believed` and the table. What an older session still brings was
    /// on that list, and is not taken any more.
    pub(crate) fn begin(
        &self,
        session_number: u64,
        believed: &HashSet<Lease>,
        server: Vec<Lease>,
    ) -> Comparison {
        let mut table = self.table();
        table.session_number = session_number;
        table.compare(believed, server)
    }

    /// Holds the server's list against `believed` and the table.
    pub(crate) fn compare(&self, believed: &HashSet<Lease>, server: Vec<Lease>) -> Comparison {
        self.table().compare(believed, server)
    }

    /// A lease was given to another: whatever ran under it is cancelled, and nothing is settled. Says which job it was.
    pub(crate) fn lose(&self, lease: &Lease) -> Option<Arc<Job>> {
        let mut table = self.table();
        // An ending lease is gone because it was settled, by us.
        if !matches!(table.held.get(lease), Some(State::Reserved { .. } | State::Running(_))) {
            return None;
        }
        let state = table.held.remove(lease);
        if table.held.is_empty() {
            self.emptied.notify_waiters();
        }
        drop(table);
        match state {
            Some(State::Running(running)) => {
                running.context.cancel();
                Some(running.job)
            }
            _ => None,
        }
    }

    /// Loses every lease.
    pub(crate) fn lose_all(&self) {
        for lease in self.believed() {
            self.lose(&lease);
        }
    }

    /// Loses every lease, of what is settled too: the server knows none of them.
    pub(crate) fn abandon(&self) {
        self.lose_all();
        let mut table = self.table();
        table.held.retain(|_, state| !matches!(state, State::Ending));
        if table.held.is_empty() {
            self.emptied.notify_waiters();
        }
    }

    /// Cancels what runs; each body's task then gives its lease back.
    pub(crate) fn cancel_running(&self) {
        for running in self.running() {
            running.context.cancel();
        }
    }

    /// What runs.
    pub(crate) fn running(&self) -> Vec<Running> {
        let table = self.table();
        let running = table.held.values().filter_map(|state| match state {
            State::Running(running) => Some(running.clone()),
            _ => None,
        });
        running.collect()
    }

    /// Leases that were handed over so long ago and did not start.
    pub(crate) fn not_started_for(&self, age: Duration) -> Vec<Lease> {
        let table = self.table();
        let stuck = table.held.iter().filter(|(_, state)| match state {
            State::Reserved { since } => since.elapsed() > age,
            _ => false,
        });
        stuck.map(|(lease, _)| lease.clone()).collect()
    }

    /// Completes when no lease is held. Cancel safe.
    pub(crate) async fn emptied(&self) {
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
    fn what_was_settled_lately_is_settled_again_where_the_server_holds_it_still() {
        let leases = Leases::new(Arc::default());
        let [settled, other] = [1, 2].map(Lease::Token);
        let end = End::Acked { job: "a" };
        leases.settled(vec![Settlement { lease: settled.clone(), end }]);
        // It is not old.
        leases.forget_old();
        let comparison = leases.compare(&HashSet::new(), vec![settled.clone(), other.clone()]);
        let revived: Vec<_> = comparison.revived.into_iter().map(|one| one.lease).collect();
        assert_eq!((revived, comparison.unseen), (vec![settled], vec![other]));
    }
}
