//! Settings: their defaults, their environment variables, and what is checked about them.

mod encryption;
mod tls;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use crate::durability::Durability;
use crate::error::Problems;
use crate::keys::{is_name, is_prefix};
use crate::shards;
use crate::time::parse_duration;

pub(crate) use encryption::{EncryptionConfig, EncryptionSettings, NO_KEYS};
pub(crate) use tls::TlsFiles;

/// Defaults, where neither the program nor the environment says otherwise.
pub mod defaults {
    use std::time::Duration;

    /// Where the server is.
    pub const REDIS_URL: &str = "redis://127.0.0.1:6379";
    /// What every key begins with.
    pub const PREFIX: &str = "hworker";
    /// The queue of a job that names none.
    pub const QUEUE: &str = "default";
    /// Slots for each core of the machine.
    pub const SLOTS_PER_CORE: usize = 10;
    /// How long a stopping worker lets its jobs finish.
    pub const SHUTDOWN_GRACE: Duration = Duration::from_secs(25);
    /// A worker that was not heard of for so long is dead.
    pub const DEAD_AFTER: Duration = Duration::from_secs(5);
    /// How many records of failed jobs a queue keeps.
    pub const FAILED_LIMIT: usize = 1000;
    /// How many broken payloads a queue keeps.
    pub const BROKEN_LIMIT: usize = 1000;
    /// How long a job of an unknown name is passed on before it is broken.
    pub const UNKNOWN_FOR: Duration = Duration::from_secs(15 * 60);
    /// A job that was running at so many deaths of its worker within a day has failed.
    pub const CRASH_LIMIT: usize = 4;
    /// The largest envelope, in bytes.
    pub const MAX_PAYLOAD: usize = 16 * 1024 * 1024;
    /// How long an enqueue tries to reach the server.
    pub const ENQUEUE_WITHIN: Duration = Duration::from_secs(5);
}

/// What bounds the structures of a queue.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) failed: usize,
    pub(crate) broken: usize,
    pub(crate) max_payload: usize,
}

/// A queue to be served, and how many of its jobs may run at once where that is less than the worker's slots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct QueueSetting {
    pub(crate) name: String,
    pub(crate) limit: Option<usize>,
    /// No job type need name it: its jobs are enqueued with `.queue(..)`.
    pub(crate) extra: bool,
}

/// The settings of a worker, checked.
#[derive(Debug, Clone)]
pub(crate) struct WorkerConfig {
    /// Empty: every queue that a registered job names.
    pub(crate) queues: Vec<QueueSetting>,
    pub(crate) concurrency: usize,
    pub(crate) shutdown_grace: Duration,
    pub(crate) dead_after: Duration,
    pub(crate) unknown_for: Duration,
    pub(crate) crash_limit: usize,
    pub(crate) stop_when_cut: bool,
    pub(crate) prefetch: bool,
    pub(crate) durability: Durability,
    pub(crate) name: String,
    /// Where probes are answered; only the feature `health` reads it.
    #[cfg_attr(not(feature = "health"), allow(dead_code))]
    pub(crate) health: Option<SocketAddr>,
    pub(crate) limits: Limits,
}

/// Settings as given so far: by the program, then by the environment.
#[derive(Debug, Default, Clone)]
pub(crate) struct WorkerSettings {
    pub(crate) queues: Option<Vec<QueueSetting>>,
    pub(crate) concurrency: Option<usize>,
    pub(crate) shutdown_grace: Option<Duration>,
    pub(crate) dead_after: Option<Duration>,
    pub(crate) failed_limit: Option<usize>,
    pub(crate) broken_limit: Option<usize>,
    pub(crate) unknown_for: Option<Duration>,
    pub(crate) crash_limit: Option<usize>,
    pub(crate) max_payload: Option<usize>,
    pub(crate) stop_when_cut: Option<bool>,
    pub(crate) prefetch: Option<bool>,
    pub(crate) durability: Option<Durability>,
    pub(crate) name: Option<String>,
    pub(crate) health: Option<SocketAddr>,
}

impl WorkerSettings {
    /// Fills what is open from the environment and the defaults; every problem goes to `problems`.
    pub(crate) fn resolve(self, problems: &mut Problems) -> WorkerConfig {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let mut env = Environment { problems };
        let config = WorkerConfig {
            queues: env.or(self.queues, "HWORKER_QUEUES", queues, Vec::new()),
            concurrency: env.or(
                self.concurrency,
                "HWORKER_CONCURRENCY",
                number,
                cores * defaults::SLOTS_PER_CORE,
            ),
            shutdown_grace: env.or(
                self.shutdown_grace,
                "HWORKER_SHUTDOWN_GRACE",
                parse_duration,
                defaults::SHUTDOWN_GRACE,
            ),
            dead_after: env.or(
                self.dead_after,
                "HWORKER_DEAD_AFTER",
                parse_duration,
                defaults::DEAD_AFTER,
            ),
            unknown_for: env.or(
                self.unknown_for,
                "HWORKER_UNKNOWN_FOR",
                parse_duration,
                defaults::UNKNOWN_FOR,
            ),
            crash_limit: env.or(
                self.crash_limit,
                "HWORKER_CRASH_LIMIT",
                number,
                defaults::CRASH_LIMIT,
            ),
            stop_when_cut: env.or(self.stop_when_cut, "HWORKER_STOP_WHEN_CUT", boolean, false),
            prefetch: env.or(self.prefetch, "HWORKER_PREFETCH", boolean, true),
            durability: env.or(
                self.durability,
                "HWORKER_SETTLE_DURABILITY",
                Durability::parse,
                Durability::accepted(),
            ),
            name: env.or(self.name, "HWORKER_NAME", |text| Ok(text.to_owned()), host_name()),
            health: env.or(self.health.map(Some), "HWORKER_HEALTH", health, None),
            limits: Limits {
                failed: env.or(
                    self.failed_limit,
                    "HWORKER_FAILED_LIMIT",
                    number,
                    defaults::FAILED_LIMIT,
                ),
                broken: env.or(
                    self.broken_limit,
                    "HWORKER_BROKEN_LIMIT",
                    number,
                    defaults::BROKEN_LIMIT,
                ),
                max_payload: env.or(
                    self.max_payload,
                    "HWORKER_MAX_PAYLOAD",
                    number,
                    defaults::MAX_PAYLOAD,
                ),
            },
        };
        config.check(problems);
        config
    }
}

impl WorkerConfig {
    /// How safe settlements have to be. Two round trips that wait may be under way, and a third call behind them.
    pub(crate) fn settles(&self) -> Durability {
        self.durability.within(self.durability.time().min(Duration::from_secs(2)))
    }

    fn check(&self, problems: &mut Problems) {
        let mut wrong = |problem: String| problems.0.push(problem);
        if self.concurrency == 0 {
            wrong("concurrency is 0; a worker needs at least one slot".into());
        }
        if self.dead_after < Duration::from_secs(2) {
            wrong(format!(
                "dead_after is {:?}; it must be at least 2s, since a worker is heard of every 1.5s",
                self.dead_after
            ));
        }
        if self.crash_limit == 0 {
            wrong(
                "crash_limit is 0; write 1 to fail a job at the first death of its worker".into(),
            );
        }
        if !is_name(&self.name) {
            wrong(format!(
                "the worker's name `{}` is not of the form [A-Za-z0-9._-]{{1,100}}",
                self.name
            ));
        }
        for QueueSetting { name, limit, .. } in &self.queues {
            if !is_name(name) {
                wrong(format!(
                    "the queue's name `{name}` is not of the form [A-Za-z0-9._-]{{1,100}}"
                ));
            }
            if *limit == Some(0) {
                wrong(format!(
                    "the queue `{name}` has 0 slots; leave it out, or give it at least one"
                ));
            }
        }
    }

    /// The limit of a queue's own, if it has one.
    pub(crate) fn queue_limit(&self, queue: &str) -> Option<usize> {
        self.queues.iter().find(|setting| setting.name == queue)?.limit
    }
}

/// Variables of the environment that look like settings and are none.
pub(crate) fn unknown_variables() -> Vec<String> {
    const KNOWN: [&str; 24] = [
        "HWORKER_REDIS_URL",
        "HWORKER_TLS_CA",
        "HWORKER_TLS_CERT",
        "HWORKER_TLS_KEY",
        "HWORKER_ENCRYPTION_KEYS",
        "HWORKER_ENCRYPT_ALL",
        "HWORKER_PREFIX",
        "HWORKER_SHARDS",
        "HWORKER_DURABILITY",
        "HWORKER_SETTLE_DURABILITY",
        "HWORKER_QUEUES",
        "HWORKER_CONCURRENCY",
        "HWORKER_SHUTDOWN_GRACE",
        "HWORKER_DEAD_AFTER",
        "HWORKER_FAILED_LIMIT",
        "HWORKER_BROKEN_LIMIT",
        "HWORKER_UNKNOWN_FOR",
        "HWORKER_CRASH_LIMIT",
        "HWORKER_MAX_PAYLOAD",
        "HWORKER_STOP_WHEN_CUT",
        "HWORKER_PREFETCH",
        "HWORKER_NAME",
        "HWORKER_HEALTH",
        "HWORKER_LOG",
    ];
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let ours = |name: &String| name.starts_with("HWORKER_") && !name.starts_with("HWORKER_TEST_");
    names.filter(ours).filter(|name| !KNOWN.contains(&name.as_str())).collect()
}

/// Where the server is and what the keys begin with: the client's settings.
pub(crate) fn redis_url(given: Option<String>) -> String {
    let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    given
        .or_else(|| variable("HWORKER_REDIS_URL"))
        .or_else(|| variable("REDIS_URL"))
        .unwrap_or_else(|| defaults::REDIS_URL.to_owned())
}

pub(crate) fn prefix(given: Option<String>, problems: &mut Problems) -> String {
    let mut env = Environment { problems };
    let prefix =
        env.or(given, "HWORKER_PREFIX", |text| Ok(text.to_owned()), defaults::PREFIX.to_owned());
    if !is_prefix(&prefix) {
        problems.0.push(format!("the prefix `{prefix}` is not of the form [A-Za-z0-9._]{{1,100}}"));
    }
    prefix
}

pub(crate) fn max_payload(given: Option<usize>, problems: &mut Problems) -> usize {
    Environment { problems }.or(given, "HWORKER_MAX_PAYLOAD", number, defaults::MAX_PAYLOAD)
}

pub(crate) fn durability(given: Option<Durability>, problems: &mut Problems) -> Durability {
    let mut env = Environment { problems };
    env.or(given, "HWORKER_DURABILITY", Durability::parse, Durability::accepted())
}

/// Over how many shards a queue is spread.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ShardSetting {
    pub(crate) count: usize,
    /// No job type of the program need name the queue.
    pub(crate) extra: bool,
}

/// The queues that are spread: what the environment says, and over it what the program says. A plus before a name is
/// that of [`QueueSetting`].
pub(crate) fn shards(
    given: BTreeMap<String, usize>,
    problems: &mut Problems,
) -> BTreeMap<String, ShardSetting> {
    let mut all =
        Environment { problems }.or(None, "HWORKER_SHARDS", shard_counts, BTreeMap::new());
    all.extend(given);
    let setting = |(name, count): (String, usize)| {
        let plain = name.trim_start_matches('+').to_owned();
        let extra = plain.len() < name.len();
        (plain, ShardSetting { count, extra })
    };
    let all: BTreeMap<_, _> = all.into_iter().map(setting).collect();
    for (name, ShardSetting { count, .. }) in &all {
        if !is_name(name) {
            problems.0.push(format!(
                "the queue's name `{name}` is not of the form [A-Za-z0-9._-]{{1,100}}"
            ));
        }
        if !(1..=shards::MOST).contains(count) {
            problems.0.push(format!(
                "the queue `{name}` has {count} shards; give it 1 to {}",
                shards::MOST
            ));
        }
    }
    all
}

/// Reads environment variables and collects what is wrong with them.
struct Environment<'a> {
    problems: &'a mut Problems,
}

impl Environment<'_> {
    fn or<T>(
        &mut self,
        given: Option<T>,
        variable: &str,
        parse: impl Fn(&str) -> Result<T, String>,
        default: T,
    ) -> T {
        given.or_else(|| self.read(variable, parse)).unwrap_or(default)
    }

    fn read<T>(&mut self, variable: &str, parse: impl Fn(&str) -> Result<T, String>) -> Option<T> {
        let value = std::env::var(variable).ok().filter(|value| !value.is_empty())?;
        match parse(&value) {
            Ok(value) => Some(value),
            Err(why) => {
                self.problems.0.push(format!("{variable}: {why}"));
                None
            }
        }
    }
}

/// Reads `mail,reports=2,+urgent`: names, each with its own number of slots where one is written, and with a plus where
/// no job type names it.
fn queues(text: &str) -> Result<Vec<QueueSetting>, String> {
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    let setting = |part: &str| {
        let (name, limit) = match part.split_once('=') {
            None => (part, None),
            Some((name, limit)) => (name.trim(), Some(number(limit.trim())?)),
        };
        let extra = name.starts_with('+');
        Ok(QueueSetting { name: name.trim_start_matches('+').to_owned(), limit, extra })
    };
    parts.map(setting).collect()
}

/// Reads `mail=8,reports=2`.
fn shard_counts(text: &str) -> Result<BTreeMap<String, usize>, String> {
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    let count = |part: &str| {
        let (name, count) = part
            .split_once('=')
            .ok_or_else(|| format!("`{part}` does not say how many; write `{part}=8`"))?;
        Ok((name.trim().to_owned(), number(count.trim())?))
    };
    parts.map(count).collect()
}

fn number(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| format!("`{text}` is not a whole number"))
}

fn health(text: &str) -> Result<Option<SocketAddr>, String> {
    let address = text.parse().map_err(|_| {
        format!("`{text}` is no address; write `127.0.0.1:8080`, or `0.0.0.0:8080` for all who can reach the machine")
    })?;
    if !cfg!(feature = "health") {
        return Err("this program is built without hworker's feature `health`".into());
    }
    Ok(Some(address))
}

fn boolean(text: &str) -> Result<bool, String> {
    match text {
        "true" | "on" | "1" => Ok(true),
        "false" | "off" | "0" => Ok(false),
        _ => Err(format!("`{text}` is neither `true` or `on` nor `false` or `off`")),
    }
}

/// The host's name as a worker's label.
pub(crate) fn host_name() -> String {
    let name = std::env::var("HOSTNAME")
        .ok()
        .or_else(|| std::fs::read_to_string("/proc/sys/kernel/hostname").ok())
        .or_else(|| std::fs::read_to_string("/etc/hostname").ok())
        .unwrap_or_default();
    let name: String = name
        .trim()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' })
        .take(60)
        .collect();
    if name.is_empty() { "worker".into() } else { name }
}
