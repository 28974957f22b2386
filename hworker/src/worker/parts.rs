//! The tasks of a life on the runtime of the bodies.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;

use tokio::task::JoinSet;

use super::incarnation::{Incarnation, Lane};
use super::{census, fetch, liveness, parked, runner, wait};

/// They end when this is dropped.
#[derive(Default)]
pub(super) struct Parts {
    pub(super) fetchers: JoinSet<()>,
    /// What each of these fetches for.
    lanes: HashMap<tokio::task::Id, Arc<Lane>>,
    others: JoinSet<()>,
}

impl Parts {
    pub(super) fn start(incarnation: &Arc<Incarnation>) -> Self {
        let threads = tokio::runtime::Handle::current().metrics().num_workers();
        let mut parts = Self::default();
        let life = || Arc::clone(incarnation);
        for lane in &incarnation.lanes {
            let fetches = parts.fetchers.spawn(life().with(fetch::run(life(), Arc::clone(lane))));
            parts.lanes.insert(fetches.id(), Arc::clone(lane));
            parts.others.spawn(life().with(wait::run(life(), Arc::clone(lane))));
            parts.others.spawn(life().with(parked::run(life(), Arc::clone(lane))));
            for _ in 0..threads {
                parts.others.spawn(life().with(runner::run(life(), Arc::clone(lane))));
            }
        }
        parts.others.spawn(life().with(liveness::show(Arc::clone(&incarnation.runtime))));
        parts.others.spawn(life().with(census::run(life())));
        let core = Arc::clone(&incarnation.core);
        parts.others.spawn(life().with(async move { core.throttle.keep_telling().await }));
        parts
    }

    /// Has another loop fetch where one has ended by a panic, since these loops send what is given back.
    pub(super) async fn replace_fetchers(&mut self, incarnation: &Arc<Incarnation>) -> Infallible {
        while let Some(ended) = self.fetchers.join_next_with_id().await {
            if let Some(lane) = ended.err().and_then(|panic| self.lanes.get(&panic.id())) {
                self.fetchers.spawn(fetch::run(Arc::clone(incarnation), Arc::clone(lane)));
            }
        }
        std::future::pending().await
    }
}
