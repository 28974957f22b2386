//! Decides whether a reserved job may run now.

use std::sync::Arc;

use crate::charts::{Rare, UNKNOWN};
use crate::envelope::{Crash, JobId};
use crate::job::OnFault;
use crate::limit::List;
use crate::priority::Priority;
use crate::store::{Concluded, End, Lease, NewLock, Settlement};
use crate::unique::own_id;
use crate::worker::attempt::decide::{Evidence, Transition};
use crate::worker::attempt::decode::read;
use crate::worker::attempt::finish::conclude;
use crate::worker::attempt::{record, tell};
use crate::worker::state::{Admitted, Consumer, Core, Job, Reason, Warning};

/// How long a suspect of crashes waits if there is no room for it.
const SUSPECT_PAUSE_MS: u64 = 2_000;

/// How long the death of its worker counts against a job.
const CRASHES_COUNT_FOR_MS: u64 = 86_400_000;

/// Why a job does not run that gave way.
const SUPERSEDED: &str = "another job of its key came, and only one may wait or run";

/// Why a job does not run that somebody cancelled.
pub(crate) const CANCELLED: &str = "somebody cancelled it";

/// Decodes a reserved job and decides whether it may run now. If it may not, returns its settlement.
pub(crate) fn admit(
    core: &Core,
    consumer: &Consumer,
    lease: &Lease,
    payload: Vec<u8>,
) -> Result<Admitted, Option<Settlement>> {
    check(core, consumer, lease.clone(), payload).map_err(|mut concluded| {
        if let End::Broken { reason, .. } = &concluded.end {
            let text = format!("a job is broken: {reason}");
            let warning = Warning { text, ..Warning::default() };
            core.log_limit.warn(1, &consumer.queue.name, Reason::Broken, warning);
            consumer.charts.totals().add(UNKNOWN, Rare::Broken, 1);
            concluded.event = tell::broken(core, consumer, lease, reason);
        }
        consumer.end(lease, || concluded)
    })
}

/// Checks whether the job may run now. If it may not, returns the end of its lease.
fn check(
    core: &Core,
    consumer: &Consumer,
    lease: Lease,
    payload: Vec<u8>,
) -> Result<Admitted, Concluded> {
    let job = read(core, lease, payload);
    let job = Arc::new(job.map_err(|(why, payload)| why.end(core, consumer, &payload))?);
    // A worker's copy belongs to no list.
    let is_copy = job.lease.is_copy();
    if let Some(end) = submitted(core, &job).filter(|_| !is_copy) {
        return Err(end.into());
    }
    if let Some((list, at_once)) = elsewhere(core, consumer, &job).filter(|_| !is_copy) {
        // One that an operator lets run again was ahead of those that wait.
        let front = list.is_in_order() && job.number > 1;
        return Err(End::Routed { list, front, at_once, bytes: job.payload.len() }.into());
    }
    if let Some(kind) = job.lease.list().and_then(List::cancels) {
        let why = if kind == "superseded" { SUPERSEDED } else { CANCELLED };
        let cancel = Transition::Cancel(Evidence::new(kind, why));
        return Err(conclude(core, consumer, &job, None, cancel));
    }
    let at_most_once = job.definition.policy.on_crash == OnFault::Fail;
    if at_most_once && consumer.fetches_ahead {
        // The job was sent here from its own queue. Its crash would count for the jobs that were fetched ahead too.
        consumer.suspects.note();
    }
    if job.crashes.is_empty() && job.retry_until.is_none() && job.expires_at.is_none() {
        return Ok(Admitted { job, suspect: None });
    }
    let now = core.clock.unix_ms();
    let is_new = job.number == 1 && job.crashes.is_empty();
    if is_new && job.expires_at.is_some_and(|at| now > at) {
        let late = Evidence::new("expired", "it did not start in time");
        return Err(conclude(core, consumer, &job, None, Transition::Expire(late)));
    }
    let recent =
        |crash: &&Crash| !crash.stopping && now.saturating_sub(crash.at) < CRASHES_COUNT_FOR_MS;
    let crashes = job.crashes.iter().filter(recent).count();
    let limit = core.config.crash_limit;
    // A job that runs at most once fails after a crash of any age. A copy does not: the worker that died had another one of them.
    let evidence = if at_most_once && !job.crashes.is_empty() && !is_copy {
        Evidence::new("crash", "its worker died while it ran, and it runs at most once")
    } else if crashes >= limit {
        let message = format!("its workers died {crashes} times within a day while they had it");
        Evidence::new("crash", message)
    } else if job.retry_until.is_some_and(|until| now > until) {
        Evidence::new("deadline", "the time until which it may be tried is over")
    } else {
        let room = consumer.suspects.room_for(crashes, limit);
        let suspect = room.map_err(|()| record::released(&job, SUSPECT_PAUSE_MS))?;
        return Ok(Admitted { job, suspect });
    };
    Err(conclude(core, consumer, &job, None, Transition::Fail(evidence)))
}

/// Of a job that is unique, and was pushed without that: it is taken in as an enqueue would have taken it in.
fn submitted(core: &Core, job: &Job) -> Option<End> {
    let definition = job.definition;
    if job.lease.id().is_some() || job.lease.list().and_then(List::cancels).is_some() {
        return None;
    }
    // Arguments that do not fit are found when the attempt starts.
    let args = job.args()?;
    let lock = core.client.own_lock(definition, args)?;
    let values = (definition.limit_values)(args).ok()?;
    let key = values.key.and_then(|key| core.client.written_key(definition, &key).ok());
    let list = List::of(job.priority, definition.limits, key.as_deref()).by_id();
    let (id, bytes) =
        (own_id(job.id.as_str()).unwrap_or_else(|_| JobId::fresh()), job.payload.len());
    let envelope = record::with_id(job, &id);
    Some(End::Submitted(Box::new(NewLock { list, id, lock, envelope, bytes })))
}

/// The list to which a job belongs, if that is not the one from which it was taken: it was pushed there without its priority or its limits, or
/// by who does not know its type, or the type is held up. It waits where it belongs.
///
/// A job never leaves a limit that it has: another build of the program may have other limits, and would send it back.
fn elsewhere(core: &Core, consumer: &Consumer, job: &Job) -> Option<(List, Option<u32>)> {
    let (definition, taken_from) = (job.definition, job.lease.list());
    let is_held_up = consumer.is_held_up(definition.name);
    // The fast path: plain jobs.
    if definition.limits.is_empty() && job.priority == Priority::Normal && !is_held_up {
        return None;
    }
    let found = taken_from.cloned().unwrap_or_default();
    // One that is known by its id has its limits, unless who enqueued it did not know its type.
    if found.by_id && (found.has_limits() || definition.limits.is_empty()) && !is_held_up {
        return None;
    }
    if found.cancels().is_some() {
        return None;
    }
    let priority = if found.is_plain() { job.priority } else { found.priority };
    let (mut list, mut at_once) = (found.at(priority), None);
    if !found.has_limits() && !definition.limits.is_empty() {
        // Arguments that do not fit are found when the attempt starts.
        let values = (definition.limit_values)(job.args()?).ok()?;
        let key = values.key.and_then(|key| core.client.written_key(definition, &key).ok());
        list = List::of(priority, definition.limits, key.as_deref());
        list.by_id = found.by_id;
        at_once = key.and(values.limit).and_then(Result::ok);
    }
    if is_held_up && !list.has_limit(definition.name) {
        list = list.with(definition.name);
    }
    (list != found).then_some((list, at_once))
}
