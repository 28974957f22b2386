//! Rows Q: what reaches the queue, and how often it runs.

use std::collections::HashSet;
use std::time::Duration;

use hworker::{JobId, JobState};
use hworker_tests::Records as _;
use hworker_tests::{Act, Machine, Proxy, TestServer, act, produce, weigh};

use crate::SOON;

#[tokio::test(flavor = "multi_thread")]
async fn q2_returns_an_id() {
    // Enqueue returns a unique non-empty id; that id finds the job in every state.
    // Guard: ids are made fresh for each job, and `Inspect::find` looks into every structure.
    let server = TestServer::start();
    let mut ids = HashSet::new();
    for _ in 0..1000 {
        let id = act::with("far".into(), Vec::new()).delay(SOON * 100).on(server.client());
        ids.insert(id.enqueue().await.expect("enqueued"));
    }
    assert_eq!(ids.len(), 1000);
    assert!(ids.iter().all(|id| !id.as_str().is_empty()));

    let scheduled = ids.into_iter().next().expect("one of them");
    assert!(matches!(state(&server, &scheduled).await, Some(JobState::Scheduled)));
    let plan =
        vec![vec![Act::Gate("run".into()), Act::RetryIn(1500)], vec![Act::Fail("no".into())]];
    let id = server.enqueue("states", plan).await;
    assert!(matches!(state(&server, &id).await, Some(JobState::Waiting)));
    let broken = server.enqueue("broken", Vec::new()).await;
    let unfit = format!(r#"{{"job":"act","id":"unfit","args":{{"plan":"{broken}"}}}}"#);
    server.redis().ask::<u64>(&["LPUSH", "hworker-jobs-default", &unfit]);

    let _worker = server.worker_process(&[("HWORKER_UNKNOWN_FOR", "1ms")]);
    server
        .eventually_async("it runs", SOON, async || {
            matches!(state(&server, &id).await, Some(JobState::Running))
        })
        .await;
    server.open("run");
    server
        .eventually_async("it waits for its next attempt", SOON, async || {
            let found = server.inspect().find(&id).await.expect("found").expect("somewhere");
            matches!(found.state, JobState::Scheduled) && found.attempt == 2
        })
        .await;
    server
        .eventually_async("it has failed", SOON, async || {
            matches!(state(&server, &id).await, Some(JobState::Failed))
        })
        .await;
    server
        .eventually_async("a broken one is found", SOON, async || {
            matches!(state(&server, &JobId::from("unfit")).await, Some(JobState::Broken))
        })
        .await;
    server
        .eventually_async("one that is done is nowhere", SOON, async || {
            server.inspect().find(&broken).await.expect("looked for").is_none()
        })
        .await;
}

async fn state(server: &TestServer, id: &JobId) -> Option<JobState> {
    let found = server.inspect().find(id).await.expect("looked for");
    found.map(|found| {
        assert_eq!((found.id.as_ref(), found.job.as_deref()), (Some(id), Some("act")));
        found.state
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn q3_equal_jobs_are_distinct() {
    // Enqueue the same args twice -> 2 executions, 2 ids. The same for delayed ones, and for foreign ones without an id that
    // have to wait for their retry together.
    // Guard: a fresh id in each envelope; `Rewrite::of` gives one to what has none.
    let server = TestServer::start();
    let first = server.enqueue("now", Vec::new()).await;
    let second = server.enqueue("now", Vec::new()).await;
    assert_ne!(first, second);
    for _ in 0..2 {
        let job = act::with("later".into(), Vec::new()).on(server.client());
        job.delay(Duration::from_millis(300)).enqueue().await.expect("enqueued");
    }
    let foreign = r#"{"job":"act","args":{"name":"foreign","plan":[[{"RetryIn":200}],[]]}}"#;
    server.redis().ask::<u64>(&["LPUSH", "hworker-jobs-default", foreign, foreign]);

    let _worker = server.worker_process(&[]);
    for name in ["now", "later", "foreign"] {
        server.eventually(name, SOON, || server.ended(name) == 2);
        let ids: HashSet<_> = server.runs_of(name).into_iter().map(|run| run.id).collect();
        assert!(ids.len() >= 2, "{name}: {ids:?}");
    }
    server.drained(SOON);
    assert_eq!((server.begun("now"), server.begun("later"), server.begun("foreign")), (2, 2, 4));
}

#[tokio::test(flavor = "multi_thread")]
async fn q4_fifo() {
    // 1 worker, concurrency 1, enqueue 1..n -> order 1..n.
    // Guard: `reserve.lua` takes from the end that producers do not push to, and keeps the order in what it hands over.
    let server = TestServer::start();
    for number in 1..=50 {
        server.enqueue("fifo", vec![vec![Act::Note(number.to_string())]]).await;
    }
    let _worker = server.worker_process(&[("HWORKER_CONCURRENCY", "1")]);
    // And from an idle queue, where each job is handed over singly.
    server.eventually("the first half runs", SOON, || server.ended("fifo") == 50);
    for number in 51..=100 {
        server.enqueue("fifo", vec![vec![Act::Note(number.to_string())]]).await;
    }
    server.eventually("all run", SOON, || server.ended("fifo") == 100);
    let runs = server.runs_of("fifo");
    let order: Vec<u32> = runs.iter().filter_map(|run| run.what.parse().ok()).collect();
    assert_eq!(order, (1..=100).collect::<Vec<_>>());
    server.drained(SOON);
}

#[tokio::test(flavor = "multi_thread")]
async fn q5_a_thousand_jobs_one_worker() {
    // 1000 jobs, 1 worker -> counter = 1000 exactly; all structures empty after.
    // Guard: a reserved job is under a lease and nowhere else; an ack removes the lease.
    a_thousand_jobs(1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn q6_a_thousand_jobs_four_workers() {
    // 1000 jobs, 4 workers -> counter = 1000 exactly; no id runs twice.
    // Guard: `reserve.lua` moves a job in one script.
    a_thousand_jobs(4).await;
}

async fn a_thousand_jobs(workers: usize) {
    let _machine = Machine::claim();
    let server = TestServer::start();
    let workers: Vec<_> = (0..workers).map(|_| server.worker_process(&[])).collect();
    let mut enqueued = HashSet::new();
    for _ in 0..1000 {
        enqueued.insert(server.enqueue("many", Vec::new()).await.to_string());
    }
    server.eventually("all run", SOON * 2, || server.ended("many") >= 1000);
    server.drained(SOON);
    server.eventually("all are counted", SOON, || server.counter("processed") == 1000);
    let runs = server.runs_of("many");
    let begun: Vec<_> = runs.iter().filter(|run| run.what == "begin").collect();
    assert_eq!((begun.len(), server.counter("processed:act")), (1000, 1000));
    let ids: HashSet<_> = begun.iter().map(|run| run.id.clone()).collect();
    assert_eq!(ids, enqueued);
    let busy: HashSet<_> = begun.iter().map(|run| run.pid).collect();
    assert_eq!(busy.len(), workers.len(), "each worker took part");
    drop(workers);
}

#[tokio::test(flavor = "multi_thread")]
async fn q7_large_payloads() {
    // 5000 jobs of 53 kB, 4 workers -> 5000.
    // Guard: a reserve hands over at most about 1 MB.
    let _machine = Machine::claim();
    let server = TestServer::start();
    let _workers: Vec<_> = (0..4).map(|_| server.worker_process(&[])).collect();
    let text = "0123456789abcdef\u{1F980}\u{0}\n\"".repeat(53_000 / 23);
    let size = text.len();
    let producers: Vec<_> = (0..4)
        .map(|_| {
            let (client, text) = (server.client().clone(), text.clone());
            tokio::spawn(async move {
                for _ in 0..1250 {
                    let job = weigh::with("large".into(), text.clone()).on(&client);
                    job.enqueue().await.expect("enqueued");
                }
            })
        })
        .collect();
    for producer in producers {
        producer.await.expect("all are enqueued");
    }
    let weighed = || server.redis().len("test:runs:large");
    server.eventually("all run", SOON * 4, || weighed() >= 5000);
    server.drained(SOON);
    let runs = server.runs_of("large");
    let ids: HashSet<_> = runs.iter().map(|run| run.id.clone()).collect();
    assert_eq!((runs.len(), ids.len()), (5000, 5000));
    let expected = format!("{size} bytes");
    assert!(size > 50_000 && runs.iter().all(|run| run.what == expected));
}

#[tokio::test(flavor = "multi_thread")]
async fn q7_large_payloads_are_handed_over_a_few_at_a_time() {
    // 32 jobs of 1 MB and as many free slots: one reserve hands over at most about 1 MB, so each has one of its own.
    // Guard: `SCRIPT_BYTES` in `Queue::reserve_call`, `largest` in `reserve.lua`.
    const JOBS: usize = 32;
    let server = TestServer::start();
    let proxy = Proxy::before(&server);
    let unread = Act::Note("x".repeat(1_000_000));
    for _ in 0..JOBS {
        server.enqueue("large", vec![vec![Act::Gate("go".into())], vec![unread.clone()]]).await;
    }
    let slots = JOBS.to_string();
    let settings = [("HWORKER_CONCURRENCY", slots.as_str()), ("HWORKER_REDIS_URL", &proxy.url())];
    let _worker = server.worker_process(&settings);
    server.eventually("all run", SOON * 2, || server.begun("large") == JOBS);
    let reserves = proxy.count("reserve");
    assert!(reserves >= JOBS, "{reserves} reserves");
    server.open("go");
    server.drained(SOON);
}

#[tokio::test(flavor = "multi_thread")]
async fn q8_foreign_producer() {
    // Push the documented JSON with a plain Redis client -> runs like a native job: it has an id, is retried and fails
    // with a record.
    // Guard: only `job` and `args` are required of an envelope.
    let server = TestServer::start();
    let push = |envelope: &str| {
        server.redis().ask::<u64>(&["LPUSH", "hworker-jobs-default", envelope]);
    };
    push(r#"{"job":"act","args":{"name":"least","plan":[[{"Retry":"once"}],[]]}}"#);
    push(
        r#" {"v":1, "id":"order-7", "job":"act", "args":{"plan":[[{"Error":"always"}]],"name":"most"},
            "enqueued_at":1, "max_attempts":2, "timeout":5000, "backoff":"50ms", "mine":{"a":[1]}} "#,
    );
    let due = server.redis().time_us() / 1000 + 300;
    let later = r#"{"v":1,"id":"later-7","job":"act","args":{"name":"later","plan":[]}}"#;
    server.redis().ask::<u64>(&["ZADD", "hworker-scheduled-default", &due.to_string(), later]);

    let _worker = server.worker_process(&[]);
    server.eventually("it runs", SOON, || server.ended("least") == 1);
    assert_eq!(server.begun("least"), 2);
    assert!(server.runs_of("least").iter().all(|run| !run.id.is_empty()));
    server.eventually("the scheduled one runs", SOON, || server.ended("later") == 1);
    assert!(server.runs_of("later")[0].at / 1000 >= due);
    server
        .eventually_async("the other fails", SOON, async || {
            server.inspect().failed(0, 10).await.expect("the records").len() == 1
        })
        .await;
    assert_eq!(server.begun("most"), 2);
    let failed = server.inspect().failed(0, 10).await.expect("the records").remove(0);
    assert_eq!((failed.id.as_str(), failed.attempts), ("order-7", 2));
    assert_eq!(failed.args(), r#"{"plan":[[{"Error":"always"}]],"name":"most"}"#);
}

#[tokio::test(flavor = "multi_thread")]
async fn q11_producer_without_the_worker_code() {
    // Enqueue from a process that does not run workers; the jobs run elsewhere, now or when a worker comes.
    // Guard: enqueueing needs the type of a job only, and no registry.
    let server = TestServer::start();
    let ids = produce(&server, &[], &["from-elsewhere", "from-elsewhere"]);
    assert_eq!(server.redis().len("hworker-jobs-default"), 2);
    let _worker = server.worker_process(&[]);
    server.eventually("they run", SOON, || server.ended("from-elsewhere") == 2);
    let ran: HashSet<_> = server.runs_of("from-elsewhere").into_iter().map(|run| run.id).collect();
    assert_eq!(ran, ids.into_iter().collect());
}
