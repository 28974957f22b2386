//! Enqueueing many jobs at once.

use std::collections::HashMap;
use std::fmt;
use std::future::poll_fn;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant, SystemTime};

use crate::client::Client;
use crate::durability::Durability;
use crate::enqueue::{Enqueue, Ready, block_on, in_a_runtime};
use crate::envelope::JobId;
use crate::error::{Error, Fate};
use crate::job::Job;
use crate::join::join_all;
use crate::store::{
    Connection, Due, Fault, FaultKind, LAST_MOMENT, Queue, SCRIPT_BYTES, SCRIPT_JOBS, WRITE_BYTES,
};
use crate::strict_json;
use crate::time::since_1970;

/// A scheduled job is two arguments of its script, which takes 1000.
const SCHEDULED_JOBS: usize = SCRIPT_JOBS / 2;

/// Jobs that are enqueued at the same time, as their envelopes have it: looking at the clock takes longer than it seems.
const JOBS_OF_ONE_TIME: usize = 256;

/// Chunks under way at once, where their bytes are no more than those of one write.
const CHUNKS: usize = 8;

/// Many jobs that are enqueued at once, in as few round trips as they fit in: of any types, for any queues, now or later.
///
/// Everything is checked before anything is sent: where one job is wrong, none is enqueued. A queue gets its jobs in the
/// order of the bulk, in chunks of up to 1000 (500 delayed ones) and about 1 MB. A chunk is enqueued whole or not at all; several of them
/// are sent one behind the other without waiting, and where one fails after another is in, [`Error::Bulk`] says what
/// became of each job.
///
/// ```no_run
/// # use std::time::Duration;
/// # #[hworker::job] async fn send_welcome(to: String) { let _ = to; }
/// # #[hworker::job] async fn report(month: u32) { let _ = month; }
/// # async fn demo(users: Vec<String>) -> Result<(), hworker::Error> {
/// let mut bulk: hworker::Bulk = users.into_iter().map(send_welcome::with).collect();
/// bulk.extend([report::with(11).delay(Duration::from_secs(60))]);
/// let ids = bulk.add(report::with(12).queue("reports")).enqueue().await?; // in the order of the bulk
/// # Ok(()) }
/// ```
#[derive(Default)]
#[must_use = "nothing is enqueued until `.enqueue().await`"]
pub struct Bulk {
    runs: Vec<Box<dyn Run>>,
    client: Option<Client>,
}

/// Jobs of one type, whichever, that follow one another in a bulk.
trait Run: Send {
    fn len(&self) -> usize;
    /// Whether any of them leaves open which client it is enqueued by.
    fn needs_client(&self) -> bool;
    fn encode(self: Box<Self>, client: Option<&Client>, into: &mut Encoded);
}

impl<J: Job> Run for Vec<Enqueue<J>> {
    fn len(&self) -> usize {
        self.len()
    }

    fn needs_client(&self) -> bool {
        self.iter().any(Enqueue::needs_client)
    }

    fn encode(self: Box<Self>, client: Option<&Client>, into: &mut Encoded) {
        let mut now = since_1970(SystemTime::now());
        for (number, job) in self.into_iter().enumerate() {
            if number % JOBS_OF_ONE_TIME == JOBS_OF_ONE_TIME - 1 {
                now = since_1970(SystemTime::now());
            }
            let bytes = &mut into.bytes;
            let job = job.encode(client, now, |envelope| {
                let start = bytes.len();
                let doubtful = strict_json::write(envelope, bytes)?;
                Ok((start..bytes.len(), bytes.len() - start, doubtful))
            });
            into.add(job);
        }
    }
}

/// Where an envelope is among the bytes of all.
type Span = Range<usize>;

/// What became of jobs that were to be encoded.
#[derive(Default)]
struct Encoded {
    ready: Vec<Ready<Span>>,
    /// All envelopes.
    bytes: Vec<u8>,
    wrong: Vec<(usize, Error)>,
}

impl Encoded {
    fn add(&mut self, result: Result<Ready<Span>, Error>) {
        match result {
            Ok(job) => self.ready.push(job),
            Err(error) => self.wrong.push((self.ready.len() + self.wrong.len(), error)),
        }
    }
}

impl Bulk {
    /// Without any jobs as yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a job behind those that are there.
    // `bulk + job` would say less.
    #[allow(clippy::should_implement_trait)]
    pub fn add<J: Job>(mut self, job: Enqueue<J>) -> Self {
        self.extend([job]);
        self
    }

    /// Uses another client than the default one, for the jobs that name none themselves.
    pub fn on(mut self, client: &Client) -> Self {
        self.client = Some(client.clone());
        self
    }

    /// How many jobs there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.runs.iter().map(|run| run.len()).sum()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Enqueues the jobs and gives their ids, in the order of the bulk. `Ok` means that the server has all of them.
    ///
    /// Dropping the future before it is ready leaves each chunk enqueued or not, never half.
    ///
    /// # Errors
    /// [`Error::Config`] where the default client is needed and cannot be made; [`Error::Invalid`] where jobs are wrong, with all that are; [`Error::Bulk`] where jobs are or may be enqueued and
    /// others are not. With every other error none is.
    pub async fn enqueue(self) -> Result<Vec<JobId>, Error> {
        in_a_runtime()?;
        send(self.encode(Client::default_client)?).await
    }

    /// Enqueues the jobs from code that is not async, in or outside a runtime, and blocks until the server has them.
    ///
    /// # Errors
    /// As [`Bulk::enqueue`].
    pub fn enqueue_blocking(self) -> Result<Vec<JobId>, Error> {
        block_on(send(self.encode(Client::default_client)?))
    }

    /// Checks all jobs and writes their envelopes. The default client is asked for once, and only where a job needs it: that it
    /// cannot be made is no fault of any of them.
    fn encode(
        self,
        default_client: impl FnOnce() -> Result<Client, Error>,
    ) -> Result<Encoded, Error> {
        let client = match self.client {
            None if self.runs.iter().any(|run| run.needs_client()) => Some(default_client()?),
            given => given,
        };
        let mut encoded = Encoded::default();
        encoded.ready.reserve(self.runs.iter().map(|run| run.len()).sum());
        for run in self.runs {
            run.encode(client.as_ref(), &mut encoded);
        }
        if encoded.wrong.is_empty() {
            Ok(encoded)
        } else {
            Err(Error::Invalid { jobs: encoded.wrong })
        }
    }
}

impl<J: Job> Extend<Enqueue<J>> for Bulk {
    fn extend<I: IntoIterator<Item = Enqueue<J>>>(&mut self, jobs: I) {
        self.runs.push(Box::new(Vec::from_iter(jobs)));
    }
}

impl<J: Job> FromIterator<Enqueue<J>> for Bulk {
    fn from_iter<I: IntoIterator<Item = Enqueue<J>>>(jobs: I) -> Self {
        let mut bulk = Self::new();
        bulk.extend(jobs);
        bulk
    }
}

impl fmt::Debug for Bulk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The arguments of jobs stay out of logs.
        f.debug_struct("Bulk").field("jobs", &self.len()).finish_non_exhaustive()
    }
}

/// Jobs of one queue that are enqueued together or not at all.
struct Chunk<'a> {
    client: &'a Client,
    queue: Queue,
    delayed: bool,
    confirms: Option<Durability>,
    /// The places of its jobs in the bulk.
    jobs: Vec<usize>,
    bytes: usize,
}

impl<'a> Chunk<'a> {
    fn for_jobs_like(job: &'a Ready<Span>) -> Self {
        let queue = job.client.queue(&job.queue);
        Self {
            client: &job.client,
            queue,
            delayed: job.due.is_some(),
            confirms: job.confirms,
            jobs: Vec::new(),
            bytes: 0,
        }
    }

    fn has_room_for(&self, job: &Ready<Span>) -> bool {
        let most = if self.delayed { SCHEDULED_JOBS } else { SCRIPT_JOBS };
        self.jobs.len() < most && self.bytes + job.envelope.len() <= SCRIPT_BYTES
    }

    fn is_of_queue(&self, other: &Self) -> bool {
        self.client.identity() == other.client.identity() && self.queue.label == other.queue.label
    }

    /// Sends it, behind those that are before it in this order.
    async fn send(&self, bulk: &Encoded, order: &Order<'_>, place: usize) -> Result<(), Fault> {
        let call = async |connection: Connection, within: Duration| {
            let until = Instant::now() + connection.free_to_write(within).await?;
            order.turn(place).await;
            let within = until.saturating_duration_since(Instant::now()).max(LAST_MOMENT);
            let jobs = self.jobs.iter().map(|index| &bulk.ready[*index]);
            let envelope = |job: &Ready<Span>| &bulk.bytes[job.envelope.clone()];
            let result = if self.delayed {
                let jobs = jobs.filter_map(|job| Some((job.due?, envelope(job))));
                let jobs: Vec<(Due, &[u8])> = jobs.collect();
                self.queue.schedule(&connection, &jobs, within).await
            } else {
                let jobs: Vec<&[u8]> = jobs.map(envelope).collect();
                let enqueued = self.queue.enqueue(&connection, &jobs, within);
                let (enqueued, confirmed) = tokio::join!(biased; enqueued, connection.confirm(1));
                enqueued.and(confirmed)
            };
            order.set_sent(place, !result.as_ref().is_err_and(Fault::passes));
            result
        };
        let result = self.client.until_sent(&self.queue, self.confirms, call).await;
        order.set_sent(place, true);
        result.map_err(|fault| fault.at(self.client.address()))
    }
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

/// The chunks of a bulk, in the order of their first jobs.
fn chunks(bulk: &[Ready<Span>]) -> Vec<Chunk<'_>> {
    let mut chunks: Vec<Chunk<'_>> = Vec::new();
    let mut last_of = HashMap::new();
    let mut before = None;
    for (index, job) in bulk.iter().enumerate() {
        let kind = (job.client.identity(), job.queue.as_ref(), job.due.is_some(), job.confirms);
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

async fn send(bulk: Encoded) -> Result<Vec<JobId>, Error> {
    let mut fates = vec![Fate::NotEnqueued; bulk.ready.len()];
    let mut failed: Option<Fault> = None;
    // One that waits for replicas holds up those behind it, until they would be given up.
    let waits = bulk.ready.iter().any(|job| job.confirms.is_some());
    let chunks = chunks(&bulk.ready);
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
                Ok(()) => Fate::Enqueued,
                Err(fault) if fault.kind == FaultKind::NotDurable => Fate::NotDurable,
                Err(fault) if fault.sent => Fate::Uncertain,
                Err(_) => Fate::NotEnqueued,
            };
            chunk.jobs.iter().for_each(|index| fates[*index] = fate);
            if let Err(fault) = result {
                // What one queue refuses another may take; without the server, or room in it, there is no point.
                others_may_do &= fault.kind == FaultKind::Denied;
                failed.get_or_insert(fault);
            }
        }
        if !others_may_do {
            break;
        }
    }
    let count = bulk.ready.len();
    let ids = bulk.ready.into_iter().map(|job| job.id);
    match failed {
        None => Ok(ids.collect()),
        Some(fault) if fates.iter().all(|fate| *fate == Fate::NotEnqueued) => {
            Err(fault.into_error(format!("enqueue a bulk of {count} jobs")))
        }
        Some(fault) => {
            Err(Error::Bulk { jobs: ids.zip(fates).collect(), source: fault.into_cause() })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(client: &Client, queue: &'static str, delayed: bool, bytes: usize) -> Ready<Span> {
        let due = delayed.then_some(Due::In(1));
        Ready::of_envelope(client.clone(), queue, due, 0..bytes)
    }

    fn shape(bulk: &[Ready<Span>]) -> Vec<(String, bool, usize, usize)> {
        let chunks = chunks(bulk);
        let all: usize = chunks.iter().map(|chunk| chunk.jobs.len()).sum();
        assert_eq!(all, bulk.len());
        assert!(chunks.iter().all(|chunk| chunk.jobs.is_sorted()));
        let shape = |chunk: &Chunk<'_>| {
            (chunk.queue.name.to_string(), chunk.delayed, chunk.jobs[0], chunk.jobs.len())
        };
        chunks.iter().map(shape).collect()
    }

    #[hworker::job]
    fn of_a_bulk() {}

    #[test]
    fn the_default_client_is_made_once_and_only_where_it_is_needed() {
        let mut asked = 0;
        let bulk: Bulk = (0..3).map(|_| of_a_bulk::with()).collect();
        let wrong = bulk.encode(|| {
            asked += 1;
            Err(Error::config("a wrong URL"))
        });
        assert!(matches!(wrong, Err(Error::Config(_))), "it is no fault of a job");
        assert_eq!(asked, 1);

        let client = Client::new("redis://localhost").expect("a client");
        let never = || -> Result<Client, Error> { panic!("nobody needs it") };
        let on_their_own = Bulk::new().add(of_a_bulk::with().on(&client));
        assert_eq!(on_their_own.encode(never).map(|bulk| bulk.ready.len()).ok(), Some(1));
        let on_one = Bulk::new().add(of_a_bulk::with()).on(&client);
        assert_eq!(on_one.encode(never).map(|bulk| bulk.ready.len()).ok(), Some(1));
    }

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
