//! What there is in a worker at one time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::worker::state::Session;

/// What goes up and down.
#[derive(Debug, Default)]
pub(super) struct Now {
    /// How many slots are held and how many are free; none between two sessions.
    pub(super) slots: Option<(usize, usize)>,
    /// How long ago the last accepted heartbeat was sent, by queue: of shards the longest.
    pub(super) heartbeats: BTreeMap<Arc<str>, Duration>,
}

impl Now {
    pub(super) fn of(session: &Session) -> Self {
        let mut heartbeats = BTreeMap::new();
        for consumer in session.consumers().iter() {
            if let Some(age) = consumer.freshness.age() {
                let longest: &mut Duration =
                    heartbeats.entry(Arc::clone(&consumer.queue.name)).or_default();
                *longest = age.max(*longest);
            }
        }
        Self { slots: Some(session.slots()), heartbeats }
    }

    pub(super) fn of_slots(&self) -> impl Iterator<Item = (&'static str, usize)> {
        self.slots.into_iter().flat_map(|(busy, free)| [("busy", busy), ("free", free)])
    }
}
