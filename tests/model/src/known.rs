//! Unique jobs of one key as a model of their own: who holds the key, what becomes of the others, and what an order to cancel comes to.
//!
//! A job that is known by its id stands in one hash, `ids`, which says where it is. A list has ids alone, so an id there may be that of a
//! job which is somewhere else by now, or call for one that took its place. The key is held by a job that is in `ids`, or by nobody.

/// A job, by its number.
pub type Job = u8;

/// How many workers there are.
pub const WORKERS: u8 = 2;

/// What is done with a job whose key another holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Conflict {
    /// It is not taken in.
    Keep,
    /// It takes the place of one that waits.
    Replace,
    /// It waits until the other has ended; one does.
    Follow,
}

/// What keeps it right, each of which can be taken out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)]
pub struct Guards {
    /// `submit` looks at who holds the key.
    pub holder_at_submit: bool,
    /// A key whose holder is not in `ids` is free.
    pub stale_holder: bool,
    /// The job that follows has the key from the end of the other on.
    pub follower_at_finish: bool,
    /// `reserve` leaves out an id whose job stands elsewhere.
    pub stand_at_reserve: bool,
    /// A settlement that came late ends nothing.
    pub lease_at_settle: bool,
    /// What a dead worker was told to end does not run again.
    pub order_at_recover: bool,
    /// Nor what its worker gives back before it was told.
    pub order_at_settle: bool,
}

impl Guards {
    /// All of it.
    pub const ALL: Self = Self {
        holder_at_submit: true,
        stale_holder: true,
        follower_at_finish: true,
        stand_at_reserve: true,
        lease_at_settle: true,
        order_at_recover: true,
        order_at_settle: true,
    };
}

/// What is checked.
#[derive(Debug, Clone)]
pub struct Known {
    /// The jobs that are submitted, in this order.
    pub jobs: Vec<Conflict>,
    /// Attempts that end with a retry.
    pub retries: u8,
    /// Workers that are killed.
    pub kills: u8,
    /// Workers that are declared dead while they only stand still.
    pub stalls: u8,
    /// Orders to cancel.
    pub cancels: u8,
    /// Keys that an operator frees.
    pub unlocks: u8,
    /// The protocol, whole or without something.
    pub guards: Guards,
}

/// What happens next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// `submit.lua` of the next job.
    Submit,
    /// `reserve.lua`.
    Reserve(u8),
    /// `settle.lua`: the job is done.
    Done(u8),
    /// `settle.lua`: it runs again.
    Retry(u8),
    /// The worker is killed, or stands still, and is declared dead: `recover.lua`.
    Recover(u8, bool),
    /// A job is cancelled: `edit.lua`, or `cancel.lua` where it runs.
    Cancel(Job),
    /// The heartbeat tells of the order, and the body ends: `settle.lua`.
    Obey(u8),
    /// `unlock.lua`.
    Unlock,
}

/// Where a job is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Stand {
    Waits,
    Follows,
    Runs(u8),
    /// In the list from which the next worker writes its record.
    ToCancel,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    holder: Job,
    /// Under which id it stands in the list.
    place: Job,
    follower: Option<Job>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
struct Worker {
    /// What it runs by what it knows.
    runs: Option<Job>,
    /// Whether its lease is still there.
    lease: bool,
    ordered: bool,
}

/// Everything at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct State {
    submitted: u8,
    /// The right end is taken next.
    list: Vec<Job>,
    to_cancel: Vec<Job>,
    ids: Vec<Option<Stand>>,
    /// Of an id in the list the job that took its place.
    instead: Vec<Option<Job>>,
    key: Option<Key>,
    workers: Vec<Worker>,
    /// Ended, or never taken in.
    ended: Vec<bool>,
    /// An order to cancel was given while it ran.
    ordered: Vec<bool>,
    begun_after_order: bool,
    /// What was taken in and is nowhere.
    lost: bool,
    retries: u8,
    kills: u8,
    stalls: u8,
    cancels: u8,
    unlocks: u8,
}

impl Known {
    /// Of jobs, without faults.
    #[must_use]
    pub fn new(jobs: &[Conflict]) -> Self {
        let jobs = jobs.to_vec();
        Self { jobs, retries: 0, kills: 0, stalls: 0, cancels: 0, unlocks: 0, guards: Guards::ALL }
    }

    /// Before anything.
    #[must_use]
    pub fn begin(&self) -> State {
        let count = self.jobs.len();
        State {
            submitted: 0,
            list: Vec::new(),
            to_cancel: Vec::new(),
            ids: vec![None; count],
            instead: vec![None; count],
            key: None,
            workers: vec![Worker::default(); usize::from(WORKERS)],
            ended: vec![false; count],
            ordered: vec![false; count],
            begun_after_order: false,
            lost: false,
            retries: self.retries,
            kills: self.kills,
            stalls: self.stalls,
            cancels: self.cancels,
            unlocks: self.unlocks,
        }
    }

    /// What can happen.
    pub fn possible(&self, state: &State, actions: &mut Vec<Action>) {
        if usize::from(state.submitted) < self.jobs.len() {
            actions.push(Action::Submit);
        }
        for (w, worker) in (0..).zip(&state.workers) {
            if worker.runs.is_none() {
                actions.push(Action::Reserve(w));
                continue;
            }
            actions.push(Action::Done(w));
            if state.retries > 0 {
                actions.push(Action::Retry(w));
            }
            if worker.lease && state.kills > 0 {
                actions.push(Action::Recover(w, true));
            }
            if worker.lease && state.stalls > 0 {
                actions.push(Action::Recover(w, false));
            }
            if worker.lease && worker.ordered {
                actions.push(Action::Obey(w));
            }
        }
        if state.cancels > 0 {
            let living = (0..).zip(&state.ids).filter(|(_, stand)| stand.is_some());
            actions.extend(living.map(|(job, _)| Action::Cancel(job)));
        }
        if state.unlocks > 0 && state.key.is_some() {
            actions.push(Action::Unlock);
        }
    }

    /// What it leads to.
    #[must_use]
    pub fn next(&self, state: &State, action: Action) -> State {
        let mut next = state.clone();
        let guards = self.guards;
        match action {
            Action::Submit => {
                let job = next.submitted;
                next.submitted += 1;
                next.submit(job, self.jobs[usize::from(job)], guards);
            }
            Action::Reserve(w) => next.reserve(w, guards),
            Action::Done(w) => {
                let worker = std::mem::take(&mut next.workers[usize::from(w)]);
                if let Some(job) = worker.runs
                    && (worker.lease || !guards.lease_at_settle)
                {
                    next.finish(job, guards);
                }
            }
            Action::Retry(w) => {
                next.retries -= 1;
                let worker = std::mem::take(&mut next.workers[usize::from(w)]);
                if let Some(job) = worker.runs.filter(|_| worker.lease) {
                    next.give_back(job, worker.ordered && guards.order_at_settle);
                }
            }
            Action::Recover(w, killed) => {
                let worker = &mut next.workers[usize::from(w)];
                let (job, ordered) = (worker.runs, worker.ordered);
                worker.lease = false;
                worker.ordered = false;
                if killed {
                    worker.runs = None;
                    next.kills -= 1;
                } else {
                    // It goes on, and settles what is no more its own.
                    next.stalls -= 1;
                }
                if let Some(job) = job {
                    next.give_back(job, ordered && guards.order_at_recover);
                }
            }
            Action::Cancel(job) => {
                next.cancels -= 1;
                match next.ids[usize::from(job)] {
                    Some(Stand::Runs(w)) => {
                        next.workers[usize::from(w)].ordered = true;
                        next.ordered[usize::from(job)] = true;
                    }
                    Some(_) => next.finish(job, guards),
                    None => {}
                }
            }
            Action::Obey(w) => {
                let worker = std::mem::take(&mut next.workers[usize::from(w)]);
                if let Some(job) = worker.runs {
                    next.finish(job, guards);
                }
            }
            Action::Unlock => {
                next.unlocks -= 1;
                if let Some(follower) = next.key.take().and_then(|key| key.follower)
                    && next.ids[usize::from(follower)] == Some(Stand::Follows)
                {
                    // As any other, without the key.
                    next.ids[usize::from(follower)] = Some(Stand::Waits);
                    next.list.insert(0, follower);
                }
            }
        }
        next
    }
}

impl State {
    fn submit(&mut self, job: Job, conflict: Conflict, guards: Guards) {
        let holder = self.key.as_ref().map(|key| key.holder);
        let stands = holder.and_then(|holder| self.ids[usize::from(holder)]);
        let is_free = holder.is_none() || stands.is_none() && guards.stale_holder;
        if is_free || !guards.holder_at_submit {
            self.key = Some(Key { holder: job, place: job, follower: None });
            self.wait(job);
            return;
        }
        let Some(key) = &mut self.key else { return };
        match (conflict, stands) {
            (Conflict::Follow, _) => {
                if let Some(follower) = key.follower.replace(job) {
                    self.ids[usize::from(follower)] = None;
                    self.ended[usize::from(follower)] = true;
                }
                self.ids[usize::from(job)] = Some(Stand::Follows);
            }
            (Conflict::Replace, Some(Stand::Waits)) => {
                let other = key.holder;
                // It stands under its own id, once it has come back.
                let is_placed = self.instead[usize::from(key.place)] == Some(other);
                let place = if is_placed { key.place } else { other };
                (key.holder, key.place) = (job, place);
                self.ids[usize::from(other)] = None;
                self.ended[usize::from(other)] = true;
                self.instead[usize::from(place)] = Some(job);
                self.ids[usize::from(job)] = Some(Stand::Waits);
            }
            _ => self.ended[usize::from(job)] = true,
        }
    }

    fn wait(&mut self, job: Job) {
        self.ids[usize::from(job)] = Some(Stand::Waits);
        self.list.insert(0, job);
    }

    /// Back to where it came from, or to where it does not run again.
    fn give_back(&mut self, job: Job, ordered: bool) {
        if ordered {
            self.ids[usize::from(job)] = Some(Stand::ToCancel);
            self.to_cancel.insert(0, job);
        } else {
            self.ids[usize::from(job)] = Some(Stand::Waits);
            self.list.push(job);
        }
    }

    fn reserve(&mut self, w: u8, guards: Guards) {
        if let Some(job) = self.to_cancel.pop() {
            self.finish(job, guards);
            return;
        }
        while let Some(id) = self.list.pop() {
            let job = self.instead[usize::from(id)].take().unwrap_or(id);
            if self.ids[usize::from(job)] != Some(Stand::Waits) && guards.stand_at_reserve {
                continue;
            }
            self.begun_after_order |= self.ordered[usize::from(job)];
            self.ids[usize::from(job)] = Some(Stand::Runs(w));
            self.workers[usize::from(w)] = Worker { runs: Some(job), lease: true, ordered: false };
            return;
        }
    }

    /// It is no more.
    fn finish(&mut self, job: Job, guards: Guards) {
        self.ids[usize::from(job)] = None;
        self.ended[usize::from(job)] = true;
        let Some(key) = self.key.as_mut().filter(|key| key.holder == job) else { return };
        let follower = key.follower.take();
        self.key = None;
        let Some(follower) = follower.filter(|_| guards.follower_at_finish) else { return };
        if self.ids[usize::from(follower)] == Some(Stand::Follows) {
            self.key = Some(Key { holder: follower, place: follower, follower: None });
            self.wait(follower);
        }
    }

    /// Of those that wait and those that run under a lease there is one; beside it, where an operator freed the key, the one that held it and the
    /// one that followed.
    #[must_use]
    pub fn one_of_a_key(&self, model: &Known) -> bool {
        let waits = |stand: &&Stand| matches!(stand, Stand::Waits | Stand::ToCancel);
        let waiting = self.ids.iter().flatten().filter(waits).count();
        let running = self.workers.iter().filter(|worker| worker.lease).count();
        waiting + running <= 1 + 2 * usize::from(model.unlocks - self.unlocks)
    }

    /// A job that was taken in, and has not ended, comes to its turn: it stands in the list, runs, or follows one that lives.
    #[must_use]
    pub fn none_is_forgotten(&self) -> bool {
        (0..).zip(&self.ids).all(|(job, stand)| match stand {
            Some(Stand::Waits) => {
                let calls = |id: &&Job| self.instead[usize::from(**id)].unwrap_or(**id) == job;
                self.list.iter().filter(calls).count() == 1
            }
            Some(Stand::ToCancel) => self.to_cancel.contains(&job),
            Some(Stand::Follows) => self.key.as_ref().is_some_and(|key| {
                key.follower == Some(job) && self.ids[usize::from(key.holder)].is_some()
            }),
            Some(Stand::Runs(w)) => {
                let worker = &self.workers[usize::from(*w)];
                worker.lease && worker.runs == Some(job)
            }
            None => usize::from(self.submitted) <= usize::from(job) || self.ended[usize::from(job)],
        })
    }

    /// What was told to end while it ran does not begin again.
    #[must_use]
    pub fn orders_hold(&self) -> bool {
        !self.begun_after_order
    }

    /// Where all has ended the key is free, or held by what counts as nobody.
    #[must_use]
    pub fn no_lock_is_left(&self) -> bool {
        let holder = self.key.as_ref().map(|key| usize::from(key.holder));
        holder.is_none_or(|holder| self.ids[holder].is_some() || self.ended[holder])
    }
}
