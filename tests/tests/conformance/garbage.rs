//! Payloads that are no jobs, and queues that are empty: neither stops anything.

use std::time::Duration;

use hworker::Error;
use hworker_tests::{Broken, Records as _};
use hworker_tests::{Machine, TestServer, act};

use crate::SOON;

fn push(server: &TestServer, payload: &[u8]) {
    let mut command = redis::cmd("LPUSH");
    command.arg("hworker-jobs-default").arg(payload);
    server.redis().run::<u64>(&command).expect("pushed");
}

async fn broken(server: &TestServer) -> Vec<Broken> {
    server.inspect().broken().await.expect("the broken")
}

#[tokio::test(flavor = "multi_thread")]
async fn d3_undecodable_raw_bytes() {
    // Push `{` -> moved to broken once, within 1 s, payload byte-identical, time recorded, worker alive. The same for other
    // bytes, pushed to an idle worker, and many at once.
    // Guard: `Envelope::decode` in `admit::read` ends the lease as broken; `settle.lua` moves the bytes that it holds.
    let server = TestServer::start();
    let mut worker = server.worker_process(&[]);
    server.enqueue("before", Vec::new()).await;
    server.eventually("the worker is there", SOON, || server.ended("before") == 1);

    let before = server.redis().time_us() / 1000;
    push(&server, b"{");
    let moved = || server.redis().len("hworker-broken-default") == 1;
    server.eventually("it is moved", Duration::from_secs(1), moved);
    let after = server.redis().time_us() / 1000;
    let first = broken(&server).await.remove(0);
    assert_eq!((first.payload.as_slice(), first.times), (&b"{"[..], 1));
    assert!((before..=after).contains(&first.at), "{before} {first:?} {after}");
    assert!(first.reason.contains("EOF while parsing"), "{first:?}");
    assert_eq!(server.leftovers("default"), [("hworker-broken-default".to_owned(), 1)]);

    let large = vec![b'x'; 100_000];
    let payloads: [&[u8]; 12] = [
        b"",
        b"\x00",
        b"\xff\xfe{\r\n",
        b"null",
        b"false",
        b"[]",
        b"{}",
        br#"{"job":7,"args":{}}"#,
        // What looks like an envelope of a later version, and could not be given an id.
        br#"[2,"x"]"#,
        b"{\"v\":2,\"job\":\"x\",\"args\":\"\xff\"}",
        b"{\"job\":\"act\",\"args\":{},\"backoff\":\"1s\\nERROR forged\"}",
        &large,
    ];
    for payload in payloads {
        push(&server, payload);
    }
    push(&server, b"{");
    server.enqueue("after", Vec::new()).await;
    server.eventually("all are moved", SOON, || server.redis().len("hworker-broken-default") == 13);
    server.eventually("the worker goes on", SOON, || server.ended("after") == 1);
    let kept = broken(&server).await;
    for payload in payloads {
        let found = kept.iter().find(|broken| broken.payload == payload).expect("byte for byte");
        assert!(found.times == 1 && found.at >= after && !found.reason.is_empty(), "{found:?}");
    }
    server
        .eventually_async("the second `{` is counted", SOON, async || {
            broken(&server).await.iter().any(|one| one.payload == b"{" && one.times == 2)
        })
        .await;
    assert_eq!(server.leftovers("default"), [("hworker-broken-default".to_owned(), 13)]);
    assert_eq!(server.counter("broken"), 14);
    assert!(!kept.iter().any(|broken| broken.reason.contains("forged")), "{kept:?}");
    assert!(worker.exited().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn d4_decodes_as_json_but_wrong_args() {
    // Args of other shape -> parked, and after `HWORKER_UNKNOWN_FOR` broken with the reason, not run, not retried, other jobs unaffected.
    // Guard: `StartError::Args` ends as parked, and not as an error of the body.
    let server = TestServer::start();
    let _worker = server.worker_process(&[("HWORKER_UNKNOWN_FOR", "1ms")]);
    let payloads = [
        r#"{"job":"act","id":"1","args":{"name":7,"plan":[]}}"#,
        r#"{"job":"act","id":"2","args":{"plan":[]}}"#,
        r#"{"job":"act","id":"3","args":["wrong",[]]}"#,
        r#"{"job":"act","id":"4","args":null}"#,
        r#"{"job":"act","id":"5","args":{"name":"wrong","plan":[["NoSuchAct"]]}}"#,
    ];
    server.enqueue("beside", Vec::new()).await;
    for payload in payloads {
        push(&server, payload.as_bytes());
    }
    server.enqueue("beside", Vec::new()).await;
    // A list of the right values in the right order is how serde also reads a struct: it may run, but never silently vanish.
    let settled = || server.redis().len("hworker-broken-default") + server.begun("wrong") as u64;
    server.eventually("all are settled", SOON, || settled() == 5 && server.ended("beside") == 2);
    let kept = broken(&server).await;
    for (index, payload) in payloads.iter().enumerate().filter(|(index, _)| *index != 2) {
        let found = kept.iter().find(|broken| broken.payload == payload.as_bytes());
        let found = found.unwrap_or_else(|| panic!("{payload} is broken: {kept:?}"));
        assert!(found.reason.contains("the arguments do not fit the job"), "{index} {found:?}");
        assert_eq!(found.times, 1, "{found:?}");
    }
    assert!(kept.iter().any(|broken| broken.reason.contains("missing field `name`")), "{kept:?}");
    server.holds("nothing is retried", Duration::from_secs(1), || settled() == 5);
    assert_eq!((server.counter("retried"), server.counter("failed")), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn d5_trailing_garbage() {
    // `["id",1]xyz`, and an envelope with something after it -> broken.
    // Guard: `Envelope::decode` reads to the end.
    let server = TestServer::start();
    let _worker = server.worker_process(&[]);
    let payloads = [
        &br#"["id",1]xyz"#[..],
        br#"{"job":"act","args":{"name":"no","plan":[]}}xyz"#,
        br#"{"job":"act","args":{"name":"no","plan":[]}} {}"#,
        b"{\"job\":\"act\",\"args\":{\"name\":\"no\",\"plan\":[]}}\0",
    ];
    for payload in payloads {
        push(&server, payload);
    }
    server.eventually("all are broken", SOON, || server.redis().len("hworker-broken-default") == 4);
    let kept = broken(&server).await;
    assert!(payloads.iter().all(|payload| kept.iter().any(|broken| broken.payload == *payload)));
    assert_eq!(server.begun("no"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn d6_empty_queue_is_inert() {
    // 10 s idle -> no key appears but the worker registry and statistics, progress count 0. The server is asked little: a
    // heartbeat each 1.5 s, and one wait each 20 s.
    // Guard: `reserve.lua` and `reconcile.lua` write nothing where there was nothing (a nil is false in Lua); an idle worker
    // waits at the server.
    let server = TestServer::start();
    let _worker = server.worker_process(&[]);
    server.eventually("the worker is there", SOON, || {
        server.redis().len("hworker-workers-default") == 1
    });
    // It has begun, and looked once.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let calls = || -> u64 {
        let stats: String = server.redis().ask(&["INFO", "commandstats"]);
        let calls = |name: &str| {
            let line = stats.lines().find(|line| line.starts_with(&format!("cmdstat_{name}:")))?;
            line.split(['=', ',']).nth(1)?.parse::<u64>().ok()
        };
        ["evalsha", "eval", "blmove", "lmove", "blpop", "hkeys"].into_iter().filter_map(calls).sum()
    };
    let before = calls();
    server.holds("no key appears", Duration::from_secs(10), || {
        let expected = |key: &String| {
            [
                "workers-default",
                "worker-default:",
                "timer-default",
                "stat-default",
                "meta:",
                // The limits of its job types.
                "jobs-default:control",
                "jobs-default:tables",
            ]
            .iter()
            .any(|kind| key.starts_with(&format!("hworker-{kind}")))
        };
        server.redis().keys("*").iter().all(expected)
    });
    let asked = calls() - before;
    assert!((5..=12).contains(&asked), "{asked} calls in 10 s");
    assert_eq!(server.redis().total("hworker-progress-*"), 0);
    assert_eq!(server.inspect().counts().await.expect("the counts").running, 0);
    // And no job comes of it.
    server.enqueue("the only one", Vec::new()).await;
    server.eventually("it runs", SOON, || server.ended("the only one") == 1);
    server.drained(SOON);
    assert_eq!(server.counter("processed"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn f13_broken_list_bounded_and_manageable() {
    // Limit, list with time and reason, requeue, delete: with room for 3 the first 3 are kept, the others stay parked and nothing is
    // deleted; each can be requeued or deleted once, and by one of two operators who try at once. Where there is room again, a parked
    // one comes.
    // Guard: `quarantine` in `settle.lua` parks what has no room; `HDEL` in `requeue_broken.lua` says who was first.
    let _machine = Machine::claim();
    let server = TestServer::start();
    let worker = server.worker_process(&[("HWORKER_BROKEN_LIMIT", "3")]);
    let settled = || server.counter("broken") + server.counter("parked");
    for number in 1..=6 {
        push(&server, format!("{{{number}").as_bytes());
        server.eventually("it is settled", SOON, || settled() == number);
    }
    let kept = broken(&server).await;
    let payloads: Vec<_> = kept.iter().map(|broken| broken.payload.as_slice()).collect();
    assert_eq!(payloads.len(), 3);
    assert!([&b"{1"[..], b"{2", b"{3"].iter().all(|payload| payloads.contains(payload)));
    assert!(kept.iter().all(|broken| broken.reason.contains("key must be a string")), "{kept:?}");
    let counts = server.inspect().counts().await.expect("counts");
    assert_eq!((counts.broken, counts.parked), (3, 3));

    let inspect = server.inspect();
    inspect.delete_broken(b"{2").await.expect("deleted");
    let again = inspect.delete_broken(b"{2").await;
    assert!(matches!(again, Err(Error::NotFound { .. })), "{again:?}");
    // Nobody takes it meanwhile, or it would be broken again before the second asks.
    worker.stop();
    let (first, second) =
        tokio::join!(inspect.requeue_broken(b"{1"), inspect.requeue_broken(b"{1"));
    assert_eq!(u8::from(first.is_ok()) + u8::from(second.is_ok()), 1, "{first:?} {second:?}");
    worker.go_on();
    server.eventually("it is broken again", SOON, || server.counter("broken") == 4);
    drop(worker);
    let _short =
        server.worker_process(&[("HWORKER_BROKEN_LIMIT", "3"), ("HWORKER_UNKNOWN_FOR", "1ms")]);
    server.eventually("a parked one has its room", SOON, || {
        server.redis().len("hworker-broken-default") == 3
            && server.redis().len("hworker-parked-default") == 2
    });
    let missing = inspect.requeue_broken(b"{2").await;
    assert!(matches!(missing, Err(Error::NotFound { .. })), "{missing:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn f13_without_room_for_broken_payloads_none_is_kept() {
    // A limit of 0 keeps none, and the worker goes on.
    // Guard: `broken_limit == 0` in `quarantine`.
    let server = TestServer::start();
    let _worker = server.worker_process(&[("HWORKER_BROKEN_LIMIT", "0")]);
    push(&server, b"{");
    act::with("after".into(), Vec::new()).on(server.client()).enqueue().await.expect("enqueued");
    server.eventually("the worker goes on", SOON, || server.ended("after") == 1);
    server.drained(SOON);
    assert_eq!(server.counter("broken"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn f13_a_lower_limit_deletes_nothing() {
    // More broken payloads are kept than a worker is told: all stay, also what is larger than a worker takes, and what comes is parked.
    // Guard: `quarantine` in `settle.lua` and in `reserve.lua`.
    let server = TestServer::start();
    for number in 0..20 {
        let payload = format!("old-{number}");
        let _: u64 = server.redis().ask(&["HSET", "hworker-broken-default", &payload, "1 1 x"]);
    }
    let settings = [("HWORKER_BROKEN_LIMIT", "5"), ("HWORKER_MAX_PAYLOAD", "512")];
    let _worker = server.worker_process(&settings);
    for number in 0..20 {
        push(&server, format!("new-{number}").as_bytes());
        push(&server, "x".repeat(20_000 + number).as_bytes());
    }
    let parked = || server.redis().len("hworker-parked-default") == 40;
    server.eventually("all are parked", SOON, parked);
    assert_eq!(server.redis().len("hworker-broken-default"), 20);
    assert_eq!((server.counter("broken"), server.counter("parked")), (0, 40));
}
