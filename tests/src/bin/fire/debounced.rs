//! Debounced jobs, on the queue of the cron entry: whoever dies, the last that was accepted of each key runs, or a later one.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle, sleep};
use std::time::Duration;

use fastrand::Rng;
use hworker::Client;
use tokio::runtime::Builder;

use crate::jobs::Desk;
use crate::report::Failure;
use crate::stage::Stage;

/// What runs of a key leave behind.
const MARK: &str = "saved.";

/// So many texts are written.
const KEYS: u32 = 6;

/// Time between two changes of them.
const EVERY: Duration = Duration::from_millis(40);

/// Saves a version of a text, some time after its last change.
#[hworker::job(
    queue = "beats",
    backoff = "200ms",
    max_attempts = 10000,
    debounce(wait = "300ms", max = "2s", key = text)
)]
pub(crate) async fn save(text: u32, version: u64) -> Result<(), std::io::Error> {
    let mark = Desk::get().memory.join(format!("{MARK}{text}"));
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(mark)?
        .write_all(format!("{version}\n").as_bytes())
}

/// The thread that changes texts.
pub(crate) struct Writer {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<BTreeMap<u32, u64>, Failure>>,
}

impl Writer {
    pub(crate) fn start(stage: &Arc<Stage>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (stage, told) = (Arc::clone(stage), Arc::clone(&stop));
        Self { stop, thread: thread::spawn(move || write(&stage, &told)) }
    }

    /// The last version of each text that was accepted.
    pub(crate) fn end(self) -> Result<BTreeMap<u32, u64>, Failure> {
        self.stop.store(true, Ordering::Release);
        self.thread.join().map_err(|_| Failure::from("the writer of texts panicked"))?
    }
}

fn write(stage: &Stage, stop: &AtomicBool) -> Result<BTreeMap<u32, u64>, Failure> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let client =
        Client::builder().redis_url(stage.url()).enqueue_within(Duration::from_secs(1)).build()?;
    let mut rng = Rng::with_seed(stage.options.seed);
    let mut accepted = BTreeMap::new();
    let mut version = 0;
    while !stop.load(Ordering::Acquire) {
        sleep(EVERY);
        version += 1;
        let text = rng.u32(..KEYS);
        // One that has no answer may be in, or not.
        if runtime.block_on(save::with(text, version).on(&client).enqueue()).is_ok() {
            accepted.insert(text, version);
        }
    }
    Ok(accepted)
}

/// When all have gone: of each text the last version that was accepted is saved, or a later one; no job and no key is left.
pub(crate) fn look(stage: &Stage, accepted: &BTreeMap<u32, u64>) {
    let mut runs = 0;
    for (text, version) in accepted {
        let marks = fs::read_to_string(stage.memory().join(format!("{MARK}{text}")));
        let marks = marks.unwrap_or_default();
        let versions: Vec<u64> = marks.lines().filter_map(|line| line.parse().ok()).collect();
        runs += versions.len();
        let newest = versions.into_iter().max();
        if newest < Some(*version) {
            let detail = format!(
                "of the text {text} version {version} was accepted, and {newest:?} is saved"
            );
            stage.checker().wrong("the last of debounced jobs runs", detail);
        }
    }
    println!("debounced: {runs} saves of {} texts", accepted.len());
    let mut redis = stage.redis();
    for what in ["ids", "unique"] {
        let left = redis.len(&format!("hworker-jobs-{}:{what}", crate::beats::QUEUE));
        if left > 0 {
            stage.checker().wrong("nothing is left", format!("{left} {what} of debounced jobs"));
        }
    }
}
