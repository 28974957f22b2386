//! How the master is found.

use hworker::{Client, Error, Registry, Worker};
use hworker_tests::{TestSentinels, act};

use crate::SOON;

#[tokio::test(flavor = "multi_thread")]
async fn any_sentinel_of_the_url_will_do() {
    // The first in the URL is not there, another dies later: the master is found by those that are left.
    // Guard: `Sentinels::find` goes on with the next.
    let servers = TestSentinels::builder().replicas(1).start();
    let hosts = servers.url().replacen("redis-sentinel://", "", 1);
    let client = Client::new(format!("redis-sentinel://127.0.0.1:1,{hosts}")).expect("a client");
    let enqueue = async || act::with("job".into(), vec![]).on(&client).enqueue().await;
    enqueue().await.expect("enqueued");
    servers.kill_sentinel(0);
    servers.kill_sentinel(1);
    // All connections are made anew.
    let _: u64 = servers.redis(0).ask(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
    servers.eventually("it is noticed", SOON, || {
        let clients: String = servers.redis(0).ask(&["CLIENT", "LIST", "TYPE", "normal"]);
        clients.lines().count() <= 3
    });
    loop {
        // The first may have been under way when the connection ended.
        match enqueue().await {
            Ok(_) => break,
            Err(Error::Uncertain { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    assert!(servers.redis(0).len("hworker-jobs-default") >= 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sentinel_that_is_behind_is_not_believed() {
    // A sentinel names a replica as the master: the role of the server is looked at, and another sentinel is asked.
    // Guard: `is_master`, and that the next try begins with another sentinel.
    let servers = TestSentinels::builder().replicas(1).start();
    let port = servers.sentinel_that_names(1);
    let alone = Client::new(format!("redis-sentinel://127.0.0.1:{port}/jobs")).expect("a client");
    let refused = act::with("job".into(), vec![]).on(&alone).enqueue().await;
    let text = refused.as_ref().expect_err("refused").to_string();
    assert!(matches!(refused, Err(Error::Unavailable { .. })), "{text}");
    assert!(text.contains("is not the master"), "{text}");

    let hosts = servers.url().replacen("redis-sentinel://", "", 1);
    let url = format!("redis-sentinel://127.0.0.1:{port},{hosts}");
    let client = Client::new(url).expect("a client");
    act::with("job".into(), vec![]).on(&client).enqueue().await.expect("enqueued");
    assert_eq!(servers.redis(0).len("hworker-jobs-default"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sentinel_that_is_behind_ends_no_connection_to_the_master() {
    // The sentinel that is followed dies, and the next in the URL names a replica -> the connection to the master stays, and
    // enqueues go on.
    // Guard: `Sentinels::confirm`.
    let servers = TestSentinels::builder().replicas(1).start();
    let behind = servers.sentinel_that_names(1);
    let hosts = servers.url().replacen("redis-sentinel://", "", 1);
    let first = hosts.split(',').next().expect("a sentinel");
    let url = format!("redis-sentinel://{first},127.0.0.1:{behind}/jobs");
    let client = Client::new(url).expect("a client");
    let enqueue = async || act::with("job".into(), vec![]).on(&client).enqueue().await;
    enqueue().await.expect("enqueued");
    let connection = || {
        let clients: String = servers.redis(0).ask(&["CLIENT", "LIST", "TYPE", "normal"]);
        // Behind the job the queue is added to the registry, and asked whether it has a bound.
        let ours = |line: &&str| {
            [" cmd=lpush ", " cmd=hset ", " cmd=hmget "].iter().any(|word| line.contains(word))
        };
        let ours = clients.lines().find(ours)?;
        ours.split(' ').next().map(str::to_owned)
    };
    let before = connection().expect("the connection of the client");
    servers.kill_sentinel(0);
    // The server that the other names is asked what it is, and again and again.
    let asked = || {
        let statistics: String = servers.redis(1).ask(&["INFO", "commandstats"]);
        let (_, calls) = statistics.split_once("cmdstat_hello:calls=")?;
        calls.split(',').next()?.parse::<u64>().ok()
    };
    servers.eventually("it is asked", SOON, || {
        assert_eq!(connection().as_ref(), Some(&before));
        asked() >= Some(3)
    });
    enqueue().await.expect("enqueued by the same connection");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_master_is_an_error_at_once() {
    // A mistyped name of the master: an enqueue and the start of a worker say so, with the name.
    // Guard: a sentinel that knows no such master has refused.
    let servers = TestSentinels::builder().replicas(0).start();
    let url = servers.url().replace("/jobs", "/jbos");
    let client = Client::new(url).expect("a client");
    let enqueued = act::with("job".into(), vec![]).on(&client).enqueue().await;
    let worker = Worker::builder().client(&client).registry(Registry::new().with::<act>()).build();
    let ran = worker.expect("a worker").run().await;
    for error in [enqueued.expect_err("not enqueued"), ran.expect_err("not started")] {
        assert!(matches!(error, Error::Refused { .. }), "{error:?}");
        assert!(error.to_string().contains("knows no master `jbos`"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_and_sentinels_have_passwords_of_their_own() {
    // The user and password of the URL are those of the servers; those of the sentinels are in its query, and neither
    // shows in an error.
    // Guard: `Parts` in `net/sentinel.rs`.
    let servers = TestSentinels::builder().replicas(1).start();
    for sentinel in 0..3 {
        let mut redis = servers.sentinel(sentinel);
        // The least of rights, as docs/high-availability.md has them.
        let rights = [
            "+sentinel|get-master-addr-by-name",
            "+subscribe",
            "&+switch-master",
            "&+promoted-slave",
        ];
        let rule = [&["ACL", "SETUSER", "asks", "reset", "on", ">as#k"][..], &rights].concat();
        let _: String = redis.ask(&rule);
        let _: String = redis.ask(&["ACL", "SETUSER", "default", "off"]);
    }
    for server in 0..2 {
        let mut redis = servers.redis(server);
        let _: String =
            redis.ask(&["ACL", "SETUSER", "jobs", "on", ">s3cret", "~*", "&*", "+@all"]);
    }
    let hosts = servers.url().replacen("redis-sentinel://", "", 1);
    let url = |user: &str, query: &str| format!("redis-sentinel://{user}{hosts}{query}");
    let enqueue = async |url: String| {
        let client = Client::new(url).expect("a client");
        act::with("job".into(), vec![]).on(&client).enqueue().await
    };
    let asks = "?sentinel_user=asks&sentinel_pass=as%23k";
    enqueue(url("jobs:s3cret@", asks)).await.expect("enqueued");
    enqueue(url("", asks)).await.expect("the servers want none");
    for (user, query) in [("jobs:wr0ng@", asks), ("jobs:s3cret@", "?sentinel_pass=wr0ng"), ("", "")]
    {
        let error = enqueue(url(user, query)).await.expect_err("refused");
        assert!(matches!(error, Error::Refused { .. }), "{error}");
        let text = format!("{error} {error:?}");
        assert!(!text.contains("s3cret") && !text.contains("wr0ng"), "{text}");
    }
}
