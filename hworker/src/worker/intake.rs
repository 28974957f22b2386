//! Intake: the thread that waits at the server, reserves and settles, for all queues of one life of the worker. A body that blocks
//! its thread, or the whole runtime of the bodies, holds up nothing here.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinSet};

use super::session::Incarnation;
use super::thread::Thread;
use super::{fetch, give_back, show_liveness, wait};

/// Starts the thread. It ends by itself when each queue was told that this worker retires, or that it is void.
pub(super) fn spawn(incarnation: &Arc<Incarnation>) -> io::Result<Thread> {
    Thread::spawn("hworker-intake", incarnation, run)
}

async fn run(incarnation: Arc<Incarnation>) {
    let life = || Arc::clone(&incarnation);
    let (mut fetchers, mut others) = (JoinSet::new(), JoinSet::new());
    others.spawn(life().with(show_liveness::show_with_beats(life(), |life| &life.intake)));
    let (begins, mut begun) = mpsc::unbounded_channel();
    let each = incarnation.for_each_queue(|lane| {
        // Who takes it is below.
        let _ = begins.send(Arc::clone(lane));
    });
    tokio::pin!(each);
    let mut lanes = HashMap::new();
    loop {
        tokio::select! {
            () = &mut each => {}
            Some(lane) = begun.recv() => {
                others.spawn(life().with(wait::run(life(), Arc::clone(&lane))));
                others.spawn(life().with(give_back::run(Arc::clone(&lane))));
                let task = fetchers.spawn(life().with(fetch::run(life(), Arc::clone(&lane))));
                lanes.insert(task.id(), lane);
            }
            Some(ended) = fetchers.join_next_with_id() => {
                let id = ended.as_ref().map_or_else(JoinError::id, |(id, ())| *id);
                let lane = lanes.remove(&id);
                // Where one has ended by a panic, which ends this session, another sends what is given back.
                if let (Err(_), Some(lane)) = (ended, lane) {
                    fetchers.spawn(fetch::run(life(), lane));
                }
                let over = incarnation.retiring.is_cancelled() || incarnation.void.is_cancelled();
                if over && fetchers.is_empty() {
                    return;
                }
            }
            // Which has no queue any more.
            () = incarnation.retiring.cancelled(), if fetchers.is_empty() => return,
        }
    }
}
