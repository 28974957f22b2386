//! An entry as the server keeps it.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::calendar::{Calendar, Overlap, Timing};
use crate::envelope::{JobId, NewEnvelope, VERSION, describe};
use crate::error::{Cause, Error};
use crate::fnv;
use crate::limit::List;
use crate::priority::Priority;
use crate::unique::KeyLock;

/// What the ids of runs begin with; the name of the entry follows, and when it was due in ms.
pub(super) const PREFIX: &str = "cron:";

/// An entry as the server keeps it: a line with a hash of all that it says, and JSON. Scripts compare the first and read nothing of the second.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Entry {
    /// Of all that it says, the same in every process: encrypted arguments differ each time.
    #[serde(skip)]
    pub(super) hash: String,
    pub(crate) when: Timing,
    pub(crate) job: String,
    pub(crate) args: Box<RawValue>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) args_v: Option<u32>,
    /// Where its runs wait.
    pub(super) list: String,
    /// The key that its runs hold because they are unique.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) lock: Option<KeyLock>,
    /// As `submit` has them.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) terms: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) tags: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) meta: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) max_attempts: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) timeout: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) backoff: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) expires_in: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) priority: Option<Priority>,
}

/// The name of an entry, or what is wrong with it.
pub(crate) fn check_entry(name: &str) -> Result<(), String> {
    let fits =
        (1..=150).contains(&name.len()) && !name.contains(|c: char| c.is_control() || c == '#');
    fits.then_some(()).ok_or_else(|| {
        "the name of a cron entry has 1 to 150 bytes, no control characters and no `#`".into()
    })
}

/// The entry that a job is a run of, by its id, and when it was due in ms.
pub(crate) fn run_of(id: &str) -> Option<(&str, u64)> {
    let (name, due) = id.strip_prefix(PREFIX)?.rsplit_once(':')?;
    Some((name, due.parse().ok()?))
}

/// The schedule of an entry, as its runs carry it: the entry may have another by the time they run.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct When {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cron: Option<String>,
    /// In ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) every: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) timezone: Option<String>,
}

impl When {
    /// Of the payload of a run; nothing where it does not say.
    pub(crate) fn of(payload: &str) -> Self {
        #[derive(Deserialize)]
        struct OfRun {
            cron: When,
        }
        serde_json::from_str(payload).map_or_else(|_| Self::default(), |OfRun { cron }| cron)
    }
}

/// The envelope of a run.
#[derive(Serialize)]
struct Run<'a> {
    #[serde(flatten)]
    envelope: NewEnvelope<'a, Box<RawValue>>,
    cron: When,
}

impl Entry {
    /// Reads what the server has.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let (hash, json) = text.split_once('\n').ok_or("it has no hash")?;
        let mut entry: Self = serde_json::from_str(json).map_err(|error| describe(&error))?;
        hash.clone_into(&mut entry.hash);
        let is_sound = List::parse(&entry.list).is_some_and(|list| list.by_id);
        if !is_sound || !entry.args.get().starts_with('{') || entry.job.is_empty() {
            return Err("it names no list, no job or no arguments".into());
        }
        Ok(entry)
    }

    pub(crate) fn text(&self) -> Result<String, Error> {
        let json = serde_json::to_string(self).map_err(|source| Error::Encode {
            job: "of a cron entry",
            source: Cause::new(source),
        })?;
        Ok(format!("{}\n{json}", self.hash))
    }

    /// When it is due.
    pub(crate) fn calendar(&self, queue: &str, name: &str) -> Result<Calendar, String> {
        let splay = match self.when.splay {
            None | Some(0) => 0,
            // By the entry alone, so that whoever asks gets the same.
            Some(most) => fnv::hash(format!("{queue} {name}").as_bytes()) % most.saturating_add(1),
        };
        Calendar::new(&self.when, splay)
    }

    /// The id of a run.
    pub(crate) fn id(name: &str, due: u64) -> JobId {
        format!("{PREFIX}{name}:{due}").into()
    }

    /// The list of a run, and what it holds.
    pub(super) fn place(&self, name: &str, id: &JobId) -> (String, KeyLock) {
        let conflict = match self.when.overlap {
            Overlap::Allow => None,
            Overlap::Skip => Some("keep"),
            Overlap::Queue => Some("follow"),
            Overlap::Cancel => Some("cancel"),
        };
        let lock = conflict.map(|conflict| KeyLock {
            // No scope of a unique job has an `@`.
            held_by: format!("f@{PREFIX}{name}"),
            conflict: conflict.into(),
            ..KeyLock::default()
        });
        let lock = lock.or_else(|| self.lock.clone()).unwrap_or_default();
        (format!("{}#{}", self.list, id.as_str()), lock)
    }

    /// The envelope of a run.
    pub(super) fn envelope(&self, id: &JobId, now: u64) -> serde_json::Result<Vec<u8>> {
        let envelope = NewEnvelope {
            v: VERSION,
            id,
            job: &self.job,
            args_v: self.args_v,
            args: &self.args,
            enqueued_at: now,
            ready_at: None,
            tags: &self.tags,
            meta: self.meta.as_deref(),
            parent: None,
            max_attempts: self.max_attempts,
            timeout: self.timeout,
            backoff: self.backoff.as_deref(),
            retry_until: None,
            expires_at: self.expires_in.map(|time| now.saturating_add(time)),
            priority: self.priority,
            keep: None,
        };
        let Timing { cron, every, timezone, .. } = self.when.clone();
        serde_json::to_vec(&Run { envelope, cron: When { cron, every, timezone } })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_tells_its_entry_and_when_that_is_due() {
        assert_eq!(
            run_of("cron:mail: daily:1795261234567"),
            Some(("mail: daily", 1_795_261_234_567))
        );
        for id in
            ["cron:daily", "cron:daily:soon", "daily:1", "019ac1e2-7d5b-7c3e-9a41-3f0c5b7d2e68"]
        {
            assert_eq!(run_of(id), None, "{id}");
        }
        let timezone = Some("Europe/Berlin".to_owned());
        let when = When { cron: Some("0 9 * * *".into()), every: None, timezone };
        let payload =
            serde_json::json!({ "id": "cron:daily:1", "args": {}, "cron": when }).to_string();
        assert_eq!(When::of(&payload), when);
        for payload in ["{}", "", r#"{"cron":7}"#, r#"{"cron":{"every":"1s"}}"#] {
            assert_eq!(When::of(payload), When::default(), "{payload}");
        }
    }
}
