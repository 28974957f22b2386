//! What happens without any fault.

use crate::guards::Guards;
use crate::server::{End, Id, Known, OLD, Recovered, Reserved, Wait};
use crate::state::{
    APART, Action, Answer, Carried, Held, Late, Model, Phase, Process, Recovery, SIGHTINGS, STALE,
    State, Step, Taking, Up, Waiting,
};

impl Model {
    /// Does what is no fault.
    pub(crate) fn moved(&self, state: &mut State, action: Action) {
        match action {
            Action::Enqueue => {
                state.server.enqueue(state.enqueued);
                state.server.ended.push(0);
                state.enqueued += 1;
            }
            Action::Beat(number) => self.beat(state, number),
            Action::Connect(number) => {
                let (server, process) = state.at(number);
                let first = !process.registered;
                let believed = process.believed().map(|held| held.lease).collect();
                process.answer = Some(match server.reconcile(&self.guards, process.id, first) {
                    Some((session, leases)) => Answer::Session { session, leases, believed },
                    None => Answer::Void,
                });
            }
            Action::Receive(number) => {
                let process = &mut state.processes[usize::from(number)];
                if let Some(answer) = process.answer.take() {
                    let session = process.session;
                    self.receive(state, number, session, answer);
                }
            }
            Action::Reserve(number) => {
                let (server, process) = state.at(number);
                let (id, session, want) = (process.id, process.session, process.room());
                if self.guards.one_step_reserve || server.is_void(&self.guards, id) {
                    let reserved = server.reserve(&self.guards, id, session, want);
                    process.answer = Some(reserved.into());
                } else {
                    process.carried = Some(Carried::ToLeases(server.take(id, want)));
                }
            }
            Action::Start(number, lease) => start(state, number, lease),
            Action::Park(..)
            | Action::Drop(..)
            | Action::TakeParked(_)
            | Action::TakeParkedArrives(_)
            | Action::ReceiveParked(_)
            | Action::BreakParked(_) => self.parks(state, action),
            Action::See(seen) => {
                state.seen.push(seen);
                state.edits -= 1;
            }
            Action::Edit(index, edit) => {
                let seen = state.seen.remove(usize::from(index));
                state.server.edit(&self.guards, seen, edit);
            }
            Action::Suspect(number) => state.suspect(number),
            Action::Recover(number) => self.recover(state, number),
            Action::Settle(number) => self.settle(state, number, true),
            Action::SideSettle(number) => self.side_settle(state, number, true),
            Action::Tick => tick(state),
            Action::Accept => (state.refusing, state.sound) = (false, 0),
            Action::Late(index) => {
                let late = state.late.remove(usize::from(index));
                self.execute_late(state, late);
            }
            Action::Wait(_) | Action::ReserveWithWait(_) | Action::ReceiveWait(_) => {
                self.waited(state, action);
            }
            _ if action.is_fault() => self.fault(state, action),
            _ => self.moved_rarely(state, action),
        }
    }

    /// What is done about jobs that another build knows, and about husks.
    fn parks(&self, state: &mut State, action: Action) {
        match action {
            Action::Park(number, lease) | Action::Drop(number, lease) => {
                let end = if matches!(action, Action::Park(..)) { End::Park } else { End::Husk };
                let process = &mut state.processes[usize::from(number)];
                if let Some(job) = process.end(lease) {
                    process.outbox.push((lease, job, end));
                }
            }
            Action::TakeParked(number) => {
                let (server, process) = state.at(number);
                process.wants = process.can_take(server).map(|(token, _)| *token);
                process.unparking = Taking::Sent(process.session);
                if !self.guards.looked_after_answer {
                    process.looked = process.wants;
                }
            }
            Action::TakeParkedArrives(number) => {
                let (server, process) = state.at(number);
                if let (Taking::Sent(session), Some(token)) = (&process.unparking, process.wants) {
                    let (id, session) = (process.id, *session);
                    let taken = server.take_parked(&self.guards, id, session, token);
                    process.unparking = Taking::Answered(session, taken.into());
                }
            }
            Action::ReceiveParked(number) => {
                let process = &mut state.processes[usize::from(number)];
                let taking = std::mem::replace(&mut process.unparking, Taking::No);
                let wanted = process.wants.take();
                let Taking::Answered(session, answer) = taking else { return };
                if matches!(answer, Answer::Jobs(_)) {
                    process.looked = process.looked.max(wanted);
                }
                self.receive(state, number, session, answer);
            }
            Action::BreakParked(_) => {
                let token = state.server.parked[0].0;
                state.server.break_parked(token);
            }
            _ => {}
        }
    }

    fn moved_rarely(&self, state: &mut State, action: Action) {
        match action {
            Action::Finish(number, lease, end) => {
                let process = &mut state.processes[usize::from(number)];
                if let Some(job) = process.end(lease) {
                    process.outbox.push((lease, job, end));
                }
                state.retries -= u8::from(matches!(end, End::Retry { .. }));
            }
            Action::Lose(number, lease) => {
                let process = &mut state.processes[usize::from(number)];
                process.table.retain(|held| held.lease != lease);
            }
            Action::Sweep(number, id) => {
                let process = &mut state.processes[usize::from(number)];
                process.recovery = Some(Recovery { id, unchanged: true, step: Step::Mark });
            }
            Action::Promote(number) => {
                let (server, process) = state.at(number);
                if self.guards.one_step_promote {
                    server.promote(1);
                } else {
                    process.carried = Some(Carried::ToList(vec![server.scheduled.remove(0)]));
                }
            }
            Action::PutDown(number) => {
                let (server, process) = state.at(number);
                match process.carried.take() {
                    Some(Carried::ToLeases(jobs)) => {
                        let jobs = server.put_under_leases(process.id, jobs);
                        process.answer = Some(Answer::Jobs(jobs));
                    }
                    Some(Carried::ToList(jobs)) => server.jobs.extend(jobs),
                    None => {}
                }
            }
            Action::Retire(number) => {
                let (server, process) = state.at(number);
                server.retire(process.id);
                process.down();
            }
            Action::Restart(number) => {
                let id = state.server.records.len() as Id;
                state.server.records.push(crate::server::Record::default());
                state.processes[usize::from(number)] = Process::new(id, self.slots);
            }
            Action::Wake(number) => {
                let process = &mut state.processes[usize::from(number)];
                process.up = Up::Running;
                process.watched.clear();
            }
            _ => {}
        }
    }

    fn waited(&self, state: &mut State, action: Action) {
        match action {
            Action::Wait(number) => {
                let (server, process) = state.at(number);
                process.wait = Waiting::Sent;
                let (id, session) = (process.id, process.session);
                server.wait(Wait { id, session, heard: true });
            }
            Action::ReserveWithWait(number) => {
                let (server, process) = state.at(number);
                if let Waiting::Handed(session) = process.wait {
                    let reserved = server.reserve(&self.guards, process.id, session, 0);
                    process.wait = Waiting::Answered(session, reserved.into());
                }
            }
            Action::ReceiveWait(number) => {
                let process = &mut state.processes[usize::from(number)];
                let wait = std::mem::replace(&mut process.wait, Waiting::No);
                if let Waiting::Answered(session, answer) = wait {
                    self.receive(state, number, session, answer);
                }
            }
            _ => {}
        }
    }

    /// `heartbeat.lua`, and what follows from its answer.
    fn beat(&self, state: &mut State, number: u8) {
        let process = &mut state.processes[usize::from(number)];
        let id = process.id;
        // A heartbeat that is refused is repeated after 0.5 s.
        process.due = state.refusing;
        if state.refusing {
            process.refused = true;
            if self.guards.accepted_writes {
                process.watched.clear();
                return;
            }
            // The ancestor of the rule: what was read counts, whatever the server did with the heartbeat.
        } else {
            if !state.heard(&self.guards, id) {
                state.new_life(number);
                return;
            }
            let process = &mut state.processes[usize::from(number)];
            (process.pulse, process.cut, process.excused) = (0, 0, false);
        }
        for other in 0..state.server.records.len() as Id {
            let record = &state.server.records[usize::from(other)];
            let silent = record.listed && record.known != Known::Dead && record.heard >= 1;
            let old = record.heard >= OLD;
            let process = &mut state.processes[usize::from(number)];
            if other == id || !silent {
                *process.watched(other) = 0;
                continue;
            }
            let watched = process.watched(other);
            *watched = (*watched + 1).min(SIGHTINGS);
            let enough = match (self.guards.accepted_writes, self.guards.watched_long) {
                (true, true) => SIGHTINGS,
                (true, false) => SIGHTINGS - 1,
                (false, _) => 1,
            };
            if old && *watched >= enough && process.recovery.is_none() {
                process.recovery = Some(Recovery { id: other, unchanged: true, step: Step::Mark });
            }
        }
    }

    /// An answer to a reserve under this session, or to a reconcile.
    fn receive(&self, state: &mut State, number: u8, session: u8, answer: Answer) {
        let process = &mut state.processes[usize::from(number)];
        match answer {
            Answer::Void => state.new_life(number),
            Answer::Stale => process.connected = false,
            Answer::Session { session, leases, believed } => {
                process.session = session;
                // The first heartbeat follows at once.
                process.due |= !process.registered;
                (process.connected, process.registered) = (true, true);
                let there = |lease| leases.iter().any(|(held, _)| *held == lease);
                process.table.retain(|held| {
                    held.phase == Phase::Ending
                        || !believed.contains(&held.lease)
                        || there(held.lease)
                });
                for (lease, job) in leases {
                    if process.held(lease).is_none() && self.guards.unseen_given_back {
                        process.never_start(lease, job);
                    }
                }
            }
            Answer::Jobs(jobs) => {
                // A younger session has compared since, and gave back what it did not know.
                if self.guards.late_answer_refused && session < process.session {
                    return;
                }
                let excused = process.excused;
                for (lease, job) in jobs {
                    if process.held(lease).is_some() {
                        continue;
                    }
                    let room = process.room() > 0 && !process.stopping;
                    let phase = Phase::Reserved;
                    process.table.push(Held { lease, job, phase, excused });
                    if process.stopping || (!room && self.guards.surplus_released) {
                        process.give_back(lease);
                    }
                }
            }
        }
    }

    /// Sends the first of the outbox; without an answer it stays there, and the connection is gone.
    pub(crate) fn settle(&self, state: &mut State, number: u8, answered: bool) {
        let (server, process) = state.at(number);
        let (lease, job, end) = process.outbox[0];
        server.settle(&self.guards, process.id, lease, job, end);
        if answered {
            process.outbox.remove(0);
            process.table.retain(|held| held.lease != lease || held.phase == Phase::Running);
        } else {
            process.connected = false;
            process.keep_unanswered(&self.guards);
        }
    }

    pub(crate) fn side_settle(&self, state: &mut State, number: u8, answered: bool) {
        let (server, process) = state.at(number);
        let (lease, job, end) = process.side[0];
        server.settle(&self.guards, process.id, lease, job, end);
        if answered {
            process.side.remove(0);
            process.table.retain(|held| held.lease != lease);
        }
    }

    fn recover(&self, state: &mut State, number: u8) {
        let (server, process) = state.at(number);
        let Some(mut recovery) = process.recovery.take() else { return };
        let chunk = recovery.next();
        let id = recovery.id;
        if !self.guards.one_step_recover {
            let jobs = server.take_back(&self.guards, id, &chunk);
            process.carried = (!jobs.is_empty()).then_some(Carried::ToList(jobs));
        }
        if server.recover(&self.guards, id, recovery.unchanged, &chunk) == Recovered::Alive {
            return;
        }
        let progress = &server.records[usize::from(id)].progress;
        let leases: Vec<_> = progress.iter().map(|(lease, _)| *lease).collect();
        recovery.step = match recovery.step {
            Step::Mark if !leases.is_empty() => Step::Chunks(leases),
            Step::Chunks(left) if !left.is_empty() => Step::Chunks(left),
            _ => return,
        };
        process.recovery = Some(recovery);
    }

    fn execute_late(&self, state: &mut State, late: Late) {
        let server = &mut state.server;
        match late {
            Late::Reserve { id, session, want } => {
                server.reserve(&self.guards, id, session, usize::from(want));
            }
            Late::Settle { id, lease, job, end } => {
                server.settle(&self.guards, id, lease, job, end);
            }
            Late::Recover { id, unchanged, chunk } => {
                server.recover(&self.guards, id, unchanged, &chunk);
            }
            Late::Reconcile { id } => {
                let first = server.records[usize::from(id)].known == Known::Missing;
                server.reconcile(&self.guards, id, first);
            }
            Late::Wait { id, session } => {
                server.wait(Wait { id, session, heard: false });
            }
            Late::TakeParked { id, session, token } => {
                server.take_parked(&self.guards, id, session, token);
            }
        }
    }
}

impl Recovery {
    /// The leases that the next call gives back, beside the inbox; the youngest first.
    pub(crate) fn next(&mut self) -> Vec<u8> {
        match &mut self.step {
            Step::Mark => Vec::new(),
            Step::Chunks(leases) => leases.pop().into_iter().collect(),
        }
    }
}

impl From<Reserved> for Answer {
    fn from(reserved: Reserved) -> Self {
        match reserved {
            Reserved::Jobs(jobs) => Self::Jobs(jobs),
            Reserved::Void => Self::Void,
            Reserved::Stale => Self::Stale,
        }
    }
}

fn start(state: &mut State, number: u8, lease: u8) {
    let index = usize::from(number);
    let Some(held) = state.processes[index].held(lease) else { return };
    let (job, excused) = (held.job, held.excused);
    begins(state, job, excused);
    let process = &mut state.processes[index];
    if let Some(held) = process.table.iter_mut().find(|held| held.lease == lease) {
        held.phase = Phase::Running;
    }
}

/// A body begins: which others of its job run?
fn begins(state: &mut State, job: u8, excused: bool) {
    state.started_after_end |= state.server.ended[usize::from(job)] > 0;
    let mut running = state.processes.iter().flat_map(Process::running);
    state.doubled |= running.any(|(other, its)| other == job && !its && !excused);
}

fn tick(state: &mut State) {
    state.sound = if state.refusing { 0 } else { (state.sound + 1).min(APART) };
    for record in &mut state.server.records {
        if record.known != Known::Dead {
            record.heard = (record.heard + 1).min(OLD);
        }
    }
    for process in &mut state.processes {
        process.pulse = (process.pulse + 1).min(STALE);
        if process.up == Up::Running && process.due && process.cut > 0 {
            process.cut -= 1;
        }
        process.refused = false;
        process.due = process.registered;
    }
}

impl Process {
    /// A lease that was never seen: given back, and never started.
    fn never_start(&mut self, lease: u8, job: u8) {
        let phase = Phase::Ending;
        self.table.push(Held { lease, job, phase, excused: true });
        self.outbox.push((lease, job, End::Release { later: false }));
    }

    pub(crate) fn give_back(&mut self, lease: u8) {
        if let Some(job) = self.end(lease) {
            self.outbox.push((lease, job, End::Release { later: false }));
        }
    }

    /// Without the rule, a settlement without an answer is taken for done.
    pub(crate) fn keep_unanswered(&mut self, guards: &Guards) {
        if !guards.sent_again {
            self.outbox.remove(0);
        }
    }
}

impl State {
    pub(crate) fn at(&mut self, number: u8) -> (&mut crate::Server, &mut Process) {
        (&mut self.server, &mut self.processes[usize::from(number)])
    }

    /// `heartbeat.lua`: whoever watches this worker sees another heartbeat from now on.
    pub(crate) fn heard(&mut self, guards: &Guards, id: Id) -> bool {
        if !self.server.heartbeat(guards, id) {
            return false;
        }
        for process in &mut self.processes {
            *process.watched(id) = 0;
            if let Some(recovery) = &mut process.recovery
                && recovery.id == id
            {
                recovery.unchanged = false;
            }
        }
        for late in &mut self.late {
            if let Late::Recover { id: other, unchanged, .. } = late
                && *other == id
            {
                *unchanged = false;
            }
        }
        true
    }

    pub(crate) fn suspect(&mut self, number: u8) {
        let (server, process) = self.at(number);
        process.connected = false;
        // The wait is taken for lost too, and is ended.
        if process.wait.is_at_server() {
            server.waits.retain(|wait| !(wait.heard && wait.id == process.id));
            process.wait = Waiting::No;
        }
    }

    /// The worker was declared dead: its bodies are cancelled, and it comes back under a new id.
    pub(crate) fn new_life(&mut self, number: u8) {
        let (server, process) = self.at(number);
        server.waits.retain(|wait| !(wait.heard && wait.id == process.id));
        if process.stopping {
            process.down();
            return;
        }
        let id = server.records.len() as Id;
        server.records.push(crate::server::Record::default());
        *process = Process { old: process.old, ..Process::new(id, process.slots) };
    }

    /// Gives waiting jobs to those who wait.
    pub(crate) fn hand_over(&mut self) {
        for wait in self.server.hand_over() {
            if wait.heard {
                let owner = self.processes.iter_mut().find(|process| process.id == wait.id);
                if let Some(process) = owner {
                    process.wait = Waiting::Handed(wait.session);
                }
            } else {
                // The reserve that was sent along is next on that connection.
                let (id, session) = (wait.id, wait.session);
                self.late.push(Late::Reserve { id, session, want: 0 });
            }
        }
    }
}
