//! The leases that a worker holds, and the envelopes under them.

use redis::Value;

use super::lease::Lease;
use crate::keys::WorkerKeys;
use crate::store::CALL_WITHIN;
use crate::store::net::{Connection, Fault};
use crate::store::queue::Queue;
use crate::store::reply::{Reply, bytes, number};

impl Queue {
    /// The leases that a worker holds, in no order.
    pub(crate) async fn leases(
        &self,
        on: &Connection,
        worker: &WorkerKeys,
    ) -> Result<Vec<Lease>, Fault> {
        /// Up to so many are read in one command; it takes the server about a millisecond.
        const AT_ONCE: i64 = 5_000;
        let length = on.call(redis::cmd("HLEN").arg(&worker.progress), CALL_WITHIN).await?;
        let mut leases = Vec::new();
        if number("HLEN", &length)? <= AT_ONCE {
            let mut reply = Reply::list(
                "HKEYS",
                on.call(redis::cmd("HKEYS").arg(&worker.progress), CALL_WITHIN).await?,
            )?;
            while reply.left() > 0 {
                leases.push(Lease::parse(&reply.text()?));
            }
            return Ok(leases);
        }
        // Only short jobs come in such numbers, so reading their payloads along is cheap enough.
        let mut cursor = "0".to_owned();
        loop {
            let mut scan = redis::cmd("HSCAN");
            scan.arg(&worker.progress).arg(&cursor).arg("COUNT").arg(1000);
            let Value::Array(parts) = on.call(&scan, CALL_WITHIN).await? else {
                return Err(Fault::reply("HSCAN", "not a list"));
            };
            let mut parts = parts.into_iter();
            cursor =
                String::from_utf8_lossy(&bytes("HSCAN", parts.next().unwrap_or_default())?).into();
            let mut entries = Reply::list("HSCAN", parts.next().unwrap_or_default())?;
            while entries.left() > 0 {
                leases.push(Lease::parse(&entries.text()?));
                entries.maybe_bytes()?;
            }
            if cursor == "0" {
                return Ok(leases);
            }
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
}
