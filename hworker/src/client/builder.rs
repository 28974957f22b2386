//! The settings of a client.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use super::coalesce::Coalescers;
use super::connections::Connections;
use super::outgoing::{AllOutgoing, Outgoing};
use super::{Client, Inner, Spread};
use crate::config::{self, EncryptionSettings, Limits, TlsFiles, UrlSource, defaults};
use crate::durability::Durability;
use crate::error::{BoxError, Error, Problems};
use crate::hooks::Events;
use crate::keys::KeySpace;
use crate::store::{Address, Meta, Queue, without_secrets};

impl Client {
    /// Settings for a new client.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }
}

/// Settings of a [`Client`]. What is not set comes from the environment, then from [`defaults`].
#[derive(Default)]
#[must_use = "a builder does nothing until `build`"]
pub struct ClientBuilder {
    redis_url: Option<String>,
    tls_files: TlsFiles,
    prefix: Option<String>,
    shards: BTreeMap<String, usize>,
    max_payload: Option<usize>,
    enqueue_within: Option<Duration>,
    durability: Option<Durability>,
    encryption: EncryptionSettings,
    outgoing: AllOutgoing,
    events: Option<Events>,
}

impl ClientBuilder {
    /// Where the server is. Blanks around it mean nothing. Default: `HWORKER_REDIS_URL`, then `REDIS_URL`, then
    /// `redis://127.0.0.1:6379`.
    pub fn redis_url(mut self, url: impl Into<String>) -> Self {
        self.redis_url = Some(url.into());
        self
    }

    /// A file with the authorities, as certificates in PEM form, that may issue the certificate of the server: those and no
    /// others. Needs the feature `tls` and a `rediss://` URL, as do the two below. The files are read when the client is made.
    /// Default: `HWORKER_TLS_CA`, then the system's.
    pub fn tls_ca(mut self, path: impl Into<PathBuf>) -> Self {
        self.tls_files.ca = Some(path.into());
        self
    }

    /// A file with the certificate by which this client shows who it is, in PEM form, followed by those between it and the
    /// authority that the server trusts. Default: `HWORKER_TLS_CERT`, then none.
    pub fn tls_cert(mut self, path: impl Into<PathBuf>) -> Self {
        self.tls_files.cert = Some(path.into());
        self
    }

    /// A file with the key of that certificate, in PEM form. Default: `HWORKER_TLS_KEY`, then none.
    pub fn tls_key(mut self, path: impl Into<PathBuf>) -> Self {
        self.tls_files.key = Some(path.into());
        self
    }

    /// What every key begins with, so that several applications share a server: `[A-Za-z0-9._]{1,100}`. Default:
    /// `HWORKER_PREFIX`, then `hworker`.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = Some(prefix.into());
        self
    }

    /// Spreads a queue over so many shards, each in a slot of its own, for what one core of one server cannot carry:
    /// [docs/scaling.md](https://github.com/hworker/hworker/blob/main/docs/scaling.md) says when, and what changes. All producers
    /// and workers of the queue must be told the same; to raise it, workers first. A worker refuses to start with shards
    /// of a queue that none of its job types names, most likely a typing error, unless a plus says that it is none: `"+reports"`.
    /// Default: `HWORKER_SHARDS` (`mail=8,+reports=2`), then 1.
    pub fn shards(mut self, queue: impl Into<String>, shards: usize) -> Self {
        self.shards.insert(queue.into(), shards);
        self
    }

    /// The largest envelope in bytes, at least 512; larger ones are refused. Workers in other programs have to take as much.
    /// Default: `HWORKER_MAX_PAYLOAD`, then 16 MiB.
    pub fn max_payload(mut self, bytes: usize) -> Self {
        self.max_payload = Some(bytes);
        self
    }

    /// How long an enqueue tries to reach the server before it ends as [`Error::Unavailable`], and how long the line may be silent once it is
    /// being sent. Default: 5 s.
    pub fn enqueue_within(mut self, duration: Duration) -> Self {
        self.enqueue_within = Some(duration);
        self
    }

    /// How safe a job must be before its enqueue returns. Default: `HWORKER_DURABILITY`, then [`Durability::accepted`].
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = Some(durability);
        self
    }

    /// A key with which arguments are encrypted and decrypted. The key that is given first encrypts; all decrypt, so that a
    /// new one can be put before an old one: [SECURITY.md](https://github.com/hworker/hworker/blob/main/SECURITY.md#encrypted-arguments)
    /// says how. Its name, `[A-Za-z0-9._-]{1,100}`, stands beside what is encrypted with it, and belongs to it for ever.
    ///
    /// Which arguments are encrypted, `#[hworker::job(encrypted)]` and [`encrypt_all`](Self::encrypt_all) say. Default:
    /// those in the file of [`encryption_keys`](Self::encryption_keys).
    #[cfg(feature = "encryption")]
    pub fn encryption_key(mut self, name: impl Into<String>, key: &[u8; 32]) -> Self {
        self.encryption.keys.push(crate::encryption::Key::new(name.into(), key));
        self
    }

    /// A file of such keys, each on a line of its own: its name, a space, and 32 random bytes in base64, as `openssl rand -base64 32`
    /// makes them. The first one encrypts, unless there is one of `encryption_key`. The file is read
    /// when the client is made. Needs the feature `encryption`. Default: `HWORKER_ENCRYPTION_KEYS`, then none.
    pub fn encryption_keys(mut self, path: impl Into<PathBuf>) -> Self {
        self.encryption.file = Some(path.into());
        self
    }

    /// Whether the arguments of all jobs are encrypted, and not only of those whose type is
    /// [`encrypted`](macro@crate::job#options). Needs the feature `encryption`. Default: `HWORKER_ENCRYPT_ALL`, then false.
    pub fn encrypt_all(mut self, all: bool) -> Self {
        self.encryption.all = Some(all);
        self
    }

    /// Asks `function` about every job that this client enqueues, before that is encoded: it may add tags and what is noted beside the arguments, or
    /// refuse the job by an error, which the caller gets as [`Error::Vetoed`]. Of a [`Bulk`](crate::Bulk) nothing is enqueued then. Runs of cron
    /// entries are made at the server, and not asked about. It must not block; where it panics the job is enqueued without what it adds.
    ///
    /// ```
    /// # fn tenant() -> String { "acme".to_owned() }
    /// # fn demo() -> Result<(), hworker::Error> {
    /// let client = hworker::Client::builder()
    ///     .outgoing(|job| {
    ///         if job.job() == "old_report" {
    ///             return Err("old reports are not made any more".into());
    ///         }
    ///         job.meta("tenant", tenant());
    ///         Ok(())
    ///     })
    ///     .build()?;
    /// # Ok(()) }
    /// ```
    pub fn outgoing(
        mut self,
        function: impl Fn(&mut Outgoing<'_>) -> Result<(), BoxError> + Send + Sync + 'static,
    ) -> Self {
        self.outgoing.add(Box::new(function));
        self
    }

    /// Which events this client, and a worker that uses it, write for [`Client::events`]; see
    /// [docs/events.md](https://github.com/hworker/hworker/blob/main/docs/events.md). Default: `HWORKER_EVENTS`, then none.
    pub fn events(mut self, events: Events) -> Self {
        self.events = Some(events);
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
        let durability = config::durability(self.durability, &mut problems);
        let shards = config::shards(self.shards, &mut problems);
        let events = config::events(self.events, &mut problems);
        let encryption = self.encryption.resolve(&mut problems);
        let (url, source) = config::redis_url(self.redis_url, &mut problems);
        let chosen = source == UrlSource::Program;
        let tls_files = self.tls_files.resolve(&url, chosen, &mut problems);
        let address = problems.and(Address::parse(&url, source, &tls_files))?;
        let space = KeySpace { prefix, cluster: address.is_cluster() };
        let limits = Limits { max_payload, ..Limits::default() };
        let spread = shards.into_iter().map(|(name, setting)| {
            let next = AtomicUsize::new(fastrand::usize(..setting.count));
            let shard = |shard| Queue::new(&space, &name, shard, limits);
            let shards = (0..setting.count).map(shard).collect();
            (name, Spread { shards, extra: setting.extra, next })
        });
        Ok(Client {
            inner: Arc::new(Inner {
                address,
                spread: spread.collect(),
                meta: Meta::new(&space),
                space,
                max_payload,
                enqueue_within: self.enqueue_within.unwrap_or(defaults::ENQUEUE_WITHIN),
                durability: durability.asks(),
                encryption,
                outgoing: self.outgoing,
                events,
                connections: Connections::default(),
                coalescers: Coalescers::default(),
                bounds: super::Bounds::default(),
                awaited: super::Awaited::default(),
            }),
        })
    }
}

impl fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientBuilder")
            .field("redis_url", &self.redis_url.as_deref().map(without_secrets))
            .field("tls_files", &self.tls_files)
            .field("prefix", &self.prefix)
            .field("shards", &self.shards)
            .field("max_payload", &self.max_payload)
            .field("enqueue_within", &self.enqueue_within)
            .field("durability", &self.durability)
            .field("encryption", &self.encryption)
            .field("outgoing", &self.outgoing)
            .field("events", &self.events)
            .finish()
    }
}
