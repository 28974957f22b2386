//! Room for bodies: the slots of the worker, and the limit of a queue if it has one.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::unconstrained;

/// The slots as one queue sees them. The task that waits longest is served first, so no queue starves another. Clones, one for each shard
/// of the queue, are the same slots.
#[derive(Debug, Clone)]
pub(crate) struct Slots {
    all: Arc<Places>,
    own: Option<Arc<Places>>,
    total: usize,
}

/// A limited number of permits, and how many tasks wait for one.
#[derive(Debug)]
struct Places {
    free: Arc<Semaphore>,
    waiting: AtomicUsize,
}

/// One slot; dropping it makes room for the next body.
#[derive(Debug)]
pub(crate) struct Slot {
    _own: Option<OwnedSemaphorePermit>,
    _all: OwnedSemaphorePermit,
}

impl Slots {
    /// All slots of a worker.
    pub(crate) fn new(concurrency: usize) -> Self {
        Self { all: Arc::new(Places::new(concurrency)), own: None, total: concurrency }
    }

    /// The same slots, limited to this many for one queue.
    pub(crate) fn limited(&self, limit: Option<usize>) -> Self {
        Self {
            all: Arc::clone(&self.all),
            own: limit.map(|limit| Arc::new(Places::new(limit))),
            total: limit.map_or(self.total, |limit| limit.min(self.total)),
        }
    }

    pub(crate) fn total(&self) -> usize {
        self.total
    }

    pub(crate) fn free(&self) -> usize {
        let own = self.own.as_ref().map_or(usize::MAX, |own| own.free.available_permits());
        self.all.free.available_permits().min(own)
    }

    /// Whether a task waits for a slot that this queue uses. A free slot wakes the task, which counts as waiting until it has the slot.
    pub(crate) fn are_awaited(&self) -> bool {
        let own = self.own.as_ref();
        self.all.are_awaited() || own.is_some_and(|own| own.are_awaited())
    }

    /// Waits for a free slot. Never `None`, since the semaphores are not closed. Cancel safe.
    pub(crate) async fn acquire(&self) -> Option<Slot> {
        let own = match &self.own {
            Some(own) => Some(own.acquire().await?),
            None => None,
        };
        Some(Slot { _own: own, _all: self.all.acquire().await? })
    }

    /// A slot that is free right now.
    pub(crate) fn try_acquire(&self) -> Option<Slot> {
        let own = match &self.own {
            Some(own) => Some(own.try_acquire()?),
            None => None,
        };
        Some(Slot { _own: own, _all: self.all.try_acquire()? })
    }

    /// Up to this many slots that are free right now.
    pub(crate) fn take(&self, at_most: usize) -> impl Iterator<Item = Slot> {
        (0..at_most).map_while(|_| self.try_acquire())
    }
}

impl Places {
    fn new(count: usize) -> Self {
        Self { free: Arc::new(Semaphore::new(count)), waiting: AtomicUsize::new(0) }
    }

    fn are_awaited(&self) -> bool {
        self.waiting.load(Ordering::SeqCst) > 0
    }

    async fn acquire(&self) -> Option<OwnedSemaphorePermit> {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let _waits = Waits(&self.waiting);
        // Otherwise a task that has used up its budget would count as waiting and not be in the line.
        unconstrained(Arc::clone(&self.free).acquire_owned()).await.ok()
    }

    fn try_acquire(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.free).try_acquire_owned().ok()
    }
}

/// Counts one waiting task until it is dropped.
struct Waits<'a>(&'a AtomicUsize);

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::pin;
    use std::task::Poll;

    use super::*;

    #[tokio::test]
    async fn a_slot_is_there_for_a_task_that_has_used_up_its_budget() {
        // Guard: `unconstrained`.
        let slots = Slots::new(1);
        poll_fn(|context| {
            while tokio::task::coop::has_budget_remaining() {
                let _ = pin!(tokio::task::consume_budget()).poll(context);
            }
            assert!(pin!(slots.acquire()).poll(context).is_ready());
            Poll::Ready(())
        })
        .await;
    }
}
