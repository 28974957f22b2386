//! What a failover loses: jobs are enqueued all the while to a master with two replicas and three sentinels, another server
//! becomes the master, and what was accepted is looked for there. Prints a table.
//!
//! `cargo run --release -p hworker-tests --bin measure-failover -- [failovers of each kind, 5] [one of the durabilities]`

#![allow(clippy::print_stdout)] // what it is for

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hworker::{Client, Durability, Error};
use hworker_tests::{TestSentinels, act, program};
use tokio::task::JoinSet;

const PRODUCERS: usize = 16;

/// What is looked at: the server's settings, and what an enqueue waits for.
struct Setup {
    shown: &'static str,
    server: &'static [(&'static str, &'static str)],
    durability: Durability,
}

/// How a master ceases to be one.
#[derive(Clone, Copy)]
enum Kind {
    Killed,
    Maintenance,
    /// As maintenance, but nothing is written while it goes on.
    Paused,
    CutOff,
}

/// What became of the jobs of one or several failovers.
#[derive(Default)]
struct Outcome {
    accepted: usize,
    not_durable: usize,
    lost: usize,
    /// Of those of which it was said that they may not be safe.
    not_durable_lost: usize,
    longest_without: Duration,
}

#[tokio::main]
async fn main() {
    let only = std::env::args().nth(2);
    let rounds = std::env::args().nth(1).and_then(|word| word.parse().ok()).unwrap_or(5);
    let one_replica = &[("min-replicas-to-write", "1"), ("min-replicas-max-lag", "10")];
    let setups = [
        Setup { shown: "accepted (default)", server: &[], durability: Durability::accepted() },
        Setup {
            shown: "accepted, min-replicas-to-write 1",
            server: one_replica,
            durability: Durability::accepted(),
        },
        Setup { shown: "replicated=2 (both)", server: &[], durability: Durability::replicated(2) },
        Setup { shown: "replicated=1", server: &[], durability: Durability::replicated(1) },
        Setup {
            shown: "replicated=1,fsynced, appendfsync always",
            server: &[("appendfsync", "always")],
            durability: Durability::replicated(1).and_fsynced(),
        },
    ];
    println!(
        "| | failover | accepted | lost | said to be unsafe | of these lost | longest without an enqueue |"
    );
    println!("|---|---|---|---|---|---|---|");
    let chosen = |setup: &&Setup| only.as_deref().is_none_or(|only| setup.shown == only);
    for setup in setups.iter().filter(chosen) {
        for (kind, shown) in [
            (Kind::Killed, "`kill -9`"),
            (Kind::Maintenance, "`SENTINEL FAILOVER`"),
            (Kind::Paused, "the same behind `CLIENT PAUSE 10000 WRITE`"),
            (Kind::CutOff, "cut off from replicas and sentinels"),
        ] {
            let all = measure(setup, kind, rounds).await;
            println!(
                "| {} | {rounds} x {shown} | {} | {} | {} | {} | {:.1} s |",
                setup.shown,
                all.accepted,
                all.lost,
                all.not_durable,
                all.not_durable_lost,
                all.longest_without.as_secs_f64()
            );
        }
    }
}

async fn measure(setup: &Setup, kind: Kind, rounds: usize) -> Outcome {
    let server = if setup.durability == Durability::replicated(1).and_fsynced() {
        // `WAITAOF` is there from Redis 7.2 on.
        program("valkey-server")
    } else {
        None
    };
    let mut servers = TestSentinels::builder();
    if let Some(server) = server {
        servers = servers.program(&server);
    }
    for (name, value) in setup.server {
        servers = servers.arg(name, value);
    }
    let servers = servers.start();
    let client = servers.client_builder().durability(setup.durability);
    let client = client.build().expect("a client");
    let mut all = Outcome::default();
    for _ in 0..rounds {
        let mut master = None;
        servers.eventually("the sentinels agree", Duration::from_secs(60), || {
            master = servers.master();
            master.is_some()
        });
        let before = master.expect("just seen");
        let load = Load::start(&client);
        tokio::time::sleep(Duration::from_millis(700)).await;
        match kind {
            Kind::Killed => servers.kill(before),
            Kind::Maintenance => servers.fail_over(),
            Kind::Paused => {
                let _: String = servers.redis(before).ask(&["CLIENT", "PAUSE", "10000", "WRITE"]);
                servers.fail_over();
            }
            Kind::CutOff => servers.cut_off(before),
        }
        let master = servers.failed_over_from(before);
        // Until everyone is at the new one, and some time more.
        tokio::time::sleep(Duration::from_secs(3)).await;
        let load = load.stop().await;
        let there = servers.redis(master).ask::<Vec<String>>(&[
            "LRANGE",
            "hworker-jobs-default",
            "0",
            "-1",
        ]);
        let there: HashSet<&str> = there.iter().filter_map(|envelope| id_of(envelope)).collect();
        let lost = |ids: &[String]| ids.iter().filter(|id| !there.contains(id.as_str())).count();
        all.accepted += load.accepted.len();
        all.not_durable += load.not_durable.len();
        all.lost += lost(&load.accepted);
        all.not_durable_lost += lost(&load.not_durable);
        all.longest_without = all.longest_without.max(load.longest_without);
        let _: u64 = servers.redis(master).ask(&["DEL", "hworker-jobs-default"]);
        match kind {
            Kind::Killed => servers.start_again(before),
            Kind::Maintenance | Kind::Paused => {}
            Kind::CutOff => servers.join_again(before),
        }
        servers.wait_until_whole();
    }
    all
}

fn id_of(envelope: &str) -> Option<&str> {
    envelope.split_once("\"id\":\"")?.1.split('"').next()
}

/// Jobs that are enqueued all the while.
struct Load {
    stop: Arc<AtomicBool>,
    producers: JoinSet<Enqueued>,
}

/// What one producer was told, or all of them.
#[derive(Default)]
struct Enqueued {
    accepted: Vec<String>,
    not_durable: Vec<String>,
    longest_without: Duration,
}

impl Load {
    fn start(client: &Client) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let mut producers = JoinSet::new();
        for _ in 0..PRODUCERS {
            producers.spawn(produce(client.clone(), Arc::clone(&stop)));
        }
        Self { stop, producers }
    }

    async fn stop(self) -> Enqueued {
        self.stop.store(true, Ordering::Relaxed);
        let mut all = Enqueued::default();
        for mut one in self.producers.join_all().await {
            all.accepted.append(&mut one.accepted);
            all.not_durable.append(&mut one.not_durable);
            all.longest_without = all.longest_without.max(one.longest_without);
        }
        all
    }
}

async fn produce(client: Client, stop: Arc<AtomicBool>) -> Enqueued {
    let mut told = Enqueued::default();
    let mut last = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        match act::with("job".into(), vec![]).on(&client).enqueue().await {
            Ok(id) => {
                told.accepted.push(id.to_string());
                told.longest_without = told.longest_without.max(last.elapsed());
                last = Instant::now();
            }
            Err(Error::NotDurable { id, .. }) => told.not_durable.push(id.to_string()),
            Err(Error::Unavailable { .. } | Error::Uncertain { .. } | Error::Refused { .. }) => {}
            Err(error) => println!("{error}"),
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    // Nobody may have been accepted since.
    told.longest_without = told.longest_without.max(last.elapsed());
    told
}
