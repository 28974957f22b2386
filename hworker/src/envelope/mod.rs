//! A job as it is stored: one JSON object, read without copying what need not be, and rewritten without touching
//! what we do not know. The format is in `docs/wire-format.md`.

mod describe;
mod id;
mod notes;
mod rewrite;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::str::Utf8Error;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

pub(crate) use describe::{bounded, describe};
pub use id::JobId;
pub(crate) use notes::{check_meta, check_tags};
pub(crate) use rewrite::{Rewrite, edit_args};

use crate::priority::{NO_PRIORITY, Priority};

/// The newest format that this version reads and the one that it writes.
pub(crate) const VERSION: u64 = 1;

/// What missing arguments stand for.
pub(crate) const NO_ARGS: &str = "{}";

/// What a worker reads of an envelope.
#[derive(Debug, Deserialize)]
pub(crate) struct Envelope<'a> {
    #[serde(default = "version")]
    pub(crate) v: u64,
    #[serde(default, borrow)]
    pub(crate) id: Option<Text<'a>>,
    #[serde(borrow)]
    pub(crate) job: Cow<'a, str>,
    /// `None` where the field is missing, which `null` is not.
    #[serde(borrow, default, deserialize_with = "given")]
    args: Option<&'a RawValue>,
    /// The version of the arguments; the first where it does not say.
    #[serde(default)]
    args_v: Option<u32>,
    /// The number of the next attempt, from 1.
    #[serde(default = "first")]
    pub(crate) attempt: u32,
    #[serde(default)]
    pub(crate) crashes: Vec<Crash>,
    #[serde(default)]
    pub(crate) max_attempts: Option<u32>,
    /// In ms.
    #[serde(default)]
    pub(crate) timeout: Option<u64>,
    #[serde(default)]
    pub(crate) backoff: Option<String>,
    /// No attempt starts after this, in ms.
    #[serde(default)]
    pub(crate) retry_until: Option<u64>,
    /// Its first attempt does not start after this, in ms.
    #[serde(default)]
    pub(crate) expires_at: Option<u64>,
    /// In ms; 0 where it does not say.
    #[serde(default, deserialize_with = "informs")]
    enqueued_at: u64,
    /// The same.
    #[serde(default, deserialize_with = "informs")]
    ready_at: u64,
    /// The batch that it belongs to, and as what: `b.<batch>.<number>`.
    #[serde(default, borrow)]
    pub(crate) of: Option<Text<'a>>,
    /// Where it is another than that of its type.
    #[serde(default, deserialize_with = "priority")]
    priority: Named,
    /// How long its result is kept, in ms.
    #[serde(default)]
    pub(crate) keep: Option<u64>,
}

/// What the field `priority` says. What it says instead of one is not kept: most envelopes have none, and this costs them nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Named {
    #[default]
    Nothing,
    Priority(Priority),
    Unknown,
}

fn priority<'de, D: Deserializer<'de>>(value: D) -> Result<Named, D::Error> {
    let text = Option::<Text<'de>>::deserialize(value)?;
    Ok(match text.as_deref().map(str::parse) {
        None => Named::Nothing,
        Some(Ok(priority)) => Named::Priority(priority),
        Some(Err::<_, String>(_)) => Named::Unknown,
    })
}

/// A text that is borrowed wherever it has no escapes.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub(crate) struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl std::ops::Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

fn given<'de, D: Deserializer<'de>>(value: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(value).map(Some)
}

/// A number that only informs: whatever else stands there is 0, and breaks no job.
fn informs<'de, D: Deserializer<'de>>(value: D) -> Result<u64, D::Error> {
    Ok(<&RawValue>::deserialize(value)?.get().parse().unwrap_or(0))
}

fn version() -> u64 {
    VERSION
}

fn first() -> u32 {
    1
}

/// As many deaths of its workers a job remembers, the last ones; more would only be weight.
pub(crate) const CRASHES: usize = 32;

/// So many bytes are kept of a backtrace.
pub(crate) const BACKTRACE_BYTES: usize = 8_000;

/// A worker that died while it held the job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Crash {
    /// When it was noticed, in milliseconds since 1970 by the server's clock.
    pub at: u64,
    /// The id of the worker that died.
    pub worker: String,
    /// It had been told to stop, as at a deploy: what ended it is whoever lost patience, and no suspicion falls on the job, unless it runs
    /// at most once (`on_crash = "fail"`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stopping: bool,
}

/// An attempt that did not succeed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AttemptError {
    /// Which attempt, from 1.
    pub attempt: u32,
    /// When its body started, in milliseconds since 1970 by the server's clock; none where it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<u64>,
    /// When it ended, in milliseconds since 1970 by the server's clock.
    pub at: u64,
    /// `error`, `panic`, `timeout`, `retry`, `failure`, `crash` or `deadline`.
    pub kind: String,
    /// The text of the error or panic.
    pub message: String,
    /// Where it panicked, as `file:line:column`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// The backtrace of a panic, if `RUST_BACKTRACE` enabled them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backtrace: Option<String>,
    /// The worker that ran the attempt.
    pub worker: String,
}

impl<'a> Envelope<'a> {
    /// Reads an envelope that is spelled exactly as [`NewEnvelope`] writes one with nothing set, which nearly all are, at a
    /// third of the cost. `None` where there is anything else to it.
    fn as_new(text: &'a str) -> Option<Self> {
        let rest = text.strip_prefix(r#"{"v":1,"id":""#)?;
        let (id, rest) = plain_text(rest)?;
        let (job, rest) = plain_text(rest.strip_prefix(r#","job":""#)?)?;
        let (args_v, rest) = plain_version(rest)?;
        let rest = rest.strip_prefix(r#","args":"#)?.strip_suffix('}')?;
        // From the end: a search for the name of the field would cost as much as all else here.
        let colon = memchr::memrchr(b':', rest.as_bytes())?;
        let (rest, enqueued_at) = (&rest[..colon], &rest[colon + 1..]);
        let digits = all(enqueued_at, |byte| byte.is_ascii_digit());
        if !digits || enqueued_at.is_empty() || enqueued_at.starts_with('0') {
            return None;
        }
        let enqueued_at = enqueued_at.parse().unwrap_or(0);
        let args = rest.strip_suffix(r#","enqueued_at""#)?;
        // This one value and nothing behind it: so no field stands between.
        let args: &RawValue = serde_json::from_str(args).ok()?;
        Some(Self {
            v: 1,
            id: Some(Text(Cow::Borrowed(id))),
            job: Cow::Borrowed(job),
            args: Some(args),
            args_v,
            attempt: first(),
            crashes: Vec::new(),
            max_attempts: None,
            timeout: None,
            backoff: None,
            retry_until: None,
            expires_at: None,
            enqueued_at,
            ready_at: 0,
            of: None,
            priority: Named::Nothing,
            keep: None,
        })
    }

    /// Since when it waits, in ms; 0 where it does not say.
    pub(crate) fn waits_since(&self) -> u64 {
        self.enqueued_at.max(self.ready_at)
    }

    pub(crate) fn priority(&self) -> Option<Priority> {
        if let Named::Priority(priority) = self.priority { Some(priority) } else { None }
    }

    /// The arguments, as JSON; a job without parameters need not have any.
    pub(crate) fn args(&self) -> &str {
        self.given_args().unwrap_or(NO_ARGS)
    }

    /// The same, where they are in the payload.
    pub(crate) fn given_args(&self) -> Option<&'a str> {
        self.args.map(RawValue::get)
    }

    /// The version of the arguments.
    pub(crate) fn args_version(&self) -> u32 {
        self.args_v.unwrap_or(1)
    }

    /// Reads an envelope; every error says what is wrong without repeating the payload.
    pub(crate) fn decode(payload: &'a [u8]) -> Result<Self, String> {
        Self::decode_text(std::str::from_utf8(payload).map_err(|error| not_utf8(&error))?)
    }

    /// The same of what is known to be UTF-8.
    pub(crate) fn decode_text(text: &'a str) -> Result<Self, String> {
        let envelope = match Self::as_new(text) {
            Some(envelope) => envelope,
            None => Self::as_any(text)?,
        };
        if envelope.v <= VERSION && !envelope.args().starts_with('{') {
            let why = "they are not an object by parameter name";
            return Err(format!("the arguments do not fit the job: {why}"));
        }
        if envelope.id.as_ref().is_some_and(|id| id.is_empty() || id.len() > 200) {
            return Err("the field `id` must have 1 to 200 bytes".into());
        }
        if envelope.v == 0 {
            return Err("the field `v` counts from 1".into());
        }
        if envelope.args_v == Some(0) {
            return Err("the field `args_v` counts from 1".into());
        }
        if envelope.priority == Named::Unknown {
            return Err(format!("the field `priority`: {NO_PRIORITY}"));
        }
        if envelope.attempt == 0 {
            return Err("the field `attempt` counts from 1".into());
        }
        Ok(envelope)
    }

    fn as_any(text: &'a str) -> Result<Self, String> {
        let envelope = serde_json::from_str(text).map_err(|error| describe(&error))?;
        if !is_object(text) {
            return Err("an envelope is a JSON object".into());
        }
        Ok(envelope)
    }
}

/// When a payload was enqueued, in ms since 1970 by its producer's clock; 0 where it does not say.
pub(crate) fn enqueued_at(payload: &str) -> u64 {
    Envelope::decode(payload.as_bytes()).map_or(0, |envelope| envelope.enqueued_at)
}

/// What is noted in a payload, by its names; nothing where something else stands there, as it only informs.
pub(crate) fn meta(payload: &str) -> serde_json::Map<String, serde_json::Value> {
    #[derive(Default, Deserialize)]
    struct Noted {
        #[serde(default)]
        meta: serde_json::Map<String, serde_json::Value>,
    }
    if Envelope::as_new(payload).is_some() {
        return serde_json::Map::new();
    }
    serde_json::from_str::<Noted>(payload).unwrap_or_default().meta
}

/// The tags in a payload; none where something else stands there, as they only inform.
pub(crate) fn tags(payload: &str) -> Vec<String> {
    #[derive(Deserialize)]
    struct Tagged {
        #[serde(default)]
        tags: Vec<String>,
    }
    if Envelope::as_new(payload).is_some() {
        return Vec::new();
    }
    serde_json::from_str(payload).map_or_else(|_| Vec::new(), |Tagged { tags }| tags)
}

/// The id in a payload and for how many ms its result is kept, where it has both: also of one that no worker can run.
pub(crate) fn keeps(payload: &[u8]) -> Option<(JobId, u64)> {
    #[derive(Deserialize)]
    struct Keeps {
        id: JobId,
        keep: u64,
    }
    // Nearly all have no such field, and need not be read for that.
    memchr::memmem::find(payload, br#""keep""#)?;
    let Keeps { id, keep } = serde_json::from_slice(payload).ok()?;
    Some((id, keep))
}

/// The id in a payload, and the batch that it belongs to and as what, where it has both: also of one that no worker can run.
pub(crate) fn belongs(payload: &[u8]) -> Option<(JobId, String)> {
    #[derive(Deserialize)]
    struct Belongs {
        id: JobId,
        of: String,
    }
    // Nearly all have no such field, and need not be read for that.
    memchr::memmem::find(payload, br#""of""#)?;
    let Belongs { id, of } = serde_json::from_slice(payload).ok()?;
    Some((id, of))
}

/// Whether JSON is an object: serde would also take a list of the fields in their order, which no rewrite could keep.
fn is_object(json: &str) -> bool {
    json.trim_start().starts_with('{')
}

/// What is said of a payload that is no text.
pub(crate) fn not_utf8(error: &Utf8Error) -> String {
    format!("not UTF-8: {error}")
}

#[cfg(any(test, fuzzing))]
impl<'a> Envelope<'a> {
    /// What the short way reads, where it reads anything, and what the long one does.
    pub(crate) fn both_ways(text: &'a str) -> Option<(Self, serde_json::Result<Self>)> {
        Self::as_new(text).map(|short| (short, serde_json::from_str(text)))
    }
}

/// A JSON string from behind its first quote, if it has no escapes, and what follows it.
fn plain_text(text: &str) -> Option<(&str, &str)> {
    let end = memchr::memchr(b'"', text.as_bytes())?;
    let (text, rest) = (&text[..end], &text[end + 1..]);
    all(text, |byte| byte >= b' ' && byte != b'\\').then_some((text, rest))
}

/// The version in front of the arguments, where one stands there, and what follows it.
fn plain_version(text: &str) -> Option<(Option<u32>, &str)> {
    let Some(text) = text.strip_prefix(r#","args_v":"#) else { return Some((None, text)) };
    let (digits, rest) = text.split_at(memchr::memchr(b',', text.as_bytes())?);
    let is_number = !digits.starts_with('0') && all(digits, |byte| byte.is_ascii_digit());
    Some((Some(digits.parse().ok().filter(|_| is_number)?), rest))
}

/// Whether all bytes of a short text are so. None is skipped, not even behind one that is not: so the compiler looks at many at once.
fn all(text: &str, is_so: impl Fn(u8) -> bool) -> bool {
    text.bytes().fold(true, |all, byte| all & is_so(byte))
}

/// The part of an envelope that every version has.
#[derive(Debug, Deserialize)]
pub(crate) struct Header {
    #[serde(default = "version")]
    pub(crate) v: u64,
    pub(crate) job: String,
}

impl Header {
    /// Reads the header of an envelope that a later version wrote, whatever its other fields have become.
    pub(crate) fn of_newer(payload: &[u8]) -> Option<Self> {
        // What could not be given an id would come back as it is, again and again.
        let text = std::str::from_utf8(payload).ok().filter(|text| is_object(text))?;
        serde_json::from_str(text).ok().filter(|header: &Self| header.v > VERSION)
    }
}

impl From<&Envelope<'_>> for Header {
    fn from(envelope: &Envelope<'_>) -> Self {
        Self { v: envelope.v, job: envelope.job.clone().into_owned() }
    }
}

/// A new envelope.
#[derive(Debug, Serialize)]
pub(crate) struct NewEnvelope<'a, A> {
    pub(crate) v: u64,
    pub(crate) id: &'a JobId,
    pub(crate) job: &'a str,
    /// Of which version the arguments are, if not of the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) args_v: Option<u32>,
    pub(crate) args: &'a A,
    pub(crate) enqueued_at: u64,
    /// When it is due, of a delayed job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ready_at: Option<u64>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub(crate) tags: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) meta: Option<&'a RawValue>,
    /// The job whose body enqueued it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) parent: Option<&'a JobId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_attempts: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) timeout: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) backoff: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) retry_until: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) expires_at: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) priority: Option<Priority>,
    /// How long its result is kept, in ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) keep: Option<u64>,
}
