//! Jobs whose arguments say what they do, so that one test reads as one story.

use std::time::Duration;

use hworker::{BoxError, Context, Outcome, Registry};
use serde::{Deserialize, Serialize};

use crate::errors::{strange, strange_blocking, wakes_with_a_panic};
use crate::runs::{Runner, Runs};

/// What a body does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Act {
    /// Waits for so many milliseconds.
    Sleep(u64),
    /// Blocks its thread for so many milliseconds.
    Block(u64),
    /// Has a thread of tokio's pool block for so many milliseconds, and waits for it.
    BlockPool(u64),
    /// Notes a line.
    Note(String),
    /// Says it in the log.
    Log(String),
    /// Waits until the test opens the gate.
    Gate(String),
    /// Panics.
    Panic(String),
    /// Panics in a task that it started, and waits for it.
    PanicInTask(String),
    /// Holds something that panics when it is dropped, which happens at the end of the body.
    PanicInDrop(String),
    /// Returns an error.
    Error(String),
    /// Returns [`Outcome::Retry`].
    Retry(String),
    /// Returns [`Outcome::Failure`].
    Failure(String),
    /// Returns [`hworker::fail`].
    Fail(String),
    /// Returns [`hworker::retry_in`], in milliseconds.
    RetryIn(u64),
    /// Returns [`hworker::snooze`], in milliseconds.
    Snooze(u64),
    /// Returns [`hworker::slow_down`], in milliseconds.
    SlowDown(u64),
    /// Kills its process.
    Kill,
    /// Blocks its thread until the attempt is cancelled, and notes `cancelled`.
    BlockUntilCancelled,
    /// Starts a child with [`Context::spawn`] that notes `step 0`, `step 1`, ... and does not end by itself.
    Child,
    /// Enqueues a job of this name on the default client.
    Enqueue(String),
    /// Adds so many jobs to its batch, under one name.
    Grow(u32),
}

/// One plan for each start of the job, crashes included; the last one for all that follow.
type Plan = Vec<Vec<Act>>;

/// Notes its begin and end under `name`, and does in between what the plan says. Retries come at once.
#[hworker::job(backoff = "0s")]
pub async fn act(
    name: String,
    plan: Vec<Vec<Act>>,
    context: Context,
    #[inject] runs: Runs,
) -> Result<Outcome, BoxError> {
    perform(name, plan, Runner::from(&context), Some(&context), runs).await
}

/// The same without a look at the attempt.
#[hworker::job(backoff = "0s")]
pub async fn act_without_context(
    name: String,
    plan: Vec<Vec<Act>>,
    #[inject] runs: Runs,
) -> Result<Outcome, BoxError> {
    let runner = Runner::of(&name);
    perform(name, plan, runner, None, runs).await
}

/// The same as [`act`](fn@act), with every fault final.
#[hworker::job(on_panic = "fail", on_error = "fail", on_timeout = "fail")]
pub async fn act_once(
    name: String,
    plan: Vec<Vec<Act>>,
    context: Context,
    #[inject] runs: Runs,
) -> Result<Outcome, BoxError> {
    perform(name, plan, Runner::from(&context), Some(&context), runs).await
}

/// The same as [`act`](fn@act), but a crash is final.
#[hworker::job(backoff = "0s", on_crash = "fail")]
pub async fn act_unless_crashed(
    name: String,
    plan: Vec<Vec<Act>>,
    context: Context,
    #[inject] runs: Runs,
) -> Result<Outcome, BoxError> {
    perform(name, plan, Runner::from(&context), Some(&context), runs).await
}

/// The same as [`act`](fn@act), at most two at once.
#[hworker::job(backoff = "0s", concurrency = 2)]
pub async fn act_by_twos(
    name: String,
    plan: Vec<Vec<Act>>,
    context: Context,
    #[inject] runs: Runs,
) -> Result<Outcome, BoxError> {
    perform(name, plan, Runner::from(&context), Some(&context), runs).await
}

/// The same as [`act`](fn@act), at most two of a key at once.
#[hworker::job(backoff = "0s", concurrency(limit = 2, key = key))]
pub async fn act_of_key(
    name: String,
    key: Option<String>,
    plan: Vec<Vec<Act>>,
    context: Context,
    #[inject] runs: Runs,
) -> Result<Outcome, BoxError> {
    drop(key);
    perform(name, plan, Runner::from(&context), Some(&context), runs).await
}

/// The same as [`act`](fn@act), those of a key one after the other.
#[hworker::job(backoff = "300ms", concurrency(key = key, order = "strict"))]
pub async fn act_in_order(
    name: String,
    key: String,
    plan: Vec<Vec<Act>>,
    context: Context,
    #[inject] runs: Runs,
) -> Result<Outcome, BoxError> {
    drop(key);
    perform(name, plan, Runner::from(&context), Some(&context), runs).await
}

/// The same as [`act`](fn@act), one of a key at a time, until it has ended.
#[hworker::job(backoff = "0s", unique(key = key))]
pub async fn act_alone(
    name: String,
    key: Option<String>,
    plan: Vec<Vec<Act>>,
    context: Context,
    #[inject] runs: Runs,
) -> Result<Outcome, BoxError> {
    drop(key);
    perform(name, plan, Runner::from(&context), Some(&context), runs).await
}

/// The same as [`act`](fn@act), at most 20 in a second.
#[hworker::job(backoff = "0s", rate_limit = "20/s")]
pub async fn act_by_rate(
    name: String,
    plan: Vec<Vec<Act>>,
    context: Context,
    #[inject] runs: Runs,
) -> Result<Outcome, BoxError> {
    perform(name, plan, Runner::from(&context), Some(&context), runs).await
}

/// The same as [`act`](fn@act), on a thread of its own.
#[hworker::job(backoff = "0s")]
pub fn act_blocking(
    name: String,
    plan: Vec<Vec<Act>>,
    context: &Context,
    #[inject] runs: Runs,
) -> Result<Outcome, BoxError> {
    let runtime = tokio::runtime::Handle::current();
    runtime.block_on(perform(name, plan, Runner::from(context), Some(context), runs))
}

/// Notes how long its text is.
#[hworker::job(backoff = "0s")]
pub async fn weigh(name: String, text: String, context: Context, #[inject] runs: Runs) {
    runs.note(&name, &format!("{} bytes", text.len()), 0, &context);
}

/// All jobs but the one beside which nothing is fetched ahead.
pub fn common_jobs() -> Registry {
    let registry = Registry::new().with::<act>().with::<act_without_context>().with::<act_once>();
    let registry = registry.with::<act_blocking>().with::<weigh>();
    let registry = registry.with::<act_by_twos>().with::<act_of_key>();
    let registry = registry.with::<act_in_order>().with::<act_by_rate>();
    let registry = registry.with::<act_alone>();
    registry.with::<strange>().with::<strange_blocking>().with::<wakes_with_a_panic>()
}

pub(crate) async fn perform(
    name: String,
    plan: Plan,
    runner: Runner,
    context: Option<&Context>,
    runs: Runs,
) -> Result<Outcome, BoxError> {
    let number = runs.begin(&runner);
    runs.note(&name, "begin", number, &runner);
    let acts = plan.get(number as usize).or(plan.last()).cloned().unwrap_or_default();
    let mut held = Vec::new();
    for act in acts {
        match act {
            Act::Sleep(ms) => tokio::time::sleep(Duration::from_millis(ms)).await,
            Act::Block(ms) => std::thread::sleep(Duration::from_millis(ms)),
            Act::BlockPool(ms) => {
                let blocks = move || std::thread::sleep(Duration::from_millis(ms));
                tokio::task::spawn_blocking(blocks).await?;
            }
            Act::Note(what) => runs.note(&name, &what, number, &runner),
            Act::Log(text) => tracing::info!("{text}"),
            Act::Gate(gate) => {
                while !runs.is_open(&gate) {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
            Act::Panic(text) => panic!("{text}"),
            Act::PanicInTask(text) => tokio::spawn(async move { panic!("{text}") }).await?,
            Act::PanicInDrop(text) => held.push(PanicsInDrop(text)),
            Act::Error(text) => return Err(text.into()),
            Act::Retry(text) => return Ok(Outcome::Retry(text)),
            Act::Failure(text) => return Ok(Outcome::Failure(text)),
            Act::Fail(text) => return Err(hworker::fail(text).into()),
            Act::RetryIn(ms) => return Err(hworker::retry_in(Duration::from_millis(ms)).into()),
            Act::SlowDown(ms) => {
                return Err(hworker::slow_down(Duration::from_millis(ms)).into());
            }
            Act::Snooze(ms) => return Err(hworker::snooze(Duration::from_millis(ms)).into()),
            Act::Kill => kill_own_process(),
            Act::BlockUntilCancelled => {
                while context.is_some_and(|context| !context.is_cancelled()) {
                    std::thread::sleep(Duration::from_millis(5));
                }
                runs.note(&name, "cancelled", number, &runner);
            }
            Act::Child => {
                let context = context.ok_or("without a context there are no children")?;
                context.spawn(steps(
                    name.clone(),
                    number,
                    runner.clone(),
                    context.clone(),
                    runs.clone(),
                ));
            }
            Act::Enqueue(other) => {
                self::act::enqueue(other, Vec::new()).await?;
            }
            Act::Grow(children) => {
                let context = context.ok_or("without a context it has no batch")?;
                let child = |child| self::act::with(format!("{name} {child}"), Vec::new());
                context.batch()?.add("children", (0..children).map(child)).await?;
            }
        }
    }
    runs.note(&name, "end", number, &runner);
    Ok(Outcome::Success)
}

/// Holds the context, as a child that looks at it does: that is not what ends it.
async fn steps(name: String, number: u64, runner: Runner, _context: Context, runs: Runs) {
    for step in 0.. {
        runs.note(&name, &format!("step {step}"), number, &runner);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn kill_own_process() -> ! {
    let own = rustix::process::getpid();
    rustix::process::kill_process(own, rustix::process::Signal::KILL)
        .expect("a process can kill itself");
    loop {
        std::thread::park();
    }
}

struct PanicsInDrop(String);

impl Drop for PanicsInDrop {
    fn drop(&mut self) {
        assert!(std::thread::panicking(), "{}", self.0);
    }
}
