//! Intake: the thread that waits at the server, reserves and settles, for all queues of one session. A body that blocks its thread, or the
//! whole runtime of the bodies, holds up nothing here.
//!
//! While nothing waits at the server, `wait` blocks there and accepts the job that ends the wait. Otherwise `fetch` makes one call after the
//! other, as `plan` says: it settles what is in the outbox and reserves jobs for free slots (`in_flight` is such a call, `settling` handles its
//! answer, `refused` a job that is too large for it). `accept` hands reserved jobs to the buffer, whose runners start them; `give_back` returns
//! those that wait too long. `reconcile` begins each connection, `parked` takes jobs that other workers could not run,
//! `broadcast` those that each worker runs.

pub(crate) mod accept;
pub(crate) mod broadcast;
pub(crate) mod fetch;
pub(crate) mod give_back;
pub(crate) mod in_flight;
pub(crate) mod parked;
pub(crate) mod plan;
pub(crate) mod reconcile;
pub(crate) mod refused;
pub(crate) mod settling;
pub(crate) mod wait;

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinSet};

use crate::worker::state::{Session, Thread};

/// Starts the thread. It ends when the fetch loop of each queue has ended, because this worker retires or is void.
pub(crate) fn spawn(session: &Arc<Session>) -> io::Result<Thread> {
    Thread::spawn("hworker-intake", session, |session| &session.intake, run)
}

async fn run(session: Arc<Session>) {
    let clone = || Arc::clone(&session);
    let (mut fetchers, mut others) = (JoinSet::new(), JoinSet::new());
    let (begins, mut begun) = mpsc::unbounded_channel();
    let each = session.for_each_queue(|consumer| {
        // The loop below receives it.
        let _ = begins.send(Arc::clone(consumer));
    });
    tokio::pin!(each);
    let mut consumers = HashMap::new();
    loop {
        tokio::select! {
            () = &mut each => {}
            Some(consumer) = begun.recv() => {
                others.spawn(clone().with(wait::run(clone(), Arc::clone(&consumer))));
                others.spawn(clone().with(give_back::run(Arc::clone(&consumer))));
                let task = fetchers.spawn(clone().with(fetch::run(clone(), Arc::clone(&consumer))));
                consumers.insert(task.id(), consumer);
            }
            Some(ended) = fetchers.join_next_with_id() => {
                let id = ended.as_ref().map_or_else(JoinError::id, |(id, ())| *id);
                let consumer = consumers.remove(&id);
                // A panic in a fetch loop ends this session. A second loop sends the settlements and releases that are left.
                if let (Err(_), Some(consumer)) = (ended, consumer) {
                    fetchers.spawn(fetch::run(clone(), consumer));
                }
                let over = session.retiring.is_cancelled() || session.void.is_cancelled();
                if over && fetchers.is_empty() {
                    return;
                }
            }
            // The session has no queue any more.
            () = session.retiring.cancelled(), if fetchers.is_empty() => return,
        }
    }
}
