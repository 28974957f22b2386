//! Row D9: what a worker says about a job that was given to another.

use std::time::Duration;

use hworker_tests::{Act, Fault, Proxy, TestServer};

use crate::{RECOVERED, SOON};

#[tokio::test(flavor = "multi_thread")]
async fn d9_stale_success_is_refused() {
    stale_result_is_refused(vec![]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn d9_stale_retry_is_refused() {
    stale_result_is_refused(vec![Act::Retry("of a stale worker".into())]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn d9_stale_failure_is_refused() {
    stale_result_is_refused(vec![Act::Failure("of a stale worker".into())]).await;
}

async fn stale_result_is_refused(result_of_a: Vec<Act>) {
    // A is stopped (`SIGSTOP`) past `dead_after`, B re-runs, A goes on and finishes -> A's result changes nothing (success,
    // retry, failure alike); B's does.
    // Guard: `settle.lua` removes the lease first, and does nothing where it was gone.
    let server = TestServer::start();
    // Through a proxy, so that A's result reaches the server before A learns that it was declared dead.
    let proxy = Proxy::before(&server);
    let slow = [("HWORKER_CONCURRENCY", "1"), ("HWORKER_REDIS_URL", &proxy.url())];
    let mut a = server.worker_process(&slow);
    let mut of_a = vec![Act::Gate("a".into()), Act::Note("a finishes".into())];
    of_a.extend(result_of_a);
    let id = server.enqueue("job", vec![of_a, vec![Act::Gate("b".into())]]).await;
    server.eventually("A runs it", SOON, || server.begun("job") == 1);
    a.stop();
    let mut b = server.worker_process(&[]);
    server.eventually("B runs it", RECOVERED, || server.begun("job") == 2);
    assert_eq!(server.runs_of("job")[1].pid, b.pid());
    let tokens: Vec<_> = server.runs_of("job").iter().map(|run| run.token).collect();
    assert!(tokens[0] < tokens[1], "{tokens:?}");

    let settled_before = proxy.count("settle");
    proxy.fault(1, "heartbeat", Fault::HangRequest);
    server.open("a");
    a.go_on();
    let finished = || server.runs_of("job").iter().any(|run| run.what == "a finishes");
    server.eventually("A finishes", SOON, finished);
    server.eventually("A says so", SOON, || proxy.count("settle") > settled_before);
    server.holds("it changes nothing", Duration::from_secs(4), || {
        let leased = server.redis().total("hworker-progress-default:*");
        let elsewhere = server.leftovers("default");
        leased == 1
            && elsewhere.len() == 1
            && server.begun("job") == 2
            && ["processed", "retried", "failed"].iter().all(|what| server.counter(what) == 0)
    });
    assert!(a.exited().is_none(), "A goes on");
    let found = server.inspect().find(&id).await.expect("looked for").expect("B holds it");
    assert_eq!(found.attempt, 1);

    server.open("b");
    server.eventually("B's result counts", SOON, || server.counter("processed") == 1);
    server.drained(SOON);
    assert_eq!(
        (server.begun("job"), server.counter("failed"), server.counter("retried")),
        (2, 0, 0)
    );

    // A is back under another id, and takes what it gets.
    b.kill();
    server.enqueue("next", Vec::new()).await;
    server.eventually("A runs it", RECOVERED, || server.ended("next") == 1);
    assert_eq!(server.runs_of("next")[0].pid, a.pid());
    assert_ne!(server.runs_of("next")[0].worker, server.runs_of("job")[0].worker);
}
