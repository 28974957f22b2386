//! The id of a job.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Serialize, Serializer};
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
