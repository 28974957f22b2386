//! Jobs that each worker runs once, or each of so many.

use super::lease::Lease;
use crate::keys::WorkerKeys;
use crate::store::net::{Call, Connection, Fault};
use crate::store::queue::Queue;
use crate::store::reply::Reply;
use crate::store::{CALL_WITHIN, Script};

/// A queue has no more of them at a time: each worker looks at all with each heartbeat.
pub(crate) const MOST_BROADCASTS: u64 = 100;

/// How many workers run a job, and for how long they begin it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Each {
    /// 0 for all.
    pub(crate) most: u32,
    /// In ms.
    pub(crate) lasts: u64,
}

/// What there is of such a job.
#[derive(Debug)]
pub(crate) struct BroadcastEntry {
    pub(crate) id: String,
    pub(crate) most: u64,
    pub(crate) expires_at: u64,
    pub(crate) job: String,
    pub(crate) running: u64,
    pub(crate) again: u64,
    pub(crate) ended: u64,
}

/// What `take_broadcast` answers.
pub(crate) enum Taken {
    Copy(Lease, Vec<u8>),
    /// It is over, or its type is held up, or it is not for this worker.
    Gone,
    /// The worker was declared dead.
    Void,
    /// The session is an older one.
    Stale,
    /// The queue gives no jobs.
    Closed,
}

impl Queue {
    /// Takes it in. False where the queue has as many as it may.
    pub(crate) async fn broadcast(
        &self,
        on: &Connection,
        (id, job): (&str, &str),
        each: Each,
        envelope: &[u8],
        within: std::time::Duration,
    ) -> Result<bool, Fault> {
        let mut call = Call::new(Script::Broadcast, &[&self.keys.jobs]);
        call.arg(id).number(u64::from(each.most)).number(each.lasts).number(MOST_BROADCASTS);
        call.arg(job).arg(envelope);
        let mut reply = on.run(&call, within).await?;
        match reply.text()?.as_str() {
            "ok" => Ok(true),
            "full" => Ok(false),
            word => Err(reply.unknown(word)),
        }
    }

    /// The envelope of one, if it is not over, and whether it is for all workers.
    pub(crate) async fn look_broadcast(
        &self,
        on: &Connection,
        id: &str,
    ) -> Result<Option<(Vec<u8>, bool)>, Fault> {
        let mut ask = redis::Pipeline::new();
        ask.cmd("HMGET").arg(self.keys.broadcast_of(id)).arg("");
        ask.cmd("HMGET").arg(self.keys.broadcasts()).arg(id);
        let mut values = Vec::new();
        for reply in on.ask_all(&ask).await? {
            values.push(reply?.value()?);
        }
        let [redis::Value::BulkString(payload), redis::Value::BulkString(terms)] = &mut *values
        else {
            return Ok(None);
        };
        Ok(Some((std::mem::take(payload), terms.starts_with(b"0 "))))
    }

    /// Takes a worker's copy of one, of this type.
    pub(crate) async fn take_broadcast(
        &self,
        on: &Connection,
        worker: &WorkerKeys,
        session: u64,
        (id, job): (&str, &str),
    ) -> Result<Taken, Fault> {
        let keys = &self.keys;
        let mut call = Call::new(
            Script::TakeBroadcast,
            &[&worker.record, &worker.progress, &keys.token, &keys.jobs, &keys.bell],
        );
        call.number(session).arg(id).arg(job);
        let mut reply = on.run(&call, CALL_WITHIN).await?;
        match reply.text()?.as_str() {
            "ok" => Ok(Taken::Copy(Lease::read(&mut reply)?, reply.bytes()?)),
            "gone" => Ok(Taken::Gone),
            "void" => Ok(Taken::Void),
            "stale" => Ok(Taken::Stale),
            "closed" => Ok(Taken::Closed),
            word => Err(reply.unknown(word)),
        }
    }

    /// The ids of those that a worker is to take.
    pub(crate) async fn open_broadcasts(
        &self,
        on: &Connection,
        worker: &WorkerKeys,
    ) -> Result<Vec<String>, Fault> {
        let call = Call::new(Script::FindBroadcasts, &[&self.keys.jobs, &worker.progress]);
        on.run(&call, CALL_WITHIN).await?.rest(Reply::text)
    }

    /// All that are not over, in no order.
    pub(crate) async fn broadcasts(&self, on: &Connection) -> Result<Vec<BroadcastEntry>, Fault> {
        let call = Call::new(Script::LookBroadcasts, &[&self.keys.jobs]);
        on.run(&call, CALL_WITHIN).await?.rest(|reply| {
            Ok(BroadcastEntry {
                id: reply.text()?,
                most: reply.count()?,
                expires_at: reply.count()?,
                job: reply.text()?,
                running: reply.count()?,
                again: reply.count()?,
                ended: reply.count()?,
            })
        })
    }

    /// Ends one; gives how many workers that run it were told to end it, or nothing where there is none.
    pub(crate) async fn cancel_broadcast(
        &self,
        on: &Connection,
        id: &str,
    ) -> Result<Option<u64>, Fault> {
        let mut call = Call::new(Script::CancelBroadcast, &[&self.keys.jobs]);
        call.arg(id);
        let mut reply = on.run(&call, CALL_WITHIN).await?;
        match reply.text()?.as_str() {
            "ok" => {}
            "missing" => return Ok(None),
            word => return Err(reply.unknown(word)),
        }
        let (of_any, mut told) = (self.keys.worker("").progress, 0);
        for (progress, lease) in reply.rest(|reply| Ok((reply.text()?, Lease::read(reply)?)))? {
            let Some(worker) = progress.strip_prefix(&of_any) else { continue };
            told += u64::from(self.cancel(on, &self.keys.worker(worker), &lease).await?);
        }
        Ok(Some(told))
    }
}
