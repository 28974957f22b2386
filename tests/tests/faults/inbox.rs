//! What the server hands to a worker that waits, until it is under a lease.

use std::time::Duration;

use hworker_tests::{Act, Fault, InProcess, Process, Proxy, TestServer};
use serde_json::json;

use crate::support::{SOON, counter, put, serving, shortest, wait_for_workers, waits_by};

/// A server, and an idle worker that comes to it through a proxy.
struct Stage {
    server: TestServer,
    proxy: Proxy,
    worker: Process,
}

impl Stage {
    fn set(settings: &[(&str, &str)]) -> Self {
        let server = TestServer::start();
        let proxy = Proxy::before(&server);
        let url = proxy.url();
        let worker = server.worker_process(&[&[("HWORKER_REDIS_URL", &*url)], settings].concat());
        let stage = Self { server, proxy, worker };
        stage.waits();
        stage
    }

    /// Until the worker waits at the server, and has nothing else under way.
    fn waits(&self) {
        self.server.eventually("it waits", SOON, || waits_by(&self.server, "blmove"));
    }

    fn put(&self, name: &str, plan: &[Vec<Act>]) {
        put(&self.server, name, plan.to_vec());
    }

    /// All that was enqueued ran once and was acked, and nothing is left.
    #[track_caller]
    fn each_ran_once(&self, names: &[&str]) {
        let server = &self.server;
        server.eventually("all end", SOON, || names.iter().all(|name| server.ended(name) == 1));
        server.drained(SOON);
        for name in names {
            assert_eq!(server.begun(name), 1, "{name}\n{}", server.report());
        }
        assert_eq!(counter(server, "processed"), names.len() as u64, "{}", server.report());
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.server.dir().join("process-0.log")).unwrap_or_default()
    }
}

#[test]
fn what_a_stopped_worker_was_handed_does_not_start_when_it_wakes() {
    // It is stopped while it waits, a job is handed to it, its death is noticed and another runs the job -> when it wakes and reads the
    // answer, the body does not start.
    // Guard: the pulse.
    let stage = Stage::set(&[("HWORKER_DEAD_AFTER", "2s")]);
    stage.worker.stop();
    stage.put("job", &[vec![]]);
    let _other = stage.server.worker_process(&[("HWORKER_DEAD_AFTER", "2s")]);
    stage.server.eventually("another runs it", 2 * SOON, || stage.server.ended("job") == 1);
    stage.server.drained(SOON);
    stage.worker.go_on();
    wait_for_workers(&stage.server, 2);
    let once = || stage.server.begun("job") == 1 && counter(&stage.server, "processed") == 1;
    stage.server.holds("it ran once", Duration::from_secs(1), once);
}

#[test]
fn what_an_idle_worker_cannot_run_is_treated_as_always() {
    // To an idle worker come arguments that do not fit, bytes that are no job, an unknown job, one that is larger than a worker takes,
    // and one with a crash, each while it waits -> each is treated as always, said once, and what comes next runs.
    // Guard: `Reserved::is_nothing`: a wait that brings what is set aside was not refused.
    let stage = Stage::set(&[("HWORKER_MAX_PAYLOAD", "2000")]);
    let server = &stage.server;
    let push = |bytes: &str| {
        let _: u64 = server.redis().ask(&["LPUSH", "hworker-jobs-default", bytes]);
    };
    let mut number = 0;
    let mut runs = || {
        number += 1;
        let name = format!("job-{number}");
        stage.put(&name, &[vec![]]);
        server.eventually("what follows runs", SOON, || server.ended(&name) == 1);
        stage.waits();
    };
    runs();
    push(r#"{"job":"act","args":{"name":7}}"#);
    let parked = || server.redis().len("hworker-parked-default");
    server.eventually("it is parked", SOON, || parked() == 1);
    runs();
    push("no job");
    server.eventually("it is broken", SOON, || counter(server, "broken") == 1);
    runs();
    push(&"x".repeat(1_000_000));
    server.eventually("it is set aside", SOON, || counter(server, "broken") == 2);
    runs();
    // A little larger than what a worker takes, so that the wait brings it whole.
    let (start, end) = (r#"{"job":"act","args":{"name":"large","plan":[]},"x":""#, r#""}"#);
    let filled = "x".repeat(2000 + 8 * 1024 + 1 - start.len() - end.len());
    push(&format!("{start}{filled}{end}"));
    server.eventually("it is set aside", SOON, || counter(server, "broken") == 3);
    runs();
    assert_eq!(server.begun("large"), 0);
    push(r#"{"job":"of_tomorrow","args":{}}"#);
    server.eventually("it waits for others", SOON, || parked() == 2);
    runs();
    let crashed = json!({
        "job": "act", "args": { "name": "crashed", "plan": [] },
        "crashes": [{ "at": 1, "worker": "w" }],
    });
    push(&crashed.to_string());
    server.eventually("it runs", SOON, || server.ended("crashed") == 1);
    runs();
    let said = |what: &str| stage.log().matches(what).count();
    assert_eq!(said(": the arguments do not fit the job"), 1, "{}", stage.log());
    assert_eq!(said("unknown job"), 1, "{}", stage.log());
    assert_eq!(server.begun("crashed"), 1);
}

#[test]
fn jobs_in_the_inbox_do_not_end_a_wait_that_is_younger() {
    // Two heartbeats' looks find something in the inbox, and between them one wait was answered and the next sent, as under load -> that
    // wait stays, on the same connection, and what is in the inbox runs.
    // Guard: a wait is taken for lost only if it was the same one at both looks.
    let stage = Stage::set(&[]);
    let server = &stage.server;
    let inbox = format!("hworker-inbox-default:{}", serving(server)[0].id);
    let left_in_inbox = |name: &str| {
        let job = json!({ "job": "act", "args": { "name": name, "plan": [[]] } }).to_string();
        let _: u64 = server.redis().ask(&["RPUSH", &inbox, &job]);
    };
    let waiter = || {
        let clients: String = server.redis().ask(&["CLIENT", "LIST"]);
        let client = clients.lines().find(|client| client.contains(" cmd=blmove "));
        client.and_then(|client| client.split(' ').next()).map(str::to_owned)
    };
    let before = waiter();
    stage.proxy.fault(1, "LLEN", Fault::HoldRequest);
    left_in_inbox("older");
    server.eventually("it is looked at again", SOON, || stage.proxy.held() == 1);
    stage.put("between", &[vec![]]);
    server.eventually("both end", SOON, || server.ended("older") + server.ended("between") == 2);
    stage.waits();
    left_in_inbox("younger");
    stage.proxy.release();
    server.eventually("it ends", SOON, || server.ended("younger") == 1);
    stage.waits();
    assert_eq!(waiter(), before);
    stage.each_ran_once(&["older", "between", "younger"]);
}

#[test]
fn waits_that_are_over_at_once_cost_no_connection() {
    // Jobs come by the dozen, so that each wait is over at once and the next is about to be wanted -> no connection is made anew.
    // Guard: the session that is loaded before a reserve is sent behind the wait.
    let server = TestServer::start();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let _worker = {
        let _context = runtime.enter();
        InProcess::run(server.worker().register::<shortest>())
    };
    server.eventually("it waits", SOON, || waits_by(&server, "blmove"));
    // The last of its connections, which is made beside the first wait.
    server.eventually("it keeps the timer", SOON, || waits_by(&server, "blpop"));
    let (tasks, jobs) = (8, 10_000);
    let connections = || {
        let stats: String = server.redis().ask(&["INFO", "stats"]);
        let count = stats.lines().find_map(|line| line.strip_prefix("total_connections_received:"));
        count.and_then(|count| count.parse::<u64>().ok()).expect("a count")
    };
    let producers = tokio::runtime::Runtime::new().expect("a runtime");
    producers.block_on(shortest::with().on(server.client()).enqueue()).expect("enqueued");
    let before = connections();
    producers.block_on(async {
        let enqueue = |_| {
            let client = server.client().clone();
            tokio::spawn(async move {
                for _ in 0..jobs {
                    shortest::with().on(&client).enqueue().await.expect("enqueued");
                }
            })
        };
        let tasks: Vec<_> = (0..tasks).map(enqueue).collect();
        for task in tasks {
            task.await.expect("it enqueues");
        }
    });
    let all = tasks * jobs + 1;
    server.eventually("all run", 3 * SOON, || counter(&server, "processed") == all);
    assert_eq!(connections(), before, "{}", server.report());
}

#[test]
fn what_an_idle_worker_is_handed_after_the_server_forgot_all_runs() {
    // `FLUSHALL` under idle workers, which wait for the next job: it is handed to one that the server does not know any more, and
    // runs all the same.
    // Guard: `leave`, and `retire.lua`, which gives back the inbox of a worker without a record.
    let server = TestServer::start();
    let _workers: Vec<_> = (0..3).map(|_| server.worker_process(&[])).collect();
    wait_for_workers(&server, 3);
    for round in 0..3 {
        server.eventually("all wait", SOON, || waiting(&server) == 3);
        let _: String = server.redis().ask(&["FLUSHALL"]);
        let names: Vec<_> = (0..6).map(|number| format!("job-{round}-{number}")).collect();
        for name in &names {
            put(&server, name, Vec::new());
        }
        for name in &names {
            server.eventually("it runs", SOON, || server.ended(name) >= 1);
        }
        wait_for_workers(&server, 3);
    }
    server.drained(SOON);
}

/// How many clients the server lets wait for a job.
fn waiting(server: &TestServer) -> usize {
    let clients: String = server.redis().ask(&["CLIENT", "LIST"]);
    clients
        .lines()
        .filter(|client| client.contains(" cmd=blmove ") && client.contains(" flags=b"))
        .count()
}
