//! The page of a worker, and `hworker web`.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::Stdio;

use hworker_tests::{Process, TestServer};

use crate::SOON;
use crate::site::{TOKEN, ask};

/// The address that a process logs.
fn address(process: &mut Process) -> SocketAddr {
    let lines = BufReader::new(process.log().expect("its log")).lines();
    let line = lines.map(|line| line.expect("a line")).find(|line| line.contains("at http://"));
    let line = line.expect("a line with the address");
    let (_, rest) = line.split_once("http://").expect("an address");
    let end = rest.find('/').expect("a path");
    rest[..end].parse().expect("an address")
}

/// A worker process whose log is read.
fn worker(server: &TestServer, settings: &[(&str, &str)]) -> Process {
    let mut command = server.command("test-worker");
    command.envs(settings.iter().copied()).env("HWORKER_LOG", "info").stderr(Stdio::piped());
    Process::start(command)
}

fn token_file(server: &TestServer) -> String {
    let file = server.dir().join("token");
    std::fs::write(&file, format!("{TOKEN}\n")).expect("written");
    file.display().to_string()
}

#[test]
fn i14_a_worker_serves_the_page() {
    // HWORKER_WEB at a loopback address -> the page is there for this machine; with a token it asks for it; elsewhere it needs one.
    let server = TestServer::start();
    let mut plain = worker(&server, &[("HWORKER_WEB", "127.0.0.1:0")]);
    let open = address(&mut plain);
    ask(open, "GET", "/api/v1/queues").send().expect(200);
    let file = token_file(&server);
    let with_token = [("HWORKER_WEB", "127.0.0.1:0"), ("HWORKER_WEB_TOKEN_FILE", &*file)];
    let mut guarded = worker(&server, &with_token);
    let guarded_at = address(&mut guarded);
    ask(guarded_at, "GET", "/api/v1/queues").send().expect(401);
    let bearer = format!("Bearer {TOKEN}");
    ask(guarded_at, "GET", "/api/v1/queues").header("authorization", &bearer).send().expect(200);
    let mut refused = worker(&server, &[("HWORKER_WEB", "0.0.0.0:0")]);
    assert!(refused.wait(SOON).is_some_and(|ended| !ended.success()));
}

#[test]
fn i14_hworker_web_serves_several_servers() {
    // Two servers by name -> each below its own path, and the first where none is named; a token is asked for.
    let (one, two) = (TestServer::start(), TestServer::start());
    let file = token_file(&one);
    let mut command = one.command("hworker");
    command.args(["web", "--listen", "127.0.0.1:0", "--token-file", &file]);
    command.args([
        "--server",
        &format!("one={}", one.url()),
        "--server",
        &format!("two={}", two.url()),
    ]);
    command.stderr(Stdio::piped());
    let mut web = Process::start(command);
    let at = address(&mut web);
    let bearer = format!("Bearer {TOKEN}");
    let get = |path: &str| ask(at, "GET", path).header("authorization", &bearer).send();
    let pause = ask(at, "POST", "/i/two/api/v1/queues/mail/pause").header("authorization", &bearer);
    pause.json(&serde_json::json!({})).send().expect(204);
    assert_eq!(get("/i/two/api/v1/queues").expect(200).json()["items"][0]["name"], "mail");
    assert_eq!(get("/i/one/api/v1/queues").expect(200).json()["items"], serde_json::json!([]));
    let first = get("/").expect(307);
    assert!(first.head.contains("location: /i/one"), "{first:?}");
    get("/i/three/api/v1/queues").expect(404);
    ask(at, "GET", "/i/two/api/v1/queues").send().expect(401);
    web.terminate();
    assert!(web.wait(SOON).is_some_and(|ended| ended.success()));
}

#[test]
fn is9_hworker_web_is_not_open_to_a_network_without_a_token() {
    let server = TestServer::start();
    let mut command = server.command("hworker");
    command.args(["web", "--listen", "0.0.0.0:0"]).stderr(Stdio::piped());
    let output = command.output().expect("it ends");
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("open to all who reach"), "{said}");
}
