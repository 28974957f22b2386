//! What jobs of one type did: counts, and how long they ran and waited.

use std::time::Duration;

use serde::Serialize;

/// The upper bounds of a histogram in ms; what is longer goes to a last part without a bound.
const BOUNDS: [u64; 21] = [
    1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000, 120_000,
    300_000, 600_000, 1_800_000, 3_600_000, 21_600_000,
];

/// What jobs did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "web", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct Tally {
    /// Jobs that succeeded.
    pub ok: u64,
    /// Attempts that did not, and after which the job was tried again.
    pub retried: u64,
    /// Jobs that failed for good.
    pub failed: u64,
    /// How long the bodies of all of these ran.
    pub run: Times,
    /// How long they had waited since they were enqueued, due, or to be tried again.
    pub wait: Times,
}

/// How long something took, many times.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "web", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct Times {
    /// In all, in ms.
    pub sum_ms: u64,
    /// How many took at most 1, 2, 5, 10, 20, 50, 100, 200 or 500 ms, 1, 2, 5, 10 or 30 s, 1, 2, 5, 10 or 30 min, 1 or 6 h, and how many more,
    /// but no less than the bound before.
    pub counts: [u64; 22],
}

impl Tally {
    /// How many ended, in whatever way.
    #[must_use]
    pub fn ended(&self) -> u64 {
        self.ok.saturating_add(self.retried).saturating_add(self.failed)
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.ok = self.ok.saturating_add(other.ok);
        self.retried = self.retried.saturating_add(other.retried);
        self.failed = self.failed.saturating_add(other.failed);
        self.run.add(&other.run);
        self.wait.add(&other.wait);
    }

    /// What is left without that.
    #[cfg(feature = "metrics")]
    pub(super) fn subtract(&mut self, other: &Self) {
        self.ok = self.ok.saturating_sub(other.ok);
        self.retried = self.retried.saturating_sub(other.retried);
        self.failed = self.failed.saturating_sub(other.failed);
        self.run.subtract(&other.run);
        self.wait.subtract(&other.wait);
    }

    /// As it stands in a hash: counts, sums in ms, and of each histogram `<part>:<count>` of those that are not empty.
    pub(crate) fn text(&self) -> String {
        let Self { ok, retried, failed, run, wait } = self;
        format!(
            "{ok} {retried} {failed} {} {}|{}|{}",
            run.sum_ms,
            wait.sum_ms,
            run.text(),
            wait.text()
        )
    }

    /// `None` for what is none: whoever wrote it.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let mut parts = text.split('|');
        let mut numbers = parts.next()?.split(' ').map(|number| number.parse().ok());
        let mut next = || numbers.next().flatten();
        let mut tally = Self { ok: next()?, retried: next()?, failed: next()?, ..Self::default() };
        (tally.run.sum_ms, tally.wait.sum_ms) = (next()?, next()?);
        tally.run.read(parts.next()?)?;
        tally.wait.read(parts.next()?)?;
        Some(tally)
    }
}

impl Times {
    pub(crate) fn took(&mut self, ms: u64) {
        self.sum_ms = self.sum_ms.saturating_add(ms);
        self.counts[BOUNDS.partition_point(|bound| *bound < ms)] += 1;
    }

    /// How many there were.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// The mean; `None` where there were none.
    #[must_use]
    pub fn mean(&self) -> Option<Duration> {
        self.sum_ms.checked_div(self.count()).map(Duration::from_millis)
    }

    /// The time within which this part of them ended, 0.95 for the 95th percentile: about, as it is taken between the bounds of the histogram.
    /// `None` where there were none.
    #[must_use]
    pub fn quantile(&self, part: f64) -> Option<Duration> {
        let all = self.count();
        if all == 0 {
            return None;
        }
        let rank = (part.clamp(0.0, 1.0) * all as f64).max(1.0);
        let mut below = 0.0;
        for (at, count) in self.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let count = *count as f64;
            if below + count >= rank {
                let from = at.checked_sub(1).map_or(0, |before| BOUNDS[before]) as f64;
                // Nothing bounds the last: what is in it took at least so long.
                let to = BOUNDS.get(at).map_or(from, |bound| *bound as f64);
                let ms = from + (to - from) * (rank - below) / count;
                return Some(Duration::from_micros((ms * 1_000.0) as u64));
            }
            below += count;
        }
        None
    }

    fn add(&mut self, other: &Self) {
        self.sum_ms = self.sum_ms.saturating_add(other.sum_ms);
        for (own, other) in self.counts.iter_mut().zip(other.counts) {
            *own = own.saturating_add(other);
        }
    }

    #[cfg(feature = "metrics")]
    pub(super) fn subtract(&mut self, other: &Self) {
        self.sum_ms = self.sum_ms.saturating_sub(other.sum_ms);
        for (own, other) in self.counts.iter_mut().zip(other.counts) {
            *own = own.saturating_sub(other);
        }
    }

    /// The parts of the histogram: the upper bound of each, where a second has so many of its units, and how many are in it.
    #[cfg(feature = "metrics")]
    pub(crate) fn parts(&self, of_a_second: f64) -> impl Iterator<Item = (f64, u64)> {
        let bounds = BOUNDS.iter().map(move |bound| *bound as f64 / of_a_second);
        bounds.chain([f64::INFINITY]).zip(self.counts)
    }

    fn text(&self) -> String {
        let filled = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        filled.map(|(at, count)| format!("{at}:{count}")).collect::<Vec<_>>().join(" ")
    }

    fn read(&mut self, text: &str) -> Option<()> {
        for filled in text.split(' ').filter(|filled| !filled.is_empty()) {
            let (at, count) = filled.split_once(':')?;
            *self.counts.get_mut(at.parse::<usize>().ok()?)? = count.parse().ok()?;
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mut tally = Tally { ok: 3, retried: 1, ..Tally::default() };
        for ms in [0, 1, 3, 25_000_000] {
            tally.run.took(ms);
        }
        tally.wait.took(7);
        assert_eq!(tally.text(), "3 1 0 25000004 7|0:2 2:1 21:1|3:1");
        assert_eq!(Tally::read(&tally.text()), Some(tally.clone()));
        let mut twice = tally.clone();
        twice.add(&tally);
        assert_eq!((twice.ok, twice.run.count(), twice.run.sum_ms), (6, 8, 50_000_008));
        for wrong in ["", "1 2 3", "1 2 3 4 5", "1 2 3 4 5|22:1|", "1 2 3 4 5|x|", "-1 2 3 4 5||"] {
            assert_eq!(Tally::read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn quantiles_are_taken_between_bounds() {
        let mut times = Times::default();
        assert_eq!((times.quantile(0.5), times.mean()), (None, None));
        for _ in 0..100 {
            times.took(40);
        }
        assert_eq!(times.quantile(0.5), Some(Duration::from_millis(35)));
        assert_eq!(times.quantile(1.0), Some(Duration::from_millis(50)));
        assert_eq!(times.mean(), Some(Duration::from_millis(40)));
        times.took(u64::MAX);
        assert_eq!(times.quantile(1.0), Some(Duration::from_secs(21_600)));
        assert_eq!(times.quantile(f64::NAN), times.quantile(0.0).or(times.quantile(f64::NAN)));
    }
}
