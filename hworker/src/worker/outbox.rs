//! Settlements on their way to the server: they stay here until it has them, however often a connection breaks.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

use crate::store::{SCRIPT_BYTES, SCRIPT_JOBS, Settlement};

/// The settlements of one queue, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    waiting: Mutex<VecDeque<Arc<Settlement>>>,
    added: Notify,
}

impl Outbox {
    pub(super) fn push(&self, settlement: Arc<Settlement>) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push_back(settlement);
        self.added.notify_one();
    }

    /// Takes as many as one script carries.
    pub(super) fn take(&self) -> Vec<Arc<Settlement>> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let mut bytes = 0;
        let fitting = waiting.iter().take(SCRIPT_JOBS).take_while(|settlement| {
            bytes += settlement.size();
            bytes <= SCRIPT_BYTES
        });
        // One always goes, however large it is.
        let count = fitting.count().max(1).min(waiting.len());
        waiting.drain(..count).collect()
    }

    /// Puts back what the server may not have got.
    pub(super) fn put_back(&self, batch: Vec<Arc<Settlement>>) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        for settlement in batch.into_iter().rev() {
            waiting.push_front(settlement);
        }
        drop(waiting);
        self.added.notify_one();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Completes when there is something to send. Cancel safe; for one waiter.
    pub(super) async fn filled(&self) {
        while self.is_empty() {
            self.added.notified().await;
        }
    }
}
