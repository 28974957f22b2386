//! What is told of the jobs of a queue, and is not written yet.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::hooks::Events;
use crate::store::Lease;

/// No more lines are kept here: those that the server does not take are lost.
const MOST: usize = 10_000;

/// The lines that do not go with the end of a lease, or not yet.
#[derive(Debug)]
pub(crate) struct Untold {
    which: Events,
    /// The server does not let this user write them.
    refused: AtomicBool,
    lines: Mutex<Lines>,
    has_others: AtomicBool,
    pub(crate) told: Notify,
}

#[derive(Debug, Default)]
struct Lines {
    /// Of attempts that have started: they are written with their ends where those come soon.
    started: HashMap<Lease, String>,
    others: Vec<String>,
}

impl Untold {
    pub(crate) fn new(which: Events) -> Self {
        Self {
            which,
            refused: AtomicBool::new(false),
            lines: Mutex::default(),
            has_others: AtomicBool::new(false),
            told: Notify::new(),
        }
    }

    /// Whether such events are written.
    pub(crate) fn has(&self, which: Events) -> bool {
        self.which >= which && !self.refused.load(Ordering::Relaxed)
    }

    /// The server refuses them; true where that is new.
    pub(crate) fn refuse(&self) -> bool {
        !self.refused.swap(true, Ordering::Relaxed)
    }

    /// An attempt has started.
    pub(crate) fn start(&self, lease: &Lease, line: String) {
        let mut lines = self.lines();
        if lines.started.len() < MOST {
            lines.started.insert(lease.clone(), line);
        }
        drop(lines);
        self.told.notify_one();
    }

    /// What is to be written with the end of this lease, with what else there is, so that it is in order.
    pub(crate) fn end(&self, lease: &Lease, line: String) -> Arc<String> {
        if self.which < Events::All && !self.has_others.load(Ordering::Acquire) {
            return Arc::new(line);
        }
        let mut lines = self.lines();
        let mut all = std::mem::take(&mut lines.others);
        self.has_others.store(false, Ordering::Release);
        all.extend(lines.started.remove(lease));
        drop(lines);
        all.push(line);
        Arc::new(all.join("\n"))
    }

    /// An attempt that ends without a settlement that could tell it.
    pub(crate) fn tell(&self, lease: &Lease, line: String) {
        let mut lines = self.lines();
        let started = lines.started.remove(lease);
        if lines.others.len() < MOST {
            lines.others.extend(started);
            lines.others.push(line);
            self.has_others.store(true, Ordering::Release);
        }
        drop(lines);
        self.told.notify_one();
    }

    /// What is to be written by itself.
    pub(crate) fn take(&self) -> Vec<String> {
        let mut lines = self.lines();
        let mut all = std::mem::take(&mut lines.others);
        self.has_others.store(false, Ordering::Release);
        all.extend(lines.started.drain().map(|(_, line)| line));
        all
    }

    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
