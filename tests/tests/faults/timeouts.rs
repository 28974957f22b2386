//! Rows T1 and T2, bodies that ignore their timeout, and bodies that block the runtime.

use std::time::Duration;

use hworker::Worker;
use hworker_tests::Records as _;
use hworker_tests::{Act, Run, TestServer, act, act_blocking, act_once};

use crate::support::{
    HOUR_MS, SOON, begins, block_on, cancelled_at, counter, ms_between, now_us, put, serving,
};

#[test]
fn t1_per_job_timeout() {
    // Two jobs with 1 s and 60 s in one queue, both sleep 5 s -> only the first is timed out.
    // Guard: the timeout of the envelope, or the job's own.
    let server = TestServer::start();
    let _worker = server.worker_process(&[]);
    for (name, timeout) in [("short", 1), ("long", 60)] {
        let job = act_once::with(name.to_owned(), vec![vec![Act::Sleep(5_000)]]);
        let job = job.on(server.client()).timeout(Duration::from_secs(timeout));
        job.enqueue_blocking().expect("enqueued");
    }
    server.eventually("one fails", SOON, || counter(&server, "failed") == 1);
    server.eventually("one ends", SOON, || counter(&server, "processed") == 1);
    let failed = block_on(server.inspect().failed(0, 10)).expect("the failed jobs");
    assert_eq!((failed.len(), failed[0].kind.as_str()), (1, "timeout"));
    assert_eq!((server.ended("short"), server.ended("long")), (0, 1));
}

#[test]
fn t2_timeout_stops_the_body() {
    // Body past its timeout is cancelled (async) and the job follows its timeout policy (retry/fail); effects after the
    // deadline do not ack.
    // Guard: the body's future is dropped at the deadline; what a blocking body returns later is not looked at.
    let server = TestServer::start();
    let _worker = server.worker_process(&[]);
    let second = Duration::from_secs(1);
    let plan = || vec![vec![Act::Sleep(2_500), Act::Note("after".into())], vec![]];
    let retried = act::with("retried".into(), plan()).on(server.client()).timeout(second);
    retried.enqueue_blocking().expect("enqueued");
    let failed = act_once::with("failed".into(), plan()).on(server.client()).timeout(second);
    failed.enqueue_blocking().expect("enqueued");
    let blocks = vec![vec![Act::Block(2_500), Act::Note("after".into())]];
    let blocking = act_blocking::with("blocking".into(), blocks).on(server.client());
    blocking.timeout(second).max_attempts(1).enqueue_blocking().expect("enqueued");

    server.eventually("one is retried", SOON, || server.ended("retried") == 1);
    let runs = begins(&server, "retried");
    // From the lease on, whose token is its time: a begin is noted a moment after the body's time has begun to run.
    let gap = ms_between(runs[0].token, runs[1].at);
    assert!((1_000..2_000).contains(&gap), "{gap} ms");
    assert_eq!(runs[1].attempt, 2);
    server.eventually("two fail", SOON, || counter(&server, "failed") == 2);
    server.eventually("the blocking one went on", SOON, || server.ended("blocking") == 1);
    server.holds("no effect after the deadline", Duration::from_secs(3), || {
        let noted = |name| server.runs_of(name).iter().any(|run| run.what == "after");
        !noted("retried") && !noted("failed") && counter(&server, "processed") == 1
    });
    server.eventually("all are settled", SOON, || {
        server.leftovers("default") == [("hworker-failed-default".to_owned(), 2)]
    });
}

#[test]
fn t2_a_blocking_body_is_told_at_its_deadline() {
    // Body past its timeout is cancelled: one that blocks sees it in its context at the deadline, and what it returns within the
    // grace does not ack.
    // Guard: `Context::end` at the deadline, in `blocking::run`; at the end of the attempt it comes 2 s later.
    let server = TestServer::start();
    let _worker = server.worker_process(&[]);
    let plan = vec![vec![Act::BlockUntilCancelled]];
    let job = act_blocking::with("looks".into(), plan).on(server.client());
    job.timeout(Duration::from_secs(1)).max_attempts(1).enqueue_blocking().expect("enqueued");
    server.eventually("it returns", SOON, || server.ended("looks") == 1);
    server.eventually("it fails", SOON, || counter(&server, "failed") == 1);
    let told = ms_between(begins(&server, "looks")[0].token, cancelled_at(&server, "looks"));
    println!("a blocking body was told {told} ms after its start that its second was over");
    assert!((1_000..2_000).contains(&told), "{told} ms");
    let failed = block_on(server.inspect().failed(0, 10)).expect("the failed jobs");
    assert_eq!((failed[0].kind.as_str(), counter(&server, "processed")), ("timeout", 0));
}

#[test]
fn children_end_with_their_body() {
    // What a body started with `Context::spawn` ends when the body returns, panics, is dropped at its deadline or loses its
    // lease; and at the deadline of one that blocks, though that runs on.
    // Guard: `Context::end` aborts them; a child that holds the context keeps the set of them alive.
    let server = TestServer::start();
    let _worker = server.worker_process(&[]);
    let (second, hour) = (Duration::from_secs(1), Duration::from_millis(HOUR_MS));
    let begins_with_a_child = |rest: &[Act]| [&[Act::Child][..], rest].concat();
    let note = Act::Note("last".into());
    let panic = [Act::Sleep(300), note.clone(), Act::Panic("on purpose".into())];
    for (name, timeout, rest) in [
        ("returns", hour, &[Act::Sleep(300), note][..]),
        ("panics", hour, &panic[..]),
        ("is dropped", second, &[Act::Sleep(HOUR_MS)][..]),
        ("is revoked", hour, &[Act::Sleep(HOUR_MS)][..]),
    ] {
        let plan = vec![begins_with_a_child(rest), vec![]];
        let job = act::with(name.into(), plan).on(server.client()).timeout(timeout);
        let id = job.enqueue_blocking().expect("enqueued");
        if name == "is revoked" {
            server.eventually("its child runs", SOON, || !steps(&server, name).is_empty());
            block_on(server.inspect().revoke(&id)).expect("revoked");
        }
    }
    let plan = vec![begins_with_a_child(&[Act::Block(5_000)])];
    let job = act_blocking::with("blocks".into(), plan).on(server.client());
    job.timeout(second).max_attempts(1).enqueue_blocking().expect("enqueued");
    server.eventually("the blocking one is given up", SOON, || counter(&server, "failed") == 1);
    server.eventually("the others end", SOON, || counter(&server, "processed") == 4);

    let last_step = |name| steps(&server, name).last().expect("a step").at;
    for name in ["returns", "panics", "is dropped", "is revoked", "blocks"] {
        server.eventually("its child goes no further", SOON, || {
            ms_between(last_step(name), now_us(&server)) > 500
        });
    }
    let last_note = |name| {
        let runs = server.runs_of(name);
        runs.iter().find(|run| run.what == "last").expect("a note").at
    };
    // A token is its time.
    let deadline = |name| begins(&server, name)[0].token + 1_000_000;
    for (name, end) in [
        ("returns", last_note("returns")),
        ("panics", last_note("panics")),
        ("is dropped", deadline("is dropped")),
        ("blocks", deadline("blocks")),
    ] {
        let after = ms_between(end, last_step(name));
        // Not as long as a body that blocks may go on.
        assert!(after < 1_500, "{name}: its child went on for {after} ms");
    }
}

/// What children noted.
fn steps(server: &TestServer, name: &str) -> Vec<Run> {
    server.runs_of(name).into_iter().filter(|run| run.what.starts_with("step")).collect()
}

#[test]
fn a_blocking_body_that_ignores_its_timeout_is_given_up() {
    // A blocking body that never returns -> its lease is given up at the deadline + 2 s, settled as timed out, the slot
    // is free again; and the process exits with 0 on SIGTERM although the body never returns.
    // Guard: `BLOCKING_GRACE`; threads of our own, which `run_all()` leaves behind.
    let server = TestServer::start();
    let settings = [("HWORKER_TEST_JOBS", "all"), ("HWORKER_CONCURRENCY", "1")];
    let mut worker = server.worker_process(&settings);
    let plan = vec![vec![Act::Block(HOUR_MS)]];
    let job = act_blocking::with("blocks".into(), plan).on(server.client());
    job.timeout(Duration::from_secs(1)).max_attempts(1).enqueue_blocking().expect("enqueued");
    put(&server, "next", vec![]);
    server.eventually("the slot is free again", SOON, || server.ended("next") == 1);
    let next = begins(&server, "next")[0].at;
    let after = ms_between(begins(&server, "blocks")[0].at, next);
    println!("a blocking body was given up after {after} ms");
    assert!((2_900..3_600).contains(&after), "{after} ms");
    server.eventually("it is settled", SOON, || counter(&server, "failed") == 1);
    let failed = block_on(server.inspect().failed(0, 10)).expect("the failed jobs");
    assert_eq!(failed[0].kind, "timeout");
    worker.terminate();
    assert!(worker.wait(SOON).expect("it exits").success());
}

#[test]
fn a_body_that_blocks_every_thread_of_the_runtime() {
    // Heartbeats go on, no re-run before the timeout, and the supervisor settles at the deadline + grace.
    // Guard: the supervisor's thread and its `deadlines::keep`.
    let names = ["one", "two"];
    let server = TestServer::start();
    put_blocking(&server, &names);
    let _worker = server.worker_process(&[
        ("TOKIO_WORKER_THREADS", "2"),
        ("HWORKER_DEAD_AFTER", "2s"),
        ("HWORKER_CONCURRENCY", "2"),
    ]);
    blocks_the_runtime(&server, &names);
    // Said once, although the bodies return later.
    let log = std::fs::read_to_string(server.dir().join("process-0.log")).expect("the log");
    server.eventually("all bodies returned", SOON, || {
        names.iter().all(|name| server.ended(name) == 2)
    });
    assert_eq!(log.matches("ran longer than its timeout").count(), 2, "{log}");
}

#[test]
fn bodies_of_two_queues_that_block_every_thread() {
    // The supervisor settles each in its queue, at the deadline + grace.
    // Guard: `deadlines::send` sends what there is of every queue.
    let queues = ["mail", "reports"];
    let server = TestServer::start();
    for queue in queues {
        let job = act::with(queue.to_owned(), vec![vec![Act::Block(9_000)]]).on(server.client());
        let job = job.queue(queue).timeout(Duration::from_secs(3)).max_attempts(1);
        job.enqueue_blocking().expect("enqueued");
    }
    let _worker = server.worker_process(&[
        ("TOKIO_WORKER_THREADS", "2"),
        ("HWORKER_QUEUES", "+mail,+reports"),
        ("HWORKER_CONCURRENCY", "2"),
    ]);
    let failed = |queue: &str| block_on(server.client().inspect(queue).failed(0, 10));
    server.eventually("both are settled", SOON, || {
        queues.iter().all(|queue| failed(queue).expect("the failed jobs").len() == 1)
    });
    assert!(queues.iter().all(|queue| server.ended(queue) == 0), "they return later");
}

#[test]
fn a_body_that_blocks_a_runtime_of_one_thread() {
    // The same on a `current_thread` runtime.
    // Guard: as above.
    let server = TestServer::start();
    put_blocking(&server, &["one"]);
    let worker = server.worker().register::<act>().dead_after(Duration::from_secs(2));
    let worker: Worker = worker.concurrency(1).build().expect("a worker");
    let handle = worker.handle();
    let runtime = std::thread::spawn(move || block_on(worker.run_until(std::future::pending())));
    blocks_the_runtime(&server, &["one"]);
    handle.stop_now();
    runtime.join().expect("no panic").expect("it stops");
}

/// Enqueues bodies that block for 9 s and may for 3 s, as many as the worker has slots, before it starts: so it sends no
/// further wait, which would capture their retries.
fn put_blocking(server: &TestServer, names: &[&str]) {
    for name in names {
        let job = act::with((*name).to_owned(), vec![vec![Act::Block(9_000)], vec![]]);
        let job = job.on(server.client()).timeout(Duration::from_secs(3)).backoff("0s");
        job.enqueue_blocking().expect("enqueued");
    }
}

/// Nobody else gets their next attempt before the supervisor has settled the first, 2 s and a little after its deadline.
fn blocks_the_runtime(server: &TestServer, names: &[&str]) {
    let start = now_us(server);
    server.eventually("one runs", SOON, || names.iter().any(|name| server.begun(name) == 1));
    let blocked = names.iter().find_map(|name| Some(server.runs_of(name).first()?.worker.clone()));
    let blocked = blocked.expect("one runs");
    let other = server.worker_process(&[("HWORKER_DEAD_AFTER", "2s")]);
    server.eventually("all run elsewhere", Duration::from_secs(15), || {
        names.iter().all(|name| server.ended(name) >= 1 && server.begun(name) == 2)
    });
    let mut settled = Vec::new();
    for name in names {
        let runs = begins(server, name);
        if runs[0].worker == blocked && runs.len() > 1 {
            settled.push(ms_between(runs[0].at, runs[1].at));
            assert_eq!((runs[1].pid, runs[1].attempt), (other.pid(), 2), "{name}");
        }
    }
    println!("the supervisor settled {settled:?} ms after the start");
    assert!(
        !settled.is_empty() && settled.iter().all(|ms| (5_000..6_500).contains(ms)),
        "{settled:?}"
    );
    assert!(ms_between(start, now_us(server)) < 15_000);
    assert_eq!(counter(server, "recovered"), 0, "nobody was declared dead");
    assert!(serving(server).iter().any(|worker| worker.id == blocked), "its heartbeats go on");
}

#[test]
fn a_body_that_blocks_its_thread_holds_up_no_other() {
    // Ten bodies are handed over at once to a worker with two threads, and the sixth blocks one of them for 5 s -> the others,
    // which wait for a timer of 50 ms, end meanwhile, whatever thread they were started on.
    // Guard: `woke` in `attempt/runner.rs`.
    let server = TestServer::start();
    for number in 1..=10 {
        let (name, plan) = match number {
            6 => ("blocks".to_owned(), vec![vec![Act::Block(5_000)]]),
            _ => (format!("sleeps-{number}"), vec![vec![Act::Sleep(50)]]),
        };
        put(&server, &name, plan);
    }
    let settings = [("TOKIO_WORKER_THREADS", "2"), ("HWORKER_CONCURRENCY", "10")];
    let _worker = server.worker_process(&settings);
    server.eventually("one blocks", SOON, || server.begun("blocks") == 1);
    server.eventually("the others end", Duration::from_secs(3), || {
        (1..=10).filter(|number| server.ended(&format!("sleeps-{number}")) == 1).count() == 9
    });
    assert_eq!(server.ended("blocks"), 0, "meanwhile");
    server.drained(SOON);
}
