//! Rows Q.

use std::time::Duration;

use hworker_tests::{TestServer, act};

const SOON: Duration = Duration::from_secs(10);

#[tokio::test(flavor = "multi_thread")]
async fn q4_fifo() {
    // 1 worker, concurrency 1, enqueue 1..n -> order 1..n.
    // Guard: `reserve.lua` takes from the end that producers do not push to.
    let server = TestServer::start();
    for number in 1..=50 {
        act::with(format!("{number}"), Vec::new()).on(server.client()).enqueue().await.expect("in");
    }
    let _worker = server.worker_process(&[("HWORKER_CONCURRENCY", "1")]);
    server.eventually("all run", SOON, || server.ended("50") == 1);
    let begun = |number: u32| server.runs_of(&number.to_string())[0].at;
    assert!((1..50).all(|number| begun(number) < begun(number + 1)), "{}", server.report());
    server.drained(SOON);
}
