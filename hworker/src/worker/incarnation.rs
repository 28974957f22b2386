//! One life of a worker under one id. A worker that was declared dead while it was only stopped ends that life and
//! begins another.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::admit::{Admitted, released};
use super::census::Census;
use super::leases::{Leases, Running};
use super::liveness::Liveness;
use super::outages::Outages;
use super::outbox::Outbox;
use super::pace::Pace;
use super::parked::Parked;
use super::pulse::Pulse;
use super::ready::{Ready, WaitingJob};
use super::recent::Total;
use super::slots::{Slot, Slots};
use super::throttle::Throttle;
use super::trip::Asks;
use crate::client::Client;
use crate::config::WorkerConfig;
use crate::context::{Scope, States};
use crate::job::{Definition, OnFault};
use crate::keys::WorkerKeys;
use crate::store::{End, Lease, Meter, Queue, Settlement};
use crate::time::ServerClock;

/// What does not change from one life to the next.
#[derive(Debug)]
pub(super) struct Core {
    pub(super) config: WorkerConfig,
    pub(super) client: Client,
    pub(super) jobs: BTreeMap<&'static str, &'static Definition>,
    pub(super) states: Arc<States>,
    pub(super) queues: Vec<Queue>,
    pub(super) clock: ServerClock,
    pub(super) outages: Outages,
    pub(super) throttle: Throttle,
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
    /// A part of it has ended by a panic.
    pub(super) broken: CancellationToken,
    /// A job waits for a runner, or for a slot.
    pub(super) job_waits: Arc<Notify>,
    /// Whether the runtime of the bodies goes round, and those of the two threads.
    pub(super) runtime: Liveness,
    pub(super) intake: Liveness,
    pub(super) supervisor: Liveness,
    pub(super) census: Census,
    /// A heartbeat is sent: what the supervisor looks at now and then it looks at with it, so that an idle worker wakes once for all.
    pub(super) beat: Notify,
}

/// One queue, or one shard of a queue, as this worker serves it.
#[derive(Debug)]
pub(super) struct Lane {
    /// As of its incarnation.
    job_waits: Arc<Notify>,
    pub(super) queue: Queue,
    pub(super) keys: WorkerKeys,
    pub(super) slots: Slots,
    pub(super) leases: Leases,
    pub(super) ready: Ready,
    pub(super) outbox: Outbox,
    pub(super) pace: Pace,
    pub(super) pulse: Pulse,
    pub(super) suspects: Suspects,
    pub(super) parked: Parked,
    /// Whether jobs are reserved beyond the free slots: not where a job type of the queue runs at most once, since a crash counts for
    /// everything that a worker holds.
    pub(super) fetches_ahead: bool,
    /// What contexts tell of this queue and worker.
    pub(super) scope: Arc<Scope>,
    /// The session under which the server hands anything over.
    pub(super) session: AtomicU64,
    /// Counts what passes over the connections of the loop that fetches.
    pub(super) line: Arc<Meter>,
    pub(super) asks: Asks,
    /// The loop that fetches has something to think about.
    pub(super) changed: Notify,
    /// The server may have jobs waiting, or something in the inbox.
    look: AtomicBool,
    /// The first reconcile was accepted, so the server knows this worker.
    pub(super) registered: tokio::sync::watch::Sender<bool>,
    /// The connection may have to be made anew.
    pub(super) suspicious: Notify,
    /// Why it may.
    differs: AtomicBool,
    /// When the heart last found itself cut off from the server, until the loop that fetches has heard of it.
    cut_off: Mutex<Option<Instant>>,
    /// The wait that was sent is not at the server any more, and its answer did not come.
    pub(super) wait_lost: Notify,
    /// Whether a wait may be sent.
    pub(super) waiting: tokio::sync::watch::Sender<bool>,
    /// Counts the waits, when each is sent and again when it is over: odd while one is under way.
    pub(super) waits: AtomicU64,
}

impl Core {
    /// The names of the queues that it serves, separated by commas; the shards of one are named once.
    pub(super) fn queue_names(&self) -> String {
        let mut names: Vec<_> = self.queues.iter().map(|queue| &*queue.name).collect();
        names.dedup();
        names.join(",")
    }
}

impl Incarnation {
    pub(super) fn new(core: &Arc<Core>) -> Self {
        let random = uuid::Uuid::new_v4().simple().to_string();
        let id: Arc<str> = format!("{}.{}", core.config.name, &random[..12]).into();
        let slots = Slots::new(core.config.concurrency);
        let mut rooms = HashMap::new();
        let shared =
            Shared { job_waits: Arc::default(), recent: Arc::new(Total::of(core.queues.len())) };
        let lane = |queue: &Queue| {
            let room = || Room::new(&core.config, &queue.name, &slots);
            let room = rooms.entry(Arc::clone(&queue.name)).or_insert_with(room);
            Arc::new(Lane::new(queue, &id, core, room, &shared))
        };
        Self {
            lanes: core.queues.iter().map(lane).collect(),
            core: Arc::clone(core),
            stopping: CancellationToken::new(),
            retiring: CancellationToken::new(),
            void: CancellationToken::new(),
            broken: CancellationToken::new(),
            job_waits: shared.job_waits,
            runtime: Liveness::default(),
            intake: Liveness::default(),
            supervisor: Liveness::default(),
            census: Census::default(),
            beat: Notify::new(),
            id,
        }
    }

    /// What each task and thread of this life holds while it runs, so that none ends unseen by a panic.
    pub(super) fn vital(&self) -> Vital<'_> {
        Vital(self)
    }

    /// A task of this life.
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

impl Lane {
    fn new(queue: &Queue, worker: &Arc<str>, core: &Core, room: &Room, shared: &Shared) -> Self {
        let at_most_once = |definition: &&Definition| {
            definition.policy.on_crash == OnFault::Fail && definition.queue == &*queue.name
        };
        Self {
            job_waits: Arc::clone(&shared.job_waits),
            keys: queue.keys.worker(worker),
            slots: room.slots.clone(),
            queue: queue.clone(),
            leases: Leases::new(Arc::clone(&shared.recent)),
            ready: Ready::default(),
            outbox: Outbox::default(),
            pace: Pace::default(),
            pulse: Pulse::default(),
            suspects: room.suspects.of_another_shard(),
            parked: Parked::default(),
            fetches_ahead: core.config.prefetch && !core.jobs.values().any(at_most_once),
            scope: Arc::new(Scope {
                queue: Arc::clone(&queue.name),
                worker: Arc::clone(worker),
                states: Arc::clone(&core.states),
            }),
            session: AtomicU64::new(0),
            line: Arc::default(),
            asks: Asks::default(),
            changed: Notify::new(),
            look: AtomicBool::new(false),
            registered: tokio::sync::watch::Sender::new(false),
            suspicious: Notify::new(),
            cut_off: Mutex::default(),
            differs: AtomicBool::new(false),
            wait_lost: Notify::new(),
            waiting: tokio::sync::watch::Sender::new(false),
            waits: AtomicU64::new(0),
        }
    }

    /// Has jobs started, the foremost in these slots.
    pub(super) fn add(
        &self,
        jobs: impl IntoIterator<Item = WaitingJob>,
        slots: impl IntoIterator<Item = Slot>,
    ) {
        self.ready.push(jobs, slots);
        if !self.ready.is_empty() {
            self.call_runner(false);
            self.job_waits.notify_one();
        }
    }

    /// Whether a call is under way at the server that may still hand something over: a wait, or one that takes parked jobs.
    pub(super) fn is_waiting(&self) -> bool {
        !self.waits.load(Ordering::Acquire).is_multiple_of(2) || self.parked.is_taking()
    }

    /// Calls a runner to what waits: one is enough for short bodies, unless it is `behind`. Says whether one was called.
    pub(super) fn call_runner(&self, behind: bool) -> bool {
        self.ready.call_runner(behind || !self.pace.drains())
    }

    /// The heart is back; it was cut off last at this time.
    pub(super) fn was_cut_off(&self, at: Instant) {
        *self.cut_off.lock().unwrap_or_else(PoisonError::into_inner) = Some(at);
        self.suspicious.notify_one();
        self.wait_lost.notify_waiters();
    }

    /// What the server holds for us differs from what we know.
    pub(super) fn differs(&self) {
        self.differs.store(true, Ordering::Release);
        self.suspicious.notify_one();
        // The lost answer may have been that of a wait.
        self.wait_lost.notify_waiters();
    }

    /// Whether that was found.
    pub(super) fn take_differs(&self) -> bool {
        self.differs.swap(false, Ordering::AcqRel)
    }

    pub(super) fn take_cut_off(&self) -> Option<Instant> {
        self.cut_off.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Ends a lease, unless it ended already or was lost.
    pub(super) fn finish(&self, lease: &Lease, end: End) {
        if self.leases.end(lease) {
            self.settle(Some(Settlement { lease: lease.clone(), end }));
        }
    }

    /// Gives a job back that was not started.
    pub(super) fn give_back(&self, lease: &Lease) {
        self.finish(lease, End::Released { delay_ms: 0, envelope: None });
    }

    /// Gives back the jobs whose bodies run yet, or were about to, in place of the tasks that run them, which they block or have ended.
    pub(super) fn give_running_back(&self) {
        for lease in self.leases.not_started_for(Duration::ZERO) {
            self.give_back(&lease);
        }
        for Running { job, .. } in self.leases.running() {
            self.finish(&job.lease, released(&job, 0));
        }
    }

    /// An attempt is over; there may be something to send.
    pub(super) fn settle(&self, settlement: Option<Settlement>) {
        self.settle_and_free(settlement, ());
    }

    /// The same as [`Lane::settle`], and what the attempt held is free: after its settlement has its place in the order, so that jobs that run
    /// one after the other are settled so, and before anyone is woken to send it, who then finds the slot free.
    pub(super) fn settle_and_free<T>(&self, settlement: Option<Settlement>, held: T) {
        let wakes = match settlement {
            Some(settlement) => self.outbox.push(settlement, self.ready.is_empty()),
            None => true,
        };
        drop(held);
        if wakes {
            self.changed.notify_one();
        }
    }

    /// Asks the loop that fetches to look at the server.
    pub(super) fn look(&self) {
        self.look.store(true, Ordering::Release);
        self.changed.notify_one();
    }

    /// Whether that was asked for.
    pub(super) fn take_look(&self) -> bool {
        self.look.swap(false, Ordering::AcqRel)
    }
}

/// Ends the life if a panic drops it.
pub(super) struct Vital<'a>(&'a Incarnation);

impl Drop for Vital<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.broken.cancel();
        }
    }
}

/// What all queues of a life have in common.
struct Shared {
    job_waits: Arc<Notify>,
    recent: Arc<Total>,
}

/// What the shards of a queue have in common, so that its limits are the queue's and not each shard's.
struct Room {
    slots: Slots,
    suspects: Suspects,
}

impl Room {
    fn new(config: &WorkerConfig, queue: &str, slots: &Slots) -> Self {
        let (concurrency, limit) = (config.concurrency, config.queue_limit(queue));
        Self { slots: slots.limited(limit), suspects: Suspects::new(limit.unwrap_or(concurrency)) }
    }
}

/// Room for jobs at whose side workers died: few at a time, so that the one that kills is found and its neighbours
/// are not condemned with it.
#[derive(Debug)]
pub(super) struct Suspects {
    /// Jobs that are two deaths from failing: the square root of the slots.
    some: Arc<Semaphore>,
    /// How many that is.
    few: usize,
    /// Jobs that are one death from failing: one.
    one: Arc<Semaphore>,
    /// Those that have room here, and begin when the server has taken back the others; with their slots.
    held_back: Mutex<Vec<(Admitted, Option<Slot>)>>,
    /// When one was last met.
    met: Arc<Mutex<Option<Instant>>>,
    /// When one last began.
    began: Arc<Mutex<Option<Instant>>>,
}

/// So long after a suspect, or a job that runs at most once, was met nothing is fetched ahead: what this worker holds when it dies is under suspicion too.
const CAUTIOUS_FOR: Duration = Duration::from_secs(10);

/// And so long after one began nothing is taken at all while it runs. Other suspects often come back with it, for which there may be no room;
/// most of what kills its worker does so at once, and would take them along before they are given back.
const ALONE_FOR: Duration = Duration::from_millis(100);

impl Suspects {
    fn new(slots: usize) -> Self {
        let few = slots.isqrt().max(1);
        Self {
            some: Arc::new(Semaphore::new(few)),
            few,
            one: Arc::new(Semaphore::new(1)),
            held_back: Mutex::default(),
            met: Arc::default(),
            began: Arc::default(),
        }
    }

    /// The same places; what is held back waits for the settlements of its own shard.
    fn of_another_shard(&self) -> Self {
        Self {
            some: Arc::clone(&self.some),
            few: self.few,
            one: Arc::clone(&self.one),
            held_back: Mutex::default(),
            met: Arc::clone(&self.met),
            began: Arc::clone(&self.began),
        }
    }

    /// Keeps a job, and its slot, until it may begin.
    pub(super) fn hold_back(&self, job: Admitted, slot: Option<Slot>) {
        self.held_back().push((job, slot));
    }

    /// Those that were kept: they begin now.
    pub(super) fn begin(&self) -> Vec<(Admitted, Option<Slot>)> {
        let held_back = self.take_held_back();
        if !held_back.is_empty() {
            *self.began.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        }
        held_back
    }

    /// Those that are kept wait for one again, with all others.
    pub(super) fn leave_slots(&self) {
        let slots: Vec<_> =
            self.held_back().iter_mut().filter_map(|(_, slot)| slot.take()).collect();
        drop(slots);
    }

    /// Takes out those that were kept.
    pub(super) fn take_held_back(&self) -> Vec<(Admitted, Option<Slot>)> {
        std::mem::take(&mut *self.held_back())
    }

    /// Until when nothing is to be taken beside one that has just begun, or is about to.
    pub(super) fn alone_until(&self) -> Option<Instant> {
        // Those that are kept have their places already.
        if self.one.available_permits() == 1 && self.some.available_permits() == self.few {
            return None;
        }
        let began = *self.began.lock().unwrap_or_else(PoisonError::into_inner);
        let began = if self.held_back().is_empty() { began? } else { Instant::now() };
        let until = began + ALONE_FOR;
        (Instant::now() < until).then_some(until)
    }

    fn held_back(&self) -> MutexGuard<'_, Vec<(Admitted, Option<Slot>)>> {
        self.held_back.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One was met.
    pub(super) fn note(&self) {
        *self.met.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// Whether one was met lately.
    pub(super) fn cautious(&self) -> bool {
        let met = *self.met.lock().unwrap_or_else(PoisonError::into_inner);
        met.is_some_and(|met| met.elapsed() < CAUTIOUS_FOR)
    }

    /// A place for a job with so many crashes, where it needs one.
    pub(super) fn room_for(
        &self,
        crashes: usize,
        limit: usize,
    ) -> Result<Option<OwnedSemaphorePermit>, ()> {
        if crashes > 1 {
            self.note();
        }
        let class = match limit.saturating_sub(crashes) {
            _ if crashes == 0 => return Ok(None),
            0 | 1 => &self.one,
            2 => &self.some,
            _ => return Ok(None),
        };
        Arc::clone(class).try_acquire_owned().map(Some).map_err(|_| ())
    }
}
