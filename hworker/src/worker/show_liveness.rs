//! Tasks that show whether their runtime runs.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::liveness::Liveness;
use super::session::Incarnation;

/// How often a runtime shows that it runs.
const EVERY: Duration = Duration::from_secs(2);

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
