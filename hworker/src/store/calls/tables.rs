//! What programs declare in their code.

use std::collections::BTreeMap;
use std::time::Duration;

use super::heartbeat::TABLE_LIVES_MS;
use crate::store::net::{Call, Connection, Fault};
use crate::store::queue::Queue;
use crate::store::reply::Reply;
use crate::store::{CALL_WITHIN, Script};
use crate::time::millis;

/// What a program declares on a queue.
#[derive(Debug)]
pub(crate) struct Declaration<'a> {
    pub(crate) app: &'a str,
    /// Of all that follows.
    pub(crate) hash: &'a str,
    /// For how long the caller has reached the server.
    pub(crate) steady: Duration,
    pub(crate) limits: &'a [(String, String)],
    pub(crate) entries: Vec<NewEntry<'a>>,
}

/// A cron entry that it declares.
#[derive(Debug)]
pub(crate) struct NewEntry<'a> {
    pub(crate) name: &'a str,
    pub(crate) text: &'a str,
    /// When it is due next, in ms.
    pub(crate) next: Option<u64>,
    /// It is due once for each table.
    pub(crate) is_once: bool,
}

/// What became of it.
#[derive(Debug)]
pub(crate) enum Declared {
    /// It is in force; this was before, if anything.
    InForce(String),
    /// This is.
    Other(String),
    /// An entry is due by now: the caller reckons again.
    Late,
}

/// A table that the server knows.
#[derive(Debug, Default)]
pub(crate) struct KnownTable {
    /// When it was first seen, in ms.
    pub(crate) first: u64,
    /// When a worker told of it last, in ms.
    pub(crate) seen: u64,
    pub(crate) in_force: bool,
    pub(crate) pinned: bool,
    pub(crate) is_live: bool,
}

impl Queue {
    /// Says what a program declares.
    pub(crate) async fn declare(
        &self,
        on: &Connection,
        declared: &Declaration<'_>,
    ) -> Result<Declared, Fault> {
        let mut call = Call::new(Script::Declare, &[&self.keys.jobs, &self.keys.bell]);
        call.arg(declared.app).arg(declared.hash).number(TABLE_LIVES_MS);
        call.number(millis(declared.steady)).number(declared.limits.len() as u64);
        for (field, value) in declared.limits {
            call.arg(field).arg(value);
        }
        for entry in &declared.entries {
            let next = entry.next.map_or_else(String::new, |next| next.to_string());
            call.arg(entry.name).arg(entry.text).arg(next).number(u64::from(entry.is_once));
        }
        let mut reply = on.run(&call, CALL_WITHIN).await?;
        let (said, before) = (reply.count()?, reply.text()?);
        Ok(match said {
            0 => Declared::Other(before),
            1 => Declared::InForce(before),
            _ => Declared::Late,
        })
    }

    /// The tables that the server knows, by their programs and hashes.
    pub(crate) async fn tables(
        &self,
        on: &Connection,
        now: u64,
    ) -> Result<BTreeMap<(String, String), KnownTable>, Fault> {
        let fields = on.ask("HGETALL", self.keys.tables()).await?.rest(Reply::pair)?;
        let mut tables: BTreeMap<_, KnownTable> = BTreeMap::new();
        for (field, value) in &fields {
            let Some((what, of)) = field.split_once(':') else { continue };
            let Some((app, hash)) = of.rsplit_once(' ') else { continue };
            let table = tables.entry((app.to_owned(), hash.to_owned())).or_default();
            match what {
                "first" => table.first = value.parse().unwrap_or(0),
                "seen" => table.seen = value.parse().unwrap_or(0),
                _ => {}
            }
            table.is_live = now.saturating_sub(table.seen) <= TABLE_LIVES_MS;
        }
        for (field, hash) in fields {
            let Some((what, app)) = field.split_once(':') else { continue };
            let table = tables.get_mut(&(app.to_owned(), hash));
            match (what, table) {
                ("force", Some(table)) => table.in_force = true,
                ("pin", Some(table)) => table.pinned = true,
                _ => {}
            }
        }
        Ok(tables)
    }

    /// Holds a program at one of its tables, or no longer.
    pub(crate) async fn pin(
        &self,
        on: &Connection,
        app: &str,
        hash: Option<&str>,
    ) -> Result<bool, Fault> {
        let field = format!("pin:{app}");
        let changed = match hash {
            Some(hash) => on.ask("HSET", (self.keys.tables(), field, hash)).await?,
            None => on.ask("HDEL", (self.keys.tables(), field)).await?,
        };
        let mut changed = changed;
        Ok(changed.count()? > 0 || hash.is_some())
    }
}
