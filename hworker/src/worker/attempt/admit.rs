//! Decides whether a reserved job may run now.

use std::sync::Arc;

use crate::envelope::Crash;
use crate::job::OnFault;
use crate::log::say;
use crate::store::{End, Lease, Settlement};
use crate::worker::attempt::decide::{Evidence, Transition};
use crate::worker::attempt::decode::read;
use crate::worker::attempt::record;
use crate::worker::state::{Admitted, Consumer, Core, Reason, Warning};

/// How long a suspect of crashes waits if there is no room for it.
const SUSPECT_PAUSE_MS: u64 = 2_000;

/// How long the death of its worker counts against a job.
const CRASHES_COUNT_FOR_MS: u64 = 86_400_000;

/// Decodes a reserved job and decides whether it may run now. If it may not, returns its settlement.
pub(crate) fn admit(
    core: &Core,
    consumer: &Consumer,
    lease: Lease,
    payload: Vec<u8>,
) -> Result<Admitted, Option<Settlement>> {
    check(core, consumer, lease.clone(), payload).map_err(|end| {
        if let End::Broken { reason, .. } = &end {
            let text = format!("a job is broken: {reason}");
            let warning = Warning { text, ..Warning::default() };
            core.log_limit.warn(&consumer.queue.name, Reason::Broken, warning);
        }
        settlement(consumer, lease, end)
    })
}

/// The settlement of a lease; `None` if the lease has ended already or was lost.
pub(crate) fn settlement(consumer: &Consumer, lease: Lease, end: End) -> Option<Settlement> {
    consumer.leases.end(&lease).then_some(Settlement { lease, end })
}

/// Checks whether the job may run now. If it may not, returns the end of its lease.
fn check(
    core: &Core,
    consumer: &Consumer,
    lease: Lease,
    payload: Vec<u8>,
) -> Result<Admitted, End> {
    let job = read(core, lease, payload);
    let job = Arc::new(job.map_err(|(why, payload)| why.end(core, consumer, &payload))?);
    let at_most_once = job.definition.policy.on_crash == OnFault::Fail;
    if at_most_once && consumer.fetches_ahead {
        // The job was sent here from its own queue. Its crash would count for the jobs that were fetched ahead too.
        consumer.suspects.note();
    }
    if job.crashes.is_empty() && job.retry_until.is_none() {
        return Ok(Admitted { job, suspect: None });
    }
    let now = core.clock.unix_ms();

    let recent =
        |crash: &&Crash| !crash.stopping && now.saturating_sub(crash.at) < CRASHES_COUNT_FOR_MS;
    let crashes = job.crashes.iter().filter(recent).count();
    let limit = core.config.crash_limit;
    // A job that runs at most once fails after a crash of any age.
    let fails = at_most_once && !job.crashes.is_empty();
    if fails || crashes >= limit {
        let message = if fails {
            "its worker died while it ran, and it runs at most once".to_owned()
        } else {
            format!("its workers died {crashes} times within a day while they had it")
        };
        say!(ERROR, { name = job.definition.name, id = job.id.clone(), queue = consumer.queue.name.clone(), message = message.clone() },
            job = name, %id, %queue, crashes, "job failed: {message}");
        let evidence = Evidence::new("crash", message);
        return Err(record::end(core, consumer, &job, Transition::Fail(evidence)));
    }
    if job.retry_until.is_some_and(|until| now > until) {
        let message = "the time until which it may be tried is over";
        say!(ERROR, { name = job.definition.name, id = job.id.clone(), queue = consumer.queue.name.clone() },
            job = name, %id, %queue, "job failed: {message}");
        let evidence = Evidence::new("deadline", message);
        return Err(record::end(core, consumer, &job, Transition::Fail(evidence)));
    }
    let suspect = consumer
        .suspects
        .room_for(crashes, limit)
        .map_err(|()| record::released(&job, SUSPECT_PAUSE_MS))?;
    Ok(Admitted { job, suspect })
}
