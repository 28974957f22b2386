//! Sends the chunks of a bulk, several at a time.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

use super::super::ready::Ready;
#[cfg(feature = "testing")]
use super::super::recorded;
use super::chunk::{Chunk, How, chunks};
use crate::envelope::JobId;
use crate::error::{Cause, Error, Fate};
use crate::hooks::EventKind;
use crate::join::join_all;
use crate::store::{Answer, Connection, Fault, FaultKind, LAST_MOMENT, NoRoom, WRITE_BYTES};

/// Chunks under way at once, where their bytes are no more than those of one write.
pub(super) const CHUNKS: usize = 8;

impl Chunk<'_> {
    /// Sends it, behind those that are before it in this order.
    async fn send(&self, bulk: &[Ready], order: &Order<'_>, place: usize) -> Result<Sent, Fault> {
        let call = async |connection: Connection, within: Duration| {
            let until = Instant::now() + connection.free_to_write(within).await?;
            order.turn(place).await;
            let within = until.saturating_duration_since(Instant::now()).max(LAST_MOMENT);
            let jobs = self.jobs.iter().map(|index| &bulk[*index]);
            let result = match self.how {
                How::ById => {
                    let jobs: Vec<_> = jobs.filter_map(Ready::submission).collect();
                    let submitted = self.queue.submit(&connection, &jobs, within);
                    let both = tokio::join!(biased; submitted, connection.confirm(1));
                    both.1.and(both.0).map(|done| done.map_or_else(Sent::Full, Sent::Answered))
                }
                How::Delayed => {
                    let jobs = jobs.filter_map(|job| {
                        Some((job.due?, job.place.at_once, job.envelope.as_slice()))
                    });
                    let jobs: Vec<_> = jobs.collect();
                    self.queue.schedule(&connection, &jobs, within).await.map(|()| Sent::In)
                }
                How::Listed => {
                    let placed = jobs.map(|job| (job.place.list.to_string(), job));
                    let placed = placed.collect::<Vec<_>>();
                    let placed = placed
                        .iter()
                        .map(|(list, job)| (&**list, &*job.place.terms, job.envelope.as_slice()));
                    let how = if self.front { "RPUSH" } else { "LPUSH" };
                    let pushed = self.queue.push_each(&connection, placed, how, within);
                    let both = tokio::join!(biased; pushed, connection.confirm(1));
                    both.1.and(both.0).map(|full| full.map_or(Sent::In, Sent::Full))
                }
                How::Together => {
                    let jobs: Vec<_> = jobs.map(|job| job.envelope.as_slice()).collect();
                    let enqueued = async {
                        if self.front {
                            self.queue.enqueue_in_front(&connection, &jobs, within).await
                        } else {
                            self.queue.enqueue(&connection, &jobs, within).await
                        }
                    };
                    let both = tokio::join!(biased; enqueued, connection.confirm(1));
                    both.0.and(both.1).map(|()| Sent::In)
                }
            };
            order.set_sent(place, !result.as_ref().is_err_and(Fault::is_retryable));
            result
        };
        let result = self.client.until_sent(&self.queue, self.confirms, call).await;
        order.set_sent(place, true);
        result.map_err(|fault| fault.at(self.client.address()))
    }
}

impl Chunk<'_> {
    /// Tells those who read events of its jobs.
    async fn tell(&self, bulk: &[Ready]) {
        let jobs = self.jobs.iter().map(|index| (&*bulk[*index].job, bulk[*index].id.as_str()));
        self.client.tell(&self.queue, EventKind::Enqueued, jobs).await;
    }
}

/// What the server did with a chunk.
enum Sent {
    In,
    /// A job had no room, so none is in.
    Full(NoRoom),
    /// What became of each.
    Answered(Vec<Answer>),
}

/// Which of the chunks that are sent side by side are on their way, or at their end. Each of them awaits a connection, or the end of
/// a pause, and may be told of it before one that was asked for earlier.
struct Order<'a> {
    chunks: &'a [Chunk<'a>],
    sent: Vec<AtomicBool>,
}

impl<'a> Order<'a> {
    fn of(chunks: &'a [Chunk<'a>]) -> Self {
        Self { chunks, sent: chunks.iter().map(|_| AtomicBool::new(false)).collect() }
    }

    fn set_sent(&self, place: usize, sent: bool) {
        self.sent[place].store(sent, Ordering::Release);
    }

    /// Completes, as one of the futures of `join_all`, when all before it that are of its queue have been sent. They are polled
    /// before it whenever anything is new, so that it is polled after them then, and needs no waker.
    async fn turn(&self, place: usize) {
        let chunk = &self.chunks[place];
        let is_next = || {
            let mut before = self.chunks.iter().zip(&self.sent).take(place);
            before.all(|(other, sent)| sent.load(Ordering::Acquire) || !other.is_of_queue(chunk))
        };
        poll_fn(|_| if is_next() { Poll::Ready(()) } else { Poll::Pending }).await;
        // By the call that follows, in the same poll.
        self.set_sent(place, true);
    }
}

/// Why a queue has no room for all of its jobs, if one has not.
pub(in super::super) async fn full(bulk: &[Ready]) -> Option<Error> {
    let mut queues = HashMap::new();
    for job in bulk {
        let (_, jobs) =
            queues.entry((job.client.identity(), &*job.queue)).or_insert((job, 0_usize));
        *jobs += 1;
    }
    for (job, jobs) in queues.into_values() {
        if let Some(no_room) = job.client.no_room(&job.queue, jobs, true).await {
            return Some(job.full(no_room, None));
        }
    }
    None
}

pub(super) async fn send(bulk: Vec<Ready>) -> Result<Vec<JobId>, Error> {
    #[cfg(feature = "testing")]
    let bulk = match recorded::all_sent(bulk).await {
        Ok(bulk) => bulk,
        Err(ids) => return Ok(ids),
    };
    if let Some(full) = full(&bulk).await {
        return Err(full);
    }
    let mut fates = vec![Fate::NotEnqueued; bulk.len()];
    let mut failed: Option<Fault> = None;
    let mut refused = None;
    let mut ids: Vec<_> = bulk.iter().map(|job| job.id.clone()).collect();
    // One that waits for replicas holds up those behind it, until they would be given up.
    let waits = bulk.iter().any(|job| job.confirms.is_some());
    let chunks = chunks(&bulk);
    let mut rest = chunks.as_slice();
    while !rest.is_empty() {
        let mut bytes = 0;
        let fitting = rest.iter().take(if waits { 1 } else { CHUNKS }).take_while(|chunk| {
            bytes += chunk.bytes;
            bytes <= WRITE_BYTES
        });
        let (side_by_side, others) = rest.split_at(fitting.count().max(1));
        rest = others;
        let order = Order::of(side_by_side);
        let sends = side_by_side.iter().enumerate();
        let results = join_all(sends.map(|(place, chunk)| chunk.send(&bulk, &order, place))).await;
        let mut others_may_do = true;
        for (chunk, result) in side_by_side.iter().zip(results) {
            let fate = match &result {
                Ok(Sent::In | Sent::Answered(_)) => Fate::Enqueued,
                Err(fault) if fault.kind == FaultKind::NotDurable => Fate::NotDurable,
                Err(fault) if fault.sent => Fate::Uncertain,
                Ok(Sent::Full(_)) | Err(_) => Fate::NotEnqueued,
            };
            chunk.jobs.iter().for_each(|index| fates[*index] = fate);
            if fate == Fate::Enqueued {
                chunk.tell(&bulk).await;
            }
            match result {
                Ok(Sent::In) => {}
                Ok(Sent::Full(no_room)) => {
                    let job = chunk.jobs.get(no_room.which).map(|index| &bulk[*index]);
                    refused = refused.or(job.map(|job| job.full(no_room, job.key())));
                }
                Ok(Sent::Answered(answers)) => {
                    for (index, answer) in chunk.jobs.iter().zip(answers) {
                        match bulk[*index].receipt(answer) {
                            Ok(receipt) => ids[*index] = receipt.id,
                            Err(conflict) => {
                                fates[*index] = Fate::NotEnqueued;
                                refused.get_or_insert(conflict);
                            }
                        }
                    }
                }
                Err(fault) => {
                    // What one queue refuses another may take; without the server, or room in it, there is no point.
                    others_may_do &= fault.kind == FaultKind::Denied;
                    failed.get_or_insert(fault);
                }
            }
        }
        if !others_may_do {
            break;
        }
    }
    let count = bulk.len();
    let none_is_in = fates.iter().all(|fate| *fate == Fate::NotEnqueued);
    match failed {
        None => match refused {
            None => Ok(ids),
            Some(refused) if none_is_in => Err(refused),
            Some(refused) => {
                let jobs = ids.into_iter().zip(fates).collect();
                Err(Error::Bulk { jobs, source: Cause::new(refused) })
            }
        },
        Some(fault) if none_is_in => {
            Err(fault.into_error(format!("enqueue a bulk of {count} jobs")))
        }
        Some(fault) => {
            let jobs = ids.into_iter().zip(fates).collect();
            Err(Error::Bulk { jobs, source: fault.into_cause() })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::chunk::tests::job;
    use super::*;
    use crate::client::Client;

    #[tokio::test]
    async fn a_chunk_is_sent_behind_those_of_its_queue() {
        let client = Client::new("redis://localhost").expect("a client");
        let mut bulk: Vec<_> = (0..2001).map(|_| job(&client, "a", false, 10)).collect();
        bulk.push(job(&client, "b", false, 10));
        let chunks = chunks(&bulk);
        let order = Order::of(&chunks);
        let sends = async |place| {
            let turn = std::pin::pin!(order.turn(place));
            tokio::time::timeout(Duration::ZERO, turn).await.is_ok()
        };
        assert!(!sends(1).await && !sends(2).await);
        assert!(sends(3).await, "of another queue");
        assert!(sends(0).await);
        order.set_sent(0, false);
        assert!(!sends(1).await, "the one before it is to be sent again");
        assert!(sends(0).await && !sends(2).await && sends(1).await && sends(2).await);
    }
}
