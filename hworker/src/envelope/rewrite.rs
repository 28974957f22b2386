//! Rewriting an envelope without touching what we do not know.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::fmt;

use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use super::{AttemptError, JobId};

/// How many of its last errors a job carries.
const KEPT_ERRORS: usize = 10;

/// An envelope about to be rewritten: its fields in their order, each value byte for byte as it came.
#[derive(Debug)]
pub(crate) struct Rewrite<'a>(Vec<(Cow<'a, str>, Cow<'a, RawValue>)>);

impl<'a> Rewrite<'a> {
    /// The fields of a payload that [`Envelope::decode`] accepted, with an id if it had none: sorted sets and hashes
    /// would collapse two equal envelopes.
    pub(crate) fn of(payload: &'a [u8]) -> Option<Self> {
        let mut rewrite: Self = serde_json::from_slice(payload).ok()?;
        if !rewrite.has_id() {
            rewrite.0.retain(|(name, _)| name != "id");
            rewrite.set("id", &JobId::fresh());
        }
        Some(rewrite)
    }

    /// A payload with an id, where it has none.
    pub(crate) fn identified(payload: &'a [u8]) -> Option<Vec<u8>> {
        let came: Self = serde_json::from_slice(payload).ok()?;
        if came.has_id() { None } else { Self::of(payload).map(|rewrite| rewrite.to_bytes()) }
    }

    fn has_id(&self) -> bool {
        self.0.iter().any(|(name, value)| name == "id" && value.get() != "null")
    }

    pub(crate) fn id(&self) -> JobId {
        let id = self.0.iter().find(|(name, _)| name == "id");
        let id = id.and_then(|(_, value)| serde_json::from_str::<String>(value.get()).ok());
        id.map_or_else(JobId::fresh, JobId::from)
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

    pub(crate) fn remove(&mut self, field: &str) {
        self.0.retain(|(name, _)| name != field);
    }

    /// Sets a field to what is JSON already; else says what is wrong.
    pub(crate) fn set_json(&mut self, field: &'static str, json: String) -> Result<(), String> {
        let json = RawValue::from_string(json).map_err(|error| super::describe(&error))?;
        self.set(field, &json);
        Ok(())
    }

    /// Adds one to a field that counts.
    pub(crate) fn count(&mut self, field: &'static str) {
        let old = self.0.iter().find(|(name, _)| name == field);
        let old = old.and_then(|(_, value)| value.get().parse::<u64>().ok()).unwrap_or(0);
        self.set(field, &(old.saturating_add(1)));
    }

    pub(crate) fn add_error(&mut self, error: &AttemptError) {
        let mut errors = self.last_errors();
        errors.extend(serde_json::value::to_raw_value(error));
        let surplus = errors.len().saturating_sub(KEPT_ERRORS);
        errors.drain(..surplus);
        self.set("errors", &errors);
    }

    fn last_errors(&self) -> Vec<Box<RawValue>> {
        let errors = self.0.iter().find(|(name, _)| name == "errors");
        let last = errors.and_then(|(_, value)| serde_json::from_str(value.get()).ok());
        let LastErrors(last) = last.unwrap_or_default();
        last.into_iter().map(ToOwned::to_owned).collect()
    }

    /// The bytes, with as many of its errors left out, the oldest first, as it takes to stay within so many.
    pub(crate) fn bytes_within(&mut self, bytes: usize) -> Vec<u8> {
        loop {
            let written = self.to_bytes();
            let errors = self.last_errors();
            if written.len() <= bytes || errors.is_empty() {
                return written;
            }
            self.set("errors", &&errors[1..]);
        }
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }
}

/// The last errors of a list, in their order. What another wrote may be long: to keep all of it would take thirty times its bytes.
#[derive(Default)]
struct LastErrors<'a>(VecDeque<&'a RawValue>);

impl<'de> Deserialize<'de> for LastErrors<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Errors;
        impl<'de> Visitor<'de> for Errors {
            type Value = LastErrors<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of errors")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut errors: A) -> Result<Self::Value, A::Error> {
                let mut last = VecDeque::with_capacity(KEPT_ERRORS + 1);
                while let Some(error) = errors.next_element()? {
                    last.push_back(error);
                    if last.len() > KEPT_ERRORS {
                        last.pop_front();
                    }
                }
                Ok(LastErrors(last))
            }
        }
        deserializer.deserialize_seq(Errors)
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

/// No worker reads what lies deeper, so that a text from outside does not say how deep an edit goes.
const DEEPEST: usize = 126;

/// Arguments with the value at a path, `to.city`, set to JSON; all else keeps its bytes. The objects on the way must be there.
pub(crate) fn edit_args(args: &str, path: &str, json: &str) -> Result<String, String> {
    if path.split('.').count() > DEEPEST {
        return Err(format!("the path of an argument has at most {DEEPEST} names"));
    }
    let (first, rest) =
        path.split_once('.').map_or((path, None), |(first, rest)| (first, Some(rest)));
    let object: Result<Rewrite<'_>, _> = serde_json::from_str(args);
    let mut object =
        object.map_err(|_| format!("there is no argument `{path}`: no object is there"))?;
    let at = object.0.iter().position(|(name, _)| name == first);
    let value = match (at, rest) {
        (_, None) => json.to_owned(),
        (Some(at), Some(rest)) => edit_args(object.0[at].1.get(), rest, json)?,
        (None, Some(_)) => return Err(format!("there is no argument `{first}`")),
    };
    let value = RawValue::from_string(value).map_err(|error| {
        format!("the value of `{path}` is no JSON: {}", super::describe(&error))
    })?;
    match at {
        Some(at) => object.0[at].1 = Cow::Owned(value),
        None => object.0.push((Cow::Owned(first.to_owned()), Cow::Owned(value))),
    }
    Ok(String::from_utf8(object.to_bytes()).unwrap_or_default())
}

#[cfg(any(test, fuzzing))]
impl Rewrite<'_> {
    /// The fields and the bytes of their values.
    pub(crate) fn fields(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (&**name, value.get()))
    }
}
