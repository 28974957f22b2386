//! The fetch loop of one queue: one call after the other settles ended attempts and reserves jobs for the free slots.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::sleep;

use crate::log::say;
use crate::reconnect::Reconnect;
use crate::store::{CALL_WITHIN, Connection, Fault, FaultKind, Reserved, SCRIPT_JOBS};
use crate::worker::intake::accept::{accept, give_all_back, report_set_aside};
use crate::worker::intake::in_flight::{
    CallInFlight, CallsInFlight, Replies, Target, answered, call,
};
use crate::worker::intake::plan::{Awaits, HOLD, Known, More, until};
use crate::worker::intake::reconcile::{Left, connect, leave, retire};
use crate::worker::intake::refused::report_slow;
use crate::worker::intake::settling::{REFUSED_PAUSE, Settling};
use crate::worker::report::log_outage;
use crate::worker::state::{Consumer, Session, Side, Slot, WaitingJob, WakeAt};

/// A connection that lasted this long was of use. If it ended sooner, without an answer, the pause before the next one grows.
const SERVED_FOR: Duration = Duration::from_secs(1);

/// Fetches for one queue until the worker has retired or is void.
pub(crate) async fn run(session: Arc<Session>, consumer: Arc<Consumer>) {
    Fetch::new(session, Arc::clone(&consumer)).run().await;
    consumer.retired.cancel();
}

/// The fetch loop of one queue.
struct Fetch {
    session: Arc<Session>,
    consumer: Arc<Consumer>,
    more: More,
    /// Ask the server, even without room.
    look: bool,
    /// How many jobs one call may claim: half of the last claim without an answer or with a late one, then twice as many after each early
    /// answer.
    may_ask: usize,
    settling: Settling,
    first: bool,
    /// Calls since the start that went well.
    answers: u64,
    /// When the server last began a session for this queue.
    connected_at: Instant,
    /// The value of `answers` when a call was last refused.
    refused_at: Option<u64>,
}

impl Fetch {
    fn new(session: Arc<Session>, consumer: Arc<Consumer>) -> Self {
        Self {
            session,
            consumer,
            more: More::Jobs,
            look: false,
            may_ask: SCRIPT_JOBS,
            settling: Settling::default(),
            first: true,
            answers: 0,
            connected_at: Instant::now(),
            refused_at: None,
        }
    }

    async fn run(mut self) {
        let mut reconnect = Reconnect::new();
        let mut outages = self.session.core.outages.count();
        let mut broken = None;
        loop {
            let left = match connect(&self.session, &self.consumer, self.first).await {
                Ok(Some((connection, session_number))) => {
                    self.first = false;
                    self.connected_at = Instant::now();
                    let (count, began) = (self.session.core.outages.count(), Instant::now());
                    let answers = self.answers;
                    // If there was an outage meanwhile, it is the reason and was logged.
                    if let Some(why) = broken.take().filter(|_| count == outages) {
                        say!(WARN, { queue = self.consumer.queue.name.clone() }, job.queue = %queue, "made a new connection: {why}");
                    }
                    outages = count;
                    let left = self.serve(&connection, session_number).await;
                    if self.answers > answers || began.elapsed() >= SERVED_FOR {
                        reconnect.succeeded();
                    } else if matches!(left, Left::Reconnect(_)) {
                        // A server that ends the connection at each claim request is not asked as often as possible.
                        drop(connection);
                        reconnect.pause().await;
                    }
                    left
                }
                Ok(None) => Left::Void,
                Err(fault) => {
                    self.consumer.suspects.leave_slots();
                    log_outage::lost(&self.session, &self.consumer, Side::Fetch, &fault);
                    reconnect.pause().await;
                    continue;
                }
            };
            match left {
                Left::Reconnect(why) => {
                    say!(DEBUG, { queue = self.consumer.queue.name.clone(), why = why.clone() }, job.queue = %queue, "making a new connection: {why}");
                    broken = Some(why);
                    self.more = More::Jobs;
                }
                Left::CutOff => self.more = More::Jobs,
                Left::Void => {
                    self.consumer.leases.abandon();
                    // After the last call for a queue that is served no more this is no news: the reply to it was lost.
                    if !self.consumer.retiring.is_cancelled() {
                        self.session.void.cancel();
                    }
                    return leave(&self.session, &self.consumer).await;
                }
                Left::Retired => return,
            }
        }
    }

    async fn serve(&mut self, connection: &Connection, session_number: u64) -> Left {
        let mut calls =
            CallsInFlight { consumer: Arc::clone(&self.consumer), under_way: VecDeque::new() };
        let left = self.exchange(connection, session_number, &mut calls.under_way).await;
        if let Some(call) = calls.under_way.front() {
            self.asked_too_much(call.asked());
        }
        self.consumer.claims.all_are_over();
        self.consumer.pace.set_ahead(0);
        self.consumer.slots.set_backlog(false);
        // Calls in flight may have reached the server or not. Their settlements are sent again.
        while let Some(call) = calls.under_way.pop_back() {
            let mut batch = call.into_batch();
            // The server answers in order: only the first call can be the reason for the end of the connection.
            let is_first = calls.under_way.is_empty() && !connection.is_alive();
            if let Left::Reconnect(why) = &left
                && is_first
            {
                batch = self.settling.refused.instead(&self.consumer, batch, why);
            }
            self.consumer.outbox.put_back(batch);
        }
        self.settling.send_again(&self.consumer, true);
        self.consumer.suspects.leave_slots();
        left
    }

    /// Sends and receives until the loop has to leave the connection.
    async fn exchange(
        &mut self,
        connection: &Connection,
        session_number: u64,
        calls: &mut VecDeque<CallInFlight>,
    ) -> Left {
        let consumer = Arc::clone(&self.consumer);
        let mut came_free: Option<Slot> = None;
        let mut held_since: Option<Instant> = None;
        let mut stopping = false;
        loop {
            // A call on a connection that has ended would be taken for the reason of its end.
            if !connection.is_alive() {
                return Left::Reconnect("the connection has ended".into());
            }
            // The server has taken back the neighbours of the suspects, and no call in flight could bring other jobs.
            if calls.is_empty() && consumer.outbox.count() == 0 && consumer.freshness.is_fresh() {
                for (admitted, slot) in consumer.suspects.begin() {
                    consumer.add([WaitingJob::Admitted(admitted)], slot);
                }
            }
            self.settling.send_again(&consumer, false);
            // Until the plan is made everything wakes this loop, so that no change is missed.
            consumer.outbox.set_wake_at(WakeAt::LastOr(1));
            // Kept until a call is sent: the calls in flight may have been answered before.
            self.look |= consumer.take_look();
            if self.look {
                self.more = More::Jobs;
            } else if consumer.has_made_room() {
                self.more = self.more.max(More::ForSlots);
            }
            let plan = self.known(calls, came_free.is_some(), held_since).plan();
            consumer.pace.set_ahead(plan.ahead);
            consumer.slots.set_backlog(plan.has_backlog);
            let wait = plan.awaits == Awaits::Job;
            consumer.waiting.send_if_modified(|wanted| std::mem::replace(wanted, wait) != wait);
            if plan.alone_until.is_some() {
                came_free = None;
            }
            if let Some(ask) = plan.claim {
                self.look = false;
                held_since = None;
                let slots = came_free.take().into_iter().chain(consumer.slots.take(ask.slots));
                let slots: Vec<_> = slots.collect();
                let core = &*self.session.core;
                let to = Target { core, consumer: &consumer, connection, session_number };
                let held_up = self.settling.held_up();
                let refused = self.refused_at == Some(self.answers);
                let call = call(&to, &ask, slots, held_up, refused);
                calls.push_back(call.sent().await);
                continue;
            }
            // The slot let a wait be sent, if not a reserve. Kept, it would be missing in other queues.
            came_free = None;
            held_since = plan.hold.then(|| held_since.unwrap_or_else(Instant::now));
            consumer.outbox.set_wake_at(plan.wake_at);
            let hold_until = held_since.map(|since| since + HOLD);
            let plan_again_at = [hold_until, plan.alone_until, self.settling.again_at()];
            let plan_again_at = plan_again_at.into_iter().flatten().min();
            tokio::select! {
                biased;
                () = connection.ended() => return Left::Reconnect("the connection has ended".into()),
                () = consumer.suspicious.notified() => {
                    let differs = consumer.take_differs();
                    // Not if this connection was made since then.
                    if consumer.take_cut_off().is_some_and(|at| at >= self.connected_at) {
                        return Left::CutOff;
                    }
                    if differs {
                        return Left::Reconnect("what the server holds for this worker differs from what it knows".into());
                    }
                }
                replies = answered(calls), if !calls.is_empty() => {
                    if let Some(call) = calls.pop_front()
                        && let Some(left) = self.has_answered(session_number, call, replies).await
                    {
                        return left;
                    }
                }
                () = consumer.changed.notified() => {}
                () = consumer.buffer.resumed.notified() => {}
                // By the plan, not by the present state: a heartbeat that has become fresh since is news.
                () = consumer.freshness.fresh(), if plan.awaits == Awaits::Heartbeat => {}
                () = until(plan_again_at) => {}
                // The task that waits longest is served first. While a body holds the last slot, this loop waits in line.
                slot = consumer.slots.acquire(), if plan.acquire => came_free = slot,
                () = consumer.stopping.cancelled(), if !stopping => {
                    stopping = true;
                    give_all_back(&consumer);
                }
                () = consumer.retiring.cancelled(), if calls.is_empty() && consumer.outbox.count() == 0 && !consumer.is_waiting() => {
                    return retire(&consumer, connection).await;
                }
            }
        }
    }

    fn known(
        &self,
        calls: &VecDeque<CallInFlight>,
        came_free: bool,
        held_since: Option<Instant>,
    ) -> Known<'_> {
        Known {
            session: &self.session,
            consumer: &self.consumer,
            calls: calls.len(),
            coming: calls.iter().map(|call| call.ahead).sum(),
            looks: calls.iter().any(|call| call.looks),
            more: self.more,
            look: self.look,
            may_ask: self.may_ask,
            came_free: usize::from(came_free),
            held_since,
        }
    }

    /// Handles the answers of a call.
    async fn has_answered(
        &mut self,
        session_number: u64,
        call: CallInFlight,
        replies: Replies,
    ) -> Option<Left> {
        let consumer = Arc::clone(&self.consumer);
        let (settled, reserved) = replies;
        let asked = call.asked();
        let CallInFlight { sent_at, batch, slots, ahead, asks, replies, .. } = call;
        // The replies hold the batch too.
        drop(replies);
        let batch = Arc::unwrap_or_clone(batch);
        let took = sent_at.elapsed();
        self.session.core.totals.called(took);
        if took >= CALL_WITHIN {
            report_slow(&self.session.core, &consumer, took, &batch, &reserved);
        }
        let mut fault = None;
        match settled {
            Ok(settled) => self.settling.has_settled(&consumer, batch, &settled),
            Err(why) => {
                let mut batch = batch;
                if why.ends_connection() {
                    batch = self.settling.refused.instead(&consumer, batch, &why.to_string());
                }
                consumer.outbox.put_back(batch);
                fault = Some(why);
            }
        }
        let under_way = reserved.as_ref().is_err_and(Fault::may_be_under_way);
        match reserved {
            Ok(None) => {}
            Ok(Some(Reserved::Jobs { mut jobs, left, set_aside, listed })) => {
                report_set_aside(&self.session.core, &consumer, set_aside);
                consumer.leases.reserved(session_number, &mut jobs);
                let for_slots = listed.as_ref().map_or(0, |listed| listed.for_slots);
                self.more = match left {
                    0 if for_slots > 0 => More::ForSlots,
                    0 => More::Nothing,
                    _ => More::Jobs,
                };
                consumer.set_open(!jobs.is_empty(), listed);
                consumer.pace.set_backlog(self.more > More::Nothing);
                accept(&self.session.core, &consumer, jobs, slots, ahead);
            }
            Ok(Some(Reserved::Closed { left })) => {
                consumer.set_closed(left);
                self.more = More::Nothing;
                consumer.pace.set_backlog(false);
            }
            Ok(Some(Reserved::Void)) => return Some(Left::Void),
            Ok(Some(Reserved::Stale)) => {
                return Some(Left::Reconnect(
                    "another connection took over this worker's session_number".into(),
                ));
            }
            Err(why) => {
                if under_way {
                    self.asked_too_much(asked);
                }
                fault = fault.or(Some(why));
            }
        }
        if asks {
            consumer.claims.one_is_over();
        }
        if let Some(fault) = fault {
            return self.after_fault(&fault).await;
        }
        self.answers += 1;
        if took >= CALL_WITHIN {
            self.asked_too_much(asked);
        } else if took < CALL_WITHIN / 5 {
            self.may_ask = (self.may_ask * 2).min(SCRIPT_JOBS);
        }
        None
    }

    /// A call for this many jobs was not answered, or late. They may be too much for the line to the server, or for its present load.
    fn asked_too_much(&mut self, asked: usize) {
        if asked > 0 {
            self.may_ask = (asked / 2).max(1);
        }
    }

    async fn after_fault(&mut self, fault: &Fault) -> Option<Left> {
        match fault.kind {
            FaultKind::Connection | FaultKind::Silent => {
                return Some(Left::Reconnect(fault.to_string()));
            }
            FaultKind::Reply => {
                say!(ERROR, { queue = self.consumer.queue.name.clone(), fault = fault.clone() }, job.queue = %queue, "{fault}");
                sleep(REFUSED_PAUSE).await;
                return Some(Left::Reconnect(fault.to_string()));
            }
            FaultKind::Busy
            | FaultKind::Full
            | FaultKind::NoScript
            | FaultKind::Denied
            | FaultKind::NotDurable => {
                if self.settling.says() {
                    let server = self.session.core.client.address().to_string();
                    say!(WARN, { queue = self.consumer.queue.name.clone(), fault = fault.clone() },
                        %server, job.queue = %queue, "the server refuses, trying again: {fault}");
                }
                self.refused_at = Some(self.answers);
                self.consumer.suspects.leave_slots();
                sleep(REFUSED_PAUSE).await;
            }
        }
        None
    }
}

impl Drop for Fetch {
    fn drop(&mut self) {
        // After a panic another fetch loop sends them.
        self.settling.send_again(&self.consumer, true);
    }
}
