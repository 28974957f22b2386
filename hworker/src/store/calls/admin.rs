//! The changes that a person makes.

use std::sync::atomic::{AtomicU64, Ordering};

use super::lease::Lease;
use super::scan::{SCAN, Scan};
use crate::envelope::{JobId, keeps};
use crate::keys::WorkerKeys;
use crate::store::net::{Call, Connection, Fault};
use crate::store::queue::Queue;
use crate::store::reply::Reply;
use crate::store::{CALL_WITHIN, Script};

impl Queue {
    /// Puts a broken payload back to its queue; false when it is not there.
    pub(crate) async fn requeue_broken(
        &self,
        on: &Connection,
        payload: &[u8],
    ) -> Result<bool, Fault> {
        let keys = &self.keys;
        let mut call = Call::new(Script::RequeueBroken, &[&keys.broken, &keys.jobs, &keys.kept]);
        let of_result = keeps(payload).map(|(id, _)| id);
        call.arg(payload).arg(of_result.as_ref().map_or("", JobId::as_str));
        Ok(on.run(&call, CALL_WITHIN).await?.text()? == "ok")
    }

    /// Deletes a broken payload; false when it is not there.
    pub(crate) async fn delete_broken(
        &self,
        on: &Connection,
        payload: &[u8],
    ) -> Result<bool, Fault> {
        Ok(on.ask("HDEL", (&self.keys.broken, payload)).await?.count()? == 1)
    }

    /// Takes a lease from the worker that holds it; false when it is not held.
    pub(crate) async fn revoke(
        &self,
        on: &Connection,
        keys: &WorkerKeys,
        lease: &Lease,
    ) -> Result<bool, Fault> {
        let mut call = Call::new(Script::Revoke, &[&keys.progress, &self.keys.jobs, &keys.record]);
        call.lease(lease);
        Ok(on.run(&call, CALL_WITHIN).await?.text()? == "ok")
    }

    /// Tells a worker to end a job that it runs; false where it does not hold it.
    pub(crate) async fn cancel(
        &self,
        on: &Connection,
        keys: &WorkerKeys,
        lease: &Lease,
    ) -> Result<bool, Fault> {
        let mut call = Call::new(Script::Cancel, &[&keys.progress, &keys.record]);
        call.lease(lease);
        Ok(on.run(&call, CALL_WITHIN).await?.text()? == "ok")
    }

    /// Deletes every key of the queue, and counts them.
    pub(crate) async fn destroy(&self, on: &Connection, deleted: &AtomicU64) -> Result<(), Fault> {
        let (mut scan, options) = (Scan::new(), ("MATCH", self.keys.pattern(), "COUNT", SCAN));
        while let Some(mut keys) =
            scan.next(on, &options).await.map_err(Fault::certainly_not_done)?
        {
            let mut own = keys.rest(Reply::text)?;
            own.retain(|key| self.keys.owns(key));
            if !own.is_empty() {
                let unlinked = on.ask("UNLINK", own).await?.count()?;
                deleted.fetch_add(unlinked, Ordering::Relaxed);
            }
        }
        Ok(())
    }
}
