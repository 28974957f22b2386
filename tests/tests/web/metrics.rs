//! Rows OB1 and OB2: what Prometheus is told of queues.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use hworker::web::{Access, Role, Web};
use hworker_tests::{Act, InProcess, TestServer, act, open_metrics};

use crate::SOON;
use crate::site::{Site, TOKEN};

/// What a scrape tells, if it is valid.
fn scrape(site: &Site) -> BTreeMap<String, f64> {
    let answer = site.get("/metrics").expect(200);
    let of_type = "content-type: application/openmetrics-text; version=1.0.0; charset=utf-8";
    assert!(answer.head.contains(of_type), "{answer:?}");
    open_metrics(&answer.body)
}

fn of_queue(told: &BTreeMap<String, f64>, what: &str, queue: &str) -> Option<f64> {
    told.get(&format!(r#"hworker_queue_{what}{{queue="{queue}"}}"#)).copied()
}

fn jobs(told: &BTreeMap<String, f64>, queue: &str, state: &str) -> Option<f64> {
    told.get(&format!(r#"hworker_queue_jobs{{queue="{queue}",state="{state}"}}"#)).copied()
}

/// Enters a queue in the registry, with jobs that wait.
fn queue(server: &TestServer, name: &str, jobs: usize) {
    let entry = ["HSET", "hworker-meta:queues", name, r#"{"shards":1,"seen":1}"#];
    let _: u64 = server.redis().ask(&entry);
    for _ in 0..jobs {
        let _: u64 = server.redis().ask(&["LPUSH", &format!("hworker-jobs-{name}"), "{}"]);
    }
}

/// The commands that the server has worked off, without those that ask for them.
fn commands(server: &TestServer) -> String {
    let stats: String = server.redis().ask(&["INFO", "commandstats"]);
    let ours = |line: &&str| line.contains("config") || line.contains("info");
    stats.lines().filter(|line| line.starts_with("cmdstat_") && !ours(line)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn ob1_a_scrape_has_what_is_on_the_queues() {
    // Two queues, one served and one paused, with jobs in five states -> the figures are those that `Inspect` has, and the text is valid.
    // Guard: `by_state` and `Figures::of` in web/metrics.rs.
    let server = TestServer::start();
    let _worker = InProcess::run(server.worker().register::<act>().concurrency(3));
    server.enqueue("fails", vec![vec![Act::Fail("no".into())]]).await;
    server.enqueue("runs", vec![vec![Act::Gate("go".into())]]).await;
    let _: u64 = server.redis().ask(&["LPUSH", "hworker-jobs-default", "no envelope"]);
    let job = |name: &str| act::with(name.into(), Vec::new()).on(server.client()).queue("mail");
    server.client().control("mail").pause().await.expect("paused");
    for name in ["one", "two"] {
        job(name).enqueue().await.expect("enqueued");
    }
    job("late").delay(Duration::from_secs(3600)).enqueue().await.expect("enqueued");
    server.eventually("all is where it stays", SOON, || {
        let counters = ["failed", "broken"].map(|name| server.counter(name));
        counters == [1, 1] && server.begun("runs") == 1
    });

    let told = scrape(&Site::of(&server));
    let states = ["waiting", "scheduled", "parked", "running", "failed"];
    for (queue, expected) in [("default", [0, 0, 0, 1, 1]), ("mail", [2, 1, 0, 0, 0])] {
        let counts = server.client().inspect(queue).counts().await.expect("counts");
        let has = [counts.waiting, counts.scheduled, counts.parked, counts.running, counts.failed];
        assert_eq!(has, expected, "{queue}");
        for (state, count) in states.into_iter().zip(has) {
            assert_eq!(jobs(&told, queue, state), Some(count as f64), "{queue} {state} {told:?}");
        }
    }
    assert_eq!(jobs(&told, "default", "broken"), Some(1.0), "{told:?}");
    for (queue, paused, workers, slots) in [("default", 0.0, 1.0, 3.0), ("mail", 1.0, 0.0, 0.0)] {
        let of = |what: &str| of_queue(&told, what, queue);
        let told = [of("paused"), of("workers"), of("slots")];
        assert_eq!(told, [Some(paused), Some(workers), Some(slots)], "{queue}");
    }
    assert_eq!(of_queue(&told, "oldest_seconds", "default"), Some(0.0));
    let oldest = of_queue(&told, "oldest_seconds", "mail");
    assert!(oldest.is_some_and(|oldest| oldest > 0.0 && oldest < 600.0), "{oldest:?}");
    server.open("go");
}

#[test]
fn ob1_scrapes_ask_the_server_once_in_five_seconds() {
    // Two scrapes within five seconds -> the second one is the same text, and the server worked off no command; later ones have what is new.
    // Guard: `Seen` in web/metrics.rs.
    let server = TestServer::start();
    queue(&server, "mail", 1);
    let site = Site::of(&server);
    // Nothing was asked before the first one, and a busy machine may take its time between two.
    let is_shown = (1..20).any(|_| {
        let (began, first) = (Instant::now(), site.get("/metrics").expect(200).body);
        let _: String = server.redis().ask(&["CONFIG", "RESETSTAT"]);
        let second = site.get("/metrics").expect(200).body;
        let asked = commands(&server);
        let is_in_time = began.elapsed() < Duration::from_secs(4);
        if is_in_time {
            assert_eq!((asked.as_str(), &second), ("", &first));
        }
        is_in_time
    });
    assert!(is_shown, "no two scrapes within five seconds");
    queue(&server, "mail", 1);
    server.eventually("it is looked at again", SOON, || {
        jobs(&scrape(&site), "mail", "waiting") == Some(2.0)
    });
}

#[test]
fn ob1_labels_are_names_of_queues_alone() {
    // A name in the registry that would break a label, a list that nobody registered, a queue that another program made unreadable -> the text
    // is valid and has none of them; a queue whose name is as odd as may be is there.
    // Guard: `is_name` in `Meta::names`; `registered_queues` in web/metrics.rs.
    let server = TestServer::start();
    for name in ["evil\"} 9\nevil_total 9", "evil\\", "evil{", "-.a_Z.-", "mail", "made"] {
        queue(&server, name, 0);
    }
    queue(&server, "mail", 1);
    let _: u64 = server.redis().ask(&["LPUSH", "hworker-jobs-evil", "{}"]);
    let _: String = server.redis().ask(&["SET", "hworker-jobs-made", "of another program"]);
    let answer = Site::of(&server).get("/metrics").expect(200);
    assert!(!answer.body.contains("evil"), "{answer:?}");
    let told = open_metrics(&answer.body);
    assert_eq!(jobs(&told, "mail", "waiting"), Some(1.0), "{told:?}");
    assert_eq!(jobs(&told, "-.a_Z.-", "waiting"), Some(0.0), "{told:?}");
}

#[test]
fn ob1_six_hundred_queues_are_five_hundred_and_the_others() {
    // 600 queues with a job each -> 500 of them have series of their own, and the rest are one, with what they have together.
    // Guard: `NAMED` in web/metrics.rs.
    let server = TestServer::start();
    for number in 0..600 {
        queue(&server, &format!("q{number:03}"), 1);
    }
    queue(&server, "q599", 4);
    let told = scrape(&Site::of(&server));
    let labels = told.keys().filter_map(|series| series.split('"').nth(1));
    assert_eq!(labels.collect::<BTreeSet<_>>().len(), 501);
    assert_eq!(jobs(&told, "q499", "waiting"), Some(1.0));
    assert_eq!(jobs(&told, "q500", "waiting"), None);
    assert_eq!(jobs(&told, "+other", "waiting"), Some(104.0));
}

#[test]
fn ob1_a_scrape_needs_credentials() {
    // Without credentials -> 401, and no figure; a viewer is let in. Of several servers each has its figures below its path.
    // Guard: the route is a part of the router that `guard` is around.
    let (one, two) = (TestServer::start(), TestServer::start());
    queue(&one, "first", 1);
    queue(&two, "second", 1);
    let servers = [("one", one.client().clone()), ("two", two.client().clone())];
    let people = Access::basic([("ada", "a", Role::Viewer)]);
    let site = Site::serve(Web::of_servers(servers).access(people).router());
    let refused = site.ask("GET", "/i/one/metrics").send().expect(401);
    assert!(!refused.body.contains("hworker_queue"), "{refused:?}");
    let get = |path: &str| site.ask("GET", path).header("authorization", "Basic YWRhOmE=").send();
    for (path, has) in [("/i/one/metrics", "first"), ("/i/two/metrics", "second")] {
        let told = open_metrics(&get(path).expect(200).body);
        let queues: BTreeSet<_> =
            told.keys().filter_map(|series| series.split('"').nth(1)).collect();
        assert_eq!(queues, BTreeSet::from([has]));
    }
    get("/metrics").expect(404);
    Site::of(&one).ask("GET", "/metrics").header("authorization", "Bearer x").send().expect(401);
    let bearer = format!("Bearer {TOKEN}");
    Site::of(&one).ask("GET", "/metrics").header("authorization", &bearer).send().expect(200);
}
