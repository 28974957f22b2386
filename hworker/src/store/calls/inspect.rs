//! Reads for a person: workers and jobs.

use std::time::Duration;

use super::lease::Lease;
use super::scan::scan_hash;
use crate::keys::WorkerKeys;
use crate::store::net::{Connection, Fault, server_time};
use crate::store::queue::Queue;
use crate::store::reply::Reply;
use crate::time::millis;

/// So many payloads of an inbox are read; it has no more than one for each wait that is under way.
const INBOX: usize = 16;

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

/// A part of a sorted set.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Range {
    /// The lowest and the highest score.
    pub(crate) since: u64,
    pub(crate) until: u64,
    /// The score at which it begins.
    pub(crate) from: Option<u64>,
    pub(crate) newest_first: bool,
    pub(crate) skip: u64,
    pub(crate) count: u64,
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
        let mut inbox = on.ask("LRANGE", (&keys.inbox, 0, INBOX)).await?.rest(Reply::bytes)?;
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

    /// Waiting payloads at these places, counted from the one that is taken next, or from the newest.
    pub(crate) async fn waiting(
        &self,
        on: &Connection,
        places: std::ops::Range<u64>,
        oldest_first: bool,
    ) -> Result<Vec<Vec<u8>>, Fault> {
        let [start, end] = [places.start, places.end].map(|place| place.min(1 << 62) as i64);
        let (first, last) = if oldest_first { (-end, -1 - start) } else { (start, end - 1) };
        let mut payloads =
            on.ask("LRANGE", (&self.keys.jobs, first, last)).await?.rest(Reply::bytes)?;
        if oldest_first {
            payloads.reverse();
        }
        Ok(payloads)
    }

    /// Members of a sorted set with their scores: of scheduled ones the due time in ms, of parked ones their token, of ended ones the
    /// time of their end in ms.
    pub(crate) async fn sorted(
        &self,
        on: &Connection,
        set: &str,
        range: Range,
    ) -> Result<Vec<(Vec<u8>, u64)>, Fault> {
        // What has no bound has none, as somebody else may have written any score.
        let since = if range.since == 0 { "-inf".into() } else { range.since.to_string() };
        let until = if range.until == u64::MAX { "+inf".into() } else { range.until.to_string() };
        let begin = if range.newest_first { until.clone() } else { since.clone() };
        let from = range.from.map_or(begin, |from| from.to_string());
        let bounds = if range.newest_first { (from, since) } else { (from, until) };
        let limit = ("LIMIT", range.skip.min(1 << 62), range.count, "WITHSCORES");
        let reply = if range.newest_first {
            on.ask("ZRANGE", (set, bounds, "BYSCORE", "REV", limit)).await
        } else {
            on.ask("ZRANGE", (set, bounds, "BYSCORE", limit)).await
        };
        reply?.rest(|entry| {
            let mut entry = entry.list()?;
            Ok((entry.bytes()?, entry.count()?))
        })
    }

    /// Broken payloads from a cursor of `HSCAN` on, about so many, and the next cursor, 0 behind the last.
    pub(crate) async fn broken(
        &self,
        on: &Connection,
        cursor: u64,
        count: u64,
    ) -> Result<(u64, Vec<BrokenEntry>), Fault> {
        let mut reply = on.ask("HSCAN", (&self.keys.broken, cursor, "COUNT", count)).await?;
        let next = reply.text()?.parse().unwrap_or(0);
        let entries = reply.list()?.rest(|fields| {
            let (payload, note) = (fields.bytes()?, fields.text()?);
            let mut parts = note.splitn(3, ' ');
            let mut number = || parts.next().and_then(|part| part.parse().ok()).unwrap_or(0);
            let (times, at) = (number(), number());
            let reason = parts.next().unwrap_or_default().to_owned();
            Ok(BrokenEntry { payload, times, at, reason })
        });
        Ok((next, entries?))
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
