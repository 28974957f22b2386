//! Jobs that this worker has reserved and not started, in the order in which they were taken. The first of them have a
//! slot each; those behind were fetched ahead and wait for one.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::store::Lease;
use crate::worker::state::job::Admitted;
use crate::worker::state::slots::{Slot, Slots};

/// The waiting jobs of one queue.
#[derive(Debug, Default)]
pub(crate) struct Buffer {
    waiting: Mutex<Inner>,
    /// How many wait, to be read without the lock.
    count: AtomicUsize,
    added: Notify,
    runners: AtomicUsize,
    /// Of these, those that have nothing to do.
    idle: AtomicUsize,
    /// Slots came with jobs, or for those that wait.
    slotted: Notify,
    /// The foremost has waited too long.
    late: Notify,
    /// A runner runs again, after none had for a while.
    resumed: Notify,
}

/// Where no runner has run for so long, a body blocks the runtime. Within less, a runtime with many tasks comes to each of them.
const BLOCKED_AFTER: Duration = Duration::from_millis(50);

/// Jobs are taken for so long after the first that no runner has seen.
const UNSEEN_AT_MOST: Duration = Duration::from_millis(20);

#[derive(Debug, Default)]
struct Inner {
    jobs: VecDeque<Waiting>,
    slots: Vec<Slot>,
    bytes: usize,
    /// When a runner last looked here.
    ran_at: Option<Instant>,
    /// When the first job came since.
    unseen_since: Option<Instant>,
    /// Jobs went back, since no runner ran.
    stalled: bool,
}

/// A job that waits to be started.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) since: Instant,
    pub(crate) job: WaitingJob,
}

/// How far it has been looked at.
#[derive(Debug)]
pub(crate) enum WaitingJob {
    Reserved(Lease, Vec<u8>),
    Admitted(Admitted),
}

impl WaitingJob {
    pub(crate) fn lease(&self) -> &Lease {
        match self {
            Self::Reserved(lease, _) => lease,
            Self::Admitted(admitted) => &admitted.job.lease,
        }
    }

    fn size(&self) -> usize {
        match self {
            Self::Reserved(_, payload) => payload.len(),
            Self::Admitted(admitted) => admitted.job.payload.len(),
        }
    }
}

/// What is to be done next.
pub(crate) enum Next {
    /// Start this one.
    Start {
        job: WaitingJob,
        slot: Slot,
        since: Instant,
        /// Another slot has come free.
        freed: bool,
    },
    /// Somebody waits; get a slot for him.
    NeedsSlot,
    Empty,
}

impl Inner {
    /// Takes out the slots for which there is no job.
    fn surplus_slots(&mut self) -> Vec<Slot> {
        let needed = self.jobs.len().min(self.slots.len());
        self.slots.split_off(needed)
    }

    /// Whether runners ran since jobs last came, or those have come lately.
    fn runs_at(&self, now: Instant) -> bool {
        let lately = |since| now.saturating_duration_since(since) < UNSEEN_AT_MOST;
        !self.stalled && self.unseen_since.is_none_or(lately)
    }

    /// A runner looks here. Says whether none had for a while.
    fn is_seen(&mut self, now: Instant) -> bool {
        let resumes = !self.runs_at(now);
        (self.ran_at, self.unseen_since, self.stalled) = (Some(now), None, false);
        resumes
    }
}

impl Buffer {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds jobs at the end, and slots for the foremost. Says whether any now waits behind another, or without a slot.
    pub(crate) fn push(
        &self,
        jobs: impl IntoIterator<Item = WaitingJob>,
        slots: impl IntoIterator<Item = Slot>,
    ) -> bool {
        let since = Instant::now();
        let mut inner = self.inner();
        for job in jobs {
            inner.bytes += job.size();
            inner.jobs.push_back(Waiting { since, job });
            inner.unseen_since.get_or_insert(since);
        }
        inner.slots.extend(slots);
        let surplus = inner.surplus_slots();
        let jobs = inner.jobs.len();
        let waits = jobs > inner.slots.len().min(1);
        let slotted = !inner.slots.is_empty();
        self.count.store(jobs, Ordering::SeqCst);
        drop(inner);
        drop(surplus);
        if slotted {
            self.slotted.notify_waiters();
        }
        waits
    }

    /// Takes the foremost job, with the given slot or one that is kept here.
    pub(crate) fn next(&self, slot: &mut Option<Slot>, now: Instant) -> Next {
        let mut inner = self.inner();
        if inner.is_seen(now) {
            self.resumed.notify_one();
        }
        if inner.jobs.is_empty() {
            return Next::Empty;
        }
        let Some(slot) = slot.take().or_else(|| inner.slots.pop()) else { return Next::NeedsSlot };
        let Some(Waiting { job, since }) = inner.jobs.pop_front() else { return Next::Empty };
        inner.bytes -= job.size();
        // A slot that came from elsewhere sets one of those free.
        let surplus = inner.surplus_slots();
        let left = inner.jobs.len();
        self.count.store(left, Ordering::Release);
        drop(inner);
        let freed = !surplus.is_empty();
        drop(surplus);
        Next::Start { job, slot, since, freed }
    }

    /// Waits for a slot for the foremost job: `None` if one is kept here meanwhile, that came with others. Cancel safe.
    pub(crate) async fn slot(&self, slots: &Slots) -> Option<Slot> {
        let slotted = self.slotted.notified();
        tokio::pin!(slotted);
        // Registered before the look, so that a slot that comes between the two is not missed.
        slotted.as_mut().enable();
        if !self.inner().slots.is_empty() {
            return None;
        }
        tokio::select! {
            biased;
            slot = slots.acquire() => slot,
            () = slotted => None,
        }
    }

    /// One more runner takes from here.
    pub(crate) fn begin_runner(&self) {
        self.runners.fetch_add(1, Ordering::SeqCst);
    }

    /// Calls a runner to what waits if none is awake, or `another` even so. Says whether one was called.
    pub(crate) fn call_runner(&self, another: bool) -> bool {
        let idle = self.idle.load(Ordering::SeqCst);
        let calls = idle > 0 && (another || idle == self.runners.load(Ordering::SeqCst));
        if calls {
            self.added.notify_one();
        }
        calls
    }

    /// Calls every runner if the foremost job has waited so long, those that yield too: bodies may block the others, and their
    /// threads. Says whether it has.
    pub(crate) fn call_all_runners(&self, age: Duration) -> bool {
        let waited = self.inner().jobs.front().is_some_and(|job| job.since.elapsed() >= age);
        if waited {
            self.added.notify_waiters();
            self.late.notify_waiters();
        }
        waited
    }

    /// Lets others run, and this thread look after what has arrived; in the meantime only this thread finds the task again, which
    /// the body of another may block, so who calls all runners calls it too.
    pub(crate) async fn yield_now(&self) {
        // Else where the task has used up its budget neither would be polled.
        tokio::task::unconstrained(async {
            tokio::select! {
                biased;
                () = tokio::task::yield_now() => {}
                () = self.late.notified() => {}
            }
        })
        .await;
    }

    /// Completes when a runner is called; says whether it waited for that. Not cancel safe: the runner counts as idle for ever.
    pub(crate) async fn called(&self) -> bool {
        self.idle.fetch_add(1, Ordering::SeqCst);
        // What was added before this runner counted as idle called nobody.
        let waits = self.is_empty();
        if waits {
            self.added.notified().await;
            if self.inner().is_seen(Instant::now()) {
                self.resumed.notify_one();
            }
        }
        self.idle.fetch_sub(1, Ordering::SeqCst);
        waits
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count() == 0
    }

    /// How many wait.
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    /// How many wait without a slot, and the bytes of all that wait.
    pub(crate) fn ahead(&self) -> (usize, usize) {
        let inner = self.inner();
        (inner.jobs.len() - inner.slots.len(), inner.bytes)
    }

    /// Whether a runner ran since jobs last came, or those have come lately: else a body may block the runtime.
    pub(crate) fn are_runners_running(&self) -> bool {
        self.inner().runs_at(Instant::now())
    }

    /// Completes when a runner runs again, after none had for a while. Cancel safe.
    pub(crate) async fn resumed(&self) {
        self.resumed.notified().await;
    }

    /// Takes all that wait without a slot out again, if one of them has done so for this long; where `all` is said, and no runner has
    /// run while the foremost waited for `BLOCKED_AFTER`, those that have one too.
    pub(crate) fn take_late(&self, age: Duration, all: bool) -> Vec<WaitingJob> {
        let mut inner = self.inner();
        let runs = inner.ran_at.is_some_and(|at| at.elapsed() < BLOCKED_AFTER);
        let waited = |waiting: &Waiting| waiting.since.elapsed() >= BLOCKED_AFTER;
        let blocked = all && !runs && inner.jobs.front().is_some_and(waited);
        let first = if blocked { 0 } else { inner.slots.len() };
        if inner.jobs.get(first).is_none_or(|waiting| waiting.since.elapsed() < age) {
            return Vec::new();
        }
        let taken: Vec<_> = inner.jobs.drain(first..).map(|waiting| waiting.job).collect();
        inner.bytes -= taken.iter().map(WaitingJob::size).sum::<usize>();
        self.count.store(first, Ordering::Release);
        if !blocked {
            return taken;
        }
        inner.stalled = true;
        let slots = std::mem::take(&mut inner.slots);
        drop(inner);
        drop(slots);
        // Whoever can run says so, one that is about to wait too.
        self.added.notify_waiters();
        self.added.notify_one();
        taken
    }

    /// Takes everything out again.
    pub(crate) fn take_all(&self) -> Vec<WaitingJob> {
        let Inner { jobs, slots, .. } = std::mem::take(&mut *self.inner());
        self.count.store(0, Ordering::Release);
        drop(slots);
        jobs.into_iter().map(|waiting| waiting.job).collect()
    }
}

#[cfg(test)]
mod tests;
