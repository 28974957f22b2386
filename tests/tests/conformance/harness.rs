//! The harness itself: a proxy that lost nothing would let every fault test pass.

use std::time::Duration;

use hworker::Error;
use hworker_tests::{Act, Fault, Proxy, TestServer, act};

use crate::SOON;

#[tokio::test(flavor = "multi_thread")]
async fn the_proxy_loses_a_request() {
    let server = TestServer::start();
    let proxy = Proxy::before(&server);
    proxy.fault(2, "LPUSH", Fault::LoseRequest);
    let client = proxy.client();
    act::with("first".into(), Vec::new()).on(&client).enqueue().await.expect("passes");
    let lost = act::with("second".into(), Vec::new()).on(&client).enqueue().await;
    assert!(matches!(lost, Err(Error::Uncertain { .. })), "{lost:?}");
    assert!(proxy.all_happened());
    assert_eq!(server.redis().len("hworker-jobs-default"), 1);
    act::with("third".into(), Vec::new()).on(&client).enqueue().await.expect("a new connection");
    assert_eq!((proxy.count("LPUSH"), server.redis().len("hworker-jobs-default")), (3, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_proxy_loses_a_reply() {
    let server = TestServer::start();
    let proxy = Proxy::before(&server);
    proxy.fault(1, "schedule", Fault::LoseReply);
    let soon = act::with("lost".into(), Vec::new()).on(&proxy.client()).delay(SOON);
    let lost = soon.enqueue().await;
    assert!(matches!(lost, Err(Error::Uncertain { .. })), "{lost:?}");
    assert_eq!(server.redis().len("hworker-scheduled-default"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_proxy_holds_a_request_until_it_is_released() {
    let server = TestServer::start();
    let proxy = Proxy::before(&server);
    proxy.fault(1, "LPUSH", Fault::HoldRequest);
    let client = proxy.client();
    let held = act::with("held".into(), Vec::new()).on(&client).enqueue();
    let held = tokio::time::timeout(Duration::from_millis(300), held).await;
    assert!(held.is_err(), "no answer: {held:?}");
    assert_eq!(server.redis().len("hworker-jobs-default"), 0);
    proxy.release();
    server.eventually("it arrives", SOON, || server.redis().len("hworker-jobs-default") == 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_proxy_is_unreachable_until_it_heals() {
    let server = TestServer::start();
    let proxy = Proxy::before(&server);
    let client = proxy.client();
    act::with("first".into(), Vec::new()).on(&client).enqueue().await.expect("passes");
    proxy.unreachable(true);
    let second = tokio::spawn(act::with("second".into(), Vec::new()).on(&client).enqueue());
    server.holds("it does not arrive", Duration::from_millis(300), || {
        server.redis().len("hworker-jobs-default") == 1
    });
    proxy.unreachable(false);
    second.await.expect("no panic").expect("what was on its way arrives");
}

#[tokio::test(flavor = "multi_thread")]
async fn processes_note_their_runs_and_can_be_killed() {
    let server = TestServer::start();
    let mut worker = server.worker_process(&[]);
    let plan = vec![vec![Act::Note("in between".into()), Act::Gate("go".into())]];
    act::with("seen".into(), plan).on(server.client()).enqueue().await.expect("enqueued");
    server.eventually("it waits at the gate", SOON, || server.runs_of("seen").len() == 2);
    assert_eq!(server.runs_of("seen")[0].pid, worker.pid());
    assert!(server.report().contains("test:runs:seen"), "{}", server.report());
    server.open("go");
    server.eventually("it ends", SOON, || server.ended("seen") == 1);
    worker.terminate();
    assert!(worker.wait(SOON).expect("it ends").success());
    let mut worker = server.worker_process(&[]);
    worker.kill();
    assert!(!worker.exited().expect("it has ended").success());
}
