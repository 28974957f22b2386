//! Ends of jobs that the server refuses for their size, by ending the connection.

use std::time::Duration;

use hworker_tests::Records as _;
use hworker_tests::{Act, Fault, Proxy, TestServer};
use serde_json::json;

use crate::support::{SOON, block_on, counter, put};

/// The least that a server can be told to take in one piece.
const LIMIT: usize = 1_048_576;

/// Puts a job that does this when its gate is open, in an envelope of so many bytes.
fn push(server: &TestServer, name: &str, acts: &[Act], bytes: usize) {
    let envelope = |unused: String| {
        let first = [&[Act::Gate("all".into())][..], acts].concat();
        let plan = [first, vec![], vec![Act::Note(unused)]];
        json!({ "id": name, "job": "act", "args": { "name": name, "plan": plan } }).to_string()
    };
    let unused = "x".repeat(bytes - envelope(String::new()).len());
    let _: u64 = server.redis().ask(&["LPUSH", "hworker-jobs-default", &envelope(unused)]);
}

#[test]
fn an_end_that_the_server_refuses_holds_up_no_other() {
    // Four jobs end at once, and what the first leaves ends the connection each time -> the others are done once, the job is broken with
    // the reason, the log names it, and the worker goes on.
    // Guard: `Refused`, and `Outbox::again`.
    let bytes = LIMIT - 1;
    let server = TestServer::builder().arg("--proto-max-bulk-len", &LIMIT.to_string()).start();
    push(&server, "large", &[Act::Retry("again".into())], bytes);
    let others = ["one", "two", "three"];
    for name in others {
        push(&server, name, &[], 1_000);
    }
    let mut worker = server.worker_process(&[("HWORKER_CONCURRENCY", "4")]);
    server.eventually("all run", SOON, || {
        server.begun("large") == 1 && others.iter().all(|name| server.begun(name) == 1)
    });
    server.open("all");
    server.eventually("all have ended", Duration::from_secs(30), || {
        (counter(&server, "processed"), counter(&server, "broken")) == (3, 1)
    });
    put(&server, "next", vec![]);
    server.eventually("the worker goes on", SOON, || server.ended("next") == 1);
    assert!(others.iter().all(|name| server.begun(name) == 1), "{}", server.report());
    assert_eq!((server.begun("large"), counter(&server, "recovered")), (1, 0));
    worker.terminate();
    assert!(worker.wait(SOON).is_some_and(|status| status.success()));
    let broken = block_on(server.inspect().broken()).expect("the broken payloads");
    assert_eq!((broken.len(), broken[0].payload.len()), (1, bytes));
    assert!(broken[0].reason.contains("proto-max-bulk-len"), "{}", broken[0].reason);
    let log = std::fs::read_to_string(server.dir().join("process-0.log")).expect("the log");
    let line = log.lines().find(|line| line.contains("ends the connection when it is told"));
    let line = line.unwrap_or_else(|| panic!("{log}"));
    assert!(line.contains("WARN") && line.contains("job.id=large"), "{line}");
}

#[test]
fn connections_that_end_while_the_server_refuses_break_no_large_job() {
    // Three times the server refuses the end of a large job, for the moment, and the connection ends before it is sent again -> it is not
    // blamed on the job, which runs again.
    // Guard: `is_alive` in `intake/fetch.rs`: nothing is sent on a connection that has ended.
    let server = TestServer::start();
    let proxy = Proxy::before(&server);
    push(&server, "large", &[Act::Retry("again".into())], LIMIT / 2);
    let _worker = server.worker_process(&[("HWORKER_REDIS_URL", &proxy.url())]);
    server.eventually("it runs", SOON, || server.begun("large") == 1);
    proxy.fault(1, "settle", Fault::RefuseAndEnd);
    server.open("all");
    for _ in 1..3 {
        server.eventually("it is refused", SOON, || proxy.all_happened());
        proxy.fault(1, "settle", Fault::RefuseAndEnd);
    }
    server.eventually("it has run again", SOON, || counter(&server, "processed") == 1);
    assert_eq!((server.begun("large"), counter(&server, "broken")), (2, 0), "{}", server.report());
}
