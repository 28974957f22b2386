//! Failures that have something in common.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Inspect;
use crate::error::Error;

/// Failed jobs that have their type, the kind of their error and its place or text in common, but for numbers, ids, paths and quoted texts
/// in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "web", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct Group {
    /// Its name: 12 hex digits. `group:<name>` is a condition of a [`Filter`](super::Filter).
    pub name: String,
    /// How many records there are of it.
    pub count: u64,
    /// When its first one failed, in milliseconds since 1970 by the server's clock.
    pub first: u64,
    /// When its last one did.
    pub last: u64,
    /// The name of the type.
    pub job: String,
    /// The kind of the error.
    pub kind: String,
    /// The text of the last error, at most 300 bytes.
    pub message: String,
    /// The id of the last one.
    pub id: String,
}

/// What its worker wrote of it.
#[derive(Deserialize)]
struct Sample {
    job: String,
    kind: String,
    message: String,
    id: String,
}

impl Group {
    /// Reads a group as it is stored. `None` for anything else.
    pub(super) fn parse(name: &str, entry: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(entry).ok()?;
        let mut parts = text.splitn(4, ' ');
        let mut number = || parts.next()?.parse().ok();
        let (count, first, last) = (number()?, number()?, number()?);
        let Sample { job, kind, message, id } = serde_json::from_str(parts.next()?).ok()?;
        Some(Self { name: name.to_owned(), count, first, last, job, kind, message, id })
    }
}

impl Inspect {
    /// The groups of failures of which there are records, at most 500 a shard, the one with the most first. What cannot be read is left out.
    ///
    /// # Errors
    /// Where the server cannot be asked.
    pub async fn groups(&self) -> Result<Vec<Group>, Error> {
        let shards = self.each(|shard, on| async move { shard.groups(&on).await }).await?;
        let mut groups: BTreeMap<String, Group> = BTreeMap::new();
        for (name, entry) in shards.into_iter().flatten() {
            let Some(group) = Group::parse(&String::from_utf8_lossy(&name), &entry) else {
                continue;
            };
            match groups.get_mut(&group.name) {
                None => _ = groups.insert(group.name.clone(), group),
                Some(known) => {
                    let (count, first) = (known.count + group.count, known.first.min(group.first));
                    if group.last > known.last {
                        *known = group;
                    }
                    (known.count, known.first) = (count, first);
                }
            }
        }
        let mut groups: Vec<_> = groups.into_values().collect();
        groups.sort_by_key(|group| std::cmp::Reverse((group.count, group.last)));
        Ok(groups)
    }
}
