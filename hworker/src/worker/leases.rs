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

use super::admit::Job;
use super::handed::{Handed, Inbox, Phase};
use super::recent::{Recent, Total};
use crate::context::Context;
use crate::store::{End, Lease, LeaseMap, Settlement};

/// Settlements that the server has are remembered for so long.
const REMEMBERED_FOR: Duration = Duration::from_secs(60);

/// The table of one queue.
#[derive(Debug)]
pub(super) struct Leases {
    table: Mutex<Table>,
    emptied: Notify,
}

#[derive(Debug)]
struct Table {
    held: LeaseMap<State>,
    /// What the server handed over, and is under no lease that is known.
    inbox: Inbox,
    /// The session whose list of leases was compared last.
    session: u64,
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

/// A body that runs.
#[derive(Debug, Clone)]
pub(super) struct Running {
    pub(super) job: Arc<Job>,
    pub(super) context: Context,
    /// It runs on a thread of its own and cannot be dropped.
    pub(super) blocking: bool,
}

/// What the server's list of leases means.
#[derive(Debug, Default)]
pub(super) struct Comparison {
    /// Held by the server for us, never seen by us.
    pub(super) unseen: Vec<Lease>,
    /// Settled by us, and brought back by a failover: to be settled again.
    pub(super) revived: Vec<Settlement>,
    /// Believed to be held, but gone: the job was given to another.
    pub(super) lost: Vec<Lease>,
    /// The job whose body had started from the inbox when the session began, and is under no lease that is known.
    pub(super) lacking: Option<u64>,
}

impl Table {
    fn count(&self) -> usize {
        self.held.len() + usize::from(!self.inbox.is_empty())
    }

    /// Turns a lease to ending, if it is not; gives what it was.
    fn end(&mut self, lease: &Lease) -> Option<State> {
        match self.held.get_mut(lease)? {
            State::Ending => None,
            state => Some(std::mem::replace(state, State::Ending)),
        }
    }

    /// The job that was handed over is among these, under its lease: it is in the table from now on, and no longer among them, if its
    /// body has started. Gives its settlement if that has ended. One whose body has not started is like the others.
    fn bind(&mut self, jobs: &mut Vec<(Lease, Vec<u8>)>) -> Option<Settlement> {
        let at = self.inbox.find(jobs)?;
        let Handed { phase, .. } = self.inbox.take()?;
        if matches!(phase, Phase::Waiting) {
            return None;
        }
        let (lease, _) = jobs.remove(at);
        let (state, settlement) = match phase {
            Phase::Running(running) => {
                running.job.hold.bind(&lease);
                (State::Running(running), None)
            }
            Phase::Ending { job, end } => {
                job.hold.bind(&lease);
                let settlement = end.map(|end| Settlement { lease: lease.clone(), end });
                (State::Ending, settlement)
            }
            Phase::Waiting => return None,
        };
        self.held.insert(lease, state);
        settlement
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
    pub(super) fn new(total: Arc<Total>) -> Self {
        let settled = Recent::new(total);
        let table = Table { held: LeaseMap::default(), inbox: Inbox::default(), session: 0, settled };
        Self { table: Mutex::new(table), emptied: Notify::new() }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Jobs were handed over under that session. Leaves out those whose leases were meanwhile taken for lost on their way,
    /// and were given back or are about to be: another may have them by now. Leaves out the one, too, whose body has started
    /// already, and gives its settlement if it has ended.
    pub(super) fn reserved(
        &self,
        session: u64,
        jobs: &mut Vec<(Lease, Vec<u8>)>,
    ) -> Option<Settlement> {
        let since = Instant::now();
        let mut table = self.table();
        if session != table.session {
            jobs.clear();
        }
        let settlement = table.bind(jobs);
        // It was found before this came, and may have been settled since.
        let inbox = &table.inbox;
        jobs.retain(|(lease, _)| !inbox.is_found(lease));
        table.held.reserve(jobs.len());
        jobs.retain(|(lease, _)| match table.held.entry(lease.clone()) {
            Entry::Vacant(place) => {
                place.insert(State::Reserved { since });
                true
            }
            Entry::Occupied(_) => false,
        });
        settlement
    }

    /// The body is about to start. False where the lease is ending or lost: then it must not.
    pub(super) fn start(&self, running: Running) -> bool {
        let lease = running.job.hold.lease().cloned();
        let mut table = self.table();
        match lease {
            Some(lease) => match table.held.get_mut(&lease) {
                Some(state @ State::Reserved { .. }) => {
                    *state = State::Running(running);
                    true
                }
                _ => false,
            },
            None => table.inbox.start(running),
        }
    }

    /// An attempt ends. True for the one caller who must see to its settlement.
    pub(super) fn end_attempt(&self, job: &Job) -> bool {
        let mut table = self.table();
        let (under_lease, in_inbox) = match job.hold.lease() {
            Some(lease) => (table.end(lease), None),
            None => (None, table.inbox.end(job)),
        };
        drop(table);
        // What it held is dropped here, outside the lock.
        under_lease.is_some() || in_inbox.is_some()
    }

    /// The settlement of an attempt that has ended: `None` while its lease is not known, and with it the settlement comes then.
    pub(super) fn settlement(&self, job: &Job, end: End) -> Option<Settlement> {
        if let Some(lease) = job.hold.lease() {
            return Some(Settlement { lease: lease.clone(), end });
        }
        // It may have become known since the look, and does not from here on.
        let mut table = self.table();
        let Some(lease) = job.hold.lease() else {
            table.inbox.ended(job, end);
            return None;
        };
        Some(Settlement { lease: lease.clone(), end })
    }

    /// The lease ends. True for the one caller who must see to its settlement.
    pub(super) fn end(&self, lease: &Lease) -> bool {
        let ended = self.table().end(lease);
        // What it held is dropped here, outside the lock.
        ended.is_some()
    }

    /// A lease that was never seen is to be given back: it must never be started. False where it was found to be that of a body
    /// meanwhile.
    pub(super) fn never_start(&self, lease: &Lease) -> bool {
        match self.table().held.entry(lease.clone()) {
            Entry::Vacant(place) => {
                place.insert(State::Ending);
                true
            }
            Entry::Occupied(_) => false,
        }
    }

    /// The server has these settlements.
    pub(super) fn settled(&self, settlements: Vec<Settlement>) {
        let mut table = self.table();
        for settlement in &settlements {
            table.held.remove(&settlement.lease);
        }
        table.settled.add(settlements);
        let forgotten = table.settled.forget(REMEMBERED_FOR);
        if table.count() == 0 {
            self.emptied.notify_waiters();
        }
        // What is forgotten is dropped outside the lock.
        drop(table);
        drop(forgotten);
    }

    /// Forgets what was settled too long ago to be asked for, also where nothing more is settled.
    pub(super) fn forget_old(&self) {
        let forgotten = self.table().settled.forget(REMEMBERED_FOR);
        drop(forgotten);
    }

    /// How many leases are known: as many as the server should count, give or take what is under way.
    pub(super) fn known(&self) -> usize {
        self.table().held.len()
    }

    /// How many jobs are held: the same, and what was handed over and is under no lease that is known.
    pub(super) fn count(&self) -> usize {
        self.table().count()
    }

    /// What is reserved or running: taken before the server is asked, so that what was handed over since is not
    /// taken for lost.
    pub(super) fn believed(&self) -> HashSet<Lease> {
        let table = self.table();
        let alive = table.held.iter().filter(|(_, state)| !matches!(state, State::Ending));
        alive.map(|(lease, _)| lease.clone()).collect()
    }

    /// Holds the list with which a session begins against `believed` and the table. What an older session still brings was
    /// on that list, and is not taken any more.
    pub(super) fn begin(
        &self,
        session: u64,
        believed: &HashSet<Lease>,
        server: Vec<Lease>,
    ) -> Comparison {
        let mut table = self.table();
        table.session = session;
        table.inbox.begin();
        if table.count() == 0 {
            self.emptied.notify_waiters();
        }
        let lacking = table.inbox.lacking();
        Comparison { lacking, ..table.compare(believed, server) }
    }

    /// Holds the server's list against `believed` and the table.
    pub(super) fn compare(&self, believed: &HashSet<Lease>, server: Vec<Lease>) -> Comparison {
        self.table().compare(believed, server)
    }

    /// A lease was given to another: whatever ran under it is cancelled, and nothing is settled. Says which job it was.
    pub(super) fn lose(&self, lease: &Lease) -> Option<Arc<Job>> {
        let mut table = self.table();
        // An ending lease is gone because it was settled, by us.
        if !matches!(table.held.get(lease), Some(State::Reserved { .. } | State::Running(_))) {
            return None;
        }
        let state = table.held.remove(lease);
        if table.count() == 0 {
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
    pub(super) fn lose_all(&self) {
        for lease in self.believed() {
            self.lose(&lease);
        }
        if let Some(number) = self.handed_number() {
            self.lose_handed(number);
        }
    }

    /// Loses every lease, of what is settled too: the server knows none of them.
    pub(super) fn abandon(&self) {
        self.lose_all();
        let mut table = self.table();
        table.held.retain(|_, state| !matches!(state, State::Ending));
        if table.count() == 0 {
            self.emptied.notify_waiters();
        }
    }

    /// Cancels what runs; each body's task then gives its lease back.
    pub(super) fn cancel_running(&self) {
        for running in self.running() {
            running.context.cancel();
        }
    }

    /// What runs.
    pub(super) fn running(&self) -> Vec<Running> {
        let table = self.table();
        let running = table.held.values().filter_map(|state| match state {
            State::Running(running) => Some(running.clone()),
            _ => None,
        });
        running.chain(table.inbox.running().cloned()).collect()
    }

    /// Leases that were handed over so long ago and did not start.
    pub(super) fn not_started_for(&self, age: Duration) -> Vec<Lease> {
        let table = self.table();
        let stuck = table.held.iter().filter(|(_, state)| match state {
            State::Reserved { since } => since.elapsed() > age,
            _ => false,
        });
        stuck.map(|(lease, _)| lease.clone()).collect()
    }

    /// Whether nothing is under way that may take the inbox, so that what a wait brings, which is sent now, is this worker's until
    /// the next call that takes it; which state that is.
    pub(super) fn calm(&self) -> Option<u64> {
        self.table().inbox.calm()
    }

    /// A call is about to be sent that takes the inbox. Says in which session.
    pub(super) fn takes_inbox(&self) -> u64 {
        self.table().inbox.sent()
    }

    /// The same of one on the connection that waits; `None` where it may not be sent now.
    pub(super) fn takes_inbox_beside(&self) -> Option<u64> {
        self.table().inbox.sent_beside()
    }

    /// Such a call, of this session, was answered.
    pub(super) fn took_inbox(&self, session: u64) {
        self.table().inbox.answered(session);
    }

    /// The supervisor is about to give the inbox back: whether it may. What has not started does not start any more, from this
    /// moment on.
    pub(super) fn gives_inbox_back(&self) -> bool {
        let mut table = self.table();
        let may = table.inbox.give_back();
        if table.count() == 0 {
            self.emptied.notify_waiters();
        }
        may
    }

    /// The supervisor has given it back.
    pub(super) fn has_given_inbox_back(&self) {
        self.table().inbox.given_back();
    }

    /// A job came with a wait that was sent in this calm. If that lasts, it may start.
    pub(super) fn handed(&self, payload: Vec<u8>, calm: u64) {
        self.table().inbox.hand(payload, calm);
    }

    /// The number of the job that was handed over and is without a lease, whether it has started or not.
    pub(super) fn handed_number(&self) -> Option<u64> {
        self.table().inbox.number()
    }

    /// The job that was handed over and waits to be started, and its number.
    pub(super) fn waits_in_inbox(&self) -> Option<(u64, Vec<u8>)> {
        self.table().inbox.waiting()
    }

    /// The call that was to bring the job of this number under a lease has not: whether it is here still, and has started. If not, it
    /// is left to whatever finds it.
    pub(super) fn forget_unless_started(&self, number: u64) -> bool {
        let mut table = self.table();
        let without = table.inbox.forget_unless_started(number);
        if table.count() == 0 {
            self.emptied.notify_waiters();
        }
        without
    }

    /// The job whose body runs, or has ended, and whose lease is not known.
    pub(super) fn lacking(&self) -> Option<u64> {
        self.table().inbox.lacking()
    }

    /// Looks for the job without a lease, if it is that of this number still, among what the server holds for this worker; leaves it
    /// out, and gives its settlement if it has ended.
    pub(super) fn find(&self, number: u64, held: &mut Vec<(Lease, Vec<u8>)>) -> Option<Settlement> {
        let mut table = self.table();
        let known = &table.held;
        held.retain(|(lease, _)| !known.contains_key(lease));
        if table.inbox.lacking() != Some(number) {
            return None;
        }
        let lease = table.inbox.find(held).map(|at| held[at].0.clone())?;
        let settlement = table.bind(held);
        table.inbox.was_found(lease);
        settlement
    }

    /// The job without a lease is not this worker's: its body is cancelled. Says which it was.
    pub(super) fn lose_handed(&self, number: u64) -> Option<Arc<Job>> {
        let mut table = self.table();
        // Another may have come since.
        if table.inbox.number() != Some(number) {
            return None;
        }
        let handed = table.inbox.take();
        if table.count() == 0 {
            self.emptied.notify_waiters();
        }
        drop(table);
        match handed?.phase {
            Phase::Waiting => None,
            Phase::Running(running) => {
                running.context.cancel();
                Some(running.job)
            }
            Phase::Ending { job, .. } => Some(job),
        }
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

    #[test]
    fn what_is_handed_over_while_a_session_begins_is_not_lost_with_what_it_looks_for() {
        // Guard: `lose_handed` of the number that lacked its lease when the session began.
        let leases = Leases::new(Arc::new(Total::of(1)));
        let hand = |payload: &str| {
            let calm = leases.calm().expect("nothing is under way");
            leases.handed(payload.into(), calm);
            leases.handed_number().expect("it is here")
        };
        let before = hand("a");
        leases.begin(1, &HashSet::new(), Vec::new());
        let since = hand("b");
        assert!(leases.lose_handed(before).is_none());
        assert_eq!(leases.handed_number(), Some(since));
        leases.lose_all();
        assert_eq!(leases.handed_number(), None);
    }

    #[test]
    fn what_was_settled_lately_is_settled_again_where_the_server_holds_it_still() {
        let leases = Leases::new(Arc::new(Total::of(1)));
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
