//! What a worker logs of an outage: one line when it loses the server and one when the server is back, for any number of queues,
//! connections and tries.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The time after which a continuing outage is logged again.
const AGAIN_AFTER: Duration = Duration::from_secs(60);

/// The two loops of a queue that can lose the server; each has a connection of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Side {
    Fetch,
    Heartbeat,
}

/// The loops that have lost the server, in all queues of a worker and over all its sessions.
#[derive(Debug, Default)]
pub(crate) struct Outages(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// By the label of the shard. Empty without an outage.
    missing: HashSet<(Side, Arc<str>)>,
    begun: u64,
    /// When the server was last heard of, and when a line was last written.
    since: Option<Instant>,
    said: Option<Instant>,
}

/// What to log.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum News {
    Lost,
    /// The server is still away, for this long.
    Away(Duration),
}

impl Outages {
    /// How many outages there were, with one that goes on.
    pub(crate) fn count(&self) -> u64 {
        self.state().begun
    }

    pub(crate) fn is_ongoing(&self) -> bool {
        !self.state().missing.is_empty()
    }

    pub(crate) fn lost(
        &self,
        who: (Side, Arc<str>),
        heard: Option<Duration>,
        now: Instant,
    ) -> Option<News> {
        let mut state = self.state();
        let first = state.missing.is_empty();
        state.missing.insert(who);
        if first {
            state.begun += 1;
            state.since = now.checked_sub(heard.unwrap_or_default());
        } else if state.said.is_some_and(|said| now.duration_since(said) < AGAIN_AFTER) {
            return None;
        }
        state.said = Some(now);
        Some(if first { News::Lost } else { News::Away(state.away(now)) })
    }

    /// Returns how long the server was away, if the last of the loops has it back.
    pub(crate) fn back(&self, who: &(Side, Arc<str>), now: Instant) -> Option<Duration> {
        let mut state = self.state();
        let last = state.missing.remove(who) && state.missing.is_empty();
        last.then(|| state.away(now))
    }

    /// Forgets the loops of this queue, which is no longer served.
    pub(crate) fn forget(&self, label: &Arc<str>) {
        self.state().missing.retain(|(_, of)| of != label);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn away(&self, now: Instant) -> Duration {
        self.since.map_or(Duration::ZERO, |since| now.duration_since(since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_when_the_first_misses_the_server_and_one_when_the_last_has_it() {
        let (outages, start) = (Outages::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        let who = |side, label: &str| (side, Arc::from(label));
        let heard = Some(Duration::from_secs(1));
        assert_eq!(outages.back(&who(Side::Fetch, "a"), at(9)), None);
        assert_eq!(outages.lost(who(Side::Fetch, "a"), heard, at(10)), Some(News::Lost));
        assert_eq!(outages.lost(who(Side::Heartbeat, "a"), heard, at(11)), None);
        assert_eq!(outages.lost(who(Side::Fetch, "b"), heard, at(12)), None);
        let away = News::Away(Duration::from_secs(61));
        assert_eq!(outages.lost(who(Side::Fetch, "b"), heard, at(70)), Some(away));
        assert_eq!(outages.lost(who(Side::Fetch, "a"), heard, at(71)), None);
        assert_eq!(outages.back(&who(Side::Fetch, "a"), at(80)), None);
        assert_eq!(outages.back(&who(Side::Fetch, "b"), at(80)), None);
        let away = Duration::from_secs(72);
        assert_eq!(outages.back(&who(Side::Heartbeat, "a"), at(81)), Some(away));
        assert_eq!(outages.lost(who(Side::Heartbeat, "a"), None, at(90)), Some(News::Lost));
        assert_eq!(outages.count(), 2);
    }
}
