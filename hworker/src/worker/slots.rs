//! Room for bodies: the worker's slots, and where a queue has a limit of its own, that too.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The slots as one queue sees them. Whoever waits longest is served first, so no queue starves another. Clones, one for each
/// shard of the queue, are the same slots.
#[derive(Debug, Clone)]
pub(super) struct Slots {
    all: Arc<Semaphore>,
    own: Option<Arc<Semaphore>>,
    total: usize,
}

/// A free slot; dropping it makes room for the next body.
#[derive(Debug)]
pub(super) struct Slot {
    _own: Option<OwnedSemaphorePermit>,
    _all: OwnedSemaphorePermit,
}

impl Slots {
    /// `concurrency` is the number of the worker's slots.
    pub(super) fn new(all: &Arc<Semaphore>, concurrency: usize, limit: Option<usize>) -> Self {
        Self {
            all: Arc::clone(all),
            own: limit.map(|limit| Arc::new(Semaphore::new(limit))),
            total: limit.map_or(concurrency, |limit| limit.min(concurrency)),
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

    /// Waits for a free slot; `None` never comes, the semaphores are not closed. Cancel safe.
    pub(super) async fn acquire(&self) -> Option<Slot> {
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
