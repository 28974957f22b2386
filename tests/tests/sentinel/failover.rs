//! Failovers while jobs run.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hworker::{Durability, Error};
use hworker_tests::{Act, InProcess, TestSentinels, act, program};

use crate::{GOES_ON, SOON};

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_master_is_left_for_the_new_one_on_redis() {
    // kill -9 of the master, whose replicas have everything, while jobs run, wait and are scheduled: enqueues are in or a clear
    // error, and go on at the new master; every accepted job is settled once. Then the same with the second
    // master, after the first came back as a replica.
    // Guard: `Sentinels::connect` asks for every connection.
    if let Some(program) = program("redis-server") {
        killed_masters(&TestSentinels::builder().program(&program).start()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_master_is_left_for_the_new_one_on_valkey() {
    // The same.
    // Guard: as above.
    if let Some(program) = program("valkey-server") {
        killed_masters(&TestSentinels::builder().program(&program).start()).await;
    }
}

async fn killed_masters(servers: &TestSentinels) {
    let _workers = [servers.worker_process(&[]), servers.worker_process(&[])];
    let notes = servers.notes();
    let mut master = 0;
    for round in 0..2 {
        let name = |what: &str| format!("{what}-{round}");
        for _ in 0..4 {
            servers.enqueue(&name("long"), vec![vec![Act::Gate(name("gate"))]]).await;
            let later = act::with(name("later"), vec![]).on(servers.client());
            later.delay(Duration::from_secs(4)).enqueue().await.expect("enqueued");
        }
        servers.eventually("they run", SOON, || notes.begun(&name("long")) == 4);
        servers.wait_until_replicated(master);
        servers.kill(master);
        let mut refused = 0;
        let accepted = loop {
            match act::with(name("after"), vec![]).on(servers.client()).enqueue().await {
                Ok(id) => break id.to_string(),
                Err(Error::Unavailable { .. } | Error::Uncertain { .. }) => refused += 1,
                Err(error) => panic!("{error}"),
            }
            assert!(refused < 20, "{}", servers.report());
        };
        let new = servers.failed_over_from(master);
        notes.open(&name("gate"));
        servers.eventually("what ran ends", GOES_ON, || notes.ended(&name("long")) == 4);
        servers.eventually("what was due runs", GOES_ON, || notes.ended(&name("later")) == 4);
        servers.eventually("what came since runs", GOES_ON, || {
            notes.runs_of(&name("after")).iter().any(|run| run.id == accepted && run.what == "end")
        });
        let begun = [notes.begun(&name("long")), notes.begun(&name("later"))];
        assert_eq!(begun, [4, 4], "{}", notes.report());
        servers.start_again(master);
        servers.wait_until_whole();
        master = new;
    }
    let counts = servers.client().inspect("default").counts().await.expect("the counts");
    assert_eq!((counts.waiting, counts.running, counts.scheduled), (0, 0, 0));
    let statistics = servers.client().inspect("default").statistics(None).await.expect("them");
    let settled = statistics["processed"] as usize;
    let ended: usize = ["long-0", "long-1", "later-0", "later-1", "after-0", "after-1"]
        .iter()
        .map(|name| notes.ended(name))
        .sum();
    assert_eq!(settled, ended, "{statistics:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failover_for_maintenance_interrupts_nothing() {
    // `SENTINEL FAILOVER` twice under load, with a server that refuses writes while it has no replica: jobs that were accepted
    // run, but for those that the old master took in its last moments, which are counted; each worker
    // lives on under its id.
    // Guard: `READONLY` and `UNBLOCKED` end the connection; `note` ends those to the old master.
    let servers = TestSentinels::builder().arg("min-replicas-to-write", "1").start();
    let worker = InProcess::run(servers.worker().concurrency(10).register::<act>());
    let notes = servers.notes();
    let stop = Arc::new(AtomicBool::new(false));
    let producing = tokio::spawn(produce(servers.client().clone(), Arc::clone(&stop)));
    servers.eventually("jobs run", SOON, || notes.ended("job") > 20);
    let mut master = 0;
    for _ in 0..2 {
        servers.fail_over();
        master = servers.failed_over_from(master);
        let before = notes.ended("job");
        servers.eventually("jobs go on", GOES_ON, || notes.ended("job") > before + 50);
        servers.wait_until_whole();
    }
    stop.store(true, Ordering::Relaxed);
    let accepted = producing.await.expect("no panic");
    let ran = || {
        let ended = notes.runs_of("job").into_iter().filter(|run| run.what == "end");
        ended.map(|run| run.id).collect::<HashSet<_>>()
    };
    let lost = || accepted.difference(&ran()).count();
    servers.eventually("nearly all that were accepted run", GOES_ON, || {
        lost() * 20 < accepted.len() && servers.redis(master).len("hworker-jobs-default") == 0
    });
    let workers: HashSet<_> = notes.runs_of("job").into_iter().map(|run| run.worker).collect();
    println!("{} accepted, {} lost", accepted.len(), lost());
    assert_eq!(workers.len(), 1, "{workers:?}");
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_replica_has_survives_its_master_on_redis() {
    // `replicated=1` under load, and the master is killed, twice: every accepted job runs. (Those of which it was said that they
    // may not be safe, or in, are left out.)
    // Guard: `Connection::confirm`.
    if let Some(program) = program("redis-server") {
        survives(&TestSentinels::builder().program(&program).start()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_replica_has_survives_its_master_on_valkey() {
    // The same.
    // Guard: as above.
    if let Some(program) = program("valkey-server") {
        survives(&TestSentinels::builder().program(&program).start()).await;
    }
}

async fn survives(servers: &TestSentinels) {
    let durable = servers.client_builder().durability(Durability::replicated(1));
    let durable = durable.build().expect("a client");
    let worker = InProcess::run(servers.worker().concurrency(10).register::<act>());
    let notes = servers.notes();
    let stop = Arc::new(AtomicBool::new(false));
    let producers: Vec<_> =
        (0..4).map(|_| tokio::spawn(produce(durable.clone(), Arc::clone(&stop)))).collect();
    servers.eventually("jobs run", SOON, || notes.ended("job") > 50);
    let mut master = 0;
    for _ in 0..2 {
        servers.kill(master);
        let new = servers.failed_over_from(master);
        let before = notes.ended("job");
        servers.eventually("jobs go on", GOES_ON, || notes.ended("job") > before + 50);
        servers.start_again(master);
        servers.wait_until_whole();
        master = new;
    }
    stop.store(true, Ordering::Relaxed);
    let mut accepted = HashSet::new();
    for producer in producers {
        accepted.extend(producer.await.expect("no panic"));
    }
    servers.eventually("all run", GOES_ON, || {
        let ended = notes.runs_of("job").into_iter().filter(|run| run.what == "end");
        let ended: HashSet<_> = ended.map(|run| run.id).collect();
        accepted.is_subset(&ended)
    });
    let (begun, settled) = (notes.begun("job"), accepted.len());
    println!("{settled} accepted, {begun} runs");
    // Those that ran when a master died may run again, ten at each.
    assert!(begun <= settled + 40 + 20, "{begun} runs of {settled}");
    worker.stop().await;
}

/// Enqueues one job after the other; gives the ids of those that were accepted.
async fn produce(client: hworker::Client, stop: Arc<AtomicBool>) -> HashSet<String> {
    let mut accepted = HashSet::new();
    while !stop.load(Ordering::Relaxed) {
        match act::with("job".into(), vec![]).on(&client).enqueue().await {
            Ok(id) => drop(accepted.insert(id.to_string())),
            Err(Error::Unavailable { .. } | Error::Uncertain { .. } | Error::NotDurable { .. }) => {
            }
            Err(error) => panic!("{error}"),
        }
        // The pace of the producer.
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    accepted
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_master_that_lives_on_is_left() {
    // The network between the master and the rest breaks, but not to us: the sentinels make another one the master, and a
    // connection that is in perfect order is given up, since what the old master still takes will be lost.
    // Guard: `follow` in `net/sentinel.rs`.
    let servers = TestSentinels::start();
    servers.enqueue("job", vec![]).await;
    servers.wait_until_replicated(0);
    servers.cut_off(0);
    let new = servers.failed_over_from(0);
    let jobs = |server: usize| servers.redis(server).len("hworker-jobs-default");
    servers.eventually("the sentinels have said so", SOON, || jobs(new) >= 1);
    let mut last = jobs(0);
    let given_up = std::time::Instant::now() + SOON;
    loop {
        servers.enqueue("job", vec![]).await;
        if jobs(new) > 1 {
            break;
        }
        last = jobs(0);
        assert!(std::time::Instant::now() < given_up, "still at the old master: {last}");
        // The next look at the old master.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    for _ in 0..10 {
        servers.enqueue("job", vec![]).await;
    }
    assert_eq!(jobs(0), last);
    assert_eq!(jobs(new), 12);
}
