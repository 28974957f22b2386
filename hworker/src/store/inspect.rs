//! Reads, and the few changes that a person makes.

use redis::Value;

use super::connection::Call;
use super::lease::Lease;
use super::reply::{Reply, bytes, number, word};
use super::{CALL_WITHIN, Connection, Fault, Queue, script};
use crate::keys::WorkerKeys;

/// Keys and fields that one `SCAN` looks at.
const SCAN: usize = 1000;

/// What a worker holds.
#[derive(Debug)]
pub(crate) struct RunningEntry {
    pub(crate) lease: Lease,
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
    /// How many are pending, scheduled, failed and broken.
    pub(crate) async fn counts(&self, on: &Connection) -> Result<[u64; 4], Fault> {
        let keys = &self.keys;
        let lengths = [
            ("LLEN", &keys.jobs),
            ("ZCARD", &keys.scheduled),
            ("LLEN", &keys.failed),
            ("HLEN", &keys.broken),
        ];
        let mut counts = [0; 4];
        for (count, (command, key)) in counts.iter_mut().zip(lengths) {
            let length = on.call(redis::cmd(command).arg(key), CALL_WITHIN).await?;
            *count = number("a length", &length)?.unsigned_abs();
        }
        Ok(counts)
    }

    /// Every worker that the server remembers, the dead ones too.
    pub(crate) async fn workers(&self, on: &Connection) -> Result<Vec<WorkerEntry>, Fault> {
        let mut command = redis::cmd("ZRANGE");
        command.arg(&self.keys.workers).arg(0).arg(-1);
        let mut ids = Reply::list("ZRANGE", on.call(&command, CALL_WITHIN).await?)?;
        let mut workers = Vec::with_capacity(ids.left());
        while ids.left() > 0 {
            let id = ids.text()?;
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

    /// What a worker holds; large holdings are read in chunks.
    pub(crate) async fn running(
        &self,
        on: &Connection,
        keys: &WorkerKeys,
    ) -> Result<Vec<RunningEntry>, Fault> {
        let mut running = Vec::new();
        for (lease, payload) in scan_hash(on, &keys.progress).await? {
            running.push(RunningEntry {
                lease: Lease::parse(&String::from_utf8_lossy(&lease)),
                payload,
            });
        }
        Ok(running)
    }

    /// Pending envelopes, the next one first.
    pub(crate) async fn pending(
        &self,
        on: &Connection,
        offset: u64,
        count: u64,
    ) -> Result<Vec<Vec<u8>>, Fault> {
        let (first, last) =
            (-1 - offset.cast_signed(), -offset.cast_signed() - count.cast_signed());
        let mut command = redis::cmd("LRANGE");
        command.arg(&self.keys.jobs).arg(last).arg(first);
        let mut envelopes = list(on.call(&command, CALL_WITHIN).await?)?;
        envelopes.reverse();
        Ok(envelopes)
    }

    /// Scheduled envelopes with their due time in ms, the next one first.
    pub(crate) async fn scheduled(
        &self,
        on: &Connection,
        offset: u64,
        count: u64,
    ) -> Result<Vec<(Vec<u8>, u64)>, Fault> {
        let mut command = redis::cmd("ZRANGE");
        command.arg(&self.keys.scheduled).arg(offset).arg(offset + count - 1).arg("WITHSCORES");
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
        let mut command = redis::cmd("LRANGE");
        command.arg(&self.keys.failed).arg(offset).arg(offset + count - 1);
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

    /// Puts a broken payload back to its queue, as this envelope; false when it is not there.
    pub(crate) async fn requeue_broken(
        &self,
        on: &Connection,
        payload: &[u8],
        envelope: &[u8],
    ) -> Result<bool, Fault> {
        let mut call = Call::new(&script::REQUEUE_BROKEN, &[&self.keys.broken, &self.keys.jobs]);
        call.arg(payload).arg(envelope);
        Ok(word("requeue_broken", on.run(&call, CALL_WITHIN).await?)? == "ok")
    }

    /// Deletes a broken payload; false when it is not there.
    pub(crate) async fn delete_broken(
        &self,
        on: &Connection,
        payload: &[u8],
    ) -> Result<bool, Fault> {
        let deleted =
            on.call(redis::cmd("HDEL").arg(&self.keys.broken).arg(payload), CALL_WITHIN).await?;
        Ok(number("HDEL", &deleted)? == 1)
    }

    /// Takes a lease from the worker that holds it; false when it is not held.
    pub(crate) async fn revoke(
        &self,
        on: &Connection,
        keys: &WorkerKeys,
        lease: &Lease,
    ) -> Result<bool, Fault> {
        let mut call = Call::new(&script::REVOKE, &[&keys.progress, &self.keys.jobs]);
        call.lease(lease);
        Ok(word("revoke", on.run(&call, CALL_WITHIN).await?)? == "ok")
    }

    /// The counters of the queue: in all, or of one day (`YYYYMMDD`).
    pub(crate) async fn counters(
        &self,
        on: &Connection,
        day: Option<&str>,
    ) -> Result<Vec<(String, u64)>, Fault> {
        let key = day.map_or_else(|| self.keys.stat.clone(), |day| self.keys.stat_of(day));
        let counters = pairs(on.call(redis::cmd("HGETALL").arg(key), CALL_WITHIN).await?)?;
        Ok(counters.into_iter().map(|(name, value)| (name, value.parse().unwrap_or(0))).collect())
    }

    /// Deletes every key of the queue; gives how many there were.
    pub(crate) async fn destroy(&self, on: &Connection) -> Result<u64, Fault> {
        let mut deleted = 0;
        let mut cursor = "0".to_owned();
        loop {
            let mut scan = redis::cmd("SCAN");
            scan.arg(&cursor).arg("MATCH").arg(self.keys.pattern()).arg("COUNT").arg(SCAN);
            let keys;
            (cursor, keys) = scanned(on.call(&scan, CALL_WITHIN).await?)?;
            let own: Vec<_> = list(keys)?
                .into_iter()
                .filter(|key| std::str::from_utf8(key).is_ok_and(|key| self.keys.owns(key)))
                .collect();
            if !own.is_empty() {
                let mut unlink = redis::cmd("UNLINK");
                for key in own {
                    unlink.arg(key);
                }
                deleted += number("UNLINK", &on.call(&unlink, CALL_WITHIN).await?)?.unsigned_abs();
            }
            if cursor == "0" {
                return Ok(deleted);
            }
        }
    }
}

/// The server's time in ms.
pub(crate) async fn server_time(on: &Connection) -> Result<u64, Fault> {
    let mut time = Reply::list("TIME", on.call(&redis::cmd("TIME"), CALL_WITHIN).await?)?;
    Ok(time.count()? * 1000 + time.count()? / 1000)
}

async fn scan_hash(on: &Connection, key: &str) -> Result<Vec<(Vec<u8>, Vec<u8>)>, Fault> {
    // A hash may give a field twice while it is being rehashed.
    let mut entries = std::collections::BTreeMap::new();
    let mut cursor = "0".to_owned();
    loop {
        let mut scan = redis::cmd("HSCAN");
        scan.arg(key).arg(&cursor).arg("COUNT").arg(SCAN);
        let fields;
        (cursor, fields) = scanned(on.call(&scan, CALL_WITHIN).await?)?;
        let mut fields = Reply::list("HSCAN", fields)?;
        while fields.left() > 0 {
            entries.insert(fields.bytes()?, fields.bytes()?);
        }
        if cursor == "0" {
            return Ok(entries.into_iter().collect());
        }
    }
}

fn scanned(reply: Value) -> Result<(String, Value), Fault> {
    let Value::Array(parts) = reply else { return Err(Fault::reply("SCAN", "not a list")) };
    let mut parts = parts.into_iter();
    let cursor = bytes("SCAN", parts.next().unwrap_or_default())?;
    Ok((String::from_utf8_lossy(&cursor).into(), parts.next().unwrap_or_default()))
}

fn list(reply: Value) -> Result<Vec<Vec<u8>>, Fault> {
    let mut reply = Reply::list("a list", reply)?;
    let mut values = Vec::with_capacity(reply.left());
    while reply.left() > 0 {
        values.push(reply.bytes()?);
    }
    Ok(values)
}

fn pairs(reply: Value) -> Result<Vec<(String, String)>, Fault> {
    let mut reply = Reply::list("a hash", reply)?;
    let mut pairs = Vec::with_capacity(reply.left() / 2);
    while reply.left() > 0 {
        pairs.push((reply.text()?, reply.text()?));
    }
    Ok(pairs)
}
