//! Rows I: what workers leave for people to see.

use std::time::Duration;

use hworker::Error;
use hworker_tests::{Act, TestServer, act, act_once};

use crate::support::{
    HOUR_MS, RECOVERED, SOON, begins, block_on, counter, put, serving, time_until, wait_for_workers,
};

#[test]
fn i3_stats_processed_and_failed() {
    // 4 success + 2 fail -> 4 and 2, in total and per worker; `processed` counts what was acked.
    // Guard: the counters change in the script that settles.
    let server = TestServer::start();
    let mut worker = server.worker_process(&[]);
    for number in 0..6 {
        let fails = (number % 3 == 2).then(|| Act::Failure("on purpose".into()));
        put(&server, &format!("job-{number}"), vec![fails.into_iter().collect()]);
    }
    // One that fails in its first attempt only counts as retried, then as processed.
    let both = || (counter(&server, "processed"), counter(&server, "failed"));
    server.eventually("all are settled", SOON, || both() == (4, 2));
    let info = serving(&server).remove(0);
    assert_eq!((info.processed, info.failed), (4, 2));
    let day = &chrono_free_day(&server);
    let statistics = block_on(server.inspect().statistics(Some(day))).expect("the statistics");
    assert_eq!((statistics["processed"], statistics["failed"]), (4, 2));
    assert_eq!((statistics["processed:act"], statistics["failed:act"]), (4, 2));
    worker.terminate();
    assert!(worker.wait(SOON).expect("it ends").success());
    let statistics = block_on(server.inspect().statistics(None)).expect("the statistics");
    assert_eq!((statistics["processed"], statistics["failed"]), (4, 2), "they outlive the worker");
}

/// The day of the only key with statistics of a day.
fn chrono_free_day(server: &TestServer) -> String {
    let keys = server.redis().keys("hworker-stat-default:*");
    keys[0].rsplit(':').next().expect("a day").to_owned()
}

#[test]
fn i4_worker_registry() {
    // Start -> listed idle with host, pid, queues, start; running -> job shown; stop -> gone; kill -9 -> gone after
    // heartbeat expiry.
    // Guard: `worker_info` leaves out who is dead or was not heard of for its `dead_after`.
    let server = TestServer::start();
    let before = server.redis().time_us() / 1000;
    let mut stopped = server.worker_process(&[("HWORKER_CONCURRENCY", "7")]);
    wait_for_workers(&server, 1);
    let info = serving(&server).remove(0);
    assert_eq!((info.pid, info.concurrency), (stopped.pid(), 7));
    assert_eq!(info.queues, ["default"]);
    assert!(!info.host.is_empty() && info.version == env!("CARGO_PKG_VERSION"));
    assert!(info.started + 1_000 >= before && info.heard < Duration::from_secs(2), "{info:?}");
    assert!(info.running.is_empty());

    let id = put(&server, "job", vec![vec![Act::Gate("go".into())]]);
    server.eventually("it runs", SOON, || server.begun("job") == 1);
    let running = serving(&server).remove(0).running;
    assert_eq!(running.len(), 1);
    assert_eq!((running[0].id.as_ref(), running[0].job.as_deref()), (Some(&id), Some("act")));
    assert!(running[0].attempt == 1 && running[0].since >= before);
    server.open("go");
    server.eventually("it is idle", SOON, || serving(&server)[0].running.is_empty());

    stopped.terminate();
    assert!(stopped.wait(SOON).expect("it ends").success());
    assert!(serving(&server).is_empty());

    let mut killed = server.worker_process(&[]);
    wait_for_workers(&server, 1);
    killed.kill();
    let gone = time_until(&server, "it is gone", SOON, || serving(&server).is_empty());
    assert!(gone < Duration::from_secs(6), "{gone:?}");
}

#[test]
fn i5_heartbeat_and_prune() {
    // As I4, and its jobs are recovered; who has been dead for a day is forgotten.
    // Guard: `bury.lua`.
    let server = TestServer::start();
    let mut killed = server.worker_process(&[]);
    put(&server, "job", vec![vec![Act::Sleep(HOUR_MS)], vec![]]);
    server.eventually("it runs", SOON, || server.begun("job") == 1);
    let id = begins(&server, "job")[0].worker.clone();
    let other = server.worker_process(&[]);
    wait_for_workers(&server, 2);
    killed.kill();
    server.eventually("it is gone", RECOVERED, || serving(&server).len() == 1);
    server.eventually("its job is recovered", RECOVERED, || server.ended("job") == 1);
    assert_eq!(counter(&server, "recovered"), 1);

    // As if it were a day later.
    let day = 86_400_000;
    let record = format!("hworker-worker-default:{id}");
    let now = server.redis().time_us() / 1000;
    let heard = (now - day - 10_000).to_string();
    let _: u64 =
        server.redis().ask(&["HSET", &record, "dead", &((now - day) / 1000 - 1).to_string()]);
    let _: u64 = server.redis().ask(&["ZADD", "hworker-workers-default", &heard, &id]);
    // Whoever begins to keep the timer looks at all of the dead, and once a minute from then on.
    let _late = server.worker_process(&[]);
    wait_for_workers(&server, 2);
    other.terminate();
    server.eventually("it is forgotten", 3 * SOON, || {
        let mut redis = server.redis();
        let entry: Option<u64> = redis.ask(&["ZSCORE", "hworker-workers-default", &id]);
        entry.is_none() && redis.len(&record) == 0
    });
}

#[test]
fn i8_ct10_destroy() {
    // Returns count; no key with the prefix left; refuses while running unless forced; keys of other namespaces untouched.
    // Guard: `Keys::owns`; a missing record is void to a worker.
    let server = TestServer::start();
    let others = [
        "hworker-jobs-default2",
        "hworker-jobs-a-default",
        "hworker-jobs-default-b",
        "hworker-cache-default",
        "other-jobs-default",
        "default",
    ];
    for key in others {
        let _: u64 = server.redis().ask(&["RPUSH", key, "x"]);
    }
    let worker = server.worker_process(&[]);
    put(&server, "done", vec![]);
    put(&server, "failed", vec![vec![Act::Failure("on purpose".into())]]);
    put(&server, "runs", vec![vec![Act::Sleep(HOUR_MS)]]);
    let job = act::with("scheduled".into(), vec![]).on(server.client());
    job.delay(Duration::from_secs(3_600)).enqueue_blocking().expect("enqueued");
    let _: u64 = server.redis().ask(&["LPUSH", "hworker-jobs-default", "broken"]);
    server.eventually("all are where they belong", SOON, || {
        counter(&server, "failed") == 1
            && counter(&server, "broken") == 1
            && server.begun("runs") == 1
    });
    let refused = block_on(server.inspect().destroy(false));
    assert!(matches!(refused, Err(Error::Refused { .. })), "{refused:?}");
    let own = |server: &TestServer| {
        let keys = server.redis().keys("hworker-*");
        let own =
            |key: &String| !others.contains(&key.as_str()) && !key.starts_with("hworker-meta:");
        keys.into_iter().filter(own).collect::<Vec<_>>()
    };
    let there = own(&server);
    let count = block_on(server.inspect().destroy(true)).expect("destroyed");
    assert!(count >= there.len() as u64 - 1, "{count}, {there:?}");
    // The worker finds its record gone, and comes back with empty hands.
    server.eventually("the worker is back", SOON, || serving(&server).len() == 1);
    put(&server, "after", vec![]);
    server.eventually("it works", SOON, || server.ended("after") == 1);
    server.drained(SOON);
    assert_eq!((server.begun("runs"), server.ended("runs")), (1, 0), "what ran was cancelled");
    assert_eq!(counter(&server, "processed"), 1);
    drop(worker);

    let server_empty = |server: &TestServer| own(server).is_empty();
    server.eventually("it is not heard of any more", SOON, || serving(&server).is_empty());
    let there = own(&server);
    assert_eq!(block_on(server.inspect().destroy(false)).expect("destroyed"), there.len() as u64);
    assert!(server_empty(&server), "{:?}", own(&server));
    assert_eq!(server.redis().len("hworker-meta:queues"), 0, "its name is gone too");
    assert_eq!(block_on(server.inspect().destroy(false)).expect("nothing is there"), 0);
    for key in others {
        assert_eq!(server.redis().len(key), 1, "{key}");
    }
}

#[test]
fn i16_structured_logging() {
    // Logger replaceable; message of Retry/Failure appears once; arguments never.
    // Guard: only `conclude` speaks of how a body ended.
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);
    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().expect("no panic").write(bytes)
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let fill = |server: &TestServer| {
        let retry = vec![vec![Act::Retry("message-of-retry".into())], vec![]];
        put(server, "secret-1", retry);
        put(server, "secret-2", vec![vec![Act::Failure("message-of-failure".into())]]);
        put(server, "secret-3", vec![vec![Act::Error("message-of-error".into())], vec![]]);
        let job =
            act_once::with("secret-4".into(), vec![vec![Act::Error("message-of-last".into())]]);
        job.on(server.client()).enqueue_blocking().expect("enqueued");
        let _: u64 = server.redis().ask(&["LPUSH", "hworker-jobs-default", "secret-5"]);
        let wrong = r#"{"job":"act","args":{"name":"secret-6"}}"#;
        let _: u64 = server.redis().ask(&["LPUSH", "hworker-jobs-default", wrong]);
    };
    let settled = |server: &TestServer| {
        counter(server, "processed") == 2
            && counter(server, "failed") == 2
            && counter(server, "broken") == 1
            && counter(server, "parked") == 1
    };
    let check = |log: &str| {
        for message in
            ["message-of-retry", "message-of-failure", "message-of-error", "message-of-last"]
        {
            assert_eq!(log.matches(message).count(), 1, "{message}\n{log}");
        }
        assert!(!log.contains("secret"), "{log}");
    };

    // The built-in log of a process, with everything that it can say.
    let server = TestServer::start();
    let mut worker = server.worker_process(&[("HWORKER_LOG", "hworker=trace")]);
    fill(&server);
    server.eventually("all are settled", SOON, || settled(&server));
    worker.terminate();
    assert!(worker.wait(SOON).expect("it ends").success());
    check(&std::fs::read_to_string(server.dir().join("process-0.log")).expect("the log"));

    // A subscriber of the program's own.
    let server = TestServer::start();
    fill(&server);
    let lines = Lines::default();
    let writer = lines.clone();
    let own = tracing_subscriber::fmt()
        .with_max_level(tracing_subscriber::filter::LevelFilter::TRACE)
        .with_writer(move || writer.clone())
        .finish();
    let worker = server.worker().register::<act>().register::<act_once>();
    let worker = worker.build().expect("a worker");
    let handle = worker.handle();
    let thread = std::thread::spawn(move || {
        tracing::subscriber::with_default(own, || {
            block_on(worker.run_until(std::future::pending()))
        })
    });
    server.eventually("all are settled", SOON, || settled(&server));
    handle.stop();
    thread.join().expect("no panic").expect("it stops");
    let log = lines.0.lock().expect("no panic").clone();
    let log = String::from_utf8(log).expect("text");
    // The crates below speak of bytes on the wire at that level, if anything.
    let own: Vec<_> = log.lines().filter(|line| line.contains("hworker")).collect();
    check(&own.join("\n"));
}
