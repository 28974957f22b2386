//! The faults: which can happen in a state, and what each of them does.

use crate::server::{End, Id, Known, OLD};
use crate::state::{
    APART, Action, Allowed, CUT_ROUNDS, Late, Model, Phase, State, Taking, Up, Waiting,
};

impl Model {
    /// The faults that can strike now.
    pub(crate) fn faults(&self, state: &State, actions: &mut Vec<Action>) {
        if state.faults == 0 {
            return;
        }
        let allowed = &self.allowed;
        for number in 0..state.processes.len() as u8 {
            self.faults_of(state, number, actions);
        }
        let sound = !state.refusing && state.sound == APART;
        if allowed.refuse && sound {
            actions.push(Action::Refuse);
        }
        let young = |record: &crate::server::Record| record.listed && record.heard < OLD;
        if allowed.jump && sound && state.server.records.iter().any(young) {
            actions.push(Action::Jump);
        }
        if allowed.bury {
            for (id, record) in (0..).zip(&state.server.records) {
                let holds = !record.inbox.is_empty() || !record.progress.is_empty();
                if record.known == Known::Dead && !holds {
                    actions.push(Action::Bury(id));
                }
            }
        }
    }

    fn faults_of(&self, state: &State, number: u8, actions: &mut Vec<Action>) {
        let Allowed { kill, stop, terminate, cut, silence, overdue, .. } = self.allowed;
        let process = &state.processes[usize::from(number)];
        if process.up == Up::Down {
            return;
        }
        if kill {
            actions.push(Action::Kill(number, false));
            if process.wait.is_at_server() {
                actions.push(Action::Kill(number, true));
            }
        }
        if process.up == Up::Stopped {
            return;
        }
        if stop {
            actions.push(Action::Stop(number));
        }
        if terminate && !process.stopping && process.registered {
            actions.push(Action::Terminate(number));
        }
        if silence && process.due && process.cut == 0 && !state.refusing {
            actions.push(Action::BeatLost(number, false));
            actions.push(Action::BeatLost(number, true));
        }
        if overdue {
            for held in process.table.iter().filter(|held| held.phase == Phase::Running) {
                actions.push(Action::Overdue(number, held.lease));
            }
            let record = state.server.records.get(usize::from(process.id));
            if record.is_some_and(|record| !record.inbox.is_empty()) && !state.refusing {
                actions.push(Action::ReturnInbox(number));
            }
        }
        if cut {
            self.cuts(state, number, actions);
        }
    }

    fn cuts(&self, state: &State, number: u8, actions: &mut Vec<Action>) {
        let process = &state.processes[usize::from(number)];
        if process.connected || process.answer.is_some() {
            actions.push(Action::Cut(number));
        }
        if process.wait != Waiting::No {
            if process.connected
                && process.answer.is_none()
                && matches!(process.wait, Waiting::Answered(_, crate::state::Answer::Jobs(_)))
            {
                actions.push(Action::SuspectLate(number));
            }
            actions.push(Action::CutWait(number, false));
            if process.wait.is_at_server() {
                actions.push(Action::CutWait(number, true));
            }
        }
        if state.refusing {
            return;
        }
        if matches!(process.unparking, Taking::Sent(_)) {
            actions.push(Action::TakeParkedLate(number));
            actions.push(Action::TakeParkedUnanswered(number));
        }
        let mut moves = Vec::new();
        self.moves(state, number, &mut moves);
        for action in moves {
            match action {
                Action::Reserve(_) => actions.push(Action::ReserveLate(number)),
                Action::Connect(_) => actions.push(Action::ConnectLate(number)),
                Action::Wait(_) => actions.push(Action::WaitLate(number)),
                Action::Recover(_) if self.guards.one_step_recover => {
                    actions.push(Action::RecoverLate(number));
                }
                Action::Settle(_) => {
                    actions.push(Action::SettleLate(number));
                    actions.push(Action::SettleUnanswered(number));
                }
                Action::SideSettle(_) => actions.push(Action::SideSettleUnanswered(number)),
                _ => {}
            }
        }
    }

    /// A fault strikes.
    pub(crate) fn fault(&self, state: &mut State, action: Action) {
        if !matches!(action, Action::Overdue(..)) {
            state.faults -= 1;
        }
        match action {
            Action::Kill(number, half_open) => {
                let (server, process) = state.at(number);
                server.hang_up(process.id, half_open);
                if let Waiting::Handed(session) = process.wait {
                    // The reserve behind it is in the server's hands already.
                    let late = Late::Reserve { id: process.id, session, want: 0 };
                    process.down();
                    state.late.push(late);
                } else {
                    process.down();
                }
            }
            Action::Stop(number) => {
                let process = &mut state.processes[usize::from(number)];
                process.up = Up::Stopped;
                process.excuse();
            }
            Action::Terminate(number) => {
                let (server, process) = state.at(number);
                process.stopping = true;
                if process.wait.is_at_server() {
                    server.hang_up(process.id, false);
                    process.wait = Waiting::No;
                }
                let held: Vec<_> = process.believed().map(|held| held.lease).collect();
                for lease in held {
                    process.give_back(lease);
                }
            }
            Action::Overdue(number, lease) => {
                state.faults -= 1;
                let process = &mut state.processes[usize::from(number)];
                if let Some(job) = process.end(lease) {
                    process.side.push((lease, job, End::Retry { later: true }));
                }
            }
            Action::ReturnInbox(number) => {
                let (server, process) = state.at(number);
                server.return_inbox(process.id);
            }
            Action::BeatLost(number, executed) => {
                let id = state.processes[usize::from(number)].id;
                if executed {
                    state.heard(&self.guards, id);
                }
                let process = &mut state.processes[usize::from(number)];
                process.due = false;
                process.cut = CUT_ROUNDS;
                process.watched.clear();
                process.excuse();
            }
            Action::Refuse => state.refusing = true,
            Action::Jump => {
                state.sound = 0;
                for record in &mut state.server.records {
                    record.heard = OLD;
                }
            }
            Action::Bury(id) => {
                state.server.bury(id);
                state.server.waits.retain(|wait| wait.id != id);
                state.late.retain(|late| late.id() != id);
            }
            _ => self.break_connection(state, action),
        }
    }

    fn break_connection(&self, state: &mut State, action: Action) {
        match action {
            Action::Cut(number) => {
                let process = &mut state.processes[usize::from(number)];
                (process.connected, process.answer) = (false, None);
            }
            Action::SuspectLate(number) => state.suspect(number),
            Action::CutWait(number, half_open) => {
                let (server, process) = state.at(number);
                server.hang_up(process.id, half_open);
                let wait = std::mem::replace(&mut process.wait, Waiting::No);
                if let Waiting::Handed(session) = wait {
                    let late = Late::Reserve { id: process.id, session, want: 0 };
                    state.late.push(late);
                }
            }
            Action::ReserveLate(number) => {
                let process = &mut state.processes[usize::from(number)];
                process.connected = false;
                let (id, session) = (process.id, process.session);
                let want = process.room() as u8;
                state.late.push(Late::Reserve { id, session, want });
            }
            Action::SettleLate(number) => {
                let process = &mut state.processes[usize::from(number)];
                process.connected = false;
                let ((lease, job, end), id) = (process.outbox[0], process.id);
                process.keep_unanswered(&self.guards);
                state.late.push(Late::Settle { id, lease, job, end });
            }
            Action::SettleUnanswered(number) => self.settle(state, number, false),
            Action::SideSettleUnanswered(number) => self.side_settle(state, number, false),
            Action::ConnectLate(number) => {
                let process = &mut state.processes[usize::from(number)];
                let id = process.id;
                state.late.push(Late::Reconcile { id });
            }
            Action::WaitLate(number) => {
                let process = &state.processes[usize::from(number)];
                let (id, session) = (process.id, process.session);
                state.late.push(Late::Wait { id, session });
            }
            Action::TakeParkedLate(number) => {
                let process = &mut state.processes[usize::from(number)];
                let taking = std::mem::replace(&mut process.unparking, Taking::No);
                let wanted = process.wants.take();
                if let (Taking::Sent(session), Some(token)) = (taking, wanted) {
                    state.late.push(Late::TakeParked { id: process.id, session, token });
                }
            }
            Action::TakeParkedUnanswered(number) => {
                let (server, process) = state.at(number);
                let taking = std::mem::replace(&mut process.unparking, Taking::No);
                let wanted = process.wants.take();
                if let (Taking::Sent(session), Some(token)) = (taking, wanted) {
                    server.take_parked(&self.guards, process.id, session, token);
                }
            }
            Action::RecoverLate(number) => {
                let process = &mut state.processes[usize::from(number)];
                if let Some(mut recovery) = process.recovery.take() {
                    let chunk = recovery.next();
                    let (id, unchanged) = (recovery.id, recovery.unchanged);
                    state.late.push(Late::Recover { id, unchanged, chunk });
                }
            }
            _ => {}
        }
    }
}

impl Late {
    pub(crate) fn id(&self) -> Id {
        match self {
            Self::Reserve { id, .. }
            | Self::Settle { id, .. }
            | Self::Recover { id, .. }
            | Self::Reconcile { id }
            | Self::TakeParked { id, .. }
            | Self::Wait { id, .. } => *id,
        }
    }
}

impl crate::state::Process {
    fn excuse(&mut self) {
        self.excused = true;
        for held in &mut self.table {
            held.excused = true;
        }
    }
}

impl crate::Server {
    /// The other end of a wait is gone; the server learns of it, or has a half-open connection.
    fn hang_up(&mut self, id: Id, half_open: bool) {
        if half_open {
            for wait in self.waits.iter_mut().filter(|wait| wait.id == id) {
                wait.heard = false;
            }
        } else {
            self.waits.retain(|wait| !(wait.heard && wait.id == id));
        }
    }
}
