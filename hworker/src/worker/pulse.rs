//! Whether the server has lately accepted a heartbeat: without that no body starts and no wait is sent, so that what
//! others may already have declared dead does not begin anything new.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

/// An accepted heartbeat counts for so long from its sending.
const FRESH_FOR: Duration = Duration::from_secs(4);

/// When the last heartbeat that was accepted was sent.
#[derive(Debug, Default)]
pub(super) struct Pulse {
    sent: Mutex<Option<Instant>>,
    changed: Notify,
}

impl Pulse {
    /// Notes that a heartbeat sent then was accepted.
    pub(super) fn accepted(&self, sent: Instant) {
        *self.sent.lock().unwrap_or_else(PoisonError::into_inner) = Some(sent);
        self.changed.notify_waiters();
    }

    pub(super) fn is_fresh(&self) -> bool {
        self.age().is_some_and(|age| age < FRESH_FOR)
    }

    /// How long ago the last accepted heartbeat was sent; `None` before the first.
    pub(super) fn age(&self) -> Option<Duration> {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner).map(|sent| sent.elapsed())
    }

    /// Completes when the pulse is fresh. Cancel safe.
    pub(super) async fn fresh(&self) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // Registered before the look, so that a beat between the two is not missed.
            changed.as_mut().enable();
            if self.is_fresh() {
                return;
            }
            changed.await;
        }
    }
}
