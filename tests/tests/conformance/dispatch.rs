//! Rows D: a job finds its body, once, and soon.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use hworker::{BoxError, Bulk, Context, State};
use hworker_tests::Records as _;
use hworker_tests::{Act, InProcess, Machine, TestServer, act, act_blocking, weigh};

use crate::SOON;

#[tokio::test(flavor = "multi_thread")]
async fn d1_dispatch_by_name() {
    // Jobs of two registered names in one list -> each body gets its own.
    // Guard: the table by name in `admit::read`.
    let server = TestServer::start();
    for _ in 0..5 {
        server.enqueue("acted", vec![vec![]]).await;
        let job = weigh::with("weighed".into(), "1234".into()).on(server.client());
        job.enqueue().await.expect("enqueued");
        let job = act_blocking::with("blocked".into(), Vec::new()).on(server.client());
        job.enqueue().await.expect("enqueued");
    }
    let _worker = server.worker_process(&[]);
    server.drained(SOON);
    let said = |name: &str| -> Vec<String> {
        server.runs_of(name).into_iter().map(|run| run.what).collect()
    };
    assert_eq!(said("weighed"), ["4 bytes"; 5]);
    assert_eq!((server.begun("acted"), server.ended("acted")), (5, 5));
    assert_eq!((server.begun("blocked"), server.ended("blocked")), (5, 5));
    for name in ["act", "weigh", "act_blocking"] {
        assert_eq!(server.counter(&format!("processed:{name}")), 5);
    }
}

#[hworker::job(queue = "p5-q1")]
async fn of_q1() {}

#[hworker::job(queue = "p5-q2")]
async fn of_q2() {}

#[tokio::test(flavor = "multi_thread")]
async fn p5_named_queues() {
    // Worker for q1 never takes q2's jobs, though it knows their type, and says that it serves q1 alone; queue set lists both for
    // one to which no queue is named.
    // Guard: `all_queues` where the worker is built.
    let server = TestServer::start();
    let client = server.client();
    let registered = || server.worker().register::<of_q1>().register::<of_q2>().concurrency(4);
    let worker_queues = async |queue: &str| {
        let workers = client.inspect(queue).workers().await.expect("the workers");
        workers.into_iter().map(|worker| worker.queues).collect::<Vec<_>>()
    };
    let only_q1 = InProcess::run(registered().queues(["p5-q1"]));
    for _ in 0..5 {
        of_q2::with().on(client).enqueue().await.expect("enqueued");
        of_q1::with().on(client).enqueue().await.expect("enqueued");
    }
    let processed = async |queue: &str| {
        let counters = client.inspect(queue).statistics(None).await.expect("the counters");
        counters.get("processed").copied().unwrap_or(0)
    };
    server.eventually_async("those of q1 run", SOON, async || processed("p5-q1").await == 5).await;
    assert_eq!(worker_queues("p5-q1").await, [["p5-q1"]]);
    assert!(worker_queues("p5-q2").await.is_empty());
    only_q1.stop().await;
    let left = client.inspect("p5-q2").counts().await.expect("the counts");
    assert_eq!((left.waiting, processed("p5-q2").await), (5, 0));

    let _both = InProcess::run(registered());
    server.eventually_async("those of q2 run", SOON, async || processed("p5-q2").await == 5).await;
    assert_eq!(worker_queues("p5-q2").await, [["p5-q1", "p5-q2"]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn d2_unknown_name_is_kept_as_broken() {
    // Enqueue a name that nobody registered -> no body runs, the job is kept among the broken with the reason "unknown job",
    // the worker goes on; it can be requeued and then runs where it is known. (Here `HWORKER_UNKNOWN_FOR` is 1 s.)
    // Guard: `admit::unknown`.
    let server = TestServer::start();
    let settings = |builder: hworker::WorkerBuilder| builder.unknown_for(Duration::from_secs(1));
    let old = InProcess::run(settings(server.worker().register::<weigh>()));
    let id = server.enqueue("of new code", Vec::new()).await;
    server
        .eventually_async("it is broken", SOON, async || {
            !server.inspect().broken().await.expect("the broken").is_empty()
        })
        .await;
    let mut broken = server.inspect().broken().await.expect("the broken");
    let broken = broken.remove(0);
    assert!(broken.reason.contains("unknown job `act`"), "{}", broken.reason);
    assert!(String::from_utf8_lossy(&broken.payload).contains(id.as_str()));
    let kept = [("hworker-broken-default".to_owned(), 1)];
    assert_eq!(server.leftovers("default"), kept);

    let known = weigh::with("goes on".into(), "1".into()).on(server.client());
    known.enqueue().await.expect("enqueued");
    server.eventually("the worker goes on", SOON, || server.runs_of("goes on").len() == 1);
    old.stop().await;
    assert_eq!(server.begun("of new code"), 0);

    let _new = InProcess::run(settings(server.worker().register::<act>()));
    server.inspect().requeue_broken(&broken.payload).await.expect("requeued");
    server.eventually("it runs", SOON, || server.ended("of new code") == 1);
    server.drained(SOON);
    assert_eq!(server.runs_of("of new code")[0].id, id.as_str());
}

#[tokio::test(flavor = "multi_thread")]
async fn d2_unknown_name_during_a_deploy() {
    // An old worker meets a job of new code -> it is parked, and a new worker runs it within two heartbeats, though the old one
    // goes on to serve the queue; no attempt is counted.
    // Guard: `intake/parked.rs`.
    let server = TestServer::start();
    let _old = InProcess::run(server.worker().register::<weigh>());
    server.enqueue("of new code", Vec::new()).await;
    server.eventually("the old worker parks it", SOON, || {
        server.redis().len("hworker-parked-default") == 1
    });
    let _new = InProcess::run(server.worker().register::<act>().register::<weigh>());
    server.eventually("the new worker runs it", SOON, || server.ended("of new code") == 1);
    assert_eq!(server.runs_of("of new code")[0].attempt, 1);
    server.drained(SOON);
    assert_eq!(server.counter("broken"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn d7_idle_wake_up_latency() {
    // Enqueue on an idle system -> body starts in < 50 ms, which W3 of the benchmark measures; here, on any machine: long before the worker
    // would look by itself, once a second; for a foreign `LPUSH` too. (The idle load is in D6.)
    // Guard: the wait at the server in `intake/wait.rs`.
    let _machine = Machine::claim();
    let server = TestServer::start();
    let _worker = server.worker_process(&[]);
    server.enqueue("first", Vec::new()).await;
    server.eventually("the worker is there", SOON, || server.ended("first") == 1);
    let mut late_ms = Vec::new();
    for number in 0..20 {
        let name = format!("wake-{number}");
        // The worker has found nothing and waits again.
        tokio::time::sleep(Duration::from_millis(100)).await;
        let before = server.redis().time_us();
        if number % 2 == 0 {
            server.enqueue(&name, Vec::new()).await;
        } else {
            let envelope = format!(r#"{{"job":"act","args":{{"name":"{name}","plan":[]}}}}"#);
            server.redis().ask::<u64>(&["LPUSH", "hworker-jobs-default", &envelope]);
        }
        server.eventually("it runs", SOON, || server.begun(&name) == 1);
        late_ms.push((server.runs_of(&name)[0].at - before) / 1000);
    }
    late_ms.sort_unstable();
    assert!(late_ms[10] < 250, "{late_ms:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn d8_success_is_acked() {
    // After success: not pending, not in progress, not re-run after 3x timeout.
    // Guard: the ack removes the lease, which nothing else brings back.
    let server = TestServer::start();
    let _workers = [server.worker_process(&[]), server.worker_process(&[])];
    let job = act::with("done".into(), Vec::new()).timeout(Duration::from_secs(2));
    job.on(server.client()).enqueue().await.expect("enqueued");
    server.eventually("it runs", SOON, || server.ended("done") == 1);
    server.drained(SOON);
    server.holds("it is done", Duration::from_secs(6), || {
        server.begun("done") == 1 && server.leftovers("default").is_empty()
    });
    assert_eq!((server.counter("processed"), server.counter("recovered")), (1, 0));
}

#[derive(Clone)]
struct Shared(Arc<AtomicUsize>);

#[derive(Clone)]
struct Label(&'static str);

#[hworker::job]
async fn count_async(State(shared): State<Shared>, label: State<Label>) {
    assert_eq!(label.0.0, "given at start");
    shared.0.fetch_add(1, Ordering::SeqCst);
}

#[hworker::job]
fn count_blocking(label: State<Label>, shared: State<Shared>) {
    assert_eq!(label.0.0, "given at start");
    shared.0.0.fetch_add(100, Ordering::SeqCst);
}

#[tokio::test(flavor = "multi_thread")]
async fn d12_shared_state_passed_to_jobs() {
    // State object given at start is visible in every body, of several types, in async and blocking ones.
    // Guard: `States`, by type.
    let server = TestServer::start();
    let shared = Shared(Arc::default());
    let worker =
        server.worker().concurrency(4).state(shared.clone()).state(Label("given at start"));
    let worker = worker.register::<count_async>().register::<count_blocking>();
    let _worker = InProcess::run(worker);
    for _ in 0..20 {
        count_async::with().on(server.client()).enqueue().await.expect("enqueued");
        count_blocking::with().on(server.client()).enqueue().await.expect("enqueued");
    }
    let counted = || shared.0.load(Ordering::SeqCst);
    server.eventually("each body has seen it", SOON, || counted() == 20 + 2000);
    server.drained(SOON);
}

#[tokio::test(flavor = "multi_thread")]
async fn d13_job_enqueues_jobs() {
    // Body enqueues another -> runs.
    // Guard: a client has a connection for each runtime, that of the bodies included.
    let server = TestServer::start();
    let _worker = server.worker_process(&[("HWORKER_CONCURRENCY", "1")]);
    let plan = vec![vec![Act::Enqueue("child".into()), Act::Enqueue("child".into())]];
    server.enqueue("parent", plan.clone()).await;
    let blocking = act_blocking::with("blocking parent".into(), plan).on(server.client());
    blocking.enqueue().await.expect("enqueued");
    server.eventually("the children run", SOON, || server.ended("child") == 4);
    assert_eq!((server.ended("parent"), server.ended("blocking parent")), (1, 1));
    server.drained(SOON);
}

/// Nobody serves its queue, so what is enqueued can be counted there.
#[hworker::job(queue = "d13-inner")]
async fn inner() {}

#[hworker::job]
async fn enqueues(context: Context) -> Result<(), BoxError> {
    inner::enqueue().await?;
    tokio::task::yield_now().await;
    Bulk::new().add(inner::with()).enqueue().await?;
    let (done, enqueued) = tokio::sync::oneshot::channel();
    context.spawn(async move {
        tokio::task::yield_now().await;
        let _ = done.send(inner::enqueue().await);
    });
    enqueued.await??;
    Ok(())
}

#[hworker::job]
fn enqueues_and_blocks() -> Result<(), BoxError> {
    inner::with().enqueue_blocking()?;
    tokio::runtime::Handle::current().block_on(inner::enqueue())?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn d13_a_body_enqueues_to_the_server_of_its_worker() {
    // Two servers in one process, with a worker each, at the same time; bodies that enqueue without a word of where: at once, after an
    // await, in a bulk, in a child, on a thread for what blocks -> each of their jobs is on its own server.
    // Guard: `OF_BODY`, in `runner::run`, for `run_slot`, in `Context::spawn` and `blocking::run`.
    let servers = [TestServer::start(), TestServer::start()];
    let jobs = |server: &TestServer| server.redis().len("hworker-jobs-d13-inner");
    let _workers = servers.each_ref().map(|server| {
        let worker = server.worker().register::<enqueues>().register::<enqueues_and_blocks>();
        InProcess::run(worker)
    });
    for (server, count) in servers.iter().zip([10, 20]) {
        let async_ones: Bulk = (0..count).map(|_| enqueues::with()).collect();
        let blocking_ones: Bulk = (0..count).map(|_| enqueues_and_blocks::with()).collect();
        for bulk in [async_ones, blocking_ones] {
            bulk.on(server.client()).enqueue().await.expect("enqueued");
        }
    }
    for (server, count) in servers.iter().zip([10, 20]) {
        server.drained(SOON);
        assert_eq!((jobs(server), server.counter("retried")), (count * 5, 0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_takes_what_waits_when_it_starts_and_what_comes_before_the_server_is_there() {
    // `run_all()` with a server that is not there yet goes on trying, and runs what it finds then.
    // Guard: `Reconnect` has no last try.
    let server = TestServer::builder().append_only().start();
    server.enqueue("waits", Vec::new()).await;
    server.process().kill();
    let mut worker = server.worker_process(&[]);
    let began = Instant::now();
    server.holds("it goes on trying", Duration::from_secs(1), || worker.exited().is_none());
    server.restart();
    server.eventually("it runs", SOON, || server.ended("waits") == 1);
    assert!(began.elapsed() < SOON);
}
