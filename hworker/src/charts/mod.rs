//! Charts: how many jobs ended and how, how long they ran and waited, by their types; and how many waited. A worker adds up what it does and
//! writes it every ten seconds into the minute, the ten minutes and the hour of the server's clock: `docs/wire-format.md` has the format.

#[cfg(feature = "metrics")]
mod counts;
mod open;
mod tally;
mod totals;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

pub(crate) use open::{Charts, Counted, Flush, Portion};
pub use tally::{Tally, Times};
#[cfg(feature = "metrics")]
pub(crate) use totals::Counts;
pub(crate) use totals::{Rare, Totals, UNKNOWN};

/// How far back a chart goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Window {
    /// The last hour, by the minute.
    Hour,
    /// The last 24 hours, by ten minutes.
    Day,
    /// The last 30 days, by the hour.
    Month,
}

impl Window {
    /// The time of one point.
    #[must_use]
    pub fn step(self) -> Duration {
        Duration::from_secs(
            60 * match self {
                Self::Hour => 1,
                Self::Day => 10,
                Self::Month => 60,
            },
        )
    }

    /// How many points there are.
    #[must_use]
    pub fn points(self) -> usize {
        match self {
            Self::Hour => 60,
            Self::Day => 144,
            Self::Month => 720,
        }
    }

    /// When the points begin, the oldest first, the last of which is not over yet: in ms since 1970.
    pub(crate) fn begins(self, now: u64) -> impl Iterator<Item = u64> {
        let step = self.step().as_millis() as u64;
        let last = now / step;
        let first = (last + 1).saturating_sub(self.points() as u64);
        (first..=last).map(move |point| point * step)
    }
}

/// What a queue did over a time, point by point. What a worker did in the last ten seconds is not in it yet, and never where the worker was
/// killed; the counters of [`Inspect::statistics`](crate::Inspect::statistics) are exact.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "web", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct Chart {
    /// How long a point is, in ms.
    pub step_ms: u64,
    /// The oldest first; those in which nothing happened too. The last is not over yet.
    pub points: Vec<ChartPoint>,
}

/// One point of a [`Chart`].
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "web", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct ChartPoint {
    /// When it begins, in milliseconds since 1970 by the server's clock.
    pub at: u64,
    /// What the jobs of each type did. Beyond 200 types in a point the others are one, `+other`.
    pub jobs: BTreeMap<String, Tally>,
    /// What there was at the last look within it; none where no worker looked.
    pub gauges: Option<Gauges>,
}

/// What there was on a queue at one time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "web", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct Gauges {
    /// Jobs that waited.
    pub waiting: u64,
    /// Jobs that waited for a time.
    pub scheduled: u64,
    /// Jobs that ran.
    pub running: u64,
    /// Records of failed jobs.
    pub failed: u64,
    /// Workers that served the queue.
    pub workers: u64,
    /// For how many ms the oldest job had waited, among those that were next; 0 where none waited or none says. Nor is it known of a job of
    /// more than 64 KB.
    pub oldest_ms: u64,
    /// How many jobs these workers run at once, of this queue and of others.
    pub slots: u64,
    /// In how many of these slots there was a job of this queue.
    pub busy: u64,
}

impl ChartPoint {
    /// What the jobs of all types did.
    #[must_use]
    pub fn total(&self) -> Tally {
        let mut total = Tally::default();
        for tally in self.jobs.values() {
            total.add(tally);
        }
        total
    }

    /// Reads the fields of a hash.
    pub(crate) fn add(&mut self, field: &str, value: &str) {
        if field == GAUGES {
            if let Some(gauges) = Gauges::read(value) {
                self.gauges = Some(self.gauges.map_or(gauges, |other| other.and(gauges)));
            }
        } else if let Some(tally) = Tally::read(value) {
            self.jobs.entry(field.to_owned()).or_default().add(&tally);
        }
    }
}

/// What a queue did lately: [`Chart::lately`] makes it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Lately {
    /// What the jobs of all types did.
    pub jobs: Tally,
    /// How many ended in a minute.
    pub ended_per_min: f64,
    /// By how many the waiting jobs became more in a minute, or fewer where it is below zero; none where it is not known.
    pub growth_per_min: Option<f64>,
}

impl Lately {
    /// When no job waits any more if all goes on so; none where none waits, or their number does not fall.
    #[must_use]
    pub fn empty_in(&self, waiting: u64) -> Option<Duration> {
        let falls = -self.growth_per_min.filter(|growth| waiting > 0 && *growth < 0.0)?;
        Duration::try_from_secs_f64(waiting as f64 * 60.0 / falls).ok()
    }
}

impl Chart {
    /// What happened in the last points before the one that is not over, and in that; as seen at a time, in ms since 1970, when so many jobs
    /// waited.
    #[must_use]
    pub fn lately(&self, points: usize, now: u64, waiting: u64) -> Lately {
        let from = self.points.len().saturating_sub(points.saturating_add(1));
        let last = &self.points[from..];
        let mut jobs = Tally::default();
        for point in last {
            jobs.add(&point.total());
        }
        let minutes = |since: u64| now.saturating_sub(since).max(1_000) as f64 / 60_000.0;
        let begin = last.iter().find(|point| !point.jobs.is_empty());
        // A look may be from anywhere in its point.
        let looked = last.iter().find_map(|point| Some((point.at, point.gauges?.waiting)));
        let growth = looked
            .map(|(at, before)| (waiting as f64 - before as f64) / minutes(at + self.step_ms / 2));
        Lately {
            ended_per_min: begin.map_or(0.0, |point| jobs.ended() as f64 / minutes(point.at)),
            growth_per_min: growth
                .filter(|_| looked.is_some_and(|(at, _)| at + self.step_ms < now)),
            jobs,
        }
    }
}

/// The field of a hash that has the gauges.
pub(crate) const GAUGES: &str = "+gauges";

impl Gauges {
    pub(crate) fn text(&self) -> String {
        let Self { waiting, scheduled, running, failed, workers, oldest_ms, slots, busy } = self;
        format!("{waiting} {scheduled} {running} {failed} {workers} {oldest_ms} {slots} {busy}")
    }

    fn read(text: &str) -> Option<Self> {
        let mut numbers = text.split(' ').map(|number| number.parse().ok());
        let mut next = || numbers.next().flatten();
        Some(Self {
            waiting: next()?,
            scheduled: next()?,
            running: next()?,
            failed: next()?,
            workers: next()?,
            // Earlier versions did not write these.
            oldest_ms: next().unwrap_or(0),
            slots: next().unwrap_or(0),
            busy: next().unwrap_or(0),
        })
    }

    /// Those of two shards, which the same workers serve.
    fn and(self, other: Self) -> Self {
        let slots = self.slots.max(other.slots);
        Self {
            waiting: self.waiting.saturating_add(other.waiting),
            scheduled: self.scheduled.saturating_add(other.scheduled),
            running: self.running.saturating_add(other.running),
            failed: self.failed.saturating_add(other.failed),
            workers: self.workers.max(other.workers),
            oldest_ms: self.oldest_ms.max(other.oldest_ms),
            slots,
            busy: self.busy.saturating_add(other.busy).min(slots),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_as_many_as_the_window_has_and_end_now() {
        for window in [Window::Hour, Window::Day, Window::Month] {
            let begins: Vec<u64> = window.begins(1_798_761_661_234).collect();
            let step = window.step().as_millis() as u64;
            assert_eq!(begins.len(), window.points());
            assert!(begins.windows(2).all(|two| two[1] - two[0] == step && two[0] % step == 0));
            let last = begins.last().copied().unwrap_or(0);
            assert!(last <= 1_798_761_661_234 && 1_798_761_661_234 < last + step);
        }
        assert_eq!(Window::Hour.begins(0).collect::<Vec<_>>(), [0], "a clock at its begin");
    }

    #[test]
    fn rates_and_when_a_queue_is_empty() {
        let minute = |at: u64, ok: u64, waiting: Option<u64>| {
            let mut point = ChartPoint { at: at * 60_000, ..ChartPoint::default() };
            if ok > 0 {
                point.add("a", &format!("{ok} 0 0 100 0|5:{ok}|"));
            }
            if let Some(waiting) = waiting {
                point.add(GAUGES, &format!("{waiting} 0 0 0 1"));
            }
            point
        };
        let points = vec![
            minute(0, 900, Some(5_000)),
            minute(1, 0, Some(1_000)),
            minute(2, 100, Some(900)),
            minute(3, 100, None),
            minute(4, 50, None),
        ];
        let chart = Chart { step_ms: 60_000, points };
        // From minute 1 on; jobs ended from minute 2 on, and it is the middle of minute 4.
        let lately = chart.lately(3, 270_000, 700);
        assert_eq!((lately.jobs.ok, lately.ended_per_min), (250, 100.0));
        assert_eq!(lately.growth_per_min, Some(-100.0));
        assert_eq!(lately.empty_in(700), Some(Duration::from_secs(420)));
        assert_eq!(lately.empty_in(0), None, "it is empty");
        assert_eq!(chart.lately(3, 270_000, 1_700).empty_in(1_700), None, "they become more");
        let none = Chart { step_ms: 60_000, points: Vec::new() }.lately(5, 0, 3);
        assert_eq!((none.ended_per_min, none.growth_per_min, none.empty_in(3)), (0.0, None, None));
    }

    #[test]
    fn gauges_of_earlier_versions_are_read() {
        let read = |text| Gauges::read(text).expect("gauges");
        let gauges = read("1 2 3 4 5 6000 70 8");
        assert_eq!((gauges.oldest_ms, gauges.slots, gauges.busy), (6000, 70, 8));
        assert_eq!(gauges.text(), "1 2 3 4 5 6000 70 8");
        assert_eq!(read("1 2 3 4 5"), Gauges { oldest_ms: 0, slots: 0, busy: 0, ..gauges });
        let both = gauges.and(read("1 0 69 0 5 9 70 69"));
        assert_eq!((both.workers, both.oldest_ms, both.slots, both.busy), (5, 6000, 70, 70));
    }

    #[test]
    fn what_somebody_wrote_there_is_no_point() {
        let mut point = ChartPoint::default();
        for (name, value) in [("a", "x"), (GAUGES, "1 2"), ("b", ""), ("c", "1 2 3 4 5|1:2|99:1")] {
            point.add(name, value);
        }
        assert_eq!(point, ChartPoint::default());
    }
}
