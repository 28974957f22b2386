//! Runners: the loops that start bodies, one for each thread of the runtime and queue. A runner polls a body in place. The body becomes a
//! task only if it is not ready at once. So the shortest jobs cost no task, and a body that blocks holds up only its thread. At its end
//! such a task starts the next job in its own slot.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use crate::context::in_body_of;
use crate::worker::attempt::run::{self, Over, Pending};
use crate::worker::state::{Consumer, Core, Next, Slot};

/// How long a busy thread starts jobs before it looks for new events and lets other tasks run.
const IN_A_ROW: Duration = Duration::from_millis(1);

/// While a backlog is drained, or many jobs arrive, one runner starts all short bodies, as long as jobs wait less than this. Waking another
/// thread costs tens of microseconds and takes a core from others.
const LATE: Duration = Duration::from_millis(2);

/// How many bodies start one after the other in the task of an earlier body.
const BODIES_IN_A_ROW: u32 = 16;

/// Starts waiting jobs until the queue has retired.
pub(crate) async fn run(core: Arc<Core>, consumer: Arc<Consumer>) {
    // Around the polls of the loop, not of each body: a short job pays nothing for it.
    let starts = in_body_of(Arc::clone(&core.states), start_ready(core, Arc::clone(&consumer)));
    tokio::select! {
        () = starts => {}
        () = consumer.retired.cancelled() => {}
    }
}

async fn start_ready(core: Arc<Core>, consumer: Arc<Consumer>) {
    consumer.buffer.begin_runner();
    let mut kept: Option<Slot> = None;
    let mut began = Instant::now();
    let mut behind = false;
    // A task was woken on this thread. No other thread takes it from there, and the next body may block the thread.
    let mut woke = false;
    loop {
        let mut now = Instant::now();
        if !consumer.freshness.is_fresh_at(now) {
            kept = None;
            consumer.freshness.fresh().await;
            now = Instant::now();
        }
        // All of this comes before a job is taken.
        let waiting = consumer.buffer.count();
        woke |= waiting > 1 && consumer.call_runner(behind);
        if woke && waiting > 0 {
            let_others_run().await;
            (now, woke) = (Instant::now(), false);
        } else if now.duration_since(began) >= IN_A_ROW {
            consumer.buffer.yield_now().await;
            now = Instant::now();
            began = now;
        }
        let (job, slot) = match consumer.buffer.next(&mut kept, now) {
            Next::Start { job, slot, since, freed } => {
                behind = now.duration_since(since) >= LATE;
                if freed && consumer.slots.are_awaited() {
                    now = make_way(&consumer).await;
                }
                (job, slot)
            }
            Next::NeedsSlot => {
                kept = consumer.slots.try_acquire();
                if kept.is_none() {
                    kept = consumer.buffer.slot(&consumer.slots).await;
                }
                continue;
            }
            Next::Empty => {
                woke |= kept.take().is_some() && consumer.slots.are_awaited();
                if consumer.buffer.called().await {
                    (began, woke) = (Instant::now(), false);
                }
                continue;
            }
        };
        match run::start(&core, &consumer, job, slot, now).await {
            Ok(pending) => {
                let slot = run_slot(Arc::clone(&core), Arc::clone(&consumer), pending);
                tokio::spawn(in_body_of(Arc::clone(&core.states), slot));
                woke = true;
                if consumer.buffer.is_empty() {
                    consumer.changed.notify_one();
                }
            }
            Err(over) => (kept, woke) = over.settle(&consumer),
        }
    }
}

/// Waits for the end of a body, then starts waiting jobs. This needs no other task.
async fn run_slot(core: Arc<Core>, consumer: Arc<Consumer>, mut pending: Pending) {
    let _vital = consumer.vital();
    loop {
        let over = pending.over(&core, &consumer).await;
        let (mut kept, mut woke) = over.settle(&consumer);
        let mut in_a_row = 0;
        pending = loop {
            if kept.is_some() && woke {
                let_others_run().await;
            }
            let mut now = Instant::now();
            if kept.is_none() || in_a_row == BODIES_IN_A_ROW || !consumer.freshness.is_fresh_at(now)
            {
                return;
            }
            let Next::Start { job, slot, freed, .. } = consumer.buffer.next(&mut kept, now) else {
                return;
            };
            if freed && consumer.slots.are_awaited() {
                now = make_way(&consumer).await;
            }
            in_a_row += 1;
            match run::start(&core, &consumer, job, slot, now).await {
                Ok(pending) => break pending,
                Err(over) => (kept, woke) = over.settle(&consumer),
            }
        };
        if consumer.buffer.is_empty() {
            consumer.changed.notify_one();
        }
    }
}

/// Lets tasks run that a free slot has woken, and waits for a fresh heartbeat. Returns the start time of the job in hand.
async fn make_way(consumer: &Consumer) -> Instant {
    let_others_run().await;
    consumer.freshness.fresh().await;
    Instant::now()
}

impl Over {
    /// Settles the attempt and frees its slot. Keeps the slot for the next body if there is only one queue and no task waits for a slot, or
    /// if of several queues it is this one's turn again. Also returns whether the free slot woke a task.
    fn settle(self, consumer: &Consumer) -> (Option<Slot>, bool) {
        let Self(settlement, slot) = self;
        let mut slot = Some(slot);
        let its_turn = || {
            if consumer.is_alone() {
                !consumer.slots.are_awaited()
            } else {
                consumer.slots.keeps_its_turn()
            }
        };
        let keeps = !consumer.buffer.is_empty() && its_turn();
        let kept = if keeps { slot.take() } else { None };
        let freed = slot.is_some();
        consumer.settle_and_free(settlement, slot);
        (kept, freed && consumer.slots.are_awaited())
    }
}

/// Moves this task to the end of the thread's queue, from which other threads take tasks too. `yield_now` would put it where only this
/// thread finds it, and the next body may block the thread.
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
