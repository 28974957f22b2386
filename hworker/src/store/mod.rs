//! Typed operations on what is in Redis, one function per script: the only module that knows keys, Lua and the
//! redis crate. What to do when a call fails is decided by the callers.

mod address;
mod advice;
mod cluster;
mod confirm;
mod connection;
mod fault;
mod inspect;
mod lease;
mod life;
mod line;
#[macro_use]
mod lua;
mod parked;
mod probe;
mod queues;
mod reply;
mod script;
mod sentinel;
mod server;
#[cfg_attr(not(feature = "tls"), path = "tls/without.rs")]
mod tls;

use std::sync::Arc;
use std::time::Duration;

pub(crate) use address::{Address, Home, without_secrets};
pub(crate) use connection::{Connection, LAST_MOMENT};
pub(crate) use fault::{Fault, FaultKind};
pub(crate) use inspect::{BrokenEntry, Load, Portion, RunningEntry, WorkerEntry, server_time};
pub(crate) use lease::{End, Lease, LeaseMap, Reserved, Settled, Settlement};
pub(crate) use life::{
    Asked, Beat, Heard, Reconciled, Recovered, connection_id, end_wait, lengths,
};
pub(crate) use line::Meter;
pub(crate) use parked::ParkedEntry;
pub(crate) use queues::QueueRegistry;
pub(crate) use server::{runs_scripts, server_info};

use crate::config::Limits;
use crate::keys::{KeySpace, Keys};
use crate::shards;
use connection::Call;

/// After so long without a byte on its line a call that does not block is given up, with its connection.
pub(crate) const CALL_WITHIN: Duration = Duration::from_secs(5);

/// No script moves more bytes than about this, unless they are one job's: it takes 2 to 3 ms for as many, since Lua copies and hashes
/// each of them, and nobody else is answered meanwhile.
pub(crate) const SCRIPT_BYTES: usize = 1024 * 1024;

/// No write has more bytes than about this, unless they are one job's, so that on a slow line others are not long behind it.
pub(crate) const WRITE_BYTES: usize = 4 * 1024 * 1024;

/// No script moves more jobs than this.
pub(crate) const SCRIPT_JOBS: usize = 1000;

/// Of jobs that do not just end, but are put elsewhere one by one, no script moves more than this: each takes up to ten times as
/// long as an ack (5 us for a retry with a delay), and nobody else is answered meanwhile.
pub(crate) const SCRIPT_MOVES: usize = 250;

/// How long the counters of one day are kept.
const DAY_TTL_S: u64 = 90 * 86_400;

/// One queue in Redis, or one shard of a queue: to all but those who choose among them the two are the same.
#[derive(Debug, Clone)]
pub(crate) struct Queue {
    pub(crate) name: Arc<str>,
    /// The shard's name: that of the queue, or one that no queue has.
    pub(crate) label: Arc<str>,
    pub(crate) keys: Keys,
    /// The slot of all its keys, where there are slots.
    pub(crate) slot: u16,
    pub(crate) limits: Limits,
}

/// When a scheduled job is due, in ms.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Due {
    In(u64),
    At(u64),
}

impl Queue {
    pub(crate) fn new(space: &KeySpace, name: &str, shard: usize, limits: Limits) -> Self {
        let spelled = shards::spelled(name, shard);
        let slot = shards::slot(&spelled);
        let keys = Keys::new(space, &spelled);
        Self { name: name.into(), label: spelled.into(), keys, slot, limits }
    }

    /// Puts envelopes at the back, the first of them ahead of the others.
    pub(crate) async fn enqueue(
        &self,
        to: &Connection,
        envelopes: &[impl AsRef<[u8]>],
        within: Duration,
    ) -> Result<(), Fault> {
        // Made in one piece: growing would copy the jobs again and again.
        let bytes: usize = envelopes.iter().map(|envelope| envelope.as_ref().len()).sum();
        let mut command = redis::Cmd::with_capacity(2 + envelopes.len(), 100 + bytes);
        command.arg("LPUSH").arg(&self.keys.jobs);
        for envelope in envelopes {
            command.arg(envelope.as_ref());
        }
        to.call(&command, within).await.map(drop)
    }

    /// Schedules envelopes, all or none.
    pub(crate) async fn schedule(
        &self,
        to: &Connection,
        envelopes: &[(Due, &[u8])],
        within: Duration,
    ) -> Result<(), Fault> {
        let mut call = Call::new(&script::SCHEDULE, &[&self.keys.scheduled, &self.keys.bell]);
        for (due, envelope) in envelopes {
            match due {
                Due::In(ms) => call.arg("in").number(*ms),
                Due::At(ms) => call.arg("at").number(*ms),
            };
            call.arg(*envelope);
        }
        let within = to.free_to_write(within).await?;
        let (_, confirmed) = to.run_beside(&call, within, || to.confirm(1)).await?;
        confirmed
    }

    /// Moves up to 1000 due jobs to the queue; gives how many, and how long until the next is due.
    pub(crate) async fn promote(&self, on: &Connection) -> Result<(u64, Option<Duration>), Fault> {
        let mut call = Call::new(&script::PROMOTE, &[&self.keys.scheduled, &self.keys.jobs]);
        call.number(SCRIPT_JOBS as u64).number(SCRIPT_BYTES as u64);
        let mut reply = reply::Reply::list("promote", on.run(&call, CALL_WITHIN).await?)?;
        let moved = reply.count()?;
        Ok((moved, u64::try_from(reply.number()?).ok().map(Duration::from_millis)))
    }

    /// Waits until the bell is rung, at most so long.
    pub(crate) async fn await_bell(&self, on: &Connection, at_most: Duration) -> Result<(), Fault> {
        let mut command = redis::cmd("BLPOP");
        // Zero would wait for ever.
        let seconds = at_most.as_secs_f64().max(0.001);
        command.arg(&self.keys.bell).arg(format!("{seconds:.3}"));
        on.call(&command, at_most + CALL_WITHIN).await.map(drop)
    }
}
