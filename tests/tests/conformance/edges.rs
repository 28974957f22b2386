//! Values at the edges of what is allowed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hworker_tests::Records as _;
use hworker_tests::{Act, InProcess, Proxy, TestServer, act, act_unless_crashed};

const SOON: Duration = Duration::from_secs(10);

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_given_back_keeps_the_id_that_its_body_saw() {
    // Guard: `record::identified` writes the job's id, not a fresh one.
    let server = TestServer::start();
    let foreign = r#"{"job":"act","args":{"name":"given","plan":[[{"Gate":"never"}],[]]}}"#;
    let _: u64 = server.redis().ask(&["LPUSH", "hworker-jobs-default", foreign]);
    let settings = server.worker().register::<act>().shutdown_grace(Duration::ZERO);
    let worker = InProcess::run(settings);
    server.eventually("it runs", SOON, || server.begun("given") == 1);
    worker.stop().await;
    let _worker = server.run_worker::<act>();
    server.eventually("it ends", SOON, || server.ended("given") == 1);
    let runs = server.runs_of("given");
    assert!(runs.iter().all(|run| run.id == runs[0].id), "{runs:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_that_is_final_stays_final_after_a_day() {
    // Guard: `on_crash = "fail"` looks at every crash, the limit at those of the last 24 h.
    let server = TestServer::start();
    for job in ["act_unless_crashed", "act"] {
        let long_ago = format!(
            r#"{{"job":"{job}","args":{{"name":"{job}","plan":[]}},"crashes":[{{"at":1,"worker":"w.0"}}]}}"#
        );
        let _: u64 = server.redis().ask(&["LPUSH", "hworker-jobs-default", &long_ago]);
    }
    let worker = server.worker().register::<act>().register::<act_unless_crashed>();
    let _worker = InProcess::run(worker);
    server.eventually("the other runs", SOON, || server.ended("act") == 1);
    server.eventually("it failed", SOON, || server.redis().len("hworker-failed-default") == 1);
    assert_eq!(server.begun("act_unless_crashed"), 0);
    assert_eq!(server.inspect().failed(0, 1).await.expect("a record")[0].kind, "crash");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delay_without_end_has_none() {
    // Guard: `%.0f`, since `%d` makes the least of all numbers of one that is too large for it.
    let server = TestServer::start();
    let client = server.client();
    let never = act::with("never".into(), Vec::new()).on(client).delay(Duration::MAX);
    never.enqueue().await.expect("enqueued");
    for (name, what) in [("retried", Act::RetryIn(u64::MAX)), ("snoozed", Act::Snooze(u64::MAX))] {
        let job = act::with(name.into(), vec![vec![what]]).on(client);
        job.enqueue().await.expect("enqueued");
    }
    let _worker = server.run_worker::<act>();
    let scheduled = || server.redis().len("hworker-scheduled-default");
    server.eventually("all wait", SOON, || scheduled() == 3);
    act::with("next".into(), Vec::new()).on(client).enqueue().await.expect("enqueued");
    server.eventually("the next one runs", SOON, || server.ended("next") == 1);
    // Two heartbeats would have promoted them.
    server.holds("they wait", Duration::from_secs(3), || scheduled() == 3);
    assert_eq!(server.begun("never"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_started_once_however_often_it_connects() {
    // Guard: `HSETNX` in `reconcile.lua`.
    let server = TestServer::start();
    let _worker = server.run_worker::<act>();
    let one = || server.redis().keys("hworker-worker-default:*").len() == 1;
    server.eventually("it is registered", SOON, one);
    let record = server.redis().keys("hworker-worker-default:*").remove(0);
    let field = |name: &str| -> u64 { server.redis().ask(&["HGET", &record, name]) };
    let started = field("started");
    let _: u64 = server.redis().ask(&["CLIENT", "KILL", "TYPE", "normal"]);
    server.eventually("it connects again", SOON, || field("session") == 2);
    assert_eq!(field("started"), started);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_of_an_unknown_name_that_is_requeued_has_its_time_again() {
    // Guard: a job that is parked gets a token anew.
    let server = TestServer::start();
    let newer = r#"{"id":"newer","job":"not_deployed_yet","args":{}}"#;
    let _: u64 = server.redis().ask(&["LPUSH", "hworker-jobs-default", newer]);
    let short = server.worker().register::<act>().unknown_for(Duration::from_millis(200));
    let worker = InProcess::run(short);
    let broken = || server.redis().len("hworker-broken-default") == 1;
    server.eventually("its time is over", SOON, broken);
    worker.stop().await;

    let _worker = server.run_worker::<act>();
    let payload = server.inspect().broken().await.expect("a list").remove(0).payload;
    server.inspect().requeue_broken(&payload).await.expect("it is there");
    let waits = || server.redis().len("hworker-parked-default") == 1;
    server.eventually("it waits for a worker that knows it", SOON, waits);
    assert!(!broken());
    let parked = server.inspect().find(&hworker::JobId::from("newer")).await.expect("asked");
    let state = parked.expect("it is found").state;
    assert!(matches!(state, hworker::JobState::Parked), "{state:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_that_no_job_type_names_is_served_when_it_is_asked_for() {
    // Guard: `extra` in the settings of a queue; without it the name is taken for a typing error.
    let server = TestServer::start();
    let job = act::with("urgent".into(), Vec::new()).on(server.client()).queue("urgent");
    job.enqueue().await.expect("enqueued");
    let mistyped = server.worker().register::<act>().queues(["urgent"]).build();
    let error = mistyped.expect_err("refused").to_string();
    assert!(error.contains("`urgent`") && error.contains("+urgent"), "{error}");

    let _worker = server.worker_process(&[("HWORKER_QUEUES", "default=3,+urgent")]);
    server.eventually("it runs", SOON, || server.ended("urgent") == 1);
    act::with("usual".into(), Vec::new()).on(server.client()).enqueue().await.expect("enqueued");
    server.eventually("the others run too", SOON, || server.ended("usual") == 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_does_not_outgrow_the_limit_by_its_errors() {
    // Guard: `Rewrite::bytes_within`, and the room that `reserve.lua` is told of.
    let server = TestServer::start();
    let failing = vec![vec![Act::Error("x".repeat(900))]; 6];
    let job = act::with("grows".into(), [failing, vec![Vec::new()]].concat());
    job.on(server.client()).enqueue().await.expect("enqueued");
    let envelope = server.redis().len("hworker-jobs-default");
    assert_eq!(envelope, 1);
    let bytes: Vec<u8> = server.redis().ask(&["LINDEX", "hworker-jobs-default", "0"]);
    let worker = server.worker().register::<act>().max_payload(bytes.len());
    let _worker = InProcess::run(worker);
    server.eventually("it ends", SOON, || server.ended("grows") == 1);
    server.drained(SOON);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_envelope_of_a_later_version_is_parked_whatever_its_fields_have_become() {
    // Guard: `Header::of_newer`.
    let server = TestServer::start();
    let later = r#"{"v":2,"job":"act","args":[1],"id":{"a":1},"timeout":"5s"}"#;
    let _: u64 = server.redis().ask(&["LPUSH", "hworker-jobs-default", later]);
    let _worker = server.run_worker::<act>();
    let parked = || server.redis().len("hworker-parked-default") == 1;
    server.eventually("it waits for another worker", SOON, parked);
    assert_eq!(server.redis().len("hworker-broken-default"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_is_garbage_loses_no_job() {
    // Guard: `lib/token.lua` takes only a whole number below 2^52 for the last token.
    for garbage in ["inf", "nan", "-1e300", "4503599627370495", "9007199254740993", "x"] {
        let server = TestServer::start();
        let _: String = server.redis().ask(&["SET", "hworker-token-default", garbage]);
        for _ in 0..20 {
            act::with("runs".into(), Vec::new()).on(server.client()).enqueue().await.expect("in");
        }
        let _worker = server.run_worker::<act>();
        server.eventually(garbage, SOON, || server.ended("runs") == 20);
        server.drained(SOON);
        assert_eq!(server.counter("processed"), 20, "{garbage}");
        // It began anew at the time, in microseconds.
        let token: u64 = server.redis().ask(&["GET", "hworker-token-default"]);
        let time: Vec<u64> = server.redis().ask(&["TIME"]);
        assert!(token.abs_diff(time[0] * 1_000_000) < 600_000_000, "{garbage}: {token}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_some_servers_spell_as_a_power_of_ten_is_left_out() {
    // Guard: `lib/token.lua` leaves out those that end in eight zeros.
    let server = TestServer::start();
    let _: String = server.redis().ask(&["SET", "hworker-token-default", "3999999999999990"]);
    for _ in 0..30 {
        act::with("runs".into(), Vec::new()).on(server.client()).enqueue().await.expect("in");
    }
    let _worker = server.run_worker::<act>();
    server.eventually("all have run", SOON, || server.ended("runs") == 30);
    let mut tokens: Vec<u64> = server.runs_of("runs").iter().map(|run| run.token).collect();
    // Each run begins and ends.
    tokens.sort_unstable();
    tokens.dedup();
    assert_eq!(tokens.len(), 30, "{tokens:?}");
    assert!(tokens[0] > 4_000_000_000_000_000, "{tokens:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_of_another_type_takes_no_job_along() {
    // Guard: every script looks at the keys that it will write before it takes anything.
    let server = TestServer::start();
    let _: String = server.redis().ask(&["SET", "hworker-failed-default", "x"]);
    let _: String = server.redis().ask(&["SET", "hworker-bell-default", "x"]);
    let failing = act::with("fails".into(), vec![vec![Act::Fail("for good".into())]]);
    failing.on(server.client()).enqueue().await.expect("enqueued");
    let later = act::with("later".into(), Vec::new()).on(server.client());
    let refused = later.delay(Duration::from_millis(1)).enqueue().await;
    refused.expect_err("neither scheduled nor rung for");
    assert_eq!(server.redis().len("hworker-scheduled-default"), 0);

    let _worker = server.run_worker::<act>();
    server.eventually("it runs", SOON, || server.begun("fails") == 1);
    server.holds("its lease is kept", Duration::from_secs(2), || {
        server.redis().total("hworker-progress-default:*") == 1
    });
    let _: u64 = server.redis().ask(&["DEL", "hworker-failed-default", "hworker-bell-default"]);
    server.eventually("its record is there", SOON, || {
        server.redis().len("hworker-failed-default") == 1
    });
    assert_eq!(server.begun("fails"), 1);
}

/// Bodies of [`endless`] that have begun, and that are over.
static ENDLESS: (AtomicU64, AtomicU64) = (AtomicU64::new(0), AtomicU64::new(0));

struct CountsEnd;

impl Drop for CountsEnd {
    fn drop(&mut self) {
        ENDLESS.1.fetch_add(1, Ordering::SeqCst);
    }
}

#[hworker::job]
async fn endless() {
    let _counts_end = CountsEnd;
    ENDLESS.0.fetch_add(1, Ordering::SeqCst);
    std::future::pending::<()>().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dropping_a_worker_ends_its_bodies() {
    // Guard: `EndsBodies`; without it a body runs on beside its next run.
    let server = TestServer::start();
    endless::with().on(server.client()).enqueue().await.expect("enqueued");
    let worker = server.worker().register::<endless>().build().expect("a worker");
    let running = tokio::spawn(worker.run_until(std::future::pending()));
    server.eventually("it runs", SOON, || ENDLESS.0.load(Ordering::SeqCst) == 1);
    assert_eq!(ENDLESS.1.load(Ordering::SeqCst), 0);
    running.abort();
    running.await.expect_err("aborted");
    server.eventually("it ends", SOON, || ENDLESS.1.load(Ordering::SeqCst) == 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn oversized_payloads_are_set_aside_a_few_at_a_time_and_block_nobody() {
    // Guard: `quarantined < 100` in `reserve.lua`: no script works through a whole list of them.
    let server = TestServer::start();
    let payload = "x".repeat(3_000);
    for _ in 0..1_000 {
        let _: u64 = server.redis().ask(&["LPUSH", "hworker-jobs-default", &payload]);
    }
    act::with("behind".into(), Vec::new()).on(server.client()).enqueue().await.expect("enqueued");
    let proxy = Proxy::before(&server);
    let settings = [("HWORKER_REDIS_URL", &*proxy.url()), ("HWORKER_MAX_PAYLOAD", "1000")];
    let _worker = server.worker_process(&settings);
    server.eventually("the one behind runs", SOON, || server.ended("behind") == 1);
    assert_eq!(server.counter("broken"), 1_000);
    // At most 100, and what was popped with the last of them: eight calls at the least.
    assert!(proxy.count("reserve") >= 8, "{} reserves", proxy.count("reserve"));
}
