//! How long to wait before the next try to reach the server: a little more each time, never long, never in step with
//! others.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(1);

/// The pauses between tries; there is no last one.
#[derive(Debug)]
pub(super) struct Reconnect {
    pause: Duration,
    tries: u32,
}

impl Reconnect {
    pub(super) fn new() -> Self {
        Self { pause: FIRST, tries: 0 }
    }

    /// Waits before the next try. Cancel safe.
    pub(super) async fn pause(&mut self) {
        let pause = self.pause.mul_f64(0.5 + fastrand::f64() / 2.0);
        self.pause = (self.pause * 2).min(LONGEST);
        self.tries += 1;
        tokio::time::sleep(pause).await;
    }

    /// Whether this try is one to speak of: the first, and then about one a minute.
    pub(super) fn worth_a_line(&self) -> bool {
        self.tries.is_multiple_of(60)
    }

    /// The server was reached. Says whether that took more than one try.
    pub(super) fn succeeded(&mut self) -> bool {
        let again = self.tries > 0;
        *self = Self::new();
        again
    }
}
