//! Notes of jobs that belong to a batch, and the callbacks that follow from them, as a model of its own: a batch and its queue on servers apart, workers
//! that lose answers, fail, stand still and die, and a batch whose server falls back to what it was.

use std::collections::{BTreeMap, BTreeSet};

/// What keeps it right, each of which can be taken out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)]
pub struct Guards {
    /// The script that removes the lease writes the note.
    pub note_in_settle: bool,
    /// A settlement that came late writes none.
    pub lease_at_settle: bool,
    /// A member that was counted is not counted again.
    pub bit_at_apply: bool,
    /// A batch has not ended before it is sealed.
    pub seal_at_apply: bool,
    /// What is still due comes back, whoever made it due.
    pub due_at_apply: bool,
    /// A callback that was pushed is not pushed again.
    pub field_at_push: bool,
    /// A note is dropped when all that follows from it is in.
    pub push_before_drop: bool,
    /// Workers deliver notes that others have left.
    pub look: bool,
    /// What was delivered to a server is delivered to the one in its place.
    pub delivered_again: bool,
}

impl Guards {
    /// All of it.
    pub const ALL: Self = Self {
        note_in_settle: true,
        lease_at_settle: true,
        bit_at_apply: true,
        seal_at_apply: true,
        due_at_apply: true,
        field_at_push: true,
        push_before_drop: true,
        look: true,
        delivered_again: true,
    };
}

/// What is checked.
#[derive(Debug, Clone)]
pub struct Relay {
    /// How many jobs belong to the batch.
    pub members: usize,
    /// They are added one after the other while the first run.
    pub is_open: bool,
    /// How many workers there are.
    pub workers: usize,
    /// Jobs that fail for good.
    pub failures: u8,
    /// Failed jobs that a person has run again.
    pub requeues: u8,
    /// Answers that are lost.
    pub lost: u8,
    /// Workers that die.
    pub deaths: u8,
    /// Workers that are declared dead while they only stand still.
    pub stalls: u8,
    /// Servers of the batch that fall back to an earlier state.
    pub failovers: u8,
    /// The protocol, whole or without something.
    pub guards: Guards,
}

/// The end of a member: it stands beside its queue until everything that follows from it is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Note {
    /// The worker that held the lease.
    pub of: usize,
    /// Whose end it is.
    pub member: usize,
    /// It succeeded.
    pub good: bool,
    /// How often the member had ended before.
    pub before: u8,
}

/// What is enqueued when something is true of the batch, by the name that its server has for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Callback {
    /// The first member failed.
    Failure,
    /// All have ended.
    Settled,
    /// All have succeeded.
    Success,
}

impl Callback {
    /// As the scripts call it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Failure => "failure",
            Self::Settled => "settled",
            Self::Success => "success",
        }
    }
}

const CALLBACKS: [Callback; 3] = [Callback::Failure, Callback::Settled, Callback::Success];

/// What happens next. The last field of some: the answer comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// `add_batch.lua`: the next member is enqueued.
    Add,
    /// `seal_batch.lua`: no more follow.
    Seal,
    /// The keeper of the timer pushes what is due.
    Mind(Callback),
    /// `reserve.lua`: a worker takes a member.
    Reserve(usize, usize),
    /// `settle.lua`: it ends, well or not.
    End(usize, usize, bool, bool),
    /// Without a guard: the note that the settlement did not write.
    Write(usize, Note),
    /// `apply_batch.lua`
    Apply(usize, Note, bool),
    /// `push_once.lua`
    Push(usize, Note, Callback, bool),
    /// `did_batch.lua`
    Did(usize, Note, Callback, bool),
    /// `settle.lua`: a note is dropped.
    Drop(usize, Note),
    /// A person has a failed member run again.
    Requeue(usize),
    /// It dies.
    Die(usize),
    /// It stands still.
    Stall(usize),
    /// `recover.lua`: its members wait again.
    Recover(usize),
    /// It reads the notes that there are.
    Look(usize),
    /// The server of the batch has a replica with all of this.
    Replicate,
    /// The replica takes its place.
    FailOver,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Life {
    Lives,
    Stalled,
    Dead,
}

/// How far a worker is with a note.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Step {
    Known,
    /// The first that are still to be pushed, and those of which the batch is to be told that.
    Applied(BTreeSet<Callback>, BTreeSet<Callback>),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Worker {
    life: Life,
    /// What it held was given back.
    recovered: bool,
    /// The members whose bodies run.
    runs: BTreeSet<usize>,
    /// In its memory.
    notes: BTreeMap<Note, Step>,
    /// What it has delivered, in its memory.
    delivered: BTreeSet<Note>,
    /// Without a guard: what it has yet to write.
    unwritten: BTreeSet<Note>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Member {
    waits: bool,
    lease: Option<usize>,
    ends: u8,
    /// How it ended last.
    good: Option<bool>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Stands {
    Waits,
    Due,
    Pushed,
}

/// The batch, at its server.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Batch {
    total: usize,
    sealed: bool,
    done: BTreeSet<usize>,
    bad: BTreeSet<usize>,
    settled: u8,
    bads: u8,
    callbacks: [Stands; 3],
}

/// Everything at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct State {
    members: Vec<Member>,
    workers: Vec<Worker>,
    /// At the server of the queue.
    notes: BTreeSet<Note>,
    batch: Batch,
    replica: Option<Box<Batch>>,
    /// Beside the queue of the callbacks: what was pushed there.
    pushed: BTreeSet<Callback>,
    /// How often each was enqueued.
    enqueued: [u8; 3],
    failures: u8,
    requeues: u8,
    lost: u8,
    deaths: u8,
    stalls: u8,
    failovers: u8,
}

impl Relay {
    /// A batch of so many members, and so many workers.
    #[must_use]
    pub const fn new(members: usize, workers: usize) -> Self {
        Self {
            members,
            is_open: false,
            workers,
            failures: 0,
            requeues: 0,
            lost: 0,
            deaths: 0,
            stalls: 0,
            failovers: 0,
            guards: Guards::ALL,
        }
    }

    /// Before anything.
    #[must_use]
    pub fn begin(&self) -> State {
        let worker = Worker {
            life: Life::Lives,
            recovered: false,
            runs: BTreeSet::new(),
            notes: BTreeMap::new(),
            delivered: BTreeSet::new(),
            unwritten: BTreeSet::new(),
        };
        let batch = Batch {
            total: if self.is_open { 0 } else { self.members },
            sealed: !self.is_open,
            done: BTreeSet::new(),
            bad: BTreeSet::new(),
            settled: 0,
            bads: 0,
            callbacks: [Stands::Waits; 3],
        };
        let member = Member { waits: !self.is_open, lease: None, ends: 0, good: None };
        State {
            members: vec![member; self.members],
            workers: vec![worker; self.workers],
            notes: BTreeSet::new(),
            batch,
            replica: None,
            pushed: BTreeSet::new(),
            enqueued: [0; 3],
            failures: self.failures,
            requeues: self.requeues,
            lost: self.lost,
            deaths: self.deaths,
            stalls: self.stalls,
            failovers: self.failovers,
        }
    }

    /// What can happen.
    pub fn possible(&self, state: &State, actions: &mut Vec<Action>) {
        for (m, member) in state.members.iter().enumerate() {
            if member.good == Some(false) && state.requeues > 0 {
                actions.push(Action::Requeue(m));
            }
        }
        for (w, worker) in state.workers.iter().enumerate() {
            self.possible_of(state, w, worker, actions);
        }
        if !state.batch.sealed {
            let is_whole = state.batch.total == self.members;
            actions.push(if is_whole { Action::Seal } else { Action::Add });
        }
        if self.is_open {
            let due = CALLBACKS.iter().filter(|callback| state.stands(**callback) == Stands::Due);
            actions.extend(due.map(|callback| Action::Mind(*callback)));
        }
        if state.failovers > 0 {
            actions.push(if state.replica.is_none() {
                Action::Replicate
            } else {
                Action::FailOver
            });
        }
    }

    fn possible_of(&self, state: &State, w: usize, worker: &Worker, actions: &mut Vec<Action>) {
        if worker.life != Life::Dead {
            Self::ends(state, w, worker, actions);
            actions.extend(worker.unwritten.iter().map(|note| Action::Write(w, *note)));
            self.relays(state, w, worker, actions);
        }
        if worker.life == Life::Lives {
            let waiting = state.members.iter().enumerate().filter(|(_, member)| member.waits);
            actions.extend(waiting.map(|(m, _)| Action::Reserve(w, m)));
            if self.guards.look && state.left().next().is_some() {
                actions.push(Action::Look(w));
            }
            if state.deaths > 0 {
                actions.push(Action::Die(w));
            }
            if state.stalls > 0 {
                actions.push(Action::Stall(w));
            }
        } else if !worker.recovered {
            actions.push(Action::Recover(w));
        }
    }

    fn ends(state: &State, w: usize, worker: &Worker, actions: &mut Vec<Action>) {
        for m in &worker.runs {
            for good in [true, false] {
                if good || state.failures > 0 {
                    actions.push(Action::End(w, *m, good, true));
                    if state.lost > 0 {
                        actions.push(Action::End(w, *m, good, false));
                    }
                }
            }
        }
    }

    fn relays(&self, state: &State, w: usize, worker: &Worker, actions: &mut Vec<Action>) {
        let answers: &[bool] = if state.lost > 0 { &[true, false] } else { &[true] };
        for (note, step) in &worker.notes {
            for answered in answers {
                match step {
                    Step::Known => actions.push(Action::Apply(w, *note, *answered)),
                    Step::Applied(push, did) => {
                        let push = push.iter().map(|c| Action::Push(w, *note, *c, *answered));
                        actions.extend(push);
                        actions.extend(did.iter().map(|c| Action::Did(w, *note, *c, *answered)));
                    }
                }
            }
            if let Step::Applied(push, did) = step {
                let all = push.is_empty() && did.is_empty();
                if all || !self.guards.push_before_drop {
                    actions.push(Action::Drop(w, *note));
                }
            }
        }
    }

    /// What it leads to.
    #[must_use]
    pub fn next(&self, state: &State, action: Action) -> State {
        let mut next = state.clone();
        match action {
            Action::Add => {
                next.members[next.batch.total].waits = true;
                next.batch.total += 1;
            }
            Action::Seal => {
                next.batch.sealed = true;
                self.tell(&mut next.batch);
            }
            Action::Mind(callback) => {
                self.push(&mut next, callback);
                next.batch.callbacks[callback as usize] = Stands::Pushed;
            }
            Action::Reserve(w, m) => {
                (next.members[m].waits, next.members[m].lease) = (false, Some(w));
                next.workers[w].runs.insert(m);
            }
            Action::End(w, m, good, answered) => {
                next.lost -= u8::from(!answered);
                next.failures -= u8::from(!good);
                next.workers[w].runs.remove(&m);
                self.settle(&mut next, w, m, good, answered);
            }
            Action::Write(w, note) => {
                next.workers[w].unwritten.remove(&note);
                next.notes.insert(note);
                next.workers[w].notes.insert(note, Step::Known);
            }
            Action::Look(w) => {
                next.workers[w].notes.extend(state.left().map(|note| (note, Step::Known)));
            }
            Action::Apply(w, note, answered) => {
                next.lost -= u8::from(!answered);
                let due = self.apply(&mut next.batch, note);
                if answered {
                    next.workers[w].notes.insert(note, Step::Applied(due, BTreeSet::new()));
                }
            }
            Action::Push(w, note, callback, answered) => {
                next.lost -= u8::from(!answered);
                self.push(&mut next, callback);
                if let (Some(Step::Applied(push, did)), true) =
                    (next.workers[w].notes.get_mut(&note), answered)
                {
                    push.remove(&callback);
                    did.insert(callback);
                }
            }
            Action::Did(w, note, callback, answered) => {
                next.lost -= u8::from(!answered);
                next.batch.callbacks[callback as usize] = Stands::Pushed;
                if let (Some(Step::Applied(_, did)), true) =
                    (next.workers[w].notes.get_mut(&note), answered)
                {
                    did.remove(&callback);
                }
            }
            Action::Drop(w, note) => {
                next.workers[w].notes.remove(&note);
                next.notes.remove(&note);
                if state.failovers > 0 {
                    next.workers[w].delivered.insert(note);
                }
            }
            Action::Requeue(m) => {
                next.requeues -= 1;
                (next.members[m].waits, next.members[m].good) = (true, None);
            }
            _ => self.strike(&mut next, action),
        }
        next
    }

    /// What befalls workers and servers, and what is done about it.
    fn strike(&self, next: &mut State, action: Action) {
        match action {
            Action::Die(w) => {
                next.deaths -= 1;
                let worker = &mut next.workers[w];
                worker.life = Life::Dead;
                worker.runs.clear();
                worker.notes.clear();
                worker.unwritten.clear();
            }
            Action::Stall(w) => {
                next.stalls -= 1;
                next.workers[w].life = Life::Stalled;
            }
            Action::Recover(w) => {
                next.workers[w].recovered = true;
                for member in next.members.iter_mut().filter(|member| member.lease == Some(w)) {
                    (member.waits, member.lease) = (true, None);
                }
            }
            Action::Replicate => next.replica = Some(Box::new(next.batch.clone())),
            Action::FailOver => {
                next.failovers -= 1;
                if let Some(replica) = next.replica.take() {
                    next.batch = *replica;
                }
                if !self.guards.delivered_again {
                    return;
                }
                for worker in next.workers.iter_mut().filter(|worker| worker.life != Life::Dead) {
                    let delivered = std::mem::take(&mut worker.delivered);
                    // What is under way is begun anew.
                    let again: Vec<_> = worker.notes.keys().copied().chain(delivered).collect();
                    worker.notes.extend(again.into_iter().map(|note| (note, Step::Known)));
                }
            }
            _ => {}
        }
    }

    /// `settle.lua`
    fn settle(&self, next: &mut State, w: usize, m: usize, good: bool, answered: bool) {
        let member = &mut next.members[m];
        let held = member.lease == Some(w);
        if !held && self.guards.lease_at_settle {
            return;
        }
        let note = Note { of: w, member: m, good, before: member.ends };
        if held {
            member.lease = None;
            (member.ends, member.good) = (member.ends + 1, Some(good));
        }
        let worker = &mut next.workers[w];
        if !self.guards.note_in_settle {
            worker.unwritten.insert(note);
            return;
        }
        if answered {
            worker.notes.insert(note, Step::Known);
        }
        next.notes.insert(note);
    }

    /// `push_once.lua`
    fn push(&self, next: &mut State, callback: Callback) {
        if next.pushed.insert(callback) || !self.guards.field_at_push {
            next.enqueued[callback as usize] += 1;
        }
    }

    /// What is true now becomes due, once.
    fn tell(&self, batch: &mut Batch) {
        let is_sealed = batch.sealed || !self.guards.seal_at_apply;
        let all = is_sealed && usize::from(batch.settled) >= batch.total;
        for (callback, is_true) in [(0, batch.bads > 0), (1, all), (2, all && batch.bads == 0)] {
            if is_true && batch.callbacks[callback] == Stands::Waits {
                batch.callbacks[callback] = Stands::Due;
            }
        }
    }

    /// `apply_batch.lua`: what is to be pushed.
    fn apply(&self, batch: &mut Batch, note: Note) -> BTreeSet<Callback> {
        let before = batch.callbacks;
        let is_new = batch.done.insert(note.member);
        if is_new || !self.guards.bit_at_apply {
            batch.settled += 1;
            if !note.good {
                batch.bad.insert(note.member);
                batch.bads += 1;
            }
        } else if note.good && batch.bad.remove(&note.member) {
            batch.bads -= 1;
        }
        self.tell(batch);
        let due = CALLBACKS.into_iter().filter(|callback| {
            let (was, is) = (before[*callback as usize], batch.callbacks[*callback as usize]);
            is == Stands::Due && (self.guards.due_at_apply || was != Stands::Due)
        });
        due.collect()
    }
}

/// What the servers have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// How many members have ended.
    pub ended: u8,
    /// How many of them not well.
    pub bad: u8,
    /// The members that have ended.
    pub done: Vec<usize>,
    /// How each callback stands: `waits`, `due` or `pushed`.
    pub callbacks: [&'static str; 3],
    /// How often each was enqueued.
    pub enqueued: [u8; 3],
    /// How many notes there are.
    pub notes: usize,
}

impl State {
    /// What the servers have.
    #[must_use]
    pub fn at_the_servers(&self) -> Shown {
        let batch = &self.batch;
        Shown {
            ended: batch.settled,
            bad: batch.bads,
            done: batch.done.iter().copied().collect(),
            callbacks: batch.callbacks.map(|stands| match stands {
                Stands::Waits => "waits",
                Stands::Due => "due",
                Stands::Pushed => "pushed",
            }),
            enqueued: self.enqueued,
            notes: self.notes.len(),
        }
    }

    /// The notes that there are.
    #[must_use]
    pub fn notes(&self) -> BTreeSet<Note> {
        self.notes.clone()
    }

    /// The notes that are old, since none that lives delivers them.
    fn left(&self) -> impl Iterator<Item = Note> {
        let lives = |worker: &&Worker| worker.life == Life::Lives;
        let is_known = move |note: &&Note| {
            self.workers.iter().filter(lives).any(|worker| worker.notes.contains_key(note))
        };
        self.notes.iter().filter(move |note| !is_known(note)).copied()
    }

    fn stands(&self, callback: Callback) -> Stands {
        self.batch.callbacks[callback as usize]
    }

    /// The counts are those of the bits, and a bit is that of a member that has ended.
    #[must_use]
    pub fn counts_are_right(&self) -> bool {
        let batch = &self.batch;
        let ended = batch.done.iter().all(|member| self.members[*member].ends > 0);
        let settled = usize::from(batch.settled) == batch.done.len();
        ended && settled && usize::from(batch.bads) == batch.bad.len()
    }

    /// No callback is enqueued twice.
    #[must_use]
    pub fn no_callback_twice(&self) -> bool {
        self.enqueued.iter().all(|times| *times <= 1)
    }

    /// None is enqueued before what it says is true.
    #[must_use]
    pub fn no_callback_early(&self) -> bool {
        let ended = self.members.iter().all(|member| member.ends > 0);
        let ended_well = self.members.iter().all(|member| member.good == Some(true));
        (self.enqueued[1] == 0 || ended) && (self.enqueued[2] == 0 || ended_well)
    }

    /// At the end each callback was enqueued of which it was true, and no note is left.
    #[must_use]
    pub fn no_callback_is_missing(&self, model: &Relay) -> bool {
        let mut actions = Vec::new();
        model.possible(self, &mut actions);
        if !actions.is_empty() {
            return true;
        }
        let has_failed = self.members.iter().any(|member| member.ends > 1)
            || self.members.iter().any(|member| member.good == Some(false));
        let is_well = self.members.iter().all(|member| member.good == Some(true));
        let expected = [has_failed, true, is_well].map(u8::from);
        // One that failed and went well before its first note came may have no failure to tell.
        let failure = self.enqueued[0] == expected[0] || self.members.iter().any(|m| m.ends > 1);
        failure && self.enqueued[1..] == expected[1..] && self.notes.is_empty()
    }
}
