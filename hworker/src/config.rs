//! Settings: their defaults, their environment variables, and what is checked about them.

mod encryption;
mod tls;
mod worker;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::durability::Durability;
use crate::error::Problems;
use crate::hooks::Events;
use crate::keys::{Ended, check_queue, is_prefix};
use crate::shards;
use crate::spelling;
use crate::time::parse_duration;

pub(crate) use encryption::{EncryptionConfig, EncryptionSettings, NO_KEYS};
pub(crate) use tls::TlsFiles;
#[cfg(feature = "web")]
pub(crate) use worker::Secret;
pub(crate) use worker::{QueueSetting, Share, WorkerConfig, WorkerSettings, queues};

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
    /// For how long a queue keeps them.
    pub const FAILED_FOR: Duration = Duration::from_secs(90 * 86_400);
    /// How many bytes of them a queue keeps.
    pub const FAILED_BYTES: usize = 256 * 1024 * 1024;
    /// How many records of jobs that are done a queue keeps.
    pub const KEEP_DONE: usize = 0;
    /// How many broken payloads a queue keeps.
    pub const BROKEN_LIMIT: usize = 1000;
    /// How long a job that no worker can run stays parked before it is broken.
    pub const UNKNOWN_FOR: Duration = Duration::from_secs(15 * 60);
    /// A job that was running at so many deaths of its worker within a day has failed.
    pub const CRASH_LIMIT: usize = 4;
    /// Jobs of a priority that others are before for so long get a share of the slots.
    pub const AGING: Duration = Duration::from_secs(30);
    /// The largest envelope, in bytes.
    pub const MAX_PAYLOAD: usize = 16 * 1024 * 1024;
    /// How long an enqueue tries to reach the server.
    pub const ENQUEUE_WITHIN: Duration = Duration::from_secs(5);
}

/// What bounds the structures of a queue.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Limits {
    /// Of the records of failed jobs, and of cancelled and expired ones.
    pub(crate) failed: Kept,
    /// How many records of jobs that are done.
    pub(crate) done: usize,
    pub(crate) broken: usize,
    /// For how many ms broken payloads are kept; `None` is no bound.
    pub(crate) broken_for: Option<u64>,
    pub(crate) max_payload: usize,
}

/// What is kept of one kind of records.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Kept {
    pub(crate) count: u64,
    pub(crate) bytes: u64,
    /// For so long.
    pub(crate) ms: u64,
}

impl Limits {
    pub(crate) fn records(&self, ended: Ended) -> Kept {
        match ended {
            Ended::Failed | Ended::Cancelled | Ended::Expired => self.failed,
            Ended::Done => Kept { count: self.done as u64, ..self.failed },
        }
    }
}

/// What `check_manifest` reads: no setting of a client or a worker, which may be there beside it in a test.
pub(crate) const MANIFEST: &str = "HWORKER_MANIFEST";

/// Variables of the environment that look like settings and are none, each with the setting that it is most like.
pub(crate) fn unknown_variables() -> Vec<(String, &'static str)> {
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let others = |name: &str| name.starts_with("HWORKER_TEST_") || name == MANIFEST;
    let ours = |name: &String| name.starts_with("HWORKER_") && !others(name);
    names.filter(ours).filter_map(|name| nearest_setting(&name).map(|near| (name, near))).collect()
}

/// `None` for a setting.
fn nearest_setting(name: &str) -> Option<&'static str> {
    const KNOWN: [&str; 37] = [
        "HWORKER_REDIS_URL",
        "HWORKER_TLS_CA",
        "HWORKER_TLS_CERT",
        "HWORKER_TLS_KEY",
        "HWORKER_ENCRYPTION_KEYS",
        "HWORKER_ENCRYPT_ALL",
        "HWORKER_PREFIX",
        "HWORKER_SHARDS",
        "HWORKER_DURABILITY",
        "HWORKER_EVENTS",
        "HWORKER_SETTLE_DURABILITY",
        "HWORKER_QUEUES",
        "HWORKER_CONCURRENCY",
        "HWORKER_SHUTDOWN_GRACE",
        "HWORKER_DEAD_AFTER",
        "HWORKER_FAILED_LIMIT",
        "HWORKER_FAILED_FOR",
        "HWORKER_FAILED_BYTES",
        "HWORKER_KEEP_DONE",
        "HWORKER_BROKEN_LIMIT",
        "HWORKER_BROKEN_FOR",
        "HWORKER_UNKNOWN_FOR",
        "HWORKER_CRASH_LIMIT",
        "HWORKER_MAX_PAYLOAD",
        "HWORKER_CANCEL_ON_DISCONNECT",
        "HWORKER_PREFETCH",
        "HWORKER_AGING",
        "HWORKER_NAME",
        "HWORKER_TAGS",
        "HWORKER_ANSWERS_TO_NAME",
        "HWORKER_APP",
        "HWORKER_HEALTH",
        "HWORKER_WEB",
        "HWORKER_WEB_TOKEN_FILE",
        "HWORKER_LOG",
        "HWORKER_LOG_EVERY",
        "HWORKER_LOG_FORMAT",
    ];
    let nearest = KNOWN.into_iter().min_by_key(|known| spelling::distance(name, known));
    nearest.filter(|known| *known != name)
}

/// Where the URL of the server is from, as errors say it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UrlSource {
    Program,
    Variable(&'static str),
    Default,
}

impl fmt::Display for UrlSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Program => f.write_str("from `Client::builder().redis_url(..)`"),
            Self::Variable(name) => write!(f, "from {name}"),
            Self::Default => f.write_str("the default, HWORKER_REDIS_URL sets another"),
        }
    }
}

/// Where the server is, and who says so.
pub(crate) fn redis_url(given: Option<String>, problems: &mut Problems) -> (String, UrlSource) {
    let variable = |name| Some((variable(name, problems)?, UrlSource::Variable(name)));
    given
        .map(|url| (url.trim().to_owned(), UrlSource::Program))
        .or_else(|| ["HWORKER_REDIS_URL", "REDIS_URL"].into_iter().find_map(variable))
        .unwrap_or_else(|| (defaults::REDIS_URL.to_owned(), UrlSource::Default))
}

pub(crate) fn prefix(given: Option<String>, problems: &mut Problems) -> String {
    let mut env = Environment { problems };
    let prefix = env.text(given, "HWORKER_PREFIX", defaults::PREFIX.to_owned());
    if !is_prefix(&prefix) {
        problems.0.push(format!("the prefix `{prefix}` is not of the form [A-Za-z0-9._]{{1,100}}"));
    }
    prefix
}

pub(crate) fn max_payload(given: Option<usize>, problems: &mut Problems) -> usize {
    let mut env = Environment { problems };
    let bytes = env.number(given, "HWORKER_MAX_PAYLOAD", defaults::MAX_PAYLOAD);
    check_max_payload(bytes, problems);
    bytes
}

/// A worker with a limit that hardly any job keeps to would set aside all that wait, and megabytes are easily written where
/// bytes are meant.
fn check_max_payload(bytes: usize, problems: &mut Problems) {
    const LEAST: usize = 512;
    if bytes < LEAST {
        let problem =
            format!("max_payload is {bytes}; it is in bytes, and must be at least {LEAST}");
        // A client and a worker may both say so.
        if !problems.0.contains(&problem) {
            problems.0.push(problem);
        }
    }
}

pub(crate) fn events(given: Option<Events>, problems: &mut Problems) -> Events {
    Environment { problems }.or(given, "HWORKER_EVENTS", str::parse, Events::Off)
}

pub(crate) fn durability(given: Option<Durability>, problems: &mut Problems) -> Durability {
    Environment { problems }.durability(given, "HWORKER_DURABILITY")
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
    let said = Environment { problems }.or(None, "HWORKER_SHARDS", shard_counts, Vec::new());
    together(said, given, problems)
}

fn together(
    said: Vec<(String, usize)>,
    given: BTreeMap<String, usize>,
    problems: &mut Problems,
) -> BTreeMap<String, ShardSetting> {
    let mut all: BTreeMap<String, ShardSetting> = BTreeMap::new();
    for (name, count) in said.into_iter().chain(given) {
        let plain = name.trim_start_matches('+').to_owned();
        let extra = plain.len() < name.len() || all.get(&plain).is_some_and(|known| known.extra);
        all.insert(plain, ShardSetting { count, extra });
    }
    for (name, ShardSetting { count, .. }) in &all {
        problems.0.extend(check_queue(name).err());
        if !(1..=shards::MOST).contains(count) {
            problems.0.push(format!(
                "the queue `{name}` has {count} shards; give it 1 to {}",
                shards::MOST
            ));
        }
    }
    all
}

/// The value of a variable, unless it is empty. One that cannot be read is not taken for one that is not set: jobs would go to
/// another server. Blanks around it, such as the end of the line of a file that it was made from, mean nothing.
fn variable(name: &str, problems: &mut Problems) -> Option<String> {
    let value = std::env::var_os(name)?.into_string();
    let Ok(value) = value else {
        problems.0.push(format!("{name}: it is not written in UTF-8"));
        return None;
    };
    Some(value.trim().to_owned()).filter(|value| !value.is_empty())
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

    fn number(&mut self, given: Option<usize>, variable: &str, default: usize) -> usize {
        self.or(given, variable, number, default)
    }

    /// As [`number`](Self::number), where `off` is no bound.
    fn bound(&mut self, given: Option<usize>, variable: &str, default: usize) -> usize {
        let bound = |text: &str| if text == "off" { Ok(usize::MAX) } else { number(text) };
        self.or(given, variable, bound, default)
    }

    fn duration(&mut self, given: Option<Duration>, variable: &str, default: Duration) -> Duration {
        self.or(given, variable, parse_duration, default)
    }

    fn boolean(&mut self, given: Option<bool>, variable: &str, default: bool) -> bool {
        self.or(given, variable, boolean, default)
    }

    fn text(&mut self, given: Option<String>, variable: &str, default: String) -> String {
        self.or(given, variable, |text| Ok(text.to_owned()), default)
    }

    fn durability(&mut self, given: Option<Durability>, variable: &str) -> Durability {
        self.or(given, variable, Durability::parse, Durability::accepted())
    }

    fn read<T>(&mut self, variable: &str, parse: impl Fn(&str) -> Result<T, String>) -> Option<T> {
        let value = self::variable(variable, self.problems)?;
        match parse(&value) {
            Ok(value) => Some(value),
            Err(why) => {
                self.problems.0.push(format!("{variable}: {why}"));
                None
            }
        }
    }
}

/// Reads `mail=8,reports=2`.
fn shard_counts(text: &str) -> Result<Vec<(String, usize)>, String> {
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

fn boolean(text: &str) -> Result<bool, String> {
    match text {
        "true" | "on" | "1" => Ok(true),
        "false" | "off" | "0" => Ok(false),
        _ => Err(format!("`{text}` is neither `true` or `on` nor `false` or `off`")),
    }
}

/// The name of the executable file as that of the program.
pub(crate) fn program_name() -> String {
    let path = std::env::args_os().next().unwrap_or_default();
    let stem = std::path::Path::new(&path).file_stem();
    let name = as_label(&stem.unwrap_or_default().to_string_lossy());
    if name.is_empty() { "app".into() } else { name }
}

/// As much of a text as a name may have.
fn as_label(text: &str) -> String {
    let sound = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' };
    text.trim().chars().map(sound).take(60).collect()
}

/// The host's name as a worker's label.
pub(crate) fn host_name() -> String {
    let name = std::env::var("HOSTNAME")
        .ok()
        .or_else(|| std::fs::read_to_string("/proc/sys/kernel/hostname").ok())
        .or_else(|| std::fs::read_to_string("/etc/hostname").ok())
        .unwrap_or_default();
    let name = as_label(&name);
    if name.is_empty() { "worker".into() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_program_says_of_shards_wins_under_either_name() {
        let mut problems = Problems(Vec::new());
        let given = BTreeMap::from([("+reports".to_owned(), 2), ("mail".to_owned(), 3)]);
        let said = vec![("reports".to_owned(), 6), ("+mail".to_owned(), 4), ("pdf".to_owned(), 5)];
        let all = together(said, given, &mut problems);
        let counts: Vec<_> = all
            .iter()
            .map(|(name, setting)| (name.as_str(), setting.count, setting.extra))
            .collect();
        assert_eq!(counts, [("mail", 3, true), ("pdf", 5, false), ("reports", 2, true)]);
        assert!(problems.0.is_empty(), "{problems:?}");
    }

    #[test]
    fn a_mistyped_variable_is_most_like_the_one_that_was_meant() {
        for (mistyped, meant) in [
            ("HWORKER_CONCURENCY", "HWORKER_CONCURRENCY"),
            ("HWORKER_QUEUE", "HWORKER_QUEUES"),
            ("HWORKER_REDISURL", "HWORKER_REDIS_URL"),
            ("HWORKER_SHUTDOWN_GRACE_SECS", "HWORKER_SHUTDOWN_GRACE"),
        ] {
            assert_eq!(nearest_setting(mistyped), Some(meant));
        }
        assert_eq!(nearest_setting("HWORKER_QUEUES"), None);
    }

    #[test]
    fn a_limit_in_megabytes_is_no_limit_in_bytes() {
        let mut problems = Problems(Vec::new());
        check_max_payload(16, &mut problems);
        check_max_payload(16, &mut problems);
        assert_eq!(problems.0, ["max_payload is 16; it is in bytes, and must be at least 512"]);
        check_max_payload(512, &mut problems);
        assert_eq!(problems.0.len(), 1);
    }
}
