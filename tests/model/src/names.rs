//! States that differ only in names count as one: tokens and sessions are only compared, processes are alike, and so are
//! the lives that they have led.

use crate::server::{Id, Known, Lease, OLD, Seen};
use crate::state::{Answer, Late, Process, Recovery, State, Step, Taking, Up, Waiting};

/// An id that is not used.
const NOBODY: Id = Id::MAX;

impl State {
    /// Makes states alike that differ only in names: tokens are counted anew, and what nobody will look at is wiped.
    pub(crate) fn normalise(&mut self) {
        self.late.sort_unstable();
        self.seen.sort_unstable();
        self.server.failed.sort_unstable();
        if self.edits == 0 {
            let seen = &self.seen;
            self.server.failed.retain(|job| seen.contains(&Seen::Failed(*job)));
        }
        self.rename_tokens();
        self.rename_sessions();
        let waited = |id: Id, state: &Self| state.server.waits.iter().any(|wait| wait.id == id);
        for id in 0..self.server.records.len() {
            let quiet = !waited(id as Id, self);
            let record = &mut self.server.records[id];
            if record.known == Known::Dead {
                record.heard = OLD;
                if quiet {
                    record.session = 0;
                }
                for process in &mut self.processes {
                    if let Some(watched) = process.watched.get_mut(id) {
                        *watched = 0;
                    }
                }
            }
        }
        for process in &mut self.processes {
            while process.watched.last() == Some(&0) {
                process.watched.pop();
            }
        }
    }

    fn rename_tokens(&mut self) {
        let mut seen = [false; 256];
        self.each_token(&mut |token| seen[usize::from(*token)] = true);
        let mut names = [0; 256];
        let mut last = 0;
        for (name, seen) in names.iter_mut().zip(seen) {
            if seen {
                last += 1;
                *name = last;
            }
        }
        self.each_token(&mut |token| *token = names[usize::from(*token)]);
        self.server.token = last;
    }

    /// The same for the sessions of each id.
    fn rename_sessions(&mut self) {
        for id in 0..self.server.records.len() {
            let mut seen: Vec<u8> = Vec::new();
            self.each_session(id as Id, &mut |session| seen.push(*session));
            // None is 0.
            seen.push(0);
            seen.sort_unstable();
            seen.dedup();
            self.each_session(id as Id, &mut |session| {
                *session = seen.partition_point(|other| *other < *session) as u8;
            });
        }
    }

    fn each_session(&mut self, id: Id, visit: &mut impl FnMut(&mut u8)) {
        visit(&mut self.server.records[usize::from(id)].session);
        for wait in self.server.waits.iter_mut().filter(|wait| wait.id == id) {
            visit(&mut wait.session);
        }
        for late in &mut self.late {
            match late {
                Late::Reserve { id: other, session, .. }
                | Late::Wait { id: other, session, .. }
                | Late::TakeParked { id: other, session, .. }
                    if *other == id =>
                {
                    visit(session);
                }
                _ => {}
            }
        }
        for process in self.processes.iter_mut().filter(|process| process.id == id) {
            visit(&mut process.session);
            if let Waiting::Handed(session) | Waiting::Answered(session, _) = &mut process.wait {
                visit(session);
            }
            if let Some(Answer::Session { session, .. }) = &mut process.answer {
                visit(session);
            }
            if let Taking::Sent(session) | Taking::Answered(session, _) = &mut process.unparking {
                visit(session);
            }
        }
    }

    fn each_token(&mut self, visit: &mut impl FnMut(&mut Lease)) {
        for record in &mut self.server.records {
            record.progress.iter_mut().for_each(|(lease, _)| visit(lease));
        }
        self.server.parked.iter_mut().for_each(|(token, _)| visit(token));
        for late in &mut self.late {
            match late {
                Late::TakeParked { token, .. } => visit(token),
                Late::Settle { lease, .. } => visit(lease),
                Late::Recover { chunk, .. } => chunk.iter_mut().for_each(&mut *visit),
                _ => {}
            }
        }
        for process in &mut self.processes {
            process.table.iter_mut().for_each(|held| visit(&mut held.lease));
            process.outbox.iter_mut().for_each(|(lease, ..)| visit(lease));
            process.side.iter_mut().for_each(|(lease, ..)| visit(lease));
            process.looked.iter_mut().for_each(&mut *visit);
            process.wants.iter_mut().for_each(&mut *visit);
            for answer in process.answers() {
                match answer {
                    Answer::Jobs(jobs) => jobs.iter_mut().for_each(|(lease, _)| visit(lease)),
                    Answer::Session { leases, believed, .. } => {
                        for (lease, _) in leases {
                            visit(lease);
                        }
                        believed.iter_mut().for_each(&mut *visit);
                    }
                    Answer::Void | Answer::Stale => {}
                }
            }
            if let Some(Recovery { step: Step::Chunks(leases), .. }) = &mut process.recovery {
                leases.iter_mut().for_each(&mut *visit);
            }
        }
    }
}

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
                | Late::TakeParked { id, .. }
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
    fn answers(&mut self) -> impl Iterator<Item = &mut Answer> {
        let unparking = self.unparking.answer();
        let answers = [self.answer.as_mut(), self.wait.answer(), unparking];
        answers.into_iter().flatten()
    }

    /// What there is of a process but for ids.
    fn looks(&self) -> impl Ord + use<'_> {
        let flags = (self.stopping, self.registered, self.connected, self.due, self.refused);
        let numbers = (self.up, self.pulse, self.cut, self.session, self.excused);
        let under_way = (&self.answer, &self.wait, &self.outbox, &self.side, &self.carried);
        let parked = (self.old, self.looked, &self.unparking, self.wants);
        let recovery = self.recovery.as_ref().map(|it| &it.step);
        (flags, numbers, &self.table, parked, under_way, recovery)
    }
}
