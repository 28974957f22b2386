//! Enqueues that come at the same time share a write, and nothing else: each ends as it would have ended alone.
//!
//! The runtimes have one thread, on which tasks are first polled in the order in which they were spawned: of those that
//! are spawned together the first two send their own jobs, and the others wait for the sender.

use std::future::poll_fn;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use hworker::{Client, Error, JobId};
use hworker_tests::{Fault, Proxy, TestServer, act};
use serde_json::Value;
use tokio::task::{JoinHandle, yield_now};

use crate::SOON;

/// Those that send their own jobs when many are spawned.
const ALONE: usize = 2;

type Enqueued = JoinHandle<Result<JobId, Error>>;

struct Setup {
    server: TestServer,
    proxy: Proxy,
    client: Client,
}

/// A client that reaches its server through a proxy, and is connected.
async fn connected(enqueue_within: Duration) -> Setup {
    let server = TestServer::start();
    let proxy = Proxy::before(&server);
    let client = Client::builder().redis_url(proxy.url()).enqueue_within(enqueue_within);
    let client = client.build().expect("a client");
    act::with("first".into(), Vec::new()).on(&client).enqueue().await.expect("enqueued");
    server.redis().ask::<u64>(&["DEL", "hworker-jobs-default"]);
    Setup { server, proxy, client }
}

impl Setup {
    fn spawn(&self, name: impl ToString) -> Enqueued {
        spawn(&self.client, name)
    }

    /// Jobs with the names `0..count`, all under way or gathered when it returns.
    async fn spawn_many(&self, count: usize) -> Vec<Enqueued> {
        let all = (0..count).map(|number| self.spawn(number)).collect();
        settle_down().await;
        all
    }

    /// The names of the jobs in the queue, the next to run first.
    fn names(&self) -> Vec<String> {
        names(&self.server, "default")
    }
}

fn spawn(client: &Client, name: impl ToString) -> Enqueued {
    let job = act::with(name.to_string(), Vec::new()).on(client);
    tokio::spawn(job.enqueue())
}

/// Lets every task go as far as it comes without the server.
async fn settle_down() {
    for _ in 0..20 {
        yield_now().await;
    }
}

fn names(server: &TestServer, queue: &str) -> Vec<String> {
    let key = format!("hworker-jobs-{queue}");
    let envelopes: Vec<String> = server.redis().ask(&["LRANGE", &key, "0", "-1"]);
    let name = |envelope: &String| {
        let envelope: Value = serde_json::from_str(envelope).expect("an envelope");
        envelope["args"]["name"].as_str().expect("a name").to_owned()
    };
    envelopes.iter().rev().map(name).collect()
}

fn numbers(count: usize) -> Vec<String> {
    (0..count).map(|number| number.to_string()).collect()
}

async fn results(all: Vec<Enqueued>) -> Vec<Result<JobId, Error>> {
    let mut results = Vec::new();
    for one in all {
        results.push(one.await.expect("no panic"));
    }
    results
}

#[tokio::test]
async fn concurrent_enqueues_share_one_write_in_the_order_of_their_arrival() {
    // Guard: `ALONE` lets only so many go alone; `Coalescer::take` takes all that waits, up to 1000 for each command.
    let setup = connected(SOON).await;
    for (count, commands) in [(100, 1), (2500, 3)] {
        let before = setup.proxy.count("LPUSH");
        let ids = results(setup.spawn_many(count).await).await;
        assert!(ids.iter().all(Result::is_ok), "{ids:?}");
        assert_eq!(setup.proxy.count("LPUSH") - before, ALONE + commands);
        assert_eq!(setup.names(), numbers(count));
        setup.server.redis().ask::<u64>(&["DEL", "hworker-jobs-default"]);
    }
    // One after the other each goes alone, and needs nothing else.
    let before = setup.proxy.requests();
    for number in 0..20 {
        setup.spawn(number).await.expect("no panic").expect("enqueued");
    }
    assert_eq!(setup.names(), numbers(20));
    assert_eq!(setup.proxy.requests() - before, 20);
}

#[tokio::test]
async fn what_comes_during_a_write_goes_with_the_next_one() {
    // Guard: `State::has_sender`.
    let setup = connected(SOON).await;
    let before = setup.proxy.count("LPUSH");
    setup.proxy.fault(1, "LPUSH", Fault::HoldRequest);
    let mut all = setup.spawn_many(ALONE + 4).await;
    for number in ALONE + 4..ALONE + 11 {
        all.push(setup.spawn(number));
        settle_down().await;
    }
    setup.proxy.release();
    let ids = results(all).await;
    assert!(ids.iter().all(Result::is_ok), "{ids:?}");
    // Four with the first write, and seven with the next.
    assert_eq!(setup.proxy.count("LPUSH") - before, ALONE + 2);
    assert_eq!(setup.names(), numbers(ALONE + 11));
}

#[tokio::test]
async fn a_gathered_write_whose_answer_is_lost_is_uncertain_for_each_and_never_sent_again() {
    // Guard: `Fault::is_retryable` is false for what may have been sent, and each caller gets his own id.
    for (fault, arrives) in [(Fault::LoseReply, true), (Fault::LoseRequest, false)] {
        let setup = connected(SOON).await;
        setup.proxy.fault(ALONE as u32 + 1, "LPUSH", fault);
        let before = setup.proxy.count("LPUSH");
        let all = results(setup.spawn_many(10).await).await;
        let mut uncertain = Vec::new();
        for (number, result) in all.into_iter().enumerate() {
            match result {
                Ok(_) => assert!(number < ALONE, "{number}"),
                // A connection that ends takes along what is on it.
                Err(Error::Uncertain { id, .. }) => uncertain.push(id),
                Err(error) => panic!("{number}: {error}"),
            }
        }
        assert!(uncertain.len() >= 10 - ALONE, "{fault:?}: {uncertain:?}");
        setup.spawn("after").await.expect("no panic").expect("enqueued");
        assert_eq!(setup.proxy.count("LPUSH") - before, ALONE + 2);
        if arrives {
            assert_eq!(setup.names(), [numbers(10), vec!["after".into()]].concat());
            for id in uncertain {
                let found = setup.server.inspect().find(&id).await.expect("a search");
                assert_eq!(found.expect("it is there").id, Some(id));
            }
        } else {
            let names = setup.names();
            assert!(names.iter().all(|name| ["0", "1", "after"].contains(&name.as_str())));
        }
    }
}

#[tokio::test]
async fn what_was_not_sent_waits_for_the_server_and_keeps_its_order() {
    // Guard: the task's next try after a failed connection, and `Coalescer::put_back`.
    let server = TestServer::builder().append_only().start();
    let proxy = Proxy::before(&server);
    let client = Client::builder().redis_url(proxy.url()).enqueue_within(SOON).build();
    let client = client.expect("a client");
    spawn(&client, "first").await.expect("no panic").expect("enqueued");
    server.redis().ask::<u64>(&["DEL", "hworker-jobs-default"]);
    server.process().kill();
    let other = Client::builder().redis_url(server.url()).enqueue_within(SOON).build();
    let other = other.expect("a client");
    let all: Vec<_> = (0..50).map(|number| spawn(&other, number)).collect();
    // Several tries are in vain.
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(all.iter().all(|one| !one.is_finished()));
    server.restart();
    let ids = results(all).await;
    assert!(ids.iter().all(Result::is_ok), "{ids:?}");
    assert_eq!(names(&server, "default"), numbers(50));
}

#[tokio::test]
async fn who_cannot_be_served_in_time_is_told_why_in_time() {
    // Guard: `Coalescer::expire`; the pause that is never longer than the time that is left.
    let server = TestServer::start();
    let client =
        Client::builder().redis_url(server.url()).enqueue_within(Duration::from_millis(500));
    let client = client.build().expect("a client");
    server.process().kill();
    let began = Instant::now();
    let all: Vec<_> = (0..10).map(|number| spawn(&client, number)).collect();
    for result in results(all).await {
        let error = result.expect_err("no server");
        assert!(matches!(error, Error::Unavailable { .. }), "{error}");
        let text = error.to_string();
        assert!(text.contains("enqueue job act") && !text.contains("in time"), "{text}");
    }
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
}

#[tokio::test]
async fn time_limits_end_what_is_under_way_as_uncertain_and_withdraw_what_waits() {
    // Guard: the time in `Sender::write`, and `Coalescer::expire` before anything is taken.
    let setup = connected(Duration::from_millis(700)).await;
    setup.proxy.fault(1, "LPUSH", Fault::HoldRequest);
    let under_way = setup.spawn_many(8).await;
    let waiting = [setup.spawn("late"), setup.spawn("later")];
    settle_down().await;
    setup.proxy.unreachable(true);
    let began = Instant::now();
    for result in results(under_way).await {
        assert!(matches!(result, Err(Error::Uncertain { .. })), "{result:?}");
    }
    for result in results(waiting.into()).await {
        assert!(matches!(result, Err(Error::Unavailable { .. })), "{result:?}");
    }
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    setup.proxy.unreachable(false);
    setup.proxy.release();
    // What was under way arrives in the end, and the others never.
    let arrived = || setup.names().len() == 8;
    setup.server.eventually("what was on its way arrives", SOON, arrived);
    setup.spawn("after").await.expect("no panic").expect("enqueued");
    assert_eq!(setup.names(), [numbers(8), vec!["after".into()]].concat());
}

#[tokio::test]
async fn a_dropped_future_withdraws_what_waits_and_takes_no_neighbour_along() {
    // Guard: the task that sends for all; `Coalescer::expire` and `Coalescer::take`, which leave out who has gone.
    let setup = connected(SOON).await;
    setup.proxy.fault(1, "LPUSH", Fault::HoldRequest);
    let mut under_way = setup.spawn_many(8).await;
    let (dropped, kept) = (setup.spawn("dropped"), setup.spawn("kept"));
    settle_down().await;
    // One that sends his own job, the first of the gathered, and one that waits.
    for gone in [under_way.remove(0), under_way.remove(1), dropped] {
        gone.abort();
        assert!(gone.await.expect_err("aborted").is_cancelled());
    }
    setup.proxy.release();
    for result in results(under_way).await {
        result.expect("enqueued");
    }
    kept.await.expect("no panic").expect("enqueued");
    assert_eq!(setup.names(), [numbers(8), vec!["kept".into()]].concat());
}

#[tokio::test]
async fn a_future_that_nobody_polls_holds_up_nobody() {
    // Guard: what has gathered does not wait for those who go alone.
    let setup = connected(SOON).await;
    let job = |name: &str| act::with(name.to_owned(), Vec::new()).on(&setup.client).enqueue();
    let (mut first, mut second) = (pin!(job("0")), pin!(job("1")));
    for held in [first.as_mut(), second.as_mut()] {
        let mut held = held;
        assert!(poll_fn(|context| Poll::Ready(held.as_mut().poll(context).is_pending())).await);
    }
    let others: Vec<_> = (2..10).map(|number| setup.spawn(number)).collect();
    for result in tokio::time::timeout(SOON, results(others)).await.expect("nobody waits") {
        result.expect("enqueued");
    }
    first.await.expect("enqueued");
    second.await.expect("enqueued");
    assert_eq!(setup.names(), numbers(10));
}

#[tokio::test]
async fn a_key_of_the_wrong_type_fails_its_own_queue_only() {
    // Guard: each queue has a coalescer and commands of its own.
    let setup = connected(SOON).await;
    setup.server.redis().ask::<String>(&["SET", "hworker-jobs-wrong", "x"]);
    let job = |number: usize| {
        let job = act::with((number / 2).to_string(), Vec::new()).on(&setup.client);
        tokio::spawn(if number.is_multiple_of(2) { job } else { job.queue("wrong") }.enqueue())
    };
    let all = results((0..100).map(job).collect()).await;
    for (number, result) in all.into_iter().enumerate() {
        match result {
            Ok(_) => assert_eq!(number % 2, 0),
            Err(error) => {
                assert_eq!(number % 2, 1, "{error}");
                assert!(matches!(error, Error::Refused { .. }), "{error}");
                assert!(error.to_string().contains("WRONGTYPE"), "{error}");
            }
        }
    }
    assert_eq!(setup.names(), numbers(50));
}

#[tokio::test]
async fn jobs_that_are_refused_together_are_tried_alone() {
    // What stands before a server may allow fewer bytes for a command than we put into one.
    // Guard: `Sender::send` sends each alone.
    let setup = connected(SOON).await;
    setup.proxy.fault(ALONE as u32 + 1, "LPUSH", Fault::Refuse);
    setup.proxy.fault(ALONE as u32 + 3, "LPUSH", Fault::Refuse);
    for (number, result) in results(setup.spawn_many(10).await).await.into_iter().enumerate() {
        // Of those that were sent alone it is the second that the server refuses.
        let refused = matches!(result, Err(Error::Refused { .. }));
        assert!(if number == ALONE + 1 { refused } else { result.is_ok() }, "{number}: {result:?}");
    }
    let mut expected = numbers(10);
    expected.remove(ALONE + 1);
    assert_eq!(setup.names(), expected);
}

#[tokio::test]
async fn jobs_that_are_tried_alone_do_not_wait_for_each_other() {
    // The answer of the first is late -> the others are with the server all the same; they go in the order of their arrival.
    // Guard: `Sender::send` sends up to `SINGLY` at once.
    let setup = connected(SOON).await;
    setup.proxy.fault(ALONE as u32 + 1, "LPUSH", Fault::Refuse);
    setup.proxy.fault(ALONE as u32 + 2, "LPUSH", Fault::HoldReply);
    let before = setup.proxy.count("LPUSH");
    let all = setup.spawn_many(60).await;
    let proxy = &setup.proxy;
    let are_there = || async { proxy.count("LPUSH") - before == 60 + 1 };
    setup.server.eventually_async("all are there", SOON, are_there).await;
    setup.proxy.release();
    assert!(results(all).await.iter().all(Result::is_ok));
    assert_eq!(setup.names(), numbers(60));
}

#[tokio::test]
async fn what_is_refused_for_now_ends_in_time() {
    // The server answers each time, and does not write since a replica is away -> who asks hears so when his time is over.
    // Guard: `Coalescer::expire`.
    let setup = connected(Duration::from_millis(500)).await;
    setup.server.redis().ask::<String>(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
    let all = results(setup.spawn_many(5).await);
    for result in tokio::time::timeout(SOON, all).await.expect("they end") {
        let error = result.expect_err("not enqueued");
        assert!(matches!(error, Error::Unavailable { .. }), "{error}");
        assert!(error.to_string().contains("NOREPLICAS"), "{error}");
    }
    setup.server.redis().ask::<String>(&["CONFIG", "SET", "min-replicas-to-write", "0"]);
    assert!(setup.names().is_empty());
}

#[tokio::test]
async fn a_full_server_refuses_the_whole_command() {
    // Guard: `OOM` is not tried again, alone or otherwise.
    let setup = connected(SOON).await;
    setup.server.redis().ask::<String>(&["CONFIG", "SET", "maxmemory", "1"]);
    let before = setup.proxy.count("LPUSH");
    for result in results(setup.spawn_many(50).await).await {
        let error = result.expect_err("refused");
        assert!(matches!(error, Error::Refused { .. }), "{error}");
        assert!(error.to_string().contains("maxmemory"), "{error}");
    }
    assert_eq!(setup.proxy.count("LPUSH") - before, ALONE + 1);
    setup.server.redis().ask::<String>(&["CONFIG", "SET", "maxmemory", "0"]);
    assert!(setup.names().is_empty());
    setup.spawn("after").await.expect("no panic").expect("enqueued");
}

#[test]
fn the_end_of_a_runtime_ends_what_gathered_in_it() {
    // A future that is polled in one runtime may outlive that.
    // Guard: `Drop` of `Sender`.
    let server = TestServer::start();
    let client = Client::new(server.url()).expect("a client");
    server.process().kill();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let mut enqueue = pin!(act::with("a".into(), Vec::new()).on(&client).enqueue());
    let mut context = Context::from_waker(Waker::noop());
    let within = runtime.enter();
    assert!(enqueue.as_mut().poll(&mut context).is_pending());
    drop(within);
    drop(runtime);
    let Poll::Ready(Err(error)) = enqueue.as_mut().poll(&mut context) else {
        panic!("an error at once")
    };
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    // In the next runtime the client goes on.
    server.restart();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        spawn(&client, "b").await.expect("no panic").expect("enqueued");
    });
    assert_eq!(names(&server, "default"), ["b"]);
}
