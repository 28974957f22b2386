//! The registry of queues: the names of those that there are.

use std::collections::BTreeSet;
use std::time::SystemTime;

use super::scan::{SCAN, list, scan_hash, scanned};
use crate::keys::{KeySpace, is_name};
use crate::shards;
use crate::store::CALL_WITHIN;
use crate::store::net::{Connection, Fault};
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
        let mut command = redis::cmd("HSET");
        command.arg(&self.key);
        for queue in queues {
            command.arg(queue).arg(local_unix_ms(SystemTime::now()));
        }
        on.call(&command, CALL_WITHIN).await.map(drop)
    }

    /// All that were added. Anybody may have written there, so what is no name is left out.
    pub(crate) async fn names(&self, on: &Connection) -> Result<BTreeSet<String>, Fault> {
        let entries = scan_hash(on, &self.key).await?;
        let names = entries.into_iter().filter_map(|(name, _)| String::from_utf8(name).ok());
        Ok(names.filter(|name| is_name(name)).collect())
    }

    pub(crate) async fn remove(&self, on: &Connection, queue: &str) -> Result<(), Fault> {
        on.call(redis::cmd("HDEL").arg(&self.key).arg(queue), CALL_WITHIN).await.map(drop)
    }

    /// The queues that have lists on this server.
    pub(crate) async fn with_lists(&self, on: &Connection) -> Result<BTreeSet<String>, Fault> {
        let (mut names, mut cursor) = (BTreeSet::new(), "0".to_owned());
        loop {
            let mut scan = redis::cmd("SCAN");
            scan.arg(&cursor).arg("MATCH").arg(self.space.lists()).arg("COUNT").arg(SCAN);
            scan.arg("TYPE").arg("list");
            let keys;
            (cursor, keys) = scanned(on.call(&scan, CALL_WITHIN).await?)?;
            for key in list(keys)?.iter().filter_map(|key| std::str::from_utf8(key).ok()) {
                names.extend(self.space.queue_of_list(key).map(str::to_owned));
            }
            if cursor == "0" {
                return Ok(names);
            }
        }
    }
}
