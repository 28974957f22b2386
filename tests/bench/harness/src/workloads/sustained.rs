//! W4: producers and a worker at once; then at half of what they sustained, for the wait of a job where there is room.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::{Bench, FIRST, Rate, Sample, add_waits};
use crate::contenders::Contender;
use crate::server::Server;
use crate::{Failure, fail};

pub const SETTINGS: &[&str] = &["both"];

/// Jobs that may wait before the producers pause, so that what goes in is what comes out.
const WINDOW: u64 = 10_000;

pub fn run(bench: &Bench, contender: &Contender) -> Result<Sample, Failure> {
    let (mut sample, done) =
        measure(bench, contender, ("window", WINDOW.min(contender.most_jobs)))?;
    let rate = sample.get("jobs_per_s").copied().unwrap_or_default();
    add_waits(&mut sample, &done)?;
    let (half, done) = measure(bench, contender, ("rate", (rate / 2.0) as u64))?;
    let names = [
        ("p50", "half_load_wait_p50_us"),
        ("p99", "half_load_wait_p99_us"),
        ("max", "half_load_wait_max_us"),
    ];
    for (field, name) in names {
        sample.insert(name, done["wait_us"][field].as_f64().unwrap_or(f64::NAN));
    }
    sample.insert("half_load_jobs_per_s", half.get("jobs_per_s").copied().unwrap_or_default());
    Ok(sample)
}

/// 64 producers in one process and a worker in another, for a while.
fn measure(
    bench: &Bench,
    contender: &Contender,
    pace: (&str, u64),
) -> Result<(Sample, Value), Failure> {
    let server = Server::start(&bench.server)?;
    let seconds = bench.scale.pick(20, 4, 1);
    let arguments = [("concurrency", 100), ("waits", FIRST), ("progress_ms", 10)];
    let mut worker = bench.start(contender, &server, "work", &arguments)?;
    let arguments = [("tasks", 64), ("seconds", seconds), pace];
    let mut producer = bench.start(contender, &server, "produce", &arguments)?;
    // The worker connects and comes to rest.
    std::thread::sleep(Duration::from_secs(1));
    let before = (worker.used()?, server.used()?);
    producer.tell("go")?;
    let give_up = Instant::now() + Duration::from_secs(seconds + 30);
    while producer.hear(Duration::ZERO)?.is_none() {
        if let Some(line) = worker.hear(Duration::from_millis(20))? {
            producer.tell(&format!("done {}", line["jobs"]))?;
        }
        if Instant::now() > give_up {
            return Err(fail("the producers did not come to their end"));
        }
    }
    worker.tell("report")?;
    let done = worker.await_event("done", Duration::from_secs(10))?;
    let (used, after) = (worker.used()?, server.used()?);
    let rate = Rate { seconds: seconds as f64, ..Rate::of(&done)? };
    let per_100k = 100_000.0 / rate.jobs;
    let sample = Sample::from([
        ("jobs_per_s", rate.per_second()),
        ("worker_cpu_s_per_100k", (used.cpu - before.0.cpu) * per_100k),
        ("producer_cpu_s_per_100k", producer.used()?.cpu * per_100k),
        ("server_cpu_s_per_100k", (after.cpu - before.1.cpu) * per_100k),
        ("worker_rss_mb", used.peak),
    ]);
    Ok((sample, done))
}
