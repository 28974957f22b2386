//! Enqueueing a batch.

use std::fmt;

use super::Enqueue;
use super::blocking::in_a_runtime;
use super::bulk::Bulk;
use super::ready::Ready;
use crate::batch::BatchId;
use crate::client::Client;
use crate::error::{Error, Problems};
use crate::job::Job;
use crate::relay;
use crate::store::{DueCallback, Queue};

/// A batch has no more members.
const MOST_MEMBERS: usize = 10_000_000;

/// Where a batch is sealed that has no callback.
const HOME: &str = "default";

const NOT_PLAIN: &str = "a callback runs once, when it is due: its type is not unique, and it has no id of its own, no delay, and is not for each worker";

const NOT_UNIQUE: &str = "a member of a batch is no unique job and has no id of its own: where another held its key, the batch would wait for it for ever";

/// Jobs that belong together, and what is enqueued when they have ended. Each callback is enqueued exactly once, whatever dies in between.
///
/// ```no_run
/// # #[hworker::job] async fn import_row(row: u64) { let _ = row; }
/// # #[hworker::job] async fn report(day: u32) { let _ = day; }
/// # #[hworker::job] async fn alert(what: String) { let _ = what; }
/// # async fn demo() -> Result<(), hworker::Error> {
/// let id = hworker::Batch::new("import")
///     .add((0..10_000).map(import_row::with))
///     .on_failure(alert::with("the import".into())) // when the first member has failed for good
///     .on_settled(report::with(7)) // when all have ended
///     .enqueue()
///     .await?;
/// # Ok(()) }
/// ```
#[must_use = "nothing is enqueued until `.enqueue().await`"]
pub struct Batch {
    name: String,
    members: Bulk,
    client: Option<Client>,
    callbacks: [Option<Callback>; 3],
}

/// A job that is encoded when it is known to which client it goes.
type Callback = Box<dyn FnOnce(&Client) -> Result<Ready, Error> + Send>;

/// In the order of [`Batch::callbacks`].
const NAMES: [&str; 3] = ["failure", "settled", "success"];

impl Batch {
    /// Without members as yet. The name is for people: 1 to 200 bytes.
    pub fn new(name: impl Into<String>) -> Self {
        let callbacks = [None, None, None];
        Self { name: name.into(), members: Bulk::new(), client: None, callbacks }
    }

    /// Adds members: of any type, for any queues, now or later.
    // `batch + jobs` would say less.
    #[allow(clippy::should_implement_trait)]
    pub fn add<J: Job>(mut self, jobs: impl IntoIterator<Item = Enqueue<J>>) -> Self {
        self.members.extend(jobs);
        self
    }

    /// Uses another client than the default one.
    pub fn on(mut self, client: &Client) -> Self {
        self.client = Some(client.clone());
        self
    }

    /// Enqueues this job when the first member has failed for good, was cancelled, or has expired.
    pub fn on_failure<J: Job>(self, job: Enqueue<J>) -> Self {
        self.when(0, job)
    }

    /// Enqueues this job when all members have ended, however they did.
    pub fn on_settled<J: Job>(self, job: Enqueue<J>) -> Self {
        self.when(1, job)
    }

    /// Enqueues this job when all members have succeeded: also later, where one that failed is run again by hand.
    pub fn on_success<J: Job>(self, job: Enqueue<J>) -> Self {
        self.when(2, job)
    }

    fn when<J: Job>(mut self, place: usize, job: Enqueue<J>) -> Self {
        self.callbacks[place] = Some(Box::new(move |client| job.encode(Some(client))));
        self
    }

    /// Enqueues the members, and gives the id of the batch. Of a batch without members the settled and the success callback are due at once.
    ///
    /// Members may have run before this returns.
    ///
    /// # Errors
    /// [`Error::Config`] and [`Error::Invalid`] where the batch, a callback or a member is wrong: nothing is enqueued. [`Error::Bulk`] where only some
    /// members could be enqueued: these run, and the batch does not end.
    pub async fn enqueue(self) -> Result<BatchId, Error> {
        in_a_runtime()?;
        let client = match self.client {
            Some(client) => client,
            None => Client::default_client()?,
        };
        let id = BatchId::fresh();
        let mut problems = Vec::new();
        if !(1..=200).contains(&self.name.len()) {
            problems.push("the name of a batch has 1 to 200 bytes".to_owned());
        }
        if self.members.len() > MOST_MEMBERS {
            problems.push(format!("a batch has at most {MOST_MEMBERS} members"));
        }
        let mut callbacks = Vec::new();
        for (place, callback) in self.callbacks.into_iter().enumerate() {
            let Some(callback) = callback else { continue };
            let mut ready = callback(&client)?;
            ready.belongs_to(&format!("b.{id}.c{place}"))?;
            let is_plain =
                ready.due.is_none() && ready.place.lock.is_none() && ready.place.each.is_none();
            if !is_plain {
                problems.push(NOT_PLAIN.to_owned());
            }
            callbacks.push(due(&client, NAMES[place], ready));
        }
        if !problems.is_empty() {
            return Err(Error::Config(Problems(problems)));
        }
        let members = self.members.on(&client).of_batch(&id)?;
        if members.iter().any(|ready| ready.place.lock.is_some()) {
            return Err(Error::config(NOT_UNIQUE));
        }
        let home = callbacks.first().map_or(HOME, |callback| &*callback.queue);
        let home = Queue::of_label(client.key_space(), home, client.limits());
        let doing = |what: &str| format!("{what} the batch {id}");
        relay::create(&client, id.as_str(), &self.name, &callbacks)
            .await
            .map_err(|fault| fault.at(client.address()).into_error(doing("begin")))?;
        let total = members.len();
        Bulk::send_ready(members).await?;
        relay::seal(&client, &home, id.as_str(), total)
            .await
            .map_err(|fault| fault.at(client.address()).into_error_of_change(doing("seal")))?;
        Ok(id)
    }
}

/// As the batch keeps it.
fn due(client: &Client, name: &str, ready: Ready) -> DueCallback {
    let queue = client.queue_of(&ready.queue, &ready.place.list, None);
    DueCallback {
        name: name.to_owned(),
        queue: queue.label.to_string(),
        list: ready.place.list.to_string(),
        at_once: ready.place.at_once.map_or_else(String::new, |at_once| at_once.to_string()),
        envelope: ready.envelope,
    }
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let members = self.members.len();
        f.debug_struct("Batch")
            .field("name", &self.name)
            .field("members", &members)
            .finish_non_exhaustive()
    }
}
