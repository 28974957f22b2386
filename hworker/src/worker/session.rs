//! One session of a worker, under one id. A worker that was declared dead while it was only stopped ends its session and begins
//! another.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::census_state::Census;
use super::consumer::{Lane, Shared, Vital};
use super::core::Core;
use super::liveness::Liveness;
use crate::store::Queue;

/// The queues that a session serves.
pub(super) type Lanes = Arc<[Arc<Lane>]>;

/// One session of a worker.
#[derive(Debug)]
pub(super) struct Incarnation {
    pub(super) id: Arc<str>,
    pub(super) core: Arc<Core>,
    shared: Shared,
    lanes: watch::Sender<Lanes>,
    /// How often a queue was begun, by the label of its shard.
    begun: Mutex<HashMap<Arc<str>, u32>>,
    /// No more jobs are reserved.
    pub(super) stopping: CancellationToken,
    /// Nothing more will be settled: each queue flushes its outbox and says its last word to the server.
    pub(super) retiring: CancellationToken,
    /// The server declared this worker dead.
    pub(super) void: CancellationToken,
    /// A part of it has ended by a panic.
    pub(super) broken: CancellationToken,
    /// Whether the runtime of the bodies goes round, and those of the two threads.
    pub(super) runtime: Liveness,
    pub(super) intake: Liveness,
    pub(super) supervisor: Liveness,
    pub(super) census: Census,
    /// A heartbeat is sent: what the supervisor looks at now and then it looks at with it, so that an idle worker wakes once for all.
    pub(super) beat: Notify,
}

impl Incarnation {
    pub(super) fn new(core: &Arc<Core>) -> Self {
        let random = uuid::Uuid::new_v4().simple().to_string();
        let shared = Shared::new(core.config.concurrency);
        let tokens = &shared.tokens;
        let session = Self {
            id: format!("{}.{}", core.config.name, &random[..12]).into(),
            core: Arc::clone(core),
            lanes: watch::Sender::new(Arc::new([])),
            begun: Mutex::default(),
            stopping: tokens.stopping.clone(),
            retiring: tokens.retiring.clone(),
            void: tokens.void.clone(),
            broken: tokens.broken.clone(),
            runtime: Liveness::default(),
            intake: Liveness::default(),
            supervisor: Liveness::default(),
            census: Census::default(),
            beat: Notify::new(),
            shared,
        };
        for queue in core.queues.borrow().iter() {
            session.add(queue);
        }
        session
    }

    /// The queues that it serves now.
    pub(super) fn lanes(&self) -> Lanes {
        Arc::clone(&self.lanes.borrow())
    }

    /// Serves this queue, or this shard of one, too, from now on.
    fn add(&self, queue: &Queue) {
        let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        let times = begun.entry(Arc::clone(&queue.label)).or_default();
        *times += 1;
        // Under the id that it had there before the server would not know it any more.
        let id = match *times {
            1 => Arc::clone(&self.id),
            times => format!("{}-{times}", self.id).into(),
        };
        let lane = Arc::new(Lane::new(queue, id, &self.core, &self.shared));
        self.lanes.send_modify(|lanes| {
            *lanes = lanes.iter().cloned().chain([lane]).collect();
            self.shared.serves(lanes.len());
        });
    }

    /// Takes no more jobs of this queue, lets those that run end, and says so to the server.
    async fn remove(self: Arc<Self>, lane: Arc<Lane>) {
        lane.stopping.cancel();
        lane.leases.emptied().await;
        lane.retiring.cancel();
        lane.retired.cancelled().await;
        self.core.outages.forget(&lane.queue.label);
        self.lanes.send_modify(|lanes| {
            *lanes = lanes.iter().filter(|other| !Arc::ptr_eq(other, &lane)).cloned().collect();
            self.shared.serves(lanes.len());
        });
    }

    /// Serves the queues that the worker is to serve, as they change. Not cancel safe.
    pub(super) async fn follow_queues(self: Arc<Self>) {
        let mut wanted = self.core.queues.subscribe();
        let mut removals = JoinSet::new();
        loop {
            let queues = wanted.borrow_and_update().clone();
            let lanes = self.lanes();
            let mut served = lanes.iter().filter(|lane| !lane.stopping.is_cancelled());
            let unserved =
                |queue: &&Queue| !served.clone().any(|lane| lane.queue.label == queue.label);
            if !self.stopping.is_cancelled() {
                queues.iter().filter(unserved).for_each(|queue| self.add(queue));
            }
            let gone =
                |lane: &&Arc<Lane>| queues.iter().all(|queue| queue.label != lane.queue.label);
            for lane in served.by_ref().filter(gone) {
                removals.spawn(Arc::clone(&self).with(Arc::clone(&self).remove(Arc::clone(lane))));
            }
            tokio::select! {
                changed = wanted.changed() => if changed.is_err() { return },
                Some(_) = removals.join_next() => {}
            }
        }
    }

    /// Begins something for each queue that it serves, now or later, as long as this is polled.
    pub(super) async fn for_each_queue(&self, mut begin: impl FnMut(&Arc<Lane>)) {
        let mut changes = self.lanes.subscribe();
        let mut known: Lanes = Arc::new([]);
        loop {
            let lanes = Arc::clone(&changes.borrow_and_update());
            let is_new = |lane: &&Arc<Lane>| !known.iter().any(|known| Arc::ptr_eq(known, lane));
            lanes.iter().filter(is_new).for_each(&mut begin);
            known = lanes;
            // It is sent from here as long as this session is.
            let _ = changes.changed().await;
        }
    }

    /// What each task and thread of this session holds while it runs, so that none ends unseen by a panic.
    pub(super) fn vital(&self) -> Vital<'_> {
        Vital::of(&self.broken)
    }

    /// A task of this session.
    pub(super) async fn with<T>(self: Arc<Self>, task: impl Future<Output = T>) -> T {
        let _vital = self.vital();
        task.await
    }

    /// Whether it stops because somebody wants it to, and not for what became of it.
    pub(super) fn was_told_to_stop(&self) -> bool {
        let over = self.void.is_cancelled() || self.broken.is_cancelled();
        self.stopping.is_cancelled() && !over
    }

    /// Waits for the next heartbeat of any queue to be sent, at most so long.
    pub(super) async fn beat_or(&self, at_most: Duration) {
        let _ = timeout(at_most, self.beat.notified()).await;
    }
}
