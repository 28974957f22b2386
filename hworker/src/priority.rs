//! Which waiting jobs run before others.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What is said of any other text.
pub(crate) const NO_PRIORITY: &str = "a priority is `highest`, `high`, `normal`, `low` or `lowest`";

/// How soon a job runs, compared with the other jobs of its queue: those of a higher priority run first, those of one in the order in
/// which they were enqueued. The default is normal.
///
/// A job keeps its priority through retries, delays, deaths of workers and failovers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "web", derive(utoipa::ToSchema), schema(rename_all = "lowercase"))]
pub enum Priority {
    /// Before all others.
    Highest,
    /// Before the normal ones.
    High,
    /// As a job that names none.
    #[default]
    Normal,
    /// Behind the normal ones.
    Low,
    /// Behind all others.
    Lowest,
}

impl Priority {
    /// From the first that runs to the last.
    pub const ALL: [Self; 5] = [Self::Highest, Self::High, Self::Normal, Self::Low, Self::Lowest];

    /// As it is written in the attribute, in an envelope, and in the names of lists.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Highest => "highest",
            Self::High => "high",
            Self::Normal => "normal",
            Self::Low => "low",
            Self::Lowest => "lowest",
        }
    }

    /// The list beside the plain one in which its jobs wait; `""` is the plain one.
    pub(crate) const fn list(self) -> &'static str {
        match self {
            Self::Normal => "",
            other => other.name(),
        }
    }
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// # Errors
/// A text that names the five, for any other.
impl FromStr for Priority {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let named = Self::ALL.into_iter().find(|priority| priority.name() == text);
        named.ok_or_else(|| NO_PRIORITY.to_owned())
    }
}

impl<'de> Deserialize<'de> for Priority {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl Serialize for Priority {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}
