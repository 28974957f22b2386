//! When a worker looks which queues there are.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// When to look, which is once a minute, as the heart of the first queue tells.
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
