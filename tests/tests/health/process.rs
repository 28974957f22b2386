//! What a worker process says of itself while something is wrong with it or with its server.

use std::time::Duration;

use hworker_tests::{Act, TestServer, act};

use crate::probe::{Probed, SOON};

fn put(server: &TestServer, name: &str, plan: Vec<Vec<Act>>) {
    act::with(name.to_owned(), plan).on(server.client()).enqueue_blocking().expect("enqueued");
}

#[test]
fn an_outage_takes_readiness_and_leaves_liveness() {
    // Ready after its start; the server is stopped for longer than a stuck runtime is tolerated, then killed and started
    // again: live all the while, not ready within 8 s, ready again by itself.
    // Guard: `Health::live` does not ask for the pulse, `Health::ready` does.
    let server = TestServer::builder().append_only().start();
    let worker = Probed::start(&server, &[]);
    server.eventually("it is ready", SOON, || worker.is_ready());
    assert_eq!(worker.get("/ready"), (200, "{\"ready\":true}\n".into()));
    assert_eq!(worker.get("/live"), (200, "{\"live\":true}\n".into()));

    server.process().pause();
    let lost = "the server has accepted no heartbeat of the queue";
    server.eventually("it is not ready", SOON, || worker.is_unready_since(lost));
    server.holds("it is live", Duration::from_secs(11), || worker.is_live());
    assert!(worker.is_unready_since(lost));
    server.process().resume();
    server.eventually("it is ready again", SOON, || worker.is_ready());

    server.process().kill();
    server.eventually("it is not ready", SOON, || worker.is_unready_since(lost));
    assert!(worker.is_live());
    server.restart();
    server.eventually("it is ready again", SOON, || worker.is_ready());
}

#[test]
fn a_worker_whose_server_is_not_there_yet_is_live_and_not_ready() {
    // Guard: probes are answered before the server is looked at.
    let server = TestServer::start();
    let nowhere = [("HWORKER_REDIS_URL", "redis+unix:///nowhere/redis.sock")];
    let worker = Probed::start(&server, &nowhere);
    server.eventually("it waits for a heartbeat", SOON, || worker.is_unready_since("yet"));
    assert!(worker.is_live());
}

#[test]
fn a_worker_that_drains_is_live_and_not_ready() {
    // SIGTERM while a job runs: not ready, but live until the job has ended; ends with 0.
    // Guard: `Health::ready` looks whether the worker was told to stop.
    let server = TestServer::start();
    let mut worker = Probed::start(&server, &[]);
    put(&server, "held", vec![vec![Act::Gate("go".into())]]);
    server.eventually("it runs", SOON, || server.begun("held") == 1);
    assert!(worker.is_ready());
    worker.process.terminate();
    server.eventually("it is not ready", SOON, || worker.is_unready_since("told to stop"));
    assert!(worker.is_live());
    server.open("go");
    let status = worker.process.wait(SOON).expect("it ends");
    assert!(status.success(), "{status}\n{}", server.report());
}

#[test]
fn a_runtime_that_bodies_block_is_not_live_and_the_probe_is_answered() {
    // Async bodies block every thread for 14 s: not live after 10 s, and says why; live again when they have ended.
    // Guard: the endpoint has a thread of its own; `Health::live` looks at the runtime of the bodies.
    let server = TestServer::start();
    let settings = [("TOKIO_WORKER_THREADS", "2"), ("HWORKER_CONCURRENCY", "4")];
    let worker = Probed::start(&server, &settings);
    server.eventually("it is ready", SOON, || worker.is_ready());
    for _ in 0..4 {
        put(&server, "blocks", vec![vec![Act::Block(14_000)]]);
    }
    server.eventually("it is not live", SOON, || {
        let (status, text) = worker.get("/live");
        status == 503 && text.contains("bodies block its threads")
    });
    assert!(!worker.is_ready());
    server.eventually("all have ended", Duration::from_secs(40), || server.ended("blocks") == 4);
    server.eventually("it is live again", SOON, || worker.is_live() && worker.is_ready());
}
