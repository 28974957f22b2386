//! A model to be checked, or to walk through.

use crate::calls::Call;
use crate::guards::Guards;
use crate::possible::operators;
use crate::server::{Job, Record, Server};
use crate::state::{APART, Action, Allowed, Carried, Model, Process, State};

impl Model {
    /// The whole protocol, with two processes and these faults.
    #[must_use]
    pub fn new(jobs: u8, faults: u8, allowed: Allowed) -> Self {
        Self {
            workers: 2,
            slots: 1,
            jobs,
            retries: 0,
            edits: 0,
            faults,
            allowed,
            guards: Guards::ALL,
            symmetric: true,
            deploy: false,
            settling: crate::calm::Memo::default(),
        }
    }

    /// With attempts that end with a retry.
    #[must_use]
    pub fn retries(mut self, retries: u8) -> Self {
        self.retries = retries;
        self
    }

    /// With operators, who look at so many jobs in all and change them at any time later.
    #[must_use]
    pub fn edits(mut self, edits: u8) -> Self {
        self.edits = edits;
        self
    }

    /// With one process that has two slots, instead of two with one each.
    #[must_use]
    pub fn two_slots(mut self) -> Self {
        (self.workers, self.slots) = (1, 2);
        self
    }

    /// With one process of an old build, which does not know the first job. Processes that start later are of the new one.
    #[must_use]
    pub fn deploy(mut self) -> Self {
        self.deploy = true;
        self
    }

    /// The protocol without something.
    #[must_use]
    pub fn without(mut self, take_out: impl FnOnce(&mut Guards)) -> Self {
        take_out(&mut self.guards);
        // What is found is for people to read: nobody changes his name in between.
        self.symmetric = false;
        self
    }

    /// Where it all begins.
    #[must_use]
    pub fn begin(&self) -> State {
        let records = vec![Record::default(); usize::from(self.workers)];
        let process = |id| {
            let old = self.deploy && id == 0;
            Process { old, ..Process::new(id, self.slots) }
        };
        State {
            server: Server { records, ..Server::default() },
            processes: (0..self.workers).map(process).collect(),
            late: Vec::new(),
            seen: Vec::new(),
            refusing: false,
            sound: APART,
            enqueued: 0,
            retries: self.retries,
            edits: self.edits,
            faults: self.faults,
            started_after_end: false,
            doubled: false,
        }
    }

    /// What can happen next.
    pub fn possible(&self, state: &State, actions: &mut Vec<Action>) {
        if state.enqueued < self.jobs && !state.refusing {
            actions.push(Action::Enqueue);
        }
        for number in 0..self.workers {
            self.moves(state, number, actions);
        }
        operators(state, actions);
        if Self::may_tick(state) {
            actions.push(Action::Tick);
        }
        if state.refusing {
            actions.push(Action::Accept);
        } else {
            actions.extend((0..state.late.len() as u8).map(Action::Late));
        }
        self.faults(state, actions);
    }

    /// What is after something has happened.
    #[must_use]
    pub fn after(&self, state: &State, action: Action) -> State {
        let mut next = state.clone();
        self.moved(&mut next, action);
        next.hand_over();
        next
    }

    /// The same, for a checker: states that are alike are equal.
    #[must_use]
    pub fn next(&self, state: &State, action: Action) -> State {
        let mut next = self.after(state, action);
        next.normalise();
        if self.symmetric { next.canonical() } else { next }
    }
}

impl State {
    /// Whether a job was carried off a list and not put down yet, where that is no single step.
    #[must_use]
    pub fn carries(&self, job: Job) -> bool {
        self.processes.iter().any(|process| match &process.carried {
            Some(Carried::ToLeases(jobs) | Carried::ToList(jobs)) => jobs.contains(&job),
            None => false,
        })
    }

    /// Whether a body started although its job was settled.
    #[must_use]
    pub fn started_after_end(&self) -> bool {
        self.started_after_end
    }

    /// Whether two bodies of a job ran under leases that no fault had touched.
    #[must_use]
    pub fn doubled(&self) -> bool {
        self.doubled
    }

    /// The server.
    #[must_use]
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Has the server write down each call from now on.
    pub fn log_calls(&mut self) {
        self.server.log = Some(Vec::new());
    }

    /// The calls since this was last asked.
    pub fn take_calls(&mut self) -> Vec<Call> {
        self.server.log.as_mut().map(std::mem::take).unwrap_or_default()
    }
}
