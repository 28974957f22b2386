//! The supervisor: a thread with a runtime and connections of its own, so that neither bulk traffic nor a body that
//! blocks delays heartbeats, deadlines and recovery.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{sleep, sleep_until, timeout_at};

use super::consumer::Lane;
use super::deadlines;
use super::hand_over::report_lost;
use super::log_outage;
use super::outages::Side;
use super::session::Incarnation;
use super::show_liveness;
use super::thread::Thread;
use crate::log::say;
use crate::monitor::{self, Monitor, Recovery, Sweeps, Task};
use crate::reconnect::Reconnect;
use crate::scheduler;
use crate::store::{Asked, Beat, Connection, Fault, FaultKind, Heard, Lease, lengths};
use crate::time::millis;

/// From the sending of one heartbeat to that of the next.
const BEAT_EVERY: Duration = Duration::from_millis(1_500);

/// A heartbeat that was refused is repeated after this.
const REFUSED_AGAIN: Duration = Duration::from_millis(500);

/// A heartbeat without an answer is given up after this.
const ANSWER_WITHIN: Duration = Duration::from_secs(3);

/// Every so many heartbeats asks for all silent workers, if this is who keeps the timer, the others for those of the last
/// minute, or for as far back as somebody is watched.
const ALL_EVERY: u64 = 40;
const RECENT: Duration = Duration::from_secs(60);

/// How many silent workers a heartbeat names at most; if there are more they are read apart.
const NAMED: usize = 1000;

/// Dead workers that one monitor recovers at the same time, each on a connection of its own.
const RECOVERIES_AT_ONCE: usize = 8;

/// Who gives back what a dead worker held, and began before us, has so long for it before the others look, one after the other over
/// as long again, whether something is left: he may have died too, or get no connection.
const OTHERS_LOOK_AFTER: Duration = Duration::from_millis(4_500);

/// A worker that was silent for so long may be forgotten.
const LONG_SILENT: Duration = Duration::from_secs(86_400);

/// What differs at a heartbeat is looked at again after this, since it may only be under way.
const LOOK_AGAIN: Duration = Duration::from_millis(300);

/// Starts the thread.
pub(super) fn spawn(incarnation: &Arc<Incarnation>) -> std::io::Result<Thread> {
    Thread::spawn("hworker-supervisor", incarnation, run)
}

async fn run(incarnation: Arc<Incarnation>) {
    let life = || Arc::clone(&incarnation);
    let mut hearts = JoinSet::new();
    hearts.spawn(life().with(show_liveness::show_with_beats(life(), |life| &life.supervisor)));
    let each = incarnation.for_each_queue(|lane| {
        let heart = Heart::new(life(), Arc::clone(lane));
        hearts.spawn(life().with(heart.run()));
    });
    tokio::select! {
        () = each => {}
        () = deadlines::keep(&incarnation) => {}
        // Apart from what waits for the server.
        () = deadlines::cancel_on_disconnect(&incarnation), if incarnation.core.config.cancel_on_disconnect => {}
    }
}

/// The heart of one queue.
struct Heart {
    incarnation: Arc<Incarnation>,
    lane: Arc<Lane>,
    monitor: Monitor,
    /// Whether this worker keeps the timer, and with that looks after the dead.
    keeps_timer: bool,
    beats: u64,
    /// Refused heartbeats since the start; about one a minute is logged.
    refused: u64,
    recovering: HashSet<String>,
    /// Dead workers of whom something may be left: their last heartbeats, and when to look again.
    unfinished: HashMap<String, (String, Instant)>,
    /// However many die at once, every monitor makes only so many connections for them.
    recoveries_at_once: Arc<Semaphore>,
    recoveries: JoinSet<(String, String, Result<Recovery, Fault>)>,
    timer: Option<Timer>,
    /// When the server was last not reached.
    failed_at: Option<Instant>,
    unseen: Option<Unseen>,
}

/// Leases that the server was seen to hold and that nobody here knew, and how many calls had been sent then, which might bring them yet.
struct Unseen {
    leases: HashSet<Lease>,
    asked: u64,
}

/// The timer of the queue, while this process keeps it.
struct Timer {
    task: AbortHandle,
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Heart {
    fn new(incarnation: Arc<Incarnation>, lane: Arc<Lane>) -> Self {
        Self {
            incarnation,
            lane,
            monitor: Monitor::default(),
            keeps_timer: false,
            beats: 0,
            refused: 0,
            recovering: HashSet::new(),
            unfinished: HashMap::new(),
            recoveries_at_once: Arc::new(Semaphore::new(RECOVERIES_AT_ONCE)),
            recoveries: JoinSet::new(),
            timer: None,
            failed_at: None,
            unseen: None,
        }
    }

    /// Beats until the worker is void or the supervisor ends.
    async fn run(mut self) {
        if self.lane.registered.subscribe().wait_for(|registered| *registered).await.is_err() {
            return;
        }
        let mut reconnect = Reconnect::new();
        loop {
            let connection = match self.incarnation.core.client.connection(&self.lane.queue).await {
                Ok(connection) => connection,
                Err(fault) => {
                    self.lost(&reconnect, &fault);
                    reconnect.pause().await;
                    continue;
                }
            };
            let wait = self.lane.waits.load(Ordering::Acquire);
            self.incarnation.beat.notify_waiters();
            let sent = Instant::now();
            let mut next = sent + BEAT_EVERY;
            // Before the heartbeat, which says so.
            let stopping = self.lane.stopping.is_cancelled();
            match self.beat(&connection).await {
                Ok(Beat::Accepted(heard)) => {
                    reconnect.succeeded();
                    if let Some(at) = self.failed_at.take() {
                        // What this connection went through, the others did too, and may not know yet: a request that
                        // was lost on the way is waited for until its time is over.
                        self.lane.was_cut_off(at);
                    }
                    log_outage::back(&self.incarnation, &self.lane, Side::Heart);
                    self.beats += 1;
                    self.lane.pulse.accepted(sent);
                    let clock = &self.incarnation.core.clock;
                    let was_set = clock.unix_ms().abs_diff(heard.now) > millis(BEAT_EVERY);
                    clock.heard(heard.now);
                    let keeps_timer = std::mem::replace(&mut self.keeps_timer, heard.keeps_timer);
                    let begins_to_keep = heard.keeps_timer && !keeps_timer;
                    let mut not_looked = false;
                    let again = was_set || begins_to_keep && !self.asked_for_everyone();
                    // All of it can be done again after the next heartbeat, which must not come late because of it.
                    match timeout_at(next.into(), self.after(&connection, sent, wait, heard)).await
                    {
                        Ok(Ok(())) => {}
                        Ok(Err(fault)) => {
                            say!(DEBUG, { queue = self.lane.queue.name.clone() }, %queue, "after a heartbeat: {fault}");
                            not_looked = self.asked_for_everyone();
                        }
                        Err(_) => {
                            say!(DEBUG, { queue = self.lane.queue.name.clone() }, %queue, "what follows a heartbeat was not done in time");
                            not_looked = self.asked_for_everyone();
                        }
                    }
                    if again {
                        // Who fell silent before the server's clock was set, or before somebody else ended who looked after the
                        // dead, is not in sight: the next asks for everyone.
                        self.beats = 0;
                    } else if not_looked {
                        // There may be more than one heartbeat has time for: the others come first.
                        self.beats = ALL_EVERY - 4;
                    }
                }
                Ok(Beat::Void) => {
                    log_outage::back(&self.incarnation, &self.lane, Side::Heart);
                    if !self.lane.retiring.is_cancelled() {
                        self.lane.leases.abandon();
                        self.incarnation.void.cancel();
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
                    // A server that is back and loads its data still is spoken of already.
                    if !self.incarnation.core.outages.is_one() && self.refused.is_multiple_of(120) {
                        let server = self.incarnation.core.client.address().to_string();
                        say!(WARN, { queue = self.lane.queue.name.clone() }, %server, %queue, "the server refuses heartbeats, trying again: {fault}");
                    }
                    self.refused += 1;
                    self.missed(false);
                    next = Instant::now() + REFUSED_AGAIN;
                }
            }
            tokio::select! {
                () = sleep_until(next.into()) => {}
                () = connection.ended() => {}
                // Whoever told it may soon lose patience, and that is to be known then.
                () = self.lane.stopping.cancelled(), if !stopping => {}
                () = self.lane.retired.cancelled() => return,
            }
        }
    }

    async fn beat(&self, connection: &Connection) -> Result<Beat, Fault> {
        let (lane, worker) = (&self.lane, &self.lane.worker);
        let asked = Asked {
            window: self.window(),
            everyone: self.beats.is_multiple_of(ALL_EVERY),
            looked: lane.parked.looked(),
            unknown_for: self.incarnation.core.config.unknown_for,
            stopping: self.incarnation.was_told_to_stop(),
        };
        lane.queue.heartbeat(connection, &lane.keys, worker, &asked, ANSWER_WITHIN).await
    }

    /// Whether the heartbeat that was accepted last did, which is counted already.
    fn asked_for_everyone(&self) -> bool {
        (self.beats - 1).is_multiple_of(ALL_EVERY)
    }

    /// How far back the next heartbeat asks for silent workers.
    fn window(&self) -> Duration {
        let now = self.incarnation.core.clock.unix_ms();
        // The next one is a beat later, and a clock that is estimated may be off by as much.
        let watched = self.monitor.watches_back(now).map(|back| back + 4 * BEAT_EVERY);
        watched.map_or(RECENT, |watched| watched.max(RECENT))
    }

    /// The server was not reached.
    fn lost(&mut self, reconnect: &Reconnect, fault: &Fault) {
        // One connection may end without an outage: the next try says whether it is one, or that nothing was heard
        // for too long.
        if reconnect.failed() || !self.lane.pulse.is_fresh() {
            log_outage::lost(&self.incarnation, &self.lane, Side::Heart, fault);
        }
        self.failed_at = Some(Instant::now());
        self.missed(true);
    }

    fn missed(&mut self, connection_lost: bool) {
        self.monitor.missed(connection_lost);
        // The first that is accepted again asks for everyone: who died meanwhile may have been silent for long.
        self.beats = 0;
    }

    /// Does what an accepted heartbeat calls for.
    async fn after(
        &mut self,
        connection: &Connection,
        sent: Instant,
        wait: u64,
        mut heard: Heard,
    ) -> Result<(), Fault> {
        if heard.next_due.is_some_and(|due| due.is_zero()) {
            // One chunk: whoever keeps the timer does the rest.
            let (_, next_due) = self.lane.queue.promote(connection).await?;
            if next_due.is_some_and(|due| due.is_zero()) {
                // It would have, had it known: somebody wrote there without the bell, or an answer was lost.
                self.timer = None;
            }
        }
        self.keep_timer(heard.keeps_timer);
        self.lane.parked.tell(heard.parked, if heard.keeps_timer { heard.overdue } else { 0 });
        let is_first =
            self.incarnation.lanes().first().is_some_and(|lane| Arc::ptr_eq(lane, &self.lane));
        if is_first && self.asked_for_everyone() {
            self.incarnation.census.tell(heard.keeps_timer);
        }
        self.watch(connection, sent, &mut heard).await?;
        self.verify(connection, wait, &heard).await
    }

    fn keep_timer(&mut self, keeps: bool) {
        if !keeps {
            self.timer = None;
        } else if self.timer.as_ref().is_none_or(|timer| timer.task.is_finished()) {
            let (incarnation, queue) = (Arc::clone(&self.incarnation), self.lane.queue.clone());
            let life = Arc::clone(&incarnation);
            let keep = async move {
                let connection = incarnation.core.client.address().connect(&queue).await?;
                scheduler::keep_timer(&queue, &connection).await
            };
            let task = tokio::spawn(life.with(async move {
                if let Err::<(), Fault>(fault) = keep.await {
                    say!(DEBUG, "the timer stopped, the next heartbeat starts it again: {fault}");
                }
            }));
            self.timer = Some(Timer { task: task.abort_handle() });
        }
    }

    /// Watches the other workers, and recovers the jobs of those that died.
    async fn watch(
        &mut self,
        connection: &Connection,
        sent: Instant,
        heard: &mut Heard,
    ) -> Result<(), Fault> {
        while let Some(done) = self.recoveries.try_join_next() {
            if let Ok((worker, seen, result)) = done {
                self.recovering.remove(&worker);
                let look_after = match result {
                    Ok(Recovery::Alive) => {
                        self.unfinished.remove(&worker);
                        continue;
                    }
                    Ok(Recovery::Done) => None,
                    Ok(Recovery::WithAnother) => {
                        Some(OTHERS_LOOK_AFTER.mul_f64(1.0 + fastrand::f64()))
                    }
                    Ok(Recovery::Failed) => Some(Duration::ZERO),
                    Err(fault) => {
                        say!(DEBUG, worker, "it is not known whether it is dead: {fault}");
                        continue;
                    }
                };
                self.monitor.is_dead(&worker);
                match look_after {
                    Some(after) => self.unfinished.insert(worker, (seen, Instant::now() + after)),
                    None => self.unfinished.remove(&worker),
                };
            }
        }
        let mut silent = std::mem::take(&mut heard.silent);
        let own = self.incarnation.core.config.dead_after;
        let queue = self.lane.queue.clone();
        let everyone = self.asked_for_everyone();
        if silent.len() >= NAMED {
            let window = (!everyone || !heard.keeps_timer).then(|| self.window());
            silent = queue.silent(connection, heard.now, window).await?;
        }
        if everyone {
            self.monitor.remembers_only(&silent);
        }
        let (mut unknown, mut dead) = (Vec::new(), Vec::new());
        let sweeps = match (heard.keeps_timer, everyone) {
            (false, _) => Sweeps::Nobody,
            (true, false) => Sweeps::Lately,
            (true, true) => Sweeps::Everyone,
        };
        for task in self.monitor.accepted(sent, own, heard.now, sweeps, silent) {
            match task {
                Task::Learn { worker, seen } => unknown.push((worker, seen)),
                Task::Recover { worker, seen } => self.start_recovery(worker, seen, false),
                Task::Sweep { worker, seen } => dead.push((worker, seen)),
            }
        }
        let ids: Vec<_> = unknown.iter().map(|(worker, _)| worker.as_str()).collect();
        let records = queue.remembered(connection, &ids).await?;
        for ((worker, seen), record) in unknown.into_iter().zip(records) {
            if self.monitor.learn(&worker, record.dead, record.dead_after) {
                dead.push((worker, seen));
            }
        }
        let now = Instant::now();
        let due = self.unfinished.iter().filter(|(_, (_, at))| *at <= now);
        dead.extend(due.map(|(worker, (seen, _))| (worker.clone(), seen.clone())));
        self.sweep(connection, heard.now, dead).await
    }

    /// `is_dead`: it was declared so before, and something is left.
    fn start_recovery(&mut self, worker: String, seen: String, is_dead: bool) {
        if self.recovering.insert(worker.clone()) {
            let (incarnation, queue) = (Arc::clone(&self.incarnation), self.lane.queue.clone());
            let at_once = Arc::clone(&self.recoveries_at_once);
            self.recoveries.spawn(Arc::clone(&self.incarnation).with(async move {
                let _turn = at_once.acquire_owned().await;
                let result = recover(&incarnation, &queue, &worker, &seen, is_dead).await;
                (worker, seen, result)
            }));
        }
    }

    /// Looks whether a half-open connection captured anything for the dead, all in one write, and forgets those that have been
    /// dead for long.
    async fn sweep(
        &mut self,
        connection: &Connection,
        now: u64,
        dead: Vec<(String, String)>,
    ) -> Result<(), Fault> {
        let queue = self.lane.queue.clone();
        let ids: Vec<_> = dead.iter().map(|(worker, _)| worker.as_str()).collect();
        let holds = queue.hold_anything(connection, &ids).await?;
        for ((worker, seen), holds) in dead.into_iter().zip(holds) {
            if holds {
                self.start_recovery(worker, seen, true);
                continue;
            }
            self.unfinished.remove(&worker);
            let long_dead = monitor::silent_for(&seen, now) > LONG_SILENT;
            if long_dead && queue.bury(connection, &worker).await? {
                self.monitor.forget(&worker);
            }
        }
        Ok(())
    }

    /// Holds what the server has for us against what we know. What differs may be under way, so it must differ twice.
    /// `wait` tells the wait that was under way when the heartbeat was sent.
    async fn verify(
        &mut self,
        connection: &Connection,
        wait: u64,
        heard: &Heard,
    ) -> Result<(), Fault> {
        let lane = Arc::clone(&self.lane);
        // A wait is lost only if it is the same all the time: under load one follows another, and jobs come in between.
        let same_wait = || !wait.is_multiple_of(2) && lane.waits.load(Ordering::Acquire) == wait;
        let waits_in_vain = |waiting: u64| waiting > 0 && same_wait();
        let differs = heard.leases != lane.leases.count() as u64;
        if !differs && heard.inbox == 0 && !waits_in_vain(heard.waiting) {
            return Ok(());
        }
        let before = self.unseen.as_ref().filter(|before| lane.asks.are_over(before.asked));
        let unseen = self.compare(connection).await?;
        let (asked, passed) = (lane.asks.sent(), lane.line.passed());
        if before.is_some_and(|before| !before.leases.is_disjoint(&unseen)) {
            self.unseen = None;
            lane.differs();
            return Ok(());
        }
        sleep(LOOK_AGAIN).await;
        // An answer that is large for the network brings them yet. One of which nothing arrives has to be taken for lost.
        let arriving = || lane.line.passed() != passed;
        if unseen.is_empty() {
            self.unseen = None;
        } else if lane.asks.are_over(asked) || !arriving() {
            self.unseen = None;
            if !self.compare(connection).await?.is_disjoint(&unseen) {
                lane.differs();
            }
        } else if self.unseen.as_ref().is_none_or(|before| lane.asks.are_over(before.asked)) {
            self.unseen = Some(Unseen { leases: unseen, asked });
        }
        if heard.inbox > 0 || waits_in_vain(heard.waiting) {
            let (inbox, waiting) = lengths(connection, &lane.queue, &lane.keys).await?;
            if (heard.inbox > 0 && inbox > 0) || waits_in_vain(waiting) {
                if same_wait() {
                    lane.wait_lost.notify_waiters();
                }
                lane.look();
            }
        }
        Ok(())
    }

    /// Cancels what was lost, settles again what was revived, and gives the names of leases that we never saw.
    async fn compare(&self, connection: &Connection) -> Result<HashSet<Lease>, Fault> {
        let lane = &self.lane;
        let believed = lane.leases.believed();
        let server = lane.queue.leases(connection, &lane.keys).await?;
        let comparison = lane.leases.compare(&believed, server);
        for lease in &comparison.lost {
            report_lost(lane, lease);
        }
        for settlement in comparison.revived {
            lane.settle(Some(settlement));
        }
        Ok(comparison.unseen.into_iter().collect())
    }
}

/// What a dead worker leaves behind is moved on a connection of its own: it may be much, and heartbeats must not queue behind it.
async fn recover(
    incarnation: &Incarnation,
    queue: &crate::store::Queue,
    worker: &str,
    seen: &str,
    is_dead: bool,
) -> Result<Recovery, Fault> {
    let core = &incarnation.core;
    let shared = core.client.connection(queue).await?;
    // On the heap, as few make one at a time.
    let connect = Box::pin(core.client.address().connect(queue));
    monitor::recover(queue, &shared, connect, &core.clock, (worker, seen), is_dead).await
}
