//! What belongs to all queues together: their names, the manifest of job types, and the audit.

use std::collections::{BTreeMap, BTreeSet};
use std::time::SystemTime;

use super::read::{fields, whole_hash};
use super::scan::{SCAN, Scan};
use crate::keys::{KeySpace, is_name};
use crate::shards;
use crate::store::net::{Call, Connection, Fault};
use crate::store::reply::Reply;
use crate::store::{CALL_WITHIN, Script};
use crate::time::local_unix_ms;

/// One of the keys that belong to all queues together.
#[derive(Debug, Clone, Copy)]
pub(crate) enum MetaKey {
    Queues,
    Jobs,
    Audit,
}

impl MetaKey {
    fn name(self) -> &'static str {
        match self {
            Self::Queues => "queues",
            Self::Jobs => "jobs",
            Self::Audit => "audit",
        }
    }

    /// Its slot, where there are slots.
    pub(crate) fn slot(self) -> u16 {
        shards::slot(self.name())
    }
}

/// What belongs to all queues of a server, or of a cluster.
#[derive(Debug)]
pub(crate) struct Meta {
    space: KeySpace,
    queues: String,
    jobs: String,
    audit: String,
}

impl Meta {
    pub(crate) fn new(space: &KeySpace) -> Self {
        let key = |key: MetaKey| space.meta(key.name());
        Self {
            queues: key(MetaKey::Queues),
            jobs: key(MetaKey::Jobs),
            audit: key(MetaKey::Audit),
            space: space.clone(),
        }
    }

    /// Adds queues.
    pub(crate) async fn add(&self, on: &Connection, queues: &[&str]) -> Result<(), Fault> {
        let now = local_unix_ms(SystemTime::now());
        let fields: Vec<_> = queues.iter().map(|queue| (*queue, now)).collect();
        on.ask("HSET", (&self.queues, fields)).await.map(drop)
    }

    /// All that were added. Anybody may have written there, so what is no name is left out.
    pub(crate) async fn names(&self, on: &Connection) -> Result<BTreeSet<String>, Fault> {
        let entries = whole_hash(on, &self.queues).await?;
        let names = entries.into_iter().filter_map(|(name, _)| String::from_utf8(name).ok());
        Ok(names.filter(|name| is_name(name)).collect())
    }

    pub(crate) async fn remove(&self, on: &Connection, queue: &str) -> Result<(), Fault> {
        on.ask("HDEL", (&self.queues, queue)).await.map(drop)
    }

    /// The queues that have lists on this server.
    pub(crate) async fn with_lists(&self, on: &Connection) -> Result<BTreeSet<String>, Fault> {
        let (mut names, mut scan) = (BTreeSet::new(), Scan::new());
        let options = ("MATCH", self.space.lists(), "COUNT", SCAN, "TYPE", "list");
        while let Some(mut keys) = scan.next(on, &options).await? {
            for key in keys.rest(Reply::text)? {
                names.extend(self.space.queue_of_list(&key).map(str::to_owned));
            }
        }
        Ok(names)
    }

    /// Writes entries of the manifest.
    pub(crate) async fn add_jobs(
        &self,
        on: &Connection,
        entries: &[(&str, String)],
    ) -> Result<(), Fault> {
        on.ask("HSET", (&self.jobs, entries)).await.map(drop)
    }

    /// The entries of the manifest, as they are stored. Those that are too large are not read; nor is a manifest of more than this
    /// many entries to its end.
    pub(crate) async fn jobs(
        &self,
        on: &Connection,
        most: usize,
        bytes: u64,
    ) -> Result<Vec<(Vec<u8>, Vec<u8>)>, Fault> {
        // The names alone come in portions only from Redis 7.4 on.
        let mut names = on.ask("HKEYS", &self.jobs).await?.rest(Reply::bytes)?;
        names.truncate(most);
        let entries = fields(on, &self.jobs, &names, bytes).await?.into_iter();
        let entries = names.into_iter().zip(entries);
        Ok(entries.filter_map(|(name, (_, entry))| Some((name, entry?))).collect())
    }

    pub(crate) async fn remove_jobs(&self, on: &Connection, names: &[&str]) -> Result<(), Fault> {
        on.ask("HDEL", (&self.jobs, names)).await.map(drop)
    }

    /// Writes an entry of the audit.
    pub(crate) async fn write_audit(
        &self,
        on: &Connection,
        fields: &[(&str, &str)],
    ) -> Result<(), Fault> {
        let mut call = Call::new(Script::Audit, &[&self.audit]);
        for (field, value) in fields {
            call.arg(field).arg(value);
        }
        on.run(&call, CALL_WITHIN).await.map(drop)
    }

    /// The latest entries of the audit, the newest first: their ids and fields.
    pub(crate) async fn read_audit(
        &self,
        on: &Connection,
        count: usize,
    ) -> Result<Vec<(String, BTreeMap<String, String>)>, Fault> {
        on.ask("XREVRANGE", (&self.audit, "+", "-", "COUNT", count)).await?.rest(|entry| {
            let mut entry = entry.list()?;
            let id = entry.text()?;
            let fields = entry.list()?.rest(Reply::pair)?;
            Ok((id, fields.into_iter().collect()))
        })
    }
}
