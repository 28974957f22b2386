//! Ids of batches.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::Error;
use crate::relay;
use crate::time::since_1970;

/// The id of a batch: 32 hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BatchId(pub(super) Box<str>);

impl BatchId {
    pub(crate) fn fresh() -> Self {
        let now = since_1970(std::time::SystemTime::now());
        Self(crate::fresh_uuid::v7(now).simple().to_string().into())
    }

    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for BatchId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for BatchId {
    type Err = Error;

    /// # Errors
    /// [`Error::Config`] if it is not one.
    fn from_str(id: &str) -> Result<Self, Error> {
        if relay::is_id(id) {
            Ok(Self(id.into()))
        } else {
            Err(Error::config("the id of a batch has 32 hexadecimal digits, in lower case"))
        }
    }
}

impl Serialize for BatchId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for BatchId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}
