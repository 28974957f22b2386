//! What every contender shares: how it is asked, what it answers, and how time is taken. The protocol is described in
//! `tests/bench/README.md`.

mod options;
mod produce;
mod record;

use std::io::{BufRead, Write};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

pub use options::{Options, Role};
pub use produce::Producer;
pub use record::body;

/// The arguments of every job.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Args {
    /// The job's number.
    pub n: u64,
    /// When it was enqueued, in microseconds since 1970.
    pub at: u64,
    /// Fills it up to the size that is wanted.
    pub text: String,
}

/// Microseconds since 1970.
#[must_use]
pub fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_micros() as u64
}

/// A library under test.
pub trait Contender {
    /// What enqueues.
    fn producer(options: &Options) -> impl Future<Output = impl Producer>;
    /// Works until the process ends, running [`body`] for each job.
    fn work(options: &Options) -> impl Future<Output = ()>;
}

/// Runs a contender as its arguments say.
pub fn main<C: Contender>() {
    let options = Options::parse(std::env::args().skip(1));
    let runtime = if options.current_thread {
        tokio::runtime::Builder::new_current_thread().enable_all().build()
    } else {
        tokio::runtime::Builder::new_multi_thread().enable_all().build()
    };
    let runtime = runtime.expect("a runtime");
    match options.role {
        Role::Work => {
            record::begin(&options);
            say(&serde_json::json!({ "event": "ready" }));
            runtime.block_on(C::work(&options));
        }
        Role::Produce => runtime.block_on(async {
            let producer = C::producer(&options).await;
            produce::listen();
            say(&serde_json::json!({ "event": "ready" }));
            produce::wait_for_go();
            let (jobs, took) = produce::run(&options, producer).await;
            say(&serde_json::json!({ "event": "done", "jobs": jobs, "seconds": took.as_secs_f64() }));
            // The harness reads what the process has used before it ends it.
            std::thread::sleep(Duration::from_secs(3600));
        }),
    }
}

/// Writes a line to the harness.
fn say(line: &serde_json::Value) {
    let mut out = std::io::stdout().lock();
    // When the harness is gone, so is everything that this process is for.
    if writeln!(out, "{line}").and_then(|()| out.flush()).is_err() {
        std::process::exit(9);
    }
}

/// Hands every line of the harness to `on_line`, and ends the process with the harness.
fn hear(mut on_line: impl FnMut(&str) + Send + 'static) {
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            on_line(line.trim());
        }
        std::process::exit(9);
    });
}
