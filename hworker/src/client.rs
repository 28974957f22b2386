//! The client: where the server is, and the connections to it.

mod awaited;
mod builder;
mod coalesce;
mod connections;
mod outgoing;
#[cfg(feature = "testing")]
mod recorder;
mod room;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;

use self::awaited::Awaited;
use self::coalesce::Coalescers;
use self::connections::{Connections, Purpose};
use self::room::Bounds;
use crate::config::{EncryptionConfig, Limits, NO_KEYS};
use crate::context::state_in_body;
use crate::durability::Durability;
use crate::encryption::{Encrypted, KeyRing};
use crate::error::Error;
use crate::fnv;
use crate::hooks::Events;
use crate::job::Definition;
use crate::keys::KeySpace;
use crate::limit::{List, written_key};
use crate::reconnect::Reconnect;
use crate::store::{
    Address, Connection, Fault, FaultKind, LAST_MOMENT, ListedQueues, Meta, MetaKey, Queue,
};
use crate::time::within;
use crate::unique::KeyLock;

pub use builder::ClientBuilder;
pub(crate) use outgoing::Added;
pub use outgoing::Outgoing;
#[cfg(feature = "testing")]
pub(crate) use recorder::{Recorded, Recorder};

/// A call whose answer was lost is made so often, where that does no harm.
const ANSWER_TRIES: usize = 3;

/// A Redis server as jobs are enqueued to it and workers are run on it; clones share everything.
///
/// There is no need to make one: [`enqueue`](crate::Enqueue::enqueue) and [`run_all`](crate::run_all) use the [default
/// client](Client::default_client), which reads `HWORKER_REDIS_URL`, then `REDIS_URL`, then takes `redis://127.0.0.1:6379`. Make one for a second server, or
/// for settings that come from elsewhere.
///
/// A client keeps one connection for each tokio runtime that uses it (in a cluster, one to each server), a second one for
/// [`Inspect`](crate::Inspect), makes each when it is first needed, and makes a new one when it has ended.
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

struct Inner {
    address: Address,
    space: KeySpace,
    spread: BTreeMap<String, Spread>,
    meta: Meta,
    max_payload: usize,
    enqueue_within: Duration,
    durability: Option<Durability>,
    encryption: EncryptionConfig,
    outgoing: outgoing::AllOutgoing,
    events: Events,
    connections: Connections,
    coalescers: Coalescers,
    bounds: Bounds,
    awaited: Awaited,
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The jobs that wait to be sent stay out of logs.
        f.debug_struct("Inner")
            .field("address", &self.address)
            .field("space", &self.space)
            .finish_non_exhaustive()
    }
}

/// A queue that is spread over shards.
#[derive(Debug)]
struct Spread {
    shards: Vec<Queue>,
    /// No job type of the program need name it.
    extra: bool,
    /// The next enqueue goes to this one, counted round and round.
    next: AtomicUsize,
}

static DEFAULT: OnceLock<Client> = OnceLock::new();

/// The client of a worker, among its states, for its bodies.
#[derive(Clone)]
pub(crate) struct OfWorker(pub(crate) Client);

impl Client {
    /// A client for the server at this URL: `redis://`, `redis+unix://`, `redis-sentinel://`, `redis-cluster://`, and with
    /// the feature `tls` the same with `rediss`.
    ///
    /// # Errors
    /// [`Error::Config`] where the URL or a variable of the environment is wrong. No connection is made yet.
    pub fn new(redis_url: impl Into<String>) -> Result<Self, Error> {
        Self::builder().redis_url(redis_url).build()
    }

    /// The client that is used where none is named: in the body of a job that of its worker, elsewhere the one of the process.
    ///
    /// The body is also what [`Context::spawn`](crate::Context::spawn) starts, and the thread of a body that blocks. A task of
    /// `tokio::spawn`, or a thread that the body starts itself, is not: a client that the body takes here can be given to it.
    ///
    /// # Errors
    /// [`Error::Config`] where a variable of the environment is wrong.
    pub fn default_client() -> Result<Self, Error> {
        if let Some(OfWorker(client)) = state_in_body() {
            return Ok(client);
        }
        #[cfg(feature = "testing")]
        if let Some(client) = Self::of_test() {
            return Ok(client);
        }
        if let Some(client) = DEFAULT.get() {
            return Ok(client.clone());
        }
        let client = Self::builder().build()?;
        Ok(DEFAULT.get_or_init(|| client).clone())
    }

    /// Makes this client the default one of the process. Call it before anything is enqueued.
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

    /// This client.
    #[cfg(not(feature = "testing"))]
    pub(crate) fn or_of_test(self) -> Self {
        self
    }

    /// The server and the prefix, without secrets, as a tool names them before it changes something.
    #[must_use]
    pub fn place(&self) -> String {
        let Inner { address, space, .. } = &*self.inner;
        format!("{address}, prefix {}", space.prefix)
    }

    pub(crate) fn key_space(&self) -> &KeySpace {
        &self.inner.space
    }

    pub(crate) fn address(&self) -> &Address {
        &self.inner.address
    }

    /// The queue, or the shard of it that is next to be enqueued to.
    ///
    /// Jobs have no place that they must be at, so shards are taken in turn, which fills them evenly whatever the jobs
    /// are; each client begins at random, or the many that live for a few enqueues would all begin at the first.
    pub(crate) fn queue(&self, name: &str) -> Queue {
        let whole = || Queue::new(&self.inner.space, name, 0, self.limits());
        self.next_shard(name).cloned().unwrap_or_else(whole)
    }

    /// The queue, or the shard of it that has all jobs of these limits or of this key.
    pub(crate) fn queue_of(&self, name: &str, list: &List, whose: Option<&str>) -> Queue {
        let shard = self.shard_of(name, list, whose).cloned();
        shard.unwrap_or_else(|| self.queue(name)).at(list.clone())
    }

    /// The shard that has all jobs of these limits or of this key, where the queue is spread; `None` where any will do. `whose`: what a job
    /// without limits has to be in one shard with others for, if anything.
    pub(crate) fn shard_of(&self, name: &str, list: &List, whose: Option<&str>) -> Option<&Queue> {
        let spread = self.inner.spread.get(name)?;
        let of_limits = list.key().map_or_else(|| list.limits().last(), |(_, key)| Some(key));
        let whose = of_limits.or(whose)?;
        // The highest random weight (Thaler and Ravishankar 1998): another shard takes only those that it is to have.
        let weight = |shard: &&Queue| fnv::hash(format!("{whose} {}", shard.label).as_bytes());
        spread.shards.iter().max_by_key(weight)
    }

    /// As [`Client::queue`], of a queue that is spread.
    fn next_shard(&self, name: &str) -> Option<&Queue> {
        let spread = self.inner.spread.get(name)?;
        let turn = spread.next.fetch_add(1, Ordering::Relaxed);
        spread.shards.get(turn % spread.shards.len())
    }

    /// The queue, or all shards of it.
    pub(crate) fn shards(&self, name: &str, limits: Limits) -> Vec<Queue> {
        match self.inner.spread.get(name) {
            None => vec![Queue::new(&self.inner.space, name, 0, limits)],
            Some(spread) => {
                spread.shards.iter().map(|shard| Queue { limits, ..shard.clone() }).collect()
            }
        }
    }

    /// The queues that are spread, by the settings, and that job types of the program should name.
    pub(crate) fn spread(&self) -> impl Iterator<Item = &str> {
        let named = self.inner.spread.iter().filter(|(_, spread)| !spread.extra);
        named.map(|(name, _)| name.as_str())
    }

    /// What an enqueue, or a look, has to keep to.
    pub(crate) fn limits(&self) -> Limits {
        Limits { max_payload: self.inner.max_payload, ..Limits::default() }
    }

    /// The connection to the server of a queue, of the runtime that this is called in.
    pub(crate) async fn connection(&self, queue: &Queue) -> Result<Connection, Fault> {
        self.connection_that_confirms(queue, None).await
    }

    /// As [`Client::connection`], for writes that have to be this safe.
    pub(crate) async fn connection_that_confirms(
        &self,
        queue: &Queue,
        confirms: Option<Durability>,
    ) -> Result<Connection, Fault> {
        self.connection_for(queue.slot, Purpose::Write(confirms)).await
    }

    /// As [`Client::connection`], for reads of whole queues, which may take long.
    pub(crate) async fn connection_to_inspect(&self, queue: &Queue) -> Result<Connection, Fault> {
        self.connection_for(queue.slot, Purpose::Inspect).await
    }

    /// The connection to the server of this slot, for writes.
    pub(crate) async fn connection_to_slot(&self, slot: u16) -> Result<Connection, Fault> {
        self.connection_for(slot, Purpose::Write(None)).await
    }

    async fn connection_for(&self, slot: u16, purpose: Purpose) -> Result<Connection, Fault> {
        let runtime = Handle::try_current().map_err(|_| Fault::outside_runtime())?;
        let home = self.inner.address.home(slot).await?;
        self.inner.connections.get(&runtime, &self.inner.address, home, purpose).await
    }

    /// Adds queues to the registry.
    pub(crate) async fn register_queues(
        &self,
        queues: &[&str],
        confirms: Option<Durability>,
    ) -> Result<(), Fault> {
        let on = self.connection_for(MetaKey::Queues.slot(), Purpose::Write(confirms)).await?;
        let queues: Vec<_> = queues.iter().map(|name| (*name, self.shard_count(name))).collect();
        self.inner.meta.add(&on, &queues).await
    }

    /// Over how many shards a queue is spread.
    pub(crate) fn shard_count(&self, queue: &str) -> usize {
        self.inner.spread.get(queue).map_or(1, |spread| spread.shards.len())
    }

    /// How many queues the registry has.
    pub(crate) async fn count_registered_queues(&self) -> Result<u64, Fault> {
        let (meta, on) = self.meta(MetaKey::Queues).await?;
        meta.count(&on).await
    }

    /// The queues of the registry, each with its shards as far as that is known.
    pub(crate) async fn registered_queues(&self) -> Result<BTreeMap<String, Option<usize>>, Fault> {
        let (meta, on) = self.meta(MetaKey::Queues).await?;
        meta.names(&on).await
    }

    /// The queues of the registry, and those whose lists only foreign producers fill; these where the server lets us look for them.
    pub(crate) async fn queue_names(&self) -> Result<BTreeSet<String>, Fault> {
        let mut names: BTreeSet<_> = self.registered_queues().await?.into_keys().collect();
        match self.listed_queues().await {
            Ok(listed) => names.extend(listed.into_keys()),
            Err(fault) if fault.kind == FaultKind::Denied => {}
            Err(fault) => return Err(fault),
        }
        Ok(names)
    }

    /// The queues that have lists.
    pub(crate) async fn listed_queues(&self) -> Result<ListedQueues, Fault> {
        let mut found = ListedQueues::new();
        for on in self.servers().await? {
            self.inner.meta.with_lists(&on, &mut found).await?;
        }
        Ok(found)
    }

    /// A connection to every server that has keys.
    pub(crate) async fn servers(&self) -> Result<Vec<Connection>, Fault> {
        let runtime = Handle::try_current().map_err(|_| Fault::outside_runtime())?;
        let Inner { address, connections, .. } = &*self.inner;
        let mut servers = Vec::new();
        for home in address.homes().await? {
            servers.push(connections.get(&runtime, address, home, Purpose::Inspect).await?);
        }
        Ok(servers)
    }

    /// Takes a queue that is no more out of the registry.
    pub(crate) async fn forget_queue(&self, queue: &str) -> Result<(), Fault> {
        let (meta, on) = self.meta(MetaKey::Queues).await?;
        meta.remove(&on, queue).await
    }

    /// What belongs to all queues, and the connection to the server that has this key of it.
    pub(crate) async fn meta(&self, key: MetaKey) -> Result<(&Meta, Connection), Fault> {
        Ok((&self.inner.meta, self.connection_for(key.slot(), Purpose::Inspect).await?))
    }

    /// Equal for clones of one client, and only for those.
    pub(crate) fn identity(&self) -> usize {
        Arc::as_ptr(&self.inner).addr()
    }

    /// The largest envelope, in bytes.
    pub(crate) fn max_payload(&self) -> usize {
        self.inner.max_payload
    }

    /// How safe jobs have to be that do not say it themselves.
    pub(crate) fn durability(&self) -> Option<Durability> {
        self.inner.durability
    }

    /// Which events are written.
    pub(crate) fn writes_events(&self) -> Events {
        self.inner.events
    }

    /// The keys that encrypted arguments are read with, if there are any.
    pub(crate) fn keys(&self) -> Option<&KeyRing> {
        self.inner.encryption.keys.as_ref()
    }

    /// What code of the user adds to a job of this type for this queue.
    pub(crate) fn ask_outgoing(&self, job: &str, queue: &str) -> Result<Option<Added>, Error> {
        self.inner.outgoing.ask(job, queue)
    }

    /// The keys that the arguments of a job of this type are written with; `None` where they are not encrypted.
    pub(crate) fn keys_for(&self, definition: &Definition) -> Result<Option<&KeyRing>, Error> {
        self.keys_where(definition.encrypted).map_err(|why| {
            let (name, place) = (definition.name, definition.place);
            Error::config(format!(
                "the arguments of job `{name}` ({place}) are to be encrypted, but {why}"
            ))
        })
    }

    /// The same of a type that says so; an error where there are to be keys and are none.
    pub(crate) fn keys_where(&self, own: Encrypted) -> Result<Option<&KeyRing>, &'static str> {
        if own == Encrypted::No && !self.inner.encryption.all {
            return Ok(None);
        }
        self.keys().map(Some).ok_or(NO_KEYS)
    }

    /// A key of this job type as the server keeps it: where the arguments are encrypted, it must not know the key either.
    pub(crate) fn written_key(&self, of: &Definition, key: &str) -> Result<String, Error> {
        let digest = self.keys_for(of)?.and_then(|keys| keys.digest(key));
        Ok(digest.unwrap_or_else(|| written_key(key)))
    }

    /// What a job of this type holds with these arguments, if the type is unique. None of arguments that do not fit.
    pub(crate) fn own_lock(&self, of: &Definition, args: &str) -> Option<KeyLock> {
        let uniqueness = of.unique.as_ref()?;
        let key = (of.unique_key)(args).ok()??;
        Some(uniqueness.lock(&self.written_key(of, &key).ok()?))
    }

    /// When an enqueue that begins now gives up.
    fn give_up(&self) -> Instant {
        let now = Instant::now();
        // For a limit that means for ever.
        let year = || now + Duration::from_secs(365 * 86_400);
        now.checked_add(self.inner.enqueue_within).unwrap_or_else(year)
    }

    /// Runs an operation on a queue that may be repeated for as long as it was certainly not executed.
    pub(crate) async fn until_sent<T, F>(
        &self,
        queue: &Queue,
        confirms: Option<Durability>,
        operation: impl Fn(Connection, Duration) -> F,
    ) -> Result<T, Fault>
    where
        F: Future<Output = Result<T, Fault>>,
    {
        let Some(coalescer) = self.unregistered(queue, confirms) else {
            return self.repeat_until_sent(queue, confirms, operation).await;
        };
        // Once for each queue, so that no enqueue is larger for it.
        let sent = Box::pin(self.repeat_until_sent(queue, confirms, operation));
        Box::pin(self.register_beside(&coalescer, sent)).await
    }

    /// Runs an operation that does the same however often it is repeated: again, where its answer was lost.
    pub(crate) async fn until_answered<T, F>(
        &self,
        queue: &Queue,
        confirms: Option<Durability>,
        operation: impl Fn(Connection, Duration) -> F,
    ) -> Result<T, Fault>
    where
        F: Future<Output = Result<T, Fault>>,
    {
        let mut tries = 0;
        loop {
            tries += 1;
            let done = self.until_sent(queue, confirms, &operation).await;
            let is_lost = |fault: &Fault| {
                fault.sent && matches!(fault.kind, FaultKind::Connection | FaultKind::Silent)
            };
            if tries == ANSWER_TRIES || !done.as_ref().is_err_and(is_lost) {
                return done;
            }
        }
    }

    async fn repeat_until_sent<T, F>(
        &self,
        queue: &Queue,
        confirms: Option<Durability>,
        operation: impl Fn(Connection, Duration) -> F,
    ) -> Result<T, Fault>
    where
        F: Future<Output = Result<T, Fault>>,
    {
        let give_up = self.give_up();
        let mut reconnect = Reconnect::soon();
        let mut last = None;
        loop {
            let connection = self.connection_that_confirms(queue, confirms);
            let left = give_up.saturating_duration_since(Instant::now());
            let result = match within(left, pin!(connection)).await {
                Some(Ok(connection)) => {
                    let left = give_up.saturating_duration_since(Instant::now());
                    operation(connection, left.max(LAST_MOMENT)).await
                }
                Some(Err(fault)) => Err(fault),
                // What the tries before this one met says more.
                None => Err(last
                    .unwrap_or_else(|| Fault::not_sent("the server could not be reached in time"))),
            };
            let fault = match result {
                Err(fault) => fault,
                done => return done,
            };
            let pause = reconnect.next_pause();
            if !fault.is_retryable() || Instant::now() + pause > give_up {
                return Err(fault);
            }
            last = Some(fault);
            tokio::time::sleep(pause).await;
        }
    }
}
