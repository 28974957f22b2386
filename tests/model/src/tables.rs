//! What programs declare in their code, as a model of its own: which table is in force while releases come and go.
//!
//! Tables are numbered by when the server first saw them. A table lives as long as a worker has it; the server learns of its end later.

/// What is checked.
#[derive(Debug, Clone)]
pub struct Tables {
    /// Which table each worker has.
    pub workers: Vec<u8>,
    /// Workers that end.
    pub ends: u8,
    /// A worker whose table is not the newest that lives leaves what is in force. It can be taken out.
    pub compares: bool,
    /// A worker whose table is to be in force and is not says so with its heartbeat. It can be taken out.
    pub heartbeats: bool,
}

/// What happens next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// A worker starts: `declare.lua`.
    Start(u8),
    /// Its heartbeat, and `declare.lua` where that says so.
    Beat(u8),
    /// It ends.
    End(u8),
    /// Nobody has told of a table for 15 s.
    Fade(u8),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Up {
    Not,
    Runs,
    Ended,
}

/// Everything at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct State {
    workers: Vec<Up>,
    /// Tables in the order in which the server first saw them.
    first: Vec<u8>,
    /// Those of which somebody told within 15 s.
    live: Vec<u8>,
    force: Option<u8>,
    /// Something newer was in force while it lived, and was taken back.
    taken_back: bool,
}

impl Tables {
    /// Before anything.
    #[must_use]
    pub fn begin(&self) -> State {
        State {
            workers: vec![Up::Not; self.workers.len()],
            first: Vec::new(),
            live: Vec::new(),
            force: None,
            taken_back: false,
        }
    }

    /// What can happen.
    pub fn possible(&self, state: &State, actions: &mut Vec<Action>) {
        let ended = state.workers.iter().filter(|up| **up == Up::Ended).count();
        for (w, up) in (0..).zip(&state.workers) {
            match up {
                Up::Not => actions.push(Action::Start(w)),
                Up::Runs => {
                    actions.push(Action::Beat(w));
                    if ended < usize::from(self.ends) {
                        actions.push(Action::End(w));
                    }
                }
                Up::Ended => {}
            }
        }
        let fades = state.live.iter().filter(|table| !self.has_worker(state, **table));
        actions.extend(fades.map(|table| Action::Fade(*table)));
    }

    fn has_worker(&self, state: &State, table: u8) -> bool {
        let mut workers = state.workers.iter().zip(&self.workers);
        workers.any(|(up, has)| *up == Up::Runs && *has == table)
    }

    /// What it leads to.
    #[must_use]
    pub fn next(&self, state: &State, action: Action) -> State {
        let mut next = state.clone();
        match action {
            Action::Start(w) => {
                next.workers[usize::from(w)] = Up::Runs;
                self.declare(&mut next, self.workers[usize::from(w)]);
            }
            Action::Beat(w) => {
                let table = self.workers[usize::from(w)];
                if !next.live.contains(&table) {
                    next.live.push(table);
                    next.live.sort_unstable();
                }
                if self.heartbeats && next.force != Some(table) && next.is_to_be(table) {
                    self.declare(&mut next, table);
                }
            }
            Action::End(w) => next.workers[usize::from(w)] = Up::Ended,
            Action::Fade(table) => next.live.retain(|live| *live != table),
        }
        next
    }

    fn declare(&self, state: &mut State, table: u8) {
        if !state.first.contains(&table) {
            state.first.push(table);
        }
        if !state.live.contains(&table) {
            state.live.push(table);
            state.live.sort_unstable();
        }
        if self.compares && state.newest() != Some(table) {
            return;
        }
        let newer = |force: u8| state.live.contains(&force) && state.age(force) > state.age(table);
        state.taken_back |= state.force.is_some_and(newer);
        state.force = Some(table);
    }

    /// After a heartbeat of each worker the newest table that lives is in force.
    #[must_use]
    pub fn newest_comes_into_force(&self, state: &State) -> bool {
        let mut calm = state.clone();
        calm.live.retain(|table| self.has_worker(state, *table));
        for _ in 0..2 {
            for w in 0..self.workers.len() {
                if state.workers[w] == Up::Runs {
                    calm = self.next(&calm, Action::Beat(w as u8));
                }
            }
        }
        calm.live.is_empty() || calm.force == calm.newest()
    }
}

impl State {
    fn age(&self, table: u8) -> usize {
        self.first.iter().position(|first| *first == table).unwrap_or(0)
    }

    fn newest(&self) -> Option<u8> {
        self.live.iter().copied().max_by_key(|table| self.age(*table))
    }

    /// As `heartbeat.lua` sees it: what is in force has no worker, or is older.
    fn is_to_be(&self, table: u8) -> bool {
        let is_over = |force: u8| !self.live.contains(&force) || self.age(table) > self.age(force);
        self.force.is_none_or(is_over)
    }

    /// An old release takes nothing back.
    #[must_use]
    pub fn nothing_is_taken_back(&self) -> bool {
        !self.taken_back
    }
}
