//! Accepts reserved jobs from the server, and gives up lost leases.

use std::sync::Arc;

use memchr::memmem;

use crate::charts::{Rare, UNKNOWN};
use crate::log::say;
use crate::store::Lease;
use crate::worker::attempt::admit::admit;
use crate::worker::state::{Consumer, Core, Reason, Slot, WaitingJob, Warning};

/// Accepts jobs that are in the table of leases already. Those with a slot, and `ahead` more, are to be started; the others go back at
/// once.
pub(crate) fn accept(
    core: &Arc<Core>,
    consumer: &Arc<Consumer>,
    mut jobs: Vec<(Lease, Vec<u8>)>,
    mut slots: Vec<Slot>,
    ahead: usize,
) {
    // A stopping worker begins no job, not even one that was in flight.
    let stopping = consumer.takes_none();
    let wanted = if stopping { 0 } else { slots.len() + ahead };
    let surplus = jobs.split_off(wanted.min(jobs.len()));
    // Before a suspect is kept: it waits until the server has these back.
    let mut back: Vec<_> = surplus.into_iter().map(|(lease, _)| lease).collect();
    let mut start = Vec::with_capacity(jobs.len());
    let mut suspects = Vec::new();
    // An envelope may list deaths of its workers. Only such envelopes are decoded here.
    let crashes = memmem::Finder::new("\"crashes\"");
    for (lease, payload) in jobs {
        if crashes.find(&payload).is_none() {
            start.push(WaitingJob::Reserved(lease, payload));
            continue;
        }
        match admit(core, consumer, &lease, payload) {
            Ok(admitted) if admitted.suspect.is_some() => suspects.push(admitted),
            Ok(admitted) => start.push(WaitingJob::Admitted(admitted)),
            Err(settlement) => consumer.settle(settlement),
        }
    }
    if !suspects.is_empty() {
        // If one of these ends the process, all jobs beside it become suspects too: there should be as few as possible.
        let beyond = start.split_off(slots.len().saturating_sub(suspects.len()).min(start.len()));
        back.extend(beyond.iter().map(WaitingJob::lease).cloned());
    }
    for lease in back {
        consumer.give_back(&lease);
    }
    if !suspects.is_empty() {
        for suspect in suspects {
            // Its slot is kept with it: otherwise a task of another queue would get the slot first.
            consumer.suspects.hold_back(suspect, slots.pop());
        }
        // The fetch loop starts them.
        consumer.changed.notify_one();
    }
    consumer.add(start, slots);
}

/// Logs payloads that the server set aside because they are larger than `max_payload`. From a wait the worker reads no more bytes of a
/// payload than a job may have.
pub(crate) fn report_set_aside(core: &Core, consumer: &Consumer, payloads: u64) {
    if payloads > 0 {
        let limit = consumer.queue.limits.max_payload;
        let text = format!("a job is broken: it is larger than max_payload ({limit} bytes)");
        let warning = Warning { text, ..Warning::default() };
        let log_limit = &core.log_limit;
        log_limit.warn(payloads, &consumer.queue.name, Reason::TooLarge, warning);
        consumer.charts.totals().add(UNKNOWN, Rare::Broken, payloads);
    }
}

/// Gives back all jobs that were not started.
pub(crate) fn give_all_back(consumer: &Consumer) {
    let jobs = consumer.buffer.take_all();
    let suspects = consumer.suspects.take_held_back();
    let suspects = suspects.iter().map(|(suspect, _)| &suspect.job.lease);
    for lease in jobs.iter().map(WaitingJob::lease).chain(suspects) {
        consumer.give_back(lease);
    }
}

/// Logs that a lease was given to another worker, and cancels its body.
pub(crate) fn report_lost(consumer: &Consumer, lease: &Lease) {
    let Some(job) = consumer.leases.lose(lease) else { return };
    consumer.charts.totals().add(job.definition.name, Rare::Stale, 1);
    say!(WARN, { name = job.definition.name, id = job.id.clone(), queue = consumer.queue.name.clone() },
        job.name = name, job.id = %id, job.queue = %queue, "the lease was lost, the job is cancelled: another worker has it");
}
