//! How many calls have asked for jobs.

use std::sync::atomic::{AtomicU64, Ordering};

/// The calls of a connection that ask for jobs: how many were sent, and how many of them are over. The server answers in order.
#[derive(Debug, Default)]
pub(super) struct Asks {
    sent: AtomicU64,
    over: AtomicU64,
}

impl Asks {
    pub(super) fn one_is_sent(&self) {
        self.sent.fetch_add(1, Ordering::AcqRel);
    }

    /// What it brought is known.
    pub(super) fn one_is_over(&self) {
        self.over.fetch_add(1, Ordering::AcqRel);
    }

    /// They were left with their connection.
    pub(super) fn all_are_over(&self) {
        self.over.store(self.sent(), Ordering::Release);
    }

    pub(super) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Acquire)
    }

    /// Whether the first so many are over.
    pub(super) fn are_over(&self, sent: u64) -> bool {
        self.over.load(Ordering::Acquire) >= sent
    }
}
