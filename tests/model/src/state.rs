//! What the checker visits: the server, the processes, what is under way between them, and what happened so far.

use crate::guards::Guards;
use crate::server::{Edit, End, Id, Job, Lease, Seen, Server};

/// A heartbeat of our own that was accepted so many rounds ago is too old for a body to start.
pub(crate) const STALE: u8 = 2;

/// So often must a heartbeat be seen unchanged, in consecutive rounds: over two intervals of 1.5 s.
pub(crate) const SIGHTINGS: u8 = 3;

/// So many rounds may pass before a process whose heartbeat was lost is connected again.
pub(crate) const CUT_ROUNDS: u8 = 2;

/// Faults of the server itself are so many rounds apart: 3 s, as the protocol demands.
pub(crate) const APART: u8 = 2;

/// What is checked: how many there are of everything, what may happen, and which guards are in place.
#[derive(Debug, Clone)]
pub struct Model {
    /// Processes that run workers.
    pub workers: u8,
    /// The slots of each.
    pub slots: u8,
    /// Jobs that are enqueued.
    pub jobs: u8,
    /// Attempts that end with a retry.
    pub retries: u8,
    /// Jobs that operators look at, to change them; with any, attempts can also fail for good.
    pub edits: u8,
    /// Faults in all.
    pub faults: u8,
    /// Which faults there are.
    pub allowed: Allowed,
    /// The protocol, whole or without something.
    pub guards: Guards,
    /// States that differ only in who is who are one.
    pub symmetric: bool,
    /// A deploy is under way: one process is of an old build, which does not know the first job.
    pub deploy: bool,
    pub(crate) settling: crate::calm::Memo,
}

/// Which faults there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)]
pub struct Allowed {
    /// `kill -9`, with the wait of the dead one half-open or not.
    pub kill: bool,
    /// SIGSTOP, and SIGCONT at any time later.
    pub stop: bool,
    /// SIGTERM.
    pub terminate: bool,
    /// A connection breaks; what was under way on it is lost, was executed without an answer, or is executed late.
    pub cut: bool,
    /// The heartbeat or its answer is lost.
    pub silence: bool,
    /// The server refuses everything for a while, or stalls.
    pub refuse: bool,
    /// The server's clock jumps by an hour.
    pub jump: bool,
    /// A day passes for a dead worker that may only be stopped.
    pub bury: bool,
    /// The body blocks, and the supervisor settles its attempt.
    pub overdue: bool,
}

impl Allowed {
    /// None at all.
    pub const NONE: Self = Self {
        kill: false,
        stop: false,
        terminate: false,
        cut: false,
        silence: false,
        refuse: false,
        jump: false,
        bury: false,
        overdue: false,
    };

    /// All there are.
    pub const ALL: Self = Self {
        kill: true,
        stop: true,
        terminate: true,
        cut: true,
        silence: true,
        refuse: true,
        jump: true,
        bury: true,
        overdue: true,
    };
}

/// Everything at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(clippy::struct_excessive_bools)]
pub struct State {
    pub(crate) server: Server,
    pub(crate) processes: Vec<Process>,
    /// Calls of connections that are gone, still on their way.
    pub(crate) late: Vec<Late>,
    /// What operators have before them.
    pub(crate) seen: Vec<Seen>,
    /// The server accepts nothing.
    pub(crate) refusing: bool,
    /// Rounds since the server's last fault, at most [`APART`].
    pub(crate) sound: u8,
    pub(crate) enqueued: u8,
    pub(crate) retries: u8,
    pub(crate) edits: u8,
    pub(crate) faults: u8,
    /// A body started although its job was settled.
    pub(crate) started_after_end: bool,
    /// Two bodies of a job ran under leases that no fault had touched.
    pub(crate) doubled: bool,
}

/// One process, and the life of a worker that it leads.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(clippy::struct_excessive_bools)]
pub(crate) struct Process {
    pub(crate) id: Id,
    pub(crate) slots: u8,
    pub(crate) up: Up,
    /// SIGTERM came.
    pub(crate) stopping: bool,
    /// The server has answered a first reconcile of this life.
    pub(crate) registered: bool,
    /// The connection over which it reserves and settles is reconciled.
    pub(crate) connected: bool,
    pub(crate) session: u8,
    /// What the server has answered on that connection.
    pub(crate) answer: Option<Answer>,
    pub(crate) wait: Waiting,
    /// Of the old build.
    pub(crate) old: bool,
    /// The token of the parked job that it looked at last.
    pub(crate) looked: Option<Lease>,
    /// It takes a parked job.
    pub(crate) unparking: Taking,
    /// Of this token.
    pub(crate) wants: Option<Lease>,
    /// The table of leases, the oldest first.
    pub(crate) table: Vec<Held>,
    /// Settlements for the server to have.
    pub(crate) outbox: Vec<(Lease, Job, End)>,
    /// The supervisor's.
    pub(crate) side: Vec<(Lease, Job, End)>,
    /// Rounds since the sending of the last accepted heartbeat, at most [`STALE`].
    pub(crate) pulse: u8,
    /// Its heartbeat of this round is still to come.
    pub(crate) due: bool,
    /// The server refused it.
    pub(crate) refused: bool,
    /// So many rounds more may pass without one.
    pub(crate) cut: u8,
    /// A stop or a lost heartbeat explains what happens to its leases.
    pub(crate) excused: bool,
    /// How often it has seen the heartbeat of each other id unchanged.
    pub(crate) watched: Vec<u8>,
    pub(crate) recovery: Option<Recovery>,
    /// Jobs that it took off a list and has not put down yet, where that is no single step.
    pub(crate) carried: Option<Carried>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Up {
    Running,
    Stopped,
    Down,
}

/// An answer on its way to a process.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Answer {
    Jobs(Vec<(Lease, Job)>),
    Void,
    Stale,
    Session { session: u8, leases: Vec<(Lease, Job)>, believed: Vec<Lease> },
}

/// How far a wait, and the reserve that was sent along, are.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Waiting {
    No,
    /// At the server.
    Sent,
    /// The server has handed a job into the inbox; it has not looked at the reserve yet.
    Handed(u8),
    Answered(u8, Answer),
}

/// A lease as its worker sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Held {
    pub(crate) lease: Lease,
    pub(crate) job: Job,
    pub(crate) phase: Phase,
    /// Its process was stopped or cut off while it had it.
    pub(crate) excused: bool,
}

/// How far a `take_parked.lua` is, under that session.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Taking {
    No,
    /// It is on its way.
    Sent(u8),
    Answered(u8, Answer),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Phase {
    Reserved,
    Running,
    Ending,
}

/// What a monitor does about a dead worker.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Recovery {
    pub(crate) id: Id,
    /// The heartbeat is still the one that it saw.
    pub(crate) unchanged: bool,
    pub(crate) step: Step,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Step {
    /// The mark.
    Mark,
    /// These leases, the youngest last.
    Chunks(Vec<Lease>),
}

/// A move that is half done.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Carried {
    ToLeases(Vec<Job>),
    ToList(Vec<Job>),
}

/// A call whose connection is gone, on its way to the server all the same.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Late {
    Reserve { id: Id, session: u8, want: u8 },
    Settle { id: Id, lease: Lease, job: Job, end: End },
    Recover { id: Id, unchanged: bool, chunk: Vec<Lease> },
    Reconcile { id: Id },
    Wait { id: Id, session: u8 },
    TakeParked { id: Id, session: u8, token: Lease },
}

/// What happens next. Processes are numbered from 0; where a script or a command runs, its name is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// `LPUSH` of the next job.
    Enqueue,
    /// `heartbeat.lua`, and what the answer calls for; refused while the server refuses.
    Beat(u8),
    /// `reconcile.lua`.
    Connect(u8),
    /// The answer to the last reserve or reconcile arrives.
    Receive(u8),
    /// `reserve.lua`.
    Reserve(u8),
    /// The job under this lease is unknown here: it is put aside, and its settlement is in the outbox.
    Park(u8, Lease),
    /// It sends `take_parked.lua` for the first parked job that it can run.
    TakeParked(u8),
    /// It is executed.
    TakeParkedArrives(u8),
    /// Its answer arrives.
    ReceiveParked(u8),
    /// The husk under this lease is put aside, and its settlement is in the outbox.
    Drop(u8, Lease),
    /// An operator sees a job.
    See(Seen),
    /// `edit.lua`, for what an operator has seen.
    Edit(u8, Edit),
    /// `break_parked.lua`: nobody has known it for long.
    BreakParked(u8),
    /// The body under this lease begins.
    Start(u8, Lease),
    /// It has returned, and its settlement is in the outbox.
    Finish(u8, Lease, End),
    /// The supervisor gives up on it, and settles it over its own connection.
    Overdue(u8, Lease),
    /// `settle.lua` or `release.lua` for the first of the outbox, with its answer.
    Settle(u8),
    /// The same over the supervisor's connection.
    SideSettle(u8),
    /// `BLMOVE`, with a reserve behind it.
    Wait(u8),
    /// `reserve.lua`, which came with the wait.
    ReserveWithWait(u8),
    /// Both answers arrive.
    ReceiveWait(u8),
    /// The comparison finds leases that were never seen, and the connections are made anew.
    Suspect(u8),
    /// The comparison finds a lease gone, and its body is cancelled.
    Lose(u8, Lease),
    /// `recover.lua`, one chunk.
    Recover(u8),
    /// Something is held in the name of a dead worker: it is recovered again.
    Sweep(u8, Id),
    /// `promote.lua`.
    Promote(u8),
    /// The second half of a move that is no single step.
    PutDown(u8),
    /// `retire.lua`, after which the process ends.
    Retire(u8),
    /// A process is started again, under a new id.
    Restart(u8),
    /// 1.5 s have passed.
    Tick,
    /// SIGCONT.
    Wake(u8),
    /// The server accepts calls again.
    Accept,
    /// A call of a connection that is gone is executed.
    Late(u8),

    /// A fault: SIGKILL; its wait stays at the server, half-open, or does not.
    Kill(u8, bool),
    /// A fault: SIGSTOP.
    Stop(u8),
    /// A fault: SIGTERM.
    Terminate(u8),
    /// A fault: the connection breaks, and with it what was answered on it.
    Cut(u8),
    /// A fault: the answer to a wait is so late that the comparison takes what it brings for never seen.
    SuspectLate(u8),
    /// A fault: the connection of the wait breaks; the wait stays at the server, half-open, or does not.
    CutWait(u8, bool),
    /// A fault: `reserve.lua` is on its way when its connection breaks.
    ReserveLate(u8),
    /// A fault: the settlement is on its way when its connection breaks.
    SettleLate(u8),
    /// A fault: the settlement is executed, the answer is lost.
    SettleUnanswered(u8),
    /// A fault: the same on the supervisor's connection.
    SideSettleUnanswered(u8),
    /// A fault: `reconcile.lua` is on its way when its connection breaks.
    ConnectLate(u8),
    /// A fault: `BLMOVE` is on its way when its connection breaks.
    WaitLate(u8),
    /// A fault: the runtime of the bodies is stuck, and the supervisor gives the inbox back.
    ReturnInbox(u8),
    /// A fault: `take_parked.lua` is on its way when its connection breaks.
    TakeParkedLate(u8),
    /// A fault: it is executed, the answer is lost.
    TakeParkedUnanswered(u8),
    /// A fault: `recover.lua` is on its way when its connection breaks.
    RecoverLate(u8),
    /// A fault: the heartbeat is lost, or, where true, its answer only.
    BeatLost(u8, bool),
    /// A fault: the server refuses everything until [`Action::Accept`].
    Refuse,
    /// A fault: the server's clock jumps.
    Jump,
    /// A fault: `bury.lua`, a day later.
    Bury(Id),
}

impl Action {
    /// Whether it is a fault.
    #[must_use]
    pub fn is_fault(self) -> bool {
        matches!(
            self,
            Self::Kill(..)
                | Self::Stop(_)
                | Self::Terminate(_)
                | Self::Cut(_)
                | Self::SuspectLate(_)
                | Self::CutWait(..)
                | Self::ReserveLate(_)
                | Self::SettleLate(_)
                | Self::SettleUnanswered(_)
                | Self::SideSettleUnanswered(_)
                | Self::ConnectLate(_)
                | Self::WaitLate(_)
                | Self::ReturnInbox(_)
                | Self::TakeParkedLate(_)
                | Self::TakeParkedUnanswered(_)
                | Self::RecoverLate(_)
                | Self::BeatLost(..)
                | Self::Refuse
                | Self::Jump
                | Self::Bury(_)
                | Self::Overdue(..)
        )
    }
}

impl Process {
    pub(crate) fn new(id: Id, slots: u8) -> Self {
        Self {
            id,
            slots,
            up: Up::Running,
            stopping: false,
            registered: false,
            connected: false,
            session: 0,
            answer: None,
            wait: Waiting::No,
            old: false,
            looked: None,
            unparking: Taking::No,
            wants: None,
            table: Vec::new(),
            outbox: Vec::new(),
            side: Vec::new(),
            pulse: STALE,
            due: false,
            refused: false,
            cut: 0,
            excused: false,
            watched: Vec::new(),
            recovery: None,
            carried: None,
        }
    }

    /// Nothing of it is left but its number.
    pub(crate) fn down(&mut self) {
        *self = Self { up: Up::Down, ..Self::new(self.id, self.slots) };
    }

    pub(crate) fn runs(&self) -> bool {
        self.up == Up::Running
    }

    pub(crate) fn held(&self, lease: Lease) -> Option<&Held> {
        self.table.iter().find(|held| held.lease == lease)
    }

    /// What is reserved or running.
    pub(crate) fn believed(&self) -> impl Iterator<Item = &Held> {
        self.table.iter().filter(|held| held.phase != Phase::Ending)
    }

    /// The jobs whose bodies run, and whether a fault touched them.
    pub(crate) fn running(&self) -> impl Iterator<Item = (Job, bool)> {
        let running = self.table.iter().filter(|held| held.phase == Phase::Running);
        running.map(|held| (held.job, held.excused))
    }

    /// Whether it can run this job: in a deploy the first is of a type that the old build does not know.
    pub(crate) fn knows(&self, job: Job) -> bool {
        !self.old || job != 0
    }

    /// The first parked job that it can run and has not looked at.
    pub(crate) fn can_take<'a>(&self, server: &'a Server) -> Option<&'a (Lease, Job)> {
        let mut parked = server.parked.iter();
        parked.find(|(token, job)| Some(*token) > self.looked && self.knows(*job))
    }

    /// How many more jobs it can start.
    pub(crate) fn room(&self) -> usize {
        let taken = usize::from(self.unparking != Taking::No);
        usize::from(self.slots).saturating_sub(self.believed().count() + taken)
    }

    /// Ends a lease; the settlement goes over the one connection or the other.
    pub(crate) fn end(&mut self, lease: Lease) -> Option<Job> {
        let held = self.table.iter_mut().find(|held| held.lease == lease)?;
        held.phase = Phase::Ending;
        Some(held.job)
    }

    pub(crate) fn watched(&mut self, id: Id) -> &mut u8 {
        let index = usize::from(id);
        if self.watched.len() <= index {
            self.watched.resize(index + 1, 0);
        }
        &mut self.watched[index]
    }
}

impl Taking {
    pub(crate) fn answer(&mut self) -> Option<&mut Answer> {
        match self {
            Self::Answered(_, answer) => Some(answer),
            _ => None,
        }
    }
}

impl Waiting {
    pub(crate) fn is_at_server(&self) -> bool {
        *self == Self::Sent
    }

    pub(crate) fn answer(&mut self) -> Option<&mut Answer> {
        match self {
            Self::Answered(_, answer) => Some(answer),
            _ => None,
        }
    }
}
