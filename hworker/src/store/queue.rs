//! One queue, or one shard of a queue.

use std::sync::Arc;

use crate::config::Limits;
use crate::keys::{KeySpace, Keys};
use crate::limit::List;

use crate::shards;

/// A job that was enqueued within `max_payload` may grow by what workers write into it, such as its next attempt and its
/// crashes, of which 32 take 3.5 KB under names as those of pods; its errors give way instead.
const WRITTEN_BY_WORKERS: usize = 8 * 1024;

/// One queue in Redis, or one shard of a queue. Only code that chooses a shard tells them apart.
#[derive(Debug, Clone)]
pub(crate) struct Queue {
    pub(crate) name: Arc<str>,
    /// The shard's name: that of the queue, or one that no queue has.
    pub(crate) label: Arc<str>,
    pub(crate) keys: Keys,
    /// The slot of all its keys, where there are slots.
    pub(crate) slot: u16,
    pub(crate) limits: Limits,
    /// Where the jobs wait that are put into it.
    pub(crate) list: List,
}

impl Queue {
    pub(crate) fn new(space: &KeySpace, name: &str, shard: usize, limits: Limits) -> Self {
        let spelled = shards::spelled(name, shard);
        let slot = shards::slot(&spelled);
        let keys = Keys::new(space, &spelled);
        let list = List::default();
        Self { name: name.into(), label: spelled.into(), keys, slot, limits, list }
    }

    /// The shard with this label.
    pub(crate) fn of_label(space: &KeySpace, label: &str, limits: Limits) -> Self {
        let (name, shard) = label.split_once('#').unwrap_or((label, ""));
        let shard = shard.split('.').next().and_then(|shard| shard.parse().ok());
        Self::new(space, name, shard.unwrap_or(0), limits)
    }

    /// The same queue, for jobs of this list.
    pub(crate) fn at(self, list: impl Into<List>) -> Self {
        Self { list: list.into(), ..self }
    }

    /// The most bytes that an envelope may come to.
    pub(crate) fn largest(&self) -> usize {
        self.limits.max_payload.saturating_add(WRITTEN_BY_WORKERS)
    }
}
