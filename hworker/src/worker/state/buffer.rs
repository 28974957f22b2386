//! The buffer: jobs that this worker has reserved and not started, oldest first. The first of them have a slot each. The others were
//! fetched ahead and wait for a slot.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::job::Admitted;
use super::slots::{Slot, Slots};
use crate::store::Lease;

/// The waiting jobs of one queue.
#[derive(Debug, Default)]
pub(crate) struct Buffer {
    waiting: Mutex<Inner>,
    /// How many jobs wait; read without the lock.
    count: AtomicUsize,
    added: Notify,
    runners: AtomicUsize,
    /// How many runners have nothing to do.
    idle: AtomicUsize,
    /// Slots were added, with jobs or for waiting jobs.
    slotted: Notify,
    /// The first job has waited too long.
    late: Notify,
    /// A runner runs again, after none had for a while.
    pub(crate) resumed: Notify,
}

/// If no runner has run for this long, a body blocks the runtime. A runtime with many tasks reaches each of them sooner.
const BLOCKED_AFTER: Duration = Duration::from_millis(50);

/// How long jobs are still reserved after the first job that no runner has seen.
const UNSEEN_AT_MOST: Duration = Duration::from_millis(20);

#[derive(Debug, Default)]
struct Inner {
    jobs: VecDeque<Waiting>,
    slots: Vec<Slot>,
    bytes: usize,
    /// When a runner last looked at the buffer.
    ran_at: Option<Instant>,
    /// When the first job was added since then.
    unseen_since: Option<Instant>,
    /// Jobs were given back because no runner ran.
    stalled: bool,
}

/// A job that waits to be started.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) since: Instant,
    pub(crate) job: WaitingJob,
}

/// A waiting job, decoded or not yet.
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

/// What a runner does next.
pub(crate) enum Next {
    /// Start this job.
    Start {
        job: WaitingJob,
        slot: Slot,
        since: Instant,
        /// Another slot has come free.
        freed: bool,
    },
    /// A job waits and has no slot.
    NeedsSlot,
    Empty,
}

impl Inner {
    /// Takes out the slots that no job needs.
    fn surplus_slots(&mut self) -> Vec<Slot> {
        let needed = self.jobs.len().min(self.slots.len());
        self.slots.split_off(needed)
    }

    /// Whether a runner has looked since jobs were last added, or they were added lately.
    fn runs_at(&self, now: Instant) -> bool {
        let lately = |since| now.saturating_duration_since(since) < UNSEEN_AT_MOST;
        !self.stalled && self.unseen_since.is_none_or(lately)
    }
}

impl Buffer {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a runner looks.
    fn is_seen(&self, inner: &mut Inner, now: Instant) {
        if !inner.runs_at(now) {
            self.resumed.notify_one();
        }
        (inner.ran_at, inner.unseen_since, inner.stalled) = (Some(now), None, false);
    }

    /// Adds jobs at the end, and slots for the first jobs.
    pub(crate) fn push(
        &self,
        jobs: impl IntoIterator<Item = WaitingJob>,
        slots: impl IntoIterator<Item = Slot>,
    ) {
        let since = Instant::now();
        let mut inner = self.inner();
        for job in jobs {
            inner.bytes += job.size();
            inner.jobs.push_back(Waiting { since, job });
            inner.unseen_since.get_or_insert(since);
        }
        inner.slots.extend(slots);
        let _surplus = inner.surplus_slots();
        let slotted = !inner.slots.is_empty();
        self.count.store(inner.jobs.len(), Ordering::SeqCst);
        drop(inner);
        if slotted {
            self.slotted.notify_waiters();
        }
    }

    /// Takes the first job, with the given slot or one of the buffer.
    pub(crate) fn next(&self, slot: &mut Option<Slot>, now: Instant) -> Next {
        let mut inner = self.inner();
        self.is_seen(&mut inner, now);
        if inner.jobs.is_empty() {
            return Next::Empty;
        }
        let Some(slot) = slot.take().or_else(|| inner.slots.pop()) else { return Next::NeedsSlot };
        let Some(Waiting { job, since }) = inner.jobs.pop_front() else { return Next::Empty };
        inner.bytes -= job.size();
        // If the given slot was used, one slot of the buffer is free.
        let surplus = inner.surplus_slots();
        self.count.store(inner.jobs.len(), Ordering::Release);
        drop(inner);
        Next::Start { job, slot, since, freed: !surplus.is_empty() }
    }

    /// Waits for a slot for the first job. Returns `None` if the buffer got one meanwhile. Cancel safe.
    pub(crate) async fn slot(&self, slots: &Slots) -> Option<Slot> {
        let slotted = self.slotted.notified();
        tokio::pin!(slotted);
        // Registered before the check, so that no slot is missed between the two.
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

    pub(crate) fn begin_runner(&self) {
        self.runners.fetch_add(1, Ordering::SeqCst);
    }

    /// Calls a runner if all are idle; with `another`, if any is idle. Returns whether it called one.
    pub(crate) fn call_runner(&self, another: bool) -> bool {
        let idle = self.idle.load(Ordering::SeqCst);
        let calls = idle > 0 && (another || idle == self.runners.load(Ordering::SeqCst));
        if calls {
            self.added.notify_one();
        }
        calls
    }

    /// Calls every runner if the first job has waited this long, also those that yield: bodies may block the others and their threads.
    /// Returns whether it has waited this long.
    pub(crate) fn call_all_runners(&self, age: Duration) -> bool {
        let waited = self.inner().jobs.front().is_some_and(|job| job.since.elapsed() >= age);
        if waited {
            self.added.notify_waiters();
            self.late.notify_waiters();
        }
        waited
    }

    /// Lets other tasks run, and this thread look for new events. Until then only this thread finds the task again, and another body may
    /// block it. So `call_all_runners` calls this task too.
    pub(crate) async fn yield_now(&self) {
        // Otherwise neither would be polled if the task has used up its budget.
        tokio::task::unconstrained(async {
            tokio::select! {
                biased;
                () = tokio::task::yield_now() => {}
                () = self.late.notified() => {}
            }
        })
        .await;
    }

    /// Completes when a runner is called. Returns whether it had to wait. Not cancel safe: the runner would count as idle for ever.
    pub(crate) async fn called(&self) -> bool {
        self.idle.fetch_add(1, Ordering::SeqCst);
        // Jobs that were added before this runner counted as idle called no runner.
        let waits = self.is_empty();
        if waits {
            self.added.notified().await;
            self.is_seen(&mut self.inner(), Instant::now());
        }
        self.idle.fetch_sub(1, Ordering::SeqCst);
        waits
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count() == 0
    }

    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    /// How many jobs wait without a slot, and the bytes of all waiting jobs.
    pub(crate) fn ahead(&self) -> (usize, usize) {
        let inner = self.inner();
        (inner.jobs.len() - inner.slots.len(), inner.bytes)
    }

    /// Whether a runner has looked since jobs were last added, or they were added lately. Otherwise a body may block the runtime.
    pub(crate) fn are_runners_running(&self) -> bool {
        self.inner().runs_at(Instant::now())
    }

    /// Takes out all jobs without a slot, if one of them has waited for `age`. With `all`, also takes the jobs with a slot if no runner has
    /// run while the first job waited for `BLOCKED_AFTER`.
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
        let _slots = std::mem::take(&mut inner.slots);
        drop(inner);
        // Every runner that can run notes that it does, also one that is about to wait.
        self.added.notify_waiters();
        self.added.notify_one();
        taken
    }

    pub(crate) fn take_all(&self) -> Vec<WaitingJob> {
        let taken = std::mem::take(&mut *self.inner());
        self.count.store(0, Ordering::Release);
        taken.jobs.into_iter().map(|waiting| waiting.job).collect()
    }
}

#[cfg(test)]
mod tests;
