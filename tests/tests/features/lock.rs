//! Row O8: a lock for code of the user.

use std::time::Duration;

use hworker::{Client, Error};
use hworker_tests::TestServer;

use crate::SOON;

const LONG: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread")]
async fn o8_distributed_lock() {
    // The same holder extends, another is refused, expiry frees, and nobody but the holder gives it back.
    // Guard: the comparison of tokens in lock.lua.
    let server = TestServer::start();
    let (one, two) = (server.client().clone(), Client::new(server.url()).expect("a client"));
    let lock = one.lock("import", LONG).await.expect("asked").expect("taken");
    assert!(two.lock("import", LONG).await.expect("asked").is_none());
    assert!(one.lock("import", LONG).await.expect("asked").is_none(), "a second in one program");
    let other = two.lock("another", LONG).await.expect("asked").expect("of another name");
    assert!(lock.extend(LONG * 2).await.expect("asked"));
    let left: u64 = server.redis().ask(&["PTTL", "hworker-lock-import"]);
    assert!(left > 60_000, "{left}");
    assert!(lock.release().await.expect("released"));
    assert!(other.release().await.expect("released"));
    assert_eq!(server.redis().keys("hworker-lock-*").len(), 0);

    let lock = two.lock("import", Duration::from_millis(200)).await.expect("asked").expect("taken");
    let mut taken = None;
    server
        .eventually_async("its time is over", SOON, async || {
            taken = one.lock("import", LONG).await.expect("asked");
            taken.is_some()
        })
        .await;
    assert!(!lock.extend(LONG).await.expect("asked"), "another has it");
    assert!(!lock.release().await.expect("asked"));
    assert!(taken.expect("a lock").extend(LONG).await.expect("asked"), "which that does not end");
}

#[tokio::test(flavor = "multi_thread")]
async fn o8_one_of_many_takes_it() {
    let server = TestServer::start();
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..50 {
        let client = server.client().clone();
        tasks.spawn(async move { client.lock("one", LONG).await.expect("asked") });
    }
    let taken = tasks.join_all().await.into_iter().flatten().count();
    assert_eq!(taken, 1);
    for wrong in ["", "a b", "a{b}"] {
        let error = server.client().lock(wrong, LONG).await.expect_err("wrong");
        assert!(matches!(error, Error::Config(_)), "{wrong}: {error}");
    }
    assert!(matches!(server.client().lock("x", Duration::ZERO).await, Err(Error::Config(_))));
    let _: u64 = server.redis().ask(&["LPUSH", "hworker-lock-list", "x"]);
    let error = server.client().lock("list", LONG).await.expect_err("of another type");
    assert!(matches!(error, Error::Refused { .. }), "{error}");
}
