//! Other workers, as the heartbeats of one queue see them: silent workers are watched, and the jobs of dead ones recovered.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::charts::{Rare, UNKNOWN};
use crate::events::Line;
use crate::hooks::{ErrorReport, Event, EventKind, Events};
use crate::log::say;
use crate::monitor::{self, Death, Monitor, Recovery, Sweeps, Task};
use crate::store::{Connection, Fault, Heard, Queue};
use crate::worker::state::{Core, Session};

/// The time between two heartbeats.
pub(crate) const BEAT_EVERY: Duration = Duration::from_millis(1_500);

/// How far back most heartbeats ask for silent workers.
const RECENT: Duration = Duration::from_secs(60);

/// How many silent workers a heartbeat names at most; if there are more they are read separately.
const NAMED: usize = 1000;

/// How many dead workers one monitor recovers at the same time, each on a connection of its own.
const RECOVERIES_AT_ONCE: usize = 8;

/// How long another worker that began to recover a dead worker has for it. Then the others look, one after the other over as long again,
/// whether something is left: that worker may have died too, or get no connection.
const OTHERS_LOOK_AFTER: Duration = Duration::from_millis(4_500);

/// How long a worker is silent before it may be forgotten.
const LONG_SILENT: Duration = Duration::from_secs(86_400);

/// The watched workers of one queue.
pub(crate) struct Watch {
    session: Arc<Session>,
    queue: Queue,
    monitor: Monitor,
    recovering: HashSet<String>,
    /// Dead workers that may have left something: their last heartbeats, and when to look again.
    unfinished: HashMap<String, (String, Instant)>,
    /// A monitor makes only this many connections for dead workers, however many die at once.
    recoveries_at_once: Arc<Semaphore>,
    recoveries: JoinSet<(String, String, Result<Recovery, Fault>)>,
}

impl Watch {
    pub(crate) fn new(session: Arc<Session>, queue: Queue) -> Self {
        Self {
            session,
            queue,
            monitor: Monitor::default(),
            recovering: HashSet::new(),
            unfinished: HashMap::new(),
            recoveries_at_once: Arc::new(Semaphore::new(RECOVERIES_AT_ONCE)),
            recoveries: JoinSet::new(),
        }
    }

    /// How far back the next heartbeat asks for silent workers.
    pub(crate) fn window(&self) -> Duration {
        let now = self.session.core.clock.unix_ms();
        // The next heartbeat is one interval later, and an estimated clock may be off by as much.
        let watched = self.monitor.watches_back(now).map(|back| back + 4 * BEAT_EVERY);
        watched.map_or(RECENT, |watched| watched.max(RECENT))
    }

    pub(crate) fn missed(&mut self, connection_lost: bool) {
        self.monitor.missed(connection_lost);
    }

    /// Watches the other workers and recovers the jobs of dead ones.
    pub(crate) async fn watch(
        &mut self,
        connection: &Connection,
        sent: Instant,
        everyone: bool,
        heard: &mut Heard,
    ) -> Result<(), Fault> {
        while let Some(done) = self.recoveries.try_join_next() {
            let Ok((worker, seen, result)) = done else { continue };
            self.recovering.remove(&worker);
            let look_after = match result {
                Ok(Recovery::Alive | Recovery::Done) => None,
                Ok(Recovery::WithAnother) => Some(OTHERS_LOOK_AFTER.mul_f64(1.0 + fastrand::f64())),
                Ok(Recovery::Failed) => Some(Duration::ZERO),
                Err(fault) => {
                    say!(DEBUG, worker.id = worker, "it is not known whether it is dead: {fault}");
                    continue;
                }
            };
            if !matches!(result, Ok(Recovery::Alive)) {
                self.monitor.is_dead(&worker);
            }
            match look_after {
                Some(after) => self.unfinished.insert(worker, (seen, Instant::now() + after)),
                None => self.unfinished.remove(&worker),
            };
        }
        let mut silent = std::mem::take(&mut heard.silent);
        let own = self.session.core.config.dead_after;
        if silent.len() >= NAMED {
            let window = (!everyone || !heard.keeps_timer).then(|| self.window());
            silent = self.queue.silent(connection, heard.now, window).await?;
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
        let records = self.queue.remembered(connection, &ids).await?;
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

    /// Moves the jobs of a dead worker on a connection of its own. `is_dead`: it was declared dead before, and something is left.
    fn start_recovery(&mut self, worker: String, seen: String, is_dead: bool) {
        if self.recovering.insert(worker.clone()) {
            let (session, queue) = (Arc::clone(&self.session), self.queue.clone());
            let at_once = Arc::clone(&self.recoveries_at_once);
            self.recoveries.spawn(Arc::clone(&session).with(async move {
                let turn = at_once.acquire_owned().await;
                let core = &session.core;
                let recovered = async {
                    let shared = core.client.connection(&queue).await?;
                    // There may be many jobs, and heartbeats must not queue behind them. On the heap, since only a few make one at a time.
                    let connect = Box::pin(core.client.address().connect(&queue, None));
                    let dead = (&*worker, &*seen);
                    monitor::recover(&queue, &shared, connect, &core.clock, dead, is_dead).await
                };
                let result = recovered.await;
                drop(turn);
                let death = result.as_ref().ok().and_then(|(_, death)| death.as_ref());
                death.inspect(|death| tell(core, &queue, &worker, death));
                if let Some(death) = death.filter(|_| core.client.writes_events() >= Events::Ends) {
                    tell_others(core, &queue, &worker, death).await;
                }
                if let Some(death) = death.filter(|death| death.declared)
                    && let Err(fault) = core.client.write_death(&worker, &queue.name, death).await
                {
                    say!(
                        DEBUG,
                        { worker = worker.clone() },
                        worker.id = worker,
                        "its death was not written down: {fault}"
                    );
                }
                (worker, seen, result.map(|(recovery, _)| recovery))
            }));
        }
    }

    /// Looks whether a half-open connection captured a job for a dead worker, all in one write. Forgets workers that have been dead for
    /// long.
    async fn sweep(
        &mut self,
        connection: &Connection,
        now: u64,
        dead: Vec<(String, String)>,
    ) -> Result<(), Fault> {
        let ids: Vec<_> = dead.iter().map(|(worker, _)| worker.as_str()).collect();
        let holds = self.queue.hold_anything(connection, &ids).await?;
        for ((worker, seen), holds) in dead.into_iter().zip(holds) {
            if holds {
                self.start_recovery(worker, seen, true);
                continue;
            }
            self.unfinished.remove(&worker);
            let long_dead = monitor::silent_for(&seen, now) > LONG_SILENT;
            if long_dead && self.queue.bury(connection, &worker).await? {
                self.monitor.forget(&worker);
            }
        }
        Ok(())
    }
}

/// Writes for other processes that these jobs were given back, as far as the server takes it.
async fn tell_others(core: &Core, queue: &Queue, worker: &str, death: &Death) {
    let told = async {
        let lines = death.held.iter().take(usize::try_from(death.given).unwrap_or(usize::MAX));
        let lines: Vec<_> = lines
            .map(|held| {
                let line = Line::new(EventKind::Recovered, Some(&held.job), held.id.as_deref());
                Line { attempt: Some(held.attempt), ..line }.text()
            })
            .collect();
        let on = core.client.connection(queue).await?;
        queue.tell_events(&on, worker, &lines).await
    };
    if let Err(fault) = told.await {
        say!(
            DEBUG,
            { worker = worker.to_owned() },
            worker.id = worker,
            "the events of its jobs are not written, and lost: {fault}"
        );
    }
}

/// Counts the jobs that were given back, and reports them. Their names are those that stand in them, and count where the program knows them.
fn tell(core: &Core, queue: &Queue, worker: &str, death: &Death) {
    let totals = core.totals.queue(&queue.name);
    let held = death.held.iter().take(usize::try_from(death.given).unwrap_or(usize::MAX));
    let mut unknown = death.given;
    for held in held {
        let Some(definition) = core.jobs.get(&*held.job) else { continue };
        totals.add(definition.name, Rare::Recovered, 1);
        unknown = unknown.saturating_sub(1);
        core.hooks.events.tell(|| Event {
            kind: EventKind::Recovered,
            at: core.clock.unix_ms(),
            queue: queue.name.to_string(),
            job: Some(definition.name.to_owned()),
            id: held.id.as_deref().map(Into::into),
            attempt: Some(held.attempt),
            worker: Some(worker.to_owned()),
            message: None,
            elapsed: None,
            unsure: false,
        });
        core.hooks.errors.tell(|| ErrorReport {
            id: held.id.as_deref().unwrap_or_default().into(),
            job: definition.name.to_owned(),
            queue: queue.name.to_string(),
            attempt: held.attempt,
            max_attempts: held.max_attempts.unwrap_or(definition.policy.max_attempts),
            is_last: false,
            kind: "crash",
            message: "its worker died while it had the job".to_owned(),
            place: None,
            backtrace: None,
            worker: worker.to_owned(),
            tags: held.tags.clone(),
            elapsed: None,
        });
    }
    totals.add(UNKNOWN, Rare::Recovered, unknown);
}
