//! One process of a server: how it is started, known to be up, and ended.

use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::guard::Guard;
use crate::error::Error;

const START_DEADLINE: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(2);

/// All that it takes to start the same server again.
pub(super) struct Launch {
    pub(super) program: PathBuf,
    pub(super) args: Vec<OsString>,
    pub(super) socket: PathBuf,
    pub(super) log: PathBuf,
    /// Of the data directory.
    pub(super) lock: Option<Arc<File>>,
}

impl fmt::Debug for Launch {
    /// Without the command line: there may be a password in it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { program, socket, .. } = self;
        f.debug_struct("Launch")
            .field("program", program)
            .field("socket", socket)
            .finish_non_exhaustive()
    }
}

impl Launch {
    /// Starts the process, with a guard that would remove `home`, and waits until it answers.
    pub(super) fn run(&self, home: &Path) -> Result<Running, Error> {
        let child = self.spawn().map_err(|e| failed("start", &self.program, &e))?;
        let guard = Guard::start(&child, home);
        let mut running = Running { child, guard };
        let mut deadline = Instant::now() + START_DEADLINE;
        loop {
            match answer(&self.socket) {
                Some(Answer::Up) => break,
                // However long that takes: it has said so just now.
                Some(Answer::Loading) => deadline = Instant::now() + START_DEADLINE,
                None => {}
            }
            if let Some(status) = running.exited() {
                return Err(self.failure(&format!("stopped at once ({status})")));
            }
            if Instant::now() > deadline {
                running.kill();
                let seconds = START_DEADLINE.as_secs();
                return Err(self.failure(&format!("did not answer within {seconds} s")));
            }
            thread::sleep(POLL);
        }
        Ok(running)
    }

    fn spawn(&self) -> io::Result<Child> {
        // Its complaints about its own options go to the standard output and error, before it has a log.
        let log = OpenOptions::new().create(true).append(true).open(&self.log)?;
        // The server holds the lock itself, for it may outlive this process by a few seconds.
        let lock = self.lock.as_ref().map(|lock| lock.try_clone()).transpose()?;
        Command::new(&self.program)
            .args(&self.args)
            // With a locale that the machine does not have, it would refuse to start.
            .env("LC_ALL", "C")
            .stdin(lock.map_or_else(Stdio::null, Stdio::from))
            .stdout(log.try_clone()?)
            .stderr(log)
            .process_group(0)
            .spawn()
    }

    pub(super) fn failure(&self, what: &str) -> Error {
        let log = read_log(&self.log);
        let lines: Vec<&str> = log.lines().collect();
        let tail = lines[lines.len().saturating_sub(12)..].join("\n");
        Error::config(format!("{} {what}; its log ends:\n{tail}", self.program.display()))
    }
}

/// The process of a server, and who ends it if we cannot.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) child: Child,
    guard: Option<Guard>,
}

impl Running {
    pub(super) fn signal(&self, signal: Signal) {
        // It fails only for a process that has exited, which the next wait sees. The id cannot belong to another by
        // now, since a child keeps it until it is waited for.
        let _ = kill_process(Pid::from_child(&self.child), signal);
    }

    /// How the process ended, if it has.
    fn exited(&mut self) -> Option<ExitStatus> {
        let status = self.child.try_wait().ok().flatten();
        if status.is_some() {
            self.guard.take();
        }
        status
    }

    pub(super) fn kill(mut self) {
        // The guard goes first: after the wait below, the id may be given to another process.
        self.guard.take();
        self.signal(Signal::KILL);
        let _ = self.child.wait();
    }

    /// Whether the process ended by itself within the time; if not, it is killed.
    pub(super) fn terminate(mut self, within: Duration) -> bool {
        self.guard.take();
        self.signal(Signal::TERM);
        // One that is paused would not see it.
        self.signal(Signal::CONT);
        let deadline = Instant::now() + within;
        while self.exited().is_none() {
            if Instant::now() > deadline {
                self.kill();
                return false;
            }
            thread::sleep(POLL);
        }
        true
    }
}

/// What a server says.
enum Answer {
    /// It takes commands.
    Up,
    /// It will, once it has loaded its data.
    Loading,
}

fn answer(socket: &Path) -> Option<Answer> {
    let ping = || -> io::Result<String> {
        let mut stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(Duration::from_secs(1)))?;
        stream.write_all(b"PING\r\n")?;
        let mut reply = String::new();
        BufReader::new(stream).read_line(&mut reply)?;
        Ok(reply)
    };
    // With a password it answers `NOAUTH`: it is up.
    let reply = ping().ok()?;
    if reply.starts_with("-LOADING") {
        return Some(Answer::Loading);
    }
    (reply.starts_with('+') || reply.starts_with("-NO")).then_some(Answer::Up)
}

pub(super) fn read_log(path: &Path) -> String {
    fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}

pub(super) fn failed(what: &str, program: &Path, error: &io::Error) -> Error {
    Error::config(format!("could not {what} {}: {error}", program.display()))
}
