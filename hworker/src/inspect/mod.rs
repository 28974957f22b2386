//! Looking into a queue, and mending what a person may want to mend.

mod queues;
mod search;
mod types;

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::AtomicU64;

use self::types::{running_job, worker_info};
use crate::client::Client;
use crate::envelope::JobId;
use crate::error::Error;
use crate::keys::check_name;
use crate::store::{Connection, Fault, Queue, server_time};

pub use queues::QueueInfo;
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

/// What somebody wants of a queue, as errors say it.
#[derive(Clone, Copy)]
enum Doing {
    Look,
    /// Something that changes it, as a verb.
    Change(&'static str),
}

impl Inspect {
    /// Whether it can be asked here, and for such a name.
    fn check(&self) -> Result<(), Error> {
        let outside = "`Inspect` was asked outside a tokio runtime; await it inside one";
        crate::runtime::current(outside)?;
        check_name("queue", &self.name).map_err(Error::config)
    }

    /// Asks one shard after the other.
    async fn each<'a, T, F: Future<Output = Result<T, Fault>>>(
        &'a self,
        ask: impl Fn(&'a Queue, Connection) -> F,
    ) -> Result<Vec<T>, Error> {
        self.check()?;
        let mut answers = Vec::with_capacity(self.shards.len());
        for shard in &self.shards {
            let answer = self.ask(shard, &ask).await;
            answers.push(answer.map_err(|fault| self.error(Doing::Look, fault))?);
        }
        Ok(answers)
    }

    /// Asks one shard after the other until one has it. One that cannot be asked does not keep others from being asked.
    async fn first<'a, T, F: Future<Output = Result<Option<T>, Fault>>>(
        &'a self,
        doing: Doing,
        ask: impl Fn(&'a Queue, Connection) -> F,
    ) -> Result<Option<T>, Error> {
        self.check()?;
        let mut not_asked = None;
        for shard in &self.shards {
            match self.ask(shard, &ask).await {
                Ok(None) => {}
                Ok(found) => return Ok(found),
                // It may be done.
                Err(fault) if fault.sent && matches!(doing, Doing::Change(_)) => {
                    return Err(self.error(doing, fault));
                }
                Err(fault) => not_asked = not_asked.or(Some(fault)),
            }
        }
        not_asked.map_or(Ok(None), |fault| Err(self.error(doing, fault)))
    }

    async fn ask<'a, T, F: Future<Output = Result<T, Fault>>>(
        &'a self,
        shard: &'a Queue,
        ask: impl Fn(&'a Queue, Connection) -> F,
    ) -> Result<T, Fault> {
        let on = self.client.connection_to_inspect(shard).await?;
        ask(shard, on).await
    }

    fn error(&self, doing: Doing, fault: Fault) -> Error {
        let (name, fault) = (&self.name, fault.at(self.client.address()));
        match doing {
            Doing::Look => fault.into_error(format!("look into the queue {name}")),
            Doing::Change(what) => fault.into_error_of_change(format!("{what} the queue {name}")),
        }
    }

    /// How many jobs are where, as good as at one moment. Of a queue that is spread, the moments differ from shard to shard.
    ///
    /// # Errors
    /// Where the server cannot be asked.
    pub async fn counts(&self) -> Result<Counts, Error> {
        let counts = self.each(|shard, on| async move {
            let [pending, scheduled, parked, failed, broken, running] = shard.counts(&on).await?;
            Ok(Counts { pending, scheduled, parked, running, failed, broken })
        });
        Ok(counts.await?.into_iter().fold(Counts::default(), |sum, shard| Counts {
            pending: sum.pending + shard.pending,
            scheduled: sum.scheduled + shard.scheduled,
            parked: sum.parked + shard.parked,
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
        for shard in self.each(|shard, on| async move { shard.counters(&on, day).await }).await? {
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

    /// Finds a job by its id, wherever it is. Reads the whole queue in chunks, over its own connection. If the job is not there, it reads
    /// the queue twice.
    ///
    /// `None` for a job that is done, was never enqueued here, or has left the bounded list of failed jobs. A job that moves again
    /// and again while it is looked for, as from a worker that stops back to its queue, may be missed, though it is looked for
    /// twice.
    ///
    /// # Errors
    /// Where the server cannot be asked.
    pub async fn find(&self, id: &JobId) -> Result<Option<Found>, Error> {
        for _ in 0..2 {
            // A job never leaves its shard.
            let found = self
                .first(Doing::Look, |shard, on| async move { search::find(shard, &on, id).await })
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
            let records =
                self.each(|shard, on| async move { shard.failed(&on, offset, count).await });
            return Ok(records.await?.into_iter().flat_map(parse).collect());
        }
        // Which shard has those before the offset is not known before they are read.
        let up_to = offset.saturating_add(count);
        let records =
            self.each(|shard, on| async move { shard.failed(&on, 0, up_to).await }).await?;
        let mut failed: Vec<_> = records.into_iter().flat_map(parse).collect();
        failed.sort_by_key(|record| std::cmp::Reverse(record.failed_at));
        Ok(failed.into_iter().skip(offset as usize).take(count as usize).collect())
    }

    /// The payloads that could not be decoded, or that no worker could run, the latest first.
    ///
    /// # Errors
    /// Where the server cannot be asked.
    pub async fn broken(&self) -> Result<Vec<Broken>, Error> {
        let mut broken: Vec<Broken> = Vec::new();
        let mut indexes: HashMap<Vec<u8>, usize> = HashMap::new();
        for entry in self
            .each(|shard, on| async move { shard.broken(&on).await })
            .await?
            .into_iter()
            .flatten()
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
    /// [`Error::NotFound`] where it is not there (any more), [`Error::Unanswered`] where the answer was lost.
    pub async fn requeue_broken(&self, payload: &[u8]) -> Result<(), Error> {
        let doing = Doing::Change("put a broken payload back to");
        let put_back = self.first(doing, |shard, on| async move {
            let there = shard.requeue_broken(&on, payload).await?;
            Ok(there.then(|| shard.keys.broken.clone()))
        });
        let put_back = put_back.await?;
        self.or_not_found(put_back.is_some(), "that broken payload")?;
        // The same payload in several shards is one, as it is in one.
        for shard in
            self.shards.iter().filter(|shard| put_back.as_ref() != Some(&shard.keys.broken))
        {
            // It is back; what is left of it elsewhere is no more than a record.
            let _ = self
                .ask(shard, |shard, on| async move { shard.delete_broken(&on, payload).await })
                .await;
        }
        Ok(())
    }

    /// Deletes a broken payload.
    ///
    /// # Errors
    /// [`Error::NotFound`] where it is not there (any more), [`Error::Unanswered`] where the answer was lost.
    pub async fn delete_broken(&self, payload: &[u8]) -> Result<(), Error> {
        self.check()?;
        let (mut deleted, mut failed) = (false, None);
        for shard in &self.shards {
            let asked =
                self.ask(shard, |shard, on| async move { shard.delete_broken(&on, payload).await });
            match asked.await {
                Ok(here) => deleted |= here,
                // One that may have changed something says more than one that has not.
                Err(fault) => {
                    failed =
                        failed.filter(|known: &Fault| known.sent || !fault.sent).or(Some(fault));
                }
            }
        }
        if let Some(fault) = failed {
            let fault = if deleted { fault.half_done() } else { fault };
            return Err(self.error(Doing::Change("delete a broken payload of"), fault));
        }
        self.or_not_found(deleted, "that broken payload")
    }

    /// Takes a running job from the worker that holds it and puts it to the front of the queue. The worker learns of it
    /// with its next heartbeat and cancels the body; whatever the body still returns counts for nothing.
    ///
    /// # Errors
    /// [`Error::NotFound`] where no worker holds it (any more); [`Error::Unanswered`] where the answer was lost: it may run anew
    /// then, and to revoke it again would take that run too.
    pub async fn revoke(&self, id: &JobId) -> Result<(), Error> {
        let doing = Doing::Change("revoke a job of");
        let revoked = self.first(doing, |shard, on| async move {
            let revoked = search::revoke(shard, &on, id).await?;
            Ok(revoked.then_some(()))
        });
        let revoked = revoked.await?.is_some();
        self.or_not_found(revoked, "a running job with that id")
    }

    /// Deletes the queue with everything that belongs to it: jobs, records, statistics. Gives how many keys there were.
    /// Of shards, those that this client is told of.
    ///
    /// Workers that serve the queue must be stopped; with `force` it is deleted all the same, they lose what they
    /// run, and come back with empty hands.
    ///
    /// # Errors
    /// [`Error::Refused`] while a worker serves the queue, unless forced; [`Error::Unanswered`] where some of it may be gone.
    pub async fn destroy(&self, force: bool) -> Result<u64, Error> {
        let serving = if force { Vec::new() } else { self.workers().await? };
        if !serving.is_empty() {
            let ids: Vec<_> = serving.into_iter().map(|worker| worker.id).collect();
            let why = format!("workers serve it: {}; stop them, or force it", ids.join(", "));
            let doing = format!("destroy the queue {}", self.name);
            return Err(Error::Refused { doing, source: crate::error::Cause::new(why) });
        }
        self.check()?;
        let deleted = AtomicU64::new(0);
        for shard in &self.shards {
            let destroyed = self.ask(shard, |shard, on| {
                let deleted = &deleted;
                async move { shard.destroy(&on, deleted).await }
            });
            if let Err(fault) = destroyed.await {
                let some = deleted.into_inner() > 0;
                let fault = if some { fault.half_done() } else { fault };
                return Err(self.error(Doing::Change("destroy"), fault));
            }
        }
        // A name without a queue harms nobody.
        let _ = self.client.forget_queue(&self.name).await;
        Ok(deleted.into_inner())
    }

    fn or_not_found(&self, there: bool, what: &str) -> Result<(), Error> {
        let missing = || Error::NotFound { what: format!("{what} on the queue {}", self.name) };
        there.then_some(()).ok_or_else(missing)
    }
}
