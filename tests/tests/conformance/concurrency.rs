//! Rows C: how many run at once, and where.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use hworker::JobId;
use hworker_tests::{Act, InProcess, Machine, Run, TestServer, act, act_blocking};

use crate::SOON;

/// How many bodies ran at once at most.
fn most_at_once<'a>(runs: impl IntoIterator<Item = &'a Run>) -> usize {
    let (mut now, mut most) = (0_usize, 0);
    for run in runs {
        match run.what.as_str() {
            "begin" => now += 1,
            _ => now -= 1,
        }
        most = most.max(now);
    }
    most
}

#[tokio::test(flavor = "multi_thread")]
async fn c1_concurrency_per_worker() {
    // Limit n, 10n slow jobs -> max running = n; with async and blocking bodies together, and over all queues of the worker.
    // Guard: a slot is a permit, taken before a reserve and dropped after the body.
    let server = TestServer::start();
    let worker = server.worker().register::<act>().register::<act_blocking>();
    let worker = worker.queues(["default", "second"]).concurrency(5);
    // A job type may be on another queue than its own by call, so the second queue is known by its workers only.
    let refused = worker.build().expect_err("no job names the second queue");
    assert!(refused.to_string().contains("`second`"), "{refused}");

    let _worker = server.worker_process(&[("HWORKER_CONCURRENCY", "5")]);
    for number in 0..50 {
        let plan = vec![vec![Act::Sleep(100)]];
        if number % 2 == 0 {
            server.enqueue("slow", plan).await;
        } else {
            let job = act_blocking::with("slow".into(), plan).on(server.client());
            job.enqueue().await.expect("enqueued");
        }
    }
    server.eventually("all run", SOON, || server.ended("slow") == 50);
    assert_eq!(most_at_once(&server.runs_of("slow")), 5);
    server.drained(SOON);
}

#[hworker::job(queue = "cc1-left")]
async fn left(hworker::State(now): hworker::State<Gauge>) {
    now.pass().await;
}

#[hworker::job(queue = "cc1-right")]
async fn right(hworker::State(now): hworker::State<Gauge>) {
    now.pass().await;
}

/// How many pass at once.
#[derive(Clone, Default)]
struct Gauge(std::sync::Arc<std::sync::Mutex<(usize, usize, usize)>>);

impl Gauge {
    async fn pass(&self) {
        {
            let mut gauge = self.0.lock().expect("no panic");
            gauge.0 += 1;
            gauge.1 = gauge.1.max(gauge.0);
        }
        // The work of the body, beside which others may run.
        tokio::time::sleep(Duration::from_millis(30)).await;
        let mut gauge = self.0.lock().expect("no panic");
        gauge.0 -= 1;
        gauge.2 += 1;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cc1_concurrency_over_all_queues_of_a_worker() {
    // Two queues, one worker with 3 slots, 60 jobs -> all run, never more than 3 at once, also when jobs come singly to a
    // worker that waits on both queues.
    // Guard: the slots are the worker's and not the queue's; surplus that the server handed over is released.
    let server = TestServer::start();
    let gauge = Gauge::default();
    let worker = server.worker().register::<left>().register::<right>().state(gauge.clone());
    let worker = InProcess::run(worker.concurrency(3));
    for _ in 0..30 {
        left::with().on(server.client()).enqueue().await.expect("enqueued");
        right::with().on(server.client()).enqueue().await.expect("enqueued");
    }
    server.eventually("all run", SOON, || gauge.0.lock().expect("no panic").2 == 60);
    assert_eq!(gauge.0.lock().expect("no panic").1, 3);
    for queue in ["cc1-left", "cc1-right"] {
        server.eventually("nothing is left", SOON, || server.leftovers(queue).is_empty());
    }
    assert!(worker.is_alive());
}

#[tokio::test(flavor = "multi_thread")]
async fn c4_multiple_processes() {
    // As Q6 with 4 processes: 1000 jobs run once each, all processes take part, and each keeps to its own concurrency.
    // Guard: `reserve.lua` moves a job in one script; a worker id is fresh at each start.
    let _machine = Machine::claim();
    let server = TestServer::start();
    let slots = ["1", "2", "3", "4"];
    let workers: Vec<_> = slots
        .iter()
        .map(|slots| {
            server.worker_process(&[("HWORKER_CONCURRENCY", slots), ("HWORKER_NAME", "same")])
        })
        .collect();
    server.eventually("all are there", SOON, || server.redis().len("hworker-workers-default") == 4);
    let mut ids: HashSet<JobId> = HashSet::new();
    for _ in 0..1000 {
        ids.insert(server.enqueue("shared", vec![vec![Act::Sleep(3)]]).await);
    }
    server.eventually("all run", SOON * 2, || server.ended("shared") >= 1000);
    server.drained(SOON);
    let mut by_process: HashMap<u32, Vec<Run>> = HashMap::new();
    for run in server.runs_of("shared") {
        by_process.entry(run.pid).or_default().push(run);
    }
    assert_eq!((server.begun("shared"), server.counter("processed")), (1000, 1000));
    let ran: HashSet<_> =
        by_process.values().flatten().map(|run| JobId::from(run.id.as_str())).collect();
    assert_eq!(ran, ids);
    for (worker, slots) in workers.iter().zip(slots) {
        let most = most_at_once(&by_process[&worker.pid()]);
        assert!((1..=slots.parse().expect("a number")).contains(&most), "{most} of {slots} slots");
    }
    let names: HashSet<_> = by_process.values().flatten().map(|run| run.worker.clone()).collect();
    assert_eq!(names.len(), 4, "{names:?}");
}

#[hworker::job(timeout = "60s")]
async fn yields_twice() {
    // Not ready at the first poll.
    tokio::time::sleep(Duration::from_millis(1)).await;
    tokio::task::yield_now().await;
}

#[hworker::job(timeout = "60s")]
async fn yields_at_once() {
    tokio::task::yield_now().await;
    tokio::task::yield_now().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_is_woken_while_its_task_gives_way_goes_on() {
    // In one slot, one after the other, so that the last of each row begins where another ended, and its task lets the loop that fetches have its
    // turn before it goes on: the wake that comes meanwhile is the body's only one.
    // Guard: `polled` in `attempt/runner.rs`.
    let server = TestServer::start();
    let worker =
        server.worker().register::<yields_twice>().register::<yields_at_once>().concurrency(1);
    let _worker = InProcess::run(worker);
    let rounds = 20;
    for round in 1..=rounds {
        for _ in 0..4 {
            yields_twice::with().on(server.client()).enqueue().await.expect("enqueued");
            yields_at_once::with().on(server.client()).enqueue().await.expect("enqueued");
        }
        let all = || server.counter("processed") == 8 * round;
        server.eventually("all end", Duration::from_secs(20), all);
    }
}
