//! What a program declares in its code: limits, and what runs again and again. A queue knows it by the name of the program and a hash.

use std::collections::BTreeMap;

use crate::client::Client;
#[cfg(feature = "cron")]
use crate::cron::{DeclaredEntry, declared};
use crate::error::Problems;
use crate::fnv;
use crate::job::Definition;
use crate::limit::DeclaredLimits;
use crate::log::say;
use crate::store::{Connection, Declaration, Fault, Queue};

/// What a program declares.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) app: String,
    limits: DeclaredLimits,
    #[cfg(feature = "cron")]
    entries: BTreeMap<&'static str, Vec<DeclaredEntry>>,
    /// By the queues that have entries; all others have the last.
    hashes: BTreeMap<&'static str, String>,
    hash: String,
}

impl Table {
    /// Of job types.
    pub(crate) fn new(
        app: String,
        limits: DeclaredLimits,
        definitions: impl Iterator<Item = &'static Definition>,
        client: &Client,
        problems: &mut Problems,
    ) -> Self {
        let hash = limits.name.clone();
        let table = Self {
            app,
            limits,
            #[cfg(feature = "cron")]
            entries: BTreeMap::new(),
            hashes: BTreeMap::new(),
            hash,
        };
        table.with_entries(definitions, client, problems)
    }

    #[cfg(not(feature = "cron"))]
    fn with_entries(
        self,
        _: impl Iterator<Item = &'static Definition>,
        _: &Client,
        _: &mut Problems,
    ) -> Self {
        self
    }

    #[cfg(feature = "cron")]
    fn with_entries(
        mut self,
        definitions: impl Iterator<Item = &'static Definition>,
        client: &Client,
        problems: &mut Problems,
    ) -> Self {
        for definition in definitions {
            match declared(definition, client) {
                Ok(entries) if entries.is_empty() => {}
                Ok(entries) => self.entries.entry(definition.queue).or_default().extend(entries),
                Err(why) => {
                    let (name, place) = (definition.name, definition.place);
                    problems.0.push(format!("job `{name}` ({place}): {why}"));
                }
            }
        }
        for (queue, entries) in &mut self.entries {
            entries.sort_by_key(|entry| entry.name);
            if let Some(pair) = entries.windows(2).find(|pair| pair[0].name == pair[1].name) {
                problems.0.push(format!(
                    "two cron entries of the queue `{queue}` are called `{}`; give one another name, as in \
                     `cron(\"0 9 * * *\", name = \"morning\")`",
                    pair[0].name
                ));
            }
            let mut text = self.limits.name.clone();
            for entry in entries.iter() {
                text.extend(["\n", entry.name, "\n", &entry.text]);
            }
            self.hashes.insert(queue, format!("{:016x}", fnv::hash(text.as_bytes())));
        }
        self
    }

    /// The hash of what it declares on a queue; empty where that is nothing.
    pub(crate) fn hash(&self, queue: &Queue) -> &str {
        // What runs again and again stands in the first shard.
        let hash = self.hashes.get(&*queue.name).filter(|_| queue.name == queue.label);
        hash.unwrap_or(&self.hash)
    }

    /// Says what it declares on a queue. `now`: the server's time in ms.
    pub(crate) async fn declare(
        &self,
        queue: &Queue,
        on: &Connection,
        now: u64,
    ) -> Result<(), Fault> {
        #[cfg_attr(not(feature = "cron"), allow(unused_mut))]
        let mut declared = Declaration {
            app: &self.app,
            hash: self.hash(queue),
            limits: &self.limits.fields,
            entries: Vec::new(),
        };
        #[cfg(feature = "cron")]
        if queue.name == queue.label {
            let entries = self.entries.get(&*queue.name).into_iter().flatten();
            declared.entries.extend(entries.map(|entry| crate::store::NewEntry {
                name: entry.name,
                text: &entry.text,
                next: entry.calendar.next_after(now),
                is_once: entry.calendar.is_reboot(),
            }));
        }
        #[cfg(not(feature = "cron"))]
        let _ = now;
        let (in_force, before) = queue.declare(on, &declared).await?;
        let hash = declared.hash;
        if in_force && before != hash && !before.is_empty() {
            say!(INFO, { queue = queue.name.clone(), app = self.app.clone(), hash = hash.to_owned() }, %queue, %app, %hash, before,
                "what this program declares in its code is in force now");
        } else if !in_force {
            say!(INFO, { queue = queue.name.clone(), app = self.app.clone(), hash = hash.to_owned() }, %queue, %app, %hash, in_force = before,
                "what this program declares in its code is not in force: a newer one lives, or somebody pinned another");
        }
        Ok(())
    }
}
