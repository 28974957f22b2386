//! What is left of connections that nobody holds any more.

use std::time::Duration;

use hworker::Client;
use hworker_tests::{TestServer, act};
use tokio::runtime::Handle;

use super::SOON;

#[tokio::test]
async fn a_dropped_client_leaves_no_task() {
    // Guard: the last clone of a `Connection` ends it.
    let server = TestServer::start();
    let tasks = || Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    for _ in 0..20 {
        let client = Client::new(server.url()).expect("a client");
        act::with("a".into(), Vec::new()).on(&client).enqueue().await.expect("enqueued");
    }
    let gone = async {
        while tasks() > before {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let in_time = tokio::time::timeout(SOON, gone).await;
    assert!(in_time.is_ok(), "{} tasks are left of {before}", tasks());
}
