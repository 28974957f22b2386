//! Tasks that show whether their runtime runs.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use crate::worker::state::{Liveness, Session};

/// How often a runtime shows that it runs.
const EVERY: Duration = Duration::from_secs(2);

/// Shows that the runtime of the bodies runs.
pub(crate) async fn show(session: Arc<Session>) {
    loop {
        session.runtime.runs();
        sleep(EVERY).await;
    }
}

/// Shows that the runtime of a thread runs, with each heartbeat, so that an idle worker wakes once for all.
pub(crate) async fn show_with_beats(session: Arc<Session>, of: impl Fn(&Session) -> &Liveness) {
    loop {
        of(&session).runs();
        session.beat_or(EVERY).await;
    }
}
