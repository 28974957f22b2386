//! How much a worker remembers of what it has settled: all its queues, and shards of them, together.

use std::ops::AddAssign;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Settlements of one worker, at most.
const SETTLEMENTS: usize = 100_000;

/// And their bytes, at most.
pub(super) const BYTES: usize = 32 * 1024 * 1024;

/// What the lanes of a worker remember together. Each keeps an equal share, besides what was settled last, and more while all of it
/// fits: one busy queue beside idle ones remembers as much as one alone.
#[derive(Debug)]
pub(super) struct Remembered {
    lanes: usize,
    settlements: AtomicUsize,
    bytes: AtomicUsize,
}

/// What one lane remembers.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Amount {
    pub(super) settlements: usize,
    pub(super) bytes: usize,
}

impl AddAssign for Amount {
    fn add_assign(&mut self, more: Self) {
        self.settlements += more.settlements;
        self.bytes += more.bytes;
    }
}

impl Remembered {
    pub(super) fn by(lanes: usize) -> Self {
        let (settlements, bytes) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Self { lanes: lanes.max(1), settlements, bytes }
    }

    /// A lane remembers so much more.
    pub(super) fn add(&self, own: &mut Amount, more: Amount) {
        *own += more;
        self.settlements.fetch_add(more.settlements, Ordering::Relaxed);
        self.bytes.fetch_add(more.bytes, Ordering::Relaxed);
    }

    /// A lane remembers so much less.
    pub(super) fn remove(&self, own: &mut Amount, less: Amount) {
        own.settlements -= less.settlements;
        own.bytes -= less.bytes;
        self.settlements.fetch_sub(less.settlements, Ordering::Relaxed);
        self.bytes.fetch_sub(less.bytes, Ordering::Relaxed);
    }

    /// Whether a lane may keep what it has.
    pub(super) fn fits(&self, own: Amount) -> bool {
        let fits = |own: usize, all: &AtomicUsize, most: usize| {
            own <= most / self.lanes || all.load(Ordering::Relaxed) <= most
        };
        fits(own.settlements, &self.settlements, SETTLEMENTS) && fits(own.bytes, &self.bytes, BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_lane_keeps_more_than_its_share_until_others_need_theirs() {
        let all = Remembered::by(4);
        let settled = |settlements| Amount { settlements, bytes: 100 * settlements };
        let (mut busy, mut other) = (Amount::default(), Amount::default());
        all.add(&mut busy, settled(SETTLEMENTS));
        assert!(all.fits(busy), "nobody else needs it");
        all.add(&mut other, settled(SETTLEMENTS / 4));
        assert!(all.fits(other) && !all.fits(busy), "one has its share, one has more");
        all.remove(&mut busy, settled(SETTLEMENTS / 4));
        assert!(all.fits(busy));
        all.add(&mut other, settled(1));
        assert!(!all.fits(other) && !all.fits(busy), "both have more");
        all.remove(&mut other, settled(1));
        all.add(&mut other, Amount { settlements: 0, bytes: BYTES });
        assert!(!all.fits(other), "so it is with bytes");
    }
}
