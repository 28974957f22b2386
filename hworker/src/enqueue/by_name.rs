//! Enqueueing a job whose type the program does not link, by its name.

use std::borrow::Cow;
use std::fmt;
use std::time::{Duration, SystemTime};

use serde_json::value::RawValue;

use super::NOT_IN_FRONT;
use super::blocking::in_a_runtime;
use super::broadcast::Workers;
use super::notes::Notes;
use super::ready::check_size;
use super::ready::{Place, Ready};
use crate::client::Client;
use crate::envelope::{JobId, NewEnvelope, VERSION, check_tags, describe};
use crate::error::{Error, Problems};
use crate::keys::{check_queue, with_tag};
use crate::limit::{List, written_key};
use crate::priority::Priority;
use crate::store::Due;
use crate::time::{local_unix_ms, millis, since_1970};
use crate::unique::{KeyLock, Receipt, Unique, own_id};

/// What is said of arguments of the version 0.
pub(super) const NO_VERSION: &str = "the version of the arguments is 0; it counts from 1";

/// A job about to be enqueued by the name of its type; [`Client::job_by_name`] makes one. Nothing checks that a worker knows the name, or
/// that the arguments fit: [`Client::job_types`] tells of both.
#[must_use = "nothing is enqueued until `.enqueue().await`"]
pub struct EnqueueByName {
    client: Client,
    pub(super) name: String,
    pub(super) args: String,
    pub(super) args_v: Option<u32>,
    queue: String,
    pub(super) to: Option<String>,
    pub(super) workers: Option<Workers>,
    pub(super) due: Option<Due>,
    pub(super) tags: Vec<String>,
    pub(super) max_attempts: Option<u32>,
    pub(super) priority: Option<Priority>,
    pub(super) front: bool,
    pub(super) id: Option<String>,
    pub(super) unique: Option<Unique>,
}

impl Client {
    /// A job of this name with these arguments, an object in JSON, for tools that do not link its type. They are not encrypted.
    ///
    /// ```no_run
    /// # async fn demo(client: hworker::Client) -> Result<(), hworker::Error> {
    /// let args = r#"{"to":"ada@example.org","user_id":42}"#;
    /// client.job_by_name("send_welcome", args).queue("mail").enqueue().await?;
    /// # Ok(()) }
    /// ```
    pub fn job_by_name(&self, name: impl Into<String>, args: impl Into<String>) -> EnqueueByName {
        EnqueueByName {
            client: self.clone(),
            name: name.into(),
            args: args.into(),
            args_v: None,
            queue: crate::config::defaults::QUEUE.to_owned(),
            to: None,
            workers: None,
            due: None,
            tags: Vec::new(),
            max_attempts: None,
            priority: None,
            front: false,
            id: None,
            unique: None,
        }
    }
}

impl EnqueueByName {
    /// Puts the job on this queue. Default: `default`, whatever the job type says.
    pub fn queue(mut self, queue: impl Into<String>) -> Self {
        self.queue = queue.into();
        self
    }

    /// Sends the job to workers that have this tag, as [`Enqueue::to`](super::Enqueue::to) does.
    pub fn to(mut self, tag: impl Into<String>) -> Self {
        self.to = Some(tag.into());
        self
    }

    /// Has each worker of the queue run the job once, as [`Enqueue::on_each`](super::Enqueue::on_each) does, for 5 min.
    pub fn on_each(mut self) -> Self {
        self.workers = Some(Workers::All);
        self
    }

    /// Has so many workers run the job, each once, as [`Enqueue::on_each_of`](super::Enqueue::on_each_of) does, for 5 min.
    pub fn on_each_of(mut self, workers: u32) -> Self {
        self.workers = Some(Workers::SoMany(workers));
        self
    }

    /// Runs the job no earlier than this long from now, by the server's clock.
    pub fn delay(mut self, delay: Duration) -> Self {
        self.due = Some(Due::In(millis(delay)));
        self
    }

    /// Runs the job no earlier than this time, by the server's clock; a time in the past is now.
    pub fn at(mut self, time: SystemTime) -> Self {
        self.due = Some(Due::At(local_unix_ms(time)));
        self
    }

    /// Adds a tag, as [`Enqueue::tag`](super::Enqueue::tag) does.
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.tags.push(tag.into());
        self
    }

    /// How many attempts the job has; at least 1.
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.max_attempts = Some(attempts);
        self
    }

    /// How soon the job runs, compared with others of its queue. Default: that of its type, from when a worker meets it that knows the type; until then
    /// it waits with the normal ones.
    pub fn priority(mut self, priority: Priority) -> Self {
        self.priority = Some(priority);
        self
    }

    /// Puts the job to the front, as [`Enqueue::front`](super::Enqueue::front) does.
    pub fn front(mut self) -> Self {
        self.front = true;
        self
    }

    /// Says of which version the arguments are, from 1: the one that [`JobType::version`](crate::JobType::version) tells, for arguments that
    /// are written as workers read them now. Without it they are of the first, which workers of a later one upgrade.
    pub fn args_version(mut self, version: u32) -> Self {
        self.args_v = Some(version);
        self
    }

    /// Gives the job this id, as [`Enqueue::id`](super::Enqueue::id) does.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// Has the job be unique, as [`Enqueue::unique`](super::Enqueue::unique) does; whatever its type says.
    pub fn unique(mut self, unique: Unique) -> Self {
        self.unique = Some(unique);
        self
    }

    /// Enqueues the job: one round trip. `Ok` means that the server has it.
    ///
    /// # Errors
    /// As [`Enqueue::enqueue`](super::Enqueue::enqueue); [`Error::Config`] where the arguments are no object in JSON.
    pub async fn enqueue(self) -> Result<JobId, Error> {
        let runtime = in_a_runtime()?;
        let ready = self.encode()?;
        // Tools that live for one enqueue call this. A job for each worker does not wait among those that are counted.
        let waits = ready.place.each.is_none();
        #[cfg(feature = "testing")]
        let waits = waits && super::recorded::check_server().is_ok();
        if waits && let Some(no_room) = ready.client.no_room(&ready.queue, 1, true).await {
            return Err(ready.full(no_room, None));
        }
        Ok(ready.send(runtime).await?.receipt.id)
    }

    /// Enqueues the job as [`enqueue`](Self::enqueue) does, and says what became of it: whether it is new, or another of its key or id was
    /// there.
    ///
    /// # Errors
    /// As [`enqueue`](Self::enqueue).
    pub async fn submit(self) -> Result<Receipt, Error> {
        let runtime = in_a_runtime()?;
        self.encode()?.submit(runtime).await
    }

    /// Checks everything and writes the envelope.
    fn encode(mut self) -> Result<Ready, Error> {
        let mut problems = Vec::new();
        if let Some(tag) = self.to.take() {
            self.queue = with_tag(&self.queue, &tag);
        }
        let mut notes = Notes { tags: std::mem::take(&mut self.tags), ..Notes::default() };
        if let Some(added) = self.client.ask_outgoing(&self.name, &self.queue)? {
            notes.add(added);
        }
        let meta = notes.meta().unwrap_or_else(|why| {
            problems.push(why);
            None
        });
        problems.append(&mut notes.problems);
        problems.extend(check_queue(&self.queue).err());
        problems.extend(check_tags(&notes.tags).err());
        if self.name.is_empty() {
            problems.push("the name of the job type is empty".into());
        }
        if self.max_attempts == Some(0) {
            problems.push("max_attempts is 0; a job has at least one attempt".into());
        }
        if self.args_v == Some(0) {
            problems.push(NO_VERSION.into());
        }
        if self.front && self.due.is_some() {
            problems.push(NOT_IN_FRONT.into());
        }
        let own = self.id.as_deref().map(own_id).transpose();
        let own = own.map_err(|why| problems.push(why)).ok().flatten();
        let mut lock = self.id.as_ref().map(|_| KeyLock::default());
        if let Some(unique) = &self.unique {
            problems.extend(unique.check().err());
            lock = Some(unique.lock(&self.name, &written_key(unique.key())));
        }
        let is_placed = self.due.is_some() || self.front || self.priority.is_some();
        let is_alone = lock.is_some();
        let each =
            self.workers.map(|workers| workers.each(is_placed, is_alone, None, &mut problems));
        let args = match RawValue::from_string(self.args) {
            Ok(args) => Some(args),
            Err(error) => {
                problems.push(format!("the arguments are no JSON: {}", describe(&error)));
                None
            }
        };
        if args.as_ref().is_some_and(|args| !args.get().starts_with('{')) {
            problems.push("the arguments are an object by name, as in `{\"user_id\":42}`".into());
        }
        let Some(args) = args.filter(|_| problems.is_empty()) else {
            return Err(Error::Config(Problems(problems)));
        };
        let now = since_1970(SystemTime::now());
        let id = own.unwrap_or_else(|| JobId::fresh_at(now));
        let over_at = each.map(|each| millis(now).saturating_add(each.lasts));
        let envelope = NewEnvelope {
            v: VERSION,
            id: &id,
            job: &self.name,
            args_v: self.args_v.filter(|version| *version > 1),
            args: &args,
            enqueued_at: millis(now),
            ready_at: self.due.map(|due| due.by_clock(millis(now))),
            tags: &notes.tags,
            meta: meta.as_deref(),
            parent: None,
            max_attempts: self.max_attempts,
            timeout: None,
            backoff: None,
            retry_until: over_at,
            expires_at: over_at,
            priority: self.priority,
            keep: None,
        };
        let envelope =
            serde_json::to_vec(&envelope).map_err(|error| Error::config(describe(&error)))?;
        check_size(&self.client, envelope.len(), (&self.name, &id, &self.queue))?;
        let confirms = self.client.durability();
        let (client, queue, due) = (self.client.or_of_test(), Cow::Owned(self.queue), self.due);
        let list = List::from(self.priority.unwrap_or_default());
        let list = if lock.is_some() { list.by_id() } else { list };
        let lock = lock.map(Box::new);
        let place = Place { list, front: self.front, lock, each, ..Place::default() };
        let job = Cow::Owned(self.name);
        Ok(Ready { client, queue, place, due, job, id, confirms, envelope })
    }
}

impl fmt::Debug for EnqueueByName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The arguments stay out of logs.
        f.debug_struct("EnqueueByName").field("job", &self.name).finish_non_exhaustive()
    }
}
