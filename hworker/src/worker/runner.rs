//! The loops that start bodies: one for each thread of the runtime and queue. A body is polled where it is found, and
//! becomes a task of its own only if it is not ready at once, so that the shortest jobs cost no task, and one that blocks
//! holds up no more than its thread.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;

use super::execute::{self, First};
use super::incarnation::{Incarnation, Lane};
use super::ready::Next;
use super::slots::Slot;

/// Other tasks of the runtime, and its sockets, get their turn after so many bodies.
const BODIES_IN_A_ROW: u32 = 16;

/// Starts what is ready, as long as this life lasts.
pub(super) async fn run(incarnation: Arc<Incarnation>, lane: Arc<Lane>) {
    // Where there is but one queue, a slot may pass from one body to the next; else the queues take turns.
    let keeps_slot = incarnation.lanes.len() == 1;
    let mut kept: Option<Slot> = None;
    let mut in_a_row = 0;
    loop {
        let mut now = Instant::now();
        if !lane.pulse.is_fresh_at(now) {
            kept = None;
            lane.pulse.fresh().await;
            now = Instant::now();
        }
        // Before a job is in hand: who is woken here may wait for this thread, which the next body may block.
        let waiting = lane.ready.count();
        let last = waiting == 1 && in_a_row > 0;
        if last {
            // Nothing is left to start: whoever fetches should not wait for more to settle.
            lane.changed.notify_one();
        }
        if last || (waiting > 1 && lane.ready.call_another()) {
            in_a_row = 0;
            let_others_run().await;
            now = Instant::now();
        } else if in_a_row >= BODIES_IN_A_ROW {
            // While this thread always has something to do, it looks for what has arrived only when it yields like this.
            in_a_row = 0;
            tokio::task::yield_now().await;
            now = Instant::now();
        }
        let (job, slot) = match lane.ready.next(&mut kept) {
            Next::Start { job, slot } => (job, slot),
            Next::NeedsSlot => {
                kept = match lane.slots.try_acquire() {
                    Some(slot) => Some(slot),
                    None => lane.slots.acquire().await,
                };
                continue;
            }
            Next::Empty => {
                kept = None;
                in_a_row = 0;
                lane.ready.added().await;
                continue;
            }
        };
        in_a_row += 1;
        match execute::start(&incarnation, &lane, job, slot, now).await {
            First::Continues => {
                if lane.ready.is_empty() {
                    lane.changed.notify_one();
                }
            }
            First::Ended(settlement, room) => {
                let mut slot = Some(room.into_slot());
                if keeps_slot && !lane.ready.is_empty() {
                    kept = slot.take();
                }
                lane.settle_and_free(settlement, slot);
            }
        }
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
