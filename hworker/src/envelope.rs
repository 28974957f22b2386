//! A job as it is stored: one JSON object, read without copying what need not be, and rewritten without touching
//! what we do not know. The format is in `docs/wire-format.md`.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::fresh_uuid;

/// The newest format that this version reads and the one that it writes.
pub(crate) const VERSION: u64 = 1;

/// How many of its last errors a job carries.
const KEPT_ERRORS: usize = 10;

/// The id of a job: the same from its enqueue through all its attempts.
///
/// Ours are UUIDs of version 7, so they sort by the time of their enqueue; other producers may use any text of 1 to
/// 200 bytes.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct JobId(Arc<str>);

impl JobId {
    pub(crate) fn fresh() -> Self {
        Self::fresh_at(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
    }

    /// One of this time since 1970.
    pub(crate) fn fresh_at(now: Duration) -> Self {
        let mut buffer = Uuid::encode_buffer();
        Self(Arc::from(&*fresh_uuid::v7(now).hyphenated().encode_lower(&mut buffer)))
    }

    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for JobId {
    fn from(id: &str) -> Self {
        Self(id.into())
    }
}

impl From<String> for JobId {
    fn from(id: String) -> Self {
        Self(id.into())
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl Serialize for JobId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

/// What a worker reads of an envelope.
#[derive(Debug, Deserialize)]
pub(crate) struct Envelope<'a> {
    #[serde(default = "version")]
    pub(crate) v: u64,
    #[serde(default, borrow)]
    pub(crate) id: Option<Text<'a>>,
    #[serde(borrow)]
    pub(crate) job: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) args: &'a RawValue,
    /// The number of the next attempt, from 1.
    #[serde(default = "first")]
    pub(crate) attempt: u32,
    #[serde(default)]
    pub(crate) crashes: Vec<Crash>,
    /// When a worker first met it and did not know its name, in ms.
    #[serde(default)]
    pub(crate) unknown_since: Option<u64>,
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

fn version() -> u64 {
    VERSION
}

fn first() -> u32 {
    1
}

/// A worker that died while it held the job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Crash {
    /// When it was noticed, in milliseconds since 1970 by the server's clock.
    pub at: u64,
    /// The id of the worker that died.
    pub worker: String,
}

/// An attempt that did not succeed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AttemptError {
    /// Which attempt, from 1.
    pub attempt: u32,
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
        let rest = rest.strip_prefix(r#","args":"#)?.strip_suffix('}')?;
        // From the end: a search for the name of the field would cost as much as all else here.
        let digits = rest.bytes().rev().take_while(u8::is_ascii_digit).count();
        let (rest, enqueued_at) = rest.split_at(rest.len() - digits);
        if enqueued_at.is_empty() || enqueued_at.starts_with('0') {
            return None;
        }
        let args = rest.strip_suffix(r#","enqueued_at":"#)?;
        // This one value and nothing behind it: so no field stands between.
        let args: &RawValue = serde_json::from_str(args).ok()?;
        Some(Self {
            v: 1,
            id: Some(Text(Cow::Borrowed(id))),
            job: Cow::Borrowed(job),
            args,
            attempt: first(),
            crashes: Vec::new(),
            unknown_since: None,
            max_attempts: None,
            timeout: None,
            backoff: None,
            retry_until: None,
        })
    }

    /// Reads an envelope; every error says what is wrong without repeating the payload.
    pub(crate) fn decode(payload: &'a [u8]) -> Result<Self, String> {
        let text = std::str::from_utf8(payload).map_err(|error| format!("not UTF-8: {error}"))?;
        let envelope = match Self::as_new(text) {
            Some(envelope) => envelope,
            None => serde_json::from_str(text).map_err(|error| describe(&error))?,
        };
        // serde would also take a list of the fields in their order, which no rewrite could keep.
        if !text.trim_start().starts_with('{') {
            return Err("an envelope is a JSON object".into());
        }
        if envelope.v <= VERSION && !envelope.args.get().starts_with('{') {
            let why = "they are not an object by parameter name";
            return Err(format!("the arguments do not fit the job: {why}"));
        }
        if envelope.id.as_ref().is_some_and(|id| id.is_empty() || id.len() > 200) {
            return Err("the field `id` must have 1 to 200 bytes".into());
        }
        if envelope.v == 0 {
            return Err("the field `v` counts from 1".into());
        }
        if envelope.attempt == 0 {
            return Err("the field `attempt` counts from 1".into());
        }
        Ok(envelope)
    }
}

#[cfg(any(test, fuzzing))]
impl<'a> Envelope<'a> {
    /// What the short way reads, where it reads anything, and what the long one does.
    pub(crate) fn both_ways(text: &'a str) -> Option<(Self, serde_json::Result<Self>)> {
        Self::as_new(text).map(|short| (short, serde_json::from_str(text)))
    }
}

#[cfg(any(test, fuzzing))]
impl Rewrite<'_> {
    /// The fields and the bytes of their values.
    pub(crate) fn fields(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (&**name, value.get()))
    }
}

/// A JSON string from behind its first quote, if it has no escapes, and what follows it.
fn plain_text(text: &str) -> Option<(&str, &str)> {
    let end = memchr::memchr(b'"', text.as_bytes())?;
    let (text, rest) = (&text[..end], &text[end + 1..]);
    let plain = text.bytes().all(|byte| byte >= b' ' && byte != b'\\');
    plain.then_some((text, rest))
}

/// The part of an envelope that every version has.
#[derive(Debug, Deserialize)]
pub(crate) struct Header {
    #[serde(default = "version")]
    pub(crate) v: u64,
    pub(crate) job: String,
    #[serde(default)]
    pub(crate) unknown_since: Option<u64>,
}

impl Header {
    /// Reads the header of an envelope that a later version wrote, whatever its other fields have become.
    pub(crate) fn of_newer(payload: &[u8]) -> Option<Self> {
        serde_json::from_slice(payload).ok().filter(|header: &Self| header.v > VERSION)
    }
}

impl From<&Envelope<'_>> for Header {
    fn from(envelope: &Envelope<'_>) -> Self {
        Self {
            v: envelope.v,
            job: envelope.job.clone().into_owned(),
            unknown_since: envelope.unknown_since,
        }
    }
}

/// The text of a decoding error without the values that serde quotes in it: arguments stay out of logs and records.
pub(crate) fn describe(error: &serde_json::Error) -> String {
    let position = format!("line {} column {}", error.line(), error.column());
    match error.classify() {
        serde_json::error::Category::Syntax | serde_json::error::Category::Eof => error.to_string(),
        _ => {
            let text = error.to_string();
            // serde says "invalid type: string \"secret\", expected u64": what comes before the value and after it.
            let value = [
                ": string ",
                ": integer ",
                ": floating point ",
                ": character ",
                ": boolean ",
                ": Option value ",
            ];
            let redacted = value.iter().find_map(|kind| {
                let (before, rest) = text.split_once(kind)?;
                let (_, expected) = rest.rsplit_once(", expected ")?;
                let expected = expected.split(" at line ").next().unwrap_or(expected);
                Some(format!("{before}{}, expected {expected} at {position}", kind.trim_end()))
            });
            // These quote nothing but names of fields and types. What a type says in words of its own may quote anything.
            let plain = [
                "invalid type: ",
                "invalid value: ",
                "invalid length ",
                "missing field ",
                "duplicate field ",
                "unknown field ",
            ];
            match redacted {
                Some(redacted) => redacted,
                None if text.starts_with("unknown variant") => {
                    format!("unknown variant at {position}")
                }
                None if plain.iter().any(|start| text.starts_with(start)) => {
                    text.escape_debug().to_string()
                }
                None => format!("its type refuses the value at {position}"),
            }
        }
    }
}

/// A new envelope.
#[derive(Debug, Serialize)]
pub(crate) struct NewEnvelope<'a, A> {
    pub(crate) v: u64,
    pub(crate) id: &'a JobId,
    pub(crate) job: &'a str,
    pub(crate) args: &'a A,
    pub(crate) enqueued_at: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_attempts: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) timeout: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) backoff: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) retry_until: Option<u64>,
}

/// An envelope about to be rewritten: its fields in their order, each value byte for byte as it came.
#[derive(Debug)]
pub(crate) struct Rewrite<'a>(Vec<(Cow<'a, str>, Cow<'a, RawValue>)>);

impl<'a> Rewrite<'a> {
    /// The fields of a payload that [`Envelope::decode`] accepted, with an id if it had none: sorted sets and hashes
    /// would collapse two equal envelopes.
    pub(crate) fn of(payload: &'a [u8]) -> Option<Self> {
        let mut rewrite: Self = serde_json::from_slice(payload).ok()?;
        if !rewrite.0.iter().any(|(name, value)| name == "id" && value.get() != "null") {
            rewrite.0.retain(|(name, _)| name != "id");
            rewrite.set("id", &JobId::fresh());
        }
        Some(rewrite)
    }

    pub(crate) fn id(&self) -> JobId {
        let id = self.0.iter().find(|(name, _)| name == "id");
        let id = id.and_then(|(_, value)| serde_json::from_str::<String>(value.get()).ok());
        id.map_or_else(JobId::fresh, |id| JobId(id.into()))
    }

    pub(crate) fn set(&mut self, field: &'static str, value: &impl Serialize) {
        // Numbers, strings and lists of our own types always serialise.
        let Ok(value) = serde_json::value::to_raw_value(value) else { return };
        let value = Cow::Owned(value);
        match self.0.iter_mut().find(|(name, _)| name == field) {
            Some((_, old)) => *old = value,
            None => self.0.push((field.into(), value)),
        }
    }

    /// Adds one to a field that counts.
    pub(crate) fn count(&mut self, field: &'static str) {
        let old = self.0.iter().find(|(name, _)| name == field);
        let old = old.and_then(|(_, value)| value.get().parse::<u64>().ok()).unwrap_or(0);
        self.set(field, &(old.saturating_add(1)));
    }

    pub(crate) fn add_error(&mut self, error: &AttemptError) {
        let kept = self.0.iter().find(|(name, _)| name == "errors");
        let mut errors: Vec<Box<RawValue>> =
            kept.and_then(|(_, value)| serde_json::from_str(value.get()).ok()).unwrap_or_default();
        errors.extend(serde_json::value::to_raw_value(error));
        let surplus = errors.len().saturating_sub(KEPT_ERRORS);
        errors.drain(..surplus);
        self.set("errors", &errors);
    }

    /// The bytes, with as many of its errors left out, the oldest first, as it takes to stay within so many.
    pub(crate) fn bytes_within(&mut self, bytes: usize) -> Vec<u8> {
        loop {
            let written = self.to_bytes();
            let errors = self.0.iter().find(|(name, _)| name == "errors");
            let errors: Vec<Box<RawValue>> = errors
                .and_then(|(_, value)| serde_json::from_str(value.get()).ok())
                .unwrap_or_default();
            if written.len() <= bytes || errors.is_empty() {
                return written;
            }
            self.set("errors", &&errors[1..]);
        }
    }

    pub(crate) fn remove(&mut self, field: &str) {
        self.0.retain(|(name, _)| name != field);
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }
}

impl Serialize for Rewrite<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Rewrite<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = Rewrite<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an envelope")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields = Vec::new();
                while let Some((name, value)) = map.next_entry::<String, &'de RawValue>()? {
                    fields.push((Cow::Owned(name), Cow::Borrowed(value)));
                }
                Ok(Rewrite(fields))
            }
        }
        deserializer.deserialize_map(Fields)
    }
}

/// Cuts a text that goes into a record to at most `bytes`, at a character.
pub(crate) fn bounded(text: &str, bytes: usize) -> String {
    if text.len() <= bytes {
        return text.into();
    }
    let end = (0..=bytes).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    format!("{} [cut]", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rewrite_keeps_what_it_does_not_know_and_the_bytes_of_args() {
        let payload = br#"{"args": {"n":9007199254740993, "x":1.0e2,"l":[] },"job":"a","new":{"k":[1, 2]},"id":"7"}"#;
        let mut rewrite = Rewrite::of(payload).expect("an envelope");
        rewrite.set("attempt", &2);
        rewrite.set("attempt", &3);
        assert_eq!(
            String::from_utf8_lossy(&rewrite.to_bytes()),
            r#"{"args":{"n":9007199254740993, "x":1.0e2,"l":[] },"job":"a","new":{"k":[1, 2]},"id":"7","attempt":3}"#
        );
    }

    #[test]
    fn the_short_way_reads_what_the_long_one_does_or_nothing() {
        let new = |args: &str, at: &str| {
            format!(r#"{{"v":1,"id":"7","job":"a","args":{args},"enqueued_at":{at}}}"#)
        };
        let plain = new(r#"{"enqueued_at":1,"x":"},\"enqueued_at\":2}"}"#, "1790000000000");
        let short = Envelope::as_new(&plain).expect("as it is written");
        let long: Envelope<'_> = serde_json::from_str(&plain).expect("an envelope");
        assert_eq!(short.args.get(), long.args.get());
        assert_eq!(format!("{short:?}"), format!("{long:?}"));
        for other in [
            new(r#"{},"attempt":5"#, "1"),
            new(r#"{},"args":{"b":1}"#, "1"),
            new("{}", "01"),
            new("{}", ""),
            new("{}", "-1"),
            new("{", "1"),
            new("{}", r#"1,"attempt":2"#),
            plain.replace(r#""7""#, r#""\u0037""#),
            plain.replace(r#""7""#, "\"\t\""),
            plain.replace(r#""7""#, "null"),
            plain.replace(r#""v":1"#, r#""v":2"#),
            format!("{plain} "),
        ] {
            assert!(Envelope::as_new(&other).is_none(), "{other}");
        }
    }

    #[test]
    fn a_rewrite_gives_an_id_where_there_is_none() {
        let first = Rewrite::of(br#"{"job":"a","args":{}}"#).expect("an envelope");
        let second = Rewrite::of(br#"{"job":"a","args":{},"id":null}"#).expect("an envelope");
        assert_ne!(first.id(), second.id());
        assert_eq!(
            Envelope::decode(&first.to_bytes()).expect("decodes").id.as_deref(),
            Some(first.id().as_str())
        );
    }

    #[test]
    fn errors_give_way_to_the_limit() {
        let mut rewrite = Rewrite::of(br#"{"job":"a","args":{},"id":"1"}"#).expect("an envelope");
        for attempt in 1..=3 {
            rewrite.add_error(&AttemptError {
                attempt,
                at: 0,
                kind: "error".into(),
                message: "x".repeat(100),
                place: None,
                backtrace: None,
                worker: String::new(),
            });
        }
        let all = rewrite.to_bytes().len();
        assert_eq!(rewrite.bytes_within(all).len(), all);
        let fewer = rewrite.bytes_within(all - 1);
        let value: serde_json::Value = serde_json::from_slice(&fewer).expect("JSON");
        assert_eq!(value["errors"][0]["attempt"], 2);
        assert_eq!(rewrite.bytes_within(1), br#"{"job":"a","args":{},"id":"1","errors":[]}"#);
    }

    #[test]
    fn only_the_last_errors_are_kept() {
        let mut payload = br#"{"job":"a","args":{},"id":"1"}"#.to_vec();
        for attempt in 1..=13 {
            let mut rewrite = Rewrite::of(&payload).expect("an envelope");
            rewrite.add_error(&AttemptError {
                attempt,
                at: 0,
                kind: "error".into(),
                message: String::new(),
                place: None,
                backtrace: None,
                worker: String::new(),
            });
            payload = rewrite.to_bytes();
        }
        let value: serde_json::Value = serde_json::from_slice(&payload).expect("JSON");
        let attempts: Vec<_> = value["errors"]
            .as_array()
            .expect("errors")
            .iter()
            .map(|e| e["attempt"].as_u64())
            .collect();
        assert_eq!(attempts, (4..=13).map(Some).collect::<Vec<_>>());
    }

    #[test]
    fn what_is_refused_is_described_without_its_values() {
        for (payload, expected) in [
            (&b"{"[..], "EOF while parsing an object at line 1 column 1"),
            (b"\xff", "not UTF-8: invalid utf-8 sequence of 1 bytes from index 0"),
            (br#"["id",1]xyz"#, "invalid"),
            (br#"{"job":"a","args":{}} xyz"#, "trailing characters at line 1 column 23"),
            (br#"{"args":{}}"#, "missing field `job` at line 1 column 11"),
            (
                br#"{"job":"a","args":{},"attempt":"s3cret"}"#,
                "invalid type: string, expected u32 at line 1 column 39",
            ),
            (br#"{"job":"a","job":"b","args":{}}"#, "duplicate field `job`"),
            (br#"{"job":"a","args":{},"attempt":0}"#, "the field `attempt` counts from 1"),
            (br#"[1,"id","a",{}]"#, "an envelope is a JSON object"),
            (
                br#"{"job":"a","args":["s3cret"]}"#,
                "the arguments do not fit the job: they are not an object",
            ),
        ] {
            let error = Envelope::decode(payload).expect_err("refused");
            assert!(error.contains(expected), "{error}");
            assert!(!error.contains("s3cret"), "{error}");
        }
    }

    #[test]
    fn what_a_type_says_of_a_value_is_not_repeated() {
        #[derive(Debug)]
        struct Picky;
        impl<'de> Deserialize<'de> for Picky {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let value = String::deserialize(from)?;
                Err(serde::de::Error::custom(format!("{value} is no card number")))
            }
        }
        let error = serde_json::from_str::<Vec<Picky>>(r#"["s3cret"]"#).expect_err("refused");
        assert_eq!(describe(&error), "its type refuses the value at line 1 column 10");
        let error = serde_json::from_str::<u8>("true").expect_err("refused");
        assert_eq!(describe(&error), "invalid type: boolean, expected u8 at line 1 column 4");
    }

    #[test]
    fn ids_are_unique_and_sort_by_time() {
        let ids: Vec<_> = (0..1000).map(|_| JobId::fresh()).collect();
        assert!(ids.windows(2).all(|pair| pair[0] < pair[1]));
    }
}
