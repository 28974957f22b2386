//! A server that is up again and still loads what it has on disk.

use std::time::Duration;

use hworker::{Client, Error};
use hworker_tests::{Act, RedisSide, TestServer, act};

use crate::support::{SOON, counter, put, wait_for_workers};

/// Keys that are loaded, at a millisecond each.
const KEYS: usize = 4_000;

#[test]
fn a_server_that_loads_its_data_is_waited_for() {
    // Killed and started again with seconds of data to load: whoever asks is told `LOADING`. An enqueue is in, or a clear error
    // where its time is over before; workers go on by themselves, their bodies run on, nobody is taken for dead.
    // Guard: `LOADING` counts as busy.
    let server = TestServer::builder()
        .append_only()
        .arg("--key-load-delay", "1000")
        .arg("--loading-process-events-interval-bytes", "1024")
        .start();
    let notes = TestServer::alone();
    let settings = [("HWORKER_TEST_URL", notes.url())];
    let _worker = server.worker_process(&settings);
    wait_for_workers(&server, 1);
    put(&server, "held", vec![vec![Act::Gate("go".into())]]);
    server.eventually("it runs", SOON, || notes.begun("held") == 1);
    let fill = format!("for i = 1, {KEYS} do redis.call('SET', 'filler:' .. i, i) end");
    let _: Option<String> = server.redis().ask(&["EVAL", &fill, "0"]);
    // What is loaded from a snapshot is loaded key after key.
    let _: String = server.redis().ask(&["BGREWRITEAOF"]);
    server.eventually("it is written", SOON, || {
        let info: String = server.redis().ask(&["INFO", "persistence"]);
        info.contains("aof_rewrite_in_progress:0") && info.contains("aof_rewrite_scheduled:0")
    });

    server.process().kill();
    std::thread::scope(|scope| {
        scope.spawn(|| server.restart());
        let mut probe = RedisSide::new(server.url());
        server.eventually("it loads", SOON, || {
            let said = probe.try_ask::<Option<String>>(&["GET", "a"]);
            said.is_err_and(|error| error.code() == Some("LOADING"))
        });
        let enqueue = |within: Duration| {
            let client = Client::builder().redis_url(server.url()).enqueue_within(within);
            let client = client.build().expect("a client");
            act::with("after".into(), vec![]).on(&client).enqueue_blocking()
        };
        if let Err(error) = enqueue(Duration::from_millis(300)) {
            // A server that loads looks at its sockets now and then: its answer may come too late.
            let clear = matches!(error, Error::Unavailable { .. } | Error::Uncertain { .. });
            assert!(clear, "{error}");
        }
        enqueue(Duration::from_secs(20)).expect("enqueued");
    });
    server.eventually("jobs run again", SOON, || notes.ended("after") >= 1);
    notes.open("go");
    server.drained(SOON);
    assert_eq!((notes.begun("held"), notes.ended("held")), (1, 1), "{}", server.report());
    assert_eq!(counter(&server, "recovered"), 0);
}
