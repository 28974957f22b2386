//! Whether a runtime goes round, seen from another thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::incarnation::Incarnation;
use crate::time::millis;

/// How often a runtime shows that it runs.
const EVERY: Duration = Duration::from_secs(2);

/// When a runtime last ran.
#[derive(Debug)]
pub(super) struct Liveness {
    since: Instant,
    last_ms: AtomicU64,
}

impl Default for Liveness {
    fn default() -> Self {
        Self { since: Instant::now(), last_ms: AtomicU64::new(0) }
    }
}

impl Liveness {
    /// How long the runtime has not run.
    pub(super) fn silent(&self) -> Duration {
        let last = Duration::from_millis(self.last_ms.load(Ordering::Acquire));
        self.since.elapsed().saturating_sub(last)
    }

    fn runs(&self) {
        self.last_ms.store(millis(self.since.elapsed()), Ordering::Release);
    }
}

/// Shows that the runtime of the bodies runs.
pub(super) async fn show(incarnation: Arc<Incarnation>) {
    loop {
        incarnation.runtime.runs();
        sleep(EVERY).await;
    }
}

/// Shows that the runtime of a thread runs, with the heartbeats, so that an idle worker wakes once for all.
pub(super) async fn show_with_beats(
    incarnation: Arc<Incarnation>,
    of: impl Fn(&Incarnation) -> &Liveness,
) {
    loop {
        of(&incarnation).runs();
        incarnation.beat_or(EVERY).await;
    }
}
