//! One process of a server: how it is started, known to be up, and ended.

use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::guard::Guard;
use crate::error::Error;

const START_DEADLINE: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(2);
/// One whose program was killed holds its data for a few seconds more.
const LOCK_DEADLINE: Duration = Duration::from_secs(10);
/// In a data directory that was given: locked by the server that uses it.
pub(super) const LOCK: &str = "hworker.lock";

/// All that it takes to start the same server again.
pub(super) struct Launch {
    pub(super) program: PathBuf,
    pub(super) args: Vec<OsString>,
    pub(super) socket: PathBuf,
    pub(super) log: PathBuf,
    /// One that was given: the server locks it.
    pub(super) data_dir: Option<PathBuf>,
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
        let lock = self.data_dir.as_deref().map(lock).transpose()?.flatten();
        let child = self.spawn(lock).map_err(|e| failed("start", &self.program, &e))?;
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

    fn spawn(&self, lock: Option<File>) -> io::Result<Child> {
        // Its complaints about its own options go to the standard output and error, before it has a log.
        let log = OpenOptions::new().create(true).append(true).open(&self.log)?;
        Command::new(&self.program)
            .args(&self.args)
            // With a locale that the machine does not have, it would refuse to start.
            .env("LC_ALL", "C")
            // The server holds the lock itself, for as long as it lives: it may outlive this process by a few seconds.
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

/// Takes a data directory for one server, which is to hold the file open; `None` where we can neither write nor read such a file.
fn lock(dir: &Path) -> Result<Option<File>, Error> {
    let path = dir.join(LOCK);
    let wrong = |why: String| Error::config(format!("{} cannot be locked: {why}", path.display()));
    let file = match File::options().create(true).truncate(false).write(true).open(&path) {
        Ok(file) => file,
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem
            ) =>
        {
            // Somebody else's, whose server may write the data all the same.
            let Ok(file) = File::open(&path) else { return Ok(None) };
            file
        }
        Err(error) => return Err(wrong(error.to_string())),
    };
    let deadline = Instant::now() + LOCK_DEADLINE;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(Some(file)),
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => {
                thread::sleep(Duration::from_millis(20));
            }
            Err(TryLockError::WouldBlock) => {
                let why =
                    "another server uses this data directory; two would destroy each other's data";
                return Err(wrong(why.to_owned()));
            }
            Err(TryLockError::Error(error)) => return Err(wrong(error.to_string())),
        }
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
