//! The batches of which no member starts, as far as this worker knows.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What is known is true for so long.
const TRUE_FOR: Duration = Duration::from_millis(250);

/// Why no member of a batch starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    Cancelled,
    Paused,
}

/// Those of one queue.
#[derive(Debug, Default)]
pub(crate) struct Stopped {
    known: Mutex<Known>,
    has_any: AtomicBool,
}

#[derive(Debug, Default)]
struct Known {
    /// How often they had changed.
    changes: u64,
    by_batch: HashMap<String, Stop>,
    heard: Option<Instant>,
}

impl Stopped {
    /// They have changed so often; `stops`: each with why, where this was not known.
    pub(crate) fn hear(&self, changes: u64, stops: Vec<(String, String)>) {
        let mut known = self.known();
        if changes != known.changes {
            known.changes = changes;
            let stop = |word: &str| match word {
                "cancelled" => Some(Stop::Cancelled),
                "paused" => Some(Stop::Paused),
                _ => None,
            };
            let stops = stops.into_iter().filter_map(|(batch, word)| Some((batch, stop(&word)?)));
            known.by_batch = stops.collect();
            self.has_any.store(!known.by_batch.is_empty(), Ordering::Release);
        }
        known.heard = Some(Instant::now());
    }

    /// How often they had changed when this was heard last.
    pub(crate) fn changes(&self) -> u64 {
        self.known().changes
    }

    /// Whether that was lately.
    pub(crate) fn is_fresh(&self) -> bool {
        self.known().heard.is_some_and(|heard| heard.elapsed() < TRUE_FOR)
    }

    /// Whether there is any.
    pub(crate) fn has_any(&self) -> bool {
        self.has_any.load(Ordering::Acquire)
    }

    /// Why no member of this batch starts, if none does.
    pub(crate) fn of(&self, batch: &str) -> Option<Stop> {
        if !self.has_any() {
            return None;
        }
        self.known().by_batch.get(batch).copied()
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_heard_holds_until_it_changes() {
        let stopped = Stopped::default();
        assert!(!stopped.is_fresh() && !stopped.has_any());
        let stops = |word: &str| vec![("a".to_owned(), word.to_owned())];
        stopped.hear(3, stops("paused"));
        assert_eq!((stopped.of("a"), stopped.of("b")), (Some(Stop::Paused), None));
        stopped.hear(3, Vec::new());
        assert_eq!(stopped.of("a"), Some(Stop::Paused), "it is as it was");
        assert!(stopped.is_fresh() && stopped.changes() == 3);
        stopped.hear(4, stops("cancelled"));
        assert_eq!(stopped.of("a"), Some(Stop::Cancelled));
        stopped.hear(5, stops("what a later version says"));
        assert!(stopped.of("a").is_none() && !stopped.has_any());
    }
}
