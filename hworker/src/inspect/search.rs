//! Finding one job among all that a queue has.

use super::types::{Failed, Found, JobState, errors, running_job};
use crate::envelope::{Envelope, JobId};
use crate::store::{Connection, Fault, Queue};

/// Jobs that a search reads at once.
const CHUNK: u64 = 500;

/// Looks for a job wherever in this queue it may be.
pub(super) async fn find(
    queue: &Queue,
    on: &Connection,
    id: &JobId,
) -> Result<Option<Found>, Fault> {
    if let Some(found) = search_running(queue, on, id).await? {
        return Ok(Some(found));
    }
    if let Some(found) = search_waiting(queue, on, id).await? {
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
    for (worker, ..) in queue.workers(on).await? {
        for entry in queue.running(on, &queue.keys.worker(&worker)).await? {
            let state =
                JobState::Running { worker: worker.clone(), since: entry.lease.token() / 1000 };
            if let Some(found) = found(&entry.payload, id, state) {
                return Ok(Some(found));
            }
        }
    }
    Ok(None)
}

async fn search_waiting(
    queue: &Queue,
    on: &Connection,
    id: &JobId,
) -> Result<Option<Found>, Fault> {
    let mut offset = 0;
    loop {
        let chunk = queue.pending(on, offset, CHUNK).await?;
        let last = chunk.len() < CHUNK as usize;
        if let Some(found) = chunk.iter().find_map(|payload| found(payload, id, JobState::Pending))
        {
            return Ok(Some(found));
        }
        if last {
            break;
        }
        offset += CHUNK;
    }
    offset = 0;
    loop {
        let chunk = queue.scheduled(on, offset, CHUNK).await?;
        let last = chunk.len() < CHUNK as usize;
        let scheduled =
            |(payload, due): &(Vec<u8>, u64)| found(payload, id, JobState::Scheduled { due: *due });
        match chunk.iter().find_map(scheduled) {
            None if !last => offset += CHUNK,
            found => return Ok(found),
        }
    }
}

async fn search_failed(queue: &Queue, on: &Connection, id: &JobId) -> Result<Option<Found>, Fault> {
    let mut offset = 0;
    loop {
        let chunk = queue.failed(on, offset, CHUNK).await?;
        let last = chunk.len() < CHUNK as usize;
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
            None if !last => offset += CHUNK,
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

/// Takes a job from whoever holds it; false where nobody does.
pub(super) async fn revoke(queue: &Queue, on: &Connection, id: &JobId) -> Result<bool, Fault> {
    for (worker, ..) in queue.workers(on).await? {
        let keys = queue.keys.worker(&worker);
        for entry in queue.running(on, &keys).await? {
            if running_job(&entry).id.as_ref() == Some(id) {
                return queue.revoke(on, &keys, &entry.lease).await;
            }
        }
    }
    Ok(false)
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
