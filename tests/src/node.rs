//! One server of several that belong together: a master, a replica, a sentinel.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::redis_side::RedisSide;
use crate::server::{program, servers};

/// One server on a port of this machine. It ends with the test.
pub(crate) struct Node {
    program: PathBuf,
    dir: PathBuf,
    args: Vec<String>,
    port: u16,
    process: Mutex<Child>,
    redis: Mutex<RedisSide>,
}

/// The server program that tests use where they name none.
pub(crate) fn any_program() -> PathBuf {
    let first = servers().into_iter().next().flatten();
    let found = || program("redis-server").or_else(|| program("valkey-server"));
    first.or_else(found).expect("a server program on the PATH")
}

impl Node {
    /// Starts one with these arguments before its port, in a directory of its own.
    pub(crate) fn start(program: &Path, dir: PathBuf, args: &[&str]) -> Self {
        std::fs::create_dir_all(&dir).expect("a directory for a server");
        let args: Vec<_> = args.iter().map(|arg| (*arg).to_owned()).collect();
        // Somebody else may take the port between the look and the start.
        for _ in 0..20 {
            let port = free_port();
            let mut process = spawn(program, &dir, &args, port);
            let mut redis = RedisSide::new(&format!("redis://127.0.0.1:{port}"));
            let give_up = Instant::now() + Duration::from_secs(10);
            while Instant::now() < give_up && process.try_wait().is_ok_and(|ended| ended.is_none())
            {
                if redis.try_ask::<String>(&["PING"]).is_ok() && is(&process, &mut redis) {
                    let (process, redis) = (Mutex::new(process), Mutex::new(redis));
                    return Self { program: program.to_owned(), dir, args, port, process, redis };
                }
                std::thread::sleep(Duration::from_millis(10));
            }
            let _ = process.kill();
            let _ = process.wait();
        }
        panic!("no server could be started: {}", dir.join("log").display());
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// The server past hworker.
    pub(crate) fn redis(&self) -> MutexGuard<'_, RedisSide> {
        self.redis.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn process(&self) -> MutexGuard<'_, Child> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends it at once.
    pub(crate) fn kill(&self) {
        let mut process = self.process();
        let _ = process.kill();
        let _ = process.wait();
    }

    /// Stops it in its tracks, or lets it go on.
    pub(crate) fn stop(&self, stop: bool) {
        let signal = if stop { Signal::STOP } else { Signal::CONT };
        let _ = kill_process(Pid::from_child(&self.process()), signal);
    }

    /// Starts it again after it was killed, with what it has on disk.
    pub(crate) fn start_again(&self) {
        *self.process() = spawn(&self.program, &self.dir, &self.args, self.port);
        self.redis().wait_until_up(Duration::from_secs(10));
    }

    /// What it holds, and the end of its log.
    pub(crate) fn report(&self) -> String {
        let log = std::fs::read(self.dir.join("log")).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let mut tail: Vec<_> = log.lines().rev().take(25).collect();
        tail.reverse();
        let mut redis = RedisSide::new(&self.url());
        // A replica of a cluster answers for its master only if it is told to.
        let _ = redis.try_ask::<String>(&["READONLY"]);
        let dump = redis.dump();
        format!("--- {}\n{dump}{}\n", self.port, tail.join("\n"))
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Whether this process answers: it may be another that took the port, while this one has not noticed yet.
fn is(process: &Child, redis: &mut RedisSide) -> bool {
    let said = redis.try_ask::<String>(&["INFO", "server"]).unwrap_or_default();
    let id = said.lines().find_map(|line| line.strip_prefix("process_id:"));
    id.is_some_and(|id| id.trim() == process.id().to_string())
}

fn spawn(program: &Path, dir: &Path, args: &[String], port: u16) -> Child {
    let mut command = Command::new(program);
    command.args(args).args(["--port", &port.to_string(), "--bind", "127.0.0.1"]);
    command.args(["--logfile", "log"]).arg("--dir").arg(dir).current_dir(dir);
    // With a locale that the machine does not have, it would refuse to start.
    command.env("LC_ALL", "C");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().unwrap_or_else(|error| panic!("{}: {error}", program.display()))
}

/// A port that nobody listens on, nor on the one of a cluster's bus, 10,000 above.
pub(crate) fn free_port() -> u16 {
    loop {
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let port = free.expect("a free port").port();
        let port = if port > 55_000 { port - 20_000 } else { port };
        let all = [port, port + 10_000].map(|port| TcpListener::bind(("127.0.0.1", port)));
        if all.iter().all(Result::is_ok) {
            return port;
        }
    }
}
