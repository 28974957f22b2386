//! Row Q8: producers that use nothing of ours, and the commands of `docs/wire-format.md`.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::Duration;

use hworker_tests::TestServer;

use crate::wire_format::{repository, send_welcome};

const SOON: Duration = Duration::from_secs(10);

/// Runs a producer of `examples/foreign`, and gives the id that it prints.
fn produce(server: &TestServer, program: &str, options: &[&str]) -> String {
    let path = repository("examples/foreign").join(program);
    let mut command = Command::new(&path);
    command.args(options).env("HWORKER_REDIS_URL", server.url()).env_remove("HWORKER_PREFIX");
    let output = command.output().unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text").trim_end().to_owned()
}

/// Names the queue `mail`, so that a worker may serve it.
#[hworker::job(queue = "mail")]
fn mailed() {}

fn a_foreign_producer_enqueues(program: &str) {
    let server = TestServer::start();
    let now = produce(
        &server,
        program,
        &["send_welcome", r#"{"to":"ädä \"\\ 👋","user_id":18446744073709551615}"#],
    );
    let in_mail = produce(
        &server,
        program,
        &["--queue", "mail", "send_welcome", r#"{"to":"mail","user_id":1}"#],
    );
    let before = server.redis().time_us();
    let later = produce(
        &server,
        program,
        &["--delay", "1", "send_welcome", r#"{"to":"later","user_id":2}"#],
    );
    assert_eq!(server.redis().len("hworker-scheduled-default"), 1);

    let worker = server.worker().concurrency(4).register::<send_welcome>().register::<mailed>();
    let _worker = hworker_tests::InProcess::run(worker);
    server.eventually("all run", SOON, || server.runs_of("send_welcome").len() == 3);
    let mut runs = server.runs_of("send_welcome");
    runs.sort_by_key(|run| run.id != now);
    for (id, what) in
        [(now, "ädä \"\\ 👋 18446744073709551615"), (in_mail, "mail 1"), (later.clone(), "later 2")]
    {
        let run = runs.iter().find(|run| run.id == id).expect("a run of that id");
        assert_eq!((&*run.what, run.attempt), (what, 1));
    }
    let began = runs.iter().find(|run| run.id == later).expect("it ran").at;
    assert!(began - before >= 1_000_000, "not early: {} us", began - before);
    server.drained(SOON);
}

#[tokio::test(flavor = "multi_thread")]
async fn q8_foreign_producer_in_python() {
    // Push the documented JSON with a plain Redis client -> runs like a native job.
    a_foreign_producer_enqueues("enqueue.py");
}

#[tokio::test(flavor = "multi_thread")]
async fn q8_foreign_producer_in_shell() {
    // Push the documented JSON with a plain Redis client -> runs like a native job.
    a_foreign_producer_enqueues("enqueue.sh");
}

#[tokio::test(flavor = "multi_thread")]
async fn q8_documented_commands_do_what_they_say() {
    let server = TestServer::start();
    let socket = server.url().strip_prefix("redis+unix://").expect("the server has a socket");
    // The document says `redis-cli`, which here means the test's server.
    let ours = server.dir().join("redis-cli");
    let path = std::env::var("PATH").expect("a PATH");
    std::fs::write(
        &ours,
        format!("#!/bin/sh\nPATH='{path}' exec redis-cli -s '{socket}' \"$@\"\n"),
    )
    .expect("a script");
    std::fs::set_permissions(&ours, std::fs::Permissions::from_mode(0o755)).expect("a program");

    let document =
        std::fs::read_to_string(repository("docs/wire-format.md")).expect("the document");
    let blocks: Vec<_> =
        document.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert_eq!(blocks.len(), 4, "commands of the document");
    for block in blocks {
        let output = Command::new("sh")
            .args(["-euc", block])
            .current_dir(repository("."))
            .env("PATH", format!("{}:{path}", server.dir().display()))
            .env("HWORKER_REDIS_URL", server.url())
            .env_remove("HWORKER_PREFIX")
            .env("worker", "web-1.3f9c0a7be21d")
            .output()
            .expect("a shell");
        let said = String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success() && !said.contains("ERR") && !said.contains("WRONG"),
            "{block}\n{said}"
        );
    }
    assert_eq!(server.redis().len("hworker-scheduled-mail"), 1);
    let _worker = server.run_worker::<send_welcome>();
    server.eventually("both run", SOON, || server.runs_of("send_welcome").len() == 2);
    assert!(server.runs_of("send_welcome").iter().any(|run| run.id == "order-7-welcome"));
    let due: f64 = server.redis().ask(&[
        "ZSCORE",
        "hworker-scheduled-default",
        r#"{"v":1,"id":"order-7-reminder","job":"send_welcome","args":{"to":"ada@example.org","user_id":42}}"#,
    ]);
    let left = due - (server.redis().time_us() / 1000) as f64;
    assert!((30_000.0..=61_000.0).contains(&left), "{left} ms");
}
