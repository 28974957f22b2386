//! Whether a runtime runs, seen from another thread.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

/// A runtime that has not run for this long is stuck.
pub(crate) const STUCK: Duration = Duration::from_secs(10);

/// How often a runtime shows that it runs.
const EVERY: Duration = Duration::from_secs(2);

/// When a runtime last ran.
#[derive(Debug)]
pub(crate) struct Liveness(Mutex<Instant>);

impl Default for Liveness {
    fn default() -> Self {
        Self(Mutex::new(Instant::now()))
    }
}

impl Liveness {
    /// How long the runtime has not run.
    pub(crate) fn silent(&self) -> Duration {
        self.last().elapsed()
    }

    /// How long the runtime has not run, where that is so long that it is stuck.
    pub(crate) fn stuck_for(&self) -> Option<Duration> {
        Some(self.silent()).filter(|silent| *silent >= STUCK)
    }

    /// Shows that the runtime of this task runs.
    pub(crate) async fn show(&self) {
        loop {
            *self.last() = Instant::now();
            sleep(EVERY).await;
        }
    }

    /// As `show`, with each heartbeat, so that an idle worker wakes once for all.
    pub(crate) async fn show_with_beats(&self, beat: &Notify) {
        loop {
            *self.last() = Instant::now();
            let _ = timeout(EVERY, beat.notified()).await;
        }
    }

    fn last(&self) -> MutexGuard<'_, Instant> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
