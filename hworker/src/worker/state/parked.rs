//! How far this worker has looked at the parked jobs of a queue.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

/// The progress of a worker with the parked jobs of a queue.
#[derive(Debug, Default)]
pub(crate) struct Parked {
    /// The token of the last job that it looked at, or 0.
    pub(crate) looked: AtomicU64,
    /// How many parked jobs are to be broken.
    pub(crate) overdue: AtomicU64,
    pub(crate) told: Notify,
}

impl Parked {
    pub(crate) fn looked(&self) -> u64 {
        self.looked.load(Ordering::Acquire)
    }

    /// Begins again with a new session: after a failover tokens may be lower than the last one looked at.
    pub(crate) fn look_anew(&self) {
        self.looked.store(0, Ordering::Release);
    }

    /// Notes what a heartbeat told: how many parked jobs to look at, and how many to break.
    pub(crate) fn tell(&self, unlooked: u64, overdue: u64) {
        self.overdue.store(overdue, Ordering::Release);
        if unlooked > 0 || overdue > 0 {
            self.told.notify_one();
        }
    }
}
