//! Jobs that this worker has reserved and not started, in the order in which they were taken. The first of them have a
//! slot each; those behind were fetched ahead and wait for one.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::job::Admitted;
use super::slots::{Slot, Slots};
use crate::store::Lease;

/// The waiting jobs of one queue.
#[derive(Debug, Default)]
pub(super) struct Ready {
    waiting: Mutex<Inner>,
    /// How many wait, to be read without the lock.
    count: AtomicUsize,
    added: Notify,
    runners: AtomicUsize,
    /// Of these, those that have nothing to do.
    idle: AtomicUsize,
    /// Slots came with jobs, or for those that wait.
    slotted: Notify,
    /// The foremost has waited too long.
    late: Notify,
    /// A runner runs again, after none had for a while.
    resumed: Notify,
}

/// Jobs are taken for so long after the first that no runner has seen.
const UNSEEN_AT_MOST: Duration = Duration::from_millis(20);

#[derive(Debug, Default)]
struct Inner {
    jobs: VecDeque<Waiting>,
    slots: Vec<Slot>,
    bytes: usize,
    /// When a runner last looked here.
    ran_at: Option<Instant>,
    /// When the first job came since.
    unseen_since: Option<Instant>,
    /// Jobs went back, since no runner ran.
    stalled: bool,
}

/// A job that waits to be started.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) since: Instant,
    pub(super) job: WaitingJob,
}

/// How far it has been looked at.
#[derive(Debug)]
pub(super) enum WaitingJob {
    Reserved(Lease, Vec<u8>),
    Admitted(Admitted),
}

impl WaitingJob {
    pub(super) fn lease(&self) -> &Lease {
        match self {
            Self::Reserved(lease, _) => lease,
            Self::Admitted(admitted) => &admitted.job.lease,
        }
    }

    fn size(&self) -> usize {
        match self {
            Self::Reserved(_, payload) => payload.len(),
            Self::Admitted(admitted) => admitted.job.payload.len(),
        }
    }
}

/// What is to be done next.
pub(super) enum Next {
    /// Start this one.
    Start {
        job: WaitingJob,
        slot: Slot,
        since: Instant,
        /// Another slot has come free.
        freed: bool,
    },
    /// Somebody waits; get a slot for him.
    NeedsSlot,
    Empty,
}

impl Inner {
    /// Takes out the slots for which there is no job.
    fn surplus_slots(&mut self) -> Vec<Slot> {
        let needed = self.jobs.len().min(self.slots.len());
        self.slots.split_off(needed)
    }

    /// Whether runners ran since jobs last came, or those have come lately.
    fn runs_at(&self, now: Instant) -> bool {
        let lately = |since| now.saturating_duration_since(since) < UNSEEN_AT_MOST;
        !self.stalled && self.unseen_since.is_none_or(lately)
    }

    /// A runner looks here. Says whether none had for a while.
    fn is_seen(&mut self, now: Instant) -> bool {
        let resumes = !self.runs_at(now);
        (self.ran_at, self.unseen_since, self.stalled) = (Some(now), None, false);
        resumes
    }
}

impl Ready {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds jobs at the end, and slots for the foremost. Says whether any now waits behind another, or without a slot.
    pub(super) fn push(
        &self,
        jobs: impl IntoIterator<Item = WaitingJob>,
        slots: impl IntoIterator<Item = Slot>,
    ) -> bool {
        let since = Instant::now();
        let mut inner = self.inner();
        for job in jobs {
            inner.bytes += job.size();
            inner.jobs.push_back(Waiting { since, job });
            inner.unseen_since.get_or_insert(since);
        }
        inner.slots.extend(slots);
        let surplus = inner.surplus_slots();
        let jobs = inner.jobs.len();
        let waits = jobs > inner.slots.len().min(1);
        let slotted = !inner.slots.is_empty();
        self.count.store(jobs, Ordering::SeqCst);
        drop(inner);
        drop(surplus);
        if slotted {
            self.slotted.notify_waiters();
        }
        waits
    }

    /// Takes the foremost job, with the given slot or one that is kept here.
    pub(super) fn next(&self, slot: &mut Option<Slot>, now: Instant) -> Next {
        let mut inner = self.inner();
        if inner.is_seen(now) {
            self.resumed.notify_one();
        }
        if inner.jobs.is_empty() {
            return Next::Empty;
        }
        let Some(slot) = slot.take().or_else(|| inner.slots.pop()) else { return Next::NeedsSlot };
        let Some(Waiting { job, since }) = inner.jobs.pop_front() else { return Next::Empty };
        inner.bytes -= job.size();
        // A slot that came from elsewhere sets one of those free.
        let surplus = inner.surplus_slots();
        let left = inner.jobs.len();
        self.count.store(left, Ordering::Release);
        drop(inner);
        let freed = !surplus.is_empty();
        drop(surplus);
        Next::Start { job, slot, since, freed }
    }

    /// Waits for a slot for the foremost job: `None` if one is kept here meanwhile, that came with others. Cancel safe.
    pub(super) async fn slot(&self, slots: &Slots) -> Option<Slot> {
        let slotted = self.slotted.notified();
        tokio::pin!(slotted);
        // Registered before the look, so that a slot that comes between the two is not missed.
        slotted.as_mut().enable();
        if !self.inner().slots.is_empty() {
            return None;
        }
        tokio::select! {
            biased;
            slot = slots.acquire() => slot,
            () = slotted => None,
        }
    }

    /// One more runner takes from here.
    pub(super) fn begin_runner(&self) {
        self.runners.fetch_add(1, Ordering::SeqCst);
    }

    /// Calls a runner to what waits if none is awake, or `another` even so. Says whether one was called.
    pub(super) fn call_runner(&self, another: bool) -> bool {
        let idle = self.idle.load(Ordering::SeqCst);
        let calls = idle > 0 && (another || idle == self.runners.load(Ordering::SeqCst));
        if calls {
            self.added.notify_one();
        }
        calls
    }

    /// Calls every runner if the foremost job has waited so long, those that yield too: bodies may block the others, and their
    /// threads. Says whether it has.
    pub(super) fn call_all_runners(&self, age: Duration) -> bool {
        let waited = self.inner().jobs.front().is_some_and(|job| job.since.elapsed() >= age);
        if waited {
            self.added.notify_waiters();
            self.late.notify_waiters();
        }
        waited
    }

    /// Lets others run, and this thread look after what has arrived; in the meantime only this thread finds the task again, which
    /// the body of another may block, so who calls all runners calls it too.
    pub(super) async fn yield_now(&self) {
        // Else where the task has used up its budget neither would be polled.
        tokio::task::unconstrained(async {
            tokio::select! {
                biased;
                () = tokio::task::yield_now() => {}
                () = self.late.notified() => {}
            }
        })
        .await;
    }

    /// Completes when a runner is called; says whether it waited for that. Not cancel safe: the runner counts as idle for ever.
    pub(super) async fn called(&self) -> bool {
        self.idle.fetch_add(1, Ordering::SeqCst);
        // What was added before this runner counted as idle called nobody.
        let waits = self.is_empty();
        if waits {
            self.added.notified().await;
            if self.inner().is_seen(Instant::now()) {
                self.resumed.notify_one();
            }
        }
        self.idle.fetch_sub(1, Ordering::SeqCst);
        waits
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count() == 0
    }

    /// How many wait.
    pub(super) fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    /// How many wait without a slot, and the bytes of all that wait.
    pub(super) fn ahead(&self) -> (usize, usize) {
        let inner = self.inner();
        (inner.jobs.len() - inner.slots.len(), inner.bytes)
    }

    /// Whether a runner ran since jobs last came, or those have come lately: else a body may block the runtime.
    pub(super) fn are_runners_running(&self) -> bool {
        self.inner().runs_at(Instant::now())
    }

    /// Completes when a runner runs again, after none had for a while. Cancel safe.
    pub(super) async fn resumed(&self) {
        self.resumed.notified().await;
    }

    /// Takes all that wait without a slot out again, if one of them has done so for this long; where `all` is said, and no runner has
    /// run for as long, those that have one too.
    pub(super) fn take_late(&self, age: Duration, all: bool) -> Vec<WaitingJob> {
        let mut inner = self.inner();
        let runs = !all || inner.ran_at.is_some_and(|at| at.elapsed() < age);
        let late = inner.jobs.front().is_some_and(|waiting| waiting.since.elapsed() >= age);
        let first = if runs || !late { inner.slots.len() } else { 0 };
        if inner.jobs.get(first).is_none_or(|waiting| waiting.since.elapsed() < age) {
            return Vec::new();
        }
        let taken: Vec<_> = inner.jobs.drain(first..).map(|waiting| waiting.job).collect();
        inner.bytes -= taken.iter().map(WaitingJob::size).sum::<usize>();
        self.count.store(first, Ordering::Release);
        if first > 0 || runs {
            return taken;
        }
        inner.stalled = true;
        let slots = std::mem::take(&mut inner.slots);
        drop(inner);
        drop(slots);
        // Whoever can run says so, one that is about to wait too.
        self.added.notify_waiters();
        self.added.notify_one();
        taken
    }

    /// Takes everything out again.
    pub(super) fn take_all(&self) -> Vec<WaitingJob> {
        let Inner { jobs, slots, .. } = std::mem::take(&mut *self.inner());
        self.count.store(0, Ordering::Release);
        drop(slots);
        jobs.into_iter().map(|waiting| waiting.job).collect()
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    fn jobs(tokens: std::ops::Range<u64>) -> Vec<WaitingJob> {
        tokens.map(|token| WaitingJob::Reserved(Lease::Token(token), vec![0; 10])).collect()
    }

    fn tokens(jobs: &[WaitingJob]) -> Vec<u64> {
        jobs.iter().map(|job| job.lease().token()).collect()
    }

    #[test]
    fn the_foremost_have_the_slots_and_what_is_too_much_goes_back() {
        let (ready, slots) = (Ready::default(), Slots::new(3));
        assert!(ready.push(jobs(0..4), slots.take(2)), "two wait without a slot");
        assert_eq!((ready.ahead(), ready.count(), slots.free()), ((2, 40), 4, 1));
        let mut kept = slots.try_acquire();
        let mut started = Vec::new();
        for expected in 0..4 {
            match ready.next(&mut kept, Instant::now()) {
                Next::Start { job, slot, .. } => {
                    assert_eq!(job.lease().token(), expected);
                    started.push(slot);
                }
                Next::NeedsSlot => assert_eq!(expected, 3, "all three slots are in use"),
                Next::Empty => panic!("{expected}"),
            }
        }
        started.pop();
        kept = slots.try_acquire();
        assert!(matches!(ready.next(&mut kept, Instant::now()), Next::Start { .. }));
        assert!(matches!(ready.next(&mut kept, Instant::now()), Next::Empty));
        assert!(!ready.push(Vec::new(), slots.take(1)), "no job, so the slot goes back");
        drop(started);
        assert_eq!((slots.free(), ready.ahead()), (3, (0, 0)));
    }

    #[tokio::test]
    async fn one_runner_is_called_and_others_only_if_asked_for_or_late() {
        let ready = Ready::default();
        (0..3).for_each(|_| ready.begin_runner());
        let mut runners: Vec<_> = (0..3).map(|_| Box::pin(ready.called())).collect();
        let waiting = async |runners: &mut Vec<_>| {
            let mut left = Vec::new();
            for mut runner in runners.drain(..) {
                if timeout(Duration::ZERO, &mut runner).await.is_err() {
                    left.push(runner);
                }
            }
            *runners = left;
            runners.len()
        };
        assert_eq!(waiting(&mut runners).await, 3);
        ready.push(jobs(0..5), None);
        assert!(ready.call_runner(false), "none is awake");
        assert_eq!(waiting(&mut runners).await, 2);
        assert!(!ready.call_runner(false), "one is awake");
        assert_eq!(waiting(&mut runners).await, 2);
        assert!(ready.call_runner(true));
        assert_eq!(waiting(&mut runners).await, 1);
        assert!(!ready.call_all_runners(Duration::from_secs(60)));
        assert_eq!(waiting(&mut runners).await, 1, "nothing has waited that long");
        assert!(ready.call_all_runners(Duration::ZERO));
        assert_eq!(waiting(&mut runners).await, 0);
    }

    #[tokio::test]
    async fn a_slot_that_comes_with_others_is_not_waited_for() {
        // Guard: `slotted`.
        let (ready, slots) = (Ready::default(), Slots::new(1));
        let taken: Vec<_> = slots.take(1).collect();
        ready.push(jobs(0..1), None);
        assert!(matches!(ready.next(&mut None, Instant::now()), Next::NeedsSlot));
        let (waited, ()) = tokio::join!(
            timeout(Duration::from_secs(10), ready.slot(&slots)),
            // The other is polled first, and waits.
            async { assert!(!ready.push(Vec::new(), taken)) }
        );
        assert!(matches!(waited, Ok(None)), "it is kept with the job");
        assert!(matches!(ready.next(&mut None, Instant::now()), Next::Start { .. }));
    }

    #[tokio::test]
    async fn that_a_slot_came_free_for_somebody_is_seen_until_he_has_it() {
        // Guard: `freed`, `Slots::are_awaited`: who waits is woken where the body that is started next may block.
        let (ready, slots) = (Ready::default(), Slots::new(2));
        let mut kept = slots.try_acquire();
        ready.push(jobs(0..1), slots.take(1));
        let mut waits = Box::pin(slots.acquire());
        assert!(timeout(Duration::ZERO, &mut waits).await.is_err());
        assert!(matches!(ready.next(&mut kept, Instant::now()), Next::Start { freed: true, .. }));
        assert!(slots.are_awaited());
        assert!(waits.await.is_some());
        assert!(!slots.are_awaited());
        // Who waits for what only his queue lacks is no concern of the others.
        let limited = slots.limited(Some(0));
        let mut waits = Box::pin(limited.acquire());
        assert!(timeout(Duration::ZERO, &mut waits).await.is_err());
        assert_eq!((limited.are_awaited(), slots.are_awaited()), (true, false));
        drop(waits);
        assert!(!limited.are_awaited());
    }

    #[tokio::test]
    async fn who_yields_is_called_where_nobody_looks_after_his_thread() {
        // Guard: `late`: a yielding task is woken by its own thread only.
        let ready = std::sync::Arc::new(Ready::default());
        ready.push(jobs(0..1), None);
        let yields = std::pin::pin!(ready.yield_now());
        let woken = std::sync::Arc::new(Woken::default());
        let waker = std::task::Waker::from(std::sync::Arc::clone(&woken));
        let mut context = std::task::Context::from_waker(&waker);
        assert!(yields.poll(&mut context).is_pending());
        assert!(!woken.0.load(Ordering::SeqCst));
        ready.call_all_runners(Duration::ZERO);
        assert!(woken.0.load(Ordering::SeqCst));
    }

    /// Whether it was woken.
    #[derive(Default)]
    struct Woken(std::sync::atomic::AtomicBool);

    impl std::task::Wake for Woken {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.store(true, Ordering::SeqCst);
        }
    }

    #[test]
    fn what_has_waited_without_a_slot_is_taken_out_with_all_behind_it() {
        let (ready, slots) = (Ready::default(), Slots::new(1));
        ready.push(jobs(0..3), slots.take(1));
        // The first have waited longer than the others by a clock.
        std::thread::sleep(Duration::from_millis(2));
        ready.push(jobs(3..5), None);
        assert!(ready.take_late(Duration::from_secs(60), true).is_empty());
        assert_eq!(tokens(&ready.take_late(Duration::from_millis(1), false)), [1, 2, 3, 4]);
        assert_eq!((ready.count(), ready.ahead()), (1, (0, 10)));
        assert_eq!(tokens(&ready.take_all()), [0]);
        assert_eq!((ready.count(), slots.free()), (0, 1));
    }
}
