//! Rows D11, RS4, RS5, LR3, LR4: progress, log lines and checkpoints of jobs that run.

use std::time::Duration;

use hworker::{JobId, JobState, Progress};
use hworker_tests::{
    InProcess, Process, Proxy, Say, TestServer, isolated_jobs, report, report_isolated, tell, walk,
    walk_isolated,
};
use serde_json::Value;

use crate::SOON;
use crate::cli::call;

/// Of a type that is encrypted. Where it stood beside the others, every worker would need a key.
#[hworker::job(backoff = "0s", max_attempts = 3, encrypted)]
async fn report_encrypted(
    name: String,
    plan: Vec<Vec<Say>>,
    context: hworker::Context,
    #[inject] runs: hworker_tests::Runs,
) -> Result<(), hworker::BoxError> {
    tell(&name, plan, &context, runs).await
}

/// A text that only reports have.
const SECRET: &str = "s3cret-report";

fn worker(server: &TestServer) -> InProcess {
    InProcess::run(server.worker().registry(isolated_jobs()).concurrency(4))
}

fn process(server: &TestServer) -> Process {
    let mut command = server.command("test-worker");
    command.env("HWORKER_TEST_JOBS", "isolated").env("HWORKER_CONCURRENCY", "4");
    Process::start(command)
}

async fn reports(server: &TestServer, name: &str, plan: Vec<Vec<Say>>) -> JobId {
    let job = report::with(name.into(), plan).on(server.client());
    job.enqueue().await.expect("enqueued")
}

async fn progress(server: &TestServer, id: &JobId) -> Option<Progress> {
    server.inspect().progress(id).await.expect("looked")
}

async fn log(server: &TestServer, id: &JobId) -> Vec<String> {
    let lines = server.inspect().log(id).await.expect("looked");
    lines.into_iter().map(|line| line.text).collect()
}

fn notes(server: &TestServer, name: &str) -> Vec<String> {
    server.runs_of(name).into_iter().map(|run| run.what).collect()
}

fn key(kind: &str, id: &JobId) -> String {
    format!("hworker-{kind}-default:{id}")
}

fn gate(name: &str) -> Say {
    Say::Gate(name.into())
}

#[tokio::test(flavor = "multi_thread")]
async fn d11_rs4_rs5_what_a_body_reports_is_read_while_it_runs() {
    // Progress with a note and two lines -> they are read before the body goes on, by their calls and with the job; the last progress is there when
    // it has ended. What it reported is kept for an hour then.
    // Guard: `keep_writing`, and `last`.
    let server = TestServer::start();
    let _worker = worker(&server);
    let say = vec![
        Say::Progress(3, 10, "resizing".into()),
        Say::Log("first".into()),
        Say::Log("second".into()),
        gate("a"),
        Say::Progress(10, 10, String::new()),
    ];
    let id = reports(&server, "a", vec![say]).await;
    server.eventually_async("it is read", SOON, async || log(&server, &id).await.len() == 2).await;
    assert_eq!(log(&server, &id).await, ["first", "second"]);
    let far = progress(&server, &id).await.expect("a progress");
    assert_eq!((far.done, far.of, far.attempt), (3, 10, 1));
    assert_eq!(far.note.as_deref(), Some("resizing"));
    let found = server.inspect().find(&id).await.expect("looked").expect("it runs");
    assert_eq!((found.state, found.log_lines), (JobState::Running, 2));
    assert_eq!(found.progress, Some(far));
    server.open("a");
    server.eventually("it is done", SOON, || server.counter("processed") == 1);
    let far = progress(&server, &id).await.expect("a progress");
    assert_eq!((far.done, far.note), (10, None));
    for kind in ["live", "log"] {
        let left: i64 = server.redis().ask(&["TTL", &key(kind, &id)]);
        assert!((3_500..=3_600).contains(&left), "{kind}: {left}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rs4_a_body_that_reports_nothing_writes_nothing() {
    let server = TestServer::start();
    let _worker = worker(&server);
    let id = reports(&server, "a", vec![vec![]]).await;
    server.eventually("it is done", SOON, || server.counter("processed") == 1);
    assert_eq!(progress(&server, &id).await, None);
    assert!(server.redis().keys("hworker-li*").is_empty());
    assert!(server.redis().keys("hworker-log*").is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn rs5_a_log_is_bounded() {
    // 1,500 lines, and one of 9,000 bytes -> the newest thousand are kept, the long one cut and marked.
    // Guard: the loop with `LPOP` in remember.lua, and `bounded`.
    let server = TestServer::start();
    let _worker = worker(&server);
    let say = vec![Say::Lines(700), gate("a"), Say::Lines(800), Say::Log("x".repeat(9_000))];
    let id = reports(&server, "a", vec![say]).await;
    server
        .eventually_async("the first are written", SOON, async || {
            log(&server, &id).await.len() == 700
        })
        .await;
    server.open("a");
    server.eventually("it is done", SOON, || server.counter("processed") == 1);
    let lines = log(&server, &id).await;
    assert_eq!((lines.len(), &*lines[0]), (1_000, "501"));
    let last = lines.last().expect("a line");
    assert!(last.len() < 4_100 && last.ends_with("[cut]"), "{}", last.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn rs5_a_log_has_at_most_256_kb() {
    let server = TestServer::start();
    let _worker = worker(&server);
    let long = |n| Say::Log(format!("{n} {}", "x".repeat(3_900)));
    let say = (0..40).map(long).chain([gate("a")]).chain((40..100).map(long)).collect();
    let id = reports(&server, "a", vec![say]).await;
    server
        .eventually_async("the first are written", SOON, async || {
            log(&server, &id).await.len() == 40
        })
        .await;
    server.open("a");
    server.eventually("it is done", SOON, || server.counter("processed") == 1);
    let lines = log(&server, &id).await;
    let bytes: usize = lines.iter().map(String::len).sum();
    assert!((200_000..=256 * 1024).contains(&bytes), "{bytes}");
    assert!(lines[0].starts_with('3'), "{}", &lines[0][..10]);
    let counted: usize = server.redis().ask(&["HGET", &key("live", &id), "bytes"]);
    let stored: Vec<String> = server.redis().ask(&["LRANGE", &key("log", &id), "0", "-1"]);
    assert_eq!(counted, stored.iter().map(String::len).sum::<usize>());
}

#[tokio::test(flavor = "multi_thread")]
async fn lr3_the_next_attempt_finds_the_checkpoint() {
    // Saved before an error, a panic and a snooze -> the next attempt has it. After the job has failed for good it is kept for 30 days, and is there
    // where the job is run again by hand.
    // Guard: `last`, before the lease ends.
    let server = TestServer::start();
    let _worker = worker(&server);
    let saves = |value: &str, end| vec![Say::Restore, Say::Checkpoint(value.into()), end];
    let plan = vec![
        saves("1", Say::Snooze),
        saves("2", Say::Fail),
        saves("3", Say::Panic),
        saves("4", Say::Fail),
        vec![Say::Restore, Say::RestoreNumber],
    ];
    let id = reports(&server, "a", plan).await;
    server.eventually("it has failed", SOON, || server.counter("failed") == 1);
    let left: i64 = server.redis().ask(&["TTL", &key("live", &id)]);
    assert!((29 * 86_400..=30 * 86_400).contains(&left), "{left}");
    let job = server.inspect().find(&id).await.expect("looked").expect("a record");
    server.inspect().change(&[job], &hworker::Action::Retry).await.expect("it runs again");
    server.eventually("it is done", SOON, || server.counter("processed") == 1);
    let notes = notes(&server, "a");
    let restored: Vec<_> =
        notes.iter().filter(|note| !["begin", "end"].contains(&note.as_str())).collect();
    assert_eq!(restored[..5], ["nothing", "restored 1", "restored 2", "restored 3", "restored 4"]);
    assert!(restored[5].contains("does not fit"), "{restored:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn lr3_another_job_of_the_same_id_begins_anew() {
    // A job with an id of its own that is done, one that has failed for good, and behind each another of that id: it finds no checkpoint and does each
    // item of its loop. One that is done and run again by hand begins anew too.
    // Guard: `job` in remember.lua and read.rs; what is removed where a job is done.
    let server = TestServer::start();
    let keeps = server.worker().registry(isolated_jobs()).concurrency(4).keep_done(100);
    let _worker = InProcess::run(keeps);
    let plan = vec![vec![Say::Checkpoint("old".into())], vec![Say::Restore]];
    let id = reports(&server, "by hand", plan).await;
    server.eventually("it is done", SOON, || server.counter("processed") == 1);
    let job = server.inspect().find(&id).await.expect("looked").expect("a record");
    server.inspect().change(&[job], &hworker::Action::Retry).await.expect("it runs again");
    server.eventually("it is done again", SOON, || server.counter("processed") == 2);
    assert!(notes(&server, "by hand").contains(&"nothing".to_owned()));
    for (number, end) in [vec![], vec![Say::Fail]].into_iter().enumerate() {
        let id = format!("known {number}");
        let ended = || server.counter("processed") + server.counter("failed");
        let before = ended();
        let saves = [vec![Say::Checkpoint("old".into())], end].concat();
        for (times, plan) in [vec![saves], vec![vec![Say::Restore]]].into_iter().enumerate() {
            let name = format!("{id} {times}");
            let job = report::with(name, plan).id(&id).on(server.client());
            job.enqueue().await.expect("enqueued");
            server.eventually("it has ended", SOON, || ended() == before + 1 + times as u64);
        }
        assert!(notes(&server, &format!("{id} 1")).contains(&"nothing".to_owned()), "{id}");
    }
    let walks = |name: &str| walk::with(name.into(), 3, 0, None, None).id("walks");
    for name in ["first", "second"] {
        walks(name).on(server.client()).enqueue().await.expect("enqueued");
        let ended = || notes(&server, name).contains(&"end".to_owned());
        server.eventually("it has ended", SOON, ended);
        let items = notes(&server, name).iter().filter(|note| note.starts_with("item")).count();
        assert_eq!(items, 3, "{name}");
        server.eventually("its id is free", SOON, || {
            server.redis().len("hworker-jobs-default:ids") == 0
        });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lr3_each_worker_has_checkpoints_of_its_own() {
    // A loop for each of two workers -> both do all of it, and what each reports is read under the id with the worker.
    // Guard: `Held::is_copy`.
    let server = TestServer::start();
    let workers = [process(&server), process(&server)];
    server
        .eventually_async("both are there", SOON, async || {
            server.inspect().workers().await.expect("looked").len() == 2
        })
        .await;
    let job = walk::with("each".into(), 5, 20, None, None).on_each_of(2).on(server.client());
    let id = job.enqueue().await.expect("enqueued");
    let ends = || server.runs_of("each").iter().filter(|run| run.what == "end").count();
    server.eventually("both have ended", SOON, || ends() == 2);
    let runs = server.runs_of("each");
    assert_eq!(runs.iter().filter(|run| run.what.starts_with("item")).count(), 10, "{runs:?}");
    for run in runs.iter().filter(|run| run.what == "end") {
        let own = JobId::from(&*format!("{id}@{}", run.worker));
        let done = async || progress(&server, &own).await.is_some_and(|far| far.done == 5);
        server.eventually_async("its progress is there", SOON, done).await;
    }
    drop(workers);
}

#[tokio::test(flavor = "multi_thread")]
async fn lr3_a_loop_in_a_loop_goes_on_in_its_place() {
    // Three tables of four rows, each a loop with a name; the first attempt fails in the second table -> the second begins at that row, and skips none.
    // Loops without names beside each other, or one in the other, are refused: they could take each other's place.
    // Guard: the names of fields in each.rs, and what it removes at the end of an inner loop.
    let server = TestServer::start();
    let jobs = isolated_jobs().with::<tables>().with::<nameless>();
    let _worker = InProcess::run(server.worker().registry(jobs));
    tables::with("named".into()).on(server.client()).enqueue().await.expect("enqueued");
    server.eventually("it is done", SOON, || server.counter("processed") == 1);
    let rows: Vec<_> =
        notes(&server, "named").into_iter().filter(|note| note.contains(',')).collect();
    let all = (0..3).flat_map(|table| (0..4).map(move |row| format!("{table},{row}")));
    let mut expected: Vec<_> = all.collect();
    expected.insert(7, "1,2".into());
    assert_eq!(rows, expected);
    for nested in [true, false] {
        let before = server.counter("failed");
        let job = nameless::with(nested).on(server.client());
        let id = job.enqueue().await.expect("enqueued");
        server.eventually("it has failed", SOON, || server.counter("failed") > before);
        let failed = server.inspect().find(&id).await.expect("looked").expect("a record");
        assert!(failed.message.is_some_and(|why| why.contains(".named(")), "{nested}");
    }
}

#[hworker::job(backoff = "0s", max_attempts = 2)]
async fn tables(
    name: String,
    context: hworker::Context,
    #[inject] runs: hworker_tests::Runs,
) -> Result<(), hworker::BoxError> {
    let runner = hworker_tests::Runner::from(&context);
    let number = runs.begin(&runner);
    let (context, runs, runner, name) = (&context, &runs, &runner, &*name);
    let table = |table: u64| async move {
        let row = |row: u64| async move {
            runs.note(name, &format!("{table},{row}"), number, runner);
            if number == 0 && (table, row) == (1, 2) {
                return Err::<(), hworker::BoxError>("told to fail".into());
            }
            Ok(())
        };
        context.each(0..4, row).named("rows").await
    };
    context.each(0..3, table).named("tables").await
}

#[hworker::job(max_attempts = 1)]
async fn nameless(nested: bool, context: hworker::Context) -> Result<(), hworker::BoxError> {
    let nothing = |_: u64| async { Ok::<_, hworker::BoxError>(()) };
    let context = &context;
    if nested {
        return context.each(0..2, |_| async move { context.each(0..2, nothing).await }).await;
    }
    context.each(0..2, nothing).await?;
    context.each(0..2, nothing).await
}

#[tokio::test(flavor = "multi_thread")]
async fn lr3_a_killed_worker_loses_no_more_than_a_second() {
    // A checkpoint that is written, kill -9 of the worker, and the same of the process of an isolated body: the next attempt has it.
    // Guard: `keep_writing`.
    let server = TestServer::start();
    let mut first = process(&server);
    let plan = vec![vec![Say::Checkpoint("far".into()), gate("never")], vec![Say::Restore]];
    let id = reports(&server, "a", plan.clone()).await;
    server
        .eventually_async("it is written", SOON, async || {
            server.redis().keys(&key("live", &id)).len() == 1
        })
        .await;
    first.kill();
    let _second = process(&server);
    server.eventually("it is done", SOON, || server.counter("processed") == 1);
    assert!(notes(&server, "a").contains(&"restored far".to_owned()));
    let plan = vec![
        vec![
            Say::Checkpoint("far".into()),
            Say::Progress(1, 2, "half".into()),
            Say::Log("here".into()),
            gate("b"),
            Say::Abort,
        ],
        vec![Say::Restore],
    ];
    let job = report_isolated::with("b".into(), plan).on(server.client());
    let id = job.enqueue().await.expect("enqueued");
    server
        .eventually_async("it is written", SOON, async || {
            log(&server, &id).await == ["here"] && progress(&server, &id).await.is_some()
        })
        .await;
    server.open("b");
    server.eventually("it is done", SOON, || server.counter("processed") == 2);
    assert!(notes(&server, "b").contains(&"restored far".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn lr3_what_is_too_large_is_refused_and_the_one_before_stands() {
    let server = TestServer::start();
    let _worker = worker(&server);
    let plan = vec![
        vec![
            Say::Checkpoint("small".into()),
            Say::LargeCheckpoint(70_000),
            Say::LargeCheckpoint(60_000),
            Say::Checkpoint("small".into()),
            Say::LargeCheckpoint(70_000),
            Say::Fail,
        ],
        vec![Say::Restore],
    ];
    reports(&server, "a", plan).await;
    server.eventually("it is done", SOON, || server.counter("processed") == 1);
    let notes = notes(&server, "a");
    let expected = ["checkpoint false", "checkpoint true", "checkpoint false", "restored small"];
    for one in expected {
        assert!(notes.contains(&one.to_owned()), "{notes:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lr3_who_has_lost_the_job_reports_nothing_more() {
    // A worker that is stopped, declared dead and goes on: its body is cancelled, and writes nothing over what the next attempt wrote.
    // Guard: `HEXISTS` in remember.lua.
    let server = TestServer::start();
    let proxy = Proxy::before(&server);
    let jobs = isolated_jobs();
    let alone = hworker::Worker::builder().client(&proxy.client()).registry(jobs).concurrency(1);
    let alone = alone.state(hworker_tests::Runs::new(server.url()));
    let cut = InProcess::run(alone);
    let plan = vec![
        vec![
            Say::Checkpoint("old".into()),
            gate("a"),
            Say::LargeCheckpoint(5),
            Say::Lines(1),
            gate("never"),
        ],
        vec![Say::Restore, Say::Checkpoint("new".into()), gate("b")],
    ];
    let id = reports(&server, "a", plan).await;
    server.eventually("it is written", SOON, || !server.redis().keys(&key("live", &id)).is_empty());
    proxy.unreachable(true);
    let _worker = worker(&server);
    let checkpoint =
        || -> String { server.redis().ask(&["HGET", &key("live", &id), "checkpoint"]) };
    server.eventually("the next attempt runs", SOON, || checkpoint() == r#""new""#);
    server.open("a");
    server.eventually("the first goes on", SOON, || {
        notes(&server, "a").contains(&"checkpoint true".to_owned())
    });
    proxy.unreachable(false);
    cut.stop().await;
    assert_eq!(checkpoint(), r#""new""#);
    server.open("b");
    server.eventually("it is done", SOON, || server.counter("processed") == 1);
    assert!(notes(&server, "a").contains(&"restored old".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn lr3_a_loop_goes_on_where_it_failed() {
    // `each` over ten items, the first attempt of which fails at the sixth -> the second begins with that. The progress is that of the loop.
    // Guard: `items.nth(last)` in reports/each.rs.
    let server = TestServer::start();
    let _worker = worker(&server);
    let job = walk::with("a".into(), 10, 0, None, Some(5)).on(server.client());
    let id = job.enqueue().await.expect("enqueued");
    server.eventually("it is done", SOON, || server.counter("processed") == 1);
    let items: Vec<_> =
        notes(&server, "a").into_iter().filter(|note| note.starts_with("item")).collect();
    let expected = [0, 1, 2, 3, 4, 5, 5, 6, 7, 8, 9].map(|item| format!("item {item}"));
    assert_eq!(items, expected);
    let far = progress(&server, &id).await.expect("a progress");
    assert_eq!((far.done, far.of, far.first_done, far.attempt), (10, 10, 5, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn lr4_a_loop_gives_way_after_its_time() {
    // One slot; a loop of 300 items of 10 ms with 200 ms at a time, and another job behind it -> that one does not wait for the end of the loop; no
    // item is done twice, and no attempt is counted.
    // Guard: `max_runtime` in reports/each.rs.
    let server = TestServer::start();
    let mut command = server.command("test-worker");
    command.env("HWORKER_TEST_JOBS", "isolated").env("HWORKER_CONCURRENCY", "1");
    let _worker = Process::start(command);
    for (name, isolated) in [("a", false), ("b", true)] {
        if isolated {
            let job = walk_isolated::with(name.into(), 100, 10, Some(200), None);
            job.on(server.client()).enqueue().await.expect("enqueued");
        } else {
            let job = walk::with(name.into(), 100, 10, Some(200), None).on(server.client());
            job.enqueue().await.expect("enqueued");
        }
        let behind = format!("behind {name}");
        server.eventually("it runs", SOON, || !notes(&server, name).is_empty());
        reports(&server, &behind, vec![]).await;
        server
            .eventually("it has ended", SOON, || notes(&server, name).contains(&"end".to_owned()));
        let runs = server.runs_of(name);
        let items: Vec<_> = runs
            .iter()
            .filter_map(|run| run.what.strip_prefix("item ")?.parse::<u64>().ok())
            .collect();
        assert_eq!(items, (0..100).collect::<Vec<_>>(), "{name}");
        assert!(runs.iter().all(|run| run.attempt == 1), "{name}: {runs:?}");
        let end = runs.iter().find(|run| run.what == "end").expect("an end").at;
        let other = server.runs_of(&behind);
        assert!(other.iter().any(|run| run.at < end), "{name}: {other:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lr3_a_deploy_interrupts_a_loop_and_another_worker_goes_on() {
    // A worker with a grace of a minute is told to stop in the middle of a long loop -> it ends after the item that it is at, and not at the end of
    // the grace; another worker does the rest, each item once.
    // Guard: `is_stopping` in reports/each.rs; `Order::Stop` for the isolated one.
    let server = TestServer::start();
    for name in ["a", "b"] {
        let mut command = server.command("test-worker");
        command.env("HWORKER_TEST_JOBS", "isolated").env("HWORKER_SHUTDOWN_GRACE", "60s");
        let mut first = Process::start(command);
        let (items, ms) = (60, 50);
        if name == "a" {
            let job = walk::with(name.into(), items, ms, None, None).on(server.client());
            job.enqueue().await.expect("enqueued");
        } else {
            let job = walk_isolated::with(name.into(), items, ms, None, None);
            job.on(server.client()).enqueue().await.expect("enqueued");
        }
        server.eventually("it runs", SOON, || notes(&server, name).len() > 5);
        first.terminate();
        assert!(first.wait(Duration::from_secs(20)).is_some_and(|status| status.success()));
        let done = notes(&server, name).len();
        assert!(done < 60, "{name}: it was interrupted: {done}");
        let second = process(&server);
        server
            .eventually("it has ended", SOON, || notes(&server, name).contains(&"end".to_owned()));
        let runs = server.runs_of(name);
        let items: Vec<_> = runs
            .iter()
            .filter_map(|run| run.what.strip_prefix("item ")?.parse::<u64>().ok())
            .collect();
        assert_eq!(items, (0..60).collect::<Vec<_>>(), "{name}");
        assert!(runs.iter().all(|run| run.attempt == 1), "{name}: {runs:?}");
        drop(second);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rs4_what_an_encrypted_job_reports_is_encrypted() {
    // Notes, lines and checkpoints of a type with `encrypted` -> nothing at the server has their text; who has the key reads them, who has none is
    // told why not.
    // Guard: `Context::sealed`.
    let server = TestServer::start();
    let with_key = || {
        let client = hworker::Client::builder().redis_url(server.url());
        client.encryption_key("k", &[1; 32]).build().expect("a client")
    };
    let worker = hworker::Worker::builder().client(&with_key());
    let runs = hworker_tests::Runs::new(server.url());
    let jobs = hworker::Registry::new().with::<report_encrypted>();
    let _worker = InProcess::run(worker.registry(jobs).state(runs));
    let say = vec![
        Say::Progress(1, 2, SECRET.into()),
        Say::Log(SECRET.into()),
        Say::Checkpoint(SECRET.into()),
        Say::Fail,
    ];
    let job = report_encrypted::with("a".into(), vec![say, vec![Say::Restore]]);
    let id = job.on(&with_key()).enqueue().await.expect("enqueued");
    server.eventually("it is done", SOON, || server.counter("processed") == 1);
    assert!(notes(&server, "a").contains(&format!("restored {SECRET}")));
    let inspect = with_key().inspect("default");
    let far = inspect.progress(&id).await.expect("looked").expect("a progress");
    assert_eq!(far.note.as_deref(), Some(SECRET));
    assert_eq!(inspect.log(&id).await.expect("looked")[0].text, SECRET);
    let fields: Vec<String> = server.redis().ask(&["HVALS", &key("live", &id)]);
    let lines: Vec<String> = server.redis().ask(&["LRANGE", &key("log", &id), "0", "-1"]);
    assert!(fields.iter().chain(&lines).all(|text| !text.contains(SECRET)), "{fields:?} {lines:?}");
    assert!(log(&server, &id).await[0].contains("encrypted with the key `k`"));
    let note = progress(&server, &id).await.expect("a progress").note.expect("a note");
    assert!(note.contains("encrypted with the key `k`"), "{note}");
}

#[tokio::test(flavor = "multi_thread")]
async fn rs4_a_key_of_another_type_harms_no_job() {
    // Somebody made a string of both keys: the job is done all the same, and those who look are told.
    let server = TestServer::start();
    let _worker = worker(&server);
    let id = JobId::from("known");
    for kind in ["live", "log"] {
        let _: String = server.redis().ask(&["SET", &key(kind, &id), "x"]);
    }
    let say = vec![Say::Progress(1, 2, "x".into()), Say::Log("x".into()), Say::Fail];
    let plan = vec![say, vec![Say::Log("again".into())]];
    let job = report::with("a".into(), plan).id("known").on(server.client());
    job.enqueue().await.expect("enqueued");
    server.eventually("it is done", SOON, || server.counter("processed") == 1);
    let told = server.inspect().log(&id).await;
    assert!(told.is_err(), "{told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn rs4_rs5_the_command_line_shows_what_a_job_reports() {
    let server = TestServer::start();
    let _worker = worker(&server);
    let say = vec![Say::Progress(1, 4, "slow".into()), Say::Log("one".into()), gate("a")];
    let id = reports(&server, "a", vec![say]).await;
    server.eventually_async("it is read", SOON, async || log(&server, &id).await.len() == 1).await;
    let id = id.as_str();
    let shown = call(&server, &["jobs", "show", id]);
    assert!(shown.out.contains("25 %, 1 of 4") && shown.out.contains("slow"), "{}", shown.out);
    assert!(shown.out.contains("1 lines"), "{}", shown.out);
    let json = call(&server, &["jobs", "log", id, "--json"]);
    let line: Value = serde_json::from_str(json.out.trim()).expect("a line of JSON");
    assert_eq!((&line["text"], &line["attempt"]), (&"one".into(), &1.into()));
    std::thread::scope(|scope| {
        let follows = scope.spawn(|| call(&server, &["jobs", "log", id, "--follow"]));
        server.open("a");
        let followed = follows.join().expect("it ends with the job");
        assert!(followed.out.contains("one") && followed.code == 0, "{}", followed.out);
    });
    let none = call(&server, &["jobs", "log", "nobody"]);
    assert_eq!(none.code, 3, "{}", none.err);
}
