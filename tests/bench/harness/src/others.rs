//! What else the machine does while it measures: other benchmarks, other processes, the host of a virtual machine.

use std::fs::{File, TryLockError};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike as _;
use nix::unistd::SysconfVar;
use serde::{Deserialize, Serialize};

use crate::{Failure, fail};

/// Two that measure at once would measure each other. Nobody else may until the file is dropped, or this process has ended.
pub fn alone() -> Result<File, Failure> {
    let path = std::env::temp_dir().join("hworker-bench.lock");
    let file = File::create(&path);
    let file = file.map_err(|error| fail(format!("{}: {error}", path.display())))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(fail("another benchmark runs on this machine")),
        Err(TryLockError::Error(error)) => Err(fail(format!("{}: {error}", path.display()))),
    }
}

/// How much of all cores others had, in percent.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct Others {
    /// Processes that the benchmark did not start, and what of the kernel's work belongs to none.
    pub on_machine: f64,
    /// What the host withheld from a virtual machine that had work to do.
    pub on_host: f64,
}

/// Seconds of processor since the machine started, and since this process did.
pub struct Since {
    all: f64,
    busy: f64,
    withheld: f64,
    own: f64,
}

impl Since {
    pub fn now() -> Result<Self, Failure> {
        let text = std::fs::read_to_string("/proc/stat")?;
        let line = text.lines().find_map(|line| line.strip_prefix("cpu "));
        let ticks = line.unwrap_or_default().split_whitespace();
        // What guests of this machine use is among the rest.
        let ticks: Vec<f64> = ticks.take(8).filter_map(|ticks| ticks.parse().ok()).collect();
        let &[user, nice, system, idle, waits, interrupts, soft_interrupts, withheld] =
            ticks.as_slice()
        else {
            return Err(fail("/proc/stat does not tell what the processors did"));
        };
        let per_second = nix::unistd::sysconf(SysconfVar::CLK_TCK)?.unwrap_or(100) as f64;
        let busy = user + nice + system + interrupts + soft_interrupts;
        Ok(Self {
            all: (busy + idle + waits + withheld) / per_second,
            busy: busy / per_second,
            withheld: withheld / per_second,
            own: used(UsageWho::RUSAGE_SELF)? + used(UsageWho::RUSAGE_CHILDREN)?,
        })
    }

    /// What others had since then. Whatever the benchmark started meanwhile has to have ended.
    pub fn others(&self) -> Result<Others, Failure> {
        let now = Self::now()?;
        let percent = |seconds: f64| 100.0 * seconds.max(0.0) / (now.all - self.all).max(0.01);
        Ok(Others {
            on_machine: percent(now.busy - self.busy - (now.own - self.own)),
            on_host: percent(now.withheld - self.withheld),
        })
    }
}

fn used(who: UsageWho) -> Result<f64, Failure> {
    let usage = getrusage(who)?;
    let time = usage.user_time() + usage.system_time();
    Ok(time.num_microseconds() as f64 / 1e6)
}
