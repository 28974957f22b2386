//! The supervisor: a thread with a runtime and connections of its own, so that neither bulk traffic nor a body that blocks delays
//! heartbeats, deadlines and recovery.

pub(crate) mod deadlines;
pub(crate) mod heartbeat;
pub(crate) mod holds;
pub(crate) mod recovery;
pub(crate) mod retention;
pub(crate) mod verify;

use std::sync::Arc;

use tokio::task::JoinSet;

use crate::worker::state::{Session, Thread};
use heartbeat::HeartbeatLoop;

pub(crate) fn spawn(session: &Arc<Session>) -> std::io::Result<Thread> {
    Thread::spawn("hworker-supervisor", session, |session| &session.supervisor, run)
}

async fn run(session: Arc<Session>) {
    let clone = || Arc::clone(&session);
    let mut hearts = JoinSet::new();
    let each = session.for_each_queue(|consumer| {
        let heart = HeartbeatLoop::new(clone(), Arc::clone(consumer));
        hearts.spawn(clone().with(heart.run()));
    });
    tokio::select! {
        () = each => {}
        () = deadlines::keep(&session) => {}
        // Separate from the tasks that wait for the server.
        () = deadlines::cancel_on_disconnect(&session), if session.core.config.cancel_on_disconnect => {}
    }
}
