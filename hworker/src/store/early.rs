//! A timer that is due before the limit of any call.
//!
//! Each call has a limit, and hardly any reaches it. But for a timer that is due before all that it knew of when it last went to
//! sleep, tokio writes to an event file and wakes whichever thread waits for input; where no other timer is, the limit of
//! every call would be one. So while many calls are made, a timer is kept that is earlier. For a few, as heartbeats are, it would wake
//! its thread more often than they do.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

/// Shorter than the limits of nearly all calls.
const EVERY: Duration = Duration::from_millis(500);

/// So many calls since it was last set are many.
const MANY: u32 = 16;

/// The timer of one connection.
#[derive(Debug, Default)]
pub(super) struct EarlyTimer {
    /// Made since it was last set, as far as they are counted.
    calls: AtomicU32,
    begun: Notify,
}

impl EarlyTimer {
    /// A call is made.
    pub(super) fn call(&self) {
        // Read alone first: that is all that one of many costs.
        if self.calls.load(Ordering::Relaxed) < MANY
            && self.calls.fetch_add(1, Ordering::AcqRel) + 1 == MANY
        {
            self.begun.notify_one();
        }
    }

    /// Keeps the timer as long as this is polled, while many calls are made.
    pub(super) async fn keep(&self) {
        loop {
            self.begun.notified().await;
            while self.calls.swap(0, Ordering::AcqRel) >= MANY {
                tokio::time::sleep(EVERY).await;
            }
        }
    }
}
