//! The jobs for each worker that this one is to take.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// What is known of them.
#[derive(Debug, Default)]
pub(crate) struct Broadcasts {
    ids: Mutex<Ids>,
    pub(crate) told: Notify,
}

#[derive(Debug, Default)]
struct Ids {
    open: Vec<String>,
    /// Those that cannot run here.
    unfit: HashSet<String>,
}

impl Broadcasts {
    /// Notes which the server has for this worker. Whether there is one that was not found unfit.
    pub(crate) fn tell(&self, mut open: Vec<String>) -> bool {
        let mut ids = self.ids();
        ids.unfit.retain(|id| open.contains(id));
        open.retain(|id| !ids.unfit.contains(id));
        let is_new = !open.is_empty();
        ids.open = open;
        drop(ids);
        if is_new {
            self.told.notify_one();
        }
        is_new
    }

    /// Those that the server told of last.
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.ids().open)
    }

    /// Looks no more at one that cannot run here.
    pub(crate) fn is_unfit(&self, id: String) {
        self.ids().unfit.insert(id);
    }

    fn ids(&self) -> MutexGuard<'_, Ids> {
        self.ids.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
