//! Enqueues and settlements that wait for replicas and disks.

use std::time::{Duration, Instant};

use hworker::{Bulk, Client, Durability, Error, Fate, Registry, Worker};
use hworker_tests::{InProcess, TestSentinels, TestServer, act, program};

use crate::SOON;

const JOBS: &str = "hworker-jobs-default";

fn job(client: &Client) -> hworker::Enqueue<act> {
    act::with("job".into(), vec![]).on(client)
}

/// How often the server ran a command.
fn calls(servers: &TestSentinels, command: &str) -> u64 {
    let stats: String = servers.redis(0).ask(&["INFO", "commandstats"]);
    let line = stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:")));
    let calls = line.and_then(|line| line.strip_prefix("calls=")?.split(',').next());
    calls.map_or(0, |calls| calls.parse().expect("a number"))
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_wait_for_their_replicas_together() {
    // With `replicated=1` an enqueue, a delayed one and a bulk are in, each once, and those that come together share a `WAIT`;
    // without it there is none.
    // Guard: `Connection::confirm`; the gathering of those who wait.
    let servers = TestSentinels::builder().replicas(1).start();
    job(servers.client()).enqueue().await.expect("enqueued");
    assert_eq!(calls(&servers, "wait"), 0);
    let client = servers.client_builder().durability(Durability::replicated(1));
    let client = client.build().expect("a client");
    let all = (0..500).map(|_| tokio::spawn(job(&client).enqueue())).collect::<Vec<_>>();
    for one in all {
        one.await.expect("no panic").expect("enqueued");
    }
    assert!(calls(&servers, "wait") < 200, "{}", calls(&servers, "wait"));
    job(&client).delay(Duration::from_secs(60)).enqueue().await.expect("enqueued");
    let bulk: Bulk = (0..2500).map(|_| job(&client)).collect();
    bulk.enqueue().await.expect("enqueued");
    assert_eq!(servers.redis(0).len(JOBS), 3001);
    assert_eq!(servers.redis(1).len(JOBS), 3001);
    assert_eq!(servers.redis(1).len("hworker-scheduled-default"), 1);
    let before = calls(&servers, "wait");
    job(&client).durability(Durability::accepted()).enqueue().await.expect("enqueued");
    assert_eq!(calls(&servers, "wait"), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_did_not_reach_its_replica_is_in_once() {
    // The replica stops: the job is in, once, and its enqueue says that it is not safe. The replica is gone: nothing is enqueued,
    // and that is what the error says. Others, who do not wait, are not held up. It is back: all is well again.
    // Guard: `FaultKind::NotDurable`; `can_confirm` before the first write on a connection.
    let servers = TestSentinels::builder().replicas(1).start();
    let asked = Durability::replicated(1).within(Duration::from_millis(700));
    let client = servers.client_builder().durability(asked);
    let client = client.enqueue_within(Duration::from_secs(2)).build().expect("a client");
    job(&client).enqueue().await.expect("enqueued");
    servers.stop(1, true);
    let bulk: Bulk = (0..1500).map(|_| job(&client)).collect();
    let Err(Error::Bulk { jobs, source }) = bulk.enqueue().await else { panic!("it is safe") };
    let count = |of| jobs.iter().filter(|(_, fate)| *fate == of).count();
    assert_eq!((count(Fate::NotDurable), count(Fate::NotEnqueued)), (1000, 500), "{source}");
    let error = job(&client).enqueue().await.expect_err("not enqueued");
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    assert_eq!(servers.redis(0).len(JOBS), 1001);

    let later = || job(&client).delay(Duration::from_secs(60));
    servers.stop(1, false);
    later().enqueue().await.expect("enqueued");
    servers.stop(1, true);
    let slow = tokio::spawn(job(&client).enqueue());
    servers.eventually("it waits for its replica", SOON, || {
        // Which is what a connection at rest did last, too: one that is blocked.
        let clients: String = servers.redis(0).ask(&["CLIENT", "LIST"]);
        clients.lines().any(|one| one.contains(" cmd=wait ") && one.contains(" flags=b "))
    });
    let begun = Instant::now();
    let behind = tokio::spawn(later().enqueue());
    let quick = job(&client).durability(Durability::accepted()).enqueue();
    quick.await.expect("enqueued");
    assert!(begun.elapsed() < Duration::from_millis(600), "{:?}", begun.elapsed());
    let error = slow.await.expect("no panic").expect_err("not safe");
    assert!(matches!(error, Error::NotDurable { .. }), "{error}");
    assert!(error.to_string().contains("0 of 1 replicas"), "{error}");
    // It came while the server was asked, and was not written behind that.
    let error = behind.await.expect("no panic").expect_err("not enqueued");
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    assert_eq!(servers.redis(0).len(JOBS), 1003);
    assert_eq!(servers.redis(0).len("hworker-scheduled-default"), 1);

    servers.kill(1);
    servers.eventually("the master knows", SOON, || {
        let info: String = servers.redis(0).ask(&["INFO", "replication"]);
        info.contains("connected_slaves:0")
    });
    let error = job(&client).enqueue().await.expect_err("not enqueued");
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    assert!(error.to_string().contains("0 of 1 replicas"), "{error}");
    assert_eq!(servers.redis(0).len(JOBS), 1003);

    servers.start_again(1);
    servers.wait_until_replicated(0);
    let _: String = servers.redis(0).ask(&["SET", "test:reached", "yes"]);
    // One that has just been synchronised may take a while to answer.
    let answers = || servers.redis(0).ask::<u64>(&["WAIT", "1", "1000"]) == 1;
    servers.eventually("it answers", SOON, answers);
    job(&client).enqueue().await.expect("enqueued");
    assert_eq!(servers.redis(1).len(JOBS), 1004);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_is_no_place_to_wait_at() {
    // A server that has become a replica answers `WAIT` with an error of no kind: nothing is enqueued, and another try may lead to
    // the master.
    // Guard: "cannot be used with replica instances" in `net/fault.rs`.
    let servers = TestSentinels::builder().replicas(1).start();
    let client = Client::builder().redis_url(servers.server_url(1));
    let client = client.durability(Durability::replicated(1));
    let client = client.enqueue_within(Duration::from_secs(1)).build().expect("a client");
    let error = job(&client).enqueue().await.expect_err("not enqueued");
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_cannot_wait_for_its_disk_says_so_before_anything_is_enqueued() {
    // `fsynced` on Redis 7.0, which has no `WAITAOF`, and on a Valkey that keeps nothing on disk: refused, nothing is in, a worker
    // does not start. On one that does, the job is on disk.
    // Guard: `can_confirm`.
    let refused = async |server: &TestServer, why: &str| {
        let client = Client::builder().redis_url(server.url());
        let client = client.durability(Durability::fsynced()).build().expect("a client");
        let enqueued = job(&client).enqueue().await.expect_err("not enqueued");
        let worker = Worker::builder().client(&client).registry(Registry::new().with::<act>());
        let ran = worker.build().expect("a worker").run().await.expect_err("not started");
        let settles = Worker::builder().client(server.client());
        let settles = settles.registry(Registry::new().with::<act>());
        let settles = settles.durability(Durability::fsynced()).build().expect("a worker");
        for error in [enqueued, ran, settles.run().await.expect_err("not started")] {
            assert!(matches!(error, Error::Refused { .. }), "{error}");
            assert!(error.to_string().contains(why), "{error}");
        }
        assert_eq!(server.redis().len(JOBS), 0);
    };
    if let Some(program) = program("redis-server") {
        let server = TestServer::builder().program(Some(&program)).append_only().start();
        let version: String = server.redis().ask(&["INFO", "server"]);
        if version.contains("redis_version:7.0") {
            refused(&server, "from 7.2 on").await;
        }
    }
    let Some(program) = program("valkey-server") else { return };
    let server = TestServer::builder().program(Some(&program)).start();
    refused(&server, "appendonly").await;
    let server = TestServer::builder().program(Some(&program)).append_only().start();
    job(server.client()).durability(Durability::fsynced()).enqueue().await.expect("enqueued");
    server.process().kill();
    server.restart();
    assert_eq!(server.redis().len(JOBS), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn settlements_wait_for_their_replicas_and_do_not_stop_without() {
    // A worker that settles with `replicated=1`: its results are on the replica. When the replica is gone the worker goes on,
    // and every job is settled once.
    // Guard: `Queue::settle` is confirmed; `Fetch::has_settled` counts what is not safe as settled.
    let servers = TestSentinels::builder().replicas(1).start();
    let asked = Durability::replicated(1).within(Duration::from_millis(300));
    let worker = servers.worker().register::<act>().durability(asked);
    let worker = InProcess::run(worker);
    let processed = |server: usize| {
        let counted: Option<u64> =
            servers.redis(server).ask(&["HGET", "hworker-stat-default", "processed"]);
        counted.unwrap_or(0)
    };
    for _ in 0..50 {
        job(servers.client()).enqueue().await.expect("enqueued");
    }
    servers.eventually("all are settled", SOON, || processed(0) == 50);
    assert!(calls(&servers, "wait") > 0);
    servers.eventually("the replica has it", SOON, || processed(1) == 50);
    servers.kill(1);
    for _ in 0..20 {
        job(servers.client()).enqueue().await.expect("enqueued");
    }
    servers.eventually("all are settled", SOON, || processed(0) == 70);
    assert_eq!(servers.notes().begun("job"), 70);
    worker.stop().await;
}
