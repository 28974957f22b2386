//! Rows S: jobs that wait for a time.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, SystemTime};

use hworker_tests::{Act, Fault, Machine, Process, Proxy, SCRIPTS, TestServer, act};

use crate::{RECOVERED, SOON};

const MS: fn(u64) -> Duration = Duration::from_millis;

async fn enqueue_in(server: &TestServer, ms: u64, name: &str) {
    let job = act::with(name.into(), Vec::new()).delay(MS(ms)).on(server.client());
    job.enqueue().await.expect("enqueued");
}

/// The process that keeps the timer of the queue `default`.
fn timekeeper(server: &TestServer) -> Option<u32> {
    let id: Option<String> = server.redis().ask(&["GET", "hworker-timer-default"]);
    let record = format!("hworker-worker-default:{}", id?);
    server.redis().ask::<Option<u32>>(&["HGET", &record, "pid"])
}

#[tokio::test(flavor = "multi_thread")]
async fn s1_delay() {
    // Delays 0, .5, 0, 1.5 s -> 2 ready at once; none starts early; 4 by 2 s. Late by < 500 ms, also on a machine that does other things:
    // heartbeats alone, each 1.5 s, are later for one of the two.
    // Guard: due times are of the server's clock; the timer promotes when one is due, and the bell tells it of an earlier one.
    let _machine = Machine::claim();
    let server = TestServer::start();
    let _worker = server.worker_process(&[]);
    server.enqueue("warm", Vec::new()).await;
    server.eventually("the timer is kept", SOON, || {
        server.ended("warm") == 1 && timekeeper(&server).is_some()
    });
    // The later one first: the timer waits for it when the earlier ones come.
    let cases = [("d", 1500), ("a", 0), ("b", 500), ("c", 0)];
    let mut enqueued = HashMap::new();
    for (name, ms) in cases {
        let before = server.redis().time_us() / 1000;
        enqueue_in(&server, ms, name).await;
        enqueued.insert(name, (before, server.redis().time_us() / 1000));
    }
    let all = || cases.iter().all(|(name, _)| server.begun(name) == 1);
    server.eventually("all have run", SOON, all);
    for (name, ms) in cases {
        let (before, after) = enqueued[name];
        let begun = server.runs_of(name)[0].at / 1000;
        assert!(begun >= before + ms, "{name} started {} ms early", before + ms - begun);
        assert!(begun < after + ms + 500, "{name} was {} ms late", begun - after - ms);
    }
    server.drained(SOON);
}

#[tokio::test(flavor = "multi_thread")]
async fn s2_order_by_time() {
    // Past-due -300,-200,-100 -> that order; future one stays.
    // Guard: `promote.lua` takes the earliest first.
    let server = TestServer::start();
    let now = SystemTime::now();
    for (name, ago) in [("-100", 100), ("-300", 300), ("-200", 200)] {
        let plan = vec![vec![Act::Note(name.into())]];
        let job = act::with("past".into(), plan).at(now - MS(ago)).on(server.client());
        job.enqueue().await.expect("enqueued");
    }
    let future = act::with("future".into(), Vec::new()).at(now + SOON * 100).on(server.client());
    future.enqueue().await.expect("enqueued");
    let _worker = server.worker_process(&[("HWORKER_CONCURRENCY", "1")]);
    server.eventually("all run", SOON, || server.ended("past") == 3);
    let runs = server.runs_of("past");
    let order = runs.iter().map(|run| run.what.as_str()).filter(|what| what.len() == 4);
    assert_eq!(order.collect::<Vec<_>>(), ["-300", "-200", "-100"]);
    let stays = || server.leftovers("default") == [("hworker-scheduled-default".to_owned(), 1)];
    // The end of the last body comes before its settlement.
    server.eventually("all are settled", SOON, stays);
    server.holds("the future one stays", Duration::from_secs(2), stays);
    assert_eq!(server.begun("future"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn s3_same_queue_mixes_delayed_and_immediate() {
    // Works: each of 20 immediate and 20 delayed jobs runs once, the immediate ones at once.
    // Guard: the delayed ones are in a structure of their own.
    let server = TestServer::start();
    let _worker = server.worker_process(&[]);
    let before = server.redis().time_us() / 1000;
    for _ in 0..20 {
        enqueue_in(&server, 3_000, "delayed").await;
        server.enqueue("immediate", Vec::new()).await;
    }
    server.eventually("the immediate ones run", MS(2_500), || server.ended("immediate") == 20);
    assert!(server.begun("delayed") == 0 || server.redis().time_us() / 1000 >= before + 3_000);
    server.eventually("the delayed ones run", SOON, || server.ended("delayed") == 20);
    server.drained(SOON);
    assert_eq!(server.counter("processed"), 40);
}

#[tokio::test(flavor = "multi_thread")]
async fn s4_death_of_the_timekeeper_blocks_nobody() {
    // Lock holder death blocks nobody: the process that keeps the timer is killed -> what is due runs with the next heartbeat
    // of another, and soon others are on time again.
    // Guard: the timer expires; every heartbeat promotes what is due.
    let _machine = Machine::claim();
    let server = TestServer::start();
    let mut keeper = server.worker_process(&[("HWORKER_CONCURRENCY", "1")]);
    // Its only slot is taken, so that it holds nothing else when it dies.
    server.enqueue("busy", vec![vec![Act::Gate("never".into())]]).await;
    server.eventually("it keeps the timer", SOON, || {
        server.begun("busy") == 1 && timekeeper(&server) == Some(keeper.pid())
    });
    let other = server.worker_process(&[]);
    server.enqueue("warm", Vec::new()).await;
    server.eventually("the other is there", SOON, || server.ended("warm") == 1);
    assert_eq!(timekeeper(&server), Some(keeper.pid()));

    let before = server.redis().time_us() / 1000;
    enqueue_in(&server, 500, "due").await;
    keeper.kill();
    server.eventually("it runs", SOON, || server.begun("due") == 1);
    let late = server.runs_of("due")[0].at / 1000 - before - 500;
    // A heartbeat each 1.5 s.
    assert!(late < 1_800, "{late} ms late");
    server.eventually("the other keeps it", SOON, || timekeeper(&server) == Some(other.pid()));
    let before = server.redis().time_us() / 1000;
    enqueue_in(&server, 700, "on time").await;
    server.eventually("it runs", SOON, || server.begun("on time") == 1);
    let late = server.runs_of("on time")[0].at / 1000 - before - 700;
    assert!(late < 500, "{late} ms late");
}

#[tokio::test(flavor = "multi_thread")]
async fn s4_crash_safe_move() {
    // Kill poller at any point -> no loss, no double: its request is lost, or its reply, at the first calls and later ones,
    // while jobs become due.
    // Guard: `promote.lua` moves in one script.
    let server = TestServer::start();
    let proxy = Proxy::before(&server);
    for (nth, fault) in [
        (1, Fault::LoseReply),
        (2, Fault::LoseRequest),
        (3, Fault::HangReply),
        (4, Fault::LoseReply),
        (5, Fault::HangRequest),
        (7, Fault::LoseRequest),
    ] {
        proxy.fault(nth, "promote", fault);
    }
    let _poller = server.worker_process(&[("HWORKER_REDIS_URL", &proxy.url())]);
    let mut enqueued = 0;
    // A hanging connection is found after seconds, in which others promote: jobs become due until all has happened.
    let all_lost = async || {
        enqueue_in(&server, 300, "due").await;
        enqueued += 1;
        enqueued >= 400 && proxy.all_happened()
    };
    server.eventually_async("all was lost that is to be", SOON * 4, all_lost).await;
    server.eventually("all run", SOON, || server.ended("due") >= enqueued);
    server.drained(SOON);
    let ids: HashSet<_> = server.runs_of("due").into_iter().map(|run| run.id).collect();
    let runs = (server.begun("due"), ids.len(), server.counter("processed"));
    assert_eq!(runs, (enqueued, enqueued, enqueued as u64));
}

#[tokio::test(flavor = "multi_thread")]
async fn s4_killed_pollers_lose_and_double_nothing() {
    // Kill poller at any point -> no loss, no double: of four workers that promote and run, one after the other is killed
    // while jobs become due. A job runs twice only where its worker was killed under it.
    // Guard: as above, and what a dead worker held is recovered.
    let server = TestServer::start();
    let start = || server.worker_process(&[("HWORKER_CONCURRENCY", "5")]);
    let mut workers: Vec<Process> = (0..4).map(|_| start()).collect();
    for number in 0..400 {
        enqueue_in(&server, 1_000 + number * 10, "due").await;
    }
    let mut killed = HashSet::new();
    for victim in [0, 1, 2, 3, 0, 1] {
        tokio::time::sleep(MS(600 + 37 * victim as u64)).await;
        killed.insert(workers[victim].pid());
        workers[victim].kill();
        workers[victim] = start();
    }
    server.eventually("each runs to its end", RECOVERED * 2, || {
        let runs = server.runs_of("due");
        let ended = runs.iter().filter(|run| run.what == "end").map(|run| &run.id);
        ended.collect::<HashSet<_>>().len() == 400
    });
    server.drained(RECOVERED);
    let mut starts: HashMap<String, Vec<u32>> = HashMap::new();
    for run in server.runs_of("due").into_iter().filter(|run| run.what == "begin") {
        starts.entry(run.id).or_default().push(run.pid);
    }
    assert_eq!(starts.len(), 400);
    for (id, pids) in starts {
        let again = &pids[..pids.len() - 1];
        assert!(
            again.iter().all(|pid| killed.contains(pid)),
            "{id} ran in {pids:?}\n{}",
            server.report()
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s5_many_pollers() {
    // 6 pollers, 1000 due -> 1000 runs.
    // Guard: `promote.lua` moves in one script.
    let _machine = Machine::claim();
    let server = TestServer::start();
    let due = SystemTime::now() + Duration::from_secs(3);
    let workers: Vec<_> = (0..6).map(|_| server.worker_process(&[])).collect();
    let mut ids = HashSet::new();
    for _ in 0..1000 {
        let job = act::with("due".into(), Vec::new()).at(due).on(server.client());
        ids.insert(job.enqueue().await.expect("enqueued").to_string());
    }
    server.eventually("all run", SOON * 2, || server.ended("due") >= 1000);
    server.drained(SOON);
    let runs = server.runs_of("due");
    let begun: Vec<_> = runs.into_iter().filter(|run| run.what == "begin").collect();
    let due_us = due.duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_micros();
    assert!(begun.iter().all(|run| u128::from(run.at) >= due_us - 1_000));
    assert_eq!((begun.len(), server.counter("processed")), (1000, 1000));
    assert_eq!(begun.into_iter().map(|run| run.id).collect::<HashSet<_>>(), ids);
    drop(workers);
}

#[tokio::test(flavor = "multi_thread")]
async fn s6_delayed_jobs_are_as_reliable_as_immediate() {
    // Kill worker in a delayed job -> recovered, at once and not after its delay.
    // Guard: a promoted job is a job like any other.
    let server = TestServer::start();
    let mut first = server.worker_process(&[]);
    let plan = vec![vec![Act::Gate("never".into())], vec![]];
    let job = act::with("delayed".into(), plan).delay(Duration::from_secs(1)).on(server.client());
    let id = job.enqueue().await.expect("enqueued");
    server.eventually("it runs", SOON, || server.begun("delayed") == 1);
    first.kill();
    let second = server.worker_process(&[]);
    server.eventually("it is recovered", RECOVERED, || server.ended("delayed") == 1);
    server.drained(SOON);
    let runs = server.runs_of("delayed");
    assert!(runs.iter().all(|run| run.id == id.as_str() && run.attempt == 1), "{runs:?}");
    assert_eq!((runs.len(), runs[1].pid, server.counter("recovered")), (3, second.pid(), 1));
}

#[test]
fn few_large_jobs_are_due_at_once() {
    // 32 jobs of 1 MB are due -> one script moves what 4 MB hold, and not all that it would look at were they small.
    // Guard: `at_once` and `largest` in `promote.lua`.
    let server = TestServer::alone();
    for number in 0..32 {
        let envelope = format!("{number} {}", "x".repeat(1_000_000));
        server.redis().ask::<u64>(&["ZADD", "hworker-scheduled-default", "1", &envelope]);
    }
    let (_, promote) = SCRIPTS.iter().find(|(name, _)| *name == "promote").expect("the script");
    let keys = ["hworker-scheduled-default", "hworker-jobs-default"];
    let call = [&["EVAL", promote, "2"][..], &keys, &["1000", "4000000", "0"]].concat();
    let (moved, next, _): (u64, i64, u64) = server.redis().ask(&call);
    assert_eq!((moved, next), (1 + 2, 0));
}
