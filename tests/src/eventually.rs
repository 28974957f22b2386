//! Waiting for a condition, with a deadline.

use std::time::{Duration, Instant};

/// Waits until a condition holds; panics with the report when it does not within the time.
#[track_caller]
pub(crate) fn eventually(
    what: &str,
    within: Duration,
    report: impl Fn() -> String,
    mut holds: impl FnMut() -> bool,
) {
    let give_up = Instant::now() + within;
    let mut pause = Duration::from_millis(5);
    while !holds() {
        let late = Instant::now() > give_up;
        assert!(!late, "not within {within:?}: {what}\n{}", report());
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(50));
    }
}

/// The same for a condition that has to be awaited.
pub(crate) async fn eventually_async(
    what: &str,
    within: Duration,
    report: impl Fn() -> String,
    mut holds: impl AsyncFnMut() -> bool,
) {
    let give_up = Instant::now() + within;
    while !holds().await {
        let late = Instant::now() > give_up;
        assert!(!late, "not within {within:?}: {what}\n{}", report());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
