//! What is left of connections that nobody holds any more, and of callers who ask no more.

use std::pin::pin;
use std::task::{Context, Waker};
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

#[tokio::test]
async fn who_is_not_polled_while_a_connection_is_made_for_him_holds_up_nobody() {
    // As in a `select!` that goes another way, and enqueues there.
    // Guard: a task of its own makes connections, in `client/connections.rs`.
    let server = TestServer::start();
    let client = Client::new(server.url()).expect("a client");
    let job = || act::with("a".into(), Vec::new()).on(&client);
    let mut first = pin!(job().delay(SOON).enqueue());
    assert!(first.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    job().enqueue().await.expect("enqueued");
    job().delay(SOON).enqueue().await.expect("scheduled");
    first.await.expect("scheduled");
    assert_eq!(server.redis().len("hworker-jobs-default"), 1);
    assert_eq!(server.redis().len("hworker-scheduled-default"), 2);
}
