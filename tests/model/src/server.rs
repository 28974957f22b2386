//! What the server does: each method is one script, or one command, and nothing can come between its steps.

use crate::calls::Call;
use crate::guards::Guards;

/// A job.
pub type Job = u8;
/// What stands in the list for a job that was taken out of it.
pub const HUSK: Job = Job::MAX;
/// A lease: its token. Later ones are greater.
pub type Lease = u8;
/// The id of one life of a worker, counted up.
pub type Id = u8;

/// What the server knows of one life of a worker.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Record {
    /// Whether there is a record, and a mark in it.
    pub known: Known,
    /// Raised by each `reconcile`.
    pub session: u8,
    /// In the sorted set of workers.
    pub listed: bool,
    /// Rounds since its last heartbeat, at most [`OLD`].
    pub heard: u8,
    /// Its leases, the oldest first.
    pub progress: Vec<(Lease, Job)>,
    /// What was handed to it while it waited, the oldest last, as the list has it.
    pub inbox: Vec<Job>,
}

/// A record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Known {
    /// There is none.
    #[default]
    Missing,
    /// The worker lives, as far as the server knows.
    Alive,
    /// It was declared dead.
    Dead,
}

/// A heartbeat that is so many rounds old is as old as `dead_after`.
pub const OLD: u8 = 2;

/// A `BLMOVE` that waits at the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Wait {
    /// Into whose inbox.
    pub id: Id,
    /// The session of the reserve that was sent along.
    pub session: u8,
    /// Whether there is still somebody at the other end.
    pub heard: bool,
}

/// How a lease ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum End {
    /// Done.
    Ack,
    /// Will not run again.
    Fail,
    /// Cannot be decoded.
    Break,
    /// Put aside for a worker that knows it.
    Park,
    /// Dropped: a husk.
    Husk,
    /// Runs again, at the back or, with a delay, later.
    Retry {
        /// With a delay.
        later: bool,
    },
    /// Given back uncounted, to the front or, with a delay, later.
    Release {
        /// With a delay.
        later: bool,
    },
}

/// A job as an operator saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Seen {
    /// It waits.
    Waiting {
        /// It.
        job: Job,
        /// How many are to be taken before it.
        before: u8,
    },
    /// It has failed.
    Failed(Job),
}

/// What an operator does to a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Edit {
    /// It is gone.
    Delete,
    /// It is the next that is taken.
    Promote,
    /// It runs again, behind all others.
    Retry,
}

/// What `reserve` answers.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Reserved {
    /// The jobs under their leases, the oldest first.
    Jobs(Vec<(Lease, Job)>),
    /// Declared dead, or not known.
    Void,
    /// The session is an old one.
    Stale,
}

/// What `recover` answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recovered {
    /// It lives.
    Alive,
    /// How many were given back, and how many are left.
    Given {
        /// Jobs that are back in the list.
        jobs: usize,
        /// Leases that it holds still.
        left: usize,
        /// Jobs that are in its inbox still.
        inbox: usize,
    },
}

/// The server.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Server {
    /// Waiting jobs; the last one is taken next, as from the right end of the list.
    pub jobs: Vec<Job>,
    /// Scheduled jobs, the earliest first.
    pub scheduled: Vec<Job>,
    /// Parked jobs, by tokens that grow.
    pub parked: Vec<(Lease, Job)>,
    /// What is known of each life of a worker, by its id.
    pub records: Vec<Record>,
    /// The last token.
    pub token: Lease,
    /// Waits, those that wait longest first.
    pub waits: Vec<Wait>,
    /// How often each job was settled for good, or deleted; a retry by an operator takes that back.
    pub ended: Vec<u8>,
    /// Those that failed.
    pub failed: Vec<Job>,
    /// How many husks are counted.
    pub husks: u8,
    /// A husk was taken for a payload that cannot be decoded.
    pub husk_broken: bool,
    /// The calls so far, where somebody wants to make them to a real server too.
    pub log: Option<Vec<Call>>,
}

impl Server {
    fn note(&mut self, call: impl FnOnce() -> Call) {
        if let Some(log) = &mut self.log {
            log.push(call());
        }
    }

    pub(crate) fn record(&mut self, id: Id) -> &mut Record {
        let index = usize::from(id);
        if self.records.len() <= index {
            self.records.resize_with(index + 1, Record::default);
        }
        &mut self.records[index]
    }

    fn lease(&mut self, id: Id, jobs: Vec<Job>) -> Vec<(Lease, Job)> {
        let first = self.token + 1;
        let leased: Vec<_> = (first..).zip(jobs).collect();
        self.token += leased.len() as u8;
        self.record(id).progress.extend(&leased);
        leased
    }

    /// Whether calls under this id are void.
    #[must_use]
    pub fn is_void(&self, guards: &Guards, id: Id) -> bool {
        match self.records.get(usize::from(id)).map(|record| record.known) {
            Some(Known::Alive) => false,
            Some(Known::Dead) => guards.dead_mark,
            Some(Known::Missing) | None => guards.missing_is_void,
        }
    }

    /// `LPUSH`.
    pub fn enqueue(&mut self, job: Job) {
        self.note(|| Call::Enqueue { job });
        self.jobs.insert(0, job);
    }

    /// `schedule.lua`, later than everything that is scheduled.
    pub fn schedule(&mut self, job: Job) {
        self.note(|| Call::Schedule { job });
        self.scheduled.push(job);
    }

    /// `promote.lua`: moves so many, the earliest first. Gives how many there were.
    pub fn promote(&mut self, want: usize) -> usize {
        self.note(|| Call::Promote { want });
        let due: Vec<_> = self.scheduled.drain(..want.min(self.scheduled.len())).collect();
        let moved = due.len();
        for job in due {
            self.jobs.insert(0, job);
        }
        moved
    }

    /// `reconcile.lua`: gives the session and the leases; `None` for void.
    pub fn reconcile(
        &mut self,
        guards: &Guards,
        id: Id,
        first: bool,
    ) -> Option<(u8, Vec<(Lease, Job)>)> {
        self.note(|| Call::Reconcile { id, first });
        let known = self.record(id).known;
        let void = match known {
            Known::Alive => false,
            Known::Dead => guards.dead_mark,
            Known::Missing => !first && guards.missing_is_void,
        };
        if void {
            return None;
        }
        let record = self.record(id);
        if record.known == Known::Missing {
            record.known = Known::Alive;
        }
        (record.listed, record.heard) = (true, 0);
        record.session += 1;
        let session = record.session;
        let inbox: Vec<_> = std::mem::take(&mut record.inbox).into_iter().rev().collect();
        self.lease(id, inbox);
        Some((session, self.record(id).progress.clone()))
    }

    /// `heartbeat.lua`. False for void.
    pub fn heartbeat(&mut self, guards: &Guards, id: Id) -> bool {
        self.note(|| Call::Heartbeat { id });
        if self.is_void(guards, id) {
            return false;
        }
        let record = self.record(id);
        (record.listed, record.heard) = (true, 0);
        true
    }

    /// `reserve.lua`: the whole inbox, and so many of the list that there are `want` in all.
    pub fn reserve(&mut self, guards: &Guards, id: Id, session: u8, want: usize) -> Reserved {
        self.note(|| Call::Reserve { id, session, want });
        if self.is_void(guards, id) {
            return Reserved::Void;
        }
        if guards.session_at_reserve && self.record(id).session != session {
            return Reserved::Stale;
        }
        let jobs = self.take(id, want);
        Reserved::Jobs(self.lease(id, jobs))
    }

    /// The first half of a reserve.
    pub fn take(&mut self, id: Id, want: usize) -> Vec<Job> {
        let mut jobs: Vec<_> =
            std::mem::take(&mut self.record(id).inbox).into_iter().rev().collect();
        while jobs.len() < want {
            let Some(job) = self.jobs.pop() else { break };
            jobs.push(job);
        }
        jobs
    }

    /// The second half of a reserve.
    pub fn put_under_leases(&mut self, id: Id, jobs: Vec<Job>) -> Vec<(Lease, Job)> {
        self.lease(id, jobs)
    }

    /// `settle.lua`, and `release.lua` for one that is given back: whether the lease was held.
    pub fn settle(&mut self, guards: &Guards, id: Id, lease: Lease, job: Job, end: End) -> bool {
        self.note(|| Call::Settle { id, lease, job, end });
        let progress = &mut self.record(id).progress;
        let before = progress.len();
        progress.retain(|(held, _)| *held != lease);
        let mut held = progress.len() < before;
        if !guards.ack_by_lease && end == End::Ack {
            for record in &mut self.records {
                let before = record.progress.len();
                record.progress.retain(|(_, leased)| *leased != job);
                held |= record.progress.len() < before;
            }
        }
        let acts = held || !guards.lease_at_settle || (end == End::Husk && !guards.lease_at_husk);
        if acts {
            match end {
                End::Ack | End::Break => self.ends(job),
                End::Fail => {
                    self.ends(job);
                    self.failed.push(job);
                }
                End::Husk => {
                    self.husk_broken |= self.husks == 0;
                    self.husks = self.husks.saturating_sub(1);
                }
                End::Retry { later: false } => self.jobs.insert(0, job),
                End::Release { later: false } => self.jobs.push(job),
                End::Retry { later: true } | End::Release { later: true } => {
                    self.scheduled.push(job);
                }
                End::Park => self.park(guards, job),
            }
        }
        held
    }

    fn park(&mut self, guards: &Guards, job: Job) {
        let token = if guards.parked_token_grows {
            self.token += 1;
            self.token
        } else {
            self.parked.len() as Lease + 1
        };
        self.parked.push((token, job));
    }

    /// `take_parked.lua`: from the parked jobs to a worker, under a fresh lease; nothing where it is gone.
    pub fn take_parked(&mut self, guards: &Guards, id: Id, session: u8, token: Lease) -> Reserved {
        self.note(|| Call::TakeParked { id, session, token });
        if self.is_void(guards, id) {
            return Reserved::Void;
        }
        if self.record(id).session != session {
            return Reserved::Stale;
        }
        let at = self.parked.iter().position(|(parked, _)| *parked == token);
        let jobs = at.map(|at| self.parked.remove(at).1).into_iter().collect();
        Reserved::Jobs(self.lease(id, jobs))
    }

    /// `break_parked.lua`: whether it was there, and is broken now.
    pub fn break_parked(&mut self, token: Lease) -> bool {
        self.note(|| Call::BreakParked { token });
        let Some(at) = self.parked.iter().position(|(parked, _)| *parked == token) else {
            return false;
        };
        let (_, job) = self.parked.remove(at);
        self.ends(job);
        true
    }

    fn ends(&mut self, job: Job) {
        let index = usize::from(job);
        if self.ended.len() <= index {
            self.ended.resize(index + 1, 0);
        }
        self.ended[index] = self.ended[index].saturating_add(1);
    }

    /// `edit.lua`: whether the job stood where it was seen.
    pub fn edit(&mut self, guards: &Guards, seen: Seen, edit: Edit) -> bool {
        self.note(|| Call::Edit { seen, edit });
        let job = match seen {
            Seen::Waiting { job, before } => {
                let place = if guards.bytes_at_edit {
                    self.jobs.iter().rposition(|other| *other == job)
                } else {
                    self.jobs.len().checked_sub(usize::from(before) + 1)
                };
                let Some(place) = place else { return false };
                self.jobs[place] = HUSK;
                self.husks += 1;
                job
            }
            Seen::Failed(job) => {
                let before = self.failed.len();
                self.failed.retain(|failed| *failed != job);
                if self.failed.len() == before && guards.removal_at_edit {
                    return false;
                }
                let ended = &mut self.ended[usize::from(job)];
                *ended = ended.saturating_sub(1);
                job
            }
        };
        match edit {
            Edit::Delete => self.ends(job),
            Edit::Promote => self.jobs.push(job),
            Edit::Retry => self.jobs.insert(0, job),
        }
        true
    }

    /// `recover.lua`: declares a worker dead while its heartbeat is `unchanged`, and gives back its inbox and these leases.
    pub fn recover(
        &mut self,
        guards: &Guards,
        id: Id,
        unchanged: bool,
        chunk: &[Lease],
    ) -> Recovered {
        if self.log.is_some() {
            // The monitor has read the payloads before, for as long as they are there.
            let held = self.record(id).progress.clone();
            let job = |lease: &Lease| held.iter().find(|(other, _)| other == lease).copied();
            let chunk = chunk.iter().filter_map(job).collect();
            self.note(|| Call::Recover { id, unchanged, chunk });
        }
        let record = self.record(id);
        // What has no entry has no heartbeat that could be the same.
        let same = unchanged && record.listed;
        let alive = record.known != Known::Dead && !same && guards.heartbeat_at_recover;
        if alive {
            return Recovered::Alive;
        }
        if guards.dead_mark {
            record.known = Known::Dead;
        }
        let back = self.take_back(guards, id, chunk);
        let jobs = back.len();
        self.jobs.extend(back);
        let record = self.record(id);
        Recovered::Given { jobs, left: record.progress.len(), inbox: record.inbox.len() }
    }

    /// The first half of a recover: what goes back, in the order in which it is pushed.
    pub fn take_back(&mut self, guards: &Guards, id: Id, chunk: &[Lease]) -> Vec<Job> {
        let record = self.record(id);
        let mut back =
            if guards.inbox_at_recover { std::mem::take(&mut record.inbox) } else { Vec::new() };
        for lease in chunk {
            if let Some(index) = record.progress.iter().position(|(held, _)| held == lease) {
                back.push(record.progress.remove(index).1);
            }
        }
        back
    }

    /// `retire.lua`: how many leases are left.
    pub fn retire(&mut self, id: Id) -> usize {
        self.note(|| Call::Retire { id });
        let record = self.record(id);
        let inbox = std::mem::take(&mut record.inbox);
        record.known = Known::Dead;
        if !record.listed {
            // The server had forgotten it.
            (record.listed, record.heard) = (true, 0);
        }
        let left = record.progress.len();
        self.jobs.extend(inbox);
        left
    }

    /// `revoke.lua`: whether the lease was held.
    pub fn revoke(&mut self, id: Id, lease: Lease) -> bool {
        self.note(|| Call::Revoke { id, lease });
        let progress = &mut self.record(id).progress;
        let Some(index) = progress.iter().position(|(held, _)| *held == lease) else {
            return false;
        };
        let (_, job) = progress.remove(index);
        self.jobs.push(job);
        true
    }

    /// `bury.lua`, a day later: whether the worker is forgotten.
    pub fn bury(&mut self, id: Id) -> bool {
        self.note(|| Call::Bury { id });
        let record = self.record(id);
        let holds = !record.progress.is_empty() || !record.inbox.is_empty();
        if record.known != Known::Dead || holds {
            return false;
        }
        *record = Record::default();
        true
    }

    /// `LMOVE <inbox> <jobs> LEFT RIGHT`, until nothing is left.
    pub fn return_inbox(&mut self, id: Id) {
        self.note(|| Call::ReturnInbox { id });
        let inbox = std::mem::take(&mut self.record(id).inbox);
        self.jobs.extend(inbox);
    }

    /// `BLMOVE <jobs> <inbox> RIGHT LEFT`.
    pub fn wait(&mut self, wait: Wait) {
        self.waits.push(wait);
    }

    /// What the server does after each call: whoever waits longest is handed the next job. Gives the waits that are over.
    pub fn hand_over(&mut self) -> Vec<Wait> {
        let mut over = Vec::new();
        while !self.waits.is_empty()
            && let Some(job) = self.jobs.pop()
        {
            let wait = self.waits.remove(0);
            self.note(|| Call::HandOver { id: wait.id });
            self.record(wait.id).inbox.insert(0, job);
            over.push(wait);
        }
        over
    }

    /// In how many structures a job is.
    #[must_use]
    pub fn places(&self, job: Job) -> usize {
        // Lists of a few.
        #[allow(clippy::naive_bytecount)]
        let count = |list: &[Job]| list.iter().filter(|other| **other == job).count();
        let held = self.records.iter().map(|record| {
            let leased = record.progress.iter().filter(|(_, leased)| *leased == job).count();
            leased + count(&record.inbox)
        });
        let parked = self.parked.iter().filter(|(_, parked)| *parked == job).count();
        count(&self.jobs) + count(&self.scheduled) + parked + held.sum::<usize>()
    }
}
