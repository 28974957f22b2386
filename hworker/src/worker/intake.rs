//! Intake: the thread that waits at the server, reserves and settles, for all queues of one life of the worker. A body that blocks
//! its thread, or the whole runtime of the bodies, holds up nothing here.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use tokio::task::JoinSet;

use super::incarnation::Incarnation;
use super::thread::Thread;
use super::{fetch, give_back, liveness, wait};

/// Starts the thread. It ends by itself when each queue was told that this worker retires, or that it is void.
pub(super) fn spawn(incarnation: &Arc<Incarnation>) -> io::Result<Thread> {
    Thread::spawn("hworker-intake", incarnation, run)
}

async fn run(incarnation: Arc<Incarnation>) {
    let life = || Arc::clone(&incarnation);
    let (mut fetchers, mut others) = (JoinSet::new(), JoinSet::new());
    let mut lanes = HashMap::new();
    for lane in &incarnation.lanes {
        let task = fetchers.spawn(life().with(fetch::run(life(), Arc::clone(lane))));
        lanes.insert(task.id(), Arc::clone(lane));
        others.spawn(life().with(wait::run(life(), Arc::clone(lane))));
    }
    others.spawn(life().with(give_back::keep(life())));
    others.spawn(life().with(liveness::show_with_beats(life(), |life| &life.intake)));
    while let Some(ended) = fetchers.join_next_with_id().await {
        // Where one has ended by a panic, which ends this life, another sends what is given back.
        if let Some(lane) = ended.err().and_then(|panic| lanes.get(&panic.id())) {
            fetchers.spawn(fetch::run(life(), Arc::clone(lane)));
        }
    }
}
