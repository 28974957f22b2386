//! When a worker looks which queues exist.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// When to look: once a minute. The heartbeat loop of the first queue tells when.
#[derive(Debug, Default)]
pub(crate) struct Census {
    pub(crate) keeps_timer: AtomicBool,
    pub(crate) told: Notify,
}

impl Census {
    pub(crate) fn tell(&self, keeps_timer: bool) {
        self.keeps_timer.store(keeps_timer, Ordering::Release);
        self.told.notify_one();
    }
}
