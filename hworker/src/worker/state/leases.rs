//! The leases that this worker believes to hold, and the settlements of those that it ended lately.
//!
//! A lease goes from reserved to running to ending. The task of the body or the supervisor turns it to ending. Only that one settles it,
//! and nothing starts or settles it again. A settlement is remembered for a while after the server has it, in case a failover brings the
//! lease back.

use std::collections::HashSet;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::job::{Job, Running};
use super::recent::Recent;
use crate::job::OnCancel;
use crate::store::{Lease, LeaseMap, Settlement};

/// The leases of one queue.
#[derive(Debug)]
pub(crate) struct Leases {
    table: Mutex<Table>,
    emptied: Notify,
    recent: Arc<Recent>,
    /// The label of the shard.
    label: Arc<str>,
}

#[derive(Debug, Default)]
struct Table {
    held: LeaseMap<State>,
    /// Those whose jobs somebody cancelled before their bodies had started.
    cancelled: HashSet<Lease>,
    /// The session number under which the list of leases was last reconciled.
    session_number: u64,
}

/// The state of a lease.
#[derive(Debug)]
enum State {
    /// The job is reserved, its body has not started.
    Reserved { since: Instant },
    /// Its body runs.
    Running(Running),
    /// A settlement or release of it was made, and may have been sent.
    Ending,
}

/// The result of a comparison with the server's list of leases.
#[derive(Debug)]
pub(crate) struct Comparison {
    /// Held by the server for this worker, but never seen here.
    pub(crate) unseen: HashSet<Lease>,
    /// Settled here and brought back by a failover: to be settled again.
    pub(crate) revived: Vec<Settlement>,
    /// Believed to be held, but gone: another worker has the job.
    pub(crate) lost: Vec<Lease>,
}

impl Leases {
    pub(crate) fn new(recent: Arc<Recent>, label: Arc<str>) -> Self {
        Self { table: Mutex::default(), emptied: Notify::new(), recent, label }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes jobs that were reserved under this session number. Leaves out those whose leases were taken for lost meanwhile, and were given
    /// back or will be: another worker may have them by now.
    pub(crate) fn reserved(&self, session_number: u64, jobs: &mut Vec<(Lease, Vec<u8>)>) {
        let since = Instant::now();
        let mut table = self.table();
        if session_number != table.session_number {
            jobs.clear();
        }
        jobs.retain(|(lease, _)| match table.held.entry(lease.clone()) {
            Entry::Vacant(place) => {
                place.insert(State::Reserved { since });
                true
            }
            Entry::Occupied(_) => false,
        });
    }

    /// Somebody cancelled the job: a running body is told, and dropped where its type says so; one that has not started will not.
    pub(crate) fn cancel(&self, lease: &Lease) {
        let mut table = self.table();
        let running = match table.held.get(lease) {
            Some(State::Running(running)) => running.clone(),
            Some(State::Reserved { .. }) => {
                table.cancelled.insert(lease.clone());
                return;
            }
            Some(State::Ending) | None => return,
        };
        drop(table);
        if running.context.is_ordered_to_end() {
            return;
        }
        running.context.order_end();
        if !running.blocking && running.job.definition.policy.on_cancel == OnCancel::Drop {
            running.context.cancel();
        }
    }

    /// Notes that the body is about to start. False if the lease is ending or lost: then the body must not start.
    pub(crate) fn start(&self, running: Running) -> bool {
        let mut table = self.table();
        if !table.cancelled.is_empty() && table.cancelled.remove(&running.job.lease) {
            running.context.order_end();
            return false;
        }
        match table.held.get_mut(&running.job.lease) {
            Some(state @ State::Reserved { .. }) => {
                *state = State::Running(running);
                true
            }
            _ => false,
        }
    }

    /// Turns the lease to ending. True for the one caller that must settle it; false if it is ending already, or unknown.
    pub(crate) fn end(&self, lease: &Lease) -> bool {
        // The guard is a temporary: the state before is dropped outside the lock.
        let before = match self.table().held.get_mut(lease) {
            None | Some(State::Ending) => return false,
            Some(state) => std::mem::replace(state, State::Ending),
        };
        drop(before);
        true
    }

    /// Notes that a lease that was never seen is given back: its job must never start.
    pub(crate) fn never_start(&self, lease: &Lease) {
        self.table().held.entry(lease.clone()).or_insert(State::Ending);
    }

    /// Notes that the server has these settlements.
    pub(crate) fn settled(&self, settlements: Vec<Settlement>) {
        let mut table = self.table();
        for settlement in &settlements {
            table.held.remove(&settlement.lease);
        }
        if !table.cancelled.is_empty() {
            let Table { held, cancelled, .. } = &mut *table;
            cancelled.retain(|lease| held.contains_key(lease));
        }
        // Under the lock, so that no comparison finds a lease in neither of the two.
        self.recent.add(&self.label, settlements);
        self.tell_if_empty(&table);
    }

    /// Forgets old settlements, even if nothing more is settled.
    pub(crate) fn forget_old(&self) {
        self.recent.forget_old();
    }

    /// How many leases are known. The server should count as many, except for those in flight.
    pub(crate) fn count(&self) -> usize {
        self.table().held.len()
    }

    /// The leases that are reserved or running. Taken before the server is asked, so that no lease reserved since then is taken for lost.
    pub(crate) fn believed(&self) -> HashSet<Lease> {
        let table = self.table();
        let alive = table.held.iter().filter(|(_, state)| !matches!(state, State::Ending));
        alive.map(|(lease, _)| lease.clone()).collect()
    }

    /// Compares the list with which a session begins with `believed` and the table. Jobs that an older session still brings were on that
    /// list, and are no longer accepted.
    pub(crate) fn begin(
        &self,
        session_number: u64,
        believed: &HashSet<Lease>,
        server: Vec<Lease>,
    ) -> Comparison {
        self.table().session_number = session_number;
        self.compare(believed, server)
    }

    /// Compares the server's list with `believed` and the table.
    pub(crate) fn compare(&self, believed: &HashSet<Lease>, server: Vec<Lease>) -> Comparison {
        let table = self.table();
        let there: HashSet<_> = server.iter().cloned().collect();
        let mut unseen =
            server.into_iter().filter(|lease| !table.held.contains_key(lease)).collect();
        let revived = self.recent.take_settled(&self.label, &mut unseen);
        let lost = believed.difference(&there).cloned().collect();
        Comparison { unseen, revived, lost }
    }

    /// Loses a lease that was given to another worker: cancels its body and settles nothing. Returns the job if its body ran.
    pub(crate) fn lose(&self, lease: &Lease) -> Option<Arc<Job>> {
        let mut table = self.table();
        // An ending lease is gone because this worker settled it.
        if matches!(table.held.get(lease)?, State::Ending) {
            return None;
        }
        let state = table.held.remove(lease);
        self.tell_if_empty(&table);
        drop(table);
        let Some(State::Running(running)) = state else { return None };
        running.context.cancel();
        Some(running.job)
    }

    pub(crate) fn lose_all(&self) {
        for lease in self.believed() {
            self.lose(&lease);
        }
    }

    /// Loses every lease, also those that are ending: the server knows none of them.
    pub(crate) fn abandon(&self) {
        self.lose_all();
        let mut table = self.table();
        table.held.retain(|_, state| !matches!(state, State::Ending));
        self.tell_if_empty(&table);
    }

    /// Cancels the running bodies; the task of each body then gives its lease back.
    pub(crate) fn cancel_running(&self) {
        for running in self.running() {
            running.context.cancel();
        }
    }

    pub(crate) fn running(&self) -> Vec<Running> {
        let table = self.table();
        let running = table.held.values().filter_map(|state| match state {
            State::Running(running) => Some(running.clone()),
            _ => None,
        });
        running.collect()
    }

    /// The leases that were reserved longer than `age` ago and did not start.
    pub(crate) fn not_started_for(&self, age: Duration) -> Vec<Lease> {
        let table = self.table();
        let is_stuck =
            |state: &State| matches!(state, State::Reserved { since } if since.elapsed() > age);
        let stuck = table.held.iter().filter(|(_, state)| is_stuck(state));
        stuck.map(|(lease, _)| lease.clone()).collect()
    }

    fn tell_if_empty(&self, table: &Table) {
        if table.held.is_empty() {
            self.emptied.notify_waiters();
        }
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
        let leases = Leases::new(Arc::default(), "a".into());
        let [settled, other] = [1, 2].map(Lease::Token);
        let end = End::Acked { job: "a" };
        leases.settled(vec![Settlement { lease: settled.clone(), end, event: None }]);
        // It is not old yet.
        leases.forget_old();
        let comparison = leases.compare(&HashSet::new(), vec![settled.clone(), other.clone()]);
        let revived: Vec<_> = comparison.revived.into_iter().map(|one| one.lease).collect();
        assert_eq!((revived, comparison.unseen), (vec![settled], HashSet::from([other])));
    }
}
