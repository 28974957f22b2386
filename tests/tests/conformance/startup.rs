//! What is wrong with a worker is said when it starts, all at once, and what would be right.

use std::time::Duration;

use hworker::{Client, Error, Registry, State, Worker};
use hworker_tests::{TestServer, weigh};

use crate::SOON;

#[derive(Clone)]
struct Pool;

#[derive(Clone)]
struct Mailer;

mod here {
    #[hworker::job(name = "same")]
    pub(super) async fn one() {}
}

mod there {
    #[hworker::job(name = "other", aliases = ["same"])]
    pub(super) async fn two() {}
}

#[hworker::job]
async fn needy(_pool: State<Pool>, State(_mailer): State<Mailer>) {}

/// The place of a job in this file, as hworker says it.
fn place(attribute: &str) -> String {
    let lines = include_str!("startup.rs").lines();
    let line = lines.zip(1..).find(|(line, _)| line.trim() == attribute).expect("it is there").1;
    format!("startup.rs:{line}")
}

fn problems(error: &Error) -> Vec<&str> {
    let Error::Config(problems) = error else { panic!("{error:?}") };
    problems.iter().collect()
}

#[test]
fn a_worker_says_all_problems_at_once() {
    // Duplicate names with both places, missing states with their types, unknown queues, wrong settings: one error with all.
    // Guard: `Registry::verify` and `WorkerConfig::check` collect, and `build` returns what they found.
    let client = Client::new("redis://127.0.0.1:1").expect("a client");
    let registry = Registry::new().with::<here::one>().with::<there::two>().with::<needy>();
    let worker =
        Worker::builder().client(&client).registry(registry).queues(["default", "mial", "a b"]);
    let worker =
        worker.concurrency(0).dead_after(Duration::from_secs(1)).crash_limit(0).name("a b");
    let error = worker.build().expect_err("refused");
    let text = error.to_string();
    let has = |words: &[&str]| {
        let found = problems(&error).into_iter().any(|line| words.iter().all(|w| line.contains(w)));
        assert!(found, "{words:?} in one line of\n{text}");
    };
    let one = place(r#"#[hworker::job(name = "same")]"#);
    let two = place(r#"#[hworker::job(name = "other", aliases = ["same"])]"#);
    has(&["2 jobs are called `same`", &one, &two, "name = \"...\""]);
    has(&["job `needy`", &place("#[hworker::job]"), "Pool", ".state(..)"]);
    has(&["job `needy`", "Mailer", ".state(..)"]);
    has(&["the queue `mial`", "default"]);
    has(&["queue's name `a b`"]);
    has(&["concurrency is 0"]);
    has(&["dead_after is 1s", "2s"]);
    has(&["crash_limit is 0"]);
    has(&["worker's name `a b`"]);
    // The queue with the wrong name is not known either.
    assert_eq!(problems(&error).len(), 10, "{text}");
}

#[test]
fn cancel_on_disconnect_takes_more_than_two_heartbeats() {
    // `cancel_on_disconnect` with a `dead_after` of which less 1 s a heartbeat hardly fits -> an error; what is longer is accepted.
    // Guard: the check of both in `WorkerConfig::check`: else healthy bodies are stopped between two heartbeats.
    let client = Client::new("redis://127.0.0.1:1").expect("a client");
    let build = |ms| {
        let worker =
            Worker::builder().client(&client).registry(Registry::new().with::<here::one>());
        worker.dead_after(Duration::from_millis(ms)).cancel_on_disconnect(true).build()
    };
    let error = build(3_999).expect_err("refused").to_string();
    assert!(error.contains("dead_after is 3.999s") && error.contains("4s"), "{error}");
    build(4_000).expect("accepted");
}

#[test]
fn a_worker_without_jobs_does_not_start() {
    // Zero linked jobs -> an error that says how to link them.
    // Guard: the first check of `Registry::verify`.
    let client = Client::new("redis://127.0.0.1:1").expect("a client");
    let worker = Worker::builder().client(&client).registry(Registry::new());
    let error = worker.build().expect_err("refused");
    assert_eq!(problems(&error).len(), 1, "{error}");
    assert!(error.to_string().contains("use its_name as _;"), "{error}");
    assert!(error.to_string().contains("#[hworker::job]"), "{error}");
}

#[test]
fn two_missing_states_of_one_job_and_one_that_is_there() {
    // With one of its states the worker still says the other.
    // Guard: states are held by type.
    let client = Client::new("redis://127.0.0.1:1").expect("a client");
    let worker = || Worker::builder().client(&client).registry(Registry::new().with::<needy>());
    let error = worker().state(Pool).build().expect_err("refused");
    assert_eq!(problems(&error).len(), 1, "{error}");
    assert!(error.to_string().contains("Mailer"), "{error}");
    worker().state(Pool).state(Mailer).build().expect("has all that it needs");
}

#[hworker::job]
async fn takes_a_client(_client: State<Client>, _registry: State<Option<Registry>>) {}

#[test]
fn a_state_that_is_given_twice_is_a_problem() {
    // Two values of one type, of which jobs could have but one -> an error with the type and the place of each `.state(..)`.
    // Guard: `WorkerBuilder::state` notes where each was given.
    let client = Client::new("redis://127.0.0.1:1").expect("a client");
    let worker = Worker::builder().client(&client).registry(Registry::new().with::<here::one>());
    let first = line!() + 1;
    let worker = worker.state(Pool).state(Mailer);
    let error = worker.state(Pool).build().expect_err("refused");
    assert_eq!(problems(&error).len(), 1, "{error}");
    let places = [first, first + 1].map(|line| format!("startup.rs:{line}"));
    for words in ["Pool", "`.state(..)`", &places[0], &places[1]] {
        assert!(error.to_string().contains(words), "{words} in {error}");
    }
}

#[test]
fn types_of_hworker_are_said_by_their_public_paths() {
    // A missing state of a type of this library, alone and inside another -> its name is one that the program can write.
    // Guard: `shown_type`.
    let client = Client::new("redis://127.0.0.1:1").expect("a client");
    let registry = Registry::new().with::<takes_a_client>();
    let error = Worker::builder().client(&client).registry(registry).build().expect_err("refused");
    for words in ["`State<hworker::Client>`", "`State<core::option::Option<hworker::Registry>>`"] {
        assert!(error.to_string().contains(words), "{words} in {error}");
    }
}

#[test]
fn a_worker_process_ends_with_the_problems_of_its_environment() {
    // `run_all()` with wrong variables ends with a failure, and says all of them.
    // Guard: `WorkerSettings::resolve` goes on after the first.
    let server = TestServer::start();
    let mut worker = server.worker_process(&[
        ("HWORKER_CONCURRENCY", "many"),
        ("HWORKER_DEAD_AFTER", "5"),
        ("HWORKER_QUEUES", "default,nowhere"),
        ("HWORKER_PREFIX", "a-b"),
    ]);
    let status = worker.wait(SOON).expect("it ends");
    assert!(!status.success());
    let said = server.report();
    for words in
        ["HWORKER_CONCURRENCY: `many`", "HWORKER_DEAD_AFTER: `5`", "nowhere", "prefix `a-b`"]
    {
        assert!(said.contains(words), "{words} in\n{said}");
    }
    assert!(server.redis().keys("*").is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_knows_only_what_it_was_given() {
    // Guard: `Registry::collect` is only the default.
    let server = TestServer::start();
    let registry = Registry::new().with::<weigh>();
    assert_eq!(registry.names().collect::<Vec<_>>(), ["weigh"]);
    let all = Registry::collect();
    let names: Vec<_> = all.names().collect();
    assert!(["act", "act_once", "weigh", "needy", "same"].iter().all(|name| names.contains(name)));
    drop(server);
}

#[cfg(unix)]
#[test]
fn a_variable_that_cannot_be_read_is_not_taken_for_one_that_is_not_set() {
    // An URL with a password in Latin-1: without it jobs would go to another server.
    // Guard: `config::variable`.
    use std::os::unix::ffi::OsStrExt;
    let server = TestServer::start();
    let mut command = server.command("test-worker");
    let url = std::ffi::OsStr::from_bytes(b"redis://user:p\xe4ss@elsewhere");
    command.env("HWORKER_REDIS_URL", url).env("REDIS_URL", server.url());
    let status = hworker_tests::Process::start(command).wait(SOON).expect("it ends");
    assert!(!status.success());
    let said = server.report();
    assert!(said.contains("HWORKER_REDIS_URL: it is not written in UTF-8"), "{said}");
}

#[test]
fn a_queue_with_two_limits_is_a_problem() {
    // Guard: `queues_in_all`.
    let server = TestServer::start();
    let mut worker = server.worker_process(&[("HWORKER_QUEUES", "default,+a=1,+a=2")]);
    assert!(!worker.wait(SOON).expect("it ends").success());
    let said = server.report();
    assert!(said.contains("the queue `a` is named twice, with 1 and with 2 slots"), "{said}");
}

#[test]
fn a_mistyped_variable_names_the_setting_that_was_meant() {
    // A warning and no error, since others may have variables that begin so.
    // Guard: `config::nearest_setting`.
    let server = TestServer::start();
    let _worker = server.worker_process(&[("HWORKER_CONCURENCY", "3")]);
    let line = "HWORKER_CONCURENCY is no setting of hworker; the nearest is HWORKER_CONCURRENCY";
    server.eventually("it says so", SOON, || server.report().contains(line));
}
