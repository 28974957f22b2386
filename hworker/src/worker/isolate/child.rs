//! A process that runs bodies, as its worker sees it.

use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::pin::pin;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::watch;
use tokio::time::timeout;

use super::frame::{self, Order, Said};
use super::marker;

/// `main` has so long until `run_all()`.
const READY_WITHIN: Duration = Duration::from_secs(30);

/// What is kept of the end of its standard error, in bytes.
const KEPT: usize = 2_000;

/// How long a process that was killed may take to end, and its last words to come.
const ENDS_WITHIN: Duration = Duration::from_secs(1);

/// What a process said before it ended is here within this time.
const LAST_WORD_WITHIN: Duration = Duration::from_millis(100);

/// A process of its own; dropping it kills it, with all that it started.
#[derive(Debug)]
pub(crate) struct Child {
    process: tokio::process::Child,
    group: Option<Pid>,
    orders: OwnedWriteHalf,
    said: OwnedReadHalf,
    stderr: Stderr,
    /// How many jobs it has run.
    pub(crate) jobs: u32,
}

impl Child {
    /// Starts a process and waits until it can run jobs.
    ///
    /// # Errors
    /// Why not, with the end of its standard error.
    pub(super) async fn start(identity: &str) -> Result<Self, String> {
        let mut child =
            Self::spawn(identity).map_err(|error| format!("it cannot be started: {error}"))?;
        match timeout(READY_WITHIN, frame::read_async(&mut child.said)).await {
            Ok(Ok(Said::Ready)) => Ok(child),
            Err(_) => {
                let why = format!(
                    "it did not come to `run_all()` of this worker within {READY_WITHIN:?}"
                );
                Err(child.killed(&why).await)
            }
            Ok(_) => Err(child.ended().await),
        }
    }

    fn spawn(identity: &str) -> io::Result<Self> {
        let (own, theirs) = std::os::unix::net::UnixStream::pair()?;
        own.set_nonblocking(true)?;
        let (said, orders) = UnixStream::from_std(own)?.into_split();
        let (reads, writes) = io::pipe()?;
        let mut arguments = std::env::args_os();
        let name = arguments.next().unwrap_or_default();
        let name =
            PathBuf::from(name).file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut command = tokio::process::Command::new(program()?);
        command.arg0(marker::name(identity, &name)).args(arguments);
        command.process_group(0).kill_on_drop(true);
        command.stdin(OwnedFd::from(theirs)).stderr(writes);
        let process = command.spawn()?;
        // It holds the other end of the pipe.
        drop(command);
        let group = process.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        let stderr = Stderr::pass_on(reads)?;
        Ok(Self { process, group, orders, said, stderr, jobs: 0 })
    }

    /// Gives it a job, whose body has begun once this is done. What it says of it follows.
    pub(crate) async fn run(&mut self, order: &Order) -> io::Result<()> {
        self.stderr.forget();
        self.jobs = self.jobs.saturating_add(1);
        self.orders.write_all(&frame::bytes(order)?).await?;
        match hear(&mut self.said, &mut self.process).await? {
            Said::Begins => Ok(()),
            Said::Ready | Said::Ended(_) | Said::Unfit(_) => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    /// The halves, for use at once: what it says, which is not cancel safe, and its orders.
    pub(crate) fn talk(&mut self) -> (impl Future<Output = io::Result<Said>>, &mut OwnedWriteHalf) {
        (hear(&mut self.said, &mut self.process), &mut self.orders)
    }

    pub(super) fn lives(&mut self) -> bool {
        matches!(self.process.try_wait(), Ok(None))
    }

    /// Its process; none once it has ended.
    pub(crate) fn id(&self) -> Option<u32> {
        self.process.id()
    }

    /// How it ended by itself, and what it wrote last.
    pub(crate) async fn ended(mut self) -> String {
        let ended = match timeout(ENDS_WITHIN, self.process.wait()).await {
            Ok(Ok(status)) => how(status),
            // It closed its standard input and lives.
            _ => "it does not answer".to_owned(),
        };
        self.killed(&ended).await
    }

    /// Kills it. The text is `why`, and what it wrote last.
    pub(crate) async fn killed(mut self, why: &str) -> String {
        self.kill();
        let _ = timeout(ENDS_WITHIN, self.process.wait()).await;
        match self.stderr.end().await {
            end if end.is_empty() => why.to_owned(),
            end => format!("{why}\nIt wrote last:\n{end}"),
        }
    }

    fn kill(&mut self) {
        // Once: its number may be that of another process later.
        if let Some(group) = self.group.take() {
            // What it started may outlive it.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.kill();
    }
}

/// What a process says next; an error once it has ended. What it forked may hold the other end of its line, so that this does not end with it.
async fn hear(from: &mut OwnedReadHalf, process: &mut tokio::process::Child) -> io::Result<Said> {
    let mut said = pin!(frame::read_async(from));
    tokio::select! {
        biased;
        said = &mut said => return said,
        _ = process.wait() => {}
    }
    // It may have said it before.
    timeout(LAST_WORD_WITHIN, said).await.unwrap_or_else(|_| Err(io::ErrorKind::BrokenPipe.into()))
}

/// Tells it something of the job that it runs. One that does not read it learns of it by being killed.
pub(crate) async fn tell(orders: &mut OwnedWriteHalf, order: Order) {
    if let Ok(bytes) = frame::bytes(&order) {
        let _ = orders.write_all(&bytes).await;
    }
}

/// The program that runs here, also where its file was replaced since.
pub(super) fn program() -> io::Result<PathBuf> {
    let own = PathBuf::from("/proc/self/exe");
    if fs::exists(&own).unwrap_or(false) { Ok(own) } else { std::env::current_exe() }
}

fn how(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(signal), _) => format!("it was ended by signal {signal}{}", name(signal)),
        (None, Some(code)) => format!("it ended with exit code {code}"),
        (None, None) => "it ended".to_owned(),
    }
}

fn name(signal: i32) -> &'static str {
    const NAMES: [(Signal, &str); 8] = [
        (Signal::ABORT, ", SIGABRT"),
        (Signal::BUS, ", SIGBUS"),
        (Signal::FPE, ", SIGFPE"),
        (Signal::ILL, ", SIGILL"),
        (Signal::KILL, ", SIGKILL: somebody killed it, or the system had no memory left"),
        (Signal::SEGV, ", SIGSEGV"),
        (Signal::TERM, ", SIGTERM"),
        (Signal::XCPU, ", SIGXCPU: it used the time of a processor that it has"),
    ];
    NAMES.into_iter().find(|(known, _)| known.as_raw() == signal).map_or("", |(_, name)| name)
}

/// The memory that a process has, in bytes.
#[cfg(target_os = "linux")]
#[allow(clippy::unused_async)] // as elsewhere
pub(crate) async fn resident(process: u32) -> Option<u64> {
    let pages = fs::read_to_string(format!("/proc/{process}/statm")).ok()?;
    let pages: u64 = pages.split(' ').nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

/// The memory that a process has, in bytes. The system has no file that says it.
#[cfg(not(target_os = "linux"))]
pub(crate) async fn resident(process: u32) -> Option<u64> {
    let mut ps = tokio::process::Command::new("ps");
    let ps = ps.args(["-o", "rss=", "-p"]).arg(process.to_string()).kill_on_drop(true);
    let kilobytes: u64 =
        String::from_utf8(ps.output().await.ok()?.stdout).ok()?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

/// The standard error of a process: it goes to that of the worker, and its end is kept.
#[derive(Debug)]
struct Stderr {
    end: Arc<Mutex<Vec<u8>>>,
    closed: watch::Receiver<bool>,
}

impl Stderr {
    fn pass_on(mut from: io::PipeReader) -> io::Result<Self> {
        let end = Arc::new(Mutex::new(Vec::new()));
        let (close, closed) = watch::channel(false);
        let kept = Arc::clone(&end);
        // Both ends may block.
        std::thread::Builder::new().name("hworker-stderr".into()).spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = from.read(&mut bytes) {
                let read = &bytes[..count];
                keep(&mut locked(&kept), read);
                let _ = io::stderr().write_all(read);
            }
            close.send_replace(true);
        })?;
        Ok(Self { end, closed })
    }

    /// What comes from now on is that of another job.
    fn forget(&self) {
        locked(&self.end).clear();
    }

    async fn end(&mut self) -> String {
        let _ = timeout(ENDS_WITHIN, self.closed.wait_for(|closed| *closed)).await;
        String::from_utf8_lossy(&locked(&self.end)).trim().to_owned()
    }
}

fn keep(kept: &mut Vec<u8>, read: &[u8]) {
    kept.extend_from_slice(read);
    let over = kept.len().saturating_sub(KEPT);
    kept.drain(..over);
}

fn locked(of: &Mutex<Vec<u8>>) -> MutexGuard<'_, Vec<u8>> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
