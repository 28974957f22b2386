//! Row OB9: lines as JSON objects.

use std::collections::BTreeMap;
use std::time::Duration;

use hworker::JobId;
use hworker_tests::{Act, TestServer, act, act_once};
use serde_json::Value;

use crate::{Log, SOON, block_on, worker_with_pipe};

/// An argument of each job.
const SECRET: &str = "top-secret";

/// The end of an attempt: its outcome, level, number, and what kind of error it had.
type End = (String, String, u64, Option<String>);

fn end(outcome: &str, level: &str, attempt: u64, kind: Option<&str>) -> End {
    (outcome.to_owned(), level.to_owned(), attempt, kind.map(str::to_owned))
}

/// Enqueues jobs that end in six ways, waits until they have, and gives how the attempts of each end.
fn run(server: &TestServer) -> BTreeMap<String, Vec<End>> {
    let mut ends = BTreeMap::new();
    let mut expect = |id: JobId, of: &[End]| drop(ends.insert(id.to_string(), of.to_vec()));
    let (secret, on) = (|| SECRET.to_owned(), server.client());
    let done = act::with(secret(), vec![vec![Act::Log("the body says so".into())]]);
    let done = done.tag("eu").tag("vip").on(on).enqueue_blocking().expect("enqueued");
    expect(done, &[end("done", "DEBUG", 1, None)]);
    let error = act::with(secret(), vec![vec![Act::Error("refused".into())], vec![]]);
    let error = error.on(on).enqueue_blocking().expect("enqueued");
    expect(error, &[end("retried", "WARN", 1, Some("error")), end("done", "DEBUG", 2, None)]);
    let failure = act::with(secret(), vec![vec![Act::Failure("no".into())]]);
    let failure = failure.on(on).enqueue_blocking().expect("enqueued");
    expect(failure, &[end("failed", "ERROR", 1, Some("failure"))]);
    let panic = act_once::with(secret(), vec![vec![Act::Panic("on purpose".into())]]);
    let panic = panic.on(on).enqueue_blocking().expect("enqueued");
    expect(panic, &[end("failed", "ERROR", 1, Some("panic"))]);
    let late = act_once::with(secret(), vec![vec![Act::Gate("never".into())]]);
    let late = late.timeout(Duration::from_millis(200)).on(on).enqueue_blocking();
    expect(late.expect("enqueued"), &[end("failed", "ERROR", 1, Some("timeout"))]);
    let cancelled = act::with("cancelled".into(), vec![vec![Act::Gate("never".into())]]);
    let cancelled = cancelled.on(on).enqueue_blocking().expect("enqueued");
    server.eventually("it runs", SOON, || server.begun("cancelled") == 1);
    block_on(server.inspect().cancel(&cancelled)).expect("cancelled");
    expect(cancelled, &[end("cancelled", "INFO", 1, Some("cancelled"))]);
    server.eventually("all have ended", SOON, || {
        let counted = ["processed", "failed", "cancelled"].map(|what| server.counter(what));
        counted == [2, 3, 1]
    });
    ends
}

#[test]
fn ob9_lines_are_json_objects_with_the_same_fields() {
    // Jobs that are done, tried again, fail, panic, run over their time and are cancelled: each line is a JSON object, but what Rust itself says of
    // a panic. The end of each attempt is one line, with the job's id, type, queue, attempt and tags, the worker, what became of it and how long it
    // waited and ran. What a body says has the same fields. The arguments are in no line.
    // Guard: `Json::on_event` and `on_new_span` in `json.rs`; `say_end` and `over` in `tell.rs`; `around` in `run.rs`.
    let server = TestServer::start();
    let settings = [("HWORKER_LOG_FORMAT", "json"), ("HWORKER_LOG", "info,hworker=debug")];
    let mut worker = worker_with_pipe(&server, &settings);
    let log = Log::read(worker.log().expect("a pipe"));
    let expected = run(&server);
    worker.terminate();
    assert!(worker.wait(SOON).expect("it ends").success());
    server.eventually("its end is told", SOON, || log.text().contains("worker stopped"));

    let text = log.text();
    assert!(!text.contains(SECRET), "{text}");
    let (lines, others): (Vec<_>, Vec<_>) = text.lines().partition(|line| line.starts_with('{'));
    let others = others.join("\n");
    assert!(others.contains("on purpose") && others.lines().count() <= 4, "{others}");
    let lines: Vec<Value> =
        lines.into_iter().map(|line| serde_json::from_str(line).expect(line)).collect();
    let text_of = |line: &Value, field: &str| line[field].as_str().map(str::to_owned);
    for line in &lines {
        for field in ["timestamp", "level", "target", "message"] {
            assert!(line[field].is_string(), "{field}: {line}");
        }
    }
    let mut ends: BTreeMap<String, Vec<End>> = BTreeMap::new();
    for line in lines.iter().filter(|line| line["outcome"].is_string()) {
        let id = text_of(line, "job.id").expect("an id");
        assert_eq!((&line["job.queue"], line["elapsed_ms"].is_u64()), (&"default".into(), true));
        let name = text_of(line, "job.name").expect("a name");
        assert!(["act", "act_once"].contains(&&*name) && line["wait_ms"].is_u64(), "{line}");
        assert!(line["worker.id"].as_str().is_some_and(|id| id.contains('.')), "{line}");
        let [outcome, level] = ["outcome", "level"].map(|field| text_of(line, field));
        let attempt = line["job.attempt"].as_u64().expect("a number");
        let end =
            (outcome.expect("one"), level.expect("one"), attempt, text_of(line, "error.kind"));
        ends.entry(id).or_default().push(end);
    }
    assert_eq!(ends, expected);

    let tagged: Vec<_> = lines.iter().filter(|line| line["job.tags"] == "eu,vip").collect();
    let says: Vec<_> =
        tagged.iter().map(|line| text_of(line, "message").expect("a text")).collect();
    assert_eq!(says, ["the body says so", "job done"]);
    for field in ["job.id", "job.name", "job.queue", "job.attempt", "worker.id"] {
        assert!(!tagged[0][field].is_null() && tagged[0][field] == tagged[1][field], "{field}");
    }
    assert_eq!(
        (&tagged[0]["level"], &tagged[0]["target"]),
        (&"INFO".into(), &"hworker_tests::jobs".into())
    );
}

#[test]
fn ob9_the_end_of_a_retry_says_when_it_runs_again_and_of_a_wrong_format_is_warned() {
    // As text the end of an attempt has the same fields. A format that is none is said, and the lines are text.
    // Guard: `install` and `with_spans` in `log.rs`; `say_end` in `tell.rs`.
    let server = TestServer::start();
    let mut worker = worker_with_pipe(&server, &[("HWORKER_LOG_FORMAT", "xml")]);
    let log = Log::read(worker.log().expect("a pipe"));
    let plan = vec![vec![Act::RetryIn(250)], vec![Act::Log("the body says so".into())]];
    let id = act::with("again".into(), plan).on(server.client()).enqueue_blocking();
    let id = id.expect("enqueued");
    server.eventually("it is done", SOON, || server.counter("processed") == 1);
    worker.terminate();
    assert!(worker.wait(SOON).expect("it ends").success());
    server.eventually("its end is told", SOON, || log.text().contains("worker stopped"));
    let text = log.text();
    assert!(text.contains("HWORKER_LOG_FORMAT `xml` is not understood"), "{text}");
    let line = text.lines().find(|line| line.contains("job runs again")).expect("a line");
    let fields =
        [&format!("job.id={id}"), "job.name=\"act\"", "job.queue=default", "job.attempt=1"];
    let more =
        ["outcome=\"retried\"", "error.kind=\"error\"", "delay_ms=250", "elapsed_ms=", "wait_ms="];
    assert!(fields.into_iter().chain(more).all(|field| line.contains(field)), "{line}");
    // The span of a body is left out of lines of text at this level, as it costs as much as a short job.
    let said = text.lines().find(|line| line.contains("the body says so")).expect("a line");
    assert!(!said.contains("job.id"), "{said}");
}
