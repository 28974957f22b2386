//! What is logged, to whom, and that nothing waits for it. In a program of its own: its tests fill pipes that nobody reads.

use std::io::Read;
use std::process::{ChildStderr, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hworker::Bulk;
use hworker_tests::{Act, Process, TestServer, act};

const SOON: Duration = Duration::from_secs(30);

/// So many jobs that fail say more than a pipe takes that nobody reads.
const FAILING: usize = 600;

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
    fail(&server, FAILING, &"x".repeat(300));
    let failed = || server.counter("failed") == FAILING as u64;
    server.eventually("all have failed", SOON, failed);

    // Which would have the jobs of one that is taken for dead.
    let _other = server.worker_process(&[]);
    server.eventually("both serve", SOON, || workers(&server).len() == 2);
    let both = workers(&server);
    server.holds("it is alive", Duration::from_secs(9), || workers(&server) == both);
    assert_eq!((server.begun("fails"), server.counter("recovered")), (FAILING, 0));

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
    nothing_waits_for_a_log_that_nobody_reads(&[("HWORKER_TEST_SUBSCRIBER", "fmt")]);
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
            let mut some = [0; 64 * 1024];
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
