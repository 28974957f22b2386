//! W2: how fast one worker process drains what waits, at 1, 10 and 100 jobs at once, bodies that do nothing.

use std::time::Duration;

use super::{Bench, PATIENCE, Rate, Sample, Scale};
use crate::Failure;
use crate::contenders::Contender;
use crate::server::Server;

pub const SETTINGS: &[&str] = &["1", "10", "100"];

pub fn run(bench: &Bench, setting: &str, contender: &Contender) -> Result<Sample, Failure> {
    let concurrency: u64 = setting.parse()?;
    let jobs = jobs(bench.scale, concurrency).min(contender.most_jobs);
    let mut server = Server::start(&bench.server)?;
    if contender.name == crate::check::BENCHMARK {
        return crate::check::drain(bench, &mut server, concurrency, jobs);
    }
    let empty = server.used_memory()?;
    bench.fill(contender, &server, jobs)?;
    settle_down(&server)?;
    let full = server.used_memory()?;
    let mut sample = measure(bench, contender, &mut server, concurrency, jobs)?;
    settle_down(&server)?;
    sample.insert("server_bytes_per_waiting_job", (full - empty) / jobs as f64);
    sample.insert("server_bytes_per_finished_job", (server.used_memory()? - empty) / jobs as f64);
    Ok(sample)
}

pub fn jobs(scale: Scale, concurrency: u64) -> u64 {
    if concurrency == 1 {
        scale.pick(100_000, 20_000, 500)
    } else {
        scale.pick(500_000, 200_000, 2000)
    }
}

/// Starts a worker and lets it run so many of the jobs that wait.
pub fn measure(
    bench: &Bench,
    contender: &Contender,
    server: &mut Server,
    concurrency: u64,
    jobs: u64,
) -> Result<Sample, Failure> {
    let before = server.used()?;
    let arguments = [("concurrency", concurrency), ("jobs", jobs)];
    let mut worker = bench.start(contender, server, "work", &arguments)?;
    let done = worker.await_event("done", PATIENCE)?;
    let (rate, used, after) = (Rate::of(&done)?, worker.used()?, server.used()?);
    // The last jobs are still being settled, and what is measured of memory counts them.
    settle_down(server)?;
    let per_100k = 100_000.0 / rate.jobs;
    Ok(Sample::from([
        ("jobs_per_s", rate.per_second()),
        ("worker_cpu_s_per_100k", used.cpu * per_100k),
        ("server_cpu_s_per_100k", (after.cpu - before.cpu) * per_100k),
        ("worker_rss_mb", used.peak),
    ]))
}

/// Waits until the server is idle: nothing is on its way any more.
pub fn settle_down(server: &Server) -> Result<(), Failure> {
    let mut last = server.used()?.cpu;
    for _ in 0..50 {
        std::thread::sleep(Duration::from_millis(100));
        let now = server.used()?.cpu;
        // One tick of the clock is within what a server does by itself.
        if now - last < 0.015 {
            return Ok(());
        }
        last = now;
    }
    Ok(())
}
