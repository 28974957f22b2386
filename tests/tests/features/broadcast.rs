//! Row P9: jobs that each worker runs, or each of so many.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::time::Duration;

use hworker::{Enqueue, Error, JobId, Unique, Worker};
use hworker_tests::{
    Act, InProcess, Records, TestServer, act, act_alone, act_by_twos, act_unless_crashed,
    common_jobs,
};

use crate::SOON;
use crate::cli::call;

/// Of another queue.
#[hworker::job(queue = "broadcast-elsewhere")]
async fn elsewhere() {}

fn named(server: &TestServer, name: &str) -> InProcess {
    InProcess::run(server.worker().registry(common_jobs()).concurrency(2).name(name))
}

fn job(server: &TestServer, name: &str, plan: Vec<Vec<Act>>) -> Enqueue<act> {
    act::with(name.into(), plan).on(server.client())
}

/// The names of the workers that began it, or ended it, one for each time.
fn workers(server: &TestServer, name: &str, what: &str) -> Vec<String> {
    let runs = server.runs_of(name);
    let of = runs.iter().filter(|run| run.what == what);
    let mut names: Vec<_> =
        of.map(|run| run.worker.split('.').next().unwrap_or_default().to_owned()).collect();
    names.sort();
    names
}

/// When each worker was heard of last.
fn heard(server: &TestServer) -> BTreeMap<String, String> {
    let scores: Vec<(String, String)> =
        server.redis().ask(&["ZRANGE", "hworker-workers-default", "0", "-1", "WITHSCORES"]);
    scores.into_iter().collect()
}

/// Waits until so many workers have sent two heartbeats, of which the second began after now.
fn all_look(server: &TestServer, many: usize) {
    for _ in 0..2 {
        server.eventually("they are heard of", SOON, || heard(server).len() == many);
        let before = heard(server);
        server.eventually("each looks", SOON, || {
            let now = heard(server);
            before.iter().all(|(worker, at)| now.get(worker).is_some_and(|other| other != at))
        });
    }
}

/// How many workers run it, are to run it again, and have run it.
async fn states(server: &TestServer, id: &JobId) -> (u64, u64, u64) {
    let all = server.client().control("default").broadcasts().await.expect("listed");
    let of = all.iter().find(|info| info.id == *id).expect("it has not expired");
    (of.running, of.retrying, of.ended)
}

#[tokio::test(flavor = "multi_thread")]
async fn p9_n_distinct_workers_per_job() {
    // For two of three workers -> exactly two different ones run it, each once, however long they look.
    // Guard: `is_open` in open_broadcasts.lua, of `most` and of the claim.
    let server = TestServer::start();
    let _workers = ["aaa", "bbb", "ccc"].map(|name| named(&server, name));
    let mut ids = Vec::new();
    for number in 0..10 {
        let job = job(&server, &format!("of two {number}"), vec![]).on_each_of(2);
        ids.push(job.enqueue().await.expect("enqueued"));
    }
    for (number, id) in ids.iter().enumerate() {
        let name = format!("of two {number}");
        server
            .eventually_async("two have run it", SOON, async || states(&server, id).await.2 == 2)
            .await;
        let ran = workers(&server, &name, "end");
        assert_eq!(ran.len(), 2, "{ran:?}");
        assert_eq!(ran.iter().collect::<BTreeSet<_>>().len(), 2, "{ran:?}");
    }
    // Each heartbeat looks at all of them.
    let last = job(&server, "of all", vec![]).on_each();
    last.enqueue().await.expect("enqueued");
    server.eventually("all have run it", SOON, || server.ended("of all") == 3);
    assert!((0..10).all(|number| server.begun(&format!("of two {number}")) == 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn p9_all_that_live_and_all_that_start() {
    // For each worker -> each that lives, and each that starts before it expires, runs it once, those of another queue do not; the job is in no
    // list, and its copies have its id.
    let server = TestServer::start();
    let _elsewhere = server.run_worker::<elsewhere>();
    let _workers = ["aaa", "bbb"].map(|name| named(&server, name));
    let id = job(&server, "all", vec![]).on_each().enqueue().await.expect("enqueued");
    server.eventually("both run it", SOON, || server.ended("all") == 2);
    let _late = named(&server, "ccc");
    server.eventually("the new one runs it", SOON, || server.ended("all") == 3);
    server
        .eventually_async("it is noted", SOON, async || states(&server, &id).await == (0, 0, 3))
        .await;
    assert_eq!(workers(&server, "all", "end"), ["aaa", "bbb", "ccc"]);
    assert!(server.runs_of("all").iter().all(|run| run.id == id.as_str()));
    assert_eq!(server.counter("processed:act"), 3);
    // Also from a tool.
    let args = r#"{"name":"by hand","plan":[]}"#;
    call(&server, &["enqueue", "act", "--args", args, "--on-each", "--no-check"]);
    call(&server, &["enqueue", "act", "--args", args, "--on-each-of", "1", "--no-check"]);
    server.eventually("each runs it, and one", SOON, || server.ended("by hand") == 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn p9_a_retry_is_of_the_same_worker() {
    // It fails at each of three workers -> each tries again itself; its last failure leaves a record that names the worker.
    // Guard: the duty 'retry' of a copy in settle.lua.
    let server = TestServer::start();
    let _workers = ["aaa", "bbb", "ccc"].map(|name| named(&server, name));
    let fails = vec![vec![Act::Error("not yet".into())]; 6];
    let plan = [fails, vec![vec![]]].concat();
    let each = job(&server, "again", plan).max_attempts(3).on_each();
    each.enqueue().await.expect("enqueued");
    server.eventually("all end", SOON, || workers(&server, "again", "begin").len() == 9);
    server.eventually("all end well", SOON, || workers(&server, "again", "end").len() == 3);
    for name in ["aaa", "bbb", "ccc"] {
        let own = workers(&server, "again", "begin");
        assert_eq!(own.iter().filter(|ran| *ran == name).count(), 3, "{own:?}");
    }
    let once = job(&server, "never", vec![vec![Act::Fail("no".into())]]).on_each();
    let id = once.enqueue().await.expect("enqueued");
    let records = async || server.inspect().failed(0, 10).await.expect("the records");
    server.eventually_async("all have failed", SOON, async || records().await.len() == 3).await;
    let of: BTreeSet<_> =
        records().await.into_iter().map(|failed| (failed.id, failed.worker)).collect();
    assert_eq!(of.len(), 3, "{of:?}");
    assert!(of.iter().all(|(of, _)| *of == id.as_str()), "{of:?}");
    assert_eq!(states(&server, &id).await, (0, 0, 3));
}

#[tokio::test(flavor = "multi_thread")]
async fn p9_another_has_the_place_of_one_that_died() {
    // For one of two workers, and that one dies while it runs it -> the other runs it, and knows of the death; one that dies between two attempts
    // leaves its place too. For all: one that died is not waited for.
    // Guard: `note_broadcast` in recover.lua; `leave_broadcasts`.
    let server = TestServer::start();
    let mut first = server.worker_process(&[("HWORKER_NAME", "first")]);
    let plan = vec![vec![Act::Gate("never".into())], vec![]];
    let id = job(&server, "dies", plan).on_each_of(1).enqueue().await.expect("enqueued");
    let later = vec![vec![Act::RetryIn(600_000)], vec![]];
    let again = job(&server, "again", later).expires_in(Duration::from_secs(3600)).on_each_of(1);
    let again = again.enqueue().await.expect("enqueued");
    server
        .eventually_async("it waits to try again", SOON, async || {
            server.begun("dies") == 1 && states(&server, &again).await == (0, 1, 0)
        })
        .await;
    first.kill();
    let _second = named(&server, "second");
    server.eventually("the other runs them", Duration::from_secs(60), || {
        server.ended("dies") == 1 && workers(&server, "again", "begin").len() == 2
    });
    let runs = server.runs_of("dies");
    assert!(runs.last().is_some_and(|run| run.worker.starts_with("second.")), "{runs:?}");
    server
        .eventually_async("it is noted", SOON, async || states(&server, &id).await == (0, 0, 1))
        .await;
    assert_eq!(server.counter("recovered"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn p9_one_that_ends_its_workers_is_ended() {
    // For one worker, and each that runs it dies -> after so many deaths it has failed, and the next worker lives.
    // Guard: the envelope that recover.lua leaves for the others.
    let server = TestServer::start();
    let kills = vec![vec![Act::Kill]];
    let id = job(&server, "kills", kills).on_each_of(1).enqueue().await.expect("enqueued");
    let mut died = 0;
    let records = async || server.inspect().failed(0, 10).await.expect("the records");
    while records().await.is_empty() {
        let mut worker = server.worker_process(&[("HWORKER_CRASH_LIMIT", "2")]);
        let minute = Duration::from_secs(60);
        let is_dead = Mutex::new(false);
        server
            .eventually_async("it dies, or ends the job", minute, async || {
                let is_over = worker.exited().is_some();
                *is_dead.lock().expect("no panic") = is_over;
                is_over || !records().await.is_empty()
            })
            .await;
        died += usize::from(is_dead.into_inner().expect("no panic"));
    }
    let failed = records().await;
    assert_eq!((failed[0].id.as_str(), failed[0].kind.as_str()), (id.as_str(), "crash"));
    assert_eq!((died, failed[0].crashes.len()), (2, 2), "{failed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn p9_a_worker_that_stops_leaves_it_to_others() {
    // A worker is stopped while it runs it, and its grace ends -> its place is another's.
    // Guard: the copy in release.lua.
    let server = TestServer::start();
    let stops = server.worker().registry(common_jobs()).name("stops");
    let stops = InProcess::run(stops.shutdown_grace(Duration::ZERO));
    let plan = vec![vec![Act::Gate("never".into())], vec![]];
    job(&server, "goes on", plan).on_each_of(1).enqueue().await.expect("enqueued");
    server.eventually("it begins", SOON, || server.begun("goes on") == 1);
    stops.stop().await;
    let _other = named(&server, "other");
    server.eventually("another ends it", SOON, || workers(&server, "goes on", "end") == ["other"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn p9_while_the_queue_is_paused_and_within_its_limit() {
    // A paused queue -> no worker begins it; it is resumed -> all do. A queue with a limit of one -> one after the other.
    // Guard: `is_paused` and `took` in take_broadcast.lua.
    let server = TestServer::start();
    let control = server.client().control("default");
    control.pause().await.expect("paused");
    let _workers = ["aaa", "bbb"].map(|name| named(&server, name));
    let id = job(&server, "later", vec![]).on_each().enqueue().await.expect("enqueued");
    all_look(&server, 2);
    assert_eq!(states(&server, &id).await, (0, 0, 0));
    control.queue_limit().set(1).await.expect("set");
    let gate = |name: &str| vec![vec![Act::Gate(name.into())]];
    job(&server, "in turn", gate("open")).on_each().enqueue().await.expect("enqueued");
    control.resume().await.expect("resumed");
    server.eventually("one runs", SOON, || server.begun("in turn") == 1);
    let running = async || server.inspect().counts().await.expect("counted").running;
    assert!(running().await <= 1);
    server.open("open");
    server.eventually("both have run both", Duration::from_secs(30), || {
        server.ended("in turn") == 2 && server.ended("later") == 2
    });
    server.eventually("nothing holds the limit", SOON, || {
        server.redis().len("hworker-jobs-default:held") == 0
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn p9_while_its_type_is_paused() {
    // A paused type -> no worker begins it, others of the queue run; it is resumed -> it runs.
    // Guard: `room_of(job)` in take_broadcast.lua.
    let server = TestServer::start();
    let registry = common_jobs().with::<act_unless_crashed>();
    let _worker = InProcess::run(server.worker().registry(registry).name("aaa"));
    let paused = server.client().control("default").job("act_unless_crashed");
    paused.pause().await.expect("paused");
    let once = |name: &str| act_unless_crashed::with(name.into(), vec![]).on(server.client());
    once("held").on_each().enqueue().await.expect("enqueued");
    job(&server, "other", vec![]).on_each().enqueue().await.expect("enqueued");
    server.eventually("the other runs", SOON, || server.ended("other") == 1);
    all_look(&server, 1);
    assert_eq!(server.begun("held"), 0);
    assert!(paused.resume().await.expect("resumed"));
    server.eventually("it runs", SOON, || server.ended("held") == 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn p9_at_most_once_has_no_other_in_its_place() {
    // A type that fails where its worker dies -> for so many workers it is refused, or not run where it was enqueued by its name; for all of them a
    // death at one leaves the others alone.
    // Guard: `is_copy` in attempt/admit.rs, of crashes.
    let server = TestServer::start();
    let once = |name: &str, plan| act_unless_crashed::with(name.into(), plan).on(server.client());
    let some = once("some", vec![]).on_each_of(1).enqueue().await.expect_err("refused");
    assert!(some.to_string().contains("on_crash"), "{some}");
    let args = r#"{"name":"by name","plan":[]}"#;
    let by_name = server.client().job_by_name("act_unless_crashed", args).on_each_of(1);
    by_name.enqueue().await.expect("enqueued");
    let mut dies = server.worker_process(&[("HWORKER_TEST_JOBS", "all")]);
    let plan = vec![vec![Act::Gate("never".into())], vec![]];
    once("all", plan).on_each().enqueue().await.expect("enqueued");
    server.eventually("it begins", SOON, || server.begun("all") == 1);
    dies.kill();
    let registry = common_jobs().with::<act_unless_crashed>();
    let _other = InProcess::run(server.worker().registry(registry).name("other"));
    let recovered = || server.counter("recovered") == 1;
    server.eventually("the dead one is noticed", Duration::from_secs(60), recovered);
    server.eventually("another runs its own", SOON, || workers(&server, "all", "end") == ["other"]);
    assert_eq!(server.begun("by name"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn p9_a_broadcast_is_cancelled() {
    // One that a worker runs for the second time is cancelled -> the body is told, and a worker that comes runs it not. One that there is not -> an
    // error.
    // Guard: `order_to_cancel` in cancel_broadcast.lua.
    let server = TestServer::start();
    let _first = named(&server, "first");
    let plan = vec![vec![Act::RetryIn(1)], vec![Act::Gate("never".into())], vec![]];
    let id = job(&server, "cancelled", plan).on_each().enqueue().await.expect("enqueued");
    server.eventually("it runs again", SOON, || server.begun("cancelled") == 2);
    let control = server.client().control("default");
    assert_eq!(control.cancel_broadcast(&id).await.expect("cancelled"), 1);
    let cancelled = async || server.inspect().counts().await.expect("counted").cancelled;
    server.eventually_async("the body ends", SOON, async || cancelled().await == 1).await;
    let _second = named(&server, "second");
    let last = job(&server, "last", vec![]).on_each();
    last.enqueue().await.expect("enqueued");
    server.eventually("the next runs", SOON, || server.ended("last") == 2);
    assert_eq!(server.begun("cancelled"), 2);
    let missing = control.cancel_broadcast(&id).await.expect_err("there is none");
    assert!(matches!(missing, Error::NotFound { .. }), "{missing}");
}

#[tokio::test(flavor = "multi_thread")]
async fn p9_who_cannot_run_it_leaves_it_to_others() {
    // A worker that does not know the type, beside one that does -> for one worker, the second runs it; the first looks once. A type with a limit,
    // enqueued by its name -> nobody runs it.
    // Guard: `unfit` in intake/broadcast.rs.
    let server = TestServer::start();
    let _knows_not = server.run_worker::<hworker_tests::weigh>();
    let id = job(&server, "known", vec![]).on_each_of(1).enqueue().await.expect("enqueued");
    all_look(&server, 1);
    assert_eq!(states(&server, &id).await, (0, 0, 0));
    let limited = r#"{"name":"limited","plan":[]}"#;
    let limited = server.client().job_by_name("act_by_twos", limited).on_each();
    let limited = limited.enqueue().await.expect("enqueued");
    let _knows = named(&server, "knows");
    server.eventually("it runs", SOON, || workers(&server, "known", "end") == ["knows"]);
    let last = job(&server, "last", vec![]).on_each_of(1);
    last.enqueue().await.expect("enqueued");
    server.eventually("the next runs", SOON, || server.ended("last") == 1);
    assert_eq!(states(&server, &limited).await, (0, 0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn p9_no_attempt_after_it_has_expired() {
    // Its time is over -> a worker that comes runs it not, and what would come later, as the next attempt, has failed.
    // Guard: `conclude` in attempt/finish.rs, of a snooze.
    let server = TestServer::start();
    let first = named(&server, "first");
    let short = Duration::from_millis(2_500);
    for late in [Act::RetryIn(5_000), Act::Snooze(5_000), Act::SlowDown(5_000)] {
        let each = job(&server, "short", vec![vec![late]]).expires_in(short).on_each();
        each.enqueue().await.expect("enqueued");
    }
    let failed = async || server.inspect().failed(0, 10).await.expect("the records").len();
    server.eventually_async("all have failed", SOON, async || failed().await == 3).await;
    first.stop().await;
    let listed = async || server.client().control("default").broadcasts().await.expect("listed");
    server.eventually_async("it expires", SOON, async || listed().await.is_empty()).await;
    let _second = named(&server, "second");
    let last = job(&server, "last", vec![]).on_each();
    last.enqueue().await.expect("enqueued");
    server.eventually("the next runs", SOON, || server.ended("last") == 1);
    assert_eq!(server.begun("short"), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn p9_what_no_broadcast_can_have_is_refused() {
    // A delay, a place in front, a priority, an id, a key, limits, no worker, a bulk, a cron entry -> errors that say so; the hundred and first ->
    // `Full`. Nothing is written.
    let server = TestServer::start();
    let client = server.client();
    let of = |name: &str| job(&server, name, vec![]).on_each();
    let hour = Duration::from_secs(3600);
    for wrong in [
        of("a").delay(hour).enqueue().await,
        of("a").front().enqueue().await,
        of("a").priority(hworker::Priority::High).enqueue().await,
    ] {
        let wrong = wrong.expect_err("refused").to_string();
        assert!(wrong.contains("begins at once"), "{wrong}");
    }
    for wrong in [
        of("a").id("own").enqueue().await,
        of("a").unique(Unique::by("key")).enqueue().await,
        act_alone::with("a".into(), Some("key".into()), vec![])
            .on(client)
            .on_each()
            .enqueue()
            .await,
        act_alone::with("a".into(), None, vec![]).on(client).on_each().enqueue().await,
        act_by_twos::with("a".into(), vec![]).on(client).on_each().enqueue().await,
    ] {
        let wrong = wrong.expect_err("refused").to_string();
        assert!(wrong.contains("runs beside itself"), "{wrong}");
    }
    let none = job(&server, "a", vec![]).on_each_of(0).enqueue().await.expect_err("refused");
    assert!(none.to_string().contains("is no worker"), "{none}");
    let bulk = hworker::Bulk::new().add(of("a")).enqueue().await.expect_err("refused");
    assert!(bulk.to_string().contains("by itself"), "{bulk}");
    let entry = client.control("default").cron("entry");
    let wrong = entry.upsert(of("a").cron("0 2 * * *")).await.expect_err("refused");
    assert!(wrong.to_string().contains("not for each worker"), "{wrong}");
    assert!(server.leftovers("default").is_empty());
    for number in 0..100 {
        of(&number.to_string()).enqueue().await.expect("there is room");
    }
    let full = of("one more").enqueue().await.expect_err("refused");
    assert!(matches!(full, Error::Full { max_waiting: 100, .. }), "{full}");
}

#[tokio::test(flavor = "multi_thread")]
async fn p9_an_id_that_no_lease_can_name_is_none() {
    // A job for each worker that another program wrote, with an id of other characters -> no worker runs it, others run.
    // Guard: the pattern in lib/open_broadcasts.lua: its end could not be noted, so it would run again and again.
    let server = TestServer::start();
    let _worker = named(&server, "aaa");
    let envelope = r#"{"v":1,"id":"x y","job":"act","args":{"name":"foreign","plan":[]}}"#;
    let _: () = server.redis().ask(&["HSET", "hworker-jobs-default:broadcast:x y", "", envelope]);
    let all = "hworker-jobs-default:broadcast";
    let _: () = server.redis().ask(&["HSET", all, "x y", "0 99999999999999 act"]);
    all_look(&server, 1);
    let last = job(&server, "last", vec![]).on_each();
    last.enqueue().await.expect("enqueued");
    server.eventually("the next runs", SOON, || server.ended("last") == 1);
    assert_eq!(server.begun("foreign"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn p9_the_longest_time() {
    // To begin at any time -> it runs, and what the server keeps of it ends within ten years.
    // Guard: `LONGEST_MS` in enqueue/broadcast.rs.
    let server = TestServer::start();
    let each = job(&server, "ever", vec![]).expires_in(Duration::MAX).on_each();
    let id = each.enqueue().await.expect("enqueued");
    let _worker = named(&server, "aaa");
    let ended = async || states(&server, &id).await.2 == 1;
    server.eventually_async("it has run", SOON, ended).await;
    for (key, _) in server.leftovers("default") {
        let ttl: i64 = server.redis().ask(&["TTL", &key]);
        assert!((1..=3_650 * 86_400 + 60).contains(&ttl), "{key}: {ttl}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn p9_a_worker_that_runs_until_it_is_idle_runs_it() {
    // One for each worker, among others, and `run_until_idle` -> it has run when that returns, at a type that runs at most once too.
    let server = TestServer::start();
    job(&server, "each", vec![]).on_each().enqueue().await.expect("enqueued");
    let once = act_unless_crashed::with("once".into(), vec![]).on(server.client()).on_each();
    once.enqueue().await.expect("enqueued");
    server.enqueue("plain", vec![]).await;
    let worker: Worker = server
        .worker()
        .registry(common_jobs().with::<act_unless_crashed>())
        .build()
        .expect("a worker");
    worker.run_until_idle().await.expect("it ran");
    assert_eq!(["each", "once", "plain"].map(|name| server.ended(name)), [1, 1, 1]);
}
