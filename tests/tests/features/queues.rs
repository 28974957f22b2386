//! Which queues there are, and which of them nobody serves.

use std::time::Duration;

use hworker::{Bulk, Client, QueueInfo};
use hworker_tests::{InProcess, TestServer, act};

use crate::SOON;

fn nothing(queue: &str) -> hworker::Enqueue<act> {
    act::with(queue.into(), Vec::new()).queue(queue)
}

async fn queues(client: &Client) -> Vec<(String, u64, usize)> {
    let queues = client.queues().await.expect("the queues").into_iter();
    queues
        .map(|QueueInfo { name, counts, workers, .. }| {
            (name, counts.waiting + counts.scheduled, workers)
        })
        .collect()
}

fn queue(name: &str, waiting: u64, workers: usize) -> (String, u64, usize) {
    (name.into(), waiting, workers)
}

#[tokio::test(flavor = "multi_thread")]
async fn pr8_queues_are_listed_by_their_jobs_and_workers() {
    // A queue is listed while it has jobs, however they came there, or a worker; an empty one is not, nor a key that looks alike.
    let server = TestServer::alone();
    let client = server.client();
    assert_eq!(queues(client).await, []);
    nothing("now").on(client).enqueue().await.expect("enqueued");
    nothing("later")
        .on(client)
        .delay(Duration::from_secs(3_600))
        .enqueue()
        .await
        .expect("scheduled");
    let bulk: Bulk = ["bulk-a", "bulk-b", "bulk-b"].into_iter().map(nothing).collect();
    bulk.on(client).enqueue().await.expect("enqueued");
    for key in ["hworker-jobs-foreign", "hworker-jobs-not a name", "other-jobs-x"] {
        let _: u64 = server.redis().ask(&["LPUSH", key, "x"]);
    }
    let registered: Vec<String> = server.redis().ask(&["HKEYS", "hworker-meta:queues"]);
    assert!(!registered.contains(&"foreign".to_owned()), "{registered:?}");
    let of_jobs = [
        queue("bulk-a", 1, 0),
        queue("bulk-b", 2, 0),
        queue("foreign", 1, 0),
        queue("later", 1, 0),
        queue("now", 1, 0),
    ];
    assert_eq!(queues(client).await, of_jobs);

    let worker = InProcess::run(server.worker().register::<act>().extra_queue("now"));
    let with_a_worker = |queues: &[(String, u64, usize)]| {
        queues.iter().filter(|queue| queue.2 == 1).map(|queue| queue.0.clone()).collect::<Vec<_>>()
    };
    server
        .eventually_async("both are served, and the job is done", SOON, async || {
            let queues = queues(client).await;
            with_a_worker(&queues) == ["default", "now"] && queues.contains(&queue("now", 0, 1))
        })
        .await;
    worker.stop().await;
    server
        .eventually_async("no worker, no jobs", SOON, async || queues(client).await == of_jobs[..4])
        .await;
    client.inspect("bulk-b").destroy(false).await.expect("destroyed");
    let registered: Vec<String> = server.redis().ask(&["HKEYS", "hworker-meta:queues"]);
    assert!(!registered.contains(&"bulk-b".to_owned()), "{registered:?}");
}

#[hworker::job(queue = "served")]
async fn of_served() {
    std::future::pending::<()>().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_with_jobs_and_no_worker_is_warned_of() {
    // Jobs wait where no worker serves -> a worker of other queues says so, once; not of a queue that is served, nor of one whose job
    // is for later.
    // Guard: `report/census.rs`.
    let server = TestServer::start();
    let client = server.client();
    let _of_another_program =
        InProcess::run(server.worker().register::<of_served>().concurrency(1));
    server.eventually("it is served", SOON, || server.redis().len("hworker-workers-served") == 1);
    let later = nothing("later").delay(Duration::from_secs(3_600));
    for job in [nothing("forgotten"), later] {
        job.on(client).enqueue().await.expect("enqueued");
    }
    for _ in 0..3 {
        of_served::with().on(client).enqueue().await.expect("enqueued");
    }
    let _worker = server.worker_process(&[]);
    let said = || {
        let report = server.report();
        let lines = report.lines().filter(|line| line.contains("that no worker serves"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    server.eventually("it is said", SOON, || !said().is_empty());
    let said = said();
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].contains("WARN") && said[0].contains("queues=\"forgotten\""), "{said:?}");
}
