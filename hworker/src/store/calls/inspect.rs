//! Reads for a person: workers and jobs.

use std::ops::Range;
use std::time::Duration;

use super::lease::Lease;
use super::scan::{Portion, scan_hash};
use crate::keys::WorkerKeys;
use crate::store::net::{Connection, Fault, server_time};
use crate::store::queue::Queue;
use crate::store::reply::Reply;
use crate::time::millis;

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

    /// Whether a worker was heard of within this time.
    pub(crate) async fn is_served(&self, on: &Connection, within: Duration) -> Result<bool, Fault> {
        let since = server_time(on).await?.saturating_sub(millis(within));
        Ok(on.ask("ZCOUNT", (&self.keys.workers, since, "+inf")).await?.count()? > 0)
    }

    /// What a worker holds; large holdings are read in chunks. First what its inbox has, which goes under a lease from there.
    pub(crate) async fn running(
        &self,
        on: &Connection,
        keys: &WorkerKeys,
    ) -> Result<Vec<RunningEntry>, Fault> {
        let mut inbox =
            on.ask("LRANGE", (&keys.inbox, 0, Portion::FEW)).await?.rest(Reply::bytes)?;
        let leases = scan_hash(on, &keys.progress).await?;
        // What was taken from it meanwhile.
        inbox.retain(|handed| !leases.iter().any(|(_, payload)| payload == handed));
        let handed = inbox.into_iter().map(|payload| RunningEntry { lease: None, payload });
        let under_leases = leases.into_iter().map(|(lease, payload)| {
            let lease = Some(Lease::parse(&String::from_utf8_lossy(&lease)));
            RunningEntry { lease, payload }
        });
        Ok(handed.chain(under_leases).collect())
    }

    /// Pending envelopes in any order; the one that is taken next has the place 0.
    pub(crate) async fn pending(
        &self,
        on: &Connection,
        places: Range<usize>,
    ) -> Result<Vec<Vec<u8>>, Fault> {
        let (first, last) = (-places.end.cast_signed(), -1 - places.start.cast_signed());
        on.ask("LRANGE", (&self.keys.jobs, first, last)).await?.rest(Reply::bytes)
    }

    /// Envelopes of a sorted set with their scores, the last one first: the due time in ms of scheduled ones, the token of parked ones.
    pub(crate) async fn by_score(
        &self,
        on: &Connection,
        set: &str,
        places: Range<usize>,
    ) -> Result<Vec<(Vec<u8>, u64)>, Fault> {
        let range = (set, places.start, places.end - 1, "REV", "WITHSCORES");
        on.ask("ZRANGE", range).await?.rest(|entry| {
            let mut entry = entry.list()?;
            Ok((entry.bytes()?, entry.count()?))
        })
    }

    /// Records of failed jobs, the newest first.
    pub(crate) async fn failed(
        &self,
        on: &Connection,
        offset: u64,
        count: u64,
    ) -> Result<Vec<Vec<u8>>, Fault> {
        // The server takes no place beyond that.
        let [first, last] = [offset, offset.saturating_add(count) - 1].map(|at| at.min(1 << 62));
        on.ask("LRANGE", (&self.keys.failed, first, last)).await?.rest(Reply::bytes)
    }

    /// Every broken payload.
    pub(crate) async fn broken(&self, on: &Connection) -> Result<Vec<BrokenEntry>, Fault> {
        let entries = scan_hash(on, &self.keys.broken).await?;
        let entry = |(payload, note): (Vec<u8>, Vec<u8>)| {
            let note = String::from_utf8_lossy(&note).into_owned();
            let mut parts = note.splitn(3, ' ');
            let mut number = || parts.next().and_then(|part| part.parse().ok()).unwrap_or(0);
            let (times, at) = (number(), number());
            BrokenEntry { payload, times, at, reason: parts.next().unwrap_or_default().to_owned() }
        };
        Ok(entries.into_iter().map(entry).collect())
    }
}
