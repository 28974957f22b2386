//! Notes of this queue that are to be delivered.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

use crate::store::Lease;

/// No more are kept here: the server has them too, and they are read there when these are delivered.
const MOST: usize = 10_000;

/// What is known of them.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    written: Mutex<Vec<(String, String)>>,
    /// There are others at the server.
    left: AtomicBool,
    /// Batches that are to be looked after.
    batches: Mutex<Vec<String>>,
    pub(crate) told: Notify,
}

impl Notes {
    /// These were written.
    pub(crate) fn add(&self, notes: &[(Lease, Arc<str>)]) {
        if notes.is_empty() {
            return;
        }
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        let room = MOST.saturating_sub(written.len());
        written.extend(
            notes.iter().take(room).map(|(lease, note)| (lease.to_string(), (**note).to_owned())),
        );
        drop(written);
        self.told.notify_one();
    }

    /// So many are at the server, as the worker hears that keeps the timer.
    pub(crate) fn hear(&self, left: u64) {
        if left > 0 {
            self.left.store(true, Ordering::Release);
            self.told.notify_one();
        }
    }

    /// These batches are to be looked after.
    pub(crate) fn mind(&self, batches: Vec<String>) {
        if !batches.is_empty() {
            self.batches.lock().unwrap_or_else(PoisonError::into_inner).extend(batches);
            self.told.notify_one();
        }
    }

    /// The batches that are to be looked after.
    pub(crate) fn take_batches(&self) -> Vec<String> {
        std::mem::take(&mut self.batches.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// What was written since this was asked last.
    pub(crate) fn take(&self) -> Vec<(String, String)> {
        std::mem::take(&mut self.written.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether others may be at the server.
    pub(crate) fn take_left(&self) -> bool {
        self.left.swap(false, Ordering::AcqRel)
    }
}
