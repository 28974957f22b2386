//! What is known of the queues of a client.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A queue on which nobody set it is asked again when an enqueue comes so long after.
const ASK_AFTER: Duration = Duration::from_secs(1);

/// So many queues with changing names are remembered.
const MOST_QUEUES: usize = 1000;

/// What was found of the queues of a client.
#[derive(Debug, Default)]
pub(in crate::client) struct Bounds(Mutex<HashMap<Box<str>, Found>>);

#[derive(Debug, Clone, Copy)]
pub(super) enum Found {
    Bound,
    /// As of this time.
    Free(Instant),
    /// The user of this client may not ask.
    Denied,
}

impl Bounds {
    /// What is known now. What is old counts as asked for again.
    pub(super) fn of(&self, queue: &str) -> Known {
        let mut found = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match found.get_mut(queue) {
            None => Known::Nothing,
            Some(Found::Bound) => Known::Bound,
            Some(Found::Free(asked)) if asked.elapsed() >= ASK_AFTER => {
                *asked = Instant::now();
                Known::WasFree
            }
            Some(Found::Free(_) | Found::Denied) => Known::Free,
        }
    }

    pub(super) fn note(&self, queue: &str, what: Found) {
        let mut found = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if found.len() >= MOST_QUEUES {
            found.clear();
        }
        found.insert(queue.into(), what);
    }
}

/// Whether somebody set how many jobs may wait.
pub(super) enum Known {
    Nothing,
    Free,
    WasFree,
    Bound,
}
