//! Workers that died, with what they held: monitors write them down, and tools show them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::client::Client;
use crate::error::Error;
use crate::monitor::Death;
use crate::store::{Fault, MetaKey};

/// So many of the jobs that a worker held are written down, those with the most crashes first.
const HELD: usize = 20;

/// Of so many job types it is written down how many jobs it held.
const TYPES: usize = 50;

/// A worker that died, or was not heard of for so long that others took its jobs; [`Client::dead_workers`] gives them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "web", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct DeadWorker {
    /// When others declared it dead, in milliseconds since 1970 by the server's clock.
    pub at: u64,
    /// Its id.
    pub worker: String,
    /// Its label, the host that it ran on, its process, and the version of hworker, as it had written them down.
    pub name: String,
    /// See `name`.
    pub host: String,
    /// See `name`.
    pub pid: String,
    /// See `name`.
    pub version: String,
    /// The queues that it served.
    pub queues: Vec<String>,
    /// It had been told to stop, as at a deploy: then no suspicion falls on its jobs.
    pub stopping: bool,
    /// How many jobs it held, running or next to run.
    pub jobs: u64,
    /// How many of them were of which type.
    pub types: BTreeMap<String, u64>,
    /// Some of them, those with the most crashes first.
    pub held: Vec<HeldJob>,
}

/// A job that a dead worker held.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "web", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct HeldJob {
    /// Its id.
    pub id: Option<String>,
    /// The name of its type.
    pub job: String,
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// How many workers died while they held it.
    pub crashes: usize,
}

/// A job type that may be what workers die of.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "web", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct Suspect {
    /// The name of the type.
    pub job: String,
    /// How many dead workers held one of its jobs.
    pub deaths: u64,
    /// How many would have, if the jobs that dead workers held had been dealt out by chance.
    pub expected: f64,
}

impl DeadWorker {
    fn of(worker: &str, queue: &str, death: &Death) -> Self {
        let mut types = BTreeMap::new();
        for held in &death.held {
            if types.len() < TYPES || types.contains_key(&held.job) {
                *types.entry(held.job.clone()).or_default() += 1;
            }
        }
        let mut held: Vec<_> = death.held.iter().collect();
        held.sort_by_key(|held| std::cmp::Reverse(held.crashes));
        let job = |held: &crate::monitor::Held| HeldJob {
            id: held.id.clone(),
            job: held.job.clone(),
            attempt: held.attempt,
            crashes: held.crashes,
        };
        Self {
            at: death.at,
            worker: worker.to_owned(),
            name: death.who.name.clone(),
            host: death.who.host.clone(),
            pid: death.who.pid.clone(),
            version: death.who.version.clone(),
            queues: vec![queue.to_owned()],
            stopping: death.stopping,
            jobs: death.jobs,
            types,
            held: held.into_iter().take(HELD).map(job).collect(),
        }
    }

    /// The same worker in another queue.
    fn add(&mut self, other: Self) {
        self.at = self.at.min(other.at);
        self.stopping |= other.stopping;
        self.jobs += other.jobs;
        self.queues.extend(other.queues);
        self.queues.sort_unstable();
        self.queues.dedup();
        for (job, count) in other.types {
            *self.types.entry(job).or_default() += count;
        }
        self.held.extend(other.held);
        self.held.sort_by_key(|held| std::cmp::Reverse(held.crashes));
    }

    /// The types whose jobs dead workers held more often than chance explains, the most suspicious first. Workers that had been told to
    /// stop do not count.
    #[must_use]
    pub fn suspects(dead: &[Self]) -> Vec<Suspect> {
        let crashed: Vec<_> = dead.iter().filter(|dead| !dead.stopping).collect();
        let mut held: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
        for (job, count) in crashed.iter().flat_map(|dead| &dead.types) {
            let (deaths, jobs) = held.entry(job).or_default();
            (*deaths, *jobs) = (*deaths + 1, *jobs + count);
        }
        let all: u64 = held.values().map(|(_, jobs)| jobs).sum();
        let mut suspects: Vec<_> = held
            .into_iter()
            .map(|(job, (deaths, jobs))| {
                let without = 1.0 - jobs as f64 / all as f64;
                let sizes = crashed.iter().map(|dead| dead.types.values().sum::<u64>());
                let expected = sizes.map(|size| 1.0 - without.powf(size as f64)).sum();
                Suspect { job: job.to_owned(), deaths, expected }
            })
            .collect();
        let beyond = |suspect: &Suspect| suspect.deaths as f64 - suspect.expected;
        suspects.sort_by(|one, other| beyond(other).total_cmp(&beyond(one)));
        suspects
    }
}

impl Client {
    /// The workers that died last, the latest first. 200 entries are kept, one for each queue of a dead worker. A death has no entry if
    /// the worker that noticed it died too, lost the server's answer, or could not write.
    ///
    /// # Errors
    /// Where the server cannot be asked.
    pub async fn dead_workers(&self) -> Result<Vec<DeadWorker>, Error> {
        let read = async {
            let (meta, on) = self.meta(MetaKey::Deaths).await?;
            meta.deaths(&on).await
        };
        let entries =
            read.await.map_err(|fault: Fault| fault.into_error("read the dead workers"))?;
        let mut dead: Vec<DeadWorker> = Vec::new();
        // Anybody may have written there.
        for entry in
            entries.iter().filter_map(|entry| serde_json::from_slice::<DeadWorker>(entry).ok())
        {
            match dead.iter_mut().find(|known| known.worker == entry.worker) {
                Some(known) => known.add(entry),
                None => dead.push(entry),
            }
        }
        Ok(dead)
    }

    /// Writes down a worker that was declared dead.
    pub(crate) async fn write_death(
        &self,
        worker: &str,
        queue: &str,
        death: &Death,
    ) -> Result<(), Fault> {
        let entry =
            serde_json::to_string(&DeadWorker::of(worker, queue, death)).unwrap_or_default();
        let (meta, on) = self.meta(MetaKey::Deaths).await?;
        meta.add_death(&on, &entry).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dead(types: &[(&str, u64)]) -> DeadWorker {
        let types = types.iter().map(|(job, count)| ((*job).to_owned(), *count)).collect();
        DeadWorker {
            at: 0,
            worker: String::new(),
            name: String::new(),
            host: String::new(),
            pid: String::new(),
            version: String::new(),
            queues: Vec::new(),
            stopping: false,
            jobs: 0,
            types,
            held: Vec::new(),
        }
    }

    #[test]
    fn a_rare_type_at_every_death_is_more_suspicious_than_a_common_one() {
        let mut all = vec![dead(&[("common", 40), ("rare", 1)]); 5];
        all.push(DeadWorker { stopping: true, ..dead(&[("other", 1)]) });
        let suspects = DeadWorker::suspects(&all);
        let order: Vec<_> = suspects.iter().map(|suspect| &*suspect.job).collect();
        assert_eq!(order, ["rare", "common"]);
        assert_eq!(suspects[0].deaths, 5);
        assert!(suspects[0].expected < 4.0 && suspects[1].expected > 4.9, "{suspects:?}");
        assert!(DeadWorker::suspects(&[]).is_empty());
    }
}
