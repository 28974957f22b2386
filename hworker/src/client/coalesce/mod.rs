//! Concurrent enqueues share one write.
//!
//! One or two concurrent callers each send their own job, on a connection that exists already. Further callers leave their jobs with
//! the coalescer of the queue: its sender, one task, sends all that wait with one write, and what has arrived since when that is
//! answered. No job waits for a batch to fill, and none depends on another caller's future: the sender lives as long as there is
//! something to send, and a job that waits can be withdrawn until the sender takes it.

mod sender;
#[cfg(test)]
mod tests;
mod waiting;

use std::sync::Arc;

use tokio::runtime::{Handle, Id};

use self::sender::Sender;
use self::waiting::{Coalescer, Turn};
use super::Client;
use crate::durability::Durability;
use crate::priority::Priority;
use crate::store::{Fault, FaultKind, LAST_MOMENT, Queue};

pub(super) use waiting::Coalescers;

impl Client {
    /// Puts a job at the back of those of its priority in a queue, with those that others put there at the same time. Gives the name of its
    /// shard.
    ///
    /// # Cancel safety
    /// When it is dropped, the job is enqueued or not, and certainly not if its turn had not come.
    pub(crate) async fn push(
        &self,
        runtime: Id,
        (queue, priority): (&str, Priority),
        envelope: Vec<u8>,
        confirms: Option<Durability>,
    ) -> Result<Arc<str>, Fault> {
        let coalescers = &self.inner.coalescers;
        let coalescer = match self.next_shard(queue) {
            None => coalescers.of(runtime, (queue, priority), confirms, || self.queue(queue)),
            Some(shard) => {
                coalescers.of(runtime, (&shard.label, priority), confirms, || shard.clone())
            }
        };
        if coalescer.registered.initialized() {
            self.push_to(&coalescer, envelope).await?;
        } else {
            let pushed = Box::pin(self.push_to(&coalescer, envelope));
            Box::pin(self.register_beside(&coalescer, pushed)).await?;
        }
        Ok(Arc::clone(&coalescer.queue.label))
    }

    /// The coalescer of this queue, if the registry may not have the queue yet.
    pub(super) fn unregistered(
        &self,
        queue: &Queue,
        confirms: Option<Durability>,
    ) -> Option<Arc<Coalescer>> {
        let runtime = Handle::try_current().ok()?.id();
        let place = (&*queue.label, queue.list.priority);
        let coalescer = self.inner.coalescers.of(runtime, place, confirms, || queue.clone());
        (!coalescer.registered.initialized()).then_some(coalescer)
    }

    /// Enqueues, and adds the queue to the registry. The jobs do not wait for that, nor does it matter to them what becomes of it: if it
    /// is not done with them, it goes on by itself, and if it fails, the next enqueue tries again. On one server both go over the same
    /// connection, and the registry is first.
    pub(super) async fn register_beside<T>(
        &self,
        coalescer: &Arc<Coalescer>,
        mut enqueue: impl Future<Output = T> + Unpin,
    ) -> T {
        tokio::select! {
            biased;
            () = self.register(coalescer) => enqueue.await,
            enqueued = &mut enqueue => {
                let (client, coalescer) = (self.clone(), Arc::clone(coalescer));
                tokio::spawn(async move { client.register(&coalescer).await });
                enqueued
            }
        }
    }

    async fn register(&self, coalescer: &Coalescer) {
        let registered = coalescer.registered.get_or_try_init(|| async {
            match self.register_queues(&[&coalescer.queue.name], coalescer.confirms).await {
                // The user of this client may do no more than enqueue.
                Err(fault) if fault.kind == FaultKind::Denied => Ok(()),
                registered => registered,
            }
        });
        // The next enqueue tries again.
        let _ = registered.await;
    }

    async fn push_to(&self, coalescer: &Arc<Coalescer>, envelope: Vec<u8>) -> Result<(), Fault> {
        let give_up = self.give_up();
        let waits = match coalescer.enter(envelope, give_up) {
            Turn::Waits(waits) => waits,
            Turn::Direct(direct, envelope) => {
                let within = self.inner.enqueue_within.max(LAST_MOMENT);
                let envelopes = std::slice::from_ref(&envelope);
                match coalescer.queue.enqueue(&direct.connection, envelopes, within).await {
                    Err(fault) if fault.is_retryable() => {
                        drop(direct);
                        let mut state = coalescer.state();
                        state.kept_from = Some(fault);
                        state.wait(envelope, give_up)
                    }
                    result => return result,
                }
            }
        };
        if waits.needs_sender {
            Sender::start(Arc::clone(coalescer), self.clone());
        }
        // Only a runtime that ended while the job was under way gives no answer.
        let ended = |_| Err(Fault::unanswered("the runtime that sent it has ended"));
        waits.answer.await.unwrap_or_else(ended)
    }
}
