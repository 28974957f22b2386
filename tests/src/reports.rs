//! Jobs that report while they run.

use std::time::Duration;

use hworker::{BoxError, Context};
use serde::{Deserialize, Serialize};

use crate::runs::{Runner, Runs};

/// What such a body does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Say {
    /// How far it is, and what it does.
    Progress(u64, u64, String),
    Log(String),
    /// So many lines, with their numbers.
    Lines(usize),
    Checkpoint(String),
    /// A checkpoint of so many bytes, and notes whether it was taken: `checkpoint true`.
    LargeCheckpoint(usize),
    /// Notes what was restored: `restored ..`, `nothing`, or the error.
    Restore,
    /// The same as a number, which a text does not fit.
    RestoreNumber,
    /// Waits until a test opens it.
    Gate(String),
    Fail,
    Panic,
    Snooze,
    /// Ends its process.
    Abort,
}

/// Does what the plan of this start says.
pub async fn tell(
    name: &str,
    plan: Vec<Vec<Say>>,
    context: &Context,
    runs: Runs,
) -> Result<(), BoxError> {
    let runner = Runner::from(context);
    let number = runs.begin(&runner);
    let note = |what: &str| runs.note(name, what, number, &runner);
    note("begin");
    for say in plan.get(number as usize).or(plan.last()).cloned().unwrap_or_default() {
        match say {
            Say::Progress(done, of, text) if text.is_empty() => drop(context.progress(done, of)),
            Say::Progress(done, of, text) => context.progress(done, of).note(text),
            Say::Log(line) => context.log(line),
            Say::Lines(count) => (0..count).for_each(|line| context.log(line)),
            Say::Checkpoint(value) => context.checkpoint(&value)?,
            Say::LargeCheckpoint(bytes) => {
                let taken = context.checkpoint(&"x".repeat(bytes)).is_ok();
                note(&format!("checkpoint {taken}"));
            }
            Say::Restore => match context.restored::<String>().await {
                Ok(Some(value)) => note(&format!("restored {value}")),
                Ok(None) => note("nothing"),
                Err(error) => note(&error.to_string()),
            },
            Say::RestoreNumber => match context.restored::<u64>().await {
                Ok(value) => note(&format!("restored {value:?}")),
                Err(error) => note(&error.to_string()),
            },
            Say::Gate(gate) => {
                while !runs.is_open(&gate) {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
            Say::Fail => return Err("told to fail".into()),
            Say::Panic => panic!("told to panic"),
            Say::Snooze => return Err(hworker::snooze(Duration::ZERO).into()),
            Say::Abort => std::process::abort(),
        }
    }
    note("end");
    Ok(())
}

/// One plan for each start of the job, the last one for all that follow.
#[hworker::job(backoff = "0s", max_attempts = 3, on_panic = "retry")]
pub async fn report(
    name: String,
    plan: Vec<Vec<Say>>,
    context: Context,
    #[inject] runs: Runs,
) -> Result<(), BoxError> {
    tell(&name, plan, &context, runs).await
}

/// The same, in a process of its own.
#[hworker::job(backoff = "0s", max_attempts = 3, on_panic = "retry", isolate = "process")]
pub async fn report_isolated(
    name: String,
    plan: Vec<Vec<Say>>,
    context: Context,
    #[inject] runs: Runs,
) -> Result<(), BoxError> {
    tell(&name, plan, &context, runs).await
}

/// Goes over so many items, notes `item <n>`, and takes this time for each. At the item `fails_at`
/// its first attempt fails.
#[hworker::job(backoff = "0s", max_attempts = 3)]
pub async fn walk(
    name: String,
    items: u64,
    item_ms: u64,
    max_runtime_ms: Option<u64>,
    fails_at: Option<u64>,
    context: Context,
    #[inject] runs: Runs,
) -> Result<(), BoxError> {
    steps(&name, (items, item_ms), (max_runtime_ms, fails_at), &context, runs).await
}

/// The same, in a process of its own.
#[hworker::job(backoff = "0s", max_attempts = 3, isolate = "process")]
pub async fn walk_isolated(
    name: String,
    items: u64,
    item_ms: u64,
    max_runtime_ms: Option<u64>,
    fails_at: Option<u64>,
    context: Context,
    #[inject] runs: Runs,
) -> Result<(), BoxError> {
    steps(&name, (items, item_ms), (max_runtime_ms, fails_at), &context, runs).await
}

async fn steps(
    name: &str,
    (items, item_ms): (u64, u64),
    (max_runtime_ms, fails_at): (Option<u64>, Option<u64>),
    context: &Context,
    runs: Runs,
) -> Result<(), BoxError> {
    let runner = Runner::from(context);
    let number = runs.begin(&runner);
    runs.note(name, "begin", number, &runner);
    let attempt = context.attempt();
    let each = context.each(0..items, |item| {
        runs.note(name, &format!("item {item}"), number, &runner);
        async move {
            tokio::time::sleep(Duration::from_millis(item_ms)).await;
            if attempt == 1 && fails_at == Some(item) {
                return Err::<(), BoxError>("told to fail".into());
            }
            Ok(())
        }
    });
    match max_runtime_ms {
        Some(ms) => each.max_runtime(Duration::from_millis(ms)).await?,
        None => each.await?,
    }
    runs.note(name, "end", number, &runner);
    Ok(())
}
