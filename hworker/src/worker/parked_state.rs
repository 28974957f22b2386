//! How far this worker has looked at the parked jobs of a queue.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::sync::Notify;

/// How far a worker is with the parked jobs of a queue.
#[derive(Debug, Default)]
pub(super) struct Parked {
    /// The token of the job that it looked at last, or 0.
    pub(super) looked: AtomicU64,
    /// So many are to be broken.
    pub(super) overdue: AtomicU64,
    pub(super) told: Notify,
    /// A call that takes some is under way.
    pub(super) taking: AtomicBool,
}

impl Parked {
    pub(super) fn looked(&self) -> u64 {
        self.looked.load(Ordering::Acquire)
    }

    /// Whether a call is under way that may still bring some: a worker does not retire before.
    pub(super) fn is_taking(&self) -> bool {
        self.taking.load(Ordering::Acquire)
    }

    /// A session begins: after a failover tokens may be lower than what was looked at.
    pub(super) fn look_anew(&self) {
        self.looked.store(0, Ordering::Release);
    }

    /// What a heartbeat told: how many there are to be looked at, and to be broken.
    pub(super) fn tell(&self, unlooked: u64, overdue: u64) {
        self.overdue.store(overdue, Ordering::Release);
        if unlooked > 0 || overdue > 0 {
            self.told.notify_one();
        }
    }
}
