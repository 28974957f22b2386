//! The loops that start bodies: one for each thread of the runtime and queue. A body is polled where it is found, and
//! becomes a task of its own only if it is not ready at once, so that the shortest jobs cost no task, and one that blocks
//! holds up no more than its thread. Such a task starts the next job itself when its own is over, in the slot that it has.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use super::alarm::Alarm;
use super::execute::{self, First, Over, Pending};
use super::incarnation::{Incarnation, Lane};
use super::ready::Next;
use super::slots::Slot;
use crate::context::in_body_of;

/// A thread that always has something to start looks after so long for what has arrived, and other tasks get their turn.
const IN_A_ROW: Duration = Duration::from_millis(1);

/// While a backlog is drained, or jobs come in numbers, one loop starts all short bodies, as long as jobs wait less than this: to wake another thread costs tens of microseconds, and takes a
/// core from others.
const LATE: Duration = Duration::from_millis(2);

/// So many bodies start one after the other in a task that had one of its own.
const BODIES_IN_A_ROW: u32 = 16;

/// Somebody who was woken here, and would wait for this thread, which the next body may block: no other thread takes from it
/// what it is to run next. So he has his turn before that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Woke {
    Nobody,
    /// The task that fetches.
    Fetch,
    /// Another, and that one maybe too.
    Other,
}

impl Woke {
    /// By a slot for which others wait.
    fn by_slot(incarnation: &Incarnation) -> Self {
        // Where there is but one queue that is who fetches, or another runner, who then makes room for him on this thread.
        if incarnation.lanes.len() == 1 { Self::Fetch } else { Self::Other }
    }

    async fn has_turn(self, incarnation: &Incarnation, lane: &Lane) {
        match self {
            Self::Nobody => {}
            Self::Fetch => {
                // If another thread is to give the turn, and a body blocks it, the supervisor ends this.
                incarnation.lookout.tell();
                lane.turns.give_way().await;
            }
            Self::Other => let_others_run().await,
        }
    }
}

/// Starts what is ready, as long as this life lasts.
pub(super) async fn run(incarnation: Arc<Incarnation>, lane: Arc<Lane>) {
    // Around the polls of the loop and not of each body: a short job pays nothing for it.
    in_body_of(Arc::clone(&incarnation.core.states), start_ready(incarnation, lane)).await;
}

async fn start_ready(incarnation: Arc<Incarnation>, lane: Arc<Lane>) {
    lane.ready.begin_runner();
    let mut kept: Option<Slot> = None;
    let mut began = Instant::now();
    let mut in_a_row = 0;
    let mut behind = false;
    let mut woke = Woke::Nobody;
    // It may be on another thread than before, or that thread may have run others meanwhile.
    let mut resumed = true;
    loop {
        let mut now = Instant::now();
        if !lane.pulse.is_fresh_at(now) {
            kept = None;
            lane.pulse.fresh().await;
            (now, resumed) = (Instant::now(), true);
        }
        // All before a job is in hand.
        let waiting = lane.ready.count();
        if waiting > 1 && lane.call_runner(behind) {
            woke = Woke::Other;
        }
        if woke > Woke::Nobody && waiting > 0 {
            woke.has_turn(&incarnation, &lane).await;
            (woke, in_a_row) = (Woke::Nobody, 0);
            (now, resumed) = (Instant::now(), true);
        } else if in_a_row > 0 && now.duration_since(began) >= IN_A_ROW {
            lane.ready.yield_now().await;
            (now, resumed) = (Instant::now(), true);
            (began, in_a_row) = (now, 0);
        }
        if std::mem::take(&mut resumed) && waiting > 0 && lane.turns.are_due() {
            // Whoever woke it, on this thread too: an answer of the server.
            Woke::Fetch.has_turn(&incarnation, &lane).await;
            continue;
        }
        let (job, slot) = match lane.ready.next(&mut kept) {
            Next::Start { job, slot, since, freed } => {
                behind = now.duration_since(since) >= LATE;
                if freed && lane.slots.are_awaited() {
                    now = make_way(&incarnation, &lane).await;
                }
                (job, slot)
            }
            Next::NeedsSlot => {
                kept = lane.slots.try_acquire();
                if kept.is_none() {
                    kept = lane.ready.slot(&lane.slots).await;
                    resumed = true;
                }
                continue;
            }
            Next::Empty => {
                if kept.take().is_some() && lane.slots.are_awaited() {
                    woke = woke.max(Woke::by_slot(&incarnation));
                }
                if lane.ready.called().await {
                    (began, in_a_row, woke) = (Instant::now(), 0, Woke::Nobody);
                    resumed = true;
                }
                continue;
            }
        };
        in_a_row += 1;
        match execute::start(&incarnation, &lane, job, slot, now).await {
            First::Pending(pending) => {
                let slot = run_slot(Arc::clone(&incarnation), Arc::clone(&lane), pending);
                tokio::spawn(in_body_of(Arc::clone(&incarnation.core.states), slot));
                woke = Woke::Other;
                if lane.ready.is_empty() {
                    // Of a job that began in the inbox this asks for the lease too.
                    lane.changed.notify_one();
                }
            }
            First::Ended(over) => (kept, woke) = over.settle(&incarnation, &lane),
        }
    }
}

/// Awaits the end of a body, and goes on with what waits: no other task has to be woken for that, or made.
async fn run_slot(incarnation: Arc<Incarnation>, lane: Arc<Lane>, mut pending: Pending) {
    let _vital = incarnation.vital();
    let mut alarm = Alarm::default();
    // Its first poll was in the task of the runner.
    let mut polled = false;
    loop {
        let over = pending.over(&incarnation, &lane, &mut alarm, polled).await;
        let (mut kept, mut woke) = over.settle(&incarnation, &lane);
        if lane.turns.are_due() {
            woke = woke.max(Woke::Fetch);
        }
        let mut in_a_row = 0;
        pending = loop {
            if kept.is_some() {
                woke.has_turn(&incarnation, &lane).await;
            }
            let mut now = Instant::now();
            if kept.is_none() || in_a_row == BODIES_IN_A_ROW || !lane.pulse.is_fresh_at(now) {
                return;
            }
            let Next::Start { job, slot, freed, .. } = lane.ready.next(&mut kept) else { return };
            if freed && lane.slots.are_awaited() {
                now = make_way(&incarnation, &lane).await;
            }
            in_a_row += 1;
            match execute::start(&incarnation, &lane, job, slot, now).await {
                First::Pending(pending) => break pending,
                First::Ended(over) => (kept, woke) = over.settle(&incarnation, &lane),
            }
        };
        polled = true;
        if lane.ready.is_empty() {
            lane.changed.notify_one();
            // The body that goes on below may block too.
            Woke::Fetch.has_turn(&incarnation, &lane).await;
            polled = false;
        }
    }
}

/// Lets those have their turn who were woken by a slot, and says when a body may start that is in hand already.
async fn make_way(incarnation: &Incarnation, lane: &Lane) -> Instant {
    Woke::by_slot(incarnation).has_turn(incarnation, lane).await;
    lane.pulse.fresh().await;
    Instant::now()
}

impl Over {
    /// Has the attempt settled. Its slot is free, or kept for the next body: where there is but one queue, a slot may pass
    /// from one to the next, unless somebody waits for one; else the queues take turns. Says too who was woken.
    fn settle(self, incarnation: &Incarnation, lane: &Lane) -> (Option<Slot>, Woke) {
        let Self(settlement, room) = self;
        let mut slot = Some(room.into_slot());
        let keeps =
            incarnation.lanes.len() == 1 && !lane.ready.is_empty() && !lane.slots.are_awaited();
        let kept = if keeps { slot.take() } else { None };
        let freed = slot.is_some();
        let woke_fetch = lane.settle_and_free(settlement, slot);
        let woke = if woke_fetch { Woke::Fetch } else { Woke::Nobody };
        let awaited = freed && lane.slots.are_awaited();
        (kept, if awaited { woke.max(Woke::by_slot(incarnation)) } else { woke })
    }
}

/// Goes to the end of the queue of this thread, from where other threads take tasks too. `yield_now` would put this task
/// where only this thread finds it again, and the body that runs next may block it.
async fn let_others_run() {
    let mut yielded = false;
    poll_fn(|cx| {
        if yielded {
            return Poll::Ready(());
        }
        yielded = true;
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
