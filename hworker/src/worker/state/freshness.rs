//! The freshness of the heartbeat: whether the server has accepted one lately. If not, no body starts and no wait is sent, so that a worker
//! that others may have declared dead begins nothing new.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::time::millis;

/// How long an accepted heartbeat counts, from its sending.
const FRESH_FOR: Duration = Duration::from_secs(4);

/// When the last accepted heartbeat was sent.
#[derive(Debug)]
pub(crate) struct Freshness {
    since: Instant,
    /// In ms from `since`, rounded down, plus one; 0 before the first. Read before every body.
    sent: AtomicU64,
    changed: Notify,
}

impl Default for Freshness {
    fn default() -> Self {
        Self { since: Instant::now(), sent: AtomicU64::new(0), changed: Notify::new() }
    }
}

impl Freshness {
    /// Notes that the heartbeat sent at this time was accepted.
    pub(crate) fn accepted(&self, sent: Instant) {
        let sent = millis(sent.saturating_duration_since(self.since)) + 1;
        self.sent.store(sent, Ordering::Release);
        self.changed.notify_waiters();
    }

    pub(crate) fn is_fresh(&self) -> bool {
        self.is_fresh_at(Instant::now())
    }

    /// As `is_fresh`, at a time that is about now.
    pub(crate) fn is_fresh_at(&self, now: Instant) -> bool {
        self.age_at(now).is_some_and(|age| age < FRESH_FOR)
    }

    /// How long ago the last accepted heartbeat was sent; `None` before the first.
    pub(crate) fn age(&self) -> Option<Duration> {
        self.age_at(Instant::now())
    }

    fn age_at(&self, now: Instant) -> Option<Duration> {
        let sent = self.sent.load(Ordering::Acquire).checked_sub(1)?;
        Some(now.saturating_duration_since(self.since + Duration::from_millis(sent)))
    }

    /// Completes when the heartbeat is fresh. Cancel safe.
    pub(crate) async fn fresh(&self) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // Registered before the check, so that no heartbeat is missed between the two.
            changed.as_mut().enable();
            if self.is_fresh() {
                return;
            }
            changed.await;
        }
    }
}
