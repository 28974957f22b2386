//! Bodies of jobs that take no context, and so know neither token nor queue: which lease each ran under follows from the job, the
//! process and the times. A begin belongs to the oldest lease of that job in that process under which none began. Where the times
//! leave more than one, it is settled by how they ended: any order in which all of it fits is taken, and there has to be one.

use std::collections::{HashMap, VecDeque};

use crate::checker::{Checker, Hold};
use crate::diary::{Note, Outcome, What};
use crate::judge::{EARLY_FOR, FORGOTTEN_AFTER};
use crate::ledger::Lease;
use crate::strikes::SECOND;

/// Bodies of one job are held against each other so long after a begin: then it is known what is said of it.
const COMPARED_AFTER: u64 = EARLY_FOR + 5 * SECOND;

/// So many holds of a job by one process are put in another order at most.
const IN_ORDER: usize = 12;

/// One body, from begin to end.
#[derive(Debug)]
struct Run {
    process: usize,
    number: u32,
    began: u64,
    ended: Option<u64>,
    /// It began after what it was held by had ended, which a fault of its process explains.
    late: bool,
}

/// What is known of them.
#[derive(Debug, Default)]
pub(crate) struct Plain {
    runs: HashMap<u32, Vec<Run>>,
    /// What holds, or lately held, each job, the oldest first.
    pub(crate) holds_of: HashMap<u32, Vec<Lease>>,
    to_compare: VecDeque<(u64, u32, usize, u32)>,
    to_forget: VecDeque<(u64, u32)>,
    /// When the log was read, and when it was before: what is new was not in it then.
    pub(crate) read: u64,
    pub(crate) read_before: u64,
    /// What has to be taken from the time of the clock on the wall for that of the notes, in nanoseconds.
    from_wall: Option<i128>,
    /// Bodies that know no lease.
    pub(crate) begun: u64,
}

impl Plain {
    /// The log is about to be read.
    pub(crate) fn reads_log(&mut self, at: u64) {
        self.read_before = std::mem::replace(&mut self.read, at);
    }

    pub(crate) fn wall_is_ahead(&mut self, by: i128) {
        self.from_wall = Some(by);
    }

    /// When something was accepted, by its time in us of the server, whose clock jumps by whole seconds; or at least when it was not
    /// there yet.
    pub(crate) fn made_at(&self, us: u64, seen: u64) -> u64 {
        let times = self.from_wall.into_iter().flat_map(|ahead| {
            // By whole seconds the server's clock is set.
            (-3..=3).map(move |s| i128::from(us) * 1_000 - ahead + s * i128::from(SECOND))
        });
        let mut possible = times.filter_map(|at| u64::try_from(at).ok());
        let possible = possible.find(|at| (self.read_before..=seen).contains(at));
        possible.unwrap_or(self.read_before)
    }

    pub(crate) fn forget(&mut self, n: u32, lease: Lease) {
        if let Some(holds) = self.holds_of.get_mut(&n) {
            holds.retain(|of| *of != lease);
            if holds.is_empty() {
                self.holds_of.remove(&n);
            }
        }
    }

    fn run(&mut self, n: u32, process: usize, number: u32) -> Option<&mut Run> {
        let mut runs = self.runs.get_mut(&n)?.iter_mut();
        runs.find(|run| run.process == process && run.number == number)
    }
}

impl Checker {
    /// A job came under this lease.
    pub(crate) fn comes_under(&mut self, n: u32, lease: Lease, life: usize) -> Hold {
        self.plain.holds_of.entry(n).or_default().push(lease);
        Hold::new(n, life, self.seen, self.plain.read_before)
    }

    /// A line of a body that knows no lease, when it is read.
    pub(crate) fn plain_noted(&mut self, process: usize, note: Note) {
        let (n, number, at) = (note.n, note.count, note.at);
        if note.what == What::End {
            if let Some(run) = self.plain.run(n, process, number) {
                run.ended = Some(at);
            }
            return;
        }
        let run = Run { process, number, began: at, ended: None, late: false };
        self.plain.runs.entry(n).or_default().push(run);
        self.plain.to_compare.push_back((self.seen, n, process, number));
        self.plain.begun += 1;
    }

    /// What such a line says of a hold. False where none is known, or not yet; what has ended counts only at `last`.
    pub(crate) fn plain_body(&mut self, process: usize, note: Note, last: bool) -> bool {
        let (n, at) = (note.n, note.at);
        let holds = self.plain.holds_of.get(&n).cloned().unwrap_or_default();
        let own: Vec<_> = holds
            .into_iter()
            .filter(|lease| {
                let hold = self.holds.get(lease);
                hold.is_some_and(|hold| self.lives[hold.life].process == process)
            })
            .collect();
        if note.what == What::End {
            let run = own.iter().find(|lease| self.holds[lease].run == Some(note.count));
            let hold = run.and_then(|lease| self.holds.get_mut(lease));
            return hold.map(|hold| hold.outcome = note.outcome).is_some();
        }
        let free = |lease: &&Lease| self.holds[lease].began.is_none() && self.was_there(lease, at);
        let lives = |lease: &&Lease| self.holds[lease].ended.is_none_or(|(_, ended)| at <= ended);
        let found = own.iter().filter(free).find(lives);
        let late = found.is_none();
        let over = own.iter().rfind(free).filter(|_| last);
        let Some(lease) = found.or(over).copied() else { return false };
        let Some(hold) = self.holds.get_mut(&lease) else { return false };
        (hold.began, hold.run) = (Some(at), Some(note.count));
        let (life, ended) = (hold.life, hold.ended);
        if late {
            self.starts_late(process, lease, note, ended);
            let silenced = self.strikes.silenced(process, at).is_some();
            if let Some(run) = self.plain.run(n, process, note.count) {
                run.late = silenced;
            }
        }
        self.begins(process, life, note);
        true
    }

    /// Whether this was there at that time: with a full disk the log is behind.
    fn was_there(&self, lease: &Lease, at: u64) -> bool {
        let hold = &self.holds[lease];
        hold.since <= at || self.strikes.disk_was_full(at.saturating_sub(SECOND), hold.seen)
    }

    /// What is known of a job by a process, for who reads of a violation.
    pub(crate) fn plain_story(&mut self, process: usize, note: Note) -> String {
        let holds = self.plain.holds_of.get(&note.n).into_iter().flatten();
        let holds: Vec<_> = holds
            .filter_map(|lease| Some((lease, self.holds.get(lease)?)))
            .map(|(lease, hold)| {
                let process = self.lives[hold.life].process;
                format!(
                    "{lease:?} of process {process} from {} on, begun {:?}, ended {:?}",
                    hold.since, hold.began, hold.ended
                )
            })
            .collect();
        let job = self.jobs.get(note.n);
        format!(
            "job {}, run {} of process {process}, began {}, settled {:?} at {}; held: {}",
            note.n,
            note.count,
            note.at,
            job.ended,
            job.ended_at,
            holds.join("; ")
        )
    }

    /// The ends of holds do not fit what ran under them: looks for an order in which they do, and takes it.
    pub(crate) fn fits_in_another_order(&mut self, n: u32, process: usize) -> bool {
        let mut holds: Vec<_> = self.plain.holds_of.get(&n).cloned().unwrap_or_default();
        holds.retain(|lease| {
            let hold = self.holds.get(lease);
            hold.is_some_and(|hold| self.lives[hold.life].process == process)
        });
        let mut runs: Vec<_> = holds.iter().map(|lease| &self.holds[lease]).collect();
        runs.retain(|hold| hold.run.is_some());
        let mut runs: Vec<_> =
            runs.iter().map(|hold| (hold.began, hold.run, hold.outcome)).collect();
        runs.sort_by_key(|(began, ..)| *began);
        if runs.is_empty() || holds.len() > IN_ORDER {
            return false;
        }
        let mut taken = Vec::new();
        if !self.order(&holds, &runs, &mut taken) {
            return false;
        }
        for (lease, (began, run, outcome)) in holds.iter().zip(taken) {
            if let Some(hold) = self.holds.get_mut(lease) {
                (hold.began, hold.run, hold.outcome) = (began, run, outcome);
            }
        }
        true
    }

    fn order(
        &mut self,
        holds: &[Lease],
        runs: &[(Option<u64>, Option<u32>, Outcome)],
        taken: &mut Vec<(Option<u64>, Option<u32>, Outcome)>,
    ) -> bool {
        let Some((lease, rest)) = holds.split_first() else { return runs.is_empty() };
        if runs.len() > holds.len() {
            return false;
        }
        if let Some((run, others)) = runs.split_first() {
            let at = run.0.unwrap_or(0);
            let hold = &self.holds[lease];
            let process = self.lives[hold.life].process;
            let in_time = hold.ended.is_none_or(|(_, ended)| at <= ended)
                || self.strikes.silenced(process, at).is_some();
            if in_time && self.was_there(lease, at) && self.fits(*lease, true, run.2) {
                taken.push(*run);
                if self.order(rest, others, taken) {
                    return true;
                }
                taken.pop();
            }
        }
        if !self.fits(*lease, false, Outcome::None) {
            return false;
        }
        taken.push((None, None, Outcome::None));
        let all = self.order(rest, runs, taken);
        if !all {
            taken.pop();
        }
        all
    }

    /// What time brings about: two bodies of one job at once are a violation that only a silenced process explains.
    pub(crate) fn compare_plain(&mut self, seen: u64) {
        while let Some((at, n, process, number)) = self.plain.to_compare.front().copied()
            && at + COMPARED_AFTER < seen
        {
            self.plain.to_compare.pop_front();
            self.plain.to_forget.push_back((at, n));
            let runs = self.plain.runs.get(&n);
            let is_it = |run: &&Run| run.process == process && run.number == number;
            let Some(this) = runs.and_then(|runs| runs.iter().find(is_it)) else { continue };
            let others = runs.into_iter().flatten().filter(|run| !is_it(run));
            let at_once = others.filter(|run| {
                run.began <= this.began && run.ended.is_none_or(|ended| ended > this.began)
            });
            let explained =
                |run: &&Run| this.late || self.strikes.silenced(run.process, this.began).is_some();
            let wrong: Vec<_> = at_once
                .filter(|run| !explained(run))
                .map(|run| format!("job {n}: {this:?} while {run:?}"))
                .collect();
            for detail in wrong {
                self.wrong("one body of a job at a time", detail);
            }
        }
        while let Some((at, n)) = self.plain.to_forget.front().copied()
            && at + FORGOTTEN_AFTER < seen
        {
            self.plain.to_forget.pop_front();
            // Whoever began since is to be compared yet.
            if let Some(runs) = self.plain.runs.get_mut(&n) {
                runs.retain(|run| run.began > at);
                if runs.is_empty() {
                    self.plain.runs.remove(&n);
                }
            }
        }
    }
}
