//! How far this worker has looked at the parked jobs of a queue.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::sync::Notify;

/// How far a worker is with the parked jobs of a queue.
#[derive(Debug, Default)]
pub(crate) struct Parked {
    /// The token of the job that it looked at last, or 0.
    pub(crate) looked: AtomicU64,
    /// So many are to be broken.
    pub(crate) overdue: AtomicU64,
    pub(crate) told: Notify,
    /// A call that takes some is under way.
    pub(crate) taking: AtomicBool,
}

impl Parked {
    pub(crate) fn looked(&self) -> u64 {
        self.looked.load(Ordering::Acquire)
    }

    /// Whether a call is under way that may still bring some: a worker does not retire before.
    pub(crate) fn is_taking(&self) -> bool {
        self.taking.load(Ordering::Acquire)
    }

    /// A session begins: after a failover tokens may be lower than what was looked at.
    pub(crate) fn look_anew(&self) {
        self.looked.store(0, Ordering::Release);
    }

    /// What a heartbeat told: how many there are to be looked at, and to be broken.
    pub(crate) fn tell(&self, unlooked: u64, overdue: u64) {
        self.overdue.store(overdue, Ordering::Release);
        if unlooked > 0 || overdue > 0 {
            self.told.notify_one();
        }
    }
}
