//! Looking into a queue, and mending what a person may want to mend.

mod search;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
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

/// A queue as a person sees it; [`Client::inspect`] makes one. Of a queue that is spread over shards it shows all of them
/// together, though not all at the same instant.
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
    name: String,
    shards: Vec<Queue>,
}

/// How many jobs are where.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
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
            .map_or("null", |envelope| envelope.args.get())
    }

    /// The errors of the last attempts, the latest last.
    #[must_use]
    pub fn errors(&self) -> Vec<AttemptError> {
        errors(self.envelope.get().as_bytes())
    }
}

/// A payload that could not be decoded. `Debug` leaves it out.
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
    fn add(&mut self, other: BrokenEntry) {
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
    fn add(&mut self, other: Self) {
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

impl Client {
    /// Looks into a queue and mends it.
    #[must_use]
    pub fn inspect(&self, queue: &str) -> Inspect {
        let shards = self.shards(queue, self.limits());
        Inspect { name: queue.to_owned(), shards, client: self.clone() }
    }
}

impl Inspect {
    /// Asks one shard after the other.
    async fn each<T>(
        &self,
        mut ask: impl AsyncFnMut(&Queue, &Connection) -> Result<T, Fault>,
    ) -> Result<Vec<T>, Error> {
        if !is_name(&self.name) {
            let name = &self.name;
            return Err(Error::config(format!(
                "the queue's name `{name}` is not of the form [A-Za-z0-9._-]{{1,100}}"
            )));
        }
        let mut answers = Vec::with_capacity(self.shards.len());
        for shard in &self.shards {
            let answer = async {
                let on = self.client.connection(shard).await?;
                ask(shard, &on).await
            };
            answers.push(answer.await.map_err(|fault| self.error(fault))?);
        }
        Ok(answers)
    }

    fn error(&self, fault: Fault) -> Error {
        fault.into_error(format!("look into the queue {}", self.name))
    }

    /// How many jobs are where.
    ///
    /// # Errors
    /// Where the server cannot be asked.
    pub async fn counts(&self) -> Result<Counts, Error> {
        let counts = self.each(async |shard, on| {
            let [pending, scheduled, failed, broken] = shard.counts(on).await?;
            let mut running = 0;
            for (worker, ..) in shard.workers(on).await? {
                running += shard.leases(on, &shard.keys.worker(&worker)).await?.len() as u64;
            }
            Ok(Counts { pending, scheduled, running, failed, broken })
        });
        Ok(counts.await?.into_iter().fold(Counts::default(), |sum, shard| Counts {
            pending: sum.pending + shard.pending,
            scheduled: sum.scheduled + shard.scheduled,
            running: sum.running + shard.running,
            failed: sum.failed + shard.failed,
            broken: sum.broken + shard.broken,
        }))
    }

    /// The counters of the queue by name: `processed` (acked), `failed`, `retried`, `recovered`, `broken`, and the first three for each job type as
    /// `processed:send_welcome`. In all, or of one day in UTC, `"20261231"`; days are kept for 90 days.
    ///
    /// # Errors
    /// Where the server cannot be asked.
    pub async fn statistics(&self, day: Option<&str>) -> Result<BTreeMap<String, u64>, Error> {
        let mut sums = BTreeMap::new();
        for shard in self.each(async |shard, on| shard.counters(on, day).await).await? {
            for (name, count) in shard {
                *sums.entry(name).or_default() += count;
            }
        }
        Ok(sums)
    }

    /// The workers that serve the queue and were heard of lately, with what they run.
    ///
    /// # Errors
    /// Where the server cannot be asked.
    pub async fn workers(&self) -> Result<Vec<WorkerInfo>, Error> {
        let shards = self.each(async |shard, on| {
            let now = server_time(on).await?;
            let mut workers = Vec::new();
            for entry in shard.workers(on).await? {
                if let Some(mut worker) = worker_info(entry, now) {
                    let held = shard.running(on, &shard.keys.worker(&worker.id)).await?;
                    worker.running = held.iter().map(running_job).collect();
                    workers.push(worker);
                }
            }
            Ok(workers)
        });
        let mut workers: Vec<WorkerInfo> = Vec::new();
        for worker in shards.await?.into_iter().flatten() {
            match workers.iter_mut().find(|known| known.id == worker.id) {
                Some(known) => known.add(worker),
                None => workers.push(worker),
            }
        }
        Ok(workers)
    }

    /// Finds a job by its id, wherever it is. Reads the queue in chunks: the cost grows with its length.
    ///
    /// `None` for a job that is done, was never enqueued here, or has left the bounded list of failed jobs.
    ///
    /// # Errors
    /// Where the server cannot be asked.
    pub async fn find(&self, id: &JobId) -> Result<Option<Found>, Error> {
        // A job may move behind the search; it is hardly moved twice. It never leaves its shard.
        for _ in 0..2 {
            let mut found = None;
            self.each(async |shard, on| {
                if found.is_none() {
                    found = search::find(shard, on, id).await?;
                }
                Ok(())
            })
            .await?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// Records of failed jobs, the newest first; what is not a record is left out.
    ///
    /// # Errors
    /// Where the server cannot be asked.
    pub async fn failed(&self, offset: u64, count: u64) -> Result<Vec<Failed>, Error> {
        if count == 0 {
            return Ok(Vec::new());
        }
        let parse = |records: Vec<Vec<u8>>| -> Vec<Failed> {
            records.iter().filter_map(|record| serde_json::from_slice(record).ok()).collect()
        };
        if self.shards.len() == 1 {
            let records = self.each(async |shard, on| shard.failed(on, offset, count).await);
            return Ok(records.await?.into_iter().flat_map(parse).collect());
        }
        // Which shard has those before the offset is not known before they are read.
        let up_to = offset.saturating_add(count);
        let records = self.each(async |shard, on| shard.failed(on, 0, up_to).await).await?;
        let mut failed: Vec<_> = records.into_iter().flat_map(parse).collect();
        failed.sort_by_key(|record| std::cmp::Reverse(record.failed_at));
        Ok(failed.into_iter().skip(offset as usize).take(count as usize).collect())
    }

    /// The payloads that could not be decoded, the latest first.
    ///
    /// # Errors
    /// Where the server cannot be asked.
    pub async fn broken(&self) -> Result<Vec<Broken>, Error> {
        let mut broken: Vec<Broken> = Vec::new();
        let mut indexes: HashMap<Vec<u8>, usize> = HashMap::new();
        for entry in
            self.each(async |shard, on| shard.broken(on).await).await?.into_iter().flatten()
        {
            if let Some(index) = indexes.get(&entry.payload) {
                broken[*index].add(entry);
            } else {
                indexes.insert(entry.payload.clone(), broken.len());
                broken.push(entry.into());
            }
        }
        broken.sort_by_key(|broken| std::cmp::Reverse(broken.at));
        Ok(broken)
    }

    /// Puts a broken payload back at the end of the queue, once however many ask.
    ///
    /// # Errors
    /// [`Error::NotFound`] where it is not there (any more).
    pub async fn requeue_broken(&self, payload: &[u8]) -> Result<(), Error> {
        // The time for which nobody knew it begins anew, or the next worker that does not would call it broken at once.
        let marked = Envelope::decode(payload).is_ok_and(|it| it.unknown_since.is_some());
        let envelope = marked.then(|| Rewrite::of(payload)).flatten().map(|mut rewrite| {
            rewrite.remove("unknown_since");
            rewrite.to_bytes()
        });
        let envelope = envelope.as_deref().unwrap_or(payload);
        let mut there = false;
        self.each(async |shard, on| {
            // The same payload in several shards is one, as it is in one.
            there |= if there {
                shard.delete_broken(on, payload).await?
            } else {
                shard.requeue_broken(on, payload, envelope).await?
            };
            Ok(())
        })
        .await?;
        self.or_not_found(there, "that broken payload")
    }

    /// Deletes a broken payload.
    ///
    /// # Errors
    /// [`Error::NotFound`] where it is not there (any more).
    pub async fn delete_broken(&self, payload: &[u8]) -> Result<(), Error> {
        let deleted = self.each(async |shard, on| shard.delete_broken(on, payload).await).await?;
        self.or_not_found(deleted.contains(&true), "that broken payload")
    }

    /// Takes a running job from the worker that holds it and puts it to the front of the queue. The worker learns of it
    /// with its next heartbeat and cancels the body; whatever the body still returns counts for nothing.
    ///
    /// # Errors
    /// [`Error::NotFound`] where no worker holds it (any more).
    pub async fn revoke(&self, id: &JobId) -> Result<(), Error> {
        let mut revoked = false;
        self.each(async |shard, on| {
            if !revoked {
                revoked = search::revoke(shard, on, id).await?;
            }
            Ok(())
        })
        .await?;
        self.or_not_found(revoked, "a running job with that id")
    }

    /// Deletes the queue with everything that belongs to it: jobs, records, statistics. Gives how many keys there were.
    /// Of shards, those that this client is told of.
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
            let doing = format!("destroy the queue {}", self.name);
            return Err(Error::Refused { doing, source: crate::error::Cause::new(why) });
        }
        Ok(self.each(async |shard, on| shard.destroy(on).await).await?.into_iter().sum())
    }

    fn or_not_found(&self, there: bool, what: &str) -> Result<(), Error> {
        let missing = || Error::NotFound { what: format!("{what} on the queue {}", self.name) };
        there.then_some(()).ok_or_else(missing)
    }
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
