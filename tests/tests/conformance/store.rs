//! Rows O: several users of one server, connections of the user's, restarts, and jobs of earlier releases.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use hworker::{Client, Error, State};
use hworker_tests::Records as _;
use hworker_tests::{Act, DOCUMENTED_KEY, InProcess, TestServer, act};

use crate::wire_format::tick;
use crate::{RECOVERED, SOON};

#[tokio::test(flavor = "multi_thread")]
async fn o1_namespaces_do_not_interact() {
    // Two prefixes on one Redis do not interact; nor do queues whose names look alike.
    // Guard: a prefix has no dash, and what follows a queue's name follows a colon.
    let server = TestServer::start();
    let client = |prefix: &str| {
        Client::builder().redis_url(server.url()).prefix(prefix).build().expect("a client")
    };
    let (alpha, beta) = (client("alpha"), client("alpha2"));
    let dash = Client::builder().redis_url(server.url()).prefix("al-pha").build();
    assert!(matches!(dash, Err(Error::Config(_))), "{dash:?}");
    let enqueue = async |name: &str, queue: &str, client: &Client| {
        let job = act::with(name.into(), Vec::new()).queue(queue).on(client);
        job.enqueue().await.expect("enqueued");
    };
    for queue in ["default", "default-2", "jobs-default", "default.x"] {
        enqueue("alpha", queue, &alpha).await;
        enqueue("beta", queue, &beta).await;
    }
    let delayed = act::with("beta".into(), Vec::new()).delay(SOON * 100).on(&beta);
    delayed.enqueue().await.expect("enqueued");

    let _worker = server.worker_process(&[("HWORKER_PREFIX", "alpha")]);
    server.eventually("alpha's job runs", SOON, || server.ended("alpha") == 1);
    server.holds("nothing else does", Duration::from_secs(3), || {
        (server.begun("alpha"), server.begun("beta")) == (1, 0)
    });
    let pending = async |client: &Client, queue: &str| {
        client.inspect(queue).counts().await.expect("the counts").waiting
    };
    assert_eq!((pending(&alpha, "default").await, pending(&beta, "default").await), (0, 1));
    assert_eq!(pending(&alpha, "default-2").await, 1);
    let of = |prefix: &str| server.redis().keys(&format!("{prefix}-*"));
    assert!(of("alpha").iter().any(|key| key.starts_with("alpha-stat-default")));
    assert!(!of("alpha2").iter().any(|key| key.contains("stat") || key.contains("worker")));

    // What is destroyed is one queue of one prefix.
    let others: BTreeSet<_> = server.redis().keys("*").into_iter().collect();
    let gone = beta.inspect("default").destroy(false).await.expect("destroyed");
    let left: BTreeSet<_> = server.redis().keys("*").into_iter().collect();
    let lost: Vec<_> = others.difference(&left).map(String::as_str).collect();
    // The bell was rung for the delayed job, and nobody serves that queue.
    let expected = ["alpha2-bell-default", "alpha2-jobs-default", "alpha2-scheduled-default"];
    assert_eq!((gone, lost.as_slice()), (3, expected.as_slice()));
    let serving = alpha.inspect("default").destroy(false).await;
    assert!(matches!(serving, Err(Error::Refused { .. })), "{serving:?}");
}

#[hworker::job]
async fn relay(left: u8, State(client): State<Client>) -> Result<(), Error> {
    if left > 0 {
        relay::with(left - 1).on(&client).enqueue().await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn o5_a_client_of_the_users() {
    // User-supplied connection works: one client, made by the user, is used to enqueue, to run and to look, in bodies too;
    // nothing goes through the default client.
    // Guard: `Enqueue::on` and `WorkerBuilder::client`; no operation asks for the default client by itself.
    let server = TestServer::start();
    let (url, database) = server.url_of_user("app", "s3cret", "jobs-*");
    let client = Client::builder().redis_url(url).prefix("jobs").build().expect("a client");
    assert!(!format!("{client:?}").contains("s3cret"));
    let worker = hworker::Worker::builder().client(&client).registry(hworker::Registry::new());
    let worker = worker.register::<relay>().state(client.clone()).concurrency(2);
    let _worker = InProcess::run(worker);
    relay::with(9).on(&client).enqueue().await.expect("enqueued");
    relay::with(9).on(&client).delay(Duration::from_millis(200)).enqueue().await.expect("enqueued");
    let inspect = client.inspect("default");
    server
        .eventually_async("all run", SOON, async || {
            let statistics = inspect.statistics(None).await.expect("the statistics");
            statistics.get("processed") == Some(&20)
        })
        .await;
    // Every connection is that user's, on that database.
    let clients: String = server.redis().ask(&["CLIENT", "LIST"]);
    let (own, others): (Vec<_>, Vec<_>) =
        clients.lines().partition(|line| line.contains("user=app"));
    let database = format!("db={database}");
    assert!((1..=8).contains(&own.len()), "{clients}");
    assert!(own.iter().all(|line| line.contains(&database)), "{clients}");
    // Where there are replicas and sentinels, they are connected too.
    let ours = ["cmd=evalsha", "cmd=eval", "cmd=blmove", "cmd=lpush", "cmd=hello"];
    assert!(!others.iter().any(|line| ours.iter().any(|cmd| line.contains(cmd))), "{clients}");
    assert!(server.redis().keys("hworker-*").is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn o9_persistence() {
    // Stop all, restart Redis with AOF, start -> all jobs run: those that waited, were scheduled, waited for a retry, and
    // were running.
    // Guard: everything about a job is in Redis.
    let server = TestServer::builder().append_only().start();
    let mut worker = server.worker_process(&[]);
    let running = vec![vec![Act::Gate("never".into())], vec![]];
    for _ in 0..3 {
        server.enqueue("running", running.clone()).await;
    }
    let retried = vec![vec![Act::RetryIn(3_000)], vec![]];
    server.enqueue("retried", retried).await;
    server.eventually("they run", SOON, || {
        server.begun("running") == 3 && server.counter("retried") == 1
    });
    worker.kill();
    for _ in 0..20 {
        server.enqueue("pending", Vec::new()).await;
        let job = act::with("scheduled".into(), Vec::new()).delay(Duration::from_secs(3));
        job.on(server.client()).enqueue().await.expect("enqueued");
    }
    server.process().stop().expect("it stops");
    server.restart();

    let _worker = server.worker_process(&[]);
    let ended = |name: &str| server.ended(name);
    server.eventually("all run", RECOVERED, || {
        (ended("pending"), ended("scheduled"), ended("retried"), ended("running")) == (20, 20, 1, 3)
    });
    server.drained(SOON);
    assert_eq!((server.begun("running"), server.begun("retried")), (6, 2));
    assert_eq!((server.counter("recovered"), server.counter("failed")), (3, 0));
}

type Letters = std::sync::Arc<std::sync::Mutex<Vec<(String, u64)>>>;

/// The job of the golden envelopes.
#[hworker::job(aliases = ["greet"])]
async fn send_welcome(to: String, user_id: u64, State(letters): State<Letters>) {
    letters.lock().expect("no panic").push((to, user_id));
}

#[tokio::test(flavor = "multi_thread")]
async fn o10_wire_compatibility() {
    // Jobs queued by the previous release run or are reported, never lost: every envelope of `tests/golden` runs with its
    // arguments, every record of a failed job is read, and one of a version to come is reported as that.
    // Guard: the optional fields of `Envelope`, and its version.
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden");
    let server = TestServer::start();
    let (mut envelopes, mut records) = (0, 0);
    for entry in std::fs::read_dir(golden).expect("the golden files") {
        let path = entry.expect("a golden file").path();
        let text_of = std::fs::read_to_string(&path).expect("a golden file");
        let value: serde_json::Value = serde_json::from_str(&text_of).expect("JSON");
        envelopes += 1;
        if value.get("envelope").is_some() {
            records += 1;
            // A record's envelope, requeued, runs too.
            let envelope = value["envelope"].to_string();
            server.redis().ask::<u64>(&["LPUSH", "hworker-jobs-default", &envelope]);
            let text = |field: &str| value[field].as_str().expect("a text").to_owned();
            // As if it had ended now: an old one would be dropped.
            let (ended, id) = ((server.redis().time_us() / 1000).to_string(), text("id"));
            let member = format!("{} {} {id}", text("group"), text("job"));
            server.redis().ask::<u64>(&["ZADD", "hworker-failed-default", &ended, &member]);
            server.redis().ask::<u64>(&["HSET", "hworker-record-default", &id, text_of.trim_end()]);
        } else {
            server.redis().ask::<u64>(&["LPUSH", "hworker-jobs-default", text_of.trim_end()]);
        }
    }
    assert!(envelopes >= 6 && records >= 1, "{envelopes} envelopes, {records} records");
    let letters = Letters::default();
    let client = server.client_with_keys(&[DOCUMENTED_KEY]);
    let worker = server.worker().client(&client).register::<send_welcome>().register::<tick>();
    let worker = worker.state(letters.clone());
    let _worker = InProcess::run(worker.unknown_for(Duration::from_secs(1)));
    let ran = || letters.lock().expect("no panic").len() + server.runs_of("tick").len();
    server.eventually("each envelope runs", SOON, || ran() == envelopes);
    let expected = ("ada@example.org".to_owned(), 42);
    assert!(letters.lock().expect("no panic").iter().all(|letter| *letter == expected));
    let failed = server.inspect().failed(0, 100).await.expect("the records");
    assert_eq!(failed.len(), records);
    assert!(
        failed.iter().all(|record| record.job == "send_welcome" && !record.errors().is_empty())
    );

    let to_come = r#"{"v":2,"id":"2","job":"send_welcome","args":["what nobody knows yet"]}"#;
    server.redis().ask::<u64>(&["LPUSH", "hworker-jobs-default", to_come]);
    server
        .eventually_async("it is reported", SOON, async || {
            let broken = server.inspect().broken().await.expect("the broken");
            broken.iter().any(|broken| broken.reason.contains("unknown version 2"))
        })
        .await;
    assert_eq!(ran(), envelopes);
}

#[tokio::test(flavor = "multi_thread")]
async fn o10_what_is_written_today_is_documented() {
    // Guard: a field that changed its name or type would be a new version.
    let server = TestServer::start();
    let golden = |name: &str| -> serde_json::Value {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden").join(name);
        serde_json::from_str(&std::fs::read_to_string(path).expect("a golden file")).expect("JSON")
    };
    let kind = |value: &serde_json::Value| std::mem::discriminant(value);
    let job = send_welcome::with("ada@example.org".into(), 42).on(server.client());
    let job = job.max_attempts(5).timeout(Duration::from_secs(30)).backoff("exp(1s, 10m)");
    job.retry_until(std::time::SystemTime::now()).enqueue().await.expect("enqueued");
    let written: String = server.redis().ask(&["LINDEX", "hworker-jobs-default", "0"]);
    let written: serde_json::Value = serde_json::from_str(&written).expect("JSON");
    let documented = golden("full.json");
    for (field, value) in written.as_object().expect("an object") {
        assert_eq!(kind(value), kind(&documented[field]), "{field}");
    }
    assert_eq!((&written["v"], &written["args"]), (&documented["v"], &documented["args"]));

    let crashed = server.worker_process(&[]);
    drop(crashed);
    let plan = vec![vec![Act::Panic("recorded".into())]];
    let job = act::with("fails".into(), plan).max_attempts(1).on(server.client());
    job.enqueue().await.expect("enqueued");
    let _worker = server.worker_process(&[("RUST_BACKTRACE", "1")]);
    server.eventually("it has failed", RECOVERED, || server.counter("failed") == 1);
    let mut records: Vec<String> = server.redis().ask(&["HVALS", "hworker-record-default"]);
    let record = records.remove(0);
    let record: serde_json::Value = serde_json::from_str(&record).expect("JSON");
    let documented = golden("failed.json");
    for (field, value) in record.as_object().expect("an object") {
        assert_eq!(kind(value), kind(&documented[field]), "{field}");
    }
}
