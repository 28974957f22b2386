//! A line to the server that is slow, in one direction or the other: what arrives late has not been lost.

use std::time::Duration;

use hworker::Bulk;
use hworker_tests::{Act, InProcess, Proxy, TestServer, weigh};

use crate::support::{SOON, counter, put};

/// What a body needs that only ends.
#[hworker::job]
// It would be blocking otherwise, and get a thread of its own.
#[allow(clippy::unused_async)]
async fn light(text: String) {
    drop(text);
}

/// How many jobs the server holds for all workers of the queue.
fn leases(server: &TestServer) -> u64 {
    let keys: Vec<String> = server.redis().ask(&["KEYS", "hworker-progress-default:*"]);
    keys.iter().map(|key| server.redis().ask::<u64>(&["HLEN", key])).sum()
}

#[test]
fn a_job_of_16_mb_over_24_mbit() {
    // One answer brings a job for longer than a call without any sign of life would be waited for -> the job runs, once, and others
    // beside it; the log says which job took so long.
    // Guard: `Connection::unless_silent`.
    const BYTES: usize = 16_000_000;
    let server = TestServer::start();
    let proxy = Proxy::before(&server);
    proxy.limit_rates(0, 3_000_000);
    let job = weigh::with("large".into(), "x".repeat(BYTES)).on(server.client());
    let id = job.enqueue_blocking().expect("enqueued");
    put(&server, "small", vec![]);
    let worker = server.worker_process(&[("HWORKER_REDIS_URL", &proxy.url())]);
    server.eventually("both run", Duration::from_secs(60), || {
        server.runs_of("large").len() == 1 && server.ended("small") == 1
    });
    server.drained(SOON);
    assert_eq!((counter(&server, "processed"), counter(&server, "recovered")), (2, 0));
    drop(worker);
    let log = std::fs::read_to_string(server.dir().join("process-0.log")).expect("the log");
    let line = log.lines().find(|line| line.contains("the line to the server is slow"));
    let line = line.unwrap_or_else(|| panic!("{log}"));
    assert!(line.contains(id.as_str()) && line.contains("(16000"), "{line}");
}

#[tokio::test(flavor = "multi_thread")]
async fn many_jobs_over_100_kb_a_second() {
    // What is reserved ahead takes seconds to arrive -> all run, and the server holds no more for the worker than its slots and what it
    // fetches ahead.
    // Guard: `Connection::unless_silent`, and that nothing is reserved while more is to be settled than a call carries.
    const JOBS: u64 = 2_000;
    let server = TestServer::start();
    let proxy = Proxy::before(&server);
    proxy.limit_rates(0, 100_000);
    let text = "x".repeat(2_000);
    let jobs: Bulk = (0..JOBS).map(|_| light::with(text.clone())).collect();
    jobs.on(server.client()).enqueue().await.expect("enqueued");
    let builder = server.worker().client(&proxy.client()).register::<light>().concurrency(20);
    let worker = InProcess::run(builder);
    let mut most = 0;
    let all_ran = async || {
        most = most.max(leases(&server));
        counter(&server, "processed") == JOBS
    };
    server.eventually_async("all run", Duration::from_secs(120), all_ran).await;
    println!("2,000 jobs of 2 kB over 100 kB/s: at most {most} leases at once");
    assert!(most <= 1_020, "{most} leases");
    worker.stop().await;
}

#[test]
fn a_retry_of_1_mb_over_1_mbit() {
    // What an attempt leaves takes longer to leave than a silent call would be waited for -> it leaves, once; other jobs start, and the
    // worker stops as soon as it has.
    // Guard: `Connection::unless_silent`, to which bytes that leave a full line are signs of life.
    let server = TestServer::start();
    let proxy = Proxy::before(&server);
    proxy.limit_rates(125_000, 0);
    let unused = vec![Act::Note("x".repeat(1_000_000))];
    put(&server, "large", vec![vec![Act::Retry("again".into())], vec![], unused]);
    let mut worker = server.worker_process(&[("HWORKER_REDIS_URL", &proxy.url())]);
    server.eventually("the first attempt ends", SOON, || server.begun("large") == 1);
    put(&server, "small", vec![]);
    server.eventually("both end", Duration::from_secs(40), || {
        server.ended("large") == 1 && server.ended("small") == 1
    });
    assert_eq!(server.begun("large"), 2);
    worker.terminate();
    assert!(worker.wait(SOON).is_some_and(|status| status.success()));
    server.drained(Duration::ZERO);
    assert_eq!((counter(&server, "retried"), counter(&server, "recovered")), (1, 0));
}

#[tokio::test]
async fn a_bulk_of_20_mb_over_600_kb_a_second() {
    // One write takes longer than a silent one would be waited for -> every job is in, and nobody is told that it may not be.
    // Guard: `Connection::unless_silent`.
    const JOBS: usize = 20_000;
    let server = TestServer::start();
    let proxy = Proxy::before(&server);
    proxy.limit_rates(600_000, 0);
    let text = "x".repeat(1_000);
    let jobs: Bulk = (0..JOBS).map(|_| light::with(text.clone())).collect();
    let ids = jobs.on(&proxy.client()).enqueue().await.expect("all are enqueued");
    assert_eq!(ids.len(), JOBS);
    assert_eq!(server.redis().len("hworker-jobs-default"), JOBS as u64);
}

#[tokio::test]
async fn enqueues_beside_a_large_one_on_a_slow_line() {
    // Callers who share a write with one whose bytes take longer than their time -> all are told that their jobs are in.
    // Guard: `Connection::unless_silent`.
    let server = TestServer::start();
    let proxy = Proxy::before(&server);
    proxy.limit_rates(300_000, 0);
    let client = proxy.client();
    let first = light::with("first".into()).on(&client);
    first.enqueue().await.expect("enqueued");
    let enqueue = |bytes: usize| tokio::spawn(light::with("x".repeat(bytes)).on(&client).enqueue());
    let mut all: Vec<_> = [2_500_000, 10, 10, 10, 10].into_iter().map(enqueue).collect();
    for job in all.drain(..) {
        job.await.expect("no panic").expect("enqueued");
    }
    assert_eq!(server.redis().len("hworker-jobs-default"), 6);
}
