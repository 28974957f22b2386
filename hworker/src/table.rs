//! What a program declares in its code: limits and cron entries. A queue knows it by the name of the program and a hash.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::client::Client;
#[cfg(feature = "cron")]
use crate::cron::{DeclaredEntry, declared};
use crate::error::Problems;
#[cfg(feature = "cron")]
use crate::fnv;
use crate::job::Definition;
use crate::limit::DeclaredLimits;
use crate::log::say;
use crate::store::{
    Connection, Declaration, Declared, Declares, Fault, FaultKind, Queue, server_time,
};

/// Between two lines of the log that a queue could not be told.
const AGAIN_AFTER: Duration = Duration::from_secs(60);

/// So often it is reckoned when its entries are due.
const LATE: u32 = 5;

/// What a program declares.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) app: String,
    limits: DeclaredLimits,
    #[cfg(feature = "cron")]
    entries: BTreeMap<&'static str, Vec<DeclaredEntry>>,
    /// When it was said that a queue was not told.
    told: Mutex<Option<Instant>>,
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
            told: Mutex::default(),
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
                // The line with its hash is enough.
                let hash = entry.text.lines().next().unwrap_or_default();
                text.extend(["\n", entry.name, " ", hash]);
            }
            self.hashes.insert(queue, format!("{:016x}", fnv::hash(text.as_bytes())));
        }
        self
    }

    /// The hash of what it declares on a queue; empty where that is nothing.
    pub(crate) fn hash(&self, queue: &Queue) -> &str {
        self.hashes.get(&*queue.name).unwrap_or(&self.hash)
    }

    /// The same for a heartbeat.
    pub(crate) fn declares(&self, queue: &Queue) -> Declares<'_> {
        let (app, hash) = (&*self.app, self.hash(queue));
        // Entries stand in the first shard.
        let entries = queue.name == queue.label && self.hashes.contains_key(&*queue.name);
        Declares { app, hash, limits: !self.limits.fields.is_empty(), entries }
    }

    /// Says what it declares on a queue. `steady`: for how long the caller has reached the server. A server that refuses it does not keep the
    /// worker from its jobs.
    pub(crate) async fn declare(
        &self,
        queue: &Queue,
        on: &Connection,
        steady: Duration,
    ) -> Result<(), Fault> {
        match self.try_declare(queue, on, steady).await {
            Err(fault) if fault.kind != FaultKind::Connection => {
                let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
                if told.is_some_and(|at| at.elapsed() < AGAIN_AFTER) {
                    return Ok(());
                }
                *told = Some(Instant::now());
                let fault = fault.to_string();
                say!(WARN, { queue = queue.name.clone() }, job.queue = %queue, "what this program declares in its code is not told to the queue: {fault}");
                Ok(())
            }
            told => told,
        }
    }

    async fn try_declare(
        &self,
        queue: &Queue,
        on: &Connection,
        steady: Duration,
    ) -> Result<(), Fault> {
        let mut declared = Declared::Late;
        // An entry may be due before the server hears when it is.
        for _ in 0..LATE {
            if matches!(declared, Declared::Late) {
                let now = server_time(on).await?;
                declared = queue.declare(on, &self.declaration(queue, now, steady)).await?;
            }
        }
        let hash = self.hash(queue);
        match declared {
            Declared::InForce(before) if !before.is_empty() && before != hash => {
                say!(INFO, { queue = queue.name.clone(), app = self.app.clone(), hash = hash.to_owned() }, job.queue = %queue, %app, %hash, before,
                    "what this program declares in its code is in force now");
            }
            Declared::Other(in_force) => {
                say!(INFO, { queue = queue.name.clone(), app = self.app.clone(), hash = hash.to_owned() }, job.queue = %queue, %app, %hash, in_force,
                    "what this program declares in its code is not in force: a newer one lives, or somebody pinned another");
            }
            Declared::InForce(_) | Declared::Late => {}
        }
        Ok(())
    }

    /// As a queue is told it. `now`: the server's time in ms.
    #[cfg_attr(not(feature = "cron"), allow(unused_variables))]
    fn declaration(&self, queue: &Queue, now: u64, steady: Duration) -> Declaration<'_> {
        #[cfg(not(feature = "cron"))]
        let entries = Vec::new();
        #[cfg(feature = "cron")]
        let entries = {
            let own = self.entries.get(&*queue.name).filter(|_| queue.name == queue.label);
            own.into_iter()
                .flatten()
                .map(|entry| crate::store::NewEntry {
                    name: entry.name,
                    text: &entry.text,
                    next: entry.calendar.next_after(now),
                    is_once: entry.calendar.is_reboot(),
                })
                .collect()
        };
        Declaration {
            app: &self.app,
            hash: self.hash(queue),
            steady,
            limits: &self.limits.fields,
            entries,
        }
    }
}
