//! Holds what the processes noted and what the server logged against what is promised.
//!
//! Everything is looked at as soon as it is known, so that a run can end with the first violation; what can only be known
//! at the end is in `verdict.rs`, and what only time shows in `judge.rs`.

use std::collections::{HashMap, HashSet, VecDeque};

use crate::aof::Command;
use crate::diary::{Note, Outcome, What};
use crate::faults::Kind;
use crate::jobs::{Limited, limited};
use crate::ledger::{Ended, Event, Lease, Ledger};
use crate::names::BEATS;
use crate::operator::Edits;
use crate::plain::Plain;
use crate::strikes::Strikes;
use crate::tally::{Jobs, Told};

/// A worker is dead when its heartbeat is 5 s old by the server's clock, and unchanged for 3 s by that of who watches it. The rest is
/// what two clocks may differ by.
const SILENT_FOR: u64 = 4_900_000_000;
const SILENT_FOR_AFTER_A_JUMP: u64 = 2_300_000_000;

/// No body starts later than 4 s after the sending of a heartbeat that was accepted; the rest is what watching takes.
const PULSE_HOLDS_FOR: u64 = 4_700_000_000;

/// Something that must not be.
#[derive(Debug, Clone)]
pub(crate) struct Violation {
    pub(crate) at: u64,
    pub(crate) rule: &'static str,
    pub(crate) detail: String,
}

/// One lease, from its grant to its end.
#[derive(Debug)]
pub(crate) struct Hold {
    pub(crate) n: u32,
    pub(crate) life: usize,
    pub(crate) granted: u64,
    pub(crate) began: Option<u64>,
    pub(crate) outcome: Outcome,
    pub(crate) ended: Option<(Ended, u64)>,
    pub(crate) reported: bool,
    /// It is of a list whose jobs start at a rate.
    pub(crate) at_a_rate: bool,
    /// When it was seen first, and when it was not there yet.
    pub(crate) seen: u64,
    pub(crate) since: u64,
    /// The number of the run in its process, of a body that knows no lease.
    pub(crate) run: Option<u32>,
}

impl Hold {
    /// One that is seen now, and was not there at the other time.
    pub(crate) fn new(n: u32, life: usize, seen: u64, since: u64) -> Self {
        Self {
            n,
            life,
            granted: seen,
            began: None,
            outcome: Outcome::None,
            ended: None,
            reported: false,
            at_a_rate: false,
            seen,
            since,
            run: None,
        }
    }
}

/// One worker in one queue, under one id.
#[derive(Debug)]
pub(crate) struct Life {
    pub(crate) process: usize,
    dead: Option<u64>,
    pulses: VecDeque<Pulse>,
}

/// A heartbeat that was accepted.
#[derive(Debug, Clone, Copy)]
struct Pulse {
    seen: u64,
    /// By the server's clock: the log may be read late.
    made: u64,
}

/// What is known so far.
#[derive(Debug, Default)]
pub(crate) struct Checker {
    pub(crate) ledger: Ledger,
    pub(crate) strikes: Strikes,
    pub(crate) jobs: Jobs,
    pub(crate) holds: HashMap<Lease, Hold>,
    pub(crate) lives: Vec<Life>,
    life_of: HashMap<(u8, String), usize>,
    /// Processes whose async bodies end when they are cut off.
    cancel_on_disconnect: HashSet<usize>,
    pub(crate) early: Vec<(usize, Note)>,
    pub(crate) to_judge: VecDeque<(u64, Lease)>,
    pub(crate) to_forget: VecDeque<(u64, Lease)>,
    /// Workers that were declared dead, why is not known yet.
    pub(crate) deaths: VecDeque<(u64, usize, String)>,
    violations: Vec<Violation>,
    /// Bodies that began after their lease was lost, which a fault explains.
    pub(crate) late_starts: u64,
    pub(crate) begun: u64,
    /// What is in inboxes, and since when.
    pub(crate) in_inboxes: HashMap<(u32, Vec<u8>), u64>,
    pub(crate) seen: u64,
    /// What is about bodies that know no lease.
    pub(crate) plain: Plain,
    /// What is about operators.
    pub(crate) edits: Edits,
}

impl Checker {
    /// A process ends its async bodies when it is cut off.
    pub(crate) fn stops_when_cut(&mut self, process: usize) {
        self.cancel_on_disconnect.insert(process);
    }

    pub(crate) fn violations(&self) -> &[Violation] {
        &self.violations
    }

    pub(crate) fn wrong(&mut self, rule: &'static str, detail: String) {
        self.violations.push(Violation { at: self.seen, rule, detail });
    }

    /// A fault strikes now.
    pub(crate) fn strike(&mut self, kind: Kind, process: Option<usize>, at: u64) -> usize {
        self.strikes.begin(kind, process, at, self.ledger.held())
    }

    /// One change of the server's data, read at this time.
    pub(crate) fn changed(&mut self, commands: &[Command], seen: u64) {
        self.seen = seen;
        for event in self.ledger.apply(commands) {
            self.event(event);
        }
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::Entered { n } => self.entered(n),
            Event::Granted { n, lease, worker } => self.granted(n, lease, worker),
            Event::LeaseEnded { n, lease, how } => self.lease_ended(n, lease, how),
            Event::Deleted { n } => self.deleted(n),
            Event::Again { n } => self.runs_again(n),
            Event::SetAside { n, how } => self.settled(n, how),
            Event::Dead { queue, worker } => self.declared_dead(queue, worker),
            Event::Pulse { queue, worker, ms } => {
                let seen = self.seen;
                let made = self.plain.made_at(ms.saturating_mul(1_000), seen);
                if let Some(life) = self.life(queue, worker) {
                    let pulses = &mut self.lives[life].pulses;
                    pulses.push_back(Pulse { seen, made });
                    if pulses.len() > 16 {
                        pulses.pop_front();
                    }
                }
            }
            Event::Wrong { rule, detail } => self.wrong(rule, detail),
        }
    }

    fn entered(&mut self, n: u32) {
        let job = self.jobs.get(n);
        let (again, refused) = (std::mem::replace(&mut job.seen, true), job.told == Told::Refused);
        let ended = job.ended;
        if again {
            let detail = format!("job {n} came back from nowhere, settled before: {ended:?}");
            self.wrong("what is settled is settled", detail);
        }
        if refused {
            self.wrong("refused is refused", format!("job {n} is in"));
        }
    }

    fn granted(&mut self, n: u32, lease: Lease, worker: String) {
        let Some(life) = self.life(lease.0, worker) else { return };
        if self.lives[life].dead.is_some() {
            let process = self.lives[life].process;
            let detail = format!("job {n}, lease {lease:?}, process {process}");
            self.wrong("the dead get no leases", detail);
        }
        if limited(n) == Some(Limited::AtARate)
            && let Some(starts) = self.ledger.limits.starts(lease)
            && !self.strikes.servers_clock_jumped(self.seen)
        {
            self.wrong("no rate is exceeded", format!("{starts} within a second, job {n}"));
        }
        let mut hold = self.comes_under(n, lease, life);
        hold.at_a_rate = self.ledger.limits.is_at_a_rate(lease);
        self.holds.insert(lease, hold);
    }

    fn lease_ended(&mut self, n: u32, lease: Lease, how: Ended) {
        let seen = self.seen;
        let Some(hold) = self.holds.get_mut(&lease) else { return };
        hold.ended = Some((how, seen));
        let began = hold.began.is_some();
        let life = &mut self.lives[hold.life];
        let process = life.process;
        if how == Ended::Recovered {
            // Marked or not: from here on it must not go on under its id.
            life.dead.get_or_insert(seen);
        }
        self.to_judge.push_back((seen, lease));
        match how {
            Ended::Acked | Ended::Failed | Ended::Cancelled | Ended::Broken => {
                self.settled(n, how);
            }
            Ended::Recovered => {
                self.jobs.get(n).recoveries += 1;
                let cause = self.strikes.silenced(process, seen);
                if let Some(cause) = cause {
                    self.strikes.get_mut(cause).taken_back += 1;
                }
                self.jobs.get(n).lost(cause, began);
            }
            Ended::Released if began => {
                let cause = self.why_given_back(process, seen);
                self.jobs.get(n).lost(cause, began);
            }
            Ended::Retried | Ended::Released | Ended::Parked | Ended::Deleted => {}
        }
    }

    /// Why a worker may give back what it had begun.
    pub(crate) fn why_given_back(&self, process: usize, at: u64) -> Option<usize> {
        let strikes = &self.strikes;
        let when_cut = || {
            let stops = self.cancel_on_disconnect.contains(&process);
            stops.then(|| strikes.server_was_away(at)).flatten()
        };
        strikes.terminated(process, at).or_else(|| strikes.silenced(process, at)).or_else(when_cut)
    }

    pub(crate) fn settled(&mut self, n: u32, how: Ended) {
        let seen = self.seen;
        if how == Ended::Cancelled && !self.edits.is_cancelled(n) {
            self.wrong("only what is seen is edited", format!("job {n} was cancelled"));
        }
        let job = self.jobs.get(n);
        let before = job.ended.replace(how);
        job.ended_at = seen;
        if let Some(before) = before {
            self.wrong("settled once", format!("job {n}: {before:?}, and then {how:?}"));
        }
    }

    fn declared_dead(&mut self, queue: u8, worker: String) {
        let (seen, name) = (self.seen, worker.clone());
        let Some(life) = self.life(queue, worker) else { return };
        let life = &mut self.lives[life];
        let process = life.process;
        if life.dead.replace(seen).is_some() {
            return;
        }
        let jumped = self.strikes.servers_clock_jumped(seen);
        let silent_for = if jumped { SILENT_FOR_AFTER_A_JUMP } else { SILENT_FOR };
        let heard = life.pulses.back().map(|pulse| pulse.made);
        // With a full disk the log is behind what was accepted.
        let heard = heard
            .filter(|heard| heard + silent_for > seen && !self.strikes.disk_was_full(*heard, seen));
        // One that is dead in another queue ends this life by itself.
        let others = (0..=BEATS).filter(|other| *other != queue);
        let mut others = others.filter_map(|other| self.life_of.get(&(other, name.clone())));
        let leaves = others.any(|life| self.lives[*life].dead.is_some());
        if let Some(heard) = heard
            && !leaves
            && !self.strikes.ends(process, seen)
        {
            let ms = (seen - heard) / 1_000_000;
            let lately = self.strikes.lately(process, seen);
            let detail = format!(
                "worker {name}, process {process}, heard of {ms} ms before; what struck, and how many ms before: {lately}"
            );
            self.wrong("only the silent are declared dead", detail);
        }
        // The later of the two: a worker that was cut off and is told to end says so itself.
        let silenced = self.strikes.silenced(process, seen);
        if let Some(cause) = silenced.max(self.strikes.terminated(process, seen)) {
            self.strikes.get_mut(cause).noticed.get_or_insert(seen);
        } else {
            self.deaths.push_back((seen, process, name));
        }
    }

    /// The worker under this id; none, with a violation, where it is none of the suite's.
    pub(crate) fn life(&mut self, queue: u8, worker: String) -> Option<usize> {
        if let Some(life) = self.life_of.get(&(queue, worker.clone())) {
            return Some(*life);
        }
        let label = worker.split('.').next().and_then(|label| label.strip_prefix('w'));
        let Some(process) = label.and_then(|number| number.parse().ok()) else {
            self.wrong("every worker is known", worker);
            return None;
        };
        self.lives.push(Life { process, dead: None, pulses: VecDeque::new() });
        self.life_of.insert((queue, worker), self.lives.len() - 1);
        Some(self.lives.len() - 1)
    }

    /// What a process noted, read at this time.
    pub(crate) fn noted(&mut self, process: usize, note: Note, seen: u64) {
        self.seen = seen;
        match note.what {
            What::Trying => self.told(note, Told::Trying),
            What::Accepted => self.told(note, Told::Accepted),
            What::Refused => self.told(note, Told::Refused),
            What::Uncertain => self.told(note, Told::Uncertain),
            What::Begin | What::End => {
                if note.token == 0 {
                    self.plain_noted(process, note);
                }
                if self.is_behind(process, &note) || !self.body_of(process, note, false) {
                    self.early.push((process, note));
                }
            }
            What::Stalled => {
                let from = note.at.saturating_sub(u64::from(note.count) * 1_000_000);
                // Under SIGSTOP it is what was planned.
                if !self.strikes.did_not_run(process, from, note.at) {
                    let strike = self.strike(Kind::Busy, Some(process), from);
                    self.strikes.end(strike, note.at);
                }
            }
            What::Up | What::Done => {}
        }
        if note.outcome == Outcome::Abort {
            let strike = self.strike(Kind::Abort, Some(process), note.at);
            self.strikes.end(strike, note.at);
        }
    }

    fn told(&mut self, note: Note, told: Told) {
        for n in note.n..note.n + note.count {
            let job = self.jobs.get(n);
            job.told = told;
            if told == Told::Refused && job.seen {
                self.wrong("refused is refused", format!("job {n} is in"));
            }
        }
    }

    /// Whether an earlier run of the job by this process waits for the log: what is there by then is for that one.
    pub(crate) fn is_behind(&self, process: usize, note: &Note) -> bool {
        self.early.iter().any(|(of, early)| *of == process && early.n == note.n)
    }

    /// A line of a body. False where the lease is not known, or not yet; `last` where it will not be.
    pub(crate) fn body_of(&mut self, process: usize, note: Note, last: bool) -> bool {
        if note.token == 0 {
            self.plain_body(process, note, last)
        } else {
            self.body(process, note)
        }
    }

    fn body(&mut self, process: usize, note: Note) -> bool {
        let lease = (note.queue, note.token);
        let Some(hold) = self.holds.get_mut(&lease) else { return false };
        let (n, at) = (note.n, note.at);
        if note.what == What::End {
            hold.outcome = note.outcome;
            return true;
        }
        let (twice, ended, life) = (hold.began.replace(at).is_some(), hold.ended, hold.life);
        let unlimited = limited(n) == Some(Limited::AtARate) && !hold.at_a_rate;
        let mistaken = hold.n != n || self.lives[life].process != process;
        if unlimited {
            self.wrong(
                "no rate is exceeded",
                format!("job {n} began under {lease:?}, which has none"),
            );
        }
        if mistaken || twice {
            let rule = if twice { "one start for a lease" } else { "a body runs under its lease" };
            self.wrong(rule, format!("job {n}, lease {lease:?}, process {process}"));
        }
        if ended.is_some_and(|(_, ended)| at > ended) {
            self.starts_late(process, lease, note, ended);
        }
        self.begins(process, life, note);
        true
    }

    /// A body begins after the end of its lease, which only a fault of its process explains.
    pub(crate) fn starts_late(
        &mut self,
        process: usize,
        lease: Lease,
        note: Note,
        ended: Option<(Ended, u64)>,
    ) {
        let (n, at) = (note.n, note.at);
        if self.strikes.silenced(process, at).is_some() {
            self.late_starts += 1;
        } else {
            let detail =
                format!("job {n}, lease {lease:?} of process {process}, {ended:?}, began {at}");
            self.wrong("no start after the end of a lease", detail);
        }
    }

    /// What is the same for every body that begins.
    pub(crate) fn begins(&mut self, process: usize, life: usize, note: Note) {
        let (n, at) = (note.n, note.at);
        self.pulse_at(process, life, note);
        self.begun += 1;
        self.strikes.a_body_began(process, at);
        if self.edits.was_cancelled_before(n, at) && self.strikes.silenced(process, at).is_none() {
            self.wrong("what is cancelled does not begin", format!("job {n}, process {process}"));
        }
        let job = self.jobs.get(n);
        // What two workers died with waits for its turn, a few at a time.
        let suspect = job.recoveries > 1;
        let (cause, again) = job.begins();
        if let Some(cause) = cause {
            let strike = self.strikes.get_mut(cause);
            strike.second_starts += u64::from(again);
            if !suspect {
                strike.again = strike.again.max(Some(at));
            }
        }
    }

    /// No body starts without a heartbeat that was lately accepted, unless its process did not run in between.
    fn pulse_at(&mut self, process: usize, life: usize, note: Note) {
        let since = note.at.saturating_sub(PULSE_HOLDS_FOR);
        let pulses = &self.lives[life].pulses;
        let heard = pulses.iter().any(|pulse| pulse.seen >= since);
        // With a full disk the log is behind what was accepted.
        let excused = self.strikes.did_not_run(process, since, note.at)
            || self.strikes.disk_was_full(since, note.at);
        if !heard && !excused {
            let ms = pulses.back().map(|last| note.at.saturating_sub(last.seen) / 1_000_000);
            let detail =
                format!("job {}, process {process}, last heard of {ms:?} ms before", note.n);
            self.wrong("no start without a pulse", detail);
        }
    }
}
