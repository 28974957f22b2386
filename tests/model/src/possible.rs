//! Which moves there are in a state.

use crate::server::{Edit, End, HUSK, Known, Seen};
use crate::state::{Action, Model, Phase, Process, STALE, State, Taking, Up, Waiting};

impl Model {
    /// The moves of one process.
    pub(crate) fn moves(&self, state: &State, number: u8, actions: &mut Vec<Action>) {
        let process = &state.processes[usize::from(number)];
        match process.up {
            Up::Down => {
                actions.push(Action::Restart(number));
                return;
            }
            Up::Stopped => {
                actions.push(Action::Wake(number));
                return;
            }
            Up::Running => {}
        }
        // What the process does by itself, whether the server answers or not.
        if process.answer.is_some() {
            actions.push(Action::Receive(number));
        }
        if matches!(process.wait, Waiting::Answered(..)) {
            actions.push(Action::ReceiveWait(number));
        }
        if process.due && !(state.refusing && process.refused) {
            actions.push(Action::Beat(number));
        }
        for held in &process.table {
            match held.phase {
                Phase::Reserved if held.job == HUSK => {
                    actions.push(Action::Drop(number, held.lease));
                }
                Phase::Reserved if !process.knows(held.job) => {
                    actions.push(Action::Park(number, held.lease));
                }
                Phase::Reserved if self.may_start(process) => {
                    actions.push(Action::Start(number, held.lease));
                }
                Phase::Running => {
                    actions.push(Action::Finish(number, held.lease, End::Ack));
                    if state.retries > 0 {
                        let retry = End::Retry { later: true };
                        actions.push(Action::Finish(number, held.lease, retry));
                    }
                    if state.edits > 0 {
                        actions.push(Action::Finish(number, held.lease, End::Fail));
                    }
                }
                _ => {}
            }
        }
        if matches!(process.unparking, Taking::Answered(..)) {
            actions.push(Action::ReceiveParked(number));
        }
        if !state.refusing {
            self.calls(state, number, actions);
        }
    }

    fn may_start(&self, process: &Process) -> bool {
        let fresh = process.pulse < STALE || !self.guards.fenced_by_own_beat;
        fresh && !process.stopping && process.running().count() < usize::from(process.slots)
    }

    /// What the server has to answer.
    fn calls(&self, state: &State, number: u8, actions: &mut Vec<Action>) {
        let process = &state.processes[usize::from(number)];
        let record = state.server.records.get(usize::from(process.id));
        if process.carried.is_some() {
            actions.push(Action::PutDown(number));
        }
        if matches!(process.wait, Waiting::Handed(_)) {
            actions.push(Action::ReserveWithWait(number));
        }
        if !process.side.is_empty() {
            actions.push(Action::SideSettle(number));
        }
        if process.recovery.is_some() && process.carried.is_none() {
            actions.push(Action::Recover(number));
        }
        if process.registered {
            if !state.server.scheduled.is_empty() && process.carried.is_none() {
                actions.push(Action::Promote(number));
            }
            if process.recovery.is_none() && self.guards.sweep {
                for (id, record) in (0..).zip(&state.server.records) {
                    let holds = !record.inbox.is_empty() || !record.progress.is_empty();
                    if record.known == Known::Dead && holds && id != process.id {
                        actions.push(Action::Sweep(number, id));
                    }
                }
            }
        }
        if process.registered {
            self.calls_of_parked(state, number, actions);
        }
        if process.answer.is_some() {
            return;
        }
        if !process.connected {
            actions.push(Action::Connect(number));
            return;
        }
        if !process.outbox.is_empty() {
            actions.push(Action::Settle(number));
        }
        let Some(record) = record else { return };
        if self.guards.compared_with_beat {
            let unseen = |lease| process.held(lease).is_none();
            // What is on its way is seen soon, unless it is delayed, which is a fault.
            let under_way = matches!(process.wait, Waiting::Handed(_) | Waiting::Answered(..));
            let under_way = under_way || matches!(process.unparking, Taking::Answered(..));
            if !under_way && record.progress.iter().any(|(lease, _)| unseen(*lease)) {
                actions.push(Action::Suspect(number));
            }
            for held in process.believed() {
                if !record.progress.iter().any(|(lease, _)| *lease == held.lease) {
                    actions.push(Action::Lose(number, held.lease));
                }
            }
        }
        let fresh = process.pulse < STALE || !self.guards.fenced_by_own_beat;
        if process.stopping {
            let done = process.table.is_empty() && process.side.is_empty();
            if done && process.outbox.is_empty() && process.wait == Waiting::No {
                actions.push(Action::Retire(number));
            }
        } else if fresh && process.carried.is_none() {
            let look = self.guards.compared_with_beat
                && !record.inbox.is_empty()
                && !matches!(process.wait, Waiting::Handed(_));
            if look || (process.room() > 0 && !state.server.jobs.is_empty()) {
                actions.push(Action::Reserve(number));
            }
            if process.room() > 0 && process.wait == Waiting::No && state.server.jobs.is_empty() {
                actions.push(Action::Wait(number));
            }
        }
    }

    fn calls_of_parked(&self, state: &State, number: u8, actions: &mut Vec<Action>) {
        let process = &state.processes[usize::from(number)];
        if matches!(process.unparking, Taking::Sent(_)) {
            actions.push(Action::TakeParkedArrives(number));
        }
        // For long no worker that runs has known it.
        let strange = |job| {
            let mut others = state.processes.iter().filter(|other| other.runs());
            others.all(|other| !other.knows(job))
        };
        if state.server.parked.first().is_some_and(|(_, job)| strange(*job)) {
            actions.push(Action::BreakParked(number));
        }
        let may = self.may_start(process) && process.room() > 0;
        if may && process.connected && process.can_take(&state.server).is_some() {
            actions.push(Action::TakeParked(number));
        }
    }

    /// Whether 1.5 s may pass: everyone who could beat has done so.
    pub(crate) fn may_tick(state: &State) -> bool {
        state.processes.iter().all(|process| {
            let excused = process.cut > 0 || (state.refusing && process.refused);
            // The server knows it, and it has not heard so yet.
            let beginning = !process.registered && process.answer.is_some();
            !process.runs() || !(process.due || beginning) || excused
        })
    }
}

/// What operators can do: look at a waiting or a failed job, and change what they saw, however long ago.
pub(crate) fn operators(state: &State, actions: &mut Vec<Action>) {
    if state.refusing {
        return;
    }
    let server = &state.server;
    if state.edits > 0 {
        let waiting = (0..).zip(server.jobs.iter().rev()).filter(|(_, job)| **job != HUSK);
        let waiting = waiting.map(|(before, job)| Seen::Waiting { job: *job, before });
        let failed = server.failed.iter().map(|job| Seen::Failed(*job));
        actions.extend(waiting.chain(failed).map(Action::See));
    }
    for (index, seen) in (0..).zip(&state.seen) {
        let edits: &[Edit] = match seen {
            Seen::Waiting { .. } => &[Edit::Delete, Edit::Promote],
            Seen::Failed(_) => &[Edit::Retry],
        };
        actions.extend(edits.iter().map(|edit| Action::Edit(index, *edit)));
    }
}
