//! The jobs of a bulk that are enqueued together.

use std::collections::HashMap;

use super::super::ready::Ready;
use crate::client::Client;
use crate::durability::Durability;
use crate::priority::Priority;
use crate::store::{Queue, SCRIPT_BYTES, SCRIPT_JOBS};

/// A scheduled job is two arguments of its script, which takes 1000.
const SCHEDULED_JOBS: usize = SCRIPT_JOBS / 2;

/// One that is known by its id is nine.
const SUBMITTED_JOBS: usize = SCRIPT_JOBS / 4;

/// How its jobs are enqueued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    /// Into one list.
    Together,
    /// Each into the list of its limits.
    Listed,
    Delayed,
    /// Each by its id.
    ById,
}

/// Jobs of one queue that are enqueued together or not at all.
pub(in super::super) struct Chunk<'a> {
    pub(super) client: &'a Client,
    pub(in super::super) queue: Queue,
    pub(super) front: bool,
    pub(super) how: How,
    pub(super) confirms: Option<Durability>,
    /// The places of its jobs in the bulk.
    pub(in super::super) jobs: Vec<usize>,
    pub(super) bytes: usize,
}

impl<'a> Chunk<'a> {
    fn for_jobs_like(job: &'a Ready) -> Self {
        let list = &job.place.list;
        let how = match (job.place.lock.is_some(), job.due.is_some(), list.has_limits()) {
            (true, ..) => How::ById,
            (_, true, _) => How::Delayed,
            (.., true) => How::Listed,
            _ => How::Together,
        };
        let queue = job.client.queue_of(&job.queue, list, job.place.whose(&job.id));
        Self {
            client: &job.client,
            queue: if how == How::Delayed { queue } else { queue.at(list.priority) },
            front: job.place.front,
            how,
            confirms: job.confirms,
            jobs: Vec::new(),
            bytes: 0,
        }
    }

    fn has_room_for(&self, job: &Ready) -> bool {
        let most = match self.how {
            How::ById => SUBMITTED_JOBS,
            How::Delayed | How::Listed => SCHEDULED_JOBS,
            How::Together => SCRIPT_JOBS,
        };
        self.jobs.len() < most && self.bytes + job.envelope.len() <= SCRIPT_BYTES
    }

    pub(super) fn is_of_queue(&self, other: &Self) -> bool {
        self.client.identity() == other.client.identity() && self.queue.label == other.queue.label
    }
}

/// The chunks of a bulk, in the order of their first jobs.
pub(in super::super) fn chunks<'a>(bulk: impl IntoIterator<Item = &'a Ready>) -> Vec<Chunk<'a>> {
    let mut chunks: Vec<Chunk<'_>> = Vec::new();
    let mut last_of = HashMap::new();
    let mut before = None;
    for (index, job) in bulk.into_iter().enumerate() {
        let (place, delayed) = (&job.place, job.due.is_some());
        // Of jobs that have limits each goes to a list of its own, but for delayed ones.
        let limited = place.list.has_limits().then(|| delayed.then_some(&place.list));
        let shard = job.client.shard_of(&job.queue, &place.list, place.whose(&job.id));
        let shard = shard.map(|shard| &*shard.label);
        let wanted = match place.lock {
            Some(_) => (Priority::Normal, false, Some(None), shard, true),
            None => (place.list.priority, place.front, limited, shard, false),
        };
        let delayed = delayed && place.lock.is_none();
        let kind = (job.client.identity(), &*job.queue, wanted, delayed, job.confirms);
        // Most jobs go where the one before them went.
        let last = before.filter(|(before, _)| *before == kind).map(|(_, last)| last);
        let last = last.or_else(|| last_of.get(&kind).copied());
        let last = last.filter(|last: &usize| chunks[*last].has_room_for(job));
        let last = last.unwrap_or_else(|| {
            last_of.insert(kind, chunks.len());
            chunks.push(Chunk::for_jobs_like(job));
            chunks.len() - 1
        });
        before = Some((kind, last));
        chunks[last].jobs.push(index);
        chunks[last].bytes += job.envelope.len();
    }
    chunks
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::store::Due;

    pub(in super::super) fn job(
        client: &Client,
        queue: &'static str,
        delayed: bool,
        bytes: usize,
    ) -> Ready {
        let due = delayed.then_some(Due::In(1));
        Ready::of_envelope(client.clone(), queue, due, vec![b'x'; bytes])
    }

    fn shape(bulk: &[Ready]) -> Vec<(String, bool, usize, usize)> {
        let chunks = chunks(bulk);
        let all: usize = chunks.iter().map(|chunk| chunk.jobs.len()).sum();
        assert_eq!(all, bulk.len());
        assert!(chunks.iter().all(|chunk| chunk.jobs.is_sorted()));
        let shape = |chunk: &Chunk<'_>| {
            let delayed = chunk.how == How::Delayed;
            (chunk.queue.name.to_string(), delayed, chunk.jobs[0], chunk.jobs.len())
        };
        chunks.iter().map(shape).collect()
    }

    #[test]
    fn chunks_keep_to_their_bounds_and_to_the_order() {
        let client = Client::new("redis://localhost").expect("a client");
        let bulk: Vec<_> = (0..2001).map(|_| job(&client, "a", false, 10)).collect();
        let a = |delayed, first, count| ("a".to_owned(), delayed, first, count);
        assert_eq!(shape(&bulk), [a(false, 0, 1000), a(false, 1000, 1000), a(false, 2000, 1)]);

        let bulk: Vec<_> = (0..501).map(|_| job(&client, "a", true, 10)).collect();
        assert_eq!(shape(&bulk), [a(true, 0, 500), a(true, 500, 1)]);

        let half = SCRIPT_BYTES / 2;
        let bulk = [half, half, 1, 3 * half, 1].map(|bytes| job(&client, "a", false, bytes));
        assert_eq!(shape(&bulk), [a(false, 0, 2), a(false, 2, 1), a(false, 3, 1), a(false, 4, 1)]);
    }

    #[test]
    fn each_queue_and_each_client_has_its_own_chunks() {
        let client = Client::new("redis://localhost").expect("a client");
        let other = Client::new("redis://localhost").expect("a client");
        let of = |client, queue, delayed| job(client, queue, delayed, 10);
        let bulk = [
            of(&client, "a", false),
            of(&client, "b", false),
            of(&client.clone(), "a", false),
            of(&client, "a", true),
            of(&other, "a", false),
        ];
        let expected =
            [("a", false, 0, 2), ("b", false, 1, 1), ("a", true, 3, 1), ("a", false, 4, 1)];
        let expected =
            expected.map(|(queue, delayed, first, n)| (queue.to_owned(), delayed, first, n));
        assert_eq!(shape(&bulk), expected);
    }
}
