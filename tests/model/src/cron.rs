//! What runs again and again, as a model of its own: any number of processes look, compute and fire, lose answers and die.
//!
//! Times are counted from 1. An entry is due at each of them, and makes up for all that it missed.

/// How many processes there are.
pub const PROCESSES: u8 = 2;

/// What is checked.
#[derive(Debug, Clone)]
pub struct Cron {
    /// The last time.
    pub last: u8,
    /// Changes of the entry.
    pub changes: u8,
    /// Answers that are lost.
    pub lost: u8,
    /// `fire.lua` compares with what the caller read. It can be taken out.
    pub compares: bool,
}

/// What happens next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// The clock goes on.
    Tick,
    /// `promote.lua` tells a process of an entry that is due.
    Look(u8),
    /// `fire.lua`; its answer comes, or does not.
    Fire(u8, bool),
    /// A process dies, and another takes its place.
    Die(u8),
    /// `cron.lua`, or `declare.lua`: the entry is another from now on.
    Change,
}

/// Everything at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct State {
    now: u8,
    next: u8,
    version: u8,
    /// What each process read: when it was due, of which version, and what the time was.
    read: Vec<Option<(u8, u8, u8)>>,
    /// How often each time was taken in.
    ran: Vec<u8>,
    /// The times that a change passed over.
    passed: Vec<bool>,
    lost: u8,
}

impl Cron {
    /// Before anything.
    #[must_use]
    pub fn begin(&self) -> State {
        let times = usize::from(self.last) + 1;
        State {
            now: 0,
            next: 1,
            version: 0,
            read: vec![None; usize::from(PROCESSES)],
            ran: vec![0; times],
            passed: vec![false; times],
            lost: self.lost,
        }
    }

    /// What can happen.
    pub fn possible(&self, state: &State, actions: &mut Vec<Action>) {
        if state.now < self.last {
            actions.push(Action::Tick);
        }
        if state.version < self.changes {
            actions.push(Action::Change);
        }
        for (p, read) in (0..).zip(&state.read) {
            if read.is_some() {
                actions.extend([Action::Fire(p, true), Action::Die(p)]);
                if state.lost > 0 {
                    actions.push(Action::Fire(p, false));
                }
            } else if state.next <= state.now {
                actions.push(Action::Look(p));
            }
        }
    }

    /// What it leads to.
    #[must_use]
    pub fn next(&self, state: &State, action: Action) -> State {
        let mut next = state.clone();
        match action {
            Action::Tick => next.now += 1,
            Action::Look(p) => {
                next.read[usize::from(p)] = Some((state.next, state.version, state.now));
            }
            Action::Die(p) => next.read[usize::from(p)] = None,
            Action::Change => {
                for due in state.next..=state.now {
                    next.passed[usize::from(due)] = true;
                }
                next.version += 1;
                next.next = state.now + 1;
            }
            Action::Fire(p, answered) => {
                let Some((due, version, now)) = state.read[usize::from(p)] else { return next };
                if !self.compares || due == state.next && version == state.version {
                    for due in due..=now {
                        next.ran[usize::from(due)] += 1;
                    }
                    next.next = now + 1;
                }
                if answered {
                    next.read[usize::from(p)] = None;
                } else {
                    // It tries again.
                    next.lost -= 1;
                }
            }
        }
        next
    }
}

impl State {
    /// No time is taken in twice.
    #[must_use]
    pub fn none_runs_twice(&self) -> bool {
        self.ran.iter().all(|ran| *ran <= 1)
    }

    /// Each time before the next was taken in, unless a change passed over it.
    #[must_use]
    pub fn none_is_left_out(&self) -> bool {
        (1..self.next).map(usize::from).all(|due| self.ran[due] > 0 || self.passed[due])
    }
}
