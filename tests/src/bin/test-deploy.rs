//! A worker of which there are two builds: `HWORKER_TEST_BUILD=old` knows the job as it was, `new` with what a deploy brings.

// A function that is not async would have a thread of its own.
#![allow(clippy::unused_async)]

use hworker::{Context, Registry, Worker};
use hworker_tests::Runs;
use serde::{Deserialize, Serialize};

/// As it was.
#[derive(Debug, Serialize, Deserialize)]
pub enum OldTone {
    /// The only one.
    Plain,
}

/// With a variant more.
#[derive(Debug, Serialize, Deserialize)]
pub enum NewTone {
    /// As before.
    Plain,
    /// New.
    Warm,
}

#[hworker::job(name = "greet", type = GreetOld)]
async fn greet_old(name: String, tone: OldTone, context: Context, #[inject] runs: Runs) {
    runs.note(&name, &format!("{tone:?}"), 0, &context);
}

#[hworker::job(name = "greet", type = GreetNew)]
async fn greet_new(name: String, tone: NewTone, context: Context, #[inject] runs: Runs) {
    runs.note(&name, &format!("{tone:?}"), 0, &context);
}

/// Only the new build has it.
#[hworker::job]
async fn part(name: String, context: Context, #[inject] runs: Runs) {
    runs.note(&name, "parted", 0, &context);
}

#[tokio::main]
async fn main() -> Result<(), hworker::Error> {
    let worker = Worker::builder().registry(Registry::new());
    let worker = if std::env::var("HWORKER_TEST_BUILD").as_deref() == Ok("new") {
        worker.register::<GreetNew>().register::<part>()
    } else {
        worker.register::<GreetOld>()
    };
    worker.build()?.run().await.map(drop)
}
