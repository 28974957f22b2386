//! States that differ only in who is who count as one: processes are alike, and so are the lives that they have led.

use crate::server::{Id, Known};
use crate::state::{Late, Process, State, Up};

/// An id that is not used.
const NOBODY: Id = Id::MAX;

impl State {
    /// The same for all states that differ only in names.
    pub(crate) fn canonical(self) -> Self {
        let forward: Vec<_> = (0..self.processes.len()).collect();
        let mut order = forward.clone();
        order.sort_by(|one, other| {
            self.processes[*one].looks().cmp(&self.processes[*other].looks())
        });
        let arranged = self.arranged(&order);
        let looks = |index: &usize| self.processes[*index].looks();
        if !order.is_sorted_by(|one, other| looks(one) < looks(other)) {
            // Alike at first sight, they may differ in what else is there of them.
            order.reverse();
            return arranged.min(self.arranged(&order));
        }
        arranged
    }

    /// The processes in this order, their ids counted in the same one, and then those that nobody has any more.
    fn arranged(&self, order: &[usize]) -> Self {
        let records = &self.server.records;
        let mut names = vec![NOBODY; records.len()];
        let mut arranged = Vec::with_capacity(records.len());
        for process in order.iter().map(|index| &self.processes[*index]) {
            if process.up != Up::Down {
                names[usize::from(process.id)] = arranged.len() as Id;
                arranged.push(records[usize::from(process.id)].clone());
            }
        }
        let mut others: Vec<_> = (0..records.len())
            .filter(|id| names[*id] == NOBODY && self.matters(*id as Id))
            .collect();
        others.sort_by_key(|id| &records[*id]);
        for id in others {
            names[id] = arranged.len() as Id;
            arranged.push(records[id].clone());
        }
        let rename = |id: &mut Id| *id = names.get(usize::from(*id)).copied().unwrap_or(NOBODY);

        let mut state = self.clone();
        state.server.records = arranged;
        state.server.waits.iter_mut().for_each(|wait| rename(&mut wait.id));
        for late in &mut state.late {
            match late {
                Late::Reserve { id, .. }
                | Late::Settle { id, .. }
                | Late::Recover { id, .. }
                | Late::Reconcile { id }
                | Late::Wait { id, .. } => rename(id),
            }
        }
        state.late.sort_unstable();
        state.processes = order.iter().map(|index| self.processes[*index].clone()).collect();
        for process in &mut state.processes {
            rename(&mut process.id);
            if let Some(recovery) = &mut process.recovery {
                rename(&mut recovery.id);
            }
            let watched = std::mem::take(&mut process.watched);
            for (name, count) in names.iter().zip(watched) {
                if *name != NOBODY && count > 0 {
                    *process.watched(*name) = count;
                }
            }
        }
        state
    }

    /// Whether anything can still happen in the name of this life of a worker, which no process leads any more.
    fn matters(&self, id: Id) -> bool {
        let record = &self.server.records[usize::from(id)];
        let called = self.late.iter().any(|late| late.id() == id)
            || self.server.waits.iter().any(|wait| wait.id == id);
        let recovered = self
            .processes
            .iter()
            .any(|process| process.recovery.as_ref().is_some_and(|recovery| recovery.id == id));
        let holds = !record.progress.is_empty() || !record.inbox.is_empty();
        record.known == Known::Alive || holds || called || recovered
    }
}

impl Process {
    /// What there is of a process but for ids.
    fn looks(&self) -> impl Ord + use<'_> {
        let flags = (self.stopping, self.registered, self.connected, self.due, self.refused);
        let numbers = (self.up, self.pulse, self.cut, self.session, self.excused);
        let under_way = (&self.answer, &self.wait, &self.outbox, &self.side, &self.carried);
        (flags, numbers, &self.table, under_way, self.recovery.as_ref().map(|it| &it.step))
    }
}
