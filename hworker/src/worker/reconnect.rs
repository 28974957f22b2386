//! How long to wait before the next try to reach the server: a little more each time, never long, never in step with
//! others.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(1);

/// The pauses between tries; there is no last one.
#[derive(Debug)]
pub(super) struct Reconnect {
    pause: Duration,
    failed: bool,
}

impl Reconnect {
    pub(super) fn new() -> Self {
        Self { pause: FIRST, failed: false }
    }

    /// Waits before the next try. Cancel safe.
    pub(super) async fn pause(&mut self) {
        let pause = self.pause.mul_f64(0.5 + fastrand::f64() / 2.0);
        self.pause = (self.pause * 2).min(LONGEST);
        self.failed = true;
        tokio::time::sleep(pause).await;
    }

    /// Whether a try has failed since the last that succeeded.
    pub(super) fn failed(&self) -> bool {
        self.failed
    }

    /// The server was reached. Says whether that took more than one try.
    pub(super) fn succeeded(&mut self) -> bool {
        std::mem::replace(self, Self::new()).failed
    }
}
