//! What is remembered of each job, for as long as the run lasts: 24 bytes.

use std::collections::HashMap;

use crate::ledger::Ended;

/// What its producer was told of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Told {
    /// The producer never tried.
    #[default]
    Nothing,
    /// It tried and was told nothing; it may have been killed.
    Trying,
    Accepted,
    Refused,
    Uncertain,
}

/// One job.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Job {
    pub(crate) ended_at: u64,
    /// The fault that took its lease before it was begun again, plus one.
    cause: u32,
    pub(crate) told: Told,
    /// It came into the server.
    pub(crate) seen: bool,
    pub(crate) ended: Option<Ended>,
    pub(crate) recoveries: u8,
    /// It had begun under the lease that was taken.
    again: bool,
}

impl Job {
    /// So many deaths of its worker end a job.
    pub(crate) const CRASH_LIMIT: u8 = 4;

    /// Its lease was taken or given back because of a fault.
    pub(crate) fn lost(&mut self, cause: Option<usize>, began: bool) {
        self.cause = cause.map_or(0, |cause| cause as u32 + 1);
        self.again |= began;
    }

    /// It begins: after which fault, and whether it had begun before that.
    pub(crate) fn begins(&mut self) -> (Option<usize>, bool) {
        let cause = std::mem::take(&mut self.cause).checked_sub(1).map(|cause| cause as usize);
        (cause, std::mem::take(&mut self.again))
    }
}

/// Jobs of one producer at most; their numbers begin at a multiple of it.
pub(crate) const OF_A_PRODUCER: u32 = 1 << 20;

/// All jobs by their numbers.
#[derive(Debug, Default)]
pub(crate) struct Jobs(HashMap<u32, Vec<Job>>);

impl Jobs {
    pub(crate) fn get(&mut self, n: u32) -> &mut Job {
        let jobs = self.0.entry(n / OF_A_PRODUCER).or_default();
        let index = (n % OF_A_PRODUCER) as usize;
        if jobs.len() <= index {
            jobs.resize(index + 1, Job::default());
        }
        &mut jobs[index]
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Job)> {
        self.0.iter().flat_map(|(producer, jobs)| (producer * OF_A_PRODUCER..).zip(jobs))
    }
}
