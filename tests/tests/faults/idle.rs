//! What idle workers cost, and how fast they pick up.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hworker_tests::{InProcess, Machine, Process, Proxy, SCRIPTS, TestServer, act};

use crate::support::{SOON, envelope, ms_between, now_us, serving, wait_for_workers};

/// Every command that the server gets from clients, without what scripts call.
struct Monitored {
    lines: Arc<Mutex<Vec<String>>>,
    end: UnixStream,
}

impl Monitored {
    fn start(server: &TestServer) -> Self {
        let mut end = UnixStream::connect(server.process().socket()).expect("the server's socket");
        end.write_all(b"MONITOR\r\n").expect("a command");
        let (from, lines) =
            (end.try_clone().expect("the socket"), Arc::new(Mutex::new(Vec::new())));
        let to = Arc::clone(&lines);
        std::thread::spawn(move || {
            for line in BufReader::new(from).lines().map_while(Result::ok) {
                // Neither what scripts call nor what the test and its bodies ask.
                if !line.contains(" lua] ") && !line.contains("test:") && !line.starts_with("+OK") {
                    to.lock().expect("no panic").push(line);
                }
            }
        });
        Self { lines, end }
    }

    fn lines(&self) -> Vec<String> {
        self.lines.lock().expect("no panic").clone()
    }
}

impl Drop for Monitored {
    fn drop(&mut self) {
        let _ = self.end.shutdown(std::net::Shutdown::Both);
    }
}

/// Pushes a job as another program would, and gives when, by the server's clock, in microseconds.
fn push(server: &TestServer, name: &str) -> u64 {
    let envelope = envelope(name, &[]);
    let at = now_us(server);
    let _: u64 = server.redis().ask(&["LPUSH", "hworker-jobs-default", &envelope]);
    at
}

#[test]
fn idle_pick_up() {
    // A plain LPUSH from another program starts the body at once on an idle worker: long before it would look by itself (median of 60).
    // How soon on a quiet machine is W3 of the benchmark.
    // Guard: the wait on the server, `BLMOVE`.
    let _machine = Machine::claim();
    let server = TestServer::start();
    let _worker = server.worker_process(&[("HWORKER_LOG", "off")]);
    wait_for_workers(&server, 1);
    let mut took = Vec::new();
    for number in 0..60 {
        let name = format!("job-{number}");
        let pushed = push(&server, &name);
        server.eventually("it ran", SOON, || server.ended(&name) == 1);
        took.push(server.runs_of(&name)[0].at - pushed);
        // Idle again: it waits, and not on what is left of the last round trip.
        std::thread::sleep(Duration::from_millis(30));
    }
    took.sort_unstable();
    let (median, p99) = (took[took.len() / 2], took[took.len() - 1]);
    println!("picked up after {median} us in the median, {p99} us at the worst of {}", took.len());
    assert!(median < 100_000, "{took:?}");
    server.drained(SOON);
}

#[test]
fn idle_worker_asks_next_to_nothing() {
    // An idle worker process costs < 1 command/s.
    // Guard: the wait on the server; one heartbeat in 1.5 s.
    let server = TestServer::start();
    let _worker = server.worker_process(&[]);
    wait_for_workers(&server, 1);
    // What a start costs is over.
    std::thread::sleep(Duration::from_secs(3));
    let monitored = Monitored::start(&server);
    let start = Instant::now();
    // What the worker sends in this time is counted.
    std::thread::sleep(Duration::from_secs(15));
    let lines = monitored.lines();
    let each_second = lines.len() as f64 / start.elapsed().as_secs_f64();
    println!("an idle worker costs {each_second:.2} commands/s");
    assert!(!lines.is_empty() && each_second < 1.0, "{each_second}\n{}", lines.join("\n"));
}

#[test]
fn poll_of_an_empty_queue_leaves_nothing() {
    // Idle for 10 s -> no key appears but the registries of workers and queues, the timer and the statistics; nothing is in progress, and
    // no job comes out of nowhere.
    // Guard: an empty list is `false` in Lua.
    let server = TestServer::start();
    let _worker = server.worker_process(&[]);
    wait_for_workers(&server, 1);
    server.holds("no other key", Duration::from_secs(10), || {
        let keys = server.redis().keys("*");
        let known = [
            "workers-default",
            "worker-default:",
            "timer-default",
            "meta:",
            // The limits of its job types.
            "jobs-default:control",
            "jobs-default:tables",
        ]
        .map(|known| format!("hworker-{known}"));
        keys.iter().all(|key| known.iter().any(|known| key.starts_with(known)))
    });
    put_and_run(&server);
    assert_eq!(crate::support::counter(&server, "processed"), 1);
}

fn put_and_run(server: &TestServer) {
    push(server, "after");
    server.eventually("it ran", SOON, || server.ended("after") == 1);
    server.drained(SOON);
}

#[test]
fn a_hundred_idle_workers() {
    // 100 idle workers, after 100 others have stopped, and one job now and then: < 100 commands/s, and exactly one worker
    // is woken by a job.
    // Guard: `BLMOVE` into an inbox of one's own; one question for all of the dead.
    let _machine = Machine::claim();
    let server = TestServer::start();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let workers = |count: usize| -> Vec<InProcess> {
        let _context = runtime.enter();
        (0..count)
            .map(|_| InProcess::run(server.worker().concurrency(2).register::<act>()))
            .collect()
    };
    let first = workers(100);
    server.eventually("all serve", 3 * SOON, || serving(&server).len() == 100);
    runtime.block_on(async {
        for worker in first {
            worker.stop().await;
        }
    });
    let _second = workers(100);
    server.eventually("all serve", 3 * SOON, || serving(&server).len() == 100);
    // Each reads each record of the dead once; then it looks often, for a while, for what their half-open connections
    // may have captured.
    let start = Instant::now();
    let each_second = loop {
        let monitored = Monitored::start(&server);
        // What the workers send in this time is counted.
        std::thread::sleep(Duration::from_secs(4));
        let lines = monitored.lines();
        if !lines.iter().any(|line| line.contains("HMGET")) {
            break lines.len() as f64 / 4.0;
        }
        assert!(start.elapsed() < 2 * SOON, "{}", lines.join("\n"));
    };
    println!("100 idle workers cost {each_second:.0} commands/s after 100 others stopped");
    assert!(each_second < 200.0);
    // The dead are looked at often for 40 s.
    std::thread::sleep(Duration::from_secs(42).saturating_sub(start.elapsed()));

    let monitored = Monitored::start(&server);
    let start = Instant::now();
    let mut took = Vec::new();
    for number in 0..5 {
        let name = format!("now and then {number}");
        let (before, pushed) = (monitored.lines().len(), push(&server, &name));
        server.eventually("it ran", SOON, || server.ended(&name) == 1);
        took.push(ms_between(pushed, server.runs_of(&name)[0].at));
        // It is idle, between jobs that come now and then.
        std::thread::sleep(Duration::from_secs(2));
        let lines = monitored.lines();
        let reserve = redis_hash("reserve");
        let reserves = lines[before..].iter().filter(|line| line.contains(&reserve));
        // "EVALSHA" "<hash>" "7" "<the record of the worker>" ...
        let woken: std::collections::HashSet<_> =
            reserves.filter_map(|line| line.split('"').nth(7)).collect();
        assert_eq!(woken.len(), 1, "{woken:?}\n{}", lines[before..].join("\n"));
    }
    let each_second = monitored.lines().len() as f64 / start.elapsed().as_secs_f64();
    println!("100 idle workers cost {each_second:.0} commands/s, and picked up after {took:?} ms");
    assert!(each_second < 100.0, "{each_second}");
    server.drained(SOON);
}

/// How often the supervisor's thread of a worker went to sleep so far.
#[cfg(target_os = "linux")]
fn sleeps_of(worker: &Process, thread: &str) -> u64 {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", worker.pid())).expect("its threads");
    let statuses =
        tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("status")).ok());
    let thread = format!("Name:\t{thread}");
    let status = statuses.into_iter().find(|status| status.starts_with(&thread));
    let status = status.expect("the thread");
    let count = |line: &str| line.strip_prefix("voluntary_ctxt_switches:")?.trim().parse().ok();
    status.lines().find_map(count).expect("how often it slept")
}

#[cfg(target_os = "linux")]
#[test]
fn the_threads_of_an_idle_worker_wake_for_its_heartbeats_alone() {
    // Guard: `show_with_beats`, by which all that is looked at now and then is looked at with a heartbeat. Three times it is: tokio looks at a far
    // timer twice, and there is the answer. It was about seven times without.
    let server = TestServer::start();
    let proxy = Proxy::before(&server);
    let worker = server.worker_process(&[("HWORKER_REDIS_URL", &proxy.url())]);
    server.eventually("it is there", SOON, || proxy.count("heartbeat") >= 2);
    let threads = ["hworker-supervi", "hworker-intake"];
    let beats = proxy.count("heartbeat");
    let slept = threads.map(|thread| sleeps_of(&worker, thread));
    let within = Duration::from_secs(60);
    server.eventually("heartbeats", within, || proxy.count("heartbeat") >= beats + 6);
    let beats = (proxy.count("heartbeat") - beats) as u64;
    for (thread, before) in threads.into_iter().zip(slept) {
        let slept = sleeps_of(&worker, thread) - before;
        println!("{thread} slept {slept} times in {beats} heartbeats");
        assert!(slept <= 5 * beats, "{thread}: {slept} times in {beats} heartbeats");
    }
}

/// The hash by which a script is called.
fn redis_hash(script: &str) -> String {
    let (_, text) = SCRIPTS.iter().find(|(name, _)| *name == script).expect("a script");
    redis::Script::new(text).get_hash().to_owned()
}
