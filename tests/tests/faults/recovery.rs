//! Rows T: leases, and the jobs of workers that died.

use std::time::Duration;

use hworker_tests::Records as _;
use hworker_tests::{
    Act, Fault, Machine, Proxy, TestServer, act, act_blocking, act_unless_crashed,
};

use crate::support::{
    Dead, HOUR_MS, RECOVERED, SOON, begins, block_on, cancelled_at, counter, first_run_hangs,
    median_and_worst, ms_between, now_us, put, put_on, serving, time_until, wait_for_workers,
};

#[test]
fn t3_crash_recovery() {
    // kill -9 the worker mid-body -> within 8 s, whatever the timeout, another worker runs it; progress empty at the end.
    // Guard: the monitor's `Task::Recover`.
    let server = TestServer::start();
    let mut first = server.worker_process(&[]);
    put(&server, "job", first_run_hangs());
    server.eventually("it runs", SOON, || server.begun("job") == 1);
    let _second = server.worker_process(&[]);
    wait_for_workers(&server, 2);
    let killed = now_us(&server);
    first.kill();
    server.eventually("it runs elsewhere", RECOVERED, || server.begun("job") == 2);
    let runs = begins(&server, "job");
    println!("recovered after {} ms", ms_between(killed, runs[1].at));
    assert_ne!(runs[0].pid, runs[1].pid);
    assert!(runs[1].token > runs[0].token, "the fencing token grows");
    assert_eq!(runs[1].attempt, 1, "a crash costs no attempt");
    server.drained(SOON);
}

#[test]
fn a_death_while_heartbeats_are_refused_is_found_after_that() {
    // A worker dies, and was silent for long before the heartbeats of the other one, which the server refused, are accepted again -> its job is
    // recovered as soon as any other.
    // Guard: `Watch::missed` has the next heartbeat ask for everyone; one that asks for those of the last minute comes for a minute.
    let server = TestServer::start();
    let proxy = Proxy::before(&server);
    let mut first = server.worker_process(&[]);
    put(&server, "job", first_run_hangs());
    server.eventually("it runs", SOON, || server.begun("job") == 1);
    let dies = serving(&server)[0].id.clone();
    let _second = server.worker_process(&[("HWORKER_REDIS_URL", &proxy.url())]);
    wait_for_workers(&server, 2);
    server.eventually("its heart beats", SOON, || proxy.count("heartbeat") >= 2);
    first.kill();
    let long_ago = (now_us(&server) / 1_000 - 120_000).to_string();
    let _: u64 = server.redis().ask(&["ZADD", "hworker-workers-default", &long_ago, &dies]);
    for nth in 1..=3 {
        proxy.fault(nth, "heartbeat", Fault::Refuse);
    }
    server.eventually("they are refused", SOON, || proxy.all_happened());
    server.eventually("it runs elsewhere", RECOVERED, || server.begun("job") == 2);
    server.drained(SOON);
}

#[test]
fn t4_recovery_of_many() {
    // 100 in-progress jobs of a killed process -> each re-run exactly once; within 8 s although they may run for an hour.
    // Guard: `recover.lua` gives a lease back only if it was there.
    let server = TestServer::start();
    let mut first = server.worker_process(&[("HWORKER_CONCURRENCY", "100")]);
    let names: Vec<_> = (0..100).map(|number| format!("job-{number}")).collect();
    for name in &names {
        put(&server, name, first_run_hangs());
    }
    let begun = |times| names.iter().all(|name| server.begun(name) == times);
    server.eventually("all run", SOON, || begun(1));
    let _second = server.worker_process(&[("HWORKER_CONCURRENCY", "100")]);
    wait_for_workers(&server, 2);
    let killed = now_us(&server);
    first.kill();
    server.eventually("all run again", SOON + RECOVERED, || begun(2));
    let after = names.iter().map(|name| ms_between(killed, begins(&server, name)[1].at)).collect();
    let (median, worst) = median_and_worst(after);
    println!("100 jobs recovered after {median} ms in the median, {worst} ms at the worst");
    assert!(worst <= 8_000, "{worst} ms");
    server.drained(SOON);
    assert_eq!(counter(&server, "recovered"), 100);
    assert!(begun(2), "each exactly once more");
}

#[test]
fn t5_several_monitors() {
    // 6 monitors, 2 orphans -> 2 re-queues in total.
    // Guard: `recover.lua` counts and gives back a lease only if it was there.
    let server = TestServer::start();
    let mut first = server.worker_process(&[]);
    put(&server, "one", first_run_hangs());
    put(&server, "two", first_run_hangs());
    let begun = |times| server.begun("one") == times && server.begun("two") == times;
    server.eventually("both run", SOON, || begun(1));
    let _monitors: Vec<_> = (0..6).map(|_| server.worker_process(&[])).collect();
    wait_for_workers(&server, 7);
    first.kill();
    server.eventually("both run again", RECOVERED, || begun(2));
    server.holds("nothing is given back twice", Duration::from_secs(4), || begun(2));
    assert_eq!(counter(&server, "recovered"), 2);
    server.drained(SOON);
}

#[test]
fn t6_position_on_recovery() {
    // Documented: the front, the oldest next; a job that kills its worker must not block others for ever.
    // Guard: chunks from the youngest lease to the oldest, which `recover.lua` pushes to the right; the limit of crashes.
    let server = TestServer::start();
    let mut first = server.worker_process(&[("HWORKER_CONCURRENCY", "3")]);
    for name in ["1", "2", "3"] {
        put(&server, name, first_run_hangs());
        server.eventually("it runs", SOON, || server.begun(name) == 1);
    }
    first.kill();
    // The only slot is taken until they are back, and others wait for it.
    put(&server, "holds the slot", vec![vec![Act::Gate("free".into())]]);
    let second = server.worker_process(&[("HWORKER_CONCURRENCY", "1")]);
    server.eventually("it is taken", SOON, || server.begun("holds the slot") == 1);
    put(&server, "4", vec![]);
    put(&server, "5", vec![]);
    server.eventually("three are recovered", 2 * RECOVERED, || counter(&server, "recovered") == 3);
    server.open("free");
    server.eventually("all have run", SOON, || counter(&server, "processed") == 6);
    let at = |name: &str| server.runs_of(name).last().map(|run| run.at);
    let order = ["holds the slot", "1", "2", "3", "4", "5"].map(at);
    assert!(order.is_sorted(), "{}", server.report());
    drop(second);

    let settings =
        [("HWORKER_CONCURRENCY", "1"), ("HWORKER_CRASH_LIMIT", "2"), ("HWORKER_DEAD_AFTER", "2s")];
    put(&server, "killer", vec![vec![Act::Kill]]);
    put(&server, "innocent", vec![]);
    for deaths in 1..=2 {
        let mut worker = server.worker_process(&settings);
        let _ = worker.wait(2 * RECOVERED).expect("the job kills it");
        assert_eq!(server.begun("killer"), deaths);
    }
    let _last = server.worker_process(&settings);
    server.eventually("the innocent runs", SOON, || server.ended("innocent") == 1);
    server.eventually("the killer has failed", RECOVERED, || counter(&server, "failed") == 1);
    assert_eq!(server.begun("killer"), 2);
}

#[test]
fn t7_long_job_keeps_its_lease() {
    // `dead_after` 2 s, timeout 60 s, body 10 s, also one that blocks the runtime -> one run.
    // Guard: the supervisor's thread, which beats whatever the runtime does.
    std::thread::scope(|both| {
        both.spawn(|| one_run_of(Act::Sleep(10_000)));
        both.spawn(|| one_run_of(Act::Block(10_000)));
    });
}

fn one_run_of(what: Act) {
    let settings = [("HWORKER_DEAD_AFTER", "2s"), ("TOKIO_WORKER_THREADS", "1")];
    let server = TestServer::start();
    let _holder = server.worker_process(&settings);
    let job = act::with("job".into(), vec![vec![what]]).on(server.client());
    job.timeout(Duration::from_secs(60)).enqueue_blocking().expect("enqueued");
    server.eventually("it runs", SOON, || server.begun("job") == 1);
    let _other = server.worker_process(&settings);
    server.eventually("it ends", Duration::from_secs(15), || server.ended("job") == 1);
    server.drained(SOON);
    assert_eq!((server.begun("job"), counter(&server, "recovered")), (1, 0));
}

#[test]
fn t8_lease_lost_is_noticed() {
    // The lease is revoked through the inspect API -> worker learns within a heartbeat, cancels the body, does not ack.
    // Guard: the comparison of leases with the heartbeat; `settle.lua` acts only for a lease that is held.
    let server = TestServer::start();
    let _worker = server.worker_process(&[("HWORKER_CONCURRENCY", "1")]);
    let id = put(&server, "job", vec![vec![Act::Sleep(HOUR_MS)], vec![Act::Gate("go".into())]]);
    server.eventually("it runs", SOON, || server.begun("job") == 1);
    block_on(server.inspect().revoke(&id)).expect("revoked");
    // With one slot it can only run again once the first run was cancelled.
    let noticed = time_until(&server, "it runs again", SOON, || server.begun("job") == 2);
    println!("a revoked lease was noticed after {noticed:?}");
    assert!(noticed < Duration::from_millis(2_500), "{noticed:?}");
    assert_eq!(counter(&server, "processed"), 0);
    server.open("go");
    server.eventually("it is acked", SOON, || counter(&server, "processed") == 1);
    assert_eq!(server.ended("job"), 1);

    // A blocking body cannot be dropped: its slot is free as soon, and what it returns counts for nothing.
    let plan = vec![vec![Act::Block(5_000)], vec![Act::Gate("later".into())]];
    let id = act_blocking::with("blocks".to_owned(), plan).on(server.client());
    let id = id.enqueue_blocking().expect("enqueued");
    server.eventually("it runs", SOON, || server.begun("blocks") == 1);
    block_on(server.inspect().revoke(&id)).expect("revoked");
    let noticed = time_until(&server, "it runs again", SOON, || server.begun("blocks") == 2);
    assert!(noticed < Duration::from_millis(2_500), "{noticed:?}");
    server.eventually("the first run returns", SOON, || server.ended("blocks") == 1);
    server.holds("nothing is acked", Duration::from_secs(1), || counter(&server, "processed") == 1);
    server.open("later");
    server.eventually("it is acked", SOON, || counter(&server, "processed") == 2);
    server.drained(SOON);

    // One that looks at its context sees it.
    let plan = vec![vec![Act::BlockUntilCancelled], vec![]];
    let looks = act_blocking::with("looks".to_owned(), plan).on(server.client());
    let id = looks.enqueue_blocking().expect("enqueued");
    server.eventually("it runs", SOON, || server.begun("looks") == 1);
    let revoked = now_us(&server);
    block_on(server.inspect().revoke(&id)).expect("revoked");
    server.eventually("both runs return", SOON, || server.ended("looks") == 2);
    let told = ms_between(revoked, cancelled_at(&server, "looks"));
    assert!(told < 2_500, "{told} ms");
    server.drained(SOON);
    assert_eq!(counter(&server, "processed"), 3);
}

#[test]
fn t9_no_recovery_wanted() {
    // `on_crash = "fail"`: crashed job goes to failed instead of re-run (at most once).
    // Guard: `on_crash` where a job is taken.
    let server = TestServer::start();
    let mut first = server.worker_process(&[("HWORKER_TEST_JOBS", "all")]);
    let plan = vec![vec![Act::Sleep(HOUR_MS)]];
    let job = act_unless_crashed::with("once".to_owned(), plan).on(server.client());
    let id = job.enqueue_blocking().expect("enqueued");
    server.eventually("it runs", SOON, || server.begun("once") == 1);
    let _second = server.worker_process(&[("HWORKER_TEST_JOBS", "all")]);
    let worker = begins(&server, "once")[0].worker.clone();
    first.kill();
    server.eventually("it has failed", RECOVERED + SOON, || counter(&server, "failed") == 1);
    let failed = block_on(server.inspect().failed(0, 10)).expect("the failed jobs");
    assert_eq!(failed[0].id, id.as_str());
    assert_eq!((failed[0].kind.as_str(), failed[0].attempts), ("crash", 1));
    assert_eq!(failed[0].crashes[0].worker, worker);
    server.holds("it does not run again", Duration::from_secs(2), || server.begun("once") == 1);
}

#[test]
fn t12_corrupt_progress_entry() {
    // Write garbage into progress -> monitor logs, keeps running, others recovered.
    // Guard: what cannot be decoded goes back as it is, in `monitor::crashed`, which says so; a monitor goes on past a worker that
    // it cannot recover.
    let server = TestServer::start();
    let garbage = Dead { server: &server, id: "garbage.1" };
    garbage.last_heard(6_000);
    garbage.holds("not a lease", "not an envelope");
    // The first write of each script removes this one.
    garbage.holds("", "no name");
    garbage.holds("99999999999999999999999.0", "{\"job\":\"act\"");
    garbage.holds("18446744073709551615.7", "\u{0}\u{1}");
    garbage.holds("1", &crate::support::envelope("beside garbage", &[]));
    // One whose keys are not even of the right type, heard of before all others.
    let wrong = Dead { server: &server, id: "wrong-type.1" };
    wrong.last_heard(9_000);
    let _: String = server.redis().ask(&["SET", "hworker-inbox-default:wrong-type.1", "x"]);
    let wrong = Dead { server: &server, id: "wrong-type.2" };
    wrong.last_heard(9_000);
    let _: String = server.redis().ask(&["SET", &wrong.progress(), "x"]);
    let other = Dead { server: &server, id: "other.1" };
    other.last_heard(3_000);
    other.holds("2", &crate::support::envelope("other", &[]));

    let _worker = server.worker_process(&[]);
    server.eventually("the others are recovered", 2 * RECOVERED, || {
        server.ended("beside garbage") == 1 && server.ended("other") == 1
    });
    // A worker that finds the marks of others, as one does that starts later, goes on too.
    let late = Dead { server: &server, id: "late.1" };
    let _second = server.worker_process(&[]);
    late.last_heard(0);
    late.holds("3", &crate::support::envelope("late", &[]));
    server.eventually("one that dies later is recovered", 2 * RECOVERED, || {
        server.ended("late") == 1
    });
    let broken = || {
        let broken = block_on(server.inspect().broken()).expect("the broken payloads");
        let text = |payload| String::from_utf8(payload).expect("text");
        let mut payloads: Vec<_> = broken.into_iter().map(|broken| text(broken.payload)).collect();
        payloads.sort();
        payloads
    };
    server.eventually("all garbage is broken", SOON, || broken().len() == 3);
    assert_eq!(broken(), ["\u{0}\u{1}", "not an envelope", "{\"job\":\"act\""]);
    assert_eq!(garbage.left(), 0);
    // The first worker is the monitor that recovered it.
    let log = std::fs::read_to_string(server.dir().join("process-0.log")).expect("the log");
    let said = |line: &&str| {
        line.contains("cannot be decoded; it goes back as it is") && line.contains("garbage.1")
    };
    assert_eq!(log.lines().filter(said).count(), 3, "{log}");

    // Garbage under a worker that lives is not taken for a job of its own either.
    let id = crate::support::serving(&server)[0].id.clone();
    Dead { server: &server, id: &id }.holds("garbage", "[]");
    server.eventually("it is broken", SOON, || broken().iter().any(|payload| payload == "[]"));
    put(&server, "after", vec![]);
    server.eventually("the worker goes on", SOON, || server.ended("after") == 1);
}

/// A command in the log of slow ones: its number, the time, how long it took in microseconds, its words, and who sent it.
type Logged = (u64, u64, u64, Vec<String>, String, String);

#[test]
fn t13_monitor_cost() {
    // 100 k in progress: a pass does not block Redis > few ms: it reads 500 leases at once, and gives back 200.
    // Counted in calls: what each takes depends on what else the machine does.
    // Guard: leases are read in portions (`AT_ONCE` in `Queue::leases`), and given back in chunks (`CHUNK` in `monitor/recover.rs`).
    let _machine = Machine::claim();
    let server = TestServer::start();
    let proxy = Proxy::before(&server);
    let dead = Dead { server: &server, id: "dead.1" };
    dead.holds_many(100_000);
    // One slot that is taken, so that nothing of it runs.
    put(&server, "holds the slot", vec![vec![Act::Sleep(HOUR_MS)]]);
    let settings = [("HWORKER_CONCURRENCY", "1"), ("HWORKER_REDIS_URL", &*proxy.url())];
    let _worker = server.worker_process(&settings);
    server.eventually("the slot is taken", SOON, || server.begun("holds the slot") == 1);
    let _: String = server.redis().ask(&["CONFIG", "SET", "slowlog-log-slower-than", "1000"]);
    let _: String = server.redis().ask(&["CONFIG", "SET", "slowlog-max-len", "10000"]);
    let _: String = server.redis().ask(&["SLOWLOG", "RESET"]);
    dead.last_heard(6_000);
    let took =
        time_until(&server, "all are recovered", Duration::from_secs(60), || dead.left() == 0);
    let log: Vec<Logged> = server.redis().ask(&["SLOWLOG", "GET", "10000"]);
    let longest = log.iter().map(|logged| logged.2).max().unwrap_or(0);
    println!("100,000 leases recovered in {took:?}, the longest command took {longest} us");
    let (reads, chunks) = (proxy.count("read_hash"), proxy.count("recover"));
    // A read brings a few more where some share a place of the hash.
    assert!(reads >= 160 && chunks >= 100_000 / 200, "{reads} reads, {chunks} chunks");
    let reads_all = |words: &[String]| {
        ["HKEYS", "HGETALL"].contains(&words[0].to_ascii_uppercase().as_str())
            && words[1].ends_with("dead.1")
    };
    assert!(log.iter().all(|logged| !reads_all(&logged.3)), "all leases were read at once");
    assert_eq!(server.redis().len("hworker-jobs-default"), 100_000);
}

#[test]
fn t14_monitor_built_in() {
    // `run_all()` alone recovers crashed jobs: the program of the workers is nothing else, and the next one to start is
    // the first that sees the dead.
    // Guard: the supervisor starts with the worker.
    let server = TestServer::start();
    let mut first = server.worker_process(&[]);
    put(&server, "job", first_run_hangs());
    server.eventually("it runs", SOON, || server.begun("job") == 1);
    first.kill();
    let _second = server.worker_process(&[]);
    let took = time_until(&server, "it runs again", 2 * RECOVERED, || server.ended("job") == 1);
    println!("a worker that started after the death recovered in {took:?}");
    server.drained(SOON);
}

#[test]
fn workers_that_died_long_ago_are_recovered() {
    // All workers died, and the next one starts minutes, or days, later -> it recovers them within 8 s all the same.
    // Guard: while a worker is watched, the heartbeat asks for all that are silent, not for those of the last minute.
    let server = TestServer::start();
    for (id, ago) in [("minutes.1", 5 * 60_000), ("days.1", 3 * 86_400_000)] {
        let dead = Dead { server: &server, id };
        dead.last_heard(ago);
        dead.holds("1", &crate::support::envelope(id, &[]));
    }
    let _worker = server.worker_process(&[]);
    for id in ["minutes.1", "days.1"] {
        server.eventually("it is recovered", RECOVERED + SOON, || server.ended(id) == 1);
    }
    server.drained(SOON);
}

#[test]
fn t15_bulk_move_limit() {
    // 100 k due or expired at once -> all moved, in chunks, no script error.
    // Guard: `promote.lua` moves 32 at a time and 1000 in all (`SCRIPT_JOBS` in `Queue::promote`), a recovery 200 (`CHUNK`).
    const COUNT: u64 = 100_000;
    const DUE: &str = r#"for i = tonumber(ARGV[1]), tonumber(ARGV[2]) do
        redis.call('ZADD', KEYS[1], i, '{"id":"d' .. i .. '"}') end return 1"#;
    let _machine = Machine::claim();
    let server = TestServer::start();
    let proxy = Proxy::before(&server);
    put_on(&server, "default", "holds the slot", vec![vec![Act::Sleep(HOUR_MS)]]);
    let _worker =
        server.worker_process(&[("HWORKER_CONCURRENCY", "1"), ("HWORKER_REDIS_URL", &proxy.url())]);
    server.eventually("the slot is taken", SOON, || server.begun("holds the slot") == 1);

    let dead = Dead { server: &server, id: "dead.1" };
    dead.holds_many(COUNT as u32);
    dead.last_heard(6_000);
    server.eventually("all expired are moved", Duration::from_secs(60), || {
        dead.left() == 0 && server.redis().len("hworker-jobs-default") == COUNT
    });
    let next: String = server.redis().ask(&["LINDEX", "hworker-jobs-default", "-1"]);
    assert!(next.contains("\"id\":\"1\""), "the oldest is next: {next}");
    let recovered_by = proxy.count("recover") as u64;
    assert!(recovered_by >= COUNT / 200, "in {recovered_by} chunks");

    for first in (1..=COUNT).step_by(10_000) {
        let last = (first + 9_999).to_string();
        let words = ["EVAL", DUE, "1", "hworker-scheduled-default", &first.to_string(), &last];
        let _: u64 = server.redis().ask(&words);
    }
    let took = time_until(&server, "all due are moved", Duration::from_secs(60), || {
        server.redis().len("hworker-scheduled-default") == 0
    });
    let moved_by = proxy.count("promote") as u64;
    println!("100,000 due jobs were moved in {took:?}, in {moved_by} chunks");
    assert!(moved_by >= COUNT / 1_000, "in {moved_by} chunks");
    assert_eq!(server.redis().len("hworker-jobs-default"), 2 * COUNT);
}
