//! Servers that hworker cannot use, and what is none: an error at the start, that says what to do.

use std::future::pending;
use std::io::Write;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::time::Duration;

use hworker::{Bulk, Client, Error, Registry, Worker};
use hworker_tests::{TestServer, act};
use tokio::time::timeout;

use super::advice::{contains, says};
use super::{SOON, free_port};

/// How a worker ends that is run at this URL.
async fn ends(url: &str) -> Error {
    let client = Client::new(url).expect("a client");
    let worker = Worker::builder().client(&client).registry(Registry::new().with::<act>());
    let ran = worker.build().expect("a worker").run_until(pending());
    timeout(3 * SOON, ran).await.expect("it ends").expect_err("with an error")
}

/// Both the worker and the first enqueue say it.
async fn is_refused(url: &str, words: &[&str]) {
    for error in [ends(url).await, says(url).await] {
        assert!(matches!(error, Error::Refused { .. }), "{error}");
        contains(&error.to_string(), words);
    }
}

/// A server with these lines in its configuration.
fn configured(lines: &str) -> TestServer {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("more.conf");
    std::fs::write(&file, lines).expect("written");
    TestServer::builder().alone().arg("--include", file.to_str().expect("UTF-8")).start()
}

/// Something at a port, that says this to whoever comes, or nothing.
fn something(port: u16, says: Option<&'static str>) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).expect("a port");
    let port = listener.local_addr().expect("its address").port();
    std::thread::spawn(move || {
        // Held, so that nothing is at its end.
        let mut taken = Vec::new();
        while let Ok((mut stream, _)) = listener.accept() {
            if let Some(says) = says {
                let _ = stream.write_all(says.as_bytes());
            }
            taken.push(stream);
        }
    });
    port
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_runs_no_scripts() {
    // Guard: `runs_scripts` in `Worker::reach`: else the worker tries for ever.
    let commands = ["EVAL", "EVALSHA"];
    for command in commands {
        let server = configured(&format!("rename-command {command} \"\"\n"));
        contains(&ends(server.url()).await.to_string(), &[command, "rename-command"]);
        act::with("now".into(), Vec::new()).on(server.client()).enqueue().await.expect("enqueued");
        // By its text the first time, by its hash the second.
        let later =
            || act::with("later".into(), Vec::new()).delay(SOON).on(server.client()).enqueue();
        let error = match later().await {
            Ok(_) => later().await.expect_err("not enqueued"),
            Err(error) => error,
        };
        assert!(matches!(error, Error::Refused { .. }), "{error}");
        contains(&error.to_string(), &[command, "rename-command"]);
    }
    for command in commands {
        let server = TestServer::alone();
        let rights = format!("-{}", command.to_lowercase());
        let _: String = server.redis().ask(&["ACL", "SETUSER", "default", &rights]);
        contains(&ends(server.url()).await.to_string(), &["permissions", "+eval +evalsha"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_a_server_does_not_know_is_refused_without_its_arguments() {
    // The server repeats them, and those of a job may be among them. Guard: `without_arguments`.
    let server = configured("rename-command LPUSH \"\"\n");
    let job = || act::with("s3cret".into(), Vec::new()).on(server.client());
    let bulk: Bulk = [job(), job()].into_iter().collect();
    let errors =
        [job().enqueue().await.expect_err("refused"), bulk.enqueue().await.expect_err("refused")];
    for error in errors {
        let text = format!("{error} {error:?}");
        contains(&text, &["LPUSH", "rename-command"]);
        assert!(!text.contains("s3cret") && !text.contains("args"), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_redis_server() {
    // Guard: `for_good` in `net/advice.rs`.
    for says in [
        "HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n",
        "SSH-2.0-OpenSSH_9.2\r\n",
        "<!DOCTYPE HTML>\r\n",
    ] {
        let port = something(0, Some(says));
        is_refused(&format!("redis://127.0.0.1:{port}"), &["no Redis server"]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_says_nothing() {
    // Guard: `SILENT_TRIES`. An enqueue cannot know whether it hangs for long.
    let port = something(0, None);
    let url = format!("redis://127.0.0.1:{port}");
    let client = Client::new(&url).expect("a client");
    let job = act::with("never".into(), Vec::new()).on(&client);
    let (worker, enqueued) = tokio::join!(ends(&url), job.enqueue());
    let enqueued = enqueued.expect_err("not enqueued");
    assert!(matches!(worker, Error::Refused { .. }), "{worker}");
    assert!(matches!(enqueued, Error::Unavailable { .. }), "{enqueued}");
    for error in [worker, enqueued] {
        contains(&error.to_string(), &["says nothing", "whether it is a Redis server"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_where_it_is_not_spoken_and_the_other_way_round() {
    // Guard: `probe::refusal`.
    let (server, tls, ca) = super::tls::server_named("ours");
    let plain = free_port();
    let _: String = server.redis().ask(&["CONFIG", "SET", "port", &plain.to_string()]);
    is_refused(&format!("redis://localhost:{tls}"), &["speaks TLS", "`rediss`"]).await;
    let with_tls = format!("rediss://localhost:{plain}");
    let error = with_ca(&with_tls, &ca).await;
    assert!(matches!(error, Error::Refused { .. }), "{error}");
    contains(&error.to_string(), &["does not speak TLS", "write `redis`"]);
    contains(&ends(&with_tls).await.to_string(), &["does not speak TLS", "write `redis`"]);
}

async fn with_ca(url: &str, ca: &Path) -> Error {
    let client = Client::builder().redis_url(url).tls_ca(ca).build().expect("a client");
    act::with("never".into(), Vec::new()).on(&client).enqueue().await.expect_err("not enqueued")
}

#[test]
fn a_worker_that_waits_for_its_server_ends_where_that_is_none() {
    // Nothing is there yet: it waits, and says so. What comes then is no Redis server.
    // Guard: `Worker::is_unusable`.
    let server = TestServer::start();
    let port = free_port();
    let url = format!("redis://127.0.0.1:{port}");
    let mut worker = server.worker_process(&[("HWORKER_REDIS_URL", &url)]);
    let logs = || super::secrets::logs(server.dir()).concat();
    server.eventually("it waits", SOON, || logs().contains("nothing listens there"));
    assert!(worker.wait(Duration::from_millis(500)).is_none(), "it goes on");
    something(port, Some("HTTP/1.1 400 Bad Request\r\n\r\n"));
    assert!(worker.wait(SOON).is_some_and(|status| !status.success()), "{}", logs());
    contains(&logs(), &["no Redis server", "(from HWORKER_REDIS_URL)"]);
}
