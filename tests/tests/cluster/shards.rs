//! Queues that are spread over shards.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use hworker::{Bulk, Client, Error, JobState, Registry, Submitted, Worker};
use hworker_tests::Records as _;
use hworker_tests::{Act, InProcess, TestCluster, TestServer, act, act_alone, act_in_order};

use crate::{RECOVERED, SOON};

async fn enqueue(client: &Client, name: &str, plan: Vec<Vec<Act>>) -> hworker::JobId {
    let job = act::with(name.into(), plan).on(client);
    job.enqueue().await.unwrap_or_else(|error| panic!("{error}"))
}

/// How many jobs wait in each shard of the queue `default`.
fn waiting(cluster: &TestCluster) -> BTreeMap<String, (usize, u64)> {
    let keys = cluster.keys("hworker-jobs-*").into_iter();
    keys.map(|(master, key)| (key.clone(), (master, cluster.redis(master).len(&key)))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn six_shards_on_three_masters_are_one_queue() {
    // 600 jobs on 6 shards: 100 wait in each, two shards on each master; workers of two processes run each job once; what is
    // asked of the queue is answered for all shards.
    // Guard: `Client::queue` takes the shards in turn; `shards::spelled` puts them apart; `Inspect::each`.
    let cluster = TestCluster::start();
    let client = cluster.client_builder().shards("default", 6).build().expect("a client");
    let queue = client.inspect("default");
    let mut ids = BTreeSet::new();
    for number in 0..600 {
        ids.insert(enqueue(&client, &format!("job-{}", number % 20), vec![]).await.to_string());
    }
    let waits = waiting(&cluster);
    assert!(waits.len() == 6 && waits.values().all(|(_, count)| *count == 100), "{waits:?}");
    for master in 0..cluster.masters() {
        let shards = waits.values().filter(|(on, _)| *on == master).count();
        assert_eq!(shards, 2, "{waits:?}");
    }
    assert_eq!(queue.counts().await.expect("the counts").waiting, 600);

    let settings = [("HWORKER_SHARDS", "default=6")];
    let workers = [cluster.worker_process(&settings), cluster.worker_process(&settings)];
    let notes = cluster.notes();
    let ran = || (0..20).flat_map(|name| notes.runs_of(&format!("job-{name}"))).collect::<Vec<_>>();
    cluster
        .eventually_async("all are done", SOON * 2, async || {
            queue.statistics(None).await.expect("them").get("processed") == Some(&600)
        })
        .await;
    let begun: Vec<_> = ran().into_iter().filter(|run| run.what == "begin").collect();
    assert_eq!(begun.len(), 600);
    assert_eq!(begun.iter().map(|run| run.id.clone()).collect::<BTreeSet<_>>(), ids);
    assert_eq!(begun.iter().map(|run| run.pid).collect::<BTreeSet<_>>().len(), 2);

    let alive = queue.workers().await.expect("the workers");
    assert_eq!(alive.len(), 2);
    assert_eq!(alive.iter().map(|worker| worker.processed).sum::<u64>(), 600);
    assert!(alive.iter().all(|worker| worker.queues == ["default"]), "{alive:?}");
    assert!(queue.destroy(false).await.is_err());
    drop(workers);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_enqueues_at_once_are_spread() {
    // A bulk of 6,000 has a chunk in each of 6 shards; 600 enqueues at the same time, which share writes, fill them evenly; delayed
    // ones too.
    // Guard: each chunk takes its own shard, and each enqueue, whoever else's write it shares.
    let cluster = TestCluster::start();
    let client = cluster.client_builder().shards("default", 6).build().expect("a client");
    let each = |count: u64, kind: &str| {
        let keys = cluster.keys(&format!("hworker-{kind}-*"));
        let counts: Vec<_> =
            keys.iter().map(|(master, key)| cluster.redis(*master).len(key)).collect();
        assert_eq!(counts, [count; 6], "{keys:?}");
    };
    let bulk: Bulk = (0..6_000).map(|_| act::with("bulk".into(), vec![])).collect();
    bulk.on(&client).enqueue().await.expect("enqueued");
    each(1_000, "jobs");
    for (count, delayed) in [(1_100, false), (100, true)] {
        let mut enqueues = tokio::task::JoinSet::new();
        for _ in 0..600 {
            let job = act::with("job".into(), vec![]).on(&client);
            enqueues.spawn(if delayed { job.delay(SOON).enqueue() } else { job.enqueue() });
        }
        assert!(enqueues.join_all().await.iter().all(Result::is_ok));
        each(count, if delayed { "scheduled" } else { "jobs" });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_person_asks_and_mends_reaches_every_shard() {
    // find, failed, broken, requeue, delete, revoke, destroy: whichever shard has it.
    // Guard: `Inspect::each`, and each of them goes on to the next shard.
    let cluster = TestCluster::start();
    let client = cluster.client_builder().shards("default", 3).build().expect("a client");
    let queue = client.inspect("default");
    let mut waiting = Vec::new();
    for _ in 0..3 {
        waiting.push(enqueue(&client, "waits", vec![vec![Act::Gate("go".into())], vec![]]).await);
    }
    for id in &waiting {
        let found = queue.find(id).await.expect("asked").expect("found");
        assert!(matches!(found.state, JobState::Waiting), "{found:?}");
    }
    // The same broken payload in every shard, and one more in one of them.
    for (number, (key, (master, _))) in self::waiting(&cluster).iter().enumerate() {
        let mut redis = cluster.redis(*master);
        let _: u64 = redis.ask(&["LPUSH", key, "["]);
        if number == 1 {
            let _: u64 = redis.ask(&["LPUSH", key, "]"]);
        }
    }
    let worker = InProcess::run(cluster.worker().client(&client).register::<act>().concurrency(10));
    let notes = cluster.notes();
    cluster.eventually("all run", SOON, || notes.begun("waits") == 3);
    for id in &waiting {
        let found = queue.find(id).await.expect("asked").expect("found");
        assert!(matches!(found.state, JobState::Running), "{found:?}");
        queue.revoke(id).await.expect("revoked");
    }
    cluster.eventually("all ran again", SOON, || notes.ended("waits") == 3);
    for number in 0..9 {
        enqueue(&client, "fails", vec![vec![Act::Failure(number.to_string())]]).await;
        cluster
            .eventually_async("it failed", SOON, async || {
                queue.counts().await.expect("them").failed == number + 1
            })
            .await;
    }
    let failed = queue.failed(2, 4).await.expect("the records");
    let messages: Vec<_> = failed.iter().map(|record| record.message.as_str()).collect();
    assert_eq!(messages, ["6", "5", "4", "3"]);

    let broken = async || {
        let broken = queue.broken().await.expect("the payloads");
        let broken = broken.into_iter().map(|one| (String::from_utf8(one.payload), one.times));
        broken.filter_map(|(text, times)| Some((text.ok()?, times))).collect::<BTreeMap<_, _>>()
    };
    let all = BTreeMap::from([("[".to_owned(), 3), ("]".to_owned(), 1)]);
    cluster.eventually_async("all are broken", SOON, async || broken().await == all).await;
    queue.requeue_broken(b"[").await.expect("requeued");
    let all = BTreeMap::from([("[".to_owned(), 1), ("]".to_owned(), 1)]);
    cluster.eventually_async("it came once", SOON, async || broken().await == all).await;
    queue.delete_broken(b"]").await.expect("deleted");
    assert!(matches!(queue.delete_broken(b"]").await, Err(Error::NotFound { .. })));
    worker.stop().await;
    queue.destroy(false).await.expect("destroyed");
    let left = cluster.keys("hworker-*");
    assert!(left.iter().all(|(_, key)| key == "hworker-meta:{jobs}"), "{left:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_is_idle_takes_from_any_shard() {
    // Jobs in one shard only: the slots of both workers are busy with them. The worker that holds them is killed while the
    // other is busy with jobs of another shard: it recovers them and runs them.
    // Guard: a worker has a lane for every shard, with the same slots.
    let cluster = TestCluster::start();
    let client = cluster.client_builder().shards("default", 6).build().expect("a client");
    let settings = [("HWORKER_SHARDS", "default=6"), ("HWORKER_CONCURRENCY", "4")];
    let mut workers = vec![cluster.worker_process(&settings), cluster.worker_process(&settings)];
    let queue = client.inspect("default");
    cluster
        .eventually_async("both serve it", SOON, async || {
            queue.workers().await.expect("them").len() == 2
        })
        .await;
    let keys: Vec<String> = shard_lists(&cluster);
    let mut number = 0;
    let mut put = |key: &str, name: &str, plan: &str| {
        number += 1;
        let args = format!(r#"{{"name":"{name}","plan":{plan}}}"#);
        let job = format!(r#"{{"job":"act","id":"{number}","args":{args}}}"#);
        let _: u64 = cluster.redis(cluster.owner(key)).ask(&["LPUSH", key, &job]);
    };
    for _ in 0..8 {
        put(&keys[3], "stolen", r#"[[{"Gate":"first"}]]"#);
    }
    let notes = cluster.notes();
    cluster.eventually("all slots are busy", SOON, || notes.begun("stolen") == 8);
    let pids: BTreeSet<_> = notes.runs_of("stolen").iter().map(|run| run.pid).collect();
    assert_eq!(pids.len(), 2);
    notes.open("first");
    cluster.eventually("all ended", SOON, || notes.ended("stolen") == 8);

    // One of the two holds jobs of one shard, the other is busy elsewhere.
    let mut second = workers.pop().expect("the second");
    second.kill();
    for _ in 0..4 {
        put(&keys[1], "lost", r#"[[{"Sleep":3600000}],[]]"#);
    }
    cluster.eventually("the first is full", SOON, || notes.begun("lost") == 4);
    let third = cluster.worker_process(&settings);
    for _ in 0..200 {
        put(&keys[4], "busy", r#"[[{"Sleep":200}]]"#);
    }
    cluster.eventually("the third is busy", SOON, || notes.begun("busy") > 3);
    workers[0].kill();
    cluster.eventually("they run on the third", RECOVERED, || notes.ended("lost") == 4);
    let ends = notes.runs_of("lost").into_iter().filter(|run| run.what == "end");
    assert!(ends.map(|run| run.pid).all(|pid| pid == third.pid()));
}

/// The lists of six shards of the queue `default`, by the formula of docs/wire-format.md and what the server says of slots.
fn shard_lists(cluster: &TestCluster) -> Vec<String> {
    let slot = |tag: &str| u32::from(cluster.slot(tag));
    let mut lists = vec!["hworker-jobs-{default}".to_owned()];
    for shard in 1..6_u32 {
        let reversed = (shard / 3).reverse_bits() >> 18;
        let place = (slot("default") + ((shard % 3) * 16_384 + reversed) / 3) % 16_384;
        let near = |number: &u32| {
            (slot(&format!("default#{shard}.{number}")) + 16_384 - place) % 16_384 < 64
        };
        let number = (0..10_000).find(near).expect("one of them");
        lists.push(format!("hworker-jobs-{{default#{shard}.{number}}}"));
    }
    lists
}

#[tokio::test(flavor = "multi_thread")]
async fn more_shards_and_fewer_while_all_goes_on() {
    // On one server: workers are told of 4 shards, then producers; back to 1, producers first, then workers when the shards are
    // empty. Every job runs once.
    // Guard: the first shard is the queue without shards, and a shard's name does not depend on how many there are.
    let server = TestServer::start();
    let client = |shards| {
        let client = Client::builder().redis_url(server.url()).shards("default", shards);
        client.build().expect("a client")
    };
    let worker = |client: &Client| {
        let worker = Worker::builder().client(client).registry(Registry::new()).register::<act>();
        InProcess::run(worker.state(server.runs().clone()))
    };
    let (one, four) = (client(1), client(4));
    let old = worker(&one);
    for _ in 0..20 {
        enqueue(&one, "job", vec![]).await;
    }
    let new = worker(&four);
    for _ in 0..20 {
        enqueue(&one, "job", vec![]).await;
        enqueue(&four, "job", vec![]).await;
    }
    server.eventually("all ran", SOON, || server.ended("job") == 60);
    old.stop().await;
    for _ in 0..20 {
        enqueue(&four, "job", vec![]).await;
    }
    let old = worker(&one);
    for _ in 0..20 {
        enqueue(&one, "job", vec![]).await;
    }
    let counts = four.inspect("default");
    server
        .eventually_async("the shards are empty", SOON, async || {
            let counts = counts.counts().await.expect("them");
            counts.waiting + counts.scheduled + counts.running == 0
        })
        .await;
    new.stop().await;
    enqueue(&one, "job", vec![]).await;
    server.eventually("all ran", SOON, || server.ended("job") == 101);
    assert_eq!(server.begun("job"), 101);
    assert_eq!(four.inspect("default").statistics(None).await.expect("them")["processed"], 101);
    assert!(server.redis().keys("hworker-stat-default#*").len() >= 3);
    old.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_of_a_queue_is_that_of_all_its_shards() {
    // `default=2` with 4 shards and 10 slots: never more than two of its jobs at once.
    // Guard: `Shared::room`, which all shards of a queue have in common.
    let server = TestServer::start();
    let client = Client::builder().redis_url(server.url()).shards("default", 4);
    let client = client.build().expect("a client");
    for _ in 0..12 {
        enqueue(&client, "job", vec![vec![Act::Sleep(150)]]).await;
    }
    let _worker = server.worker_process(&[
        ("HWORKER_SHARDS", "default=4"),
        ("HWORKER_QUEUES", "default=2"),
        ("HWORKER_CONCURRENCY", "10"),
    ]);
    server.eventually("all ran", SOON, || server.ended("job") == 12);
    let (mut running, mut most) = (0_i32, 0);
    for run in server.runs_of("job") {
        running += if run.what == "begin" { 1 } else { -1 };
        most = most.max(running);
    }
    assert_eq!(most, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn all_jobs_of_a_key_are_in_one_shard() {
    // One by one, in a bulk, and delayed: those of a key wait in one list of one shard, and run in order.
    // Guard: `Client::shard_of`.
    let server = TestServer::start();
    let client = Client::builder().redis_url(server.url()).shards("default", 5);
    let client = &client.build().expect("a client");
    let job = |key: &str, number: usize| {
        act_in_order::with(format!("{key}{number}"), key.into(), vec![]).on(client)
    };
    for key in ["a", "b", "c"] {
        for number in 0..3 {
            job(key, number).enqueue().await.expect("enqueued");
        }
    }
    let bulk = |from| {
        let numbers = (from..from + 3).flat_map(|n| ["a", "b", "c"].map(|key| (key, n)));
        numbers.map(|(key, number)| job(key, number))
    };
    bulk(3).collect::<Bulk>().enqueue().await.expect("enqueued");
    let later = bulk(6).map(|job| job.delay(Duration::from_millis(1)));
    later.collect::<Bulk>().enqueue().await.expect("enqueued");
    let of_key =
        |key: &str| server.redis().keys(&format!("hworker-jobs-default*:+act_in_order~{key}"));
    for key in ["a", "b", "c"] {
        assert_eq!(of_key(key).len(), 1, "{:?}", of_key(key));
    }
    let scheduled = server.redis().keys("hworker-scheduled-default*");
    assert!(scheduled.len() <= 3, "{scheduled:?}");
    let _worker = server.worker_process(&[("HWORKER_SHARDS", "default=5")]);
    server.eventually("all run", SOON, || {
        server.begun("a8") + server.begun("b8") + server.begun("c8") == 3
    });
    for key in ["a", "b", "c"] {
        let at = |number: usize| server.runs_of(&format!("{key}{number}"))[0].at;
        assert!((0..5).all(|number| at(number) < at(number + 1)), "{key}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn control_29_more_shards_move_few_keys() {
    // 400 unique jobs of different keys by a producer that knows 4 shards, again by another, and again by one that knows 5 -> the second finds all
    // of them, and the third all but a fifth or so, whose keys go to the fifth shard.
    // Guard: `Client::shard_of`.
    let server = TestServer::start();
    let client = |shards| {
        let client = Client::builder().redis_url(server.url()).shards("default", shards);
        client.build().expect("a client")
    };
    let submit = async |client: Client| {
        let mut submits = tokio::task::JoinSet::new();
        for number in 0..400 {
            let job = act_alone::with("job".into(), Some(format!("k{number}")), Vec::new());
            submits.spawn(job.on(&client).submit());
        }
        let told = submits.join_all().await.into_iter();
        let told: Vec<_> = told.map(|told| told.expect("submitted").submitted).collect();
        let count = |what: &Submitted| told.iter().filter(|one| *one == what).count();
        (count(&Submitted::New), count(&Submitted::Exists(Some(JobState::Waiting))))
    };
    assert_eq!(submit(client(4)).await, (400, 0));
    assert_eq!(submit(client(4)).await, (0, 400));
    let (new, kept) = submit(client(5)).await;
    assert_eq!(new + kept, 400);
    assert!((40..=140).contains(&new), "{new}");
}

#[test]
fn wrong_shards_are_said_at_the_start() {
    // A queue that no job names, none or too many shards, a wrong name, no number.
    // Guard: `config::shards` and `Registry::verify_shards`.
    let client = Client::builder().redis_url("redis://127.0.0.1:1");
    let client = client.shards("default", 2).shards("mial", 4).build().expect("a client");
    let worker = Worker::builder().client(&client).registry(Registry::new().with::<act>());
    let error = worker.build().expect_err("refused").to_string();
    for words in ["`mial` has shards", "default", "`+mial`"] {
        assert!(error.contains(words), "{words}: {error}");
    }
    let worker = Worker::builder().client(&client).registry(Registry::new().with::<act>());
    worker.extra_queue("mial").build().expect("it is served after all");
    let client = Client::builder().redis_url("redis://127.0.0.1:1").shards("+reports", 2);
    let client = client.build().expect("a client");
    let worker = Worker::builder().client(&client).registry(Registry::new().with::<act>());
    worker.build().expect("others have its jobs");

    let wrong = Client::builder().shards("mail", 0).shards("a b", 2).shards("c", 100_000).build();
    let error = wrong.expect_err("refused").to_string();
    for words in ["`mail` has 0 shards", "1 to 1000", "`a b`", "`c` has 100000"] {
        assert!(error.contains(words), "{words}: {error}");
    }
    let server = TestServer::start();
    let mut worker = server.worker_process(&[("HWORKER_SHARDS", "default=2,mail")]);
    assert!(!worker.wait(Duration::from_secs(15)).expect("it ends").success());
    let said = server.report();
    assert!(said.contains("HWORKER_SHARDS: `mail` does not say how many"), "{said}");
}
