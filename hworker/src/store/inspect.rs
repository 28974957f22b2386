//! Reads, and the few changes that a person makes.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redis::Value;

use super::connection::Call;
use super::lease::Lease;
use super::reply::{Reply, bytes, number, word};
use super::{CALL_WITHIN, Connection, Fault, Queue, script};
use crate::keys::WorkerKeys;
use crate::time::millis;

/// Keys that one `SCAN` looks at.
pub(super) const SCAN: usize = 1000;

/// What a worker holds.
#[derive(Debug)]
pub(crate) struct RunningEntry {
    /// `None` for what was handed to its inbox, and that it has not taken yet.
    pub(crate) lease: Option<Lease>,
    pub(crate) payload: Vec<u8>,
}

/// How many payloads are asked for at once: so many that their bytes make a reply of some size, going by the largest that came
/// so far, and few at first.
#[derive(Debug)]
pub(crate) struct Portion {
    largest: usize,
    count: usize,
}

impl Portion {
    /// At first.
    const FEW: usize = 16;
    /// At most.
    const MANY: usize = 2000;
    /// A reply of about so many bytes does not hold the server up.
    const BYTES: usize = 1 << 20;

    pub(crate) fn new() -> Self {
        Self { largest: 1, count: Self::FEW }
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// A reply came, in which these have so many bytes.
    pub(crate) fn came(&mut self, sizes: impl IntoIterator<Item = usize>) {
        self.largest = sizes.into_iter().fold(self.largest, usize::max);
        // No more than four times as many: what comes next may be larger.
        let most = (4 * self.count).min(Self::MANY);
        self.count = (Self::BYTES / self.largest).clamp(1, most);
    }
}

/// A payload that could not be decoded.
#[derive(Debug)]
pub(crate) struct BrokenEntry {
    pub(crate) payload: Vec<u8>,
    pub(crate) times: u64,
    pub(crate) at: u64,
    pub(crate) reason: String,
}

/// What there is to do on a queue now.
#[derive(Debug)]
pub(crate) struct Load {
    /// Of the last lease, or 0: no job began before the next one is larger.
    pub(crate) token: u64,
    /// Jobs that wait, or are due.
    pub(crate) pending: u64,
    pub(crate) parked: u64,
    pub(crate) running: u64,
}

/// A worker as the registry has it: its id, last heartbeat in ms, and record.
pub(crate) type WorkerEntry = (String, u64, Vec<(String, String)>);

impl Queue {
    /// How many are pending, scheduled, parked, failed, broken and running.
    pub(crate) async fn counts(&self, on: &Connection) -> Result<[u64; 6], Fault> {
        let keys = &self.keys;
        let ([pending, scheduled, parked, failed, broken], running) = self
            .beside_running(on, |ask| {
                ask.cmd("LLEN").arg(&keys.jobs).cmd("ZCARD").arg(&keys.scheduled);
                ask.cmd("ZCARD").arg(&keys.parked);
                ask.cmd("LLEN").arg(&keys.failed).cmd("HLEN").arg(&keys.broken);
            })
            .await?;
        Ok([pending, scheduled, parked, failed, broken, running])
    }

    /// What there is to do now; of parked jobs those whose tokens are higher than this.
    pub(crate) async fn load(&self, on: &Connection, looked: u64) -> Result<Load, Fault> {
        let now = server_time(on).await?;
        let keys = &self.keys;
        let ([token, pending, due, parked], running) = self
            .beside_running(on, |ask| {
                ask.cmd("GET").arg(&keys.token).cmd("LLEN").arg(&keys.jobs);
                ask.cmd("ZCOUNT").arg(&keys.scheduled).arg("-inf").arg(now);
                ask.cmd("ZCOUNT").arg(&keys.parked).arg(format!("({looked}")).arg("+inf");
            })
            .await?;
        Ok(Load { token, pending: pending + due, parked, running })
    }

    /// What these commands count, and how many jobs run. All is asked in one write, which a server works off without a look at others,
    /// unless there are some hundred workers: so no job is missed, or counted twice, that moves meanwhile.
    async fn beside_running<const N: usize>(
        &self,
        on: &Connection,
        commands: impl Fn(&mut redis::Pipeline),
    ) -> Result<([u64; N], u64), Fault> {
        let keys = &self.keys;
        loop {
            let workers = self.worker_ids(on).await?;
            let mut ask = redis::Pipeline::new();
            ask.cmd("ZCARD").arg(&keys.workers);
            commands(&mut ask);
            for keys in workers.iter().map(|worker| keys.worker(worker)) {
                ask.cmd("HLEN").arg(&keys.progress).cmd("LLEN").arg(&keys.inbox);
            }
            let count = |reply| match reply? {
                Value::Nil => Ok(0),
                reply => number("a length", &reply).map(i64::unsigned_abs),
            };
            let replies = on.call_all(&ask, CALL_WITHIN).await?;
            let counts: Vec<_> = replies.into_iter().map(count).collect::<Result<_, Fault>>()?;
            let counted = counts.split_first().and_then(|(known, counts)| {
                counts.split_first_chunk().map(|(counts, held)| (*known, *counts, held))
            });
            let (known, counts, held) =
                counted.ok_or_else(|| Fault::reply("lengths", "too few"))?;
            // Else others have come since they were looked up.
            if known == workers.len() as u64 {
                return Ok((counts, held.iter().sum()));
            }
        }
    }

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

    /// How many jobs are pending.
    pub(crate) async fn pending_count(&self, on: &Connection) -> Result<usize, Fault> {
        let length = on.call(redis::cmd("LLEN").arg(&self.keys.jobs), CALL_WITHIN).await?;
        Ok(number("LLEN", &length)?.unsigned_abs() as usize)
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

    /// Puts a broken payload back to its queue; false when it is not there.
    pub(crate) async fn requeue_broken(
        &self,
        on: &Connection,
        payload: &[u8],
    ) -> Result<bool, Fault> {
        let mut call = Call::new(&script::REQUEUE_BROKEN, &[&self.keys.broken, &self.keys.jobs]);
        call.arg(payload);
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

    /// Deletes every key of the queue, and counts them.
    pub(crate) async fn destroy(&self, on: &Connection, deleted: &AtomicU64) -> Result<(), Fault> {
        let mut cursor = "0".to_owned();
        loop {
            let mut scan = redis::cmd("SCAN");
            scan.arg(&cursor).arg("MATCH").arg(self.keys.pattern()).arg("COUNT").arg(SCAN);
            let keys;
            let scan = on.call(&scan, CALL_WITHIN).await.map_err(Fault::without_a_job)?;
            (cursor, keys) = scanned(scan)?;
            let own: Vec<_> = list(keys)?
                .into_iter()
                .filter(|key| std::str::from_utf8(key).is_ok_and(|key| self.keys.owns(key)))
                .collect();
            if !own.is_empty() {
                let mut unlink = redis::cmd("UNLINK");
                for key in own {
                    unlink.arg(key);
                }
                let unlinked = number("UNLINK", &on.call(&unlink, CALL_WITHIN).await?)?;
                deleted.fetch_add(unlinked.unsigned_abs(), Ordering::Relaxed);
            }
            if cursor == "0" {
                return Ok(());
            }
        }
    }
}

/// The server's time in ms.
pub(crate) async fn server_time(on: &Connection) -> Result<u64, Fault> {
    let mut time = Reply::list("TIME", on.call(&redis::cmd("TIME"), CALL_WITHIN).await?)?;
    Ok(time.count()? * 1000 + time.count()? / 1000)
}

pub(super) async fn scan_hash(
    on: &Connection,
    key: &str,
) -> Result<Vec<(Vec<u8>, Vec<u8>)>, Fault> {
    // A hash may give a field twice while it is being rehashed.
    let mut entries = std::collections::BTreeMap::new();
    let (mut cursor, mut portion) = ("0".to_owned(), Portion::new());
    loop {
        let mut scan = redis::cmd("HSCAN");
        scan.arg(key).arg(&cursor).arg("COUNT").arg(portion.count());
        let fields;
        (cursor, fields) = scanned(on.call(&scan, CALL_WITHIN).await?)?;
        let mut fields = Reply::list("HSCAN", fields)?;
        let mut largest = 0;
        while fields.left() > 0 {
            let (field, value) = (fields.bytes()?, fields.bytes()?);
            largest = largest.max(field.len() + value.len());
            entries.insert(field, value);
        }
        portion.came([largest]);
        if cursor == "0" {
            return Ok(entries.into_iter().collect());
        }
    }
}

pub(super) fn scanned(reply: Value) -> Result<(String, Value), Fault> {
    let Value::Array(parts) = reply else { return Err(Fault::reply("SCAN", "not a list")) };
    let mut parts = parts.into_iter();
    let cursor = bytes("SCAN", parts.next().unwrap_or_default())?;
    Ok((String::from_utf8_lossy(&cursor).into(), parts.next().unwrap_or_default()))
}

pub(super) fn list(reply: Value) -> Result<Vec<Vec<u8>>, Fault> {
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
