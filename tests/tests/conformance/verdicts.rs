//! What a body decides from inside, through every type of error that a user may have.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use hworker::{BoxError, Context, Outcome, State, Verdict};
use hworker_tests::Records as _;
use hworker_tests::{Act, InProcess, TestServer, act};

use crate::SOON;

/// An error of the user's, that keeps what it wraps as its source.
#[derive(Debug)]
struct Own(Verdict);

impl fmt::Display for Own {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("own error")
    }
}

impl StdError for Own {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&self.0)
    }
}

impl From<Verdict> for Own {
    fn from(verdict: Verdict) -> Self {
        Self(verdict)
    }
}

/// As the documentation of the attribute has it.
#[derive(Debug, thiserror::Error)]
enum Derived {
    #[error(transparent)]
    Verdict(#[from] Verdict),
    #[error("the bank cannot be reached")]
    Bank(#[from] std::io::Error),
}

type Starts = Arc<AtomicU32>;

fn io() -> std::io::Error {
    std::io::Error::other("disk gone")
}

fn verdict(kind: &str) -> Verdict {
    match kind {
        "retry" => hworker::retry_in(Duration::from_millis(300)).because(io()),
        "snooze" => hworker::snooze(Duration::from_millis(300)),
        _ => hworker::fail(io()),
    }
}

/// The verdict the first time.
fn first(kind: &str, starts: &Starts) -> Result<(), Verdict> {
    if starts.fetch_add(1, Ordering::SeqCst) == 0 { Err(verdict(kind)) } else { Ok(()) }
}

#[hworker::job]
async fn through_anyhow(kind: String, State(starts): State<Starts>) -> anyhow::Result<()> {
    first(&kind, &starts).context("inner").map_err(|error| error.context("outer"))?;
    Ok(())
}

#[hworker::job]
async fn through_box(
    kind: String,
    State(starts): State<Starts>,
) -> Result<(), Box<dyn StdError + Send + Sync>> {
    first(&kind, &starts)?;
    Ok(())
}

type JobResult = Result<(), BoxError>;

#[hworker::job]
async fn through_an_alias(kind: String, State(starts): State<Starts>) -> JobResult {
    first(&kind, &starts).map_err(|verdict| std::io::Error::other(Own(verdict)))?;
    Ok(())
}

#[hworker::job]
async fn through_an_own_type(kind: String, State(starts): State<Starts>) -> Result<u8, Own> {
    first(&kind, &starts)?;
    Ok(7)
}

#[hworker::job]
async fn through_thiserror(kind: String, State(starts): State<Starts>) -> Result<(), Derived> {
    first(&kind, &starts)?;
    Ok(())
}

#[hworker::job]
fn through_outcome(kind: String, State(starts): State<Starts>) -> Result<Outcome, Own> {
    first(&kind, &starts)?;
    Ok(Outcome::Success)
}

#[hworker::job]
async fn through_itself(
    kind: String,
    State(starts): State<Starts>,
    _context: Context,
) -> Result<(), Verdict> {
    first(&kind, &starts)
}

macro_rules! with_verdict {
    ($job:ident, $kind:literal) => {{
        let server = TestServer::start();
        let starts = Starts::default();
        let worker = server.worker().register::<$job>().state(Arc::clone(&starts));
        let worker = InProcess::run(worker);
        let began = server.redis().time_us() / 1000;
        $job::with($kind.into()).on(server.client()).enqueue().await.expect("enqueued");
        let done = || server.counter("processed") + server.counter("failed") == 1;
        server.eventually(concat!(stringify!($job), " is done"), SOON, done);
        let took = server.redis().time_us() / 1000 - began;
        worker.stop().await;
        let failed = server.inspect().failed(0, 1).await.expect("the records").pop();
        let counters = (server.counter("processed"), server.counter("retried"));
        (counters, starts.load(Ordering::SeqCst), took, failed)
    }};
}

/// Each way for a verdict to come out of a body.
macro_rules! each_way {
    ($kind:literal) => {
        [
            with_verdict!(through_anyhow, $kind),
            with_verdict!(through_box, $kind),
            with_verdict!(through_an_alias, $kind),
            with_verdict!(through_an_own_type, $kind),
            with_verdict!(through_thiserror, $kind),
            with_verdict!(through_outcome, $kind),
            with_verdict!(through_itself, $kind),
        ]
    };
}

#[tokio::test(flavor = "multi_thread")]
async fn rt4_fail_through_every_type_of_error() {
    // `hworker::fail(e)?` -> 1 run, failed with the text of e, though attempts remain.
    // Guard: `Verdict::find` walks the whole chain of sources.
    for (counters, starts, _, failed) in each_way!("fail") {
        assert_eq!((counters, starts), ((0, 0), 1));
        let failed = failed.expect("a record");
        assert_eq!((failed.kind.as_str(), failed.attempts), ("error", 1));
        assert!(failed.message.contains("disk gone"), "{}", failed.message);
        assert!(!failed.message.contains("failed for good"), "{}", failed.message);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rt4_retry_in_through_every_type_of_error() {
    // `hworker::retry_in(d)` -> the next attempt after d instead of the backoff (5 s), counted.
    // Guard: as above.
    for (counters, starts, took, failed) in each_way!("retry") {
        assert_eq!((counters, starts), ((1, 1), 2));
        assert!((300..3_500).contains(&took), "{took} ms");
        assert!(failed.is_none());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rt4_snooze_through_every_type_of_error() {
    // `hworker::snooze(d)` -> runs again after d, not counted.
    // Guard: as above.
    for (counters, starts, took, failed) in each_way!("snooze") {
        assert_eq!((counters, starts), ((1, 0), 2));
        assert!((300..3_500).contains(&took), "{took} ms");
        assert!(failed.is_none());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rt8_snooze_without_using_an_attempt() {
    // Job is scheduled, attempt not consumed, a counter of snoozes kept: with one attempt, three snoozes and then success.
    // Guard: `Transition::Snooze` is a release.
    let server = TestServer::start();
    let _worker = server.worker_process(&[]);
    let snooze = |ms| vec![Act::Snooze(ms)];
    let plan = vec![snooze(0), snooze(100), snooze(60_000), vec![]];
    let job = act::with("snoozes".into(), plan).max_attempts(1).on(server.client());
    let id = job.enqueue().await.expect("enqueued");
    server.eventually("it sleeps long", SOON, || {
        server.begun("snoozes") == 3 && server.redis().len("hworker-scheduled-default") == 1
    });
    let found = server.inspect().find(&id).await.expect("looked for").expect("scheduled");
    assert!(matches!(found.state, hworker::JobState::Scheduled), "{found:?}");
    assert_eq!(found.attempt, 1);
    let envelope: Vec<String> =
        server.redis().ask(&["ZRANGE", "hworker-scheduled-default", "0", "0"]);
    assert!(envelope[0].contains(r#""snoozes":3"#), "{envelope:?}");
    // It is due, as far as the server knows.
    server.redis().ask::<u64>(&["ZADD", "hworker-scheduled-default", "1", &envelope[0]]);
    server.eventually("it is done", SOON, || server.ended("snoozes") == 1);
    assert!(server.runs_of("snoozes").iter().all(|run| run.attempt == 1));
    server.drained(SOON);
    let counters = (server.counter("processed"), server.counter("retried"));
    assert_eq!((counters, server.counter("failed")), ((1, 0), 0));
}
