//! Rows G2, G5, CT7 and CC8: workers are steered from another process.

use std::time::Duration;

use hworker::Error;
use hworker_tests::{Act, InProcess, Process, TestServer, act};

use crate::SOON;

/// Longer than a worker takes to learn of an order.
const LONG: Duration = Duration::from_millis(2_500);

fn held(server: &TestServer, name: &str) -> hworker::Enqueue<act> {
    let plan = vec![vec![Act::Gate("go".into())]];
    act::with(name.to_owned(), plan).on(server.client())
}

fn worker(server: &TestServer, name: &str, slots: &str) -> Process {
    server.worker_process(&[("HWORKER_NAME", name), ("HWORKER_CONCURRENCY", slots)])
}

/// The ids of the live workers of a label.
async fn ids(server: &TestServer, label: &str) -> Vec<String> {
    let workers = server.inspect().workers().await.expect("workers");
    let of_label = workers.into_iter().map(|worker| worker.id);
    of_label.filter(|id| id.starts_with(&format!("{label}."))).collect()
}

async fn id_of(server: &TestServer, label: &str) -> String {
    server
        .eventually_async("it is there", SOON, async || ids(server, label).await.len() == 1)
        .await;
    ids(server, label).await.remove(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn ct7_g2_a_quiet_worker_takes_no_more_jobs() {
    // What runs goes on, nothing new starts in it, others go on; it is told from another process, and told to take jobs again.
    // Guard: `Consumer::takes_none`; in `wait` that its wait is ended.
    let server = TestServer::start();
    let _worker = worker(&server, "one", "2");
    held(&server, "held").enqueue().await.expect("enqueued");
    server.eventually("it runs", SOON, || server.begun("held") == 1);
    let id = id_of(&server, "one").await;
    let one = server.client().worker(&id);
    assert_eq!(one.quiet().await.expect("told"), 1);
    server
        .eventually_async("it has heard", SOON, async || {
            server.inspect().workers().await.expect("workers")[0].quiet
        })
        .await;
    tokio::time::sleep(LONG).await;
    for number in 0..10 {
        server.enqueue(&format!("waits-{number}"), Vec::new()).await;
    }
    server.holds("nothing starts", LONG, || server.begun("waits-0") == 0);
    server.open("go");
    server.eventually("what ran is done", SOON, || server.ended("held") == 1);
    server.holds("nothing starts", LONG, || server.begun("waits-0") == 0);
    assert_eq!(one.resume().await.expect("told"), 1);
    server.eventually("all run", SOON, || {
        (0..10).all(|number| server.ended(&format!("waits-{number}")) == 1)
    });
    let nobody = server.client().worker("nobody.0123456789ab").quiet().await;
    assert!(matches!(nobody, Err(Error::NotFound { .. })), "{nobody:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn ct7_a_quiet_worker_keeps_no_job_back() {
    // The server hands a job to a worker that has just become quiet: the worker gives it back, and another runs it.
    // Guard: `look` in the plan of a worker that takes no jobs.
    let server = TestServer::start();
    let _quiet = worker(&server, "one", "2");
    let id = id_of(&server, "one").await;
    server.client().worker(&id).quiet().await.expect("told");
    tokio::time::sleep(LONG).await;
    let envelope = r#"{"job":"act","args":{"name":"handed","plan":[]}}"#;
    let inbox = format!("hworker-inbox-default:{id}");
    let _: u64 = server.redis().ask(&["LPUSH", &inbox, envelope]);
    server.eventually("it is given back", SOON, || server.redis().len("hworker-jobs-default") == 1);
    let _other = worker(&server, "two", "2");
    server.eventually("it runs", SOON, || server.ended("handed") == 1);
    assert!(server.runs_of("handed")[0].worker.starts_with("two."));
}

#[tokio::test(flavor = "multi_thread")]
async fn ct7_orders_by_label_survive_restarts() {
    // All workers of the label, also one that starts later, obey; others do not.
    let server = TestServer::start();
    let label = server.client().workers_of_label("web");
    let mut first = worker(&server, "web", "2");
    let id = id_of(&server, "web").await;
    assert_eq!(label.quiet().await.expect("told"), 1);
    first.terminate();
    assert!(first.wait(SOON).is_some());
    let _second = worker(&server, "web", "2");
    server.enqueue("waits", Vec::new()).await;
    server
        .eventually_async("another is there", SOON, async || {
            ids(&server, "web").await.iter().any(|other| *other != id)
        })
        .await;
    server.holds("it starts nothing", LONG, || server.begun("waits") == 0);
    let _other = worker(&server, "webber", "2");
    server.eventually("another label is not meant", SOON, || server.ended("waits") == 1);
    label.resume().await.expect("told");
    let again = server.client().workers_of_label("no label");
    assert!(again.quiet().await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn cc8_a_worker_is_scaled_while_it_runs() {
    // More slots start what waits; with fewer what runs ends, and no more start than there are; back to its own settings.
    // Guard: `Places::resize`, `owes`.
    let server = TestServer::start();
    let _worker = InProcess::run(server.worker().register::<act>().concurrency(2).name("scaled"));
    let name = |number: usize| format!("held-{number}");
    for number in 0..12 {
        let plan = vec![vec![Act::Gate(name(number))]];
        let job = act::with(name(number), plan).on(server.client());
        job.enqueue().await.expect("enqueued");
    }
    let begun = || (0..12).filter(|number| server.begun(&name(*number)) > 0).count();
    server.eventually("as many as slots", SOON, || begun() == 2);
    let id = id_of(&server, "scaled").await;
    let scaled = server.client().worker(&id);
    for wrong in [0, 100_001] {
        assert!(matches!(scaled.scale(wrong).await, Err(Error::Config(_))), "{wrong}");
    }
    assert_eq!(scaled.scale(6).await.expect("told"), 1);
    server.eventually("more run", SOON, || begun() == 6);
    server.holds("and no more", Duration::from_millis(500), || begun() == 6);
    assert_eq!(scaled.scale(1).await.expect("told"), 1);
    let slots = async || server.inspect().workers().await.expect("workers")[0].concurrency;
    server.eventually_async("it is seen", SOON, async || slots().await == 1).await;
    tokio::time::sleep(LONG).await;
    (0..5).for_each(|number| server.open(&name(number)));
    server.eventually("five end", SOON, || (0..5).all(|number| server.ended(&name(number)) == 1));
    server.holds("and none takes their place", Duration::from_secs(1), || begun() == 6);
    server.open(&name(5));
    server.eventually("the next has the one slot", SOON, || begun() == 7);
    server.holds("alone", Duration::from_millis(500), || begun() == 7);
    assert_eq!(scaled.unscale().await.expect("told"), 1);
    server.eventually("as its settings say", SOON, || begun() == 8);
    (6..12).for_each(|number| server.open(&name(number)));
    server.drained(SOON);
}

#[tokio::test(flavor = "multi_thread")]
async fn g5_workers_are_stopped_from_elsewhere() {
    // Named -> it stops gracefully, as at SIGTERM; with a grace of its own -> running jobs are given back after it; all of a label.
    let server = TestServer::start();
    let (mut one, mut two) = (worker(&server, "one", "1"), worker(&server, "two", "1"));
    let (first, second) = (id_of(&server, "one").await, id_of(&server, "two").await);
    server.enqueue("short", vec![vec![Act::Sleep(1_500)]]).await;
    server.eventually("it runs", SOON, || server.begun("short") == 1);
    let runs_on = server.runs_of("short")[0].worker.clone();
    let (id, runs, other) =
        if runs_on == first { (first, &mut one, &mut two) } else { (second, &mut two, &mut one) };
    assert_eq!(server.client().worker(&id).stop(None).await.expect("told"), 1);
    assert!(runs.wait(SOON).is_some_and(|status| status.success()), "it ends by itself");
    assert_eq!(server.ended("short"), 1, "its job may finish");
    assert!(other.exited().is_none(), "another goes on");

    held(&server, "held").enqueue().await.expect("enqueued");
    server.eventually("it runs", SOON, || server.begun("held") == 1);
    for label in ["one", "two"] {
        let stopped = server.client().workers_of_label(label);
        stopped.stop(Some(Duration::ZERO)).await.expect("told");
    }
    let mut left = [one, two];
    let ended =
        left.iter_mut().all(|worker| worker.wait(SOON).is_some_and(|status| status.success()));
    assert!(ended);
    assert_eq!(server.inspect().counts().await.expect("counts").waiting, 1, "it is given back");
}
