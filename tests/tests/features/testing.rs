//! Rows TS4 to TS7, TS10: tests of a program's own.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use hworker::testing::{self, Kit, Performed};
use hworker::{
    Around, Batch, BoxError, Bulk, Client, Context, Error, EventKind, Layer, Next, Priority, State,
    assert_enqueued, refute_enqueued,
};
use serde_json::{Value, json};

#[hworker::job(queue = "testing", keep_result = "1h")]
async fn greet(name: String, times: u32) -> Result<String, BoxError> {
    Ok(format!("hello {name}").repeat(times as usize))
}

/// Fails until its third attempt, then has two more jobs done, one of them tomorrow.
#[hworker::job(queue = "testing", max_attempts = 5, backoff = "1h")]
async fn persist(name: String, context: Context, State(mail): State<Mail>) -> Result<(), BoxError> {
    mail.0.lock().expect("no panic").push(format!("{name} {}", context.attempt()));
    if context.attempt() < 3 {
        return Err("not yet".into());
    }
    greet::enqueue(name.clone(), 1).await?;
    note::with(name).delay(Duration::from_secs(86_400)).enqueue().await?;
    Ok(())
}

#[hworker::job(queue = "testing")]
async fn note(text: String, State(mail): State<Mail>) {
    mail.0.lock().expect("no panic").push(text);
}

#[hworker::job(queue = "testing", max_attempts = 1)]
fn divide(a: u32, b: u32) -> Result<(), BoxError> {
    a.checked_div(b).ok_or("by zero")?;
    Ok(())
}

#[hworker::job(queue = "testing", timeout = "50ms")]
async fn waits() {
    std::future::pending::<()>().await;
}

#[hworker::job(queue = "testing")]
async fn counts(to: u32, context: Context) -> Result<(), BoxError> {
    let from: u32 = context.restored().await?.unwrap_or(0);
    context.log(format_args!("from {from}"));
    context.progress(u64::from(to), u64::from(to)).note("counted");
    context.checkpoint(&to)?;
    Err(hworker::snooze(Duration::from_secs(7)).into())
}

/// What jobs have said.
#[derive(Clone, Default)]
struct Mail(Arc<Mutex<Vec<String>>>);

impl Mail {
    fn all(&self) -> Vec<String> {
        self.0.lock().expect("no panic").clone()
    }
}

/// Notes each job that runs.
struct Noting(Mail);

impl Layer for Noting {
    fn around<'a>(&'a self, attempt: &'a Context, next: Next<'a>) -> Around<'a> {
        self.0.0.lock().expect("no panic").push(format!("around {}", attempt.job()));
        Box::pin(next.run())
    }
}

/// What a failed assertion says.
fn said(assertion: impl FnOnce()) -> String {
    let panic =
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(assertion)).expect_err("it fails");
    let fixed = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    fixed.unwrap_or_else(|| panic.downcast_ref::<String>().expect("a text").clone())
}

#[hworker::test]
async fn ts5_what_was_enqueued_is_asked_for(kit: Kit) {
    // Jobs by the default client and by one of the program's own, delayed, in bulk, by name, from a task and from a thread that blocks -> all are
    // recorded with what they say, and no server is asked. An assertion that fails says what there is.
    let own = Client::new("redis://127.0.0.1:1").expect("a client");
    greet::enqueue("ada".into(), 1).await.expect("enqueued");
    let later = greet::with("bob".into(), 2).delay(Duration::from_secs(60)).on(&own);
    later.queue("mail").priority(Priority::High).tag("vip").enqueue().await.expect("enqueued");
    let bulk: Bulk = (0..3).map(|n| divide::with(n, 1)).collect();
    assert_eq!(bulk.enqueue().await.expect("enqueued").len(), 3);
    assert_eq!(
        divide::enqueue_many((0..2).map(|n| divide::with(n, 2))).await.expect("enqueued"),
        2
    );
    tokio::spawn(async { note::enqueue("spawned".into()).await.expect("enqueued") })
        .await
        .expect("ran");
    let blocking = || note::with("blocking".into()).enqueue_blocking().expect("enqueued");
    tokio::task::spawn_blocking(blocking).await.expect("ran");
    let by_name = own.job_by_name("greet", json!({"name": "eve", "times": 9}).to_string());
    by_name.queue("testing").enqueue().await.expect("enqueued");

    assert_enqueued!(greet { name: "ada", times: 1 }, queue = "testing", within = "0s", count = 1);
    assert_enqueued!(
        greet { name: "bob", .. },
        queue = "mail",
        within = "1m",
        tag = "vip",
        priority = Priority::High
    );
    assert_enqueued!(greet, count = 3);
    assert_enqueued!(divide { b: 1 }, count = 3);
    assert_enqueued!(divide { b: 2 }, count = 2);
    assert_enqueued!(note { text: "spawned" });
    assert_enqueued!(note { text: "blocking" });
    refute_enqueued!(greet { name: "bob" }, within = "59s");
    refute_enqueued!(waits);
    let greetings = kit.enqueued::<greet>();
    assert_eq!(greetings[1].args.name, "bob");
    assert!(greetings[1].delay.is_some_and(|delay| delay > Duration::from_secs(50)));
    assert_eq!((greetings[2].args.name.as_str(), greetings[2].args.times), ("eve", 9));
    let why = said(|| assert_enqueued!(greet { name: "zoe" }, queue = "mail"));
    assert!(why.contains("0 enqueued greet { name: \"zoe\" }, queue = \"mail\""), "{why}");
    assert!(why.contains(r#"greet {"name":"ada","times":1} on testing"#), "{why}");
    kit.clear();
    refute_enqueued!(greet);
}

/// Tests of one process at the same time.
async fn alone(kit: &Kit, number: u32) {
    for _ in 0..50 {
        tokio::spawn(async move { divide::enqueue(number, 1).await })
            .await
            .expect("ran")
            .expect("enqueued");
        tokio::task::yield_now().await;
    }
    let numbers: Vec<_> = kit.enqueued::<divide>().iter().map(|job| job.args.a).collect();
    assert_eq!(numbers, [number; 50]);
    let drained = kit.drain().await.expect("drained");
    assert_eq!(drained.done, 50);
}

#[hworker::test]
async fn ts10_a_test_sees_its_own_jobs_alone(kit: Kit) {
    alone(&kit, 1).await;
}

#[hworker::test(flavor = "multi_thread", worker_threads = 3)]
async fn ts10_and_so_does_another_one_on_several_threads(kit: Kit) {
    alone(&kit, 2).await;
}

#[hworker::test]
async fn ts10_a_test_that_takes_no_kit_may_return_an_error() -> Result<(), Error> {
    greet::enqueue("ada".into(), 1).await?;
    assert_enqueued!(greet);
    Ok(())
}

#[tokio::test]
async fn ts7_a_job_runs_in_place() {
    // Async and blocking bodies -> what they return, why they fail, when they would run again, what they report; arguments go through the JSON; a timeout
    // counts, a panic is caught; a state that is missing is named. No server is there.
    let done: Performed<String> =
        testing::perform(greet::with("ada".into(), 2)).await.expect("run");
    assert_eq!(done.value(), "hello adahello ada");
    testing::perform(divide::with(4, 2)).await.expect("run").value();
    let failed = testing::perform(divide::with(4, 0)).await.expect("run");
    assert_eq!(
        (failed.kind, failed.error, failed.message.as_deref()),
        (EventKind::Failed, Some("error"), Some("by zero"))
    );
    let late = testing::perform(waits::with()).await.expect("run");
    assert_eq!((late.kind, late.error), (EventKind::Retried, Some("timeout")));
    assert!(late.again_in.is_some());
    let counted = testing::perform(counts::with(9)).attempt(2).restored(&5_u32).await.expect("run");
    assert_eq!(
        (counted.kind, counted.again_in),
        (EventKind::Snoozed, Some(Duration::from_secs(7)))
    );
    assert_eq!(counted.log, ["from 5"]);
    assert_eq!(counted.checkpoint::<u32>(), Some(9));
    let progress = counted.progress.expect("a progress");
    assert_eq!(
        (progress.done, progress.note.as_deref(), progress.attempt),
        (9, Some("counted"), 2)
    );
    let error = testing::perform(note::with("a".into())).await.expect_err("it lacks something");
    assert!(error.to_string().contains("State<") && error.to_string().contains("Mail"), "{error}");
    let mail = Mail::default();
    let noted =
        testing::perform(note::with("a".into())).state(mail.clone()).layer(Noting(mail.clone()));
    assert_eq!(noted.await.expect("run").kind, EventKind::Done);
    assert_eq!(mail.all(), ["around note", "a"]);
}

#[hworker::test]
async fn ts7_what_a_body_enqueues_is_recorded(kit: Kit) {
    let mail = Mail::default();
    kit.state(mail.clone());
    let done = kit.perform(persist::with("ada".into())).attempt(3).await.expect("run");
    assert_eq!((done.kind, mail.all()), (EventKind::Done, vec!["ada 3".to_owned()]));
    assert_enqueued!(greet { name: "ada" });
    assert_enqueued!(note { text: "ada" }, within = "1d");
    refute_enqueued!(note { text: "ada" }, within = "23h");
}

#[hworker::test]
async fn ts4_jobs_run_when_they_are_enqueued(kit: Kit) {
    // Inline -> the body has run when the enqueue returns, with layers, and what it enqueues too; a failure is no failure of the enqueue.
    let mail = Mail::default();
    kit.state(mail.clone()).layer(Noting(mail.clone()));
    kit.run_inline();
    note::with("now".into()).delay(Duration::from_secs(60)).enqueue().await.expect("enqueued");
    assert_eq!(mail.all(), ["around note", "now"]);
    greet::enqueue("ada".into(), 1).await.expect("enqueued");
    divide::enqueue(1, 0).await.expect("enqueued");
    let performed = kit.performed();
    let kinds: Vec<_> = performed.iter().map(|done| done.kind).collect();
    assert_eq!(kinds, [EventKind::Done, EventKind::Done, EventKind::Failed]);
    assert_eq!(performed[1].clone().value(), Value::from("hello ada"));
    assert_enqueued!(note, count = 1);
}

#[hworker::test]
async fn ts6_all_that_is_enqueued_is_drained(kit: Kit) {
    // Retries with an hour between them, jobs that jobs enqueue, one of them for tomorrow, one that fails for good, a batch with its callback -> all run,
    // in order, at once, and are counted.
    let mail = Mail::default();
    kit.state(mail.clone()).layer(Noting(Mail::default()));
    persist::enqueue("ada".into()).await.expect("enqueued");
    divide::enqueue(1, 0).await.expect("enqueued");
    for (text, minutes) in [("third", 3), ("first", 1), ("second", 2)] {
        let later = note::with(text.into()).delay(Duration::from_secs(60 * minutes));
        later.enqueue().await.expect("enqueued");
    }
    let drained = kit.drain().await.expect("drained");
    // The one that persists is done, as are its two and the three notes.
    assert_eq!((drained.done, drained.failed, drained.retried), (6, 1, 2));
    let errors: Vec<_> = drained.errors.iter().map(|(job, why)| format!("{job}: {why}")).collect();
    assert_eq!(errors, ["persist: not yet", "divide: by zero", "persist: not yet"]);
    assert_eq!(mail.all(), ["ada 1", "first", "second", "third", "ada 2", "ada 3", "ada"]);

    let client = kit.with_server().await.expect("a server");
    assert_eq!(client.inspect("testing").counts().await.expect("counted").failed, 1);
    let batch = Batch::new("numbers").add((1..4).map(|n| divide::with(9, n)));
    let batch =
        batch.on_success(note::with("all of them".into())).enqueue().await.expect("enqueued");
    assert_enqueued!(divide { a: 9 }, count = 3);
    assert_eq!(kit.drain().await.expect("drained").done, 4);
    assert_eq!(mail.all().last().map(String::as_str), Some("all of them"));
    assert!(client.batch(&batch).status().await.expect("read").is_some());
    assert_eq!(kit.drain().await.expect("drained").done, 0);
    let handle = greet::enqueue("eve".into(), 1).await.expect("enqueued");
    kit.drain().await.expect("drained");
    assert_eq!(handle.result().await.expect("a result"), "hello eve");
}

#[hworker::test]
async fn ts6_many_are_counted_one_by_one(kit: Kit) {
    // More jobs than an observer is told of where it is slow -> each is counted; what was drained before is not counted again.
    // Guard: `counted` and `since` in drain.rs.
    let bulk: Bulk = (0..3_000).map(|n| divide::with(n, 1)).collect();
    bulk.enqueue().await.expect("enqueued");
    assert_eq!(kit.drain().await.expect("drained").done, 3_000);
    divide::enqueue(1, 0).await.expect("enqueued");
    let drained = kit.drain().await.expect("drained");
    assert_eq!((drained.done, drained.failed), (0, 1));
}

#[hworker::test]
async fn ts6_a_large_bulk_of_all_or_none_needs_a_server(kit: Kit) {
    // It is put aside at the server first -> without one it is refused, and nothing is recorded; with one all of them come.
    let jobs = || (0..9_001).map(|n| divide::with(n, 1));
    let error = Bulk::lazy(jobs()).all_or_nothing().enqueue().await.expect_err("no server");
    assert!(error.to_string().contains("kit.with_server()"), "{error}");
    refute_enqueued!(divide);
    let client = kit.with_server().await.expect("a server");
    let count = Bulk::lazy(jobs()).all_or_nothing().enqueue().await.expect("enqueued");
    let waiting = client.inspect("testing").counts().await.expect("counted").waiting;
    assert_eq!((count, waiting), (9_001, 9_001));
}

#[hworker::test]
async fn ts6_what_cannot_be_drained_is_said(kit: Kit) {
    // A state is missing, a batch without a server -> an error that says what to do.
    note::enqueue("a".into()).await.expect("enqueued");
    let batch = Batch::new("empty").enqueue().await.expect_err("no server");
    assert!(batch.to_string().contains("kit.with_server()"), "{batch}");
    let error = kit.drain().await.expect_err("it lacks something");
    assert!(
        error.to_string().contains("job `note` cannot run") && error.to_string().contains("Mail"),
        "{error}"
    );
}

#[test]
fn ts5_outside_of_a_test_nothing_is_recorded() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let why = said(|| runtime.expect("a runtime").block_on(async { assert_enqueued!(greet) }));
    assert!(why.contains("#[hworker::test]"), "{why}");
}
