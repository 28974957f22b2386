//! What is written around a setting, and how a URL is spelled.

use hworker::Client;
use hworker_tests::{TestServer, act, produce};

use super::SOON;

#[test]
fn blanks_around_a_setting_mean_nothing() {
    // What is made from a file has the end of its line; a cluster's and Sentinel's URL too, where the tests run on those.
    // Guard: `config::variable`.
    let server = TestServer::start();
    let url = format!(" {}\r\n", server.url());
    let settings = [
        ("HWORKER_REDIS_URL", url.as_str()),
        ("HWORKER_CONCURRENCY", " 2\n"),
        ("HWORKER_QUEUES", "default \n"),
        ("HWORKER_SHUTDOWN_GRACE", "5s\n"),
        ("HWORKER_PREFETCH", "off\n"),
        ("HWORKER_PREFIX", "blanks\n"),
        ("HWORKER_NAME", "one\n"),
        ("HWORKER_DURABILITY", "accepted\n"),
        ("HWORKER_LOG", "hworker=debug\n"),
    ];
    let mut worker = server.worker_process(&settings);
    let ids = produce(&server, &settings, &["blanks"]);
    assert!(ids.len() == 1 && !ids[0].starts_with("error"), "{ids:?}");
    server.eventually("it runs", SOON, || server.ended("blanks") == 1);
    worker.terminate();
    assert!(worker.wait(SOON).is_some_and(|status| status.success()));
}

#[test]
fn blanks_around_the_url_of_several_servers_mean_nothing() {
    // Guard: `config::redis_url`.
    for url in ["redis-sentinel://127.0.0.1:1/jobs", "redis-cluster://127.0.0.1:1,127.0.0.1:2"] {
        let debug = |url: String| format!("{:?}", Client::new(url).expect("a client"));
        assert_eq!(debug(format!(" {url} \n")), debug(url.to_owned()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plus_in_the_password_of_a_unix_url_is_a_plus() {
    // Guard: the query as it is spelled in `net/address.rs`.
    let server = TestServer::alone();
    let url = format!("{}?user=plus&pass=a+b%2Bc%20d", server.url());
    let user = ["ACL", "SETUSER", "plus", "on", ">a+b+c d", "~*", "&*", "+@all"];
    let _: String = server.redis().ask(&user);
    let client = Client::new(url).expect("a client");
    act::with("plus".into(), Vec::new()).on(&client).enqueue().await.expect("enqueued");
}
