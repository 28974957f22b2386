//! Reads for a person: workers and jobs.

use std::time::Duration;

use super::lease::Lease;
use super::read::{HashPlace, Places, fields, read_hash, read_list};
use crate::keys::WorkerKeys;
use crate::store::net::{Connection, Fault, server_time};
use crate::store::queue::Queue;
use crate::store::reply::Reply;
use crate::time::millis;

/// So many payloads of an inbox are read; it has no more than one for each wait that is under way.
const INBOX: u64 = 16;

/// What a worker holds.
#[derive(Debug)]
pub(crate) struct RunningEntry {
    /// `None` for what was handed to its inbox, and that it has not taken yet.
    pub(crate) lease: Option<Lease>,
    pub(crate) payload: Vec<u8>,
}

/// A payload that could not be decoded.
#[derive(Debug)]
pub(crate) struct BrokenEntry {
    pub(crate) payload: Vec<u8>,
    pub(crate) times: u64,
    pub(crate) at: u64,
    pub(crate) reason: String,
}

/// A worker as the registry has it: its id, last heartbeat in ms, and record.
pub(crate) type WorkerEntry = (String, u64, Vec<(String, String)>);

impl Queue {
    /// The ids of all workers that the server remembers, of the dead ones too.
    pub(crate) async fn worker_ids(&self, on: &Connection) -> Result<Vec<String>, Fault> {
        on.ask("ZRANGE", (&self.keys.workers, 0, -1)).await?.rest(Reply::text)
    }

    /// Every worker that the server remembers, the dead ones too.
    pub(crate) async fn workers(&self, on: &Connection) -> Result<Vec<WorkerEntry>, Fault> {
        let ids = self.worker_ids(on).await?;
        let mut workers = Vec::with_capacity(ids.len());
        for id in ids {
            let record =
                on.ask("HGETALL", self.keys.worker(&id).record).await?.rest(Reply::pair)?;
            let mut score = on.ask("ZSCORE", (&self.keys.workers, &id)).await?;
            if score.left() > 0 {
                workers.push((id, score.count()?, record));
            }
        }
        Ok(workers)
    }

    /// How many workers were heard of within this time.
    pub(crate) async fn serving(&self, on: &Connection, within: Duration) -> Result<u64, Fault> {
        let since = server_time(on).await?.saturating_sub(millis(within));
        on.ask("ZCOUNT", (&self.keys.workers, since, "+inf")).await?.count()
    }

    /// What a worker holds. First what its inbox has, which goes under a lease from there.
    pub(crate) async fn running(
        &self,
        on: &Connection,
        keys: &WorkerKeys,
    ) -> Result<Vec<RunningEntry>, Fault> {
        let (mut inbox, mut length) = (Vec::new(), 1);
        while (inbox.len() as u64) < length.min(INBOX) {
            let places = Places { first: inbox.len() as u64, count: INBOX, from_right: false };
            let (now, payloads) = read_list(on, &keys.inbox, places).await?;
            length = if payloads.is_empty() { 0 } else { now };
            inbox.extend(payloads);
        }
        let leases = self.leases(on, keys).await?;
        let names: Vec<_> = leases.iter().map(Lease::to_string).collect();
        let payloads = fields(on, &keys.progress, &names, u64::MAX).await?;
        let held = leases.into_iter().zip(payloads);
        // Those that ended meanwhile are left out.
        let mut held: Vec<_> = held
            .filter_map(|(lease, (_, payload))| {
                Some(RunningEntry { lease: Some(lease), payload: payload? })
            })
            .collect();
        // What was taken from it meanwhile.
        inbox.retain(|handed| !held.iter().any(|entry| entry.payload == *handed));
        held.extend(inbox.into_iter().map(|payload| RunningEntry { lease: None, payload }));
        Ok(held)
    }

    /// Broken payloads from a place on, each with where it ends, and where it goes on.
    pub(crate) async fn broken(
        &self,
        on: &Connection,
        from: HashPlace,
        count: u64,
    ) -> Result<(Vec<(BrokenEntry, HashPlace)>, Option<HashPlace>), Fault> {
        let (entries, next) = read_hash(on, &self.keys.broken, from, count).await?;
        let entries = entries.into_iter().map(|(payload, note, end)| {
            let note = String::from_utf8_lossy(&note);
            let mut parts = note.splitn(3, ' ');
            let mut number = || parts.next().and_then(|part| part.parse().ok()).unwrap_or(0);
            let (times, at) = (number(), number());
            let reason = parts.next().unwrap_or_default().to_owned();
            (BrokenEntry { payload, times, at, reason }, end)
        });
        Ok((entries.collect(), next))
    }

    /// How many there are in one key, as this command says.
    pub(crate) async fn length(
        &self,
        on: &Connection,
        command: &'static str,
        key: &str,
    ) -> Result<u64, Fault> {
        on.ask(command, key).await?.count()
    }
}
