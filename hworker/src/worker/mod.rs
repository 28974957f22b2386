//! The worker: reserves jobs, runs them, settles them, and watches over other workers.

mod attempt;
mod builder;
#[cfg(test)]
mod cost;
mod events;
mod every_queue;
mod follows;
mod handle;
mod idle;
mod intake;
mod isolate;
mod layers;
mod look;
#[cfg(feature = "testing")]
pub(crate) mod once;
mod relay;
mod report;
mod run_session;
mod signals;
mod state;
mod supervisor;
#[cfg(all(test, feature = "embedded"))]
mod tests;

use std::future::Future;
use std::sync::Arc;

pub use builder::WorkerBuilder;
pub use handle::{Stopped, WorkerHandle};
pub use isolate::is_child;
pub use layers::{Around, Ending, Layer, Next};
pub use report::health::{Health, Unhealthy};

use crate::error::Error;
use crate::hooks::{Event, EventKind};
use crate::log::{self, WorkerRuns, say};
use crate::runtime;
#[cfg(feature = "health")]
use report::endpoint;
use run_session::{SessionEnd, run_session};
use signals::Signals;
use state::{Core, Session};

/// Runs jobs until it is told to stop. [`run_all`](crate::run_all) is the short form.
#[derive(Debug)]
pub struct Worker {
    core: Arc<Core>,
    handle: WorkerHandle,
    health: Health,
}

impl Worker {
    fn new(core: Core) -> Self {
        let core = Arc::new(core);
        let (stop, weak) = (core.stop.clone(), Arc::downgrade(&core));
        let handle = WorkerHandle { stop, core: weak, ..WorkerHandle::default() };
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

    /// Runs until SIGTERM, SIGINT or SIGHUP, or until its [handle](Worker::handle) stops it. After that, SIGTERM or SIGINT ends it without
    /// the grace. If the process was started to survive a hang-up, as by `nohup`, SIGHUP is left alone (on Linux).
    ///
    /// Log lines go to standard error at the level of `HWORKER_LOG` (`info` by default; `debug`, `hworker=debug,my_app=info`, `off`),
    /// unless the program has set up a `tracing` subscriber of its own; with `HWORKER_LOG_FORMAT=json` each is a JSON object. A separate
    /// thread writes them, so that nothing waits for the log; all are written when the worker has stopped.
    ///
    /// The server need not be there yet, and may go and come back: the worker keeps trying. A server that cannot be used when it is first
    /// reached ends the worker with an error.
    ///
    /// Dropping the future ends the worker as a crash would: other workers recover its jobs. The drop waits for the two threads of the worker,
    /// some milliseconds, and at most two seconds.
    ///
    /// From the call on these signals no longer end the process by themselves, even when the worker has stopped: a program that goes on
    /// then handles them itself, and calls [`run_until`](Worker::run_until). A program that ends should know that dropping a tokio runtime
    /// waits, perhaps for ever, for bodies that block their thread and for their tasks in `tokio::task::spawn_blocking` (see
    /// [`Stopped::cut_off`]): let `Runtime::shutdown_background()` end it, or use [`run_all`](crate::run_all).
    ///
    /// # Errors
    /// As [`run_until`](Worker::run_until); [`Error::Config`] also when the process cannot handle signals.
    pub async fn run(self) -> Result<Stopped, Error> {
        log::install();
        in_a_runtime()?;
        // A task of its own would outlive the worker.
        let signals = Signals::listen()?.tell(self.handle.clone());
        tokio::select! {
            stopped = self.run_until(std::future::pending()) => stopped,
            never = signals => match never {},
        }
    }

    /// Runs until `stop` completes, or until its [handle](Worker::handle) stops it. It is for a worker inside a program that handles
    /// signals and the log itself.
    ///
    /// A web server and a worker that stop together:
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
    /// [`Error::Config`] if the process cannot start threads, the address of the health endpoint cannot be used, the runtime has no timers
    /// or no I/O, or the server is too old. [`Error::Refused`] if the server does not let the worker in or runs no scripts for it, if it is
    /// no Redis server, or if it cannot give a [`Durability`](crate::Durability) with which the program enqueues or settles. A refusal of
    /// the server ends the worker only until it was reached once.
    pub async fn run_until(self, stop: impl Future<Output = ()>) -> Result<Stopped, Error> {
        in_a_runtime()?;
        if is_child() {
            Box::pin(isolate::serve(self.core)).await?;
            // Its worker has ended it.
            return std::future::pending().await;
        }
        let log = WorkerRuns::begin();
        let hooks = Arc::clone(&self.core.hooks);
        hooks.start().map_err(|error| {
            Error::config(format!("no thread to report errors and runs on: {error}"))
        })?;
        let stopped = self.run_lives(stop).await;
        hooks.flush().await;
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
        #[cfg(feature = "web")]
        let _serves_the_page = {
            let (client, config) = (&self.core.client, &self.core.config);
            let token = config.web_token.as_ref().map(|token| &*token.0);
            let serve = |at| crate::web::of_worker(client.clone(), at, token);
            config.web.map(serve).transpose()?
        };
        let reached = tokio::select! {
            // On the heap, since it is large and over soon.
            looked = Box::pin(self.prepare()) => looked?,
            () = &mut stop, if !self.handle.stop.is_cancelled() => {
                self.handle.stop();
                true
            }
            () = self.handle.stop.cancelled() => true,
        };
        let mut unusable = Box::pin(self.is_unusable(reached));
        loop {
            let session = Arc::new(Session::new(&self.core));
            self.health.begins(&session);
            self.announce(&session);
            let ending = run_session(&self.handle, &session);
            tokio::pin!(ending);
            let ended = tokio::select! {
                ended = &mut ending => ended?,
                // Without scripts no body has started.
                error = &mut unusable => return Err(error),
                () = &mut stop, if !self.handle.stop.is_cancelled() => {
                    self.handle.stop();
                    ending.await?
                }
            };
            if let SessionEnd::Over { cut_off } = ended {
                self.core.log_limit.tell_all();
                if let Some(children) = &self.core.children {
                    children.clear();
                }
                #[cfg(feature = "metrics")]
                report::metrics::tell_last(&self.core.totals);
                let blocking_bodies_left = Arc::strong_count(&self.core.blocking_threads) - 1;
                say!(INFO, { worker = session.id.clone() }, worker.id = %worker, blocking_bodies_left, "worker stopped");
                self.observe(&session, EventKind::WorkerStopped);
                return Ok(Stopped { blocking_bodies_left, cut_off });
            }
        }
    }

    /// Looks at the server, and starts the first process for jobs with `isolate`. As `look_at_server`.
    async fn prepare(&self) -> Result<bool, Error> {
        let reached = self.look_at_server().await?;
        if let Some(children) = &self.core.children {
            let why =
                |why| Error::config(format!("no process for jobs with `isolate` comes up: {why}"));
            children.warm_up().await.map_err(why)?;
        }
        Ok(reached)
    }

    /// Runs until there is nothing left to do, for tests: until no job waits, is due or runs on any queue that it serves, in this worker or
    /// another. Jobs that are scheduled for later do not count, nor jobs that wait for their next attempt: a test of retries enqueues with
    /// [`.backoff("0s")`](crate::Enqueue::backoff). Parked jobs that it cannot run do not count either.
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
    /// As [`run_until`](Worker::run_until); [`Error::Refused`] also if the server does not allow the look.
    pub async fn run_until_idle(self) -> Result<Stopped, Error> {
        let health = self.health();
        let mut refused = None;
        let run = self.run_until(async { refused = idle::idle(&health).await.err() });
        let stopped = Box::pin(run).await?;
        refused.map_or(Ok(stopped), Err)
    }

    fn observe(&self, session: &Session, kind: EventKind) {
        self.core.hooks.events.tell(|| Event {
            kind,
            at: self.core.clock.unix_ms(),
            queue: self.core.queue_names(),
            job: None,
            id: None,
            attempt: None,
            worker: Some(session.id.to_string()),
            message: None,
            elapsed: None,
            unsure: false,
        });
    }

    fn announce(&self, session: &Session) {
        self.observe(session, EventKind::WorkerStarted);
        for (name, near) in crate::config::unknown_variables() {
            say!(WARN, "{name} is no setting of hworker; the nearest is {near}");
        }
        let jobs: Vec<_> = self.core.jobs.keys().copied().collect();
        let (worker, server) = (session.id.clone(), self.core.client.address().to_string());
        let (queues, concurrency) = (self.core.queue_names(), self.core.config.concurrency);
        let jobs = jobs.join(", ");
        say!(INFO, worker.id = %worker, %server, queues, concurrency, "worker starts; it knows the jobs {jobs}");
    }
}

fn in_a_runtime() -> Result<(), Error> {
    runtime::current("a worker was run outside a tokio runtime; await it inside one").map(drop)
}
