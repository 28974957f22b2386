//! The history as it is seen from outside: what enqueues were told, what bodies noted, and which faults struck. Where the server
//! changes, its log does not tell the whole story, and this is what is checked.

use std::collections::{BTreeMap, HashMap, HashSet};

use hworker_tests::Run;

/// A fault explains what happens up to so long after it: a worker that was stopped is noticed, and its jobs run again.
const EXPLAINS_FOR_US: u64 = 15_000_000;

/// The second run begins at most so long after that: there may be many before it.
const AGAIN_FOR_US: u64 = 15_000_000;

/// What struck, by the clock of the notes, in microseconds.
#[derive(Debug, Clone)]
pub(crate) struct Struck {
    pub(crate) from: u64,
    pub(crate) until: u64,
    /// The process that was kept from going on; `None`: a server went with writes that its replica may not have.
    pub(crate) pid: Option<u32>,
}

/// Everything that is known at the end.
#[derive(Debug, Default)]
pub(crate) struct History {
    /// When the run began, by the clock of the notes.
    pub(crate) began: u64,
    /// Jobs whose enqueue returned `Ok`.
    pub(crate) accepted: HashSet<String>,
    /// Those of which it was said that they may be in, or may not be safe.
    pub(crate) uncertain: HashSet<String>,
    /// Every begin and end.
    pub(crate) runs: Vec<Run>,
    /// Faults that may bring about a second run. One in good order is none.
    pub(crate) struck: Vec<Struck>,
    /// Jobs that are to fail.
    pub(crate) to_fail: HashSet<String>,
    /// Of each queue the jobs that were accepted, and when they were, by the clock of the notes.
    pub(crate) by_queue: BTreeMap<String, Vec<(u64, String)>>,
    /// What the servers counted.
    pub(crate) processed: u64,
    pub(crate) failed: u64,
    /// What is left in the servers.
    pub(crate) left: Vec<(String, u64)>,
    /// What was seen to be wrong at once.
    pub(crate) wrong: Vec<String>,
}

/// What the check found.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) violations: Vec<String>,
    pub(crate) jobs: usize,
    /// Runs that a fault explains.
    pub(crate) again: usize,
}

impl History {
    /// Whether nothing is outstanding, as far as the history shows.
    pub(crate) fn missing(&self) -> usize {
        let settled = self.settled();
        self.accepted.iter().filter(|id| !settled.contains(id.as_str())).count()
    }

    /// The jobs whose bodies came to an end that settles them.
    fn settled(&self) -> HashSet<&str> {
        let last = |run: &&Run| run.what == "end" || run.what == "fails";
        self.runs.iter().filter(last).map(|run| run.id.as_str()).collect()
    }

    /// Holds it against what is promised.
    pub(crate) fn check(&self) -> Found {
        let mut found = Found { violations: self.wrong.clone(), ..Found::default() };
        let settled = self.settled();
        found.jobs = settled.len();
        for id in self.accepted.iter().filter(|id| !settled.contains(id.as_str())) {
            found.violations.push(format!("accepted and lost: {}", self.story(id)));
        }
        let mut begins: BTreeMap<&str, Vec<&Run>> = BTreeMap::new();
        for run in self.runs.iter().filter(|run| run.what == "begin") {
            begins.entry(&run.id).or_default().push(run);
        }
        for (id, runs) in &mut begins {
            if !self.accepted.contains(*id) && !self.uncertain.contains(*id) {
                found.violations.push(format!("never enqueued, but run: {}", self.story(id)));
            }
            runs.sort_by_key(|run| run.token);
            for pair in runs.windows(2) {
                // A retry is a run that its job asked for.
                if pair[1].attempt == pair[0].attempt + 1 {
                    continue;
                }
                if self.is_explained(pair[0], pair[1]) {
                    found.again += 1;
                } else {
                    let story = self.story(id);
                    found.violations.push(format!("run again without a fault: {story}"));
                }
            }
        }
        self.check_counters(&mut found);
        found.violations.extend(
            self.left.iter().map(|(key, count)| format!("{count} entries are left in {key}")),
        );
        found
    }

    /// What is known of a job: where and when it was accepted, and what its bodies noted.
    fn story(&self, id: &str) -> String {
        let accepted = self.by_queue.iter().find_map(|(queue, jobs)| {
            let (at, _) = jobs.iter().find(|(_, job)| job == id)?;
            Some(format!("accepted on {queue} at {:.3} s", self.seconds(*at)))
        });
        let mut runs: Vec<_> = self.runs.iter().filter(|run| run.id == id).collect();
        runs.sort_by_key(|run| run.at);
        let noted = runs.iter().map(|run| {
            let Run { what, attempt, worker, pid, .. } = run;
            let at = self.seconds(run.at);
            format!("{what} at {at:.3} s (attempt {attempt} by {worker}, {pid})")
        });
        let noted = noted.collect::<Vec<_>>().join(", ");
        let noted = if noted.is_empty() { "nothing" } else { &noted };
        format!("{id}, {}; noted: {noted}", accepted.as_deref().unwrap_or("not accepted"))
    }

    /// A time of the clock of the notes, in seconds since the run began.
    pub(crate) fn seconds(&self, at: u64) -> f64 {
        at.saturating_sub(self.began) as f64 / 1e6
    }

    /// Whether a job could begin again after this run of it.
    fn is_explained(&self, run: &Run, again: &Run) -> bool {
        self.struck.iter().any(|struck| {
            let last = struck.until + EXPLAINS_FOR_US;
            let in_time = run.at <= last && (struck.from..=last + AGAIN_FOR_US).contains(&again.at);
            in_time && struck.pid.is_none_or(|pid| pid == run.pid)
        })
    }

    /// How long, around that time, a queue took no jobs, and how long it began none: that of which it was longest.
    pub(crate) fn outage(&self, from: u64, until: u64) -> (u64, u64) {
        let mut begun: HashMap<&str, Vec<u64>> = HashMap::new();
        for run in self.runs.iter().filter(|run| run.what == "begin") {
            begun.entry(&run.id).or_default().push(run.at);
        }
        let (mut accepts, mut begins) = (0, 0);
        for jobs in self.by_queue.values() {
            accepts = accepts.max(pause(jobs.iter().map(|(at, _)| *at).collect(), from, until));
            let of_jobs = jobs.iter().filter_map(|(_, id)| begun.get(id.as_str()));
            begins = begins.max(pause(of_jobs.flatten().copied().collect(), from, until));
        }
        (accepts, begins)
    }

    /// Each job was settled once: the servers counted every accepted one, and no more than there are.
    fn check_counters(&self, found: &mut Found) {
        let settled = self.settled();
        let counts = |fails: bool| {
            let of_it = |id: &&str| self.to_fail.contains(*id) == fails;
            let all = settled.iter().copied().filter(of_it).count() as u64;
            let safe = settled.iter().copied().filter(of_it);
            let safe = safe.filter(|id| self.accepted.contains(*id)).count() as u64;
            (safe, all)
        };
        for (name, counted, (safe, all)) in
            [("processed", self.processed, counts(false)), ("failed", self.failed, counts(true))]
        {
            if !(safe..=all).contains(&counted) {
                let range = format!("{safe} to {all}");
                found.violations.push(format!("{name} is {counted}, and should be {range}"));
            }
        }
    }
}

/// The longest time without an event of which a part lies between these two.
fn pause(mut events: Vec<u64>, from: u64, until: u64) -> u64 {
    events.sort_unstable();
    let pauses = events.windows(2).filter(|pair| pair[0] <= until && pair[1] >= from);
    pauses.map(|pair| pair[1] - pair[0]).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(at: u64, what: &str, token: u64, attempt: u32) -> Run {
        let (what, id, worker) = (what.to_owned(), "job".to_owned(), "w".to_owned());
        Run { at, what, id, number: 0, attempt, token, worker, pid: 7, run: 0 }
    }

    fn good() -> History {
        let runs = vec![run(1, "begin", 1, 1), run(2, "begin", 2, 2), run(3, "end", 2, 2)];
        let accepted = HashSet::from(["job".to_owned()]);
        History { accepted, runs, processed: 1, ..History::default() }
    }

    #[test]
    fn a_sound_history_has_no_violation() {
        assert!(good().check().violations.is_empty(), "{:?}", good().check());
    }

    #[test]
    fn what_is_wrong_is_found() {
        let broken: [fn(&mut History); 6] = [
            |history| drop(history.runs.pop()),
            |history| history.accepted.clear(),
            |history| history.processed = 2,
            |history| history.failed = 1,
            |history| history.left.push(("hworker-progress-default:w".to_owned(), 1)),
            |history| history.runs.push(run(4, "begin", 3, 2)),
        ];
        for (number, breaks) in broken.iter().enumerate() {
            let mut history = good();
            breaks(&mut history);
            assert!(!history.check().violations.is_empty(), "{number}");
        }
    }

    #[test]
    fn what_is_lost_is_told_with_its_story() {
        let mut history = good();
        history.began = 1_000_000;
        history.runs = vec![run(3_250_000, "begin", 1, 1)];
        history.by_queue.insert("mail".into(), vec![(3_000_000, "job".to_owned())]);
        let lost = |history: &History| history.check().violations.remove(0);
        assert_eq!(
            lost(&history),
            "accepted and lost: job, accepted on mail at 2.000 s; noted: begin at 2.250 s (attempt 1 by w, 7)"
        );
        history.runs.clear();
        assert!(lost(&history).ends_with("at 2.000 s; noted: nothing"), "{}", lost(&history));
    }

    #[test]
    fn an_outage_is_the_longest_pause_around_a_fault() {
        let mut history = good();
        let jobs = |times: &[u64]| times.iter().map(|at| (*at, "job".to_owned())).collect();
        history.by_queue.insert("a".into(), jobs(&[0, 10, 90, 300]));
        history.by_queue.insert("b".into(), jobs(&[0, 20, 40]));
        assert_eq!(history.outage(20, 30), (80, 0));
        assert_eq!(history.outage(1, 1).1, 1);
        assert_eq!(history.outage(100, 110).0, 210);
    }

    #[test]
    fn a_fault_explains_a_second_run_of_its_own() {
        let mut history = good();
        history.runs.push(run(4, "begin", 3, 2));
        history.struck.push(Struck { from: 2, until: 5, pid: Some(8) });
        assert_eq!(history.check().violations.len(), 1);
        history.struck.push(Struck { from: 2, until: 5, pid: Some(7) });
        let found = history.check();
        assert_eq!((found.violations.len(), found.again), (0, 1));
        // Not what comes long after it.
        history.runs.push(run(40_000_000, "begin", 4, 2));
        assert_eq!(history.check().violations.len(), 1);
    }
}
