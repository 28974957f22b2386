//! A worker that runs until nothing is left to do, for a program's own tests.

use std::time::Duration;

use hworker::{Client, Error, State};
use hworker_tests::{Act, InProcess, TestServer, act, act_once};

use crate::SOON;

#[hworker::job(queue = "idle-there")]
async fn there(left: u32, State(client): State<Client>) -> Result<(), Error> {
    if left > 0 {
        back::with(left - 1).on(&client).enqueue().await?;
    }
    Ok(())
}

#[hworker::job(queue = "idle-back")]
async fn back(left: u32, State(client): State<Client>) -> Result<(), Error> {
    if left > 0 {
        there::with(left - 1).on(&client).enqueue().await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn run_until_idle_sees_a_job_that_goes_from_queue_to_queue() {
    // Jobs of two queues that enqueue each other, 600 one after the other -> it ends after the last.
    // Guard: the second look in `worker/idle.rs`, and the tokens that both compare.
    let server = TestServer::start();
    let client = server.client();
    there::with(599).on(client).enqueue().await.expect("enqueued");
    let worker = server.worker().state(client.clone()).register::<there>().register::<back>();
    let worker = worker.build().expect("a worker").run_until_idle();
    let stopped = tokio::time::timeout(2 * SOON, worker).await.expect("in time").expect("it stops");
    assert!(!stopped.cut_off);
    for queue in ["idle-there", "idle-back"] {
        let statistics = client.inspect(queue).statistics(None).await.expect("the statistics");
        assert_eq!(statistics.get("processed"), Some(&300), "{queue}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn run_until_idle_leaves_what_is_for_later() {
    // What waits, is due, is retried at once, runs in another worker, or was parked by one that did not know it, is done; a delayed
    // job, one that waits for its next attempt, and one that this worker does not know, are left. Without any job it ends too.
    let server = TestServer::start();
    let builder = || server.worker().register::<act>();
    let idle = || async {
        let worker = builder().build().expect("a worker").run_until_idle();
        let stopped = tokio::time::timeout(SOON, worker).await.expect("in time");
        stopped.expect("it stops");
    };
    idle().await;

    let job = |name: &str, plan| act::with(name.into(), plan).on(server.client());
    let unknown_there = InProcess::run(server.worker().register::<act_once>());
    job("parked", vec![]).enqueue().await.expect("enqueued");
    server.eventually("it is parked", SOON, || server.redis().len("hworker-parked-default") == 1);
    unknown_there.stop().await;
    idle().await;
    assert_eq!(server.ended("parked"), 1);

    let elsewhere = InProcess::run(builder());
    server.enqueue("elsewhere", vec![vec![Act::Gate("open".into())]]).await;
    server.eventually("it runs", SOON, || server.begun("elsewhere") == 1);
    let stopping = tokio::spawn(elsewhere.stop());
    server.enqueue("waits", vec![]).await;
    server.enqueue("retried", vec![vec![Act::Error("once more".into())], vec![]]).await;
    let due = job("due", vec![]).delay(Duration::from_millis(1));
    due.enqueue().await.expect("scheduled");
    let hour = Duration::from_secs(3_600);
    job("later", vec![]).delay(hour).enqueue().await.expect("scheduled");
    let again = job("again", vec![vec![Act::Error("later".into())]]).backoff("1h");
    again.enqueue().await.expect("enqueued");
    let unknown = act_once::with("unknown".into(), vec![]).on(server.client());
    unknown.enqueue().await.expect("enqueued");
    let opens = async {
        server
            .eventually_async("the others ran", SOON, async || server.ended("retried") == 1)
            .await;
        server.open("open");
    };
    tokio::join!(idle(), opens);
    for name in ["waits", "retried", "due", "elsewhere"] {
        assert_eq!(server.ended(name), 1, "{name}");
    }
    let left = server.inspect().counts().await.expect("the counts");
    assert_eq!((left.waiting, left.running), (0, 0));
    assert_eq!((left.scheduled, left.parked), (2, 1));
    stopping.await.expect("no panic");
}
