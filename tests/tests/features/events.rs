//! Rows I11, RS6: what happens to jobs, read in another process.

use std::time::Duration;

use hworker::{Bulk, Client, Event, EventKind, EventPosition, EventReader, Events};
use hworker_tests::{Act, InProcess, TestServer, act, act_once, common_jobs};
use serde_json::Value;

use crate::SOON;
use crate::cli::call;

/// A client that tells such events.
fn telling(server: &TestServer, events: Events) -> Client {
    let client = Client::builder().redis_url(server.url()).events(events).build();
    client.expect("a client")
}

fn worker(server: &TestServer, events: Events) -> InProcess {
    let worker = server.worker().client(&telling(server, events)).registry(common_jobs());
    InProcess::run(worker.concurrency(4))
}

fn all(server: &TestServer) -> EventReader {
    server.client().events("default").from(EventPosition::start())
}

async fn kept(mut events: EventReader) -> Vec<Event> {
    let mut all = Vec::new();
    while let Some(event) = events.next_kept().await.expect("read") {
        all.push(event);
    }
    all
}

/// The kinds of what happened to a job.
async fn kinds(server: &TestServer, id: &hworker::JobId) -> Vec<EventKind> {
    let all = kept(all(server)).await;
    all.iter().filter(|event| event.id.as_ref() == Some(id)).map(|event| event.kind).collect()
}

async fn next(events: &mut EventReader) -> Event {
    tokio::time::timeout(SOON, events.next()).await.expect("in time").expect("read")
}

#[tokio::test(flavor = "multi_thread")]
async fn i11_rs6_another_process_hears_what_happens() {
    // A worker of another process with `HWORKER_EVENTS=all`: done, failed, retried, snoozed, and one that is enqueued by who tells it -> in this
    // order of each job, with type, id, attempt, worker and message, and no argument; a reader waits for what comes.
    // Guard: the branch `events` of settle.lua, `Untold::end`, `Ready::send`.
    let server = TestServer::start();
    let mut reader = server.client().events("default");
    assert_eq!(reader.next_kept().await.expect("read"), None, "from now on");
    let _worker = server.worker_process(&[("HWORKER_EVENTS", "all")]);
    let teller = telling(&server, Events::All);
    let plan = vec![vec![Act::Error("no\nwell".into())], vec![Act::Snooze(50)], vec![]];
    let job = act::with("a".into(), plan).on(&teller).enqueue().await.expect("enqueued");
    let fails = act_once::with("secret-name".into(), vec![vec![Act::Fail("gone".into())]]);
    let failed = fails.on(server.client()).enqueue().await.expect("enqueued");
    let mut heard = Vec::new();
    while heard.iter().filter(|event: &&Event| event.kind == EventKind::Done).count() == 0
        || heard.iter().filter(|event: &&Event| event.kind == EventKind::Failed).count() == 0
    {
        heard.push(next(&mut reader).await);
    }
    let of = |id| heard.iter().filter(move |event| event.id.as_ref() == Some(id));
    let mut what: Vec<_> = of(&job).map(|event| (event.kind, event.attempt)).collect();
    // That it is enqueued is told behind that, and may be behind its start.
    what.sort_by_key(|(kind, _)| *kind != EventKind::Enqueued);
    let (first, second) = (Some(1), Some(2));
    let expected = [
        (EventKind::Enqueued, None),
        (EventKind::Started, first),
        (EventKind::Retried, first),
        (EventKind::Started, second),
        (EventKind::Snoozed, second),
        (EventKind::Started, second),
        (EventKind::Done, second),
    ];
    assert_eq!(what, expected);
    let retried = of(&job).find(|event| event.kind == EventKind::Retried).expect("told");
    assert_eq!(
        (retried.job.as_deref(), retried.message.as_deref()),
        (Some("act"), Some("no\nwell"))
    );
    assert!(retried.worker.is_some() && retried.elapsed.is_some() && !retried.unsure);
    assert_eq!(retried.queue, "default");
    let told: Vec<_> = of(&failed).map(|event| event.kind).collect();
    assert_eq!(told, [EventKind::Started, EventKind::Failed]);
    assert!(!format!("{heard:?}").contains("secret-name"), "no argument");
}

#[tokio::test(flavor = "multi_thread")]
async fn rs6_nothing_is_written_where_nobody_asks() {
    let server = TestServer::start();
    let _worker = worker(&server, Events::Off);
    server.enqueue("a", vec![vec![Act::Error("once".into())], vec![]]).await;
    server.eventually("it is done", SOON, || server.ended("a") == 1);
    assert!(server.redis().keys("*:events").is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn rs6_a_reader_goes_on_where_it_stopped_and_filters() {
    // 300 jobs, of which 3 fail; a reader is dropped after each event, and another goes on from its position, in the middle of entries too -> each job once,
    // in the end nothing more; with a filter the three.
    // Guard: `skipped` in `read_shard`, `mark` in `read_entry`.
    let server = TestServer::start();
    let jobs = (0..300).map(|n| {
        let plan = if n % 100 == 0 { vec![Act::Fail("on purpose".into())] } else { vec![] };
        act_once::with(format!("{n}"), vec![plan])
    });
    let ids = jobs.collect::<Bulk>().on(server.client()).enqueue().await.expect("enqueued");
    let _worker = worker(&server, Events::Ends);
    server.eventually("all have ended", SOON, || {
        server.counter("processed") + server.counter("failed") == 300
    });
    let (mut position, mut heard) = (EventPosition::start(), Vec::new());
    loop {
        let text = position.to_string();
        let mut reader = server.client().events("default").from(text.parse().expect("a position"));
        let Some(event) = reader.next_kept().await.expect("read") else { break };
        heard.push(event.id.expect("of a job"));
        position = reader.position().clone();
    }
    assert_eq!(heard.len(), 300);
    heard.sort();
    let mut ids = ids;
    ids.sort();
    assert_eq!(heard, ids);
    let entries: u64 = server.redis().ask(&["XLEN", "hworker-jobs-default:events"]);
    assert!(entries < 200, "{entries}: those that end together are written together");
    let failed = kept(all(&server).kinds([EventKind::Failed])).await;
    assert_eq!(failed.len(), 3);
    assert!(failed.iter().all(|event| event.message.as_deref() == Some("on purpose")));
}

#[tokio::test(flavor = "multi_thread")]
async fn rs6_a_reader_that_comes_too_late_is_told() {
    // The entry that a position names is trimmed -> first `missed`, then what is left; not for one that starts at the beginning, or at a time.
    // Guard: `is_entry` in `read_shard`.
    let server = TestServer::start();
    let _worker = worker(&server, Events::Ends);
    let mut reader = all(&server);
    for (before, name) in ["a", "b", "c"].into_iter().enumerate() {
        server.enqueue(name, vec![]).await;
        let told = async || kept(all(&server)).await.len() > before;
        server.eventually_async("it is told", SOON, told).await;
        if name == "a" {
            next(&mut reader).await;
        }
    }
    let _: u64 = server.redis().ask(&["XTRIM", "hworker-jobs-default:events", "MAXLEN", "1"]);
    let missed = next(&mut reader).await;
    assert_eq!((missed.kind, missed.id), (EventKind::Missed, None));
    assert_eq!(next(&mut reader).await.kind, EventKind::Done);
    assert_eq!(reader.next_kept().await.expect("read"), None);
    for from in ["0", "1000"] {
        let events = server.client().events("default").from(from.parse().expect("a position"));
        assert_eq!(kept(events).await.len(), 1, "{from}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rs6_the_stream_is_bounded() {
    // 6,000 jobs that end one by one -> about 4,000 entries are kept.
    // Guard: `MAXLEN` in settle.lua.
    let server = TestServer::start();
    let worker = server.worker().client(&telling(&server, Events::Ends)).registry(common_jobs());
    let _worker = InProcess::run(worker.concurrency(1).prefetch(false));
    let jobs = (0..6_000).map(|n| act::with(format!("{n}"), vec![]));
    jobs.collect::<Bulk>().on(server.client()).enqueue().await.expect("enqueued");
    let long = Duration::from_secs(60);
    server.eventually("all are done", long, || server.counter("processed") == 6_000);
    let entries: u64 = server.redis().ask(&["XLEN", "hworker-jobs-default:events"]);
    assert!((4_000..4_200).contains(&entries), "{entries}");
}

#[tokio::test(flavor = "multi_thread")]
async fn rs6_what_a_worker_had_lost_is_not_told() {
    // The lease of a job that runs is removed by hand -> its end is not told. Of several that end together: `events_are_told_of_what_was_held`.
    // Guard: `all_held > 0` in settle.lua.
    let server = TestServer::start();
    let _worker = worker(&server, Events::Ends);
    let gate = |name: &str| vec![vec![Act::Gate(name.into())]];
    let a = server.enqueue("a", gate("a")).await;
    server.eventually("it runs", SOON, || server.begun("a") == 1);
    let progress = server.redis().keys("hworker-progress-default:*");
    let [progress] = progress.as_slice() else { panic!("{progress:?}") };
    let _: u64 = server.redis().ask(&["DEL", progress]);
    server.open("a");
    server.eventually("it has ended", SOON, || server.ended("a") == 1);
    let b = server.enqueue("b", vec![]).await;
    server
        .eventually_async("it is told", SOON, async || !kinds(&server, &b).await.is_empty())
        .await;
    assert_eq!(kinds(&server, &a).await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_26_a_stream_that_cannot_be_written_harms_no_job() {
    // The key is of another type -> jobs end, fail and retry as ever, and are told again when it is gone.
    // Guard: `redis.pcall` of XADD in settle.lua.
    let server = TestServer::start();
    let _: u64 = server.redis().ask(&["RPUSH", "hworker-jobs-default:events", "x"]);
    let _worker = worker(&server, Events::All);
    let plan = || vec![vec![Act::Error("once".into())], vec![Act::Snooze(10)], vec![]];
    server.enqueue("a", plan()).await;
    let fails = act_once::with("b".into(), vec![vec![Act::Fail("no".into())]]);
    fails.on(server.client()).enqueue().await.expect("enqueued");
    server.eventually("all have ended", SOON, || {
        server.counter("processed") == 1 && server.counter("failed") == 1
    });
    let _: u64 = server.redis().ask(&["DEL", "hworker-jobs-default:events"]);
    let id = server.enqueue("c", plan()).await;
    server
        .eventually_async("it is told again", SOON, async || {
            kinds(&server, &id).await.contains(&EventKind::Done)
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rs6_a_death_and_a_cancel_are_told() {
    // A worker dies with a job, and somebody cancels a job that waits -> `recovered` with the dead worker, then what the next attempt becomes; `cancelled`.
    // Guard: `tell_others` in recovery.rs, and `tell` in `change_one`.
    let server = TestServer::start();
    let settings = [("HWORKER_EVENTS", "ends"), ("HWORKER_DEAD_AFTER", "2s")];
    let mut first = server.worker_process(&settings);
    let id = server.enqueue("a", vec![vec![Act::Kill], vec![]]).await;
    assert!(first.wait(SOON).is_some(), "it kills itself");
    let _second = server.worker_process(&settings);
    server.eventually("it is done", SOON, || server.ended("a") == 1);
    server
        .eventually_async("it is told", SOON, async || {
            kinds(&server, &id).await == [EventKind::Recovered, EventKind::Done]
        })
        .await;
    let later = act::with("later".into(), vec![]).delay(Duration::from_secs(3600));
    let later = later.on(server.client()).enqueue().await.expect("enqueued");
    telling(&server, Events::Ends).inspect("default").cancel(&later).await.expect("cancelled");
    assert_eq!(kinds(&server, &later).await, [EventKind::Cancelled]);
}

#[tokio::test(flavor = "multi_thread")]
async fn rs6_a_reader_waits_for_a_server_that_is_away() {
    // The server starts anew -> the same reader goes on.
    let server = TestServer::builder().append_only().start();
    let _worker = worker(&server, Events::Ends);
    let mut reader = server.client().events("default");
    assert_eq!(reader.next_kept().await.expect("read"), None);
    server.enqueue("a", vec![]).await;
    assert_eq!(next(&mut reader).await.kind, EventKind::Done);
    server.restart();
    let id = server.enqueue("b", vec![]).await;
    let mut heard = None;
    server
        .eventually_async("it goes on", SOON, async || {
            heard = heard.take().or(reader.next_kept().await.ok().flatten());
            heard.is_some()
        })
        .await;
    assert_eq!(heard.and_then(|event| event.id), Some(id));
}

#[tokio::test(flavor = "multi_thread")]
async fn rs6_the_command_line_follows() {
    // `hworker events` -> what is kept, with positions as JSON; from one of them the rest; a wrong kind says which there are.
    let server = TestServer::start();
    let _worker = worker(&server, Events::Ends);
    for name in ["a", "b"] {
        server.enqueue(name, vec![]).await;
        server.eventually("it is done", SOON, || server.ended(name) == 1);
    }
    server
        .eventually_async("all are told", SOON, async || kept(all(&server)).await.len() == 2)
        .await;
    let said = call(&server, &["events", "--kind", "done,failed"]);
    assert_eq!((said.code, said.out.lines().count()), (0, 2), "{}{}", said.out, said.err);
    assert!(said.out.lines().all(|line| line.contains(" done act ")), "{}", said.out);
    let said = call(&server, &["events", "--json"]);
    let lines: Vec<Value> =
        said.out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!((lines.len(), &lines[0]["kind"]), (2, &Value::from("done")));
    let from = lines[0]["position"].as_str().expect("a position");
    let said = call(&server, &["events", "--json", "--from", from]);
    assert_eq!(said.out.lines().count(), 1, "{}", said.out);
    let said = call(&server, &["events", "--kind", "flown"]);
    assert!(said.code == 2 && said.err.contains("done, retried"), "{}", said.err);
}
