//! How far a reader of events has come.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// How far an [`EventReader`](crate::EventReader) has come: a short text to be kept, as [`EventReader::from`](crate::EventReader::from) goes on behind it.
///
/// Of an unsharded queue it looks like `1764550000000-0`, of others with one such part for each shard, separated by commas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventPosition(pub(super) Vec<Mark>);

impl EventPosition {
    /// Before everything that is kept.
    #[must_use]
    pub fn start() -> Self {
        Self(vec![Mark::START])
    }
}

/// The same in one shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    /// Behind all that is there when it is first read.
    Now,
    /// Behind so many events of this entry, or behind all of them.
    Behind { entry: (u64, u64), read: Option<usize> },
}

impl Mark {
    pub(super) const START: Self = Self::Behind { entry: (0, 0), read: None };

    /// Before what came at this time, in ms since 1970, or later.
    pub(super) fn before(ms: u64) -> Self {
        match ms.checked_sub(1) {
            Some(ms) => Self::Behind { entry: (ms, u64::MAX), read: None },
            None => Self::START,
        }
    }

    /// Whether it is behind an entry, and not at a time.
    pub(super) fn is_entry(self) -> bool {
        !matches!(self, Self::Now | Self::Behind { entry: (0, 0) | (_, u64::MAX), .. })
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Now => f.write_str("now"),
            Self::Behind { entry: (ms, number), read: None } => write!(f, "{ms}-{number}"),
            Self::Behind { entry: (ms, number), read: Some(read) } => {
                write!(f, "{ms}-{number}.{read}")
            }
        }
    }
}

impl Mark {
    fn parse(text: &str) -> Option<Self> {
        if text == "now" {
            return Some(Self::Now);
        }
        let (entry, read) = match text.split_once('.') {
            Some((entry, read)) => (entry, Some(read.parse().ok()?)),
            None => (text, None),
        };
        match entry.split_once('-') {
            Some((ms, number)) => {
                Some(Self::Behind { entry: (ms.parse().ok()?, number.parse().ok()?), read })
            }
            None => read.is_none().then_some(Self::before(entry.parse().ok()?)),
        }
    }
}

impl fmt::Display for EventPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, mark) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{mark}")?;
        }
        Ok(())
    }
}

/// From the text of a position. `0` is before everything, `now` behind everything, and a time in ms since 1970 before what came from then on.
impl FromStr for EventPosition {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let marks: Option<Vec<_>> = text.split(',').map(|mark| Mark::parse(mark.trim())).collect();
        marks.map(Self).ok_or_else(|| {
            format!("`{text}` is no position of events; write what a reader gave, `0`, or `now`")
        })
    }
}

impl Serialize for EventPosition {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for EventPosition {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_read_as_it_is_written() {
        for text in ["0-0", "now", "1764550000000-3", "1764550000000-3.17", "1-0,now,5-2.1"] {
            let position: EventPosition = text.parse().expect(text);
            assert_eq!(position.to_string(), text);
        }
        assert_eq!("0".parse(), Ok(EventPosition::start()));
        let from: EventPosition = "7".parse().expect("a time");
        assert_eq!(from.to_string().parse(), Ok(from.clone()));
        assert_eq!(from.0, [Mark::before(7)]);
        for wrong in ["", "x", "1-", "-1", "1-2.", "1-2.x", "1-2,", "1-2-3"] {
            assert!(wrong.parse::<EventPosition>().is_err(), "{wrong}");
        }
    }
}
