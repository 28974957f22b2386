//! The freshness of the heartbeat: whether the server has accepted one lately. If not, no body starts and no wait is sent, so that a worker
//! that others may have declared dead begins nothing new.

use std::time::{Duration, Instant};

use tokio::sync::watch;

/// How long an accepted heartbeat counts, from its sending.
const FRESH_FOR: Duration = Duration::from_secs(4);

/// When the last accepted heartbeat was sent.
#[derive(Debug, Default)]
pub(crate) struct Freshness(watch::Sender<Option<Instant>>);

impl Freshness {
    /// Notes that the heartbeat sent at this time was accepted.
    pub(crate) fn accepted(&self, sent: Instant) {
        self.0.send_replace(Some(sent));
    }

    pub(crate) fn is_fresh(&self) -> bool {
        self.is_fresh_at(Instant::now())
    }

    /// As `is_fresh`, at a time that is about now.
    pub(crate) fn is_fresh_at(&self, now: Instant) -> bool {
        self.0.borrow().is_some_and(|sent| now.saturating_duration_since(sent) < FRESH_FOR)
    }

    /// How long ago the last accepted heartbeat was sent; `None` before the first.
    pub(crate) fn age(&self) -> Option<Duration> {
        self.0.borrow().map(|sent| sent.elapsed())
    }

    /// Completes when the heartbeat is fresh. Cancel safe.
    pub(crate) async fn fresh(&self) {
        let is_fresh = |sent: &Option<Instant>| sent.is_some_and(|sent| sent.elapsed() < FRESH_FOR);
        // The sender exists as long as this.
        let _ = self.0.subscribe().wait_for(is_fresh).await;
    }
}
