//! Looking into a queue, and mending what a person may want to mend.

mod batch;
mod budget;
mod cancel;
mod change;
mod chart;
mod filter;
mod find;
mod groups;
mod job;
mod order;
mod page;
mod position;
mod queues;
mod reported;
#[cfg(all(test, feature = "embedded"))]
mod tests;
mod workers;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use serde::Serialize;

use crate::client::Client;
use crate::envelope::JobId;
use crate::error::{Cause, Error, Refusal};
use crate::kept::KeptRecord;
use crate::keys::check_queue;
use crate::store::{Connection, Fault, FaultKind, Queue};

pub use batch::BatchAudit;
pub use change::{Action, Changed, Edit, When};
pub use filter::Filter;
pub use groups::Group;
pub use job::JobInfo;
pub use order::Order;
pub use page::{Jobs, Page};
pub use queues::QueueInfo;
pub use workers::{RunningJob, WorkerInfo};

/// A queue as a person sees it; [`Client::inspect`] makes one. Of a queue that is spread over shards it shows all of them
/// together, though not all at the same instant.
///
/// ```no_run
/// # async fn demo(client: hworker::Client) -> Result<(), hworker::Error> {
/// let queue = client.inspect("default");
/// println!("{:?}", queue.counts().await?);
/// for failed in queue.jobs(hworker::JobState::Failed).page().await?.items {
///     println!("{:?} {:?}: {:?}", failed.job, failed.id, failed.message);
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

/// How many jobs are where.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "web", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct Counts {
    /// Ready to be taken.
    pub waiting: u64,
    /// Waiting for a time: delayed, or for the next attempt.
    pub scheduled: u64,
    /// Put aside by a worker that could not run them, for one that can: their name was unknown there, or their arguments did not fit, or it
    /// lacked their key; also what has no room among the broken ones.
    pub parked: u64,
    /// Held by workers, dead ones too until their jobs are taken back.
    pub running: u64,
    /// Records of failed jobs.
    pub failed: u64,
    /// Records of cancelled jobs.
    pub cancelled: u64,
    /// Records of jobs that were not started in time.
    pub expired: u64,
    /// Records of jobs that are done; see [`keep_done`](crate::WorkerBuilder::keep_done).
    pub done: u64,
    /// Payloads that could not be decoded, or that no worker could run.
    pub broken: u64,
}

impl Counts {
    /// Those of this and another part together.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            waiting: self.waiting + other.waiting,
            scheduled: self.scheduled + other.scheduled,
            parked: self.parked + other.parked,
            running: self.running + other.running,
            failed: self.failed + other.failed,
            cancelled: self.cancelled + other.cancelled,
            expired: self.expired + other.expired,
            done: self.done + other.done,
            broken: self.broken + other.broken,
        }
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
        check_queue(&self.name).map_err(Error::config)
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
            let [waiting, scheduled, parked, failed, cancelled, expired, done, broken, running] =
                shard.counts(&on).await?;
            Ok(Counts {
                waiting,
                scheduled,
                parked,
                running,
                failed,
                cancelled,
                expired,
                done,
                broken,
            })
        });
        Ok(counts.await?.into_iter().fold(Counts::default(), Counts::and))
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

    /// Finds a job by its id, wherever it is. Reads the whole queue in portions if it must, over its own connection. If the job is not there,
    /// it reads the queue twice.
    ///
    /// What a job returned comes with it, where that is kept, and how far it is, where its body says so.
    ///
    /// `None` for a job that is done and whose result is not kept, was never enqueued here, or whose record was dropped. A job that moves again and again while it is
    /// looked for, as from a worker that stops back to its queue, may be missed, though it is looked for twice.
    ///
    /// # Errors
    /// Where the server cannot be asked. [`Error::Unanswered`] where more than 4 million jobs wait and it is not among those that can be
    /// read, from both ends: whether it is among the others is not known.
    pub async fn find(&self, id: &JobId) -> Result<Option<JobInfo>, Error> {
        let found = match self.look_for(id).await? {
            Some(job) if job.state.ended().is_none() => Some(job),
            found => self.with_kept(id, found).await?,
        };
        match found {
            Some(job) => self.with_reports(id, job).await.map(Some),
            None => Ok(None),
        }
    }

    /// The job with what is kept of its end.
    async fn with_kept(
        &self,
        id: &JobId,
        found: Option<JobInfo>,
    ) -> Result<Option<JobInfo>, Error> {
        for (number, shard) in self.shards.iter().enumerate() {
            let kept = self.client.kept(shard, id.as_str()).await;
            let kept = match kept {
                // The user may look at jobs, and not at results.
                Err(fault) if fault.kind == FaultKind::Denied => None,
                kept => kept.map_err(|fault| self.error(Doing::Look, fault))?,
            };
            let Some(kept) = kept.and_then(|text| KeptRecord::read(&text).ok()) else { continue };
            return Ok(match found {
                Some(job) => Some(job.with_kept(kept)),
                None => JobInfo::of_kept(&self.name, number, id, kept),
            });
        }
        Ok(found)
    }

    /// The job wherever it stands.
    async fn look_for(&self, id: &JobId) -> Result<Option<JobInfo>, Error> {
        self.check()?;
        let is_cut = AtomicBool::new(false);
        for _ in 0..2 {
            // A job never leaves its shard.
            for (number, shard) in self.shards.iter().enumerate() {
                let found = self.ask(shard, |shard, on| {
                    let is_cut = &is_cut;
                    async move { find::find((shard, number), &on, id, is_cut).await }
                });
                let found = found.await.map_err(|fault| self.error(Doing::Look, fault))?;
                if found.is_some() {
                    return Ok(found);
                }
            }
            if is_cut.load(Ordering::Relaxed) {
                let doing = format!("find job {id} on the queue {}", self.name);
                let why = "more than 4,000,000 jobs wait, and those in the middle are too deep to be read";
                return Err(Error::Unanswered { doing, source: Cause::new(why) });
            }
        }
        Ok(None)
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
            let revoked = find::revoke(shard, &on, id).await?;
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
            return Err(Error::Refused { doing, source: Cause::new(Refusal::Served(why)) });
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

    /// Since when the job that is next waits, in milliseconds since 1970: when it was enqueued, by its producer's clock, or was due. Of a queue
    /// that is spread over shards the oldest of theirs. `None` where no job waits, or it does not say.
    ///
    /// # Errors
    /// Where the server cannot be asked.
    pub async fn oldest(&self) -> Result<Option<u64>, Error> {
        let heads = self.each(|shard, on| async move { budget::next_waiting(shard, &on).await });
        Ok(heads.await?.into_iter().flatten().filter_map(|job| job.at).min())
    }

    fn or_not_found(&self, there: bool, what: &str) -> Result<(), Error> {
        let missing = || Error::NotFound { what: format!("{what} on the queue {}", self.name) };
        there.then_some(()).ok_or_else(missing)
    }
}
