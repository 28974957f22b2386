//! Measures what shards cost and bring, on a cluster of three masters on this machine:
//! `cargo run --release -p hworker-tests --bin measure-shards`. The figures of `docs/scaling.md` come from it.

// A program that prints is what this is, and a job without an await is the least that can be run.
#![allow(clippy::print_stdout, clippy::unused_async)]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use hworker::{Bulk, Client, Registry, Worker, WorkerHandle};
use hworker_tests::TestCluster;
use tokio::task::JoinHandle;

#[hworker::job]
async fn nothing() {}

/// Jobs of one run.
const JOBS: u64 = 200_000;

/// How long an idle worker is looked at.
const IDLE: Duration = Duration::from_secs(15);

/// What one master says of itself.
#[derive(Debug, Clone, Default)]
struct Usage {
    cpu: f64,
    commands: u64,
    scripts: u64,
    script_us: u64,
    clients: u64,
}

fn usage(cluster: &TestCluster) -> Vec<Usage> {
    let of = |master| {
        let info: String = cluster.redis(master).ask(&["INFO", "everything"]);
        let fields: BTreeMap<_, _> =
            info.lines().filter_map(|line| line.trim_end().split_once(':')).collect();
        let number =
            |name: &str| fields.get(name).and_then(|text| text.parse::<f64>().ok()).unwrap_or(0.0);
        let stat = |command: &str, what: &str| {
            let text =
                fields.get(format!("cmdstat_{command}").as_str()).copied().unwrap_or_default();
            let number =
                text.split(',').find_map(|part| part.strip_prefix(what)?.strip_prefix('='));
            number.and_then(|number| number.parse::<u64>().ok()).unwrap_or(0)
        };
        // What clients send; scripts call others.
        let sent = ["evalsha", "eval", "blmove", "blpop", "exists", "hkeys"];
        Usage {
            cpu: number("used_cpu_user_main_thread") + number("used_cpu_sys_main_thread"),
            commands: sent.iter().map(|command| stat(command, "calls")).sum(),
            scripts: stat("evalsha", "calls"),
            script_us: stat("evalsha", "usec"),
            clients: number("connected_clients") as u64,
        }
    };
    (0..cluster.masters()).map(of).collect()
}

/// Seconds of processor that this process has used.
fn own_cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<_> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|text| text.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) / 100.0
}

fn start(client: &Client, slots: usize) -> (WorkerHandle, JoinHandle<()>) {
    let registry = Registry::new().with::<nothing>();
    let worker = Worker::builder().client(client).registry(registry).concurrency(slots);
    let worker = worker.build().expect("a worker");
    let handle = worker.handle();
    let running = tokio::spawn(async move {
        worker.run_until(std::future::pending()).await.expect("it runs");
    });
    (handle, running)
}

async fn measure(cluster: &TestCluster, shards: usize) {
    let client = cluster.client_builder().shards("default", shards).build().expect("a client");
    let queue = client.inspect("default");
    let empty = usage(cluster);
    let (worker, running) = start(&client, 100);
    tokio::time::sleep(Duration::from_secs(4)).await;
    let (before, own_before) = (usage(cluster), own_cpu());
    tokio::time::sleep(IDLE).await;
    let (after, own) = (usage(cluster), own_cpu() - own_before);
    let sum = |usage: &[Usage], what: fn(&Usage) -> f64| usage.iter().map(what).sum::<f64>();
    let over = IDLE.as_secs_f64();
    let (commands, cpu) = (
        (sum(&after, |one| one.commands as f64) - sum(&before, |one| one.commands as f64)) / over,
        (sum(&after, |one| one.cpu) - sum(&before, |one| one.cpu)) / over * 1e6,
    );
    let clients = sum(&after, |one| one.clients as f64) - sum(&empty, |one| one.clients as f64);
    let scripts = sum(&after, |one| one.scripts as f64) - sum(&before, |one| one.scripts as f64);
    let heartbeat = (sum(&after, |one| one.script_us as f64)
        - sum(&before, |one| one.script_us as f64))
        / scripts;
    println!(
        "{shards:>4} shards, idle: {commands:.1} commands/s, {clients} connections, {heartbeat:.0} us a heartbeat in the \
         server, worker {:.2} % of a core, masters {cpu:.0} us/s, the cluster's own included",
        own / over * 100.0
    );
    worker.stop();
    let _ = running.await;

    for _ in 0..JOBS / 1000 {
        let bulk: Bulk = (0..1000).map(|_| nothing::with()).collect();
        bulk.on(&client).enqueue().await.expect("enqueued");
    }
    let done = queue.statistics(None).await.expect("them").get("processed").copied().unwrap_or(0);
    let (before, own_before, begun) = (usage(cluster), own_cpu(), Instant::now());
    let (worker, running) = start(&client, 100);
    loop {
        let counts = queue.statistics(None).await.expect("them");
        if counts.get("processed").copied().unwrap_or(0) - done >= JOBS {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let (took, own) = (begun.elapsed().as_secs_f64(), own_cpu() - own_before);
    let after = usage(cluster);
    let each: Vec<_> =
        after.iter().zip(&before).map(|(after, before)| after.cpu - before.cpu).collect();
    let us = |seconds: f64| seconds * 1e6 / JOBS as f64;
    println!(
        "{shards:>4} shards, busy: {:.0} jobs/s, masters {:.1} us a job, the busiest {:.0} % of that; worker {:.1} us a job",
        JOBS as f64 / took,
        us(each.iter().sum()),
        each.iter().copied().fold(0.0, f64::max) / each.iter().sum::<f64>() * 100.0,
        us(own),
    );
    worker.stop();
    let _ = running.await;
    queue.destroy(true).await.expect("destroyed");
}

#[tokio::main]
async fn main() {
    let cluster = TestCluster::start();
    for master in 0..cluster.masters() {
        let _: String = cluster.redis(master).ask(&["CONFIG", "SET", "appendonly", "no"]);
    }
    let before = usage(&cluster);
    tokio::time::sleep(IDLE).await;
    let after = usage(&cluster);
    let own: f64 = after.iter().zip(&before).map(|(after, before)| after.cpu - before.cpu).sum();
    println!("no worker at all: the three masters use {:.0} us/s", own / IDLE.as_secs_f64() * 1e6);
    for shards in [1, 6, 24, 96, 1, 6, 24, 96] {
        measure(&cluster, shards).await;
    }
}
