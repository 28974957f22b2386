//! The keys that are waited for, and what is read of each.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::runtime::Id;
use tokio::sync::{Notify, watch};

use crate::store::{Fault, FaultKind};

/// The keys that are waited for.
#[derive(Default, Clone)]
pub(in crate::client) struct Awaited(Arc<Mutex<HashMap<Whose, Entry>>>);

/// The runtime of the task that reads, and the key.
pub(super) type Whose = (Id, Box<str>);

pub(super) struct Entry {
    told: Arc<Told>,
    seen: watch::Receiver<Seen>,
}

/// What the server told.
#[derive(Default)]
pub(super) struct Told {
    pub(super) changed: Notify,
    /// All keys may have changed.
    pub(super) all: AtomicBool,
}

/// What was read last.
pub(super) enum Seen {
    Nothing,
    Failed(Fault),
    Text(Arc<[u8]>),
}

impl Seen {
    /// Whether another read would say the same.
    pub(super) fn is_final(&self) -> bool {
        match self {
            Self::Nothing => false,
            Self::Failed(fault) => fault.kind == FaultKind::Denied,
            Self::Text(_) => true,
        }
    }

    pub(super) fn known(&self) -> Result<Option<Arc<[u8]>>, Fault> {
        match self {
            Self::Nothing => Ok(None),
            Self::Failed(fault) => Err(fault.clone()),
            Self::Text(text) => Ok(Some(Arc::clone(text))),
        }
    }
}

impl Awaited {
    fn entries(&self) -> MutexGuard<'_, HashMap<Whose, Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is read of this key from now on: by a task that reads it already, or else by this new one.
    pub(super) fn of(&self, whose: &Whose) -> (watch::Receiver<Seen>, Option<Reading>) {
        let mut entries = self.entries();
        // One whose task has ended says nothing new.
        let entry = entries.get(whose).filter(|entry| entry.seen.has_changed().is_ok());
        if let Some(entry) = entry {
            return (entry.seen.clone(), None);
        }
        let (say, seen) = watch::channel(Seen::Nothing);
        let told = Arc::<Told>::default();
        let entry = Entry { told: Arc::clone(&told), seen: seen.clone() };
        entries.insert(whose.clone(), entry);
        let reading = Reading { say, told, whose: whose.clone(), awaited: self.clone() };
        (seen, Some(reading))
    }

    /// The server says that this key has changed, or that it does not know which have.
    pub(super) fn tell(&self, runtime: Id, key: Option<&[u8]>) {
        let entries = self.entries();
        let Some(key) = key else {
            for (_, entry) in entries.iter().filter(|(whose, _)| whose.0 == runtime) {
                entry.told.all.store(true, Ordering::Release);
                entry.told.changed.notify_one();
            }
            return;
        };
        let whose = std::str::from_utf8(key).ok().map(|key| (runtime, key.into()));
        if let Some(entry) = whose.and_then(|whose| entries.get(&whose)) {
            entry.told.changed.notify_one();
        }
    }
}

impl fmt::Debug for Awaited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Awaited").field(&self.entries().len()).finish()
    }
}

/// A key that a task reads; it is nobody's any more when this is dropped.
pub(super) struct Reading {
    pub(super) say: watch::Sender<Seen>,
    pub(super) told: Arc<Told>,
    pub(super) whose: Whose,
    awaited: Awaited,
}

impl Drop for Reading {
    fn drop(&mut self) {
        let mut entries = self.awaited.entries();
        let is_own = |entry: &Entry| Arc::ptr_eq(&entry.told, &self.told);
        if entries.get(&self.whose).is_some_and(is_own) {
            entries.remove(&self.whose);
        }
    }
}
