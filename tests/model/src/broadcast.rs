//! A job that each worker runs once, or each of so many, as a model of its own: workers that lose answers, fail, stand still and die.

/// What keeps it right, each of which can be taken out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)]
pub struct Guards {
    /// `take_broadcast` gives none to a worker that has had it.
    pub claim_at_take: bool,
    /// Nor to more workers than are wanted.
    pub count_at_take: bool,
    /// A settlement that came late says nothing of the worker.
    pub lease_at_settle: bool,
    /// What a dead worker ran, another may run.
    pub lease_at_recover: bool,
    /// And what it would have tried again.
    pub retry_at_recover: bool,
}

impl Guards {
    /// All of it.
    pub const ALL: Self = Self {
        claim_at_take: true,
        count_at_take: true,
        lease_at_settle: true,
        lease_at_recover: true,
        retry_at_recover: true,
    };
}

/// What is checked.
#[derive(Debug, Clone)]
pub struct Broadcast {
    /// How many workers there are.
    pub workers: usize,
    /// How many of them are to run it.
    pub wanted: usize,
    /// Attempts that fail.
    pub failures: u8,
    /// Answers that are lost.
    pub lost: u8,
    /// Workers that die, or stop.
    pub deaths: u8,
    /// Workers that are declared dead while they only stand still.
    pub stalls: u8,
    /// The protocol, whole or without something.
    pub guards: Guards,
}

/// What happens next, each to one worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// `take_broadcast.lua`; its answer comes, or does not.
    Take(usize, bool),
    /// `settle.lua`: it is done, and so it is where it ended for good in another way.
    Done(usize),
    /// `settle.lua`: it runs again.
    Retry(usize),
    /// `release.lua`: the worker gives back what it has not begun, or learned of by `reconcile.lua`. It takes it again, unless it stops.
    GiveBack(usize),
    /// `retire.lua`: it stops, with nothing in its hands.
    Retire(usize),
    /// It dies.
    Die(usize),
    /// It stands still for so long that it is taken for dead.
    Stall(usize),
    /// `recover.lua`.
    Recover(usize),
}

/// What the server says of a worker and the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Claim {
    Runs,
    RunsAgain,
    Done,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Life {
    Lives,
    Stalled,
    Dead,
    /// Dead or not, it was declared dead, and what it held was given back.
    Recovered,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Worker {
    life: Life,
    claim: Option<Claim>,
    /// The server has a lease of it.
    lease: bool,
    /// Its body runs.
    runs: bool,
    /// How often it ended for good.
    ended: u8,
}

/// Everything at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct State {
    workers: Vec<Worker>,
    failures: u8,
    lost: u8,
    deaths: u8,
    stalls: u8,
}

impl Broadcast {
    /// So many workers, of which so many are to run it.
    #[must_use]
    pub const fn new(workers: usize, wanted: usize) -> Self {
        let guards = Guards::ALL;
        Self { workers, wanted, failures: 0, lost: 0, deaths: 0, stalls: 0, guards }
    }

    /// Before anything.
    #[must_use]
    pub fn begin(&self) -> State {
        let worker = Worker { life: Life::Lives, claim: None, lease: false, runs: false, ended: 0 };
        State {
            workers: vec![worker; self.workers],
            failures: self.failures,
            lost: self.lost,
            deaths: self.deaths,
            stalls: self.stalls,
        }
    }

    /// What can happen.
    pub fn possible(&self, state: &State, actions: &mut Vec<Action>) {
        for (w, worker) in state.workers.iter().enumerate() {
            if worker.life == Life::Lives && !worker.runs && self.may_take(state, worker) {
                actions.push(Action::Take(w, true));
                if state.lost > 0 {
                    actions.push(Action::Take(w, false));
                }
            }
            if worker.life != Life::Dead && worker.runs {
                actions.push(Action::Done(w));
                if state.failures > 0 {
                    actions.push(Action::Retry(w));
                }
            }
            if worker.life == Life::Lives {
                if worker.lease && !worker.runs {
                    actions.push(Action::GiveBack(w));
                }
                if !worker.lease && state.deaths > 0 {
                    actions.push(Action::Retire(w));
                }
                if state.deaths > 0 {
                    actions.push(Action::Die(w));
                }
                if state.stalls > 0 {
                    actions.push(Action::Stall(w));
                }
            }
            if matches!(worker.life, Life::Dead | Life::Stalled) {
                actions.push(Action::Recover(w));
            }
        }
    }

    /// What `take_broadcast.lua` compares.
    fn may_take(&self, state: &State, worker: &Worker) -> bool {
        match worker.claim {
            Some(Claim::RunsAgain) => true,
            // Somebody removed its lease by hand.
            Some(Claim::Runs) => !worker.lease,
            Some(Claim::Done) => !self.guards.claim_at_take,
            None => !self.guards.count_at_take || state.claims() < self.wanted,
        }
    }

    /// What it leads to.
    #[must_use]
    pub fn next(&self, state: &State, action: Action) -> State {
        let mut next = state.clone();
        let (Action::Take(w, _)
        | Action::Done(w)
        | Action::Retry(w)
        | Action::GiveBack(w)
        | Action::Retire(w)
        | Action::Die(w)
        | Action::Stall(w)
        | Action::Recover(w)) = action;
        let worker = &mut next.workers[w];
        let settles = worker.lease || !self.guards.lease_at_settle;
        match action {
            Action::Take(_, answered) => {
                (worker.claim, worker.lease) = (Some(Claim::Runs), true);
                worker.runs = answered;
                next.lost -= u8::from(!answered);
            }
            Action::Done(_) => {
                worker.runs = false;
                if settles {
                    (worker.claim, worker.lease) = (Some(Claim::Done), false);
                    worker.ended += 1;
                }
            }
            Action::Retry(_) => {
                worker.runs = false;
                next.failures -= 1;
                if settles {
                    (worker.claim, worker.lease) = (Some(Claim::RunsAgain), false);
                }
            }
            Action::GiveBack(_) => {
                (worker.claim, worker.lease) = (Some(Claim::RunsAgain), false);
            }
            Action::Retire(_) => {
                if worker.claim == Some(Claim::RunsAgain) && self.guards.retry_at_recover {
                    worker.claim = None;
                }
                worker.life = Life::Recovered;
                next.deaths -= 1;
            }
            Action::Die(_) => {
                (worker.life, worker.runs) = (Life::Dead, false);
                next.deaths -= 1;
            }
            Action::Stall(_) => {
                worker.life = Life::Stalled;
                next.stalls -= 1;
            }
            Action::Recover(_) => {
                let frees = match worker.claim {
                    Some(Claim::Runs) => self.guards.lease_at_recover,
                    Some(Claim::RunsAgain) => self.guards.retry_at_recover,
                    Some(Claim::Done) | None => false,
                };
                if frees {
                    worker.claim = None;
                }
                (worker.life, worker.lease) = (Life::Recovered, false);
            }
        }
        next
    }
}

impl State {
    /// What the server has of each worker: whether it runs, is to run again, or has ended there (`r`, `w`, `d`), and whether it holds a lease.
    #[must_use]
    pub fn at_the_server(&self) -> Vec<(Option<char>, bool)> {
        let letter = |claim| match claim {
            Claim::Runs => 'r',
            Claim::RunsAgain => 'w',
            Claim::Done => 'd',
        };
        self.workers.iter().map(|worker| (worker.claim.map(letter), worker.lease)).collect()
    }

    /// What `take_broadcast.lua` counts.
    fn claims(&self) -> usize {
        self.workers.iter().filter(|worker| worker.claim.is_some()).count()
    }

    /// No more workers have run it, or are to, than are wanted.
    #[must_use]
    pub fn no_more_than_wanted(&self, model: &Broadcast) -> bool {
        self.claims() <= model.wanted
    }

    /// Where it ended for good it does not begin again.
    #[must_use]
    pub fn once_a_worker(&self) -> bool {
        self.workers.iter().all(|worker| worker.ended == 0 || !worker.runs && worker.ended == 1)
    }

    /// At the end as many have run it as are wanted, or all that live.
    #[must_use]
    pub fn none_is_left_out(&self, model: &Broadcast) -> bool {
        let mut actions = Vec::new();
        model.possible(self, &mut actions);
        let lives = |worker: &&Worker| worker.life == Life::Lives;
        let ended = self.workers.iter().filter(|worker| worker.ended > 0).count();
        let all_live = self.workers.iter().filter(lives).all(|worker| worker.ended > 0);
        !actions.is_empty() || ended == model.wanted || all_live
    }
}
