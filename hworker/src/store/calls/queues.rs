//! The registry of queues: the names of those that there are.

use std::collections::BTreeSet;
use std::time::SystemTime;

use super::scan::{SCAN, Scan, scan_hash};
use crate::keys::{KeySpace, is_name};
use crate::shards;
use crate::store::net::{Connection, Fault};
use crate::store::reply::Reply;
use crate::time::local_unix_ms;

/// The names of the queues on a server, or in a cluster.
#[derive(Debug)]
pub(crate) struct QueueRegistry {
    space: KeySpace,
    key: String,
    /// Its slot, where there are slots.
    pub(crate) slot: u16,
}

impl QueueRegistry {
    pub(crate) fn new(space: &KeySpace) -> Self {
        Self { space: space.clone(), key: space.queues(), slot: shards::slot("queues") }
    }

    /// Adds queues.
    pub(crate) async fn add(&self, on: &Connection, queues: &[&str]) -> Result<(), Fault> {
        let now = local_unix_ms(SystemTime::now());
        let fields: Vec<_> = queues.iter().map(|queue| (*queue, now)).collect();
        on.ask("HSET", (&self.key, fields)).await.map(drop)
    }

    /// All that were added. Anybody may have written there, so what is no name is left out.
    pub(crate) async fn names(&self, on: &Connection) -> Result<BTreeSet<String>, Fault> {
        let entries = scan_hash(on, &self.key).await?;
        let names = entries.into_iter().filter_map(|(name, _)| String::from_utf8(name).ok());
        Ok(names.filter(|name| is_name(name)).collect())
    }

    pub(crate) async fn remove(&self, on: &Connection, queue: &str) -> Result<(), Fault> {
        on.ask("HDEL", (&self.key, queue)).await.map(drop)
    }

    /// The queues that have lists on this server.
    pub(crate) async fn with_lists(&self, on: &Connection) -> Result<BTreeSet<String>, Fault> {
        let (mut names, mut scan) = (BTreeSet::new(), Scan::of_keys());
        let options = ("MATCH", self.space.lists(), "COUNT", SCAN, "TYPE", "list");
        while let Some(mut keys) = scan.next(on, &options).await? {
            for key in keys.rest(Reply::text)? {
                names.extend(self.space.queue_of_list(&key).map(str::to_owned));
            }
        }
        Ok(names)
    }
}
