//! Code of the user's that panics, hangs or has no end outside of a body: the log, and what an error does beside being one.

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::Duration;

use anyhow::Context;
use hworker_tests::Records as _;
use hworker_tests::{
    Act, How, InProcess, Process, TestServer, act, strange, strange_blocking, wakes_with_a_panic,
};

use crate::support::{
    HOUR_MS, SOON, block_on, counter, first_run_hangs, put, serving, wait_for_workers,
};

/// A worker that a shell runs as `worker 2>&1 | head -n 3`: who reads its log ends after three lines, and then to write one is an
/// error, and to say that on standard error a panic.
fn with_a_log_that_ends(server: &TestServer, settings: &[(&str, &str)]) -> Process {
    let mut command = server.command("test-worker");
    command.env("HWORKER_LOG", "info").envs(settings.iter().copied()).stderr(Stdio::piped());
    let mut worker = Process::start(command);
    let log = BufReader::new(worker.log().expect("a pipe"));
    put(server, "first", vec![vec![Act::Error("for the log".into())], vec![]]);
    put(server, "second", vec![vec![Act::Error("for the log".into())], vec![]]);
    assert_eq!(log.lines().take(3).map_while(Result::ok).count(), 3);
    worker
}

/// Nothing of these workers is left but so many records of failures.
fn nothing_is_left(server: &TestServer, failed: u64) {
    let failed = ("hworker-failed-default".to_owned(), failed);
    server.eventually("nothing is left", SOON, || server.leftovers("default") == [failed.clone()]);
}

/// The worker is the one that it was, all its slots are free, and it ends as it should.
fn goes_on(server: &TestServer, worker: &mut Process, slots: usize) {
    for _ in 0..slots {
        put(server, "full", vec![vec![Act::Gate("full".into())]]);
    }
    server.eventually("all slots are taken", SOON, || server.begun("full") == slots);
    server.open("full");
    server.eventually("all end", SOON, || server.ended("full") == slots);
    assert!(server.runs_of("full").iter().all(|run| run.pid == worker.pid()));
    assert_eq!(counter(server, "recovered"), 0, "nobody took it for dead");
    worker.terminate();
    assert!(worker.wait(SOON).is_some_and(|status| status.success()));
}

fn a_log_that_panics_costs_no_job(settings: &[(&str, &str)]) {
    const JOBS: u64 = 30;
    let server = TestServer::start();
    let settings = [&[("HWORKER_CONCURRENCY", "4"), ("TOKIO_WORKER_THREADS", "2")], settings];
    let mut worker = with_a_log_that_ends(&server, &settings.concat());
    for _ in 0..JOBS {
        let plan = vec![vec![Act::Error("as always".into())]];
        let job = act::with("fails".into(), plan).on(server.client()).max_attempts(1);
        job.enqueue_blocking().expect("enqueued");
    }
    server.eventually("all have failed", SOON, || counter(&server, "failed") == JOBS);
    assert_eq!(server.begun("fails") as u64, JOBS);
    nothing_is_left(&server, JOBS);
    assert_eq!(serving(&server).len(), 1);
    goes_on(&server, &mut worker, 4);
}

#[test]
fn a_log_of_ours_that_panics_costs_no_job() {
    // `worker 2>&1 | head -n 3` and jobs that fail: each is settled, none keeps its lease.
    // Guard: `guarded` around each line.
    a_log_that_panics_costs_no_job(&[]);
}

#[test]
fn a_subscriber_that_panics_costs_no_job() {
    // The same where the program has set up its own: `tracing_subscriber::fmt().init()`.
    // Guard: as above.
    a_log_that_panics_costs_no_job(&[("HWORKER_TEST_SUBSCRIBER", "info")]);
}

#[test]
fn a_log_that_panics_for_the_supervisor_costs_no_heartbeat() {
    // The line about a lease that was revoked panics: the worker goes on, that job runs again, and one that runs beside it comes to its end.
    // Guard: what ends by a panic ends the life (`Session::vital`), where the line is written in the supervisor.
    let server = TestServer::start();
    let settings = [("HWORKER_TEST_SUBSCRIBER", "info"), ("HWORKER_CONCURRENCY", "4")];
    let mut worker = with_a_log_that_ends(&server, &settings);
    put(&server, "beside", vec![vec![Act::Gate("beside".into())]]);
    let revoked = put(&server, "revoked", first_run_hangs());
    server.eventually("both run", SOON, || server.begun("beside") + server.begun("revoked") == 2);
    block_on(server.inspect().revoke(&revoked)).expect("revoked");
    server.eventually("it runs again", SOON, || server.ended("revoked") == 1);
    // Without heartbeats no job starts after 4 s, and it is taken for dead after 5 s.
    server.holds("nobody takes it for dead", Duration::from_secs(6), || {
        counter(&server, "recovered") == 0
    });
    put(&server, "later", vec![]);
    server.eventually("a later one runs", SOON, || server.ended("later") == 1);
    server.open("beside");
    server.eventually("the other ends", SOON, || server.ended("beside") == 1);
    server.drained(SOON);
    wait_for_workers(&server, 1);
    worker.terminate();
    assert!(worker.wait(SOON).is_some_and(|status| status.success()));
}

#[test]
fn a_waker_that_panics_costs_no_lease() {
    // Who awaits `Context::cancelled` in a way of the user's is woken by a panic, at the end of a body and at the deadline of one that blocks
    // the runtime, which the supervisor keeps: the attempts end as they would without that.
    // Guard: `guarded` in `End::reach`.
    let server = TestServer::start();
    let settings = [("HWORKER_CONCURRENCY", "4"), ("TOKIO_WORKER_THREADS", "2")];
    let mut worker = server.worker_process(&settings);
    for block_ms in [0, 0, 0, 4_500] {
        let job = wakes_with_a_panic::with(block_ms).timeout(Duration::from_secs(1));
        job.max_attempts(1).on(server.client()).enqueue_blocking().expect("enqueued");
    }
    let settled = || (counter(&server, "processed"), counter(&server, "failed")) == (3, 1);
    server.eventually("all are settled", SOON, settled);
    nothing_is_left(&server, 1);
    goes_on(&server, &mut worker, 4);
}

#[test]
fn an_error_that_panics_when_it_is_dropped_costs_no_lease() {
    // Returned in time, after the timeout, and by a blocking body within its grace and after it: each attempt ends as it would without that.
    // Guard: `Caught` around a finish that is dropped, and around what a blocking body returns.
    let server = TestServer::start();
    let settings = [("HWORKER_CONCURRENCY", "4"), ("TOKIO_WORKER_THREADS", "4")];
    let mut worker = server.worker_process(&settings);
    let second = Duration::from_secs(1);
    for after_ms in [0, 0, 1_500, 1_500] {
        let job = strange::with(How::DropPanics, after_ms).timeout(second).max_attempts(1);
        job.on(server.client()).enqueue_blocking().expect("enqueued");
    }
    for after_ms in [0, 1_500, 3_500] {
        let job = strange_blocking::with(How::DropPanics, after_ms).timeout(second);
        job.max_attempts(1).on(server.client()).enqueue_blocking().expect("enqueued");
    }
    server.eventually("all have failed", 2 * SOON, || counter(&server, "failed") == 7);
    let mut kinds: Vec<_> = failed(&server).into_values().map(|(kind, _)| kind).collect();
    kinds.sort_unstable();
    assert_eq!(kinds, ["error", "error", "error", "timeout", "timeout", "timeout", "timeout"]);
    nothing_is_left(&server, 7);
    goes_on(&server, &mut worker, 4);
}

#[test]
fn an_error_without_an_end_is_read_to_a_bound() {
    // Sources that come back to the error itself, with the same text or another each time, and a text of a million bytes, more of each than
    // there are threads: told up to a bound, and the jobs behind them run.
    // Guard: `outcome::chain` takes 100 sources, `decide::Text` 4,000 bytes.
    let server = TestServer::start();
    let settings = [("HWORKER_CONCURRENCY", "4"), ("TOKIO_WORKER_THREADS", "2")];
    let mut worker = server.worker_process(&settings);
    for how in [How::SourceOfItself, How::SourcesGoOn, How::DisplayGoesOn] {
        for _ in 0..3 {
            let job = strange::with(how, 0).max_attempts(1).on(server.client());
            job.enqueue_blocking().expect("enqueued");
        }
    }
    server.eventually("all have failed", SOON, || counter(&server, "failed") == 9);
    let told = |how: How| {
        let failed = failed(&server).into_iter();
        let told = failed.filter(|(args, _)| args.contains(&format!("{how:?}")));
        told.map(|(_, told)| told).next().expect("a record")
    };
    assert_eq!(told(How::SourceOfItself), ("error".into(), "strange".into()));
    let texts: Vec<_> = (0..=100).map(|number| format!("text {number}")).collect();
    // "text 10" stands in "text 100" alone by then.
    assert_eq!(told(How::SourcesGoOn), ("error".into(), texts.join(": ")));
    let cut = "x".repeat(4_000) + " [cut]";
    assert_eq!(told(How::DisplayGoesOn), ("error".into(), cut));
    goes_on(&server, &mut worker, 4);
}

#[test]
fn an_error_that_cannot_be_told_is_told_as_such() {
    // `Display` fails or panics, `source` panics: the record says so, and `on_error` and `backoff` of the job are asked all the same.
    // Guard: `decide::written`; `panic::catch` around each step of the chain.
    let server = TestServer::start();
    let mut worker = server.worker_process(&[("HWORKER_CONCURRENCY", "4")]);
    let before = server.redis().time_us() / 1000;
    for how in [How::DisplayFails, How::DisplayPanics, How::SourcePanics] {
        strange::with(how, 0).on(server.client()).enqueue_blocking().expect("enqueued");
    }
    let scheduled = "hworker-scheduled-default";
    server.eventually("all are settled", SOON, || {
        (counter(&server, "failed"), server.redis().len(scheduled)) == (1, 2)
    });
    let failed: Vec<_> = failed(&server).into_values().collect();
    let panicked = "its text could not be written, it panicked: on purpose";
    assert_eq!(failed, [("error".into(), panicked.into())]);
    let waiting: Vec<(String, u64)> =
        server.redis().ask(&["ZRANGE", scheduled, "0", "-1", "WITHSCORES"]);
    for (envelope, due) in waiting {
        assert!(due >= before + HOUR_MS, "{due} {envelope}");
        let envelope: serde_json::Value = serde_json::from_str(&envelope).expect("an envelope");
        let text = match envelope["args"]["how"].as_str() {
            Some("DisplayFails") => "its text could not be written",
            _ => "strange: its source could not be read, it panicked: on purpose",
        };
        let error = &envelope["errors"][0];
        assert_eq!((&error["kind"], &error["message"]), (&"error".into(), &text.into()));
    }
    goes_on(&server, &mut worker, 4);
}

#[test]
fn what_an_error_hangs_in_is_met_by_the_deadline() {
    // `Display`, `source`, `on_error`, `backoff` or `Drop` that does not return: settled as timed out at the timeout and the grace, as a body that
    // blocks, and the worker goes on while threads are left.
    // Guard: `Started::end` decides before it ends the lease, and the supervisor keeps the deadline until then.
    let hows =
        [How::DisplayHangs, How::SourceHangs, How::OnErrorHangs, How::BackoffHangs, How::DropHangs];
    let server = TestServer::start();
    let settings = [("HWORKER_CONCURRENCY", "8"), ("TOKIO_WORKER_THREADS", "8")];
    let mut worker = server.worker_process(&settings);
    for how in hows {
        let job = strange::with(how, 0).timeout(Duration::from_secs(1)).on(server.client());
        // Else it has no backoff to ask for.
        let attempts = if how == How::BackoffHangs { 2 } else { 1 };
        job.max_attempts(attempts).enqueue_blocking().expect("enqueued");
    }
    let settled = || (counter(&server, "failed"), counter(&server, "retried")) == (4, 1);
    server.eventually("all are settled", SOON, settled);
    assert!(failed(&server).into_values().all(|(kind, _)| kind == "timeout"));
    put(&server, "behind", vec![]);
    server.eventually("the one behind runs", SOON, || server.ended("behind") == 1);
    assert!(worker.exited().is_none());
    assert_eq!(counter(&server, "recovered"), 0, "nobody took it for dead");
}

/// An argument that JSON cannot hold.
#[hworker::job]
fn measure(value: f64) {
    println!("{value}");
}

/// Returns an error through `anyhow`.
#[hworker::job(on_error = "fail")]
async fn through_anyhow(which: String) -> anyhow::Result<()> {
    let io = || std::io::Error::other("no route");
    match which.as_str() {
        "plain" => Err(io())?,
        "context" => Err(io()).context("sending").context("charging")?,
        "verdict" => Err(hworker::fail(anyhow::Error::new(io()).context("sending")))?,
        "verdict within" => Err(hworker::fail(io())).context("sending")?,
        _ => drop(measure::enqueue(f64::NAN).await.context("asking")?),
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cause_is_told_once_through_anyhow() {
    // Errors of std, of verdicts and of hworker itself, with and without a context: each text of the chain stands once in the record.
    // Guard: `decide::add`.
    let server = TestServer::start();
    let _worker = InProcess::run(server.worker().register::<through_anyhow>());
    let encode = "asking: the arguments of job measure cannot be written as JSON and read again: ";
    let cases = [
        ("plain", "no route"),
        ("context", "charging: sending: no route"),
        ("verdict", "sending: no route"),
        ("verdict within", "sending: no route"),
        ("encode", encode),
    ];
    for (which, _) in cases {
        let job = through_anyhow::with(which.to_owned()).on(server.client());
        job.enqueue().await.expect("enqueued");
    }
    server.eventually("all have failed", SOON, || counter(&server, "failed") == 5);
    for record in server.inspect().failed(0, 10).await.expect("the records") {
        let case = cases.iter().find(|(which, _)| record.args().ends_with(&format!("{which:?}}}")));
        let (which, text) = case.expect("a case");
        if *which == "encode" {
            let why = record.message.strip_prefix(text).expect(&record.message);
            assert_eq!(record.message.matches(why).count(), 1, "{}", record.message);
        } else {
            assert_eq!(record.message, *text, "{which}");
        }
    }
}

/// The kind and message of each failed job, by its id and arguments.
fn failed(server: &TestServer) -> HashMap<String, (String, String)> {
    let failed = block_on(server.inspect().failed(0, 100)).expect("the records");
    let told = |record: hworker_tests::Failed| {
        (format!("{} {}", record.id, record.args()), (record.kind, record.message))
    };
    failed.into_iter().map(told).collect()
}
