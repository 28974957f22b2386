//! W9: whether a queue that is spread over several masters is drained so many times as fast as one. Each master has a tenth of a core,
//! so that they seldom wait for each other or for the worker, as if each had a core of its own.

use super::{Bench, PATIENCE, Rate, Sample};
use crate::Failure;
use crate::cluster::Cluster;
use crate::contenders::Contender;
use crate::server::{Server, Setup};
use crate::throttle::{Awake, Throttle};

/// The share of a core that each master has.
pub const SHARE: f64 = 0.1;

/// How many shards, on as many masters where nothing else is said. `apart` are as many queues, each on a master of its own and with a
/// worker of its own, at the same time.
pub const SETTINGS: &[&str] =
    &["one", "apart-2", "shards-2", "apart-3", "shards-3", "shards-6-on-3", "apart-6", "shards-6"];

pub fn takes(contender: &Contender) -> bool {
    contender.is_hworker()
}

/// Masters of a cluster have no unix sockets, and six that share one core do not have what they are to have.
pub fn can_run(setup: &Setup) -> bool {
    !setup.unix && !setup.pinned
}

pub fn run(bench: &Bench, setting: &str, contender: &Contender) -> Result<Sample, Failure> {
    let words: Vec<_> = setting.split('-').collect();
    let (clusters, masters, shards): (usize, usize, u64) = match words.as_slice() {
        ["apart", number] => (number.parse()?, 1, 1),
        ["shards", shards, "on", masters] => (1, masters.parse()?, shards.parse()?),
        ["shards", shards] => (1, shards.parse()?, shards.parse()?),
        _ => (1, 1, 1),
    };
    let jobs = masters as u64 * bench.scale.pick(200_000, 100_000, 500);
    let shards = ("shards", shards);
    let mut hosts = Vec::new();
    for _ in 0..clusters {
        let cluster = Cluster::start(&bench.server, masters)?;
        bench.produce(contender, &cluster, &[("jobs", jobs), ("bulk", 1000), shards])?;
        hosts.push(cluster);
    }
    let mut awake = Awake::start()?;
    let processes = hosts.iter().flat_map(|cluster| &cluster.masters).map(Server::pid);
    let _throttle = Throttle::start(processes, SHARE)?;
    let cpu = || hosts.iter().map(Cluster::cpu).sum::<Result<f64, Failure>>();
    let before = cpu()?;
    let arguments = [("concurrency", 100), ("jobs", jobs), shards];
    let workers = hosts.iter().map(|cluster| bench.start(contender, cluster, "work", &arguments));
    let mut workers = workers.collect::<Result<Vec<_>, _>>()?;
    let (mut per_second, mut seconds) = (0.0, 0.0_f64);
    let (mut worker_cpu, mut worker_rss) = (0.0, 0.0_f64);
    for worker in &mut workers {
        let rate = Rate::of(&worker.await_event("done", PATIENCE)?)?;
        per_second += rate.per_second();
        seconds = seconds.max(rate.seconds);
        let used = worker.used()?;
        worker_cpu += used.cpu;
        worker_rss = worker_rss.max(used.peak);
    }
    let masters_cpu = cpu()? - before;
    awake.check()?;
    let per_100k = 100_000.0 / (jobs as f64 * clusters as f64);
    Ok(Sample::from([
        ("jobs_per_s", per_second),
        ("worker_cpu_s_per_100k", worker_cpu * per_100k),
        ("server_cpu_s_per_100k", masters_cpu * per_100k),
        ("master_cpu_percent", masters_cpu / seconds / (masters * clusters) as f64 * 100.0),
        ("worker_rss_mb", worker_rss),
    ]))
}
