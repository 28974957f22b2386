//! Finding one job by its id among all that a queue has.

use std::sync::atomic::{AtomicBool, Ordering};

use super::budget::{Reader, Times, read_held};
use super::job::{Guard, JobInfo, Stands};
use super::order::Order;
use super::position::Position;
use crate::envelope::JobId;
use crate::job_state::JobState;
use crate::keys::WorkerKeys;
use crate::priority::Priority;
use crate::store::{Connection, Fault, Lease, Queue, Stand};

/// So far around the time in an id a waiting job is looked for first.
const AROUND_MS: u64 = 2_000;

/// Looks for a job wherever in this shard it may be: first where it takes least, then in the order in which jobs go their way, so that one
/// that goes on meanwhile is met where it has got to. `is_cut` is set where not all that waits could be read.
pub(super) async fn find(
    (queue, shard): (&Queue, usize),
    on: &Connection,
    id: &JobId,
    is_cut: &AtomicBool,
) -> Result<Option<JobInfo>, Fault> {
    if let Some(found) = standing(queue, shard, on, id).await? {
        return Ok(Some(found));
    }
    if let Some(found) = recorded(queue, shard, on, id).await? {
        return Ok(Some(found));
    }
    if let Some(found) = held(queue, shard, on, id).await? {
        return Ok(Some(found));
    }
    let mut lists = Priority::ALL.map(|priority| queue.clone().at(priority)).to_vec();
    let limited = queue.other_lists(on).await?;
    lists.extend(limited.into_iter().map(|list| queue.clone().at(list)));
    let waiting = |order, times| {
        let asked = (JobState::Waiting, order);
        let reader =
            move |list| Reader::new(list, shard, on.clone(), asked, times, Position::Start);
        lists.iter().map(reader)
    };
    let asked = |state| {
        Reader::new(queue, shard, on.clone(), (state, Order::Newest), Times::ALL, Position::Start)
    };
    if let Some(at) = id.unix_ms() {
        let around = Times { since: at.saturating_sub(AROUND_MS), until: at + AROUND_MS };
        for reader in waiting(Order::Next, around) {
            if let Some(found) = read(reader, id, Some(around.until), is_cut).await? {
                return Ok(Some(found));
            }
        }
    }
    // The few before the many. From the last to the first: those whose turn it is leave at the other end.
    let few = [JobState::Scheduled, JobState::Broken].map(asked).into_iter();
    let many = waiting(Order::Newest, Times::ALL).chain([asked(JobState::Parked)]);
    for reader in few.chain(many) {
        if let Some(found) = read(reader, id, None, is_cut).await? {
            return Ok(Some(found));
        }
    }
    if let Some(found) = held(queue, shard, on, id).await? {
        return Ok(Some(found));
    }
    if let Some(found) = recorded(queue, shard, on, id).await? {
        return Ok(Some(found));
    }
    read(asked(JobState::Broken), id, None, is_cut).await
}

/// One that is known by its id.
async fn standing(
    queue: &Queue,
    shard: usize,
    on: &Connection,
    id: &JobId,
) -> Result<Option<JobInfo>, Fault> {
    let Some(standing) = queue.standing(on, id).await? else { return Ok(None) };
    let mut holder = None;
    let (state, at, stands) = match standing.at {
        Stand::Waits => (JobState::Waiting, None, Stands::Waiting(0)),
        Stand::Scheduled(due) => (JobState::Scheduled, Some(due), Stands::Sorted(due)),
        Stand::Parked(token) => (JobState::Parked, Some(token / 1000), Stands::Sorted(token)),
        Stand::Runs { worker, lease } => {
            holder = Some(worker.clone());
            let since = lease.token() / 1000;
            (JobState::Running, Some(since), Stands::Running(worker, Some(lease)))
        }
    };
    let guard = Guard::of(shard, stands).at(standing.list);
    let mut job = JobInfo::of_payload(&queue.name, state, at, standing.payload, guard);
    job.worker = holder;
    Ok(Some(job))
}

/// Reads until the job comes, or one of a later time than this.
async fn read(
    mut reader: Reader<'_>,
    id: &JobId,
    until: Option<u64>,
    is_cut: &AtomicBool,
) -> Result<Option<JobInfo>, Fault> {
    loop {
        while let Some((job, _)) = reader.take_first() {
            if job.id.as_ref() == Some(id) {
                return Ok(Some(job));
            }
            if until.is_some_and(|until| job.at.is_some_and(|at| at > until)) {
                return Ok(None);
            }
        }
        if reader.is_filled() {
            is_cut.fetch_or(reader.is_cut, Ordering::Relaxed);
            return Ok(None);
        }
        reader.fill().await?;
    }
}

async fn held(
    queue: &Queue,
    shard: usize,
    on: &Connection,
    id: &JobId,
) -> Result<Option<JobInfo>, Fault> {
    let held = read_held(queue, shard, on).await?;
    Ok(held.into_iter().map(|(_, _, job)| job).find(|job| job.id.as_ref() == Some(id)))
}

/// The whole record of an ended job.
async fn recorded(
    queue: &Queue,
    shard: usize,
    on: &Connection,
    id: &JobId,
) -> Result<Option<JobInfo>, Fault> {
    let Some(record) = queue.record(on, id.as_str()).await? else {
        return Ok(None);
    };
    let Some((ended, place)) = queue.place_of(on, id.as_str(), &record).await? else {
        return Ok(None);
    };
    let bytes = record.len() as u64;
    Ok(Some(JobInfo::of_record(&queue.name, ended.into(), shard, &place, bytes, Some(&record))))
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
    let holder = held(queue, 0, on, id).await?.map(|job| job.guard);
    Ok(match holder {
        Some(Guard { stands: Stands::Running(worker, Some(lease)), .. }) => {
            Some((queue.keys.worker(&worker), lease))
        }
        _ => None,
    })
}
