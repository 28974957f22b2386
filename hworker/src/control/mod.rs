//! Steering queues from elsewhere: pausing and resuming them.

mod broadcasts;
#[cfg(feature = "cron")]
mod cron;
mod limits;
mod locks;
mod tables;
mod workers;

use std::time::Duration;

use crate::client::Client;
use crate::error::{Error, Problems};
use crate::keys::check_queue;
use crate::pause::Pause;
use crate::runtime;
use crate::store::{Fault, MetaKey, Queue, server_time};
use crate::time::millis;

pub use broadcasts::BroadcastInfo;
#[cfg(feature = "cron")]
pub use cron::{CronControl, CronInfo, CronRun};
pub use limits::{LimitControl, LimitInfo};
pub use locks::LockInfo;
pub use tables::TableInfo;
pub use workers::WorkerControl;

/// Steers a queue; [`Client::control`] makes one. What it orders is durable, holds for all workers, and needs no restart.
///
/// ```no_run
/// # use std::time::Duration;
/// # async fn demo(client: hworker::Client) -> Result<(), hworker::Error> {
/// let mail = client.control("mail");
/// mail.pause_for(Duration::from_secs(3600)).await?;
/// // The provider is back.
/// mail.resume().await?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Control {
    client: Client,
    name: String,
}

impl Client {
    /// Steers a queue: pauses and resumes it.
    #[must_use]
    pub fn control(&self, queue: &str) -> Control {
        Control { client: self.clone(), name: queue.to_owned() }
    }

    /// Pauses all queues, for so long or until they are resumed; also those that come later, as soon as a worker serves them.
    ///
    /// # Errors
    /// As [`Control::pause`]; some may be paused then.
    pub async fn pause_all(&self, duration: Option<Duration>) -> Result<(), Error> {
        in_a_runtime()?;
        let marked = self.mark_all_paused(duration).await;
        let order = marked.map_err(|fault| self.not_done("pause all queues", fault))?;
        for name in self.list_names("pause all queues").await? {
            self.control(&name).pause_with(duration, Some(order)).await?;
        }
        Ok(())
    }

    /// Resumes all queues, those too that were paused one by one. Gives how many were paused.
    ///
    /// # Errors
    /// As [`Control::resume`]; some may be resumed then.
    pub async fn resume_all(&self) -> Result<usize, Error> {
        in_a_runtime()?;
        let unmarked = async {
            let (meta, on) = self.meta(MetaKey::Queues).await?;
            meta.unmark_all_paused(&on).await
        };
        unmarked.await.map_err(|fault| self.not_done("resume all queues", fault))?;
        let mut resumed = 0;
        for name in self.list_names("resume all queues").await? {
            resumed += usize::from(self.control(&name).resume().await?);
        }
        Ok(resumed)
    }

    /// Notes that all queues are paused, for who serves one that comes later; gives the order's time.
    async fn mark_all_paused(&self, duration: Option<Duration>) -> Result<u64, Fault> {
        let (meta, on) = self.meta(MetaKey::Queues).await?;
        let now = server_time(&on).await?;
        let until = duration.map_or(0, |duration| now.saturating_add(millis(duration)));
        meta.mark_all_paused(&on, until, now).await.map(|()| now)
    }

    /// For how long all queues are still paused, if they are, until they are resumed or for so long, and by the order of which time.
    pub(crate) async fn all_paused(&self) -> Result<Option<(Option<Duration>, u64)>, Fault> {
        let (meta, on) = self.meta(MetaKey::Queues).await?;
        let Some((until, order)) = meta.all_paused(&on).await? else { return Ok(None) };
        let now = server_time(&on).await?;
        Ok(match until {
            0 => Some((None, order)),
            until if until > now => Some((Some(Duration::from_millis(until - now)), order)),
            _ => None,
        })
    }

    async fn list_names(&self, doing: &str) -> Result<Vec<String>, Error> {
        let names = self.queue_names().await.map_err(Fault::certainly_not_done);
        names.map(|names| names.into_iter().collect()).map_err(|fault| self.not_done(doing, fault))
    }

    fn not_done(&self, doing: &str, fault: Fault) -> Error {
        fault.at(self.address()).into_error_of_change(doing.to_owned())
    }
}

impl Control {
    /// Pauses the queue: its workers take no more of its jobs. What runs goes on, what was taken already starts, and enqueues, timers and
    /// recoveries go on. The pause survives restarts of workers and servers. A queue that nobody knows yet can be paused too.
    ///
    /// No body starts from a job that was not in a worker's hands when this returns. Pausing a paused queue again sets the time anew.
    ///
    /// # Errors
    /// [`Error::Config`] for a name that is none; [`Error::Unanswered`] where the answer was lost; else where the server cannot be asked.
    pub async fn pause(&self) -> Result<(), Error> {
        self.pause_with(None, None).await
    }

    /// The same for so long, by the server's clock. Then workers take jobs again by themselves.
    ///
    /// # Errors
    /// As [`pause`](Self::pause); [`Error::Config`] for no time at all.
    pub async fn pause_for(&self, duration: Duration) -> Result<(), Error> {
        if duration.is_zero() {
            let why = "a pause of no time is none; write how long, or `.pause()`";
            return Err(Error::Config(Problems(vec![why.into()])));
        }
        self.pause_with(Some(duration), None).await
    }

    async fn pause_with(
        &self,
        duration: Option<Duration>,
        order: Option<u64>,
    ) -> Result<(), Error> {
        for shard in self.shards()? {
            let on = self.client.connection(&shard).await;
            let paused = match on {
                Ok(on) => shard.pause(&on, duration, order).await,
                Err(fault) => Err(fault),
            };
            paused.map_err(|fault| self.error("pause", fault))?;
        }
        // Listed from now on. A refusal only keeps it out of the list.
        let _ = self.client.register_queues(&[&self.name], None).await;
        Ok(())
    }

    /// Resumes the queue: workers that wait for it take jobs at once. False where it was not paused, which is no error.
    ///
    /// # Errors
    /// As [`pause`](Self::pause).
    pub async fn resume(&self) -> Result<bool, Error> {
        let mut was_paused = false;
        for shard in self.shards()? {
            let on = self.client.connection(&shard).await;
            let resumed = match on {
                Ok(on) => shard.resume(&on).await,
                Err(fault) => Err(fault),
            };
            was_paused |= resumed.map_err(|fault| self.error("resume", fault))?;
        }
        Ok(was_paused)
    }

    /// Whether the queue is paused, and until when.
    ///
    /// # Errors
    /// [`Error::Config`] for a name that is none; else where the server cannot be asked.
    pub async fn paused(&self) -> Result<Option<Pause>, Error> {
        let mut paused = None;
        for shard in self.shards()? {
            let asked = async {
                let on = self.client.connection(&shard).await?;
                let now = server_time(&on).await?;
                shard.paused(&on, now).await
            };
            let doing = format!("look into the queue {}", self.name);
            paused = paused.or(asked.await.map_err(|fault| fault.into_error(doing))?);
        }
        Ok(paused)
    }

    fn shards(&self) -> Result<Vec<Queue>, Error> {
        in_a_runtime()?;
        check_queue(&self.name).map_err(Error::config)?;
        Ok(self.client.shards(&self.name, self.client.limits()))
    }

    fn error(&self, what: &str, fault: Fault) -> Error {
        self.client.not_done(&format!("{what} the queue {}", self.name), fault)
    }
}

fn in_a_runtime() -> Result<(), Error> {
    let outside = "`Control` was asked outside a tokio runtime; await it inside one";
    runtime::current(outside).map(drop)
}
