//! Jobs for each worker, on the queue of the cron entry: no worker runs one twice, and as many run it as are wanted, whoever dies.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};

use hworker::{BoxError, BroadcastInfo, Client, Context};
use tokio::runtime::{Builder, Runtime};

use crate::beats::QUEUE;
use crate::jobs::Desk;
use crate::report::Failure;
use crate::stage::Stage;

/// What runs of a job leave behind.
const MARK: &str = "each.";

/// Time between two of them.
const EVERY: Duration = Duration::from_secs(1);

/// A queue has no more than 100 of them at a time.
const EXPIRES_IN: Duration = Duration::from_secs(90);

/// After so long as many workers have run it as are wanted, whatever struck.
const DONE_WITHIN: Duration = Duration::from_secs(60);

/// Of each two jobs one is for so many workers, and the other for all.
const WANTED: u32 = 2;

/// Leaves a mark of its worker; of some jobs the first attempt at each worker fails.
#[hworker::job(queue = "beats", backoff = "200ms", max_attempts = 10000)]
pub(crate) async fn everywhere(n: u32, context: Context) -> Result<(), BoxError> {
    if n % 5 < 2 && context.attempt() == 1 {
        return Err("as it was told".into());
    }
    tokio::time::sleep(Duration::from_millis(u64::from(n % 7) * 20)).await;
    let mark = Desk::get().memory.join(format!("{MARK}{n}"));
    let mut mark = OpenOptions::new().create(true).append(true).open(mark)?;
    mark.write_all(format!("{}\n", context.worker()).as_bytes())?;
    Ok(())
}

/// The thread that enqueues them, and looks at what becomes of them.
pub(crate) struct Caller {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<Calls, Failure>>,
}

struct Calls {
    runtime: Runtime,
    client: Client,
    /// When each was seen first, by its id: of some nobody was told that they are in.
    seen: BTreeMap<String, Instant>,
    /// The numbers of those of which somebody was told.
    numbers: BTreeMap<String, u32>,
}

impl Caller {
    pub(crate) fn start(stage: &Arc<Stage>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (stage, told) = (Arc::clone(stage), Arc::clone(&stop));
        Self { stop, thread: thread::spawn(move || call(&stage, &told)) }
    }

    /// Before the workers go: waits until what is not over has run, and ends it.
    pub(crate) fn end(self, stage: &Stage) -> Result<(), Failure> {
        self.stop.store(true, Ordering::Release);
        let mut calls = self.thread.join().map_err(|_| "the caller of each worker panicked")??;
        let give_up = Instant::now() + DONE_WITHIN;
        while Instant::now() < give_up && calls.list().is_none_or(|all| all.iter().any(is_open)) {
            sleep(Duration::from_millis(100));
        }
        calls.look(stage, Duration::ZERO);
        for broadcast in calls.list().unwrap_or_default() {
            let control = calls.client.control(QUEUE);
            calls.runtime.block_on(control.cancel_broadcast(&broadcast.id))?;
        }
        Ok(())
    }
}

fn call(stage: &Stage, stop: &AtomicBool) -> Result<Calls, Failure> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let client =
        Client::builder().redis_url(stage.url()).enqueue_within(Duration::from_secs(1)).build()?;
    let mut calls = Calls { runtime, client, seen: BTreeMap::new(), numbers: BTreeMap::new() };
    let mut n = 0;
    while !stop.load(Ordering::Acquire) {
        sleep(EVERY);
        n += 1;
        let job = everywhere::with(n).on(&calls.client).expires_in(EXPIRES_IN);
        let job = if n.is_multiple_of(2) { job.on_each() } else { job.on_each_of(WANTED) };
        // One that has no answer may be in, or not.
        if let Ok(id) = calls.runtime.block_on(job.enqueue()) {
            calls.numbers.insert(id.to_string(), n);
        }
        calls.look(stage, DONE_WITHIN);
    }
    Ok(calls)
}

/// Whether somebody is to run it still.
fn is_open(broadcast: &BroadcastInfo) -> bool {
    let wanted = broadcast.workers.unwrap_or(0);
    broadcast.running + broadcast.retrying > 0 || broadcast.ended < wanted
}

impl Calls {
    /// None while the server does not answer.
    fn list(&self) -> Option<Vec<BroadcastInfo>> {
        self.runtime.block_on(self.client.control(QUEUE).broadcasts()).ok()
    }

    /// Of those that were seen first so long ago.
    fn look(&mut self, stage: &Stage, ago: Duration) {
        for broadcast in self.list().unwrap_or_default() {
            let id = broadcast.id.to_string();
            let claims = broadcast.running + broadcast.retrying + broadcast.ended;
            let number = self.numbers.get(&id);
            let age = self.seen.entry(id).or_insert_with(Instant::now).elapsed();
            let is_old = age >= ago;
            // A worker leaves its mark before the server is told. What would run again after its time has ended without one.
            let marks = number.map_or(u64::MAX, |n| marks(stage, *n));
            if broadcast.ended > marks && age < DONE_WITHIN {
                let detail = format!("{marks} workers have run {broadcast:?}");
                stage.checker().wrong("where a broadcast has ended it has run", detail);
            }
            let Some(wanted) = broadcast.workers else { continue };
            if claims > wanted || is_old && broadcast.ended < wanted {
                let detail = format!("{broadcast:?}");
                stage.checker().wrong("as many workers run a broadcast as are wanted", detail);
            }
        }
    }
}

/// How many workers have left their mark of this one.
fn marks(stage: &Stage, n: u32) -> u64 {
    let marks = fs::read_to_string(stage.memory().join(format!("{MARK}{n}")));
    marks.unwrap_or_default().lines().collect::<BTreeSet<_>>().len() as u64
}

/// When all have gone: no worker has run one twice, and nothing is left.
pub(crate) fn look(stage: &Stage) -> Result<(), Failure> {
    let (mut jobs, mut runs) = (0, 0);
    for entry in fs::read_dir(stage.memory())? {
        let entry = entry?;
        let name = entry.file_name().into_string().unwrap_or_default();
        let Some(n) = name.strip_prefix(MARK) else { continue };
        let marks = fs::read_to_string(entry.path())?;
        let mut by_worker: BTreeMap<&str, u32> = BTreeMap::new();
        for worker in marks.lines() {
            *by_worker.entry(worker).or_default() += 1;
        }
        (jobs, runs) = (jobs + 1, runs + marks.lines().count());
        if by_worker.values().any(|runs| *runs > 1) {
            let detail = format!("the broadcast {n}: {by_worker:?}");
            stage.checker().wrong("no worker runs a broadcast twice", detail);
        }
    }
    println!("broadcasts: {runs} runs of {jobs} jobs for each worker, or for {WANTED}");
    // Of those that have expired something is kept for a minute.
    let mut redis = stage.redis();
    for key in redis.keys(&format!("hworker-jobs-{QUEUE}:broadcast*")) {
        let left: i64 = redis.try_ask(&["PTTL", &key])?;
        if left == -1 {
            stage.checker().wrong("nothing is left", key);
        }
    }
    if jobs == 0 {
        stage.checker().wrong("broadcasts run", "none has run".into());
    }
    Ok(())
}
