//! Parked jobs: a worker could not run them, and another one may, because a deploy may be under way.
//!
//! Each worker looks at each of them once, in the order of their tokens, and takes those that it can run under a lease of its own. So no
//! job circles between workers that cannot run it. A heartbeat tells how many are left to look at. The worker that keeps the timer breaks
//! those that no worker could run for `unknown_for`. Code of the user reads the arguments, so this is a task of the runtime of the bodies.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::charts::{Rare, UNKNOWN};
use crate::log::say;
use crate::relay::Note;
use crate::store::{Connection, Fault, Overdue, ParkedEntry, Reserved};
use crate::time::{day, millis};
use crate::worker::attempt::kept;
use crate::worker::attempt::run::why_not;
use crate::worker::intake::accept::accept;
use crate::worker::state::{Consumer, Core, Slot};

/// How often the worker logs that there is no room for broken jobs, and looks for room.
const FULL_EVERY: Duration = Duration::from_secs(60);

/// The reason for a job that is too large to look at.
const TOO_LARGE: &str = "larger than max_payload";

/// Looks at parked jobs until the worker stops.
pub(crate) async fn run(core: Arc<Core>, consumer: Arc<Consumer>) {
    let mut full_since = None;
    loop {
        tokio::select! {
            () = consumer.parked.told.notified() => {}
            () = consumer.stopping.cancelled() => return,
        }
        let looked = async {
            let on = core.client.connection(&consumer.queue).await?;
            // Before a look, which may wait for slots.
            if consumer.parked.overdue.swap(0, Ordering::AcqRel) > 0 {
                break_overdue(&core, &consumer, &on, &mut full_since).await?;
            }
            look(&core, &consumer, &on).await
        };
        if let Err(fault) = looked.await {
            say!(DEBUG, { queue = consumer.queue.name.clone() }, job.queue = %queue, "parked jobs were not looked at, the next heartbeat tells again: {fault}");
        }
    }
}

/// Takes the jobs that can run here and were not looked at yet.
async fn look(core: &Arc<Core>, consumer: &Arc<Consumer>, on: &Connection) -> Result<(), Fault> {
    let session_number = consumer.session_number.load(Ordering::Acquire);
    loop {
        let page = consumer.queue.look_parked(on, consumer.parked.looked(), None).await?;
        // A score that is no token may lead nowhere.
        let last = page.last().map(|entry| entry.token);
        let Some(last) = last.filter(|last| *last > consumer.parked.looked()) else {
            return Ok(());
        };
        let mut runnable = page.into_iter().filter_map(|ParkedEntry { token, payload }| {
            let payload = payload?;
            why_not(core, consumer, payload.clone()).is_none().then_some((token, payload))
        });
        let mut next = runnable.next();
        while let Some(first) = next.take() {
            // As for a reserve: a slot for each job, a fresh heartbeat, and nothing beside a suspect. Otherwise a later look takes it.
            let slot = tokio::select! {
                slot = consumer.slots.acquire() => slot,
                () = consumer.stopping.cancelled() => None,
            };
            let Some(slot) = slot else { return Ok(()) };
            if consumer.takes_none()
                || !consumer.freshness.is_fresh()
                || consumer.suspects.alone_until().is_some()
            {
                return Ok(());
            }
            let mut wanted = vec![first];
            let mut slots = vec![slot];
            for job in runnable.by_ref() {
                let Some(slot) = consumer.slots.try_acquire() else {
                    next = Some(job);
                    break;
                };
                wanted.push(job);
                slots.push(slot);
            }
            if !take(core, consumer, on, session_number, wanted, slots).await? {
                return Ok(());
            }
        }
        consumer.parked.looked.store(last, Ordering::Release);
    }
}

/// Takes these jobs for these slots, and counts them as looked at. False if it took none: the session number is old, or the worker stops.
async fn take(
    core: &Arc<Core>,
    consumer: &Arc<Consumer>,
    on: &Connection,
    session_number: u64,
    wanted: Vec<(u64, Vec<u8>)>,
    slots: Vec<Slot>,
) -> Result<bool, Fault> {
    let last = wanted.last().map_or(0, |(token, _)| *token);
    let _taking = consumer.taking();
    // A retiring worker waits only for a call that is in flight by now.
    if consumer.stopping.is_cancelled() {
        return Ok(false);
    }
    // Guard: a job counts as looked at only when the result of the call is known. Jobs of a lost answer are found among the leases.
    match consumer.queue.take_parked(on, &consumer.keys, session_number, wanted).await? {
        Reserved::Jobs { mut jobs, .. } => {
            consumer.parked.looked.store(last, Ordering::Release);
            consumer.leases.reserved(session_number, &mut jobs);
            accept(core, consumer, jobs, slots, 0);
            Ok(true)
        }
        Reserved::Stale | Reserved::Closed { .. } => Ok(false),
        Reserved::Void => {
            consumer.void.cancel();
            Ok(false)
        }
    }
}

/// Breaks jobs that no worker could run for long. A look takes those that can run here.
async fn break_overdue(
    core: &Core,
    consumer: &Consumer,
    on: &Connection,
    full_since: &mut Option<Instant>,
) -> Result<(), Fault> {
    if full_since.is_some_and(|since| since.elapsed() < FULL_EVERY) {
        return Ok(());
    }
    let until = core.clock.unix_ms().saturating_sub(millis(core.config.unknown_for));
    let (mut after, up_to) = (0, until.saturating_mul(1000));
    loop {
        let page = consumer.queue.look_parked(on, after, Some(up_to)).await?;
        let last = page.last().map(|entry| entry.token);
        let Some(last) = last.filter(|last| *last > after) else { break };
        after = last;
        let overdue: Vec<_> = page
            .into_iter()
            .filter_map(|ParkedEntry { token, payload }| {
                let why = match &payload {
                    Some(payload) => why_not(core, consumer, payload.clone())?,
                    None => TOO_LARGE.to_owned(),
                };
                let reason = format!("{why}; parked for {:?} before", core.config.unknown_for);
                let now = core.clock.unix_ms();
                let note = payload.as_deref().and_then(|of| Note::of_payload(of, "broken"));
                let kept = payload.and_then(|payload| kept::of_broken(now, &payload, &reason));
                Some(Overdue { token, reason, kept, note })
            })
            .collect();
        let today = day(core.clock.unix_ms());
        if !overdue.is_empty() && !consumer.queue.break_parked(on, &today, &overdue).await? {
            *full_since = Some(Instant::now());
            let limit = consumer.queue.limits.broken;
            say!(WARN, { queue = consumer.queue.name.clone() },
                job.queue = %queue, limit, "there is no room for more broken jobs, so jobs that no worker could run stay parked: requeue or delete \
                 broken ones, or raise HWORKER_BROKEN_LIMIT");
            return Ok(());
        }
        consumer.charts.totals().add(UNKNOWN, Rare::Broken, overdue.len() as u64);
        tokio::task::yield_now().await;
    }
    *full_since = None;
    Ok(())
}
