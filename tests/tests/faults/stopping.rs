//! Rows G: signals, and workers that are cut off.

use std::process::ExitStatus;
use std::time::{Duration, Instant};

use hworker_tests::Records as _;
use hworker_tests::{Act, InProcess, Process, Proxy, TestServer, act_blocking, act_unless_crashed};

use crate::support::{
    HOUR_MS, SOON, begins, block_on, cancelled_at, counter, first_run_hangs, ms_between, now_us,
    put, put_on, serving, wait_for_workers,
};

/// Waits for the end of a process, and says how long it took.
fn end_of(process: &mut Process, within: Duration) -> (ExitStatus, Duration) {
    let start = Instant::now();
    let status = process.wait(within).expect("it ends in time");
    (status, start.elapsed())
}

#[test]
fn g3_graceful_stop() {
    // SIGTERM with a 2 s job -> finishes, acked, no new job, exit 0; worker unregistered.
    // Guard: `stopping` at reserve and at the wait; `retire.lua`.
    let server = TestServer::start();
    let mut worker = server.worker_process(&[]);
    put(&server, "job", vec![vec![Act::Sleep(2_000)]]);
    server.eventually("it runs", SOON, || server.begun("job") == 1);
    worker.terminate();
    let log = server.dir().join("process-0.log");
    let log = || std::fs::read_to_string(&log).expect("the log");
    server.eventually("it stops", SOON, || log().contains("worker stops"));
    // Enqueued while the worker stops, so nobody takes it.
    put(&server, "new", vec![]);
    let (status, _) = end_of(&mut worker, SOON);
    assert!(status.success(), "{status}");
    assert_eq!((server.ended("job"), counter(&server, "processed")), (1, 1));
    assert_eq!(server.begun("new"), 0);
    assert_eq!(server.leftovers("default"), [("hworker-jobs-default".to_owned(), 1)]);
    assert!(serving(&server).is_empty());
}

#[test]
fn g4_bounded_stop() {
    // Grace 1 s, job 10 s -> at 1 s lease returned, job re-run elsewhere at once (not after the timeout); the attempt is
    // not counted.
    // Guard: the release at the end of the grace.
    let server = TestServer::start();
    let mut first = server.worker_process(&[("HWORKER_SHUTDOWN_GRACE", "1s")]);
    put(&server, "job", vec![vec![Act::Sleep(10_000)], vec![]]);
    server.eventually("it runs", SOON, || server.begun("job") == 1);
    let _second = server.worker_process(&[]);
    wait_for_workers(&server, 2);
    let stopped = now_us(&server);
    first.terminate();
    server.eventually("it runs elsewhere", SOON, || server.ended("job") == 1);
    let runs = begins(&server, "job");
    let after = ms_between(stopped, runs[1].at);
    println!("given back after {after} ms, with a grace of 1 s");
    assert!((1_000..1_500).contains(&after), "{after} ms");
    assert_eq!(runs[1].attempt, 1);
    let (status, _) = end_of(&mut first, SOON);
    assert!(status.success(), "{status}");
    assert_eq!(counter(&server, "recovered"), 0);
}

#[test]
fn g4_what_a_body_that_blocks_its_thread_has_is_given_back() {
    // Grace 0.3 s, one of two threads blocked by an async body, which nobody can end -> its job is given back all the same, uncounted, and runs
    // elsewhere; the other's is given back at once.
    // Guard: `give_running_back`.
    let server = TestServer::start();
    let settings = [("HWORKER_SHUTDOWN_GRACE", "300ms"), ("TOKIO_WORKER_THREADS", "2")];
    let mut first = server.worker_process(&settings);
    put(&server, "blocks", vec![vec![Act::Block(20_000)], vec![]]);
    put(&server, "waits", vec![vec![Act::Sleep(20_000)], vec![]]);
    let both = ["blocks", "waits"];
    server.eventually("they run", SOON, || both.iter().all(|job| server.begun(job) == 1));
    let _second = server.worker_process(&[]);
    wait_for_workers(&server, 2);
    first.terminate();
    let elsewhere = || both.iter().all(|job| server.ended(job) == 1);
    server.eventually("they run elsewhere", SOON, elsewhere);
    let (status, _) = end_of(&mut first, SOON);
    assert!(status.success(), "{status}");
    for job in both {
        assert_eq!(begins(&server, job)[1].attempt, 1, "{job}");
    }
    server.drained(SOON);
    assert_eq!(counter(&server, "recovered"), 0, "{}", server.report());
}

#[tokio::test(flavor = "multi_thread")]
async fn g4_a_blocking_body_is_told_when_the_grace_is_over() {
    // Grace 1 s, a body that blocks until it is told -> it sees it in its context at 1 s, and its job is given back.
    // Guard: `Leases::cancel_running`.
    let server = TestServer::start();
    let worker = server.worker().register::<act_blocking>().shutdown_grace(Duration::from_secs(1));
    let worker = InProcess::run(worker);
    let plan = vec![vec![Act::BlockUntilCancelled]];
    let job = act_blocking::with("looks".into(), plan).on(server.client());
    job.enqueue().await.expect("enqueued");
    server.eventually("it runs", SOON, || server.begun("looks") == 1);
    let stopped = now_us(&server);
    worker.stop().await;
    server.eventually("it returns", SOON, || server.ended("looks") == 1);
    let told = ms_between(stopped, cancelled_at(&server, "looks"));
    assert!((1_000..2_000).contains(&told), "{told} ms");
    assert_eq!(server.leftovers("default"), [("hworker-jobs-default".to_owned(), 1)]);
    assert_eq!(counter(&server, "processed"), 0);
}

#[test]
fn g4_a_stop_that_is_cut_short_casts_no_suspicion() {
    // SIGTERM, and SIGKILL before the grace is over, as `docker stop` does -> what ran is recovered and runs again, though one crash is
    // too many here; a job that runs at most once has failed.
    // Guard: `stopping` in `heartbeat.lua`, and of a crash in `check` of `attempt/admit.rs`.
    let server = TestServer::start();
    let settings =
        [("HWORKER_TEST_JOBS", "all"), ("HWORKER_CRASH_LIMIT", "1"), ("HWORKER_DEAD_AFTER", "2s")];
    let mut first = server.worker_process(&settings);
    put(&server, "innocent", first_run_hangs());
    let once = act_unless_crashed::with("once".into(), first_run_hangs());
    once.on(server.client()).enqueue_blocking().expect("enqueued");
    server.eventually("both run", SOON, || server.begun("innocent") + server.begun("once") == 2);
    let id = serving(&server)[0].id.clone();
    let _second = server.worker_process(&settings);
    wait_for_workers(&server, 2);
    first.terminate();
    let record = format!("hworker-worker-default:{id}");
    server.eventually("the server knows that it stops", SOON, || {
        server.redis().ask::<bool>(&["HEXISTS", &record, "stopping"])
    });
    first.kill();
    server.eventually("it runs again", 2 * SOON, || server.ended("innocent") == 1);
    server.eventually("the other has failed", SOON, || counter(&server, "failed") == 1);
    assert_eq!((server.begun("innocent"), server.begun("once")), (2, 1));
    let failed = block_on(server.inspect().failed(0, 10)).expect("the failed jobs");
    assert!(failed[0].crashes.iter().all(|crash| crash.stopping), "{failed:?}");
}

#[test]
fn g7_worker_id() {
    // Auto id unique per process; settable; shown in records.
    // Guard: the random part of the id.
    let server = TestServer::start();
    let unnamed = [server.worker_process(&[]), server.worker_process(&[])];
    wait_for_workers(&server, 2);
    let ids: Vec<_> = serving(&server).into_iter().map(|worker| worker.id).collect();
    assert_ne!(ids[0], ids[1]);
    drop(unnamed);

    let server = TestServer::start();
    let named = [("HWORKER_NAME", "mail-1")];
    let _both = [server.worker_process(&named), server.worker_process(&named)];
    wait_for_workers(&server, 2);
    let ids: Vec<_> = serving(&server).into_iter().map(|worker| worker.id).collect();
    assert!(ids[0] != ids[1] && ids.iter().all(|id| id.starts_with("mail-1.")), "{ids:?}");
    put(&server, "job", vec![vec![Act::Failure("on purpose".into())]]);
    server.eventually("it fails", SOON, || counter(&server, "failed") == 1);
    let failed = block_on(server.inspect().failed(0, 1)).expect("the failed jobs");
    assert_eq!(failed[0].worker, begins(&server, "job")[0].worker);
    assert!(ids.contains(&failed[0].worker));
}

#[test]
fn a_second_signal_ends_at_once_and_still_gives_back() {
    // SIGTERM twice with a grace of 25 s -> the job is given back and the process exits with 0, at once.
    // Guard: `WorkerHandle::stop_now`.
    let server = TestServer::start();
    let mut worker = server.worker_process(&[]);
    put(&server, "job", vec![vec![Act::Sleep(HOUR_MS)], vec![]]);
    server.eventually("it runs", SOON, || server.begun("job") == 1);
    worker.terminate();
    server.holds("the grace holds", Duration::from_secs(1), || worker.exited().is_none());
    worker.terminate();
    let (status, took) = end_of(&mut worker, SOON);
    assert!(status.success() && took < Duration::from_secs(2), "{status} after {took:?}");
    assert_eq!(server.leftovers("default"), [("hworker-jobs-default".to_owned(), 1)]);
}

#[test]
fn a_stop_does_not_wait_for_what_the_server_has_forgotten() {
    // The server loses its data while a worker stops, with a grace of 25 s -> what runs is cancelled, since the worker holds it no
    // more, and the worker has nothing left to wait for.
    // Guard: `Leases::abandon`.
    let server = TestServer::start();
    let mut worker = server.worker_process(&[]);
    put(&server, "job", vec![vec![Act::Sleep(HOUR_MS)]]);
    server.eventually("it runs", SOON, || server.begun("job") == 1);
    worker.terminate();
    server.holds("the grace holds", Duration::from_secs(1), || worker.exited().is_none());
    let _: String = server.redis().ask(&["FLUSHALL"]);
    let (status, took) = end_of(&mut worker, SOON);
    assert!(status.success() && took < Duration::from_secs(8), "{status} after {took:?}");
}

#[test]
fn a_stop_that_has_lost_one_queue_lets_the_jobs_of_the_others_end() {
    // While a worker stops, one of its queues does not know it any more -> what ran of that one is cancelled, what runs of the
    // other ends within the grace.
    // Guard: `Leases::abandon` is of one queue.
    let server = TestServer::start();
    let mut worker = server.worker_process(&[("HWORKER_QUEUES", "+other")]);
    put(&server, "lost", vec![vec![Act::Sleep(HOUR_MS)]]);
    put_on(&server, "other", "kept", vec![vec![Act::Sleep(3_000)]]);
    let both = || server.begun("lost") == 1 && server.begun("kept") == 1;
    server.eventually("both run", SOON, both);
    worker.terminate();
    let record = format!("hworker-worker-default:{}", begins(&server, "lost")[0].worker);
    let _: u64 = server.redis().ask(&["DEL", &record]);
    let (status, took) = end_of(&mut worker, SOON);
    assert!(status.success() && took < Duration::from_secs(8), "{status} after {took:?}");
    assert_eq!((server.begun("kept"), server.ended("kept"), server.ended("lost")), (1, 1, 0));
    assert_eq!(server.leftovers("other"), []);
}

#[test]
fn a_stop_while_the_server_is_unreachable_is_bounded() {
    // SIGTERM while nothing comes through -> exit 0 within a bounded time, idle or not; others recover the jobs.
    // Guard: `FLUSH_WITHIN` and `RETIRE_WITHIN`.
    let server = TestServer::start();
    let proxy = Proxy::before(&server);
    let url = proxy.url();
    let settings = [("HWORKER_REDIS_URL", url.as_str()), ("HWORKER_SHUTDOWN_GRACE", "1s")];
    let mut busy = server.worker_process(&settings);
    put(&server, "job", vec![vec![Act::Sleep(HOUR_MS)], vec![]]);
    server.eventually("it runs", SOON, || server.begun("job") == 1);
    let mut idle = server.worker_process(&settings);
    wait_for_workers(&server, 2);
    proxy.unreachable(true);
    // One that never saw its server.
    let mut late = server.worker_process(&settings);
    let mut nowhere =
        server.worker_process(&[("HWORKER_REDIS_URL", "redis+unix:///nowhere/redis.sock")]);
    // The processes are at their first tries to connect.
    std::thread::sleep(Duration::from_millis(500));
    let start = Instant::now();
    for process in [&busy, &idle, &late, &nowhere] {
        process.terminate();
    }
    for process in [&mut idle, &mut late, &mut nowhere, &mut busy] {
        let (status, _) = end_of(process, Duration::from_secs(15));
        println!("ended {:?} after the signal", start.elapsed());
        assert!(status.success(), "{status}");
    }
    let _other = server.worker_process(&[]);
    server.eventually("another has it", Duration::from_secs(15), || server.ended("job") == 1);
    server.drained(SOON);
}

#[test]
fn cancel_on_disconnect_leaves_healthy_bodies_alone() {
    // A body that runs for three heartbeats, with `cancel_on_disconnect` and the shortest `dead_after` that goes with it -> it is not interrupted.
    // Guard: none; that it can be no shorter is held by `conformance::startup::cancel_on_disconnect_takes_more_than_two_heartbeats`.
    let server = TestServer::start();
    let settings = [("HWORKER_CANCEL_ON_DISCONNECT", "true"), ("HWORKER_DEAD_AFTER", "4s")];
    let _worker = server.worker_process(&settings);
    put(&server, "job", vec![vec![Act::Sleep(5_000)]]);
    server.eventually("it ends", SOON, || server.ended("job") == 1);
    assert_eq!(server.begun("job"), 1);
    server.drained(SOON);
}

#[test]
fn cancel_on_disconnect() {
    // `cancel_on_disconnect(true)` stops async bodies `dead_after` less 1 s after the last heartbeat that was answered, so that
    // no other worker runs them at the same time.
    // Guard: `deadlines::cancel_on_disconnect`.
    let server = TestServer::start();
    let proxy = Proxy::before(&server);
    let url = proxy.url();
    let _first = server.worker_process(&[
        ("HWORKER_REDIS_URL", url.as_str()),
        ("HWORKER_CANCEL_ON_DISCONNECT", "true"),
    ]);
    let steps = (0..300).flat_map(|step| [Act::Sleep(50), Act::Note(format!("step {step}"))]);
    put(&server, "job", vec![steps.collect(), vec![]]);
    server.eventually("it runs", SOON, || server.runs_of("job").len() > 2);
    let _second = server.worker_process(&[]);
    wait_for_workers(&server, 2);
    let cut = now_us(&server);
    proxy.unreachable(true);
    server.eventually("another has it", SOON, || server.ended("job") == 1);
    let runs = server.runs_of("job");
    let first_token = runs[0].token;
    let last = runs.iter().rfind(|run| run.token == first_token).expect("the first run").at;
    let second = begins(&server, "job")[1].at;
    println!(
        "stopped after {} ms, elsewhere after {} ms",
        ms_between(cut, last),
        ms_between(cut, second)
    );
    assert!(last < second, "both ran at once");
    assert!(ms_between(cut, last) <= 4_700);

    // Back again it goes on under a new id, and what it did not do any more changes nothing.
    proxy.unreachable(false);
    server.eventually("it is back", SOON, || serving(&server).len() == 2);
    server.holds("it ran twice", Duration::from_secs(1), || begins(&server, "job").len() == 2);
    server.drained(SOON);
    assert_eq!(counter(&server, "processed"), 1);
}
