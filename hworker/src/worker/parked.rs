//! Jobs that a worker could not run, put aside for one that can: a deploy may be under way.
//!
//! Each worker looks at each of them once, in the order of their tokens, and takes what it can run straight under a lease of its own, so
//! nothing circles between workers that cannot. A heartbeat tells how many it has not looked at. Whoever keeps the timer breaks those
//! that nobody could run for `unknown_for`. Arguments are read by code of the user's, so this is a task of the runtime of the bodies.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::consumer::Lane;
use super::core::Core;
use super::execute::why_not;
use super::hand_over::hand_over;
use super::slots::Slot;
use crate::log::say;
use crate::store::{Connection, Fault, ParkedEntry, Reserved};
use crate::time::{day, millis};

/// Where the broken ones are full, that is said, and room is looked for, so often.
const FULL_EVERY: Duration = Duration::from_secs(60);

/// What is said of one too large for any look.
const TOO_LARGE: &str = "larger than max_payload";

/// Looks at parked jobs until the worker stops.
pub(super) async fn run(core: Arc<Core>, lane: Arc<Lane>) {
    let mut full_since = None;
    loop {
        tokio::select! {
            () = lane.parked.told.notified() => {}
            () = lane.stopping.cancelled() => return,
        }
        let looked = async {
            let on = core.client.connection(&lane.queue).await?;
            // Before a look, which may wait for slots.
            if lane.parked.overdue.swap(0, Ordering::AcqRel) > 0 {
                break_overdue(&core, &lane, &on, &mut full_since).await?;
            }
            look(&core, &lane, &on).await
        };
        if let Err(fault) = looked.await {
            say!(DEBUG, { queue = lane.queue.name.clone() }, %queue, "parked jobs were not looked at, the next heartbeat tells again: {fault}");
        }
    }
}

/// Takes what can run here of those that were not looked at.
async fn look(core: &Arc<Core>, lane: &Arc<Lane>, on: &Connection) -> Result<(), Fault> {
    let session = lane.session.load(Ordering::Acquire);
    loop {
        let page = lane.queue.look_parked(on, lane.parked.looked(), None).await?;
        // A score that is no token may lead nowhere.
        let last = page.last().map(|entry| entry.token);
        let Some(last) = last.filter(|last| *last > lane.parked.looked()) else { return Ok(()) };
        let mut runnable = page.into_iter().filter_map(|ParkedEntry { token, payload }| {
            let payload = payload?;
            why_not(core, lane, payload.clone()).is_none().then_some((token, payload))
        });
        let mut next = runnable.next();
        while let Some(first) = next.take() {
            // As a reserve: a slot each, a heartbeat that was accepted lately, and nothing beside a suspect. Else it is for a later look.
            let slot = tokio::select! {
                slot = lane.slots.acquire() => slot,
                () = lane.stopping.cancelled() => None,
            };
            let Some(slot) = slot else { return Ok(()) };
            if !lane.pulse.is_fresh() || lane.suspects.alone_until().is_some() {
                return Ok(());
            }
            let mut wanted = vec![first];
            let mut slots = vec![slot];
            for job in runnable.by_ref() {
                let Some(slot) = lane.slots.try_acquire() else {
                    next = Some(job);
                    break;
                };
                wanted.push(job);
                slots.push(slot);
            }
            if !take(core, lane, on, session, wanted, slots).await? {
                return Ok(());
            }
        }
        lane.parked.looked.store(last, Ordering::Release);
    }
}

/// Takes these jobs, for these slots, and counts them as looked at; false under an old session.
async fn take(
    core: &Arc<Core>,
    lane: &Arc<Lane>,
    on: &Connection,
    session: u64,
    wanted: Vec<(u64, Vec<u8>)>,
    slots: Vec<Slot>,
) -> Result<bool, Fault> {
    let last = wanted.last().map_or(0, |(token, _)| *token);
    let _taking = Taking::begin(lane);
    // Only what is under way now is waited for by a worker that retires.
    if lane.stopping.is_cancelled() {
        return Ok(false);
    }
    // Guard: looked at only when it is known what became of the call. What a lost answer took is found among the leases.
    match lane.queue.take_parked(on, &lane.keys, session, wanted).await? {
        Reserved::Jobs { mut jobs, .. } => {
            lane.parked.looked.store(last, Ordering::Release);
            lane.leases.reserved(session, &mut jobs);
            hand_over(core, lane, jobs, slots, 0);
            Ok(true)
        }
        Reserved::Stale => Ok(false),
        Reserved::Void => {
            lane.void.cancel();
            Ok(false)
        }
    }
}

/// A call that takes some is under way, until what it brought is handed over.
struct Taking<'a>(&'a Lane);

impl<'a> Taking<'a> {
    fn begin(lane: &'a Lane) -> Self {
        lane.parked.taking.store(true, Ordering::SeqCst);
        Self(lane)
    }
}

impl Drop for Taking<'_> {
    fn drop(&mut self) {
        self.0.parked.taking.store(false, Ordering::SeqCst);
        self.0.changed.notify_one();
    }
}

/// Breaks what nobody could run for long. What can run here is left to a look.
async fn break_overdue(
    core: &Core,
    lane: &Lane,
    on: &Connection,
    full_since: &mut Option<Instant>,
) -> Result<(), Fault> {
    if full_since.is_some_and(|since| since.elapsed() < FULL_EVERY) {
        return Ok(());
    }
    let until = core.clock.unix_ms().saturating_sub(millis(core.config.unknown_for));
    let (mut after, up_to) = (0, until.saturating_mul(1000));
    loop {
        let page = lane.queue.look_parked(on, after, Some(up_to)).await?;
        let last = page.last().map(|entry| entry.token);
        let Some(last) = last.filter(|last| *last > after) else { break };
        after = last;
        let overdue: Vec<_> = page
            .into_iter()
            .filter_map(|ParkedEntry { token, payload }| {
                let why = match payload {
                    Some(payload) => why_not(core, lane, payload)?,
                    None => TOO_LARGE.to_owned(),
                };
                Some((token, format!("{why}; parked for {:?} before", core.config.unknown_for)))
            })
            .collect();
        let today = day(core.clock.unix_ms());
        if !overdue.is_empty() && !lane.queue.break_parked(on, &today, &overdue).await? {
            *full_since = Some(Instant::now());
            let limit = lane.queue.limits.broken;
            say!(WARN, { queue = lane.queue.name.clone() }, %queue, limit, "there is no room for more broken jobs, so jobs that no worker could run stay parked: requeue or delete broken ones, or raise HWORKER_BROKEN_LIMIT");
            return Ok(());
        }
        tokio::task::yield_now().await;
    }
    *full_since = None;
    Ok(())
}
