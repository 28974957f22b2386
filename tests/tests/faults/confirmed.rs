//! The look whether there are replicas, before anything is written that they should have: it may take its time, and it ends.

use std::time::{Duration, Instant};

use hworker::{Client, Durability, Error};
use hworker_tests::{Fault, InProcess, Machine, Proxy, TestServer, act};

use crate::support::{SOON, waits_by};

/// The look takes at least so long, where nobody cuts it short.
const LOOK: Duration = Duration::from_millis(1_500);

/// Waits until the server is asked for replicas that it does not have.
fn looks(server: &TestServer) {
    server.eventually("it looks", SOON, || waits_by(server, "wait"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_looks_for_replicas_ends_when_it_is_told() {
    // Told to stop by SIGTERM, or by its handle, while it waits for the replica that its enqueues ask for -> it ends at once,
    // and not after the look.
    // Guard: what stops the worker is heard beside `look_at_server` in `Worker::run_until`.
    let _machine = Machine::claim();
    let server = TestServer::alone();
    let mut process = server.worker_process(&[("HWORKER_DURABILITY", "replicated=1")]);
    looks(&server);
    process.terminate();
    let status = process.wait(LOOK).expect("it ends at once");
    assert!(status.success(), "{status}");

    let client = Client::builder().redis_url(server.url()).durability(Durability::replicated(1));
    let client = client.build().expect("a client");
    let worker = InProcess::run(server.worker().client(&client).register::<act>());
    looks(&server);
    let told = Instant::now();
    worker.stop().await;
    assert!(told.elapsed() < LOOK, "{:?}", told.elapsed());
}

/// A way to the server on which no question for replicas is answered, and a client that gives one a minute.
fn without_an_answer(server: &TestServer) -> (Proxy, Client) {
    let proxy = Proxy::before(server);
    for nth in 1..=20 {
        proxy.fault(nth, "WAIT", Fault::HangRequest);
    }
    let minute = Durability::replicated(1).within(Duration::from_secs(60));
    let client = Client::builder().redis_url(proxy.url()).durability(minute);
    (proxy, client.build().expect("a client"))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_enqueue_whose_look_is_not_answered_says_so() {
    // It hears before its own time, 5 s, is over that this was why, and nothing is enqueued.
    // Guard: `LOOK_WITHIN` in `store/confirm.rs`.
    let server = TestServer::alone();
    let (_proxy, client) = without_an_answer(&server);
    let error = act::with("job".into(), vec![]).on(&client).enqueue().await.expect_err("no answer");
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    assert!(error.to_string().contains("durability replicated=1"), "{error}");
    assert_eq!(server.redis().len("hworker-jobs-default"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_whose_look_is_not_answered_starts() {
    // Guard: as above.
    let server = TestServer::alone();
    let (_proxy, client) = without_an_answer(&server);
    server.enqueue("job", vec![]).await;
    let worker = InProcess::run(server.worker().client(&client).register::<act>());
    server.eventually("it runs", SOON, || server.ended("job") == 1);
    worker.stop().await;
}
