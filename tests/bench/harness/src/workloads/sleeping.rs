//! W5: bodies that await 10 ms, 1,000 at once. `limit` runs them without a queue.

use super::{Bench, PATIENCE, Rate, Sample};
use crate::Failure;
use crate::contenders::Contender;
use crate::server::Server;

pub const SETTINGS: &[&str] = &["1000"];

const SLOTS: u64 = 1000;
const SLEEP_MS: u64 = 10;

pub fn run(bench: &Bench, contender: &Contender) -> Result<Sample, Failure> {
    let jobs = bench.scale.pick(50_000, 50_000, 3000).min(contender.most_jobs);
    let server = Server::start(&bench.server)?;
    if !contender.is_limit() {
        bench.fill(contender, &server, jobs)?;
    }
    let before = server.used()?;
    let arguments = [("concurrency", SLOTS), ("sleep_ms", SLEEP_MS), ("jobs", jobs)];
    let mut worker = bench.start(contender, &server, "work", &arguments)?;
    let done = worker.await_event("done", PATIENCE)?;
    let (rate, used, after) = (Rate::of(&done)?, worker.used()?, server.used()?);
    let per_100k = 100_000.0 / rate.jobs;
    let ideal = (SLOTS * 1000 / SLEEP_MS) as f64;
    Ok(Sample::from([
        ("jobs_per_s", rate.per_second()),
        ("share_of_ideal", rate.per_second() / ideal),
        ("worker_cpu_s_per_100k", used.cpu * per_100k),
        ("server_cpu_s_per_100k", (after.cpu - before.cpu) * per_100k),
        ("worker_rss_mb", used.peak),
    ]))
}
