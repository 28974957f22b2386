//! How an idle worker waits for a job, and how its wait is ended.

use std::time::Duration;

use super::reserve::{Reserved, Want, reserved};
use crate::keys::WorkerKeys;
use crate::store::CALL_WITHIN;
use crate::store::net::{Connection, Fault, FaultKind};
use crate::store::queue::Queue;

impl Queue {
    /// Waits until the server hands a job into the worker's inbox, or a ticket if the queue is paused, at most so long, and hands the inbox
    /// over then: sent
    /// together, so that the server does the second as soon as it has done the first.
    ///
    /// Only the second is answered. The answer of a wait would bring the job along once more, however large it is, also one
    /// that `reserve` sets aside because it is larger than a worker takes. So a wait that the server refuses shows in that
    /// this comes back at once and brings nothing.
    pub(crate) async fn reserve_when_handed(
        &self,
        on: &Connection,
        worker: &WorkerKeys,
        session: u64,
        is_paused: bool,
        at_most: Duration,
    ) -> Result<Reserved, Fault> {
        let from = if is_paused { self.keys.gate() } else { self.keys.jobs.clone() };
        let mut wait = redis::cmd("BLMOVE");
        wait.arg(from).arg(&worker.inbox).arg("RIGHT").arg("LEFT");
        // Zero would wait for ever.
        wait.arg(format!("{:.3}", at_most.as_secs_f64().max(0.001)));
        let reserve = self.reserve_call(worker, session, Want::default());
        match on.run_after(wait, &reserve, at_most + CALL_WITHIN).await {
            Err(fault) if fault.kind == FaultKind::NoScript => {
                self.reserve(on, worker, session, Want::default(), CALL_WITHIN).await
            }
            Err(fault) => {
                // If it was refused to leave an answer out, there are more to come than anyone waits for.
                on.end();
                Err(fault)
            }
            Ok(reply) => reserved(reply),
        }
    }

    /// Puts what the server handed into the inbox back to the front. Gives how many.
    pub(crate) async fn return_inbox(
        &self,
        on: &Connection,
        worker: &WorkerKeys,
    ) -> Result<usize, Fault> {
        let from_to = (&worker.inbox, &self.keys.jobs, "LEFT", "RIGHT");
        let mut returned = 0;
        while on.ask("LMOVE", from_to).await?.left() > 0 {
            returned += 1;
        }
        Ok(returned)
    }
}

/// How many entries the inbox and the queue have.
pub(crate) async fn lengths(
    on: &Connection,
    queue: &Queue,
    keys: &WorkerKeys,
) -> Result<(u64, u64), Fault> {
    let inbox = on.ask("LLEN", &keys.inbox).await?.count()?;
    Ok((inbox, on.ask("LLEN", &queue.keys.jobs).await?.count()?))
}

/// The server's number for a connection, by which another connection can end its wait.
pub(crate) async fn connection_id(on: &Connection) -> Result<u64, Fault> {
    on.ask("CLIENT", "ID").await?.count()
}

/// Ends the wait of a connection to the server of this queue as if its time were over.
///
/// A write that changes nothing goes ahead, so that a server whose writes are paused (`CLIENT PAUSE .. WRITE`, `FAILOVER`) keeps this back
/// too: Redis before 7.2 aborts when it is to end the wait of a client whose command it keeps back itself.
pub(crate) async fn end_wait(on: &Connection, queue: &Queue, id: u64) -> Result<(), Fault> {
    let mut both = redis::pipe();
    both.cmd("HDEL").arg(&queue.keys.stat).arg("").cmd("CLIENT").arg("UNBLOCK").arg(id);
    let ended = on.ask_all(&both).await?.pop();
    ended.map_or(Ok(()), |ended| ended.map(drop))
}
