//! Ways to reach the server: TLS, users with passwords and limits, and what is said where that is wrong.

use std::net::{Ipv4Addr, TcpListener};
use std::time::Duration;

use hworker::{Client, Error, Registry, Worker};
use hworker_tests::{TestServer, act, produce};

const SOON: Duration = Duration::from_secs(10);

/// A port that was free a moment ago.
fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    listener.local_addr().expect("its address").port()
}

#[test]
fn tls_with_a_certificate_that_the_system_trusts() {
    let key = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let dir = tempfile::tempdir().expect("a directory");
    let path = |name: &str| dir.path().join(name).to_str().expect("UTF-8").to_owned();
    std::fs::write(path("cert.pem"), key.cert.pem()).expect("written");
    std::fs::write(path("key.pem"), key.signing_key.serialize_pem()).expect("written");
    let port = free_port();
    let server = TestServer::builder()
        .arg("--tls-port", &port.to_string())
        .arg("--tls-cert-file", &path("cert.pem"))
        .arg("--tls-key-file", &path("key.pem"))
        .arg("--tls-ca-cert-file", &path("cert.pem"))
        .arg("--tls-auth-clients", "no")
        .start();

    let url = format!("rediss://localhost:{port}");
    let trusted = path("cert.pem");
    let settings = [("HWORKER_REDIS_URL", url.as_str()), ("SSL_CERT_FILE", trusted.as_str())];
    let mut worker = server.worker_process(&settings);
    let ids = produce(&server, &settings, &["over-tls"]);
    assert!(ids.len() == 1 && !ids[0].starts_with("error"), "{ids:?}");
    server.eventually("the job runs", SOON, || server.ended("over-tls") == 1);
    worker.terminate();
    assert!(worker.wait(SOON).is_some_and(|status| status.success()));

    // Without the trust nothing is enqueued, and the error says why.
    let ids = produce(&server, &[("HWORKER_REDIS_URL", &url)], &["untrusted"]);
    assert!(ids[0].starts_with("error") && ids[0].contains("certificate"), "{ids:?}");
}

#[test]
fn a_user_with_a_password_that_may_use_nothing_but_our_keys() {
    let server = TestServer::start();
    let reply: String = server.redis().ask(&[
        "ACL",
        "SETUSER",
        "jobs",
        "on",
        ">s3cret",
        "resetkeys",
        "~hworker-*",
        "resetchannels",
        "+@all",
        "-@admin",
        "-@dangerous",
        "+client|unblock",
    ]);
    assert_eq!(reply, "OK");
    let url = format!("{}?user=jobs&pass=s3cret", server.url());
    let settings = [("HWORKER_REDIS_URL", url.as_str())];
    let mut worker = server.worker_process(&settings);
    let ids = produce(&server, &settings, &["limited"]);
    assert!(!ids[0].starts_with("error"), "{ids:?}");
    server.eventually("the job runs", SOON, || server.ended("limited") == 1);
    server.drained(SOON);
    worker.terminate();
    assert!(worker.wait(SOON).is_some_and(|status| status.success()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_password_is_an_error_at_once_that_does_not_repeat_it() {
    let server = TestServer::start();
    let client =
        Client::new(format!("{}?user=nobody&pass=s3cret", server.url())).expect("a client");
    let enqueued = act::with("never".into(), Vec::new()).on(&client).enqueue().await;
    let worker = Worker::builder().client(&client).registry(Registry::new().with::<act>()).build();
    let ran = worker.expect("a worker").run().await;
    for error in [enqueued.expect_err("not enqueued"), ran.expect_err("not started")] {
        assert!(matches!(error, Error::Refused { .. }), "{error:?}");
        for text in [error.to_string(), format!("{error:?}"), format!("{client:?}")] {
            assert!(!text.contains("s3cret"), "{text}");
        }
    }
}

#[test]
fn urls_that_cannot_be_used_say_why_without_their_secrets() {
    for (url, why) in [
        ("redis-sentinel://jobs:s3cret@host", "names no master"),
        ("redis-cluster://jobs:s3cret@host:port", "cannot be used"),
        ("http://jobs:s3cret@host", "cannot be used"),
        ("redis://jobs:s3cret@host:port", "cannot be used"),
    ] {
        let error = Client::new(url).expect_err("refused").to_string();
        assert!(error.contains(why) && !error.contains("s3cret"), "{error}");
    }
}
