//! A queue that is deeper than can be read.

use super::*;
use crate::embedded::Server;
use crate::store::DEEPEST;

#[hworker::job]
#[allow(clippy::unused_async)]
async fn waits() {}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operate_44_found_absent_or_not_reached() {
    // Among more jobs than are read from both ends: one near either end is found; of one that is nowhere to be seen it is not known
    // whether it is in the middle. In a shorter queue it is absent.
    // Guard: `is_cut` in `fill_from_list`, and in `Inspect::find`.
    let server = Server::start().expect("a server");
    let client = Client::new(server.url()).expect("a client");
    let queue = client.inspect(crate::config::defaults::QUEUE);
    let nowhere = JobId::from("nowhere");
    let enqueue = |count: u64| {
        let client = client.clone();
        async move {
            let bulk: crate::Bulk = (0..count).map(|_| waits::with()).collect();
            bulk.on(&client).enqueue().await.expect("enqueued")
        }
    };
    let first = enqueue(2).await.swap_remove(1);
    assert!(queue.find(&nowhere).await.expect("looked for").is_none());
    let last = enqueue(2 * DEEPEST + 5_000).await.pop().expect("an id");
    for id in [&first, &last] {
        let found = queue.find(id).await.expect("looked for").expect("found");
        assert_eq!(found.id.as_ref(), Some(id));
    }
    let unknown = queue.find(&nowhere).await.expect_err("not known");
    assert!(matches!(unknown, Error::Unanswered { .. }), "{unknown}");
    assert!(unknown.to_string().contains("too deep"), "{unknown}");
}
