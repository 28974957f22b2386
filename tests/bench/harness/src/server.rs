//! A private Redis server for one run.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::process::Used;
use crate::{Failure, fail};

/// Calls of [`Server::fill`] that are on their way: enough to keep the server busy, too few to fill both sockets.
const AHEAD: u64 = 4;

/// Where [`Setup::pinned`] puts servers.
const SERVERS_CORE: &str = "0";

/// Leaves the core of the servers to them: this process, and all that it starts but they, runs on the others.
pub fn leave_their_core() -> Result<(), Failure> {
    let cores = std::thread::available_parallelism()?.get();
    if cores < 2 {
        return Err(fail("--pin needs two cores"));
    }
    let own = std::process::id().to_string();
    let others = format!("1-{}", cores - 1);
    let output = Command::new("taskset")
        .args(["--all-tasks", "--cpu-list", "--pid", &others, &own])
        .output()
        .map_err(|error| fail(format!("--pin needs taskset, of util-linux: {error}")))?;
    if !output.status.success() {
        return Err(fail(format!("taskset: {}", String::from_utf8_lossy(&output.stderr))));
    }
    Ok(())
}

/// Where jobs are kept: a server, or several.
pub trait Host {
    fn url(&self) -> String;
    /// Where a contender may leave its log.
    fn dir(&self) -> &Path;
}

/// A port that nobody listens on now.
pub fn free_port() -> Result<u16, Failure> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// How servers are started.
#[derive(Clone, Debug)]
pub struct Setup {
    pub program: PathBuf,
    pub unix: bool,
    /// On a core of their own.
    pub pinned: bool,
    pub persistence: Persistence,
    /// Rewrites its file as Redis does by default, when it has doubled: in a run of half a second once or not at all.
    pub rewrites: bool,
    /// Where data is kept; by default where temporary files are.
    pub dir: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Persistence {
    None,
    Everysec,
    Always,
}

impl Persistence {
    pub const ALL: [Self; 3] = [Self::None, Self::Everysec, Self::Always];

    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Everysec => "everysec",
            Self::Always => "always",
        }
    }

    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == word)
    }
}

pub struct Server {
    child: Child,
    port: u16,
    unix: bool,
    dir: TempDir,
    redis: redis::Connection,
}

impl Server {
    pub fn start(setup: &Setup) -> Result<Self, Failure> {
        Self::start_with(setup, &[])
    }

    /// The same, with more settings.
    pub fn start_with(setup: &Setup, more: &[&str]) -> Result<Self, Failure> {
        let dir = match &setup.dir {
            Some(dir) => TempDir::new_in(dir)?,
            None => TempDir::new()?,
        };
        let port = free_port()?;
        let append = if setup.persistence == Persistence::None { "no" } else { "yes" };
        let fsync = if setup.persistence == Persistence::Always { "always" } else { "everysec" };
        let rewrite_at = if setup.rewrites { "100" } else { "0" };
        let port_text = port.to_string();
        let log = std::fs::File::create(dir.path().join("server.log"))?;
        // It ends with this thread, which is the main one, however that ends: even if W9 has stopped it (`SIGSTOP`).
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL"]);
        if setup.pinned {
            command.args(["taskset", "--cpu-list", SERVERS_CORE]);
        }
        command.arg(&setup.program);
        let mut child = command
            .args([
                "--bind",
                "127.0.0.1",
                "--port",
                &port_text,
                "--save",
                "",
                "--appendonly",
                append,
            ])
            .args(["--appendfsync", fsync, "--auto-aof-rewrite-percentage", rewrite_at])
            .args(["--loglevel", "warning", "--dir"])
            .arg(dir.path())
            .arg("--unixsocket")
            .arg(dir.path().join("sock"))
            .args(["--slowlog-log-slower-than", "1000", "--slowlog-max-len", "1000"])
            .args(["--latency-monitor-threshold", "1"])
            .args(more)
            .stdin(Stdio::null())
            .stderr(log.try_clone()?)
            .stdout(log)
            .spawn()
            .map_err(|error| fail(format!("setpriv, of util-linux: {error}")))?;
        let client = redis::Client::open(format!("redis://127.0.0.1:{port}/"))?;
        let give_up = Instant::now() + Duration::from_secs(10);
        let redis = loop {
            match client.get_connection() {
                Ok(redis) => break redis,
                Err(_) if Instant::now() < give_up && matches!(child.try_wait(), Ok(None)) => {
                    std::thread::sleep(Duration::from_millis(5));
                }
                Err(error) => {
                    let _ = child.kill();
                    let _ = child.wait();
                    let log =
                        std::fs::read_to_string(dir.path().join("server.log")).unwrap_or_default();
                    return Err(fail(format!("the server did not start: {error}\n{log}")));
                }
            }
        };
        Ok(Self { child, port, unix: setup.unix, dir, redis })
    }

    fn socket(&self) -> PathBuf {
        self.dir.path().join("sock")
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn used(&self) -> Result<Used, Failure> {
        Used::of(self.child.id())
    }

    pub fn redis(&mut self) -> &mut redis::Connection {
        &mut self.redis
    }

    /// A field of `INFO`.
    pub fn info(&mut self, field: &str) -> Result<String, Failure> {
        let info: String = redis::cmd("INFO").query(&mut self.redis)?;
        let mut lines = info.lines().filter_map(|line| line.split_once(':'));
        let found =
            lines.find(|(name, _)| *name == field).map(|(_, value)| value.trim().to_owned());
        found.ok_or_else(|| fail(format!("INFO has no field {field}")))
    }

    pub fn used_memory(&mut self) -> Result<f64, Failure> {
        Ok(self.info("used_memory")?.parse().unwrap_or(0.0))
    }

    /// The greatest time in ms that a script, and that any command, took since [`Self::forget_slow`]. What took less than
    /// 1 ms is not noted.
    pub fn slowest(&mut self) -> Result<(f64, f64), Failure> {
        let entries: Vec<Vec<redis::Value>> =
            redis::cmd("SLOWLOG").arg("GET").arg(-1).query(&mut self.redis)?;
        let (mut script, mut any) = (0.0_f64, 0.0_f64);
        for entry in entries {
            let [_, _, micros, words, ..] = entry.as_slice() else { continue };
            let micros: f64 = redis::from_redis_value(micros.clone())?;
            let words: Vec<String> = redis::from_redis_value(words.clone()).unwrap_or_default();
            any = any.max(micros / 1000.0);
            let word = words.first().map(|word| word.to_ascii_uppercase()).unwrap_or_default();
            if word.starts_with("EVAL") || word.starts_with("FCALL") {
                script = script.max(micros / 1000.0);
            }
        }
        let latest: Vec<(String, i64, f64, f64)> =
            redis::cmd("LATENCY").arg("LATEST").query(&mut self.redis).unwrap_or_default();
        for (_, _, _, max) in latest {
            any = any.max(max);
        }
        Ok((script, any))
    }

    /// The commands since then that took longer, with their first words.
    pub fn slower_than(&mut self, ms: f64) -> Result<Vec<(f64, String)>, Failure> {
        let entries: Vec<Vec<redis::Value>> =
            redis::cmd("SLOWLOG").arg("GET").arg(-1).query(&mut self.redis)?;
        let slow = entries.into_iter().filter_map(|entry| {
            let micros: f64 = redis::from_redis_value(entry.get(2)?.clone()).ok()?;
            let words: Vec<String> = redis::from_redis_value(entry.get(3)?.clone()).ok()?;
            let words: Vec<_> =
                words.iter().take(8).map(|word| &word[..word.len().min(40)]).collect();
            (micros > ms * 1000.0).then(|| (micros / 1000.0, words.join(" ")))
        });
        Ok(slow.collect())
    }

    pub fn forget_slow(&mut self) -> Result<(), Failure> {
        redis::cmd("SLOWLOG").arg("RESET").exec(&mut self.redis)?;
        Ok(redis::cmd("LATENCY").arg("RESET").exec(&mut self.redis)?)
    }

    /// How many commands clients send within a time; what scripts call does not count.
    pub fn commands(&self, during: Duration) -> Result<u64, Failure> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.write_all(b"MONITOR\r\n")?;
        let mut lines = BufReader::new(stream.try_clone()?);
        let mut line = String::new();
        lines.read_line(&mut line)?;
        let until = Instant::now() + during;
        let mut count = 0;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(count);
            }
            stream.set_read_timeout(Some(left))?;
            line.clear();
            match lines.read_line(&mut line) {
                Ok(0) => return Err(fail("the server ended")),
                Ok(_) => count += u64::from(!line.contains(" lua] ")),
                // What was read of a line so far is dropped: the time is over.
                Err(_) => return Ok(count),
            }
        }
    }

    /// Puts many entries into a key with `command`, past every library, and as fast as the server takes them.
    /// `entry` writes the arguments of one.
    pub fn fill<const ARGS: usize>(
        &self,
        command: [&str; 2],
        entries: u64,
        entry: impl Fn(u64) -> [String; ARGS],
    ) -> Result<(), Failure> {
        let stream = UnixStream::connect(self.socket())?;
        let mut replies = BufReader::new(stream.try_clone()?);
        let mut out = std::io::BufWriter::with_capacity(1 << 16, stream);
        let per_call =
            (100_000 / entry(0).iter().map(String::len).sum::<usize>().max(1)).clamp(1, 500);
        let (mut sent, mut answered, mut next) = (0_u64, 0_u64, 0_u64);
        let mut reply = String::new();
        while next < entries || answered < sent {
            if next < entries && sent < answered + AHEAD {
                let count = (per_call as u64).min(entries - next);
                write!(out, "*{}\r\n", command.len() + count as usize * ARGS)?;
                let words = (next..next + count).flat_map(&entry);
                for word in command.iter().map(|word| (*word).to_owned()).chain(words) {
                    write!(out, "${}\r\n{word}\r\n", word.len())?;
                }
                out.flush()?;
                sent += 1;
                next += count;
            } else {
                reply.clear();
                replies.read_line(&mut reply)?;
                if !reply.starts_with(':') {
                    return Err(fail(format!("{} answered {reply:?}", command[0])));
                }
                answered += 1;
            }
        }
        Ok(())
    }

    /// The arguments by which `redis-benchmark` and `redis-cli` find the server.
    pub fn place(&self) -> [String; 2] {
        if self.unix {
            ["-s".into(), self.socket().display().to_string()]
        } else {
            ["-p".into(), self.port.to_string()]
        }
    }
}

impl Host for Server {
    fn url(&self) -> String {
        if self.unix {
            format!("redis+unix://{}", self.socket().display())
        } else {
            format!("redis://127.0.0.1:{}/", self.port)
        }
    }

    fn dir(&self) -> &Path {
        self.dir.path()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
