//! One queue, or one shard of a queue, as this worker consumes it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::broadcasts::Broadcasts;
use super::buffer::{Buffer, WaitingJob};
use super::claims::Claims;
use super::core::Core;
use super::events::Untold;
use super::freshness::Freshness;
use super::leases::Leases;
use super::notes::Notes;
use super::outbox::Outbox;
use super::pace::Pace;
use super::parked::Parked;
use super::recent::Recent;
use super::slots::{Slot, Slots};
use super::stopped::Stopped;
use super::suspects::Suspects;
use crate::charts::{Charts, Rare};
use crate::context::Scope;
use crate::job::{Definition, OnFault};
use crate::keys::WorkerKeys;
use crate::store::{Concluded, End, Lease, Listed, Meter, Queue, Settled, Settlement};
use crate::time::millis;

/// The state of one queue, or one shard of a queue, in a session.
#[derive(Debug)]
pub(crate) struct Consumer {
    /// The worker's id in this queue.
    pub(crate) worker: Arc<str>,
    pub(crate) queue: Queue,
    pub(crate) keys: WorkerKeys,
    pub(crate) slots: Slots,
    pub(crate) leases: Leases,
    pub(crate) buffer: Buffer,
    pub(crate) outbox: Outbox,
    /// Settlements of the supervisor.
    pub(crate) given_up: Outbox,
    pub(crate) pace: Pace,
    pub(crate) charts: Charts,
    pub(crate) freshness: Freshness,
    pub(crate) suspects: Suspects,
    pub(crate) parked: Parked,
    pub(crate) broadcasts: Broadcasts,
    pub(crate) notes: Notes,
    /// What is told of its jobs.
    pub(crate) events: Untold,
    pub(crate) stopped: Stopped,
    /// How many calls are in flight that take parked jobs, or those for each worker.
    takes: AtomicUsize,
    /// No more jobs are reserved.
    pub(crate) stopping: CancellationToken,
    /// Nothing more will be settled: the fetch loop flushes the outbox and tells the server that this worker retires.
    pub(crate) retiring: CancellationToken,
    /// The fetch loop has done so and ended.
    pub(crate) retired: CancellationToken,
    /// Of the session: the server declared this worker dead.
    pub(crate) void: CancellationToken,
    /// Of the session: a part of it ended by a panic.
    broken: CancellationToken,
    /// How many queues the session serves.
    served: Arc<AtomicUsize>,
    /// A job waits for a runner or a slot.
    pub(crate) job_waits: Notify,
    /// Whether jobs are reserved beyond the free slots. False if a job type of the queue runs at most once, since a crash counts for all
    /// jobs of a worker.
    pub(crate) fetches_ahead: bool,
    /// Each `Context` of this queue and worker shares this.
    pub(crate) scope: Arc<Scope>,
    /// The session number under which the server gives jobs.
    pub(crate) session_number: AtomicU64,
    /// Counts the bytes on the connections of the fetch loop.
    pub(crate) line: Arc<Meter>,
    pub(crate) claims: Claims,
    /// The fetch loop has to plan again.
    pub(crate) changed: Notify,
    /// The server may have waiting jobs, or a job in the inbox.
    look: AtomicBool,
    /// The first reconcile was accepted, so the server knows this worker.
    pub(crate) registered: tokio::sync::watch::Sender<bool>,
    /// The connection may have to be replaced.
    pub(crate) suspicious: Notify,
    /// The reason: the leases at the server differ from those known here.
    differs: AtomicBool,
    /// When the heartbeat loop was last cut off from the server, until the fetch loop has read it.
    cut_off: Mutex<Option<Instant>>,
    /// A wait that was sent is no longer at the server, and its answer did not come.
    pub(crate) wait_lost: Notify,
    /// It is ordered to take no more jobs.
    quiet: AtomicBool,
    /// The queue gives no job for so many ms more, or for longer; 0 while it does.
    pub(crate) closed_ms: AtomicU64,
    /// The job types whose jobs belong to lists with a limit of that name, as `reserve` told it last.
    types: Mutex<String>,
    has_types: AtomicBool,
    /// An attempt ended that held limits, so others may start.
    made_room: AtomicBool,
    /// Whether a wait may be sent.
    pub(crate) waiting: tokio::sync::watch::Sender<bool>,
    /// Counts the beginning and the end of each wait: odd while one is in flight.
    pub(crate) waits: AtomicU64,
}

impl Consumer {
    pub(crate) fn new(queue: &Queue, worker: Arc<str>, core: &Core, shared: &Shared) -> Self {
        let at_most_once = |definition: &&Definition| {
            definition.policy.on_crash == OnFault::Fail && definition.queue == &*queue.name
        };
        let (slots, suspects) = shared.room(core, queue);
        let totals = core.totals.queue(&queue.name);
        let own = core.jobs.values().filter(|definition| definition.queue == &*queue.name);
        totals.expect(own.map(|definition| definition.name));
        let stopping = shared.stopping.child_token();
        Self {
            keys: queue.keys.worker(&worker),
            slots,
            stopping: stopping.clone(),
            retiring: shared.retiring.child_token(),
            retired: CancellationToken::new(),
            void: shared.void.clone(),
            broken: shared.broken.clone(),
            served: Arc::clone(&shared.served),
            job_waits: Notify::new(),
            queue: queue.clone(),
            leases: Leases::new(Arc::clone(&shared.recent), Arc::clone(&queue.label)),
            buffer: Buffer::default(),
            outbox: Outbox::default(),
            given_up: Outbox::default(),
            pace: Pace::default(),
            charts: Charts::of(totals),
            freshness: Freshness::default(),
            suspects,
            parked: Parked::default(),
            broadcasts: Broadcasts::default(),
            notes: Notes::default(),
            events: Untold::new(core.client.writes_events()),
            stopped: Stopped::default(),
            takes: AtomicUsize::new(0),
            fetches_ahead: core.config.prefetch && !core.jobs.values().any(at_most_once),
            scope: Arc::new(Scope {
                queue: Arc::clone(&queue.name),
                shard: Arc::clone(&queue.label),
                worker: Arc::clone(&worker),
                states: Arc::clone(&core.states),
                stopping,
                runtime: Handle::try_current().ok(),
            }),
            worker,
            session_number: AtomicU64::new(0),
            line: Arc::default(),
            claims: Claims::default(),
            changed: Notify::new(),
            look: AtomicBool::new(false),
            registered: tokio::sync::watch::Sender::new(false),
            suspicious: Notify::new(),
            cut_off: Mutex::default(),
            differs: AtomicBool::new(false),
            wait_lost: Notify::new(),
            quiet: AtomicBool::new(false),
            closed_ms: AtomicU64::new(0),
            types: Mutex::default(),
            has_types: AtomicBool::new(false),
            made_room: AtomicBool::new(false),
            waiting: tokio::sync::watch::Sender::new(false),
            waits: AtomicU64::new(0),
        }
    }

    /// Each task holds this while it runs, so that no panic of a task goes unseen.
    pub(crate) fn vital(&self) -> Vital<'_> {
        Vital(&self.broken)
    }

    /// Whether the session serves only this queue.
    pub(crate) fn is_alone(&self) -> bool {
        self.served.load(Ordering::Relaxed) == 1
    }

    /// Adds jobs to the buffer, the first of them with these slots, and calls a runner.
    pub(crate) fn add(
        &self,
        jobs: impl IntoIterator<Item = WaitingJob>,
        slots: impl IntoIterator<Item = Slot>,
    ) {
        self.buffer.push(jobs, slots);
        if !self.buffer.is_empty() {
            self.call_runner(false);
            self.job_waits.notify_one();
        }
    }

    /// Whether a call is in flight that may still bring jobs: a wait, or one that takes parked jobs or those for each worker. A worker does not
    /// retire before it ends.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.waits.load(Ordering::Acquire).is_multiple_of(2)
            || self.takes.load(Ordering::Acquire) > 0
    }

    /// Such a call is in flight until this is dropped, when its jobs are accepted.
    pub(crate) fn taking(&self) -> Taking<'_> {
        self.takes.fetch_add(1, Ordering::SeqCst);
        Taking(self)
    }

    /// Calls a runner to the waiting jobs. One runner is enough for short bodies, unless it is `behind`. Returns whether one was called.
    pub(crate) fn call_runner(&self, behind: bool) -> bool {
        self.buffer.call_runner(behind || !self.pace.drains())
    }

    /// The heartbeat loop reaches the server again; it was last cut off at this time.
    pub(crate) fn was_cut_off(&self, at: Instant) {
        *self.cut_off.lock().unwrap_or_else(PoisonError::into_inner) = Some(at);
        self.suspicious.notify_one();
        self.wait_lost.notify_waiters();
    }

    /// The leases at the server differ from those known here.
    pub(crate) fn differs(&self) {
        self.differs.store(true, Ordering::Release);
        self.suspicious.notify_one();
        // The lost answer may have been that of a wait.
        self.wait_lost.notify_waiters();
    }

    /// Whether such a difference was found.
    pub(crate) fn take_differs(&self) -> bool {
        self.differs.swap(false, Ordering::AcqRel)
    }

    pub(crate) fn take_cut_off(&self) -> Option<Instant> {
        self.cut_off.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Ends a lease. Returns its settlement; `None` if it ended already or was lost.
    pub(crate) fn end<C: Into<Concluded>>(
        &self,
        lease: &Lease,
        end: impl FnOnce() -> C,
    ) -> Option<Settlement> {
        self.leases.end(lease).then(|| {
            let Concluded { end, event } = end().into();
            Settlement { lease: lease.clone(), end, event }
        })
    }

    /// Ends a lease and settles it.
    pub(crate) fn finish(&self, lease: &Lease, end: End) {
        self.settle(self.end(lease, || end));
    }

    /// Gives back a job that was not started.
    pub(crate) fn give_back(&self, lease: &Lease) {
        self.finish(lease, End::Released { delay_ms: 0, envelope: None });
    }

    /// Settles an attempt that is over, and wakes the fetch loop if there may be something to send.
    pub(crate) fn settle(&self, settlement: Option<Settlement>) {
        self.settle_and_free(settlement, ());
    }

    /// As [`Consumer::settle`], and frees `held`. The settlement gets its place first, so that jobs that run one after the other are
    /// settled in this order. The fetch loop is woken last, so that it finds the slot free.
    pub(crate) fn settle_and_free<T>(&self, settlement: Option<Settlement>, held: T) {
        let wakes = match settlement {
            Some(settlement) if settlement.lease.list().is_some() => {
                self.made_room.store(true, Ordering::Release);
                self.outbox.push(settlement, self.buffer.is_empty())
            }
            Some(settlement) => self.outbox.push(settlement, self.buffer.is_empty()),
            None => true,
        };
        drop(held);
        if wakes {
            self.changed.notify_one();
        }
    }

    /// Counts settlements that the server refused.
    pub(crate) fn count_stale(&self, settled: &Settled) {
        for (job, count) in &settled.stale {
            self.charts.totals().add(job, Rare::Stale, *count);
        }
    }

    /// Whether it takes no more jobs for now, or for ever.
    pub(crate) fn takes_none(&self) -> bool {
        self.quiet.load(Ordering::Acquire) || self.stopping.is_cancelled()
    }

    /// Takes no more jobs, or takes jobs again.
    pub(crate) fn set_quiet(&self, quiet: bool) {
        if self.quiet.swap(quiet, Ordering::AcqRel) == quiet {
            return;
        }
        if quiet {
            // The server must not hand over a job.
            self.wait_lost.notify_waiters();
        }
        self.look();
    }

    /// The server gives no job: the queue is paused for so long, or until it is resumed, or its limit is used up.
    pub(crate) fn set_closed(&self, left: Option<Duration>) {
        let ms = left.map_or(u64::MAX, |left| millis(left).max(1));
        self.closed_ms.store(ms, Ordering::Release);
    }

    /// The server gives jobs, these or others, and tells of which types they may be routed.
    pub(crate) fn set_open(&self, has_jobs: bool, listed: Option<Listed>) {
        self.closed_ms.store(0, Ordering::Release);
        let types = match listed {
            Some(listed) => listed.types,
            // It had nothing to tell.
            None if !has_jobs => return,
            None => String::new(),
        };
        if !types.is_empty() || self.has_types.load(Ordering::Acquire) {
            self.has_types.store(!types.is_empty(), Ordering::Release);
            *self.types.lock().unwrap_or_else(PoisonError::into_inner) = types;
        }
    }

    /// Whether jobs of this type belong to a list with a limit of that name, so that they can be held up.
    pub(crate) fn is_held_up(&self, name: &str) -> bool {
        self.has_types.load(Ordering::Acquire) && {
            let types = self.types.lock().unwrap_or_else(PoisonError::into_inner);
            types.split_ascii_whitespace().any(|held_up| held_up == name)
        }
    }

    /// Whether an attempt ended, since this was asked last, that held limits.
    pub(crate) fn has_made_room(&self) -> bool {
        self.made_room.load(Ordering::Relaxed) && self.made_room.swap(false, Ordering::AcqRel)
    }

    /// For how long the queue gives no job still, as far as this is known.
    pub(crate) fn closed_for(&self) -> Option<Duration> {
        let ms = self.closed_ms.load(Ordering::Acquire);
        (ms > 0).then(|| Duration::from_millis(ms))
    }

    /// Makes the fetch loop look at the server.
    pub(crate) fn look(&self) {
        self.look.store(true, Ordering::Release);
        self.changed.notify_one();
    }

    /// Whether such a look was requested.
    pub(crate) fn take_look(&self) -> bool {
        self.look.swap(false, Ordering::AcqRel)
    }
}

/// A call is in flight that may bring jobs.
pub(crate) struct Taking<'a>(&'a Consumer);

impl Drop for Taking<'_> {
    fn drop(&mut self) {
        self.0.takes.fetch_sub(1, Ordering::SeqCst);
        self.0.changed.notify_one();
    }
}

/// Ends the session if a panic drops it.
pub(crate) struct Vital<'a>(pub(super) &'a CancellationToken);

impl Drop for Vital<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.cancel();
        }
    }
}

/// What all queues of a session share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(super) stopping: CancellationToken,
    pub(super) retiring: CancellationToken,
    pub(super) void: CancellationToken,
    pub(super) broken: CancellationToken,
    /// How many queues the session serves.
    pub(super) served: Arc<AtomicUsize>,
    recent: Arc<Recent>,
    pub(super) slots: Slots,
    /// What the shards of a queue share, by the queue's name. Its limits count for the queue, not for each shard.
    rooms: Mutex<HashMap<Arc<str>, (Slots, Suspects)>>,
}

impl Shared {
    pub(crate) fn new(concurrency: usize) -> Self {
        Self {
            stopping: CancellationToken::new(),
            retiring: CancellationToken::new(),
            void: CancellationToken::new(),
            broken: CancellationToken::new(),
            served: Arc::default(),
            recent: Arc::default(),
            slots: Slots::new(concurrency),
            rooms: Mutex::default(),
        }
    }

    /// Gives the worker so many slots in all; false if it had as many.
    pub(super) fn scale(&self, slots: usize) -> bool {
        let changes = self.slots.total() != slots;
        if changes {
            self.slots.resize(slots);
        }
        changes
    }

    fn room(&self, core: &Core, queue: &Queue) -> (Slots, Suspects) {
        let mut rooms = self.rooms.lock().unwrap_or_else(PoisonError::into_inner);
        let (slots, suspects) = rooms.entry(Arc::clone(&queue.name)).or_insert_with(|| {
            let setting = core.config.queue(&queue.name).cloned().unwrap_or_default();
            let suspects = Suspects::new(setting.limit.unwrap_or(core.config.concurrency));
            (self.slots.of_queue(setting.share, setting.limit), suspects)
        });
        (slots.clone(), suspects.of_another_shard())
    }
}
