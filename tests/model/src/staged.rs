//! A bulk of which all jobs come or none: its producer puts them aside, one after the other, and commits them. Answers are lost, calls come late, the
//! producer dies or gives up, what is put aside expires; a worker goes on with what is committed.

use std::collections::VecDeque;

/// What keeps it right, each of which can be taken out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)]
pub struct Guards {
    /// `stage.lua`: a job comes behind those that the producer has staged before.
    pub before_at_stage: bool,
    /// `stage.lua`: nothing comes behind the mark.
    pub mark_at_stage: bool,
    /// `commit.lua`: as many are there as the producer has staged.
    pub count_at_commit: bool,
    /// `commit.lua`: what has the mark is committed.
    pub mark_at_commit: bool,
    /// `lib/staged.lua`: a worker goes on.
    pub timer: bool,
    /// `lib/staged.lua`: the mark stays when all are moved.
    pub mark_stays: bool,
}

impl Guards {
    /// All of it.
    pub const ALL: Self = Self {
        before_at_stage: true,
        mark_at_stage: true,
        count_at_commit: true,
        mark_at_commit: true,
        timer: true,
        mark_stays: true,
    };
}

/// What is checked.
#[derive(Debug, Clone)]
pub struct Staged {
    /// How many jobs there are.
    pub jobs: u8,
    /// How many answers are lost.
    pub lost: u8,
    /// How many calls come late, when they were sent again already.
    pub late: u8,
    /// The protocol, whole or without something.
    pub guards: Guards,
}

/// The mark, among the jobs.
pub const MARK: u8 = u8::MAX;

/// What the producer asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Call {
    /// `stage.lua`, of this job.
    Stage(u8),
    /// `commit.lua`, which moves none.
    Commit,
    /// The same, which moves one.
    Move,
}

/// What it says in the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Said {
    All,
    None,
}

/// What happens next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// What the producer asks for is done, and it hears of it.
    Answered(Call),
    /// It hears nothing of it, and asks again.
    Lost(Call),
    /// It asks again before the call arrives.
    Delay(Call),
    /// Such a call arrives.
    Come(usize, Call),
    /// The producer dies.
    Die,
    /// It gives up, and takes away what it has staged.
    GiveUp,
    /// A worker goes on: `promote.lua`.
    GoOn,
    /// An hour is over.
    Expire,
}

/// Everything at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct State {
    /// What is put aside, and the mark.
    staged: VecDeque<u8>,
    /// It expires.
    expires: bool,
    /// A worker is to go on.
    timer: bool,
    /// What has come, in its order.
    queue: Vec<u8>,
    /// What the producer asks for, while it lives and asks.
    asks: Option<Call>,
    said: Option<Said>,
    late: Vec<Call>,
    may_lose: u8,
    may_delay: u8,
}

impl Staged {
    /// Of so many jobs.
    #[must_use]
    pub const fn new(jobs: u8) -> Self {
        Self { jobs, lost: 0, late: 0, guards: Guards::ALL }
    }

    /// Before anything.
    #[must_use]
    pub fn begin(&self) -> State {
        State {
            staged: VecDeque::new(),
            expires: false,
            timer: false,
            queue: Vec::new(),
            asks: Some(Call::Stage(0)),
            said: None,
            late: Vec::new(),
            may_lose: self.lost,
            may_delay: self.late,
        }
    }

    /// What can happen.
    pub fn possible(&self, state: &State, actions: &mut Vec<Action>) {
        if let Some(call) = state.asks {
            actions.extend([Action::Answered(call), Action::Die]);
            actions.extend((state.may_lose > 0).then_some(Action::Lost(call)));
            actions.extend((state.may_delay > 0).then_some(Action::Delay(call)));
            actions.extend(matches!(call, Call::Stage(_)).then_some(Action::GiveUp));
        }
        actions.extend(state.late.iter().enumerate().map(|(at, call)| Action::Come(at, *call)));
        actions.extend(state.timer.then_some(Action::GoOn));
        // No call is under way for an hour, and a producer that lives repeats a commit sooner.
        let is_open = state.staged.back().is_some_and(|last| *last != MARK);
        if state.expires && state.late.is_empty() && (is_open || state.asks.is_none()) {
            actions.push(Action::Expire);
        }
    }

    /// What it leads to.
    #[must_use]
    pub fn next(&self, state: &State, action: Action) -> State {
        let mut next = state.clone();
        match action {
            Action::Answered(call) => {
                let is_done = self.run(&mut next, call);
                next.asks = match (call, is_done) {
                    (Call::Stage(job), true) if job + 1 < self.jobs => Some(Call::Stage(job + 1)),
                    (Call::Stage(_), true) => Some(Call::Commit),
                    (Call::Commit, true) => {
                        next.said = Some(Said::All);
                        Some(Call::Move)
                    }
                    (Call::Move, true) if next.staged.len() > 1 => Some(Call::Move),
                    (Call::Move, _) => None,
                    (_, false) => {
                        next.said = Some(Said::None);
                        None
                    }
                };
            }
            Action::Lost(call) => {
                next.may_lose -= 1;
                self.run(&mut next, call);
            }
            Action::Delay(call) => {
                next.may_delay -= 1;
                next.late.push(call);
                next.late.sort_unstable();
            }
            Action::Come(at, call) => {
                next.late.remove(at);
                self.run(&mut next, call);
            }
            Action::Die => next.asks = None,
            Action::GiveUp => {
                (next.asks, next.said) = (None, Some(Said::None));
                next.staged.clear();
            }
            Action::GoOn => self.go_on(&mut next),
            Action::Expire => {
                next.staged.clear();
                next.expires = false;
            }
        }
        next
    }

    /// Whether the server does not say that it is gone.
    fn run(&self, next: &mut State, call: Call) -> bool {
        let (there, guards) = (next.staged.len(), self.guards);
        let is_marked = next.staged.back() == Some(&MARK);
        if let Call::Stage(job) = call {
            let before = usize::from(job);
            if guards.before_at_stage && there == before + 1 {
                return true;
            }
            if guards.before_at_stage && there != before || guards.mark_at_stage && is_marked {
                return false;
            }
            next.staged.push_back(job);
            next.expires = true;
            return true;
        }
        if !(guards.mark_at_commit && is_marked) {
            if guards.count_at_commit && there != usize::from(self.jobs) {
                return false;
            }
            next.staged.push_back(MARK);
            (next.expires, next.timer) = (false, guards.timer);
        }
        if call == Call::Move {
            self.go_on(next);
        }
        true
    }

    /// Moves one.
    fn go_on(&self, next: &mut State) {
        if next.staged.len() > 1 {
            next.queue.extend(next.staged.pop_front());
        }
        if next.staged.len() <= 1 {
            next.timer = false;
            next.expires = true;
            if !self.guards.mark_stays {
                next.staged.clear();
            }
        }
    }
}

impl State {
    /// What is put aside, and what has come: for tests that hold the scripts against it.
    #[must_use]
    pub fn at_the_server(&self) -> (Vec<u8>, Vec<u8>, bool) {
        (self.staged.iter().copied().collect(), self.queue.clone(), self.timer)
    }

    /// Each comes once, in its order.
    #[must_use]
    pub fn each_comes_once(&self) -> bool {
        self.queue.iter().zip(0..).all(|(job, place)| *job == place)
    }

    /// Where the producer says that none comes, none does; and at the end all have come, or none: all, if it says so.
    #[must_use]
    pub fn all_come_or_none(&self, model: &Staged) -> bool {
        let mut actions = Vec::new();
        model.possible(self, &mut actions);
        let (none, all) = (self.queue.is_empty(), self.queue.len() == usize::from(model.jobs));
        match self.said {
            Some(Said::None) => none,
            Some(Said::All) => all || !actions.is_empty(),
            None => none || all || !actions.is_empty(),
        }
    }
}
