//! Payments in a database, with a worker that is killed and one that is stopped in the middle of a job: what moves money
//! moves it once, and what is written late is refused. `cargo run -p hworker-examples --bin ledger`
//!
//! `bank.rs` is the part to copy: the id of the job and its fencing token, each in the transaction that it protects.

mod bank;
mod demo;
mod jobs;

use std::env;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use bank::Bank;
use hworker::Worker;
use jobs::Dawdle;

const USAGE: &str = "\
usage: ledger                  shows all of it on this machine
       ledger worker <file>    runs the jobs, with the accounts in this file;
                               Redis is found by HWORKER_REDIS_URL";

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args: Vec<String> = env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args.as_slice() {
        [] => demo::run().await,
        ["worker", file] => {
            let bank = Bank::open(&PathBuf::from(file)).context("the accounts")?;
            // So that the demo has the time to strike in the middle of a job.
            let dawdle = env::var("LEDGER_DAWDLE_MS").map_or(Ok(0), |ms| ms.parse())?;
            let dawdle = Dawdle(Duration::from_millis(dawdle));
            Worker::builder().state(bank).state(dawdle).build()?.run().await?;
            Ok(())
        }
        _ => bail!("{USAGE}"),
    }
}
