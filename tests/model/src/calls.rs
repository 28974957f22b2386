//! Calls of the server, written down.

use crate::guards::Guards;
use crate::server::{Edit, End, Id, Job, Lease, Recovered, Reserved, Seen, Server};

/// One call of a script, or one command.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum Call {
    /// `LPUSH`.
    Enqueue { job: Job },
    /// `schedule.lua`.
    Schedule { job: Job },
    /// `promote.lua`.
    Promote { want: usize },
    /// `reconcile.lua`.
    Reconcile { id: Id, first: bool },
    /// `heartbeat.lua`.
    Heartbeat { id: Id },
    /// `reserve.lua`.
    Reserve { id: Id, session: u8, want: usize },
    /// `settle.lua`, or `release.lua` for what is given back.
    Settle { id: Id, lease: Lease, job: Job, end: End },
    /// `recover.lua`.
    Recover { id: Id, unchanged: bool, chunk: Vec<(Lease, Job)> },
    /// `take_parked.lua`.
    TakeParked { id: Id, session: u8, token: Lease },
    /// `break_parked.lua`.
    BreakParked { token: Lease },
    /// `edit.lua`.
    Edit { seen: Seen, edit: Edit },
    /// `retire.lua`.
    Retire { id: Id },
    /// `LMOVE` of all that is in the inbox, to the front of the list.
    ReturnInbox { id: Id },
    /// `revoke.lua`.
    Revoke { id: Id, lease: Lease },
    /// `bury.lua`.
    Bury { id: Id },
    /// What a `BLMOVE` that waits does when a job is there.
    HandOver { id: Id },
}

/// What the server answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answered {
    /// Nothing that matters.
    Done,
    /// A number.
    Count(usize),
    /// Whether it was held, there, or done.
    Held(bool),
    /// Declared dead, or not known.
    Void,
    /// An old session.
    Stale,
    /// It lives.
    Alive,
    /// Jobs under their leases.
    Jobs(Vec<(Lease, Job)>),
    /// A session, and the leases that are held.
    Session(u8, Vec<(Lease, Job)>),
    /// How many leases it holds, how many jobs are in its inbox and in the list.
    Beat(usize, usize, usize),
    /// How many were given back, how many leases and how many in the inbox are left.
    Given(usize, usize, usize),
}

impl Server {
    /// Makes a call.
    pub fn call(&mut self, call: &Call) -> Answered {
        let guards = &Guards::ALL;
        match call {
            Call::Enqueue { job } => {
                self.enqueue(*job);
                Answered::Done
            }
            Call::Schedule { job } => {
                self.schedule(*job);
                Answered::Done
            }
            Call::Promote { want } => Answered::Count(self.promote(*want)),
            Call::Reconcile { id, first } => match self.reconcile(guards, *id, *first) {
                Some((session, leases)) => Answered::Session(session, leases),
                None => Answered::Void,
            },
            Call::Heartbeat { id } => {
                if !self.heartbeat(guards, *id) {
                    return Answered::Void;
                }
                let waiting = self.jobs.len();
                let record = self.record(*id);
                Answered::Beat(record.progress.len(), record.inbox.len(), waiting)
            }
            Call::Reserve { id, session, want } => {
                self.reserve(guards, *id, *session, *want).into()
            }
            Call::Settle { id, lease, job, end } => {
                Answered::Held(self.settle(guards, *id, *lease, *job, *end))
            }
            Call::Recover { id, unchanged, chunk } => {
                let chunk: Vec<_> = chunk.iter().map(|(lease, _)| *lease).collect();
                match self.recover(guards, *id, *unchanged, &chunk) {
                    Recovered::Alive => Answered::Alive,
                    Recovered::Given { jobs, left, inbox } => Answered::Given(jobs, left, inbox),
                }
            }
            Call::TakeParked { id, session, token } => {
                self.take_parked(guards, *id, *session, *token).into()
            }
            Call::BreakParked { token } => Answered::Held(self.break_parked(*token)),
            Call::Edit { seen, edit } => Answered::Held(self.edit(guards, *seen, *edit)),
            Call::Retire { id } => Answered::Count(self.retire(*id)),
            Call::ReturnInbox { id } => {
                self.return_inbox(*id);
                Answered::Done
            }
            Call::Revoke { id, lease } => Answered::Held(self.revoke(*id, *lease)),
            Call::Bury { id } => Answered::Held(self.bury(*id)),
            Call::HandOver { id } => {
                let Some(job) = self.jobs.pop() else { return Answered::Held(false) };
                self.record(*id).inbox.insert(0, job);
                Answered::Held(true)
            }
        }
    }
}

impl From<Reserved> for Answered {
    fn from(reserved: Reserved) -> Self {
        match reserved {
            Reserved::Jobs(jobs) => Self::Jobs(jobs),
            Reserved::Void => Self::Void,
            Reserved::Stale => Self::Stale,
        }
    }
}
