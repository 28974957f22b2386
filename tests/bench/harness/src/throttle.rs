//! Holds processes to a share of a core each, and keeps cores awake.

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::time::{ClockId, clock_getcpuclockid};
use nix::unistd::Pid;

use crate::{Failure, fail};

/// How often it is looked what they have used.
const EVERY: Duration = Duration::from_micros(500);

/// How much a process may use at once, of what it did not use before: so much that it counts little what is cold after a stop.
const BURST: Duration = Duration::from_millis(5);

/// Stops a process that has used more than its share, until it has not, as `cpulimit` does. A control group would do it
/// too, but takes rights that not everyone has. When it is dropped they run on without limit.
pub struct Throttle {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

struct Throttled {
    process: Pid,
    clock: ClockId,
    /// What it may have used by now.
    allowed: Duration,
    stopped: bool,
}

impl Throttle {
    /// `share` is of a core, and of each process.
    pub fn start(processes: impl IntoIterator<Item = u32>, share: f64) -> Result<Self, Failure> {
        let throttled: Result<Vec<_>, Failure> =
            processes.into_iter().map(Throttled::new).collect();
        let mut throttled = throttled?;
        let over = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&over);
        let thread = std::thread::spawn(move || {
            let mut last = Instant::now();
            while !until.load(Ordering::Relaxed) {
                std::thread::sleep(EVERY);
                let now = Instant::now();
                let more = (now - last).mul_f64(share);
                last = now;
                throttled.retain_mut(|one| one.look(more).is_ok());
            }
            for one in throttled.iter().filter(|one| one.stopped) {
                let _ = kill(one.process, Signal::SIGCONT);
            }
        });
        Ok(Self { over, thread: Some(thread) })
    }
}

impl Throttled {
    fn new(process: u32) -> Result<Self, Failure> {
        let process = i32::try_from(process).map_err(|_| fail("a process without an id"))?;
        let process = Pid::from_raw(process);
        let clock = clock_getcpuclockid(process)?;
        Ok(Self { process, clock, allowed: used(clock)?, stopped: false })
    }

    /// It may use so much more. An error: it is gone.
    fn look(&mut self, more: Duration) -> Result<(), nix::Error> {
        let used = used(self.clock)?;
        self.allowed = (self.allowed + more).min(used + BURST);
        let stop = used > self.allowed;
        if stop != self.stopped {
            kill(self.process, if stop { Signal::SIGSTOP } else { Signal::SIGCONT })?;
            self.stopped = stop;
        }
        Ok(())
    }
}

fn used(clock: ClockId) -> Result<Duration, nix::Error> {
    Ok(clock.now()?.into())
}

impl Drop for Throttle {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Keeps every core busy with whatever leaves to all others what they want. A core that sleeps between its bursts of work is slow when they
/// come, most of all a virtual one, which others have meanwhile: what leaves the machine idle would look worse than what does not. It ends
/// with this process, however that ends.
pub struct Awake(Vec<Child>);

impl Awake {
    pub fn start() -> Result<Self, Failure> {
        let cores = std::thread::available_parallelism()?.get();
        let mut awake = Self(Vec::new());
        for _ in 0..cores {
            let child = Command::new("chrt")
                .args(["--idle", "0", "sh", "-c", "while kill -0 $PPID; do :; done"])
                .stdin(Stdio::null())
                .spawn()
                .map_err(|error| fail(format!("w9 needs chrt, of util-linux: {error}")))?;
            awake.0.push(child);
        }
        Ok(awake)
    }

    /// Whether all of it was there until now.
    pub fn check(&mut self) -> Result<(), Failure> {
        for child in &mut self.0 {
            if let Some(status) = child.try_wait()? {
                return Err(fail(format!("what keeps a core awake has ended: {status}")));
            }
        }
        Ok(())
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
