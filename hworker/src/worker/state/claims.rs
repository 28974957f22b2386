//! Counts the calls that claim jobs.

use std::sync::atomic::{AtomicU64, Ordering};

/// The calls of a connection that claim jobs: how many were sent, and how many of them are over. The server answers in order.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    sent: AtomicU64,
    over: AtomicU64,
}

impl Claims {
    pub(crate) fn one_is_sent(&self) {
        self.sent.fetch_add(1, Ordering::AcqRel);
    }

    /// The result of one call is known.
    pub(crate) fn one_is_over(&self) {
        self.over.fetch_add(1, Ordering::AcqRel);
    }

    /// The calls ended with their connection.
    pub(crate) fn all_are_over(&self) {
        self.over.store(self.sent(), Ordering::Release);
    }

    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Acquire)
    }

    /// Whether the first `sent` calls are over.
    pub(crate) fn are_over(&self, sent: u64) -> bool {
        self.over.load(Ordering::Acquire) >= sent
    }
}
