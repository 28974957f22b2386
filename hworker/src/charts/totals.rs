//! What a worker did since it was built, over all its sessions. The charts take what is counted away from time to time; this only grows.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::tally::{Tally, Times};

/// In place of the name of a job type, where it is not known or none of this program: anybody may have written it. No type is called so.
pub(crate) const UNKNOWN: &str = "+unknown";

/// What jobs of one queue, or of one shard, did since it was last taken away: by the name of the type. Those of a program are few, and
/// their names are the same text each time.
pub(crate) type Open = Mutex<Vec<(&'static str, Tally)>>;

/// The totals of a worker.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    queues: Mutex<BTreeMap<Arc<str>, Arc<OfQueue>>>,
    calls: Mutex<Times>,
    fenced: AtomicU64,
    /// What was given to the recorder of the program.
    #[cfg(feature = "metrics")]
    pub(super) told: Mutex<Counts>,
}

/// What a worker did, in all or since the last time.
#[cfg(feature = "metrics")]
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// By queue and job type.
    pub(crate) queues: BTreeMap<Arc<str>, BTreeMap<&'static str, OfType>>,
    /// How long calls that settle and reserve took, in tenths of a ms where others are in ms.
    pub(crate) calls: Times,
    /// How often the server no longer knew the worker.
    pub(crate) fenced: u64,
}

/// The totals of a queue with all its shards.
#[derive(Debug, Default)]
pub(crate) struct OfQueue(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    jobs: BTreeMap<&'static str, OfType>,
    /// What is counted and not in `jobs` yet.
    open: Vec<Arc<Open>>,
}

/// The totals of a job type.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct OfType {
    pub(crate) tally: Tally,
    pub(super) rare: [u64; Rare::COUNT],
}

/// What becomes of a job now and then. It is counted where it is logged, not on the path of every job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rare {
    /// Its payload cannot run.
    Broken,
    Cancelled,
    Expired,
    /// Put aside for a worker that can run it.
    Parked,
    /// Taken back from a dead worker.
    Recovered,
    /// Its lease was gone when it ended: another worker has it, or an answer was lost.
    Stale,
}

impl Rare {
    const COUNT: usize = Self::Stale as usize + 1;
}

impl Totals {
    /// Those of a queue.
    pub(crate) fn queue(&self, name: &Arc<str>) -> Arc<OfQueue> {
        Arc::clone(lock(&self.queues).entry(Arc::clone(name)).or_default())
    }

    #[cfg(feature = "metrics")]
    pub(super) fn queues(&self) -> BTreeMap<Arc<str>, Arc<OfQueue>> {
        lock(&self.queues).clone()
    }

    /// A call that settles or reserves was answered after so long.
    pub(crate) fn called(&self, took: Duration) {
        let tenths_of_ms = (took.as_micros() + 50) / 100;
        lock(&self.calls).took(u64::try_from(tenths_of_ms).unwrap_or(u64::MAX));
    }

    #[cfg(feature = "metrics")]
    pub(super) fn calls(&self) -> Times {
        lock(&self.calls).clone()
    }

    /// The server no longer knew the worker, and gave its jobs to others.
    pub(crate) fn was_fenced(&self) {
        self.fenced.fetch_add(1, Ordering::Relaxed);
    }

    #[cfg(feature = "metrics")]
    pub(super) fn fenced(&self) -> u64 {
        self.fenced.load(Ordering::Relaxed)
    }
}

impl OfQueue {
    /// There may be jobs of these types: a rise from 0 is seen where there was a 0.
    pub(crate) fn expect(&self, types: impl Iterator<Item = &'static str>) {
        let mut state = self.state();
        for job in types {
            state.jobs.entry(job).or_default();
        }
    }

    /// This became of so many jobs of a type.
    pub(crate) fn add(&self, job: &'static str, what: Rare, count: u64) {
        if count > 0 {
            let mut state = self.state();
            let so_far = &mut state.jobs.entry(job).or_default().rare[what as usize];
            *so_far = so_far.saturating_add(count);
        }
    }

    /// Where a consumer of the queue counts.
    pub(super) fn open(&self) -> Arc<Open> {
        let open = Arc::default();
        self.state().open.push(Arc::clone(&open));
        open
    }

    /// Takes away what was counted there. It is in the totals in the same step, so that no look misses it or finds it twice.
    pub(super) fn take(&self, open: &Open) -> Vec<(&'static str, Tally)> {
        self.state().take(open)
    }

    /// Nothing is counted there any more.
    pub(super) fn close(&self, open: &Arc<Open>) {
        let mut state = self.state();
        state.take(open);
        state.open.retain(|other| !Arc::ptr_eq(other, open));
    }

    /// All that was counted.
    #[cfg(feature = "metrics")]
    pub(super) fn read(&self) -> BTreeMap<&'static str, OfType> {
        let state = self.state();
        let mut jobs = state.jobs.clone();
        for open in &state.open {
            for (job, tally) in &*lock(open) {
                jobs.entry(job).or_default().tally.add(tally);
            }
        }
        jobs
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.0)
    }
}

impl State {
    fn take(&mut self, open: &Open) -> Vec<(&'static str, Tally)> {
        let jobs = std::mem::take(&mut *lock(open));
        for (job, tally) in &jobs {
            self.jobs.entry(job).or_default().tally.add(tally);
        }
        jobs
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
