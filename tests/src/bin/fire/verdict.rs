//! What can only be said at the end: nothing was lost, nothing is left, and the server counted what happened.

use std::collections::BTreeMap;

use crate::checker::Checker;
use crate::jobs::QUEUES;
use crate::ledger::Ended;
use crate::tally::Told;

/// What the server holds of one queue when all is over.
#[derive(Debug, Clone, Default)]
pub(crate) struct AtTheEnd {
    /// Keys of jobs and leases that are still there, and how many entries each has.
    pub(crate) left: Vec<(String, u64)>,
    pub(crate) failed: u64,
    pub(crate) cancelled: u64,
    pub(crate) broken: u64,
    pub(crate) counters: BTreeMap<String, i64>,
}

/// Jobs by what became of them.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Totals {
    pub(crate) accepted: u64,
    pub(crate) refused: u64,
    /// Nobody told whether they are in, the producers that were killed included.
    pub(crate) uncertain: u64,
    /// Those of them that were in.
    pub(crate) uncertain_in: u64,
    pub(crate) done: u64,
    pub(crate) failed: u64,
    pub(crate) broken: u64,
    /// By operators.
    pub(crate) cancelled: u64,
    pub(crate) deleted: u64,
    pub(crate) promoted: u64,
    pub(crate) run_again: u64,
    pub(crate) recoveries: u64,
    /// Jobs that came to an end.
    pub(crate) settled: u64,
}

impl Checker {
    /// What became of all jobs.
    pub(crate) fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        for (_, job) in self.jobs.iter() {
            match job.told {
                Told::Accepted => totals.accepted += 1,
                Told::Refused => totals.refused += 1,
                Told::Uncertain | Told::Trying => {
                    totals.uncertain += 1;
                    totals.uncertain_in += u64::from(job.seen);
                }
                Told::Nothing => {}
            }
            match job.ended {
                Some(Ended::Acked) => totals.done += 1,
                Some(Ended::Failed) => totals.failed += 1,
                Some(Ended::Cancelled) => totals.cancelled += 1,
                Some(Ended::Deleted) => totals.deleted += 1,
                Some(_) => totals.broken += 1,
                None => {}
            }
            totals.settled += u64::from(job.ended.is_some());
            totals.recoveries += u64::from(job.recoveries);
        }
        totals.promoted = self.edits.promoted;
        totals.run_again = (0..QUEUES.len()).map(|of| self.ledger.run_again(of) as u64).sum();
        totals
    }

    /// Looks at everything once more, now that all is over.
    pub(crate) fn conclude(&mut self, of_queues: &[AtTheEnd]) {
        let mut wrong = Vec::new();
        for (n, job) in self.jobs.iter() {
            match (job.told, job.seen, job.ended) {
                (Told::Nothing, true, _) => {
                    wrong.push(("every job was enqueued", format!("job {n} is in")));
                }
                (Told::Refused, true, _) => {
                    wrong.push(("refused is refused", format!("job {n} is in")));
                }
                (Told::Accepted, false, _) => {
                    wrong.push(("nothing is lost", format!("job {n} was accepted and is not in")));
                }
                (_, true, None) => {
                    wrong.push(("nothing is lost", format!("job {n} has not come to an end")));
                }
                _ => {}
            }
        }
        wrong.extend(self.edits_untold());
        for (n, place) in self.ledger.left() {
            wrong.push(("nothing is left", format!("job {n}: {place}")));
        }
        for (queue, end) in of_queues.iter().enumerate() {
            let name = QUEUES[queue];
            for (key, length) in &end.left {
                wrong.push(("nothing is left", format!("{key} has {length} entries")));
            }
            let counted = |counter| self.ledger.counter(queue, counter);
            for (what, length, counter) in [
                ("failed", end.failed, counted("failed") - self.ledger.run_again(queue)),
                ("cancelled", end.cancelled, counted("cancelled")),
                ("broken", end.broken, counted("broken")),
            ] {
                if length as i64 != counter {
                    let detail = format!("{length} {what} in {name}, and {counter} were counted");
                    wrong.push(("counters say what happened", detail));
                }
            }
            let own: BTreeMap<String, i64> =
                self.ledger.counters(queue).map(|(name, count)| (name.to_owned(), count)).collect();
            if own != end.counters {
                let detail = format!("{name}: {:?}, and the history has {own:?}", end.counters);
                wrong.push(("counters say what happened", detail));
            }
        }
        for (rule, detail) in wrong {
            self.wrong(rule, detail);
        }
    }
}
