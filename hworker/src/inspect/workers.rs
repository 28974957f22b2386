//! Workers as a person sees them.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use super::Inspect;
use crate::config::defaults;
use crate::envelope::{Envelope, JobId};
use crate::error::Error;
use crate::store::{RunningEntry, WorkerEntry, server_time};
use crate::time::millis;

/// A worker that serves the queue.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "web", derive(utoipa::ToSchema))]
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
    /// It was ordered to take no more jobs.
    pub quiet: bool,
    /// It stops.
    pub stopping: bool,
    /// Since when a body blocks the runtime of all its bodies, in milliseconds since 1970 by the server's clock. Such a job is to be a `fn` that is
    /// not `async`. None before it has blocked for 10 s.
    pub blocked_since: Option<u64>,
    /// When it started, in milliseconds since 1970 by the server's clock.
    pub started: u64,
    /// How long ago it was heard of.
    #[cfg_attr(feature = "web", schema(value_type = Object))]
    pub heard: Duration,
    /// Jobs of this queue that it acked.
    pub processed: u64,
    /// Jobs of this queue that failed on it.
    pub failed: u64,
    /// The jobs of this queue that it holds.
    pub running: Vec<RunningJob>,
}

impl WorkerInfo {
    /// The same worker in another shard, or queue.
    pub(crate) fn add(&mut self, other: Self) {
        self.heard = self.heard.min(other.heard);
        self.started = self.started.min(other.started);
        self.blocked_since = self.blocked_since.or(other.blocked_since);
        self.processed += other.processed;
        self.failed += other.failed;
        self.running.extend(other.running);
    }
}

/// A job that a worker holds.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "web", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct RunningJob {
    /// The job's id; none where it cannot be decoded.
    #[cfg_attr(feature = "web", schema(value_type = Option<String>))]
    pub id: Option<JobId>,
    /// The name of its type.
    pub job: Option<String>,
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// Since when, in milliseconds since 1970 by the server's clock.
    pub since: u64,
}

impl Inspect {
    /// The workers that serve the queue and were heard of lately, with what they run.
    ///
    /// # Errors
    /// Where the server cannot be asked.
    pub async fn workers(&self) -> Result<Vec<WorkerInfo>, Error> {
        let shards = self.each(|shard, on| async move {
            let now = server_time(&on).await?;
            let mut workers = Vec::new();
            for entry in shard.workers(&on).await? {
                if let Some(mut worker) = worker_info(entry, now) {
                    let held = shard.running(&on, &shard.keys.worker(&worker.id)).await?;
                    worker.running = held.iter().map(|entry| running_job(entry, now)).collect();
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
}

/// As of `now`, which is since when what was just handed over is held.
fn running_job(entry: &RunningEntry, now: u64) -> RunningJob {
    let envelope = Envelope::decode(&entry.payload).ok();
    RunningJob {
        id: envelope.as_ref().and_then(|envelope| envelope.id.as_deref()).map(JobId::from),
        attempt: envelope.as_ref().map_or(1, |envelope| envelope.attempt),
        job: envelope.map(|envelope| envelope.job.into_owned()),
        since: entry.lease.as_ref().map_or(now, |lease| lease.token() / 1000),
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
        concurrency: text("slots").parse().unwrap_or(number("concurrency") as usize),
        quiet: text("quiet") == "1",
        stopping: record.contains_key("stopping") || record.contains_key("stop"),
        blocked_since: record.get("blocked").and_then(|since| since.parse().ok()),
        started: number("started"),
        heard: Duration::from_millis(heard),
        processed: number("processed"),
        failed: number("failed"),
        running: Vec::new(),
        id,
    })
}
