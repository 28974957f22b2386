//! The task that sends what waits in a coalescer.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::super::Client;
use super::waiting::{Caller, Coalescer, Waiting};
use crate::join::join_all;
use crate::reconnect::Reconnect;
use crate::store::{Connection, Fault, FaultKind, LAST_MOMENT};
use crate::time::within;

/// Where something has passed over the line, it is looked at again after this: it may be slow.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

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
        let mut commands: Vec<_> = self.coalescer.take().into_iter().map(Command::of).collect();
        let jobs: usize = commands.iter().map(|command| command.envelopes.len()).sum();
        let results = self.write(&connection, &mut commands).await;
        let mut kept_from = None;
        let mut answered = Vec::with_capacity(commands.len());
        let mut refused = Vec::new();
        for (result, command) in results.into_iter().zip(commands) {
            match result {
                Err(fault) if fault.is_retryable() => {
                    self.coalescer.put_back(command.jobs(), fault.clone());
                    kept_from = Some(fault);
                }
                Err(fault) if fault.kind == FaultKind::Denied && command.envelopes.len() > 1 => {
                    refused.push((fault, command));
                }
                result => answered.push((result, command.callers)),
            }
        }
        if jobs <= 1 {
            // Before the answer: a caller that enqueues one job after the other then sends the next itself.
            self.end_if_idle();
        }
        for (result, callers) in answered {
            callers.into_iter().flatten().for_each(|caller| caller.tell(result.clone()));
        }
        for (refusal, command) in refused {
            kept_from = self.send_singly(&connection, command, &refusal).await.or(kept_from);
        }
        if let Some(fault) = kept_from {
            return self.not_reached(fault).await;
        }
        self.reconnect.succeeded();
        self.coalescer.state().kept_from = None;
        // The callers may have their next jobs at once, which then go together.
        tokio::task::yield_now().await;
    }

    /// Writes all commands at once and awaits their replies, each until its caller gives up; on a slow line as long as bytes pass.
    async fn write(
        &self,
        connection: &Connection,
        commands: &mut [Command],
    ) -> Vec<Result<(), Fault>> {
        let began = Instant::now();
        let moment = LAST_MOMENT + connection.confirms_within();
        // What is under way has a moment. It is not theirs to keep: what is refused, and sent again, would never be over.
        let until = |caller: &Caller| caller.give_up.max(began + moment);
        let mut last = began + moment;
        let (envelopes, mut callers): (Vec<_>, Vec<_>) = commands
            .iter_mut()
            .map(|command| (command.envelopes.as_slice(), &mut command.callers))
            .unzip();
        for caller in callers.iter().flat_map(|callers| callers.iter().flatten()) {
            last = last.max(until(caller));
        }
        let (time, count) = (last - began, envelopes.len());
        // Each is made at once, ahead of the barrier.
        let queue = &self.coalescer.queue;
        let calls = async {
            let calls = envelopes.into_iter().map(|jobs| queue.enqueue(connection, jobs, time));
            let (enqueued, confirmed) =
                tokio::join!(biased; join_all(calls), connection.confirm(count));
            match confirmed {
                Ok(()) => enqueued,
                Err(fault) => enqueued.into_iter().map(|one| one.and(Err(fault.clone()))).collect(),
            }
        };
        let (mut calls, mut passed, mut not_before) = (pin!(calls), connection.passed(), began);
        loop {
            let waiting = callers.iter().flat_map(|callers| callers.iter().flatten());
            let next = waiting.map(until).min();
            let Some(next) = next.filter(|next| *next < last) else { return calls.await };
            let left = next.max(not_before).saturating_duration_since(Instant::now());
            if let Some(results) = within(left, calls.as_mut()).await {
                return results;
            }
            let before = std::mem::replace(&mut passed, connection.passed());
            if passed != before {
                not_before = Instant::now() + LOOK_AGAIN;
                continue;
            }
            let mut slots = callers.iter_mut().flat_map(|callers| callers.iter_mut());
            while let Some(slot) = slots.find(|slot| matches!(slot, Some(c) if until(c) <= next)) {
                if let Some(caller) = slot.take() {
                    caller.tell(Err(Fault::no_answer(next - began)));
                }
            }
        }
    }

    /// Sends the jobs of a command that the server refused each alone: it may have refused them for one among them, or
    /// for being so many. A caller whose time is over is told that none was left for that. Gives what kept some from the server.
    async fn send_singly(
        &self,
        connection: &Connection,
        command: Command,
        refusal: &Fault,
    ) -> Option<Fault> {
        let over_fault = || {
            let why = "it was refused together with others, and no time was left to try it alone";
            Fault::not_sent(format!("{why}: {refusal}"))
        };
        let mut kept_from = None;
        let mut jobs = command.jobs();
        while !jobs.is_empty() {
            let last = jobs.iter().map(|job| job.caller.give_up).max();
            let left = last.unwrap_or(Instant::now()).saturating_duration_since(Instant::now());
            if let Err(fault) = connection.free_to_write(left).await {
                self.coalescer.put_back(jobs, fault.clone());
                return Some(fault);
            }
            let now = Instant::now();
            self.coalescer.expire(now);
            let rest = jobs.split_off(jobs.len().min(SINGLY));
            let (over, several): (Vec<_>, Vec<_>) =
                jobs.into_iter().partition(|job| job.caller.give_up <= now);
            jobs = rest;
            for job in over {
                job.caller.tell(Err(over_fault()));
            }
            if several.is_empty() {
                continue;
            }
            let calls = several.iter().map(|job| {
                let time = job.caller.give_up.saturating_duration_since(now).max(LAST_MOMENT);
                let envelopes = std::slice::from_ref(&job.envelope);
                self.coalescer.queue.enqueue(connection, envelopes, time)
            });
            let (enqueued, confirmed) =
                tokio::join!(biased; join_all(calls), connection.confirm(several.len()));
            let mut put_back = Vec::new();
            for (job, enqueued) in several.into_iter().zip(enqueued) {
                match enqueued.and_then(|()| confirmed.clone()) {
                    Err(fault) if fault.is_retryable() => {
                        put_back.push(job);
                        kept_from = Some(fault);
                    }
                    result => job.caller.tell(result),
                }
            }
            if let Some(fault) = &kept_from {
                self.coalescer.put_back(put_back, fault.clone());
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

/// The jobs of one command and their callers: `None` for a caller that has given up.
struct Command {
    envelopes: Vec<Vec<u8>>,
    callers: Vec<Option<Caller>>,
}

impl Command {
    fn of(jobs: Vec<Waiting>) -> Self {
        let (envelopes, callers) =
            jobs.into_iter().map(|job| (job.envelope, Some(job.caller))).unzip();
        Self { envelopes, callers }
    }

    fn jobs(self) -> Vec<Waiting> {
        let jobs = self.envelopes.into_iter().zip(self.callers);
        jobs.filter_map(|(envelope, caller)| Some(Waiting { envelope, caller: caller? })).collect()
    }
}
