//! Bulks: many jobs in few round trips.

use std::time::Duration;

use hworker::{Bulk, Client, Error, Fate, JobId};
use hworker_tests::{Fault, Proxy, TestServer, act, weigh};
use serde_json::Value;

use crate::SOON;

#[hworker::job(queue = "ratios")]
async fn ratio(value: f64) {
    let _ = value;
}

fn job(name: impl ToString) -> hworker::Enqueue<act> {
    act::with(name.to_string(), Vec::new())
}

/// The ids of the jobs in a queue, the next to run first.
fn ids(server: &TestServer, queue: &str) -> Vec<JobId> {
    let key = format!("hworker-jobs-{queue}");
    let envelopes: Vec<String> = server.redis().ask(&["LRANGE", &key, "0", "-1"]);
    let id = |envelope: &String| {
        let envelope: Value = serde_json::from_str(envelope).expect("an envelope");
        JobId::from(envelope["id"].as_str().expect("an id"))
    };
    envelopes.iter().rev().map(id).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn q9_atomic_bulk_enqueue() {
    // Enqueue n with one invalid -> 0 enqueued (all are encoded before the first write); valid -> n, in order; atomic up to one
    // chunk of 1000.
    // Guard: `Bulk::encode` before `send`; one command for a chunk.
    let server = TestServer::start();
    let proxy = Proxy::before(&server);
    let client = Client::builder().redis_url(proxy.url()).max_payload(1000).build();
    let client = client.expect("a client");

    let wrong = Bulk::new()
        .add(job("right"))
        .add(job("wrong").queue("a b"))
        .add(ratio::with(0.5))
        .add(ratio::with(f64::NAN))
        .add(weigh::with("large".into(), "x".repeat(1000)))
        .add(job("right").delay(SOON));
    assert_eq!(wrong.len(), 6);
    let error = wrong.on(&client).enqueue().await.expect_err("three are wrong");
    let Error::Invalid { jobs } = &error else { panic!("{error}") };
    let [(1, Error::Config(_)), (3, Error::Encode { .. }), (4, Error::Refused { .. })] = &jobs[..]
    else {
        panic!("{error}")
    };
    let text = error.to_string();
    for word in ["job 1: the queue's name `a b`", "job 3: ", "NaN", "job 4: ", "max_payload"] {
        assert!(text.contains(word), "{word}: {text}");
    }
    assert!(server.redis().keys("*").is_empty());

    let bulk: Bulk = (0..1000).map(job).collect();
    let enqueued = bulk.on(&client).enqueue().await.expect("enqueued");
    assert_eq!((proxy.count("LPUSH"), enqueued.len()), (1, 1000));
    assert_eq!(ids(&server, "default"), enqueued);
    server.redis().ask::<u64>(&["DEL", "hworker-jobs-default"]);

    // A chunk is in or not, as a whole: where there is no room, where its key is in use, where its answer is lost.
    server.redis().ask::<String>(&["CONFIG", "SET", "maxmemory", "1"]);
    let bulk: Bulk = (0..1000).map(job).collect();
    let error = bulk.on(&client).enqueue().await.expect_err("no room");
    assert!(matches!(error, Error::Refused { .. }), "{error}");
    assert!(error.to_string().contains("a bulk of 1000 jobs"), "{error}");
    server.redis().ask::<String>(&["CONFIG", "SET", "maxmemory", "0"]);
    assert!(ids(&server, "default").is_empty());

    proxy.fault(1, "LPUSH", Fault::LoseReply);
    let bulk: Bulk = (0..1000).map(job).collect();
    let error = bulk.on(&client).enqueue().await.expect_err("the answer is lost");
    let Error::Bulk { jobs, .. } = error else { panic!("{error}") };
    assert!(jobs.iter().all(|(_, fate)| *fate == Fate::Uncertain));
    let uncertain: Vec<_> = jobs.into_iter().map(|(id, _)| id).collect();
    assert_eq!(ids(&server, "default"), uncertain);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bulk_is_in_order_though_its_chunks_wait_for_a_connection() {
    // Bulks of several chunks, each by a client that has no connection yet, which all of them await -> each is in the queue in
    // its order.
    // Guard: `Order` of `bulk.rs`.
    let server = TestServer::start();
    for _ in 0..30 {
        let client = Client::new(server.url()).expect("a client");
        let bulk: Bulk = (0..7_001).map(job).collect();
        let enqueued = bulk.on(&client).enqueue().await.expect("enqueued");
        assert_eq!(ids(&server, "default"), enqueued);
        server.redis().ask::<u64>(&["DEL", "hworker-jobs-default"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn en5_bulk_enqueue() {
    // N jobs in as few requests as they fit in: any types, queues and delays; the ids in the order of the bulk.
    // Guard: `chunks` of `bulk.rs`.
    let server = TestServer::start();
    let proxy = Proxy::before(&server);
    let client = proxy.client();
    let mut bulk = Bulk::new().on(&client);
    assert!(bulk.is_empty());
    assert!(Bulk::new().on(&client).enqueue().await.expect("nothing to do").is_empty());
    assert_eq!(proxy.requests(), 0);

    bulk.extend((0..2500).map(job));
    bulk.extend((0..600).map(|number| job(number).delay(SOON * 100)));
    bulk.extend([ratio::with(0.5), ratio::with(1.5).queue("others")]);
    let enqueued = bulk.add(job("last")).enqueue().await.expect("enqueued");
    assert_eq!(enqueued.len(), 3103);
    let expected = [&enqueued[..2500], &enqueued[3102..]].concat();
    assert_eq!(ids(&server, "default"), expected);
    assert_eq!(ids(&server, "ratios"), enqueued[3100..3101]);
    assert_eq!(ids(&server, "others"), enqueued[3101..3102]);
    assert_eq!(server.redis().len("hworker-scheduled-default"), 600);
    assert_eq!((proxy.count("LPUSH"), proxy.count("schedule")), (5, 2));

    // They run, and those of another client are its own.
    let other = TestServer::start();
    let bulk = Bulk::new().add(job("here")).add(job("there").on(other.client()));
    bulk.on(server.client()).enqueue().await.expect("enqueued");
    let _workers = [server.run_worker::<act>(), other.run_worker::<act>()];
    server.eventually("all run", SOON, || server.ended("2499") == 1 && server.ended("here") == 1);
    other.eventually("it runs", SOON, || other.ended("there") == 1);
    assert_eq!((server.begun("there"), other.begun("here")), (0, 0));
}

#[test]
fn en5_bulk_enqueue_outside_a_runtime() {
    // Guard: the look for a runtime before the first await of `Bulk::enqueue`.
    let server = TestServer::start();
    let bulk = || (0..10).map(job).collect::<Bulk>().on(server.client());
    let enqueued = bulk().enqueue_blocking().expect("enqueued");
    assert_eq!(ids(&server, "default"), enqueued);
    let mut enqueue = std::pin::pin!(bulk().enqueue());
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let std::task::Poll::Ready(Err(error)) = enqueue.as_mut().poll(&mut context) else {
        panic!("an error at once")
    };
    assert!(error.to_string().contains("enqueue_blocking()"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn en6_bulk_partial_failure_report() {
    // Some are in and others not -> the error tells of each job whether it is.
    // Guard: the fates in `send` of `bulk.rs`.
    let server = TestServer::start();
    let proxy = Proxy::before(&server);
    let client = proxy.client();
    let fates = |error: Error| match error {
        Error::Bulk { jobs, source } => {
            let fates: Vec<_> = jobs.iter().map(|(_, fate)| *fate).collect();
            (jobs, fates, source.to_string())
        }
        error => panic!("{error}"),
    };

    // The answers to the second and the third of three chunks are lost. All are with the server by then: a connection that
    // ends while a request is written takes answers with it that have arrived, and what is not sent goes by the next one.
    proxy.fault(2, "LPUSH", Fault::HoldReply);
    let bulk: Bulk = (0..3000).map(job).collect();
    let enqueuing = tokio::spawn(bulk.on(&client).enqueue());
    let all_in = || proxy.held() == 1 && ids(&server, "default").len() == 3000;
    server.eventually("all are in", SOON, all_in);
    proxy.cut();
    let error = enqueuing.await.expect("no panic").expect_err("two answers are lost");
    proxy.release();
    let text = error.to_string();
    assert!(text.contains("1000 are enqueued, 0 are not, and 2000 may or may not be"), "{text}");
    let (jobs, of_each, _) = fates(error);
    assert!(of_each[..1000].iter().all(|fate| *fate == Fate::Enqueued));
    assert!(of_each[1000..].iter().all(|fate| *fate == Fate::Uncertain));
    let known: Vec<_> = jobs.into_iter().map(|(id, _)| id).collect();
    assert_eq!(ids(&server, "default"), known);
    server.redis().ask::<u64>(&["DEL", "hworker-jobs-default"]);

    // One of the queues cannot be written.
    server.redis().ask::<String>(&["SET", "hworker-jobs-wrong", "x"]);
    let bulk = Bulk::new()
        .add(job("a"))
        .add(job("b").queue("wrong"))
        .add(job("c"))
        .add(job("d").queue("wrong").delay(SOON * 100));
    let error = bulk.on(&client).enqueue().await.expect_err("a wrong key");
    let (jobs, of_each, source) = fates(error);
    let expected = [Fate::Enqueued, Fate::NotEnqueued, Fate::Enqueued, Fate::Enqueued];
    assert_eq!(of_each, expected);
    assert!(source.contains("WRONGTYPE"), "{source}");
    assert_eq!(ids(&server, "default"), [jobs[0].0.clone(), jobs[2].0.clone()]);

    // None is in, and none can be.
    server.process().kill();
    let client = Client::builder().redis_url(server.url());
    let client = client.enqueue_within(Duration::from_millis(300)).build().expect("a client");
    let bulk: Bulk = (0..20_000).map(job).collect();
    let error = bulk.on(&client).enqueue().await.expect_err("no server");
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
}
