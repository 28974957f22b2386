//! Looking into a queue, and mending what a person may want to mend.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::client::Client;
use crate::config::defaults;
use crate::envelope::{AttemptError, Crash, Envelope, JobId, Rewrite};
use crate::error::Error;
use crate::keys::is_name;
use crate::store::{BrokenEntry, Connection, Fault, Queue, RunningEntry, WorkerEntry, server_time};
use crate::time::millis;

/// Jobs that a search reads at once.
const CHUNK: u64 = 500;

/// A queue as a person sees it; [`Client::inspect`] makes one.
///
/// ```no_run
/// # async fn demo(client: hworker::Client) -> Result<(), hworker::Error> {
/// let queue = client.inspect("default");
/// println!("{:?}", queue.counts().await?);
/// for failed in queue.failed(0, 20).await? {
///     println!("{} {}: {}", failed.job, failed.id, failed.message);
/// }
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Inspect {
    client: Client,
    queue: Queue,
}

/// How many jobs are where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Ready to be taken.
    pub pending: u64,
    /// Waiting for a time: delayed, or for the next attempt.
    pub scheduled: u64,
    /// Held by workers.
    pub running: u64,
    /// Records of failed jobs.
    pub failed: u64,
    /// Payloads that could not be decoded.
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

/// The record of a failed job.
#[derive(Debug, Clone, Deserialize)]
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
            .map_or("null", |envelope| envelope.args.get())
    }

    /// The errors of the last attempts, the latest last.
    #[must_use]
    pub fn errors(&self) -> Vec<AttemptError> {
        errors(self.envelope.get().as_bytes())
    }
}

/// A payload that could not be decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
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

impl From<BrokenEntry> for Broken {
    fn from(BrokenEntry { payload, times, at, reason }: BrokenEntry) -> Self {
        Self { payload, times, at, reason }
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

impl Client {
    /// Looks into a queue and mends it.
    #[must_use]
    pub fn inspect(&self, queue: &str) -> Inspect {
        Inspect { queue: self.queue(queue), client: self.clone() }
    }
}

impl Inspect {
    async fn connection(&self) -> Result<Connection, Error> {
        if !is_name(&self.queue.name) {
            let name = &self.queue.name;
            return Err(Error::config(format!(
                "the queue's name `{name}` is not of the form [A-Za-z0-9._-]{{1,100}}"
            )));
        }
        self.client.connection(&self.queue).await.map_err(|fault| self.error(fault))
    }

    fn error(&self, fault: Fault) -> Error {
        fault.into_error(format!("look into the queue {}", self.queue.name))
    }

    /// How many jobs are where.
    ///
    /// # Errors
    /// Where the server cannot be asked.
    pub async fn counts(&self) -> Result<Counts, Error> {
        let on = &self.connection().await?;
        let counts = async {
            let [pending, scheduled, failed, broken] = self.queue.counts(on).await?;
            let mut running = 0;
            for (worker, ..) in self.queue.workers(on).await? {
                running +=
                    self.queue.leases(on, &self.queue.keys.worker(&worker)).await?.len() as u64;
            }
            Ok(Counts { pending, scheduled, running, failed, broken })
        };
        counts.await.map_err(|fault| self.error(fault))
    }

    /// The counters of the queue by name: `processed` (acked), `failed`, `retried`, `recovered`, `broken`, and the first three for each job type as
    /// `processed:send_welcome`. In all, or of one day in UTC, `"20261231"`; days are kept for 90 days.
    ///
    /// # Errors
    /// Where the server cannot be asked.
    pub async fn statistics(&self, day: Option<&str>) -> Result<BTreeMap<String, u64>, Error> {
        let on = self.connection().await?;
        let counters = self.queue.counters(&on, day).await.map_err(|fault| self.error(fault))?;
        Ok(counters.into_iter().collect())
    }

    /// The workers that serve the queue and were heard of lately, with what they run.
    ///
    /// # Errors
    /// Where the server cannot be asked.
    pub async fn workers(&self) -> Result<Vec<WorkerInfo>, Error> {
        let on = &self.connection().await?;
        let workers = async {
            let now = server_time(on).await?;
            let mut workers = Vec::new();
            for entry in self.queue.workers(on).await? {
                if let Some(mut worker) = worker_info(entry, now) {
                    let held = self.queue.running(on, &self.queue.keys.worker(&worker.id)).await?;
                    worker.running = held.iter().map(running_job).collect();
                    workers.push(worker);
                }
            }
            Ok(workers)
        };
        workers.await.map_err(|fault| self.error(fault))
    }

    /// Finds a job by its id, wherever it is. Reads the queue in chunks: the cost grows with its length.
    ///
    /// `None` for a job that is done, was never enqueued here, or has left the bounded list of failed jobs.
    ///
    /// # Errors
    /// Where the server cannot be asked.
    pub async fn find(&self, id: &JobId) -> Result<Option<Found>, Error> {
        let on = &self.connection().await?;
        let search = async {
            // A job may move behind the search; it is hardly moved twice.
            match self.search(on, id).await? {
                None => self.search(on, id).await,
                found => Ok(found),
            }
        };
        search.await.map_err(|fault| self.error(fault))
    }

    async fn search(&self, on: &Connection, id: &JobId) -> Result<Option<Found>, Fault> {
        if let Some(found) = self.search_running(on, id).await? {
            return Ok(Some(found));
        }
        if let Some(found) = self.search_waiting(on, id).await? {
            return Ok(Some(found));
        }
        match self.search_failed(on, id).await? {
            None => self.search_broken(on, id).await,
            found => Ok(found),
        }
    }

    async fn search_running(&self, on: &Connection, id: &JobId) -> Result<Option<Found>, Fault> {
        for (worker, ..) in self.queue.workers(on).await? {
            for entry in self.queue.running(on, &self.queue.keys.worker(&worker)).await? {
                let state =
                    JobState::Running { worker: worker.clone(), since: entry.lease.token() / 1000 };
                if let Some(found) = found(&entry.payload, id, state) {
                    return Ok(Some(found));
                }
            }
        }
        Ok(None)
    }

    async fn search_waiting(&self, on: &Connection, id: &JobId) -> Result<Option<Found>, Fault> {
        let mut offset = 0;
        loop {
            let chunk = self.queue.pending(on, offset, CHUNK).await?;
            let last = chunk.len() < CHUNK as usize;
            if let Some(found) =
                chunk.iter().find_map(|payload| found(payload, id, JobState::Pending))
            {
                return Ok(Some(found));
            }
            if last {
                break;
            }
            offset += CHUNK;
        }
        offset = 0;
        loop {
            let chunk = self.queue.scheduled(on, offset, CHUNK).await?;
            let last = chunk.len() < CHUNK as usize;
            let scheduled = |(payload, due): &(Vec<u8>, u64)| {
                found(payload, id, JobState::Scheduled { due: *due })
            };
            match chunk.iter().find_map(scheduled) {
                None if !last => offset += CHUNK,
                found => return Ok(found),
            }
        }
    }

    async fn search_failed(&self, on: &Connection, id: &JobId) -> Result<Option<Found>, Fault> {
        let mut offset = 0;
        loop {
            let chunk = self.queue.failed(on, offset, CHUNK).await?;
            let last = chunk.len() < CHUNK as usize;
            let mut records =
                chunk.iter().filter_map(|record| serde_json::from_slice::<Failed>(record).ok());
            let failed = records.find(|failed| failed.id == id.as_str()).map(|failed| Found {
                id: id.clone(),
                job: failed.job.clone(),
                attempt: failed.attempts,
                errors: failed.errors(),
                state: JobState::Failed(Box::new(failed)),
            });
            match failed {
                None if !last => offset += CHUNK,
                found => return Ok(found),
            }
        }
    }

    async fn search_broken(&self, on: &Connection, id: &JobId) -> Result<Option<Found>, Fault> {
        let entries = self.queue.broken(on).await?;
        let found = entries.into_iter().find_map(|entry| {
            let found = found(&entry.payload, id, JobState::Pending)?;
            Some(Found { state: JobState::Broken(Box::new(entry.into())), ..found })
        });
        Ok(found)
    }

    /// Records of failed jobs, the newest first; what is not a record is left out.
    ///
    /// # Errors
    /// Where the server cannot be asked.
    pub async fn failed(&self, offset: u64, count: u64) -> Result<Vec<Failed>, Error> {
        if count == 0 {
            return Ok(Vec::new());
        }
        let on = self.connection().await?;
        let records =
            self.queue.failed(&on, offset, count).await.map_err(|fault| self.error(fault))?;
        Ok(records.iter().filter_map(|record| serde_json::from_slice(record).ok()).collect())
    }

    /// The payloads that could not be decoded, the latest first.
    ///
    /// # Errors
    /// Where the server cannot be asked.
    pub async fn broken(&self) -> Result<Vec<Broken>, Error> {
        let on = self.connection().await?;
        let entries = self.queue.broken(&on).await.map_err(|fault| self.error(fault))?;
        let mut broken: Vec<_> = entries.into_iter().map(Broken::from).collect();
        broken.sort_by_key(|broken| std::cmp::Reverse(broken.at));
        Ok(broken)
    }

    /// Puts a broken payload back at the end of the queue, once however many ask.
    ///
    /// # Errors
    /// [`Error::NotFound`] where it is not there (any more).
    pub async fn requeue_broken(&self, payload: &[u8]) -> Result<(), Error> {
        let on = self.connection().await?;
        // The time for which nobody knew it begins anew, or the next worker that does not would call it broken at once.
        let marked = Envelope::decode(payload).is_ok_and(|it| it.unknown_since.is_some());
        let envelope = marked.then(|| Rewrite::of(payload)).flatten().map(|mut rewrite| {
            rewrite.remove("unknown_since");
            rewrite.to_bytes()
        });
        let requeued =
            self.queue.requeue_broken(&on, payload, envelope.as_deref().unwrap_or(payload));
        let there = requeued.await.map_err(|fault| self.error(fault))?;
        self.or_not_found(there, "that broken payload")
    }

    /// Deletes a broken payload.
    ///
    /// # Errors
    /// [`Error::NotFound`] where it is not there (any more).
    pub async fn delete_broken(&self, payload: &[u8]) -> Result<(), Error> {
        let on = self.connection().await?;
        let there =
            self.queue.delete_broken(&on, payload).await.map_err(|fault| self.error(fault))?;
        self.or_not_found(there, "that broken payload")
    }

    /// Takes a running job from the worker that holds it and puts it to the front of the queue. The worker learns of it
    /// with its next heartbeat and cancels the body; whatever the body still returns counts for nothing.
    ///
    /// # Errors
    /// [`Error::NotFound`] where no worker holds it (any more).
    pub async fn revoke(&self, id: &JobId) -> Result<(), Error> {
        let on = &self.connection().await?;
        let revoked = async {
            for (worker, ..) in self.queue.workers(on).await? {
                let keys = self.queue.keys.worker(&worker);
                for entry in self.queue.running(on, &keys).await? {
                    if running_job(&entry).id.as_ref() == Some(id) {
                        return self.queue.revoke(on, &keys, &entry.lease).await;
                    }
                }
            }
            Ok(false)
        };
        let revoked = revoked.await.map_err(|fault| self.error(fault))?;
        self.or_not_found(revoked, "a running job with that id")
    }

    /// Deletes the queue with everything that belongs to it: jobs, records, statistics. Gives how many keys there were.
    ///
    /// Workers that serve the queue must be stopped; with `force` it is deleted all the same, they lose what they
    /// run, and come back with empty hands.
    ///
    /// # Errors
    /// [`Error::Refused`] while a worker serves the queue, unless forced.
    pub async fn destroy(&self, force: bool) -> Result<u64, Error> {
        let serving = if force { Vec::new() } else { self.workers().await? };
        if !serving.is_empty() {
            let ids: Vec<_> = serving.into_iter().map(|worker| worker.id).collect();
            let why = format!("workers serve it: {}; stop them, or force it", ids.join(", "));
            let doing = format!("destroy the queue {}", self.queue.name);
            return Err(Error::Refused { doing, source: crate::error::Cause::new(why) });
        }
        let on = self.connection().await?;
        self.queue.destroy(&on).await.map_err(|fault| self.error(fault))
    }

    fn or_not_found(&self, there: bool, what: &str) -> Result<(), Error> {
        let missing =
            || Error::NotFound { what: format!("{what} on the queue {}", self.queue.name) };
        there.then_some(()).ok_or_else(missing)
    }
}

fn found(payload: &[u8], id: &JobId, state: JobState) -> Option<Found> {
    let envelope = Envelope::decode(payload).ok()?;
    (envelope.id.as_deref()? == id.as_str()).then(|| Found {
        id: id.clone(),
        job: envelope.job.into_owned(),
        attempt: envelope.attempt,
        errors: errors(payload),
        state,
    })
}

/// The errors that an envelope carries. No job depends on them, so what is not a list of errors is none.
fn errors(envelope: &[u8]) -> Vec<AttemptError> {
    #[derive(Deserialize)]
    struct Errors {
        errors: Vec<AttemptError>,
    }
    serde_json::from_slice::<Errors>(envelope).map(|envelope| envelope.errors).unwrap_or_default()
}

fn running_job(entry: &RunningEntry) -> RunningJob {
    let envelope = Envelope::decode(&entry.payload).ok();
    RunningJob {
        id: envelope.as_ref().and_then(|envelope| envelope.id.as_deref()).map(JobId::from),
        attempt: envelope.as_ref().map_or(1, |envelope| envelope.attempt),
        job: envelope.map(|envelope| envelope.job.into_owned()),
        since: entry.lease.token() / 1000,
    }
}

/// The worker, unless it is dead or was not heard of for so long that it must be.
fn worker_info((id, heard_at, record): WorkerEntry, now: u64) -> Option<WorkerInfo> {
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
