//! Row F8: a job that kills its worker.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use hworker_tests::Records as _;
use hworker_tests::{Act, TestServer, act_unless_crashed};
use serde_json::json;

use crate::{RECOVERED, SOON};

#[tokio::test(flavor = "multi_thread")]
async fn f8_crashes_are_bounded_and_counted_apart() {
    // A job that kills its worker -> after 4 of them, within 24 h, failed with the evidence, not run again; attempts
    // unchanged; the 99 jobs that ran beside it all succeed, each once.
    // Guard: `Suspects`, and the look at `crashes` in `admit::check`.
    let server = TestServer::start();
    let settings = [("HWORKER_CONCURRENCY", "100")];
    // Beside it until it kills: the neighbours of the first two deaths are the same.
    let id = server.enqueue("killer", vec![vec![Act::Sleep(500), Act::Kill]]).await;
    for _ in 0..99 {
        server.enqueue("neighbour", vec![vec![Act::Sleep(1500)]]).await;
    }
    // Two worker processes, and whichever dies is started again.
    let mut workers = [server.worker_process(&settings), server.worker_process(&settings)];
    let give_up = Instant::now() + Duration::from_secs(120);
    let mut deaths = 0;
    while server.counter("failed") + server.counter("processed") < 100 {
        assert!(Instant::now() < give_up, "{}", server.report());
        for worker in &mut workers {
            if worker.exited().is_some() {
                deaths += 1;
                *worker = server.worker_process(&settings);
            }
        }
        // The next look at the processes.
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!((server.counter("failed"), server.counter("processed")), (1, 99));
    assert_eq!((deaths, server.begun("killer")), (4, 4));

    let record = server.inspect().failed(0, 10).await.expect("the records").remove(0);
    assert_eq!((record.id.as_str(), record.kind.as_str()), (id.as_str(), "crash"));
    assert!(record.message.contains("died 4 times"), "{}", record.message);
    assert_eq!(record.attempts, 1);
    let runs = server.runs_of("killer");
    assert!(runs.iter().all(|run| run.attempt == 1), "{runs:?}");
    let died: Vec<_> = record.crashes.iter().map(|crash| crash.worker.clone()).collect();
    let ran: Vec<_> = runs.iter().map(|run| run.worker.clone()).collect();
    assert_eq!(died, ran, "the evidence names the workers that died");
    let times = record.crashes.iter().map(|crash| crash.at);
    assert!(times.zip(&runs).all(|(at, run)| at > run.at / 1000 && at < run.at / 1000 + 20_000));

    let ended = server.runs_of("neighbour").into_iter().filter(|run| run.what == "end");
    let ended: HashSet<_> = ended.map(|run| run.id).collect();
    assert_eq!((ended.len(), server.ended("neighbour")), (99, 99));
    assert_eq!(server.leftovers("default"), [("hworker-failed-default".to_owned(), 1)]);
    server.holds("it does not run again", Duration::from_secs(2), || server.begun("killer") == 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn f8_crashes_count_for_a_day() {
    // Four crashes of 23 h 59 min ago -> failed without a run; three of them -> failed at the next death.
    // Guard: `CRASHES_COUNT_FOR_MS` in `admit::check`.
    let server = TestServer::start();
    let then = server.redis().time_us() / 1000 - (24 * 60 - 1) * 60_000;
    let push = |name: &str, crashes: usize| {
        let crashes = vec![json!({"at": then, "worker": "w"}); crashes];
        let plan = json!([[{"Sleep": 200}, "Kill"], []]);
        let args = json!({"name": name, "plan": plan});
        let envelope = json!({"job": "act", "id": name, "args": args, "crashes": crashes});
        let _: u64 = server.redis().ask(&["LPUSH", "hworker-jobs-default", &envelope.to_string()]);
    };
    push("four", 4);
    let mut worker = server.worker_process(&[]);
    server.eventually("it has failed", SOON, || server.counter("failed") == 1);
    assert_eq!(server.begun("four"), 0);
    push("three", 3);
    assert!(worker.wait(SOON).is_some(), "it kills the worker\n{}", server.report());
    let _next = server.worker_process(&[]);
    server.eventually("it has failed", RECOVERED, || server.counter("failed") == 2);
    assert_eq!((server.begun("three"), server.ended("three")), (1, 0));
    let failed = server.inspect().failed(0, 10).await.expect("the records");
    let evidence: Vec<_> =
        failed.iter().map(|record| (record.id.as_str(), record.crashes.len())).collect();
    assert_eq!(evidence, [("three", 4), ("four", 4)]);
    assert!(failed.iter().all(|record| record.kind == "crash"), "{failed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn f8_the_limit_is_a_setting() {
    // With a limit of 2 the job has failed at the second death; a job with on_crash=fail at the first, without a second run;
    // a crash that is a day old does not count.
    // Guard: `HWORKER_CRASH_LIMIT`, `on_crash` and `CRASHES_COUNT_FOR_MS` in `admit::check`.
    let server = TestServer::start();
    let settings = [("HWORKER_TEST_JOBS", "all"), ("HWORKER_CRASH_LIMIT", "2")];
    let monitor = server.worker_process(&[settings[0], settings[1], ("HWORKER_CONCURRENCY", "1")]);
    // It recovers, and takes nothing.
    server.enqueue("holds the slot", vec![vec![Act::Gate("free".into())]]).await;
    server.eventually("it is held", SOON, || server.begun("holds the slot") == 1);

    let day_ago = server.redis().time_us() / 1000 - 86_401_000;
    let crash = format!(r#"{{"at":{day_ago},"worker":"w"}}"#);
    let old = format!(
        r#"{{"job":"act","id":"old","args":{{"name":"old","plan":[[{{"Sleep":300}},"Kill"],[]]}},"crashes":[{crash},{crash},{crash}]}}"#
    );
    server.redis().ask::<u64>(&["LPUSH", "hworker-jobs-default", &old]);
    server.enqueue("twice", vec![vec![Act::Sleep(200), Act::Kill]]).await;
    let plan = vec![vec![Act::Sleep(200), Act::Kill]];
    let once = act_unless_crashed::with("once".into(), plan).on(server.client());
    once.enqueue().await.expect("enqueued");
    let mut worker = server.worker_process(&settings);
    let give_up = Instant::now() + RECOVERED * 3;
    while server.counter("failed") + server.counter("processed") < 3 {
        assert!(Instant::now() < give_up, "{}", server.report());
        if worker.exited().is_some() {
            worker = server.worker_process(&settings);
        }
        // The next look at the processes.
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!((server.counter("failed"), server.counter("processed")), (2, 1));
    assert_eq!((server.begun("twice"), server.begun("once")), (2, 1));
    assert_eq!((server.ended("old"), server.ended("twice"), server.ended("once")), (1, 0, 0));
    let failed = server.inspect().failed(0, 10).await.expect("the records");
    assert!(failed.iter().all(|record| record.kind == "crash"), "{failed:?}");
    drop(monitor);
}
