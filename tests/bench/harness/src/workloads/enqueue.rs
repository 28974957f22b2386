//! W1: how fast jobs are enqueued, one at a time, by 64 tasks at once, in bulk.

use super::{Bench, Sample};
use crate::Failure;
use crate::contenders::Contender;
use crate::server::Server;

/// `one` is a task of a multi-thread runtime, `one-current` the same in a current-thread runtime; so are `64` and `64-current`.
pub const SETTINGS: &[&str] = &["one", "one-current", "64", "64-current", "bulk"];

pub fn takes(setting: &str, contender: &Contender) -> bool {
    match setting {
        "bulk" => contender.has_bulk,
        // The runtime is Rust's.
        "one-current" | "64-current" => contender.name != "bullmq-node",
        _ => true,
    }
}

pub fn run(bench: &Bench, setting: &str, contender: &Contender) -> Result<Sample, Failure> {
    let mut server = Server::start(&bench.server)?;
    // Not fewer in a quick run: the first tens of thousands are those of a process and a server that have just started.
    let many = bench.scale.pick(100_000, 100_000, 2000).min(contender.most_jobs);
    let bulk = bench.scale.pick(500_000, 200_000, 2000).min(contender.most_jobs);
    let few = bench.scale.pick(20_000, 20_000, 500).min(contender.most_jobs);
    let arguments: &[_] = match setting {
        "one" => &[("jobs", few)],
        "one-current" => &[("jobs", few), ("current_thread", 1)],
        "64" => &[("jobs", many), ("tasks", 64)],
        "64-current" => &[("jobs", many), ("tasks", 64), ("current_thread", 1)],
        _ => &[("jobs", bulk), ("bulk", 1000)],
    };
    let empty = server.used_memory()?;
    let before = server.used()?;
    let (rate, producer) = bench.produce(contender, &server, arguments)?;
    let after = server.used()?;
    let per_100k = 100_000.0 / rate.jobs;
    Ok(Sample::from([
        ("jobs_per_s", rate.per_second()),
        ("producer_cpu_s_per_100k", producer.cpu * per_100k),
        ("server_cpu_s_per_100k", (after.cpu - before.cpu) * per_100k),
        ("server_bytes_per_waiting_job", (server.used_memory()? - empty) / rate.jobs),
    ]))
}
