//! What there is to see in a queue.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::config::defaults;
use crate::envelope::{AttemptError, Crash, Envelope, JobId, NO_ARGS};
use crate::store::{BrokenEntry, Lease, RunningEntry, WorkerEntry};
use crate::time::millis;

/// How many jobs are where.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Ready to be taken.
    pub pending: u64,
    /// Waiting for a time: delayed, or for the next attempt.
    pub scheduled: u64,
    /// Put aside by a worker that could not run them, for one that can: their name was unknown there, or their arguments did not fit, or it
    /// lacked their key; also what has no room among the broken ones.
    pub parked: u64,
    /// Held by workers, dead ones too until their jobs are taken back.
    pub running: u64,
    /// Records of failed jobs.
    pub failed: u64,
    /// Payloads that could not be decoded, or that no worker could run.
    pub broken: u64,
}

/// A job that was found by its id.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Found {
    /// The job's id.
    pub id: JobId,
    /// The name of its type.
    pub job: String,
    /// The number of its current or next attempt, from 1.
    pub attempt: u32,
    /// The errors of its last attempts, the latest last.
    pub errors: Vec<AttemptError>,
    /// Where it is.
    pub state: JobState,
}

/// Where a job is.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum JobState {
    /// Ready to be taken.
    Pending,
    /// Waiting for a time, in milliseconds since 1970: delayed, or with an attempt above 1 for its next attempt.
    Scheduled {
        /// When.
        due: u64,
    },
    /// Put aside for a worker that can run it.
    Parked {
        /// Since when, in milliseconds since 1970.
        since: u64,
    },
    /// Held by a worker.
    Running {
        /// The worker's id.
        worker: String,
        /// Since when, in milliseconds since 1970.
        since: u64,
    },
    /// It will not run again by itself.
    Failed(Box<Failed>),
    /// Its arguments do not fit, or no worker knew its name.
    Broken(Box<Broken>),
}

/// The record of a failed job. `Debug` leaves out its arguments.
#[derive(Clone, Deserialize)]
#[non_exhaustive]
pub struct Failed {
    /// The job's id.
    pub id: String,
    /// The name of its type.
    pub job: String,
    /// The queue that it was on.
    pub queue: String,
    /// The worker that ran the last attempt.
    pub worker: String,
    /// `error`, `panic`, `timeout`, `retry`, `failure`, `crash` or `deadline`.
    pub kind: String,
    /// The text of the last error.
    pub message: String,
    /// Where it panicked.
    #[serde(default)]
    pub place: Option<String>,
    /// The backtrace of the panic.
    #[serde(default)]
    pub backtrace: Option<String>,
    /// When, in milliseconds since 1970 by the server's clock.
    pub failed_at: u64,
    /// The number of the last attempt, from 1; where the kind is `crash` or `deadline` it was not made to its end.
    pub attempts: u32,
    /// The deaths of workers that held it.
    #[serde(default)]
    pub crashes: Vec<Crash>,
    envelope: Box<RawValue>,
}

impl Failed {
    /// The arguments, as JSON.
    #[must_use]
    pub fn args(&self) -> &str {
        Envelope::decode(self.envelope.get().as_bytes())
            .map_or("null", |envelope| envelope.given_args().unwrap_or(NO_ARGS))
    }

    /// The envelope as it would have gone on, as JSON. Pushed to the list of jobs of its queue, the job runs again;
    /// [`docs/wire-format.md`](https://github.com/hworker/hworker/blob/main/docs/wire-format.md#the-record-of-a-failed-job) says what to take
    /// out of it before, where the kind is `crash` or `deadline`. It holds the arguments: keep it out of logs.
    #[must_use]
    pub fn envelope(&self) -> &str {
        self.envelope.get()
    }

    /// The errors of the last attempts, the latest last.
    #[must_use]
    pub fn errors(&self) -> Vec<AttemptError> {
        errors(self.envelope.get().as_bytes())
    }
}

/// A payload that could not be decoded, or that no worker could run. `Debug` leaves it out.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Broken {
    /// It, byte for byte.
    pub payload: Vec<u8>,
    /// How many times it came.
    pub times: u64,
    /// When it last came, in milliseconds since 1970 by the server's clock.
    pub at: u64,
    /// What is wrong with it.
    pub reason: String,
}

impl fmt::Debug for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Failed")
            .field("id", &self.id)
            .field("job", &self.job)
            .field("kind", &self.kind)
            .field("message", &self.message)
            .field("attempts", &self.attempts)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Broken")
            .field("bytes", &self.payload.len())
            .field("times", &self.times)
            .field("reason", &self.reason)
            .finish_non_exhaustive()
    }
}

impl From<BrokenEntry> for Broken {
    fn from(BrokenEntry { payload, times, at, reason }: BrokenEntry) -> Self {
        Self { payload, times, at, reason }
    }
}

impl Broken {
    /// The same payload in another shard.
    pub(super) fn add(&mut self, other: BrokenEntry) {
        self.times += other.times;
        if other.at > self.at {
            (self.at, self.reason) = (other.at, other.reason);
        }
    }
}

/// A worker that serves the queue.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct WorkerInfo {
    /// Its id, fresh at every start.
    pub id: String,
    /// The host that it runs on.
    pub host: String,
    /// Its process.
    pub pid: u32,
    /// The version of hworker.
    pub version: String,
    /// The queues that it serves.
    pub queues: Vec<String>,
    /// How many jobs it runs at once.
    pub concurrency: usize,
    /// When it started, in milliseconds since 1970 by the server's clock.
    pub started: u64,
    /// How long ago it was heard of.
    pub heard: Duration,
    /// Jobs of this queue that it acked.
    pub processed: u64,
    /// Jobs of this queue that failed on it.
    pub failed: u64,
    /// The jobs of this queue that it holds.
    pub running: Vec<RunningJob>,
}

impl WorkerInfo {
    /// The same worker in another shard.
    pub(super) fn add(&mut self, other: Self) {
        self.heard = self.heard.min(other.heard);
        self.started = self.started.min(other.started);
        self.processed += other.processed;
        self.failed += other.failed;
        self.running.extend(other.running);
    }
}

/// A job that a worker holds.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RunningJob {
    /// The job's id; none where it cannot be decoded.
    pub id: Option<JobId>,
    /// The name of its type.
    pub job: Option<String>,
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// Since when, in milliseconds since 1970 by the server's clock.
    pub since: u64,
}

/// The errors that an envelope carries. No job depends on them, so what is not a list of errors is none.
pub(super) fn errors(envelope: &[u8]) -> Vec<AttemptError> {
    #[derive(Deserialize)]
    struct Errors {
        errors: Vec<AttemptError>,
    }
    serde_json::from_slice::<Errors>(envelope).map(|envelope| envelope.errors).unwrap_or_default()
}

/// Since when it is held, in ms since 1970: a token is made of the time.
pub(super) fn since(lease: &Lease) -> u64 {
    lease.token() / 1000
}

/// As of `now`, which is since when what was just handed over is held.
pub(super) fn running_job(entry: &RunningEntry, now: u64) -> RunningJob {
    let envelope = Envelope::decode(&entry.payload).ok();
    RunningJob {
        id: envelope.as_ref().and_then(|envelope| envelope.id.as_deref()).map(JobId::from),
        attempt: envelope.as_ref().map_or(1, |envelope| envelope.attempt),
        job: envelope.map(|envelope| envelope.job.into_owned()),
        since: entry.lease.as_ref().map_or(now, since),
    }
}

/// The worker, unless it is dead or was not heard of for so long that it must be.
pub(super) fn worker_info((id, heard_at, record): WorkerEntry, now: u64) -> Option<WorkerInfo> {
    let record: BTreeMap<_, _> = record.into_iter().collect();
    let text = |field: &str| record.get(field).cloned().unwrap_or_default();
    let number = |field: &str| text(field).parse::<u64>().unwrap_or(0);
    let heard = now.saturating_sub(heard_at);
    let dead_after = record
        .get("dead_after")
        .and_then(|ms| ms.parse().ok())
        .unwrap_or(millis(defaults::DEAD_AFTER));
    if record.contains_key("dead") || !record.contains_key("session") || heard > dead_after {
        return None;
    }
    Some(WorkerInfo {
        host: text("host"),
        pid: u32::try_from(number("pid")).unwrap_or(0),
        version: text("version"),
        queues: text("queues").split(',').map(str::to_owned).collect(),
        concurrency: number("concurrency") as usize,
        started: number("started"),
        heard: Duration::from_millis(heard),
        processed: number("processed"),
        failed: number("failed"),
        running: Vec::new(),
        id,
    })
}
