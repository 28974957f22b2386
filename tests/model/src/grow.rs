//! A member that adds to its batch, and runs again where its worker dies; whoever looks after the batch, who gives up what nobody adds any more; and a
//! batch that is a member, whose callback adds to its parent.

use std::collections::{BTreeMap, BTreeSet};

/// What keeps it right, each of which can be taken out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)]
pub struct Guards {
    /// `add_batch.lua`: what was added under a name has the same numbers and the same token again.
    pub name_at_add: bool,
    /// `add_batch.lua`: one that has ended adds nothing.
    pub bit_at_add: bool,
    /// `add_batch.lua`: what has a number counts from then on.
    pub total_at_add: bool,
    /// `push_once.lua`: what is in does not come in again.
    pub field_at_push: bool,
    /// `push_once.lua`: what was given up does not come in any more.
    pub void_at_give_up: bool,
    /// `added_batch.lua`: what was given up of it is known, so that another run adds it.
    pub left_at_added: bool,
    /// `lib/batch.lua`: a parent is told of a batch when the callbacks of that have ended.
    pub callbacks_before_parent: bool,
}

impl Guards {
    /// All of it.
    pub const ALL: Self = Self {
        name_at_add: true,
        bit_at_add: true,
        total_at_add: true,
        field_at_push: true,
        void_at_give_up: true,
        left_at_added: true,
        callbacks_before_parent: true,
    };
}

/// What is checked.
#[derive(Debug, Clone)]
pub struct Grow {
    /// Jobs that it adds, each to a queue of its own.
    pub parts: u8,
    /// Workers that die while they run it.
    pub deaths: u8,
    /// Workers that lose it while they go on with it.
    pub stalls: u8,
    /// How often what is being added may be given up.
    pub give_ups: u8,
    /// The one that adds is the callback of a batch that is a member, and not a member itself.
    pub is_callback: bool,
    /// The protocol, whole or without something.
    pub guards: Guards,
}

/// The number of the member that adds, or whose callback does.
const ADDER: u8 = 0;

/// What was added under a name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Add {
    /// Its token, its first number, and its parts.
    Adding(u8, u8, BTreeSet<u8>),
    /// It is in, but for these parts.
    Added(BTreeSet<u8>),
}

/// The batch, at its server.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Batch {
    given: u8,
    total: u8,
    /// The bits: of those that have ended, and of those that were given up.
    done: BTreeSet<u8>,
    given_up: u8,
    /// By the name: how often parts of it were given up before.
    adds: BTreeMap<u8, Add>,
    tokens: u8,
    /// It is over.
    is_over: bool,
}

/// How far a run of the body is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Step {
    /// It asks for numbers for these parts under this name.
    Asks(u8, BTreeSet<u8>),
    /// It pushes those that are left: the name, the token, the first number, all parts, those that are left, and whether any was given up.
    Pushes(u8, u8, u8, BTreeSet<u8>, BTreeSet<u8>, bool),
    /// All that it adds is in, or it was told that it adds nothing.
    Over,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Run {
    step: Step,
    /// Its worker holds the lease.
    holds: bool,
    is_dead: bool,
}

/// What is being given up: the name, the token, the first number, all parts, those that are left, and those that will never be in.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct GivesUp(u8, u8, u8, BTreeSet<u8>, BTreeSet<u8>, BTreeSet<u8>);

/// What happens next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// The body begins, or begins again.
    Begin,
    /// `add_batch.lua`
    Ask(usize),
    /// `push_once.lua`
    Push(usize, u8),
    /// `added_batch.lua`
    Note(usize),
    /// It ends: `settle.lua`, and `apply_batch.lua`.
    End(usize),
    /// Its worker dies.
    Die(usize),
    /// Its worker loses the lease, and goes on.
    Lose(usize),
    /// Whoever looks after the batch begins to give up what is being added.
    GiveUp(u8),
    /// `push_once.lua`, to give a part up.
    Void(u8),
    /// `added_batch.lua`
    Gave,
    /// A member that was added ends.
    EndMember(u8),
    /// Without a guard: the parent is told before the callback has ended.
    TellEarly,
}

/// Everything at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct State {
    batch: Batch,
    runs: Vec<Run>,
    /// Of a token and a part: whether it is in, or was given up.
    pushed: BTreeMap<(u8, u8), bool>,
    /// The numbers of the members that wait, and how often each part was enqueued.
    waiting: Vec<u8>,
    enqueued: BTreeMap<u8, u8>,
    gives_up: Option<GivesUp>,
    /// A member was enqueued after the batch was over.
    came_late: bool,
    ended: bool,
    deaths: u8,
    stalls: u8,
    give_ups: u8,
}

impl Grow {
    /// Of so many parts.
    #[must_use]
    pub const fn new(parts: u8) -> Self {
        Self { parts, deaths: 0, stalls: 0, give_ups: 0, is_callback: false, guards: Guards::ALL }
    }

    /// Before anything: a batch that is sealed, whose one member is about to run.
    #[must_use]
    pub fn begin(&self) -> State {
        let (done, adds) = (BTreeSet::new(), BTreeMap::new());
        State {
            batch: Batch { given: 1, total: 1, done, given_up: 0, adds, tokens: 0, is_over: false },
            runs: Vec::new(),
            pushed: BTreeMap::new(),
            waiting: Vec::new(),
            enqueued: BTreeMap::new(),
            gives_up: None,
            came_late: false,
            ended: false,
            deaths: self.deaths,
            stalls: self.stalls,
            give_ups: self.give_ups,
        }
    }

    /// What can happen.
    pub fn possible(&self, state: &State, actions: &mut Vec<Action>) {
        if !state.ended && state.runs.iter().all(|run| !run.holds) {
            actions.push(Action::Begin);
        }
        for (at, run) in state.runs.iter().enumerate().filter(|(_, run)| !run.is_dead) {
            match &run.step {
                Step::Asks(..) => actions.push(Action::Ask(at)),
                Step::Pushes(.., left, _) if left.is_empty() => actions.push(Action::Note(at)),
                Step::Pushes(.., left, _) => {
                    actions.extend(left.iter().map(|part| Action::Push(at, *part)));
                }
                Step::Over if run.holds => actions.push(Action::End(at)),
                Step::Over => {}
            }
            if run.holds && state.deaths > 0 {
                actions.push(Action::Die(at));
            }
            if run.holds && state.stalls > 0 {
                actions.push(Action::Lose(at));
            }
        }
        match &state.gives_up {
            Some(GivesUp(.., left, _)) if left.is_empty() => actions.push(Action::Gave),
            Some(GivesUp(.., left, _)) => {
                actions.extend(left.iter().map(|part| Action::Void(*part)));
            }
            None => {
                let adding =
                    |(name, add): (&u8, &Add)| matches!(add, Add::Adding(..)).then_some(*name);
                // It goes on for ever; it is bounded while somebody is about to add.
                if state.give_ups > 0 || state.runs.iter().all(Run::is_still) {
                    let adding = state.batch.adds.iter().filter_map(adding);
                    actions.extend(adding.map(Action::GiveUp));
                }
            }
        }
        actions.extend(state.waiting.iter().map(|number| Action::EndMember(*number)));
        let is_early = self.is_callback && !self.guards.callbacks_before_parent;
        if is_early && !state.batch.done.contains(&ADDER) {
            actions.push(Action::TellEarly);
        }
    }

    /// What it leads to.
    #[must_use]
    pub fn next(&self, state: &State, action: Action) -> State {
        let mut next = state.clone();
        match action {
            Action::Begin => {
                let step = Step::Asks(0, (0..self.parts).collect());
                next.runs.push(Run { step, holds: true, is_dead: false });
            }
            Action::Ask(at) => {
                if let Step::Asks(name, parts) = next.runs[at].step.clone() {
                    next.runs[at].step = self.ask(&mut next, name, parts);
                }
            }
            Action::Push(at, part) => {
                if let Step::Pushes(_, token, first, parts, left, void) = &mut next.runs[at].step {
                    left.remove(&part);
                    let number = *first + parts.iter().position(|p| *p == part).unwrap_or(0) as u8;
                    let said = next.pushed.get(&(*token, part)).copied();
                    *void |= said == Some(false);
                    let key = (*token, part);
                    if said.is_none() || said == Some(true) && !self.guards.field_at_push {
                        next.pushed.insert(key, true);
                        next.waiting.push(number);
                        next.came_late |= next.batch.is_over;
                        *next.enqueued.entry(part).or_default() += 1;
                    }
                }
            }
            Action::Note(at) => {
                if let Step::Pushes(name, _, first, parts, _, void) = next.runs[at].step.clone() {
                    if void {
                        // The rest is settled by whoever gave it up; it asks again.
                        let is_settled =
                            matches!(next.batch.adds.get(&name), Some(Add::Added(_)) | None);
                        if is_settled {
                            next.runs[at].step = Step::Asks(name, parts);
                        }
                        return next;
                    }
                    self.added(&mut next.batch, name, first, &parts, &BTreeSet::new());
                    next.runs[at].step = Step::Over;
                }
            }
            Action::End(at) => {
                next.runs[at].holds = false;
                next.runs[at].is_dead = true;
                next.ended = true;
                Self::settle(&mut next.batch, ADDER);
            }
            Action::Die(at) => {
                next.deaths -= 1;
                (next.runs[at].holds, next.runs[at].is_dead) = (false, true);
            }
            Action::Lose(at) => {
                next.stalls -= 1;
                next.runs[at].holds = false;
            }
            Action::GiveUp(name) => {
                next.give_ups = next.give_ups.saturating_sub(1);
                if let Some(Add::Adding(token, first, parts)) = next.batch.adds.get(&name) {
                    let (all, left) = (parts.clone(), parts.clone());
                    next.gives_up = Some(GivesUp(name, *token, *first, all, left, BTreeSet::new()));
                }
            }
            Action::Void(part) => {
                if let Some(GivesUp(_, token, _, _, left, never)) = &mut next.gives_up {
                    left.remove(&part);
                    let said = next.pushed.get(&(*token, part)).copied();
                    if said.is_none() && self.guards.void_at_give_up {
                        next.pushed.insert((*token, part), false);
                    }
                    if said != Some(true) {
                        never.insert(part);
                    }
                }
            }
            Action::Gave => {
                if let Some(GivesUp(name, _, first, parts, _, never)) = next.gives_up.take() {
                    self.added(&mut next.batch, name, first, &parts, &never);
                }
            }
            Action::EndMember(number) => {
                let at = next.waiting.iter().position(|other| *other == number);
                at.map(|at| next.waiting.remove(at));
                Self::settle(&mut next.batch, number);
            }
            Action::TellEarly => Self::settle(&mut next.batch, ADDER),
        }
        next
    }

    /// `add_batch.lua`
    fn ask(&self, next: &mut State, name: u8, parts: BTreeSet<u8>) -> Step {
        let batch = &mut next.batch;
        match batch.adds.get(&name).filter(|_| self.guards.name_at_add) {
            Some(Add::Adding(token, first, parts)) => {
                return Step::Pushes(name, *token, *first, parts.clone(), parts.clone(), false);
            }
            Some(Add::Added(left)) if left.is_empty() || !self.guards.left_at_added => {
                return Step::Over;
            }
            Some(Add::Added(left)) => return Step::Asks(name + 1, left.clone()),
            None => {}
        }
        if batch.is_over || self.guards.bit_at_add && batch.done.contains(&ADDER) {
            return Step::Over;
        }
        let (token, first, count) = (batch.tokens, batch.given, parts.len() as u8);
        (batch.tokens, batch.given) = (token + 1, first + count);
        if self.guards.total_at_add {
            batch.total += count;
        }
        batch.adds.insert(name, Add::Adding(token, first, parts.clone()));
        Step::Pushes(name, token, first, parts.clone(), parts, false)
    }

    /// `added_batch.lua`
    fn added(
        &self,
        batch: &mut Batch,
        name: u8,
        first: u8,
        parts: &BTreeSet<u8>,
        never: &BTreeSet<u8>,
    ) {
        if !matches!(batch.adds.get(&name), Some(Add::Adding(_, is, _)) if *is == first) {
            return;
        }
        if !self.guards.total_at_add {
            batch.total += parts.len() as u8;
        }
        for (at, part) in parts.iter().enumerate() {
            if never.contains(part) && batch.done.insert(first + at as u8) {
                batch.total -= 1;
                batch.given_up += 1;
            }
        }
        if never.len() == parts.len() {
            batch.adds.remove(&name);
        } else {
            batch.adds.insert(name, Add::Added(never.clone()));
        }
        Self::look(batch);
    }

    fn settle(batch: &mut Batch, number: u8) {
        batch.done.insert(number);
        Self::look(batch);
    }

    /// It is over when as many have ended as there are.
    fn look(batch: &mut Batch) {
        batch.is_over |= batch.done.len() as u8 - batch.given_up >= batch.total;
    }
}

impl Run {
    /// It does nothing any more.
    fn is_still(&self) -> bool {
        self.is_dead || self.step == Step::Over || matches!(self.step, Step::Pushes(.., true))
    }
}

impl State {
    /// No job is added twice.
    #[must_use]
    pub fn none_is_added_twice(&self) -> bool {
        self.enqueued.values().all(|times| *times <= 1)
    }

    /// A batch is not over while members wait, or are about to be enqueued.
    #[must_use]
    pub fn is_not_over_early(&self) -> bool {
        !self.came_late && !(self.batch.is_over && (!self.waiting.is_empty() || !self.ended))
    }

    /// At the end everything was added, and the batch is over.
    #[must_use]
    pub fn nothing_is_left(&self, model: &Grow) -> bool {
        let mut actions = Vec::new();
        model.possible(self, &mut actions);
        // What it has not got yet it asks for again and again.
        actions.retain(|action| model.next(self, *action) != *self);
        !actions.is_empty() || self.enqueued.len() == usize::from(model.parts) && self.batch.is_over
    }
}
