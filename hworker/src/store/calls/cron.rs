//! Cron entries.

use std::collections::BTreeMap;

use super::heartbeat::TABLE_LIVES_MS;
use super::submit::Word;
use crate::store::net::{Call, Connection, Fault};
use crate::store::queue::Queue;
use crate::store::reply::Reply;
use crate::store::{CALL_WITHIN, Script};
use crate::unique::KeyLock;

/// How many fields the entries of a queue may have, of which each has up to six.
const MOST_FIELDS: u64 = 5_000;

/// What is fired.
#[derive(Debug)]
pub(crate) struct Firing<'a> {
    pub(crate) name: &'a str,
    pub(crate) text: &'a str,
    /// When it was due, in ms; none for a run by hand.
    pub(crate) seen: Option<u64>,
    pub(crate) next: Option<u64>,
    /// When the first of the runs was due that are left out.
    pub(crate) missed: Option<u64>,
    /// How many runs it has in all.
    pub(crate) count: Option<u32>,
}

/// One run of it.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) due: u64,
    /// `<list>#<id>`
    pub(crate) place: String,
    pub(crate) lock: KeyLock,
    pub(crate) terms: String,
    pub(crate) envelope: Vec<u8>,
}

/// What is known of an entry.
#[derive(Debug, Default, Clone)]
pub(crate) struct KnownEntry {
    /// What code says.
    pub(crate) code: Option<String>,
    /// What somebody set.
    pub(crate) set: Option<String>,
    pub(crate) next: Option<u64>,
    pub(crate) paused: Option<u64>,
    pub(crate) fired: u64,
    /// A line each.
    pub(crate) runs: String,
}

impl KnownEntry {
    /// What is in force.
    pub(crate) fn text(&self) -> Option<&str> {
        self.set.as_deref().or(self.code.as_deref())
    }
}

/// What became of an order about an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ordered {
    Done,
    Same,
    Missing,
    /// Code alone says it.
    Declared,
    Full,
    /// It is due by now: the caller reckons again.
    Late,
}

impl Queue {
    /// Takes in the runs of an entry, if it says this still and was due then; else `None`.
    pub(crate) async fn fire(
        &self,
        on: &Connection,
        firing: &Firing<'_>,
        runs: &[Run],
    ) -> Result<Option<Vec<Word>>, Fault> {
        let keys = &self.keys;
        let all = [&keys.jobs, &keys.scheduled, &keys.token, &keys.bell, &keys.stat];
        let mut call = Call::new(Script::Fire, &all.map(String::as_str));
        let text = |ms: Option<u64>| ms.map_or_else(String::new, |ms| ms.to_string());
        call.arg(firing.name)
            .arg(firing.text)
            .arg(text(firing.seen))
            .arg(text(firing.next))
            .arg(text(firing.missed));
        call.arg(firing.count.map_or_else(String::new, |count| count.to_string()));
        for run in runs {
            call.number(run.due).arg(&run.place);
            call.arg(&run.lock.held_by).arg(&*run.lock.conflict).arg(text(run.lock.lasts));
            call.arg(&run.terms).arg(&run.envelope);
        }
        let mut reply = on.run(&call, CALL_WITHIN).await?;
        if reply.text()? == "stale" {
            return Ok(None);
        }
        let ran = reply.rest(Word::read)?;
        Ok(Some(ran))
    }

    /// Sets, removes, pauses or resumes an entry. `next`: when it is due next, in ms.
    pub(crate) async fn order_entry(
        &self,
        on: &Connection,
        what: &str,
        name: &str,
        next: Option<u64>,
        text: &str,
    ) -> Result<Ordered, Fault> {
        let mut call = Call::new(Script::Cron, &[&self.keys.jobs, &self.keys.bell]);
        call.arg(what).arg(name).arg(next.map_or_else(String::new, |next| next.to_string()));
        call.arg(text).number(MOST_FIELDS).number(TABLE_LIVES_MS);
        let mut reply = on.run(&call, CALL_WITHIN).await?;
        Ok(match &*reply.text()? {
            "ok" => Ordered::Done,
            "same" => Ordered::Same,
            "missing" => Ordered::Missing,
            "declared" => Ordered::Declared,
            "full" => Ordered::Full,
            "late" => Ordered::Late,
            word => return Err(reply.unknown(word)),
        })
    }

    /// The entries by their names.
    pub(crate) async fn entries(
        &self,
        on: &Connection,
    ) -> Result<BTreeMap<String, KnownEntry>, Fault> {
        let mut entries = BTreeMap::new();
        for (field, value) in on.ask("HGETALL", self.keys.cron()).await?.rest(Reply::pair)? {
            let Some((what, name)) = field.split_once(':') else { continue };
            let entry: &mut KnownEntry = entries.entry(name.to_owned()).or_default();
            match what {
                "code" => entry.code = Some(value),
                "set" => entry.set = Some(value),
                "next" => entry.next = value.parse().ok(),
                "paused" => entry.paused = value.parse().ok(),
                "fired" => entry.fired = value.parse().unwrap_or(0),
                "runs" => entry.runs = value,
                _ => {}
            }
        }
        entries.retain(|_, entry| entry.text().is_some());
        Ok(entries)
    }

    /// One entry; one that is none where it is not there.
    pub(crate) async fn entry(&self, on: &Connection, name: &str) -> Result<KnownEntry, Fault> {
        let fields =
            ["code", "set", "next", "paused", "fired", "runs"].map(|what| format!("{what}:{name}"));
        let mut reply = on.ask("HMGET", (self.keys.cron(), &fields[..])).await?;
        let mut value = || reply.maybe_text();
        Ok(KnownEntry {
            code: value()?,
            set: value()?,
            next: value()?.and_then(|next| next.parse().ok()),
            paused: value()?.and_then(|paused| paused.parse().ok()),
            fired: value()?.and_then(|fired| fired.parse().ok()).unwrap_or(0),
            runs: value()?.unwrap_or_default(),
        })
    }
}
