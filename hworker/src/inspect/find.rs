//! Finding one job among all that a queue has.

use super::types::{Failed, Found, JobState, errors, since};
use crate::envelope::{Envelope, JobId};
use crate::keys::WorkerKeys;
use crate::store::{Connection, Fault, Lease, Portion, Queue, RunningEntry, server_time};

/// So many jobs are read twice, in case others came back to the front meanwhile.
const OVERLAP: usize = 100;

/// Looks for a job wherever in this queue it may be, in the order in which jobs go their way, so that one that goes on meanwhile
/// is met where it has got to.
pub(super) async fn find(
    queue: &Queue,
    on: &Connection,
    id: &JobId,
) -> Result<Option<Found>, Fault> {
    // First where it takes least.
    if let Some(found) = search_running(queue, on, id).await? {
        return Ok(Some(found));
    }
    if let Some(found) = search_scheduled(queue, on, id).await? {
        return Ok(Some(found));
    }
    if let Some(found) = search_pending(queue, on, id).await? {
        return Ok(Some(found));
    }
    if let Some(found) = search_parked(queue, on, id).await? {
        return Ok(Some(found));
    }
    if let Some(found) = search_running(queue, on, id).await? {
        return Ok(Some(found));
    }
    match search_failed(queue, on, id).await? {
        None => search_broken(queue, on, id).await,
        found => Ok(found),
    }
}

async fn search_running(
    queue: &Queue,
    on: &Connection,
    id: &JobId,
) -> Result<Option<Found>, Fault> {
    for worker in queue.worker_ids(on).await? {
        for entry in queue.running(on, &queue.keys.worker(&worker)).await? {
            let state = |since| JobState::Running { worker: worker.clone(), since };
            if let Some(found) = found(&entry.payload, id, JobState::Pending) {
                let since = match &entry.lease {
                    Some(lease) => since(lease),
                    None => server_time(on).await?,
                };
                return Ok(Some(Found { state: state(since), ..found }));
            }
        }
    }
    Ok(None)
}

/// From the back to the front, by the distance from the front: what is taken there meanwhile brings others nearer to it, where
/// they are still to be met, and what comes in at the back was not there before.
async fn search_pending(
    queue: &Queue,
    on: &Connection,
    id: &JobId,
) -> Result<Option<Found>, Fault> {
    let (mut end, mut portion) = (queue.pending_count(on).await?, Portion::new());
    while end > 0 {
        let start = end.saturating_sub(portion.count());
        let chunk = queue.pending(on, start..end + OVERLAP.min(portion.count())).await?;
        if let Some(found) = chunk.iter().find_map(|payload| found(payload, id, JobState::Pending))
        {
            return Ok(Some(found));
        }
        portion.came(chunk.iter().map(Vec::len));
        end = start;
    }
    Ok(None)
}

async fn search_scheduled(
    queue: &Queue,
    on: &Connection,
    id: &JobId,
) -> Result<Option<Found>, Fault> {
    search_by_score(queue, on, &queue.keys.scheduled, id, |due| JobState::Scheduled { due }).await
}

async fn search_parked(queue: &Queue, on: &Connection, id: &JobId) -> Result<Option<Found>, Fault> {
    let state = |token| JobState::Parked { since: token / 1000 };
    search_by_score(queue, on, &queue.keys.parked, id, state).await
}

/// From the last to the first: those that are due, or parked for long, leave at the other end.
async fn search_by_score(
    queue: &Queue,
    on: &Connection,
    set: &str,
    id: &JobId,
    state: impl Fn(u64) -> JobState,
) -> Result<Option<Found>, Fault> {
    let (mut start, mut portion) = (0, Portion::new());
    loop {
        let end = start + portion.count();
        let chunk = queue.by_score(on, set, start..end).await?;
        let found = |(payload, score): &(Vec<u8>, u64)| found(payload, id, state(*score));
        if let Some(found) = chunk.iter().find_map(found) {
            return Ok(Some(found));
        }
        if chunk.len() < end - start {
            return Ok(None);
        }
        portion.came(chunk.iter().map(|(payload, _)| payload.len()));
        start = end;
    }
}

async fn search_failed(queue: &Queue, on: &Connection, id: &JobId) -> Result<Option<Found>, Fault> {
    let (mut offset, mut portion) = (0, Portion::new());
    loop {
        let count = portion.count();
        let chunk = queue.failed(on, offset, count as u64).await?;
        let last = chunk.len() < count;
        portion.came(chunk.iter().map(Vec::len));
        let mut records =
            chunk.iter().filter_map(|record| serde_json::from_slice::<Failed>(record).ok());
        let failed = records.find(|failed| failed.id == id.as_str()).map(|failed| Found {
            id: id.clone(),
            job: failed.job.clone(),
            attempt: failed.attempts,
            errors: failed.errors(),
            state: JobState::Failed(Box::new(failed)),
        });
        match failed {
            None if !last => offset += count as u64,
            found => return Ok(found),
        }
    }
}

async fn search_broken(queue: &Queue, on: &Connection, id: &JobId) -> Result<Option<Found>, Fault> {
    let entries = queue.broken(on).await?;
    let found = entries.into_iter().find_map(|entry| {
        let found = found(&entry.payload, id, JobState::Pending)?;
        Some(Found { state: JobState::Broken(Box::new(entry.into())), ..found })
    });
    Ok(found)
}

/// Takes a job from whoever holds it under a lease; false where nobody does.
pub(super) async fn revoke(queue: &Queue, on: &Connection, id: &JobId) -> Result<bool, Fault> {
    match holder(queue, on, id).await.map_err(Fault::certainly_not_done)? {
        Some((keys, lease)) => queue.revoke(on, &keys, &lease).await,
        None => Ok(false),
    }
}

/// Who holds a job, and under which lease.
async fn holder(
    queue: &Queue,
    on: &Connection,
    id: &JobId,
) -> Result<Option<(WorkerKeys, Lease)>, Fault> {
    for worker in queue.worker_ids(on).await? {
        let keys = queue.keys.worker(&worker);
        for RunningEntry { lease, payload } in queue.running(on, &keys).await? {
            if let Some(lease) = lease.filter(|_| found(&payload, id, JobState::Pending).is_some())
            {
                return Ok(Some((keys, lease)));
            }
        }
    }
    Ok(None)
}

fn found(payload: &[u8], id: &JobId, state: JobState) -> Option<Found> {
    let envelope = Envelope::decode(payload).ok()?;
    (envelope.id.as_deref()? == id.as_str()).then(|| Found {
        id: id.clone(),
        job: envelope.job.into_owned(),
        attempt: envelope.attempt,
        errors: errors(payload),
        state,
    })
}
