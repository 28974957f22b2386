//! The task that sends what waits in a coalescer.

use std::pin::pin;
use std::sync::Arc;
use std::time::Instant;

use super::super::Client;
use super::waiting::{Coalescer, Waiting};
use crate::join::join_all;
use crate::reconnect::Reconnect;
use crate::store::{Connection, Fault, FaultKind, LAST_MOMENT};
use crate::time::within;

/// Jobs of a refused command that are sent each alone at the same time.
const SINGLY: usize = 100;

pub(super) struct Sender {
    coalescer: Arc<Coalescer>,
    client: Client,
    reconnect: Reconnect,
    /// Nothing waits any more; the next caller that waits starts another.
    ended: bool,
}

impl Sender {
    /// Starts the one that is noted as there.
    pub(super) fn start(coalescer: Arc<Coalescer>, client: Client) {
        let sender = Self { coalescer, client, reconnect: Reconnect::soon(), ended: false };
        tokio::spawn(sender.run());
    }

    async fn run(mut self) {
        while !self.ended {
            let Some(give_up) = self.coalescer.expire(Instant::now()) else {
                self.end_if_idle();
                continue;
            };
            let Coalescer { queue, confirms, .. } = &*self.coalescer;
            let connection = self.client.connection_that_confirms(queue, *confirms);
            let left = give_up.saturating_duration_since(Instant::now());
            let connected = within(left, pin!(connection)).await;
            match connected {
                Some(Ok(connection)) => {
                    let left = give_up.saturating_duration_since(Instant::now());
                    match connection.free_to_write(left).await {
                        Ok(_) => self.send(connection).await,
                        Err(fault) => self.not_reached(fault).await,
                    }
                }
                Some(Err(fault)) => self.not_reached(fault).await,
                None => {}
            }
        }
    }

    fn end_if_idle(&mut self) {
        let mut state = self.coalescer.state();
        if state.waiting.is_empty() {
            state.has_sender = false;
            self.ended = true;
        }
    }

    /// Waits a moment before the next try, or gives up where a further one would not help.
    async fn not_reached(&mut self, fault: Fault) {
        if !fault.is_retryable() {
            let waiting = std::mem::take(&mut self.coalescer.state().waiting);
            for job in waiting {
                job.caller.tell(Err(fault.clone()));
            }
            return;
        }
        self.coalescer.state().kept_from = Some(fault);
        // So short that no caller that comes during the pause gives up before its end.
        let longest = self.client.inner.enqueue_within / 10;
        let pause = self.reconnect.next_pause().min(longest);
        self.coalescer.expire(Instant::now() + pause);
        tokio::time::sleep(pause).await;
    }

    /// Sends what waits, and tells each caller what became of its job.
    async fn send(&mut self, connection: Connection) {
        self.coalescer.state().connection = Some(connection.clone());
        let mut refused = Vec::new();
        let mut kept_from = self.write(&connection, self.coalescer.take(), &mut refused).await;
        // Each alone: the server may have refused them for one among them, or for being so many.
        let mut singly = refused.into_iter().flatten().map(|job| vec![job]).peekable();
        while singly.peek().is_some() {
            let some = singly.by_ref().take(SINGLY).collect();
            kept_from = self.write(&connection, some, &mut Vec::new()).await.or(kept_from);
        }
        if let Some(fault) = kept_from {
            return self.not_reached(fault).await;
        }
        self.reconnect.succeeded();
        self.coalescer.state().kept_from = None;
        // The callers may have their next jobs at once, which then go together.
        tokio::task::yield_now().await;
    }

    /// Writes all commands at once, awaits their replies, and tells the callers. Puts back what certainly did not arrive, and gives what
    /// kept it from the server. A command with several jobs that the server refuses goes to `refused`.
    async fn write(
        &mut self,
        connection: &Connection,
        commands: Vec<Vec<Waiting>>,
        refused: &mut Vec<Vec<Waiting>>,
    ) -> Option<Fault> {
        let time = self.client.give_up().saturating_duration_since(Instant::now());
        let time = time.max(LAST_MOMENT + connection.confirms_within());
        // Each is made at once, ahead of the barrier.
        let queue = &self.coalescer.queue;
        let calls = commands.iter().map(|jobs| queue.enqueue(connection, jobs, time));
        let (results, confirmed) =
            tokio::join!(biased; join_all(calls), connection.confirm(commands.len()));
        let is_one = commands.iter().map(Vec::len).sum::<usize>() == 1;
        let mut kept_from = None;
        for (result, jobs) in results.into_iter().zip(commands) {
            match result.and_then(|()| confirmed.clone()) {
                Err(fault) if fault.is_retryable() => {
                    self.coalescer.put_back(jobs, fault.clone());
                    kept_from = Some(fault);
                }
                Err(fault) if fault.kind == FaultKind::Denied && jobs.len() > 1 => {
                    refused.push(jobs);
                }
                result => {
                    if is_one {
                        // Before the answer: a caller that enqueues one job after the other then sends the next itself.
                        self.end_if_idle();
                    }
                    for job in jobs {
                        job.caller.tell(result.clone());
                    }
                }
            }
        }
        kept_from
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        // The runtime ends before their turn came: nobody else would answer.
        let mut state = self.coalescer.state();
        state.has_sender = false;
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        for job in waiting {
            job.caller.tell(Err(Fault::not_sent("the runtime that was to send it has ended")));
        }
    }
}
