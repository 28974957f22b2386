//! The loops that start bodies: one for each thread of the runtime and queue. A body is polled where it is found, and
//! becomes a task of its own only if it is not ready at once, so that the shortest jobs cost no task, and one that blocks
//! holds up no more than its thread.

use std::sync::Arc;

use super::execute::{self, First};
use super::incarnation::{Incarnation, Lane};
use super::ready::Next;
use super::slots::Slot;

/// Other tasks of the runtime get their turn after so many bodies.
const BODIES_IN_A_ROW: u32 = 64;

/// Starts what is ready, as long as this life lasts.
pub(super) async fn run(incarnation: Arc<Incarnation>, lane: Arc<Lane>) {
    // Where there is but one queue, a slot may pass from one body to the next; else the queues take turns.
    let keeps_slot = incarnation.lanes.len() == 1;
    let mut kept: Option<Slot> = None;
    let mut in_a_row = 0;
    loop {
        if !lane.pulse.is_fresh() {
            kept = None;
            lane.pulse.fresh().await;
        }
        let (job, slot, more) = match lane.ready.next(&mut kept) {
            Next::Start { job, slot, more } => (job, slot, more),
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
        // Who has just been woken may wait for this thread, which the body may block.
        let yields = if more {
            lane.ready.call_another() || in_a_row >= BODIES_IN_A_ROW
        } else if in_a_row > 0 {
            // Nothing is left to start: whoever fetches should not wait for more to settle.
            lane.changed.notify_one();
            true
        } else {
            // The first after a pause; who handed it over knows.
            false
        };
        in_a_row += 1;
        if yields {
            in_a_row = 1;
            tokio::task::yield_now().await;
        }
        match execute::start(&incarnation, &lane, job, slot).await {
            First::Continues => {
                if lane.ready.is_empty() {
                    lane.changed.notify_one();
                }
            }
            First::Ended(settlement, room) => {
                // A slot is free before its settlement is seen, so that whoever sends it finds it so.
                let slot = room.into_slot();
                if keeps_slot && !lane.ready.is_empty() {
                    kept = Some(slot);
                }
                lane.settle(settlement);
            }
        }
    }
}
