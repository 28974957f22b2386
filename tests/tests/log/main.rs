//! What is logged and reported, to whom, and that nothing waits for it. In a program of its own: its tests fill pipes that nobody reads.

mod json;
mod reports;

use std::collections::BTreeMap;
use std::fmt;
use std::io::Read;
use std::process::{ChildStderr, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hworker::{Bulk, Context, Worker};
use hworker_tests::Records as _;
use hworker_tests::{Act, Process, TestServer, act, act_once};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber, span};
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

const SOON: Duration = Duration::from_secs(30);

/// So many jobs say more than a pipe takes that nobody reads.
const JOBS: usize = 600;

/// A worker whose log goes to a pipe, which the test does not read.
fn worker_with_pipe(server: &TestServer, settings: &[(&str, &str)]) -> Process {
    let mut command = server.command("test-worker");
    command.env("HWORKER_LOG", "info").envs(settings.iter().copied()).stderr(Stdio::piped());
    Process::start(command)
}

fn workers(server: &TestServer) -> Vec<String> {
    let workers = block_on(server.inspect().workers()).expect("the workers");
    let mut ids: Vec<_> = workers.into_iter().map(|worker| worker.id).collect();
    ids.sort();
    ids
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(future)
}

fn fail(server: &TestServer, jobs: usize, text: &str) {
    let plan = || vec![vec![Act::Failure(text.to_owned())]];
    let jobs: Bulk = (0..jobs).map(|_| act::with("fails".into(), plan())).collect();
    jobs.on(server.client()).enqueue_blocking().expect("enqueued");
}

/// Jobs fail until the pipe is full and many more: all are settled, the worker lives on, and ends when it is told to.
fn nothing_waits_for_a_log_that_nobody_reads(settings: &[(&str, &str)]) {
    let server = TestServer::start();
    let grace = ("HWORKER_SHUTDOWN_GRACE", "5s");
    let mut worker = worker_with_pipe(&server, &[settings, &[grace]].concat());
    server.eventually("it serves", SOON, || workers(&server).len() == 1);
    fail(&server, JOBS, &"x".repeat(300));
    let failed = || server.counter("failed") == JOBS as u64;
    server.eventually("all have failed", SOON, failed);

    // Which would have the jobs of one that is taken for dead.
    let _other = server.worker_process(&[]);
    server.eventually("both serve", SOON, || workers(&server).len() == 2);
    let both = workers(&server);
    server.holds("it is alive", Duration::from_secs(9), || workers(&server) == both);
    assert_eq!((server.begun("fails"), server.counter("recovered")), (JOBS, 0));

    worker.terminate();
    let status = worker.wait(Duration::from_secs(10)).expect("it ends within the grace");
    assert!(status.success(), "{status}");
}

#[test]
fn a_log_that_nobody_reads_holds_up_neither_jobs_nor_heartbeats_nor_the_end() {
    // Guard: `Lines::write` in `log.rs` leaves the writing to a thread of its own while a worker runs.
    nothing_waits_for_a_log_that_nobody_reads(&[]);
}

#[test]
fn a_subscriber_of_the_users_that_blocks_does_not_either() {
    // Guard: `log::hand_over`.
    nothing_waits_for_a_log_that_nobody_reads(&[("HWORKER_TEST_SUBSCRIBER", "info")]);
}

#[test]
fn a_subscriber_that_blocks_the_threads_of_bodies_leaves_heartbeats_alone() {
    // At `debug` each body's thread tells the subscriber that its job is done: it blocks them all until the pipe is read. The worker is not
    // taken for dead meanwhile, and no job runs twice.
    // Guard: the supervisor hands its events over too (`say` in `log.rs`).
    let server = TestServer::start();
    let settings = [("HWORKER_TEST_SUBSCRIBER", "debug"), ("TOKIO_WORKER_THREADS", "2")];
    let mut worker = worker_with_pipe(&server, &settings);
    server.eventually("it serves", SOON, || workers(&server).len() == 1);
    let jobs: Bulk = (0..JOBS).map(|_| act::with("done".into(), Vec::new())).collect();
    jobs.on(server.client()).enqueue_blocking().expect("enqueued");
    server.eventually("some have begun", SOON, || server.begun("done") > 0);
    let _other = server.worker_process(&[]);
    server.eventually("both serve", SOON, || workers(&server).len() == 2);
    let both = workers(&server);
    server.holds("it is alive", Duration::from_secs(9), || workers(&server) == both);
    assert!(server.counter("processed") < JOBS as u64, "nothing is held up");

    let _log = Log::read(worker.log().expect("a pipe"));
    server.eventually("all are done", SOON, || server.counter("processed") == JOBS as u64);
    assert_eq!((server.begun("done"), server.counter("recovered")), (JOBS, 0));
    worker.terminate();
    assert!(worker.wait(SOON).expect("it ends").success());
}

#[test]
fn what_a_log_had_no_room_for_is_counted() {
    // Guard: `ROOM` and `State::dropped` in `log.rs`.
    let server = TestServer::start();
    let mut worker = worker_with_pipe(&server, &[]);
    fail(&server, 2_000, &"x".repeat(4_000));
    server.eventually("all have failed", SOON, || server.counter("failed") == 2_000);
    let log = Log::read(worker.log().expect("a pipe"));
    server.eventually("it is said", SOON, || log.text().contains("log lines were dropped"));
    let said: u64 = log.text().lines().find_map(dropped).expect("how many");
    // What comes when there is room again is not dropped.
    fail(&server, 1, "the last");
    server.eventually("the log goes on", SOON, || log.text().contains("the last"));
    let written = log.text().matches("job failed").count() as u64;
    assert!(said > 0 && written + said >= 2_001, "{written} written, {said} dropped");
    worker.terminate();
    assert!(worker.wait(SOON).expect("it ends").success());
    // The last line of all is not lost.
    server.eventually("its end is told", SOON, || log.text().contains("worker stopped"));
}

fn dropped(line: &str) -> Option<u64> {
    let (_, fields) = line.split_once("log lines were dropped")?;
    fields.split_once("lines=")?.1.split_whitespace().next()?.parse().ok()
}

/// What a process logs, read all the while.
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn read(mut pipe: ChildStderr) -> Self {
        let log = Arc::new(Mutex::new(Vec::new()));
        let read = Arc::clone(&log);
        std::thread::spawn(move || {
            let mut some = [0; 4096];
            while let Ok(length @ 1..) = pipe.read(&mut some) {
                read.lock().unwrap_or_else(PoisonError::into_inner).extend(&some[..length]);
            }
        });
        Self(log)
    }

    fn text(&self) -> String {
        let log = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&log).into_owned()
    }
}

/// What ends a line, and what tells a terminal something.
const FORGED: &str = "refused\n2026-01-01T00:00:00Z ERROR forged\r\u{1b}[31mred\u{9b}1m\u{2028}end";

fn forge(server: &TestServer) {
    let retry = vec![vec![Act::Error(FORGED.into())], vec![]];
    act::with("job".into(), retry).on(server.client()).enqueue_blocking().expect("enqueued");
    let fail = vec![vec![Act::Failure(FORGED.into())]];
    act::with("job".into(), fail).on(server.client()).enqueue_blocking().expect("enqueued");
    let panic = vec![vec![Act::PanicInDrop(FORGED.into())]];
    act_once::with("job".into(), panic).on(server.client()).enqueue_blocking().expect("enqueued");
    server.eventually("all are settled", SOON, || {
        server.counter("processed") == 1 && server.counter("failed") == 2
    });
}

#[test]
fn i13_what_there_is_is_logged_again_and_again() {
    // Where it is asked for, one line a queue says how many jobs wait, run, are scheduled and failed.
    // Guard: `log_every::run`.
    let server = TestServer::start();
    let mut worker =
        worker_with_pipe(&server, &[("HWORKER_LOG_EVERY", "1s"), ("HWORKER_CONCURRENCY", "1")]);
    let log = Log::read(worker.log().expect("a pipe"));
    for name in ["held", "waits"] {
        block_on(server.enqueue(name, vec![vec![Act::Gate("end".into())]]));
    }
    let told = "waiting=1 running=1 own=1 slots=1 scheduled=0 parked=0 failed=0 broken=0";
    server.eventually("it is told", SOON, || log.text().matches(told).count() >= 2);
    assert!(log.text().contains("job.queue=default waiting=1"), "{}", log.text());
    worker.kill();
}

#[test]
fn a_text_of_a_job_makes_no_line_and_no_colour_of_its_own() {
    // An error, a failure and a panic have control characters in their texts: each is one line of the log, with them escaped. The
    // texts are kept as they are. Nor has the log colours, though a crate of the program turns those of its subscriber on.
    // Guard: `log::one_line`; `with_ansi(false)`.
    let server = TestServer::start();
    let mut command = server.command("test-worker");
    let mut worker = Process::start({
        command.env_remove("NO_COLOR").stderr(Stdio::piped());
        command
    });
    let log = Log::read(worker.log().expect("a pipe"));
    forge(&server);
    worker.terminate();
    assert!(worker.wait(SOON).expect("it ends").success());
    server.eventually("its end is told", SOON, || log.text().contains("worker stopped"));
    let failed = block_on(server.inspect().failed(0, 10)).expect("the failed jobs");
    assert!(failed.iter().any(|job| job.message == FORGED), "{failed:?}");

    let text = log.text();
    let own: Vec<_> = text.lines().filter(|line| line.contains(" hworker::")).collect();
    let quoted: Vec<_> = own.iter().filter(|line| line.contains("forged")).collect();
    assert_eq!(quoted.len(), 3, "{text}");
    for line in &own {
        assert!(!line.contains(|c: char| c.is_control() || c == '\u{2028}'), "{line:?}");
    }
    assert!(quoted.iter().all(|line| line.contains("refused\\n2026-01-01T00:00:00Z ERROR forged")));
}

/// What a subscriber of the user's is told.
#[derive(Debug, Clone)]
struct Told {
    level: Level,
    fields: Fields,
    /// Of the span around it.
    span: Option<Fields>,
}

#[derive(Debug, Clone, Default)]
struct Fields(BTreeMap<&'static str, String>);

impl Fields {
    fn get(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }
}

#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Vec<Told>>>);

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Notes {
    fn on_new_span(
        &self,
        attributes: &span::Attributes<'_>,
        id: &span::Id,
        context: tracing_subscriber::layer::Context<'_, S>,
    ) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        context.span(id).expect("a span").extensions_mut().insert(fields);
    }

    fn on_event(&self, event: &Event<'_>, context: tracing_subscriber::layer::Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let span = context.event_span(event);
        let span = span.and_then(|span| span.extensions().get::<Fields>().cloned());
        let told = Told { level: *event.metadata().level(), fields, span };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(told);
    }
}

impl Notes {
    fn with(&self, text: &str) -> Vec<Told> {
        let told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let says = |told: &&Told| told.fields.get("message").contains(text);
        told.iter().filter(says).cloned().collect()
    }
}

/// Runs a worker under a subscriber of the user's until `settled`.
fn run(worker: Worker, subscriber: impl Into<tracing::Dispatch>, settled: impl FnOnce()) {
    let (handle, subscriber) = (worker.handle(), subscriber.into());
    let thread = std::thread::spawn(move || {
        tracing::dispatcher::with_default(&subscriber, || {
            block_on(worker.run_until(std::future::pending()))
        })
    });
    settled();
    handle.stop();
    thread.join().expect("no panic").expect("it stops");
}

#[test]
fn a_subscriber_of_the_users_gets_such_a_text_as_one_line_too() {
    // Guard: `log::one_line`.
    let server = TestServer::start();
    let notes = Notes::default();
    let worker = server.worker().register::<act>().register::<act_once>().build();
    let subscriber = tracing_subscriber::registry().with(notes.clone());
    run(worker.expect("a worker"), subscriber, || forge(&server));
    let told = notes.with("forged");
    assert_eq!(told.len(), 3, "{told:?}");
    for told in told {
        let text = told.fields.get("message");
        assert!(!text.contains(|c: char| c.is_control() || c == '\u{2028}'), "{text:?}");
    }
}

/// Says something in its body, before and after it was not ready.
#[hworker::job(name = "says", max_attempts = 2, backoff = "0s")]
async fn says(outcome: String, context: Context) -> Result<(), String> {
    tracing::info!("the body begins");
    tokio::task::yield_now().await;
    tracing::info!("the body ends, attempt {}", context.attempt());
    if outcome == "fails" { Err("on purpose".into()) } else { Ok(()) }
}

#[test]
fn ends_of_attempts_have_levels_and_bodies_a_span() {
    // A job that succeeds, and one that is tried twice and has failed: what they say in their bodies is in a span that names the
    // attempt; the end of each attempt is one event with what became of it and how long it took: DEBUG where the job is done, a retry is a
    // WARN, a final failure an ERROR.
    // Guard: `concluded` and `over` in `tell.rs`; `around` in `attempt/run.rs`.
    let server = TestServer::start();
    let notes = Notes::default();
    let worker = server.worker().register::<says>().build().expect("a worker");
    let subscriber = tracing_subscriber::registry().with(notes.clone());
    let done = says::with("succeeds".into()).on(server.client()).enqueue_blocking();
    let done = done.expect("enqueued").to_string();
    let failed = says::with("fails".into()).on(server.client()).enqueue_blocking();
    let failed = failed.expect("enqueued").to_string();
    run(worker, subscriber, || {
        server.eventually("both are settled", SOON, || {
            server.counter("processed") == 1 && server.counter("failed") == 1
        });
    });

    let spans = |text: &str| {
        let spans = notes.with(text).into_iter().map(|told| told.span.expect("in a span"));
        let names = ["job.id", "job.name", "job.queue", "job.attempt"];
        let span = |span: Fields| names.map(|name| span.get(name).to_owned()).join(" ");
        let mut spans: Vec<_> = spans.map(span).collect();
        spans.sort();
        spans
    };
    let attempt = |id: &str, number| format!("{id} says default {number}");
    let mut all = vec![attempt(&done, 1), attempt(&failed, 1), attempt(&failed, 2)];
    all.sort();
    assert_eq!((spans("the body begins"), spans("the body ends")), (all.clone(), all));

    let mut ends: Vec<_> = notes
        .with("job ")
        .iter()
        .filter(|told| !told.fields.get("outcome").is_empty())
        .map(|told| {
            let _: u64 = told.fields.get("elapsed_ms").parse().expect("a time");
            let [id, attempt, outcome] =
                ["job.id", "job.attempt", "outcome"].map(|name| told.fields.get(name).to_owned());
            (id, attempt, outcome, told.level)
        })
        .collect();
    ends.sort();
    let end = |id: &str, attempt: &str, outcome: &str, level| {
        (id.to_owned(), attempt.to_owned(), outcome.to_owned(), level)
    };
    let mut expected = [
        end(&done, "1", "done", Level::DEBUG),
        end(&failed, "1", "retried", Level::WARN),
        end(&failed, "2", "failed", Level::ERROR),
    ];
    expected.sort();
    assert_eq!(ends, expected);
}
