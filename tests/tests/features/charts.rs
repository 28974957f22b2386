//! Rows OB6, OB8 and LC8: what jobs did, by minutes, ten minutes and hours.

use std::time::Duration;

use hworker::{Chart, Window};
use hworker_tests::{Act, Fault, InProcess, Proxy, TestServer, act, act_alone};

use crate::SOON;
use crate::cli::call;

const ALL: [Window; 3] = [Window::Hour, Window::Day, Window::Month];

async fn chart(server: &TestServer, window: Window) -> Chart {
    server.inspect().chart(window).await.expect("a chart")
}

/// How many of a type succeeded, were tried again and failed, over all points.
fn sums(chart: &Chart, job: &str) -> (u64, u64, u64) {
    chart.points.iter().filter_map(|point| point.jobs.get(job)).fold((0, 0, 0), |sums, tally| {
        (sums.0 + tally.ok, sums.1 + tally.retried, sums.2 + tally.failed)
    })
}

/// The bounds in ms of the part of a histogram in which that many of 100 are reached.
fn part_of(counts: &serde_json::Value, percent: u64) -> (u64, u64) {
    const BOUNDS: [u64; 11] = [0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000];
    let counts: Vec<u64> =
        counts.as_array().into_iter().flatten().filter_map(serde_json::Value::as_u64).collect();
    let wanted = counts.iter().sum::<u64>() * percent;
    let mut below = 0;
    let part = counts.iter().position(|count| {
        below += count * 100;
        below >= wanted
    });
    let part = part.expect("a part");
    (BOUNDS[part], BOUNDS[part + 1])
}

fn worker(server: &TestServer) -> InProcess {
    InProcess::run(server.worker().registry(hworker_tests::common_jobs()))
}

#[tokio::test(flavor = "multi_thread")]
async fn ob6_what_jobs_do_is_in_the_charts() {
    // Jobs of two types succeed, are tried again and fail -> a worker that stops has written all of it, in the same numbers by minutes, ten
    // minutes and hours, with how long they ran and waited.
    // Guard: `count` in finish.rs; `write_last`.
    let server = TestServer::start();
    for number in 0..20 {
        server.enqueue(&format!("ok {number}"), Vec::new()).await;
    }
    let plans = vec![
        ("slow", vec![vec![Act::Sleep(120)]]),
        ("again", vec![vec![Act::Error("no".into())], vec![]]),
        ("fails", vec![vec![Act::Fail("no".into())]]),
    ];
    for (name, plan) in plans {
        server.enqueue(name, plan).await;
    }
    let alone = act_alone::with("alone".into(), Some("k".into()), Vec::new());
    alone.on(server.client()).enqueue().await.expect("enqueued");
    let running = worker(&server);
    server.eventually("all ended", SOON, || {
        server.counter("processed") == 23 && server.counter("failed") == 1
    });
    running.stop().await;
    for window in ALL {
        let chart = chart(&server, window).await;
        assert_eq!(chart.points.len(), window.points());
        assert_eq!(sums(&chart, "act"), (22, 1, 1), "{window:?}");
        assert_eq!(sums(&chart, "act_alone"), (1, 0, 0), "{window:?}");
        let all: Vec<_> = chart.points.iter().map(hworker::ChartPoint::total).collect();
        let ran: u64 = all.iter().map(|tally| tally.run.count()).sum();
        let waited: u64 = all.iter().map(|tally| tally.wait.count()).sum();
        assert_eq!((ran, waited), (25, 25));
        let longest = all.iter().filter_map(|tally| tally.run.quantile(1.0)).max();
        assert!(longest.is_some_and(|longest| longest > Duration::from_millis(100)), "{longest:?}");
    }
    let keys = server.redis().keys("hworker-chart-default:*");
    for key in &keys {
        let ttl: i64 = server.redis().ask(&["TTL", key]);
        let (least, most) = match key.split(':').nth(1) {
            Some("1") => (3_600, 3_720),
            Some("10") => (86_400, 87_600),
            _ => (30 * 86_400, 30 * 86_400 + 3_600),
        };
        assert!((least..=most).contains(&ttl), "{key} {ttl}");
    }
    // Each in at most two points, as one may have ended meanwhile.
    assert!((3..=6).contains(&keys.len()), "{keys:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn ob6_a_portion_counts_once_though_its_answer_is_lost() {
    // The answer to the first portion is lost: it is sent again and taken in once. What jobs do meanwhile comes after it.
    // Guard: the number in chart.lua.
    let server = TestServer::start();
    let proxy = Proxy::before(&server);
    proxy.fault(1, "chart", Fault::LoseReply);
    let worker = InProcess::run(
        server.worker().client(&proxy.client()).registry(hworker_tests::common_jobs()),
    );
    for number in 0..5 {
        server.enqueue(&format!("first {number}"), Vec::new()).await;
    }
    server.drained(SOON);
    server.eventually("it is written again", SOON * 2, || proxy.all_happened());
    for number in 0..3 {
        server.enqueue(&format!("second {number}"), Vec::new()).await;
    }
    server.drained(SOON);
    worker.stop().await;
    assert_eq!(sums(&chart(&server, Window::Month).await, "act"), (8, 0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn ob6_gauges_and_what_somebody_made_of_a_chart() {
    // Jobs wait while a worker starts: it says so at once. A chart of another type is left alone and holds up nothing; a value that is none
    // begins anew.
    // Guard: `write_gauges`; the looks at types in chart.lua.
    let server = TestServer::start();
    let gate = || vec![vec![Act::Gate("go".into())]];
    for number in 0..30 {
        server.enqueue(&format!("n {number}"), gate()).await;
    }
    let running = InProcess::run(server.worker().register::<act>().concurrency(1));
    server.eventually("one runs", SOON, || !server.redis().keys("hworker-chart-*").is_empty());
    let seen = chart(&server, Window::Hour).await;
    let gauges = seen.points.iter().rev().find_map(|point| point.gauges).expect("a look");
    assert!((28..=30).contains(&gauges.waiting), "{gauges:?}");
    assert_eq!((gauges.workers, gauges.scheduled, gauges.failed), (1, 0, 0));
    assert!(gauges.slots == 1 && gauges.oldest_ms < 60_000, "{gauges:?}");
    let hours = server.redis().keys("hworker-chart-default:60:*");
    for key in &hours {
        let _: u64 = server.redis().ask(&["HSET", key, "act", "a thousand"]);
    }
    let tens = server.redis().keys("hworker-chart-default:10:*");
    for key in tens {
        let _: String = server.redis().ask(&["SET", &key, "somebody else's"]);
    }
    server.open("go");
    server.drained(SOON);
    running.stop().await;
    assert_eq!(sums(&chart(&server, Window::Hour).await, "act"), (30, 0, 0));
    assert_eq!(sums(&chart(&server, Window::Day).await, "act").0 % 30, 0);
    assert_eq!(sums(&chart(&server, Window::Month).await, "act"), (30, 0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn ob8_gauges_have_the_age_of_the_oldest_job() {
    // Behind what edits left in the list of low jobs waits one of an hour ago, in that of normal ones a large one that was just enqueued ->
    // the gauges say an hour, and how many slots there are. The large one is not read for that.
    // Guard: `next_waits_since`, `largest` in read_list.lua.
    let server = TestServer::start();
    let hour_ago = server.redis().time_us() / 1_000 - 3_600_000;
    let args = r#"{"name":"old","plan":[]}"#;
    let old = format!(r#"{{"v":1,"id":"old","job":"act","args":{args},"enqueued_at":{hour_ago}}}"#);
    for entry in ["-", "-", &old] {
        let _: u64 = server.redis().ask(&["LPUSH", "hworker-jobs-default:low", entry]);
    }
    let large = vec![vec![Act::Gate("go".into())], vec![Act::Note("x".repeat(100_000))]];
    for number in 0..2 {
        server.enqueue(&format!("large {number}"), large.clone()).await;
    }
    let running = InProcess::run(server.worker().register::<act>().concurrency(1));
    server.eventually("one runs", SOON, || !server.redis().keys("hworker-chart-*").is_empty());
    let seen = chart(&server, Window::Hour).await;
    let gauges = seen.points.iter().rev().find_map(|point| point.gauges).expect("a look");
    assert!((3_600_000..3_660_000).contains(&gauges.oldest_ms), "{gauges:?}");
    assert!(gauges.slots == 1 && gauges.busy <= 1, "{gauges:?}");
    server.open("go");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ts12_stats_say_how_much_ends_and_how_long_it_takes() {
    // 40 jobs have run: `stats` says how many a minute, and how long 95 of 100 ran and waited, over five minutes and a month; with `--watch`
    // again and again.
    // Guard: `Lately`, and `stats` of the command line.
    let server = TestServer::start();
    for number in 0..40 {
        server.enqueue(&format!("n {number}"), vec![vec![Act::Sleep(30)]]).await;
    }
    // So that there is something on the queue yet.
    let later = act::with("later".into(), Vec::new()).delay(SOON * 100).on(server.client());
    later.enqueue().await.expect("enqueued");
    let running = worker(&server);
    server.eventually("they ran", SOON, || server.counter("processed") == 40);
    running.stop().await;
    for window in ["5m", "1h", "24h", "30d"] {
        let said = call(&server, &["stats", "--json", "--window", window]).json().remove(0);
        assert_eq!(said["lately"]["jobs"]["ok"], 40, "{said}");
        assert!(said["lately"]["ended_per_min"].as_f64().is_some_and(|rate| rate > 0.0), "{said}");
        let p95 = said["run_p95_ms"].as_u64().expect("a time");
        let (above, at_most) = part_of(&said["lately"]["jobs"]["run"]["counts"], 95);
        assert!(p95 >= 30 && above <= p95 && p95 <= at_most, "{said}");
        assert!(said["wait_p95_ms"].is_u64() && said["empty_in_ms"].is_null(), "{said}");
    }
    let wrong = call(&server, &["stats", "--window", "2h"]);
    assert_eq!(wrong.code, 2, "{}", wrong.err);
    let watched = call(&server, &["stats", "--json", "--watch", "100ms", "--timeout", "2s"]);
    assert!(watched.out.lines().count() > 2, "{}{}", watched.out, watched.err);
}
