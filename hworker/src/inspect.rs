//! Looking into a queue, and mending what a person may want to mend.

mod search;
mod types;

use std::collections::{BTreeMap, HashMap};

use self::types::{running_job, worker_info};
use crate::client::Client;
use crate::envelope::{Envelope, JobId, Rewrite};
use crate::error::Error;
use crate::keys::is_name;
use crate::store::{Connection, Fault, Queue, server_time};

pub use types::{Broken, Counts, Failed, Found, JobState, RunningJob, WorkerInfo};

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
