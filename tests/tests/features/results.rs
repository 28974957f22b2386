//! Rows D10, RS1 to RS3, RS9: results of jobs. And `faults.md`, "Results and waiting".

use std::io::Read as _;
use std::time::{Duration, Instant};

use hworker::{
    Action, Changed, Client, Context, Error, Handle, Job, JobState, Receipt, ResultError,
};
use hworker_tests::{
    Ending, InProcess, NoSum, Process, Proxy, Sum, TestServer, isolated_jobs, keep, keep_isolated,
    produce, wait_for,
};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;
use tokio::task::JoinSet;

use crate::SOON;

const HOUR: Duration = Duration::from_secs(3600);

/// A look that waits for nothing.
const NOW: Duration = Duration::ZERO;

const KEYS: [(&str, [u8; 32]); 1] = [("k", [1; 32])];

/// A text that only results have.
const SECRET: &str = "s3cret-result";

fn worker(server: &TestServer) -> InProcess {
    let jobs = isolated_jobs().with::<much>().with::<nan>().with::<unwritable>().with::<nothing>();
    InProcess::run(server.worker().registry(jobs.with::<short>()).concurrency(8))
}

async fn enqueue(server: &TestServer, name: &str, endings: Vec<Ending>) -> Handle<keep> {
    let job = keep::with(name.into(), None, endings).on(server.client());
    job.enqueue().await.expect("enqueued")
}

async fn gated(server: &TestServer, name: &str, gate: &str) -> Handle<keep> {
    let job = keep::with(name.into(), Some(gate.into()), Vec::new()).on(server.client());
    job.enqueue().await.expect("enqueued")
}

/// What is kept of a job, as it is stored.
fn stored<J: Job>(server: &TestServer, handle: &Handle<J>) -> Value {
    let text: String = server.redis().ask(&["GET", &key(handle)]);
    serde_json::from_str(&text).expect("JSON")
}

fn key<J: Job>(handle: &Handle<J>) -> String {
    format!("hworker-job-{}:{}", handle.queue(), handle.as_str())
}

/// How many times keys were read. Scripts of workers read some too, so no worker may run.
fn reads(server: &TestServer) -> u64 {
    let stats: String = server.redis().ask(&["INFO", "commandstats"]);
    let of_get = stats.lines().find_map(|line| line.strip_prefix("cmdstat_get:calls="));
    of_get.and_then(|rest| rest.split(',').next()?.parse().ok()).unwrap_or(0)
}

#[hworker::job(keep_result = "1m")]
async fn much(
    bytes: usize,
    #[inject] runs: hworker_tests::Runs,
    context: Context,
) -> Result<String, String> {
    runs.note("much", "begin", 0, hworker_tests::Runner::from(&context));
    Ok("x".repeat(bytes))
}

#[hworker::job(keep_result = "1m")]
async fn nan() -> Result<f64, String> {
    Ok(f64::NAN)
}

#[derive(Deserialize)]
struct Unwritable;

impl Serialize for Unwritable {
    fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        panic!("it cannot be written")
    }
}

#[hworker::job(keep_result = "1m")]
async fn unwritable() -> Result<Unwritable, String> {
    Ok(Unwritable)
}

#[hworker::job(keep_result = "1m")]
fn nothing() {}

#[hworker::job(keep_result = "1ms")]
async fn short() -> Result<u64, String> {
    Ok(7)
}

#[hworker::job(encrypted, keep_result = "1m", keep_error, max_attempts = 1)]
async fn secret(fails: bool) -> Result<String, NoSum> {
    if fails { Err(NoSum::Refused(SECRET.into())) } else { Ok(SECRET.into()) }
}

#[tokio::test(flavor = "multi_thread")]
async fn d10_rs1_a_result_is_kept_for_its_time() {
    // What the body returned comes back by the id, with its type; the key says how the job ended and has the time of its type. A job that
    // returns nothing tells that it is done. A plain one writes no key.
    // Guard: the duty `keep`, and `PX`.
    let server = TestServer::start();
    let _worker = worker(&server);
    let handle = enqueue(&server, "a", vec![Ending::Gives(Sum::of(7))]).await;
    assert_eq!(handle.within(SOON).await.expect("a result"), Sum::of(7));
    let record = stored(&server, &handle);
    assert_eq!((&record["state"], &record["attempt"]), (&"done".into(), &1.into()));
    assert!(record["at"].is_u64() && record["worker"].is_string(), "{record}");
    assert_eq!(record["result"]["total"], 7);
    let left: u64 = server.redis().ask(&["PTTL", &key(&handle)]);
    assert!((30_000..=60_000).contains(&left), "{left}");
    let no_value = nothing::with().on(server.client()).enqueue().await.expect("enqueued");
    no_value.within(SOON).await.expect("done");
    server.enqueue("plain", Vec::new()).await;
    server.eventually("all are done", SOON, || server.counter("processed") == 3);
    assert_eq!(server.redis().keys("hworker-job-*").len(), 2);
    assert_eq!(handle.clone().await.expect("again"), Sum::of(7), "reading takes nothing away");
}

#[tokio::test(flavor = "multi_thread")]
async fn rs1_a_result_is_shown_in_a_terminal() {
    // Of a job that is done: by its id, as text and as JSON.
    // Guard: `with_kept` in inspect/mod.rs.
    let server = TestServer::start();
    let _worker = worker(&server);
    let handle = enqueue(&server, "a", vec![Ending::Gives(Sum::of(4_711))]).await;
    handle.within(SOON).await.expect("a result");
    let shown = || crate::cli::call(&server, &["jobs", "show", handle.as_str()]);
    server.eventually("its type is known", SOON, || shown().out.contains("4711"));
    let json = crate::cli::call(&server, &["jobs", "show", handle.as_str(), "--json"]);
    assert_eq!(json.json()[0]["result"]["total"], 4_711, "{}", json.out);
}

#[tokio::test(flavor = "multi_thread")]
async fn rs1_what_is_gone_is_told_as_gone() {
    // A result whose time is over is not there, and the error says that this may be why; that of a job which has not ended says no such thing.
    // Guard: `may_be_gone`.
    let server = TestServer::start();
    let _worker = worker(&server);
    let waits = gated(&server, "waits", "never").await;
    let gone = short::with().on(server.client()).enqueue().await.expect("enqueued");
    server.eventually("it is done", SOON, || server.counter("processed") == 1);
    server.eventually("it is gone", SOON, || server.redis().keys(&key(&gone)).is_empty());
    let expected = |error, may_be_gone| match error {
        Err(ResultError::NotYet { may_be_gone: may_be, .. }) => may_be == may_be_gone,
        _ => false,
    };
    assert!(expected(gone.within(NOW).await.map(drop).map_err(into_any), true));
    assert!(expected(waits.within(NOW).await.map(drop).map_err(into_any), false));
}

/// The same without the type of the error.
fn into_any<E>(error: ResultError<E>) -> ResultError {
    match error {
        ResultError::NotYet { id, waited, may_be_gone } => {
            ResultError::NotYet { id, waited, may_be_gone }
        }
        error => ResultError::Unavailable(error.to_string()),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rs2_another_process_waits() {
    // A process that knows only the text of the handle waits for a job, which ends meanwhile or has ended before.
    // Guard: `Handle::from_str`.
    let server = TestServer::start();
    let _worker = worker(&server);
    let handle = gated(&server, "a", "a").await;
    let text = handle.to_string();
    let json = serde_json::to_string(&handle).expect("written");
    assert_eq!(serde_json::from_str::<Handle<keep>>(&json).expect("read"), handle);
    let proxy = Proxy::before(&server);
    let url = proxy.url();
    let through = [("HWORKER_REDIS_URL", &*url)];
    let waits = std::thread::scope(|scope| {
        let waits = scope.spawn(|| produce(&server, &through, &[&text]));
        server.eventually("it reads", SOON, || proxy.count("GET") > 0);
        server.open("a");
        waits.join().expect("it ends")
    });
    assert_eq!(waits, ["0"]);
    assert_eq!(produce(&server, &[], &[&text]), ["0"], "it has ended before");
    for wrong in ["", "default", "default/", "a b/c", "default#1.0/x", "default/\n"] {
        assert!(matches!(wrong.parse::<Handle<keep>>(), Err(Error::Config(_))), "{wrong}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rs2_the_server_tells_of_the_end() {
    // `faults.md`, "Results and waiting", 29: a job that ends between look and wait is not missed; and one that ends later is told of at once,
    // and not by the next look. A busy machine delays what it will: the shortest wait is held against the bound.
    // Guard: `Connection::track`.
    let server = TestServer::start();
    let _worker = worker(&server);
    let proxy = Proxy::before(&server);
    let client = Client::new(proxy.url()).expect("a client");
    let mut shortest = HOUR;
    for n in 0..5 {
        let gate = format!("gate {n}");
        let handle = gated(&server, &gate, &gate).await.on(&client);
        let before = proxy.count("GET");
        let waits = tokio::spawn(async move { handle.within(SOON).await });
        server.eventually("it is read", SOON, || proxy.count("GET") > before);
        let opened = Instant::now();
        server.open(&gate);
        waits.await.expect("no panic").expect("a result");
        shortest = shortest.min(opened.elapsed());
    }
    assert!(shortest < Duration::from_millis(700), "{shortest:?}");
    let mut all = JoinSet::new();
    for n in 0..200 {
        let handle = enqueue(&server, &format!("job {n}"), Vec::new()).await;
        all.spawn(async move { handle.within(SOON).await });
    }
    assert!(all.join_all().await.iter().all(Result::is_ok));
}

#[tokio::test(flavor = "multi_thread")]
async fn rs2_pushes_that_do_not_come_through_cost_time_alone() {
    // `faults.md`, "Results and waiting", 30: a proxy passes on no word of the server that was not asked for.
    // Guard: the reads by time in `Reader::run`.
    let server = TestServer::start();
    let _worker = worker(&server);
    let proxy = Proxy::before(&server);
    proxy.swallow_pushes();
    let client = Client::new(proxy.url()).expect("a client");
    let handle = gated(&server, "a", "a").await.on(&client);
    let waits = tokio::spawn(async move { handle.within(SOON).await });
    server.eventually("it is read", SOON, || proxy.count("GET") > 0);
    server.open("a");
    waits.await.expect("no panic").expect("a result");
}

#[tokio::test(flavor = "multi_thread")]
async fn rs2_a_connection_that_ends_is_made_anew() {
    // While it waits every connection ends, and the job ends -> the result comes.
    // Guard: `ended` in `Reader::run`.
    let server = TestServer::start();
    let _worker = worker(&server);
    let proxy = Proxy::before(&server);
    let client = Client::new(proxy.url()).expect("a client");
    let handle = gated(&server, "a", "a").await.on(&client);
    let waits = tokio::spawn(async move { handle.within(SOON).await });
    server.eventually("it is read", SOON, || proxy.count("GET") > 0);
    proxy.cut();
    server.eventually("it is read again", SOON, || proxy.count("GET") > 1);
    server.open("a");
    waits.await.expect("no panic").expect("a result");
}

#[tokio::test(flavor = "multi_thread")]
async fn rs2_without_a_right_to_be_told_it_reads() {
    // A user that may not have the server tell: it reads, again and again. One that may not read either is told so at once.
    // Guard: `Ok(false)` in `Connection::track`; `Seen::is_final`.
    let server = TestServer::start();
    let (url, _) = server.url_of_user("reader", "pw", "*");
    let _: String = server.redis().ask(&["ACL", "SETUSER", "reader", "-client|tracking"]);
    let client = Client::new(url).expect("a client");
    // The user may have a database of its own.
    let job = keep::with("a".into(), Some("a".into()), Vec::new()).on(&client);
    let handle = job.enqueue().await.expect("enqueued");
    let again = handle.clone();
    let waits = tokio::spawn(async move { handle.within(SOON).await });
    let before = reads(&server);
    server.eventually("it is read", SOON, || reads(&server) > before + 2);
    server.open("a");
    let worker = server.worker().client(&client).registry(isolated_jobs());
    let worker = InProcess::run(worker.concurrency(2));
    waits.await.expect("no panic").expect("a result");
    worker.stop().await;
    let _: String = server.redis().ask(&["ACL", "SETUSER", "reader", "-get"]);
    let refused = again.within(HOUR).await;
    assert!(matches!(refused, Err(ResultError::Unavailable(_))), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn rs2_many_wait_over_one_connection() {
    // `faults.md`, "Results and waiting", 31: 2,000 tasks wait for as many jobs, and 500 for one of them, over one connection, and no key is read by more
    // than one.
    // Guard: `Awaited::of`.
    let server = TestServer::start();
    let client = Client::new(server.url()).expect("a client");
    let mut handles = Vec::new();
    for n in 0..2_000 {
        let job = keep::with(format!("job {n}"), None, Vec::new()).on(&client);
        handles.push(job.enqueue().await.expect("enqueued"));
    }
    let before = reads(&server);
    let mut all = JoinSet::new();
    for handle in handles.iter().chain(vec![&handles[0]; 500]) {
        let handle = handle.clone();
        all.spawn(async move { handle.within(HOUR).await });
    }
    server.eventually("all are read", SOON, || reads(&server) >= before + 2_000);
    let tracking = "flags=t";
    let clients: String = server.redis().ask(&["CLIENT", "LIST"]);
    assert_eq!(clients.lines().filter(|line| line.contains(tracking)).count(), 1, "{clients}");
    let _worker = worker(&server);
    let results = all.join_all().await;
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 2_500);
}

#[tokio::test(flavor = "multi_thread")]
async fn rs3_results_and_errors_have_their_types() {
    // The last attempt counts: an error and then a value is that value, a value after it is never asked for; two errors are the second one, with
    // its type, kind, text and attempt. A panic has its text and no error.
    // Guard: `Evidence::error`; `ErrorValue` in `decide`.
    let server = TestServer::start();
    let _worker = worker(&server);
    let fails = |at| Ending::Fails(NoSum::Overflow { at });
    let late = enqueue(&server, "late", vec![fails(1), Ending::Gives(Sum::of(2))]).await;
    assert_eq!(late.within(SOON).await.expect("a result").total, 2);
    assert_eq!(stored(&server, &late)["attempt"], 2);
    let failed = enqueue(&server, "failed", vec![fails(1), fails(2)]).await;
    let Err(ResultError::Job(failure)) = failed.within(SOON).await else { panic!("it failed") };
    assert_eq!(failure.error, Some(NoSum::Overflow { at: 2 }));
    assert_eq!((&*failure.kind, &*failure.message, failure.attempt), ("error", "no sum", 2));
    let panics = enqueue(&server, "panics", vec![Ending::Panics("ouch".into())]).await;
    let Err(ResultError::Job(failure)) = panics.within(SOON).await else { panic!("it failed") };
    assert_eq!((&*failure.kind, &*failure.message, failure.error), ("panic", "ouch", None));
}

#[tokio::test(flavor = "multi_thread")]
async fn rs3_a_type_that_has_changed_is_told() {
    // A result that does not fit its type here is not lost: its JSON is there, and no log shows it.
    // Guard: `ResultError::Changed`.
    let server = TestServer::start();
    let _worker = worker(&server);
    let handle = much::with(3).on(server.client()).enqueue().await.expect("enqueued");
    handle.within(SOON).await.expect("a result");
    let other: Handle<keep> = handle.to_string().parse().expect("a handle");
    let error = other.on(server.client()).within(SOON).await.expect_err("another type");
    let shown = format!("{error} {error:?}");
    let ResultError::Changed { json, .. } = error else { panic!("{shown}") };
    assert_eq!(json.as_str(), "\"xxx\"");
    assert!(!shown.contains("xxx"), "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn d10_what_cannot_be_kept_fails_no_job() {
    // `faults.md`, "Results and waiting", 34: a result of 3 MB, one that is not a number and one whose type panics -> each job is done, once, and
    // its end says why there is no result.
    // Guard: `LARGEST`; `guarded` in `ReturnValue::of`.
    let server = TestServer::start();
    let _worker = worker(&server);
    let on = server.client();
    let large = much::with(3_000_000).on(on).enqueue().await.expect("enqueued");
    let error = large.within(SOON).await.expect_err("too large");
    assert!(matches!(error, ResultError::TooLarge { bytes: 3_000_002 }), "{error}");
    let length: u64 = server.redis().ask(&["STRLEN", &key(&large)]);
    assert!(length < 500, "{length}");
    let fits = much::with(1_000_000).on(on).enqueue().await.expect("enqueued");
    assert_eq!(fits.within(SOON).await.expect("a result").len(), 1_000_000);
    let nan = nan::with().on(on).enqueue().await.expect("enqueued");
    let error = nan.within(SOON).await.expect_err("no number");
    assert!(matches!(error, ResultError::Unavailable(_)), "{error}");
    let panics = unwritable::with().on(on).enqueue().await.expect("enqueued");
    let error = panics.within(SOON).await.map(drop).expect_err("a panic");
    assert!(matches!(&error, ResultError::Unavailable(why) if why.contains("panic")), "{error}");
    assert_eq!((server.counter("processed"), server.counter("retried")), (4, 0));
    assert_eq!(server.begun("much"), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn is4_results_of_encrypted_jobs_are_sealed() {
    // `faults.md`, "Results and waiting", 35: what an encrypted job returns, its error too, is nowhere in the server as it is; who has the key reads it, and who
    // has not is told so.
    // Guard: `kept::stored`.
    let server = TestServer::start();
    let client = server.client_with_keys(&KEYS);
    let worker = server.worker().client(&client).register::<secret>();
    let _worker = InProcess::run(worker);
    let done = secret::with(false).on(&client).enqueue().await.expect("enqueued");
    let failed = secret::with(true).on(&client).enqueue().await.expect("enqueued");
    assert_eq!(done.within(SOON).await.expect("a result"), SECRET);
    let Err(ResultError::Job(failure)) = failed.within(SOON).await else { panic!("it failed") };
    assert_eq!(failure.error, Some(NoSum::Refused(SECRET.into())));
    assert!(stored(&server, &done)["result"]["$sealed"].is_object());
    assert!(!server.redis().dump().contains(SECRET));
    let without = done.on(server.client()).within(SOON).await;
    assert!(
        matches!(&without, Err(ResultError::Unavailable(why)) if why.contains("`k`")),
        "{without:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn rs2_who_waits_hears_of_every_end() {
    // One that waits and is cancelled by hand, or deleted, one that runs and is cancelled, one that came too late, and one that no worker can
    // read: each is told to whoever waits.
    // Guard: `keeping` in `inspect/change.rs`; the `kept` of `Transition`s in `record::end`; `kept::of_broken` in `break_overdue`.
    let server = TestServer::start();
    let on = server.client();
    let delayed = || keep::with("never".into(), None, Vec::new()).delay(HOUR).on(on);
    let cancelled = delayed().enqueue().await.expect("enqueued");
    assert_eq!(cancelled.cancel().await.expect("cancelled"), JobState::Scheduled);
    let deleted = delayed().enqueue().await.expect("enqueued");
    let job = server.inspect().find(&deleted).await.expect("looked").expect("a job");
    let changed = server.inspect().change(&[job], &Action::Delete).await.expect("deleted");
    assert_eq!(changed, [Changed::Done]);
    let unique = delayed().id("mine").enqueue().await.expect("enqueued");
    unique.cancel().await.expect("cancelled");
    let late = keep::with("late".into(), None, Vec::new()).on(on);
    let late = late.expires_in(Duration::from_millis(1)).enqueue().await.expect("enqueued");
    for handle in [cancelled, deleted, unique] {
        let error = handle.within(SOON).await.expect_err("no result");
        assert!(matches!(error, ResultError::Cancelled(_)), "{error}");
        assert_eq!(handle.state().await.expect("looked"), Some(JobState::Cancelled));
    }
    // Until its time is over.
    tokio::time::sleep(Duration::from_millis(10)).await;
    let jobs = server.worker().registry(isolated_jobs()).concurrency(8);
    let _worker = InProcess::run(jobs.unknown_for(Duration::from_millis(1)));
    let Err(ResultError::Job(failure)) = late.within(SOON).await else { panic!("it is late") };
    assert_eq!(failure.kind, "expired");
    let runs = gated(&server, "runs", "never").await;
    server.eventually("it runs", SOON, || server.begun("runs") == 1);
    assert_eq!(runs.cancel().await.expect("cancelled"), JobState::Running);
    let error = runs.within(SOON).await.expect_err("no result");
    assert!(matches!(error, ResultError::Cancelled(_)), "{error}");
    let wrong = on.job_by_name("keep", r#"{"name":7}"#).enqueue().await.expect("enqueued");
    let broken: Handle<keep> = format!("default/{wrong}").parse().expect("a handle");
    let keyed = r#"{"v":1,"id":"odd","job":"keep","args":{"name":7},"keep":60000}"#;
    let _: u64 = server.redis().ask(&["LPUSH", "hworker-jobs-default", keyed]);
    let odd: Handle<keep> = "default/odd".parse().expect("a handle");
    let Err(ResultError::Job(failure)) = odd.on(on).within(2 * SOON).await else {
        panic!("it is broken")
    };
    assert_eq!(failure.kind, "broken");
    assert!(matches!(broken.on(on).within(NOW).await, Err(ResultError::NotYet { .. })));
}

#[tokio::test(flavor = "multi_thread")]
async fn rs1_a_job_that_runs_again_has_the_result_of_that() {
    // A failed job is put back by hand -> its old end is forgotten, and the next one is told; so is that of a broken payload.
    // Guard: `Keeping::Forget`; the `DEL` in `requeue_broken.lua`.
    let server = TestServer::start();
    let fails = || Ending::Fails(NoSum::Overflow { at: 1 });
    let running = worker(&server);
    let handle = enqueue(&server, "a", vec![fails(), fails(), Ending::Gives(Sum::of(3))]).await;
    assert!(matches!(handle.within(SOON).await, Err(ResultError::Job(_))));
    running.stop().await;
    let job = server.inspect().find(&handle).await.expect("looked").expect("a job");
    let changed = server.inspect().change(&[job], &Action::Retry).await.expect("changed");
    assert_eq!(changed, [Changed::Done]);
    assert!(matches!(handle.within(NOW).await, Err(ResultError::NotYet { .. })));
    assert_eq!(handle.state().await.expect("looked"), Some(JobState::Waiting));
    let broken = format!("hworker-job-default:{}", "odd");
    let payload = r#"{"v":1,"id":"odd","job":"keep","args":[],"keep":60000}"#;
    let _: u64 = server.redis().ask(&["LPUSH", "hworker-jobs-default", payload]);
    let _worker = worker(&server);
    assert_eq!(handle.within(SOON).await.expect("a result").total, 3);
    server.eventually("it is broken", SOON, || !server.redis().keys(&broken).is_empty());
    running_none(&server).await;
    server.inspect().requeue_broken(payload.as_bytes()).await.expect("put back");
}

/// Waits until nothing runs.
async fn running_none(server: &TestServer) {
    server
        .eventually_async("nothing runs", SOON, async || {
            server.inspect().counts().await.expect("counted").running == 0
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rs9_the_state_of_a_job_by_its_id() {
    // Scheduled, waiting, running, done, and nothing once that is gone.
    // Guard: the order of the looks in `Handle::state`.
    let server = TestServer::start();
    let delayed = keep::with("later".into(), None, Vec::new()).delay(HOUR).on(server.client());
    let delayed = delayed.enqueue().await.expect("enqueued");
    assert_eq!(delayed.state().await.expect("looked"), Some(JobState::Scheduled));
    let handle = gated(&server, "a", "a").await;
    assert_eq!(handle.state().await.expect("looked"), Some(JobState::Waiting));
    let _worker = worker(&server);
    server.eventually("it runs", SOON, || server.begun("a") == 1);
    assert_eq!(handle.state().await.expect("looked"), Some(JobState::Running));
    server.open("a");
    handle.within(SOON).await.expect("a result");
    assert_eq!(handle.state().await.expect("looked"), Some(JobState::Done));
    let _: u64 = server.redis().ask(&["DEL", &key(&handle)]);
    assert_eq!(handle.state().await.expect("looked"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn d10_results_of_every_way_to_enqueue_and_run() {
    // On a queue that is spread, of a unique job, in front, with a priority, by its id, of a job in a process of its own: the handle finds it. A job
    // for each worker has no result, and is refused.
    // Guard: `Placed::shard`; `Becomes::Ack`; `NO_RESULT`.
    let server = TestServer::start();
    let client = Client::builder().redis_url(server.url()).shards("default", 3);
    let client = client.build().expect("a client");
    let spread = server.worker().client(&client).registry(isolated_jobs());
    let _worker = InProcess::run(spread.concurrency(8));
    let job = |name: &str| keep::with(name.into(), None, Vec::new()).on(&client);
    let mut handles = Vec::new();
    for n in 0..6 {
        handles.push(job(&format!("plain {n}")).enqueue().await.expect("enqueued"));
    }
    let jobs = [
        job("front").front(),
        job("high").priority(hworker::Priority::High),
        job("id").id("mine"),
        job("unique").unique(hworker::Unique::by("key")),
        job("delayed").delay(Duration::from_millis(10)),
    ];
    for job in jobs {
        handles.push(job.enqueue().await.expect("enqueued"));
    }
    assert!(handles.iter().any(|handle| handle.to_string().starts_with("default#")));
    for handle in handles {
        // As another process would read it.
        let handle: Handle<keep> = handle.to_string().parse().expect("a handle");
        handle.on(server.client()).within(SOON).await.expect("a result");
    }
    let each = job("each").on_each().enqueue().await;
    assert!(matches!(each, Err(Error::Config(_))), "{each:?}");
    let Receipt { id, .. } = job("receipt").submit().await.expect("submitted");
    assert!(!id.as_str().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn d10_the_result_of_a_job_in_a_process_of_its_own() {
    // The value, the error with its type, and the death of the process come through.
    // Guard: `Becomes::Ack`, `Why::error`.
    let server = TestServer::start();
    let mut command = server.command("test-worker");
    command.env("HWORKER_TEST_JOBS", "isolated").env("HWORKER_CONCURRENCY", "4");
    let _worker = Process::start(command);
    let enqueue = async |name: &str, endings| {
        let job = keep_isolated::with(name.into(), None, endings).on(server.client());
        job.enqueue().await.expect("enqueued")
    };
    let given = enqueue("given", vec![Ending::Gives(Sum::saying("ja\n\"nein\""))]).await;
    assert_eq!(given.within(SOON).await.expect("a result"), Sum::saying("ja\n\"nein\""));
    let failed = enqueue("failed", vec![Ending::Fails(NoSum::Overflow { at: 9 })]).await;
    let Err(ResultError::Job(failure)) = failed.within(SOON).await else { panic!("it failed") };
    assert_eq!(failure.error, Some(NoSum::Overflow { at: 9 }));
    let dies = enqueue("dies", vec![Ending::Aborts]).await;
    let Err(ResultError::Job(failure)) = dies.within(SOON).await else { panic!("it died") };
    assert_eq!((&*failure.kind, failure.error), ("killed", None));
}

#[tokio::test(flavor = "multi_thread")]
async fn rs2_a_body_that_waits_is_warned_once() {
    // `faults.md`, "Results and waiting", 33: bodies that wait for results hold their slots; the log says so, once.
    // Guard: `warn_in_a_body`.
    let server = TestServer::start();
    let mut command = server.command("test-worker");
    command.env("HWORKER_TEST_JOBS", "isolated").env("HWORKER_CONCURRENCY", "4");
    command.stderr(std::process::Stdio::piped());
    let mut process = Process::start(command);
    let log = process.log().expect("its log");
    let read = std::thread::spawn(move || {
        let mut text = String::new();
        let mut log = log;
        let _ = log.read_to_string(&mut text);
        text
    });
    for n in 0..3 {
        let handle = enqueue(&server, &format!("job {n}"), Vec::new()).await;
        wait_for::with(handle).on(server.client()).enqueue().await.expect("enqueued");
    }
    server.eventually("all are done", SOON, || server.counter("processed") == 6);
    process.terminate();
    let text = read.join().expect("it ends");
    let warned = text.lines().filter(|line| line.contains("waits for the result of a job `keep`"));
    assert_eq!(warned.count(), 1, "{text}");
}
