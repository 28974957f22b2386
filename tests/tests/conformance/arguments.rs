//! Arguments on their way, and jobs whose signature or name has changed since they were enqueued.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use hworker::{Context, Outcome, State};
use hworker_tests::{InProcess, TestServer};
use serde::{Deserialize, Serialize};

use crate::SOON;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum Shape {
    Point,
    Circle(f64),
    Named { label: String, inner: Option<Box<Shape>> },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Everything {
    signed: Vec<i64>,
    unsigned: Vec<u64>,
    wide: (i128, u128),
    floats: Vec<f64>,
    text: String,
    shapes: Vec<Shape>,
    nothing: Option<u8>,
    something: Option<Vec<Option<String>>>,
    empty: Vec<u8>,
    no_entries: BTreeMap<String, u8>,
    entries: BTreeMap<i8, char>,
}

type Received = Arc<Mutex<Vec<((), String, Vec<u64>, Everything)>>>;

#[hworker::job(backoff = "50ms")]
async fn take(
    unit: (),
    text: &str,
    numbers: &[u64],
    everything: Everything,
    State(received): State<Received>,
    context: Context,
) -> Outcome {
    received.lock().expect("no panic").push((unit, text.into(), numbers.to_vec(), everything));
    // Once more, from the scheduled jobs.
    if context.attempt() == 1 { Outcome::Retry("again".into()) } else { Outcome::Success }
}

#[tokio::test(flavor = "multi_thread")]
async fn q1_typed_enqueue() {
    // Enqueue job with args -> worker body receives equal args (unit, ints at i64/u64 limits, floats, unicode, NUL, nested,
    // Option, empty vec and map), in the attempts that follow too.
    // Guard: no script parses an envelope, and a rewrite keeps the bytes of `args`.
    let server = TestServer::start();
    let received = Received::default();
    let _worker = InProcess::run(server.worker().register::<take>().state(Arc::clone(&received)));
    let text = "\u{0}\u{1}\u{7f}\"\\/\u{1F980}e\u{301}\u{FFFF}\u{10FFFF}\r\n".to_owned();
    let everything = Everything {
        signed: vec![i64::MIN, -1, 0, i64::MAX, -9_007_199_254_740_993],
        unsigned: vec![0, u64::MAX, 9_007_199_254_740_993],
        wide: (i128::MIN, u128::MAX),
        floats: vec![0.1, -0.0, 5e-324, f64::MIN_POSITIVE, f64::MAX, f64::MIN, 1e100, 3.0],
        text: text.clone(),
        shapes: vec![
            Shape::Point,
            Shape::Circle(1.5),
            Shape::Named { label: String::new(), inner: Some(Box::new(Shape::Point)) },
        ],
        nothing: None,
        something: Some(vec![None, Some("x".into())]),
        empty: vec![],
        no_entries: BTreeMap::new(),
        entries: BTreeMap::from([(-128, '\u{0}'), (127, '\u{1F980}')]),
    };
    let numbers = vec![u64::MAX, 0];
    let job = take::with((), text.clone(), numbers.clone(), everything.clone());
    job.on(server.client()).enqueue().await.expect("enqueued");
    server.eventually("two attempts", SOON, || received.lock().expect("no panic").len() == 2);
    for got in received.lock().expect("no panic").iter() {
        assert_eq!(*got, ((), text.clone(), numbers.clone(), everything.clone()));
        // Which `==` does not tell from 0.0.
        assert!(got.3.floats[1].is_sign_negative());
    }
    server.drained(SOON);
}

type Texts = Arc<Mutex<Vec<String>>>;

#[hworker::job(name = "letters.send", aliases = ["send_letter", "mail-letter"])]
async fn send_letter_by_mail(
    to: String,
    subject: Option<String>,
    #[serde(default)] copies: u8,
    State(texts): State<Texts>,
) {
    texts.lock().expect("no panic").push(format!("{to} {subject:?} {copies}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_of_an_older_signature_and_name_keep_running() {
    // A job that was renamed with an alias for each old name, and that got an `Option` parameter and one with a default
    // -> jobs enqueued before run; those of the new name too, and nothing is broken.
    // Guard: arguments are an object by name; aliases are in the table by which jobs are dispatched.
    let server = TestServer::start();
    let push = |envelope: &str| {
        server.redis().ask::<u64>(&["LPUSH", "hworker-jobs-default", envelope]);
    };
    push(r#"{"v":1,"id":"1","job":"send_letter","args":{"to":"a"}}"#);
    push(r#"{"v":1,"id":"2","job":"mail-letter","args":{"to":"b","subject":"s"}}"#);
    push(r#"{"v":1,"id":"3","job":"letters.send","args":{"to":"c","subject":null,"gone":1}}"#);
    send_letter_by_mail::with("d".into(), Some("t".into()), 2)
        .on(server.client())
        .enqueue()
        .await
        .expect("enqueued");

    let texts = Texts::default();
    let worker = server.worker().concurrency(1).register::<send_letter_by_mail>();
    let worker = InProcess::run(worker.state(Arc::clone(&texts)));
    server.eventually("all run", SOON, || texts.lock().expect("no panic").len() == 4);
    let expected = ["a None 0", "b Some(\"s\") 0", "c None 0", "d Some(\"t\") 2"];
    assert_eq!(*texts.lock().expect("no panic"), expected);
    server.drained(SOON);
    // Jobs of an old name are counted under the new one.
    assert_eq!(server.counter("processed:letters.send"), 4);
    worker.stop().await;
}
