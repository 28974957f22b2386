//! What a worker is, whatever its session.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use tokio::sync::watch;

use super::outages::Outages;
use super::throttle::Throttle;
use crate::client::Client;
use crate::config::WorkerConfig;
use crate::context::States;
use crate::job::Definition;
use crate::store::Queue;
use crate::time::ServerClock;

/// What does not change from one session to the next.
#[derive(Debug)]
pub(super) struct Core {
    pub(super) config: WorkerConfig,
    pub(super) client: Client,
    pub(super) jobs: BTreeMap<&'static str, &'static Definition>,
    pub(super) states: Arc<States>,
    /// Those that it is to serve.
    pub(super) queues: watch::Sender<Vec<Queue>>,
    pub(super) clock: ServerClock,
    pub(super) outages: Outages,
    pub(super) throttle: Throttle,
    /// Threads of blocking bodies that have not returned.
    pub(super) blocking_threads: Arc<AtomicUsize>,
}

impl Core {
    /// The names of the queues that it serves, separated by commas; the shards of one are named once.
    pub(super) fn queue_names(&self) -> String {
        let queues = self.queues.borrow();
        let mut names: Vec<_> = queues.iter().map(|queue| &*queue.name).collect();
        names.dedup();
        names.join(",")
    }

    /// The first of the queues that it serves.
    pub(super) fn first_queue(&self) -> Option<Queue> {
        self.queues.borrow().first().cloned()
    }

    /// Serves this queue from now on, with all its shards.
    pub(super) fn add_queue(&self, name: &str) {
        let shards = self.client.shards(name, self.config.limits);
        self.queues.send_if_modified(|queues| {
            let is_new = queues.iter().all(|queue| &*queue.name != name);
            if is_new {
                queues.extend(shards);
            }
            is_new
        });
    }

    /// Serves this queue no more.
    pub(super) fn remove_queue(&self, name: &str) {
        self.queues.send_modify(|queues| queues.retain(|queue| &*queue.name != name));
    }
}
