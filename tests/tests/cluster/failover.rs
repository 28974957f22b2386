//! Masters that die, and slots that move, while jobs are enqueued and run.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hworker::{Client, Durability, Error, WorkerBuilder};
use hworker_tests::{InProcess, TestCluster, act, program};
use tokio::task::JoinHandle;

/// From the death of a master until jobs run again, with a cluster that notices after 2 s.
const GOES_ON: Duration = Duration::from_secs(40);

/// Someone who enqueues one job after the other.
struct Producer {
    stop: Arc<AtomicBool>,
    task: JoinHandle<HashSet<String>>,
}

impl Producer {
    /// Enqueues to a queue under its name.
    fn start(client: &Client, queue: &str) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (client, queue, stopped) = (client.clone(), queue.to_owned(), Arc::clone(&stop));
        let task = tokio::spawn(async move {
            let mut accepted = HashSet::new();
            while !stopped.load(Ordering::Relaxed) {
                match act::with(queue.clone(), vec![]).on(&client).queue(&queue).enqueue().await {
                    Ok(id) => drop(accepted.insert(id.to_string())),
                    Err(
                        Error::Unavailable { .. }
                        | Error::Uncertain { .. }
                        | Error::NotDurable { .. },
                    ) => {}
                    Err(error) => panic!("{error}"),
                }
                // The pace of the producer.
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            accepted
        });
        Self { stop, task }
    }

    /// Stops; gives the ids of those that were accepted.
    async fn accepted(self) -> HashSet<String> {
        self.stop.store(true, Ordering::Relaxed);
        self.task.await.expect("no panic")
    }
}

/// Waits until the jobs of a queue with these ids have run.
fn all_ran(cluster: &TestCluster, queue: &str, accepted: &HashSet<String>) {
    let notes = cluster.notes();
    cluster.eventually("all that were accepted ran", GOES_ON, || {
        let ended = notes.runs_of(queue).into_iter().filter(|run| run.what == "end");
        accepted.is_subset(&ended.map(|run| run.id).collect())
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_master_that_dies_is_replaced_by_its_replica_on_redis() {
    // Under load on queues of all masters one of them is killed: jobs of its queue go on at its replica, those of
    // the others all the while; then it comes back and takes over again. With `replicated=1` no accepted job is lost.
    // Guard: `Cluster::doubt`, and that those are asked who are not in doubt.
    if let Some(program) = program("redis-server") {
        failover(&TestCluster::with_replicas(&program)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_master_that_dies_is_replaced_by_its_replica_on_valkey() {
    // The same.
    // Guard: as above.
    if let Some(program) = program("valkey-server") {
        failover(&TestCluster::with_replicas(&program)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_master_that_does_not_see_the_others_is_left() {
    // A master that answers every call with `CLUSTERDOWN`, while its replica has taken its place: who was connected to it goes
    // there, though it ends no connection.
    // Guard: `Fault::says_out_of_service`.
    let Some(program) = program("redis-server") else { return };
    let cluster = TestCluster::with_replicas(&program);
    let queue = cluster.queue_on_each_master().remove(1);
    let worker = InProcess::run(cluster.worker().register::<act>().extra_queue(&queue));
    let producer = Producer::start(cluster.client(), &queue);
    let notes = cluster.notes();
    let go_on = || {
        let before = notes.ended(&queue);
        cluster.eventually("jobs go on", GOES_ON, || notes.ended(&queue) > before + 20);
    };
    go_on();
    cluster.cut_off(1);
    go_on();
    drop(producer.accepted().await);
    assert!(worker.is_alive());
    worker.stop().await;
}

async fn failover(cluster: &TestCluster) {
    let queues = cluster.queue_on_each_master();
    let worker = cluster.worker().register::<act>();
    let worker = InProcess::run(queues.iter().fold(worker, WorkerBuilder::extra_queue));
    let durable = cluster.client_builder().durability(Durability::replicated(1));
    let durable = durable.build().expect("a client");
    let producers: Vec<_> = queues.iter().map(|queue| Producer::start(&durable, queue)).collect();
    let notes = cluster.notes();
    let go_on = |queue: &String| {
        let before = notes.ended(queue);
        cluster.eventually("jobs go on", GOES_ON, || notes.ended(queue) > before + 20);
    };
    queues.iter().for_each(go_on);
    cluster.kill(1);
    go_on(&queues[0]);
    cluster.failed_over(1);
    // The new master has no replica yet, so only who asks for none is served.
    let ended = || notes.ended("there");
    while ended() == 0 {
        let job = act::with("there".into(), vec![]).on(cluster.client()).queue(&queues[1]);
        let _ = job.enqueue().await;
        // The pace of the producer.
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    cluster.start_again(1);
    cluster.take_back(1);
    cluster.wait_until_replicated();
    queues.iter().for_each(go_on);
    for (producer, queue) in producers.into_iter().zip(&queues) {
        let accepted = producer.accepted().await;
        all_ran(cluster, queue, &accepted);
        println!("{queue}: {} accepted, {} runs", accepted.len(), notes.begun(queue));
        // Those that ran when a master changed may run again.
        assert!(notes.begun(queue) <= accepted.len() + 60);
    }
    assert!(worker.is_alive());
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn slots_move_under_load_on_redis() {
    // The slot of a queue is moved from master to master, key after key, while jobs are enqueued and run in it: every accepted
    // job runs, and each once.
    // Guard: `MOVED` ends the connection; `ASK`, `TRYAGAIN` and `CLUSTERDOWN` count as busy.
    if let Some(program) = program("redis-server") {
        resharding(&TestCluster::of(&program)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn slots_move_under_load_on_valkey() {
    // The same.
    // Guard: as above.
    if let Some(program) = program("valkey-server") {
        resharding(&TestCluster::of(&program)).await;
    }
}

async fn resharding(cluster: &TestCluster) {
    const JOBS: &str = "hworker-jobs-{default}";
    let worker = InProcess::run(cluster.worker().register::<act>());
    let producers: Vec<_> = (0..3).map(|_| Producer::start(cluster.client(), "default")).collect();
    let notes = cluster.notes();
    let go_on = || {
        let before = notes.ended("default");
        cluster.eventually("jobs go on", GOES_ON, || notes.ended("default") > before + 100);
    };
    go_on();
    let slot = cluster.slot(JOBS);
    let mut from = cluster.owner(JOBS);
    for _ in 0..4 {
        let to = (from + 1) % cluster.masters();
        cluster.move_slot(slot, from, to);
        from = to;
        go_on();
    }
    let mut accepted = HashSet::new();
    for producer in producers {
        accepted.extend(producer.accepted().await);
    }
    all_ran(cluster, "default", &accepted);
    let ids: Vec<_> =
        notes.runs_of("default").into_iter().filter(|run| run.what == "begin").collect();
    let distinct: HashSet<_> = ids.iter().map(|run| &run.id).collect();
    println!("{} accepted, {} runs of {} jobs", accepted.len(), ids.len(), distinct.len());
    assert_eq!(ids.len(), distinct.len());
    worker.stop().await;
}
