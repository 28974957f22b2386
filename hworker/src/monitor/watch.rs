//! Which of the other workers are dead.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use crate::time::millis;

/// How long a worker must be watched before it is declared dead.
const WATCH_FOR: Duration = Duration::from_secs(3);

/// Two consecutive accepted heartbeats count at most this.
const COUNTS_AT_MOST: Duration = Duration::from_millis(1_500);

/// With more than this between two accepted heartbeats the observation begins anew.
const LONGEST_GAP: Duration = Duration::from_secs(2);

/// After a lost connection of its own a monitor watches for the whole `dead_after`, for so long.
const CAREFUL_FOR: Duration = Duration::from_secs(30);

/// The inbox of a dead worker is swept at every heartbeat for so long after it was last heard of, then once a minute.
/// By the server's clock, so that a monitor that starts later does not begin again with every worker that died today.
const SWEEP_OFTEN_FOR: Duration = Duration::from_secs(40);

/// Records that are read after one heartbeat, in one write; the rest waits for the next.
const LEARN_AT_ONCE: usize = 1000;

/// Watches the other workers of one queue.
#[derive(Debug, Default)]
pub(crate) struct Monitor {
    watched: HashMap<String, Watched>,
    /// The workers that were declared dead.
    dead: HashSet<String>,
    last_accepted: Option<Instant>,
    lost_connection: Option<Instant>,
}

/// A worker that was not heard of lately.
#[derive(Debug)]
struct Watched {
    /// Its heartbeat, as the server has it.
    seen: String,
    /// Whether its record was read, and what that says; asked for once for each heartbeat.
    learned: bool,
    dead_after: Option<Duration>,
    unchanged_for: Duration,
}

/// Which dead workers' inboxes this worker sweeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sweeps {
    /// Another worker sweeps them.
    Nobody,
    /// Of workers that died lately.
    Lately,
    Everyone,
}

/// What is to be done after a heartbeat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Task {
    /// Its record is to be read and [`Monitor::learn`] told.
    Learn { worker: String, seen: String },
    /// It is to be recovered.
    Recover { worker: String, seen: String },
    /// It died before; its inbox is to be swept, and after a day it is forgotten.
    Sweep { worker: String, seen: String },
}

impl Monitor {
    /// A heartbeat of our own was refused or lost: what was observed so far counts no more.
    pub(crate) fn missed(&mut self, connection_lost: bool) {
        self.last_accepted = None;
        if connection_lost {
            self.lost_connection = Some(Instant::now());
        }
        self.watched.clear();
    }

    /// The longest silence of a watched worker, by the server's clock. The next heartbeat has to ask for workers that far back, or it
    /// would lose sight of some.
    pub(crate) fn watches_back(&self, server_now: u64) -> Option<Duration> {
        let oldest = self.watched.values().map(|watched| ms(&watched.seen)).min()?;
        Some(Duration::from_millis(server_now.saturating_sub(oldest)))
    }

    /// Forgets dead workers that are no longer among the silent ones.
    pub(crate) fn remembers_only(&mut self, silent: &[(String, String)]) {
        let there: HashSet<_> = silent.iter().map(|(worker, _)| worker.as_str()).collect();
        self.dead.retain(|worker| there.contains(worker.as_str()));
    }

    /// A heartbeat of our own, sent then, was accepted, and these workers were not heard of lately.
    pub(crate) fn accepted(
        &mut self,
        sent: Instant,
        own_dead_after: Duration,
        server_now: u64,
        sweeps: Sweeps,
        mut silent: Vec<(String, String)>,
    ) -> Vec<Task> {
        let gap = self.last_accepted.map(|last| sent.saturating_duration_since(last));
        self.last_accepted = Some(sent);
        let counts = match gap {
            Some(gap) if gap <= LONGEST_GAP => gap.min(COUNTS_AT_MOST),
            _ => {
                self.watched.clear();
                Duration::ZERO
            }
        };
        let careful = self.lost_connection.is_some_and(|at| at.elapsed() < CAREFUL_FOR);

        // The latest heartbeat first: a long list must not delay the recovery of a worker that died just now.
        silent.sort_by_key(|(_, seen)| std::cmp::Reverse(ms(seen)));
        let (mut tasks, mut learning) = (Vec::new(), 0);
        let mut still = HashMap::new();
        for (worker, seen) in silent {
            if self.dead.contains(&worker) {
                let sweeps = match sweeps {
                    Sweeps::Nobody => false,
                    Sweeps::Lately => silent_for(&seen, server_now) < SWEEP_OFTEN_FOR,
                    Sweeps::Everyone => true,
                };
                if sweeps {
                    tasks.push(Task::Sweep { worker, seen });
                }
                continue;
            }
            let watched = match self.watched.remove(&worker) {
                Some(mut watched) if watched.seen == seen => {
                    watched.unchanged_for += counts;
                    watched
                }
                _ => Watched {
                    seen: seen.clone(),
                    learned: false,
                    dead_after: None,
                    unchanged_for: Duration::ZERO,
                },
            };
            let dead_after = watched.dead_after.unwrap_or(own_dead_after);
            let watch_for = if careful { WATCH_FOR.max(dead_after) } else { WATCH_FOR };
            if !watched.learned {
                if learning < LEARN_AT_ONCE {
                    tasks.push(Task::Learn { worker: worker.clone(), seen: seen.clone() });
                }
                learning += 1;
            } else if is_old(&seen, server_now, dead_after) && watched.unchanged_for >= watch_for {
                tasks.push(Task::Recover { worker: worker.clone(), seen });
            }
            still.insert(worker, watched);
        }
        self.watched = still;
        tasks
    }

    /// What the record of a worker says. True when it is dead already, and is to be swept.
    pub(crate) fn learn(&mut self, worker: &str, dead: bool, dead_after: Option<Duration>) -> bool {
        if dead {
            self.is_dead(worker);
        } else if let Some(watched) = self.watched.get_mut(worker) {
            watched.learned = true;
            watched.dead_after = dead_after;
        }
        dead
    }

    /// A worker was declared dead, by us or by another.
    pub(crate) fn is_dead(&mut self, worker: &str) {
        self.watched.remove(worker);
        self.dead.insert(worker.to_owned());
    }

    /// A dead worker was forgotten by the server.
    pub(crate) fn forget(&mut self, worker: &str) {
        self.dead.remove(worker);
    }
}

/// Whether a heartbeat is so old, or in the future, which counts as old: then the server's clock went back.
fn is_old(seen: &str, server_now: u64, dead_after: Duration) -> bool {
    let seen = ms(seen);
    seen > server_now || server_now - seen >= millis(dead_after)
}

/// How long ago a worker was heard of; nothing where that lies in the future.
pub(crate) fn silent_for(seen: &str, server_now: u64) -> Duration {
    Duration::from_millis(server_now.saturating_sub(ms(seen)))
}

/// A heartbeat as the sorted set has it, in ms.
fn ms(seen: &str) -> u64 {
    seen.parse::<f64>().unwrap_or(0.0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEAD_AFTER: Duration = Duration::from_secs(5);

    #[test]
    fn the_keeper_of_the_timer_sweeps_recent_dead_workers_often_and_all_sometimes() {
        let mut monitor = Monitor::default();
        let dead = || vec![("late".to_owned(), "990000".to_owned()), ("long".into(), "1".into())];
        let accepted = |monitor: &mut Monitor, sweeps| {
            monitor.accepted(Instant::now(), DEAD_AFTER, 1_000_000, sweeps, dead())
        };
        assert_eq!(accepted(&mut monitor, Sweeps::Lately).len(), 2, "both are to be learned of");
        monitor.learn("late", true, None);
        monitor.learn("long", true, None);
        let late = Task::Sweep { worker: "late".into(), seen: "990000".into() };
        let long = Task::Sweep { worker: "long".into(), seen: "1".into() };
        for _ in 0..2 {
            assert_eq!(accepted(&mut monitor, Sweeps::Nobody), []);
            assert_eq!(accepted(&mut monitor, Sweeps::Lately), std::slice::from_ref(&late));
            assert_eq!(accepted(&mut monitor, Sweeps::Everyone), [late.clone(), long.clone()]);
        }
    }

    /// Beats every 1.5 s and says after how many the worker is to be recovered.
    fn beats_until_recovered(
        monitor: &mut Monitor,
        start: Instant,
        gap: Duration,
        seen_ms: u64,
    ) -> Option<u32> {
        (0..40).find(|beat| {
            let sent = start + gap * *beat;
            let now = 1_000_000 + millis(gap) * u64::from(*beat);
            let silent = if now < seen_ms || now - seen_ms > 2_000 {
                vec![("w".to_owned(), seen_ms.to_string())]
            } else {
                Vec::new()
            };
            let tasks = monitor.accepted(sent, DEAD_AFTER, now, Sweeps::Lately, silent);
            if tasks.contains(&Task::Learn { worker: "w".into(), seen: seen_ms.to_string() }) {
                monitor.learn("w", false, None);
            }
            tasks.contains(&Task::Recover { worker: "w".into(), seen: seen_ms.to_string() })
        })
    }

    #[test]
    fn a_silent_worker_is_recovered_within_seven_and_a_half_seconds() {
        for phase in 0..15 {
            let mut monitor = Monitor::default();
            let seen = 1_000_000 + phase * 100;
            let beats = beats_until_recovered(&mut monitor, Instant::now(), COUNTS_AT_MOST, seen);
            let after = u64::from(beats.expect("recovered")) * 1_500 + 1_000_000 - seen;
            assert!((5_000..=7_500).contains(&after), "{after}");
        }
    }

    #[test]
    fn a_heartbeat_in_the_future_is_old() {
        let mut monitor = Monitor::default();
        let beats = beats_until_recovered(&mut monitor, Instant::now(), COUNTS_AT_MOST, 99_000_000);
        assert_eq!(beats, Some(2));
    }

    #[test]
    fn nobody_is_declared_dead_over_a_gap_in_our_own_heartbeats() {
        let mut monitor = Monitor::default();
        let gap = Duration::from_millis(2_100);
        assert_eq!(beats_until_recovered(&mut monitor, Instant::now(), gap, 1_000_000), None);
    }

    #[test]
    fn a_missed_heartbeat_begins_the_observation_anew() {
        let mut monitor = Monitor::default();
        let start = Instant::now();
        let silent = || vec![("w".to_owned(), "1".to_owned())];
        for beat in 0..20 {
            let sent = start + COUNTS_AT_MOST * beat;
            let tasks = monitor.accepted(sent, DEAD_AFTER, 1_000_000, Sweeps::Lately, silent());
            monitor.learn("w", false, None);
            assert!(!tasks.iter().any(|task| matches!(task, Task::Recover { .. })));
            if beat % 2 == 1 {
                monitor.missed(false);
            }
        }
    }

    #[test]
    fn after_a_lost_connection_a_worker_is_watched_for_its_whole_dead_after() {
        // A heartbeat in the future is old at once: what is left is for how long it was watched.
        for (connection_lost, beats) in [(false, 2), (true, 4)] {
            let mut monitor = Monitor::default();
            monitor.missed(connection_lost);
            let start = Instant::now();
            let after = beats_until_recovered(&mut monitor, start, COUNTS_AT_MOST, 99_000_000);
            assert_eq!(after, Some(beats), "connection lost: {connection_lost}");
        }
    }

    #[test]
    fn a_worker_has_its_own_dead_after() {
        let mut monitor = Monitor::default();
        let start = Instant::now();
        let first = monitor.accepted(
            start,
            DEAD_AFTER,
            1_000_000,
            Sweeps::Lately,
            vec![("w".into(), "990000".into())],
        );
        assert_eq!(first, [Task::Learn { worker: "w".into(), seen: "990000".into() }]);
        monitor.learn("w", false, Some(Duration::from_secs(60)));
        let recovered = (1..60).find(|beat| {
            let now = 1_000_000 + 1_500 * beat;
            let sent = start + COUNTS_AT_MOST * *beat as u32;
            monitor
                .accepted(
                    sent,
                    DEAD_AFTER,
                    now,
                    Sweeps::Lately,
                    vec![("w".into(), "990000".into())],
                )
                .len()
                == 1
        });
        assert_eq!(recovered, Some(34));
    }

    #[test]
    fn nobody_is_recovered_before_its_record_was_read() {
        let mut monitor = Monitor::default();
        let start = Instant::now();
        for beat in 0..20 {
            let silent = vec![("w".to_owned(), "1".to_owned())];
            let tasks = monitor.accepted(
                start + COUNTS_AT_MOST * beat,
                DEAD_AFTER,
                1_000_000,
                Sweeps::Lately,
                silent,
            );
            assert_eq!(tasks, [Task::Learn { worker: "w".into(), seen: "1".into() }]);
        }
        assert_eq!(monitor.watches_back(1_000_000), Some(Duration::from_millis(999_999)));
    }
}
