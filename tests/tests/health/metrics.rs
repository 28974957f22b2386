//! Rows OB1, OB2 and OB13: what a worker tells Prometheus, and the recorder of its program.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hworker_tests::{Act, TestServer, act, common_jobs, open_metrics};
use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit,
};

use crate::probe::{Probed, SOON, answer, ask};

fn put(server: &TestServer, name: &str, plan: Vec<Vec<Act>>) {
    act::with(name.to_owned(), plan).on(server.client()).enqueue_blocking().expect("enqueued");
}

/// The value of a series, if it is there.
fn value(text: &str, series: &str) -> Option<f64> {
    let is_it = |line: &&str| line.strip_prefix(series).is_some_and(|rest| rest.starts_with(' '));
    text.lines().find(is_it)?.rsplit(' ').next()?.parse().ok()
}

/// How often this became of jobs.
fn jobs(text: &str, job: &str, outcome: &str) -> Option<f64> {
    let labels = format!(r#"queue="default",job="{job}",outcome="{outcome}""#);
    value(text, &format!("hworker_jobs_total{{{labels}}}"))
}

#[test]
fn ob1_a_scrape_tells_what_jobs_did() {
    // Jobs succeed, are tried again and fail; some payloads are of no type, or none at all -> a scrape has as many of each, as valid
    // OpenMetrics text; labels are names of job types that the worker knows; when the charts have taken the figures away they are the same.
    // Guard: `OfQueue::take`; `UNKNOWN`.
    let server = TestServer::start();
    let worker = Probed::start(&server, &[("HWORKER_CONCURRENCY", "4")]);
    for number in 0..20 {
        put(&server, &format!("ok {number}"), vec![vec![Act::Sleep(30)]]);
    }
    put(&server, "again", vec![vec![Act::Error("no".into())], vec![]]);
    put(&server, "fails", vec![vec![Act::Fail("no".into())]]);
    let hostile = r#"{"v":1,"id":"h","job":"evil\"} 9\nevil_total 9","args":{}}"#;
    for payload in [hostile, "no envelope"] {
        let _: u64 = server.redis().ask(&["LPUSH", "hworker-jobs-default", payload]);
    }
    server.eventually("all are settled", SOON, || {
        let counters = ["processed", "retried", "failed", "broken", "parked"];
        counters.map(|name| server.counter(name)) == [21, 1, 1, 1, 1]
    });

    let request = "GET /metrics HTTP/1.1\r\nhost: worker\r\n\r\n";
    let (head, text) = answer(worker.address, request);
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    let of_type = "content-type: application/openmetrics-text; version=1.0.0; charset=utf-8";
    assert!(head.to_ascii_lowercase().contains(of_type), "{head}");
    assert!(!open_metrics(&text).is_empty(), "{text}");
    let same = |text: &str| {
        for (outcome, count) in [("ok", 21.0), ("retried", 1.0), ("failed", 1.0)] {
            assert_eq!(jobs(text, "act", outcome), Some(count), "{outcome}\n{text}");
        }
        for outcome in ["broken", "parked"] {
            assert_eq!(jobs(text, "+unknown", outcome), Some(1.0), "{outcome}\n{text}");
        }
        for name in ["hworker_job_run_seconds", "hworker_job_wait_seconds"] {
            let series = format!(r#"{name}_count{{queue="default",job="act"}}"#);
            assert_eq!(value(text, &series), Some(23.0), "{text}");
        }
        let ran = value(text, r#"hworker_job_run_seconds_sum{queue="default",job="act"}"#);
        assert!(ran.is_some_and(|ran| (0.6..20.0).contains(&ran)), "{text}");
    };
    same(&text);
    // One that did not run yet has its zeros.
    assert_eq!(jobs(&text, "weigh", "failed"), Some(0.0), "{text}");
    let (busy, free) = (r#"hworker_slots{state="busy"}"#, r#"hworker_slots{state="free"}"#);
    server.eventually("no slot is held", SOON, || {
        let (_, text) = worker.get("/metrics");
        (value(&text, busy), value(&text, free)) == (Some(0.0), Some(4.0))
    });
    let age = value(&text, r#"hworker_heartbeat_age_seconds{queue="default"}"#);
    assert!(age.is_some_and(|age| age < 10.0), "{text}");
    assert!(value(&text, "hworker_server_call_seconds_count").is_some_and(|calls| calls > 0.0));
    assert_eq!(value(&text, "hworker_fenced_total"), Some(0.0), "{text}");

    assert!(!text.contains("evil"), "{text}");
    let labels = |name: &str| -> BTreeSet<String> {
        let label = format!(r#"{name}=""#);
        let values = text.split(&label).skip(1);
        values.filter_map(|rest| rest.split('"').next()).map(str::to_owned).collect()
    };
    assert_eq!(labels("queue"), BTreeSet::from(["default".to_owned()]));
    let is_known = |job: &str| {
        ["act", "weigh", "strange", "wakes", "+unknown"].iter().any(|start| job.starts_with(start))
    };
    assert!(labels("job").iter().all(|job| is_known(job)), "{:?}", labels("job"));

    let with = |request: &str| ask(worker.address, request).0;
    assert_eq!(with("POST /metrics HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n"), 405);
    assert_eq!(with("HEAD /metrics HTTP/1.1\r\nhost: a\r\n\r\n"), 200);

    server.eventually("the charts have it", SOON, || {
        let keys = server.redis().keys("hworker-chart-default:60:*");
        keys.iter().any(|key| server.redis().ask::<u64>(&["HEXISTS", key, "act"]) == 1)
    });
    same(&worker.get("/metrics").1);
}

#[tokio::test(flavor = "multi_thread")]
async fn ob13_a_worker_that_was_declared_dead_keeps_its_counts() {
    // A worker is stopped until another one has its job, and goes on under a new id -> its counters go on, and say that it was taken for
    // dead; the other one counts the job that it took back.
    // Guard: `Totals` belong to the worker, not to a session; `was_fenced`; `count` in recovery.rs.
    let server = TestServer::start();
    let worker = Probed::start(&server, &[("HWORKER_DEAD_AFTER", "2s")]);
    let done = act::with("done".into(), Vec::new()).on(server.client());
    done.enqueue().await.expect("enqueued");
    server.eventually("it is done", SOON, || server.counter("processed") == 1);
    server.enqueue("held", vec![vec![Act::Gate("go".into())]]).await;
    server.eventually("it runs", SOON, || server.begun("held") == 1);
    assert_eq!(jobs(&worker.get("/metrics").1, "act", "ok"), Some(1.0));

    let other = server.worker().registry(common_jobs()).build().expect("a worker");
    let health = other.health();
    let running = tokio::spawn(other.run_until(std::future::pending()));
    worker.process.stop();
    server.eventually("another has it", SOON, || server.begun("held") == 2);
    let recovered = || jobs(&health.metrics(), "act", "recovered") == Some(1.0);
    server.eventually("it has counted that", SOON, recovered);
    worker.process.go_on();
    server.eventually("it goes on", SOON, || {
        let (_, text) = worker.get("/metrics");
        assert_eq!(jobs(&text, "act", "ok"), Some(1.0), "{text}");
        value(&text, "hworker_fenced_total") == Some(1.0)
    });
    server.open("go");
    server.drained(SOON);
    assert_eq!(jobs(&health.metrics(), "act", "ok"), Some(1.0), "{}", health.metrics());
    running.abort();
}

/// What a recorder was told, by series.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<BTreeMap<String, Vec<f64>>>>);

impl Heard {
    fn of(&self, series: &str) -> Vec<f64> {
        let heard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        heard.get(series).cloned().unwrap_or_default()
    }

    fn sum(&self, series: &str) -> f64 {
        self.of(series).iter().sum()
    }

    fn series(&self, key: &Key) -> Arc<Series> {
        let labels = key.labels().map(|label| format!("{}={}", label.key(), label.value()));
        let labels = labels.collect::<Vec<_>>().join(",");
        Arc::new(Series { name: format!("{} {labels}", key.name()), heard: self.clone() })
    }
}

impl Recorder for Heard {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.series(key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.series(key))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.series(key))
    }
}

struct Series {
    name: String,
    heard: Heard,
}

impl Series {
    fn hear(&self, value: f64) {
        let mut heard = self.heard.0.lock().unwrap_or_else(PoisonError::into_inner);
        heard.entry(self.name.clone()).or_default().push(value);
    }
}

impl CounterFn for Series {
    fn increment(&self, value: u64) {
        self.hear(value as f64);
    }

    fn absolute(&self, _: u64) {
        unreachable!("hworker tells increments");
    }
}

impl GaugeFn for Series {
    fn increment(&self, _: f64) {
        unreachable!("hworker sets gauges");
    }

    fn decrement(&self, _: f64) {
        unreachable!("hworker sets gauges");
    }

    fn set(&self, value: f64) {
        self.hear(value);
    }
}

impl HistogramFn for Series {
    fn record(&self, value: f64) {
        self.hear(value);
    }
}

#[hworker::job(queue = "ob2", max_attempts = 1)]
async fn counted(fails: bool) -> Result<(), String> {
    // It runs for a time that is not 0.
    tokio::time::sleep(Duration::from_millis(30)).await;
    if fails { Err("no".into()) } else { Ok(()) }
}

#[tokio::test(flavor = "multi_thread")]
async fn ob2_facade_tells_the_recorder_of_the_program() {
    // A recorder is installed; jobs succeed and fail, and more of them later -> it is told each once, while the worker runs and when it
    // stops, with how long they ran and how many slots are free.
    // Guard: `news` of `Totals`; `tell_last`.
    let heard = Heard::default();
    assert!(metrics::set_global_recorder(heard.clone()).is_ok(), "the only one of this program");
    let server = TestServer::start();
    let worker = server.worker().register::<counted>().concurrency(3).build().expect("a worker");
    let handle = worker.handle();
    let running = tokio::spawn(worker.run_until(std::future::pending()));
    let put = async |fails| {
        counted::with(fails).on(server.client()).enqueue().await.expect("enqueued");
    };
    for fails in [false, false, true, false] {
        put(fails).await;
    }
    let total = |outcome: &str| {
        heard.sum(&format!("hworker_jobs_total queue=ob2,job=counted,outcome={outcome}"))
    };
    let told = |ok: f64, failed: f64| total("ok") >= ok && total("failed") >= failed;
    server.eventually("it is told", SOON, || told(3.0, 1.0));
    let free = || heard.of("hworker_slots state=free").contains(&3.0);
    server.eventually("it is told of the slots", SOON, free);
    assert!(!heard.of("hworker_heartbeat_age_seconds queue=ob2").is_empty());
    assert!(!heard.of("hworker_server_call_seconds ").is_empty());

    put(false).await;
    let inspect = server.client().inspect("ob2");
    server
        .eventually_async("the last is done", SOON, async || {
            inspect.statistics(None).await.expect("the statistics").get("processed") == Some(&4)
        })
        .await;
    handle.stop();
    running.await.expect("no panic").expect("it stops");
    assert_eq!((total("ok"), total("failed"), total("retried")), (4.0, 1.0, 0.0));
    let ran = heard.of("hworker_job_run_seconds queue=ob2,job=counted");
    assert!(ran.len() == 5 && ran.iter().all(|ran| *ran >= 0.05), "{ran:?}");
    assert_eq!(heard.of("hworker_job_wait_seconds queue=ob2,job=counted").len(), 5);
}
