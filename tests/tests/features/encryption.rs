//! Row IS4: arguments that the server cannot read, and the keys that they are read with.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use hworker::{Client, Error, JobState, Registry, State, Submitted, Worker};
use hworker_tests::Records as _;
use hworker_tests::{InProcess, TestServer, act, produce};
use serde_json::{Value, json};

use crate::SOON;

/// So soon what does not fit is among the broken.
const AT_ONCE: Duration = Duration::from_millis(1);

const OLD: (&str, [u8; 32]) = ("old", [1; 32]);
const NEW: (&str, [u8; 32]) = ("new", [2; 32]);

/// A text that only arguments have.
const SECRET: &str = "s3cret-argument";

type Told = Arc<Mutex<Vec<String>>>;

/// Fails so many times as it is told.
#[hworker::job(encrypted, backoff = "0s", max_attempts = 2)]
async fn tell(what: String, fails: u32, State(told): State<Told>) -> Result<(), String> {
    let mut told = told.lock().expect("no panic");
    told.push(what.clone());
    let so_far = told.iter().filter(|it| **it == what).count();
    if so_far <= fails as usize { Err("not yet".into()) } else { Ok(()) }
}

#[hworker::job(encrypted = "only")]
async fn tell_only(what: String, State(told): State<Told>) {
    told.lock().expect("no panic").push(what);
}

#[hworker::job]
async fn tell_all(what: String, State(told): State<Told>) {
    told.lock().expect("no panic").push(what);
}

/// One with an argument at a time.
#[hworker::job(encrypted, unique(key = what))]
async fn tell_alone(what: String, State(told): State<Told>) {
    told.lock().expect("no panic").push(what);
}

/// Takes what has these fields and no others.
#[derive(serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Strict {
    what: Option<String>,
    more: Option<String>,
}

/// The same name, from before the type was so strict.
#[hworker::job(name = "tell_strictly", type = TellLoosely, encrypted)]
async fn tell_loosely(strict: std::collections::BTreeMap<String, String>) {
    let _ = strict;
}

#[hworker::job(encrypted)]
async fn tell_strictly(strict: Strict) {
    let _ = strict;
}

fn worker(server: &TestServer, client: &Client, told: &Told) -> InProcess {
    let worker = server.worker().client(client).unknown_for(Duration::from_secs(1));
    let worker = worker.register::<tell>().register::<tell_only>().register::<tell_all>();
    InProcess::run(worker.state(Arc::clone(told)))
}

fn push(server: &TestServer, envelope: &str) {
    let _: u64 = server.redis().ask(&["LPUSH", "hworker-jobs-default", envelope]);
}

/// The envelope at the back of the queue.
fn last(server: &TestServer) -> String {
    server.redis().ask(&["LINDEX", "hworker-jobs-default", "0"])
}

#[track_caller]
fn hidden(server: &TestServer) {
    let all = server.redis().dump();
    assert!(!all.contains(SECRET), "{all}");
}

#[tokio::test(flavor = "multi_thread")]
async fn is4_the_server_never_has_the_arguments() {
    // Jobs of an encrypted type, alone, delayed, in bulk, retried and failed -> their bodies get the arguments, and nothing in the
    // server has them at any time; jobs of other types stay as they are.
    let server = TestServer::start();
    let client = server.client_with_keys(&[NEW]);
    let job = |fails| tell::with(SECRET.into(), fails).on(&client);
    let id = job(0).enqueue().await.expect("enqueued");
    let envelope: Value = serde_json::from_str(&last(&server)).expect("JSON");
    assert_eq!((&envelope["id"], &envelope["job"]), (&json!(id.as_str()), &json!("tell")));
    assert_eq!(envelope["args"]["$sealed"]["key"], "new");
    job(0).delay(Duration::from_millis(300)).enqueue().await.expect("enqueued");
    let bulk: hworker::Bulk = (0..10).map(|_| job(0)).collect();
    bulk.enqueue().await.expect("enqueued");
    hidden(&server);
    tell_all::with("plain".into()).on(&client).enqueue().await.expect("enqueued");
    assert!(last(&server).contains(r#""args":{"what":"plain"}"#), "{}", last(&server));

    let told = Told::default();
    let first = worker(&server, &client, &told);
    server.eventually("all run", SOON, || told.lock().expect("no panic").len() == 13);
    first.stop().await;
    assert_eq!(told.lock().expect("no panic").iter().filter(|it| *it == SECRET).count(), 12);
    told.lock().expect("no panic").clear();
    hidden(&server);

    let _worker = worker(&server, &client, &told);
    job(1).enqueue().await.expect("enqueued");
    server.eventually("it is done", SOON, || server.counter("processed:tell") == 13);
    assert_eq!((told.lock().expect("no panic").len(), server.counter("retried")), (2, 1));
    told.lock().expect("no panic").clear();
    let id = job(9).enqueue().await.expect("enqueued");
    server.eventually("it has failed", SOON, || server.counter("failed") == 1);
    hidden(&server);
    let failed = &server.inspect().failed(0, 9).await.expect("records")[0];
    assert_eq!((failed.id.as_str(), failed.errors().len()), (id.as_str(), 2));
    assert!(failed.args().starts_with(r#"{"$sealed":"#), "{}", failed.args());
    // What failed runs again when its envelope is pushed.
    let mut records: Vec<String> = server.redis().ask(&["HVALS", "hworker-record-default"]);
    let record = records.remove(0);
    let record: Value = serde_json::from_str(&record).expect("JSON");
    push(&server, &record["envelope"].to_string());
    server.eventually("it ran again", SOON, || told.lock().expect("no panic").len() == 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn is4_all_jobs_of_a_client_and_the_size_of_what_is_stored() {
    // A client that encrypts all -> jobs of every type are; what is too large once it is encrypted is refused.
    let server = TestServer::start();
    let (name, key) = NEW;
    let client = Client::builder().redis_url(server.url()).encryption_key(name, &key);
    let client = client.encrypt_all(true).max_payload(1000).build().expect("a client");
    tell_all::with(SECRET.into()).on(&client).enqueue().await.expect("enqueued");
    hidden(&server);
    let large = tell_all::with("x".repeat(700)).on(&client).enqueue().await;
    assert!(matches!(large, Err(Error::Refused { .. })), "{large:?}");
    let told = Told::default();
    let _worker = worker(&server, &client, &told);
    server.eventually("it runs", SOON, || *told.lock().expect("no panic") == [SECRET]);

    let error = Client::builder().redis_url(server.url()).encrypt_all(true).build();
    let error = error.expect_err("without a key").to_string();
    assert!(error.contains("HWORKER_ENCRYPTION_KEYS"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn is4_keys_are_rotated_without_a_gap() {
    // Workers get the new key behind the old one, producers begin with it, the old one goes -> every job runs. One who lacks a
    // key passes its jobs on to one who has it.
    let server = TestServer::start();
    let told = Told::default();
    let [old, both, ready] =
        [&[OLD][..], &[NEW, OLD], &[OLD, NEW]].map(|keys| server.client_with_keys(keys));
    let tells = async |what: &str, client: &Client| {
        tell::with(what.into(), 0).on(client).enqueue().await.expect("enqueued");
    };
    let has_told = |what: &str| told.lock().expect("no panic").iter().any(|it| it == what);
    tells("1", &old).await;
    let prepared = worker(&server, &ready, &told);
    tells("2", &both).await;
    server.eventually("both run", SOON, || has_told("1") && has_told("2"));
    prepared.stop().await;

    let behind = server.worker().client(&old).register::<tell>().state(Arc::clone(&told));
    let behind = InProcess::run(behind.unknown_for(SOON * 10));
    tells("3", &both).await;
    let waits = || server.redis().len("hworker-parked-default") == 1;
    server.eventually("it is parked", SOON, waits);
    let _worker = worker(&server, &both, &told);
    behind.stop().await;
    server.eventually("it runs where the key is", SOON, || has_told("3"));
    assert_eq!(server.counter("broken"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn control_36_the_key_of_a_unique_job_is_hidden_and_stays_while_keys_are_rotated() {
    // A job is unique by an argument that is encrypted, and comes again from clients that have the new key and the old one, in either order -> it
    // is the same, and nothing in the server, nor the list of locks, has the argument. By the new key alone it is another.
    // Guard: `KeyRing::digest`.
    let server = TestServer::start();
    let (old, new) = (("2026-01", OLD.1), ("2026-11", NEW.1));
    let submit = async |keys: &[(&str, [u8; 32])]| {
        let client = server.client_with_keys(keys);
        let job = tell_alone::with(SECRET.into()).on(&client);
        job.submit().await.expect("submitted").submitted
    };
    let exists = Submitted::Exists(Some(JobState::Waiting));
    assert_eq!(submit(&[old]).await, Submitted::New);
    assert_eq!(submit(&[new, old]).await, exists);
    assert_eq!(submit(&[old, new]).await, exists);
    assert_eq!(submit(&[new]).await, Submitted::New);
    hidden(&server);
    let locks = server.client().control("default").locks(10).await.expect("listed");
    assert_eq!(locks.len(), 2, "{locks:?}");
    assert!(!format!("{locks:?}").contains(SECRET), "{locks:?}");
    let (told, client) = (Told::default(), server.client_with_keys(&[new, old]));
    let worker = server.worker().client(&client).register::<tell_alone>();
    let _worker = InProcess::run(worker.state(Arc::clone(&told)));
    server.eventually("both run", SOON, || *told.lock().expect("no panic") == [SECRET, SECRET]);
    let held = || server.redis().len("hworker-jobs-default:unique");
    server.eventually("nothing is held", SOON, || held() == 0);
    hidden(&server);
}

#[tokio::test(flavor = "multi_thread")]
async fn is4_a_wrong_value_of_a_key_costs_no_job() {
    // A worker that has another key under the name -> it parks the jobs for the one that has the right one, and breaks none.
    let server = TestServer::start();
    let (right, wrong) =
        (server.client_with_keys(&[NEW]), server.client_with_keys(&[("new", [3; 32])]));
    let told = Told::default();
    for number in 0..20 {
        tell::with(number.to_string(), 0).on(&right).enqueue().await.expect("enqueued");
    }
    let astray = server.worker().client(&wrong).register::<tell>().state(Arc::clone(&told));
    let astray = InProcess::run(astray.unknown_for(SOON * 10));
    let waits = || server.redis().len("hworker-parked-default") == 20;
    server.eventually("all are parked", SOON, waits);
    let _worker = worker(&server, &right, &told);
    astray.stop().await;
    server.eventually("all run", SOON, || told.lock().expect("no panic").len() == 20);
    assert_eq!(server.counter("broken"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn is4_without_its_key_a_job_is_kept_and_put_back() {
    // A job whose key no worker has -> never run, after `unknown_for` broken with the name of the key; put back once a worker
    // has it -> it runs.
    let server = TestServer::start();
    let (old, new) = (server.client_with_keys(&[OLD]), server.client_with_keys(&[NEW]));
    let told = Told::default();
    tell::with(SECRET.into(), 0).on(&new).enqueue().await.expect("enqueued");
    let without = worker(&server, &old, &told);
    server.eventually("it is broken", SOON * 2, || server.counter("broken") == 1);
    without.stop().await;
    let broken = server.inspect().broken().await.expect("the broken");
    let expected = "arguments of job `tell` encrypted with the key `new`, unknown here";
    assert!(broken[0].reason.starts_with(expected), "{}", broken[0].reason);
    assert!(told.lock().expect("no panic").is_empty());
    server.inspect().requeue_broken(&broken[0].payload).await.expect("put back");
    let _worker = worker(&server, &new, &told);
    server.eventually("it runs", SOON, || *told.lock().expect("no panic") == [SECRET]);
}

#[tokio::test(flavor = "multi_thread")]
async fn is4_what_was_changed_or_moved_is_broken() {
    // Encrypted arguments with another id, in another job type, or changed -> they do not open: parked, then broken. No form that
    // there is, or no id -> broken, byte for byte. None ever runs.
    let server = TestServer::start();
    let client = server.client_with_keys(&[NEW]);
    let id = tell::with(SECRET.into(), 0).on(&client).enqueue().await.expect("enqueued");
    let good: String = server.redis().ask(&["RPOP", "hworker-jobs-default"]);
    let data = good.split(r#""data":""#).nth(1).and_then(|rest| rest.split('"').next());
    let data = data.expect("what is encrypted");
    let changed = [
        (good.replace(data, "?"), "are not base64"),
        (good.replace(&format!(r#""id":"{id}","#), ""), "`id` is missing"),
        (good.replace(id.as_str(), "another"), "do not open"),
        (good.replace(r#""job":"tell""#, r#""job":"tell_all""#), "do not open"),
        (good.replace(data, &format!("AAAA{}", &data[4..])), "do not open"),
    ];
    let told = Told::default();
    let _worker = worker(&server, &client, &told);
    for (envelope, _) in &changed {
        assert_ne!(*envelope, good);
        push(&server, envelope);
    }
    server.eventually("all are broken", SOON * 2, || server.counter("broken") == 5);
    let broken = server.inspect().broken().await.expect("the broken");
    for (envelope, why) in &changed {
        // What was passed on says since when.
        let kept = envelope.trim_end_matches('}').as_bytes();
        let found = broken.iter().find(|broken| broken.payload.starts_with(kept));
        let reason = &found.expect("it is kept as it came").reason;
        assert!(reason.contains(why) && !reason.contains(SECRET), "{why}: {reason}");
    }
    assert!(told.lock().expect("no panic").is_empty());
    push(&server, &good);
    server.eventually("the good one runs", SOON, || *told.lock().expect("no panic") == [SECRET]);
}

#[tokio::test(flavor = "multi_thread")]
async fn is4_arguments_that_do_not_fit_are_broken_without_their_names() {
    // Encrypted arguments with a field that the type refuses -> parked, then broken, with the place, and without the name, which came encrypted.
    let server = TestServer::start();
    let client = server.client_with_keys(&[NEW]);
    let loose = TellLoosely::with([(SECRET.to_owned(), "x".to_owned())].into());
    loose.on(&client).enqueue().await.expect("enqueued");
    let _worker = InProcess::run(
        server.worker().client(&client).register::<tell_strictly>().unknown_for(AT_ONCE),
    );
    server.eventually("it is broken", SOON, || server.counter("broken") == 1);
    let broken = server.inspect().broken().await.expect("the broken");
    assert!(broken[0].reason.contains("unknown field at line 1"), "{}", broken[0].reason);
    hidden(&server);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_reason_of_arguments_that_do_not_fit_is_short() {
    // A field that the type refuses, under a name of a megabyte -> the reason that is kept and logged is not as long.
    // Guard: `REASON_BYTES`.
    let server = TestServer::start();
    let name = "x".repeat(1_000_000);
    push(
        &server,
        &format!(r#"{{"job":"tell_strictly","id":"1","args":{{"strict":{{"{name}":"x"}}}}}}"#),
    );
    let client = server.client_with_keys(&[NEW]);
    let _worker = InProcess::run(
        server.worker().client(&client).register::<tell_strictly>().unknown_for(AT_ONCE),
    );
    server.eventually("it is broken", SOON, || server.counter("broken") == 1);
    let broken = server.inspect().broken().await.expect("the broken");
    let reason = &broken[0].reason;
    assert!(reason.contains("unknown field") && reason.len() < 600, "{} bytes", reason.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn is4_plain_arguments_run_unless_the_type_takes_no_others() {
    // Jobs from before their type was encrypted -> they run; with `encrypted = "only"` -> broken.
    let server = TestServer::start();
    let told = Told::default();
    let client = server.client_with_keys(&[NEW]);
    let _worker = worker(&server, &client, &told);
    push(&server, r#"{"job":"tell_only","args":{"what":"b"}}"#);
    push(&server, r#"{"job":"tell","args":{"what":"a","fails":0}}"#);
    tell_only::with("c".into()).on(&client).enqueue().await.expect("enqueued");
    server.eventually("two run", SOON, || told.lock().expect("no panic").len() == 2);
    server.eventually("one is broken", SOON, || server.counter("broken") == 1);
    let mut ran = told.lock().expect("no panic").clone();
    ran.sort();
    assert_eq!(ran, ["a", "c"]);
    let broken = server.inspect().broken().await.expect("the broken");
    let expected = "the arguments are not encrypted, and job `tell_only` takes no others";
    assert_eq!(broken[0].reason, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn is4_without_any_key_nothing_is_enqueued_and_no_worker_starts() {
    // A producer without a key, a bulk of one, a worker -> an error that says what to do, and nothing in the server.
    let server = TestServer::start();
    let what_to_do = |error: &Error| {
        let text = error.to_string();
        assert!(text.contains("HWORKER_ENCRYPTION_KEYS") && text.contains("`tell`"), "{text}");
        assert!(!text.contains(SECRET), "{text}");
    };
    let job = || tell::with(SECRET.into(), 0).on(server.client());
    let error = job().enqueue().await.expect_err("no key");
    assert!(matches!(error, Error::Config(_)), "{error}");
    what_to_do(&error);
    let plain = tell_all::with("x".into()).on(server.client());
    let bulk = hworker::Bulk::new().add(plain).add(job()).enqueue().await.expect_err("no key");
    assert!(matches!(&bulk, Error::Invalid { jobs } if jobs[0].0 == 1), "{bulk}");
    what_to_do(&bulk);
    let registry = Registry::new().with::<tell>();
    let worker = Worker::builder().client(server.client()).registry(registry);
    what_to_do(&worker.state(Told::default()).build().expect_err("no key"));
    assert_eq!(server.redis().len("hworker-jobs-default"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn is4_keys_from_a_file_that_the_environment_names() {
    // Producer and worker as processes -> what one encrypts the other runs; a file that is wrong is an error that repeats nothing
    // of it.
    let server = TestServer::start();
    let file = server.dir().join("keys");
    let line = "2026-11 AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI=\n";
    std::fs::write(&file, format!("# the newest first\n{line}")).expect("written");
    let file = file.to_str().expect("a path");
    let settings = [("HWORKER_ENCRYPTION_KEYS", file), ("HWORKER_ENCRYPT_ALL", "true")];
    let ids = produce(&server, &settings, &[SECRET]);
    assert!(last(&server).contains(ids[0].as_str()), "{ids:?}");
    hidden(&server);
    // Whoever knows the key reads it, and whoever does not has it from the environment.
    let _worker = server.worker_process(&settings);
    server.eventually("it runs", SOON, || server.ended(SECRET) == 1);

    std::fs::write(file, line.replace("AgI=", "")).expect("written");
    for (settings, why) in [
        (settings, "the file that HWORKER_ENCRYPTION_KEYS names: line 1 is not of the form"),
        ([("HWORKER_ENCRYPTION_KEYS", "/AgICAgICAgICAgIC"), settings[1]], "cannot be read"),
        ([("HWORKER_ENCRYPTION_KEYS", ""), settings[1]], "there is no key"),
    ] {
        let lines = produce(&server, &settings, &["never"]).join("\n");
        assert!(lines.contains(why) && !lines.contains("AgIC"), "{lines}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn is4_keys_and_arguments_are_in_no_debug() {
    let server = TestServer::start();
    let builder = Client::builder().redis_url(server.url()).encryption_key("k", &[171; 32]);
    let shown = format!("{builder:?}");
    assert!(shown.contains(r#"Key("k")"#) && !shown.contains("171"), "{shown}");
    // Somebody may have given the key itself for its file.
    let shown = format!("{:?}", Client::builder().encryption_keys(SECRET));
    assert!(!shown.contains(SECRET), "{shown}");
    let client = builder.build().expect("a client");
    let job = act::with(SECRET.into(), Vec::new()).on(&client);
    let worker = server.worker().client(&client).build();
    for shown in [format!("{client:?}"), format!("{job:?}"), format!("{worker:?}")] {
        assert!(!shown.contains("171") && !shown.contains(SECRET), "{shown}");
    }
}
