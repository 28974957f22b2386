//! Enqueueing a batch.

mod members;

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use self::members::{Adding, Unadded, refused};
use super::Enqueue;
use super::blocking::in_a_runtime;
use super::bulk::Bulk;
use super::ready::Ready;
#[cfg(feature = "testing")]
use super::recorded;
use crate::batch::{BatchHandle, BatchId};
use crate::client::Client;
use crate::context::Context;
use crate::envelope::{check_meta, check_tags, describe};
use crate::error::{Error, Problems};
use crate::job::Job;
use crate::relay;
use crate::store::{DueCallback, Fault, NewBatch, Queue};
use crate::time::millis;

/// A batch has no more members.
const MOST_MEMBERS: usize = 10_000_000;

/// From where a batch is looked after that has no callback.
const HOME: &str = "default";

/// Under this name the members of a batch are added that come with it.
const MEMBERS: &str = "members";

const NOT_PLAIN: &str = "a callback runs once, when it is due: its type is not unique, and it has no id of its own, no delay, and is not for each worker";

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
    parent: Option<BatchHandle>,
    lasts: Option<Duration>,
    tags: Vec<String>,
    meta: serde_json::Map<String, serde_json::Value>,
    problems: Vec<String>,
}

/// A job that is encoded when it is known to which client it goes.
type Callback = Box<dyn FnOnce(&Client) -> Result<Ready, Error> + Send>;

/// In the order of [`Batch::callbacks`].
const NAMES: [&str; 3] = ["failure", "settled", "success"];

impl Batch {
    /// Without members as yet. The name is for people: 1 to 200 bytes.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            members: Bulk::new(),
            client: None,
            callbacks: [None, None, None],
            parent: None,
            lasts: None,
            tags: Vec::new(),
            meta: serde_json::Map::new(),
            problems: Vec::new(),
        }
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

    /// Makes it a member of the batch of the job whose context this is, which is over only when all callbacks of this one have ended. That batch may be
    /// sealed. Of the batches that one job begins each needs a name of its own: a body that runs twice begins each of them once.
    ///
    /// ```no_run
    /// # #[hworker::job] async fn import_row(row: u64) { let _ = row; }
    /// #[hworker::job]
    /// async fn import_file(file: String, context: hworker::Context) -> Result<(), hworker::Error> {
    ///     hworker::Batch::new(file).parent(&context).add((0..100).map(import_row::with)).enqueue().await?;
    ///     Ok(())
    /// }
    /// ```
    pub fn parent(mut self, context: &Context) -> Self {
        match context.batch() {
            Ok(parent) => self.parent = Some(parent),
            Err(why) => self.problems.push(format!("it has no parent: {why}")),
        }
        self
    }

    /// The same of a batch that is open, from outside.
    pub fn parent_batch(mut self, parent: &BatchHandle) -> Self {
        self.parent = Some(parent.clone());
        self
    }

    /// Keeps it no longer than this, from now on, finished or not: afterwards its members run as plain jobs, and no callback comes any more.
    pub fn expires(mut self, after: Duration) -> Self {
        self.lasts = Some(after);
        self
    }

    /// Adds a tag: 1 to 64 bytes, at most 16 a batch.
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.tags.push(tag.into());
        self
    }

    /// Notes something beside it, by a name. At most 4 KiB of JSON a batch.
    pub fn meta(mut self, name: impl Into<String>, value: impl Serialize) -> Self {
        let name = name.into();
        match serde_json::to_value(value) {
            Ok(value) => _ = self.meta.insert(name, value),
            Err(error) => self.problems.push(format!("meta `{name}`: {}", describe(&error))),
        }
        self
    }

    /// Enqueues the members, and gives the id of the batch. Of a batch without members the settled and the success callback are due at once.
    ///
    /// Members may have run before this returns.
    ///
    /// # Errors
    /// [`Error::Config`] and [`Error::Invalid`] where the batch, a callback or a member is wrong; [`Error::Refused`] where its parent takes no more
    /// members: nothing is enqueued. With [`Error::Bulk`] some members are in, and the batch is cancelled.
    pub async fn enqueue(self) -> Result<BatchId, Error> {
        let (begun, members) = self.begin().await?;
        Self::fill(&begun, &members).await?;
        let Begun { client, id, home, .. } = begun;
        relay::seal(&client, &home, id.as_str()).await.map_err(|fault| {
            fault.at(client.address()).into_error_of_change(format!("seal the batch {id}"))
        })?;
        Ok(id)
    }

    /// Begins the batch, with the members that it has so far, and leaves it open: more are added by [`BatchHandle::add`], until it is
    /// [sealed](BatchHandle::seal). One that is open and does not grow for an hour is cancelled.
    ///
    /// ```no_run
    /// # #[hworker::job] async fn fetch(page: u64) { let _ = page; }
    /// # async fn demo() -> Result<(), hworker::Error> {
    /// let batch = hworker::Batch::new("crawl").open().await?;
    /// batch.add("first pages", (0..10).map(fetch::with)).await?;
    /// batch.add("more", (10..20).map(fetch::with)).await?;
    /// batch.seal().await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Batch::enqueue`].
    pub async fn open(self) -> Result<BatchHandle, Error> {
        let (begun, members) = self.begin().await?;
        Self::fill(&begun, &members).await?;
        Ok(BatchHandle::new(begun.client, begun.id))
    }

    /// Checks it, and begins it at its server.
    async fn begin(self) -> Result<(Begun, Vec<Ready>), Error> {
        in_a_runtime()?;
        let client = match (self.client.clone(), &self.parent) {
            (Some(client), _) => client,
            (None, Some(parent)) => parent.client.clone(),
            (None, None) => Client::default_client()?,
        };
        let client = client.or_of_test();
        #[cfg(feature = "testing")]
        recorded::check_server()?;
        let (parent, name) = (self.parent.clone(), self.name.clone());
        let (mut new, callbacks, members) = self.checked(&client)?;
        #[cfg(feature = "testing")]
        recorded::note(&members);
        let fresh = BatchId::fresh();
        let doing = format!("begin the batch {fresh}");
        let fault = |fault: Fault| fault.at(client.address()).into_error(doing.clone());
        let (mut id, mut add) = (fresh.clone(), None);
        if let Some(parent) = &parent {
            let of = (parent.id.as_str(), &*parent.by);
            let child = relay::child(&client, of, (fresh.as_str(), &name)).await.map_err(fault)?;
            let child = child.map_err(|word| refused(format!("{doing} in its parent"), &word))?;
            id = child.id.parse()?;
            (new.parent, new.depth) = (Some((parent.id.to_string(), child.number)), child.depth);
            add = Some((parent.id.clone(), child.add));
        }
        let of = |(place, ready)| due(&client, NAMES[place], &ready, &format!("b.{id}.c{place}"));
        new.callbacks = callbacks.into_iter().map(of).collect();
        let home = new.callbacks.first().map_or(HOME, |callback| &*callback.queue);
        let home = Queue::of_label(client.key_space(), home, client.limits());
        let begun = async {
            relay::look_after(&client, &home, id.as_str()).await?;
            if relay::create(&client, id.as_str(), &new).await? == relay::Begun::Void {
                return Err(Fault::not_sent("it was given up before it had begun"));
            }
            match &add {
                Some((parent, add)) => relay::added(&client, parent.as_str(), add).await,
                None => Ok(()),
            }
        };
        begun.await.map_err(fault)?;
        let has_parent = parent.is_some();
        let may_run_again = parent.is_some_and(|parent| !parent.by.is_empty());
        Ok((Begun { client, id, home, may_run_again, has_parent }, members))
    }

    /// Adds the members that come with it, and seals nothing.
    async fn fill(begun: &Begun, members: &[Ready]) -> Result<(), Error> {
        let Begun { client, id, may_run_again, has_parent, .. } = begun;
        let adding = Adding { client, batch: id.as_str(), by: "" };
        let Err(Unadded { error, none_is_in }) = adding.add(MEMBERS, members).await else {
            return Ok(());
        };
        // Whoever looks after the batch cancels it where this fails: it does not grow any more.
        if none_is_in && !has_parent {
            let _ = relay::abandon(client, id.as_str()).await;
        } else if !may_run_again {
            let _ = relay::order(client, id.as_str(), "cancel").await;
        }
        Err(error)
    }

    /// What it begins with, and its members.
    fn checked(self, client: &Client) -> Result<Checked, Error> {
        let mut problems = self.problems;
        if !(1..=200).contains(&self.name.len()) {
            problems.push("the name of a batch has 1 to 200 bytes".to_owned());
        }
        if self.members.len() > MOST_MEMBERS {
            problems.push(format!("a batch has at most {MOST_MEMBERS} members"));
        }
        if self.lasts.is_some_and(|lasts| lasts.is_zero()) {
            problems.push("the batch expires after no time; write how long it is kept".to_owned());
        }
        problems.extend(check_tags(&self.tags).err());
        let json = |is_empty: bool, text: Result<String, serde_json::Error>| {
            if is_empty { String::new() } else { text.unwrap_or_default() }
        };
        let meta = json(self.meta.is_empty(), serde_json::to_string(&self.meta));
        problems.extend(check_meta(&meta).err());
        let mut callbacks = Vec::new();
        for (place, callback) in self.callbacks.into_iter().enumerate() {
            let Some(callback) = callback else { continue };
            let ready = callback(client)?;
            let is_plain =
                ready.due.is_none() && ready.place.lock.is_none() && ready.place.each.is_none();
            if is_plain {
                ready.check_member()?;
            } else {
                problems.push(NOT_PLAIN.to_owned());
            }
            callbacks.push((place, ready));
        }
        if !problems.is_empty() {
            return Err(Error::Config(Problems(problems)));
        }
        let new = NewBatch {
            name: self.name,
            lasts_ms: self.lasts.map(millis),
            tags: json(self.tags.is_empty(), serde_json::to_string(&self.tags)),
            meta,
            ..NewBatch::default()
        };
        Ok((new, callbacks, self.members.on(client).of_batch()?))
    }
}

/// What a batch begins with, its callbacks by their places, and its members.
type Checked = (NewBatch, Vec<(usize, Ready)>, Vec<Ready>);

/// A batch that has begun.
struct Begun {
    client: Client,
    id: BatchId,
    /// From where it is looked after.
    home: Queue,
    /// The body of a member begins it, and goes on with it where it runs again.
    may_run_again: bool,
    /// It is a member of another.
    has_parent: bool,
}

impl BatchHandle {
    /// Adds members, under a name that no other add to this batch has: 1 to 100 bytes. What was added under it before is not added again, so a body that
    /// runs twice grows its batch once, and an add that failed can be repeated. From outside only while the batch is open; by a member, through
    /// [`Context::batch`], also when it is sealed.
    ///
    /// # Errors
    /// [`Error::Refused`] where it takes no more members from here: it is sealed, cancelled or finished, or this is a callback of its own. With
    /// [`Error::Bulk`] some are in: repeat it with the same name and the same jobs. Else as [`Bulk::enqueue`].
    pub async fn add<J: Job>(
        &self,
        name: &str,
        jobs: impl IntoIterator<Item = Enqueue<J>>,
    ) -> Result<(), Error> {
        let mut bulk = Bulk::new();
        bulk.extend(jobs);
        self.add_bulk(name, bulk).await
    }

    /// The same of jobs of several types.
    ///
    /// # Errors
    /// As [`BatchHandle::add`].
    pub async fn add_bulk(&self, name: &str, jobs: Bulk) -> Result<(), Error> {
        in_a_runtime()?;
        if !(1..=100).contains(&name.len()) {
            return Err(Error::config("the name of what is added to a batch has 1 to 100 bytes"));
        }
        let members = jobs.on(&self.client).of_batch()?;
        if members.is_empty() {
            return Ok(());
        }
        let adding = Adding { client: &self.client, batch: self.id.as_str(), by: &self.by };
        let name = format!("{}:{name}", self.by);
        adding.add(&name, &members).await.map_err(|unadded| unadded.error)
    }
}

/// As the batch keeps it.
fn due(client: &Client, name: &str, ready: &Ready, of: &str) -> DueCallback {
    let queue = client.queue_of(&ready.queue, &ready.place.list, None);
    DueCallback {
        name: name.to_owned(),
        queue: queue.label.to_string(),
        list: ready.place.list.to_string(),
        at_once: ready.place.at_once.map_or_else(String::new, |at_once| at_once.to_string()),
        envelope: ready.as_part(of),
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
