//! Records of ended jobs.

use super::read::{field, fields, whole_hash};
use crate::keys::Ended;
use crate::store::net::{Call, Connection, Fault};
use crate::store::queue::Queue;
use crate::store::{CALL_WITHIN, DAY_TTL_S, Script};

/// How many records one call of `trim` drops at most, about.
const DROPPED_AT_MOST: u64 = 500;

/// A place in one of the sorted sets of ended jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    /// `<group> <job> <id>`, as it is stored.
    pub(crate) member: String,
    /// In ms.
    pub(crate) ended_at: u64,
}

impl Place {
    /// The group, the name of the job type, and the name of the record: the job's id, of a second record with its lease.
    pub(crate) fn parts(&self) -> Option<[&str; 3]> {
        let mut parts = self.member.splitn(3, ' ');
        Some([parts.next()?, parts.next()?, parts.next()?])
    }
}

/// What `trim` did.
#[derive(Debug)]
pub(crate) struct Trimmed {
    /// There may be more to drop.
    pub(crate) goes_on: bool,
    /// How many it dropped because of their age.
    pub(crate) by_age: u64,
    /// How many were ever dropped but of jobs that are done.
    pub(crate) ever: u64,
}

impl Queue {
    /// Drops records that are too many, too large or too old, and broken payloads that are too old.
    pub(crate) async fn trim(&self, on: &Connection, day: &str) -> Result<Trimmed, Fault> {
        let keys = &self.keys;
        let stat_of_day = keys.stat_of(day);
        let own: [&str; _] = [&keys.stat, &stat_of_day, &keys.broken];
        let mut call = Call::new(Script::Trim, &[&keys.records()[..], &own].concat());
        call.number(DAY_TTL_S).number(DROPPED_AT_MOST);
        call.arg(self.limits.broken_for.map_or_else(String::new, |ms| ms.to_string()));
        for ended in Ended::ALL {
            let kept = self.limits.records(ended);
            call.number(kept.count).number(kept.bytes).number(kept.ms);
        }
        let mut reply = on.run(&call, CALL_WITHIN).await?;
        let goes_on = reply.count()? >= DROPPED_AT_MOST;
        Ok(Trimmed { goes_on, by_age: reply.count()?, ever: reply.count()? })
    }

    /// The sizes of records by their names, 0 where there is none, and those that are not larger than `largest`.
    pub(crate) async fn records(
        &self,
        on: &Connection,
        names: &[String],
        largest: u64,
    ) -> Result<Vec<(u64, Option<Vec<u8>>)>, Fault> {
        fields(on, &self.keys.record, names, largest).await
    }

    /// A record by its name.
    pub(crate) async fn record(
        &self,
        on: &Connection,
        name: &str,
    ) -> Result<Option<Vec<u8>>, Fault> {
        field(on, &self.keys.record, name).await
    }

    /// Where the record of this name has its place, by what stands in it. `None` where it has none.
    pub(crate) async fn place_of(
        &self,
        on: &Connection,
        name: &str,
        record: &[u8],
    ) -> Result<Option<(Ended, Place)>, Fault> {
        let Some((ended, member, _)) = Self::own_place(name, record) else { return Ok(None) };
        let mut score = on.ask("ZSCORE", (self.keys.ended(ended), &member)).await?;
        if score.left() == 0 {
            return Ok(None);
        }
        Ok(Some((ended, Place { member, ended_at: score.count()? })))
    }

    /// How a job ended, the member that its record ought to have, and when it ended, as the record says it.
    pub(super) fn own_place(name: &str, record: &[u8]) -> Option<(Ended, String, u64)> {
        #[derive(serde::Deserialize)]
        struct Named {
            job: String,
            outcome: String,
            group: Option<String>,
            ended_at: Option<u64>,
        }
        let Named { job, outcome, group, ended_at } = serde_json::from_slice(record).ok()?;
        let ended = Ended::ALL.into_iter().find(|ended| ended.name() == outcome)?;
        let member = format!("{} {job} {name}", group.as_deref().unwrap_or("-"));
        Some((ended, member, ended_at.unwrap_or(0)))
    }

    /// All groups of failures as they are stored, with their names.
    pub(crate) async fn groups(&self, on: &Connection) -> Result<Vec<(Vec<u8>, Vec<u8>)>, Fault> {
        whole_hash(on, &self.keys.groups).await
    }

    /// One group of failures as it is stored.
    pub(crate) async fn group(
        &self,
        on: &Connection,
        name: &str,
    ) -> Result<Option<Vec<u8>>, Fault> {
        field(on, &self.keys.groups, name).await
    }
}
