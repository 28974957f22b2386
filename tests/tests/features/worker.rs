//! Rows CC, LC and OP: what a worker takes, what it leaves, and how it is told to stop.

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use hworker::State;
use hworker_tests::{Act, InProcess, Machine, Process, TestServer, act, weigh};
use rustix::process::{Pid, Signal, kill_process};

use crate::SOON;

/// Stands still until the test lets it pass.
#[derive(Clone)]
struct Barrier {
    begun: Arc<AtomicUsize>,
    passed: Arc<AtomicUsize>,
    open: tokio::sync::watch::Sender<bool>,
}

impl Barrier {
    fn closed() -> Self {
        Self {
            begun: Arc::default(),
            passed: Arc::default(),
            open: tokio::sync::watch::Sender::new(false),
        }
    }

    async fn pass(&self) {
        self.begun.fetch_add(1, Ordering::SeqCst);
        let _ = self.open.subscribe().wait_for(|open| *open).await;
        self.passed.fetch_add(1, Ordering::SeqCst);
    }

    fn counts(&self) -> (usize, usize) {
        (self.begun.load(Ordering::SeqCst), self.passed.load(Ordering::SeqCst))
    }
}

#[derive(Clone)]
struct Narrow(Barrier);

#[derive(Clone)]
struct Wide(Barrier);

#[hworker::job(queue = "cc2-narrow")]
async fn narrow(State(Narrow(barrier)): State<Narrow>) {
    barrier.pass().await;
}

#[hworker::job(queue = "cc2-wide")]
async fn wide(State(Wide(barrier)): State<Wide>) {
    barrier.pass().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cc2_concurrency_of_a_queue() {
    // Each queue has slots of its own in a worker: never more of its jobs run at once there, and a queue that is full holds up
    // no other. The slots of the worker are the limit of all together.
    let server = TestServer::start();
    let barriers = [Barrier::closed(), Barrier::closed()];
    let worker = server.worker().register::<narrow>().register::<wide>().concurrency(6);
    let worker = worker.state(Narrow(barriers[0].clone())).state(Wide(barriers[1].clone()));
    let worker = worker.queue_with_slots("cc2-narrow", 1).queue_with_slots("cc2-wide", 4);
    let _worker = InProcess::run(worker);
    // Ten for the narrow one first, so that it is full when the others come.
    for _ in 0..10 {
        narrow::with().on(server.client()).enqueue().await.expect("enqueued");
    }
    server.eventually("the narrow one is full", SOON, || barriers[0].counts().0 == 1);
    for _ in 0..10 {
        wide::with().on(server.client()).enqueue().await.expect("enqueued");
    }
    let begun = || [barriers[0].counts().0, barriers[1].counts().0];
    server.eventually("the wide one is full", SOON, || begun() == [1, 4]);
    server.holds("no more run", Duration::from_millis(500), || begun() == [1, 4]);
    // One that passes makes room for one; here all pass.
    for barrier in &barriers {
        barrier.open.send_replace(true);
    }
    server.eventually("all pass", SOON, || {
        barriers.iter().all(|barrier| barrier.counts() == (10, 10))
    });
    for queue in ["cc2-narrow", "cc2-wide"] {
        server.eventually("nothing is left", SOON, || server.leftovers(queue).is_empty());
    }
}

#[hworker::job]
async fn nothing() {}

/// Enqueues so many jobs, and waits until all are done.
async fn do_nothing(server: &Arc<TestServer>, count: u64) {
    let before = server.counter("processed");
    let mut producers = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let client = server.client().clone();
        producers.spawn(async move {
            for _ in 0..count / 20 {
                nothing::with().on(&client).enqueue().await.expect("enqueued");
            }
        });
    }
    while let Some(producer) = producers.join_next().await {
        producer.expect("no panic");
    }
    server.eventually("all are done", 2 * SOON, || server.counter("processed") == before + count);
    server.drained(SOON);
}

#[tokio::test(flavor = "multi_thread")]
async fn lc3_bounded_memory() {
    // Nothing is left in Redis for a job that is done: after 10,000 jobs there are the same keys as after 100, and they take the
    // same room.
    let _machine = Machine::claim();
    let server = Arc::new(TestServer::start());
    let _worker = InProcess::run(server.worker().register::<nothing>().concurrency(50));
    let held = || {
        let mut redis = server.redis();
        // The timer comes and goes, and charts are of the time: there is one for each minute, whatever the number of jobs.
        let keys = redis.keys("*").into_iter();
        let comes = |key: &String| key.contains("-timer-") || key.contains("-chart-");
        let keys: Vec<_> = keys.filter(|key| !comes(key)).collect();
        let bytes = keys.iter().map(|key| {
            let bytes: Option<u64> = redis.ask(&["MEMORY", "USAGE", key, "SAMPLES", "0"]);
            bytes.unwrap_or(0)
        });
        let bytes: u64 = bytes.collect::<Vec<_>>().iter().sum();
        (keys, bytes)
    };
    let largest_chart = || {
        let mut redis = server.redis();
        let charts = redis.keys("*-chart-*");
        charts.iter().map(|key| redis.ask::<u64>(&["MEMORY", "USAGE", key, "SAMPLES", "0"])).max()
    };
    do_nothing(&server, 100).await;
    let (keys, bytes) = held();
    do_nothing(&server, 10_000).await;
    let (keys_after, bytes_after) = held();
    println!("{bytes} bytes in {} keys, then {bytes_after} bytes", keys.len());
    assert_eq!(keys, keys_after);
    // Of one type and the gauges.
    assert!(largest_chart().is_none_or(|bytes| bytes <= 1_000), "{:?}", largest_chart());
    // Numbers that have grown longer.
    assert!(bytes_after <= bytes + 200, "{bytes} bytes, then {bytes_after}");
}

fn signal(process: &Process, signal: Signal) {
    let pid = i32::try_from(process.pid()).ok().and_then(Pid::from_raw).expect("a process");
    kill_process(pid, signal).expect("it can be signalled");
}

/// SIGHUP, unless the tests run under `nohup`, and so their workers too.
fn hang_up() -> Signal {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")?.chars().last());
    let nohup = ignored.and_then(|digit| digit.to_digit(16)).is_some_and(|bits| bits & 1 == 1);
    if nohup { Signal::TERM } else { Signal::HUP }
}

#[test]
fn op3_signals() {
    // Documented: SIGINT and SIGHUP as SIGTERM, a second one does not wait, unless it is SIGHUP, and what was not finished is given
    // back; the exit code is 0.
    // Guard: `Signals`.
    let readme = include_str!("../../../README.md");
    assert!(
        readme.contains("Signals: SIGTERM, SIGINT and SIGHUP"),
        "the README says which signals do what"
    );

    let server = TestServer::start();
    let put = |name: &str, plan: Vec<Vec<Act>>| {
        act::with(name.to_owned(), plan).on(server.client()).enqueue_blocking().expect("enqueued");
    };
    for (nth, first) in [Signal::INT, hang_up()].into_iter().enumerate() {
        let (mut worker, job) = (server.worker_process(&[]), format!("finishes {nth}"));
        let gate = format!("go {nth}");
        put(&job, vec![vec![Act::Gate(gate.clone())]]);
        server.eventually("it runs", SOON, || server.begun(&job) == 1);
        signal(&worker, first);
        server.holds("it waits for the job", Duration::from_secs(1), || worker.exited().is_none());
        signal(&worker, Signal::HUP);
        server.holds("still", Duration::from_millis(500), || worker.exited().is_none());
        server.open(&gate);
        assert!(worker.wait(SOON).expect("it ends").success());
        assert_eq!((server.ended(&job), server.counter("processed")), (1, nth as u64 + 1));
    }

    for (first, second) in [
        (Signal::INT, Signal::INT),
        (Signal::INT, Signal::TERM),
        (Signal::TERM, Signal::INT),
        (hang_up(), Signal::TERM),
    ] {
        let mut worker = server.worker_process(&[]);
        let begun = server.begun("does not finish");
        if begun == 0 {
            put("does not finish", vec![vec![Act::Gate("never".into())]]);
        }
        server.eventually("it runs", SOON, || server.begun("does not finish") == begun + 1);
        signal(&worker, first);
        server.holds("it waits", Duration::from_millis(500), || worker.exited().is_none());
        let start = Instant::now();
        signal(&worker, second);
        assert!(worker.wait(SOON).expect("it ends").success());
        assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
        assert_eq!(server.leftovers("default"), [("hworker-jobs-default".to_owned(), 1)]);
    }
    let runs = server.runs_of("does not finish");
    assert!(runs.iter().all(|run| run.attempt == 1), "{runs:?}");
}

#[test]
#[cfg(target_os = "linux")]
fn op3_a_worker_under_nohup_survives_a_hang_up() {
    // Started with SIGHUP ignored -> it goes on after one, and takes new jobs.
    // Guard: `ignores_hang_up`.
    let server = TestServer::start();
    let plain = server.command("test-worker");
    let log = std::fs::File::create(server.dir().join("process-nohup.log")).expect("a log");
    let mut nohup = Command::new("nohup");
    nohup.arg(plain.get_program()).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(log);
    for (name, value) in plain.get_envs() {
        match value {
            Some(value) => nohup.env(name, value),
            None => nohup.env_remove(name),
        };
    }
    let mut worker = Process::start(nohup);
    let put = |name: &str| {
        act::with(name.to_owned(), vec![])
            .on(server.client())
            .enqueue_blocking()
            .expect("enqueued");
    };
    put("before");
    server.eventually("it runs", SOON, || server.ended("before") == 1);
    signal(&worker, Signal::HUP);
    put("after");
    server.eventually("it runs too", SOON, || server.ended("after") == 1);
    server.holds("it goes on", Duration::from_millis(500), || worker.exited().is_none());
    worker.terminate();
    assert!(worker.wait(SOON).expect("it ends").success());
}

#[test]
fn op3_what_blocks_does_not_keep_the_process() {
    // SIGTERM while something blocks the runtime that nobody can stop: work in tokio's pool, a body that is async and blocks, one
    // whose attempt is over since it was given up at its timeout. The process exits with 0 soon after the grace.
    // Guard: `Stopped::left_something` in `run_all`; without it the process ends when the last of them does.
    const HOUR_MS: u64 = 3_600_000;
    for (blocks, given_up) in [
        (Act::BlockPool(HOUR_MS), false),
        (Act::Block(HOUR_MS), false),
        (Act::Block(HOUR_MS), true),
    ] {
        let server = TestServer::start();
        let mut worker = server.worker_process(&[("HWORKER_SHUTDOWN_GRACE", "1s")]);
        let what = format!("{blocks:?}, given up: {given_up}");
        let job = act::with("blocks".into(), vec![vec![blocks]]).on(server.client());
        let short = Duration::from_millis(if given_up { 200 } else { HOUR_MS });
        job.timeout(short).max_attempts(1).enqueue_blocking().expect("enqueued");
        server.eventually("it runs", SOON, || server.begun("blocks") == 1);
        if given_up {
            server.eventually("it is given up", SOON, || server.counter("failed") == 1);
        }
        worker.terminate();
        let ended = worker.wait(SOON).unwrap_or_else(|| panic!("{what}: it does not end"));
        assert!(ended.success(), "{what}: {ended}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ct8_a_stop_that_cuts_nothing_off_says_so() {
    // Workers that stop while jobs come and go under their hands -> what was reserved or begun then is no body that was cut off, and
    // one that runs for longer than the grace is.
    // Guard: what `run_session::drain` says; `LET_GO_WITHIN`, without which one stop in some hundreds fails this.
    let server = TestServer::start();
    for _ in 0..30 {
        let bulk: hworker::Bulk = (0..3_000).map(|_| nothing::with()).collect();
        bulk.on(server.client()).enqueue().await.expect("enqueued");
        let before = server.counter("processed");
        let worker = server.run_worker::<nothing>();
        server.eventually("it works", SOON, || server.counter("processed") > before);
        let stopped = worker.stop().await;
        assert_eq!((stopped.blocking_bodies_left, stopped.cut_off), (0, false));
    }
    let settings = server.worker().register::<act>().shutdown_grace(Duration::ZERO);
    act::with("runs".into(), vec![vec![Act::Gate("never".into())]])
        .on(server.client())
        .queue("ct8")
        .enqueue()
        .await
        .expect("enqueued");
    let worker = InProcess::run(settings.extra_queue("ct8"));
    server.eventually("it runs", SOON, || server.begun("runs") == 1);
    assert!(worker.stop().await.cut_off);
}

#[tokio::test(flavor = "multi_thread")]
async fn op7_inside_another_program() {
    // A worker in a program that does something else: it runs jobs beside the program's own work, stops when the program says
    // so, and lets what runs finish.
    let server = TestServer::start();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let worker = server.worker().register::<act>().build().expect("a worker");
    let worker = tokio::spawn(worker.run_until(async {
        let _ = stopped.await;
    }));
    server.enqueue("inside", vec![vec![Act::Gate("go".into())]]).await;
    server.eventually("it runs", SOON, || server.begun("inside") == 1);
    assert_eq!(server.runs_of("inside")[0].pid, std::process::id());
    stop.send(()).expect("it listens");
    // A worker that did not wait for what runs would end within this.
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!worker.is_finished(), "it waits for what runs");
    server.open("go");
    let stopped = worker.await.expect("no panic").expect("it stops");
    assert_eq!((stopped.blocking_bodies_left, server.ended("inside")), (0, 1));
    server.drained(SOON);
}

#[test]
fn op7_inside_another_program_signals_are_its_own() {
    // Without any setting it runs what the program links. `run_until` leaves signals alone: SIGTERM does to the program what it
    // did before, which here is to end it at once; the same worker under `run` would have exited with 0 (OP3).
    let server = TestServer::start();
    let mut program = Process::start(server.command("test-embedded"));
    let plan = vec![vec![Act::Gate("never".into())], vec![]];
    act::with("inside".into(), plan).on(server.client()).enqueue_blocking().expect("enqueued");
    server.eventually("it runs", SOON, || server.begun("inside") == 1);
    program.terminate();
    let status = program.wait(SOON).expect("it ends");
    assert_eq!((status.signal(), status.code()), (Some(15), None));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_takes_what_its_client_takes() {
    // A client that takes 20 MiB, and a worker that is told nothing: what was enqueued runs.
    // Guard: `WorkerBuilder::build` takes the larger of both.
    let server = TestServer::start();
    let client = hworker::Client::builder().redis_url(server.url()).max_payload(20 << 20);
    let client = client.build().expect("a client");
    let large = "x".repeat(17 << 20);
    weigh::with("large".into(), large).on(&client).enqueue().await.expect("enqueued");
    let _worker = InProcess::run(server.worker().client(&client).register::<weigh>());
    let what = format!("{} bytes", 17 << 20);
    let ran = || server.runs_of("large").iter().any(|run| run.what == what);
    server.eventually("it runs", SOON, ran);
    server.drained(SOON);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_is_added_and_removed_while_the_worker_runs() {
    // A queue is added -> its jobs run. It is removed while one runs and another waits for its slot -> the one ends, the other stays, and
    // nothing of the queue is left under a lease; the other queue goes on. Added again -> the rest runs. A name that is none is an error.
    // Guard: `follow_queues`; `Session::remove` waits for what runs.
    let server = TestServer::start();
    let builder = server.worker().register::<act>().concurrency(4);
    let worker = builder.extra_queue_with_slots("later", 1).build().expect("a worker");
    let handle = worker.handle();
    let running = tokio::spawn(worker.run_until(std::future::pending()));
    let put = async |name: &str, plan: Vec<Vec<Act>>| {
        let job = act::with(name.to_owned(), plan).on(server.client()).queue("later");
        job.enqueue().await.expect("enqueued");
    };
    handle.remove_queue("later");
    handle.add_queue("later").expect("a name");
    handle.add_queue("later").expect("a name");
    put("first", vec![vec![Act::Gate("go".into())]]).await;
    server.eventually("it runs", SOON, || server.begun("first") == 1);
    put("second", vec![vec![]]).await;
    handle.remove_queue("later");
    server.enqueue("elsewhere", vec![vec![]]).await;
    server.eventually("the other queue goes on", SOON, || server.ended("elsewhere") == 1);
    assert_eq!((server.ended("first"), server.begun("second")), (0, 0));
    server.open("go");
    server.eventually("what ran has ended", SOON, || server.ended("first") == 1);
    let held = || server.redis().keys("hworker-progress-later:*").len();
    server.eventually("nothing is held", SOON, || held() == 0);
    server.enqueue("again", vec![vec![]]).await;
    server.eventually("the other queue goes on", SOON, || server.ended("again") == 1);
    assert_eq!(server.begun("second"), 0);
    handle.add_queue("later").expect("a name");
    server.eventually("the rest runs", SOON, || server.ended("second") == 1);
    assert!(handle.add_queue("no name").is_err());
    handle.stop();
    running.await.expect("no panic").expect("it stops");
    assert_eq!(server.counter("recovered"), 0);
}
