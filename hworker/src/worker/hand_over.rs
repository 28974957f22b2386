//! From the server's hands into ours, and back: jobs that were reserved, and leases that were lost.

use std::sync::Arc;

use memchr::memmem;

use super::admit::admit;
use super::consumer::Lane;
use super::core::Core;
use super::ready::WaitingJob;
use super::slots::Slot;
use super::throttle::{Reason, Warning};
use crate::log::say;
use crate::store::Lease;

/// Takes jobs over from the server, which are in the table of leases already: those for which there is a slot, and so many
/// more, are to be started; what came beyond goes back at once.
pub(super) fn hand_over(
    core: &Arc<Core>,
    lane: &Arc<Lane>,
    mut jobs: Vec<(Lease, Vec<u8>)>,
    mut slots: Vec<Slot>,
    ahead: usize,
) {
    // A stopping worker begins nothing that was under way to it.
    let stopping = lane.stopping.is_cancelled();
    let wanted = if stopping { 0 } else { slots.len() + ahead };
    let surplus = jobs.split_off(wanted.min(jobs.len()));
    // Before a suspect is kept, which waits until the server has them.
    let mut back: Vec<_> = surplus.into_iter().map(|(lease, _)| lease).collect();
    let mut start = Vec::with_capacity(jobs.len());
    let mut suspects = Vec::new();
    // An envelope may say that workers died at its side. Only those that do are decoded here.
    let crashes = memmem::Finder::new("\"crashes\"");
    for (lease, payload) in jobs {
        if crashes.find(&payload).is_none() {
            start.push(WaitingJob::Reserved(lease, payload));
            continue;
        }
        match admit(core, lane, lease, payload) {
            Ok(admitted) if admitted.suspect.is_some() => suspects.push(admitted),
            Ok(admitted) => start.push(WaitingJob::Admitted(admitted)),
            Err(settlement) => lane.settle(settlement),
        }
    }
    if !suspects.is_empty() {
        // If one of these ends the process, what it holds beside them is under suspicion too: the least possible.
        let beyond = start.split_off(slots.len().saturating_sub(suspects.len()).min(start.len()));
        back.extend(beyond.iter().map(WaitingJob::lease).cloned());
    }
    for lease in back {
        lane.give_back(&lease);
    }
    if !suspects.is_empty() {
        for suspect in suspects {
            // Its slot waits with it: another queue may wait for one, and would have it first.
            lane.suspects.hold_back(suspect, slots.pop());
        }
        // The loop that fetches starts them.
        lane.changed.notify_one();
    }
    lane.add(start, slots);
}

/// Tells of payloads that the server set aside, since they are larger than `max_payload`; of one that a wait brings, the worker reads no more than a job may
/// have.
pub(super) fn report_set_aside(core: &Core, lane: &Lane, payloads: u64) {
    if payloads > 0 {
        let limit = lane.queue.limits.max_payload;
        let text = format!("a job is broken: it is larger than max_payload ({limit} bytes)");
        let warning = Warning { text, ..Warning::default() };
        let throttle = &core.throttle;
        throttle.warn_of(payloads, &lane.queue.name, Reason::TooLarge, warning);
    }
}

/// Gives back everything that was not started.
pub(super) fn give_all_back(lane: &Lane) {
    let jobs = lane.ready.take_all();
    let suspects = lane.suspects.take_held_back();
    let suspects = suspects.iter().map(|(suspect, _)| &suspect.job.lease);
    for lease in jobs.iter().map(WaitingJob::lease).chain(suspects) {
        lane.give_back(lease);
    }
}

/// A lease was given to another: says so, and cancels the body.
pub(super) fn report_lost(lane: &Lane, lease: &Lease) {
    let Some(job) = lane.leases.lose(lease) else { return };
    say!(WARN, { name = job.definition.name, id = job.id.clone(), queue = lane.queue.name.clone() },
        job = name, %id, %queue, "the lease was lost, the job is cancelled: another worker has it");
}
