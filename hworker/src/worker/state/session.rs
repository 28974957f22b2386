//! One session of a worker, under one id. A worker that was declared dead while it was only paused ends its session and begins another.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::consumer::{Consumer, Shared, Vital};
use super::core::Core;
use super::liveness::Liveness;
use crate::store::Queue;

/// The queues that a session serves.
pub(crate) type Consumers = Arc<[Arc<Consumer>]>;

/// The state of one session of a worker.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: Arc<str>,
    pub(crate) core: Arc<Core>,
    shared: Shared,
    consumers: watch::Sender<Consumers>,
    /// How often each queue was begun, by the label of its shard.
    begun: Mutex<HashMap<Arc<str>, u32>>,
    /// No more jobs are reserved.
    pub(crate) stopping: CancellationToken,
    /// Nothing more will be settled: each fetch loop flushes its outbox and tells the server that this worker retires.
    pub(crate) retiring: CancellationToken,
    /// The server declared this worker dead.
    pub(crate) void: CancellationToken,
    /// A part of it ended by a panic.
    pub(crate) broken: CancellationToken,
    /// Whether the runtime of the bodies and those of the two threads run.
    pub(crate) runtime: Liveness,
    pub(crate) intake: Liveness,
    pub(crate) supervisor: Liveness,
    /// It is time to look which queues exist, once a minute. The heartbeat loop of the first queue tells when.
    pub(crate) census: Notify,
    /// Whether this worker keeps the timer of the first queue.
    pub(crate) keeps_timer: AtomicBool,
    /// A heartbeat is sent. The supervisor's checks go with it, so that an idle worker wakes once for all of them.
    pub(crate) beat: Notify,
}

impl Session {
    pub(crate) fn new(core: &Arc<Core>) -> Self {
        let random = uuid::Uuid::new_v4().simple().to_string();
        let shared = Shared::new(core.config.concurrency);
        let session = Self {
            id: format!("{}.{}", core.config.name, &random[..12]).into(),
            core: Arc::clone(core),
            consumers: watch::Sender::new(Arc::new([])),
            begun: Mutex::default(),
            stopping: shared.stopping.clone(),
            retiring: shared.retiring.clone(),
            void: shared.void.clone(),
            broken: shared.broken.clone(),
            runtime: Liveness::default(),
            intake: Liveness::default(),
            supervisor: Liveness::default(),
            census: Notify::new(),
            keeps_timer: AtomicBool::new(false),
            beat: Notify::new(),
            shared,
        };
        for queue in core.queues.borrow().iter() {
            session.add(queue);
        }
        session
    }

    /// The queues that it serves now.
    pub(crate) fn consumers(&self) -> Consumers {
        Arc::clone(&self.consumers.borrow())
    }

    /// Runs so many jobs at once; false if it did before.
    pub(crate) fn scale(&self, slots: usize) -> bool {
        self.shared.scale(slots)
    }

    /// How many of its slots are held, and how many are free.
    #[cfg(feature = "metrics")]
    pub(crate) fn slots(&self) -> (usize, usize) {
        self.shared.slots.usage()
    }

    pub(crate) fn running(&self) -> usize {
        self.consumers().iter().map(|consumer| consumer.leases.running().len()).sum()
    }

    /// Serves this queue, or this shard of a queue, from now on.
    fn add(&self, queue: &Queue) {
        let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        let times = begun.entry(Arc::clone(&queue.label)).or_default();
        *times += 1;
        // The server would no longer know the id that the worker had in this queue before.
        let id = match *times {
            1 => Arc::clone(&self.id),
            times => format!("{}-{times}", self.id).into(),
        };
        let consumer = Arc::new(Consumer::new(queue, id, &self.core, &self.shared));
        self.consumers.send_modify(|consumers| {
            *consumers = consumers.iter().cloned().chain([consumer]).collect();
            self.shared.served.store(consumers.len(), Ordering::Relaxed);
        });
    }

    /// Reserves no more jobs of this queue, lets running jobs end, and tells the server.
    async fn remove(self: Arc<Self>, consumer: Arc<Consumer>) {
        consumer.stopping.cancel();
        consumer.leases.emptied().await;
        consumer.retiring.cancel();
        consumer.retired.cancelled().await;
        self.core.outages.forget(&consumer.queue.label);
        self.consumers.send_modify(|consumers| {
            *consumers =
                consumers.iter().filter(|other| !Arc::ptr_eq(other, &consumer)).cloned().collect();
            self.shared.served.store(consumers.len(), Ordering::Relaxed);
        });
    }

    /// Serves the queues of the worker, as they change. Not cancel safe.
    pub(crate) async fn follow_queues(self: Arc<Self>) {
        let mut wanted = self.core.queues.subscribe();
        let mut removals = JoinSet::new();
        loop {
            let queues = wanted.borrow_and_update().clone();
            let consumers = self.consumers();
            let mut served = consumers.iter().filter(|consumer| !consumer.stopping.is_cancelled());
            let unserved = |queue: &&Queue| {
                !served.clone().any(|consumer| consumer.queue.label == queue.label)
            };
            if !self.stopping.is_cancelled() {
                queues.iter().filter(unserved).for_each(|queue| self.add(queue));
            }
            let gone = |consumer: &&Arc<Consumer>| {
                queues.iter().all(|queue| queue.label != consumer.queue.label)
            };
            for consumer in served.by_ref().filter(gone) {
                removals
                    .spawn(Arc::clone(&self).with(Arc::clone(&self).remove(Arc::clone(consumer))));
            }
            tokio::select! {
                changed = wanted.changed() => if changed.is_err() { return },
                Some(_) = removals.join_next() => {}
            }
        }
    }

    /// Calls `begin` for each queue that it serves, now or later, while this is polled.
    pub(crate) async fn for_each_queue(&self, mut begin: impl FnMut(&Arc<Consumer>)) {
        let mut changes = self.consumers.subscribe();
        let mut known: Consumers = Arc::new([]);
        loop {
            let consumers = Arc::clone(&changes.borrow_and_update());
            let is_new =
                |consumer: &&Arc<Consumer>| !known.iter().any(|known| Arc::ptr_eq(known, consumer));
            consumers.iter().filter(is_new).for_each(&mut begin);
            known = consumers;
            // The sender exists as long as this session.
            let _ = changes.changed().await;
        }
    }

    /// Each task and thread of this session holds this while it runs, so that no panic goes unseen.
    pub(crate) fn vital(&self) -> Vital<'_> {
        Vital(&self.broken)
    }

    /// Runs a task of this session.
    pub(crate) async fn with<T>(self: Arc<Self>, task: impl Future<Output = T>) -> T {
        let _vital = self.vital();
        task.await
    }

    /// Whether it stops because it was told to, and not because it is void or broken.
    pub(crate) fn was_told_to_stop(&self) -> bool {
        let over = self.void.is_cancelled() || self.broken.is_cancelled();
        self.stopping.is_cancelled() && !over
    }
}
