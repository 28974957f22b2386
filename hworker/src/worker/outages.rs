//! What a worker says of an outage: one line when it loses the server and one when the server is back, however many
//! queues, connections and tries notice it.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::incarnation::{Incarnation, Lane};
use crate::log::say;
use crate::store::Fault;

/// An outage that goes on is spoken of again after this.
const AGAIN_AFTER: Duration = Duration::from_secs(60);

/// Who misses the server: each has a connection of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Side {
    Fetch,
    Heart,
}

/// Who misses the server, in all queues of a worker and over all its lives.
#[derive(Debug, Default)]
pub(super) struct Outages(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// By the label of the shard. While it is empty there is no outage.
    missing: HashSet<(Side, Arc<str>)>,
    begun: u64,
    /// When the server was last heard of, and when a line was last written.
    since: Option<Instant>,
    said: Option<Instant>,
}

/// What is to be said.
#[derive(Debug, PartialEq, Eq)]
enum News {
    Lost,
    /// It is away still, for so long.
    Away(Duration),
    Back(Duration),
}

impl Outages {
    /// How many there were; one that has just begun counts.
    pub(super) fn count(&self) -> u64 {
        self.state().begun
    }

    /// Whether there is one.
    pub(super) fn is_one(&self) -> bool {
        !self.state().missing.is_empty()
    }

    fn lost(&self, who: (Side, Arc<str>), heard: Option<Duration>, now: Instant) -> Option<News> {
        let mut state = self.state();
        let first = state.missing.is_empty();
        state.missing.insert(who);
        if first {
            state.begun += 1;
            state.since = now.checked_sub(heard.unwrap_or_default());
            state.said = Some(now);
            return Some(News::Lost);
        }
        let again = state.said.is_none_or(|said| now.duration_since(said) >= AGAIN_AFTER);
        again.then(|| {
            state.said = Some(now);
            News::Away(state.away(now))
        })
    }

    fn back(&self, who: &(Side, Arc<str>), now: Instant) -> Option<News> {
        let mut state = self.state();
        let last = state.missing.remove(who) && state.missing.is_empty();
        last.then(|| News::Back(state.away(now)))
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

/// The server cannot be used there.
pub(super) fn lost(incarnation: &Incarnation, lane: &Lane, side: Side, fault: &Fault) {
    let core = &incarnation.core;
    let who = (side, Arc::clone(&lane.queue.label));
    let (worker, queue) = (incarnation.id.clone(), lane.queue.name.clone());
    let (server, fault) = (core.client.address().to_string(), fault.clone());
    match core.outages.lost(who, lane.pulse.age(), Instant::now()) {
        Some(News::Lost) => {
            let running = running(incarnation);
            let dead_after = core.config.dead_after;
            let fate = if core.config.cancel_on_disconnect {
                "async bodies that run are stopped before other workers can have their jobs"
            } else {
                "bodies that run go on and their results are kept"
            };
            say!(WARN, %worker, %server, %queue, running, "the server cannot be used, trying again: {fault}; no job starts, {fate}; other workers that it answers get the jobs {dead_after:?} after the last heartbeat");
        }
        Some(News::Away(away)) => {
            let running = running(incarnation);
            say!(WARN, %worker, %server, %queue, running, away = %rounded(away), "the server still cannot be used, trying again: {fault}");
        }
        Some(News::Back(_)) | None => {}
    }
}

/// The server answers there.
pub(super) fn back(incarnation: &Incarnation, lane: &Lane, side: Side) {
    let core = &incarnation.core;
    let who = (side, Arc::clone(&lane.queue.label));
    if let Some(News::Back(away)) = core.outages.back(&who, Instant::now()) {
        let results: usize = incarnation.lanes.iter().map(|lane| lane.outbox.count()).sum();
        let (worker, server) = (incarnation.id.clone(), core.client.address().to_string());
        let running = running(incarnation);
        say!(INFO, %worker, %server, running, results, away = %rounded(away), "the server is back: jobs start again, results that were kept are sent");
    }
}

fn rounded(away: Duration) -> String {
    format!("{away:.1?}")
}

fn running(incarnation: &Incarnation) -> usize {
    incarnation.lanes.iter().map(|lane| lane.leases.running().len()).sum()
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
        assert_eq!(outages.lost(who(Side::Heart, "a"), heard, at(11)), None);
        assert_eq!(outages.lost(who(Side::Fetch, "b"), heard, at(12)), None);
        let away = News::Away(Duration::from_secs(61));
        assert_eq!(outages.lost(who(Side::Fetch, "b"), heard, at(70)), Some(away));
        assert_eq!(outages.lost(who(Side::Fetch, "a"), heard, at(71)), None);
        assert_eq!(outages.back(&who(Side::Fetch, "a"), at(80)), None);
        assert_eq!(outages.back(&who(Side::Fetch, "b"), at(80)), None);
        let back = News::Back(Duration::from_secs(72));
        assert_eq!(outages.back(&who(Side::Heart, "a"), at(81)), Some(back));
        assert_eq!(outages.lost(who(Side::Heart, "a"), None, at(90)), Some(News::Lost));
        assert_eq!(outages.count(), 2);
    }
}
