//! Row OB16: whose a connection is, in the words of the server.

use std::process::Stdio;

use hworker::Client;
use hworker_tests::{Act, InProcess, TestServer, act};

use super::SOON;

/// The name and the user of each connection.
fn connections(server: &TestServer) -> Vec<(String, String)> {
    let list: String = server.redis().ask(&["CLIENT", "LIST"]);
    let field = |line: &str, name: &str| {
        let value = line.split(' ').find_map(|field| field.strip_prefix(name));
        value.unwrap_or_default().to_owned()
    };
    list.lines().map(|line| (field(line, "name="), field(line, "user="))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn ob16_connections_are_named() {
    // A worker, a program that enqueues, and the command line; a user that may do nothing but enqueue -> each connection has its name, and
    // nothing is refused.
    // Guard: `name::tell`; `name_connections` in `Thread::spawn`.
    let server = TestServer::start();
    let _worker = InProcess::run(server.worker().register::<act>().name("web-1"));
    server.enqueue("waits", vec![vec![Act::Gate("end".into())]]).await;
    server.eventually("it runs", SOON, || server.begun("waits") == 1);

    let _: String = server.redis().ask(&[
        "ACL",
        "SETUSER",
        "few",
        "reset",
        "on",
        ">few",
        "~hworker-jobs-*",
        "+lpush",
    ]);
    let url = format!("{}?user=few&pass=few", server.url());
    let few = Client::builder().redis_url(url).build().expect("a client");
    act::with("few".into(), Vec::new()).on(&few).enqueue().await.expect("enqueued");

    let program = std::env::current_exe().expect("a path");
    let program = format!("hworker-{}", program.file_stem().expect("a name").display());
    let is_there = |name: &str, user: &str| {
        connections(&server).iter().any(|(its, whose)| its == name && whose == user)
    };
    server.eventually("a producer is named", SOON, || is_there(&program, "default"));
    server.eventually("one with few rights is too", SOON, || is_there(&program, "few"));
    let of_worker = || {
        let names = connections(&server).into_iter().map(|(name, _)| name);
        names.filter(|name| name.starts_with("web-1.")).collect::<Vec<_>>()
    };
    // To wait, to fetch, and for heartbeats.
    server.eventually("those of the worker are named", SOON, || of_worker().len() >= 3);
    let id = server.inspect().workers().await.expect("workers")[0].id.clone();
    assert!(of_worker().iter().all(|name| *name == id), "{:?} {id}", of_worker());
    let refused: Vec<redis::Value> = server.redis().ask(&["ACL", "LOG"]);
    // Only that it may not add its queue to the list of queues.
    assert!(!format!("{refused:?}").to_lowercase().contains("hello"), "{refused:?}");

    let _: String = server.redis().ask(&["CONFIG", "SET", "slowlog-log-slower-than", "0"]);
    let stats = server.command("hworker").arg("stats").stdout(Stdio::piped()).output();
    assert!(stats.expect("it ran").status.success());
    let slow: Vec<redis::Value> = server.redis().ask(&["SLOWLOG", "GET", "-1"]);
    assert!(format!("{slow:?}").contains("hworker-cli"), "{slow:?}");
    server.open("end");
}
