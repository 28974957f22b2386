//! What is said where the server cannot be used: which one, where its URL is from, and what to do.

use std::process::Stdio;

use hworker::{Client, Error};
use hworker_tests::{TestServer, act};

use super::{SOON, free_port};

/// What an enqueue at this URL says, while it does not reach the server.
pub(super) async fn says(url: &str) -> Error {
    let client = Client::builder().redis_url(url).enqueue_within(SOON / 60).build();
    let client = client.expect("a client");
    act::with("never".into(), Vec::new()).on(&client).enqueue().await.expect_err("not enqueued")
}

#[track_caller]
pub(super) fn contains(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "`{word}` in: {text}");
    }
}

/// What a producer prints that has no URL but those of these settings.
fn produced(server: &TestServer, settings: &[(&str, &str)]) -> String {
    let mut command = server.command("test-producer");
    command.env_remove("HWORKER_REDIS_URL").env_remove("REDIS_URL").envs(settings.iter().copied());
    let output = command.arg("never").stdout(Stdio::piped()).output().expect("the producer starts");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn an_error_names_the_server_and_where_its_url_is_from() {
    // Guard: `Fault::at`, `UrlSource`.
    let server = TestServer::start();
    let port = free_port();
    let url = format!("redis://jobs:s3cret@127.0.0.1:{port}");
    let shown = format!("redis://***@127.0.0.1:{port}");
    for variable in ["HWORKER_REDIS_URL", "REDIS_URL"] {
        let said = produced(&server, &[(variable, &url)]);
        contains(&said, &[&format!("{shown} (from {variable})"), "nothing listens there"]);
    }
    // Somebody may have a server there.
    if std::net::TcpStream::connect("127.0.0.1:6379").is_err() {
        contains(
            &produced(&server, &[]),
            &["redis://127.0.0.1:6379 (the default,", "HWORKER_REDIS_URL"],
        );
    }
    // A worker waits for it, and says so.
    let worker = server.worker_process(&[("HWORKER_REDIS_URL", &url)]);
    let line = format!("{shown} (from HWORKER_REDIS_URL)");
    let said = || super::secrets::logs(server.dir()).concat();
    server.eventually("the worker says it", SOON, || {
        said().lines().any(|text| text.contains(&line) && text.contains("cannot be used"))
    });
    contains(&said(), &["nothing listens there"]);
    drop(worker);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_keeps_from_the_server_is_said_with_what_to_do() {
    // Guard: `net/advice.rs`.
    let server = TestServer::alone();
    let port = free_port();
    for set in [["port", &port.to_string()], ["requirepass", "s3cret"]] {
        let _: String = server.redis().ask(&["CONFIG", "SET", set[0], set[1]]);
    }
    for (url, words) in [
        (format!("redis://127.0.0.1:{port}"), ["asks for a password", "redis://:password@"]),
        (format!("redis://:wr0ng@127.0.0.1:{port}"), ["the user or the password", "%40"]),
        ("redis://no-such-host.invalid".to_owned(), ["host's name", "DNS"]),
        ("redis+unix:///no/such/socket".to_owned(), ["nothing listens there", "/no/such/socket"]),
    ] {
        let error = says(&url).await.to_string();
        contains(&error, &words);
        contains(
            &error,
            &["(from `Client::builder().redis_url(..)`)", "could not enqueue job act "],
        );
        assert!(!error.contains("wr0ng") && !error.contains("s3cret"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cause_stands_once_however_an_error_is_printed() {
    // Guard: no variant has a source that its own text repeats.
    let cause = "Connection refused";
    let error = says(&format!("redis://127.0.0.1:{}", free_port())).await;
    let texts = [format!("{error}"), format!("{error:?}")];
    // As `main` prints it that returns `anyhow::Result`, and as one line.
    let error = anyhow::Error::from(error);
    for text in texts.into_iter().chain([format!("{error:?}"), format!("{error:#}")]) {
        assert_eq!(text.matches(cause).count(), 1, "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_of_another_program_is_said_with_what_to_do() {
    // Guard: `net/advice.rs`.
    let server = TestServer::start();
    let _: String = server.redis().ask(&["SET", "hworker-jobs-default", "another's"]);
    let error = says(server.url()).await;
    assert!(matches!(error, Error::Refused { .. }), "{error}");
    contains(&error.to_string(), &["on the queue default", "WRONGTYPE", "HWORKER_PREFIX"]);
}
