//! What the tests of faults share beyond the harness.

use std::time::{Duration, Instant};

use hworker::JobId;
use hworker_tests::{Act, Run, TestServer, act};
use serde_json::json;

/// What goes without a fault is done by then, also on a machine with much else to do.
pub(crate) const SOON: Duration = Duration::from_secs(10);

/// By then the jobs of a worker that died run again.
pub(crate) const RECOVERED: Duration = Duration::from_secs(8);

/// Longer than any test.
pub(crate) const HOUR_MS: u64 = 3_600_000;

/// Enqueues a job that does this.
pub(crate) fn put(server: &TestServer, name: &str, plan: Vec<Vec<Act>>) -> JobId {
    put_on(server, "default", name, plan)
}

/// Enqueues a job on a queue; it may run for an hour.
pub(crate) fn put_on(server: &TestServer, queue: &str, name: &str, plan: Vec<Vec<Act>>) -> JobId {
    let job = act::with(name.to_owned(), plan).on(server.client()).queue(queue);
    job.timeout(Duration::from_millis(HOUR_MS)).enqueue_blocking().expect("enqueued")
}

/// An envelope as another program would write it, without an id.
pub(crate) fn envelope(name: &str, plan: &[Vec<Act>]) -> String {
    json!({ "job": "act", "args": { "name": name, "plan": plan } }).to_string()
}

/// The plan of a job that does not come to its end in the first run, and does at once in all others.
pub(crate) fn first_run_hangs() -> Vec<Vec<Act>> {
    vec![vec![Act::Sleep(HOUR_MS)], vec![]]
}

/// A counter of the queue `default`.
pub(crate) fn counter(server: &TestServer, name: &str) -> u64 {
    let value: Option<u64> = server.redis().ask(&["HGET", "hworker-stat-default", name]);
    value.unwrap_or(0)
}

/// The ids of the workers of the queue `default` that serve it, as the inspect API has them.
pub(crate) fn serving(server: &TestServer) -> Vec<hworker::WorkerInfo> {
    block_on(server.inspect().workers()).expect("the workers")
}

/// Waits until so many workers serve the queue `default`.
#[track_caller]
pub(crate) fn wait_for_workers(server: &TestServer, count: usize) {
    server.eventually("the workers serve", SOON, || serving(server).len() == count);
}

/// Whether the server lets somebody wait who called this command; it is written in small letters.
pub(crate) fn waits_by(server: &TestServer, command: &str) -> bool {
    let clients: String = server.redis().ask(&["CLIENT", "LIST"]);
    let called = format!(" cmd={command} ");
    clients.lines().any(|client| client.contains(" flags=b") && client.contains(&called))
}

/// Over at once, so that one thread alone starts them.
#[hworker::job]
// It would be blocking otherwise, and get a thread of its own.
#[allow(clippy::unused_async)]
pub(crate) async fn shortest() {}

/// Runs a future of the library where a test has no runtime.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(future)
}

/// When bodies began, in order.
pub(crate) fn begins(server: &TestServer, name: &str) -> Vec<Run> {
    server.runs_of(name).into_iter().filter(|run| run.what == "begin").collect()
}

/// When a body saw that it was cancelled.
#[track_caller]
pub(crate) fn cancelled_at(server: &TestServer, name: &str) -> u64 {
    let runs = server.runs_of(name);
    runs.iter().find(|run| run.what == "cancelled").expect("it was cancelled").at
}

/// The time by the server's clock, in microseconds.
pub(crate) fn now_us(server: &TestServer) -> u64 {
    server.redis().time_us()
}

/// Whole milliseconds from one time of the server's clock to another.
pub(crate) fn ms_between(from_us: u64, to_us: u64) -> u64 {
    to_us.saturating_sub(from_us) / 1000
}

/// The median and the largest, for a measurement that a test prints.
pub(crate) fn median_and_worst(mut values: Vec<u64>) -> (u64, u64) {
    values.sort_unstable();
    (values[values.len() / 2], values[values.len() - 1])
}

/// A worker that died at some time and holds jobs, as it would have left them.
pub(crate) struct Dead<'a> {
    pub(crate) server: &'a TestServer,
    pub(crate) id: &'a str,
}

impl Dead<'_> {
    /// Writes its entry and its record.
    pub(crate) fn last_heard(&self, ms_ago: i64) {
        let now = i64::try_from(now_us(self.server) / 1000).expect("a time");
        let heard = (now - ms_ago).to_string();
        let record = format!("hworker-worker-default:{}", self.id);
        let mut redis = self.server.redis();
        let _: u64 = redis.ask(&["HSET", &record, "session", "1", "dead_after", "5000"]);
        let _: u64 = redis.ask(&["ZADD", "hworker-workers-default", &heard, self.id]);
    }

    /// Puts something under a lease.
    pub(crate) fn holds(&self, lease: &str, payload: &str) {
        let progress = self.progress();
        let _: u64 = self.server.redis().ask(&["HSET", &progress, lease, payload]);
    }

    /// Puts many jobs under leases, the tokens and names of which are 1, 2, ...
    pub(crate) fn holds_many(&self, count: u32) {
        const FILL: &str = r#"for i = tonumber(ARGV[1]), tonumber(ARGV[2]) do
            redis.call('HSET', KEYS[1], i, '{"id":"' .. i .. '","job":"act","args":{"name":"many","plan":[]}}')
        end return 1"#;
        let progress = self.progress();
        for first in (1..=count).step_by(10_000) {
            let last = (first + 9_999).min(count).to_string();
            let first = first.to_string();
            let _: u64 = self.server.redis().ask(&["EVAL", FILL, "1", &progress, &first, &last]);
        }
    }

    pub(crate) fn progress(&self) -> String {
        format!("hworker-progress-default:{}", self.id)
    }

    /// How many leases it has left.
    pub(crate) fn left(&self) -> u64 {
        self.server.redis().len(&self.progress())
    }
}

/// How long something takes until it holds; fails as [`TestServer::eventually`].
#[track_caller]
pub(crate) fn time_until(
    server: &TestServer,
    what: &str,
    within: Duration,
    holds: impl FnMut() -> bool,
) -> Duration {
    let start = Instant::now();
    server.eventually(what, within, holds);
    start.elapsed()
}
