//! Rows F7 and F14: when the next attempt starts, and until when.

use std::time::{Duration, SystemTime};

use hworker_tests::Records as _;
use hworker_tests::{Act, Machine, TestServer, act};

use crate::SOON;

/// Milliseconds between the end of an attempt, as the body saw it, and the start of the next.
fn gaps(server: &TestServer, name: &str) -> Vec<u64> {
    let runs = server.runs_of(name);
    let begun = runs.iter().filter(|run| run.what == "begin").map(|run| run.at / 1000);
    let begun: Vec<_> = begun.collect();
    begun.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn f7_backoff() {
    // fixed/list/exponential with cap and jitter -> start gaps within tolerance; worker slot free while waiting.
    // Guard: `backoff::delay`; a retry waits among the scheduled jobs, and not in its slot.
    let _machine = Machine::claim();
    let server = TestServer::start();
    let _worker = server.worker_process(&[("HWORKER_CONCURRENCY", "1")]);
    let cases: [(&str, &[(u64, u64)]); 4] = [
        ("300ms", &[(300, 300); 4]),
        ("100ms, 600ms, 200ms", &[(100, 100), (600, 600), (200, 200), (200, 200)]),
        ("exp(200ms, 700ms)", &[(150, 250), (300, 500), (525, 700), (525, 700)]),
        ("0s", &[(0, 0); 4]),
    ];
    for (backoff, _) in cases {
        let always = vec![vec![Act::Error("again".into())]];
        let job = act::with(backoff.into(), always).backoff(backoff).max_attempts(5);
        job.on(server.client()).enqueue().await.expect("enqueued");
    }
    server.eventually("all have failed", SOON, || server.counter("failed") == 4);
    for (backoff, expected) in cases {
        let gaps = gaps(&server, backoff);
        assert_eq!(gaps.len(), 4, "{backoff}");
        for (gap, (least, most)) in gaps.iter().zip(expected) {
            // A millisecond less: the body notes its begin a little after its lease.
            let fits = (least.saturating_sub(1)..=most + 1_000).contains(gap);
            assert!(fits, "{backoff}: {gaps:?} for {expected:?}");
        }
    }

    // The only slot is free while a job waits.
    let plan = vec![vec![Act::Error("again".into())], vec![]];
    let job = act::with("waits".into(), plan).backoff("2s").on(server.client());
    job.enqueue().await.expect("enqueued");
    server.eventually("it waits", SOON, || server.counter("retried:act") == 17);
    server.enqueue("meanwhile", Vec::new()).await;
    server.eventually("the other runs", Duration::from_secs(1), || server.ended("meanwhile") == 1);
    assert_eq!(server.begun("waits"), 1);
    server.eventually("it runs", SOON, || server.ended("waits") == 1);
    assert!((1999..3000).contains(&gaps(&server, "waits")[0]), "{:?}", gaps(&server, "waits"));
}

#[tokio::test(flavor = "multi_thread")]
async fn f14_retry_deadline() {
    // No attempt starts after the deadline; job failed. Neither one that would be retried after it, nor one that waited for a
    // worker beyond it.
    // Guard: `time_left` in `Attempts::within_bounds`, and the look at `retry_until` in `admit::check`.
    let server = TestServer::start();
    let until = SystemTime::now() + Duration::from_millis(2500);
    let until_ms = until.duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_millis();
    let always = vec![vec![Act::Error("again".into())]];
    let job = act::with("tries".into(), always).backoff("400ms").retry_until(until);
    job.on(server.client()).enqueue().await.expect("enqueued");
    let past = act::with("too late".into(), Vec::new()).on(server.client());
    past.retry_until(SystemTime::now())
        .delay(Duration::from_millis(100))
        .enqueue()
        .await
        .expect("in");

    let _worker = server.worker_process(&[]);
    server.eventually("both have failed", SOON, || server.counter("failed") == 2);
    let failed = server.inspect().failed(0, 10).await.expect("the records");
    let record = |name: &str| {
        failed.iter().find(|record| record.args().contains(name)).expect("a record").clone()
    };
    let late = record("too late");
    assert_eq!((late.kind.as_str(), server.begun("too late")), ("deadline", 0));
    let tried = record("tries");
    let begun = server.begun("tries");
    // The last retry may have been due just before the deadline and taken just after it.
    let not_begun = usize::from(tried.kind == "deadline");
    assert!((2..=7).contains(&begun), "{begun} {tried:?}");
    assert_eq!(tried.attempts as usize, begun + not_begun, "{tried:?}");
    assert!(tried.errors()[..begun].iter().all(|error| error.message == "again"), "{tried:?}");
    server.holds("none runs again", Duration::from_secs(1), || server.begun("tries") == begun);
    let runs = server.runs_of("tries");
    assert!(runs.iter().all(|run| u128::from(run.at) / 1000 <= until_ms), "{runs:?}");
}
