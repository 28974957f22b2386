//! What a worker keeps over all its sessions.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::log_limit::LogLimit;
use super::outages::Outages;
use crate::charts::Totals;
use crate::client::Client;
use crate::config::WorkerConfig;
use crate::context::States;
use crate::hooks::Hooks;
use crate::job::Definition;
use crate::store::Queue;
use crate::table::Table;
use crate::time::ServerClock;
use crate::worker::follows::OnAnyFailed;
use crate::worker::isolate::Pool;
use crate::worker::layers::Layers;

/// What does not change between sessions.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) config: WorkerConfig,
    pub(crate) client: Client,
    pub(crate) jobs: BTreeMap<&'static str, &'static Definition>,
    pub(crate) states: Arc<States>,
    /// What the program declares in its code.
    pub(crate) table: Table,
    /// The queues to serve.
    pub(crate) queues: watch::Sender<Vec<Queue>>,
    pub(crate) clock: ServerClock,
    pub(crate) outages: Outages,
    pub(crate) log_limit: LogLimit,
    /// What it did.
    pub(crate) totals: Arc<Totals>,
    /// Functions of the user that are told what became of jobs.
    pub(crate) hooks: Arc<Hooks>,
    /// What runs around its bodies.
    pub(crate) layers: Arc<Layers>,
    /// What is enqueued for each job that has failed for good, where its type says nothing.
    pub(crate) on_failed: OnAnyFailed,
    /// It is told to stop.
    pub(crate) stop: CancellationToken,
    /// The grace that came with an order to stop.
    pub(crate) ordered_grace: OnceLock<Duration>,
    /// The processes for bodies with `isolate`, if it knows a job type that has it.
    pub(crate) children: Option<Arc<Pool>>,
    /// Each thread of a blocking body that has not returned holds a clone.
    pub(crate) blocking_threads: Arc<()>,
}

impl Core {
    /// The names of the served queues, separated by commas; a queue with several shards is named once.
    pub(crate) fn queue_names(&self) -> String {
        let queues = self.queues.borrow();
        let mut names: Vec<_> = queues.iter().map(|queue| &*queue.name).collect();
        names.dedup();
        names.join(",")
    }

    /// How long a stopping worker lets its jobs finish.
    pub(crate) fn grace(&self) -> Duration {
        self.ordered_grace.get().copied().unwrap_or(self.config.shutdown_grace)
    }

    pub(crate) fn first_queue(&self) -> Option<Queue> {
        self.queues.borrow().first().cloned()
    }

    /// Serves this queue from now on, with all its shards, and its jobs for a tag of the worker.
    pub(crate) fn add_queue(&self, name: &str) {
        for name in self.config.with_tags(name) {
            let shards = self.client.shards(&name, self.config.limits);
            self.queues.send_if_modified(|queues| {
                let is_new = queues.iter().all(|queue| *queue.name != *name);
                if is_new {
                    queues.extend(shards);
                }
                is_new
            });
        }
    }

    pub(crate) fn remove_queue(&self, name: &str) {
        let names = self.config.with_tags(name);
        self.queues.send_modify(|queues| {
            queues.retain(|queue| names.iter().all(|name| *queue.name != **name));
        });
    }
}
