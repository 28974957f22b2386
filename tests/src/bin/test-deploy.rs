//! A worker of which there are two builds: `HWORKER_TEST_BUILD=old` knows the job as it was, `new` with what a deploy brings.

// A function that is not async would have a thread of its own.
#![allow(clippy::unused_async)]

use hworker::{Args, BoxError, Context, Registry, Worker};
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

/// As it was.
#[hworker::job(name = "pay", type = PayOld)]
async fn pay_old(name: String, euros: u64, context: Context, #[inject] runs: Runs) {
    runs.note(&name, &format!("{} cents", euros * 100), 0, &context);
}

/// Counts in cents.
#[hworker::job(name = "pay", type = PayNew, version = 2, upgrade = in_cents)]
async fn pay_new(name: String, cents: u64, context: Context, #[inject] runs: Runs) {
    runs.note(&name, &format!("{cents} cents"), 0, &context);
}

/// As it was.
#[hworker::job(name = "bill", type = BillOld)]
async fn bill_old(name: String, euros: u64, context: Context, #[inject] runs: Runs) {
    runs.note(&name, &format!("{} cents", euros * 100), 0, &context);
}

/// Has another name, counts in cents, and has a parameter more.
#[hworker::job(name = "invoice", aliases = ["bill"], type = BillNew, version = 2, upgrade = in_cents)]
async fn bill_new(
    name: String,
    cents: u64,
    note: Option<String>,
    context: Context,
    #[inject] runs: Runs,
) {
    drop(note);
    runs.note(&name, &format!("{cents} cents"), 0, &context);
}

fn in_cents(_: u32, mut args: Args) -> Result<Args, BoxError> {
    let euros: u64 = args.get("euros")?;
    args.set("cents", euros * 100)?;
    Ok(args)
}

#[tokio::main]
async fn main() -> Result<(), hworker::Error> {
    let worker = Worker::builder().registry(Registry::new());
    let worker = if std::env::var("HWORKER_TEST_BUILD").as_deref() == Ok("new") {
        let worker = worker.register::<GreetNew>().register::<part>();
        worker.register::<PayNew>().register::<BillNew>()
    } else {
        worker.register::<GreetOld>().register::<PayOld>().register::<BillOld>()
    };
    worker.build()?.run().await.map(drop)
}
