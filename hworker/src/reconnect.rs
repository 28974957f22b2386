//! How long to wait before the next try to reach a server: a little more each time, never long, never in step with
//! others.

use std::time::Duration;

/// The pauses between tries; there is no last one.
#[derive(Debug)]
pub(crate) struct Reconnect {
    first: Duration,
    longest: Duration,
    next: Duration,
    failed: bool,
}

impl Reconnect {
    /// For what goes on for as long as the program.
    pub(crate) fn new() -> Self {
        Self::between(Duration::from_millis(50), Duration::from_secs(1))
    }

    /// For an enqueue, that has a few seconds in all and whose caller waits.
    pub(crate) fn soon() -> Self {
        Self::between(Duration::from_millis(20), Duration::from_millis(500))
    }

    fn between(first: Duration, longest: Duration) -> Self {
        Self { first, longest, next: first, failed: false }
    }

    /// The pause before the next try.
    pub(crate) fn next_pause(&mut self) -> Duration {
        let pause = self.next.mul_f64(0.5 + fastrand::f64() / 2.0);
        self.next = (self.next * 2).min(self.longest);
        self.failed = true;
        pause
    }

    /// Waits before the next try. Cancel safe.
    pub(crate) async fn pause(&mut self) {
        tokio::time::sleep(self.next_pause()).await;
    }

    /// Whether a try has failed since the last that succeeded.
    pub(crate) fn failed(&self) -> bool {
        self.failed
    }

    /// The server was reached. Says whether that took more than one try.
    pub(crate) fn succeeded(&mut self) -> bool {
        self.next = self.first;
        std::mem::take(&mut self.failed)
    }
}
