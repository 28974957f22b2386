//! Enqueueing: one after the other, by many tasks at once, in bulk, at a rate.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use crate::{Args, Options, hear, now};

/// Enqueues with a library. Clones share what the library says is to be shared.
pub trait Producer: Clone + Send + Sync + 'static {
    /// Enqueues one job, as a request handler would.
    fn one(&self, job: Args) -> impl Future<Output = ()> + Send;
    /// Enqueues many at once, with what the library has for that.
    fn bulk(&self, jobs: Vec<Args>) -> impl Future<Output = ()> + Send;
}

static GO: (Mutex<bool>, Condvar) = (Mutex::new(false), Condvar::new());
/// How many jobs the worker has done, as far as the harness has told.
static DONE: AtomicU64 = AtomicU64::new(0);

pub(crate) fn listen() {
    hear(|line| match line.split_once(' ') {
        None if line == "go" => {
            *GO.0.lock().expect("no thread panics") = true;
            GO.1.notify_all();
        }
        Some(("done", jobs)) => DONE.store(jobs.parse().unwrap_or(0), Ordering::Relaxed),
        _ => panic!("unknown line {line}"),
    });
}

pub(crate) fn wait_for_go() {
    let mut go = GO.0.lock().expect("no thread panics");
    while !*go {
        go = GO.1.wait(go).expect("no thread panics");
    }
}

struct Shared {
    options: Options,
    next: AtomicU64,
    sent: AtomicU64,
    over: AtomicBool,
    start: Instant,
}

/// Enqueues what the options say, and returns how many jobs and how long it took.
pub(crate) async fn run<P: Producer>(options: &Options, producer: P) -> (u64, Duration) {
    let shared = Arc::new(Shared {
        options: options.clone(),
        next: AtomicU64::new(0),
        sent: AtomicU64::new(0),
        over: AtomicBool::new(false),
        start: Instant::now(),
    });
    let tasks: Vec<_> = (0..options.tasks)
        .map(|task| tokio::spawn(enqueue(task, Arc::clone(&shared), producer.clone())))
        .collect();
    for task in tasks {
        task.await.expect("every task enqueues");
    }
    (shared.sent.load(Ordering::Relaxed), shared.start.elapsed())
}

async fn enqueue<P: Producer>(task: usize, shared: Arc<Shared>, producer: P) {
    let options = &shared.options;
    let step = options.bulk.max(1) as u64;
    let mut round = 0_u64;
    loop {
        if options.rate > 0.0 {
            let number = round as f64 * options.tasks as f64 + task as f64;
            let due = shared.start + Duration::from_secs_f64(number / options.rate);
            tokio::time::sleep_until(due.into()).await;
            round += 1;
        }
        while options.window.is_some_and(|window| {
            shared.next.load(Ordering::Relaxed) >= DONE.load(Ordering::Relaxed) + window
        }) && !shared.is_over()
        {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let number = shared.next.fetch_add(step, Ordering::Relaxed);
        if number >= options.jobs || shared.is_over() {
            return;
        }
        let count = step.min(options.jobs - number);
        if options.bulk == 0 {
            producer.one(job(options, number)).await;
        } else {
            producer
                .bulk((number..number + count).map(|number| job(options, number)).collect())
                .await;
        }
        shared.sent.fetch_add(count, Ordering::Relaxed);
    }
}

impl Shared {
    fn is_over(&self) -> bool {
        let Some(seconds) = self.options.seconds else { return false };
        if !self.over.load(Ordering::Relaxed) && self.start.elapsed() >= seconds {
            self.over.store(true, Ordering::Relaxed);
        }
        self.over.load(Ordering::Relaxed)
    }
}

fn job(options: &Options, number: u64) -> Args {
    // Beside the text: {"n":1000000,"at":1767225600000000,"text":""}
    const BESIDE: usize = 46;
    let text = "x".repeat(options.payload.saturating_sub(BESIDE));
    Args { n: options.first + number, at: now(), text }
}
