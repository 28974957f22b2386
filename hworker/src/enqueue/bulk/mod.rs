//! Enqueueing many jobs at once.

mod chunk;
mod lazy;
mod send;
mod staged;

use std::fmt;
use std::time::Duration;

pub(super) use self::chunk::{Chunk, chunks};
pub use self::lazy::{Abort, LazyBulk, enqueue_many};
use self::lazy::{Items, Producer};
pub(super) use self::send::full;
use self::send::send;
use self::staged::send_whole;
use super::Enqueue;
use super::blocking::{block_on, in_a_runtime};
use super::broadcast::NOT_IN_BULK;
use super::notes::Parent;
use super::ready::{NOT_UNIQUE, Ready};
use crate::client::Client;
use crate::context::Context;
use crate::envelope::JobId;
use crate::error::Error;
use crate::job::Job;
use crate::store::Due;

/// Many jobs that are enqueued at once, in as few round trips as they fit in: of any types, for any queues, now or later.
///
/// Everything is checked before anything is sent: where one job is wrong, none is enqueued. A queue gets its jobs in the
/// order of the bulk, in chunks of up to 1000 (500 delayed ones) and about 1 MB. A chunk is enqueued whole or not at all; several of them
/// are sent one behind the other without waiting, and where one fails after another is in, [`Error::Bulk`] says what
/// became of each job. For more jobs than fit into memory there is [`Bulk::lazy`].
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
    spread: Option<Duration>,
    parent: Option<Parent>,
    all_or_nothing: bool,
}

/// Jobs of one type, whichever, that follow one another in a bulk.
trait Run: Send {
    fn len(&self) -> usize;
    /// Sets when each runs; false where one of them says that itself.
    fn spread(&mut self, next: &mut dyn FnMut() -> Due) -> bool;
    /// Whether any of them leaves open which client it is enqueued by.
    fn needs_client(&self) -> bool;
    fn encode<'a>(
        self: Box<Self>,
        client: Option<&'a Client>,
        parent: Option<&'a Parent>,
    ) -> Box<dyn Iterator<Item = Result<Ready, Error>> + 'a>
    where
        Self: 'a;
}

impl<J: Job> Run for Vec<Enqueue<J>> {
    fn len(&self) -> usize {
        self.len()
    }

    fn spread(&mut self, next: &mut dyn FnMut() -> Due) -> bool {
        self.iter_mut().all(|job| job.due.replace(next()).is_none())
    }

    fn needs_client(&self) -> bool {
        self.iter().any(Enqueue::needs_client)
    }

    fn encode<'a>(
        self: Box<Self>,
        client: Option<&'a Client>,
        parent: Option<&'a Parent>,
    ) -> Box<dyn Iterator<Item = Result<Ready, Error>> + 'a>
    where
        Self: 'a,
    {
        Box::new(self.into_iter().map(move |job| job.encode_as_one(client, parent)))
    }
}

impl<J: Job> Enqueue<J> {
    /// As one of many, of this parent if it has none.
    fn encode_as_one(
        mut self,
        client: Option<&Client>,
        parent: Option<&Parent>,
    ) -> Result<Ready, Error> {
        if self.workers.is_some() {
            return Err(Error::config(NOT_IN_BULK));
        }
        if let Some(parent) = parent.filter(|_| !self.has_parent()) {
            self.notes.get_or_insert_default().inherit(parent.clone());
        }
        self.encode(client)
    }

    fn has_parent(&self) -> bool {
        self.notes.as_ref().is_some_and(|notes| notes.parent.is_some())
    }
}

impl Bulk {
    /// Without any jobs as yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Many jobs of one type that are taken from an iterator while they are enqueued, instead of all before it.
    ///
    /// ```no_run
    /// # #[hworker::job] async fn send_welcome(user: u64) { let _ = user; }
    /// # async fn demo(client: hworker::Client) -> Result<(), hworker::Error> {
    /// let users = (0..1_000_000).map(|user| send_welcome::with(user).tag("import"));
    /// hworker::Bulk::lazy(users).on(&client).enqueue().await?;
    /// # Ok(()) }
    /// ```
    pub fn lazy<'p, J: Job, I>(jobs: I) -> LazyBulk<'p, Items<I::IntoIter>>
    where
        I: IntoIterator<Item = Enqueue<J>>,
    {
        lazy::of_items(jobs.into_iter())
    }

    /// Many jobs of one type that are taken from an async function, as from the rows of a query, while they are enqueued. It gives `Ok(None)` at the end; an
    /// error gives up. Write `async move`: in a task that borrows what the function reads from, the compiler cannot see that it is `Send`.
    ///
    /// ```no_run
    /// # #[hworker::job] async fn send_welcome(user: u64) { let _ = user; }
    /// # struct Rows;
    /// # impl Rows { async fn next(&mut self) -> std::io::Result<Option<u64>> { Ok(None) } }
    /// # async fn demo(mut rows: Rows) -> Result<(), hworker::Error> {
    /// let welcomes = hworker::Bulk::from_async(async move || Ok(rows.next().await?.map(send_welcome::with)));
    /// welcomes.enqueue().await?;
    /// # Ok(()) }
    /// ```
    pub fn from_async<'p, J: Job, F>(next: F) -> LazyBulk<'p, Producer<J, F>>
    where
        F: AsyncFnMut() -> Result<Option<Enqueue<J>>, Abort>,
    {
        lazy::of_async(next)
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

    /// Spreads the jobs over this time: the first is due now, and each of the others the same time after the one before it, in their order.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # #[hworker::job] async fn remind(user: u64) { let _ = user; }
    /// # async fn demo(users: Vec<u64>) -> Result<(), hworker::Error> {
    /// let reminders: hworker::Bulk = users.into_iter().map(remind::with).collect();
    /// reminders.spread(Duration::from_secs(3600)).enqueue().await?;
    /// # Ok(()) }
    /// ```
    pub fn spread(mut self, over: Duration) -> Self {
        self.spread = Some(over);
        self
    }

    /// Notes that this job enqueues them, as [`Enqueue::child_of`] does, for those that have no parent themselves.
    pub fn child_of(mut self, context: &Context) -> Self {
        self.parent = Some(Parent::from(context));
        self
    }

    /// Has all of the jobs come to their queue, or none, also where they are more than fit into one chunk: they are put aside at the server, none starts, and
    /// when all are there they come, even if this process dies then. What is put aside and does not come is gone an hour later.
    ///
    /// For jobs of one queue, and of one shard where it is spread. Not for jobs that are unique, have ids of their own or `.front()`, nor for types
    /// with `max_waiting` or `when_full`: one of them could be refused alone.
    pub fn all_or_nothing(mut self) -> Self {
        self.all_or_nothing = true;
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
    /// [`Error::Config`] if the default client cannot be made, or the jobs cannot be spread; [`Error::Invalid`] names all jobs that are wrong;
    /// [`Error::Bulk`] names the jobs that are, or may be, enqueued, and those that are not. With every other error no job is enqueued. With
    /// [`all_or_nothing`](Self::all_or_nothing) also [`Error::Unanswered`]: all are, or none; and [`Error::Stopped`]: all are, but may not be safe yet.
    pub async fn enqueue(self) -> Result<Vec<JobId>, Error> {
        in_a_runtime()?;
        self.send().await
    }

    /// Enqueues the jobs from code that is not async, in or outside a runtime, and blocks until the server has them.
    ///
    /// # Errors
    /// As [`Bulk::enqueue`].
    pub fn enqueue_blocking(self) -> Result<Vec<JobId>, Error> {
        block_on(self.send())
    }

    async fn send(self) -> Result<Vec<JobId>, Error> {
        let all_or_nothing = self.all_or_nothing;
        let ready = self.encode(Client::default_client)?;
        if all_or_nothing { send_whole(ready).await } else { send(ready).await }
    }

    /// The jobs, checked and written, which are to be members of a batch.
    pub(super) fn of_batch(self) -> Result<Vec<Ready>, Error> {
        let ready = self.encode(Client::default_client)?;
        if ready.iter().any(|job| job.place.lock.is_some()) {
            return Err(Error::config(NOT_UNIQUE));
        }
        let check = |(index, job): (usize, &Ready)| Some((index, job.check_member().err()?));
        let jobs: Vec<_> = ready.iter().enumerate().filter_map(check).collect();
        if jobs.is_empty() { Ok(ready) } else { Err(Error::Invalid { jobs }) }
    }

    /// Checks all jobs and writes their envelopes. The default client is asked for once, and only where a job needs it: that it
    /// cannot be made is no fault of any of them.
    fn encode(
        mut self,
        default_client: impl FnOnce() -> Result<Client, Error>,
    ) -> Result<Vec<Ready>, Error> {
        if let Some(over) = self.spread {
            let (jobs, mut index) = (self.len().max(1) as u128, 0);
            let mut next = || {
                let at = over.as_millis().min(u128::from(u64::MAX)) * index / jobs;
                index += 1;
                Due::In(at as u64)
            };
            let spread = self.runs.iter_mut().all(|run| run.spread(&mut next));
            if over.is_zero() || !spread {
                return Err(Error::config(
                    "a bulk is spread over a time that is longer than zero, and none of its jobs has a time of its own",
                ));
            }
        }
        let (mut ready, mut wrong) = (Vec::with_capacity(self.len()), Vec::new());
        let client = match self.client {
            None if self.runs.iter().any(|run| run.needs_client()) => Some(default_client()?),
            given => given,
        };
        let parent = self.parent.as_ref();
        let jobs = self.runs.into_iter().flat_map(|run| run.encode(client.as_ref(), parent));
        for (index, job) in jobs.enumerate() {
            match job {
                Ok(job) => ready.push(job),
                Err(error) => wrong.push((index, error)),
            }
        }
        if wrong.is_empty() { Ok(ready) } else { Err(Error::Invalid { jobs: wrong }) }
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

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(on_their_own.encode(never).map(|bulk| bulk.len()).ok(), Some(1));
        let on_one = Bulk::new().add(of_a_bulk::with()).on(&client);
        assert_eq!(on_one.encode(never).map(|bulk| bulk.len()).ok(), Some(1));
    }
}
