//! W9: whether a queue that is spread over several masters is drained so many times as fast. Each master has a tenth of a core, so that
//! none waits for another or for the worker, as if each had a core of its own.

use std::time::Instant;

use super::{Bench, PATIENCE, Rate, Sample};
use crate::Failure;
use crate::cluster::Cluster;
use crate::contenders::Contender;
use crate::throttle::Throttle;

/// The share of a core that each master has.
const SHARE: f64 = 0.1;

/// How many shards, on as many masters where nothing else is said.
pub const SETTINGS: &[&str] = &["shards-1", "shards-2", "shards-3", "shards-6", "shards-6-on-3"];

pub fn takes(contender: &Contender) -> bool {
    contender.is_hworker()
}

pub fn run(bench: &Bench, setting: &str, contender: &Contender) -> Result<Sample, Failure> {
    let words: Vec<_> = setting.split('-').collect();
    let (shards, masters): (u64, usize) = match words.as_slice() {
        [_, shards, _, masters] => (shards.parse()?, masters.parse()?),
        [_, shards] => (shards.parse()?, shards.parse()?),
        _ => (1, 1),
    };
    let jobs = masters as u64 * bench.scale.pick(200_000, 100_000, 500);
    let cluster = Cluster::start(&bench.server, masters)?;
    let shards = ("shards", shards);
    bench.produce(contender, &cluster, &[("jobs", jobs), ("bulk", 1000), shards])?;
    let _throttle = Throttle::start(cluster.masters.iter().map(|master| master.process()), SHARE)?;
    let (before, began) = (cluster.cpu()?, Instant::now());
    let arguments = [("concurrency", 100), ("jobs", jobs), shards];
    let mut worker = bench.start(contender, &cluster, "work", &arguments)?;
    let done = worker.await_event("done", PATIENCE)?;
    let (rate, used) = (Rate::of(&done)?, worker.used()?);
    let (masters_cpu, seconds) = (cluster.cpu()? - before, began.elapsed().as_secs_f64());
    let per_100k = 100_000.0 / rate.jobs;
    Ok(Sample::from([
        ("jobs_per_s", rate.per_second()),
        ("worker_cpu_s_per_100k", used.cpu * per_100k),
        ("server_cpu_s_per_100k", masters_cpu * per_100k),
        ("master_cpu_percent", masters_cpu / seconds / masters as f64 * 100.0),
        ("worker_rss_mb", used.peak),
    ]))
}
