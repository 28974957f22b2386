//! Room for bodies: the slots of the worker, which its queues share, and the limit of a queue if it has one.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;
use tokio::task::unconstrained;

use crate::config::Share;

/// The slots as one queue sees them. While several queues want slots, each gets its share; one that waits is served before one that comes,
/// so no queue starves another of its rank. Clones, one for each shard of the queue, are the same slots.
#[derive(Debug)]
pub(crate) struct Slots {
    all: Arc<Places>,
    /// Of the queue among all places.
    lane: usize,
    own: Option<Arc<Places>>,
    limit: usize,
    /// Whether this shard has jobs that wait for room.
    has_backlog: AtomicBool,
}

/// One slot; dropping it makes room for the next body.
#[derive(Debug)]
pub(crate) struct Slot {
    _own: Option<Permit>,
    _all: Permit,
}

/// A limited number of permits, and who waits for one.
#[derive(Debug)]
struct Places {
    state: Mutex<State>,
    /// How many tasks wait. It counts a task until that has its permit.
    waiting: AtomicUsize,
    /// How many permits there are.
    count: AtomicUsize,
    /// How many of those that are held will not be given again.
    owed: AtomicUsize,
}

#[derive(Debug)]
struct State {
    free: usize,
    /// All lanes are alike.
    is_plain: bool,
    lanes: Vec<Lane>,
    last_ticket: u64,
    /// The virtual time: as far as the lanes have come that get permits.
    now: u64,
}

/// A queue that takes from the same places. Which of several is next is said by stride scheduling (Waldspurger and Weihl, 1995): each
/// permit moves a lane on by a step that is the smaller, the larger its weight is, and the one that is least far is next.
#[derive(Debug)]
struct Lane {
    share: Share,
    own: Option<Arc<Places>>,
    passed: u64,
    /// How many shards have jobs that wait for room.
    backlogs: usize,
    /// Each with its ticket, which counts up over all lanes.
    waiting: VecDeque<(u64, oneshot::Sender<Permit>)>,
}

/// Dropping it gives it back.
#[derive(Debug)]
struct Permit(Arc<Places>);

/// The step of a lane of weight 1.
const STEP: u64 = 1 << 32;

impl Clone for Slots {
    fn clone(&self) -> Self {
        Self {
            all: Arc::clone(&self.all),
            lane: self.lane,
            own: self.own.clone(),
            limit: self.limit,
            has_backlog: AtomicBool::new(false),
        }
    }
}

impl Slots {
    /// All slots of a worker.
    pub(crate) fn new(concurrency: usize) -> Self {
        let all = Arc::new(Places::new(concurrency));
        let lane = all.add_lane(Share::default(), None);
        Self { all, lane, own: None, limit: usize::MAX, has_backlog: AtomicBool::new(false) }
    }

    /// The same slots for one queue: its share, and at most this many at once.
    pub(crate) fn of_queue(&self, share: Share, limit: Option<usize>) -> Self {
        let own = limit.map(|limit| {
            let own = Arc::new(Places::new(limit));
            own.add_lane(Share::default(), None);
            own
        });
        Self {
            lane: self.all.add_lane(share, own.clone()),
            all: Arc::clone(&self.all),
            limit: limit.unwrap_or(usize::MAX),
            own,
            has_backlog: AtomicBool::new(false),
        }
    }

    pub(crate) fn total(&self) -> usize {
        self.all.count.load(Ordering::Relaxed).min(self.limit)
    }

    /// Gives the worker so many slots in all. What runs beyond them runs to its end.
    pub(crate) fn resize(&self, count: usize) {
        Places::resize(&self.all, count);
    }

    /// How many it could take now.
    pub(crate) fn free(&self) -> usize {
        let own = self.own.as_ref().map_or(usize::MAX, |own| own.state().free);
        self.all.state().free_for(self.lane).min(own)
    }

    /// How many of all slots of the worker are held, and how many are free. Held ones may be more than it has, after it was scaled down.
    #[cfg(feature = "metrics")]
    pub(crate) fn usage(&self) -> (usize, usize) {
        let state = self.all.state();
        let (count, owed) =
            (self.all.count.load(Ordering::Relaxed), self.all.owed.load(Ordering::Relaxed));
        (count.saturating_sub(state.free) + owed, state.free)
    }

    /// Whether all of them are free.
    pub(crate) fn are_all_free(&self) -> bool {
        let own = self.own.as_ref().map_or(usize::MAX, |own| own.state().free);
        self.all.state().free.min(own) >= self.total()
    }

    /// Whether a task waits for a slot that this queue uses, and would get it. A free slot wakes the task, which counts as waiting until it
    /// has the slot.
    pub(crate) fn are_awaited(&self) -> bool {
        let own = self.own.as_ref();
        self.all.are_awaited() || self.all.owes() || own.is_some_and(|own| own.are_awaited())
    }

    /// Whether a slot of this queue that comes free goes to its next job, by its share, while other queues wait for one. Queues that are
    /// alike take turns.
    pub(crate) fn keeps_its_turn(&self) -> bool {
        let is_full = self.own.as_ref().is_some_and(|own| own.are_awaited());
        !is_full && !self.all.owes() && self.all.state().keeps_turn(self.lane)
    }

    /// Says whether this shard has jobs that wait for room: queues of lower ranks get none then.
    pub(crate) fn set_backlog(&self, has_backlog: bool) {
        if self.has_backlog.swap(has_backlog, Ordering::Relaxed) != has_backlog {
            let mut state = self.all.state();
            state.begins_to_want(self.lane);
            let lane = &mut state.lanes[self.lane];
            lane.backlogs = if has_backlog { lane.backlogs + 1 } else { lane.backlogs - 1 };
            Places::hand_out(&self.all, state);
        }
    }

    /// Waits for a free slot. Never `None`: the places last as long as this. Cancel safe.
    pub(crate) async fn acquire(&self) -> Option<Slot> {
        let own = match &self.own {
            Some(own) => Some(own.acquire(0).await?),
            None => None,
        };
        let slot = Slot { _own: own, _all: self.all.acquire(self.lane).await? };
        self.was_taken();
        Some(slot)
    }

    /// A slot that is free right now.
    pub(crate) fn try_acquire(&self) -> Option<Slot> {
        let own = match &self.own {
            Some(own) => Some(own.try_acquire(0)?),
            None => None,
        };
        let slot = Slot { _own: own, _all: self.all.try_acquire(self.lane)? };
        self.was_taken();
        Some(slot)
    }

    /// With its last own slot a queue gives way to those of lower ranks.
    fn was_taken(&self) {
        if self.own.is_some() {
            Places::hand_out(&self.all, self.all.state());
        }
    }

    /// Up to this many slots that are free right now.
    pub(crate) fn take(&self, at_most: usize) -> impl Iterator<Item = Slot> {
        (0..at_most).map_while(|_| self.try_acquire())
    }
}

impl Places {
    fn new(count: usize) -> Self {
        let state =
            State { free: count, is_plain: true, lanes: Vec::new(), last_ticket: 0, now: 0 };
        Self {
            state: Mutex::new(state),
            waiting: AtomicUsize::new(0),
            count: AtomicUsize::new(count),
            owed: AtomicUsize::new(0),
        }
    }

    fn add_lane(&self, share: Share, own: Option<Arc<Self>>) -> usize {
        let mut state = self.state();
        let lane = Lane { share, own, passed: 0, backlogs: 0, waiting: VecDeque::new() };
        state.is_plain &= share == Share::default();
        state.lanes.push(lane);
        state.lanes.len() - 1
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn owes(&self) -> bool {
        self.owed.load(Ordering::Relaxed) > 0
    }

    fn resize(places: &Arc<Self>, count: usize) {
        let mut state = places.state();
        let before = places.count.swap(count, Ordering::Relaxed);
        let owed = places.owed.load(Ordering::Relaxed);
        if count >= before {
            let paid = owed.min(count - before);
            places.owed.store(owed - paid, Ordering::Relaxed);
            state.free += count - before - paid;
        } else {
            let taken = state.free.min(before - count);
            places.owed.store(owed + before - count - taken, Ordering::Relaxed);
            state.free -= taken;
        }
        Self::hand_out(places, state);
    }

    fn are_awaited(&self) -> bool {
        self.waiting.load(Ordering::SeqCst) > 0
    }

    async fn acquire(self: &Arc<Self>, lane: usize) -> Option<Permit> {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let _waits = Waits(&self.waiting);
        let handed = {
            let mut state = self.state();
            let (give, handed) = oneshot::channel();
            state.begins_to_want(lane);
            state.last_ticket += 1;
            let ticket = state.last_ticket;
            state.lanes[lane].waiting.push_back((ticket, give));
            Self::hand_out(self, state);
            handed
        };
        // Otherwise a task that has used up its budget would get its permit and not know it.
        unconstrained(handed).await.ok()
    }

    fn try_acquire(self: &Arc<Self>, lane: usize) -> Option<Permit> {
        let mut state = self.state();
        // A task that waits while a permit is free may not have it.
        if state.free_for(lane) == 0 {
            return None;
        }
        if state.is_plain {
            // Turns are only among those who wait.
            state.free -= 1;
        } else {
            state.begins_to_want(lane);
            state.grant(lane);
        }
        Some(Permit(Arc::clone(self)))
    }

    /// Gives the free permits to those who wait, in their turn.
    fn hand_out(places: &Arc<Self>, mut state: MutexGuard<'_, State>) {
        // Most of the time nobody waits.
        if !places.are_awaited() {
            return;
        }
        // Dropped when the state is free: one whose task has gone comes back.
        let mut not_taken = Vec::new();
        while state.free > 0 {
            let Some(lane) = state.next() else { break };
            let Some((_, give)) = state.lanes[lane].waiting.pop_front() else { break };
            if give.is_closed() {
                continue;
            }
            state.grant(lane);
            not_taken.extend(give.send(Permit(Arc::clone(places))).err());
        }
        drop(state);
    }
}

impl State {
    /// Whether a queue of a higher rank has jobs that wait for room, and room of its own.
    fn is_blocked(&self, lane: usize) -> bool {
        let rank = self.lanes[lane].share.rank;
        self.lanes.iter().any(|other| other.share.rank < rank && other.wants())
    }

    /// How many of the free permits a lane may take: where weights differ, those that are its own among the lanes that want some.
    fn free_for(&self, lane: usize) -> usize {
        if self.free == 0 || self.is_plain {
            return self.free;
        }
        if self.is_blocked(lane) {
            return 0;
        }
        let of_it = &self.lanes[lane];
        let others = |other: &&Lane| other.share.rank == of_it.share.rank && other.wants();
        let is_weighted = self.lanes.iter().any(|lane| lane.share.weight != 1);
        if !is_weighted || self.lanes.iter().filter(others).all(|other| std::ptr::eq(other, of_it))
        {
            return self.free;
        }
        let mut turns: Vec<_> = (self.lanes.iter().enumerate())
            .filter(|(at, other)| *at == lane || others(other))
            .map(|(at, other)| (other.passed, at))
            .collect();
        let mut own = 0;
        for _ in 0..self.free {
            let Some(next) = turns.iter_mut().min() else { break };
            next.0 += self.lanes[next.1].step();
            own += usize::from(next.1 == lane);
        }
        own
    }

    /// Before a lane wants a permit: one that wanted none for a while has no claim to what it left out.
    fn begins_to_want(&mut self, lane: usize) {
        if !self.lanes[lane].wants() {
            self.lanes[lane].passed = self.lanes[lane].passed.max(self.now);
        }
    }

    /// Of lanes that are alike the one that waits longest is next.
    fn turn(&self, lane: usize) -> (usize, u64, u64) {
        let of_it = &self.lanes[lane];
        let passed = if self.is_plain { 0 } else { of_it.passed };
        (of_it.share.rank, passed, of_it.first_ticket())
    }

    fn awaited(&self) -> impl Iterator<Item = usize> {
        (0..self.lanes.len()).filter(|lane| self.lanes[*lane].is_awaited())
    }

    /// The lane that gets the next permit.
    fn next(&self) -> Option<usize> {
        let waiting = self.awaited();
        waiting.filter(|lane| self.free_for(*lane) > 0).min_by_key(|lane| self.turn(*lane))
    }

    /// Whether this lane, which has had a permit, is still before all that wait. Moves it on then.
    fn keeps_turn(&mut self, lane: usize) -> bool {
        let keeps = !self.is_plain
            && !self.lanes[lane].is_awaited()
            && !self.is_blocked(lane)
            && self.awaited().all(|other| self.turn(lane) < self.turn(other));
        if keeps {
            self.move_on(lane);
        }
        keeps
    }

    fn grant(&mut self, lane: usize) {
        self.free -= 1;
        self.move_on(lane);
    }

    fn move_on(&mut self, lane: usize) {
        let lane = &mut self.lanes[lane];
        self.now = self.now.max(lane.passed);
        // One without jobs only looks.
        if lane.backlogs > 0 {
            lane.passed += lane.step();
        }
    }
}

impl Lane {
    fn step(&self) -> u64 {
        STEP / u64::from(self.share.weight.max(1))
    }

    fn is_awaited(&self) -> bool {
        self.waiting.iter().any(|(_, give)| !give.is_closed())
    }

    fn first_ticket(&self) -> u64 {
        let mut live = self.waiting.iter().filter(|(_, give)| !give.is_closed());
        live.next().map_or(u64::MAX, |(ticket, _)| *ticket)
    }

    fn wants(&self) -> bool {
        let has_room = || self.own.as_ref().is_none_or(|own| own.state().free > 0);
        self.is_awaited() || self.backlogs > 0 && has_room()
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut state = self.0.state();
        let owed = self.0.owed.load(Ordering::Relaxed);
        if owed > 0 {
            self.0.owed.store(owed - 1, Ordering::Relaxed);
            return;
        }
        state.free += 1;
        Places::hand_out(&self.0, state);
    }
}

/// Counts one waiting task until it is dropped.
struct Waits<'a>(&'a AtomicUsize);

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        self.set_backlog(false);
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::{Pin, pin};
    use std::task::Poll;

    use super::*;

    type Acquire<'a> = Pin<Box<dyn Future<Output = Option<Slot>> + 'a>>;

    fn of_queue(slots: &Slots, rank: usize, weight: u32, limit: Option<usize>) -> Slots {
        slots.of_queue(Share { rank, weight }, limit)
    }

    async fn now(acquire: &mut Acquire<'_>) -> Option<Slot> {
        poll_fn(|context| match acquire.as_mut().poll(context) {
            Poll::Ready(slot) => Poll::Ready(slot),
            Poll::Pending => Poll::Ready(None),
        })
        .await
    }

    /// How many slots each queue gets, while all wait for the one that there is.
    async fn served(queues: &[Slots], times: usize) -> Vec<usize> {
        let mut waits: Vec<Acquire<'_>> = Vec::new();
        for queue in queues {
            queue.set_backlog(true);
        }
        let mut held = queues[0].try_acquire();
        for queue in queues {
            waits.push(Box::pin(queue.acquire()));
        }
        for wait in &mut waits {
            assert!(now(wait).await.is_none());
        }
        let mut served = vec![0; queues.len()];
        for _ in 0..times {
            held = None;
            for (at, wait) in waits.iter_mut().enumerate() {
                if let Some(slot) = now(wait).await {
                    assert!(held.is_none(), "there is one slot");
                    held = Some(slot);
                    served[at] += 1;
                    *wait = Box::pin(queues[at].acquire());
                    assert!(now(wait).await.is_none());
                }
            }
            assert!(held.is_some());
        }
        drop(held);
        served
    }

    #[tokio::test]
    async fn queues_that_wait_get_slots_by_their_weights() {
        let slots = Slots::new(1);
        let queues = [6, 3, 1].map(|weight| of_queue(&slots, 0, weight, None));
        assert_eq!(served(&queues, 100).await, [60, 30, 10]);
        let slots = Slots::new(1);
        let queues = [1, 1, 1].map(|weight| of_queue(&slots, 0, weight, None));
        assert_eq!(served(&queues, 30).await, [10, 10, 10]);
        let slots = Slots::new(1);
        let queues = [0, 1, 1].map(|rank| of_queue(&slots, rank, 1, None));
        assert_eq!(served(&queues, 10).await, [10, 0, 0]);
    }

    #[tokio::test]
    async fn one_that_wanted_none_has_no_claim_to_what_it_left_out() {
        let slots = Slots::new(1);
        let queues = [1, 1].map(|weight| of_queue(&slots, 0, weight, None));
        for _ in 0..100 {
            drop(queues[0].try_acquire().expect("a slot"));
        }
        let served = served(&queues, 20).await;
        assert!(served[0].abs_diff(served[1]) <= 2, "{served:?}");
    }

    #[tokio::test]
    async fn one_that_only_looks_loses_no_turn() {
        // It had the slot a hundred times to send a wait, and gave it back. Then it has jobs.
        for weight in [1, 2] {
            let slots = Slots::new(1);
            let queues = [weight, weight, 1].map(|weight| of_queue(&slots, 0, weight, None));
            for _ in 0..100 {
                drop(queues[2].acquire().await);
            }
            let served = served(&queues, 10).await;
            assert!(served[2] >= 2, "{served:?}");
        }
    }

    #[tokio::test]
    async fn a_lower_rank_gets_slots_while_no_job_of_a_higher_one_waits() {
        let slots = Slots::new(4);
        let (high, low) = (of_queue(&slots, 0, 1, Some(1)), of_queue(&slots, 1, 1, None));
        high.set_backlog(true);
        assert_eq!((high.free(), low.free()), (1, 0));
        assert!(low.try_acquire().is_none());
        let mut waits: Acquire<'_> = Box::pin(low.acquire());
        assert!(now(&mut waits).await.is_none());
        // With its own slots taken it has no room, whatever waits.
        let held = high.try_acquire().expect("a slot");
        assert!(now(&mut waits).await.is_some());
        assert_eq!(low.free(), 3);
        drop(held);
        assert_eq!(low.free(), 0);
        let mut waits: Acquire<'_> = Box::pin(low.acquire());
        assert!(now(&mut waits).await.is_none());
        high.set_backlog(false);
        assert!(now(&mut waits).await.is_some());
        high.set_backlog(true);
        drop(high);
        assert!(low.try_acquire().is_some(), "it is served no more");
    }

    #[tokio::test]
    async fn one_that_waits_no_more_costs_no_slot() {
        let slots = Slots::new(1);
        let held = slots.try_acquire();
        let (mut first, mut second): (Acquire<'_>, Acquire<'_>) =
            (Box::pin(slots.acquire()), Box::pin(slots.acquire()));
        assert!(now(&mut first).await.is_none() && now(&mut second).await.is_none());
        drop(held);
        // It was handed to the first, which has not taken it.
        assert!(slots.are_awaited());
        drop(first);
        let slot = now(&mut second).await;
        assert!(slot.is_some());
        drop((second, slot));
        assert!(!slots.are_awaited());
        assert_eq!(slots.free(), 1);
    }

    #[tokio::test]
    async fn a_slot_is_there_for_a_task_that_has_used_up_its_budget() {
        // Guard: `unconstrained`.
        let slots = Slots::new(1);
        poll_fn(|context| {
            while tokio::task::coop::has_budget_remaining() {
                let _ = pin!(tokio::task::consume_budget()).poll(context);
            }
            assert!(pin!(slots.acquire()).poll(context).is_ready());
            Poll::Ready(())
        })
        .await;
    }
}
