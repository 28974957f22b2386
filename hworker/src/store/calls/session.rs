//! The begin and the end of a worker's session with the server.

use super::lease::Lease;
use crate::keys::{Keys, WorkerKeys};
use crate::store::net::{Call, Connection, Fault};
use crate::store::queue::Queue;
use crate::store::{CALL_WITHIN, Script};

/// What `reconcile` answers.
#[derive(Debug)]
pub(crate) enum Reconciled {
    /// The new session, the server's time in ms, and the leases that the worker holds.
    Session { session: u64, now: u64, leases: Vec<Lease> },
    /// The worker was declared dead.
    Void,
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
            Script::Reconcile,
            &[
                &self.keys.workers,
                &keys.record,
                &keys.progress,
                &keys.inbox,
                &self.keys.token,
                &self.keys.jobs,
            ],
        );
        call.arg(worker).arg(if first { "first" } else { "again" });
        for (field, value) in record {
            call.arg(*field).arg(value.as_str());
        }
        let mut reply = on.run(&call, CALL_WITHIN).await?;
        match reply.text()?.as_str() {
            "ok" => Ok(Reconciled::Session {
                session: reply.count()?,
                now: reply.count()?,
                leases: reply.rest(Lease::read)?,
            }),
            "void" => Ok(Reconciled::Void),
            word => Err(reply.unknown(word)),
        }
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
        let mut call = Call::new(Script::Retire, &keys.map(String::as_str));
        call.arg(worker);
        on.run(&call, CALL_WITHIN).await?.count()
    }
}
