//! Enqueues that do not succeed: each is a clear error, and leaves nothing behind.

use std::collections::BTreeMap;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use hworker::{Bulk, Client, Enqueue, Error};
use hworker_tests::{InProcess, TestServer, act, produce, weigh};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::SOON;

#[tokio::test(flavor = "multi_thread")]
async fn q12_error_reported_when_the_server_is_down() {
    // Redis down -> enqueue returns an error within a bounded time, nothing half-written; when it is back, it goes on.
    // Guard: `until_sent` gives up after `enqueue_within`.
    let server = TestServer::builder().append_only().start();
    let client = Client::builder().redis_url(server.url()).enqueue_within(Duration::from_secs(1));
    let client = client.build().expect("a client");
    let job = |name: &str| act::with(name.into(), Vec::new()).on(&client);
    job("before").enqueue().await.expect("enqueued");
    server.process().kill();

    let began = Instant::now();
    let now = job("down").enqueue().await;
    let later = job("down").delay(SOON).enqueue().await;
    // The connection that broke may have been found broken only with the first bytes.
    assert!(matches!(now, Err(Error::Unavailable { .. } | Error::Uncertain { .. })), "{now:?}");
    assert!(matches!(later, Err(Error::Unavailable { .. })), "{later:?}");
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    let printed = produce(&server, &[], &["down"]);
    assert!(printed[0].starts_with("error: could not enqueue job act"), "{printed:?}");

    server.restart();
    job("after").enqueue().await.expect("enqueued");
    assert_eq!(server.leftovers("default"), [("hworker-jobs-default".to_owned(), 2)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn q12_error_reported_when_the_memory_is_full() {
    // OOM -> enqueue returns an error, nothing half-written; when there is room, it goes on.
    // Guard: one command, or one script whose first write is refused.
    let server = TestServer::builder().start();
    let job = || act::with("full".into(), Vec::new()).on(server.client());
    let before = server.redis().keys("*");
    server.redis().ask::<String>(&["CONFIG", "SET", "maxmemory", "1"]);
    let now = job().enqueue().await;
    let later = job().delay(SOON).enqueue().await;
    for result in [now, later] {
        let error = result.expect_err("refused");
        assert!(matches!(error, Error::Refused { .. }), "{error:?}");
        let text = error.to_string();
        assert!(text.contains("job act") && text.contains("maxmemory"), "{text}");
    }
    assert_eq!(server.redis().keys("*"), before);
    server.redis().ask::<String>(&["CONFIG", "SET", "maxmemory", "0"]);
    job().enqueue().await.expect("enqueued");
    job().delay(SOON).enqueue().await.expect("enqueued");
}

#[tokio::test(flavor = "multi_thread")]
async fn en4_a_payload_that_is_too_large() {
    // An envelope larger than `max_payload` -> Error::Refused with the job's name and the limit, nothing written; one that is
    // just as large is enqueued.
    // Guard: the check in `Enqueue::encode`.
    let server = TestServer::start();
    let client = Client::builder().redis_url(server.url()).max_payload(1000);
    let client = client.build().expect("a client");
    let job = |bytes: usize| weigh::with("w".into(), "x".repeat(bytes)).on(&client);
    for delayed in [false, true] {
        let large = if delayed { job(1000).delay(SOON) } else { job(1000) };
        let error = large.enqueue().await.expect_err("refused");
        assert!(matches!(error, Error::Refused { .. }), "{error:?}");
        let text = error.to_string();
        assert!(text.contains("job weigh") && text.contains("max_payload (1000)"), "{text}");
    }
    assert!(server.redis().keys("*").is_empty());

    job(0).enqueue().await.expect("enqueued");
    let envelope: String = server.redis().ask(&["LINDEX", "hworker-jobs-default", "0"]);
    job(1000 - envelope.len()).enqueue().await.expect("just as large");
    let error = job(1001 - envelope.len()).enqueue().await.expect_err("one byte too large");
    assert!(matches!(error, Error::Refused { .. }), "{error:?}");
}

#[hworker::job]
async fn measure(value: f64, by_place: Vec<Option<f64>>, by_name: BTreeMap<String, f32>) {
    drop((value, by_place, by_name));
}

#[hworker::job]
async fn tabulate(table: BTreeMap<Vec<u8>, u8>) {
    drop(table);
}

#[tokio::test(flavor = "multi_thread")]
async fn en3_what_json_cannot_hold() {
    // A float that is not a number, wherever it stands -> Error::Encode with the job's name, nothing written.
    // Guard: `strict_json`, where serde_json would write null.
    let server = TestServer::start();
    let good = BTreeMap::from([("a".to_owned(), 0.5)]);
    let named = |value| BTreeMap::from([("a".to_owned(), value)]);
    for job in [
        measure::with(f64::NAN, vec![], good.clone()),
        measure::with(f64::INFINITY, vec![], good.clone()),
        measure::with(0.0, vec![Some(1.0), Some(f64::NEG_INFINITY)], good.clone()),
        measure::with(0.0, vec![None], named(f32::NAN)),
    ] {
        let error = job.on(server.client()).enqueue().await.expect_err("refused");
        assert!(matches!(error, Error::Encode { job: "measure", .. }), "{error:?}");
    }
    let table = BTreeMap::from([(vec![1], 1)]);
    let error = tabulate::with(table).on(server.client()).enqueue().await.expect_err("refused");
    assert!(matches!(error, Error::Encode { job: "tabulate", .. }), "{error:?}");
    assert!(server.redis().keys("*").is_empty());
    measure::with(1.5, vec![None], good).on(server.client()).enqueue().await.expect("enqueued");
}

/// Serde reads such a type from a copy of the JSON that holds less than JSON can.
#[derive(Clone, Serialize, Deserialize)]
#[serde(tag = "kind")]
enum Tagged {
    Wide { number: i128 },
    ByNumber { entries: BTreeMap<u8, u8> },
    ByTruth { entries: BTreeMap<bool, u8> },
    ByName { entries: BTreeMap<String, u64> },
    Raw { json: Box<RawValue> },
}

#[derive(Serialize, Deserialize)]
struct Plain {
    wide: (i128, u128),
    by_number: BTreeMap<i64, u8>,
    raw: Box<RawValue>,
}

#[hworker::job]
async fn keep(value: Value, tagged: Option<Tagged>, plain: Option<Plain>) {
    drop((value, tagged, plain));
}

/// A value of so many lists, one in the other.
fn nested(levels: usize) -> Value {
    (0..levels).fold(Value::Null, |inner, _| json!([inner]))
}

fn keep_plain(raw: String) -> Enqueue<keep> {
    let raw = RawValue::from_string(raw).expect("JSON");
    let by_number = BTreeMap::from([(i64::MIN, 1)]);
    keep::with(Value::Null, None, Some(Plain { wide: (i128::MIN, u128::MAX), by_number, raw }))
}

#[tokio::test(flavor = "multi_thread")]
async fn en3_what_no_worker_could_read() {
    // What can be written and not read again: nested too deep, numbers and names of members that serde does not read in a tagged enum
    // -> Error::Encode with the job's name and without its arguments, nothing written; what is just as deep as can be read, and the same
    // values where they are read, run. In a bulk, delayed and encrypted too.
    // Guard: `Signs` of `strict_json`, and `read_back` in `Enqueue::encode`.
    let server = TestServer::start();
    let encrypts = Client::builder().redis_url(server.url()).encryption_key("k", &[7; 32]);
    let encrypts = encrypts.encrypt_all(true).build().expect("a client");
    let of = |tagged: Tagged| keep::with(Value::Null, Some(tagged), None);
    let raw = |json: &str| RawValue::from_string(json.to_owned()).expect("JSON");
    let unreadable: [&dyn Fn() -> Enqueue<keep>; 7] = [
        &|| keep::with(nested(127), None, None),
        &|| keep::with(json!({ "secret": [nested(1_000), 1] }), None, None),
        &|| of(Tagged::Wide { number: i128::from(u64::MAX) + 1 }),
        &|| of(Tagged::Wide { number: i128::from(i64::MIN) - 1 }),
        &|| of(Tagged::ByNumber { entries: BTreeMap::from([(123, 4)]) }),
        &|| of(Tagged::ByTruth { entries: BTreeMap::from([(true, 4)]) }),
        &|| of(Tagged::Raw { json: raw("[123]") }),
    ];
    for client in [server.client(), &encrypts] {
        for (number, job) in unreadable.iter().enumerate() {
            let ways = [
                job().on(client).enqueue().await.map(drop),
                job().on(client).delay(SOON).enqueue().await.map(drop),
                Bulk::new().add(job()).on(client).enqueue().await.map(drop),
            ];
            for result in ways {
                let error = match result.expect_err(&format!("refused, number {number}")) {
                    Error::Invalid { mut jobs } => jobs.remove(0).1,
                    error => error,
                };
                assert!(matches!(error, Error::Encode { job: "keep", .. }), "{number}: {error:?}");
                let said = format!("{error} {error:?}");
                assert!(!said.contains("123") && !said.contains("secret"), "{said}");
            }
        }
    }
    assert!(server.redis().keys("*").is_empty());

    for client in [server.client(), &encrypts] {
        for job in [
            keep::with(nested(126), None, None),
            of(Tagged::ByName { entries: BTreeMap::from([(String::new(), u64::MAX)]) }),
            keep_plain("[".repeat(1_000) + &"]".repeat(1_000)),
        ] {
            job.on(client).enqueue().await.expect("enqueued");
        }
    }
    let _worker = InProcess::run(server.worker().client(&encrypts).register::<keep>());
    server.drained(SOON);
    assert_eq!((server.counter("processed"), server.counter("broken")), (6, 0));
}

#[test]
fn outside_a_runtime_enqueue_says_so_and_enqueue_blocking_works() {
    // Guard: the look for a runtime before the first await of `enqueue`.
    let server = TestServer::start();
    let job = |name: &str| act::with(name.into(), Vec::new()).on(server.client());
    let mut enqueue = pin!(job("async").enqueue());
    let polled = enqueue.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    let Poll::Ready(Err(error)) = polled else { panic!("an error at once, not {polled:?}") };
    assert!(error.to_string().contains("outside a tokio runtime"), "{error}");
    assert!(error.to_string().contains("enqueue_blocking()"), "{error}");

    job("blocking").enqueue_blocking().expect("enqueued");
    job("blocking").delay(SOON).enqueue_blocking().expect("scheduled");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    runtime.block_on(async {
        job("in a runtime").enqueue_blocking().expect("enqueued");
        job("in a runtime").enqueue().await.expect("enqueued");
    });
    assert_eq!(server.redis().len("hworker-jobs-default"), 3);
    assert_eq!(server.redis().len("hworker-scheduled-default"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_of_one_call_that_are_wrong_are_said_at_once() {
    // Guard: the checks of `Enqueue::encode`, before anything is sent.
    let server = TestServer::start();
    let job = act::with("wrong".into(), Vec::new()).on(server.client());
    let wrong = job.queue("a b").max_attempts(0).timeout(Duration::ZERO).backoff("soon");
    let error = wrong.enqueue().await.expect_err("refused");
    let Error::Config(problems) = &error else { panic!("{error:?}") };
    assert_eq!(problems.iter().count(), 4, "{error}");
    for word in ["`a b`", "max_attempts", "timeout", "`soon`"] {
        assert!(error.to_string().contains(word), "{error}");
    }
    assert!(server.redis().keys("*").is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delayed_job_whose_bell_may_not_be_rung_is_not_in() {
    // A user who may do all but `LPUSH` -> refused, and nothing is scheduled.
    // Guard: `schedule.lua` rings before it adds.
    let server = TestServer::alone();
    let rules = ["ACL", "SETUSER", "delays", "on", ">k", "~*", "&*", "+@all", "-lpush"];
    server.redis().ask::<String>(&rules);
    let client = Client::new(format!("{}?user=delays&pass=k", server.url())).expect("a client");
    let error = act::with("job".into(), Vec::new()).on(&client).delay(SOON).enqueue().await;
    let error = error.expect_err("refused");
    assert!(matches!(error, Error::Refused { .. }), "{error}");
    assert_eq!(server.redis().len("hworker-scheduled-default"), 0);
}
