//! Clocks that are off, and clocks that jump.

use std::collections::HashSet;
use std::time::{Duration, SystemTime};

use hworker_tests::{Act, Clock, Process, TestServer, act};

use crate::support::{
    RECOVERED, SOON, begins, counter, first_run_hangs, ms_between, now_us, put, wait_for_workers,
};

/// A worker process that lives by a clock.
fn worker(clock: &Clock, server: &TestServer) -> Process {
    let mut command = server.command("test-worker");
    clock.rule(&mut command);
    Process::start(command)
}

/// A server that lives by a clock.
fn server(clock: &Clock) -> TestServer {
    let plain = TestServer::start();
    let program = plain.process().program().to_owned();
    drop(plain);
    let wrapper = clock.wrap(&program).expect("the wrapper");
    TestServer::builder().program(Some(&wrapper)).start()
}

#[test]
fn t11_clock() {
    // Worker clock +/-1 h off -> recovery time unchanged; so is that of a delayed job.
    // Guard: every time that decides is the server's `TIME`.
    std::thread::scope(|all| {
        for (dead, monitor) in [(3_600, -3_600), (-3_600, 3_600), (0, 3_600), (3_600, 0)] {
            all.spawn(move || recovered_in_time(dead, monitor));
        }
    });
}

fn recovered_in_time(dead: i64, monitor: i64) {
    let (Some(of_the_dead), Some(of_the_monitor)) = (Clock::new(), Clock::new()) else { return };
    of_the_dead.set(dead);
    of_the_monitor.set(monitor);
    let server = TestServer::start();
    let mut first = worker(&of_the_dead, &server);
    put(&server, "job", first_run_hangs());
    server.eventually("it runs", SOON, || server.begun("job") == 1);
    let _second = worker(&of_the_monitor, &server);
    wait_for_workers(&server, 2);
    let hour = |log: &str| {
        let log = std::fs::read_to_string(server.dir().join(log)).expect("the log");
        log[..13].to_owned()
    };
    assert_ne!(hour("process-0.log"), hour("process-1.log"), "they live by their clocks");
    // Both beat and are not taken for dead.
    server.holds("nobody is dead", Duration::from_secs(4), || counter(&server, "recovered") == 0);
    let killed = now_us(&server);
    first.kill();
    server.eventually("it runs elsewhere", RECOVERED, || server.begun("job") == 2);
    let after = ms_between(killed, begins(&server, "job")[1].at);
    println!("clocks off by {dead} s and {monitor} s: recovered after {after} ms");
    assert!((3_500..8_000).contains(&after), "{after}");

    let due = now_us(&server) + 1_000_000;
    let job = act::with("later".into(), vec![]).on(server.client()).delay(Duration::from_secs(1));
    job.enqueue_blocking().expect("enqueued");
    server.eventually("it runs", SOON, || server.ended("later") == 1);
    let at = begins(&server, "later")[0].at;
    assert!(at >= due - 1_000 && ms_between(due, at) < 3_000, "{} ms late", ms_between(due, at));
}

#[test]
fn the_servers_clock_jumps() {
    // The clock of the server jumps by +1 h and by -1 h while workers run -> nobody is declared dead, jobs go on, tokens go
    // on growing; who dies after a jump is recovered.
    // Guard: a monitor's own observation on its monotonic clock; an entry in the future is old; tokens never fall.
    std::thread::scope(|both| {
        for jump in [3_600, -3_600] {
            both.spawn(move || jumps(jump));
        }
    });
}

fn jumps(seconds: i64) {
    let Some(clock) = Clock::new() else { return };
    let server = server(&clock);
    let mut first = server.worker_process(&[("HWORKER_CONCURRENCY", "2")]);
    put(&server, "held", vec![vec![Act::Gate("go".into())], vec![]]);
    server.eventually("it runs", SOON, || server.begun("held") == 1);
    let _second = server.worker_process(&[("HWORKER_CONCURRENCY", "2")]);
    wait_for_workers(&server, 2);
    let before = now_us(&server);
    clock.set(seconds);
    let after = now_us(&server);
    assert!(before.abs_diff(after) > 3_500_000_000, "the server's clock has jumped");
    for number in 0..5 {
        let name = format!("job-{number}");
        put(&server, &name, vec![vec![Act::Sleep(500)]]);
        server.eventually("it runs", SOON, || server.ended(&name) == 1);
        assert!(begins(&server, &name)[0].token > begins(&server, "held")[0].token);
    }
    server.holds("nobody is dead", Duration::from_secs(6), || counter(&server, "recovered") == 0);
    let killed = now_us(&server);
    first.kill();
    server.eventually("it is recovered", RECOVERED, || server.begun("held") == 2);
    println!(
        "after a jump of {seconds} s: recovered after {} ms",
        ms_between(killed, now_us(&server))
    );
    server.drained(SOON);
}

#[test]
fn the_clocks_of_workers_jump() {
    // The clocks of two workers jump by +1 h and by -1 h while a body runs and jobs come -> nobody is declared dead, no body is
    // out of time, jobs start soon, retries and delayed jobs wait as long as before, and one that may be tried for another minute
    // is tried.
    // Guard: `ServerClock`, which carries the server's `TIME` forward by the monotonic clock.
    std::thread::scope(|both| {
        for jump in [3_600, -3_600] {
            both.spawn(move || workers_jump(jump));
        }
    });
}

fn workers_jump(seconds: i64) {
    let Some(clock) = Clock::new() else { return };
    let server = TestServer::start();
    let _workers = [worker(&clock, &server), worker(&clock, &server)];
    wait_for_workers(&server, 2);
    let later = |ms| vec![vec![Act::RetryIn(ms)], vec![]];
    put(&server, "held", vec![vec![Act::Gate("go".into())]]);
    put(&server, "retried across", later(2_000));
    server.eventually("one runs", SOON, || server.begun("held") == 1);
    server.eventually("one waits", SOON, || counter(&server, "retried") == 1);
    clock.set(seconds);
    for number in 0..5 {
        let name = format!("job-{number}");
        let put_at = now_us(&server);
        put(&server, &name, vec![vec![Act::Sleep(200)]]);
        server.eventually("it runs", SOON, || server.ended(&name) == 1);
        let after = ms_between(put_at, begins(&server, &name)[0].at);
        assert!(after < 1_000, "{after} ms");
    }
    put(&server, "retried", later(1_000));
    let bounded = act::with("bounded".into(), later(100)).on(server.client());
    let bounded = bounded.retry_until(SystemTime::now() + Duration::from_secs(60));
    bounded.enqueue_blocking().expect("enqueued");
    let due = now_us(&server) + 1_000_000;
    let delayed = act::with("delayed".into(), vec![]).on(server.client());
    delayed.delay(Duration::from_secs(1)).enqueue_blocking().expect("enqueued");
    for name in ["retried across", "retried", "bounded", "delayed"] {
        server.eventually(name, SOON, || server.ended(name) == 1);
    }
    for (name, delay) in [("retried across", 2_000), ("retried", 1_000), ("bounded", 100)] {
        let runs = begins(&server, name);
        let gap = ms_between(runs[0].at, runs[1].at);
        assert!((delay..delay + 3_000).contains(&gap), "{name}: {gap} ms");
    }
    let at = begins(&server, "delayed")[0].at;
    assert!(at >= due - 1_000 && ms_between(due, at) < 3_000, "{} ms late", ms_between(due, at));
    server.holds("nobody is dead", Duration::from_secs(6), || counter(&server, "recovered") == 0);
    server.open("go");
    server.drained(SOON);
    assert_eq!((server.begun("held"), counter(&server, "processed")), (1, 10));
    let log = ["process-0.log", "process-1.log"]
        .map(|log| std::fs::read_to_string(server.dir().join(log)).expect("the log"));
    let hours: HashSet<_> =
        log.iter().flat_map(|log| log.lines()).map(|line| line.get(..13)).collect();
    assert!(hours.len() > 1, "their clock has jumped");
}

#[test]
fn a_clock_that_is_set_hides_no_dead_worker() {
    // A worker dies, and before it counts as dead the server's clock is set forward by an hour: its jobs do not wait for the next
    // look at all workers, once a minute.
    // Guard: a heartbeat that meets a clock that was set asks for all workers next.
    let Some(clock) = Clock::new() else { return };
    let server = server(&clock);
    let mut first = server.worker_process(&[]);
    put(&server, "held", first_run_hangs());
    server.eventually("it runs", SOON, || server.begun("held") == 1);
    let _second = server.worker_process(&[]);
    wait_for_workers(&server, 2);
    server.holds("both live", Duration::from_secs(3), || counter(&server, "recovered") == 0);
    first.kill();
    server.holds("nobody is dead yet", Duration::from_secs(2), || server.begun("held") == 1);
    clock.set(3_600);
    server.eventually("it is recovered", 2 * RECOVERED, || server.begun("held") == 2);
    server.drained(SOON);
}
