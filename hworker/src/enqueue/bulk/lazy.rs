//! Bulks whose jobs are taken one after the other, while others are on their way: they need not fit into memory.

use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, Ordering};

use super::send::{CHUNKS, send};
use super::staged::{OneQueue, Staging, send_whole};
use crate::client::Client;
use crate::context::Context;
use crate::enqueue::Enqueue;
use crate::enqueue::blocking::{block_on, in_a_runtime};
use crate::enqueue::notes::Parent;
use crate::enqueue::ready::Ready;
#[cfg(feature = "testing")]
use crate::enqueue::recorded;
use crate::envelope::JobId;
use crate::error::{BoxError, Cause, Error, Fate};
use crate::job::Job;
use crate::store::{SCRIPT_BYTES, SCRIPT_JOBS, WRITE_BYTES};

/// Many jobs of one type that are taken from an iterator or an async function while they are enqueued: a million of them takes no more memory than
/// a few thousand. [`Bulk::lazy`](super::Bulk::lazy) and [`Bulk::from_async`](super::Bulk::from_async) make it.
///
/// Jobs are sent in portions of 1000, or 1 MB, up to 8 side by side; while some are on their way the next are taken, and no more than 8 portions ahead. A
/// queue gets its jobs in their order. Where one of them is wrong, or the function gives up, nothing of its portion is enqueued and nothing
/// behind it; what is before it is, and [`Error::Stopped`] says how many that are. With [`all_or_nothing`](Self::all_or_nothing) none is.
///
/// ```no_run
/// # #[hworker::job] async fn send_welcome(user: u64) { let _ = user; }
/// # async fn demo() -> Result<(), hworker::Error> {
/// let users = (0..1_000_000).map(send_welcome::with);
/// let count = hworker::Bulk::lazy(users).on_progress(|count| println!("{count}")).enqueue().await?;
/// # Ok(()) }
/// ```
#[must_use = "nothing is enqueued until `.enqueue().await`"]
pub struct LazyBulk<'p, S> {
    taking: Taking<S>,
    all_or_nothing: bool,
    progress: Option<Box<dyn FnMut(u64) + Send + 'p>>,
}

/// Why the function of [`Bulk::from_async`](super::Bulk::from_async) gives up: `?` makes it of any error, and `.into()` of a text.
pub struct Abort(BoxError);

impl<E: Into<BoxError>> From<E> for Abort {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl fmt::Debug for Abort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// What jobs are taken from.
#[allow(async_fn_in_trait, reason = "its future is `Send` where what it takes from is")]
pub trait Source {
    type Job: Job;

    async fn next(&mut self) -> Result<Option<Enqueue<Self::Job>>, Abort>;
}

/// An iterator.
pub struct Items<I>(I);

impl<J: Job, I: Iterator<Item = Enqueue<J>>> Source for Items<I> {
    type Job = J;

    async fn next(&mut self) -> Result<Option<Enqueue<J>>, Abort> {
        Ok(self.0.next())
    }
}

/// An async function.
pub struct Producer<J, F>(F, PhantomData<fn() -> J>);

impl<J: Job, F: AsyncFnMut() -> Result<Option<Enqueue<J>>, Abort>> Source for Producer<J, F> {
    type Job = J;

    async fn next(&mut self) -> Result<Option<Enqueue<J>>, Abort> {
        (self.0)().await
    }
}

pub(super) fn of_items<'p, J: Job, I: Iterator<Item = Enqueue<J>>>(
    jobs: I,
) -> LazyBulk<'p, Items<I>> {
    LazyBulk::of(Items(jobs))
}

pub(super) fn of_async<'p, J: Job, F>(next: F) -> LazyBulk<'p, Producer<J, F>>
where
    F: AsyncFnMut() -> Result<Option<Enqueue<J>>, Abort>,
{
    LazyBulk::of(Producer(next, PhantomData))
}

/// What the method of a job does.
#[doc(hidden)]
pub fn enqueue_many<J: Job, I>(jobs: I) -> impl Future<Output = Result<u64, Error>> + Send
where
    I: IntoIterator<Item = Enqueue<J>>,
    I::IntoIter: Send,
{
    of_items(jobs.into_iter()).enqueue()
}

impl<'p, S: Source> LazyBulk<'p, S> {
    fn of(source: S) -> Self {
        let taking = Taking { source, client: None, parent: None, one_queue: None, taken: 0 };
        Self { taking, all_or_nothing: false, progress: None }
    }

    /// Uses another client than the default one, for the jobs that name none themselves.
    pub fn on(mut self, client: &Client) -> Self {
        self.taking.client = Some(client.clone());
        self
    }

    /// Notes that this job enqueues them, as [`Enqueue::child_of`] does, for those that have no parent themselves.
    pub fn child_of(mut self, context: &Context) -> Self {
        self.taking.parent = Some(Parent::from(context));
        self
    }

    /// Calls this each time that the server has more of the jobs, with how many it has.
    pub fn on_progress(mut self, tell: impl FnMut(u64) + Send + 'p) -> Self {
        self.progress = Some(Box::new(tell));
        self
    }

    /// Has all of the jobs come to their queue, or none, as [`Bulk::all_or_nothing`](super::Bulk::all_or_nothing) says: none, where one is wrong, the
    /// function gives up, the future is dropped, or the process dies, before all are with the server. None starts before that.
    ///
    /// ```no_run
    /// # #[hworker::job] async fn import_row(row: String) { let _ = row; }
    /// # async fn demo(mut lines: std::io::Lines<std::io::BufReader<std::fs::File>>) -> Result<(), hworker::Error> {
    /// let rows = hworker::Bulk::from_async(async move || Ok(lines.next().transpose()?.map(import_row::with)));
    /// rows.all_or_nothing().enqueue().await?; // a file that cannot be read to its end leaves nothing behind
    /// # Ok(()) }
    /// ```
    pub fn all_or_nothing(mut self) -> Self {
        self.all_or_nothing = true;
        self
    }

    /// Enqueues the jobs and gives how many they are. `Ok` means that the server has all of them. Their ids are not kept: for those see
    /// [`Bulk`](super::Bulk), or give the jobs ids of their own.
    ///
    /// Dropping the future before it is ready leaves each portion enqueued or not, never half.
    ///
    /// # Errors
    /// [`Error::Stopped`] where a job is wrong, the function gave up, or some jobs are or may be enqueued and others are not. With every other error
    /// no job is enqueued; but [`Error::Unanswered`], with `all_or_nothing`: all are, or none.
    pub async fn enqueue(mut self) -> Result<u64, Error> {
        in_a_runtime()?;
        let mut progress = self.progress.take();
        let tell = |count: u64| progress.iter_mut().for_each(|tell| tell(count));
        if self.all_or_nothing {
            self.taking.enqueue_whole(tell).await
        } else {
            self.taking.enqueue(tell).await
        }
    }
}

impl<I: Iterator<Item = Enqueue<J>> + Send + 'static, J: Job> LazyBulk<'static, Items<I>> {
    /// Enqueues the jobs from code that is not async, in or outside a runtime, and blocks until the server has them. The iterator is called on another
    /// thread.
    ///
    /// # Errors
    /// As [`LazyBulk::enqueue`].
    pub fn enqueue_blocking(self) -> Result<u64, Error> {
        block_on(self.enqueue())
    }
}

impl<S> fmt::Debug for LazyBulk<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LazyBulk")
            .field("all_or_nothing", &self.all_or_nothing)
            .finish_non_exhaustive()
    }
}

/// Takes jobs and writes their envelopes.
struct Taking<S> {
    source: S,
    client: Option<Client>,
    parent: Option<Parent>,
    /// Where they go, if all come to one queue.
    one_queue: Option<OneQueue>,
    /// How many were taken.
    taken: u64,
}

/// What was taken, in whole portions but for the last one.
struct Window {
    jobs: Vec<Ready>,
    /// That there are no more, or why.
    end: Option<Result<(), Error>>,
}

impl<S: Source> Taking<S> {
    /// The next one; nothing at the end.
    async fn next(&mut self) -> Result<Option<Ready>, Error> {
        let given = self.source.next().await;
        let Some(job) = given.map_err(|Abort(why)| stopped_at(None, Cause::new(why)))? else {
            return Ok(None);
        };
        let index = self.taken;
        self.taken += 1;
        let encode = || {
            if job.needs_client() && self.client.is_none() {
                self.client = Some(Client::default_client()?);
            }
            let ready = job.encode_as_one(self.client.as_ref(), self.parent.as_ref())?;
            self.one_queue.as_mut().map_or(Ok(()), |one| one.check(&ready))?;
            Ok(ready)
        };
        encode().map(Some).map_err(|error: Error| stopped_at(Some(index), Cause::new(error)))
    }

    /// Takes a portion, and more of them for as long as the ones before it are on their way.
    async fn fill(&mut self, is_idle: &AtomicBool) -> Window {
        let (mut jobs, mut whole, mut portions) = (Vec::new(), 0, 0);
        let (mut bytes, mut all_bytes) = (0, 0);
        loop {
            let job: Ready = match self.next().await {
                Ok(Some(job)) => job,
                Ok(None) => return Window { jobs, end: Some(Ok(())) },
                Err(error) => {
                    jobs.truncate(whole);
                    return Window { jobs, end: Some(Err(error)) };
                }
            };
            bytes += job.envelope.len();
            jobs.push(job);
            if jobs.len() - whole < SCRIPT_JOBS && bytes < SCRIPT_BYTES {
                continue;
            }
            (whole, portions, all_bytes, bytes) = (jobs.len(), portions + 1, all_bytes + bytes, 0);
            if portions == CHUNKS || all_bytes >= WRITE_BYTES || is_idle.load(Ordering::Acquire) {
                return Window { jobs, end: None };
            }
            // An iterator that never waits would keep the others of this thread from being sent.
            tokio::task::yield_now().await;
        }
    }

    async fn enqueue(&mut self, mut tell: impl FnMut(u64)) -> Result<u64, Error> {
        let (mut enqueued, is_idle) = (0, AtomicBool::new(true));
        let mut window = self.fill(&is_idle).await;
        loop {
            let Window { jobs, end } = window;
            is_idle.store(false, Ordering::Release);
            let sending = async {
                if !jobs.is_empty() {
                    enqueued +=
                        send(jobs).await.map_err(|error| stopped_after(enqueued, error))?.len()
                            as u64;
                    tell(enqueued);
                }
                is_idle.store(true, Ordering::Release);
                Ok::<_, Error>(())
            };
            match end {
                None => {
                    let filling = async { Ok(self.fill(&is_idle).await) };
                    ((), window) = tokio::try_join!(sending, filling)?;
                }
                Some(end) => {
                    sending.await?;
                    return end.map(|()| enqueued).map_err(|error| stopped_after(enqueued, error));
                }
            }
        }
    }

    async fn enqueue_whole(&mut self, mut tell: impl FnMut(u64)) -> Result<u64, Error> {
        self.one_queue = Some(OneQueue::default());
        let is_idle = AtomicBool::new(true);
        let mut window = self.fill(&is_idle).await;
        if let Some(end) = window.end {
            end?;
            let count = window.jobs.len() as u64;
            if count > 0 {
                send_whole(window.jobs).await.map_err(|error| stopped_after(0, error))?;
                tell(count);
            }
            return Ok(count);
        }
        #[cfg(feature = "testing")]
        recorded::check_server()?;
        let Some(mut staging) = self.one_queue.as_ref().and_then(Staging::of) else { return Ok(0) };
        loop {
            let Window { jobs, end } = window;
            if let Some(Err(error)) = end {
                staging.give_up().await;
                return Err(error);
            }
            let staging_some = async {
                let staged = staging.add(&jobs).await?;
                tell(staged);
                Ok(())
            };
            let next: Result<_, Error> = if end.is_some() {
                staging_some.await.map(|()| None)
            } else {
                let filling = async { Ok(self.fill(&is_idle).await) };
                tokio::try_join!(staging_some, filling).map(|((), window)| Some(window))
            };
            match next {
                Ok(Some(next)) => window = next,
                Ok(None) => return staging.commit().await,
                Err(error) => {
                    staging.give_up().await;
                    return Err(error);
                }
            }
        }
    }
}

/// Nothing was enqueued yet.
fn stopped_at(index: Option<u64>, source: Cause) -> Error {
    Error::Stopped { enqueued: 0, jobs: Vec::new(), index, source }
}

/// After so many were enqueued.
fn stopped_after(before: u64, error: Error) -> Error {
    match error {
        Error::Stopped { enqueued, jobs, index, source } => {
            Error::Stopped { enqueued: before + enqueued, jobs, index, source }
        }
        Error::Bulk { mut jobs, source } => {
            let is_in = |(_, fate): &(JobId, Fate)| *fate == Fate::Enqueued;
            let first = jobs.iter().take_while(|job| is_in(job)).count();
            jobs.drain(..first);
            Error::Stopped { enqueued: before + first as u64, jobs, index: None, source }
        }
        error if before == 0 => error,
        error => Error::Stopped {
            enqueued: before,
            jobs: Vec::new(),
            index: None,
            source: Cause::new(error),
        },
    }
}
