//! Bodies that start from the inbox, before their lease is known: everything that can happen until it is.

use std::time::Duration;

use hworker_tests::{Act, Fault, InProcess, Process, Proxy, TestServer, act, act_from_inbox};
use serde_json::json;

use crate::support::{
    HOUR_MS, RECOVERED, SOON, block_on, counter, put, serving, shortest, time_until,
    wait_for_workers, waits_by,
};

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

    /// The same, and what comes next may start from the inbox: the first wait may go out while the second call of the start is without an
    /// answer; then nothing starts from there.
    fn waits_calmly(&self) {
        let began = self.server.begun("before");
        self.put("before", &[vec![]]);
        let ended = || self.server.ended("before") == began + 1;
        self.server.eventually("one runs before", SOON, ended);
        self.server.drained(SOON);
        self.waits();
    }

    /// Enqueues a job that may start from the inbox.
    fn put(&self, name: &str, plan: &[Vec<Act>]) {
        self.put_for(name, plan, Duration::from_millis(HOUR_MS));
    }

    fn put_for(&self, name: &str, plan: &[Vec<Act>], timeout: Duration) {
        let job = act_from_inbox::with(name.to_owned(), plan.to_vec()).on(self.server.client());
        job.timeout(timeout).enqueue_blocking().expect("enqueued");
    }

    fn begins(&self, name: &str) {
        self.server.eventually("it begins", SOON, || self.server.begun(name) == 1);
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
fn a_body_begins_and_ends_before_its_lease_is_known() {
    // A job comes to an idle worker, and the answer that brings its lease is held up -> the body begins and ends meanwhile, and
    // is settled when the lease is known; the worker goes on, also at once with one slot.
    // Guard: `Inbox::hand`; `Table::bind`.
    let stage = Stage::set(&[("HWORKER_CONCURRENCY", "1")]);
    stage.proxy.fault(1, "reserve", Fault::HoldReply);
    stage.put("job", &[vec![]]);
    stage.server.eventually("it ends", SOON, || stage.server.ended("job") == 1);
    assert_eq!(counter(&stage.server, "processed"), 0);
    stage.proxy.release();
    stage.each_ran_once(&["job"]);
    for name in ["second", "third"] {
        stage.waits();
        stage.put(name, &[vec![]]);
        stage.begins(name);
    }
    stage.each_ran_once(&["job", "second", "third"]);
    assert!(!stage.log().contains("new connection"), "{}", stage.log());
}

#[test]
fn behind_a_call_that_looks_goes_no_other() {
    // A job comes to an idle worker with many slots, and the answer of the call that brings its lease, and looks for more, is held up -> no
    // second call is sent, as it is where many jobs are known to wait.
    // Guard: `looks` in `worker/fetch/plan.rs`.
    let stage = Stage::set(&[("HWORKER_CONCURRENCY", "1000")]);
    stage.waits_calmly();
    let before = stage.proxy.count("reserve");
    stage.proxy.fault(1, "reserve", Fault::HoldReply);
    stage.put("job", &[vec![]]);
    stage.server.eventually("it ends", SOON, || stage.server.ended("job") == 1);
    let one = || stage.proxy.count("reserve") == before + 1;
    stage.server.holds("no other is sent", Duration::from_millis(300), one);
    stage.proxy.release();
    stage.each_ran_once(&["before", "job"]);
}

#[test]
fn a_job_that_looks_at_its_attempt_waits_for_its_lease() {
    // The same of a job that takes its context -> it begins once the lease is known, with its token.
    // Guard: `starts_from_inbox`.
    let stage = Stage::set(&[]);
    stage.proxy.fault(1, "reserve", Fault::HoldReply);
    put(&stage.server, "job", vec![]);
    stage.server.eventually("it is reserved", SOON, || stage.proxy.held() == 1);
    let none = || stage.server.begun("job") == 0;
    stage.server.holds("it does not begin", Duration::from_millis(500), none);
    stage.proxy.release();
    stage.each_ran_once(&["job"]);
    assert!(stage.server.runs_of("job").iter().all(|run| run.token > 0));
}

#[test]
fn an_answer_that_hangs_is_noticed_with_the_heartbeat() {
    // The answer that brings the lease hangs, of a job that has not started from the inbox -> the job begins about a heartbeat
    // later, and not when the call is given up after 5 s.
    // Guard: the heartbeat compares leases that are known, without what was handed over.
    let stage = Stage::set(&[]);
    stage.proxy.fault(1, "reserve", Fault::HangReply);
    put(&stage.server, "job", vec![]);
    let took = time_until(&stage.server, "it begins", SOON, || stage.server.begun("job") == 1);
    assert!(took < Duration::from_secs(4), "{took:?}");
    stage.each_ran_once(&["job"]);
}

#[test]
fn a_lease_that_is_lost_on_its_way_is_found() {
    // The call that puts the job under a lease is lost, or its answer -> the body goes on, its lease is found, it ends once and is
    // settled once; whether it ends before or after that.
    // Guard: `find_handed` when a connection begins.
    std::thread::scope(|all| {
        for loss in [Fault::LoseRequest, Fault::LoseReply, Fault::HangRequest, Fault::HangReply] {
            for ends_before in [true, false] {
                all.spawn(move || {
                    let stage = Stage::set(&[]);
                    stage.proxy.fault(1, "reserve", loss);
                    let plan = if ends_before { vec![] } else { vec![Act::Gate("go".into())] };
                    stage.put("job", &[plan]);
                    stage.begins("job");
                    if !ends_before {
                        let connected = || stage.log().contains("new connection");
                        stage.server.eventually("it is connected again", 2 * SOON, connected);
                        stage.server.open("go");
                    }
                    stage.each_ran_once(&["job"]);
                    assert!(stage.proxy.all_happened(), "{loss:?}");
                    let lost = stage.log().contains("the lease was lost");
                    assert!(!lost, "{loss:?}, ends before: {ends_before}\n{}", stage.log());
                });
            }
        }
    });
}

#[test]
fn a_server_that_refuses_the_lease_is_asked_again() {
    // The call is refused -> it is made again, and the body goes on.
    // Guard: `has_answered` looks again while a job is without a lease.
    let stage = Stage::set(&[]);
    stage.proxy.fault(1, "reserve", Fault::Refuse);
    stage.put("job", &[vec![]]);
    stage.each_ran_once(&["job"]);
    assert!(stage.proxy.all_happened());
}

#[test]
fn a_body_whose_job_is_gone_is_cancelled() {
    // What the worker was handed is taken away from it before the lease -> the body is cancelled, with a word, and its slot is
    // free again.
    // Guard: `lose_handed` when a connection has begun and it was not found.
    let stage = Stage::set(&[("HWORKER_CONCURRENCY", "1")]);
    stage.proxy.fault(1, "reserve", Fault::HoldRequest);
    stage.put("gone", &[vec![Act::Sleep(HOUR_MS)]]);
    stage.begins("gone");
    let inbox = stage.server.redis().keys("hworker-inbox-*");
    assert_eq!(inbox.len(), 1, "{}", stage.server.report());
    let _: u64 = stage.server.redis().ask(&["DEL", &inbox[0]]);
    stage.proxy.release();
    stage.server.eventually("it is said", SOON, || stage.log().contains("the lease was lost"));
    stage.put("next", &[vec![]]);
    stage.each_ran_once(&["next"]);
    assert_eq!((stage.server.begun("gone"), stage.server.ended("gone")), (1, 0));
}

#[test]
fn a_body_that_blocks_the_runtime_before_its_lease_is_known_keeps_its_deadline() {
    // The body blocks the only thread of the runtime, so nobody asks for its lease; or one of two, and the other waits for the answer -> the
    // supervisor asks for it, or finds it, and settles the attempt as timed out while it goes on; another worker runs the next. An answer that
    // comes then brings nothing new.
    // Guard: `take_inbox`, and `find_handed` in the supervisor's comparison; `Inbox::is_found`.
    for threads in ["1", "2"] {
        let stage = Stage::set(&[("TOKIO_WORKER_THREADS", threads)]);
        if threads == "2" {
            stage.proxy.fault(1, "reserve", Fault::HoldReply);
        }
        let plan = [vec![Act::Block(8_000)], vec![]];
        stage.put_for("blocks", &plan, Duration::from_secs(1));
        stage.begins("blocks");
        let _other = stage.server.worker_process(&[]);
        let retried = || counter(&stage.server, "retried") == 1;
        stage.server.eventually("it is timed out", SOON, retried);
        stage.server.eventually("another runs it", SOON, || stage.server.ended("blocks") == 1);
        stage.proxy.release();
        // It came to its end too, where nobody looks at what it returns.
        stage.server.eventually("the first goes on", SOON, || stage.server.ended("blocks") == 2);
        let as_before =
            || stage.server.begun("blocks") == 2 && counter(&stage.server, "processed") == 1;
        stage.server.holds("no other begins", Duration::from_secs(2), as_before);
        assert_eq!(counter(&stage.server, "recovered"), 0, "{}", stage.server.report());
    }
}

#[test]
fn what_is_in_the_inbox_behind_a_body_that_blocks_the_runtime_goes_to_others() {
    // The body blocks the only thread of the runtime before its lease is known, and a wait of before handed another job over -> the supervisor
    // takes both, and gives back the one that did not begin while the other blocks; another worker runs it.
    // Guard: `take_inbox` sends the release itself.
    let stage = Stage::set(&[("TOKIO_WORKER_THREADS", "1")]);
    stage.waits_calmly();
    let inbox = format!("hworker-inbox-default:{}", serving(&stage.server)[0].id);
    stage.put("blocks", &[vec![Act::Block(20_000)]]);
    stage.begins("blocks");
    let behind = json!({ "job": "act_from_inbox", "args": { "name": "behind", "plan": [[]] } });
    let _: u64 = stage.server.redis().ask(&["LPUSH", &inbox, &behind.to_string()]);
    let _other = stage.server.worker_process(&[]);
    let runs = || stage.server.ended("behind") == 1;
    stage.server.eventually("another runs it", Duration::from_secs(8), runs);
    assert_eq!((stage.server.ended("blocks"), counter(&stage.server, "recovered")), (0, 0));
}

#[test]
fn a_body_that_kills_its_process_from_the_inbox_is_known_by_that() {
    // It ends its process at once, and the next one's, under its lease -> both crashes are counted against the job, as of every other;
    // where one is too many, it does not begin before it is under its lease.
    // Guard: `handed` in monitor.rs; `starts_under_lease`.
    for limit in [1_u64, 2] {
        let limited = limit.to_string();
        let settings = [("HWORKER_CRASH_LIMIT", &*limited)];
        let mut stage = Stage::set(&settings);
        stage.waits_calmly();
        if limit > 1 {
            // Else it may be under its lease when it dies, on a busy machine.
            stage.proxy.fault(1, "reserve", Fault::HoldRequest);
        }
        stage.put("kills", &vec![vec![Act::Kill]; 3]);
        assert!(!stage.worker.wait(SOON).expect("it dies").success());
        for _ in 1..limit {
            let mut next = stage.server.worker_process(&settings);
            assert!(!next.wait(RECOVERED + SOON).expect("it dies too").success());
        }
        let _other = stage.server.worker_process(&settings);
        let failed = || counter(&stage.server, "failed") == 1;
        stage.server.eventually("it has failed", RECOVERED + SOON, failed);
        let failed = block_on(stage.server.inspect().failed(0, 10)).expect("the failed jobs");
        assert_eq!(
            (failed[0].kind.as_str(), stage.server.begun("kills")),
            ("crash", limit as usize)
        );
        let handed: Vec<_> = failed[0].crashes.iter().map(|crash| crash.handed).collect();
        assert_eq!(handed, [true, false][2 - limit as usize..]);
    }
}

#[test]
fn what_dead_workers_were_handed_and_did_not_begin_runs() {
    // Jobs are handed to a worker that is stopped, and taken for dead: one that runs at most once, one that may start from an inbox, and one
    // that may not -> another worker that bears no crash runs each of them, since none is known to have begun.
    // Guard: `handed` of a crash, in `check` of worker/admit.rs.
    for job in ["act_unless_crashed", "act_from_inbox", "act"] {
        let stage = Stage::set(&[("HWORKER_TEST_JOBS", "all"), ("HWORKER_DEAD_AFTER", "2s")]);
        stage.waits_calmly();
        stage.worker.stop();
        let envelope = json!({ "job": job, "args": { "name": "job", "plan": [[]] } }).to_string();
        let _: u64 = stage.server.redis().ask(&["LPUSH", "hworker-jobs-default", &envelope]);
        let settings = [
            ("HWORKER_TEST_JOBS", "all"),
            ("HWORKER_DEAD_AFTER", "2s"),
            ("HWORKER_CRASH_LIMIT", "1"),
        ];
        let _other = stage.server.worker_process(&settings);
        stage.server.eventually("another runs it", 2 * SOON, || stage.server.ended("job") == 1);
        stage.server.drained(SOON);
        assert_eq!((counter(&stage.server, "recovered"), counter(&stage.server, "failed")), (1, 0));
    }
}

#[test]
fn a_body_that_blocks_before_its_job_is_under_its_lease_holds_up_no_other() {
    // The body of a lonely job blocks its thread from its first poll on -> its job comes under its lease all the same, and the next one begins
    // meanwhile, on another thread.
    // Guard: `lacking` in worker/lookout.rs.
    let stage = Stage::set(&[("TOKIO_WORKER_THREADS", "2")]);
    stage.put("blocks", &[vec![Act::Block(5_000)]]);
    stage.begins("blocks");
    stage.put("next", &[vec![]]);
    let took = time_until(&stage.server, "it runs", SOON, || stage.server.ended("next") == 1);
    assert!(took < Duration::from_secs(1), "{took:?}");
    stage.each_ran_once(&["blocks", "next"]);
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
fn a_worker_that_is_told_to_stop_waits_for_the_lease() {
    // SIGTERM while a body runs whose lease is not known -> it ends and is settled; the process exits with 0.
    // Guard: the loop that fetches does not retire while a call is under way.
    let mut stage = Stage::set(&[]);
    stage.proxy.fault(1, "reserve", Fault::HoldReply);
    stage.put("job", &[vec![Act::Gate("go".into())]]);
    stage.begins("job");
    stage.worker.terminate();
    stage.server.eventually("it stops", SOON, || stage.log().contains("worker stops"));
    stage.server.open("go");
    stage.server.eventually("the body ends", SOON, || stage.server.ended("job") == 1);
    stage.proxy.release();
    assert!(stage.worker.wait(SOON).expect("it ends").success());
    stage.each_ran_once(&["job"]);
}

#[test]
fn equal_jobs_are_two() {
    // Two envelopes with the same bytes, and no id, one handed over and the other behind it -> both run, once each.
    // Guard: one of those that a reserve brings is taken for what was handed over, and no other.
    let stage = Stage::set(&[]);
    let envelope = json!({ "job": "act_from_inbox", "args": { "name": "same", "plan": [] } });
    let envelope = envelope.to_string();
    stage.proxy.fault(1, "reserve", Fault::HoldRequest);
    let _: u64 = stage.server.redis().ask(&["LPUSH", "hworker-jobs-default", &envelope, &envelope]);
    stage.begins("same");
    stage.proxy.release();
    stage.server.eventually("both end", SOON, || stage.server.ended("same") == 2);
    stage.server.drained(SOON);
    assert_eq!((stage.server.begun("same"), counter(&stage.server, "processed")), (2, 2));
}

#[test]
fn what_cannot_start_from_the_inbox_is_met_under_its_lease() {
    // To an idle worker come arguments that do not fit, bytes that are no job, an unknown job, one that is larger than a worker takes,
    // and one with a crash, each while it waits for what may start -> each is treated as always, said once, and what comes
    // next runs.
    // Guard: `admit_handed` settles nothing; the bound of the seat.
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
    push(r#"{"job":"act_from_inbox","args":{"name":7}}"#);
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
    let (start, end) =
        (r#"{"job":"act_from_inbox","args":{"name":"large","plan":[]},"x":""#, r#""}"#);
    let filled = "x".repeat(2000 + 8 * 1024 + 1 - start.len() - end.len());
    push(&format!("{start}{filled}{end}"));
    server.eventually("it is set aside", SOON, || counter(server, "broken") == 3);
    runs();
    assert_eq!(server.begun("large"), 0);
    push(r#"{"job":"of_tomorrow","args":{}}"#);
    server.eventually("it waits for others", SOON, || parked() == 2);
    runs();
    let crashed = json!({
        "job": "act_from_inbox", "args": { "name": "crashed", "plan": [] },
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
fn jobs_of_both_kinds_alternate() {
    // Jobs that may start from the inbox and jobs that may not, in turn to an idle worker -> each runs once.
    // Guard: which way a worker waits changes with what came last, and no job is missed for that.
    let stage = Stage::set(&[("HWORKER_CONCURRENCY", "1")]);
    for number in 0..100 {
        let name = format!("job-{number}");
        if number % 3 == 0 {
            let job = act::with(name.clone(), Vec::new()).on(stage.server.client());
            job.enqueue_blocking().expect("enqueued");
        } else {
            stage.put(&name, &[vec![]]);
        }
        stage.server.eventually("it runs", SOON, || stage.server.ended(&name) == 1);
    }
    stage.server.drained(SOON);
    assert_eq!(counter(&stage.server, "processed"), 100);
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
fn what_was_handed_over_is_taken_on_no_other_connection() {
    // Jobs come by the dozen, so that each wait is over at once and the next is about to be wanted -> what was handed over comes under
    // its lease with the call that was sent for it, and no connection is made anew to look for it.
    // Guard: `Inbox::sent_beside`.
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
