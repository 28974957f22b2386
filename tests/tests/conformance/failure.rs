//! Rows F: bodies that panic, return errors, and give up.

use std::error::Error;
use std::time::Duration;

use hworker::{BoxError, Context, Inject, OnFault};
use hworker_tests::Records as _;
use hworker_tests::{Act, InProcess, TestServer, act, act_blocking, act_once};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::SOON;

#[tokio::test(flavor = "multi_thread")]
async fn f1_panic_retry() {
    // on_panic=retry, panics once -> exactly 2 runs, worker alive; async and blocking.
    // Guard: `panic::catch` around each poll of a body and around a blocking one.
    let server = TestServer::start();
    let mut worker = server.worker_process(&[]);
    let plan = vec![vec![Act::Panic("once".into())], vec![]];
    server.enqueue("panics", plan.clone()).await;
    let blocking = act_blocking::with("panics blocking".into(), plan).on(server.client());
    blocking.enqueue().await.expect("enqueued");
    for name in ["panics", "panics blocking"] {
        server.eventually(name, SOON, || server.ended(name) == 1);
    }
    server.drained(SOON);
    let attempts = |name: &str| -> Vec<u32> {
        let runs = server.runs_of(name);
        runs.iter().filter(|run| run.what == "begin").map(|run| run.attempt).collect()
    };
    assert_eq!(attempts("panics"), [1, 2]);
    assert_eq!(attempts("panics blocking"), [1, 2]);
    assert!(worker.exited().is_none());
    assert!(server.runs_of("panics").iter().all(|run| run.pid == worker.pid()));
}

#[tokio::test(flavor = "multi_thread")]
async fn f2_panic_fail() {
    // on_panic=fail, panics -> 1 run, in failed with the panic's text.
    // Guard: the column `on_panic` of `decide`.
    let server = TestServer::start();
    let _worker = server.worker_process(&[]);
    let plan = vec![vec![Act::Panic("the one and only".into())]];
    let job = act_once::with("panics".into(), plan).on(server.client());
    job.enqueue().await.expect("enqueued");
    server.eventually("it has failed", SOON, || server.counter("failed") == 1);
    let failed = server.inspect().failed(0, 10).await.expect("the records");
    assert_eq!(failed.len(), 1);
    assert_eq!(
        (failed[0].kind.as_str(), failed[0].message.as_str()),
        ("panic", "the one and only")
    );
    let left = server.leftovers("default");
    assert_eq!(left, [("hworker-failed-default".to_owned(), 1)]);
    server.holds("it does not run again", Duration::from_secs(1), || server.begun("panics") == 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn f3_body_returns_retry() {
    // First Retry then ok -> 2 runs; behind already pending jobs.
    // Guard: a retry without delay goes to the end that producers push to, in `settle.lua`.
    let server = TestServer::start();
    let note = |text: &str| Act::Note(text.into());
    let first = vec![vec![note("a1"), Act::Retry("again".into())], vec![note("a2")]];
    server.enqueue("order", first).await;
    for text in ["b", "c", "d"] {
        server.enqueue("order", vec![vec![note(text)]]).await;
    }
    let _worker = server.worker_process(&[("HWORKER_CONCURRENCY", "1")]);
    server.eventually("all run", SOON, || server.ended("order") == 4);
    let runs = server.runs_of("order");
    let notes = runs.iter().map(|run| run.what.as_str()).filter(|what| what.len() < 3);
    assert_eq!(notes.collect::<Vec<_>>(), ["a1", "b", "c", "d", "a2"]);
    assert_eq!(server.counter("retried"), 1);
    server.drained(SOON);
}

#[tokio::test(flavor = "multi_thread")]
async fn f4_body_returns_failure() {
    // 1 run, in failed once, message stored and readable.
    // Guard: `Returned::Failure` in `decide`.
    let server = TestServer::start();
    let _worker = server.worker_process(&[]);
    let message = "no such account: \u{1F980} \"7\"\n\u{0}";
    let id = server.enqueue("fails", vec![vec![Act::Failure(message.into())]]).await;
    server.eventually("it has failed", SOON, || server.counter("failed") == 1);
    let failed = server.inspect().failed(0, 10).await.expect("the records");
    assert_eq!(failed.len(), 1);
    assert_eq!((failed[0].kind.as_str(), failed[0].message.as_str()), ("failure", message));
    assert_eq!((failed[0].id.as_str(), failed[0].attempts), (id.as_str(), 1));
    server.holds("it does not run again", Duration::from_secs(1), || server.begun("fails") == 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn f5_panic_isolation() {
    // Job panics (also in a nested task, also in Drop) -> other jobs on the same worker finish, counters right, nothing
    // leaked.
    // Guard: `Caught`, whose drop catches too; a slot is a permit that the task owns.
    let server = TestServer::start();
    let mut worker = server.worker_process(&[("HWORKER_CONCURRENCY", "4")]);
    let text = || "isolated".to_owned();
    let panics = [
        vec![Act::Panic(text())],
        vec![Act::PanicInTask(text())],
        vec![Act::PanicInDrop(text())],
        vec![Act::Sleep(50), Act::Panic(text())],
        // Dropped at its timeout.
        vec![Act::PanicInDrop(text()), Act::Sleep(60_000)],
    ];
    for plan in panics {
        let job = act_once::with("panics".into(), vec![plan]).timeout(Duration::from_secs(1));
        job.on(server.client()).enqueue().await.expect("enqueued");
        server.enqueue("beside", vec![vec![Act::Sleep(100)]]).await;
    }
    let blocking = act_blocking::with("panics".into(), vec![vec![Act::Panic(text())]]);
    blocking.max_attempts(1).on(server.client()).enqueue().await.expect("enqueued");
    server.eventually("all are settled", SOON, || {
        (server.counter("failed"), server.counter("processed")) == (6, 5)
    });
    assert_eq!((server.begun("panics"), server.ended("beside")), (6, 5));
    let failed = server.inspect().failed(0, 10).await.expect("the records");
    let mut kinds: Vec<_> = failed.iter().map(|failed| failed.kind.as_str()).collect();
    kinds.sort_unstable();
    // The panic of a task that a body waits for is an error to the body.
    assert_eq!(kinds, ["error", "panic", "panic", "panic", "panic", "timeout"]);

    // No slot is leaked: four run at once.
    for _ in 0..4 {
        server.enqueue("full", vec![vec![Act::Gate("full".into())]]).await;
    }
    server.eventually("all four run", SOON, || server.begun("full") == 4);
    server.open("full");
    server.eventually("all four end", SOON, || server.ended("full") == 4);
    let left = || server.leftovers("default");
    server
        .eventually("nothing is leaked", SOON, || left() == [("hworker-failed-default".into(), 6)]);
    assert!(worker.exited().is_none());
    assert!(server.runs_of("full").iter().all(|run| run.pid == worker.pid()));
}

/// An argument that panics when a worker reads it.
#[derive(Serialize)]
struct PanicsWhenRead;

impl<'de> Deserialize<'de> for PanicsWhenRead {
    fn deserialize<D: Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
        panic!("on purpose")
    }
}

/// What panics when a worker makes it.
struct PanicsWhenInjected;

impl Inject for PanicsWhenInjected {
    fn inject(_: &Context) -> Result<Self, BoxError> {
        panic!("on purpose")
    }
}

fn panics_for_a_delay(_: u32, _: &(dyn Error + Send + Sync + 'static)) -> Duration {
    panic!("on purpose")
}

fn panics_for_a_verdict(_: &(dyn Error + Send + Sync + 'static)) -> OnFault {
    panic!("on purpose")
}

#[hworker::job(on_panic = "fail")]
async fn takes_an_argument(argument: PanicsWhenRead) {
    let PanicsWhenRead = argument;
}

#[hworker::job(on_panic = "fail")]
async fn is_given_something(#[inject] given: PanicsWhenInjected) {
    let PanicsWhenInjected = given;
}

#[hworker::job(backoff = panics_for_a_delay, max_attempts = 2)]
async fn has_a_backoff() -> Result<(), String> {
    Err("as always".into())
}

#[hworker::job(on_error = panics_for_a_verdict, max_attempts = 2)]
async fn has_a_verdict() -> Result<(), String> {
    Err("as always".into())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f5_panic_isolation_outside_of_bodies() {
    // What panics is not the body but the `Deserialize` of an argument, an `Inject`, a `backoff` or an `on_error`, in more jobs
    // of each kind than there are threads -> each ends as one whose body panicked, with the default backoff where there is none to
    // ask; the job behind them runs, nothing is leaked.
    // Guard: `panic::catch` in `run::body` and in `finish::conclude`.
    const EACH: usize = 5;
    let server = TestServer::start();
    let worker = server.worker().concurrency(4).register::<act>().register::<takes_an_argument>();
    let worker = worker.register::<is_given_something>();
    let worker = worker.register::<has_a_backoff>().register::<has_a_verdict>();
    let worker = InProcess::run(worker);
    let before = server.redis().time_us() / 1000;
    let client = server.client();
    for _ in 0..EACH {
        takes_an_argument::with(PanicsWhenRead).on(client).enqueue().await.expect("enqueued");
        is_given_something::with().on(client).enqueue().await.expect("enqueued");
        has_a_backoff::with().on(client).enqueue().await.expect("enqueued");
        has_a_verdict::with().on(client).enqueue().await.expect("enqueued");
    }
    server.enqueue("behind", Vec::new()).await;
    server.eventually("the one behind runs", SOON, || server.ended("behind") == 1);
    let counters = || (server.counter("failed"), server.counter("retried"));
    let each = EACH as u64;
    server.eventually("all are settled", SOON, || counters() == (2 * each, 2 * each));

    let scheduled = "hworker-scheduled-default";
    let waiting: Vec<(String, u64)> =
        server.redis().ask(&["ZRANGE", scheduled, "0", "-1", "WITHSCORES"]);
    let after = server.redis().time_us() / 1000;
    for (envelope, due) in &waiting {
        let error = &serde_json::from_str::<Value>(envelope).expect("an envelope")["errors"][0];
        assert_eq!((&error["kind"], &error["attempt"]), (&"panic".into(), &1.into()), "{envelope}");
        // The default: 5 s, a quarter less or more.
        assert!((before + 3_750..=after + 6_250).contains(due), "{before} {due} {after}");
        // They are due, as far as the server knows.
        let _: u64 = server.redis().ask(&["ZADD", scheduled, "1", envelope]);
    }
    server.eventually("all have failed", SOON, || counters() == (4 * each, 2 * each));
    assert_eq!(waiting.len(), 2 * EACH);

    let failed = server.inspect().failed(0, 100).await.expect("the records");
    for job in ["takes_an_argument", "is_given_something", "has_a_backoff", "has_a_verdict"] {
        let of_job: Vec<_> = failed.iter().filter(|record| record.job == job).collect();
        assert_eq!(of_job.len(), EACH, "{job}");
        let is_decided = job.starts_with("has_a");
        for record in of_job {
            let asked = "`backoff` or `on_error` panicked: on purpose";
            let (message, attempts) = if is_decided { (asked, 2) } else { ("on purpose", 1) };
            assert_eq!(
                (record.kind.as_str(), record.message.as_str()),
                ("panic", message),
                "{job}"
            );
            assert_eq!(
                (record.attempts, record.errors().len()),
                (attempts, attempts as usize),
                "{job}"
            );
        }
    }
    server.eventually("nothing is leaked", SOON, || {
        server.leftovers("default") == [("hworker-failed-default".into(), 4 * each)]
    });
    assert!(worker.is_alive());
}

#[tokio::test(flavor = "multi_thread")]
async fn f6_attempt_limit() {
    // Limit n, always failing -> exactly n runs, then failed; count stored; panic, error, timeout and Retry count alike.
    // Guard: `Attempts::within_bounds`.
    let server = TestServer::start();
    let _worker = server.worker_process(&[]);
    let panic = vec![Act::Panic("p".into())];
    let retry = vec![Act::Retry("r".into())];
    let error = vec![Act::Error("e".into())];
    let slow = vec![Act::Sleep(60_000)];
    let cases = [
        ("panics", vec![panic.clone()], 3),
        ("retries", vec![retry.clone()], 4),
        ("once", vec![error.clone()], 1),
        ("mixed", vec![panic, retry, error, slow], 4),
    ];
    for (name, plan, limit) in cases.clone() {
        let job = act::with(name.into(), plan).max_attempts(limit).on(server.client());
        job.timeout(Duration::from_secs(1)).enqueue().await.expect("enqueued");
    }
    server.eventually("all have failed", SOON, || server.counter("failed") == 4);
    server.holds("none runs again", Duration::from_secs(1), || {
        cases.iter().all(|(name, _, limit)| server.begun(name) == *limit as usize)
    });
    let failed = server.inspect().failed(0, 10).await.expect("the records");
    for (name, _, limit) in cases {
        let record = failed.iter().find(|record| record.args().contains(name)).expect("a record");
        assert_eq!(record.attempts, limit, "{name}");
        let attempts: Vec<_> = record.errors().iter().map(|error| error.attempt).collect();
        assert_eq!(attempts, (1..=limit).collect::<Vec<_>>(), "{name}");
    }
    let mixed = failed.iter().find(|record| record.args().contains("mixed")).expect("a record");
    let kinds: Vec<_> = mixed.errors().into_iter().map(|error| error.kind).collect();
    assert_eq!(kinds, ["panic", "retry", "error", "timeout"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn f9_failed_list_bounded() {
    // Limit 2, 4 failures -> 4 runs, 2 newest kept, newest first. A limit of 0 keeps none.
    // Guard: `LTRIM` in `settle.lua`.
    let server = TestServer::start();
    let fail = |text: String| vec![vec![Act::Failure(text)]];
    let one_slot = |limit| [("HWORKER_FAILED_LIMIT", limit), ("HWORKER_CONCURRENCY", "1")];
    let mut worker = server.worker_process(&one_slot("2"));
    for number in 1..=4 {
        server.enqueue("fails", fail(number.to_string())).await;
    }
    server.eventually("all have failed", SOON, || server.counter("failed") == 4);
    assert_eq!(server.begun("fails"), 4);
    let failed = server.inspect().failed(0, 10).await.expect("the records");
    let messages: Vec<_> = failed.iter().map(|record| record.message.as_str()).collect();
    assert_eq!(messages, ["4", "3"]);
    worker.terminate();
    assert!(worker.wait(SOON).is_some_and(|status| status.success()));

    server.redis().ask::<u64>(&["DEL", "hworker-failed-default"]);
    let _worker = server.worker_process(&one_slot("0"));
    server.enqueue("fails", fail("5".into())).await;
    server.eventually("it has failed", SOON, || server.counter("failed") == 5);
    assert!(server.leftovers("default").is_empty(), "{:?}", server.leftovers("default"));
}

#[tokio::test(flavor = "multi_thread")]
async fn f10_failure_record_content() {
    // Record has id, name, args, queue, worker, error kind, text, backtrace if any, failed_at, attempts.
    // Guard: `Stored`.
    let server = TestServer::start();
    let mut worker =
        server.worker_process(&[("RUST_BACKTRACE", "1"), ("HWORKER_NAME", "recorder")]);
    let plan = vec![vec![Act::Error("first".into())], vec![Act::Panic("second".into())]];
    let before = server.redis().time_us() / 1000;
    let job = act::with("recorded".into(), plan).max_attempts(2).on(server.client());
    let id = job.enqueue().await.expect("enqueued");
    server.eventually("it has failed", SOON, || server.counter("failed") == 1);
    let after = server.redis().time_us() / 1000;

    let record = server.inspect().failed(0, 1).await.expect("the records").remove(0);
    let worker_id = &server.runs_of("recorded")[1].worker;
    assert_eq!((record.id.as_str(), record.job.as_str()), (id.as_str(), "act"));
    assert_eq!((record.queue.as_str(), &record.worker), ("default", worker_id));
    assert!(record.worker.starts_with("recorder."), "{}", record.worker);
    let args = r#"{"name":"recorded","plan":[[{"Error":"first"}],[{"Panic":"second"}]]}"#;
    assert_eq!(record.args(), args);
    assert_eq!((record.kind.as_str(), record.message.as_str()), ("panic", "second"));
    assert!(record.place.as_deref().is_some_and(|place| place.contains("jobs.rs:")), "{record:?}");
    let backtrace = record.backtrace.as_deref().expect("a backtrace");
    // Names depend on the debug information of the build, files do not.
    assert!(backtrace.contains("src/jobs.rs:"), "{backtrace}");
    assert!((before..=after).contains(&record.failed_at), "{before} {record:?} {after}");
    assert_eq!((record.attempts, record.crashes.len()), (2, 0));
    let errors = record.errors();
    let kept: Vec<_> = errors.iter().map(|error| (error.kind.as_str(), error.attempt)).collect();
    assert_eq!(kept, [("error", 1), ("panic", 2)]);
    assert_eq!((errors[0].message.as_str(), &errors[0].worker), ("first", worker_id));

    // Without RUST_BACKTRACE there is none.
    worker.kill();
    let _worker = server.worker_process(&[("RUST_BACKTRACE", "0")]);
    let job = act_once::with("plain".into(), vec![vec![Act::Panic("third".into())]]);
    job.on(server.client()).enqueue().await.expect("enqueued");
    server.eventually("it has failed", SOON, || server.counter("failed") == 2);
    let record = server.inspect().failed(0, 1).await.expect("the records").remove(0);
    assert_eq!((record.message.as_str(), record.backtrace), ("third", None));
}

#[tokio::test(flavor = "multi_thread")]
async fn f15_non_retriable_error() {
    // Such an error -> failed at once although attempts remain.
    // Guard: `Verdict::find` before `on_error` in `decide`.
    let server = TestServer::start();
    let _worker = server.worker_process(&[]);
    let plan = vec![vec![Act::Error("temporary".into())], vec![Act::Fail("card stolen".into())]];
    server.enqueue("charge", plan).await;
    server.eventually("it has failed", SOON, || server.counter("failed") == 1);
    let record = server.inspect().failed(0, 1).await.expect("the records").remove(0);
    assert_eq!((record.message.as_str(), record.attempts), ("card stolen", 2));
    server.holds("it does not run again", Duration::from_secs(1), || server.begun("charge") == 2);
    assert_eq!(server.leftovers("default"), [("hworker-failed-default".to_owned(), 1)]);
}
