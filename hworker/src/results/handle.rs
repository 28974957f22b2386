//! A job whose result is kept.

use std::collections::BTreeSet;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::ops::Deref;
use std::pin::Pin;
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use super::error::{JobFailure, RawResult, ResultError};
use crate::client::{Client, OfWorker};
use crate::context::state_in_body;
use crate::encryption::{self, Owner, Unopened, What, is_sealed};
use crate::envelope::{JobId, describe};
use crate::error::Error;
use crate::job::{Job, OfJob, Whereabouts};
use crate::job_state::JobState;
use crate::kept::KeptRecord;
use crate::keys::is_queue;
use crate::log::say;
use crate::reports::Progress;
use crate::shards;
use crate::store::{Fault, Queue};
use crate::time::{millis, since_1970};

/// So long a result is waited for unless somebody says.
const WAITS: Duration = Duration::from_secs(30);

/// A job whose result is kept: what [`enqueue`](crate::Enqueue::enqueue) gives for types with
/// [`keep_result`](macro@crate::job#options). Awaiting it is [`result`](Self::result).
///
/// As text it is `<queue>/<id>`, with which any process can wait: `"mail/0190a6c2-..".parse::<Handle<thumbnail>>()`.
///
/// ```no_run
/// #[hworker::job(keep_result = "1h")]
/// async fn thumbnail(path: String, size: u32) -> Result<Vec<u8>, std::io::Error> {
///     Ok(vec![0; size as usize])
/// }
///
/// # async fn demo() -> Result<(), hworker::BoxError> {
/// let handle = thumbnail::enqueue("a.png".to_owned(), 128).await?;
/// let picture: Vec<u8> = handle.await?;
/// # Ok(()) }
/// ```
pub struct Handle<J: Job> {
    id: JobId,
    /// The name of the shard, which is that of the queue where it is not spread.
    shard: Box<str>,
    client: Option<Client>,
    of: PhantomData<fn() -> J>,
}

/// What a wait gives.
type Outcome<J> = Result<<J as Job>::Output, ResultError<<J as Job>::Failure>>;

impl<J: Job> Handle<J> {
    /// The queue that the job was enqueued to.
    #[must_use]
    pub fn queue(&self) -> &str {
        parts(&self.shard).map_or(&*self.shard, |(queue, _)| queue)
    }

    /// The same, to be asked of another client than the one that enqueued it; where it was read from text, than the default one.
    #[must_use]
    pub fn on(self, client: &Client) -> Self {
        Self { client: Some(client.clone()), ..self }
    }

    /// In which state the job is: how it ended, as long as that is kept, else as [`Inspect::find`](crate::Inspect::find) finds it. `None` where there
    /// is nothing of it any more.
    ///
    /// # Errors
    /// As [`Inspect::find`](crate::Inspect::find).
    pub async fn state(&self) -> Result<Option<JobState>, Error> {
        let client = self.client()?;
        let inspect = client.inspect(self.queue());
        if let Some(state) = self.ended(&client).await? {
            return Ok(Some(state));
        }
        match inspect.find(&self.id).await? {
            Some(job) => Ok(Some(job.state)),
            // It may have ended while it was looked for.
            None => self.ended(&client).await,
        }
    }

    /// How far the job is, as [`Inspect::progress`](crate::Inspect::progress).
    ///
    /// # Errors
    /// As [`Inspect::progress`](crate::Inspect::progress).
    pub async fn progress(&self) -> Result<Option<Progress>, Error> {
        self.client()?.inspect(self.queue()).progress(&self.id).await
    }

    /// Cancels the job, as [`Inspect::cancel`](crate::Inspect::cancel) does: its result is [`ResultError::Cancelled`] then.
    ///
    /// # Errors
    /// As [`Inspect::cancel`](crate::Inspect::cancel).
    pub async fn cancel(&self) -> Result<JobState, Error> {
        self.client()?.inspect(self.queue()).cancel(&self.id).await
    }

    fn client(&self) -> Result<Client, Error> {
        self.client.clone().map_or_else(Client::default_client, Ok)
    }

    /// Its shard at this client.
    fn at(&self, client: &Client) -> Queue {
        let (queue, number) = parts(&self.shard).unwrap_or((&self.shard, 0));
        Queue::new(client.key_space(), queue, number, client.limits())
    }

    /// How it ended, where that is kept.
    async fn ended(&self, client: &Client) -> Result<Option<JobState>, Error> {
        let kept = client.kept(&self.at(client), self.id.as_str()).await;
        let kept = kept.map_err(|fault| {
            let doing = format!("look for the result of job {} {}", J::NAME, self.id);
            fault.at(client.address()).into_error(doing)
        })?;
        Ok(kept.and_then(|text| KeptRecord::read(&text).ok()?.state()))
    }
}

impl<J: Job> Handle<J>
where
    J::Output: DeserializeOwned,
    J::Failure: DeserializeOwned,
{
    /// Waits for the end of the job, at most 30 s, and gives what it returned.
    ///
    /// Where a body waits for a job, it holds its slot: if all slots of a queue wait for jobs of that queue, none of them goes on before its
    /// timeout. The first such call warns in the log.
    ///
    /// # Errors
    /// [`ResultError`] says whether the job has failed, was cancelled, has not ended yet, or why its result cannot be had.
    pub async fn result(&self) -> Outcome<J> {
        self.within(WAITS).await
    }

    /// As [`result`](Self::result), with another bound.
    ///
    /// # Errors
    /// As [`result`](Self::result).
    pub async fn within(&self, time: Duration) -> Outcome<J> {
        warn_in_a_body::<J>();
        let client = self.client().map_err(|error| unavailable(&error))?;
        crate::runtime::current("a result was awaited outside a tokio runtime")
            .map_err(|error| unavailable(&error))?;
        let found = client.await_kept(&self.at(&client), self.id.as_str(), time).await;
        match found {
            Ok(Some(text)) => self.read(&client, &text),
            Ok(None) => Err(self.not_yet(time)),
            Err(fault) => {
                let fault: Fault = fault.at(client.address());
                Err(unavailable(&fault.into_error(format!("wait for job {} {}", J::NAME, self.id))))
            }
        }
    }

    fn not_yet(&self, waited: Duration) -> ResultError<J::Failure> {
        let age = |since: u64| millis(since_1970(SystemTime::now())).saturating_sub(since);
        let may_be_gone = match (self.id.unix_ms(), J::DEFINITION.keep_ms) {
            (Some(since), Some(keep)) => age(since) > keep,
            _ => false,
        };
        ResultError::NotYet { id: self.id.clone(), waited, may_be_gone }
    }

    /// What the text of its key says.
    fn read(&self, client: &Client, text: &[u8]) -> Outcome<J> {
        let record = KeptRecord::read(text).map_err(ResultError::Unavailable)?;
        match record.state() {
            Some(JobState::Done) => self.value(client, record),
            Some(JobState::Cancelled) => {
                Err(ResultError::Cancelled(record.message.unwrap_or_default()))
            }
            Some(JobState::Failed | JobState::Expired | JobState::Broken) => {
                let error = record.error.and_then(|error| self.opened(client, error).ok());
                Err(ResultError::Job(JobFailure {
                    kind: record.kind.unwrap_or_default(),
                    message: record.message.unwrap_or_default(),
                    attempt: record.attempt.unwrap_or(0),
                    error: error.and_then(|error| serde_json::from_str(&error).ok()),
                }))
            }
            _ => Err(ResultError::Unavailable(format!(
                "the state `{}` is unknown here",
                record.state
            ))),
        }
    }

    fn value(&self, client: &Client, record: KeptRecord) -> Outcome<J> {
        if let Some(bytes) = record.too_large {
            return Err(ResultError::TooLarge { bytes });
        }
        let Some(result) = record.result else {
            let why = record.unavailable.unwrap_or_else(|| "nothing of it is kept".to_owned());
            return Err(ResultError::Unavailable(why));
        };
        let json = self.opened(client, result).map_err(ResultError::Unavailable)?;
        serde_json::from_str(&json)
            .map_err(|error| ResultError::Changed { why: describe(&error), json: RawResult(json) })
    }

    /// What a worker kept, decrypted where it is encrypted.
    fn opened(&self, client: &Client, json: Box<RawValue>) -> Result<String, String> {
        if !(json.get().starts_with('{') && is_sealed(json.get())) {
            return Ok(Box::<str>::from(json).into());
        }
        let owner = Owner { what: What::Result, job: J::NAME, id: self.id.as_str() };
        match encryption::open(client.keys(), json.get(), owner) {
            Ok(opened) => Ok(opened.as_str().to_owned()),
            Err(Unopened::Refused(why)) => Err(why),
            Err(Unopened::Lacking(what)) => Err(format!("it is {what}")),
        }
    }
}

fn unavailable<E>(error: &Error) -> ResultError<E> {
    ResultError::Unavailable(error.to_string())
}

/// Warns once for each job type whose result a body waits for.
fn warn_in_a_body<J: Job>() {
    static WARNED: Mutex<BTreeSet<&str>> = Mutex::new(BTreeSet::new());
    if state_in_body::<OfWorker>().is_none() {
        return;
    }
    let is_first = WARNED.lock().unwrap_or_else(PoisonError::into_inner).insert(J::NAME);
    if is_first {
        let name = J::NAME;
        say!(
            WARN,
            "a body waits for the result of a job `{name}` and holds its slot meanwhile: where all slots do so, none goes on before its timeout"
        );
    }
}

/// The queue of a shard and its number.
fn parts(shard: &str) -> Option<(&str, usize)> {
    let Some((queue, rest)) = shard.split_once('#') else { return Some((shard, 0)) };
    let number = rest.split_once('.')?.0.parse().ok().filter(|number| *number < shards::MOST)?;
    (shards::spelled(queue, number) == shard).then_some((queue, number))
}

impl<J: Job> OfJob for Handle<J> {
    fn of(id: JobId, at: impl FnOnce() -> Whereabouts) -> Self {
        let Whereabouts { shard, client } = at();
        let client = client.downcast::<Client>().ok().map(|client| *client);
        Self { id, shard, client, of: PhantomData }
    }
}

impl<J: Job> IntoFuture for Handle<J>
where
    J::Output: DeserializeOwned,
    J::Failure: DeserializeOwned,
{
    type Output = Outcome<J>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { self.result().await })
    }
}

impl<'a, J: Job> IntoFuture for &'a Handle<J>
where
    J::Output: DeserializeOwned,
    J::Failure: DeserializeOwned,
{
    type Output = Outcome<J>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.result())
    }
}

impl<J: Job> Deref for Handle<J> {
    type Target = JobId;

    fn deref(&self) -> &JobId {
        &self.id
    }
}

impl<J: Job> fmt::Display for Handle<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.shard, self.id.as_str())
    }
}

impl<J: Job> fmt::Debug for Handle<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, shard, .. } = self;
        f.debug_struct("Handle").field("job", &J::NAME).field("at", shard).field("id", id).finish()
    }
}

/// From `<queue>/<id>`, as it is written.
impl<J: Job> FromStr for Handle<J> {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong = || {
            Error::config(
                "this is no handle of a job: it is the queue and the id, as in `mail/0190a6c2-..`",
            )
        };
        let (shard, id) = text.split_once('/').ok_or_else(wrong)?;
        let is_one = parts(shard).is_some_and(|(queue, _)| is_queue(queue))
            && (1..=200).contains(&id.len())
            && !id.contains(char::is_control);
        if !is_one {
            return Err(wrong());
        }
        Ok(Self { id: id.into(), shard: shard.into(), client: None, of: PhantomData })
    }
}

impl<J: Job> Serialize for Handle<J> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de, J: Job> Deserialize<'de> for Handle<J> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

impl<J: Job> Clone for Handle<J> {
    fn clone(&self) -> Self {
        let Self { id, shard, client, of } = self;
        Self { id: id.clone(), shard: shard.clone(), client: client.clone(), of: *of }
    }
}

/// The same job, whatever client asks.
impl<J: Job> PartialEq for Handle<J> {
    fn eq(&self, other: &Self) -> bool {
        (&self.id, &self.shard) == (&other.id, &other.shard)
    }
}

impl<J: Job> Eq for Handle<J> {}

impl<J: Job> Hash for Handle<J> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.id, &self.shard).hash(state);
    }
}
