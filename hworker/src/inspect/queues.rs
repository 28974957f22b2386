//! Which queues there are.

use std::collections::BTreeMap;

use super::workers::worker_info;
use super::{Counts, Inspect};
use crate::client::Client;
use crate::error::Error;
use crate::pause::Pause;
use crate::store::server_time;

/// A queue that has jobs or workers.
#[derive(Debug, Clone, serde::Serialize)]
#[cfg_attr(feature = "web", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct QueueInfo {
    /// Its name, for [`Client::inspect`].
    pub name: String,
    /// Its jobs.
    pub counts: Counts,
    /// How many workers serve it. 0 where jobs wait: nobody is going to run them.
    pub workers: usize,
    /// Its workers take none of its jobs.
    pub paused: Option<Pause>,
}

impl Client {
    /// The queues that have jobs, failed and broken ones too, or workers, or are paused, by name.
    ///
    /// Workers add the queues that they serve to a list in Redis, and so do producers with their first enqueue. The lists of jobs
    /// that only programs in other languages fill are looked for among all keys of the server, where it permits `SCAN`. Each queue is asked then, one
    /// after the other.
    ///
    /// ```no_run
    /// # async fn demo(client: hworker::Client) -> Result<(), hworker::Error> {
    /// for queue in client.queues().await? {
    ///     println!("{}: {} wait, {} workers", queue.name, queue.counts.waiting, queue.workers);
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Where the server cannot be asked.
    pub async fn queues(&self) -> Result<Vec<QueueInfo>, Error> {
        let names = self.queue_names().await;
        let mut queues = Vec::new();
        for name in names.map_err(|fault| fault.into_error("list the queues"))? {
            let queue = self.inspect(&name).summary().await?;
            if queue.counts != Counts::default() || queue.workers > 0 || queue.paused.is_some() {
                queues.push(queue);
            }
        }
        Ok(queues)
    }

    /// The names of all queues that are known, also of those that are empty and not served: for a program that has thousands of them, and
    /// asks of some alone.
    ///
    /// # Errors
    /// Where the server cannot be asked.
    pub async fn list_queues(&self) -> Result<Vec<String>, Error> {
        let names = self.queue_names().await;
        let names = names.map_err(|fault| fault.into_error("list the queues"))?;
        Ok(names.into_iter().collect())
    }
}

impl Inspect {
    /// The queue in a line, as in [`Client::queues`].
    ///
    /// # Errors
    /// Where the server cannot be asked.
    pub async fn summary(&self) -> Result<QueueInfo, Error> {
        Ok(self.summary_and_slots().await?.0)
    }

    /// With the workers that serve it, and how many jobs each of them runs at once.
    pub(crate) async fn summary_and_slots(
        &self,
    ) -> Result<(QueueInfo, BTreeMap<String, usize>), Error> {
        let counts = self.counts().await?;
        let workers = self.each(|shard, on| async move {
            let now = server_time(&on).await?;
            let workers = match shard.workers(&on).await {
                // Another program wrote there: nobody serves it.
                Err(fault) if fault.is_of_another_type() => Vec::new(),
                workers => workers?,
            };
            let live = workers.into_iter().filter_map(|entry| worker_info(entry, now));
            Ok(live.map(|worker| (worker.id, worker.concurrency)).collect::<Vec<_>>())
        });
        // One that serves several shards is one.
        let workers: BTreeMap<_, _> = workers.await?.into_iter().flatten().collect();
        let paused = self.each(|shard, on| async move {
            let now = server_time(&on).await?;
            match shard.paused(&on, now).await {
                Err(fault) if fault.is_of_another_type() => Ok(None),
                paused => paused,
            }
        });
        let paused = paused.await?.into_iter().flatten().next();
        let info = QueueInfo { name: self.name.clone(), counts, workers: workers.len(), paused };
        Ok((info, workers))
    }
}
