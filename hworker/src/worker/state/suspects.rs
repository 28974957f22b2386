//! Suspects: jobs that a worker had when it died. Only a few of them run at a time.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::job::Admitted;
use super::slots::Slot;

/// Room for suspects. Only a few run at a time, so that the job that kills its worker is found and its neighbours do not fail with it.
#[derive(Debug)]
pub(crate) struct Suspects {
    places: Arc<Places>,
    /// Suspects that have a place, with their slots. They begin when the server has taken back the other jobs.
    held_back: Mutex<Vec<(Admitted, Option<Slot>)>>,
}

/// What the shards of a queue share.
#[derive(Debug)]
struct Places {
    /// Suspects that are two deaths from failing: the square root of the slots.
    some: Arc<Semaphore>,
    /// How many places `some` has.
    few: usize,
    /// Suspects that are one death from failing: one.
    one: Arc<Semaphore>,
    /// When a suspect was last met.
    met: Mutex<Option<Instant>>,
    /// When a suspect last began.
    began: Mutex<Option<Instant>>,
}

/// How long nothing is fetched ahead after a suspect, or a job that runs at most once, was met: all jobs that a worker holds when it dies
/// become suspects.
const CAUTIOUS_FOR: Duration = Duration::from_secs(10);

/// How long nothing is reserved after a suspect began, while it runs. Other suspects often come back with it, and there may be no room for
/// them. A job that kills its worker mostly does so at once, and would take them along before they are given back.
const ALONE_FOR: Duration = Duration::from_millis(100);

impl Suspects {
    pub(crate) fn new(slots: usize) -> Self {
        let few = slots.isqrt().max(1);
        let places = Places {
            some: Arc::new(Semaphore::new(few)),
            few,
            one: Arc::new(Semaphore::new(1)),
            met: Mutex::default(),
            began: Mutex::default(),
        };
        Self { places: Arc::new(places), held_back: Mutex::default() }
    }

    /// The same places for another shard. Suspects that are held back wait for the settlements of their own shard.
    pub(crate) fn of_another_shard(&self) -> Self {
        Self { places: Arc::clone(&self.places), held_back: Mutex::default() }
    }

    /// Keeps a suspect and its slot until it may begin.
    pub(crate) fn hold_back(&self, job: Admitted, slot: Option<Slot>) {
        self.held_back().push((job, slot));
    }

    /// Takes out the suspects that were kept; they begin now.
    pub(crate) fn begin(&self) -> Vec<(Admitted, Option<Slot>)> {
        let held_back = self.take_held_back();
        if !held_back.is_empty() {
            *self.places.began.lock().unwrap_or_else(PoisonError::into_inner) =
                Some(Instant::now());
        }
        held_back
    }

    /// Frees the slots of the suspects that are kept. They wait for slots again, like all other jobs.
    pub(crate) fn leave_slots(&self) {
        let slots: Vec<_> =
            self.held_back().iter_mut().filter_map(|(_, slot)| slot.take()).collect();
        drop(slots);
    }

    pub(crate) fn take_held_back(&self) -> Vec<(Admitted, Option<Slot>)> {
        std::mem::take(&mut *self.held_back())
    }

    /// Until when nothing is reserved beside a suspect that has just begun or is about to.
    pub(crate) fn alone_until(&self) -> Option<Instant> {
        // Suspects that are kept have their places already.
        let places = &self.places;
        if places.one.available_permits() == 1 && places.some.available_permits() == places.few {
            return None;
        }
        let began = *places.began.lock().unwrap_or_else(PoisonError::into_inner);
        let began = if self.held_back().is_empty() { began? } else { Instant::now() };
        let until = began + ALONE_FOR;
        (Instant::now() < until).then_some(until)
    }

    fn held_back(&self) -> MutexGuard<'_, Vec<(Admitted, Option<Slot>)>> {
        self.held_back.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn note(&self) {
        *self.places.met.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// Whether a suspect was met lately.
    pub(crate) fn cautious(&self) -> bool {
        let met = *self.places.met.lock().unwrap_or_else(PoisonError::into_inner);
        met.is_some_and(|met| met.elapsed() < CAUTIOUS_FOR)
    }

    /// A place for a job with this many crashes, if it needs one.
    pub(crate) fn room_for(
        &self,
        crashes: usize,
        limit: usize,
    ) -> Result<Option<OwnedSemaphorePermit>, ()> {
        if crashes > 1 {
            self.note();
        }
        let class = match limit.saturating_sub(crashes) {
            _ if crashes == 0 => return Ok(None),
            0 | 1 => &self.places.one,
            2 => &self.places.some,
            _ => return Ok(None),
        };
        Arc::clone(class).try_acquire_owned().map(Some).map_err(|_| ())
    }
}
