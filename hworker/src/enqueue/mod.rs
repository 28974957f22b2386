//! Enqueueing: one job, or many at once.

mod batch;
mod blocking;
mod broadcast;
mod bulk;
mod by_name;
mod known;
mod notes;
mod ready;
#[cfg(feature = "testing")]
mod recorded;
#[cfg(feature = "cron")]
mod schedule;

use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use serde::Serialize;

use self::blocking::{block_on, in_a_runtime};
use self::broadcast::Workers;
use self::known::{Asked, Known};
use self::notes::{Notes, Parent};
use self::ready::{Place, Ready, check_size};
use crate::backoff::CallBackoff;
use crate::client::Client;
use crate::context::Context as JobContext;
use crate::durability::Durability;
use crate::encryption::{Owner, Sealed, What};
use crate::envelope::{JobId, NewEnvelope, VERSION, check_tags, describe};
use crate::error::{BoxError, Cause, Error, Problems};
use crate::job::Job;
use crate::keys::{check_queue, with_tag};
use crate::limit::{LimitValues, List, terms};
use crate::priority::Priority;
use crate::store::Due;
use crate::strict_json;
use crate::time::{local_unix_ms, millis, since_1970};
use crate::unique::{Receipt, Unique};

pub use batch::Batch;
pub use bulk::{Abort, Bulk, LazyBulk, enqueue_many};
pub use by_name::EnqueueByName;

/// What is said of a job that is to be in front and to run later.
const NOT_IN_FRONT: &str =
    "a job that runs later is not put to the front: leave out `.front()`, or the delay";

/// A job about to be enqueued, with everything that can differ from call to call; `with(..)` of a job makes it.
///
/// ```no_run
/// # use std::time::Duration;
/// # #[hworker::job] async fn remind(user: u64) { let _ = user; }
/// # async fn demo() -> Result<(), hworker::Error> {
/// remind::with(42).delay(Duration::from_secs(3600)).max_attempts(3).enqueue().await?;
/// # Ok(()) }
/// ```
#[must_use = "nothing is enqueued until `.enqueue().await`"]
pub struct Enqueue<J: Job> {
    job: J,
    client: Option<Client>,
    queue: Option<Cow<'static, str>>,
    /// The tag of the workers that it is for.
    to: Option<Box<str>>,
    /// It is for each of these.
    workers: Option<Workers>,
    due: Option<Due>,
    max_attempts: Option<u32>,
    timeout: Option<u64>,
    backoff: Option<String>,
    retry_until: Option<u64>,
    /// In ms from when it is due.
    expires_in: Option<u64>,
    priority: Option<Priority>,
    front: bool,
    /// Nearly no job has any.
    notes: Option<Box<Notes>>,
    /// Nor this.
    known: Option<Box<Asked>>,
    durability: Option<Durability>,
}

/// The client, the queue and the envelope of a job that is to run at once.
#[cfg(feature = "testing")]
pub(crate) fn to_perform<J: Job>(job: Enqueue<J>) -> Result<(Client, String, Vec<u8>), Error> {
    let Ready { client, queue, envelope, .. } = job.encode(None)?;
    Ok((client, queue.into_owned(), envelope))
}

/// The envelope of a job for this client, for what stands in no module above.
///
/// # Errors
/// As [`Enqueue::enqueue`].
#[doc(hidden)]
pub fn envelope<J: Job>(job: Enqueue<J>, client: &dyn Any) -> Result<Vec<u8>, BoxError> {
    let client = client.downcast_ref::<Client>().ok_or("it is no client")?;
    Ok(job.encode(Some(client))?.envelope)
}

/// No type implements it, so an [`Enqueue`] is no future, and where one is awaited the compiler says what is missing.
#[diagnostic::on_unimplemented(
    message = "nothing is enqueued until `.enqueue()` is called",
    label = "call `.enqueue()` before `.await`"
)]
pub trait NotEnqueuedYet {}

#[doc(hidden)]
impl<J: Job + NotEnqueuedYet> Future for Enqueue<J> {
    type Output = Result<J::Handle, Error>;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Pending
    }
}

/// From the arguments as a struct, for code that does not know which job it has.
///
/// ```
/// # use hworker::{Enqueue, Job};
/// # #[hworker::job] async fn report(month: u32) { let _ = month; }
/// fn for_tenant<J: Job>(tenant: &str, job: J) -> Enqueue<J> {
///     Enqueue::from(job).queue(format!("tenant-{tenant}"))
/// }
///
/// let _ = for_tenant("a", report { month: 11 });
/// ```
impl<J: Job> From<J> for Enqueue<J> {
    fn from(job: J) -> Self {
        Self::new(job)
    }
}

impl<J: Job> Enqueue<J> {
    #[doc(hidden)]
    pub fn new(job: J) -> Self {
        Self {
            job,
            client: None,
            queue: None,
            to: None,
            workers: None,
            due: None,
            max_attempts: None,
            timeout: None,
            backoff: None,
            retry_until: None,
            expires_in: None,
            priority: None,
            front: false,
            notes: None,
            known: None,
            durability: None,
        }
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

    /// Puts the job on another queue than its type's own: `[A-Za-z0-9._-]{1,100}`.
    pub fn queue(mut self, queue: impl Into<String>) -> Self {
        self.queue = Some(Cow::Owned(queue.into()));
        self
    }

    /// Sends the job to workers that have this tag, by [`WorkerBuilder::tags`](crate::WorkerBuilder::tags) or `HWORKER_TAGS`; a worker may have its
    /// name as a tag. It waits until there is one. `[A-Za-z0-9._-]{1,100}`.
    ///
    /// Such jobs wait on a queue of their own, `mail@gpu` for the tag `gpu` on the queue `mail`: tools list it, and limits and unique jobs of
    /// the two are apart.
    ///
    /// ```no_run
    /// # #[hworker::job] async fn render(scene: u64) { let _ = scene; }
    /// # async fn demo() -> Result<(), hworker::Error> {
    /// render::with(7).to("gpu").enqueue().await?;
    /// # Ok(()) }
    /// ```
    pub fn to(mut self, tag: impl Into<String>) -> Self {
        self.to = Some(tag.into().into_boxed_str());
        self
    }

    /// Has each worker of the queue run the job once, as to drop a cache that each keeps: all that live, and those that start within
    /// [`expires_in`](Self::expires_in), by default 5 min.
    ///
    /// A worker begins it within 1.5 s, when it has a slot. Where an attempt fails it is the same worker that tries again, while no more time has
    /// gone by than `expires_in`. One that died is not waited for. Not for a job that is delayed, has a priority or an id of its own, nor for
    /// types with limits or `unique`. A queue has at most 100 of them at a time.
    ///
    /// ```no_run
    /// # #[hworker::job] async fn drop_prices() {}
    /// # async fn demo() -> Result<(), hworker::Error> {
    /// drop_prices::with().on_each().enqueue().await?;
    /// # Ok(()) }
    /// ```
    pub fn on_each(mut self) -> Self {
        self.workers = Some(Workers::All);
        self
    }

    /// Has so many workers run the job, each once: the first that have a slot. Where one dies before it is done, another takes its place, so it is not
    /// for a type with `on_crash = "fail"`. While there are fewer workers, the rest waits for those that start within
    /// [`expires_in`](Self::expires_in).
    pub fn on_each_of(mut self, workers: u32) -> Self {
        self.workers = Some(Workers::SoMany(workers));
        self
    }

    /// How many attempts this job has; at least 1.
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.max_attempts = Some(attempts);
        self
    }

    /// How long an attempt of this job may run.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(millis(timeout));
        self
    }

    /// How long this job waits between attempts, written as in the attribute: `"30s"`, `"1s, 10s, 1m"`, `"exp(5s, 6h)"`.
    pub fn backoff(mut self, backoff: impl Into<String>) -> Self {
        self.backoff = Some(backoff.into());
        self
    }

    /// No attempt starts after this time; a job that would have to has failed.
    pub fn retry_until(mut self, time: SystemTime) -> Self {
        self.retry_until = Some(local_unix_ms(time));
        self
    }

    /// The job does not run if its first attempt has not started this long after its enqueue, or after the time for which it is delayed: it
    /// has *expired* then. By the clocks of the producer and the server.
    pub fn expires_in(mut self, time: Duration) -> Self {
        self.expires_in = Some(millis(time));
        self
    }

    /// How soon the job runs, compared with others of its queue; another than its type says.
    pub fn priority(mut self, priority: Priority) -> Self {
        self.priority = Some(priority);
        self
    }

    /// Puts the job to the front of those of its priority: it is the next of them to run. Not for a job that runs later.
    pub fn front(mut self) -> Self {
        self.front = true;
        self
    }

    /// Adds a tag, by which the job can be looked for: 1 to 64 bytes, at most 16 a job. It stays with the job through all its attempts, and
    /// is not encrypted.
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.notes.get_or_insert_default().tags.push(tag.into());
        self
    }

    /// Notes something beside the arguments, by a name: the tenant, the request, who asked for it. At most 4 KiB of JSON a job. It stays with
    /// the job through all its attempts, and is not encrypted.
    pub fn meta(mut self, name: impl Into<String>, value: impl Serialize) -> Self {
        let notes = self.notes.get_or_insert_default();
        let name = name.into();
        match serde_json::to_value(value) {
            Ok(value) => _ = notes.meta.insert(name, value),
            Err(error) => notes.problems.push(format!("meta `{name}`: {}", describe(&error))),
        }
        self
    }

    /// Notes that the job was enqueued by this one, from inside its body: its id becomes the `parent` of the job, which tools show and search for
    /// (`parent:ID`). What [`meta`](Self::meta) noted of that one is taken over, where the call notes nothing by the same name; its tags are not.
    ///
    /// ```
    /// #[hworker::job]
    /// async fn import(file: String, context: hworker::Context) -> Result<(), hworker::Error> {
    ///     import_row::with(file, 1).child_of(&context).enqueue().await?;
    ///     Ok(())
    /// }
    /// # #[hworker::job] async fn import_row(file: String, row: u64) { let _ = (file, row); }
    /// ```
    pub fn child_of(mut self, context: &JobContext) -> Self {
        self.notes.get_or_insert_default().inherit(Parent::from(context));
        self
    }

    /// Gives the job this id: 1 to 200 bytes, no control characters, no `#`. While a job of that id lives on the queue, another is not
    /// enqueued: so an enqueue that is repeated, as after [`Error::Uncertain`], does no harm.
    ///
    /// ```no_run
    /// # #[hworker::job] async fn import(order: u64) { let _ = order; }
    /// # async fn demo() -> Result<(), hworker::Error> {
    /// import::with(7).id("order-7").enqueue().await?;
    /// # Ok(()) }
    /// ```
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.known.get_or_insert_default().id = Some(id.into());
        self
    }

    /// Has the job be unique, in another way than its type says.
    pub fn unique(mut self, unique: Unique) -> Self {
        self.known.get_or_insert_default().unique = Some(unique);
        self
    }

    /// How safe the job must be before the enqueue returns; what the client says if this is not called.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = Some(durability);
        self
    }

    /// Uses another client than the default one.
    pub fn on(mut self, client: &Client) -> Self {
        self.client = Some(client.clone());
        self
    }

    #[doc(hidden)]
    pub fn into_job(self) -> J {
        self.job
    }

    fn needs_client(&self) -> bool {
        self.client.is_none()
    }

    /// Enqueues the job: one round trip. `Ok` means that the server has it, and gives its [`JobId`]; of a type with
    /// [`keep_result`](macro@crate::job#options) a [`Handle`](crate::Handle), with which to wait for its result.
    ///
    /// Concurrent enqueues of one runtime may share a write. None waits for another, and dropping or refusing one does not affect the
    /// others. For many jobs at once there is [`Bulk`](crate::Bulk).
    ///
    /// Dropping the future before it is ready leaves the job enqueued or not, never half.
    ///
    /// # Errors
    /// [`Error::Uncertain`] where the server may have it but its answer was lost, [`Error::NotDurable`] where it has it, but
    /// not as safely as asked; with every other error the job is not enqueued. [`Error::Conflict`] where it is unique, and another holds its
    /// key, if it is to be refused then; else the id is that of the job that is kept.
    pub async fn enqueue(self) -> Result<J::Handle, Error> {
        let runtime = in_a_runtime()?;
        Ok(self.encode(None)?.send(runtime).await?.handle())
    }

    /// Enqueues the job as [`enqueue`](Self::enqueue) does, and says what became of it: whether it is new, or another of its key or id was
    /// there.
    ///
    /// # Errors
    /// As [`enqueue`](Self::enqueue).
    pub async fn submit(self) -> Result<Receipt, Error> {
        let runtime = in_a_runtime()?;
        self.encode(None)?.submit(runtime).await
    }

    /// Enqueues the job from code that is not async, in or outside a runtime, and blocks until the server has it.
    ///
    /// # Errors
    /// As [`Enqueue::enqueue`]; [`Error::Config`] also in a process that was forked after its first blocking enqueue.
    pub fn enqueue_blocking(self) -> Result<J::Handle, Error> {
        let ready = self.encode(None)?;
        block_on(async { Ok(ready.send(in_a_runtime()?).await?.handle()) })
    }

    /// Checks everything and writes the envelope, for the given client if the call names none.
    fn encode(mut self, client: Option<&Client>) -> Result<Ready, Error> {
        let client = match (self.client, client) {
            (Some(own), _) => own,
            (None, Some(given)) => given.clone(),
            (None, None) => Client::default_client()?,
        };
        let mut queue = self.queue.unwrap_or(Cow::Borrowed(J::DEFINITION.queue));
        if let Some(tag) = &self.to {
            queue = Cow::Owned(with_tag(&queue, tag));
        }
        Notes::add_outgoing(&mut self.notes, &client, J::NAME, &queue)?;
        let mut problems = Vec::new();
        problems.extend(check_queue(&queue).err());
        if self.max_attempts == Some(0) {
            problems.push("max_attempts is 0; a job has at least one attempt".into());
        }
        if self.expires_in == Some(0) {
            problems.push("the job expires after no time; write how long it may wait".into());
        }
        if self.timeout == Some(0) {
            problems.push("timeout is 0; write how long an attempt may run".into());
        }
        if let Some(Err(why)) = self.backoff.as_deref().map(CallBackoff::check) {
            problems.push(format!("backoff: {why}"));
        }
        let (mut tags, mut meta, mut parent) = (&[][..], None, None);
        if let Some(notes) = &self.notes {
            (tags, parent) = (&notes.tags, notes.parent.as_ref());
            meta = notes.meta().unwrap_or_else(|why| {
                problems.push(why);
                None
            });
            problems.extend(check_tags(tags).err());
            problems.extend(notes.problems.iter().cloned());
        }
        let values = (!J::DEFINITION.limits.is_empty()).then(|| self.job.limit_values());
        if let Some(LimitValues { limit: Some(Err(why)), .. }) = &values {
            problems.push(why.clone());
        }
        let now = since_1970(SystemTime::now());
        let known = Known::of(&client, &self.job, self.known.as_deref(), &mut problems)?;
        let due = self.due.or(known.put_off);
        problems.extend((self.front && due.is_some()).then(|| NOT_IN_FRONT.to_owned()));
        let expires_in = self.expires_in.or(J::DEFINITION.policy.expires_ms);
        let is_placed = due.is_some() || self.front || self.priority.is_some();
        let each = self.workers.map(|workers| {
            workers.check_type(J::DEFINITION, &mut problems);
            workers.each(is_placed, known.lock.is_some(), expires_in, &mut problems)
        });
        if !problems.is_empty() {
            return Err(Error::Config(Problems(problems)));
        }
        let id = known.id.unwrap_or_else(|| JobId::fresh_at(now));
        let refused = |source| Error::Encode { job: J::NAME, source: Cause::new(source) };
        let (args, check_sealed) = match client.keys_for(J::DEFINITION)? {
            None => (Args::Plain(&self.job), false),
            Some(keys) => {
                let owner = Owner { what: What::Args, job: J::NAME, id: id.as_str() };
                let (sealed, check) = keys.seal(&self.job, owner).map_err(refused)?;
                (Args::Sealed(sealed), check)
            }
        };
        let over_at = each.map(|each| millis(now).saturating_add(each.lasts));
        let envelope = NewEnvelope {
            v: VERSION,
            id: &id,
            job: J::NAME,
            args_v: J::DEFINITION.args_v(),
            args: &args,
            enqueued_at: millis(now),
            ready_at: due.map(|due| due.by_clock(millis(now))),
            tags,
            meta: meta.as_deref(),
            parent,
            max_attempts: self.max_attempts,
            timeout: self.timeout,
            backoff: self.backoff.as_deref(),
            retry_until: self.retry_until.into_iter().chain(over_at).min(),
            expires_at: over_at.or(expires_in.map(|time| {
                due.map_or(millis(now), |due| due.by_clock(millis(now))).saturating_add(time)
            })),
            priority: self.priority.filter(|priority| *priority != J::DEFINITION.priority),
            keep: J::DEFINITION.keep_ms,
        };
        let priority = self.priority.unwrap_or(J::DEFINITION.priority);
        let mut place = place::<J>(&client, priority, values, self.front)?;
        if let Some(lock) = known.lock {
            place.list = place.list.by_id();
            place.lock = Some(Box::new(lock));
        }
        place.each = each;
        let (envelope, check_plain) =
            strict_json::to_vec(&envelope).map_err(|error| refused(error.into()))?;
        if check_sealed || check_plain {
            read_back(&self.job).map_err(refused)?;
        }
        check_size(&client, envelope.len(), (J::NAME, &id, &queue))?;
        let confirms = self.durability.map_or_else(|| client.durability(), Durability::asks);
        let client = client.or_of_test();
        Ok(Ready { client, queue, place, due, job: J::NAME.into(), id, confirms, envelope })
    }
}

/// Where a job waits that has these limits.
fn place<J: Job>(
    client: &Client,
    priority: Priority,
    values: Option<LimitValues>,
    front: bool,
) -> Result<Place, Error> {
    let Some(LimitValues { key, limit }) = values else {
        return Ok(Place { list: priority.into(), front, ..Place::default() });
    };
    let key = key.map(|key| client.written_key(J::DEFINITION, &key)).transpose()?;
    let list = List::of(priority, J::DEFINITION.limits, key.as_deref());
    let at_once = key.and(limit).and_then(Result::ok);
    let terms = match list.key() {
        Some(_) => terms(J::DEFINITION.limits, at_once),
        None => String::new(),
    };
    Ok(Place { list, at_once, terms, front, ..Place::default() })
}

/// Reads arguments as a worker will.
fn read_back<J: Job>(job: &J) -> Result<(), BoxError> {
    let json = serde_json::to_vec(job)?;
    let read = serde_json::from_slice::<J>(&json);
    read.map(drop)
        .map_err(|error| format!("no worker could read them: {}", describe(&error)).into())
}

impl<J: Job> fmt::Debug for Enqueue<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The arguments stay out of logs.
        f.debug_struct("Enqueue").field("job", &J::NAME).finish_non_exhaustive()
    }
}

/// Arguments as they go into the envelope.
#[derive(Serialize)]
#[serde(untagged)]
enum Args<'a, J> {
    Plain(&'a J),
    Sealed(Sealed<'a>),
}
