//! The jobs of a queue that each worker runs.

use serde::Serialize;

use super::Control;
use crate::envelope::JobId;
use crate::error::Error;
use crate::store::BroadcastEntry;

/// A job that each worker runs once, or each of so many; [`Control::broadcasts`] lists them. How it ended at each worker the records of ended
/// jobs tell, and the counters.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "web", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct BroadcastInfo {
    /// The job, whose id its copies share.
    #[cfg_attr(feature = "web", schema(value_type = String))]
    pub id: JobId,
    /// The name of its type.
    pub job: String,
    /// How many workers are to run it; `None` for all.
    pub workers: Option<u64>,
    /// Until when workers begin it, in milliseconds since 1970 by the server's clock.
    pub expires_at: u64,
    /// How many workers run it.
    pub running: u64,
    /// How many are to run it again.
    pub retrying: u64,
    /// At how many it has ended, however it did.
    pub ended: u64,
}

impl From<BroadcastEntry> for BroadcastInfo {
    fn from(entry: BroadcastEntry) -> Self {
        Self {
            id: entry.id.into(),
            job: entry.job,
            workers: Some(entry.most).filter(|most| *most > 0),
            expires_at: entry.expires_at,
            running: entry.running,
            retrying: entry.again,
            ended: entry.ended,
        }
    }
}

impl Control {
    /// The jobs of the queue for each worker that have not expired, the oldest first.
    ///
    /// ```no_run
    /// # async fn demo(client: hworker::Client) -> Result<(), hworker::Error> {
    /// for broadcast in client.control("default").broadcasts().await? {
    ///     println!("{} {}: {} workers have run it", broadcast.job, broadcast.id, broadcast.ended);
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::Config`] for a name that is none; else where the server cannot be asked.
    pub async fn broadcasts(&self) -> Result<Vec<BroadcastInfo>, Error> {
        let mut all = Vec::new();
        for shard in self.shards()? {
            let read = async {
                let on = self.client.connection_to_inspect(&shard).await?;
                shard.broadcasts(&on).await
            };
            let some = read
                .await
                .map_err(|fault| self.error("list the jobs for each worker of", fault))?;
            all.extend(some.into_iter().map(BroadcastInfo::from));
        }
        all.sort_by(|one, other| one.id.cmp(&other.id));
        Ok(all)
    }

    /// Ends a job for each worker: none begins it or tries it again from now on, and those that run it are told to end it, as by
    /// [`Inspect::cancel`](crate::Inspect::cancel). Gives how many were told.
    ///
    /// # Errors
    /// [`Error::NotFound`] where there is none, or it has expired; [`Error::Unanswered`] where the answer was lost; else as
    /// [`broadcasts`](Self::broadcasts).
    pub async fn cancel_broadcast(&self, id: &JobId) -> Result<u64, Error> {
        for shard in self.shards()? {
            let cancelled = async {
                let on = self.client.connection(&shard).await?;
                shard.cancel_broadcast(&on, id.as_str()).await
            };
            let told = cancelled.await;
            let told =
                told.map_err(|fault| self.error("cancel a job for each worker of", fault))?;
            if let Some(told) = told {
                return Ok(told);
            }
        }
        let what = format!("a job {id} for each worker of the queue {}", self.name);
        Err(Error::NotFound { what })
    }
}
