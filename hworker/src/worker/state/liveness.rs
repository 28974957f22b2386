//! Whether a runtime runs, seen from another thread.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::time::millis;

/// A runtime that has not run for this long is stuck.
pub(crate) const STUCK: Duration = Duration::from_secs(10);

/// When a runtime last ran.
#[derive(Debug)]
pub(crate) struct Liveness {
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
    pub(crate) fn silent(&self) -> Duration {
        let last = Duration::from_millis(self.last_ms.load(Ordering::Acquire));
        self.since.elapsed().saturating_sub(last)
    }

    pub(crate) fn runs(&self) {
        self.last_ms.store(millis(self.since.elapsed()), Ordering::Release);
    }
}
