//! The id of a job.

use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use uuid::Uuid;

use crate::fresh_uuid;

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

    /// The time in an id of ours, in ms since 1970 by the clock of its producer.
    pub(crate) fn unix_ms(&self) -> Option<u64> {
        let (seconds, nanos) = Uuid::parse_str(&self.0).ok()?.get_timestamp()?.to_unix();
        Some(seconds * 1000 + u64::from(nanos) / 1_000_000)
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

impl FromStr for JobId {
    type Err = Infallible;

    fn from_str(id: &str) -> Result<Self, Infallible> {
        Ok(id.into())
    }
}

impl fmt::Display for JobId {
    /// On one line: control characters, which the id of another producer may have, are escaped.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = &*self.0;
        while let Some(at) = rest.find(char::is_control) {
            let (plain, control) = rest.split_at(at);
            let mut after = control.chars();
            f.write_str(plain)?;
            after.next().into_iter().try_for_each(|c| c.escape_default().fmt(f))?;
            rest = after.as_str();
        }
        f.write_str(rest)
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

impl<'de> Deserialize<'de> for JobId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::from)
    }
}
