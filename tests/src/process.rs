//! Workers and producers as processes of their own, which can be killed, stopped and told to end.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::server::TestServer;

/// A process of the test. It ends with the test, however that ends.
pub struct Process {
    child: Child,
}

impl TestServer {
    /// Starts a worker process: `test-worker`, which is `run_all()` with every job of this crate. `settings` are
    /// variables of its environment: `&[("HWORKER_CONCURRENCY", "1")]`.
    pub fn worker_process(&self, settings: &[(&str, &str)]) -> Process {
        let mut command = self.command("test-worker");
        command.envs(settings.iter().copied());
        Process::start(command)
    }

    /// A program of this crate, set up for this server.
    pub fn command(&self, program: &str) -> Command {
        let log = File::create(self.next_log()).expect("the log of a process");
        let mut command = Command::new(binary(program));
        for (name, _) in std::env::vars_os() {
            if name.to_str().is_some_and(|name| name.starts_with("HWORKER_")) {
                command.env_remove(name);
            }
        }
        command
            .env("HWORKER_REDIS_URL", self.url())
            .env("HWORKER_TEST_URL", self.notes_url())
            .env("HWORKER_LOG", "hworker=debug")
            .env("NO_COLOR", "1")
            // To find the names for one in a debug build takes the better part of a second.
            .env("RUST_BACKTRACE", "0")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(log);
        command
    }
}

/// A program that cargo built beside the test.
///
/// # Panics
/// When it is not built.
pub fn binary(name: &str) -> PathBuf {
    let own = std::env::current_exe().expect("the path of the test");
    let file = format!("{name}{}", std::env::consts::EXE_SUFFIX);
    // A test is in target/<profile>/deps, a program in target/<profile>.
    let places = own.ancestors().skip(1).take(2).map(|place| place.join(&file));
    let mut found = places.filter(|path| path.exists());
    found.next().unwrap_or_else(|| panic!("{file} is not built; run the tests with cargo"))
}

/// Enqueues with a process that runs no worker, and gives what it prints: a line for each job, its id or `error: ...`.
pub fn produce(server: &TestServer, settings: &[(&str, &str)], jobs: &[&str]) -> Vec<String> {
    let mut command = server.command("test-producer");
    let output = command
        .envs(settings.iter().copied())
        .args(jobs)
        .stdout(Stdio::piped())
        .output()
        .expect("the producer starts");
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

impl Process {
    /// Starts it.
    pub fn start(mut command: Command) -> Self {
        Self { child: command.spawn().expect("the process starts") }
    }

    /// Its number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Ends it at once, as the machine's failure would.
    pub fn kill(&mut self) {
        self.signal(Signal::KILL);
        let _ = self.child.wait();
    }

    /// Stops it in its tracks.
    pub fn stop(&self) {
        self.signal(Signal::STOP);
        // On a busy machine its threads may run on for a while; Linux tells when they do not.
        let stat = format!("/proc/{}/stat", self.pid());
        let runs = || {
            let stat = std::fs::read_to_string(&stat).unwrap_or_default();
            let state = stat.rsplit(") ").next().and_then(|rest| rest.chars().next());
            state.is_some_and(|state| "RSD".contains(state))
        };
        let began = Instant::now();
        while runs() && began.elapsed() < Duration::from_secs(2) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Lets it go on.
    pub fn go_on(&self) {
        self.signal(Signal::CONT);
    }

    /// Asks it to end.
    pub fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Writes a line to its input. One that does not read any more is not told.
    pub fn tell(&mut self, line: &str) {
        if let Some(input) = &mut self.child.stdin {
            let _ = writeln!(input, "{line}");
        }
    }

    /// Its log, where that is a pipe, once.
    pub fn log(&mut self) -> Option<ChildStderr> {
        self.child.stderr.take()
    }

    /// How it ended, if it has.
    pub fn exited(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("a child can be waited for")
    }

    /// Waits for its end; `None` when it did not end in time.
    pub fn wait(&mut self, within: Duration) -> Option<ExitStatus> {
        let give_up = Instant::now() + within;
        loop {
            match self.exited() {
                None if Instant::now() < give_up => std::thread::sleep(Duration::from_millis(5)),
                exited => return exited,
            }
        }
    }

    fn signal(&self, signal: Signal) {
        // A child that was not waited for keeps its number; one that was has none to signal.
        let _ = kill_process(Pid::from_child(&self.child), signal);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.kill();
        }
    }
}
