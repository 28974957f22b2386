//! Jobs at whose side workers died, a few at a time.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::worker::state::job::Admitted;
use crate::worker::state::slots::Slot;

/// Room for jobs at whose side workers died: few at a time, so that the one that kills is found and its neighbours
/// are not condemned with it.
#[derive(Debug)]
pub(crate) struct Suspects {
    /// Jobs that are two deaths from failing: the square root of the slots.
    some: Arc<Semaphore>,
    /// How many that is.
    few: usize,
    /// Jobs that are one death from failing: one.
    one: Arc<Semaphore>,
    /// Those that have room here, and begin when the server has taken back the others; with their slots.
    held_back: Mutex<Vec<(Admitted, Option<Slot>)>>,
    /// When one was last met.
    met: Arc<Mutex<Option<Instant>>>,
    /// When one last began.
    began: Arc<Mutex<Option<Instant>>>,
}

/// So long after a suspect, or a job that runs at most once, was met nothing is fetched ahead: what this worker holds when it dies is under suspicion too.
const CAUTIOUS_FOR: Duration = Duration::from_secs(10);

/// And so long after one began nothing is taken at all while it runs. Other suspects often come back with it, for which there may be no room;
/// most of what kills its worker does so at once, and would take them along before they are given back.
const ALONE_FOR: Duration = Duration::from_millis(100);

impl Suspects {
    pub(crate) fn new(slots: usize) -> Self {
        let few = slots.isqrt().max(1);
        Self {
            some: Arc::new(Semaphore::new(few)),
            few,
            one: Arc::new(Semaphore::new(1)),
            held_back: Mutex::default(),
            met: Arc::default(),
            began: Arc::default(),
        }
    }

    /// The same places; what is held back waits for the settlements of its own shard.
    pub(crate) fn of_another_shard(&self) -> Self {
        Self {
            some: Arc::clone(&self.some),
            few: self.few,
            one: Arc::clone(&self.one),
            held_back: Mutex::default(),
            met: Arc::clone(&self.met),
            began: Arc::clone(&self.began),
        }
    }

    /// Keeps a job, and its slot, until it may begin.
    pub(crate) fn hold_back(&self, job: Admitted, slot: Option<Slot>) {
        self.held_back().push((job, slot));
    }

    /// Those that were kept: they begin now.
    pub(crate) fn begin(&self) -> Vec<(Admitted, Option<Slot>)> {
        let held_back = self.take_held_back();
        if !held_back.is_empty() {
            *self.began.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        }
        held_back
    }

    /// Those that are kept wait for one again, with all others.
    pub(crate) fn leave_slots(&self) {
        let slots: Vec<_> =
            self.held_back().iter_mut().filter_map(|(_, slot)| slot.take()).collect();
        drop(slots);
    }

    /// Takes out those that were kept.
    pub(crate) fn take_held_back(&self) -> Vec<(Admitted, Option<Slot>)> {
        std::mem::take(&mut *self.held_back())
    }

    /// Until when nothing is to be taken beside one that has just begun, or is about to.
    pub(crate) fn alone_until(&self) -> Option<Instant> {
        // Those that are kept have their places already.
        if self.one.available_permits() == 1 && self.some.available_permits() == self.few {
            return None;
        }
        let began = *self.began.lock().unwrap_or_else(PoisonError::into_inner);
        let began = if self.held_back().is_empty() { began? } else { Instant::now() };
        let until = began + ALONE_FOR;
        (Instant::now() < until).then_some(until)
    }

    fn held_back(&self) -> MutexGuard<'_, Vec<(Admitted, Option<Slot>)>> {
        self.held_back.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One was met.
    pub(crate) fn note(&self) {
        *self.met.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// Whether one was met lately.
    pub(crate) fn cautious(&self) -> bool {
        let met = *self.met.lock().unwrap_or_else(PoisonError::into_inner);
        met.is_some_and(|met| met.elapsed() < CAUTIOUS_FOR)
    }

    /// A place for a job with so many crashes, where it needs one.
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
            0 | 1 => &self.one,
            2 => &self.some,
            _ => return Ok(None),
        };
        Arc::clone(class).try_acquire_owned().map(Some).map_err(|_| ())
    }
}
