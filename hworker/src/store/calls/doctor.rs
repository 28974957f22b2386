//! What the doctor asks of a server and of a queue, and what it mends.

use std::collections::BTreeMap;

use super::read::{Range, fields, read_hash, read_set};
use crate::keys::Ended;
use crate::store::net::{Call, Connection, Fault};
use crate::store::queue::Queue;
use crate::store::reply::Reply;
use crate::store::{CALL_WITHIN, Script};

/// So many of the latest slow calls are looked at.
const SLOW_CALLS: usize = 128;

/// So many places or records are looked at together.
const AT_ONCE: u64 = 500;

/// A call that the server noted as slow.
#[derive(Debug)]
pub(crate) struct SlowCall {
    /// In seconds since 1970.
    pub(crate) at: u64,
    pub(crate) micros: u64,
    /// The command without its arguments, which may be those of jobs.
    pub(crate) command: String,
}

/// All that `INFO` says of the server, by its field.
pub(crate) async fn info(on: &Connection) -> Result<BTreeMap<String, String>, Fault> {
    let info = on.ask("INFO", "default").await?.text()?;
    let fields = info.lines().filter_map(|line| line.trim_end().split_once(':'));
    Ok(fields.map(|(field, value)| (field.to_owned(), value.to_owned())).collect())
}

pub(crate) async fn slow_calls(on: &Connection) -> Result<Vec<SlowCall>, Fault> {
    on.ask("SLOWLOG", ("GET", SLOW_CALLS)).await?.rest(|entry| {
        let mut entry = entry.list()?;
        entry.value()?;
        let (at, micros) = (entry.count()?, entry.count()?);
        Ok(SlowCall { at, micros, command: entry.list()?.text()? })
    })
}

/// As whom this connection is known.
pub(crate) async fn own_user(on: &Connection) -> Result<String, Fault> {
    on.ask("ACL", "WHOAMI").await?.text()
}

pub(crate) async fn users(on: &Connection) -> Result<Vec<String>, Fault> {
    on.ask("ACL", "USERS").await?.rest(Reply::text)
}

/// Which of these calls a user may not make. None of them is made.
pub(crate) async fn refused(
    on: &Connection,
    user: &str,
    calls: &[Vec<String>],
) -> Result<Vec<usize>, Fault> {
    let mut ask = redis::Pipeline::new();
    for words in calls {
        ask.cmd("ACL").arg("DRYRUN").arg(user).arg(words);
    }
    let mut refused = Vec::new();
    for (place, answer) in on.ask_all(&ask).await?.into_iter().enumerate() {
        // Else why not, in words.
        if answer?.value()? != redis::Value::Okay {
            refused.push(place);
        }
    }
    Ok(refused)
}

/// The types of keys, as the server calls them: `none` where there is no such key.
pub(crate) async fn types(on: &Connection, keys: &[&str]) -> Result<Vec<String>, Fault> {
    let mut ask = redis::Pipeline::new();
    for key in keys {
        ask.cmd("TYPE").arg(key);
    }
    on.ask_all(&ask).await?.into_iter().map(|reply| reply?.text()).collect()
}

/// Gives a key another name, if it is still of another type than this, and that name is not taken.
pub(crate) async fn set_aside(
    on: &Connection,
    key: &str,
    wanted: &str,
    to: &str,
) -> Result<u64, Fault> {
    let mut call = Call::new(Script::SetAside, &[key, to]);
    call.arg(wanted);
    on.run(&call, CALL_WITHIN).await?.count()
}

impl Queue {
    /// How many jobs are scheduled for a time before this one, in ms.
    pub(crate) async fn due_before(&self, on: &Connection, time: u64) -> Result<u64, Fault> {
        on.ask("ZCOUNT", (&self.keys.scheduled, "-inf", format!("({time}"))).await?.count()
    }

    /// How many husks there are in a list of at most 1,000 jobs, `None` in a longer one, and how many were counted. Sets the counter right
    /// if asked.
    pub(crate) async fn recount(
        &self,
        on: &Connection,
        set: bool,
    ) -> Result<(Option<u64>, u64), Fault> {
        let mut call = Call::new(Script::Recount, &[&self.keys.jobs, &self.keys.stat]);
        call.number(u64::from(set));
        let mut reply = on.run(&call, CALL_WITHIN).await?;
        let found = u64::try_from(reply.number()?).ok();
        Ok((found, u64::try_from(reply.number()?).unwrap_or(0)))
    }

    /// How many records there are, and how many places of records.
    pub(crate) async fn records_and_places(&self, on: &Connection) -> Result<(u64, u64), Fault> {
        let mut places = 0;
        for ended in Ended::ALL {
            places += self.length(on, "ZCARD", self.keys.ended(ended)).await?;
        }
        Ok((self.length(on, "HLEN", &self.keys.record).await?, places))
    }

    /// Drops places that have no record, and gives records that have no place theirs, as far as they say which. Gives how many.
    pub(crate) async fn mend_records(&self, on: &Connection) -> Result<u64, Fault> {
        let mut mended = 0;
        for ended in Ended::ALL {
            let mut range = Range {
                since: 0,
                until: u64::MAX,
                from: None,
                newest_first: false,
                skip: 0,
                count: AT_ONCE,
                of_payloads: false,
            };
            loop {
                let places = read_set(on, (self.keys.ended(ended), &self.keys.jobs), range).await?;
                if places.is_empty() {
                    break;
                }
                range.skip += places.len() as u64;
                let members: Vec<_> = places
                    .iter()
                    .map(|(member, _)| String::from_utf8_lossy(member).into_owned())
                    .collect();
                let name = |member: &String| member.splitn(3, ' ').nth(2).unwrap_or("").to_owned();
                let names: Vec<_> = members.iter().map(name).collect();
                let sizes = fields(on, &self.keys.record, &names, 0).await?;
                let without = members.into_iter().zip(names).zip(sizes);
                let without = without.filter(|(_, (size, _))| *size == 0);
                let mends: Vec<_> = without
                    .map(|((member, name), _)| (ended, member, name, String::new()))
                    .collect();
                let dropped = self.mend(on, &mends).await?;
                (range.skip, mended) = (range.skip.saturating_sub(dropped), mended + dropped);
            }
        }
        let mut place = Some((0, 0));
        while let Some(from) = place {
            let (records, next) = read_hash(on, &self.keys.record, from, AT_ONCE).await?;
            let mut mends = Vec::new();
            for (name, record, _) in records {
                let name = String::from_utf8_lossy(&name).into_owned();
                if let Some((ended, member, at)) = Self::own_place(&name, &record)
                    && self.place_of(on, &name, &record).await?.is_none()
                {
                    mends.push((ended, member, name, at.to_string()));
                }
            }
            mended += self.mend(on, &mends).await?;
            place = next;
        }
        Ok(mended)
    }

    /// Each with its member, the record's name, and when it ended, empty to drop its place.
    async fn mend(
        &self,
        on: &Connection,
        mends: &[(Ended, String, String, String)],
    ) -> Result<u64, Fault> {
        if mends.is_empty() {
            return Ok(0);
        }
        let mut call = Call::new(Script::MendRecords, &self.keys.records());
        for (ended, member, name, at) in mends {
            call.arg(ended.name()).arg(member).arg(name).arg(at);
        }
        on.run(&call, CALL_WITHIN).await?.count()
    }
}
