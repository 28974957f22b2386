//! The leases that a worker holds, and the envelopes under them.

use super::lease::Lease;
use super::read::read_hash;
use crate::keys::WorkerKeys;
use crate::store::net::{Connection, Fault};
use crate::store::queue::Queue;

impl Queue {
    /// The leases that a worker holds, in no order.
    pub(crate) async fn leases(
        &self,
        on: &Connection,
        worker: &WorkerKeys,
    ) -> Result<Vec<Lease>, Fault> {
        /// Up to so many are read in one command; it takes the server about a millisecond.
        const AT_ONCE: u64 = 5_000;
        if on.ask("HLEN", &worker.progress).await?.count()? <= AT_ONCE {
            return on.ask("HKEYS", &worker.progress).await?.rest(Lease::read);
        }
        // Only short jobs come in such numbers, so reading their payloads along is cheap enough.
        let (mut leases, mut place) = (Vec::new(), Some((0, 0)));
        while let Some(from) = place {
            let (entries, next) = read_hash(on, &worker.progress, from, AT_ONCE).await?;
            let name = |(name, ..): &(Vec<u8>, _, _)| Lease::parse(&String::from_utf8_lossy(name));
            leases.extend(entries.iter().map(name));
            place = next;
        }
        Ok(leases)
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
        let replies = on.ask_all(&ask).await?;
        replies.into_iter().map(|reply| Ok(reply?.count()? as usize)).collect()
    }

    /// The envelopes under these leases; those that are gone are left out.
    pub(crate) async fn held(
        &self,
        on: &Connection,
        keys: &WorkerKeys,
        leases: &[Lease],
    ) -> Result<Vec<(Lease, Vec<u8>)>, Fault> {
        let names: Vec<_> = leases.iter().map(Lease::to_string).collect();
        let mut reply = on.ask("HMGET", (&keys.progress, names)).await?;
        let mut held = Vec::with_capacity(leases.len());
        for lease in leases {
            if let Some(envelope) = reply.maybe_payload()? {
                held.push((lease.clone(), envelope));
            }
        }
        Ok(held)
    }
}
