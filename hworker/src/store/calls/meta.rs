//! What belongs to all queues together: their names, the manifest of job types, and the audit.

use std::collections::BTreeMap;
use std::time::SystemTime;

use super::read::{Places, field, fields, read_list, whole_hash};
use super::scan::{SCAN, Scan};
use crate::keys::{KeySpace, is_queue};
use crate::limit::List;
use crate::shards;
use crate::store::net::{Call, Connection, Fault};
use crate::store::reply::Reply;
use crate::store::{CALL_WITHIN, Script};
use crate::time::local_unix_ms;

/// In place of a name: all queues.
const ALL: &str = "*";

/// So many dead workers are written down.
const DEATHS: usize = 200;

/// So many marks of deploys are kept.
const DEPLOYS: usize = 200;

/// An entry of a stream: its id and its fields.
type StreamEntry = (String, BTreeMap<String, String>);

/// The queues that have lists, by name and number of the shard, each with those beside its plain one.
pub(crate) type ListedQueues = BTreeMap<String, BTreeMap<usize, Vec<List>>>;

/// One of the keys that belong to all queues together.
#[derive(Debug, Clone, Copy)]
pub(crate) enum MetaKey {
    Queues,
    Jobs,
    Audit,
    Deaths,
    Deploys,
    Labels,
}

impl MetaKey {
    pub(crate) const ALL: [Self; 6] =
        [Self::Queues, Self::Jobs, Self::Audit, Self::Deaths, Self::Deploys, Self::Labels];

    fn name(self) -> &'static str {
        match self {
            Self::Queues => "queues",
            Self::Jobs => "jobs",
            Self::Audit => "audit",
            Self::Deaths => "deaths",
            Self::Deploys => "deploys",
            Self::Labels => "labels",
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
    deaths: String,
    deploys: String,
    labels: String,
}

impl Meta {
    pub(crate) fn new(space: &KeySpace) -> Self {
        let key = |key: MetaKey| space.meta(key.name());
        Self {
            queues: key(MetaKey::Queues),
            jobs: key(MetaKey::Jobs),
            audit: key(MetaKey::Audit),
            deaths: key(MetaKey::Deaths),
            deploys: key(MetaKey::Deploys),
            labels: key(MetaKey::Labels),
            space: space.clone(),
        }
    }

    /// Adds queues, each with over how many shards it is spread.
    pub(crate) async fn add(&self, on: &Connection, queues: &[(&str, usize)]) -> Result<(), Fault> {
        let seen = local_unix_ms(SystemTime::now());
        let entry = |shards| format!(r#"{{"shards":{shards},"seen":{seen}}}"#);
        let fields: Vec<_> = queues.iter().map(|(queue, shards)| (queue, entry(shards))).collect();
        on.ask("HSET", (&self.queues, fields)).await.map(drop)
    }

    /// All that were added, each with its shards if it says that. Anybody may have written there, so what is no name is left out.
    pub(crate) async fn names(
        &self,
        on: &Connection,
    ) -> Result<BTreeMap<String, Option<usize>>, Fault> {
        #[derive(serde::Deserialize)]
        struct Entry {
            shards: usize,
        }
        let entries = whole_hash(on, &self.queues).await?;
        let read = |(name, entry): (Vec<u8>, Vec<u8>)| {
            let entry = serde_json::from_slice::<Entry>(&entry).ok();
            Some((String::from_utf8(name).ok()?, entry.map(|entry| entry.shards)))
        };
        Ok(entries.into_iter().filter_map(read).filter(|(name, _)| is_queue(name)).collect())
    }

    /// Notes that all queues are paused until this time, 0 until they are resumed, by an order of that time, in ms.
    pub(crate) async fn mark_all_paused(
        &self,
        on: &Connection,
        until: u64,
        order: u64,
    ) -> Result<(), Fault> {
        let entry = format!(r#"{{"paused":{until},"order":{order}}}"#);
        on.ask("HSET", (&self.queues, ALL, entry)).await.map(drop)
    }

    pub(crate) async fn unmark_all_paused(&self, on: &Connection) -> Result<(), Fault> {
        on.ask("HDEL", (&self.queues, ALL)).await.map(drop)
    }

    /// Until when all queues are paused, and by the order of which time.
    pub(crate) async fn all_paused(&self, on: &Connection) -> Result<Option<(u64, u64)>, Fault> {
        #[derive(serde::Deserialize)]
        struct Entry {
            paused: u64,
            #[serde(default)]
            order: u64,
        }
        let entry = field(on, &self.queues, ALL).await?;
        let entry = entry.and_then(|entry| serde_json::from_slice::<Entry>(&entry).ok());
        Ok(entry.map(|Entry { paused, order }| (paused, order)))
    }

    /// How many were added.
    pub(crate) async fn count(&self, on: &Connection) -> Result<u64, Fault> {
        on.ask("HLEN", &self.queues).await?.count()
    }

    /// A key, and the type that it has.
    pub(crate) fn typed(&self, key: MetaKey) -> (&str, &'static str) {
        match key {
            MetaKey::Queues => (&self.queues, "hash"),
            MetaKey::Jobs => (&self.jobs, "hash"),
            MetaKey::Audit => (&self.audit, "stream"),
            MetaKey::Deaths => (&self.deaths, "list"),
            MetaKey::Deploys => (&self.deploys, "stream"),
            MetaKey::Labels => (&self.labels, "hash"),
        }
    }

    pub(crate) async fn remove(&self, on: &Connection, queue: &str) -> Result<(), Fault> {
        on.ask("HDEL", (&self.queues, queue)).await.map(drop)
    }

    /// Adds the queues that have lists on this server.
    pub(crate) async fn with_lists(
        &self,
        on: &Connection,
        found: &mut ListedQueues,
    ) -> Result<(), Fault> {
        let mut scan = Scan::new();
        let options = ("MATCH", self.space.lists(), "COUNT", SCAN, "TYPE", "list");
        while let Some(mut keys) = scan.next(on, &options).await? {
            for key in keys.rest(Reply::text)? {
                if let Some((queue, shard, list)) = self.space.queue_of_list(&key) {
                    let shards = found.entry(queue.to_owned()).or_default();
                    shards.entry(shard).or_default().extend(list);
                }
            }
        }
        Ok(())
    }

    /// An order to all workers of a label, as `quiet` and `slots` of their records: `<label>:<field>` is its field.
    pub(crate) async fn order_of_label(
        &self,
        on: &Connection,
        label: &str,
        field: &str,
    ) -> Result<Option<String>, Fault> {
        let value = self::field(on, &self.labels, &format!("{label}:{field}")).await?;
        Ok(value.map(|value| String::from_utf8_lossy(&value).into_owned()))
    }

    /// Gives such an order; an empty one takes it back.
    pub(crate) async fn set_order_of_label(
        &self,
        on: &Connection,
        label: &str,
        field: &str,
        value: &str,
    ) -> Result<(), Fault> {
        let name = format!("{label}:{field}");
        if value.is_empty() {
            return on.ask("HDEL", (&self.labels, name)).await.map(drop);
        }
        on.ask("HSET", (&self.labels, name, value)).await.map(drop)
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
    ) -> Result<Vec<StreamEntry>, Fault> {
        latest(on, &self.audit, count).await
    }

    /// Adds a mark of a deploy; gives its id.
    pub(crate) async fn add_deploy(
        &self,
        on: &Connection,
        fields: &[(&str, &str)],
    ) -> Result<String, Fault> {
        let mut ask = redis::Pipeline::new();
        // A removal first, so that there is room where there is little.
        ask.cmd("XTRIM").arg(&self.deploys).arg("MAXLEN").arg(DEPLOYS - 1);
        ask.cmd("XADD").arg(&self.deploys).arg("*").arg(fields);
        let replies = on.ask_all(&ask).await?.into_iter().collect::<Result<Vec<_>, _>>()?;
        let id = replies.into_iter().last().ok_or_else(|| Fault::reply("an id", "nothing"));
        id?.text()
    }

    /// The marks of deploys, the latest first.
    pub(crate) async fn deploys(&self, on: &Connection) -> Result<Vec<StreamEntry>, Fault> {
        latest(on, &self.deploys, DEPLOYS).await
    }

    /// Writes down a dead worker.
    pub(crate) async fn add_death(&self, on: &Connection, entry: &str) -> Result<(), Fault> {
        let mut ask = redis::Pipeline::new();
        // A removal first, so that there is room where there is little.
        ask.cmd("LTRIM").arg(&self.deaths).arg(0).arg(DEATHS - 2);
        ask.cmd("LPUSH").arg(&self.deaths).arg(entry);
        on.ask_all(&ask).await?.into_iter().try_for_each(|reply| reply.map(drop))
    }

    /// The dead workers that were written down, the latest first, as they are stored.
    pub(crate) async fn deaths(&self, on: &Connection) -> Result<Vec<Vec<u8>>, Fault> {
        let mut deaths = Vec::new();
        while deaths.len() < DEATHS {
            let count = (DEATHS - deaths.len()) as u64;
            let places = Places { first: deaths.len() as u64, count, from_right: false };
            let (_, some) = read_list(on, &self.deaths, places).await?;
            if some.is_empty() {
                break;
            }
            deaths.extend(some);
        }
        Ok(deaths)
    }
}

/// The latest entries of a stream, the newest first.
async fn latest(on: &Connection, stream: &str, count: usize) -> Result<Vec<StreamEntry>, Fault> {
    on.ask("XREVRANGE", (stream, "+", "-", "COUNT", count)).await?.rest(|entry| {
        let mut entry = entry.list()?;
        let id = entry.text()?;
        let fields = entry.list()?.rest(Reply::pair)?;
        Ok((id, fields.into_iter().collect()))
    })
}
