//! Jobs that run in processes of their own, and do there what would end a worker.

use std::hint::black_box;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

use hworker::{BoxError, Context, Registry};
use rustix::process::{Signal, getpid, kill_process};
use serde::{Deserialize, Serialize};

use crate::jobs::{Act, perform};
use crate::kept::{keep, keep_isolated, wait_for};
use crate::reports::{report, report_isolated, walk, walk_isolated};
use crate::runs::{Runner, Runs};

/// What such a body does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Harm {
    /// What any body does.
    Act(Act),
    /// Aborts its process.
    Abort,
    /// Sends its process the signal that follows a wrong address.
    Segfault,
    /// Ends its process with this code.
    Exit(i32),
    /// Uses a processor, and never ends.
    Spin,
    /// Uses so many megabytes of memory, and waits.
    Allocate(usize),
    /// Asks the system for so many megabytes of addresses, and uses none.
    Reserve(usize),
    /// Writes to standard error.
    Say(String),
    /// Starts a program that outlives it, and notes its process as `started <pid>`.
    Start,
    /// As [`Harm::Start`], once for each socket of its process, which the program holds too, as a process does that was forked off.
    Hold,
    /// Starts its own program, and notes `child true` or `child false`, as that says whether it runs bodies; then what it reads from its input.
    Ask,
}

type Plan = Vec<Vec<Harm>>;

/// In a process, one plan for each start of the job, the last one for all that follow.
#[hworker::job(backoff = "0s", isolate = "process")]
pub async fn act_isolated(
    name: String,
    plan: Vec<Vec<Harm>>,
    context: Context,
    #[inject] runs: Runs,
) -> Result<hworker::Outcome, BoxError> {
    harm(name, plan, &context, runs).await
}

/// The same, with bounds, and once.
#[hworker::job(
    on_panic = "fail",
    on_error = "fail",
    on_timeout = "fail",
    isolate(memory = "400MB", cpu = "1s", recycle = 3)
)]
pub async fn act_bounded(
    name: String,
    plan: Vec<Vec<Harm>>,
    context: Context,
    #[inject] runs: Runs,
) -> Result<hworker::Outcome, BoxError> {
    harm(name, plan, &context, runs).await
}

/// The same, until it is cancelled.
#[hworker::job(on_cancel = "token", isolate = "process")]
pub async fn act_until_cancelled(name: String, context: Context, #[inject] runs: Runs) {
    let runner = Runner::from(&context);
    let number = runs.begin(&runner);
    runs.note(&name, "begin", number, &runner);
    context.cancelled().await;
    runs.note(&name, "cancelled", number, &runner);
}

/// The same, on a thread that it blocks.
#[hworker::job(isolate = "process")]
pub fn act_isolated_blocking(name: &str, ms: u64, context: &Context, #[inject] runs: &Runs) {
    let runner = Runner::from(context);
    let number = runs.begin(&runner);
    runs.note(name, "begin", number, &runner);
    std::thread::sleep(Duration::from_millis(ms));
    runs.note(name, "end", number, &runner);
}

/// These, and the common ones.
pub fn isolated_jobs() -> Registry {
    let registry = crate::jobs::common_jobs().with::<act_isolated>().with::<act_bounded>();
    let registry = registry.with::<act_until_cancelled>().with::<act_isolated_blocking>();
    let registry = registry.with::<keep>().with::<keep_isolated>().with::<wait_for>();
    let registry = registry.with::<report>().with::<report_isolated>();
    registry.with::<walk>().with::<walk_isolated>()
}

async fn harm(
    name: String,
    plan: Plan,
    context: &Context,
    runs: Runs,
) -> Result<hworker::Outcome, BoxError> {
    let runner = Runner::from(context);
    let number = runs.begin(&runner);
    let harms = plan.get(number as usize).or(plan.last()).cloned().unwrap_or_default();
    let mut acts = Vec::new();
    for harm in harms {
        match harm {
            Harm::Act(act) => acts.push(act),
            Harm::Abort => std::process::abort(),
            // The first is taken by the handler that looks for overflows of the stack.
            Harm::Segfault => loop {
                kill_process(getpid(), Signal::SEGV)?;
                std::thread::sleep(Duration::from_millis(10));
            },
            Harm::Exit(code) => std::process::exit(code),
            Harm::Spin => {
                runs.note(&name, "spins", number, &runner);
                loop {
                    black_box(0);
                }
            }
            Harm::Allocate(megabytes) => {
                let used = vec![1_u8; megabytes << 20];
                runs.note(&name, "allocated", number, &runner);
                tokio::time::sleep(Duration::from_secs(60)).await;
                drop(black_box(used));
            }
            Harm::Reserve(megabytes) => {
                drop(black_box(Vec::<u8>::with_capacity(megabytes << 20)));
            }
            Harm::Say(text) => {
                writeln!(std::io::stderr(), "{text}")?;
            }
            Harm::Start => {
                let program = Command::new("sleep").arg("600").stdin(Stdio::null()).spawn()?;
                runs.note(&name, &format!("started {}", program.id()), number, &runner);
            }
            Harm::Hold => {
                for socket in sockets()? {
                    let program = Command::new("sleep").arg("600").stdin(socket).spawn()?;
                    runs.note(&name, &format!("started {}", program.id()), number, &runner);
                }
            }
            Harm::Ask => {
                let own = std::env::current_exe()?;
                let answer = Command::new(own).arg("--is-child").output()?;
                let answer = String::from_utf8_lossy(&answer.stdout).into_owned();
                let input = std::io::read_to_string(std::io::stdin())?;
                runs.note(&name, &format!("child {}{input}", answer.trim()), number, &runner);
            }
        }
    }
    perform(name, vec![acts], runner, Some(context), runs).await
}

/// All sockets of this process, once more.
#[cfg(target_os = "linux")]
fn sockets() -> std::io::Result<Vec<Stdio>> {
    use rustix::process::{PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

    let own = pidfd_open(getpid(), PidfdFlags::empty())?;
    let mut sockets = Vec::new();
    for entry in std::fs::read_dir("/proc/self/fd")? {
        let entry = entry?;
        let of = std::fs::read_link(entry.path()).unwrap_or_default();
        if of.to_string_lossy().starts_with("socket:") {
            let number = entry.file_name().to_string_lossy().parse().unwrap_or(-1);
            sockets.push(pidfd_getfd(&own, number, PidfdGetfdFlags::empty())?.into());
        }
    }
    Ok(sockets)
}

/// Nothing here copies them.
#[cfg(not(target_os = "linux"))]
fn sockets() -> std::io::Result<Vec<Stdio>> {
    Ok(Vec::new())
}
