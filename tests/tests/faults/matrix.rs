//! Rows O5 and O7: the core of the suite on every server that is supported here.

use std::path::Path;
use std::time::Duration;

use hworker::{Client, Error};
use hworker_tests::{Act, InProcess, TestServer, TestServerBuilder, act, program};

use crate::support::{
    RECOVERED, SOON, block_on, counter, envelope, first_run_hangs, put, serving, wait_for_workers,
};

#[test]
fn o7_redis() {
    // The core of the suite on Redis, the oldest that the machine has.
    // Guard: no script uses what only one of the servers knows.
    if let Some(program) = program("redis-server") {
        core_of_the_suite(&program);
    }
}

#[test]
fn o7_valkey() {
    // The core of the suite on Valkey.
    // Guard: as above.
    if let Some(program) = program("valkey-server") {
        core_of_the_suite(&program);
    }
}

fn core_of_the_suite(program: &Path) {
    let on = || TestServer::builder().program(Some(program));
    std::thread::scope(|all| {
        all.spawn(|| every_way_of_a_job(on()));
        all.spawn(|| a_death_and_a_restart(on()));
        all.spawn(|| a_full_server(on()));
        all.spawn(|| scripts_and_connections(on()));
    });
}

fn every_way_of_a_job(builder: TestServerBuilder) {
    let server = builder.start();
    let _workers = [server.worker_process(&[]), server.worker_process(&[])];
    for number in 0..200 {
        put(&server, &format!("plain-{number}"), vec![]);
    }
    put(&server, "retried", vec![vec![Act::Retry("again".into())], vec![Act::RetryIn(50)], vec![]]);
    put(&server, "panics", vec![vec![Act::Panic("on purpose".into())], vec![]]);
    put(&server, "snoozes", vec![vec![Act::Snooze(50)], vec![]]);
    put(&server, "fails", vec![vec![Act::Failure("on purpose".into())]]);
    let timed = act::with("times out".into(), vec![vec![Act::Sleep(5_000)], vec![]]);
    timed
        .on(server.client())
        .timeout(Duration::from_millis(300))
        .enqueue_blocking()
        .expect("enqueued");
    let later = act::with("later".into(), vec![]).on(server.client()).delay(Duration::from_secs(1));
    later.enqueue_blocking().expect("enqueued");
    let foreign = envelope("foreign", &[]);
    let _: u64 = server.redis().ask(&["LPUSH", "hworker-jobs-default", &foreign, "{", "[]"]);
    server.eventually("all are settled", 2 * SOON, || {
        ["processed", "failed", "retried", "broken"].map(|name| counter(&server, name))
            == [206, 1, 4, 2]
    });
    let id = put(&server, "revoked", vec![vec![Act::Sleep(3_600_000)], vec![]]);
    server.eventually("it runs", SOON, || server.begun("revoked") == 1);
    block_on(server.inspect().revoke(&id)).expect("revoked");
    server.eventually("it runs again", SOON, || server.ended("revoked") == 1);
    block_on(server.inspect().requeue_broken(b"{")).expect("requeued");
    server.eventually("it is broken again", SOON, || counter(&server, "broken") == 3);
    assert!((0..200).all(|number| server.begun(&format!("plain-{number}")) == 1));
    assert_eq!(serving(&server).len(), 2);
    let left: Vec<_> = server.leftovers("default").into_iter().map(|(_, count)| count).collect();
    assert_eq!(left, [1, 2], "{}", server.report());
    block_on(server.inspect().destroy(true)).expect("destroyed");
}

fn a_death_and_a_restart(builder: TestServerBuilder) {
    let server = builder.append_only().start();
    let mut first = server.worker_process(&[]);
    put(&server, "job", first_run_hangs());
    put(&server, "held", first_run_hangs());
    server.eventually("both run", SOON, || server.begun("job") + server.begun("held") == 2);
    let _second = server.worker_process(&[]);
    wait_for_workers(&server, 2);
    first.kill();
    server.eventually("both run elsewhere", RECOVERED, || {
        server.ended("job") + server.ended("held") == 2
    });
    put(&server, "over the restart", vec![vec![Act::Gate("go".into())]]);
    server.eventually("it runs", SOON, || server.begun("over the restart") == 1);
    server.process().kill();
    server.process().restart().expect("it starts again");
    server.open("go");
    server.drained(SOON);
    assert_eq!((server.begun("over the restart"), counter(&server, "recovered")), (1, 2));
}

fn a_full_server(builder: TestServerBuilder) {
    let server = builder.start();
    let notes = TestServer::alone();
    let settings = [("HWORKER_TEST_URL", notes.url()), ("HWORKER_CONCURRENCY", "1")];
    let mut worker = server.worker_process(&settings);
    for number in 0..20 {
        let last = if number % 2 == 0 { vec![] } else { vec![Act::RetryIn(1)] };
        put(&server, "job", vec![last, vec![]]);
    }
    put(&server, "holds the slot", vec![vec![Act::Sleep(500)]]);
    let _: String = server.redis().ask(&["CONFIG", "SET", "maxmemory", "1"]);
    let refused = act::with("refused".into(), vec![]).on(server.client()).enqueue_blocking();
    assert!(matches!(refused, Err(Error::Refused { .. })), "{refused:?}");
    server.eventually("all are settled", 2 * SOON, || counter(&server, "processed") == 21);
    worker.terminate();
    assert!(worker.wait(SOON).expect("it ends").success());
    server.drained(SOON);
}

fn scripts_and_connections(builder: TestServerBuilder) {
    let server = builder.start();
    let _worker = server.worker_process(&[]);
    wait_for_workers(&server, 1);
    let names: Vec<_> = (0..100).map(|number| format!("job-{number}")).collect();
    for (number, name) in names.iter().enumerate() {
        put(&server, name, vec![vec![Act::Sleep(20)]]);
        match number % 20 {
            5 => drop(server.redis().ask::<String>(&["SCRIPT", "FLUSH"])),
            15 => {
                // Those of the worker; the test's client would have to expect an uncertain enqueue.
                let list: String = server.redis().ask(&["CLIENT", "LIST", "TYPE", "normal"]);
                let scripts = list
                    .lines()
                    .filter(|line| line.contains("cmd=evalsha") || line.contains("cmd=blmove"));
                let ids: Vec<_> =
                    scripts.filter_map(|line| line.split(['=', ' ']).nth(1)).collect();
                for id in ids {
                    let _ = server.redis().try_ask::<u64>(&["CLIENT", "KILL", "ID", id]);
                }
            }
            _ => {}
        }
    }
    server.eventually("all ran", 2 * SOON, || counter(&server, "processed") == 100);
    server.drained(SOON);
    assert!(names.iter().all(|name| server.begun(name) == 1));
}

#[test]
fn o5_shared_connection() {
    // User-supplied connection works: one client of the program's own serves a worker, enqueues from two runtimes, and
    // the inspect API; nothing goes through the default client.
    // Guard: nothing but the default client is global.
    let server = TestServer::start();
    let client = Client::builder().redis_url(server.url()).prefix("own").build().expect("a client");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let builder = hworker::Worker::builder().client(&client).registry(hworker::Registry::new());
    let worker = {
        let _context = runtime.enter();
        InProcess::run(builder.state(server.runs().clone()).register::<act>())
    };
    let enqueue = || act::with("job".into(), vec![]).on(&client);
    runtime.block_on(enqueue().enqueue()).expect("enqueued");
    block_on(enqueue().enqueue()).expect("enqueued");
    enqueue().enqueue_blocking().expect("enqueued");
    server.eventually("all ran", SOON, || server.ended("job") == 3);
    let workers = block_on(client.inspect("default").workers()).expect("the workers");
    assert_eq!(workers.len(), 1);
    assert!(server.redis().keys("hworker-*").is_empty());
    runtime.block_on(worker.stop());
}
