//! Steering workers from elsewhere: quiet, stop, scale.

use std::collections::BTreeSet;
use std::time::Duration;

use super::in_a_runtime;
use crate::client::Client;
use crate::error::Error;
use crate::keys::check_name;
use crate::store::{Connection, Fault, MOST_SLOTS, MetaKey, Queue};
use crate::time::millis;

/// Steers workers; [`Client::worker`] and [`Client::workers_of_label`] make one. A worker learns of an order with its next heartbeat, within 2 s.
///
/// ```no_run
/// # async fn demo(client: hworker::Client) -> Result<(), hworker::Error> {
/// // Before a deploy: finish what runs, take nothing new.
/// client.workers_of_label("web-3").quiet().await?;
/// // One of them has too much to do.
/// client.worker("web-4.9f2c01ab77d3").scale(20).await?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct WorkerControl {
    client: Client,
    whom: Whom,
}

#[derive(Debug, Clone)]
enum Whom {
    Id(String),
    Label(String),
}

impl Client {
    /// Steers the worker with this id. An order to it ends with it: after a restart it has another id.
    #[must_use]
    pub fn worker(&self, id: &str) -> WorkerControl {
        WorkerControl { client: self.clone(), whom: Whom::Id(id.to_owned()) }
    }

    /// Steers all workers of a label (`HWORKER_NAME`, or the name of their host). Orders but [`stop`](WorkerControl::stop) survive restarts:
    /// workers of that label that start later obey them before they take a job.
    #[must_use]
    pub fn workers_of_label(&self, label: &str) -> WorkerControl {
        WorkerControl { client: self.clone(), whom: Whom::Label(label.to_owned()) }
    }
}

impl WorkerControl {
    /// Has them take no more jobs; what they have goes on. They stay alive, and do everything else that a worker does. Gives how many live
    /// workers were told.
    ///
    /// # Errors
    /// [`Error::NotFound`] where no worker with that id lives; [`Error::Config`] for a label that is none; else where the server cannot be
    /// asked, when some may be told.
    pub async fn quiet(&self) -> Result<usize, Error> {
        self.order("quiet", "1", true).await
    }

    /// Has them take jobs again.
    ///
    /// # Errors
    /// As [`quiet`](Self::quiet).
    pub async fn resume(&self) -> Result<usize, Error> {
        self.order("quiet", "", true).await
    }

    /// Has each of them run so many jobs at once, 1 to 100,000. What runs beyond that runs to its end. Limits of single queues stay.
    ///
    /// # Errors
    /// As [`quiet`](Self::quiet); [`Error::Config`] for another number.
    pub async fn scale(&self, slots: usize) -> Result<usize, Error> {
        if !(1..=MOST_SLOTS).contains(&slots) {
            return Err(Error::config(format!(
                "a worker runs 1 to {MOST_SLOTS} jobs at once, not {slots}; `quiet` has it take none"
            )));
        }
        self.order("slots", &slots.to_string(), true).await
    }

    /// Has each of them run as many jobs at once as its own settings say.
    ///
    /// # Errors
    /// As [`quiet`](Self::quiet).
    pub async fn unscale(&self) -> Result<usize, Error> {
        self.order("slots", "", true).await
    }

    /// Stops them, as SIGTERM does: jobs may finish within the grace, by default that of the worker; then they are given back. A platform may
    /// start a worker anew.
    ///
    /// # Errors
    /// As [`quiet`](Self::quiet).
    pub async fn stop(&self, grace: Option<Duration>) -> Result<usize, Error> {
        let own = || "own".to_owned();
        let grace = grace.map_or_else(own, |grace| millis(grace).to_string());
        self.order("stop", &grace, false).await
    }

    async fn order(&self, field: &str, value: &str, lasts: bool) -> Result<usize, Error> {
        in_a_runtime()?;
        if let Whom::Label(label) = &self.whom {
            check_name("worker", label).map_err(Error::config)?;
            if lasts {
                let set = async {
                    let (meta, on) = self.client.meta(MetaKey::Labels).await?;
                    meta.set_order_of_label(&on, label, field, value).await
                };
                set.await.map_err(|fault| self.error(fault))?;
            }
        }
        let told = self.tell(field, value).await.map_err(|fault| self.error(fault))?;
        match &self.whom {
            Whom::Id(id) if told.is_empty() => {
                Err(Error::NotFound { what: format!("a live worker {id}") })
            }
            _ => Ok(told.len()),
        }
    }

    /// Tells each of them on each of its queues.
    async fn tell(&self, field: &str, value: &str) -> Result<BTreeSet<String>, Fault> {
        let mut told = BTreeSet::new();
        for name in self.client.queue_names().await? {
            for shard in self.client.shards(&name, self.client.limits()) {
                let on = self.client.connection(&shard).await?;
                for worker in self.workers(&shard, &on).await? {
                    if shard.order(&on, &worker, field, value).await? {
                        // That of a queue that it serves anew ends otherwise.
                        told.insert(process(&worker).to_owned());
                    }
                }
            }
        }
        Ok(told)
    }

    /// Those that are meant, as a queue knows them.
    async fn workers(&self, shard: &Queue, on: &Connection) -> Result<Vec<String>, Fault> {
        let mut ids = shard.worker_ids(on).await?;
        ids.retain(|id| match &self.whom {
            Whom::Id(wanted) => process(id) == wanted,
            Whom::Label(label) => process(id).rsplit_once('.').is_some_and(|(own, _)| own == label),
        });
        Ok(ids)
    }

    fn error(&self, fault: Fault) -> Error {
        let whom = match &self.whom {
            Whom::Id(id) => format!("the worker {id}"),
            Whom::Label(label) => format!("the workers of the label {label}"),
        };
        self.client.not_done(&format!("order {whom}"), fault)
    }
}

/// The id of a worker without the number that it has on a queue that it serves anew: `web-1.3f9c0a7be21d-2`.
fn process(id: &str) -> &str {
    let number = |rest: &str| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit());
    match id.rsplit_once('.') {
        Some((label, random)) => match random.split_once('-') {
            Some((own, rest)) if number(rest) => &id[..label.len() + 1 + own.len()],
            _ => id,
        },
        None => id,
    }
}
