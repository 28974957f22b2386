//! The server as a test sees it, past hworker: to seed keys, to look at them, to print them all.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use redis::{Cmd, FromRedisValue, Value};

/// How much of a long value is printed.
const SHOWN_ENTRIES: usize = 20;
const SHOWN_BYTES: usize = 400;

/// A server of a cluster that was started again has found the others by then.
const REJOINED: Duration = Duration::from_secs(20);

/// One connection to a server, without anything of hworker in between.
pub struct RedisSide {
    client: redis::Client,
    connection: Option<redis::Connection>,
    /// Queues stand in braces there; a test names keys without.
    cluster: bool,
}

impl RedisSide {
    /// Of the server at this URL; it connects when it is first asked.
    pub fn new(url: &str) -> Self {
        let client = redis::Client::open(url).expect("the URL of the test's server is good");
        Self { client, connection: None, cluster: false }
    }

    /// Of a server of a cluster, with hworker's keys called what they are called outside of one.
    pub fn of_a_cluster(url: &str) -> Self {
        Self { cluster: true, ..Self::new(url) }
    }

    /// Runs a command: `ask(&["LLEN", "hworker-jobs-default"])`.
    pub fn ask<T: FromRedisValue>(&mut self, words: &[&str]) -> T {
        self.try_ask(words).unwrap_or_else(|error| panic!("{words:?}: {error}"))
    }

    /// Runs a command whose failure is expected.
    ///
    /// # Errors
    /// What the server or the connection says.
    pub fn try_ask<T: FromRedisValue>(&mut self, words: &[&str]) -> redis::RedisResult<T> {
        let mut command = redis::cmd(words[0]);
        for word in &words[1..] {
            command.arg(*word);
        }
        self.run(&command)
    }

    /// Runs a command with bytes that are not text.
    ///
    /// # Errors
    /// What the server or the connection says.
    pub fn run<T: FromRedisValue>(&mut self, command: &Cmd) -> redis::RedisResult<T> {
        if !self.cluster {
            return self.run_once(command);
        }
        let command = in_braces(command);
        let give_up = Instant::now() + REJOINED;
        loop {
            let result = self.run_once(&command);
            // A server that was started again knows of the others only after a while.
            // What a script was answered has no code of that.
            let apart = result
                .as_ref()
                .is_err_and(|error| error.to_string().to_lowercase().contains("cluster is down"));
            if !apart || Instant::now() > give_up {
                return result;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn run_once<T: FromRedisValue>(&mut self, command: &Cmd) -> redis::RedisResult<T> {
        let connection = match &mut self.connection {
            Some(connection) => connection,
            none => {
                let connection = self.client.get_connection_with_timeout(Duration::from_secs(5))?;
                connection.set_read_timeout(Some(Duration::from_secs(20)))?;
                none.insert(connection)
            }
        };
        let result = command.query(connection);
        // One whose reply is outstanding would give it to the next command.
        if result.as_ref().is_err_and(|error| error.code().is_none()) {
            self.connection = None;
        }
        result
    }

    /// How many entries a list, hash, set or sorted set has; 0 where there is none.
    pub fn len(&mut self, key: &str) -> u64 {
        let kind: String = self.ask(&["TYPE", key]);
        match kind.as_str() {
            "list" => self.ask(&["LLEN", key]),
            "hash" => self.ask(&["HLEN", key]),
            "zset" => self.ask(&["ZCARD", key]),
            "set" => self.ask(&["SCARD", key]),
            "string" => 1,
            _ => 0,
        }
    }

    /// The keys that match a pattern, in order.
    pub fn keys(&mut self, pattern: &str) -> Vec<String> {
        let keys: Vec<String> = self.ask(&["KEYS", pattern]);
        let mut keys: Vec<_> = keys.iter().map(|key| self.named(key)).collect();
        keys.sort();
        keys
    }

    /// How many entries the keys that match a pattern have together.
    pub fn total(&mut self, pattern: &str) -> u64 {
        self.keys(pattern).iter().map(|key| self.len(key)).sum()
    }

    /// What is left of the jobs of a queue, as [`TestServer::leftovers`](crate::TestServer::leftovers).
    pub(crate) fn leftovers(&mut self, queue: &str) -> Vec<(String, u64)> {
        // Looked at one after the other, a job might leave each place before its turn and reach each after it.
        const COUNT: &str = r"
            local counts = {list = 'LLEN', hash = 'HLEN', zset = 'ZCARD'}
            local left = {}
            for _, own in ipairs(ARGV) do
                local keys = redis.call('KEYS', own .. '*')
                table.sort(keys)
                for _, key in ipairs(keys) do
                    -- What is declared and set is of no job, and what wakes workers expires.
                    local is_setting = string.find(key, ':control$') or string.find(key, ':overrides$') or string.find(key, ':gate$')
                        or string.find(key, ':tables$') or string.find(key, ':cron$')
                    if not is_setting and (key == own or string.sub(key, 1, #own + 1) == own .. ':') then
                        local count = counts[redis.call('TYPE', key).ok]
                        left[#left + 1] = {key, count and redis.call(count, key) or 1}
                    end
                end
            end
            return left";
        let kinds = [
            "jobs",
            "progress",
            "inbox",
            "scheduled",
            "parked",
            "failed",
            "cancelled",
            "expired",
            "done",
            "broken",
        ];
        let own = kinds.map(|kind| format!("hworker-{kind}-{queue}"));
        let words: Vec<_> =
            ["EVAL", COUNT, "0"].into_iter().chain(own.iter().map(String::as_str)).collect();
        let mut left: Vec<(String, u64)> = self.ask(&words);
        for (key, _) in &mut left {
            *key = self.named(key);
        }
        left
    }

    /// What a key is called outside of a cluster.
    fn named(&self, key: &str) -> String {
        if self.cluster { key.replace(['{', '}'], "") } else { key.to_owned() }
    }

    /// Microseconds since 1970 by the server's clock.
    pub fn time_us(&mut self) -> u64 {
        let (seconds, micros): (u64, u64) = self.ask(&["TIME"]);
        seconds * 1_000_000 + micros
    }

    /// Everything that the server holds, readable.
    pub fn dump(&mut self) -> String {
        let keys = match self.try_ask::<Vec<String>>(&["KEYS", "*"]) {
            Ok(keys) => keys,
            Err(error) => return format!("(the server does not answer: {error})"),
        };
        let mut keys: Vec<_> = keys.into_iter().collect();
        keys.sort();
        let mut text = String::new();
        for key in keys {
            let length = self.len(&key);
            let _ = writeln!(text, "{key} ({length})");
            for line in self.entries(&key) {
                let _ = writeln!(text, "    {line}");
            }
        }
        text
    }

    fn entries(&mut self, key: &str) -> Vec<String> {
        let kind: String = self.ask(&["TYPE", key]);
        let value: Value = match kind.as_str() {
            "list" => self.ask(&["LRANGE", key, "0", "-1"]),
            "hash" => self.ask(&["HGETALL", key]),
            "zset" => self.ask(&["ZRANGE", key, "0", "-1", "WITHSCORES"]),
            "set" => self.ask(&["SMEMBERS", key]),
            "string" => self.ask(&["GET", key]),
            _ => return Vec::new(),
        };
        let mut lines = Vec::new();
        flatten(value, &mut lines);
        if matches!(kind.as_str(), "hash" | "zset") {
            lines = lines.chunks(2).map(|pair| pair.join(" -> ")).collect();
        }
        let more = lines.len().saturating_sub(SHOWN_ENTRIES);
        lines.truncate(SHOWN_ENTRIES);
        if more > 0 {
            lines.push(format!("... and {more} more"));
        }
        lines
    }

    /// Waits until the server answers.
    pub fn wait_until_up(&mut self, within: Duration) {
        let give_up = Instant::now() + within;
        while let Err(error) = self.try_ask::<String>(&["PING"]) {
            assert!(Instant::now() < give_up, "the server did not come up: {error}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// The same command, with the queue in braces where a word is a key of hworker: `hworker-jobs-{mail}:w`.
fn in_braces(command: &Cmd) -> Cmd {
    let mut changed = Cmd::new();
    for word in command.args_iter() {
        let redis::Arg::Simple(word) = word else { continue };
        match std::str::from_utf8(word).ok().and_then(key_in_braces) {
            Some(key) => changed.arg(key),
            None => changed.arg(word),
        };
    }
    changed
}

fn key_in_braces(word: &str) -> Option<String> {
    let (kind, rest) = word.strip_prefix("hworker-")?.split_once('-')?;
    let queue = &rest[..rest.find([':', '*']).unwrap_or(rest.len())];
    let plain = !queue.is_empty() && !queue.starts_with('{') && !kind.contains('*');
    plain.then(|| format!("hworker-{kind}-{{{queue}}}{}", &rest[queue.len()..]))
}

#[test]
fn keys_of_a_cluster_are_named_as_elsewhere() {
    let key = |word| key_in_braces(word).unwrap_or_default();
    assert_eq!(key("hworker-jobs-mail"), "hworker-jobs-{mail}");
    assert_eq!(key("hworker-progress-mail:w.1"), "hworker-progress-{mail}:w.1");
    assert_eq!(key("hworker-progress-a-b*"), "hworker-progress-{a-b}*");
    for other in ["hworker-*", "test:runs:x", "hworker-jobs-{mail}", "mail"] {
        assert_eq!(key(other), "", "{other}");
    }
}

fn flatten(value: Value, lines: &mut Vec<String>) {
    match value {
        Value::Array(values) | Value::Set(values) => {
            for value in values {
                flatten(value, lines);
            }
        }
        Value::Map(pairs) => {
            for (key, value) in pairs {
                flatten(key, lines);
                flatten(value, lines);
            }
        }
        Value::BulkString(bytes) => {
            let shown = &bytes[..bytes.len().min(SHOWN_BYTES)];
            let cut = if shown.len() < bytes.len() { " [cut]" } else { "" };
            lines.push(format!("{}{cut}", String::from_utf8_lossy(shown).escape_debug()));
        }
        other => lines.push(format!("{other:?}")),
    }
}
