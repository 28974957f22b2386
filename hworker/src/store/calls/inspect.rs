//! Reads for a person: workers and jobs.

use std::ops::Range;
use std::time::Duration;

use redis::Value;

use super::lease::Lease;
use super::scan::{Portion, list, pairs, scan_hash};
use crate::keys::WorkerKeys;
use crate::store::CALL_WITHIN;
use crate::store::net::{Connection, Fault, server_time};
use crate::store::queue::Queue;
use crate::store::reply::{Reply, number};
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
        let mut command = redis::cmd("ZRANGE");
        command.arg(&self.keys.workers).arg(0).arg(-1);
        let mut reply = Reply::list("ZRANGE", on.call(&command, CALL_WITHIN).await?)?;
        let mut ids = Vec::with_capacity(reply.left());
        while reply.left() > 0 {
            ids.push(reply.text()?);
        }
        Ok(ids)
    }

    /// Every worker that the server remembers, the dead ones too.
    pub(crate) async fn workers(&self, on: &Connection) -> Result<Vec<WorkerEntry>, Fault> {
        let ids = self.worker_ids(on).await?;
        let mut workers = Vec::with_capacity(ids.len());
        for id in ids {
            let record = on
                .call(redis::cmd("HGETALL").arg(self.keys.worker(&id).record), CALL_WITHIN)
                .await?;
            let score =
                on.call(redis::cmd("ZSCORE").arg(&self.keys.workers).arg(&id), CALL_WITHIN).await?;
            if score != Value::Nil {
                workers.push((id, number("ZSCORE", &score)?.unsigned_abs(), pairs(record)?));
            }
        }
        Ok(workers)
    }

    /// Whether a worker was heard of within this time.
    pub(crate) async fn is_served(&self, on: &Connection, within: Duration) -> Result<bool, Fault> {
        let since = server_time(on).await?.saturating_sub(millis(within));
        let mut count = redis::cmd("ZCOUNT");
        count.arg(&self.keys.workers).arg(since).arg("+inf");
        Ok(number("ZCOUNT", &on.call(&count, CALL_WITHIN).await?)? > 0)
    }

    /// What a worker holds; large holdings are read in chunks. First what its inbox has, which goes under a lease from there.
    pub(crate) async fn running(
        &self,
        on: &Connection,
        keys: &WorkerKeys,
    ) -> Result<Vec<RunningEntry>, Fault> {
        let mut inbox = redis::cmd("LRANGE");
        inbox.arg(&keys.inbox).arg(0).arg(Portion::FEW);
        let mut inbox = list(on.call(&inbox, CALL_WITHIN).await?)?;
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
        let mut command = redis::cmd("LRANGE");
        command.arg(&self.keys.jobs);
        command.arg(-(places.end.cast_signed())).arg(-1 - places.start.cast_signed());
        list(on.call(&command, CALL_WITHIN).await?)
    }

    /// Envelopes of a sorted set with their scores, the last one first: the due time in ms of scheduled ones, the token of parked ones.
    pub(crate) async fn by_score(
        &self,
        on: &Connection,
        set: &str,
        places: Range<usize>,
    ) -> Result<Vec<(Vec<u8>, u64)>, Fault> {
        let mut command = redis::cmd("ZRANGE");
        command.arg(set).arg(places.start).arg(places.end - 1);
        command.arg("REV").arg("WITHSCORES");
        let Value::Array(entries) = on.call(&command, CALL_WITHIN).await? else {
            return Err(Fault::reply("ZRANGE", "not a list"));
        };
        let mut scheduled = Vec::with_capacity(entries.len());
        for entry in entries {
            let mut entry = Reply::list("ZRANGE", entry)?;
            scheduled.push((entry.bytes()?, entry.count()?));
        }
        Ok(scheduled)
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
        let mut command = redis::cmd("LRANGE");
        command.arg(&self.keys.failed).arg(first).arg(last);
        list(on.call(&command, CALL_WITHIN).await?)
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
