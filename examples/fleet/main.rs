//! Two workers, each a process of its own: one has a graphics card. Jobs are sent to the one that they need, and bodies that crash or never return
//! run in processes of their own. `cargo run -p hworker-examples --bin fleet` starts all of it with a server, and ends after some seconds.
//!
//! `jobs.rs` is the part to copy, and below how a worker gets its name and its tags.

mod jobs;

use std::env;
use std::time::{Duration, Instant};

use anyhow::ensure;
use hworker::embedded::Server;
use hworker::{Bulk, Client, JobState};
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};
use tokio::time::sleep;

use crate::jobs::{collect_logs, decode, drop_prices, render};

/// Longer than any scene takes.
const PATIENCE: Duration = Duration::from_secs(30);

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    if env::args().nth(1).is_some_and(|argument| argument == "worker") {
        // The processes for bodies come here too: they are started with the same arguments.
        return Ok(hworker::run_all().await?);
    }
    let redis = Server::start()?;
    let client = Client::new(redis.url())?;
    let attic = worker(&redis.url(), "attic", "")?;
    let cellar = worker(&redis.url(), "cellar", "gpu")?;
    let shown = show(&client).await;
    for worker in [attic, cellar] {
        stop(worker).await?;
    }
    shown
}

/// Starts a worker of this name with these tags: two variables, as they would stand in the unit of a service.
fn worker(redis_url: &str, name: &str, tags: &str) -> anyhow::Result<Child> {
    let mut command = Command::new(env::current_exe()?);
    command.arg("worker").env("HWORKER_REDIS_URL", redis_url).env("HWORKER_LOG", "error");
    command.env("HWORKER_NAME", name).env("HWORKER_ANSWERS_TO_NAME", "true");
    command.env("HWORKER_TAGS", tags).env("HWORKER_CONCURRENCY", "4");
    Ok(command.kill_on_drop(true).spawn()?)
}

async fn stop(mut worker: Child) -> anyhow::Result<()> {
    if let Some(id) = worker.id().and_then(|id| Pid::from_raw(id.cast_signed())) {
        kill_process(id, Signal::TERM)?;
    }
    worker.wait().await?;
    Ok(())
}

async fn show(client: &Client) -> anyhow::Result<()> {
    println!(".to(\"gpu\"): only the worker in the cellar has that tag");
    let scenes: Bulk = (1..=4).map(|scene| render::with(scene).to("gpu")).collect();
    scenes.on(client).enqueue().await?;
    drained(client, "default@gpu").await?;

    println!(".to(\"attic\"): workers answer to their names");
    collect_logs::with(30).to("attic").on(client).enqueue().await?;
    drained(client, "default@attic").await?;

    println!(".on_each(): once on each worker");
    drop_prices::with().on_each().on(client).enqueue().await?;
    let start = Instant::now();
    while client.control("default").broadcasts().await?.iter().any(|each| each.ended < 2) {
        ensure!(start.elapsed() < PATIENCE, "a worker has not run it");
        sleep(Duration::from_millis(10)).await;
    }

    println!("isolate: the third picture crashes its process, the fourth never returns");
    (1..=6).map(decode::with).collect::<Bulk>().on(client).enqueue().await?;
    drained(client, "default").await?;
    let queue = client.inspect("default");
    for job in queue.jobs(JobState::Failed).page().await?.items {
        let message = job.message.as_deref().unwrap_or_default();
        let why = message.lines().next().unwrap_or_default();
        println!("  {}: {}: {why}", job.args(), job.kind.as_deref().unwrap_or_default());
    }
    let done = queue.statistics(None).await?["processed:decode"];
    let workers = queue.workers().await?.len();
    println!("  {done} pictures are decoded, and {workers} workers live");
    Ok(())
}

async fn drained(client: &Client, queue: &str) -> anyhow::Result<()> {
    let start = Instant::now();
    loop {
        let counts = client.inspect(queue).counts().await?;
        if counts.waiting + counts.running + counts.scheduled == 0 {
            return Ok(());
        }
        ensure!(start.elapsed() < PATIENCE, "jobs are left on {queue}: {counts:?}");
        sleep(Duration::from_millis(10)).await;
    }
}
