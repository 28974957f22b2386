//! The server away, full, busy, read-only, or without its scripts; its clients cut off or stopped.

use std::time::{Duration, Instant};

use hworker::Error;
use hworker_tests::{Act, InProcess, Machine, Process, Proxy, TestServer, act, act_once, program};

use crate::support::{
    Dead, SOON, begins, block_on, counter, envelope, first_run_hangs, ms_between, now_us, put,
    serving, wait_for_workers, waits_by,
};

/// After an outage workers go on by themselves within this.
const BACK_WITHIN: Duration = Duration::from_secs(2);

/// Two workers with long bodies. What bodies note goes to a server of its own, which has no outage.
struct Busy<'a> {
    server: &'a TestServer,
    notes: TestServer,
    _workers: [Process; 2],
}

impl<'a> Busy<'a> {
    fn on(server: &'a TestServer, url: &str) -> Self {
        let notes = TestServer::alone();
        let settings = [
            ("HWORKER_REDIS_URL", url),
            ("HWORKER_TEST_URL", notes.url()),
            ("HWORKER_CONCURRENCY", "2"),
        ];
        let workers = [server.worker_process(&settings), server.worker_process(&settings)];
        wait_for_workers(server, 2);
        for name in ["held-1", "held-2"] {
            put(server, name, vec![vec![Act::Gate("go".into())]]);
        }
        let begun = || notes.begun("held-1") + notes.begun("held-2") == 2;
        server.eventually("both run", SOON, begun);
        Self { server, notes, _workers: workers }
    }

    /// Nobody was declared dead, the long bodies ran once, and end well.
    #[track_caller]
    fn nobody_was_recovered(&self) {
        let server = self.server;
        // Long enough for a monitor that counted wrongly.
        server.holds("nobody is recovered", Duration::from_secs(8), || {
            counter(server, "recovered") == 0
        });
        self.notes.open("go");
        server.drained(SOON);
        for name in ["held-1", "held-2"] {
            let (begun, ended) = (self.notes.begun(name), self.notes.ended(name));
            assert_eq!((begun, ended), (1, 1), "{}", server.report());
        }
    }

    /// Enqueues, and looks how long it takes until it runs.
    #[track_caller]
    fn consumes_again(&self) {
        let start = Instant::now();
        put(self.server, "after", vec![]);
        self.server.eventually("it runs", SOON, || self.notes.ended("after") == 1);
        let took = start.elapsed();
        println!("back {took:?} after the server");
        assert!(took < BACK_WITHIN, "{took:?}");
    }
}

fn killed_for(outage: Duration) {
    let server = TestServer::builder().append_only().start();
    let url = server.url().to_owned();
    let busy = Busy::on(&server, &url);
    server.process().kill();
    // The server is away.
    std::thread::sleep(outage);
    server.process().restart().expect("it starts again");
    busy.consumes_again();
    busy.nobody_was_recovered();
}

#[test]
fn server_killed_for_20_seconds() {
    // The server is killed and restarted with its data after 20 s: consumes again within 2 s of its return by itself,
    // running bodies keep their leases, and two workers never recover each other because of it.
    // Guard: reconnects at most 1.5 s apart; a monitor counts only heartbeats of its own that were accepted.
    killed_for(Duration::from_secs(20));
}

#[test]
fn server_killed_for_3_and_for_7_seconds() {
    // The same, about as long as `dead_after`.
    // Guard: as above.
    std::thread::scope(|both| {
        both.spawn(|| killed_for(Duration::from_secs(3)));
        both.spawn(|| killed_for(Duration::from_secs(7)));
    });
}

#[test]
fn server_unreachable_for_20_seconds() {
    // The same with a server that cannot be reached: nothing comes through, and no connection ends.
    // Guard: as above; calls that get no answer end.
    let server = TestServer::start();
    let proxy = Proxy::before(&server);
    let url = proxy.url();
    let busy = Busy::on(&server, &url);
    proxy.unreachable(true);
    // The server is away.
    std::thread::sleep(Duration::from_secs(20));
    proxy.unreachable(false);
    busy.consumes_again();
    busy.nobody_was_recovered();
}

#[test]
fn a_connection_made_after_an_outage_is_kept() {
    // The server is killed and restarted, three times -> the worker takes up its leases once each time, and not again when its heart is back too.
    // Guard: what the heart went through before the loop that fetches had its connection does not end that.
    let server = TestServer::builder().append_only().start();
    let proxy = Proxy::before(&server);
    let _worker = server.worker_process(&[("HWORKER_REDIS_URL", &proxy.url())]);
    wait_for_workers(&server, 1);
    let mut again = 0;
    for outage in 0..3 {
        let before = proxy.count("reconcile");
        server.process().kill();
        // Long enough for a second try of both, which is how an outage is told from a connection that ended.
        std::thread::sleep(Duration::from_secs(1));
        server.process().restart().expect("it starts again");
        let name = format!("after {outage}");
        put(&server, &name, vec![]);
        server.eventually("it runs", SOON, || server.ended(&name) == 1);
        let beats = proxy.count("heartbeat");
        server.eventually("the heart beats", SOON, || proxy.count("heartbeat") >= beats + 2);
        again += proxy.count("reconcile") - before - 1;
    }
    // Once it may: where the heart's last try in vain ended after the other connection was made.
    assert!(again <= 1, "{again} times\n{}", server.report());
}

/// What a worker with three queues and a long body logs of an outage: the lines after its start.
fn logged(server: &TestServer, url: &str, outage: impl FnOnce()) {
    let notes = TestServer::start();
    let settings = [
        ("HWORKER_REDIS_URL", url),
        ("HWORKER_TEST_URL", notes.url()),
        ("HWORKER_QUEUES", "default,+mail,+reports"),
        ("HWORKER_LOG", "info"),
    ];
    let worker = server.worker_process(&settings);
    wait_for_workers(server, 1);
    put(server, "held", vec![vec![Act::Gate("go".into())]]);
    server.eventually("it runs", SOON, || notes.begun("held") == 1);
    let lines = || -> Vec<String> {
        let log = std::fs::read_to_string(server.dir().join("process-0.log")).unwrap_or_default();
        let after = log.split_once("worker starts").map(|(_, after)| after.to_owned());
        after.unwrap_or_default().lines().skip(1).map(str::to_owned).collect()
    };
    assert_eq!(lines(), [""; 0]);
    outage();
    server.eventually("it is back", SOON, || lines().len() >= 2);
    // Long enough for each queue to say so too.
    server.holds("it said all", Duration::from_secs(4), || lines().len() == 2);
    let [lost, back] = lines().try_into().expect("two lines");
    for (line, level, says) in [(&lost, "WARN", "cannot be used"), (&back, "INFO", "is back")] {
        let complete = ["worker.id=", "server=", "running=1", level, says];
        assert!(complete.iter().all(|part| line.contains(part)), "{line}");
    }
    assert!(back.contains("away="), "{back}");
    drop(worker);
}

#[test]
fn an_outage_is_one_line_when_it_begins_and_one_when_it_is_over() {
    // A server that is killed, and one that cannot be reached while no connection ends: one line for all queues, connections and tries. It
    // names the server, the running jobs, and how long the outage took.
    // Guard: `outages.rs`.
    let server = TestServer::builder().append_only().start();
    logged(&server, server.url(), || {
        server.process().kill();
        // The server is away, for longer than goes unsaid.
        std::thread::sleep(Duration::from_secs(6));
        server.restart();
    });
    let server = TestServer::start();
    let proxy = Proxy::before(&server);
    logged(&server, &proxy.url(), || {
        proxy.unreachable(true);
        // The server is away, for longer than a call waits.
        std::thread::sleep(Duration::from_secs(9));
        proxy.unreachable(false);
    });
}

#[test]
fn server_stalls() {
    // The server stops for 1 s to 9 s and goes on with whatever is in its sockets: no live worker is declared dead.
    // Guard: a monitor counts at most 1.5 s for two heartbeats, and begins anew after more than 2 s.
    std::thread::scope(|all| {
        for seconds in [1, 2, 3, 4, 5, 6, 9] {
            all.spawn(move || {
                let server = TestServer::start();
                let url = server.url().to_owned();
                let busy = Busy::on(&server, &url);
                server.process().pause();
                // The server is stopped.
                std::thread::sleep(Duration::from_secs(seconds));
                server.process().resume();
                busy.consumes_again();
                busy.nobody_was_recovered();
            });
        }
    });
}

#[test]
fn client_pause() {
    // CLIENT PAUSE of 3 s and 8 s, for all commands and for writes: no live worker is declared dead.
    // Guard: as for a stall; here the server answers reads, or new connections, or neither.
    std::thread::scope(|all| {
        for (ms, what) in [("3000", "ALL"), ("8000", "ALL"), ("3000", "WRITE"), ("8000", "WRITE")] {
            all.spawn(move || {
                let server = TestServer::start();
                let url = server.url().to_owned();
                let busy = Busy::on(&server, &url);
                let _: String = server.redis().ask(&["CLIENT", "PAUSE", ms, what]);
                // The first command that passes again.
                let _: u64 = server.redis().ask(&["DEL", "test:nothing"]);
                busy.consumes_again();
                busy.nobody_was_recovered();
            });
        }
    });
}

#[test]
fn busy() {
    // A script of another client keeps the server busy for 3 s: BUSY is waited out, nobody is declared dead; an enqueue
    // meanwhile waits or is refused as unavailable, and is not enqueued twice.
    // Guard: `FaultKind::Busy`.
    let server = TestServer::builder().arg("--lua-time-limit", "100").start();
    let url = server.url().to_owned();
    let busy = Busy::on(&server, &url);
    let script = std::thread::spawn({
        let url = url.clone();
        move || {
            let mut other = hworker_tests::RedisSide::new(&url);
            let long = "local t = redis.call('TIME')[1]
                while redis.call('TIME')[1] - t < 4 do end return 1";
            let _: u64 = other.ask(&["EVAL", long, "0"]);
        }
    });
    // The first long script runs at the server.
    std::thread::sleep(Duration::from_millis(500));
    let during = act::with("during".into(), vec![]).on(server.client()).enqueue_blocking();
    let enqueued = match during {
        Ok(_) => 1,
        Err(Error::Unavailable { .. }) => 0,
        Err(error) => panic!("{error}"),
    };
    script.join().expect("the script ends");
    busy.consumes_again();
    busy.nobody_was_recovered();
    assert_eq!(busy.notes.ended("during"), enqueued);
}

#[test]
fn out_of_memory() {
    // maxmemory reached: enqueue ends as Refused; workers go on settling and draining, and come back to normal.
    // Guard: the first write of every script of a worker is a removal; a refused wait falls back to one reserve a second.
    let server = TestServer::start();
    // What bodies note must not be refused.
    let notes = TestServer::alone();
    let settings = [("HWORKER_TEST_URL", notes.url()), ("HWORKER_CONCURRENCY", "2")];
    let [mut first, second] = [server.worker_process(&settings), server.worker_process(&settings)];
    wait_for_workers(&server, 2);
    for name in ["held-1", "held-2"] {
        put(&server, name, vec![vec![Act::Gate("go".into())]]);
    }
    notes.eventually("both run", SOON, || notes.begun("held-1") + notes.begun("held-2") == 2);
    for number in 0..50 {
        // Each kind of settlement writes something else.
        let plan = match number % 3 {
            0 => vec![vec![Act::Sleep(500)]],
            1 => vec![vec![Act::Retry("again".into())], vec![]],
            _ => vec![vec![Act::Failure("never".into())]],
        };
        put(&server, &format!("job-{number}"), plan);
    }
    let _: String = server.redis().ask(&["CONFIG", "SET", "maxmemory", "1"]);
    for delayed in [false, true] {
        let job = act::with("refused".into(), vec![]).on(server.client());
        let job = if delayed { job.delay(Duration::from_secs(1)) } else { job };
        let refused = job.enqueue_blocking();
        assert!(matches!(refused, Err(Error::Refused { .. })), "{refused:?}");
    }
    server.eventually("the waiting ones are settled", 3 * SOON, || {
        counter(&server, "processed") + counter(&server, "failed") == 50
    });
    assert_eq!((counter(&server, "failed"), counter(&server, "retried")), (16, 17));
    // One that stops can say so; one whose jobs have to be recovered is.
    first.terminate();
    notes.open("go");
    assert!(first.wait(SOON).expect("it ends").success());
    server.drained_but_failed();
    assert_eq!(counter(&server, "recovered"), 0);
    drop(second);
    let dead = Dead { server: &server, id: "dead.1" };
    let _: String = server.redis().ask(&["CONFIG", "SET", "maxmemory", "0"]);
    dead.last_heard(0);
    dead.holds("1", &envelope("recovered", &[]));
    let _third = server.worker_process(&settings);
    wait_for_workers(&server, 1);
    let _: String = server.redis().ask(&["CONFIG", "SET", "maxmemory", "1"]);
    notes.eventually("it is recovered", SOON, || notes.ended("recovered") == 1);
    let _: String = server.redis().ask(&["CONFIG", "SET", "maxmemory", "0"]);
    put(&server, "after", vec![]);
    notes.eventually("it runs", SOON, || notes.ended("after") == 1);
    server.drained_but_failed();
    assert_eq!(notes.begun("refused"), 0);
}

/// What a test of a full server waits for.
trait DrainedButFailed {
    fn drained_but_failed(&self);
}

impl DrainedButFailed for TestServer {
    #[track_caller]
    fn drained_but_failed(&self) {
        self.eventually("only records of failed jobs are left", SOON, || {
            self.leftovers("default").iter().all(|(key, _)| key.contains("-failed-"))
        });
    }
}

#[test]
fn misconf() {
    // The disk is full: writes are refused with MISCONF, reads are answered. An enqueue is Refused, nobody is declared
    // dead by monitors that can still read, and all goes on when it is over.
    // Guard: a refused heartbeat of its own ends a monitor's observation.
    let server = TestServer::builder().arg("--enable-protected-configs", "yes").start();
    let url = server.url().to_owned();
    let busy = Busy::on(&server, &url);
    // A snapshot that cannot be written makes the server refuse writes.
    let missing = format!("{}/missing", server.dir().display());
    std::fs::create_dir(&missing).expect("a directory");
    let _: String = server.redis().ask(&["CONFIG", "SET", "dir", &missing]);
    let _: String = server.redis().ask(&["CONFIG", "SET", "dbfilename", "dump.rdb"]);
    let _: String = server.redis().ask(&["CONFIG", "SET", "save", "3600 1"]);
    std::fs::remove_dir(&missing).expect("it is empty");
    let _: u64 = server.redis().ask(&["INCR", "test:changed"]);
    let _ = server.redis().try_ask::<String>(&["BGSAVE"]);
    server.eventually("the server refuses writes", SOON, || {
        let write = server.redis().try_ask::<u64>(&["INCR", "test:refused"]);
        write.is_err_and(|error| error.code() == Some("MISCONF"))
    });
    let refused = act::with("refused".into(), vec![]).on(server.client()).enqueue_blocking();
    assert!(matches!(refused, Err(Error::Refused { .. })), "{refused:?}");
    // The server refuses writes, for longer than `dead_after`.
    std::thread::sleep(Duration::from_secs(9));
    let _: String = server.redis().ask(&["CONFIG", "SET", "stop-writes-on-bgsave-error", "no"]);
    busy.consumes_again();
    busy.nobody_was_recovered();
    assert_eq!(busy.notes.begun("refused"), 0);
}

#[test]
fn read_only() {
    // The server becomes a replica of a host that is not there, for 7 s, and a master again: nobody is declared dead, all
    // goes on, and what was settled meanwhile is settled.
    // Guard: READONLY ends the connection; settlements are kept and sent again.
    let server = TestServer::start();
    let url = server.url().to_owned();
    let busy = Busy::on(&server, &url);
    put(&server, "ends meanwhile", vec![vec![Act::Sleep(2_000)]]);
    server.eventually("it runs", SOON, || busy.notes.begun("ends meanwhile") == 1);
    let _: String = server.redis().ask(&["REPLICAOF", "127.0.0.1", "1"]);
    let start = Instant::now();
    let refused = act::with("refused".into(), vec![]).on(server.client()).enqueue_blocking();
    assert!(matches!(refused, Err(Error::Unavailable { .. })), "{refused:?}");
    assert!(start.elapsed() < Duration::from_secs(8), "{:?}", start.elapsed());
    // The server is a replica, for longer than `dead_after`.
    std::thread::sleep(Duration::from_secs(7).saturating_sub(start.elapsed()));
    let _: String = server.redis().ask(&["REPLICAOF", "NO", "ONE"]);
    busy.consumes_again();
    server.eventually("it is settled", SOON, || counter(&server, "processed") == 2);
    assert_eq!(busy.notes.begun("ends meanwhile"), 1);
    busy.nobody_was_recovered();
    assert_eq!(busy.notes.begun("refused"), 0);
}

/// Jobs under way on several workers, with settlements of every kind, while something happens again and again.
fn under_load(server: &TestServer, mut strike: impl FnMut()) {
    const JOBS: usize = 600;
    let _workers: Vec<_> =
        (0..3).map(|_| server.worker_process(&[("HWORKER_CONCURRENCY", "10")])).collect();
    wait_for_workers(server, 3);
    let mut put_in = Vec::new();
    for number in 0..JOBS {
        let plan = match number % 4 {
            0 => vec![vec![Act::Retry("again".into())], vec![]],
            1 => vec![vec![Act::RetryIn(50)], vec![]],
            _ => vec![vec![Act::Sleep(30)]],
        };
        let name = format!("job-{number}");
        let job = act::with(name.clone(), plan).on(server.client());
        match job.enqueue_blocking() {
            Ok(_) => put_in.push((name, true)),
            Err(Error::Uncertain { .. } | Error::Unavailable { .. }) => put_in.push((name, false)),
            Err(error) => panic!("{error}"),
        }
        if number % 30 == 0 {
            strike();
        }
    }
    for _ in 0..20 {
        strike();
        // The faults come one after the other.
        std::thread::sleep(Duration::from_millis(150));
    }
    server.eventually("all that are surely in ran", 3 * SOON, || {
        put_in.iter().all(|(name, sure)| !sure || server.ended(name) >= 1)
    });
    server.drained(SOON);
    let mut ran = 0;
    for (number, (name, sure)) in put_in.iter().enumerate() {
        let runs = begins(server, name);
        let attempts = if number % 4 < 2 { 2 } else { 1 };
        assert!(runs.len() == attempts || (!sure && runs.is_empty()), "{name}: {runs:?}");
        ran += u64::from(!runs.is_empty());
    }
    assert_eq!(counter(server, "processed"), ran);
    assert_eq!(counter(server, "recovered"), 0);
}

#[test]
fn o4_script_cache() {
    // SCRIPT FLUSH / failover under load -> NOSCRIPT handled: nothing lost, nothing run twice. Under Sentinel the replica takes
    // over in good order, and on a cluster another master: neither knows a script.
    // Guard: a call by hash falls back to the text.
    let server = TestServer::start();
    let mut strikes = 0;
    under_load(&server, || {
        strikes += 1;
        if matches!(strikes, 10 | 25) {
            server.move_on();
        }
        server.redis().ask::<String>(&["SCRIPT", "FLUSH"]).clear();
    });
}

#[test]
fn a_server_that_has_just_started_refuses_no_script() {
    // A client and a worker meet a server that knows no script: jobs that run at once, later, and again -> no call was refused
    // for that, so none waited for a second round trip.
    // Guard: `Connection::spelled`.
    let server = TestServer::start();
    let _worker = server.worker_process(&[]);
    put(&server, "at once", vec![vec![]]);
    put(&server, "again", vec![vec![Act::RetryIn(50)], vec![]]);
    let later = act::with("later".into(), vec![]).on(server.client());
    later.delay(Duration::from_millis(100)).enqueue_blocking().expect("enqueued");
    let names = ["at once", "again", "later"];
    server.eventually("all ran", 3 * SOON, || names.iter().all(|name| server.ended(name) > 0));
    server.drained(SOON);
    let errors: String = server.redis().ask(&["INFO", "errorstats"]);
    assert!(!errors.contains("NOSCRIPT"), "{errors}");
}

#[test]
fn every_connection_is_killed_again_and_again() {
    // CLIENT KILL of all connections under load: nothing lost, nothing stuck, nothing run twice.
    // Guard: `reconcile`, and the outbox.
    let server = TestServer::start();
    under_load(&server, || {
        let _: u64 = server.redis().ask(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
    });
}

#[test]
fn o3_connection_loss() {
    // Redis restart (data kept) under load -> workers reconnect by themselves, no job lost; running bodies keep their
    // leases: nobody runs twice.
    // Guard: as above; reconnects.
    let server = TestServer::builder().append_only().start();
    let mut strikes = 0;
    under_load(&server, || {
        strikes += 1;
        if strikes % 10 == 0 {
            let mut process = server.process();
            process.kill();
            process.restart().expect("it starts again");
        }
    });
}

#[test]
fn restart_of_everything() {
    // All workers and the server are killed; with its AOF the server and a worker start again -> all jobs run.
    // Guard: no state of a job is anywhere but in the server.
    let server = TestServer::builder().append_only().start();
    let mut workers = [server.worker_process(&[]), server.worker_process(&[])];
    for number in 0..60 {
        put(&server, &format!("job-{number}"), first_run_hangs());
    }
    let job = act::with("scheduled".into(), vec![]).on(server.client());
    job.delay(Duration::from_secs(1)).enqueue_blocking().expect("enqueued");
    server.eventually("all slots are taken", SOON, || {
        (0..60).filter(|number| server.begun(&format!("job-{number}")) == 1).count() == 40
    });
    // One more may have come by a wait that was under way when the last slot was taken: it goes back.
    server.eventually("no more are held", SOON, || {
        let held = |key: &str| key.contains("-progress-") || key.contains("-inbox-");
        let left = server.leftovers("default");
        left.iter().filter(|(key, _)| held(key)).map(|(_, count)| count).sum::<u64>() == 40
    });
    for worker in &mut workers {
        worker.kill();
    }
    server.process().kill();
    server.restart();
    let _worker = server.worker_process(&[("HWORKER_CONCURRENCY", "60")]);
    server.eventually("the scheduled one ran", 2 * SOON, || server.ended("scheduled") == 1);
    // Those that had not begun hang in their first run; they did so once.
    server.eventually("all that were held run again", 2 * SOON, || {
        (0..60).filter(|number| server.ended(&format!("job-{number}")) == 1).count() == 40
    });
    assert_eq!(counter(&server, "recovered"), 40);
}

#[test]
fn large_payloads_with_broken_connections() {
    // 500 jobs of 53 kB, 2 workers, and their connections killed now and then: each ran, none is left, none twice.
    // Guard: scripts are bounded by bytes.
    let _machine = Machine::claim();
    let server = TestServer::start();
    let _workers = [server.worker_process(&[]), server.worker_process(&[])];
    let filler = "x".repeat(53_000);
    for number in 0..500 {
        let name = format!("{}", number % 5);
        // The text stays in a plan that is never reached.
        let plan = vec![vec![], vec![Act::Note(filler.clone())]];
        put(&server, &name, plan);
        if number % 100 == 99 {
            // The connection of the client is one of a test that must not fail.
            let mut redis = server.redis();
            let list: String = redis.ask(&["CLIENT", "LIST", "TYPE", "normal"]);
            let worst = list.lines().filter(|line| line.contains("cmd=evalsha"));
            let ids: Vec<_> = worst.filter_map(|line| line.split(['=', ' ']).nth(1)).collect();
            for id in ids {
                let _ = redis.try_ask::<u64>(&["CLIENT", "KILL", "ID", id]);
            }
        }
    }
    let ran = || (0..5).map(|name| server.ended(&name.to_string())).sum::<usize>();
    server.eventually("all ran", 3 * SOON, || ran() == 500);
    server.drained(SOON);
    let begun: usize = (0..5).map(|name| server.begun(&name.to_string())).sum();
    assert_eq!((begun, counter(&server, "processed")), (500, 500));
}

#[test]
fn twenty_thousand_due_at_the_same_moment() {
    // Nothing lost, nothing stuck, nothing phantom; all are promoted within a second or so.
    // Guard: chunks of 1000, and the timer goes on until nothing is due.
    const JOBS: u64 = 20_000;
    let _machine = Machine::claim();
    let server = TestServer::start();
    let due = now_us(&server) / 1000 + 3_000;
    let fill = format!(
        r#"for i = tonumber(ARGV[1]), tonumber(ARGV[2]) do
        redis.call('ZADD', KEYS[1], {due}, '{{"id":"' .. i .. '","job":"unknown","args":{{}}}}') end return 1"#
    );
    for first in (1..=JOBS).step_by(5_000) {
        let (first, last) = (first.to_string(), (first + 4_999).to_string());
        let _: u64 =
            server.redis().ask(&["EVAL", &fill, "1", "hworker-scheduled-default", &first, &last]);
    }
    // Who knows no such job parks it, and breaks it soon.
    let _worker =
        server.worker_process(&[("HWORKER_UNKNOWN_FOR", "1ms"), ("HWORKER_BROKEN_LIMIT", "30000")]);
    wait_for_workers(&server, 1);
    assert_eq!(server.redis().len("hworker-scheduled-default"), JOBS, "none early");
    server.eventually("all are broken", 6 * SOON, || counter(&server, "broken") == JOBS);
    let took = ms_between(due * 1000, now_us(&server));
    println!("20,000 jobs due at once were parked and broken in {took} ms");
    assert_eq!(server.redis().len("hworker-broken-default"), JOBS);
    assert_eq!(server.leftovers("default").len(), 1);
}

#[test]
fn d9_stopped_worker_settles_too_late() {
    // A is stopped (SIGSTOP) past `dead_after`, B re-runs, A goes on and finishes -> A's result changes nothing
    // (success, retry, failure alike); B's does; A comes back under a new id.
    // Guard: `settle.lua` acts only for a lease that is held; `void`.
    let server = TestServer::start();
    let first = server.worker_process(&[("TOKIO_WORKER_THREADS", "4")]);
    let blocks = |last: Option<Act>| {
        let mut acts = vec![Act::Block(9_000)];
        acts.extend(last);
        vec![acts, vec![Act::Gate("go".into())]]
    };
    let all = ["success", "retry", "failure"];
    put(&server, all[0], blocks(None));
    put(&server, all[1], blocks(Some(Act::Retry("late".into()))));
    // Two of them block a thread of the runtime, the third one of its own.
    let third =
        hworker_tests::act_blocking::with(all[2].into(), blocks(Some(Act::Failure("late".into()))));
    third.on(server.client()).enqueue_blocking().expect("enqueued");
    server.eventually("all run", SOON, || all.iter().all(|name| server.begun(name) == 1));
    let old = begins(&server, "success")[0].worker.clone();
    let second = server.worker_process(&[]);
    wait_for_workers(&server, 2);
    first.stop();
    // The worker is stopped, for longer than `dead_after`.
    std::thread::sleep(Duration::from_secs(8));
    server.eventually("all run elsewhere", SOON, || all.iter().all(|name| server.begun(name) == 2));
    first.go_on();
    server.eventually("the late one comes back under a new id", SOON, || {
        let ids: Vec<_> = serving(&server);
        ids.len() == 2 && ids.iter().any(|worker| worker.pid == first.pid() && worker.id != old)
    });
    server.holds("what it says changes nothing", Duration::from_secs(2), || {
        ["processed", "retried", "failed"].iter().all(|name| counter(&server, name) == 0)
            && server.redis().len("hworker-jobs-default") == 0
    });
    server.open("go");
    server.drained(SOON);
    assert_eq!(["processed", "retried", "failed"].map(|name| counter(&server, name)), [3, 0, 0]);
    for name in all {
        let runs = begins(&server, name);
        assert_eq!((runs.len(), runs[1].pid), (2, second.pid()), "{name}");
    }
    // It works again.
    drop(second);
    put(&server, "after", vec![]);
    server.eventually("it works", SOON, || server.ended("after") == 1);
}

#[test]
fn o2_atomic_transitions() {
    // Kill the worker process between any two commands -> the job is in exactly one state; here: at random, many times, and
    // each time while jobs are under leases of its.
    // Guard: every move is one script.
    const JOBS: u64 = 600;
    const KILLS: u64 = 12;
    let server = TestServer::start();
    let settings =
        [("HWORKER_DEAD_AFTER", "2s"), ("HWORKER_CRASH_LIMIT", "32"), ("HWORKER_CONCURRENCY", "5")];
    let names: Vec<_> = (0..JOBS).map(|number| format!("job-{number}")).collect();
    for (number, name) in names.iter().enumerate() {
        let again = |act| vec![vec![Act::Sleep(10), act], vec![Act::Sleep(10)]];
        let plan = match number % 3 {
            0 => again(Act::RetryIn(10)),
            1 => again(Act::Retry("again".into())),
            _ => vec![vec![Act::Sleep(20)]],
        };
        put(&server, name, plan);
    }
    let held = || server.redis().total("hworker-progress-default:*");
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    for _ in 0..KILLS {
        // Of the dead; nobody lives long enough here to recover it.
        let before = held();
        let mut workers = [server.worker_process(&settings), server.worker_process(&settings)];
        server.eventually("jobs are under leases", SOON, || held() > before);
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        // The workers are killed at any time.
        std::thread::sleep(Duration::from_millis((random >> 33) % 40));
        for worker in &mut workers {
            worker.kill();
        }
        // Each job is in one place: all together are as many as were not acked. The places are read one after the other, while the server may still
        // execute what the dead have sent.
        server.eventually("each job is in one place", SOON, || {
            let places = server.leftovers("default");
            let in_places: u64 = places.iter().map(|(_, count)| count).sum();
            in_places + counter(&server, "processed") == JOBS
        });
    }
    let struck = held();
    println!("{KILLS} times two workers were killed, which held {struck} leases in all");
    assert!(struck >= KILLS, "{struck} leases were struck");
    let _last = server.worker_process(&settings);
    server.eventually("all ran", 6 * SOON, || counter(&server, "processed") == JOBS);
    server.drained(SOON);
    assert!(
        counter(&server, "recovered") >= struck,
        "{} of {struck}",
        counter(&server, "recovered")
    );
    assert!(names.iter().all(|name| server.ended(name) >= 1));
}

#[test]
fn a_cut_while_a_batch_is_on_its_way() {
    // Every connection of a worker ends while many settlements of fast jobs are under way, again and again.
    // Guard: the outbox; leases tell what was executed.
    let server = TestServer::start();
    let proxy = Proxy::before(&server);
    let url = proxy.url();
    let settings = [("HWORKER_REDIS_URL", url.as_str()), ("HWORKER_CONCURRENCY", "50")];
    let _workers = [server.worker_process(&settings), server.worker_process(&settings)];
    wait_for_workers(&server, 2);
    let names: Vec<_> = (0..1_000).map(|number| format!("job-{}", number % 10)).collect();
    for name in &names {
        let job = act_once::with(name.clone(), vec![vec![Act::Sleep(5)]]).on(server.client());
        job.enqueue_blocking().expect("enqueued");
    }
    let started = Instant::now();
    while counter(&server, "processed") < 1_000 && started.elapsed() < 3 * SOON {
        proxy.cut();
        // The faults come one after the other.
        std::thread::sleep(Duration::from_millis(120));
    }
    server.drained(SOON);
    assert_eq!(counter(&server, "processed"), 1_000);
    let begun: usize = (0..10).map(|number| server.begun(&format!("job-{number}"))).sum();
    assert_eq!(begun, 1_000);
    assert_eq!(block_on(server.inspect().counts()).expect("the counts").running, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_stops_while_writes_are_paused_leaves_the_server_alive() {
    // `CLIENT PAUSE .. WRITE`, as before a failover by hand: the server keeps a worker's wait back. Told to end that wait, Redis before
    // 7.2 aborts -> it is told when the pause is over.
    // Guard: a write goes ahead in `end_wait`.
    let Some(program) = program("redis-server") else { return };
    let server = TestServer::builder().alone().program(Some(&program)).start();
    let worker = InProcess::run(server.worker().register::<act>());
    server.eventually("it waits", SOON, || waits_by(&server, "blmove"));
    let clients = || server.redis().ask::<String>(&["CLIENT", "LIST"]);
    let all = clients();
    let waiting = all.lines().find(|client| client.contains(" cmd=blmove "));
    let waiting = waiting.and_then(|line| line.split(' ').next()).expect("its id");
    server.redis().ask::<String>(&["CLIENT", "PAUSE", "3000", "WRITE"]);
    let id = waiting.trim_start_matches("id=");
    assert_eq!(server.redis().ask::<u64>(&["CLIENT", "UNBLOCK", id]), 1);
    server.eventually("what it asks for next is kept back", SOON, || {
        let is_blocked = |client: &str| {
            client.starts_with(&format!("{waiting} ")) && client.contains(" flags=b")
        };
        clients().lines().any(is_blocked)
    });
    worker.stop().await;
    assert_eq!(server.redis().ask::<String>(&["PING"]), "PONG");
}

#[test]
fn what_has_ended_is_settled_where_no_job_can_be_reserved() {
    // The list of jobs becomes a key of another type while jobs run -> what is settled is settled once, and not sent again and again
    // with calls that fail; once the key is gone, jobs run.
    // Guard: `Fetch::refused_at`.
    let server = TestServer::start();
    let proxy = Proxy::before(&server);
    let url = proxy.url();
    let settings = [("HWORKER_REDIS_URL", url.as_str()), ("HWORKER_CONCURRENCY", "2")];
    let _worker = server.worker_process(&settings);
    for _ in 0..3 {
        put(&server, "held", vec![vec![Act::Gate("go".into())]]);
    }
    server.eventually("two run", SOON, || server.begun("held") == 2);
    let jobs = "hworker-jobs-default";
    // The third goes with it.
    server.redis().ask::<String>(&["SET", jobs, "somebody else's"]);
    let (settled, reserved) = (proxy.count("settle"), proxy.count("reserve"));
    server.open("go");
    let refused = || proxy.count("reserve") >= reserved + 6;
    server.eventually("it asks again and again", SOON, refused);
    assert_eq!(counter(&server, "processed"), 2);
    // Each with a call that failed, and then again without.
    let settles = proxy.count("settle") - settled;
    assert!(settles <= 4, "{settles}\n{}", server.report());
    server.redis().ask::<u64>(&["DEL", jobs]);
    put(&server, "after", vec![]);
    server.eventually("it goes on", SOON, || server.ended("after") == 1);
    server.drained(SOON);
    assert_eq!(counter(&server, "processed"), 3);
}
