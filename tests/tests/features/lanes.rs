//! Rows P6, P7, PR1 and PR2: how the queues of a worker share its slots.

use std::time::Duration;

use hworker::Bulk;
use hworker_tests::{Act, InProcess, TestServer, act};

use crate::SOON;

/// Enqueues so many jobs, which are as long, on a queue; their name is the queue's.
async fn fill(server: &TestServer, queue: &str, count: usize, ms: u64) {
    let plan = || vec![vec![Act::Sleep(ms)]];
    let bulk: Bulk = (0..count).map(|_| act::with(queue.to_owned(), plan()).queue(queue)).collect();
    bulk.on(server.client()).enqueue().await.expect("enqueued");
}

/// How many jobs of each queue had begun when the first queue had begun this many.
fn begun_until(server: &TestServer, queues: &[&str], first: usize) -> Vec<usize> {
    let begins = |queue: &str| -> Vec<u64> {
        let runs = server.runs_of(queue);
        runs.iter().filter(|run| run.what == "begin").map(|run| run.at).collect()
    };
    let until = begins(queues[0])[first - 1];
    queues.iter().map(|queue| begins(queue).iter().filter(|at| **at <= until).count()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn p6_no_queue_starves_another() {
    // q1 with 2,000 and q2 with 10: q2 is done within a bounded number of picks.
    let server = TestServer::start();
    fill(&server, "q1", 2_000, 1).await;
    fill(&server, "q2", 10, 1).await;
    let worker = server.worker().register::<act>().queues(["+q1", "+q2"]).concurrency(2);
    let _worker = InProcess::run(worker);
    server.eventually("the second is done", SOON, || server.begun("q2") == 10);
    assert!(server.begun("q1") < 1_500, "{}", server.begun("q1"));
}

#[tokio::test(flavor = "multi_thread")]
async fn pr2_queues_get_slots_by_their_weights() {
    // Weight w gives w of the sum while all have a backlog, with long jobs and with short ones that are fetched ahead; the slots of an
    // empty queue go to the others.
    for (ms, jobs) in [(15, 240), (0, 6_000)] {
        let server = TestServer::start();
        for queue in ["heavy", "light"] {
            fill(&server, queue, jobs, ms).await;
        }
        let queues = ["+heavy*3", "+light", "+empty*1000"];
        let worker = server.worker().register::<act>().queues(queues).concurrency(4);
        let _worker = InProcess::run(worker);
        let first = jobs / 2;
        server.eventually("they run", 2 * SOON, || server.begun("heavy") >= first);
        let begun = begun_until(&server, &["heavy", "light"], first);
        let expected = first / 3;
        assert!(begun[1].abs_diff(expected) <= expected / 2, "{ms} ms: {begun:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pr1_a_queue_of_a_lower_rank_waits() {
    // Never take from q2 while q1 has work; what has been fetched ahead is not overtaken.
    let server = TestServer::start();
    for queue in ["low", "critical"] {
        fill(&server, queue, 200, 5).await;
    }
    let queues = ["+critical>+low"];
    let worker = server.worker().register::<act>().queues(queues).concurrency(4).prefetch(false);
    let worker = InProcess::run(worker);
    server.eventually("all critical ones have begun", SOON, || server.begun("critical") == 200);
    let begun = begun_until(&server, &["critical", "low"], 200);
    // The first ones, before the worker knows what the other queue has.
    assert!(begun[1] <= 8, "{begun:?}");
    server.eventually("then the others run", SOON, || server.ended("low") == 200);
    worker.stop().await;

    // One that has no room of its own gives way.
    fill(&server, "critical", 4, 60_000).await;
    fill(&server, "low", 20, 1).await;
    let before = server.ended("low");
    let queues = ["+critical=1>+low"];
    let worker = server.worker().register::<act>().queues(queues).concurrency(2);
    let _worker = InProcess::run(worker.shutdown_grace(Duration::ZERO));
    server.eventually("they run beside it", SOON, || server.ended("low") == before + 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn p7_every_queue_less_some() {
    // `*,!reports`: all queues, also those that come later; a new queue is picked up without a restart.
    let server = TestServer::start();
    fill(&server, "before", 1, 0).await;
    fill(&server, "reports", 1, 0).await;
    let _worker =
        server.worker_process(&[("HWORKER_QUEUES", "*,!reports"), ("HWORKER_CONCURRENCY", "2")]);
    server.eventually("what was there is served", SOON, || server.ended("before") == 1);
    fill(&server, "later", 3, 0).await;
    server.eventually("what comes later too", SOON, || server.ended("later") == 3);
    // The queue of its own jobs as well.
    server.enqueue("own", Vec::new()).await;
    server.eventually("its own", SOON, || server.ended("own") == 1);
    server
        .holds("what is left out is not", Duration::from_secs(2), || server.begun("reports") == 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_with_queues_is_said_at_the_start() {
    let server = TestServer::start();
    let build = |queues: &[&str]| {
        let worker = server.worker().register::<act>().queues(queues.iter().copied());
        worker.build().map(drop).map_err(|error| error.to_string())
    };
    for (queues, why) in [
        (&["critical>"][..], "before and behind a `>` there is a queue"),
        (&["default*0"], "has the weight 0; it is 1 to 1000"),
        (&["default*many"], "many"),
        (&["!default"], "every queue is left out"),
        (&["!default=2", "+a"], "write `!default` alone"),
        (&["+*"], "it has no `+`"),
        (&["nobody"], "no registered job names the queue `nobody`"),
    ] {
        let error = build(queues).expect_err("wrong");
        assert!(error.contains(why), "{queues:?}: {error}");
    }
    for fine in [&["*", "!reports"][..], &["default*5"], &["default>*"], &["+a>default", "+b*2"]] {
        assert_eq!(build(fine), Ok(()), "{fine:?}");
    }
}
