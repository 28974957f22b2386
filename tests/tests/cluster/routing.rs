//! Which server is asked.

use std::time::{Duration, Instant};

use hworker::{Client, Error};
use hworker_tests::{Act, InProcess, TestCluster, TestServer, act};

use crate::SOON;

const JOBS: &str = "hworker-jobs-{default}";

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_that_moved_is_followed() {
    // A slot is moved while a producer and a worker are idle on it, with jobs waiting and scheduled in it: both go on at its
    // new owner, every job runs once. Twice, back again too.
    // Guard: `MOVED` ends the connection, and `Slots::note_moved`.
    let cluster = TestCluster::start();
    let worker = InProcess::run(cluster.worker().register::<act>());
    let notes = cluster.notes();
    let mut enqueued = 0;
    let mut from = cluster.owner(JOBS);
    for round in 0..2 {
        for _ in 0..5 {
            cluster.enqueue("job", vec![]).await;
            enqueued += 1;
        }
        cluster.eventually("all ran", SOON, || notes.ended("job") == enqueued);
        let delay = act::with("later".into(), vec![]).on(cluster.client());
        delay.delay(Duration::from_secs(3)).enqueue().await.expect("enqueued");
        let to = (from + 1) % cluster.masters();
        cluster.move_slot(cluster.slot(JOBS), from, to);
        from = to;
        cluster.enqueue("job", vec![]).await;
        enqueued += 1;
        cluster.eventually("it runs at the new owner", SOON, || notes.ended("job") == enqueued);
        cluster.eventually("the scheduled one too", SOON, || notes.ended("later") == round + 1);
    }
    assert_eq!((notes.begun("job"), notes.begun("later")), (enqueued, 2));
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_on_its_way_is_waited_for() {
    // While a slot is being moved its old owner answers ASK for what it does not have: an enqueue waits, and is in once.
    // Guard: `ASK` counts as busy.
    let cluster = TestCluster::start();
    let (slot, from) = (cluster.slot(JOBS), cluster.owner(JOBS));
    let to = (from + 1) % cluster.masters();
    cluster.begin_moving(slot, from, to);
    let enqueue = act::with("job".into(), vec![]).on(cluster.client()).enqueue();
    let enqueue = tokio::spawn(enqueue);
    // The server answers with ASK meanwhile.
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!enqueue.is_finished());
    cluster.finish_moving(slot, from, to);
    enqueue.await.expect("no panic").expect("enqueued");
    assert_eq!(cluster.redis(to).len(JOBS), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_master_that_comes_back_is_used_again() {
    // A master is killed and started again: its queue's enqueue is in or a clear error within the time, the other masters'
    // queues go on when the cluster lets them, and afterwards every job runs once.
    // Guard: `Cluster::doubt`, and `CLUSTERDOWN` counts as busy.
    let cluster = TestCluster::start();
    let queues = cluster.queue_on_each_master();
    let worker = cluster.worker().register::<act>();
    let worker = queues.iter().fold(worker, hworker::WorkerBuilder::extra_queue);
    let worker = InProcess::run(worker);
    let notes = cluster.notes();
    let enqueue = async |queue: &String| {
        act::with(queue.clone(), vec![]).on(cluster.client()).queue(queue).enqueue().await
    };
    for queue in &queues {
        enqueue(queue).await.expect("enqueued");
    }
    cluster.eventually("all run", SOON, || queues.iter().all(|queue| notes.ended(queue) == 1));
    cluster.kill(1);
    let begun = Instant::now();
    let result = enqueue(&queues[1]).await;
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
    assert!(
        matches!(result, Err(Error::Unavailable { .. } | Error::Uncertain { .. })),
        "{result:?}"
    );
    cluster.start_again(1);
    cluster.wait_until_ok();
    let before = usize::from(result.is_ok());
    for queue in &queues {
        enqueue(queue).await.expect("enqueued");
    }
    cluster.eventually("all run again", SOON, || {
        queues.iter().all(|queue| notes.ended(queue) >= 2 + before)
    });
    assert!(worker.is_alive());
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn any_server_of_the_url_will_do() {
    // The first in the URL is not there; a server that is no cluster says so at once; a password goes to every server.
    // Guard: `Cluster::ask` goes on with the next; the settings of the URL are those of all servers.
    let cluster = TestCluster::start();
    for master in 0..cluster.masters() {
        let _: String = cluster.redis(master).ask(&["CONFIG", "SET", "requirepass", "s3cret#"]);
    }
    let hosts = cluster.url().replacen("redis-cluster://", "", 1);
    let url = format!("redis-cluster://:s3cret%23@127.0.0.1:1,{hosts}");
    let client = Client::new(url.clone()).expect("a client");
    let queues = cluster.queue_on_each_master();
    for queue in &queues {
        let job = act::with("job".into(), vec![]).on(&client).queue(queue);
        job.enqueue().await.expect("enqueued");
    }
    for (master, queue) in queues.iter().enumerate() {
        assert_eq!(cluster.redis(master).len(&format!("hworker-jobs-{{{queue}}}")), 1);
    }
    let wrong = Client::new(url.replace("s3cret", "other")).expect("a client");
    let refused = act::with("job".into(), vec![]).on(&wrong).enqueue().await;
    let text = format!("{:?}", refused.expect_err("refused"));
    assert!(!text.contains("s3cret") && !text.contains("other"), "{text}");

    let single = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = single.local_addr().expect("its number").port();
    drop(single);
    let _server = TestServer::builder().arg("--port", &port.to_string()).start();
    let client = Client::new(format!("redis-cluster://127.0.0.1:{port}")).expect("a client");
    let refused = act::with("job".into(), vec![]).on(&client).enqueue().await;
    assert!(matches!(&refused, Err(Error::Refused { .. })), "{refused:?}");
    let text = refused.expect_err("refused").to_string();
    assert!(text.contains("write redis:// for it"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_that_announce_names_or_nothing() {
    // Masters that announce a host name, or none at all, are reached.
    // Guard: `node_of` and `node_at` in `net/slots.rs`.
    let cluster = TestCluster::start();
    for (kind, name) in [("hostname", "localhost"), ("unknown-endpoint", ""), ("hostname", "")] {
        for master in 0..cluster.masters() {
            let mut redis = cluster.redis(master);
            let _: String = redis.ask(&["CONFIG", "SET", "cluster-announce-hostname", name]);
            let _: String = redis.ask(&["CONFIG", "SET", "cluster-preferred-endpoint-type", kind]);
        }
        // The names travel from one to the others.
        let told = |asked: usize| {
            let slots = cluster.redis(asked).ask::<redis::Value>(&["CLUSTER", "SLOTS"]);
            let text = format!("{slots:?}");
            text.matches("localhost").count() >= 3 || name.is_empty()
        };
        cluster.eventually("the names are known", SOON, || (0..cluster.masters()).all(told));
        let client = Client::new(cluster.url()).expect("a client");
        for queue in cluster.queue_on_each_master() {
            let job = act::with("job".into(), vec![vec![Act::Sleep(1)]]).on(&client).queue(queue);
            job.enqueue().await.unwrap_or_else(|error| panic!("{kind} {name}: {error}"));
        }
    }
}
