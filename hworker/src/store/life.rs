//! The life of a worker in Redis: its connections, heartbeats, end, and recovery by others.

use redis::Value;

use super::connection::Call;
use super::reply::{Reply, number, word};
use super::{CALL_WITHIN, Connection, DAY_TTL_S, Fault, Lease, Queue, script};
use crate::keys::{Keys, WorkerKeys};
use std::time::Duration;

/// The timer is kept for so long without a heartbeat.
const TIMER_TTL_MS: u64 = 4_000;

/// Workers that are read with one command, or asked about in one write.
const SILENT_AT_ONCE: usize = 1000;

/// A worker is remembered for so long after its death.
const BURY_AFTER_S: u64 = 86_400;

/// What `reconcile` answers.
#[derive(Debug)]
pub(crate) enum Reconciled {
    /// The new session, the server's time in ms, and the leases that the worker holds.
    Session { session: u64, now: u64, leases: Vec<Lease> },
    /// The worker was declared dead.
    Void,
}

/// What `heartbeat` answers.
#[derive(Debug)]
pub(crate) enum Beat {
    Accepted(Heard),
    /// The worker was declared dead.
    Void,
}

/// What a heartbeat asks.
#[derive(Debug)]
pub(crate) struct Asked {
    /// Leaves out workers that were last heard of longer ago.
    pub(crate) window: Duration,
    /// Of whom keeps the timer alone: does not.
    pub(crate) everyone: bool,
    /// The token of the parked job that this worker looked at last.
    pub(crate) looked: u64,
    /// Jobs that are parked for longer are to be broken.
    pub(crate) unknown_for: Duration,
    /// The worker was told to stop.
    pub(crate) stopping: bool,
}

/// What an accepted heartbeat tells.
#[derive(Debug)]
pub(crate) struct Heard {
    /// The server's time in ms.
    pub(crate) now: u64,
    pub(crate) leases: u64,
    pub(crate) inbox: u64,
    pub(crate) waiting: u64,
    pub(crate) keeps_timer: bool,
    pub(crate) next_due: Option<Duration>,
    /// Parked jobs that this worker has not looked at.
    pub(crate) parked: u64,
    /// Parked jobs that are to be broken.
    pub(crate) overdue: u64,
    /// Workers that were last heard of more than 2 s ago or in the future, with that heartbeat as the server has it.
    pub(crate) silent: Vec<(String, String)>,
}

/// What `recover` answers.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Recovered {
    /// `declared` is true of the call that made it dead; `left` and `inbox` are how many leases it has still, and how many jobs are in
    /// its inbox.
    Given {
        jobs: u64,
        left: u64,
        declared: bool,
        inbox: u64,
    },
    Alive,
}

/// What another worker's record says to a monitor.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Remembered {
    pub(crate) dead: bool,
    pub(crate) dead_after: Option<Duration>,
    /// It was told to stop.
    pub(crate) stopping: bool,
}

impl Remembered {
    fn read(reply: Value) -> Result<Self, Fault> {
        let mut reply = Reply::list("HMGET", reply)?;
        let dead = reply.maybe_bytes()?.is_some();
        let dead_after = reply.maybe_bytes()?;
        let dead_after = dead_after.and_then(|ms| String::from_utf8(ms).ok()?.parse().ok());
        let stopping = reply.maybe_bytes()?.is_some();
        Ok(Self { dead, dead_after: dead_after.map(Duration::from_millis), stopping })
    }
}

impl Queue {
    /// Begins a connection of a worker.
    pub(crate) async fn reconcile(
        &self,
        on: &Connection,
        keys: &WorkerKeys,
        worker: &str,
        first: bool,
        record: &[(&str, String)],
    ) -> Result<Reconciled, Fault> {
        let mut call = Call::new(
            &script::RECONCILE,
            &[&self.keys.workers, &keys.record, &keys.progress, &keys.inbox, &self.keys.token],
        );
        call.arg(worker).arg(if first { "first" } else { "again" });
        for (field, value) in record {
            call.arg(*field).arg(value.as_str());
        }
        let mut reply = Reply::list("reconcile", on.run(&call, CALL_WITHIN).await?)?;
        match reply.text()?.as_str() {
            "ok" => {}
            "void" => return Ok(Reconciled::Void),
            word => return Err(Fault::reply("reconcile", format!("unknown word `{word}`"))),
        }
        let (session, now) = (reply.count()?, reply.count()?);
        let mut leases = Vec::with_capacity(reply.left());
        while reply.left() > 0 {
            leases.push(Lease::parse(&reply.text()?));
        }
        Ok(Reconciled::Session { session, now, leases })
    }

    /// Says that the worker lives, and asks what is new to it.
    pub(crate) async fn heartbeat(
        &self,
        on: &Connection,
        keys: &WorkerKeys,
        worker: &str,
        asked: &Asked,
        within: Duration,
    ) -> Result<Beat, Fault> {
        let mut call = Call::new(
            &script::HEARTBEAT,
            &[
                &self.keys.workers,
                &keys.record,
                &keys.progress,
                &keys.inbox,
                &self.keys.timer,
                &self.keys.scheduled,
                &self.keys.jobs,
                &self.keys.parked,
            ],
        );
        call.arg(worker).number(TIMER_TTL_MS).number(crate::time::millis(asked.window));
        call.number(u64::from(asked.everyone)).number(asked.looked);
        call.number(crate::time::millis(asked.unknown_for)).number(u64::from(asked.stopping));
        let mut reply = Reply::list("heartbeat", on.run(&call, within).await?)?;
        match reply.text()?.as_str() {
            "ok" => {}
            "void" => return Ok(Beat::Void),
            word => return Err(Fault::reply("heartbeat", format!("unknown word `{word}`"))),
        }
        let mut heard = Heard {
            now: reply.count()?,
            leases: reply.count()?,
            inbox: reply.count()?,
            waiting: reply.count()?,
            keeps_timer: reply.count()? == 1,
            next_due: u64::try_from(reply.number()?).ok().map(Duration::from_millis),
            parked: reply.count()?,
            overdue: reply.count()?,
            silent: Vec::new(),
        };
        while reply.left() > 0 {
            heard.silent.push((reply.text()?, reply.text()?));
        }
        Ok(Beat::Accepted(heard))
    }

    /// What the records of these workers say of their deaths, in their order; one that is missing, or is not ours, says nothing.
    pub(crate) async fn remembered(
        &self,
        on: &Connection,
        workers: &[&str],
    ) -> Result<Vec<Remembered>, Fault> {
        let mut remembered = Vec::with_capacity(workers.len());
        for some in workers.chunks(SILENT_AT_ONCE) {
            let mut ask = redis::pipe();
            for worker in some {
                ask.cmd("HMGET").arg(self.keys.worker(worker).record).arg("dead");
                ask.arg("dead_after").arg("stopping");
            }
            for reply in on.call_all(&ask, CALL_WITHIN).await? {
                remembered.push(reply.and_then(Remembered::read).unwrap_or_default());
            }
        }
        Ok(remembered)
    }

    /// The workers that were last heard of more than 2 s before `now`, and no longer ago than `window`, or after it, however many
    /// there are.
    pub(crate) async fn silent(
        &self,
        on: &Connection,
        now: u64,
        window: Option<Duration>,
    ) -> Result<Vec<(String, String)>, Fault> {
        let from = |window| now.saturating_sub(crate::time::millis(window)).to_string();
        let ranges = [
            (window.map_or_else(|| "-inf".to_owned(), from), now.saturating_sub(2_000).to_string()),
            (format!("({now}"), "+inf".to_owned()),
        ];
        let mut silent = Vec::new();
        for (from, to) in &ranges {
            for offset in (0..).step_by(SILENT_AT_ONCE) {
                let mut command = redis::cmd("ZRANGEBYSCORE");
                command.arg(&self.keys.workers).arg(from).arg(to);
                command.arg("WITHSCORES").arg("LIMIT").arg(offset).arg(SILENT_AT_ONCE);
                let Value::Array(entries) = on.call(&command, CALL_WITHIN).await? else {
                    return Err(Fault::reply("ZRANGEBYSCORE", "not a list"));
                };
                let last = entries.len() < SILENT_AT_ONCE;
                for entry in entries {
                    let mut entry = Reply::list("ZRANGEBYSCORE", entry)?;
                    silent.push((entry.text()?, entry.text()?));
                }
                if last {
                    break;
                }
            }
        }
        Ok(silent)
    }

    /// Whether each of these workers has a lease or something in its inbox.
    pub(crate) async fn hold_anything(
        &self,
        on: &Connection,
        workers: &[&str],
    ) -> Result<Vec<bool>, Fault> {
        let mut hold = Vec::with_capacity(workers.len());
        for some in workers.chunks(SILENT_AT_ONCE) {
            let mut ask = redis::pipe();
            for worker in some {
                let keys = self.keys.worker(worker);
                ask.cmd("EXISTS").arg(keys.inbox).arg(keys.progress);
            }
            for reply in on.call_all(&ask, CALL_WITHIN).await? {
                hold.push(number("EXISTS", &reply?)? > 0);
            }
        }
        Ok(hold)
    }

    /// Declares a worker dead unless it was heard of since `seen`, and gives back what is said of its inbox, if that is there still, and
    /// these jobs, the youngest first; each as it is given here.
    pub(crate) async fn recover(
        &self,
        on: &Connection,
        worker: &str,
        seen: &str,
        day: &str,
        jobs: &[(Lease, Vec<u8>)],
    ) -> Result<Recovered, Fault> {
        let keys = self.keys.worker(worker);
        let stat_of_day = self.keys.stat_of(day);
        let mut call = Call::new(
            &script::RECOVER,
            &[
                &self.keys.workers,
                &keys.record,
                &keys.progress,
                &keys.inbox,
                &self.keys.jobs,
                &self.keys.stat,
                &stat_of_day,
            ],
        );
        call.arg(worker).arg(seen).number(DAY_TTL_S);
        for (lease, envelope) in jobs {
            call.lease(lease).arg(envelope);
        }
        let mut reply = Reply::list("recover", on.run(&call, CALL_WITHIN).await?)?;
        match reply.text()?.as_str() {
            "ok" => Ok(Recovered::Given {
                jobs: reply.count()?,
                left: reply.count()?,
                declared: reply.count()? == 1,
                inbox: reply.count()?,
            }),
            "alive" => Ok(Recovered::Alive),
            word => Err(Fault::reply("recover", format!("unknown word `{word}`"))),
        }
    }

    /// The bytes of the envelopes under these leases; 0 for those that are gone.
    pub(crate) async fn held_bytes(
        &self,
        on: &Connection,
        keys: &WorkerKeys,
        leases: &[Lease],
    ) -> Result<Vec<usize>, Fault> {
        let mut ask = redis::pipe();
        for lease in leases {
            ask.cmd("HSTRLEN").arg(&keys.progress).arg(lease.to_string());
        }
        let replies = on.call_all(&ask, CALL_WITHIN).await?;
        let bytes = replies.into_iter().map(|reply| number("HSTRLEN", &reply?));
        bytes.map(|bytes| Ok(usize::try_from(bytes?).unwrap_or(usize::MAX))).collect()
    }

    /// The envelopes under these leases; those that are gone are left out.
    pub(crate) async fn held(
        &self,
        on: &Connection,
        keys: &WorkerKeys,
        leases: &[Lease],
    ) -> Result<Vec<(Lease, Vec<u8>)>, Fault> {
        let mut command = redis::cmd("HMGET");
        command.arg(&keys.progress);
        for lease in leases {
            command.arg(lease.to_string());
        }
        let mut reply = Reply::list("HMGET", on.call(&command, CALL_WITHIN).await?)?;
        let mut held = Vec::with_capacity(leases.len());
        for lease in leases {
            if let Some(envelope) = reply.maybe_bytes()? {
                held.push((lease.clone(), envelope));
            }
        }
        Ok(held)
    }

    /// A worker's last call; gives how many leases it leaves behind.
    pub(crate) async fn retire(
        &self,
        on: &Connection,
        keys: &WorkerKeys,
        worker: &str,
    ) -> Result<u64, Fault> {
        let Keys { jobs, timer, workers, .. } = &self.keys;
        let keys = [&keys.record, &keys.progress, &keys.inbox, jobs, timer, workers];
        let mut call = Call::new(&script::RETIRE, &keys.map(String::as_str));
        call.arg(worker);
        Ok(number("retire", &on.run(&call, CALL_WITHIN).await?)?.unsigned_abs())
    }

    /// Forgets a worker that has been dead for a day and holds nothing.
    pub(crate) async fn bury(&self, on: &Connection, worker: &str) -> Result<bool, Fault> {
        let keys = self.keys.worker(worker);
        let mut call = Call::new(
            &script::BURY,
            &[&self.keys.workers, &keys.record, &keys.progress, &keys.inbox],
        );
        call.arg(worker).number(BURY_AFTER_S);
        Ok(word("bury", on.run(&call, CALL_WITHIN).await?)? == "ok")
    }
}

/// How many entries the inbox and the queue have.
pub(crate) async fn lengths(
    on: &Connection,
    queue: &Queue,
    keys: &WorkerKeys,
) -> Result<(u64, u64), Fault> {
    let length = async |key: &str| {
        let length = on.call(redis::cmd("LLEN").arg(key), CALL_WITHIN).await?;
        number("LLEN", &length).map(i64::unsigned_abs)
    };
    Ok((length(&keys.inbox).await?, length(&queue.keys.jobs).await?))
}

/// The server's number for a connection, by which another connection can end its wait.
pub(crate) async fn connection_id(on: &Connection) -> Result<u64, Fault> {
    let id = on.call(redis::cmd("CLIENT").arg("ID"), CALL_WITHIN).await?;
    Ok(number("CLIENT ID", &id)?.unsigned_abs())
}

/// Ends the wait of a connection to the server of this queue as if its time were over.
///
/// A write that changes nothing goes ahead, so that a server whose writes are paused (`CLIENT PAUSE .. WRITE`, `FAILOVER`) keeps this back
/// too: Redis before 7.2 aborts when it is to end the wait of a client whose command it keeps back itself.
pub(crate) async fn end_wait(on: &Connection, queue: &Queue, id: u64) -> Result<(), Fault> {
    let mut nothing = redis::cmd("HDEL");
    nothing.arg(&queue.keys.stat).arg("");
    let mut end = redis::cmd("CLIENT");
    end.arg("UNBLOCK").arg(id);
    on.call_behind(&nothing, &end, CALL_WITHIN).await.map(drop)
}
