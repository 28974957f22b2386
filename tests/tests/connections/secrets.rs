//! Passwords and arguments stay out of errors, logs, `Debug` and what other users of the machine see.

use std::fmt::Debug;
use std::path::Path;
use std::time::Duration;

use hworker::{Client, Error, JobState, Registry, Worker};
use hworker_tests::Records as _;
use hworker_tests::{Act, InProcess, TestServer, act, act_blocking, act_once, produce};

use super::SOON;

/// What must be nowhere: a password, a text that only arguments have, and a key.
const SECRETS: [&str; 3] = ["s3cret-passw0rd", "s3cret-argument", KEY];

/// The key that arguments are encrypted with, as it stands in its file.
const KEY: &str = "q6urq6urq6urq6urq6urq6urq6urq6urq6urq6urq6s=";

#[track_caller]
fn no_secret_in(what: &str, text: &str) {
    for secret in SECRETS {
        // Bytes are printed as a list of numbers.
        let bytes = format!("{:?}", secret.as_bytes());
        let hidden = !text.contains(secret) && !text.contains(bytes.trim_matches(['[', ']']));
        assert!(hidden, "{what}: {text}");
    }
}

#[track_caller]
fn no_secret_in_debug(what: &str, value: &impl Debug) {
    no_secret_in(what, &format!("{value:?}"));
    no_secret_in(what, &format!("{value:#?}").replace(['\n', ' '], "").replace(',', ", "));
}

/// The logs of the processes of the test.
pub(super) fn logs(dir: &Path) -> Vec<String> {
    let files = std::fs::read_dir(dir).expect("the directory of the test");
    let paths = files.map(|entry| entry.expect("an entry").path());
    let logs = paths.filter(|path| path.extension().is_some_and(|end| end == "log"));
    logs.map(|path| String::from_utf8_lossy(&std::fs::read(path).expect("read")).into()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_password_is_an_error_at_once_that_does_not_repeat_it() {
    let server = TestServer::start();
    let url = format!("{}?user=nobody&pass=s3cret-passw0rd", server.url());
    no_secret_in_debug("the builder", &Client::builder().redis_url(&url));
    let client = Client::new(url).expect("a client");
    let enqueued = act::with("never".into(), Vec::new()).on(&client).enqueue().await;
    let worker = Worker::builder().client(&client).registry(Registry::new().with::<act>());
    no_secret_in_debug("the worker's builder", &worker);
    let worker = worker.build().expect("a worker");
    no_secret_in_debug("the worker", &worker);
    let ran = worker.run().await;
    no_secret_in_debug("the client", &client);
    no_secret_in_debug("inspect", &client.inspect("default"));
    for error in [enqueued.expect_err("not enqueued"), ran.expect_err("not started")] {
        assert!(matches!(error, Error::Refused { .. }), "{error:?}");
        no_secret_in("the error", &error.to_string());
        no_secret_in_debug("the error", &error);
        no_secret_in_debug("its source", &std::error::Error::source(&error));
    }
}

#[test]
fn urls_that_cannot_be_used_say_why_without_their_secrets() {
    for (url, why) in [
        ("redis-sentinel://jobs:s3cret-passw0rd@host", "names no master"),
        ("redis-sentinel://host?sentinel_pass=s3cret-passw0rd", "names no master"),
        ("redis-cluster://jobs:s3cret-passw0rd@host:port", "cannot be used"),
        ("http://jobs:s3cret-passw0rd@host", "cannot be used"),
        ("redis://jobs:s3cret-passw0rd@host:port", "cannot be used"),
        ("redis://jobs:s3cret-passw0rd@host/database", "cannot be used"),
        ("jobs:s3cret-passw0rd@host", "cannot be used"),
    ] {
        let error = Client::new(url).expect_err("refused").to_string();
        assert!(error.contains(why), "{error}");
        no_secret_in("the error", &error);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_enqueued_and_what_inspect_gives_hides_arguments() {
    let server = TestServer::start();
    let job = || act::with("s3cret-argument".into(), Vec::new()).on(server.client());
    no_secret_in_debug("a job about to be enqueued", &job());
    let bulk: hworker::Bulk = (0..3).map(|_| job()).collect();
    no_secret_in_debug("a bulk", &bulk);
    let id = job().enqueue().await.expect("enqueued");
    let queue = server.inspect();
    no_secret_in_debug("a job that was found", &queue.find(&id).await.expect("asked"));
    no_secret_in_debug("the client", server.client());

    let soon = server.worker().register::<act_once>().unknown_for(Duration::from_millis(1));
    let worker = InProcess::run(soon);
    let plan = vec![vec![Act::Fail("no".into())]];
    let fails = act_once::with("s3cret-argument".into(), plan).on(server.client());
    let failed = fails.enqueue().await.expect("enqueued");
    let broken = r#"{"job":"act_once","args":{"name":"s3cret-argument","plan":"s3cret-argument"}}"#;
    let _: u64 = server.redis().ask(&["LPUSH", "hworker-jobs-default", broken]);
    server.eventually("one failed", SOON, || server.counter("failed") == 1);
    // The first job, which nobody knows here, is too.
    server.eventually("two are broken", SOON, || server.counter("broken") == 2);
    let records = queue.failed(0, 9).await.expect("records");
    assert!(records[0].args().contains("s3cret-argument"), "who asks for them gets them");
    no_secret_in_debug("records", &records);
    no_secret_in_debug("a failed job", &queue.find(&failed).await.expect("asked"));
    for state in [JobState::Failed, JobState::Broken] {
        no_secret_in_debug("a page", &queue.jobs(state).page().await.expect("asked"));
    }
    no_secret_in_debug("groups", &queue.groups().await.expect("asked"));
    no_secret_in("the reason", &queue.broken().await.expect("asked")[0].reason);
    no_secret_in_debug("workers", &queue.workers().await.expect("asked"));
    worker.stop().await;
}

/// A worker at its most talkative, with jobs that end in every way, outages, and its end.
#[tokio::test(flavor = "multi_thread")]
async fn logs_and_the_list_of_processes_hide_passwords_and_arguments() {
    let server = TestServer::builder().append_only().start();
    let user = ["ACL", "SETUSER", "jobs", "on", ">s3cret-passw0rd", "allkeys", "allcommands"];
    let set_up = || assert_eq!(server.redis().ask::<String>(&user), "OK");
    set_up();
    let url = format!("{}?user=jobs&pass=s3cret-passw0rd", server.url());
    let keys = server.dir().join("keys");
    std::fs::write(&keys, format!("k {KEY}")).expect("written");
    let settings = [
        ("HWORKER_REDIS_URL", url.as_str()),
        ("HWORKER_ENCRYPTION_KEYS", keys.to_str().expect("a path")),
        ("HWORKER_ENCRYPT_ALL", "on"),
        ("HWORKER_LOG", "trace"),
        ("HWORKER_UNKNOWN_FOR", "1s"),
        ("HWORKER_DEAD_AFTER", "2s"),
        ("RUST_BACKTRACE", "1"),
    ];
    let mut first = server.worker_process(&settings);
    let command_line = || {
        let line = std::fs::read(format!("/proc/{}/cmdline", first.pid())).unwrap_or_default();
        String::from_utf8_lossy(&line).into_owned()
    };
    no_secret_in("the list of processes", &command_line());
    let secret = "s3cret-argument";
    server.enqueue(secret, vec![vec![Act::Kill], vec![]]).await;
    assert!(first.wait(SOON).is_some(), "it kills itself");
    let mut worker = server.worker_process(&settings);

    server.enqueue(secret, vec![vec![Act::Error("once".into())], vec![]]).await;
    server.enqueue(secret, vec![vec![Act::Panic("twice".into())], vec![]]).await;
    let slow = act::with(secret.into(), vec![vec![Act::Sleep(60_000)], vec![]]);
    let slow = slow.timeout(std::time::Duration::from_millis(50)).on(server.client());
    slow.enqueue().await.expect("enqueued");
    let blocking = act_blocking::with(secret.into(), vec![vec![Act::Snooze(20)], vec![]]);
    blocking.on(server.client()).enqueue().await.expect("enqueued");
    assert_eq!(produce(&server, &settings, &[secret]).len(), 1);
    for broken in [
        r#"{"job":"act","id":"1","args":{"$sealed":{"alg":"XC20P","key":"k","nonce":"s3cret-argument","data":""}}}"#,
        r#"{"job":"act","id":"1","args":{"$sealed":{"alg":"s3cret-argument"}}}"#,
        r#"{"job":"act","args":{"name":"s3cret-argument","plan":"s3cret-argument"}}"#,
        r#"{"job":"act","args":{"name":"s3cret-argument","plan":[[{"s3cret-argument":1}]]}}"#,
        r#"{"job":"act","args":{"name":"s3cret-argument""#,
        r#"{"job":"unknown_to_all","args":{"name":"s3cret-argument"}}"#,
        r#"{"job":"act","args":["s3cret-argument"]}"#,
        r#""s3cret-argument""#,
        "s3cret-argument",
    ] {
        let _: u64 = server.redis().ask(&["LPUSH", "hworker-jobs-default", broken]);
    }
    server.eventually("all came to an end", SOON, || server.ended(secret) == 6);
    server.eventually("all are broken", SOON, || server.counter("broken") == 9);

    // The server is gone, and is back without the user; then with it again.
    server.process().kill();
    let lines = produce(&server, &settings, &[secret]);
    no_secret_in("an enqueue without a server", &lines.join("\n"));
    server.restart();
    let lines = produce(&server, &settings, &[secret]);
    no_secret_in("an enqueue without a user", &lines.join("\n"));
    set_up();
    server.enqueue("after", Vec::new()).await;
    server.eventually("it goes on", SOON, || server.ended("after") == 1);
    worker.terminate();
    assert!(worker.wait(SOON).is_some_and(|status| status.success()));

    let logs = logs(server.dir());
    assert!(logs.iter().any(|log| log.contains("a job is broken")), "they were read: {logs:?}");
    for log in logs {
        no_secret_in("a log", &log);
    }
    for broken in server.inspect().broken().await.expect("asked") {
        no_secret_in("a reason", &broken.reason);
    }
}
