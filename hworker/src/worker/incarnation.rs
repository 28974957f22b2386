//! One life of a worker under one id. A worker that was declared dead while it was only stopped ends that life and
//! begins another.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use super::leases::Leases;
use super::outbox::Outbox;
use super::pulse::Pulse;
use super::slots::Slots;
use crate::client::Client;
use crate::config::WorkerConfig;
use crate::context::States;
use crate::job::Definition;
use crate::keys::WorkerKeys;
use crate::store::{End, Lease, Queue, Settlement};
use crate::time::ServerClock;

/// What does not change from one life to the next.
#[derive(Debug)]
pub(super) struct Core {
    pub(super) config: WorkerConfig,
    pub(super) client: Client,
    pub(super) jobs: HashMap<&'static str, &'static Definition>,
    pub(super) states: Arc<States>,
    pub(super) queues: Vec<Queue>,
    pub(super) clock: ServerClock,
    /// Threads of blocking bodies that have not returned.
    pub(super) blocking_threads: Arc<AtomicUsize>,
}

/// One life of a worker.
#[derive(Debug)]
pub(super) struct Incarnation {
    pub(super) id: Arc<str>,
    pub(super) core: Arc<Core>,
    pub(super) lanes: Vec<Arc<Lane>>,
    /// No more jobs are reserved.
    pub(super) stopping: CancellationToken,
    /// Nothing more will be settled: each lane flushes its outbox and says its last word to the server.
    pub(super) retiring: CancellationToken,
    /// The server declared this worker dead.
    pub(super) void: CancellationToken,
    /// The supervisor's thread has ended.
    pub(super) unsupervised: CancellationToken,
    runtime: RuntimeWatch,
}

/// One queue as this worker serves it.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) queue: Queue,
    pub(super) keys: WorkerKeys,
    pub(super) slots: Slots,
    pub(super) leases: Leases,
    pub(super) outbox: Outbox,
    pub(super) pulse: Pulse,
    pub(super) suspects: Suspects,
    /// The first reconcile was accepted, so the server knows this worker.
    pub(super) registered: tokio::sync::watch::Sender<bool>,
    /// The server handed a job into the inbox, or it is time to look.
    pub(super) woken: Notify,
    /// What the server holds for us differs from what we know: the connection is to be made anew.
    pub(super) suspicious: Notify,
    /// The wait that was sent is not at the server any more, and its answer did not come.
    pub(super) wait_lost: Notify,
    /// Whether a wait may be sent.
    pub(super) waiting: tokio::sync::watch::Sender<bool>,
}

impl Incarnation {
    pub(super) fn new(core: &Arc<Core>) -> Self {
        let random = uuid::Uuid::new_v4().simple().to_string();
        let id: Arc<str> = format!("{}.{}", core.config.name, &random[..12]).into();
        let slots = Arc::new(Semaphore::new(core.config.concurrency));
        let lane = |queue| Arc::new(Lane::new(queue, &id, &core.config, &slots));
        Self {
            lanes: core.queues.iter().map(lane).collect(),
            core: Arc::clone(core),
            stopping: CancellationToken::new(),
            retiring: CancellationToken::new(),
            void: CancellationToken::new(),
            unsupervised: CancellationToken::new(),
            runtime: RuntimeWatch::default(),
            id,
        }
    }

    /// The runtime of the bodies shows that it runs.
    pub(super) fn runtime_runs(&self) {
        self.runtime.runs();
    }

    /// How long the runtime of the bodies has not run, in ms.
    pub(super) fn runtime_silent_ms(&self) -> u64 {
        self.runtime.silent_ms()
    }
}

impl Lane {
    fn new(queue: &Queue, worker: &str, config: &WorkerConfig, slots: &Arc<Semaphore>) -> Self {
        let limit = config.queue_limit(&queue.name);
        Self {
            keys: queue.keys.worker(worker),
            slots: Slots::new(slots, limit),
            queue: queue.clone(),
            leases: Leases::default(),
            outbox: Outbox::default(),
            pulse: Pulse::default(),
            suspects: Suspects::new(limit.unwrap_or(config.concurrency)),
            registered: tokio::sync::watch::Sender::new(false),
            woken: Notify::new(),
            suspicious: Notify::new(),
            wait_lost: Notify::new(),
            waiting: tokio::sync::watch::Sender::new(false),
        }
    }

    /// Ends a lease, unless it ended already or was lost.
    pub(super) fn finish(&self, lease: &Lease, end: End) {
        if self.leases.end(lease) {
            self.outbox.push(Arc::new(Settlement { lease: lease.clone(), end }));
        }
    }
}

/// Room for jobs at whose side workers died: few at a time, so that the one that kills is found and its neighbours
/// are not condemned with it.
#[derive(Debug)]
pub(super) struct Suspects {
    /// Jobs that are two deaths from failing: the square root of the slots.
    some: Arc<Semaphore>,
    /// Jobs that are one death from failing: one.
    one: Arc<Semaphore>,
}

impl Suspects {
    fn new(slots: usize) -> Self {
        Self {
            some: Arc::new(Semaphore::new(slots.isqrt().max(1))),
            one: Arc::new(Semaphore::new(1)),
        }
    }

    /// A place for a job with so many crashes, where it needs one.
    pub(super) fn room_for(
        &self,
        crashes: usize,
        limit: usize,
    ) -> Result<Option<OwnedSemaphorePermit>, ()> {
        let class = match limit.saturating_sub(crashes) {
            _ if crashes == 0 => return Ok(None),
            0 | 1 => &self.one,
            2 => &self.some,
            _ => return Ok(None),
        };
        Arc::clone(class).try_acquire_owned().map(Some).map_err(|_| ())
    }
}

/// When the runtime of the bodies last ran, seen from the supervisor's thread.
#[derive(Debug)]
struct RuntimeWatch {
    since: Instant,
    last_ms: AtomicU64,
}

impl Default for RuntimeWatch {
    fn default() -> Self {
        Self { since: Instant::now(), last_ms: AtomicU64::new(0) }
    }
}

impl RuntimeWatch {
    fn runs(&self) {
        self.last_ms.store(crate::time::millis(self.since.elapsed()), Ordering::Release);
    }

    fn silent_ms(&self) -> u64 {
        crate::time::millis(self.since.elapsed())
            .saturating_sub(self.last_ms.load(Ordering::Acquire))
    }
}
