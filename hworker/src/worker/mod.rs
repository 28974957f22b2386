//! The worker: takes jobs, runs them, settles them, and watches over other workers.

mod admit;
mod builder;
mod bulky;
mod census;
mod census_state;
mod claims;
mod consumer;
mod core;
#[cfg(test)]
mod cost;
mod deadlines;
mod decide;
mod decode;
#[cfg(feature = "health")]
mod endpoint;
mod execute;
mod fetch;
mod give_back;
mod hand_over;
mod health;
mod idle;
mod intake;
mod job;
mod leases;
mod liveness;
mod log_outage;
mod look;
mod outages;
mod outbox;
mod pace;
mod panic;
mod parked;
mod parked_state;
mod pulse;
mod ready;
mod recent;
mod runner;
mod session;
mod settle;
mod show_liveness;
mod signals;
mod slots;
mod supervise;
mod suspects;
#[cfg(all(test, feature = "embedded"))]
mod tests;
mod thread;
mod throttle;
mod trip;
mod wait;

use std::future::Future;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

pub use builder::WorkerBuilder;
pub use health::{Health, Unhealthy};

use crate::error::Error;
use crate::keys::is_name;
use crate::log::{self, WorkerRuns, say};
use crate::runtime;
use admit::released;
use consumer::Lane;
use core::Core;
use job::Running;
use session::Incarnation;
use signals::Signals;

/// A body that is cancelled has ended within this, unless it blocks its thread.
const CANCELLED_WITHIN: Duration = Duration::from_secs(1);

/// From the end of the grace on, what is given back has so long to reach the server.
const FLUSH_WITHIN: Duration = Duration::from_secs(3);

/// Whoever ran a body lets go of its slot within so long of its end: a turn of a task or two, on a machine that may be busy.
const LET_GO_WITHIN: Duration = Duration::from_millis(500);

/// The last word to the server takes at most so long.
const RETIRE_WITHIN: Duration = Duration::from_millis(1_500);

/// Runs jobs until it is told to stop. [`run_all`](crate::run_all) is the short way to one.
#[derive(Debug)]
pub struct Worker {
    core: Arc<Core>,
    handle: WorkerHandle,
    health: Health,
}

/// Stops a worker from elsewhere, and changes which queues it serves; clones do so to the same worker.
#[derive(Debug, Clone, Default)]
pub struct WorkerHandle {
    stop: CancellationToken,
    now: CancellationToken,
    core: Weak<Core>,
}

impl WorkerHandle {
    /// Stops the worker: it takes no more jobs, lets those that run finish within the grace, and gives the rest back.
    pub fn stop(&self) {
        self.stop.cancel();
    }

    /// Stops the worker without the grace: what runs is given back at once.
    pub fn stop_now(&self) {
        self.stop.cancel();
        self.now.cancel();
    }

    /// Serves this queue too, from now on, beside those that it serves. Without an effect where it is served, or the worker is gone.
    ///
    /// ```no_run
    /// # async fn demo() -> Result<(), hworker::Error> {
    /// let worker = hworker::Worker::builder().build()?;
    /// let handle = worker.handle();
    /// let running = tokio::spawn(worker.run());
    /// handle.add_queue("tenant-7")?;
    /// // Later: those of its jobs that run end here, the rest is for other workers.
    /// handle.remove_queue("tenant-7");
    /// # let _ = running; Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::Config`] where the name is not of the form `[A-Za-z0-9._-]{1,100}`.
    pub fn add_queue(&self, name: &str) -> Result<(), Error> {
        if !is_name(name) {
            return Err(Error::config(format!(
                "the queue's name `{name}` is not of the form [A-Za-z0-9._-]{{1,100}}"
            )));
        }
        if let Some(core) = self.core.upgrade() {
            core.add_queue(name);
        }
        Ok(())
    }

    /// Serves this queue no more: takes no more of its jobs, gives back those that have not started, and lets those that run end, however
    /// long they take. Without an effect where it is not served.
    pub fn remove_queue(&self, name: &str) {
        if let Some(core) = self.core.upgrade() {
            core.remove_queue(name);
        }
    }

    fn is_told_to_stop(&self) -> bool {
        self.stop.is_cancelled()
    }
}

/// How a worker stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stopped {
    /// Blocking bodies that have not returned: their jobs were given back or settled, their threads still run.
    pub blocking_bodies_left: usize,
    /// Whether any body still ran when the grace was over, or blocked a thread that was given up before. Dropping the runtime
    /// then may wait for ever: for that thread, or for what a body gave to `tokio::task::spawn_blocking`.
    pub cut_off: bool,
}

impl Stopped {
    /// Whether something may still run for which the end of the runtime would wait.
    pub(crate) fn left_something(self) -> bool {
        self.cut_off || self.blocking_bodies_left > 0
    }
}

/// Each life after one that has ended by a panic waits so long for its beginning: it may end in the same way.
const AFTER_A_PANIC: Duration = Duration::from_secs(1);

/// Why a life ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Why {
    Told,
    /// The server does not know it.
    Void,
    /// A part of it has ended by a panic.
    Broken,
}

/// How a life of a worker ended.
enum Ending {
    /// There is to be another.
    Again,
    Over {
        cut_off: bool,
    },
}

impl Worker {
    /// Settings for a new worker.
    pub fn builder() -> WorkerBuilder {
        WorkerBuilder::default()
    }

    fn new(core: Core) -> Self {
        let core = Arc::new(core);
        let handle = WorkerHandle { core: Arc::downgrade(&core), ..WorkerHandle::default() };
        Self { core, health: Health::new(handle.clone()), handle }
    }

    /// A handle that stops the worker.
    #[must_use]
    pub fn handle(&self) -> WorkerHandle {
        self.handle.clone()
    }

    /// Tells whether the worker is live and ready, for a web server of your own.
    #[must_use]
    pub fn health(&self) -> Health {
        self.health.clone()
    }

    /// Runs until SIGTERM, SIGINT or SIGHUP, or until its [handle](Worker::handle) says so; one of the first two after that ends it without
    /// the grace. Where the process was started so that a hang-up does not end it, as by `nohup`, SIGHUP is left alone (on Linux).
    ///
    /// Lines of the log go to standard error at the level of `HWORKER_LOG` (`info` by default; `debug`,
    /// `hworker=debug,my_app=info`, `off`), unless the program has set up a `tracing` subscriber of its own. A thread of its own writes
    /// them, so that nothing waits for it; they are written when the worker has stopped.
    ///
    /// The server need not be there yet, and may go and come back: the worker keeps trying. What cannot be used when it is reached first
    /// ends the worker with an error.
    ///
    /// Dropping the future ends the worker as a crash would: its jobs are recovered by others.
    ///
    /// From the call on these signals do not end the process by themselves any more, not even when the worker has stopped: a program
    /// that goes on then handles them itself, and calls [`run_until`](Worker::run_until). One that ends should know that dropping a
    /// tokio runtime waits, for ever if need be, for bodies that block their thread and for what they gave to
    /// `tokio::task::spawn_blocking` (see [`Stopped::cut_off`]): let `Runtime::shutdown_background()` end it, or take
    /// [`run_all`](crate::run_all).
    ///
    /// # Errors
    /// As [`run_until`](Worker::run_until); [`Error::Config`] also when the process cannot handle signals.
    pub async fn run(self) -> Result<Stopped, Error> {
        log::install();
        in_a_runtime()?;
        // Not a task of its own, which would outlive the worker.
        let signals = Signals::listen()?.tell(self.handle.clone());
        tokio::select! {
            stopped = self.run_until(std::future::pending()) => stopped,
            never = signals => match never {},
        }
    }

    /// Runs until `stop` completes, or until its [handle](Worker::handle) says so; for a worker inside a program that handles
    /// signals, and the log, by itself.
    ///
    /// So a web server and a worker stop together:
    ///
    /// ```no_run
    /// # async fn serve(until: impl Future<Output = ()>) -> Result<(), hworker::BoxError> { until.await; Ok(()) }
    /// # async fn terminated() {}
    /// # async fn demo() -> Result<(), hworker::BoxError> {
    /// use tokio::sync::watch;
    ///
    /// async fn told(mut stopping: watch::Receiver<bool>) {
    ///     let _ = stopping.wait_for(|stop| *stop).await;
    /// }
    ///
    /// let (stop, stopping) = watch::channel(false);
    /// let worker = hworker::Worker::builder().build()?;
    /// let worker = tokio::spawn(worker.run_until(told(stopping.clone())));
    /// // With axum: `axum::serve(listener, routes).with_graceful_shutdown(told(stopping))`.
    /// let server = tokio::spawn(serve(told(stopping)));
    /// terminated().await; // SIGTERM, by `tokio::signal::unix`
    /// stop.send_replace(true);
    /// server.await??;
    /// worker.await??;
    /// # Ok(()) }
    /// ```
    ///
    /// [`examples/web_and_worker.rs`](https://github.com/hworker/hworker/blob/main/examples/web_and_worker.rs) is the whole program.
    ///
    /// # Errors
    /// [`Error::Config`] when the process cannot start threads, health cannot be told where it was asked for, the runtime has no timers or
    /// no I/O, or the server is too old; [`Error::Refused`] where the server does not let the worker in or runs no scripts for it, what
    /// listens there is no Redis server, or it cannot do what a [`Durability`](crate::Durability) asks that the program enqueues or
    /// settles with. What the server says ends the worker only until it was reached once.
    pub async fn run_until(self, stop: impl Future<Output = ()>) -> Result<Stopped, Error> {
        in_a_runtime()?;
        let log = WorkerRuns::begin();
        let stopped = self.run_lives(stop).await;
        log.end().await;
        stopped
    }

    async fn run_lives(self, stop: impl Future<Output = ()>) -> Result<Stopped, Error> {
        tokio::pin!(stop);
        if cfg!(panic = "abort") {
            say!(
                WARN,
                "this program is built with panic = \"abort\": a job that panics ends the worker, and counts as a crash"
            );
        }
        let _over = self.health.until_dropped();
        #[cfg(feature = "health")]
        let _answers_probes =
            self.core.config.health.map(|at| endpoint::listen(at, self.health())).transpose()?;
        let reached = tokio::select! {
            // On the heap, as it is large and over soon.
            looked = Box::pin(self.look_at_server()) => looked?,
            () = &mut stop, if !self.handle.stop.is_cancelled() => {
                self.handle.stop();
                true
            }
            () = self.handle.stop.cancelled() => true,
        };
        let mut unusable = Box::pin(self.is_unusable(reached));
        loop {
            let incarnation = Arc::new(Incarnation::new(&self.core));
            self.health.begins(&incarnation);
            self.announce(&incarnation);
            let life = self.live(&incarnation);
            tokio::pin!(life);
            let ending = tokio::select! {
                ending = &mut life => ending?,
                // Without scripts no body has started.
                error = &mut unusable => return Err(error),
                () = &mut stop, if !self.handle.stop.is_cancelled() => {
                    self.handle.stop();
                    life.await?
                }
            };
            if let Ending::Over { cut_off } = ending {
                self.core.throttle.tell_all();
                let blocking_bodies_left = self.core.blocking_threads.load(Ordering::Acquire);
                say!(INFO, { worker = incarnation.id.clone() }, %worker, blocking_bodies_left, "worker stopped");
                return Ok(Stopped { blocking_bodies_left, cut_off });
            }
        }
    }

    /// Runs until there is nothing left to do, for tests: until no job waits, is due or runs on any queue that it serves, in other workers
    /// neither. Jobs that are scheduled for later do not count, nor those that wait for their next attempt: a test of
    /// retries enqueues with [`.backoff("0s")`](crate::Enqueue::backoff). Jobs that it cannot run do not count either, once they are parked.
    ///
    /// It does not end while jobs keep coming, or the server cannot be reached: put a `tokio::time::timeout` around it.
    ///
    /// ```
    /// # #[cfg(feature = "embedded")]
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), hworker::Error> {
    /// #[hworker::job]
    /// async fn ping() {}
    ///
    /// let server = hworker::embedded::Server::start()?;
    /// let client = hworker::Client::new(server.url())?;
    /// ping::with().on(&client).enqueue().await?;
    ///
    /// let jobs = hworker::Registry::new().with::<ping>(); // without it, every job that the program links
    /// let worker = hworker::Worker::builder().client(&client).registry(jobs).build()?;
    /// worker.run_until_idle().await?;
    /// assert_eq!(client.inspect("default").statistics(None).await?["processed"], 1);
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "embedded"))] fn main() {}
    /// ```
    ///
    /// # Errors
    /// As [`run_until`](Worker::run_until); [`Error::Refused`] also where the server does not let it look.
    pub async fn run_until_idle(self) -> Result<Stopped, Error> {
        let health = self.health();
        let mut refused = None;
        let stopped = self.run_until(async { refused = idle::idle(&health).await.err() }).await?;
        refused.map_or(Ok(stopped), Err)
    }

    fn announce(&self, incarnation: &Incarnation) {
        for (name, near) in crate::config::unknown_variables() {
            say!(WARN, "{name} is no setting of hworker; the nearest is {near}");
        }
        let jobs: Vec<_> = self.core.jobs.keys().copied().collect();
        let (worker, server) = (incarnation.id.clone(), self.core.client.address().to_string());
        let (queues, concurrency) = (self.core.queue_names(), self.core.config.concurrency);
        let jobs = jobs.join(", ");
        say!(INFO, %worker, %server, queues, concurrency, "worker starts; it knows the jobs {jobs}");
    }

    /// One life under one id.
    async fn live(&self, incarnation: &Arc<Incarnation>) -> Result<Ending, Error> {
        let no_thread = |error| Error::config(format!("a thread could not be started: {error}"));
        let supervisor = supervise::spawn(incarnation).map_err(no_thread)?;
        let intake = intake::spawn(incarnation).map_err(no_thread)?;
        let _ends_bodies = EndsBodies(incarnation);
        // They end when this is dropped.
        let _tasks = tasks_of_bodies(incarnation);
        let why = tokio::select! {
            () = self.handle.stop.cancelled() => Why::Told,
            () = incarnation.void.cancelled() => {
                say!(WARN, { worker = incarnation.id.clone() }, %worker, "the server does not know this worker any more: it was declared dead and its jobs were given to others, or the server lost its data; it goes on under a new id");
                Why::Void
            }
            () = incarnation.broken.cancelled() => Why::Broken,
            () = supervisor.ended() => Why::Broken,
        };
        incarnation.stopping.cancel();
        let cut_off = match why {
            Why::Told => self.drain(incarnation).await,
            Why::Void => {
                give_up(incarnation).await;
                false
            }
            Why::Broken => {
                say!(ERROR, { worker = incarnation.id.clone() }, %worker, "a part of this worker has ended by a panic: its jobs are given back, and it goes on under a new id; please report this, with what the panic said");
                give_back(incarnation).await;
                false
            }
        };
        incarnation.retiring.cancel();
        if timeout(RETIRE_WITHIN, intake.ended()).await.is_err() {
            say!(WARN, "the server could not be told that this worker stops; others will find out");
        }
        for lane in incarnation.lanes().iter() {
            lane.leases.lose_all();
        }
        // So that two lives do not overlap.
        supervisor.end();
        let _ = timeout(RETIRE_WITHIN, supervisor.ended()).await;
        if why == Why::Broken {
            let _ = timeout(AFTER_A_PANIC, self.handle.stop.cancelled()).await;
        }
        if why != Why::Told {
            return Ok(Ending::Again);
        }
        // One that was given up long ago may still block its thread.
        let cut_off = cut_off || has_bodies(incarnation).await;
        Ok(Ending::Over { cut_off })
    }

    /// Lets what runs finish within the grace, then gives the rest back. Says whether there was a rest.
    async fn drain(&self, incarnation: &Incarnation) -> bool {
        let grace = self.core.config.shutdown_grace;
        say!(INFO, { worker = incarnation.id.clone() }, %worker, ?grace, "worker stops: it takes no more jobs");
        let running =
            || incarnation.lanes().iter().map(|lane| lane.leases.running().len()).sum::<usize>();
        let ran = running();
        tokio::select! {
            // Of what the server did not know any more, bodies were cut off.
            () = emptied(incarnation) => return ran > 0 && incarnation.void.is_cancelled(),
            () = sleep(grace) => {}
            () = self.handle.now.cancelled() => {}
        }
        let running = running();
        say!(WARN, { worker = incarnation.id.clone() }, %worker, running, "the grace is over: jobs that still run are given back");
        give_back(incarnation).await;
        running > 0
    }
}

/// The tasks of a session on the runtime of the bodies.
fn tasks_of_bodies(incarnation: &Arc<Incarnation>) -> JoinSet<()> {
    let threads = tokio::runtime::Handle::current().metrics().num_workers();
    let life = || Arc::clone(incarnation);
    let mut tasks = JoinSet::new();
    tasks.spawn(life().with(show_liveness::show(life())));
    tasks.spawn(life().with(census::run(life())));
    let core = Arc::clone(&incarnation.core);
    tasks.spawn(life().with(async move { core.throttle.keep_telling().await }));
    tasks.spawn(life().with(life().follow_queues()));
    let session = life();
    tasks.spawn(life().with(async move {
        let mut of_queues = JoinSet::new();
        let each = session.for_each_queue(|lane| {
            let core = || Arc::clone(&session.core);
            of_queues.spawn(Arc::clone(&session).with(parked::run(core(), Arc::clone(lane))));
            for _ in 0..threads {
                of_queues.spawn(Arc::clone(&session).with(runner::run(core(), Arc::clone(lane))));
            }
        });
        each.await;
    }));
    tasks
}

/// Ends every body of a life when the future that lives it is dropped: none is to run on beside its next run.
struct EndsBodies<'a>(&'a Incarnation);

impl Drop for EndsBodies<'_> {
    fn drop(&mut self) {
        self.0.stopping.cancel();
        for lane in self.0.lanes().iter() {
            lane.leases.lose_all();
        }
    }
}

fn in_a_runtime() -> Result<(), Error> {
    runtime::current("a worker was run outside a tokio runtime; await it inside one").map(drop)
}

/// Gives back what is here, and cuts off what runs.
async fn give_back(incarnation: &Incarnation) {
    for lane in incarnation.lanes().iter() {
        lane.leases.cancel_running();
    }
    if timeout(CANCELLED_WITHIN, emptied(incarnation)).await.is_err() {
        for lane in incarnation.lanes().iter() {
            give_running_back(lane);
        }
    }
    let rest = FLUSH_WITHIN.saturating_sub(CANCELLED_WITHIN);
    if timeout(rest, emptied(incarnation)).await.is_err() {
        say!(WARN, { worker = incarnation.id.clone() }, %worker, "not everything could be given back in time; other workers will recover it");
    }
}

/// Gives back the jobs whose bodies run yet, or were about to, in place of the tasks that run them, which they block or have ended.
fn give_running_back(lane: &Lane) {
    for lease in lane.leases.not_started_for(Duration::ZERO) {
        lane.give_back(&lease);
    }
    for Running { job, .. } in lane.leases.running() {
        lane.finish(&job.lease, released(&job, 0));
    }
}

/// A worker that was declared dead in one queue gives back what it holds in the others.
async fn give_up(incarnation: &Incarnation) {
    if incarnation.lanes().len() > 1 {
        for lane in incarnation.lanes().iter() {
            lane.leases.cancel_running();
        }
        let _ = timeout(Duration::from_secs(1), emptied(incarnation)).await;
    }
    for lane in incarnation.lanes().iter() {
        lane.leases.lose_all();
    }
}

/// Whether a body holds a slot, under a lease or not, when nobody reserves or starts any more.
async fn has_bodies(incarnation: &Incarnation) -> bool {
    let ended = async {
        while incarnation.lanes().iter().any(|lane| lane.slots.free() < lane.slots.total()) {
            // Looked at again: nobody is woken by a slot that comes free.
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(LET_GO_WITHIN, ended).await.is_err()
}

async fn emptied(incarnation: &Incarnation) {
    for lane in incarnation.lanes().iter() {
        lane.leases.emptied().await;
    }
}
