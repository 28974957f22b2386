//! Jobs that each worker runs once, or each of so many.
//!
//! A heartbeat tells which of them this worker is to take. It takes its copy under a lease of its own, in a slot of its own, as any job; what it
//! cannot run it leaves to others. The server notes what became of it at each worker. Code of the user reads the arguments, so this is a task of
//! the runtime of the bodies.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::job::{Definition, OnFault};
use crate::log::say;
use crate::store::{Fault, Lease, Taken};
use crate::worker::attempt::decode::read;
use crate::worker::attempt::run::why_not;
use crate::worker::intake::accept::accept;
use crate::worker::state::{Consumer, Core};

/// Why a job does not run that must not run beside others of its type, or of its key.
const NOT_ALONE: &str =
    "its type has limits or is unique, which do not hold for a job that each worker runs";

/// Why a job does not run of which a second worker may have to run what a first began.
const NO_REPLACEMENT: &str =
    "its type has `on_crash = \"fail\"`, so no worker may have the place of one that died";

/// Takes what the heartbeats tell of until the worker stops.
pub(crate) async fn run(core: Arc<Core>, consumer: Arc<Consumer>) {
    loop {
        tokio::select! {
            () = consumer.broadcasts.told.notified() => {}
            () = consumer.stopping.cancelled() => return,
        }
        for id in consumer.broadcasts.take() {
            match take(&core, &consumer, id).await {
                Ok(true) => {}
                Ok(false) => break,
                Err(fault) => {
                    say!(DEBUG, { queue = consumer.queue.name.clone() },
                        job.queue = %queue, "a job for each worker was not taken, the next heartbeat tells again: {fault}");
                    break;
                }
            }
        }
    }
}

/// Takes one, if it can run here. False if no more can be taken now.
async fn take(core: &Arc<Core>, consumer: &Arc<Consumer>, id: String) -> Result<bool, Fault> {
    let session_number = consumer.session_number.load(Ordering::Acquire);
    let on = core.client.connection(&consumer.queue).await?;
    let Some((payload, for_all)) = consumer.queue.look_broadcast(&on, &id).await? else {
        return Ok(true);
    };
    let definition = read(core, Lease::Token(0), payload.clone()).ok().map(|job| job.definition);
    if let Some(why) = unfit(core, consumer, definition, payload, for_all) {
        say!(WARN, { queue = consumer.queue.name.clone(), id = id.clone() },
            job.id = %id, job.queue = %queue, "a job for each worker does not run here: {why}");
        consumer.broadcasts.is_unfit(id);
        return Ok(true);
    }
    // As for a reserve: a slot, a fresh heartbeat, and nothing beside a suspect. Otherwise the next heartbeat tells again.
    let slot = tokio::select! {
        slot = consumer.slots.acquire() => slot,
        () = consumer.stopping.cancelled() => None,
    };
    let Some(slot) = slot else { return Ok(false) };
    let is_held_up = consumer.takes_none() || consumer.suspects.alone_until().is_some();
    if is_held_up || !consumer.freshness.is_fresh() {
        return Ok(false);
    }
    let _taking = consumer.taking();
    // A retiring worker waits only for a call that is in flight by now.
    if consumer.stopping.is_cancelled() {
        return Ok(false);
    }
    let named = (&*id, definition.map_or("", |of| of.name));
    let taken = consumer.queue.take_broadcast(&on, &consumer.keys, session_number, named).await?;
    match taken {
        Taken::Copy(lease, payload) => {
            let mut jobs = vec![(lease, payload)];
            consumer.leases.reserved(session_number, &mut jobs);
            accept(core, consumer, jobs, vec![slot], 0);
            Ok(true)
        }
        Taken::Gone => Ok(true),
        Taken::Stale | Taken::Closed => Ok(false),
        Taken::Void => {
            consumer.void.cancel();
            Ok(false)
        }
    }
}

/// Why this worker cannot run it; `None` if it can.
fn unfit(
    core: &Core,
    consumer: &Consumer,
    definition: Option<&Definition>,
    payload: Vec<u8>,
    for_all: bool,
) -> Option<String> {
    if payload.len() > consumer.queue.largest() {
        return Some("it is larger than max_payload".to_owned());
    }
    if definition.is_some_and(|of| of.policy.on_crash == OnFault::Fail) && !for_all {
        return Some(NO_REPLACEMENT.to_owned());
    }
    if definition.is_some_and(|of| !of.limits.is_empty() || of.unique.is_some()) {
        return Some(NOT_ALONE.to_owned());
    }
    why_not(core, consumer, payload)
}
