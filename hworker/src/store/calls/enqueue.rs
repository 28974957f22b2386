//! Puts jobs into a queue.

use std::time::Duration;

use crate::store::net::{Connection, Fault};
use crate::store::queue::Queue;

impl Queue {
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
}
