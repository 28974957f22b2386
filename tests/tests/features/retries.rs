//! Rows RT: what follows an attempt that did not succeed.

use std::collections::HashMap;
use std::error::Error;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hworker::{AttemptError, BoxError, JobId, JobState, OnFault, Outcome, State};
use hworker_tests::Records as _;
use hworker_tests::{Act, InProcess, TestServer, act, act_once};
use serde_json::{Value, json};

use crate::SOON;

const HOUR_MS: u64 = 3_600_000;

#[tokio::test(flavor = "multi_thread")]
async fn rt1_default_attempts() {
    // 25 attempts without a word about it: a job that always fails runs 25 times, the attempts are counted from 1, and the body
    // is told of how many.
    let server = TestServer::start();
    let _worker = server.run_worker::<act>();
    server.enqueue("fails", vec![vec![Act::Error("always".into())]]).await;
    server.eventually("it has failed", SOON, || server.counter("failed") == 1);
    let runs = server.runs_of("fails");
    let attempts: Vec<_> = runs.iter().map(|run| run.attempt).collect();
    assert_eq!(attempts, (1..=25).collect::<Vec<_>>());
    let failed = server.inspect().failed(0, 1).await.expect("the records").remove(0);
    assert_eq!((failed.attempts, failed.kind.as_str()), (25, "error"));
    server.holds("it has failed", Duration::from_secs(1), || server.begun("fails") == 25);
}

#[hworker::job]
async fn fails_by_default() -> Result<(), String> {
    Err("as always".into())
}

/// Pushes jobs that have made attempts already, and gives after what delay, in ms, each runs again.
fn delays_after(server: &TestServer, attempts: &[u32]) -> Vec<u64> {
    for (number, attempt) in attempts.iter().enumerate() {
        let id = number.to_string();
        let envelope = json!({"id": id, "job": "fails_by_default", "args": {}, "attempt": attempt});
        let list = "hworker-jobs-default";
        server.redis().ask::<u64>(&["LPUSH", list, &envelope.to_string()]);
    }
    let key = "hworker-scheduled-default";
    let all = attempts.len() as u64;
    server.eventually("all wait for the next attempt", SOON, || server.redis().len(key) == all);
    let waiting: Vec<(String, u64)> = server.redis().ask(&["ZRANGE", key, "0", "-1", "WITHSCORES"]);
    let mut delays = vec![0; attempts.len()];
    for (envelope, due) in waiting {
        let envelope: Value = serde_json::from_str(&envelope).expect("an envelope");
        let number: usize = envelope["id"].as_str().expect("an id").parse().expect("a number");
        assert_eq!(envelope["attempt"], attempts[number] + 1);
        // Noted by the worker, which knows the server's clock to a few milliseconds, before it asked for the retry.
        delays[number] = due - envelope["errors"][0]["at"].as_u64().expect("a time");
    }
    server.redis().ask::<u64>(&["DEL", key]);
    delays
}

#[tokio::test(flavor = "multi_thread")]
async fn rt2_default_backoff() {
    // Before attempt n + 1: 5 s * 2^(n - 1), at most 6 h, times a random factor from 0.75 to 1.25, and again at most 6 h.
    const SLACK_MS: u64 = 1_000;
    let server = TestServer::start();
    let _worker = server.run_worker::<fails_by_default>();
    let attempts: Vec<_> = (1..=24).collect();
    let mut total = 0;
    for (attempt, delay) in attempts.iter().zip(delays_after(&server, &attempts)) {
        let base = (5_000_u64 << (attempt - 1)).min(6 * HOUR_MS);
        let most = (base * 5 / 4).min(6 * HOUR_MS) + SLACK_MS;
        assert!((base * 3 / 4..=most).contains(&delay), "attempt {attempt}: {delay} ms");
        total += delay;
    }
    println!("25 attempts take {} h", total / HOUR_MS);

    // Jobs that failed together do not come back together.
    let mut delays = delays_after(&server, &[1; 200]);
    delays.sort_unstable();
    let (least, most) = (delays[0], delays[199]);
    assert!(least >= 3_750 && most <= 6_250 + SLACK_MS, "{least} to {most} ms");
    let within = delays.iter().filter(|delay| (4_500..5_500).contains(*delay)).count();
    assert!((40..120).contains(&within), "{within} of 200 in the middle fifth of the time twice");
    delays.dedup();
    assert!(delays.len() > 150, "{} different delays", delays.len());
}

/// What the function was asked: the attempt and the error's text.
static ASKED: Mutex<Vec<(u32, String)>> = Mutex::new(Vec::new());

fn patience(attempt: u32, error: &(dyn Error + Send + Sync + 'static)) -> Duration {
    ASKED.lock().unwrap_or_else(PoisonError::into_inner).push((attempt, error.to_string()));
    match error.downcast_ref::<Refusal>() {
        Some(Refusal::NotToday) => Duration::from_millis(24 * HOUR_MS),
        _ => Duration::from_millis(100 * u64::from(attempt)),
    }
}

/// An error of the user's.
#[derive(Debug, Clone, Copy)]
enum Refusal {
    Busy,
    NotToday,
    Stolen,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "refused: {self:?}")
    }
}

impl Error for Refusal {}

#[hworker::job(backoff = patience)]
async fn with_patience(context: hworker::Context) -> Result<(), Refusal> {
    match context.attempt() {
        1 => Err(Refusal::Busy),
        2 => panic!("on purpose"),
        _ => Err(Refusal::NotToday),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rt3_backoff_by_a_function() {
    // Function of (attempt, error), of the job's own: it is given the attempt that has ended, from 1, and the error itself, so
    // that it can look at its type; the text of a panic too.
    let server = TestServer::start();
    let _worker = server.run_worker::<with_patience>();
    let before = server.redis().time_us() / 1000;
    let job = with_patience::with().on(server.client());
    let id = job.enqueue().await.expect("enqueued");
    let due = due_after(&server, &id, 4).await;
    let asked = std::mem::take(&mut *ASKED.lock().unwrap_or_else(PoisonError::into_inner));
    let asked: Vec<_> = asked.iter().map(|(attempt, error)| (*attempt, error.as_str())).collect();
    assert_eq!(asked, [(1, "refused: Busy"), (2, "on purpose"), (3, "refused: NotToday")]);
    let day = 24 * HOUR_MS;
    let now = server.redis().time_us() / 1000;
    assert!((before + 300 + day..=now + day).contains(&due), "due {due}, enqueued {before}");
}

/// Waits until a job waits for this attempt, and gives when it is due.
async fn due_after(server: &TestServer, id: &JobId, attempt: u32) -> u64 {
    let mut due = None;
    server
        .eventually_async("it waits for its attempt", SOON, async || {
            let found = server.inspect().find(id).await.expect("a search");
            due = found.filter(|found| found.attempt == attempt).and_then(|found| {
                let due = found.at.filter(|_| found.state == JobState::Scheduled)?;
                Some(due)
            });
            due.is_some()
        })
        .await;
    due.expect("it is due")
}

#[tokio::test(flavor = "multi_thread")]
async fn rt4_verdict_for_each_error() {
    // Retry now, retry after d, discard, kill, snooze; each at the word of the body. (To discard is to return `Ok`.)
    let server = TestServer::start();
    let _worker = server.run_worker::<act>();
    let then_done = |act: Act| vec![vec![act], vec![]];
    let text = || "because".to_owned();
    server.enqueue("now", then_done(Act::RetryIn(0))).await;
    server.enqueue("discarded", vec![vec![]]).await;
    let after = server.enqueue("after", then_done(Act::RetryIn(HOUR_MS))).await;
    let snoozed = server.enqueue("snoozed", then_done(Act::Snooze(HOUR_MS))).await;
    let killed = server.enqueue("killed", then_done(Act::Fail(text()))).await;
    let failure = server.enqueue("failure", then_done(Act::Failure(text()))).await;
    let retried = server.enqueue("retried", then_done(Act::Retry(text()))).await;
    for name in ["now", "discarded", "retried"] {
        server.eventually(name, SOON, || server.ended(name) == 1);
    }
    let find = async |id: &JobId| server.inspect().find(id).await.expect("a search");
    // An hour later, as the second attempt, or as the first still.
    let now = server.redis().time_us() / 1000;
    for (id, attempt) in [(&after, 2), (&snoozed, 1)] {
        let due = due_after(&server, id, attempt).await;
        assert!(due.abs_diff(now + HOUR_MS) < 5_000, "{due} {now}");
    }
    for id in [&killed, &failure] {
        server
            .eventually_async("it has failed", SOON, async || {
                let found = find(id).await;
                found.is_some_and(|found| matches!(found.state, JobState::Failed))
            })
            .await;
    }
    server.eventually_async("it is gone", SOON, async || find(&retried).await.is_none()).await;
    let begun = ["now", "retried", "after", "snoozed", "killed"].map(|name| server.begun(name));
    assert_eq!(begun, [2, 2, 1, 1, 1]);
    let left =
        [("hworker-failed-default".to_owned(), 2), ("hworker-scheduled-default".to_owned(), 2)];
    server.eventually("nothing else is left", SOON, || {
        let mut found = server.leftovers("default");
        found.sort();
        found == left
    });
}

fn is_fatal(error: &(dyn Error + Send + Sync + 'static)) -> OnFault {
    match error.downcast_ref::<Refusal>() {
        Some(Refusal::Stolen) => OnFault::Fail,
        _ => OnFault::Retry,
    }
}

type Starts = Arc<Mutex<HashMap<String, u32>>>;

#[hworker::job(on_error = is_fatal, backoff = "0s", max_attempts = 3)]
async fn charge(card: String, State(starts): State<Starts>) -> Result<(), Refusal> {
    *starts.lock().expect("no panic").entry(card.clone()).or_default() += 1;
    match card.as_str() {
        "stolen" => Err(Refusal::Stolen),
        "busy" => Err(Refusal::Busy),
        _ => Ok(()),
    }
}

#[hworker::job(on_error = is_fatal, backoff = "0s", max_attempts = 3)]
async fn charge_boxed(card: String, State(starts): State<Starts>) -> Result<(), BoxError> {
    *starts.lock().expect("no panic").entry(format!("{card}, boxed")).or_default() += 1;
    match card.as_str() {
        "stolen" => Err(Refusal::Stolen.into()),
        "busy" => Err("busy".into()),
        _ => Ok(()),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rt5_declared_fatal_errors() {
    // `on_error` = a path: a function says of each error, by its type, whether the job runs again; one that it calls fatal
    // has failed at once, others are tried as often as always.
    let server = TestServer::start();
    let starts = Starts::default();
    let worker = server.worker().register::<charge>().register::<charge_boxed>();
    let _worker = InProcess::run(worker.state(Arc::clone(&starts)));
    for card in ["stolen", "busy", "good"] {
        charge::with(card.into()).on(server.client()).enqueue().await.expect("enqueued");
        let job = charge_boxed::with(card.into()).on(server.client());
        job.enqueue().await.expect("enqueued");
    }
    let settled = || (server.counter("failed"), server.counter("processed"));
    server.eventually("all are settled", SOON, || settled() == (4, 2));
    let starts = starts.lock().expect("no panic").clone();
    let expected = [
        ("stolen", 1),
        ("busy", 3),
        ("good", 1),
        ("stolen, boxed", 1),
        ("busy, boxed", 3),
        ("good, boxed", 1),
    ];
    let expected: HashMap<_, _> =
        expected.into_iter().map(|(card, count)| (card.to_owned(), count)).collect();
    assert_eq!(starts, expected);
    let failed = server.inspect().failed(0, 10).await.expect("the records");
    let stolen: Vec<_> = failed.iter().filter(|failed| failed.args().contains("stolen")).collect();
    assert_eq!(stolen.len(), 2);
    assert!(stolen.iter().all(|record| record.attempts == 1 && record.kind == "error"));
}

/// The numbers in the order in which their bodies ran.
#[derive(Clone, Default)]
struct Ran(Arc<Mutex<Vec<u32>>>);

#[hworker::job]
async fn gives_up(number: u32, State(ran): State<Ran>) -> Outcome {
    ran.0.lock().expect("no panic").push(number);
    Outcome::Failure(number.to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn rt9_bounded_list_of_failed_jobs() {
    // 1000 records without a word about it, the newest; the number of failures is counted all the same.
    let server = TestServer::start();
    let ran = Ran::default();
    let worker = server.worker().register::<gives_up>().state(ran.clone()).concurrency(1);
    let _worker = InProcess::run(worker);
    for number in 1..=1_100 {
        gives_up::with(number).on(server.client()).enqueue().await.expect("enqueued");
    }
    server.eventually("all have failed", SOON, || server.counter("failed") == 1_100);
    assert_eq!(server.inspect().counts().await.expect("the counts").failed, 1_000);
    let failed = server.inspect().failed(0, 2_000).await.expect("the records");
    let numbers: Vec<u32> =
        failed.iter().map(|record| record.message.parse().expect("a number")).collect();
    // With one slot they are settled in the order in which they ran.
    let ran = ran.0.lock().expect("no panic");
    assert!(numbers.iter().eq(ran[100..].iter().rev()), "{numbers:?}\n{ran:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn rt11_error_of_every_attempt() {
    // The errors of the last 10 attempts are kept, each with attempt, time, kind, message, worker, and for panics place and
    // backtrace; they can be read while the job waits for its next attempt, and when it has failed.
    let server = TestServer::start();
    let settings = [("RUST_BACKTRACE", "1"), ("HWORKER_NAME", "recorder")];
    let _worker = server.worker_process(&settings);
    let error = |number: u32| vec![Act::Error(format!("error {number}"))];
    let mut plan: Vec<_> = (1..=8).map(error).collect();
    plan.extend([
        vec![Act::Panic("panic 9".into())],
        vec![Act::Retry("retry 10".into())],
        vec![Act::RetryIn(1_500)],
        vec![Act::Sleep(HOUR_MS)],
        vec![Act::Failure("failure 13".into())],
    ]);
    let before = server.redis().time_us() / 1000;
    // In a debug build the backtrace takes the better part of a second.
    let job = act::with("fails".into(), plan).timeout(Duration::from_secs(3));
    let id = job.on(server.client()).enqueue().await.expect("enqueued");

    due_after(&server, &id, 12).await;
    let found = server.inspect().find(&id).await.expect("a search").expect("it waits");
    let numbers = |errors: &[AttemptError]| -> Vec<u32> {
        errors.iter().map(|error| error.attempt).collect()
    };
    assert_eq!(numbers(&found.errors()), (2..=11).collect::<Vec<_>>());
    assert_eq!(found.errors()[0].message, "error 2");

    server.eventually("it has failed", SOON, || server.counter("failed") == 1);
    let after = server.redis().time_us() / 1000;
    let errors = server.inspect().failed(0, 1).await.expect("the records").remove(0).errors();
    assert_eq!(numbers(&errors), (4..=13).collect::<Vec<_>>());
    let kinds: Vec<_> = errors.iter().map(|error| error.kind.as_str()).collect();
    let expected = ["error", "error", "error", "error", "error", "panic", "retry", "error"];
    assert_eq!(kinds[..8], expected);
    assert_eq!(kinds[8..], ["timeout", "failure"]);
    let messages: Vec<_> = errors.iter().map(|error| error.message.as_str()).collect();
    assert_eq!(messages[4..7], ["error 8", "panic 9", "retry 10"]);
    assert!(messages[8].contains("of 3s") && messages[9] == "failure 13", "{messages:?}");
    assert!(errors.windows(2).all(|pair| pair[0].at <= pair[1].at));
    assert!(errors.iter().all(|error| (before..=after).contains(&error.at)), "{errors:?}");
    assert!(errors.iter().all(|error| error.worker.starts_with("recorder.")), "{errors:?}");
    let panic = &errors[5];
    assert!(panic.place.as_deref().is_some_and(|place| place.contains("jobs.rs:")), "{panic:?}");
    assert!(panic.backtrace.as_deref().is_some_and(|trace| trace.contains("src/jobs.rs:")));
    let others = errors.iter().filter(|error| error.kind != "panic");
    assert!(others.clone().all(|error| error.place.is_none() && error.backtrace.is_none()));
}

#[test]
fn rt14_positions() {
    // Retry to the back; to the front what a worker gave back when it stopped, what was taken from it, and what it held when it
    // died.
    let server = TestServer::start();
    let one_slot = [("HWORKER_CONCURRENCY", "1"), ("HWORKER_SHUTDOWN_GRACE", "200ms")];
    let put = |name: &str, plan: Vec<Vec<Act>>| {
        let job = act::with(name.to_owned(), plan).on(server.client());
        job.enqueue_blocking().expect("enqueued")
    };
    let waits = |gate: &str| vec![Act::Gate(gate.into())];
    let note = |text: &str| vec![vec![Act::Note(text.into())]];
    // In front of three others in all its runs; it is given back three times, and then asks for another try itself.
    let last = vec![Act::Note("last".into())];
    let plan = [waits("never"), waits("never"), waits("never"), vec![Act::Retry("r".into())], last];
    let id = put("order", plan.to_vec());
    for text in ["a", "b", "c"] {
        put("order", note(text));
    }
    let begun = |times: usize| {
        let runs = || server.runs_of("order").into_iter().filter(|run| run.id == id.as_str());
        server.eventually("it runs before the others", SOON, || {
            runs().filter(|run| run.what == "begin").count() == times
        });
        assert_eq!(server.redis().len("hworker-jobs-default"), 3, "{}", server.report());
    };
    let mut first = server.worker_process(&one_slot);
    begun(1);
    first.terminate();
    assert!(first.wait(SOON).expect("it ends").success());
    let mut second = server.worker_process(&one_slot);
    begun(2);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(server.inspect().revoke(&id)).expect("revoked");
    begun(3);
    second.kill();
    // The only slot is taken until it is back; at the right end is what is taken next.
    let holder = json!({"job": "act", "args": {"name": "holder", "plan": [[{"Gate": "free"}]]}});
    server.redis().ask::<u64>(&["RPUSH", "hworker-jobs-default", &holder.to_string()]);
    let _third = server.worker_process(&one_slot);
    server.eventually("the slot is taken", SOON, || server.begun("holder") == 1);
    server.eventually("it is recovered", SOON, || server.counter("recovered") == 1);
    server.open("free");
    server.eventually("all end", SOON, || server.ended("order") == 4);
    let runs = server.runs_of("order");
    let notes = runs.iter().map(|run| run.what.as_str());
    let notes: Vec<_> = notes.filter(|what| !["begin", "end"].contains(what)).collect();
    assert_eq!(notes, ["a", "b", "c", "last"]);
    let recovered = runs.iter().position(|run| run.id == id.as_str() && run.number == 3);
    let next = runs.iter().position(|run| run.what == "a");
    assert!(recovered.is_some() && recovered < next, "before the others: {runs:?}");
    let attempts: Vec<_> = runs
        .iter()
        .filter(|run| run.what == "begin" && run.id == id.as_str())
        .map(|run| run.attempt)
        .collect();
    assert_eq!(attempts, [1, 1, 1, 1, 2], "only what the body asked for is counted");
    server.drained(SOON);
}

#[tokio::test(flavor = "multi_thread")]
async fn rt9_all_failed_jobs_may_be_kept() {
    // A limit that means all: each failed job is kept and counted, and holds up nothing.
    // Guard: `KEPT_AT_MOST`, beyond which the server takes no length: `settle.lua` would stop half-way.
    let server = TestServer::start();
    let worker = server.worker().register::<act_once>().failed_limit(usize::MAX);
    let _worker = InProcess::run(worker);
    for number in 0..20 {
        let failing =
            act_once::with(format!("fails-{number}"), vec![vec![Act::Error("no".into())]]);
        failing.on(server.client()).enqueue().await.expect("enqueued");
    }
    server.eventually("all have failed", SOON, || server.counter("failed") == 20);
    assert_eq!(server.redis().len("hworker-failed-default"), 20);
}
