//! Enqueueing: the client with its connections, and the builder of one job.

use std::collections::HashMap;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use tokio::runtime::{Handle, Id, Runtime};

use crate::backoff::CallBackoff;
use crate::config::{self, Limits, defaults};
use crate::envelope::{JobId, NewEnvelope, VERSION};
use crate::error::{Cause, Error, Problems};
use crate::job::Job;
use crate::keys::is_name;
use crate::store::{Address, Connection, Due, Fault, FaultKind, Queue};
use crate::strict_json;
use crate::time::{local_unix_ms, millis};

/// A Redis server as jobs are enqueued to it and workers are run on it; clones share everything.
///
/// There is no need to make one: [`enqueue`](Enqueue::enqueue) and [`run_all`](crate::run_all) use the process's default client,
/// which reads `HWORKER_REDIS_URL`, then `REDIS_URL`, then takes `redis://127.0.0.1:6379`. Make one for a second server, or
/// for settings that come from elsewhere.
///
/// A client keeps one connection for each tokio runtime that uses it, makes it when it is first needed, and makes a new
/// one when it has ended.
///
/// ```no_run
/// # #[hworker::job] async fn ping() {}
/// # async fn demo() -> Result<(), hworker::Error> {
/// let reports = hworker::Client::builder().redis_url("redis://reports.internal:6379").build()?;
/// ping::with().on(&reports).enqueue().await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Client {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    address: Address,
    prefix: String,
    max_payload: usize,
    enqueue_within: Duration,
    connections: Mutex<HashMap<Id, Arc<Shared>>>,
}

/// The connection of one runtime; the lock is held while it is made, so that it is made once.
type Shared = tokio::sync::Mutex<Option<Connection>>;

/// Settings of a [`Client`]. What is not set comes from the environment, then from [`defaults`].
#[derive(Debug, Default)]
#[must_use = "a builder does nothing until `build`"]
pub struct ClientBuilder {
    redis_url: Option<String>,
    prefix: Option<String>,
    max_payload: Option<usize>,
    enqueue_within: Option<Duration>,
}

static DEFAULT: OnceLock<Client> = OnceLock::new();

impl Client {
    /// Settings for a new client.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    /// A client for the server at this URL: `redis://`, `redis+unix://`, `rediss://` (with the feature `tls`).
    ///
    /// # Errors
    /// [`Error::Config`] where the URL or a variable of the environment is wrong. No connection is made yet.
    pub fn new(redis_url: impl Into<String>) -> Result<Self, Error> {
        Self::builder().redis_url(redis_url).build()
    }

    /// The client that is used where none is named.
    ///
    /// # Errors
    /// [`Error::Config`] where a variable of the environment is wrong.
    pub fn default_client() -> Result<Self, Error> {
        if let Some(client) = DEFAULT.get() {
            return Ok(client.clone());
        }
        let client = Self::builder().build()?;
        Ok(DEFAULT.get_or_init(|| client).clone())
    }

    /// Makes this client the default one. Call it before anything is enqueued.
    ///
    /// # Errors
    /// [`Error::Config`] when there is a default client already.
    pub fn make_default(&self) -> Result<(), Error> {
        let taken = || {
            Error::config(
                "the default client is set already; set it once, before the first enqueue",
            )
        };
        DEFAULT.set(self.clone()).map_err(|_| taken())
    }

    pub(crate) fn address(&self) -> &Address {
        &self.inner.address
    }

    pub(crate) fn prefix(&self) -> &str {
        &self.inner.prefix
    }

    pub(crate) fn queue(&self, name: &str) -> Queue {
        let limits = Limits { failed: 0, broken: 0, max_payload: self.inner.max_payload };
        Queue::new(&self.inner.prefix, name, limits)
    }

    /// The connection of the runtime that this is called in.
    pub(crate) async fn connection(&self) -> Result<Connection, Fault> {
        let shared = self.shared(Handle::current().id());
        let mut slot = shared.lock().await;
        if let Some(connection) = slot.as_ref().filter(|connection| connection.is_alive()) {
            return Ok(connection.clone());
        }
        let connection = self.inner.address.connect().await?;
        *slot = Some(connection.clone());
        Ok(connection)
    }

    fn shared(&self, runtime: Id) -> Arc<Shared> {
        let mut connections = self.inner.connections.lock().unwrap_or_else(PoisonError::into_inner);
        if !connections.contains_key(&runtime) {
            // Runtimes come and go, with each test for instance; those that went took their connection along.
            connections.retain(|_, shared| {
                shared
                    .try_lock()
                    .map_or(true, |slot| slot.as_ref().is_some_and(Connection::is_alive))
            });
        }
        Arc::clone(connections.entry(runtime).or_default())
    }

    /// Runs an operation that may be repeated for as long as it was certainly not executed.
    async fn until_sent<F>(
        &self,
        operation: impl Fn(Connection, Duration) -> F,
    ) -> Result<(), Fault>
    where
        F: Future<Output = Result<(), Fault>>,
    {
        let give_up = Instant::now() + self.inner.enqueue_within;
        let mut pause = Duration::from_millis(20);
        loop {
            let result = match tokio::time::timeout_at(give_up.into(), self.connection()).await {
                Ok(Ok(connection)) => {
                    // What is under way gets a moment even at the end: its answer is worth more than none.
                    let left = give_up.saturating_duration_since(Instant::now());
                    operation(connection, left.max(Duration::from_millis(100))).await
                }
                Ok(Err(fault)) => Err(fault),
                Err(_) => Err(Fault::not_sent("the server could not be reached in time")),
            };
            let fault = match result {
                Ok(()) => return Ok(()),
                Err(fault) => fault,
            };
            let passes = matches!(fault.kind, FaultKind::Connection | FaultKind::Busy);
            if fault.sent || !passes || Instant::now() + pause > give_up {
                return Err(fault);
            }
            tokio::time::sleep(pause.mul_f64(0.5 + fastrand::f64())).await;
            pause = (pause * 2).min(Duration::from_millis(500));
        }
    }
}

impl ClientBuilder {
    /// Where the server is. Default: `HWORKER_REDIS_URL`, then `REDIS_URL`, then `redis://127.0.0.1:6379`.
    pub fn redis_url(mut self, url: impl Into<String>) -> Self {
        self.redis_url = Some(url.into());
        self
    }

    /// What every key begins with, so that several applications share a server: `[A-Za-z0-9._]{1,100}`. Default:
    /// `HWORKER_PREFIX`, then `hworker`.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = Some(prefix.into());
        self
    }

    /// The largest envelope in bytes; larger ones are refused. Default: `HWORKER_MAX_PAYLOAD`, then 16 MiB.
    pub fn max_payload(mut self, bytes: usize) -> Self {
        self.max_payload = Some(bytes);
        self
    }

    /// How long an enqueue tries to reach the server before it ends as [`Error::Unavailable`]. Default: 5 s.
    pub fn enqueue_within(mut self, duration: Duration) -> Self {
        self.enqueue_within = Some(duration);
        self
    }

    /// Makes the client.
    ///
    /// # Errors
    /// [`Error::Config`] with everything that is wrong.
    pub fn build(self) -> Result<Client, Error> {
        let mut problems = Problems(Vec::new());
        let prefix = config::prefix(self.prefix, &mut problems);
        let max_payload = config::max_payload(self.max_payload, &mut problems);
        let address = match Address::parse(&config::redis_url(self.redis_url)) {
            Ok(address) if problems.0.is_empty() => address,
            Ok(_) => return Err(Error::Config(problems)),
            Err(Error::Config(more)) => {
                problems.0.extend(more.0);
                return Err(Error::Config(problems));
            }
            Err(error) => return Err(error),
        };
        Ok(Client {
            inner: Arc::new(Inner {
                address,
                prefix,
                max_payload,
                enqueue_within: self.enqueue_within.unwrap_or(defaults::ENQUEUE_WITHIN),
                connections: Mutex::default(),
            }),
        })
    }
}

/// A job about to be enqueued, with everything that can differ from call to call; `with(..)` of a job makes it.
///
/// ```no_run
/// # use std::time::Duration;
/// # #[hworker::job] async fn remind(user: u64) { let _ = user; }
/// # async fn demo() -> Result<(), hworker::Error> {
/// remind::with(42).delay(Duration::from_secs(3600)).max_attempts(3).enqueue().await?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
#[must_use = "nothing is enqueued until `.enqueue().await`"]
pub struct Enqueue<J: Job> {
    job: J,
    client: Option<Client>,
    queue: Option<String>,
    due: Option<Due>,
    max_attempts: Option<u32>,
    timeout: Option<u64>,
    backoff: Option<String>,
    retry_until: Option<u64>,
}

impl<J: Job> Enqueue<J> {
    #[doc(hidden)]
    pub fn new(job: J) -> Self {
        Self {
            job,
            client: None,
            queue: None,
            due: None,
            max_attempts: None,
            timeout: None,
            backoff: None,
            retry_until: None,
        }
    }

    /// Runs the job no earlier than this long from now, by the server's clock.
    pub fn delay(mut self, delay: Duration) -> Self {
        self.due = Some(Due::In(millis(delay)));
        self
    }

    /// Runs the job no earlier than this time, by the server's clock; a time in the past is now.
    pub fn at(mut self, time: SystemTime) -> Self {
        self.due = Some(Due::At(local_unix_ms(time)));
        self
    }

    /// Puts the job on another queue than its type's own: `[A-Za-z0-9._-]{1,100}`.
    pub fn queue(mut self, queue: impl Into<String>) -> Self {
        self.queue = Some(queue.into());
        self
    }

    /// How many attempts this job has; at least 1.
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.max_attempts = Some(attempts);
        self
    }

    /// How long an attempt of this job may run.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(millis(timeout));
        self
    }

    /// How long this job waits between attempts, written as in the attribute: `"30s"`, `"1s, 10s, 1m"`, `"exp(5s, 6h)"`.
    pub fn backoff(mut self, backoff: impl Into<String>) -> Self {
        self.backoff = Some(backoff.into());
        self
    }

    /// No attempt starts after this time; a job that would have to has failed.
    pub fn retry_until(mut self, time: SystemTime) -> Self {
        self.retry_until = Some(local_unix_ms(time));
        self
    }

    /// Uses another client than the default one.
    pub fn on(mut self, client: &Client) -> Self {
        self.client = Some(client.clone());
        self
    }

    /// Enqueues the job: one round trip. `Ok` means that the server has it.
    ///
    /// Dropping the future before it is ready leaves the job enqueued or not, never half.
    ///
    /// # Errors
    /// [`Error::Uncertain`] where the server may have it but its answer was lost; with every other error the job is
    /// not enqueued.
    pub async fn enqueue(self) -> Result<JobId, Error> {
        if Handle::try_current().is_err() {
            return Err(Error::config(
                "enqueue was called outside a tokio runtime; call `.enqueue_blocking()` there",
            ));
        }
        let ready = self.encode()?;
        ready.client.send(&ready).await
    }

    /// Enqueues the job from code that is not async, in or outside a runtime, and blocks until the server has it.
    ///
    /// # Errors
    /// As [`Enqueue::enqueue`].
    pub fn enqueue_blocking(self) -> Result<JobId, Error> {
        let ready = self.encode()?;
        let (done, result) = std::sync::mpsc::channel();
        blocking_runtime()?.spawn(async move {
            let _ = done.send(ready.client.send(&ready).await);
        });
        result.recv().unwrap_or_else(|_| {
            Err(Error::config(
                "the runtime for blocking enqueues has ended; is the process exiting?",
            ))
        })
    }

    /// Checks everything and writes the envelope.
    fn encode(self) -> Result<Ready<J>, Error> {
        let client = self.client.map_or_else(Client::default_client, Ok)?;
        let queue = self.queue.unwrap_or_else(|| J::DEFINITION.queue.to_owned());
        let mut problems = Vec::new();
        if !is_name(&queue) {
            problems.push(format!(
                "the queue's name `{queue}` is not of the form [A-Za-z0-9._-]{{1,100}}"
            ));
        }
        if self.max_attempts == Some(0) {
            problems.push("max_attempts is 0; a job has at least one attempt".into());
        }
        if self.timeout == Some(0) {
            problems.push("timeout is 0; write how long an attempt may run".into());
        }
        if let Some(Err(why)) = self.backoff.as_deref().map(CallBackoff::parse) {
            problems.push(format!("backoff: {why}"));
        }
        if !problems.is_empty() {
            return Err(Error::Config(Problems(problems)));
        }

        let id = JobId::fresh();
        let envelope = NewEnvelope {
            v: VERSION,
            id: &id,
            job: J::NAME,
            args: &self.job,
            enqueued_at: local_unix_ms(SystemTime::now()),
            max_attempts: self.max_attempts,
            timeout: self.timeout,
            backoff: self.backoff.as_deref(),
            retry_until: self.retry_until,
        };
        let refused = |error| Error::Encode { job: J::NAME, source: Cause::new(error) };
        let envelope = strict_json::to_vec(&envelope).map_err(refused)?;
        let limit = client.inner.max_payload;
        if envelope.len() > limit {
            let why = format!(
                "its envelope has {} bytes, more than max_payload ({limit})",
                envelope.len()
            );
            let doing = format!("enqueue job {} {id}", J::NAME);
            return Err(Error::Refused { doing, source: Cause::new(why) });
        }
        Ok(Ready { client, queue, due: self.due, id, envelope, of: PhantomData })
    }
}

/// A job encoded and checked.
struct Ready<J> {
    client: Client,
    queue: String,
    due: Option<Due>,
    id: JobId,
    envelope: Vec<u8>,
    of: PhantomData<fn() -> J>,
}

impl Client {
    async fn send<J: Job>(&self, ready: &Ready<J>) -> Result<JobId, Error> {
        let queue = &self.queue(&ready.queue);
        let envelope = &ready.envelope;
        let sent = self.until_sent(|connection, within| async move {
            match ready.due {
                None => queue.enqueue(&connection, std::slice::from_ref(envelope), within).await,
                Some(due) => queue.schedule(&connection, &[(due, envelope.clone())], within).await,
            }
        });
        match sent.await {
            Ok(()) => Ok(ready.id.clone()),
            Err(fault) if fault.sent => {
                Err(Error::Uncertain { id: ready.id.clone(), source: fault.into_cause() })
            }
            Err(fault) => Err(fault.into_error(format!("enqueue job {} {}", J::NAME, ready.id))),
        }
    }
}

/// The runtime of blocking enqueues, started with the first of them.
fn blocking_runtime() -> Result<&'static Runtime, Error> {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    if let Some(runtime) = RUNTIME.get() {
        return Ok(runtime);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("hworker-enqueue")
        .enable_all()
        .build()
        .map_err(|error| Error::config(format!("no thread for blocking enqueues: {error}")))?;
    Ok(RUNTIME.get_or_init(|| runtime))
}
