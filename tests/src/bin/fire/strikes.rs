//! The faults that struck, and what each brought about: who was noticed when, and what ran again.

use std::collections::HashMap;

use crate::faults::Kind;

pub(crate) const SECOND: u64 = 1_000_000_000;

/// A worker that was silenced may be declared dead up to so long after it could be heard again.
const EXPLAINS_FOR: u64 = 10 * SECOND;

/// One fault that struck.
#[derive(Debug, Clone)]
pub(crate) struct Strike {
    pub(crate) kind: Kind,
    pub(crate) at: u64,
    /// None while it lasts.
    pub(crate) until: Option<u64>,
    /// The process that it struck, where it was one.
    pub(crate) process: Option<usize>,
    /// How many leases were held.
    pub(crate) leases: usize,
    /// When a worker of the process was declared dead.
    pub(crate) noticed: Option<u64>,
    /// When the last of the jobs that it took from the process began again.
    pub(crate) again: Option<u64>,
    /// When work went on after it.
    pub(crate) resumed: Option<u64>,
    /// Jobs that were taken back.
    pub(crate) taken_back: u64,
    /// Those of them that had begun, and began once more.
    pub(crate) second_starts: u64,
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Strikes {
    all: Vec<Strike>,
    of_process: HashMap<usize, Vec<usize>>,
    of_the_server: Vec<usize>,
    clock_jumps: Vec<u64>,
    /// Processes that were told to end at the end of the run.
    ending: HashMap<usize, u64>,
    /// Those after which nothing went on yet.
    waiting: Vec<usize>,
}

impl Strikes {
    /// One begins.
    pub(crate) fn begin(
        &mut self,
        kind: Kind,
        process: Option<usize>,
        at: u64,
        leases: usize,
    ) -> usize {
        let index = self.all.len();
        self.all.push(Strike {
            kind,
            at,
            until: None,
            process,
            leases,
            noticed: None,
            again: None,
            resumed: None,
            taken_back: 0,
            second_starts: 0,
        });
        if let Some(process) = process {
            self.of_process.entry(process).or_default().push(index);
        }
        if kind == Kind::ServerClock {
            self.clock_jumps.push(at);
        }
        if kind.is_of_the_server() {
            self.of_the_server.push(index);
        }
        index
    }

    /// A process is told to end, since the run is over; that is no fault.
    pub(crate) fn last_term(&mut self, process: usize, at: u64) {
        self.ending.entry(process).or_insert(at);
    }

    /// It is over.
    pub(crate) fn end(&mut self, index: usize, at: u64) {
        self.all[index].until = Some(at);
        if !self.all[index].kind.is_final() {
            self.waiting.push(index);
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Strike> {
        self.all.iter()
    }

    /// Whether nothing kept the others from noticing it by then: no fault of the server.
    pub(crate) fn undisturbed(&self, strike: &Strike, by: u64) -> bool {
        self.server_trouble(strike.at, by) == 0
    }

    pub(crate) fn get_mut(&mut self, index: usize) -> &mut Strike {
        &mut self.all[index]
    }

    /// A body began in a process.
    pub(crate) fn a_body_began(&mut self, process: usize, at: u64) {
        let all = &mut self.all;
        self.waiting.retain(|index| {
            let strike = &mut all[*index];
            let over = strike.until.is_some_and(|until| at >= until)
                && strike.process.is_none_or(|victim| victim == process);
            if over {
                strike.resumed = Some(at);
            }
            !over
        });
    }

    /// Why this process may have been taken for dead at that time, if there is a reason: the latest.
    pub(crate) fn silenced(&self, process: usize, at: u64) -> Option<usize> {
        self.latest(process, at, Kind::silences).or_else(|| {
            // What it could not give back while the server was away, others take back.
            let term = self.latest(process, at, |kind| kind == Kind::Term)?;
            (self.server_trouble(self.all[term].at, at) > 0).then_some(term)
        })
    }

    /// The fault that asked the process to end.
    pub(crate) fn terminated(&self, process: usize, at: u64) -> Option<usize> {
        self.latest(process, at, |kind| kind == Kind::Term)
    }

    /// Whether the process was asked to end, by a fault or because all is over.
    pub(crate) fn ends(&self, process: usize, at: u64) -> bool {
        self.terminated(process, at).is_some() || self.ending.contains_key(&process)
    }

    /// Whether a body of the process ended it.
    pub(crate) fn aborted(&self, process: usize) -> bool {
        self.of(process).any(|(_, strike)| strike.kind == Kind::Abort)
    }

    /// Whether the process was kept from running in this time.
    pub(crate) fn did_not_run(&self, process: usize, from: u64, to: u64) -> bool {
        self.of(process).any(|(_, strike)| {
            matches!(strike.kind, Kind::Stop | Kind::Busy)
                && strike.at <= to
                && strike.until.is_none_or(|until| until >= from)
        })
    }

    /// Whether the server could not write its log in this time.
    pub(crate) fn disk_was_full(&self, from: u64, to: u64) -> bool {
        let strikes = self.of_the_server.iter().rev().map(|index| &self.all[*index]);
        let mut in_time = strikes
            .take_while(|strike| strike.until.is_none_or(|until| until + SECOND >= from))
            .filter(|strike| strike.at <= to);
        in_time.any(|strike| strike.kind == Kind::DiskFull)
    }

    /// Whether the server's clock jumped up to 15 s before.
    pub(crate) fn servers_clock_jumped(&self, at: u64) -> bool {
        self.clock_jumps.iter().rev().any(|jump| *jump <= at && at <= jump + 15 * SECOND)
    }

    /// What struck the process, the server or its clock up to 30 s before, and how many ms ago it began and ended.
    pub(crate) fn lately(&self, process: usize, at: u64) -> String {
        let ago = |then: u64| (at.saturating_sub(then) / 1_000_000).to_string();
        let about = |strike: &&Strike| {
            strike.process == Some(process)
                || strike.kind.is_of_the_server()
                || strike.kind == Kind::ServerClock
        };
        let lately = |strike: &&Strike| strike.until.is_none_or(|until| until + 30 * SECOND >= at);
        let told = self.all.iter().filter(about).filter(lately).map(|strike| {
            let until = strike.until.map_or_else(|| "now".to_owned(), ago);
            format!("{} {}..{until}", strike.kind.name(), ago(strike.at))
        });
        told.collect::<Vec<_>>().join(", ")
    }

    /// The latest fault of the server that was under way up to 15 s before.
    pub(crate) fn server_was_away(&self, at: u64) -> Option<usize> {
        self.of_the_server.iter().rev().copied().find(|index| {
            let strike = &self.all[*index];
            strike.at <= at && strike.until.is_none_or(|until| at <= until + 15 * SECOND)
        })
    }

    fn of(&self, process: usize) -> impl DoubleEndedIterator<Item = (usize, &Strike)> {
        let indices = self.of_process.get(&process).into_iter().flatten();
        indices.map(|index| (*index, &self.all[*index]))
    }

    fn latest(&self, process: usize, at: u64, kinds: impl Fn(Kind) -> bool) -> Option<usize> {
        let explains = |strike: &Strike| {
            // One that is dead stays so, and a fault of the server begins the watch anew.
            let for_ever = strike.kind.is_final() || strike.kind == Kind::Term;
            let patience = EXPLAINS_FOR * (1 + self.server_trouble(strike.at, at).min(1));
            strike.at <= at && (for_ever || strike.until.is_none_or(|until| at <= until + patience))
        };
        let found =
            self.of(process).rev().find(|(_, strike)| kinds(strike.kind) && explains(strike));
        found.map(|(index, _)| index)
    }

    /// How many faults of the server there were in this time.
    pub(crate) fn server_trouble(&self, from: u64, to: u64) -> u64 {
        let count = self.of_the_server.iter().rev().map(|index| &self.all[*index]);
        let count =
            count.take_while(|strike| strike.until.is_none_or(|until| until + SECOND >= from));
        count.filter(|strike| strike.at <= to).count() as u64
    }
}
