//! What is kept of a job that has ended, for those who wait for its result: the text of its key, as it is written and read.
//! `docs/wire-format.md` describes it.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use crate::envelope::{bounded, describe};
use crate::job_state::JobState;

/// The text of a key has at most so many bytes.
pub(crate) const LARGEST: usize = 1 << 20;

/// No result is kept for longer than ten years, in ms: the server refuses a time that it cannot count.
const LONGEST_MS: u64 = 3_650 * 86_400_000;

/// So many bytes are kept of a reason.
const REASON_BYTES: usize = 500;

/// What whoever ends a job writes into its key.
#[derive(Debug, Clone)]
pub(crate) struct Kept {
    pub(crate) id: String,
    /// For how long.
    pub(crate) ms: u64,
    pub(crate) text: Vec<u8>,
}

impl Kept {
    /// Leaves out what is large.
    pub(crate) fn leave_out(&mut self) {
        if let Some(left) = KeptRecord::read(&self.text).ok().and_then(KeptRecord::left) {
            self.text = left;
        }
    }

    /// The same of a job that is broken all the same, for this reason.
    pub(crate) fn broken(&self, reason: &str) -> Option<Box<Self>> {
        let record = KeptRecord::read(&self.text).ok()?;
        let broken = KeptRecord::new(JobState::Broken, record.at).because("broken", reason);
        broken.into_kept(&self.id, self.ms)
    }
}

/// How a job ended.
#[derive(Serialize, Deserialize)]
pub(crate) struct KeptRecord {
    pub(crate) state: String,
    /// The name of its type, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) job: Option<String>,
    /// In ms since 1970, by the server's clock.
    pub(crate) at: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) attempt: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) worker: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) kind: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) message: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    pub(crate) result: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    pub(crate) error: Option<Box<RawValue>>,
    /// How many bytes the result has, where those are too many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) too_large: Option<u64>,
    /// Why there is no result, where it could not be written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) unavailable: Option<String>,
}

/// `None` where the field is missing, which `null` is not.
fn given<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(value).map(Some)
}

impl KeptRecord {
    pub(crate) fn new(state: JobState, at: u64) -> Self {
        Self {
            state: state.name().to_owned(),
            job: None,
            at,
            attempt: None,
            worker: None,
            kind: None,
            message: None,
            result: None,
            error: None,
            too_large: None,
            unavailable: None,
        }
    }

    /// Says why.
    pub(crate) fn because(self, kind: &str, message: &str) -> Self {
        Self { kind: Some(kind.to_owned()), message: Some(message.to_owned()), ..self }
    }

    /// With the result; else why there is none.
    pub(crate) fn with(self, result: Result<Box<RawValue>, String>) -> Self {
        match result {
            Ok(json) => Self { result: Some(json), ..self },
            Err(why) => Self { unavailable: Some(bounded(&why, REASON_BYTES)), ..self },
        }
    }

    /// What is written for a job of this id. What is too large to be kept is left out, and the text says so.
    pub(crate) fn into_kept(self, id: &str, ms: u64) -> Option<Box<Kept>> {
        let ms = Some(ms).filter(|ms| *ms > 0)?.min(LONGEST_MS);
        let text = serde_json::to_vec(&self).ok()?;
        let text = if text.len() > LARGEST { self.left()? } else { text };
        Some(Box::new(Kept { id: id.to_owned(), ms, text }))
    }

    /// The text without what may be large.
    fn left(mut self) -> Option<Vec<u8>> {
        self.too_large = self.result.take().map(|json| json.get().len() as u64);
        self.error = None;
        serde_json::to_vec(&self).ok()
    }

    /// Reads the text of a key.
    pub(crate) fn read(text: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(text).map_err(|error| describe(&error))
    }

    /// The state in which the job ended, if it is one that is known here.
    pub(crate) fn state(&self) -> Option<JobState> {
        self.state.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(result: &str) -> Option<(KeptRecord, usize)> {
        let result = RawValue::from_string(result.to_owned()).expect("JSON");
        let kept = KeptRecord::new(JobState::Done, 7).with(Ok(result)).into_kept("a", 1)?;
        Some((KeptRecord::read(&kept.text).expect("a record"), kept.text.len()))
    }

    #[test]
    fn what_is_written_is_read_and_nothing_is_too_large() {
        let (record, _) = kept("null").expect("kept");
        assert_eq!(record.result.expect("a result of no value").get(), "null");
        let large = format!("\"{}\"", "x".repeat(LARGEST));
        let (record, length) = kept(&large).expect("kept");
        assert!(record.result.is_none() && length < 200, "{length}");
        assert_eq!(record.too_large, Some(large.len() as u64));
        assert!(KeptRecord::new(JobState::Done, 7).into_kept("a", 0).is_none(), "no time");
        let ever = KeptRecord::new(JobState::Done, 7).into_kept("a", u64::MAX).expect("kept");
        assert_eq!(ever.ms, LONGEST_MS);
    }
}
