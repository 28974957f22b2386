//! The settings of a worker, and their checks before it starts.

use std::any::{Any, TypeId};
use std::collections::{BTreeSet, HashMap};
use std::panic::Location;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::Worker;
use super::attempt::panic;
use super::follows::OnAnyFailed;
use super::isolate::Pool;
use super::layers::{Layer, Layers};
use super::state::{Core, LogLimit, Outages};
use crate::client::{Client, OfWorker};
use crate::config::{self, QueueSetting, WorkerSettings};
use crate::context::{States, shown_type};
use crate::durability::Durability;
use crate::enqueue::{Enqueue, envelope};
use crate::error::{Error, Problems};
#[cfg(feature = "cron")]
use crate::hooks::Checkin;
use crate::hooks::{ErrorReport, Event, Hooks};
use crate::job::{Failed, Job};
use crate::registry::Registry;
use crate::table::Table;
use crate::time::ServerClock;

/// The settings of a [`Worker`]. Unset ones come from the environment, then from [`defaults`](crate::defaults).
///
/// ```no_run
/// # #[derive(Clone)] struct Pool;
/// # #[hworker::job] async fn ping() {}
/// # async fn demo(pool: Pool) -> Result<(), hworker::Error> {
/// hworker::Worker::builder().concurrency(50).state(pool).build()?.run().await?;
/// # Ok(()) }
/// ```
#[derive(Debug, Default)]
#[must_use = "a builder does nothing until `build`"]
pub struct WorkerBuilder {
    client: Option<Client>,
    registry: Option<Registry>,
    states: States,
    /// Where each state was given.
    places: HashMap<TypeId, &'static Location<'static>>,
    /// What was given and is wrong.
    problems: Vec<String>,
    settings: WorkerSettings,
    hooks: Hooks,
    layers: Layers,
    on_failed: OnAnyFailed,
    /// Cron entries of its job types are not set.
    #[cfg(feature = "testing")]
    sets_no_cron: bool,
}

impl WorkerBuilder {
    /// The server that the worker runs on and that its bodies enqueue to. Default: the [default client](Client::default_client).
    pub fn client(mut self, client: &Client) -> Self {
        self.client = Some(client.clone());
        self
    }

    /// The job types that it runs. Default: every job type that the program links.
    pub fn registry(mut self, registry: Registry) -> Self {
        self.registry = Some(registry);
        self
    }

    /// Adds a job type, if linking it in is not enough.
    pub fn register<J: Job>(mut self) -> Self {
        self.registry.get_or_insert_with(Registry::collect).add(J::DEFINITION);
        self
    }

    /// A value that jobs may take as [`State<T>`](crate::State); each job gets a clone. One for each type: a second one is an error of
    /// [`build`](Self::build).
    #[track_caller]
    pub fn state<T: Clone + Send + Sync + 'static>(mut self, state: T) -> Self {
        let here = Location::caller();
        if let Some(before) = self.places.insert(TypeId::of::<T>(), here) {
            self.problems.push(format!(
                "there are two `.state(..)` of the type `{}`, at {before} and {here}: give the worker one, or put the other \
                 into a type of its own",
                shown_type::<T>()
            ));
        }
        self.states.insert(state);
        self
    }

    /// Sets no cron entries.
    #[cfg(feature = "testing")]
    pub(crate) fn without_cron(mut self) -> Self {
        self.sets_no_cron = true;
        self
    }

    /// What its jobs may take.
    #[cfg(feature = "testing")]
    pub(crate) fn states(&self) -> &States {
        &self.states
    }

    /// The queues that it serves, and no others, each written as in `HWORKER_QUEUES`: `mail`, with a weight `mail*3`, with slots of its own
    /// `reports=2`; `*` for every queue that there is, also later; `!reports` for one that is left out; `critical>default` for two of which
    /// the second gets slots only while no job of the first waits. Default: `HWORKER_QUEUES`, then every queue that a registered job names.
    /// A queue that is named again keeps its earlier settings.
    pub fn queues<I: IntoIterator<Item = S>, S: Into<String>>(mut self, queues: I) -> Self {
        let given = self.settings.queues.get_or_insert_default();
        for queue in queues {
            match config::queues(&queue.into()) {
                Ok(queues) => given.extend(queues),
                Err(why) => self.problems.push(why),
            }
        }
        self
    }

    /// A queue that it serves, with at most `slots` of its jobs running at once in this worker. As with [`queues`](Self::queues), the
    /// worker serves only the queues that are named: name them all.
    pub fn queue_with_slots(self, name: impl Into<String>, slots: usize) -> Self {
        let name = name.into();
        self.and_queue(QueueSetting { name, limit: Some(slots), ..QueueSetting::default() })
    }

    /// A queue that it serves beside the others, also beside those of `HWORKER_QUEUES`. No job type has to name it: it is for jobs that are
    /// enqueued with [`.queue(..)`](crate::Enqueue::queue). In `HWORKER_QUEUES` it is written with a plus: `+urgent`.
    pub fn extra_queue(self, name: impl Into<String>) -> Self {
        let name = name.into();
        self.and_queue(QueueSetting { name, extra: true, ..QueueSetting::default() })
    }

    /// As [`extra_queue`](Self::extra_queue), with at most `slots` of its jobs running at once in this worker. In `HWORKER_QUEUES` it is
    /// written `+reports=2`.
    pub fn extra_queue_with_slots(self, name: impl Into<String>, slots: usize) -> Self {
        let (name, limit) = (name.into(), Some(slots));
        self.and_queue(QueueSetting { name, limit, extra: true, ..QueueSetting::default() })
    }

    fn and_queue(mut self, queue: QueueSetting) -> Self {
        self.settings.queues.get_or_insert_default().push(queue);
        self
    }

    /// How many jobs run at once. Default: `HWORKER_CONCURRENCY`, then 10 for each core. Too low leaves the machine idle while jobs wait
    /// for other systems; too high costs memory.
    pub fn concurrency(mut self, slots: usize) -> Self {
        self.settings.concurrency = Some(slots);
        self
    }

    /// How long a stopping worker lets its jobs finish before it gives them back. Default: `HWORKER_SHUTDOWN_GRACE`, then 25 s. Let the
    /// platform wait 8 s longer before it kills the process: Kubernetes waits 30 s by default.
    pub fn shutdown_grace(mut self, grace: Duration) -> Self {
        self.settings.shutdown_grace = Some(grace);
        self
    }

    /// How long a worker is silent before it counts as dead and its jobs run elsewhere. At least 2 s. Default: `HWORKER_DEAD_AFTER`, then
    /// 5 s. Too low and a busy machine looks dead, too high and the jobs of a dead worker wait.
    pub fn dead_after(mut self, duration: Duration) -> Self {
        self.settings.dead_after = Some(duration);
        self
    }

    /// How many records of failed jobs a queue keeps, the newest first, and as many of cancelled and of expired ones; 0 keeps none,
    /// `usize::MAX` is no bound. Default: `HWORKER_FAILED_LIMIT`, then 1000. What a bound drops is counted as `dropped` in
    /// [`Inspect::statistics`](crate::Inspect::statistics), and logged once a minute.
    pub fn failed_limit(mut self, records: usize) -> Self {
        self.settings.failed_limit = Some(records);
        self
    }

    /// For how long they are kept; zero keeps none, `Duration::MAX` is no bound. Default: `HWORKER_FAILED_FOR`, then 90 days.
    pub fn failed_for(mut self, duration: Duration) -> Self {
        self.settings.failed_for = Some(duration);
        self
    }

    /// How many bytes of records of failed jobs a queue keeps, the newest first, and as many of cancelled and of expired ones; 0 keeps
    /// none, `usize::MAX` is no bound. Default: `HWORKER_FAILED_BYTES`, then 256 MiB.
    pub fn failed_bytes(mut self, bytes: usize) -> Self {
        self.settings.failed_bytes = Some(bytes);
        self
    }

    /// How many records of jobs that are done a queue keeps, the newest first; 0 keeps none, `usize::MAX` is no bound but those of age and
    /// bytes, which are as for failed ones. Default: `HWORKER_KEEP_DONE`, then 0. A job of which a record is kept costs the server about
    /// ten times as much.
    pub fn keep_done(mut self, records: usize) -> Self {
        self.settings.keep_done = Some(records);
        self
    }

    /// How many broken payloads a queue keeps; 0 keeps none. Further ones stay parked. Default: `HWORKER_BROKEN_LIMIT`, then 1000.
    pub fn broken_limit(mut self, payloads: usize) -> Self {
        self.settings.broken_limit = Some(payloads);
        self
    }

    /// For how long they are kept since they last came; checked once a minute, some of them at a time. `Duration::MAX` is no bound. Default:
    /// `HWORKER_BROKEN_FOR`, then no bound, as they may be jobs that somebody still wants.
    pub fn broken_for(mut self, duration: Duration) -> Self {
        self.settings.broken_for = Some(duration);
        self
    }

    /// How long a job that no worker can run stays parked before it is broken. Default: `HWORKER_UNKNOWN_FOR`, then 15 min. Set it longer
    /// than a deploy takes.
    pub fn unknown_for(mut self, duration: Duration) -> Self {
        self.settings.unknown_for = Some(duration);
        self
    }

    /// A job fails if it was running at this many deaths of its worker within 24 h. 1 to 32. Default: `HWORKER_CRASH_LIMIT`, then 4.
    pub fn crash_limit(mut self, crashes: usize) -> Self {
        self.settings.crash_limit = Some(crashes);
        self
    }

    /// How safe a settlement must be before the worker forgets it. Default: `HWORKER_SETTLE_DURABILITY`, then [`Durability::accepted`],
    /// which is enough for nearly every program: a lost settlement loses no job, the job runs again. For a minute a running worker also
    /// repeats settlements that a failover took back. With another value each call waits for replicas or disks, at most 2 s; a settlement
    /// that is not safe by then is logged and counts as settled.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.settings.durability = Some(durability);
        self
    }

    /// Whether short jobs are fetched ahead: as many as the slots will start within 5 ms, by the time that bodies took so far. Nothing is
    /// fetched ahead before the first body has ended. A job that has waited for 10 ms in the worker goes back to the front of its queue,
    /// and no more are fetched ahead until a body has ended. Default: `HWORKER_PREFETCH`, then on. Nothing is fetched ahead of a queue that
    /// a job type with `on_crash = "fail"` names, nor, for 10 s, of a queue to which such a job was sent by `.queue(..)`, since a crash
    /// counts for all jobs that the worker holds.
    pub fn prefetch(mut self, on: bool) -> Self {
        self.settings.prefetch = Some(on);
        self
    }

    /// How long jobs of a priority may be passed over by those before them: from then on one of sixteen that are taken is theirs, until it
    /// is their turn. [`Duration::MAX`] for no bound. Default: `HWORKER_AGING`, then 30 s.
    pub fn aging(mut self, duration: Duration) -> Self {
        self.settings.aging = Some(duration);
        self
    }

    /// So often the worker logs one line a queue at INFO: how many jobs wait, run, are scheduled, parked, failed and broken, and how many of
    /// its slots run some. At least 1 s. Default: `HWORKER_LOG_EVERY`, then never.
    pub fn log_every(mut self, duration: Duration) -> Self {
        self.settings.log_every = Some(duration);
        self
    }

    /// The largest envelope in bytes that the worker accepts, at least 512; larger ones are broken. Default: `HWORKER_MAX_PAYLOAD`, then
    /// 16 MiB; the limit of its client if that is larger.
    pub fn max_payload(mut self, bytes: usize) -> Self {
        self.settings.max_payload = Some(bytes);
        self
    }

    /// Whether async bodies are stopped before another worker can have their jobs: when the server was not reached for
    /// [`dead_after`](Self::dead_after) less 1 s. `dead_after` is then at least 4 s. Default: `HWORKER_CANCEL_ON_DISCONNECT`, then false. A
    /// body that blocks cannot be stopped: give its effects the [fencing token](crate::Context::token).
    pub fn cancel_on_disconnect(mut self, stop: bool) -> Self {
        self.settings.cancel_on_disconnect = Some(stop);
        self
    }

    /// Serves the page for operators and the REST API at this address while the worker runs: HTTP, on a thread of its own. At a loopback
    /// address everybody on the machine may use it; any other needs a [token](Self::web_token). Variable: `HWORKER_WEB`. Needs the feature
    /// `web`.
    #[cfg(feature = "web")]
    pub fn web(mut self, address: impl Into<std::net::SocketAddr>) -> Self {
        self.settings.web = Some(address.into());
        self
    }

    /// The secret that the page asks for, as [`Access::token`](crate::web::Access::token) says. Variable: `HWORKER_WEB_TOKEN_FILE`, a file that
    /// has it. Needs the feature `web`.
    #[cfg(feature = "web")]
    pub fn web_token(mut self, token: impl Into<String>) -> Self {
        self.settings.web_token = Some(crate::config::Secret(token.into()));
        self
    }

    /// Answers `GET /live` and `GET /ready` over HTTP at this address, by [`Health`](crate::Health): 200, or 503 with the reason. With port
    /// 0 it takes a free port, which the log names. It has a thread of its own. It tells nothing of jobs, and every client that reaches the
    /// address may ask. With the feature `metrics` it also answers `GET /metrics`, which has how many jobs of each type ended and how long
    /// they took. Default: `HWORKER_HEALTH`, then none.
    #[cfg(feature = "health")]
    pub fn health(mut self, address: impl Into<std::net::SocketAddr>) -> Self {
        self.settings.health = Some(address.into());
        self
    }

    /// The label at the beginning of the worker's id: `[A-Za-z0-9._-]{1,100}`. Default: `HWORKER_NAME`, then the host's name. The id itself
    /// is new at every start.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.settings.name = Some(name.into());
        self
    }

    /// Tags, by which jobs can ask for workers as this one: those that are enqueued with [`.to("gpu")`](crate::Enqueue::to) run on workers with the
    /// tag `gpu` alone. It runs all other jobs of its queues, too. Each `[A-Za-z0-9._-]{1,100}`; each costs the worker what a queue costs.
    /// Default: `HWORKER_TAGS`, with commas between them, then none.
    pub fn tags<I: IntoIterator<Item = S>, S: Into<String>>(mut self, tags: I) -> Self {
        self.settings.tags.get_or_insert_default().extend(tags.into_iter().map(Into::into));
        self
    }

    /// Whether its [name](Self::name) is one of its tags, so that jobs can be sent to it by `.to("web-1")`. Default:
    /// `HWORKER_ANSWERS_TO_NAME`, then false.
    pub fn answers_to_name(mut self, answers: bool) -> Self {
        self.settings.answers_to_name = Some(answers);
        self
    }

    /// The name of the program, by which its workers of one release are told from those of the next: `[A-Za-z0-9._-]{1,100}`. What the newest
    /// release declares in code is in force, see `docs/control.md`. Default: `HWORKER_APP`, then the name of the executable file.
    pub fn app(mut self, name: impl Into<String>) -> Self {
        self.settings.app = Some(name.into());
        self
    }

    /// Tells `report` of each attempt that failed, for a service that collects errors. `ErrorReport::is_last` says whether the job has failed
    /// for good. It is called on a thread of its own, for which no job waits; so it may block, and a panic in it ends nothing. Up to 1,000
    /// reports wait for it, further ones are dropped, which the log says. At the end of the worker it gets 1 s for the rest.
    ///
    /// It may be called several times: each function gets all reports, on its own thread.
    ///
    /// Where a worker died, the worker that gives back its jobs reports each that it held, as a `crash` that is not the last, if it knows
    /// the job type: also those that were only next to run. A report may then come twice, behind that of the next attempt, or,
    /// where no worker lives, never.
    ///
    /// ```
    /// # fn send_to_tracker(_: &str, _: &str) {}
    /// let worker = hworker::Worker::builder().report_errors(|report| {
    ///     if report.is_last {
    ///         send_to_tracker(&report.message, &format!("{} of {}, {}", report.job, report.queue, report.id));
    ///     }
    /// });
    /// ```
    ///
    /// `docs/logs.md` has an example for Sentry.
    pub fn report_errors(mut self, report: impl FnMut(&ErrorReport) + Send + 'static) -> Self {
        self.hooks.errors.add("report_errors", report);
        self
    }

    /// Tells `checkin` when a run of a cron entry begins and has ended, for a service that raises an alarm where one does not come. As for
    /// [`report_errors`](Self::report_errors), it is called on a thread of its own. Needs the feature `cron`, which is on by default.
    ///
    /// A run begins with its first attempt, and has ended when it is done or has failed for good; attempts in between are not told. One that
    /// begins again without having failed, as when its worker died, or it was snoozed, is told again.
    ///
    /// ```
    /// # fn ping(_: &str) {}
    /// use hworker::CheckinState;
    ///
    /// let worker = hworker::Worker::builder().on_checkin(|checkin| {
    ///     if checkin.entry == "nightly" && checkin.state == CheckinState::Ok {
    ///         ping("https://alarm.example/nightly"); // it raises an alarm where this does not come for a day
    ///     }
    /// });
    /// ```
    #[cfg(feature = "cron")]
    pub fn on_checkin(mut self, checkin: impl FnMut(&Checkin) + Send + 'static) -> Self {
        self.hooks.checkins.add("on_checkin", checkin);
        self
    }

    /// Tells `observer` of what happens to the jobs of this worker, and to the worker itself, in order. It is called on a thread of its own, for which no
    /// job waits; so it may block, and a panic in it ends nothing. Up to 1,000 events wait for it, further ones are dropped, which the log says. At the
    /// end of the worker it gets 1 s for the rest. What must not be missed is a job: see [`on_failed`](Self::on_failed).
    ///
    /// ```
    /// use hworker::EventKind;
    ///
    /// let worker = hworker::Worker::builder().observe(|event| {
    ///     if event.kind == EventKind::Failed {
    ///         println!("{:?} {:?}: {:?}", event.job, event.id, event.message);
    ///     }
    /// });
    /// ```
    ///
    /// It may be called several times: each function gets all events, on its own thread.
    pub fn observe(mut self, observer: impl FnMut(&Event) + Send + 'static) -> Self {
        self.hooks.events.add("observe", observer);
        self
    }

    /// Runs every body inside this layer, the last one that is added innermost: for measuring, for what bodies find in task-locals, for ending
    /// attempts otherwise. Bodies that block run inside it too, on their own thread, and those in processes of their own there.
    pub fn layer(mut self, layer: impl Layer) -> Self {
        self.layers.add(layer);
        self
    }

    /// Enqueues a job for each job of this worker that has failed for good, in the very step in which that is decided: once, whatever dies in between.
    /// Types that have [`on_failed`](macro@crate::job#options) of their own have that instead. It comes onto the queue of the job that failed, whatever
    /// its own type or the call says; a delay means nothing here. Nothing follows where a job of that very type fails. `job` must not block: it may be
    /// called by the thread that sends heartbeats.
    ///
    /// ```
    /// #[hworker::job]
    /// async fn alert(failed: hworker::Failed, channel: String) {
    ///     println!("{channel}: {} {} has failed: {}", failed.job, failed.id, failed.message);
    /// }
    ///
    /// let worker = hworker::Worker::builder().on_failed(|failed| alert::with(failed, "ops".to_owned()));
    /// ```
    pub fn on_failed<J: Job>(
        mut self,
        job: impl Fn(Failed) -> Enqueue<J> + Send + Sync + 'static,
    ) -> Self {
        let function = move |failed: Failed, client: &dyn Any| envelope(job(failed), client);
        self.on_failed = OnAnyFailed::of(J::NAME, Box::new(function));
        self
    }

    /// Checks everything: settings, names, queues, and the parameters of each job.
    ///
    /// # Errors
    /// [`Error::Config`] with every problem at once, each with its remedy.
    pub fn build(mut self) -> Result<Worker, Error> {
        let mut problems = Problems(self.problems);
        let own_max_payload = self.settings.max_payload;
        let mut config = self.settings.resolve(&mut problems);
        let registry = self.registry.unwrap_or_else(Registry::collect);
        registry.verify(&self.states, &config.queues, &mut problems);
        let client = self.client.map_or_else(Client::default_client, Ok);
        if let Ok(client) = &client {
            registry.verify_shards(client.spread(), &config.queues, &mut problems);
            registry.verify_keys(client.keys().is_some(), &mut problems);
        }
        let limits = registry.limits(&mut problems);
        let app = config.app.clone();
        let definitions = registry.definitions();
        #[cfg(feature = "testing")]
        let definitions = definitions.filter(|_| !self.sets_no_cron);
        let table = client
            .as_ref()
            .ok()
            .map(|client| Table::new(app, limits, definitions, client, &mut problems));
        let client = problems.and(client)?;
        // There is one where there is a client.
        let Some(table) = table else { return Err(Error::config("there is no client")) };
        panic::install_hook();
        // A payload that the client accepts is not set aside, unless the program sets the limit itself.
        if own_max_payload.is_none() {
            config.limits.max_payload = config.limits.max_payload.max(client.max_payload());
        }

        let mut names: BTreeSet<String> =
            config.queues.iter().map(|queue| queue.name.clone()).collect();
        if config.all_queues || config.serves_every() {
            names.extend(registry.queues().into_iter().map(str::to_owned));
        }
        names.retain(|name| name != QueueSetting::EVERY && !config.excludes(name));
        if names.is_empty() && !config.serves_every() {
            return Err(Error::config("every queue is left out; name one that is served"));
        }
        let names = names.iter().flat_map(|name| config.with_tags(name));
        let queues = names.flat_map(|name| client.shards(&name, config.limits)).collect();
        self.states.insert(OfWorker(client.clone()));
        let jobs = registry.by_name();
        let settings = format!("{} {:?}", client.place(), config.queues);
        let children = Pool::of(&jobs.values().copied(), &settings, config.concurrency);
        let core = Core {
            children,
            jobs,
            states: Arc::new(self.states),
            table,
            clock: ServerClock::default(),
            outages: Outages::default(),
            log_limit: LogLimit::default(),
            totals: Arc::default(),
            hooks: Arc::new(self.hooks),
            layers: Arc::new(self.layers),
            on_failed: self.on_failed,
            stop: CancellationToken::new(),
            ordered_grace: OnceLock::new(),
            blocking_threads: Arc::default(),
            queues: watch::Sender::new(queues),
            client,
            config,
        };
        Ok(Worker::new(core))
    }
}

impl Worker {
    /// Settings for a new worker.
    pub fn builder() -> WorkerBuilder {
        WorkerBuilder::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[hworker::job(queue = "builder-own")]
    fn on_a_queue_of_its_own() {}

    #[test]
    fn an_extra_queue_with_slots_goes_with_the_others() {
        let client = Client::new("redis://localhost").expect("a client");
        let registry = Registry::new().with::<on_a_queue_of_its_own>();
        let worker = WorkerBuilder::default().client(&client).registry(registry);
        let worker = worker.extra_queue_with_slots("builder-reports", 2).build().expect("a worker");
        assert_eq!(worker.core.queue_names(), "builder-own,builder-reports");
        let limits = ["builder-own", "builder-reports"]
            .map(|name| worker.core.config.queue(name).and_then(|queue| queue.limit));
        assert_eq!(limits, [None, Some(2)]);
    }
}
