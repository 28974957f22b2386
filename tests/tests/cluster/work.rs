//! Everything that a job goes through, in a cluster.

use std::time::Duration;

use hworker_tests::{Act, TestCluster, act, program};

use crate::{RECOVERED, SOON};

#[tokio::test(flavor = "multi_thread")]
async fn o6_every_way_of_a_job_on_redis() {
    // All keys of a queue share one hash tag, scripts declare all keys: a job is enqueued, delayed, retried, panics, is snoozed,
    // times out, fails, is broken, revoked, requeued, all as on one server, and all that the queue has is in one slot.
    // Guard: the braces in `Keys::new`; every script declares its keys.
    if let Some(program) = program("redis-server") {
        every_way_of_a_job(&TestCluster::of(&program)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn o6_every_way_of_a_job_on_valkey() {
    // The same.
    // Guard: as above.
    if let Some(program) = program("valkey-server") {
        every_way_of_a_job(&TestCluster::of(&program)).await;
    }
}

async fn every_way_of_a_job(cluster: &TestCluster) {
    let _workers = [cluster.worker_process(&[]), cluster.worker_process(&[])];
    for number in 0..50 {
        cluster.enqueue(&format!("plain-{number}"), vec![]).await;
    }
    let again = vec![vec![Act::Retry("again".into())], vec![Act::RetryIn(50)], vec![]];
    cluster.enqueue("retried", again).await;
    cluster.enqueue("panics", vec![vec![Act::Panic("on purpose".into())], vec![]]).await;
    cluster.enqueue("snoozes", vec![vec![Act::Snooze(50)], vec![]]).await;
    let failed = cluster.enqueue("fails", vec![vec![Act::Failure("on purpose".into())]]).await;
    let timed = act::with("times out".into(), vec![vec![Act::Sleep(5_000)], vec![]]);
    let timed = timed.on(cluster.client()).timeout(Duration::from_millis(300));
    timed.enqueue().await.expect("enqueued");
    let later = act::with("later".into(), vec![]).on(cluster.client());
    later.delay(Duration::from_secs(1)).enqueue().await.expect("enqueued");
    let jobs = "hworker-jobs-{default}";
    let owner = cluster.owner(jobs);
    let _: u64 = cluster.redis(owner).ask(&["LPUSH", jobs, "{"]);

    let queue = cluster.client().inspect("default");
    let counter = async |name: &str| {
        let all = queue.statistics(None).await.expect("the statistics");
        all.get(name).copied().unwrap_or(0)
    };
    cluster
        .eventually_async("all are settled", SOON * 2, async || {
            let all =
                [counter("processed").await, counter("failed").await, counter("broken").await];
            all == [55, 1, 1]
        })
        .await;
    let id = cluster.enqueue("revoked", vec![vec![Act::Sleep(3_600_000)], vec![]]).await;
    let notes = cluster.notes();
    cluster.eventually("it runs", SOON, || notes.begun("revoked") == 1);
    queue.revoke(&id).await.expect("revoked");
    cluster.eventually("it runs again", SOON, || notes.ended("revoked") == 1);
    queue.requeue_broken(b"{").await.expect("requeued");
    cluster
        .eventually_async("it is broken again", SOON, async || counter("broken").await == 2)
        .await;
    assert!((0..50).all(|number| notes.begun(&format!("plain-{number}")) == 1));
    assert_eq!(queue.workers().await.expect("the workers").len(), 2);
    assert!(queue.find(&failed).await.expect("found").is_some());

    let keys: Vec<_> = cluster
        .keys("hworker-*")
        .into_iter()
        .filter(|(_, key)| !key.starts_with("hworker-meta:"))
        .collect();
    let slots: Vec<_> = keys.iter().map(|(_, key)| cluster.slot(key)).collect();
    assert!(slots.len() > 8 && slots.iter().all(|slot| *slot == slots[0]), "{keys:?}");
    assert!(keys.iter().all(|(master, _)| *master == owner), "{keys:?}");
    queue.destroy(true).await.expect("destroyed");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_jobs_of_a_killed_worker_run_elsewhere() {
    // kill -9 of a worker process: what it held, on queues of different masters, runs on another one, each once more.
    // Guard: heartbeats and the monitor go to the server of their own queue.
    let cluster = TestCluster::start();
    let queues = cluster.queue_on_each_master();
    let served = format!("+{},+{},+{}", queues[0], queues[1], queues[2]);
    let settings = [("HWORKER_QUEUES", served.as_str())];
    let mut first = cluster.worker_process(&settings);
    for queue in &queues {
        let plan = vec![vec![Act::Sleep(3_600_000)], vec![]];
        let job = act::with(queue.clone(), plan).on(cluster.client()).queue(queue);
        job.enqueue().await.expect("enqueued");
    }
    let notes = cluster.notes();
    cluster.eventually("all run", SOON, || queues.iter().all(|queue| notes.begun(queue) == 1));
    let _second = cluster.worker_process(&settings);
    first.kill();
    cluster.eventually("all run elsewhere", RECOVERED, || {
        queues.iter().all(|queue| notes.ended(queue) == 1)
    });
    assert!(queues.iter().all(|queue| notes.begun(queue) == 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_told_to_stop_gives_everything_back() {
    // SIGTERM: what runs finishes, nothing is held afterwards, the process ends with 0.
    // Guard: each lane says its last word to its own server.
    let cluster = TestCluster::start();
    let queues = cluster.queue_on_each_master();
    let served = format!("+{},+{},+{}", queues[0], queues[1], queues[2]);
    let mut worker =
        cluster.worker_process(&[("HWORKER_QUEUES", &served), ("HWORKER_CONCURRENCY", "5")]);
    for queue in &queues {
        for _ in 0..10 {
            let job = act::with(queue.clone(), vec![vec![Act::Sleep(200)]]);
            job.on(cluster.client()).queue(queue).enqueue().await.expect("enqueued");
        }
    }
    let notes = cluster.notes();
    let begun = || queues.iter().map(|queue| notes.begun(queue)).sum::<usize>();
    cluster.eventually("some run", SOON, || begun() > 4);
    worker.terminate();
    assert!(worker.wait(SOON).expect("it ends").success());
    let ended: usize = queues.iter().map(|queue| notes.ended(queue)).sum();
    assert_eq!(begun(), ended);
    let mut waiting = 0;
    for queue in &queues {
        let counts = cluster.client().inspect(queue).counts().await.expect("the counts");
        assert_eq!(counts.running, 0, "{counts:?}");
        waiting += counts.waiting;
    }
    assert_eq!(waiting as usize + ended, 30);
}
