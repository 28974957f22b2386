//! Puts jobs into a queue.

use std::time::Duration;

use crate::store::Script;
use crate::store::net::{Call, Connection, Fault};
use crate::store::queue::Queue;

impl Queue {
    /// Puts envelopes at the back of the list of their priority, the first of them ahead of the others.
    pub(crate) async fn enqueue(
        &self,
        to: &Connection,
        envelopes: &[impl AsRef<[u8]>],
        within: Duration,
    ) -> Result<(), Fault> {
        if !self.priority.list().is_empty() {
            return self.push(to, envelopes, "LPUSH", within).await;
        }
        // Made in one piece: growing would copy the jobs again and again.
        let bytes: usize = envelopes.iter().map(|envelope| envelope.as_ref().len()).sum();
        let mut command = redis::Cmd::with_capacity(2 + envelopes.len(), 100 + bytes);
        command.arg("LPUSH").arg(&self.keys.jobs);
        for envelope in envelopes {
            command.arg(envelope.as_ref());
        }
        to.call(&command, within).await.map(drop)
    }

    /// Puts envelopes at the front of the list of their priority, the first of them ahead of the others.
    pub(crate) async fn enqueue_in_front(
        &self,
        to: &Connection,
        envelopes: &[impl AsRef<[u8]>],
        within: Duration,
    ) -> Result<(), Fault> {
        self.push(to, envelopes, "RPUSH", within).await
    }

    async fn push(
        &self,
        to: &Connection,
        envelopes: &[impl AsRef<[u8]>],
        how: &str,
        within: Duration,
    ) -> Result<(), Fault> {
        let mut call = Call::new(Script::Push, &[&self.keys.jobs, &self.keys.token]);
        call.arg(self.priority.list()).arg(how);
        for envelope in envelopes {
            call.arg(envelope.as_ref());
        }
        to.run(&call, within).await.map(drop)
    }
}
