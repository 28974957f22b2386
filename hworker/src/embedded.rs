//! A private Redis or Valkey server for a first try, demos and tests.
//!
//! ```
//! #[hworker::job]
//! async fn ping() {}
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), hworker::Error> {
//! let server = hworker::embedded::Server::start()?;
//! let client = hworker::Client::new(server.url())?;
//! ping::with().on(&client).enqueue().await?;
//!
//! let jobs = hworker::Registry::new().with::<ping>(); // without it, every job that the program links
//! let worker = hworker::Worker::builder().client(&client).registry(jobs).build()?;
//! worker.run_until_idle().await?;
//! # Ok(())
//! # }
//! ```

mod guard;
mod process;
mod program;
#[cfg(test)]
mod tests;

use std::env;
use std::ffi::OsString;
use std::fmt;
use std::fs::{DirBuilder, Permissions};
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Signal;
use tempfile::TempDir;

use self::process::{Launch, Running, failed, read_log};
use crate::error::Error;

/// Redis itself gives its replicas 10 s to catch up before it stops.
const STOP_DEADLINE: Duration = Duration::from_secs(15);
/// For a server that nobody needs any more, with data that nobody keeps.
const DROP_DEADLINE: Duration = Duration::from_secs(2);
/// A port that was free a moment ago may be taken when the server asks for it.
const PORT_TRIES: u32 = 5;
/// `sun_path` holds 104 bytes on macOS; `/hworker-XXXXXX/redis.sock` and the final zero are 27 of them.
const LONGEST_PARENT: usize = 77;

/// A private Redis or Valkey server, for a first try, demos and tests.
///
/// It listens on a unix socket in a directory of its own, and on no port unless asked to; it keeps nothing on disk
/// unless asked to. Any number of them run side by side. Dropping it stops the server and removes the directory; if
/// this process is killed instead, a small `sh` that holds the other end of a pipe does both. The server runs in a
/// process group of its own: a Ctrl-C in the terminal reaches your program alone, which then still has its server
/// while it stops.
///
/// Starting and stopping block the thread, usually for a few dozen milliseconds.
///
/// ```
/// # fn main() -> Result<(), hworker::Error> {
/// let server = hworker::embedded::Server::start()?;
/// println!("HWORKER_REDIS_URL={}", server.url());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Server {
    /// `None` while it is stopped.
    running: Option<Running>,
    launch: Launch,
    port: Option<u16>,
    /// Holds the socket, the log, and the data unless they were given a place. The last field: it outlives the rest.
    home: TempDir,
}

/// How a private server is to be started. See [`Server::builder`].
#[derive(Clone, Default)]
#[must_use = "nothing is started before `.start()`"]
pub struct ServerBuilder {
    program: Option<PathBuf>,
    args: Vec<OsString>,
    append_only: bool,
    tcp: bool,
    data_dir: Option<PathBuf>,
}

impl fmt::Debug for ServerBuilder {
    /// Without the values of options: one may be a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let options: Vec<_> = self.args.iter().step_by(2).collect();
        f.debug_struct("ServerBuilder")
            .field("program", &self.program)
            .field("options", &options)
            .field("append_only", &self.append_only)
            .field("tcp", &self.tcp)
            .field("data_dir", &self.data_dir)
            .finish()
    }
}

impl ServerBuilder {
    /// The server program: a path, or a name to look for on the `PATH`. By default `valkey-server`, then
    /// `redis-server`.
    pub fn program(mut self, program: impl Into<PathBuf>) -> Self {
        self.program = Some(program.into());
        self
    }

    /// Adds an option and its value to the command line of the server, after our own, so that it wins over them:
    /// `.arg("--maxmemory", "2mb")`.
    pub fn arg(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.args.extend([name.into(), value.into()]);
        self
    }

    /// Whether each write goes to an append-only file, so that the data outlive a [`Server::kill`] (all but what the
    /// server had not yet written to the file) and a [`Server::restart`]. Off by default.
    pub fn append_only(mut self, yes: bool) -> Self {
        self.append_only = yes;
        self
    }

    /// Whether the server listens on a free port of the loopback interface too; [`Server::url`] then gives that. Off
    /// by default.
    pub fn tcp(mut self, yes: bool) -> Self {
        self.tcp = yes;
        self
    }

    /// Where the server keeps its data; made if it is not there, for nobody else to read, and never removed. One server can use
    /// it at a time, which a file `hworker.lock` in it sees to: a second one waits for up to 10 s and fails. By default in the
    /// directory that is removed at the end.
    pub fn data_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.data_dir = Some(dir.into());
        self
    }

    /// Starts the server and waits until it answers.
    ///
    /// # Errors
    /// [`Error::Config`] where there is no such program (it names the packages that have it), and where the server
    /// does not answer within 10 s (it shows the end of the server's log), besides the time that it takes to load its data
    /// (which is not seen of one with a password), or another server uses its data directory.
    pub fn start(self) -> Result<Server, Error> {
        let program = program::find(self.program.as_deref())?;
        for _ in 1..PORT_TRIES {
            match self.start_once(&program) {
                Err(error) if self.tcp && error.to_string().contains("Address already in use") => {}
                started => return started,
            }
        }
        self.start_once(&program)
    }

    fn start_once(&self, program: &Path) -> Result<Server, Error> {
        let home = make_home().map_err(|e| failed("make a directory for", program, &e))?;
        let data = self.data_dir.as_deref().unwrap_or(home.path());
        let mut private = DirBuilder::new();
        let made = private.recursive(true).mode(0o700).create(data);
        made.map_err(|e| failed("make the data directory of", program, &e))?;
        let port = self.tcp.then(free_port).transpose();
        let port = port.map_err(|e| failed("find a port for", program, &e))?;
        let socket = home.path().join("redis.sock");
        let launch = Launch {
            program: program.to_owned(),
            args: self.command_line(data, &socket, port.unwrap_or(0)),
            socket,
            log: home.path().join("redis.log"),
            data_dir: self.data_dir.clone(),
        };
        let running = Some(launch.run(home.path())?);
        Ok(Server { running, launch, port, home })
    }

    fn command_line(&self, data: &Path, socket: &Path, port: u16) -> Vec<OsString> {
        let append_only = if self.append_only { "yes" } else { "no" };
        let mut args: Vec<OsString> = vec!["--port".into(), port.to_string().into()];
        args.extend(["--bind", "127.0.0.1", "--protected-mode", "yes"].map(OsString::from));
        args.extend(["--save", "", "--appendonly", append_only].map(OsString::from));
        args.extend(["--daemonize", "no", "--unixsocketperm", "700"].map(OsString::from));
        args.extend(["--unixsocket".into(), socket.into(), "--dir".into(), data.into()]);
        args.extend(self.args.iter().cloned());
        args
    }
}

impl Server {
    /// Starts a server as [`ServerBuilder::start`] does where nothing was set.
    ///
    /// # Errors
    /// Those of [`ServerBuilder::start`].
    pub fn start() -> Result<Self, Error> {
        Self::builder().start()
    }

    /// Everything that can be set before the server starts.
    ///
    /// ```
    /// # fn main() -> Result<(), hworker::Error> {
    /// use hworker::embedded::Server;
    ///
    /// let mut server = Server::builder().append_only(true).arg("--maxmemory", "8mb").start()?;
    /// server.kill();
    /// server.restart()?; // the same URL and the same data
    /// # Ok(())
    /// # }
    /// ```
    pub fn builder() -> ServerBuilder {
        ServerBuilder::default()
    }

    /// The URL of the server, as `HWORKER_REDIS_URL` takes it: `redis+unix://...`, or `redis://127.0.0.1:...` with
    /// [`ServerBuilder::tcp`]. It stays the same over restarts.
    #[must_use]
    pub fn url(&self) -> String {
        match self.port {
            Some(port) => format!("redis://127.0.0.1:{port}"),
            None => format!("redis+unix://{}", self.socket().display()),
        }
    }

    /// The unix socket; it is there with [`ServerBuilder::tcp`] too.
    #[must_use]
    pub fn socket(&self) -> &Path {
        &self.launch.socket
    }

    /// The program that runs.
    #[must_use]
    pub fn program(&self) -> &Path {
        &self.launch.program
    }

    /// The process id, or `None` after [`kill`](Self::kill) or [`stop`](Self::stop).
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.running.as_ref().map(|running| running.child.id())
    }

    /// What the server has logged, over all its starts.
    #[must_use]
    pub fn log(&self) -> String {
        read_log(&self.launch.log)
    }

    /// Kills the server with SIGKILL, as a crash would.
    pub fn kill(&mut self) {
        if let Some(running) = self.running.take() {
            running.kill();
        }
    }

    /// Stops the server as an administrator would: SIGTERM, after which it writes out what it has to and exits.
    ///
    /// # Errors
    /// [`Error::Config`] if it has not stopped after 15 s; it has been killed then.
    pub fn stop(&mut self) -> Result<(), Error> {
        let stopped = self.running.take().is_none_or(|running| running.terminate(STOP_DEADLINE));
        if stopped {
            return Ok(());
        }
        let seconds = STOP_DEADLINE.as_secs();
        Err(self.launch.failure(&format!("did not stop within {seconds} s of SIGTERM")))
    }

    /// Starts the server again after [`kill`](Self::kill) or [`stop`](Self::stop), with the same URL, options and
    /// data directory; one that still runs is stopped first.
    ///
    /// # Errors
    /// Those of [`stop`](Self::stop) and [`ServerBuilder::start`].
    pub fn restart(&mut self) -> Result<(), Error> {
        self.stop()?;
        self.running = Some(self.launch.run(self.home.path())?);
        Ok(())
    }

    /// Stops the process in its tracks with SIGSTOP: connections stay open and nothing is answered. A server that is
    /// not running is left alone.
    pub fn pause(&self) {
        if let Some(running) = &self.running {
            running.signal(Signal::STOP);
        }
    }

    /// Lets the server go on after [`pause`](Self::pause).
    pub fn resume(&self) {
        if let Some(running) = &self.running {
            running.signal(Signal::CONT);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            let keeps = self.launch.data_dir.is_some();
            running.terminate(if keeps { STOP_DEADLINE } else { DROP_DEADLINE });
        }
    }
}

/// The directory of one server: private, and with a path that fits into a socket's address and a URL.
fn make_home() -> io::Result<TempDir> {
    let usual = env::temp_dir();
    let fits = usual.to_str().is_some_and(|path| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+".contains(&byte);
        path.starts_with('/') && path.len() <= LONGEST_PARENT && path.bytes().all(plain)
    });
    let parent = if fits { usual } else { PathBuf::from("/tmp") };
    tempfile::Builder::new()
        .prefix("hworker-")
        .permissions(Permissions::from_mode(0o700))
        .tempdir_in(parent)
}

fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}
