//! Who runs next, and who wakes for it: priorities, a limit and a pause as a model of their own. Workers die here, and stop; what else
//! befalls a lease is in the other model.
//!
//! A queue has its list `jobs`, on which idle workers wait at the server, and lists beside it, on which nobody waits: one of high priority
//! and one of a key, of which one job runs at once. While it does, the key is shut, so that nobody looks in vain: by the first who does, until
//! the job ends. Whoever leaves work there that could run, while `jobs` is empty, leaves a ticket in `jobs`. A
//! worker that finds the queue paused waits on the list `gate` instead.

/// A job, by its number.
pub type Job = u8;

/// Where a job waits, and to where it goes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Place {
    /// In `jobs`.
    Plain,
    /// In the list of high priority.
    High,
    /// In the list of the key, of which one job runs at once.
    Limited,
}

/// What stands in `jobs`, or in an inbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Entry {
    /// A job.
    Job(Job),
    /// It wakes one worker.
    Ticket,
}

/// What keeps it right, each of which can be taken out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)]
pub struct Guards {
    /// `reserve.lua` reads what is in force, and looks at the lists beside `jobs`.
    pub orders_at_reserve: bool,
    /// What puts a job into a list leaves a ticket.
    pub ticket_at_push: bool,
    /// `reserve.lua` leaves a ticket where it leaves work.
    pub ticket_at_reserve: bool,
    /// `settle.lua`, when it frees a place under a limit.
    pub ticket_at_settle: bool,
    /// A worker that was woken looks, even if its slot has gone to another queue.
    pub look_without_room: bool,
    /// `promote.lua`.
    pub ticket_at_promote: bool,
    /// `resume` wakes whoever waits on `gate`.
    pub gate_at_resume: bool,
    /// A reserve of a paused queue gives the inbox back.
    pub inbox_back_when_paused: bool,
    /// The name of a lease says to which list it goes back.
    pub list_in_lease: bool,
    /// `recover.lua` frees the places of the dead.
    pub place_at_recover: bool,
    /// Whoever frees a place of a key opens it.
    pub open_at_free: bool,
    /// A heartbeat counts work that could run.
    pub counted_at_beat: bool,
}

impl Guards {
    /// All of it.
    pub const ALL: Self = Self {
        orders_at_reserve: true,
        ticket_at_push: true,
        ticket_at_reserve: true,
        ticket_at_settle: true,
        look_without_room: true,
        ticket_at_promote: true,
        gate_at_resume: true,
        inbox_back_when_paused: true,
        list_in_lease: true,
        place_at_recover: true,
        open_at_free: true,
        counted_at_beat: true,
    };
}

/// What is checked.
#[derive(Debug, Clone)]
pub struct Control {
    /// The jobs that are enqueued, in this order, by where they belong.
    pub jobs: Vec<Place>,
    /// Attempts that end with a retry, at once or later.
    pub retries: u8,
    /// How often the queue is paused.
    pub pauses: u8,
    /// Workers that are told to stop.
    pub stops: u8,
    /// Workers that are killed.
    pub kills: u8,
    /// The protocol, whole or without something.
    pub guards: Guards,
}

/// How an attempt ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum End {
    /// The job is done.
    Ack,
    /// It runs again.
    Retry {
        /// After a delay.
        later: bool,
    },
}

/// What happens next. Workers are numbered from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// `LPUSH` of the next job, or `push.lua`.
    Enqueue,
    /// The queue is paused.
    Pause,
    /// It goes on.
    Resume,
    /// `reserve.lua`.
    Reserve(u8),
    /// `reserve.lua` without room for a job, after hearing of some.
    Look(u8),
    /// Its slot goes to a job of another queue.
    Leave(u8),
    /// That job has ended.
    Return(u8),
    /// `BLMOVE` from `jobs` or `gate`.
    Wait(u8),
    /// The `reserve.lua` that came with the wait.
    ReserveWithWait(u8),
    /// `settle.lua`.
    Finish(u8, End),
    /// `promote.lua`.
    Promote,
    /// SIGTERM.
    Terminate(u8),
    /// `retire.lua`.
    Retire(u8),
    /// SIGKILL; the wait stays at the server, half-open, or does not.
    Kill(u8, bool),
    /// `recover.lua`.
    Recover(u8),
    /// A heartbeat that hears of work.
    Beat(u8),
}

/// The list on which a worker waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum On {
    Jobs,
    Gate,
}

/// What a worker without a job does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Does {
    /// It is about to ask for a job.
    Asks,
    /// It is about to wait.
    WillWait(On),
    Waits(On),
    /// The wait has ended; the reserve behind it comes next.
    Woken,
    /// It runs a job of another queue.
    Elsewhere,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Up {
    Runs,
    Stopping,
    /// Killed; it holds something still.
    Killed,
    Gone,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Worker {
    up: Up,
    does: Does,
    /// The job that it runs; it has one slot.
    runs: Option<Job>,
    /// It heard of jobs, and looks even if it has no room by then.
    looks: bool,
    /// The oldest last.
    inbox: Vec<Entry>,
}

/// Everything at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[allow(clippy::struct_excessive_bools)]
pub struct State {
    /// The right end is taken next, here and in the others.
    jobs: Vec<Entry>,
    high: Vec<Job>,
    limited: Vec<Job>,
    /// It has waiting jobs, and nobody looks at them.
    shut: bool,
    scheduled: Vec<Job>,
    /// Tickets.
    gate: u8,
    /// Something is in force: there are lists beside `jobs`, or there was a pause.
    orders: bool,
    paused: bool,
    /// Which jobs hold a place under the limit.
    held: Vec<Job>,
    /// Those that wait longest first.
    waits: Vec<(u8, On)>,
    workers: Vec<Worker>,
    ended: Vec<u8>,
    retries: u8,
    pauses: u8,
    stops: u8,
    kills: u8,
    /// A worker was killed, or told to stop.
    left: bool,
    /// Calls in a row that neither brought a job nor found anything changed.
    vain: u8,
    /// A lower job was taken before a higher one.
    overtaken: bool,
    /// A job was taken from a paused queue.
    started_while_paused: bool,
}

/// So many calls in vain there may be between two events.
const VAIN: u8 = 12;

impl Control {
    /// Two workers, and what happens to them.
    #[must_use]
    pub fn new(jobs: &[Place]) -> Self {
        let jobs = jobs.to_vec();
        Self { jobs, retries: 0, pauses: 0, stops: 0, kills: 0, guards: Guards::ALL }
    }

    /// Where it all begins.
    #[must_use]
    pub fn begin(&self) -> State {
        let worker =
            Worker { up: Up::Runs, does: Does::Asks, runs: None, looks: false, inbox: Vec::new() };
        State {
            jobs: Vec::new(),
            high: Vec::new(),
            limited: Vec::new(),
            shut: false,
            scheduled: Vec::new(),
            gate: 0,
            orders: false,
            paused: false,
            held: Vec::new(),
            waits: Vec::new(),
            workers: vec![worker; 2],
            ended: Vec::new(),
            retries: self.retries,
            pauses: self.pauses,
            stops: self.stops,
            kills: self.kills,
            left: false,
            vain: 0,
            overtaken: false,
            started_while_paused: false,
        }
    }

    /// What can happen next.
    pub fn possible(&self, state: &State, actions: &mut Vec<Action>) {
        if state.ended.len() < self.jobs.len() {
            actions.push(Action::Enqueue);
        }
        if !state.paused && state.pauses > 0 {
            actions.push(Action::Pause);
        }
        if state.paused {
            actions.push(Action::Resume);
        }
        if !state.scheduled.is_empty() {
            actions.push(Action::Promote);
        }
        for (number, worker) in (0..).zip(&state.workers) {
            match worker.up {
                Up::Gone => continue,
                Up::Killed => {
                    actions.push(Action::Recover(number));
                    continue;
                }
                Up::Runs | Up::Stopping => {}
            }
            if worker.runs.is_some() {
                actions.push(Action::Finish(number, End::Ack));
                if state.retries > 0 {
                    let retry = |later| Action::Finish(number, End::Retry { later });
                    actions.extend([false, true].map(retry));
                }
            }
            if worker.up == Up::Stopping && worker.runs.is_none() {
                actions.push(Action::Retire(number));
            }
            if worker.up == Up::Runs {
                let is_full = worker.runs.is_some() || worker.does == Does::Elsewhere;
                if worker.looks && is_full && self.guards.look_without_room {
                    actions.push(Action::Look(number));
                }
                match worker.does {
                    Does::Asks if worker.runs.is_none() => {
                        actions.extend([Action::Reserve(number), Action::Leave(number)]);
                    }
                    Does::Elsewhere => actions.push(Action::Return(number)),
                    Does::WillWait(_) => actions.push(Action::Wait(number)),
                    Does::Woken => actions.push(Action::ReserveWithWait(number)),
                    // Where nobody left a heartbeat is not needed. A ticket that goes with a worker costs the time until the next.
                    Does::Waits(on) if state.left && state.hears(on, self.guards) => {
                        actions.push(Action::Beat(number));
                    }
                    Does::Asks | Does::Waits(_) => {}
                }
                // One is left to run what there is.
                let others = state.workers.iter().filter(|worker| worker.up == Up::Runs).count();
                if others > 1 && state.stops > 0 {
                    actions.push(Action::Terminate(number));
                }
                if others > 1 && state.kills > 0 {
                    actions.push(Action::Kill(number, false));
                    if matches!(worker.does, Does::Waits(_)) {
                        actions.push(Action::Kill(number, true));
                    }
                }
            }
        }
    }

    /// What is after something has happened.
    #[must_use]
    pub fn next(&self, state: &State, action: Action) -> State {
        let mut next = state.clone();
        next.vain = match action {
            Action::Reserve(_) | Action::ReserveWithWait(_) | Action::Look(_) => next.vain + 1,
            Action::Wait(_) => next.vain,
            _ => 0,
        };
        self.moved(&mut next, action);
        next.hand_over();
        next
    }

    fn moved(&self, state: &mut State, action: Action) {
        match action {
            Action::Enqueue => {
                let job = state.ended.len() as Job;
                state.ended.push(0);
                self.put(state, job, false, self.guards.ticket_at_push);
            }
            Action::Pause => {
                (state.paused, state.orders, state.gate) = (true, true, 0);
                state.pauses -= 1;
            }
            Action::Resume => {
                state.paused = false;
                if self.guards.gate_at_resume {
                    let live = |worker: &&Worker| matches!(worker.up, Up::Runs | Up::Stopping);
                    state.gate = state.workers.iter().filter(live).count() as u8;
                }
                state.leave_ticket();
            }
            Action::Reserve(number) => {
                let closed = self.reserve(state, number, true, false);
                let worker = &mut state.workers[usize::from(number)];
                worker.looks = false;
                if worker.runs.is_none() {
                    worker.does = Does::WillWait(if closed { On::Gate } else { On::Jobs });
                }
            }
            Action::Look(number) => {
                state.workers[usize::from(number)].looks = false;
                self.reserve(state, number, false, false);
            }
            Action::Leave(number) => state.workers[usize::from(number)].does = Does::Elsewhere,
            Action::Return(number) => state.workers[usize::from(number)].does = Does::Asks,
            Action::Wait(number) => {
                let worker = &mut state.workers[usize::from(number)];
                let Does::WillWait(on) = worker.does else { return };
                worker.does = Does::Waits(on);
                state.waits.push((number, on));
            }
            Action::ReserveWithWait(number) => {
                let closed = self.reserve(state, number, false, true);
                let worker = &mut state.workers[usize::from(number)];
                worker.does = if closed { Does::WillWait(On::Gate) } else { Does::Asks };
                worker.looks = !closed;
            }
            Action::Finish(number, end) => self.finish(state, number, end),
            Action::Promote => {
                let job = state.scheduled.remove(0);
                self.put(state, job, false, self.guards.ticket_at_promote);
            }
            Action::Terminate(number) => {
                state.stops -= 1;
                state.left = true;
                state.workers[usize::from(number)].up = Up::Stopping;
            }
            Action::Retire(number) => {
                state.waits.retain(|(waits, _)| *waits != number);
                state.return_inbox(number, true);
                state.workers[usize::from(number)].up = Up::Gone;
            }
            Action::Kill(number, half_open) => {
                state.kills -= 1;
                state.left = true;
                if !half_open {
                    state.waits.retain(|(waits, _)| *waits != number);
                }
                state.workers[usize::from(number)].up = Up::Killed;
            }
            Action::Recover(number) => {
                state.waits.retain(|(waits, _)| *waits != number);
                state.return_inbox(number, true);
                let worker = &mut state.workers[usize::from(number)];
                worker.up = Up::Gone;
                if let Some(job) = worker.runs.take() {
                    if self.guards.place_at_recover {
                        self.free(state, job);
                    }
                    self.put(state, job, true, true);
                }
            }
            Action::Beat(number) => {
                state.waits.retain(|(waits, _)| *waits != number);
                state.workers[usize::from(number)].does = Does::Asks;
            }
        }
    }

    /// Puts a job where it belongs, at its front or at its back.
    fn put(&self, state: &mut State, job: Job, front: bool, ticket: bool) {
        let mut place = self.jobs[usize::from(job)];
        if front && !self.guards.list_in_lease {
            place = Place::Plain;
        }
        let to = match place {
            Place::Plain => {
                let at = if front { state.jobs.len() } else { 0 };
                state.jobs.insert(at, Entry::Job(job));
                return;
            }
            Place::High => &mut state.high,
            Place::Limited => &mut state.limited,
        };
        to.insert(if front { to.len() } else { 0 }, job);
        // A key that joins is open, whoever holds it.
        state.shut &= state.limited.len() > 1 || place != Place::Limited;
        state.orders = true;
        if ticket {
            state.leave_ticket();
        }
    }

    /// `reserve.lua`, with room for one job or none. Whether the queue is paused.
    fn reserve(&self, state: &mut State, number: u8, room: bool, behind_a_wait: bool) -> bool {
        let mut inbox = std::mem::take(&mut state.workers[usize::from(number)].inbox);
        let orders = state.orders && self.guards.orders_at_reserve;
        if orders && state.paused && self.guards.inbox_back_when_paused {
            state.workers[usize::from(number)].inbox = inbox;
            state.return_inbox(number, false);
            return true;
        }
        let mut taken = None;
        while let Some(entry) = inbox.pop() {
            if let Entry::Job(job) = entry {
                taken = Some(job);
            }
        }
        if room && taken.is_none() && !(orders && state.paused) {
            let limited = orders && !state.shut && state.held.is_empty();
            taken = orders.then(|| state.high.pop()).flatten();
            let higher = taken.is_none() && !state.high.is_empty();
            // What is limited is taken in turn with what is not; first here.
            if taken.is_none() && orders {
                taken = limited.then(|| state.limited.pop()).flatten();
                // Whoever finds it used up, or uses it up.
                let is_used_up = taken.is_some() || !state.held.is_empty();
                state.shut |= is_used_up && !state.limited.is_empty();
            }
            while taken.is_none()
                && let Some(entry) = state.jobs.pop()
            {
                if let Entry::Job(job) = entry {
                    taken = Some(job);
                }
            }
            state.overtaken |= higher && taken.is_some();
        }
        if let Some(job) = taken {
            state.vain = 0;
            state.started_while_paused |= state.paused;
            if self.jobs[usize::from(job)] == Place::Limited {
                state.held.push(job);
            }
            state.workers[usize::from(number)].runs = Some(job);
        }
        // The worker that was woken asks for jobs next; a ticket would wake another for nothing.
        if orders && !behind_a_wait && self.guards.ticket_at_reserve {
            state.leave_ticket();
        }
        orders && state.paused
    }

    fn finish(&self, state: &mut State, number: u8, end: End) {
        let worker = &mut state.workers[usize::from(number)];
        let Some(job) = worker.runs.take() else { return };
        worker.does = Does::Asks;
        let limited = state.held.len();
        self.free(state, job);
        match end {
            End::Ack => state.ended[usize::from(job)] += 1,
            End::Retry { later } => {
                state.retries -= 1;
                if later {
                    state.scheduled.push(job);
                } else {
                    self.put(state, job, false, self.guards.ticket_at_push);
                }
            }
        }
        if state.held.len() < limited && self.guards.ticket_at_settle {
            state.leave_ticket();
        }
    }

    /// What a job held, if it did.
    fn free(&self, state: &mut State, job: Job) {
        let held = state.held.len();
        state.held.retain(|held| *held != job);
        if state.held.len() < held && self.guards.open_at_free {
            state.shut = false;
        }
    }
}

impl State {
    /// Whether something beside `jobs` could run, as far as is known without a look.
    fn runnable(&self) -> bool {
        !self.paused && (!self.high.is_empty() || !self.limited.is_empty() && !self.shut)
    }

    /// Wakes one worker, if something could run and no job wakes one.
    fn leave_ticket(&mut self) {
        if self.jobs.is_empty() && self.runnable() {
            self.jobs.push(Entry::Ticket);
        }
    }

    /// `LMOVE <inbox> <jobs> LEFT RIGHT`, with a ticket or without.
    fn return_inbox(&mut self, number: u8, tickets: bool) {
        let inbox = std::mem::take(&mut self.workers[usize::from(number)].inbox);
        self.jobs.extend(inbox.into_iter().filter(|entry| tickets || *entry != Entry::Ticket));
    }

    /// Whether a heartbeat has a worker that waits there ask for jobs.
    fn hears(&self, on: On, guards: Guards) -> bool {
        match on {
            On::Gate => !self.paused,
            On::Jobs => guards.counted_at_beat && self.runnable(),
        }
    }

    /// What the server does after each call: whoever waits longest is handed the next entry.
    fn hand_over(&mut self) {
        while let Some(at) = self.waits.iter().position(|(_, on)| match on {
            On::Jobs => !self.jobs.is_empty(),
            On::Gate => self.gate > 0,
        }) {
            let (number, on) = self.waits.remove(at);
            let entry = match on {
                On::Jobs => self.jobs.pop().unwrap_or(Entry::Ticket),
                On::Gate => {
                    self.gate -= 1;
                    Entry::Ticket
                }
            };
            let worker = &mut self.workers[usize::from(number)];
            worker.inbox.insert(0, entry);
            worker.does = Does::Woken;
        }
    }

    /// Whether every job is in one place, and in that to which it belongs.
    #[must_use]
    pub fn all_are_in_place(&self, control: &Control) -> bool {
        (0..).zip(&self.ended).all(|(job, ended)| {
            let place = control.jobs[usize::from(job)];
            let plain = self.workers.iter().flat_map(|worker| &worker.inbox).chain(&self.jobs);
            let plain = plain.filter(|entry| **entry == Entry::Job(job)).count();
            // Lists of a few.
            #[allow(clippy::naive_bytecount)]
            let count = |list: &[Job]| list.iter().filter(|other| **other == job).count();
            let runs = self.workers.iter().filter(|worker| worker.runs == Some(job)).count();
            let rest = count(&self.scheduled) + runs + usize::from(*ended);
            let (high, limited) = (count(&self.high), count(&self.limited));
            plain + high + limited + rest == 1
                && (plain == 0 || place == Place::Plain)
                && (high == 0 || place == Place::High)
                && (limited == 0 || place == Place::Limited)
        })
    }

    /// Whether no more than one limited job runs, and whoever holds a place runs.
    #[must_use]
    pub fn limit_is_kept(&self, control: &Control) -> bool {
        let runs: Vec<_> = self.workers.iter().filter_map(|worker| worker.runs).collect();
        let limited = runs.iter().filter(|job| control.jobs[usize::from(**job)] == Place::Limited);
        limited.count() <= 1 && self.held.iter().all(|job| runs.contains(job))
    }

    /// Whether nothing waits that could run while a worker is idle and nothing else happens by itself.
    #[must_use]
    pub fn nothing_is_forgotten(&self, control: &Control) -> bool {
        let mut actions = Vec::new();
        control.possible(self, &mut actions);
        let luck = |action: &Action| {
            matches!(
                action,
                Action::Enqueue
                    | Action::Pause
                    | Action::Resume
                    | Action::Terminate(_)
                    | Action::Kill(..)
                    | Action::Finish(..)
                    | Action::Leave(_)
                    | Action::Return(_)
            )
        };
        let waits = |worker: &Worker| matches!(worker.does, Does::Waits(_));
        let idle = self.workers.iter().any(|worker| worker.up == Up::Runs && waits(worker));
        let moves = actions.iter().any(|action| !luck(action));
        let jobs = self.jobs.iter().any(|entry| *entry != Entry::Ticket);
        // Whoever ends a job has left nothing shut.
        let shut = self.shut && self.held.is_empty() && !self.limited.is_empty();
        moves || !idle || !(self.runnable() || (jobs || shut) && !self.paused)
    }

    /// Whether no worker asks again and again in vain.
    #[must_use]
    pub fn nobody_spins(&self) -> bool {
        self.vain <= VAIN
    }

    /// Whether no job was taken before a higher one.
    #[must_use]
    pub fn keeps_order(&self) -> bool {
        !self.overtaken
    }

    /// Whether no job was taken from a paused queue.
    #[must_use]
    pub fn keeps_pause(&self) -> bool {
        !self.started_while_paused
    }
}
