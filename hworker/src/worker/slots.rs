//! Room for bodies: the worker's slots, and where a queue has a limit of its own, that too.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The slots as one queue sees them. Whoever waits longest is served first, so no queue starves another. Clones, one for each
/// shard of the queue, are the same slots.
#[derive(Debug, Clone)]
pub(super) struct Slots {
    all: Arc<Semaphore>,
    own: Option<Arc<Semaphore>>,
    total: usize,
    /// How many wait for one, of whatever queue.
    waiting: Arc<AtomicUsize>,
}

/// A free slot; dropping it makes room for the next body.
#[derive(Debug)]
pub(super) struct Slot {
    _own: Option<OwnedSemaphorePermit>,
    _all: OwnedSemaphorePermit,
}

impl Slots {
    /// All slots of a worker.
    pub(super) fn new(concurrency: usize) -> Self {
        let all = Arc::new(Semaphore::new(concurrency));
        Self { all, own: None, total: concurrency, waiting: Arc::default() }
    }

    /// The same slots, of which a queue has so many at most.
    pub(super) fn limited(&self, limit: Option<usize>) -> Self {
        Self {
            own: limit.map(|limit| Arc::new(Semaphore::new(limit))),
            total: limit.map_or(self.total, |limit| limit.min(self.total)),
            ..self.clone()
        }
    }

    /// How many there are.
    pub(super) fn total(&self) -> usize {
        self.total
    }

    /// How many are free.
    pub(super) fn free(&self) -> usize {
        let own = self.own.as_ref().map_or(usize::MAX, |own| own.available_permits());
        self.all.available_permits().min(own)
    }

    /// Whether somebody waits for one, whom a slot that comes free would wake.
    pub(super) fn are_awaited(&self) -> bool {
        self.waiting.load(Ordering::SeqCst) > 0
    }

    /// Waits for a free slot; `None` never comes, the semaphores are not closed. Cancel safe.
    pub(super) async fn acquire(&self) -> Option<Slot> {
        let _waits = Waits::begin(&self.waiting);
        let own = match &self.own {
            Some(own) => Some(Arc::clone(own).acquire_owned().await.ok()?),
            None => None,
        };
        let all = Arc::clone(&self.all).acquire_owned().await.ok()?;
        Some(Slot { _own: own, _all: all })
    }

    /// A slot that is free right now.
    pub(super) fn try_acquire(&self) -> Option<Slot> {
        let own = match &self.own {
            Some(own) => Some(Arc::clone(own).try_acquire_owned().ok()?),
            None => None,
        };
        let all = Arc::clone(&self.all).try_acquire_owned().ok()?;
        Some(Slot { _own: own, _all: all })
    }

    /// Up to so many that are free right now.
    pub(super) fn take(&self, at_most: usize) -> impl Iterator<Item = Slot> {
        (0..at_most).map_while(|_| self.try_acquire())
    }
}

/// Somebody who waits for a slot.
struct Waits<'a>(&'a AtomicUsize);

impl<'a> Waits<'a> {
    fn begin(waiting: &'a AtomicUsize) -> Self {
        waiting.fetch_add(1, Ordering::SeqCst);
        Self(waiting)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}
