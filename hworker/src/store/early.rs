//! A timer that is due before the limit of any call.
//!
//! Each call has a limit, and hardly any reaches it. But for a timer that is due before all that it knew of when it last went to
//! sleep, tokio writes to an event file and wakes whichever thread waits for input; where no other timer is, the limit of
//! every call would be one. So while calls are made, a timer is kept that is earlier.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

/// Shorter than the limits of nearly all calls.
const EVERY: Duration = Duration::from_millis(500);

/// The timer of one connection.
#[derive(Debug, Default)]
pub(super) struct EarlyTimer {
    /// A call was made since it was last set.
    called: AtomicBool,
    begun: Notify,
}

impl EarlyTimer {
    /// A call is made.
    pub(super) fn call(&self) {
        if !self.called.load(Ordering::Relaxed) && !self.called.swap(true, Ordering::AcqRel) {
            self.begun.notify_one();
        }
    }

    /// Keeps the timer as long as this is polled, while calls are made.
    pub(super) async fn keep(&self) {
        loop {
            self.begun.notified().await;
            while self.called.swap(false, Ordering::AcqRel) {
                tokio::time::sleep(EVERY).await;
            }
        }
    }
}
