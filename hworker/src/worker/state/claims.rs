//! How many calls have asked for jobs.

use std::sync::atomic::{AtomicU64, Ordering};

/// The calls of a connection that ask for jobs: how many were sent, and how many of them are over. The server answers in order.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    sent: AtomicU64,
    over: AtomicU64,
}

impl Claims {
    pub(crate) fn one_is_sent(&self) {
        self.sent.fetch_add(1, Ordering::AcqRel);
    }

    /// What it brought is known.
    pub(crate) fn one_is_over(&self) {
        self.over.fetch_add(1, Ordering::AcqRel);
    }

    /// They were left with their connection.
    pub(crate) fn all_are_over(&self) {
        self.over.store(self.sent(), Ordering::Release);
    }

    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Acquire)
    }

    /// Whether the first so many are over.
    pub(crate) fn are_over(&self, sent: u64) -> bool {
        self.over.load(Ordering::Acquire) >= sent
    }
}
