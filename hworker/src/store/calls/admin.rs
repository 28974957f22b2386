//! The changes that a person makes.

use std::sync::atomic::{AtomicU64, Ordering};

use super::lease::Lease;
use super::scan::{SCAN, list, scanned};
use crate::keys::WorkerKeys;
use crate::store::net::{Call, Connection, Fault};
use crate::store::queue::Queue;
use crate::store::reply::{number, word};
use crate::store::{CALL_WITHIN, Script};

impl Queue {
    /// Puts a broken payload back to its queue; false when it is not there.
    pub(crate) async fn requeue_broken(
        &self,
        on: &Connection,
        payload: &[u8],
    ) -> Result<bool, Fault> {
        let mut call = Call::new(Script::RequeueBroken, &[&self.keys.broken, &self.keys.jobs]);
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
        let mut call = Call::new(Script::Revoke, &[&keys.progress, &self.keys.jobs]);
        call.lease(lease);
        Ok(word("revoke", on.run(&call, CALL_WITHIN).await?)? == "ok")
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
