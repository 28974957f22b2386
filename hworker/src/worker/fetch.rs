//! The loop of one queue: sends what has finished, takes what there is room for, one
//! round trip after the other, so that whatever finishes during a round trip goes with the next.

mod look;
mod plan;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio::task::yield_now;
use tokio::time::{sleep, sleep_until, timeout};

use self::look::{NUMBERS, NextLook};
use self::plan::{Ask, Awaits};
use super::bulky::{Refused, report_slow};
use super::consumer::Lane;
use super::hand_over::{give_all_back, hand_over, report_lost, report_set_aside};
use super::log_outage;
use super::outages::Side;
use super::outbox::WakeAt;
use super::ready::WaitingJob;
use super::session::Incarnation;
use super::slots::Slot;
use super::trip::{Answers, Replies, Trip, answered};
use crate::log::say;
use crate::reconnect::Reconnect;
use crate::store::{
    CALL_WITHIN, Connection, End, Fault, FaultKind, Reconciled, Reserved, SCRIPT_JOBS, Settled,
    Settlement,
};
use crate::time::day;

/// While there is something to start, or the server is soon to be looked at, what has finished waits at most so long for more to go
/// with it, and as long as others have the core before such a look.
const HOLD: Duration = Duration::from_millis(2);

/// A wait that is to end is looked at so often.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// A connection that has lasted so long is of use; one that ends sooner, without an answer, is made less and less often.
const SERVED_FOR: Duration = Duration::from_secs(1);

/// A server that refuses or is busy is asked again after this.
const REFUSED_PAUSE: Duration = Duration::from_millis(500);

/// Fetches for one queue until the worker has retired or is void.
pub(super) async fn run(incarnation: Arc<Incarnation>, lane: Arc<Lane>) {
    Fetch::new(incarnation, Arc::clone(&lane)).run().await;
    lane.retired.cancel();
}

/// The loop of one queue.
struct Fetch {
    incarnation: Arc<Incarnation>,
    lane: Arc<Lane>,
    /// The server may have jobs waiting.
    more: bool,
    /// It is to be asked, even without room.
    look: bool,
    /// While jobs come in numbers.
    next_look: Option<NextLook>,
    /// How many any call may ask for: half of what did not come, or not soon, and again more with each call that is answered soon.
    may_ask: usize,
    refused: Refused,
    first: bool,
    /// Round trips since the start that went as they should.
    answers: u64,
    /// When the server last began a session for it.
    connected_at: Instant,
    /// Refusals since the start; about one a minute is logged.
    refusals: u64,
    /// What `answers` was when a call was last refused.
    refused_at: Option<u64>,
    /// Settlements for which a key is of another type, and when they are sent again.
    held_up: Option<(Instant, Vec<Settlement>)>,
}

/// Why the loop left its connection.
enum Left {
    Reconnect(String),
    /// Its requests may be lost: another connection of this worker was.
    CutOff,
    Void,
    Retired,
}

impl Fetch {
    fn new(incarnation: Arc<Incarnation>, lane: Arc<Lane>) -> Self {
        Self {
            incarnation,
            lane,
            more: true,
            look: false,
            next_look: None,
            may_ask: SCRIPT_JOBS,
            refused: Refused::default(),
            first: true,
            answers: 0,
            connected_at: Instant::now(),
            refusals: 0,
            refused_at: None,
            held_up: None,
        }
    }

    async fn run(mut self) {
        let mut reconnect = Reconnect::new();
        let mut outages = self.incarnation.core.outages.count();
        let mut broken = None;
        loop {
            let left = match self.connect().await {
                Ok(Some((connection, session))) => {
                    let (count, began) = (self.incarnation.core.outages.count(), Instant::now());
                    let answers = self.answers;
                    // Where there was an outage meanwhile, that is why.
                    if let Some(why) = broken.take().filter(|_| count == outages) {
                        say!(WARN, { queue = self.lane.queue.name.clone() }, %queue, "made a new connection: {why}");
                    }
                    outages = count;
                    let left = self.serve(&connection, session).await;
                    if self.answers > answers || began.elapsed() >= SERVED_FOR {
                        reconnect.succeeded();
                    } else if matches!(left, Left::Reconnect(_)) {
                        // What ends it each time it is asked for jobs is not to be asked as often as it can be.
                        drop(connection);
                        reconnect.pause().await;
                    }
                    left
                }
                Ok(None) => Left::Void,
                Err(fault) => {
                    self.lane.suspects.leave_slots();
                    log_outage::lost(&self.incarnation, &self.lane, Side::Fetch, &fault);
                    reconnect.pause().await;
                    continue;
                }
            };
            match left {
                Left::Reconnect(why) => {
                    say!(DEBUG, { queue = self.lane.queue.name.clone(), why = why.clone() }, %queue, "making a new connection: {why}");
                    broken = Some(why);
                    self.more = true;
                }
                Left::CutOff => self.more = true,
                Left::Void => {
                    self.lane.leases.abandon();
                    self.incarnation.void.cancel();
                    return self.leave().await;
                }
                Left::Retired => return,
            }
        }
    }

    /// Makes a connection and reconciles; `None` when the worker is void.
    async fn connect(&mut self) -> Result<Option<(Connection, u64)>, Fault> {
        let (lane, incarnation) = (&self.lane, &self.incarnation);
        let address = incarnation.core.client.address();
        let connection = address.connect_metered(&lane.line, &lane.queue).await?;
        let connection = connection.confirming(incarnation.core.config.settles());
        let believed = lane.leases.believed();
        let record = record(incarnation);
        let reconciled = lane
            .queue
            .reconcile(&connection, &lane.keys, &lane.worker, self.first, &record)
            .await?;
        log_outage::back(incarnation, lane, Side::Fetch);
        let Reconciled::Session { session, now, leases } = reconciled else { return Ok(None) };
        self.first = false;
        self.connected_at = Instant::now();
        incarnation.core.clock.heard(now);

        let comparison = lane.leases.begin(session, &believed, leases);
        // After the comparison: only what is sent from now on brings something new.
        lane.session.store(session, Ordering::Release);
        lane.parked.look_anew();
        for settlement in comparison.revived {
            lane.settle(Some(settlement));
        }
        if !comparison.unseen.is_empty() {
            say!(INFO, { queue = lane.queue.name.clone(), jobs = comparison.unseen.len() }, %queue, jobs, "giving back jobs whose hand-over was lost");
        }
        for lease in comparison.unseen {
            lane.leases.never_start(&lease);
            let end = End::Released { delay_ms: 0, envelope: None };
            lane.settle(Some(Settlement { lease, end }));
        }
        for lease in comparison.lost {
            report_lost(lane, &lease);
        }
        lane.registered.send_replace(true);
        Ok(Some((connection, session)))
    }

    async fn serve(&mut self, connection: &Connection, session: u64) -> Left {
        let mut trips = Trips { lane: Arc::clone(&self.lane), under_way: VecDeque::new() };
        let left = self.exchange(connection, session, &mut trips.under_way).await;
        if let Some(trip) = trips.under_way.front() {
            self.asked_too_much(trip.asked());
        }
        self.lane.asks.all_are_over();
        self.lane.pace.set_ahead(0);
        // What was under way may have reached the server or not; it is sent again.
        while let Some(trip) = trips.under_way.pop_back() {
            let mut batch = trip.into_batch();
            // The server answers in order: only the first can be what it has ended the connection for.
            let is_first = trips.under_way.is_empty() && !connection.is_alive();
            if let Left::Reconnect(why) = &left
                && is_first
            {
                batch = self.refused.instead(&self.lane, batch, why);
            }
            self.lane.outbox.put_back(batch);
        }
        if let Some((_, again)) = self.held_up.take() {
            self.lane.outbox.put_back(again);
        }
        self.lane.suspects.leave_slots();
        left
    }

    /// Sends and receives until the connection is to be left.
    async fn exchange(
        &mut self,
        connection: &Connection,
        session: u64,
        trips: &mut VecDeque<Trip>,
    ) -> Left {
        let lane = Arc::clone(&self.lane);
        let mut came_free: Option<Slot> = None;
        let mut held_since: Option<Instant> = None;
        let mut stopping = false;
        loop {
            // The server has taken back their neighbours, and nothing is under way that could bring others.
            if trips.is_empty() && lane.outbox.count() == 0 && lane.pulse.is_fresh() {
                for (admitted, slot) in lane.suspects.begin() {
                    lane.add([WaitingJob::Admitted(admitted)], slot);
                }
            }
            if let Some((_, again)) = self.held_up.take_if(|(at, _)| *at <= Instant::now()) {
                lane.outbox.put_back(again);
            }
            // Until the plan is made everything wakes this loop, so that nothing that changes meanwhile is missed.
            lane.outbox.set_wake_at(WakeAt::LastOr(1));
            // Kept until it is sent: what is under way may have been answered before.
            self.look |= lane.take_look();
            self.more |= self.look;
            let settlements = lane.outbox.count();
            if self.next_look.take_if(|look| look.is_due(settlements)).is_some() {
                self.more = true;
                self.look = true;
            }
            let plan = self.plan(trips, came_free.is_some(), held_since);
            lane.pace.set_ahead(plan.ahead);
            let wait = plan.awaits == Awaits::Job;
            lane.waiting.send_if_modified(|wanted| std::mem::replace(wanted, wait) != wait);
            if plan.alone_until.is_some() {
                came_free = None;
            }
            if let Some(ask) = plan.ask {
                if std::mem::take(&mut self.look) {
                    self.next_look = None;
                }
                held_since = None;
                let slots = came_free.take().into_iter().chain(lane.slots.take(ask.slots));
                let slots: Vec<_> = slots.collect();
                let trip = self.trip(connection, session, &ask, slots);
                trips.push_back(trip.sent().await);
                continue;
            }
            // It let a wait be sent, if not a reserve; kept, it would be missing elsewhere.
            came_free = None;
            held_since = plan.hold.then(|| held_since.unwrap_or_else(Instant::now));
            lane.outbox.set_wake_at(plan.wake_at);
            let hold_until = held_since.map(|since| since + HOLD);
            let look_at = self.next_look.as_ref().map(|look| look.at);
            let again_at = self.held_up.as_ref().map(|(at, _)| *at);
            let plan_again_at = [hold_until, look_at, plan.alone_until, again_at];
            let plan_again_at = plan_again_at.into_iter().flatten().min();
            tokio::select! {
                biased;
                () = connection.ended() => return Left::Reconnect("the connection has ended".into()),
                () = lane.suspicious.notified() => {
                    let differs = lane.take_differs();
                    // Unless this connection has got through since.
                    if lane.take_cut_off().is_some_and(|at| at >= self.connected_at) {
                        return Left::CutOff;
                    }
                    if differs {
                        return Left::Reconnect("what the server holds for this worker differs from what it knows".into());
                    }
                }
                replies = answered(trips), if !trips.is_empty() => {
                    if let Some(trip) = trips.pop_front()
                        && let Some(left) = self.has_answered(session, trip, replies).await
                    {
                        return left;
                    }
                }
                () = lane.changed.notified() => {}
                () = lane.ready.resumed() => {}
                // As it was planned: a pulse that has become fresh since is news.
                () = lane.pulse.fresh(), if plan.awaits == Awaits::Heartbeat => {}
                () = until(plan_again_at) => {}
                // Whoever waits longest is served first; while a body holds the last slot, this loop waits for its turn.
                slot = lane.slots.acquire(), if plan.acquire => came_free = slot,
                () = lane.stopping.cancelled(), if !stopping => {
                    stopping = true;
                    give_all_back(&lane);
                }
                () = lane.retiring.cancelled(), if trips.is_empty() && lane.outbox.count() == 0 && !lane.is_waiting() => {
                    return self.retire(connection).await;
                }
            }
        }
    }

    /// A round trip about to be made: settles what is in the outbox and reserves, in one write.
    fn trip(&self, connection: &Connection, session: u64, ask: &Ask, slots: Vec<Slot>) -> Trip {
        let lane = &self.lane;
        let batch = Arc::new(lane.outbox.take());
        // What the server holds for this worker beyond that, as after answers that were lost, goes back before there is more.
        let held_up = self.held_up.as_ref().map_or(0, |(_, ends)| ends.len());
        let holds_more = lane.outbox.count() > lane.slots.total() || held_up > SCRIPT_JOBS;
        let (slots, ahead) = if holds_more { (Vec::new(), 0) } else { (slots, ask.ahead) };
        let want = slots.len() + ahead;
        let asks = ask.look || want > 0;
        if asks {
            lane.asks.one_is_sent();
        }
        let only_acks = !batch.is_empty() && batch.iter().all(Settlement::is_ack);
        let (sending, connection) = (Arc::clone(&batch), connection.clone());
        // Where no job can be reserved, acks are settled all the same.
        let refused = self.refused_at == Some(self.answers);
        // Nearly all there is. What else is settled may fail alone, and what is confirmed is waited for alone.
        let replies = if only_acks && asks && !refused && !connection.is_confirming() {
            self.ack_and_reserve(connection, session, want, sending)
        } else {
            self.settle_beside_reserve(connection, session, asks.then_some(want), sending)
        };
        let looks = ask.look;
        let sent_at = Instant::now();
        Trip { sent_at, batch, slots, ahead, looks, asks, replies, answer: None }
    }

    /// In one call.
    fn ack_and_reserve(
        &self,
        connection: Connection,
        session: u64,
        want: usize,
        acks: Arc<Vec<Settlement>>,
    ) -> Answers {
        let lane = Arc::clone(&self.lane);
        let today = day(self.incarnation.core.clock.unix_ms());
        Box::pin(async move {
            let (queue, keys) = (&lane.queue, &lane.keys);
            let both = queue.ack_and_reserve(&connection, keys, &today, &acks, session, want);
            match both.await {
                Ok((settled, reserved)) => (Ok(settled), Ok(Some(reserved))),
                Err(fault) => (Err(fault.clone()), Err(fault)),
            }
        })
    }

    /// In calls of their own, so that each may fail alone; `None` reserves nothing.
    fn settle_beside_reserve(
        &self,
        connection: Connection,
        session: u64,
        want: Option<usize>,
        batch: Arc<Vec<Settlement>>,
    ) -> Answers {
        let lane = Arc::clone(&self.lane);
        let today = day(self.incarnation.core.clock.unix_ms());
        Box::pin(async move {
            let settle = async {
                if batch.is_empty() {
                    return Ok(Settled::default());
                }
                lane.queue.settle(&connection, &lane.keys, &today, &batch).await
            };
            let reserve = async {
                let Some(want) = want else { return Ok(None) };
                let within = CALL_WITHIN;
                lane.queue.reserve(&connection, &lane.keys, session, want, within).await.map(Some)
            };
            tokio::join!(settle, reserve)
        })
    }

    /// Takes the answers of a round trip.
    async fn has_answered(&mut self, session: u64, trip: Trip, replies: Replies) -> Option<Left> {
        let lane = Arc::clone(&self.lane);
        let (settled, reserved) = replies;
        let asked = trip.asked();
        let Trip { sent_at, batch, slots, ahead, asks, replies, .. } = trip;
        // It holds the batch too.
        drop(replies);
        let batch = Arc::unwrap_or_clone(batch);
        let took = sent_at.elapsed();
        if took >= CALL_WITHIN {
            report_slow(&self.incarnation.core, &lane, took, &batch, &reserved);
        }
        let mut fault = None;
        match settled {
            Ok(settled) => self.has_settled(batch, &settled),
            Err(why) => {
                let mut batch = batch;
                if why.ends_connection() {
                    batch = self.refused.instead(&lane, batch, &why.to_string());
                }
                lane.outbox.put_back(batch);
                fault = Some(why);
            }
        }
        let under_way = reserved.as_ref().is_err_and(Fault::may_be_under_way);
        match reserved {
            Ok(None) => {}
            Ok(Some(Reserved::Jobs { mut jobs, left, set_aside })) => {
                if !jobs.is_empty() && lane.is_waiting() {
                    // What the wait brought is older, and its answer is here too: its task takes it first.
                    for _ in 0..2 {
                        yield_now().await;
                    }
                }
                report_set_aside(&self.incarnation.core, &lane, set_aside);
                lane.leases.reserved(session, &mut jobs);
                self.more = left > 0;
                let numbers = left == 0 && jobs.len() >= NUMBERS && lane.pace.is_short();
                lane.pace.set_backlog(self.more || numbers);
                self.next_look = numbers.then(|| NextLook::after(jobs.len()));
                hand_over(&self.incarnation.core, &lane, jobs, slots, ahead);
            }
            Ok(Some(Reserved::Void)) => return Some(Left::Void),
            Ok(Some(Reserved::Stale)) => {
                return Some(Left::Reconnect(
                    "another connection took over this worker's session".into(),
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
            lane.asks.one_is_over();
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

    /// A call for so many jobs was not answered, or not soon: they may be too much for the line, or for what is on its way.
    fn asked_too_much(&mut self, asked: usize) {
        if asked > 0 {
            self.may_ask = (asked / 2).max(1);
        }
    }

    fn has_settled(&mut self, mut batch: Vec<Settlement>, settled: &Settled) {
        let refused = settled.take_refused(&mut batch);
        if let Some(fault) = &settled.refusal {
            if self.refusals.is_multiple_of(120) {
                let queue = self.lane.queue.name.clone();
                say!(WARN, { jobs = refused.len(), fault = fault.clone() }, %queue, jobs, "results cannot be written, trying again; rename or delete the key that is of another type: {fault}");
            }
            self.refusals += 1;
            let again_at = Instant::now() + REFUSED_PAUSE;
            self.held_up.get_or_insert((again_at, Vec::new())).1.extend(refused);
        }
        if let Some(anew) = &settled.anew {
            let queue = self.lane.queue.name.clone();
            say!(WARN, { anew = anew.clone() }, %queue, "what could not be counted up begins anew: {anew}");
        }
        if !batch.is_empty() {
            self.refused.forget(&batch);
            self.lane.leases.settled(batch);
        }
        if let Some(fault) = &settled.not_durable {
            if self.refusals.is_multiple_of(120) {
                say!(WARN, { queue = self.lane.queue.name.clone(), fault = fault.clone() }, %queue, "results may not be safe yet, a failover may run their jobs again: {fault}");
            }
            self.refusals += 1;
        }
        if settled.stale > 0 {
            // Their jobs were given to others; what happened here counts for nothing.
            say!(DEBUG, { queue = self.lane.queue.name.clone(), stale = settled.stale }, %queue, stale, "settlements of lost leases were refused");
        }
    }

    async fn after_fault(&mut self, fault: &Fault) -> Option<Left> {
        match fault.kind {
            FaultKind::Connection | FaultKind::Silent => {
                return Some(Left::Reconnect(fault.to_string()));
            }
            FaultKind::Reply => {
                say!(ERROR, { queue = self.lane.queue.name.clone(), fault = fault.clone() }, %queue, "{fault}");
                sleep(REFUSED_PAUSE).await;
                return Some(Left::Reconnect(fault.to_string()));
            }
            FaultKind::Busy
            | FaultKind::Full
            | FaultKind::NoScript
            | FaultKind::Denied
            | FaultKind::NotDurable => {
                if self.refusals.is_multiple_of(120) {
                    let server = self.incarnation.core.client.address().to_string();
                    say!(WARN, { queue = self.lane.queue.name.clone(), fault = fault.clone() }, %server, %queue, "the server refuses, trying again: {fault}");
                }
                self.refusals += 1;
                self.refused_at = Some(self.answers);
                self.lane.suspects.leave_slots();
                sleep(REFUSED_PAUSE).await;
            }
        }
        None
    }

    /// Leaves a server that does not know this worker: one that has forgotten it, with all that it had, may have handed it a job
    /// since, which nobody else would look for.
    async fn leave(&self) {
        let (lane, incarnation) = (&self.lane, &self.incarnation);
        // Which ends when the life does.
        while lane.is_waiting() {
            let _ = timeout(LOOK_AGAIN, lane.changed.notified()).await;
        }
        let mut reconnect = Reconnect::soon();
        loop {
            let left = async {
                let connection = incarnation.core.client.connection(&lane.queue).await?;
                lane.queue.retire(&connection, &lane.keys, &lane.worker).await
            };
            let Err(fault) = left.await else { return };
            say!(DEBUG, { queue = lane.queue.name.clone() }, %queue, "leaving it failed: {fault}");
            reconnect.pause().await;
        }
    }

    async fn retire(&self, connection: &Connection) -> Left {
        let lane = &self.lane;
        match lane.queue.retire(connection, &lane.keys, &lane.worker).await {
            Ok(0) => Left::Retired,
            Ok(left) => {
                say!(WARN, { queue = lane.queue.name.clone() }, %queue, left, "leases are left for other workers to recover");
                Left::Retired
            }
            Err(fault) => Left::Reconnect(fault.to_string()),
        }
    }
}

impl Drop for Fetch {
    fn drop(&mut self) {
        // After a panic another loop sends them.
        if let Some((_, again)) = self.held_up.take() {
            self.lane.outbox.put_back(again);
        }
    }
}

/// The round trips of a connection, however that is left, also by a panic.
struct Trips {
    lane: Arc<Lane>,
    under_way: VecDeque<Trip>,
}

impl Drop for Trips {
    fn drop(&mut self) {
        // What was under way may have reached the server or not; it is sent again.
        while let Some(trip) = self.under_way.pop_back() {
            self.lane.outbox.put_back(trip.into_batch());
        }
    }
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}

/// What a worker says of itself.
fn record(incarnation: &Incarnation) -> Vec<(&'static str, String)> {
    let config = &incarnation.core.config;
    vec![
        ("name", config.name.clone()),
        ("host", crate::config::host_name()),
        ("pid", std::process::id().to_string()),
        ("version", env!("CARGO_PKG_VERSION").to_owned()),
        ("concurrency", config.concurrency.to_string()),
        ("dead_after", crate::time::millis(config.dead_after).to_string()),
        ("queues", incarnation.core.queue_names()),
    ]
}
