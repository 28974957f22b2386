//! Handles the answers to settlements.

use std::time::{Duration, Instant};

use crate::log::say;
use crate::store::{Settled, Settlement};
use crate::worker::events;
use crate::worker::intake::refused::Refused;
use crate::worker::state::Consumer;

/// The pause before a server that refuses or is busy is asked again.
pub(crate) const REFUSED_PAUSE: Duration = Duration::from_millis(500);

/// The settlements of one queue that the server does not take as they are.
#[derive(Debug, Default)]
pub(crate) struct Settling {
    pub(crate) refused: Refused,
    /// Settlements for which a key is of another type, and when they are sent again.
    held_up: Option<(Instant, Vec<Settlement>)>,
    /// Refusals since the start; about one a minute is logged.
    refusals: u64,
}

impl Settling {
    /// How many settlements are held up.
    pub(crate) fn held_up(&self) -> usize {
        self.held_up.as_ref().map_or(0, |(_, ends)| ends.len())
    }

    /// When they are sent again.
    pub(crate) fn again_at(&self) -> Option<Instant> {
        self.held_up.as_ref().map(|(at, _)| *at)
    }

    /// Puts back into the outbox the settlements that are due, or all.
    pub(crate) fn send_again(&mut self, consumer: &Consumer, all: bool) {
        if let Some((_, again)) = self.held_up.take_if(|(at, _)| all || *at <= Instant::now()) {
            consumer.outbox.put_back(again);
        }
    }

    /// Whether to log this refusal.
    pub(crate) fn says(&mut self) -> bool {
        self.refusals += 1;
        (self.refusals - 1).is_multiple_of(120)
    }

    /// Handles the server's answer to these settlements.
    pub(crate) fn has_settled(
        &mut self,
        consumer: &Consumer,
        mut batch: Vec<Settlement>,
        settled: &Settled,
    ) {
        let refused = settled.take_refused(&mut batch);
        if let Some(fault) = &settled.refusal {
            if self.says() {
                let queue = consumer.queue.name.clone();
                say!(WARN, { jobs = refused.len(), fault = fault.clone() },
                    job.queue = %queue, jobs, "results cannot be written, trying again; rename or delete the key that is of another type: {fault}");
            }
            let again_at = Instant::now() + REFUSED_PAUSE;
            self.held_up.get_or_insert((again_at, Vec::new())).1.extend(refused);
        }
        consumer.notes.add(&settled.notes);
        if let Some(anew) = &settled.anew {
            let queue = consumer.queue.name.clone();
            say!(WARN, { anew = anew.clone() }, job.queue = %queue, "what could not be counted up begins anew: {anew}");
        }
        if let Some(why) = &settled.untold {
            if !why.starts_with("WRONGTYPE") {
                events::refused(consumer, why);
            } else if self.says() {
                say!(WARN, { queue = consumer.queue.name.clone(), why = why.clone() },
                    job.queue = %queue, "events are not written, and lost; rename or delete the key that is of another type: {why}");
            }
        }
        if !batch.is_empty() {
            self.refused.forget(&batch);
            consumer.leases.settled(batch);
        }
        if let Some(fault) = &settled.not_durable
            && self.says()
        {
            say!(WARN, { queue = consumer.queue.name.clone(), fault = fault.clone() },
                job.queue = %queue, "results may not be safe yet, a failover may run their jobs again: {fault}");
        }
        if !settled.stale.is_empty() {
            // Other workers have their jobs; these results do not count.
            let stale: u64 = settled.stale.iter().map(|(_, count)| count).sum();
            consumer.count_stale(settled);
            say!(DEBUG, { queue = consumer.queue.name.clone() }, job.queue = %queue, stale, "settlements of lost leases were refused");
        }
    }
}
