//! The heartbeat loop of one queue.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio::time::{sleep_until, timeout_at};

use crate::log::say;
use crate::reconnect::Reconnect;
use crate::scheduler;
use crate::store::{Asked, Beat, Connection, Fault, FaultKind, Heard, Orders};
use crate::time::millis;
use crate::worker::attempt::stopped;
use crate::worker::report::{charts, log_outage};
use crate::worker::state::{Consumer, Session, Side};
use crate::worker::supervisor::holds;
use crate::worker::supervisor::recovery::{BEAT_EVERY, Watch};
use crate::worker::supervisor::retention::Retention;
use crate::worker::supervisor::verify::Verifier;

/// The time between two heartbeats while the worker holds jobs: an order to cancel one reaches it within a second.
const BUSY_BEAT_EVERY: Duration = Duration::from_millis(900);

/// The pause before a refused heartbeat is repeated.
const REFUSED_AGAIN: Duration = Duration::from_millis(500);

/// How long a heartbeat waits for its answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(3);

/// So often the worker that keeps the timer writes what there is on the queue.
const GAUGES_EVERY: Duration = Duration::from_secs(60);

/// One heartbeat in this many asks for all silent workers, if this worker keeps the timer. The others ask for those of the last minute, or
/// for as far back as a worker is watched.
const ALL_EVERY: u64 = 40;

/// The heartbeat loop of one queue.
pub(crate) struct HeartbeatLoop {
    session: Arc<Session>,
    consumer: Arc<Consumer>,
    watch: Watch,
    verifier: Verifier,
    retention: Retention,
    /// Whether this worker keeps the timer, and with that looks after dead workers.
    keeps_timer: bool,
    /// After this many heartbeats one asks for all silent workers.
    everyone_in: u64,
    /// Refused heartbeats since the start; about one a minute is logged.
    refused: u64,
    /// The task of the queue's timer, while this process keeps it.
    timer: JoinSet<()>,
    /// When the server was last not reached.
    failed_at: Option<Instant>,
    /// It reaches the server since then.
    steady_since: Instant,
    /// When this worker last wrote what there is on the queue.
    gauged_at: Option<Instant>,
    /// Of the cron entries of the queue.
    notes: scheduler::Notes,
}

impl HeartbeatLoop {
    pub(crate) fn new(session: Arc<Session>, consumer: Arc<Consumer>) -> Self {
        Self {
            watch: Watch::new(Arc::clone(&session), consumer.queue.clone()),
            session,
            consumer,
            verifier: Verifier::default(),
            retention: Retention::default(),
            keeps_timer: false,
            everyone_in: 0,
            refused: 0,
            timer: JoinSet::new(),
            failed_at: None,
            steady_since: Instant::now(),
            gauged_at: None,
            notes: scheduler::Notes::default(),
        }
    }

    /// Sends heartbeats until the worker is void or the supervisor ends.
    pub(crate) async fn run(mut self) {
        if self.consumer.registered.subscribe().wait_for(|registered| *registered).await.is_err() {
            return;
        }
        let mut reconnect = Reconnect::new();
        loop {
            let connection = match self.session.core.client.connection(&self.consumer.queue).await {
                Ok(connection) => connection,
                Err(fault) => {
                    self.lost(&reconnect, &fault);
                    reconnect.pause().await;
                    continue;
                }
            };
            let wait = self.consumer.waits.load(Ordering::Acquire);
            self.session.beat.notify_waiters();
            let sent = Instant::now();
            let mut next = None;
            // Read before the heartbeat, which tells the server.
            let stopping = self.consumer.stopping.is_cancelled();
            match self.beat(&connection).await {
                Ok(Beat::Accepted(heard)) => {
                    reconnect.succeeded();
                    self.accepted(&connection, sent, wait, *heard).await;
                }
                Ok(Beat::Void) => {
                    log_outage::back(&self.session, &self.consumer, Side::Heartbeat);
                    if !self.consumer.retiring.is_cancelled() {
                        self.consumer.leases.abandon();
                        self.session.void.cancel();
                    }
                    return;
                }
                Err(fault) if fault.kind == FaultKind::Connection => {
                    connection.end();
                    self.lost(&reconnect, &fault);
                    reconnect.pause().await;
                    continue;
                }
                Err(fault) => {
                    self.refused(&fault);
                    next = Some(Instant::now() + REFUSED_AGAIN);
                }
            }
            let next = next.unwrap_or_else(|| self.next_after(sent));
            tokio::select! {
                () = sleep_until(next.into()) => {}
                () = connection.ended() => {}
                // The process may soon be killed, so the server is told at once.
                () = self.consumer.stopping.cancelled(), if !stopping => {}
                () = self.consumer.retired.cancelled() => return,
            }
        }
    }

    /// When the next heartbeat is due. Those of a worker that holds jobs come sooner, so that one which is cancelled hears of it soon.
    fn next_after(&self, sent: Instant) -> Instant {
        sent + if self.consumer.leases.count() > 0 { BUSY_BEAT_EVERY } else { BEAT_EVERY }
    }

    async fn beat(&self, connection: &Connection) -> Result<Beat, Fault> {
        let (consumer, worker) = (&self.consumer, &self.consumer.worker);
        let asked = Asked {
            window: self.watch.window(),
            everyone: self.everyone_in == 0,
            looked: consumer.parked.looked(),
            unknown_for: self.session.core.config.unknown_for,
            stopping: self.session.was_told_to_stop(),
            declares: self.session.core.table.declares(&consumer.queue),
            steady: self.steady_since.elapsed(),
            blocked: self.session.runtime.stuck_for().unwrap_or_default(),
            stopped: consumer.stopped.changes(),
        };
        consumer.queue.heartbeat(connection, &consumer.keys, worker, &asked, ANSWER_WITHIN).await
    }

    async fn accepted(
        &mut self,
        connection: &Connection,
        sent: Instant,
        wait: u64,
        mut heard: Heard,
    ) {
        if let Some(at) = self.failed_at.take() {
            self.steady_since = Instant::now();
            // The other connections were cut off too, and may not know it yet: a lost request is waited for until its time is over.
            self.consumer.was_cut_off(at);
        }
        log_outage::back(&self.session, &self.consumer, Side::Heartbeat);
        let everyone = self.everyone_in == 0;
        self.everyone_in = self.everyone_in.checked_sub(1).unwrap_or(ALL_EVERY - 1);
        // Before a job may start.
        self.obey(heard.orders);
        heard.cancelled.iter().for_each(|lease| self.consumer.leases.cancel(lease));
        self.consumer.stopped.hear(heard.stops_changed, std::mem::take(&mut heard.stops));
        stopped::cancel_running(&self.consumer);
        self.consumer.freshness.accepted(sent);
        let clock = &self.session.core.clock;
        let was_set = clock.unix_ms().abs_diff(heard.now) > millis(BEAT_EVERY);
        clock.heard(heard.now);
        let kept_timer = std::mem::replace(&mut self.keeps_timer, heard.keeps_timer);
        let begins_to_keep = heard.keeps_timer && !kept_timer;
        // All of this can be done again after the next heartbeat, which must not be late because of it.
        let next = (sent + BEAT_EVERY).into();
        let why = match timeout_at(next, self.after(connection, sent, wait, everyone, heard)).await
        {
            Ok(Ok(())) => None,
            Ok(Err(fault)) => Some(fault.to_string()),
            Err(_) => Some("it was not done in time".to_owned()),
        };
        if was_set || begins_to_keep && !everyone {
            // Some workers are not in sight: those that fell silent before the server's clock was set, or before the worker that kept the
            // timer ended. So the next heartbeat asks for everyone.
            self.everyone_in = 0;
        } else if why.is_some() && everyone {
            // There may be too much for the time between two heartbeats: the others come first.
            self.everyone_in = 4;
        }
        if let Some(why) = why {
            say!(DEBUG, { queue = self.consumer.queue.name.clone() }, job.queue = %queue, "after a heartbeat: {why}");
        }
    }

    /// Does what a person ordered. The number of slots is that of all queues, so the first says it.
    fn obey(&self, orders: Orders) {
        let core = &self.session.core;
        self.consumer.set_quiet(orders.quiet);
        let consumers = self.session.consumers();
        if consumers.first().is_some_and(|first| Arc::ptr_eq(first, &self.consumer)) {
            let slots = orders.slots.unwrap_or(core.config.concurrency);
            if self.session.scale(slots) {
                core.children.iter().for_each(|children| children.scale(slots));
                say!(INFO, { worker = self.session.id.clone() }, worker.id = %worker, slots, "the worker is scaled");
            }
        }
        if orders.stop && !core.stop.is_cancelled() {
            say!(INFO, { worker = self.session.id.clone() }, worker.id = %worker, "the worker is ordered to stop");
            if let Some(grace) = orders.grace {
                let _ = core.ordered_grace.set(grace);
            }
            core.stop.cancel();
        }
    }

    fn refused(&mut self, fault: &Fault) {
        // The log has the outage already, even if the server is back and still loads its data.
        if !self.session.core.outages.is_ongoing() && self.refused.is_multiple_of(120) {
            let (server, fault) = (self.session.core.client.address().to_string(), fault.clone());
            say!(WARN, { queue = self.consumer.queue.name.clone() }, %server, job.queue = %queue, "the server refuses heartbeats, trying again: {fault}");
        }
        self.refused += 1;
        self.steady_since = Instant::now();
        self.missed(false);
    }

    /// Notes that the server was not reached.
    fn lost(&mut self, reconnect: &Reconnect, fault: &Fault) {
        // One connection may end without an outage. The next try shows an outage, or the heartbeat is no longer fresh.
        if reconnect.failed() || !self.consumer.freshness.is_fresh() {
            log_outage::lost(&self.session, &self.consumer, Side::Heartbeat, fault);
        }
        self.failed_at = Some(Instant::now());
        self.missed(true);
    }

    fn missed(&mut self, connection_lost: bool) {
        self.watch.missed(connection_lost);
        // The next accepted heartbeat asks for everyone: a worker that died meanwhile may have been silent for long.
        self.everyone_in = 0;
    }

    /// Does the work that follows an accepted heartbeat.
    async fn after(
        &mut self,
        connection: &Connection,
        sent: Instant,
        wait: u64,
        everyone: bool,
        mut heard: Heard,
    ) -> Result<(), Fault> {
        if heard.next_due.is_some_and(|due| due.is_zero()) {
            // One chunk: the worker that keeps the timer does the rest.
            let promoted =
                scheduler::promote(&self.consumer.queue, connection, &mut self.notes).await?;
            if promoted.next_due.is_some_and(|due| due.is_zero()) {
                // The timer did not know of these jobs: a client wrote them without the bell, or an answer was lost.
                self.timer = JoinSet::new();
            }
        }
        if heard.is_to_declare {
            // A newer program has gone, or somebody removed what was said.
            let steady = self.steady_since.elapsed();
            self.session.core.table.declare(&self.consumer.queue, connection, steady).await?;
        }
        self.keep_timer(heard.keeps_timer);
        self.consumer.broadcasts.tell(std::mem::take(&mut heard.broadcasts));
        self.consumer.notes.hear(heard.notes);
        self.consumer.notes.mind(std::mem::take(&mut heard.batches));
        self.consumer.parked.tell(heard.parked, if heard.keeps_timer { heard.overdue } else { 0 });
        let consumers = self.session.consumers();
        let is_first = consumers.first().is_some_and(|first| Arc::ptr_eq(first, &self.consumer));
        if is_first && everyone {
            self.session.keeps_timer.store(heard.keeps_timer, Ordering::Release);
            self.session.census.notify_one();
        }
        self.watch.watch(connection, sent, everyone, &mut heard).await?;
        self.verifier.verify(&self.consumer, connection, wait, &heard).await?;
        if heard.keeps_timer && everyone {
            holds::free_left(&self.consumer.queue, connection, heard.now).await?;
        }
        charts::write(&self.consumer, connection).await?;
        if heard.keeps_timer && self.gauged_at.is_none_or(|at| at.elapsed() >= GAUGES_EVERY) {
            self.gauged_at = Some(Instant::now());
            charts::write_gauges(&self.consumer, connection, heard.now).await?;
        }
        // The last: it fails where somebody made the key of records another type.
        if heard.keeps_timer {
            self.retention.trim(&self.consumer.queue, connection, heard.now, everyone).await?;
        }
        Ok(())
    }

    fn keep_timer(&mut self, keeps: bool) {
        while self.timer.try_join_next().is_some() {}
        if !keeps {
            self.timer = JoinSet::new();
        } else if self.timer.is_empty() {
            let (session, queue) = (Arc::clone(&self.session), self.consumer.queue.clone());
            self.timer.spawn(Arc::clone(&session).with(async move {
                let keep = async {
                    let connection = session.core.client.address().connect(&queue, None).await?;
                    scheduler::keep_timer(&queue, &connection).await
                };
                if let Err::<(), Fault>(fault) = keep.await {
                    say!(DEBUG, "the timer stopped, the next heartbeat starts it again: {fault}");
                }
            }));
        }
    }
}
