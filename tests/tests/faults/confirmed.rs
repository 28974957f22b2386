//! Jobs that are to be safe before their enqueue returns. The look whether there are replicas, before anything is written that they
//! should have: it may take its time, and it ends. The question whether they have it: one for many.

use std::future::poll_fn;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use hworker::{Client, Durability, Error};
use hworker_tests::{Fault, InProcess, Machine, Proxy, TestServer, act, program};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::support::{SOON, waits_by};

/// The look takes at least so long, where nobody cuts it short.
const LOOK: Duration = Duration::from_millis(1_500);

/// Waits until the server is asked for replicas that it does not have.
fn looks(server: &TestServer) {
    server.eventually("it looks", SOON, || waits_by(server, "wait"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_looks_for_replicas_ends_when_it_is_told() {
    // Told to stop by SIGTERM, or by its handle, while it waits for the replica that its enqueues ask for -> it ends at once,
    // and not after the look.
    // Guard: what stops the worker is heard beside `look_at_server` in `Worker::run_until`.
    let _machine = Machine::claim();
    let server = TestServer::alone();
    let mut process = server.worker_process(&[("HWORKER_DURABILITY", "replicated=1")]);
    looks(&server);
    process.terminate();
    let status = process.wait(LOOK).expect("it ends at once");
    assert!(status.success(), "{status}");

    let client = Client::builder().redis_url(server.url()).durability(Durability::replicated(1));
    let client = client.build().expect("a client");
    let worker = InProcess::run(server.worker().client(&client).register::<act>());
    looks(&server);
    let told = Instant::now();
    worker.stop().await;
    assert!(told.elapsed() < LOOK, "{:?}", told.elapsed());
}

/// A way to the server on which no question for replicas is answered, and a client that gives one a minute.
fn without_an_answer(server: &TestServer) -> (Proxy, Client) {
    let proxy = Proxy::before(server);
    for nth in 1..=20 {
        proxy.fault(nth, "WAIT", Fault::HangRequest);
    }
    let minute = Durability::replicated(1).within(Duration::from_secs(60));
    let client = Client::builder().redis_url(proxy.url()).durability(minute);
    (proxy, client.build().expect("a client"))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_enqueue_whose_look_is_not_answered_says_so() {
    // It hears before its own time, 5 s, is over that this was why, and nothing is enqueued.
    // Guard: `LOOK_WITHIN` in `net/confirm.rs`.
    let server = TestServer::alone();
    let (_proxy, client) = without_an_answer(&server);
    let error = act::with("job".into(), vec![]).on(&client).enqueue().await.expect_err("no answer");
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    assert!(error.to_string().contains("durability replicated=1"), "{error}");
    assert_eq!(server.redis().len("hworker-jobs-default"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_whose_look_is_not_answered_starts() {
    // Guard: as above.
    let server = TestServer::alone();
    let (_proxy, client) = without_an_answer(&server);
    server.enqueue("job", vec![]).await;
    let worker = InProcess::run(server.worker().client(&client).register::<act>());
    server.eventually("it runs", SOON, || server.ended("job") == 1);
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_barrier_covers_all_writes_since_the_last() {
    // 30 delayed jobs, and 5 of each of 12 queues, at once, and a disk that is asked for once a second -> all are on it, in time.
    // Guard: `Barriers` in `net/confirm.rs`: with a barrier for each write they would wait for each other, a second each.
    let Some(program) = program("valkey-server") else { return };
    let server = TestServer::builder().append_only().program(Some(&program)).start();
    server.redis().ask::<String>(&["CONFIG", "SET", "appendfsync", "everysec"]);
    let client = Client::builder().redis_url(server.url()).durability(Durability::fsynced());
    let client = client.build().expect("a client");
    let job = || act::with("job".into(), vec![]).on(&client);
    let mut all = JoinSet::new();
    for _ in 0..30 {
        all.spawn(job().delay(SOON).enqueue());
    }
    for number in 0..60 {
        all.spawn(job().queue(format!("q{}", number % 12)).enqueue());
    }
    for result in all.join_all().await {
        result.expect("on disk");
    }
    let stats: String = server.redis().ask(&["INFO", "commandstats"]);
    let asked = stats.lines().find_map(|line| line.strip_prefix("cmdstat_waitaof:calls="));
    let asked = asked.and_then(|rest| rest.split(',').next()?.parse().ok());
    // One of them is the look before the first.
    assert!(asked.is_some_and(|asked: u64| (2..=8).contains(&asked)), "{asked:?} questions");
    assert_eq!(server.redis().len("hworker-scheduled-default"), 30);
}

#[tokio::test]
async fn a_question_answers_for_those_alone_who_have_written_before_it() {
    // One task enqueues more at once than tokio lets it do in one go -> those whose jobs were with the server before the question
    // are told that they are safe, and no others, whose question is lost.
    // Guard: `Connection::send` is `unconstrained`: without it the last one has no budget left to write, and is counted.
    let Some(program) = program("valkey-server") else { return };
    for consumed in [0, 1] {
        let server = TestServer::builder().append_only().program(Some(&program)).alone().start();
        let proxy = Proxy::before(&server);
        // After the look, and the question of who connects.
        proxy.fault(3, "WAITAOF", Fault::HoldRequest);
        proxy.fault(4, "WAITAOF", Fault::HangRequest);
        let asked = Durability::fsynced().within(Duration::from_millis(500));
        let client = Client::builder().redis_url(proxy.url()).durability(asked);
        // Less than the lost question takes: who waits behind it is not tried again.
        let client = client.enqueue_within(Duration::from_secs(1)).build().expect("a client");
        let enqueue = || act::with("job".into(), vec![]).on(&client).delay(SOON).enqueue();
        enqueue().await.expect("on disk");
        let mut all: Vec<_> = (0..100).map(|_| (Box::pin(enqueue()), None)).collect();
        let mut poll = move |context: &mut Context<'_>| {
            for (enqueue, result) in all.iter_mut().filter(|(_, result)| result.is_none()) {
                if let Poll::Ready(one) = enqueue.as_mut().poll(context) {
                    *result = Some(one.is_ok());
                }
            }
            let done: Option<Vec<bool>> = all.iter().map(|(_, result)| *result).collect();
            done.map_or(Poll::Pending, Poll::Ready)
        };
        let (go_on, told) = oneshot::channel();
        let enqueues = tokio::spawn(async move {
            for _ in 0..consumed {
                tokio::task::consume_budget().await;
            }
            poll_fn(|context| Poll::Ready(poll(context).is_ready())).await;
            // Does something else for a while.
            told.await.expect("it is told");
            poll_fn(poll).await
        });
        let is_held = || async { proxy.held() == 1 };
        server.eventually_async("the question is on its way", SOON, is_held).await;
        let written = proxy.count("schedule") - 1;
        go_on.send(()).expect("it waits");
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        proxy.release();
        let safe = enqueues.await.expect("no panic").into_iter().filter(|is_safe| *is_safe).count();
        assert_eq!(safe, written);
        assert!(written > 0);
    }
}
