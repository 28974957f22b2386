//! A job as a person sees it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::ser::SerializeStruct;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::envelope::{AttemptError, Crash, Envelope, JobId, NO_ARGS};
use crate::fnv;
use crate::job_state::JobState;
use crate::kept::KeptRecord;
use crate::limit::List;
use crate::priority::Priority;
use crate::reports::Progress;
use crate::store::{Lease, Place};
use crate::unique::KeyLock;

/// A job, wherever it is. `Debug` leaves out its arguments; `Serialize` has everything.
#[derive(Clone)]
#[non_exhaustive]
pub struct JobInfo {
    /// The job's id; none where it came without one, or cannot be decoded.
    pub id: Option<JobId>,
    /// The name of its type; none where it cannot be decoded.
    pub job: Option<String>,
    /// The queue that it is on.
    pub queue: String,
    /// Where it is.
    pub state: JobState,
    /// How soon it runs, by the list in which it stands; else what it says itself, if anything: a priority of its type is not known then.
    pub priority: Priority,
    /// In milliseconds since 1970 by the server's clock: when a scheduled job is due, since when a job is parked or runs, when it ended, or
    /// when a broken payload last came. Of a waiting job since when it waits: when it was enqueued, or was due after a delay or for its next
    /// attempt, by the clock of its writer; none where that does not say.
    pub at: Option<u64>,
    /// The number of its current, next or last attempt, from 1.
    pub attempt: u32,
    /// The worker that holds it or ended it.
    pub worker: Option<String>,
    /// Why it ended, of a failed job: `error`, `panic`, `timeout`, `retry`, `failure`, `crash` or `deadline`.
    pub kind: Option<String>,
    /// The text of its last error, or what is wrong with a broken payload.
    pub message: Option<String>,
    /// Where it panicked.
    pub place: Option<String>,
    /// The backtrace of the panic.
    pub backtrace: Option<String>,
    /// The group of failures to which it belongs, as in [`Inspect::groups`](super::Inspect::groups).
    pub group: Option<String>,
    /// When its last attempt started, in milliseconds since 1970 by the server's clock.
    pub started_at: Option<u64>,
    /// How many times a broken payload came.
    pub times: Option<u64>,
    /// The deaths of workers that held it.
    pub crashes: Vec<Crash>,
    /// How many bytes it takes in the list, set or hash where it stands.
    pub bytes: u64,
    /// How far it is, where its body says so and it was found by its id.
    pub progress: Option<Progress>,
    /// How many lines its body has logged, where it was found by its id; [`Inspect::log`](super::Inspect::log) gives them.
    pub log_lines: u64,
    /// What it returned, where that is kept.
    result: Option<Box<RawValue>>,
    /// Its bytes as they are stored; empty where they were too many to be read for a list.
    payload: Vec<u8>,
    /// False for an ended job of which only its place was read.
    pub(super) is_read: bool,
    /// What it holds when it runs again: an ended one that is unique.
    pub(super) holds: Option<KeyLock>,
    pub(super) guard: Guard,
}

/// What a change of a job is bound to: where it stood, and as what.
#[derive(Debug, Clone)]
pub(super) struct Guard {
    /// The shard that has it.
    pub(super) shard: usize,
    /// The list in which it waits or is to wait.
    pub(super) list: List,
    /// How many jobs of its key run at once, where it is scheduled with that.
    pub(super) at_once: Option<u32>,
    pub(super) stands: Stands,
}

/// Where a job stood.
#[derive(Debug, Clone)]
pub(super) enum Stands {
    /// So many before it are taken first.
    Waiting(u64),
    /// With this score, the due time or token.
    Sorted(u64),
    Running(String, Option<Lease>),
    Ended(Place),
    Broken,
}

impl Guard {
    pub(super) fn of(shard: usize, stands: Stands) -> Self {
        Self { shard, list: List::default(), at_once: None, stands }
    }

    pub(super) fn at(self, list: List) -> Self {
        Self { list, ..self }
    }
}

/// What is read of a record.
#[derive(Deserialize)]
struct Record<'a> {
    id: String,
    job: String,
    #[serde(default)]
    worker: Option<String>,
    #[serde(default)]
    kind: Option<String>,
    #[serde(default)]
    message: Option<String>,
    #[serde(default)]
    place: Option<String>,
    #[serde(default)]
    backtrace: Option<String>,
    #[serde(default)]
    started_at: Option<u64>,
    #[serde(default)]
    attempts: Option<u32>,
    #[serde(default)]
    crashes: Vec<Crash>,
    #[serde(default)]
    holds: Option<KeyLock>,
    #[serde(borrow)]
    envelope: &'a RawValue,
}

impl JobInfo {
    /// What is known of a payload.
    pub(super) fn of_payload(
        queue: &str,
        state: JobState,
        at: Option<u64>,
        payload: Vec<u8>,
        guard: Guard,
    ) -> Self {
        let mut info = Self {
            id: None,
            job: None,
            queue: queue.to_owned(),
            state,
            priority: guard.list.priority,
            at,
            attempt: 1,
            worker: None,
            kind: None,
            message: None,
            place: None,
            backtrace: None,
            group: None,
            started_at: None,
            times: None,
            crashes: Vec::new(),
            bytes: payload.len() as u64,
            progress: None,
            log_lines: 0,
            result: None,
            payload: Vec::new(),
            is_read: true,
            holds: None,
            guard,
        };
        match Envelope::decode(&payload) {
            Ok(envelope) => {
                info.id = envelope.id.as_deref().map(JobId::from);
                info.attempt = envelope.attempt;
                // One that waits elsewhere was put there by hand, or is on its way.
                if info.priority == Priority::Normal {
                    info.priority = envelope.priority().unwrap_or_default();
                }
                info.job = Some(envelope.job.into_owned());
                info.crashes = envelope.crashes;
            }
            // A worker will say the same, and put it among the broken ones.
            Err(why) if state != JobState::Broken => info.message = Some(why),
            Err(_) => {}
        }
        if state == JobState::Waiting {
            info.at = waits_since(&payload);
        }
        info.payload = payload;
        info
    }

    /// What the place of an ended job tells of it.
    pub(super) fn of_place(queue: &str, state: JobState, shard: usize, place: &Place) -> Self {
        let at = Some(place.ended_at);
        let guard = Guard::of(shard, Stands::Ended(place.clone()));
        let mut info = Self::of_payload(queue, state, at, Vec::new(), guard);
        (info.message, info.is_read) = (None, false);
        if let Some([group, job, name]) = place.parts() {
            info.group = Some(group.to_owned()).filter(|group| group != "-");
            info.job = Some(job.to_owned());
            // That of a second record has the lease behind it.
            info.id = Some(JobId::from(name.split_once('#').map_or(name, |(id, _)| id)));
        }
        info
    }

    /// The same with its record of so many bytes; none where it is too large to be read for a list, or gone.
    pub(super) fn of_record(
        queue: &str,
        state: JobState,
        shard: usize,
        place: &Place,
        bytes: u64,
        record: Option<&[u8]>,
    ) -> Self {
        let by_place = Self::of_place(queue, state, shard, place);
        let message = match record.map(serde_json::from_slice::<Record<'_>>) {
            Some(Ok(record)) => return by_place.with(record, bytes),
            Some(Err(_)) => "its record cannot be read".to_owned(),
            None if bytes > 0 => format!("its record of {bytes} bytes is shown for its id alone"),
            None => "its record is gone".to_owned(),
        };
        Self { message: Some(message), bytes, is_read: true, ..by_place }
    }

    fn with(self, record: Record<'_>, bytes: u64) -> Self {
        let payload = record.envelope.get().as_bytes().to_vec();
        let envelope = Envelope::decode(&payload).ok();
        let priority = envelope.and_then(|envelope| envelope.priority()).unwrap_or_default();
        Self {
            priority,
            id: Some(JobId::from(&*record.id)),
            job: Some(record.job),
            worker: record.worker,
            message: record.message,
            kind: record.kind,
            place: record.place,
            backtrace: record.backtrace,
            started_at: record.started_at,
            attempt: record.attempts.unwrap_or(1),
            crashes: record.crashes,
            holds: record.holds,
            payload,
            bytes,
            is_read: true,
            ..self
        }
    }

    /// The same with what is kept of its end.
    pub(super) fn with_kept(self, kept: KeptRecord) -> Self {
        let why = match (kept.too_large, kept.unavailable) {
            (Some(bytes), _) => {
                Some(format!("its result of {bytes} bytes was too large to be kept"))
            }
            (None, Some(why)) => Some(format!("its result could not be kept: {why}")),
            (None, None) => None,
        };
        Self { result: kept.result, message: self.message.or(why), ..self }
    }

    /// A job that has ended, and of which no more is left than what is kept of its end.
    pub(super) fn of_kept(queue: &str, shard: usize, id: &JobId, kept: KeptRecord) -> Option<Self> {
        let (state, at) = (kept.state()?, Some(kept.at));
        // It stands nowhere, so nothing can be done to it.
        let guard = Guard::of(shard, Stands::Broken);
        let none = Self::of_payload(queue, state, at, Vec::new(), guard);
        let job = Self {
            id: Some(id.clone()),
            job: kept.job.clone(),
            attempt: kept.attempt.unwrap_or(1),
            worker: kept.worker.clone(),
            kind: kept.kind.clone(),
            message: kept.message.clone(),
            ..none
        };
        Some(job.with_kept(kept))
    }

    /// What it returned, as JSON, as long as that is kept (`keep_result`) and where it is found by its id. That of an encrypted job is shown as it is stored.
    #[must_use]
    pub fn result(&self) -> Option<&str> {
        self.result.as_deref().map(RawValue::get)
    }

    /// The arguments, as JSON: `null` where they cannot be read. Encrypted ones are shown as they are stored.
    #[must_use]
    pub fn args(&self) -> &str {
        let envelope = Envelope::decode(&self.payload);
        envelope.map_or("null", |envelope| envelope.given_args().unwrap_or(NO_ARGS))
    }

    /// The version of the arguments, as its producer said it; where a worker knows a newer one, it upgrades them before the body starts.
    #[must_use]
    pub fn args_version(&self) -> u32 {
        Envelope::decode(&self.payload).map_or(1, |envelope| envelope.args_version())
    }

    /// The bytes as they are stored: the envelope, or what a producer pushed instead; of an ended job the envelope as it would have gone
    /// on. It holds the arguments: keep it out of logs.
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        &self.payload
    }

    /// The same as text; what is no UTF-8 is replaced.
    #[must_use]
    pub fn envelope(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.payload)
    }

    /// The errors of the last attempts, the latest last. What is not a list of errors is none, since no job depends on them.
    #[must_use]
    pub fn errors(&self) -> Vec<AttemptError> {
        field(&self.payload, "errors").unwrap_or_default()
    }

    /// When it was enqueued, in milliseconds since 1970, by its producer's clock.
    #[must_use]
    pub fn enqueued_at(&self) -> Option<u64> {
        enqueued_at(&self.payload)
    }

    /// How many times its body put it off.
    #[must_use]
    pub fn snoozes(&self) -> u64 {
        field(&self.payload, "snoozes").unwrap_or_default()
    }

    /// Its tags.
    #[must_use]
    pub fn tags(&self) -> Vec<String> {
        field(&self.payload, "tags").unwrap_or_default()
    }

    /// What its producer noted beside its arguments, by name; the values are JSON.
    #[must_use]
    pub fn meta(&self) -> BTreeMap<String, String> {
        let meta: Option<BTreeMap<String, Box<RawValue>>> = field(&self.payload, "meta");
        let meta = meta.unwrap_or_default().into_iter();
        meta.map(|(name, value)| (name, value.get().to_owned())).collect()
    }

    /// The id of the job whose body enqueued it, by [`Enqueue::child_of`](crate::Enqueue::child_of).
    #[must_use]
    pub fn parent(&self) -> Option<JobId> {
        field(&self.payload, "parent")
    }

    /// What names a broken payload: 16 hex digits made of its bytes.
    #[must_use]
    pub fn digest(&self) -> String {
        format!("{:016x}", fnv::hash(&self.payload))
    }
}

/// Since when a job waits, in ms since 1970: since it was enqueued, or since it was due.
pub(super) fn waits_since(payload: &[u8]) -> Option<u64> {
    enqueued_last(payload).or_else(|| field(payload, "enqueued_at").max(field(payload, "ready_at")))
}

/// When an envelope was enqueued, in ms since 1970.
fn enqueued_at(payload: &[u8]) -> Option<u64> {
    enqueued_last(payload).or_else(|| field(payload, "enqueued_at"))
}

/// The same of one whose last field it is, as of most: nothing else need be read, and it was never due.
fn enqueued_last(payload: &[u8]) -> Option<u64> {
    let digits = payload.strip_suffix(b"}")?;
    let start = digits.iter().rposition(|byte| !byte.is_ascii_digit())? + 1;
    let (before, digits) = digits.split_at(start);
    if !before.ends_with(br#","enqueued_at":"#) {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// A field of an envelope, if it is there and of its type.
fn field<T: serde::de::DeserializeOwned>(payload: &[u8], name: &str) -> Option<T> {
    let fields: BTreeMap<Cow<'_, str>, &RawValue> = serde_json::from_slice(payload).ok()?;
    serde_json::from_str(fields.get(name)?.get()).ok()
}

impl fmt::Debug for JobInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobInfo")
            .field("id", &self.id)
            .field("job", &self.job)
            .field("queue", &self.queue)
            .field("state", &self.state)
            .field("priority", &self.priority)
            .field("at", &self.at)
            .field("attempt", &self.attempt)
            .field("worker", &self.worker)
            .field("kind", &self.kind)
            .field("message", &self.message)
            .finish_non_exhaustive()
    }
}

/// JSON that others can read too: it may be in order as a whole, and have half a character in a text.
fn readable(json: Option<Box<RawValue>>) -> Option<Box<RawValue>> {
    json.filter(|json| serde_json::from_str::<serde_json::Value>(json.get()).is_ok())
}

impl Serialize for JobInfo {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_struct("JobInfo", 29)?;
        map.serialize_field("id", &self.id)?;
        map.serialize_field("job", &self.job)?;
        map.serialize_field("queue", &self.queue)?;
        map.serialize_field("state", self.state.name())?;
        map.serialize_field("priority", &self.priority)?;
        map.serialize_field("at", &self.at)?;
        map.serialize_field("attempt", &self.attempt)?;
        map.serialize_field("worker", &self.worker)?;
        map.serialize_field("kind", &self.kind)?;
        map.serialize_field("message", &self.message)?;
        map.serialize_field("place", &self.place)?;
        map.serialize_field("backtrace", &self.backtrace)?;
        map.serialize_field("group", &self.group)?;
        map.serialize_field("started_at", &self.started_at)?;
        map.serialize_field("times", &self.times)?;
        map.serialize_field("crashes", &self.crashes)?;
        map.serialize_field("bytes", &self.bytes)?;
        map.serialize_field("enqueued_at", &self.enqueued_at())?;
        map.serialize_field("snoozes", &self.snoozes())?;
        map.serialize_field("tags", &self.tags())?;
        map.serialize_field("meta", &readable(field(&self.payload, "meta")))?;
        map.serialize_field("parent", &self.parent())?;
        map.serialize_field("errors", &self.errors())?;
        let args = RawValue::from_string(self.args().to_owned()).ok();
        map.serialize_field("args", &readable(args))?;
        map.serialize_field("args_v", &self.args_version())?;
        map.serialize_field("result", &readable(self.result.clone()))?;
        map.serialize_field("progress", &self.progress)?;
        map.serialize_field("log_lines", &self.log_lines)?;
        let digest = (self.state == JobState::Broken).then(|| self.digest());
        map.serialize_field("digest", &digest)?;
        map.end()
    }
}
