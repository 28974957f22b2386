//! Rows EN and SC: what a producer says, and when it is run.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use hworker::{Bulk, Context, Error, JobId, JobState, State};
use hworker_tests::Records as _;
use hworker_tests::{InProcess, TestServer, act, produce};

use crate::SOON;
use crate::cli::call;

#[tokio::test(flavor = "multi_thread")]
async fn en1_single_enqueue() {
    // One round trip; returns a job id that is unique for ever; job visible to inspect at once.
    let server = TestServer::start();
    let job = || act::with("one".into(), Vec::new()).on(server.client());
    // The first ones connect, and bring the script.
    let mut ids = vec![
        job().enqueue().await.expect("enqueued"),
        job().delay(SOON).enqueue().await.expect("enqueued"),
    ];
    for number in 1..=100 {
        let _: String = server.redis().ask(&["CONFIG", "RESETSTAT"]);
        let id = job().enqueue().await.expect("enqueued");
        ids.push(job().delay(SOON * 10).enqueue().await.expect("enqueued"));
        assert_eq!((calls(&server, "lpush"), calls(&server, "evalsha")), (1, 1));
        assert_eq!((calls(&server, "eval"), calls(&server, "script|load")), (0, 0));
        let found = server.inspect().find(&id).await.expect("a search").expect("it is there");
        assert!(matches!(found.state, JobState::Waiting), "{found:?}");
        assert_eq!(
            (&found.id, found.job.as_deref(), found.attempt),
            (&Some(id.clone()), Some("act"), 1)
        );
        assert_eq!(server.inspect().counts().await.expect("the counts").waiting, number + 1);
        ids.push(id);
    }

    // Of other processes too.
    for _ in 0..2 {
        let produced = produce(&server, &[], &["two", "two"]);
        ids.extend(produced.iter().map(|id| JobId::from(id.as_str())));
    }
    let distinct: HashSet<_> = ids.iter().collect();
    assert_eq!((ids.len(), distinct.len()), (206, 206));
    assert!(ids.iter().all(|id| id.as_str().len() == 36 && id.as_str().as_bytes()[14] == b'7'));
}

/// How often clients called a command, or scripts did, since the counters were set to 0.
fn calls(server: &TestServer, command: &str) -> u64 {
    let info: String = server.redis().ask(&["INFO", "commandstats"]);
    let head = format!("cmdstat_{command}:calls=");
    let calls = info.lines().find_map(|line| line.strip_prefix(&head)?.split(',').next());
    calls.map_or(0, |calls| calls.parse().expect("a number"))
}

/// What a body found out about its attempt: queue, attempt, most attempts, seconds left.
type Seen = Arc<Mutex<Vec<(String, u32, u32, u64)>>>;

fn see(seen: &Seen, context: &Context) {
    let left = context.remaining().as_secs_f64().ceil() as u64;
    let seen_now = (context.queue().to_owned(), context.attempt(), context.max_attempts(), left);
    seen.lock().expect("no panic").push(seen_now);
}

#[hworker::job]
async fn with_defaults(State(seen): State<Seen>, context: Context) {
    see(&seen, &context);
}

#[hworker::job(queue = "en13-own", timeout = "1h", max_attempts = 7, backoff = "1h")]
async fn with_settings(
    fails: u32,
    State(seen): State<Seen>,
    context: Context,
) -> Result<(), String> {
    see(&seen, &context);
    if context.attempt() <= fails { Err("once more".into()) } else { Ok(()) }
}

/// Names the queue to which the other one is sent.
#[hworker::job(queue = "en13-other")]
async fn of_the_other_queue() {}

#[tokio::test(flavor = "multi_thread")]
async fn en13_override_per_call() {
    // Queue, delay, retries, timeout, backoff overridden at the call; what is not, is the type's, and then the default: the
    // queue "default", 25 attempts, 120 s.
    let server = TestServer::start();
    let seen = Seen::default();
    let worker = server.worker().register::<with_defaults>().register::<with_settings>();
    let worker = worker.register::<of_the_other_queue>().state(Arc::clone(&seen));
    let _worker = InProcess::run(worker);
    let take = |count: usize| {
        let all = || seen.lock().expect("no panic");
        server.eventually("the bodies ran", SOON, || all().len() == count);
        std::mem::take(&mut *all())
    };

    with_defaults::with().on(server.client()).enqueue().await.expect("enqueued");
    assert_eq!(take(1), [("default".to_owned(), 1, 25, 120)]);
    let job = |fails| with_settings::with(fails).on(server.client());
    job(0).enqueue().await.expect("enqueued");
    assert_eq!(take(1), [("en13-own".to_owned(), 1, 7, 3_600)]);

    let other = "en13-other".to_owned();
    let all = job(1).queue(other.clone()).max_attempts(2).timeout(Duration::from_secs(30));
    let before = server.redis().time_us();
    let all = all.backoff("300ms").delay(Duration::from_millis(500));
    all.enqueue().await.expect("enqueued");
    assert_eq!(take(2), [(other.clone(), 1, 2, 30), (other.clone(), 2, 2, 30)]);
    let took = server.redis().time_us() - before;
    assert!(took >= 800_000, "delay and backoff are kept: {took} us");

    // One attempt more than the call allows; the failure is recorded on the queue of the call.
    let once = job(1).queue(other.clone()).max_attempts(1);
    let id = once.enqueue().await.expect("enqueued");
    take(1);
    let queue = server.client().inspect(&other);
    server
        .eventually_async("it has failed", SOON, async || {
            let failed = queue.failed(0, 1).await.expect("the records");
            failed.first().is_some_and(|failed| failed.id == id.as_str() && failed.queue == other)
        })
        .await;

    // A deadline of one call: the next attempt would start an hour later.
    let until = job(7).retry_until(SystemTime::now() + Duration::from_secs(60));
    let id = until.enqueue().await.expect("enqueued");
    server
        .eventually_async("it has failed", SOON, async || {
            let found = server.client().inspect("en13-own").find(&id).await.expect("a search");
            found.is_some_and(|found| matches!(found.state, JobState::Failed))
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn en17_another_cluster() {
    // Two clients for two servers live in one process: each job goes to the one that its call names, from bodies too, and runs
    // there only; neither is the default one.
    let (left, right) = (TestServer::start(), TestServer::start());
    let _workers = [left.run_worker::<act>(), right.run_worker::<act>()];
    let enqueue = async |server: &TestServer, name: &str| {
        act::with(name.into(), Vec::new()).on(server.client()).enqueue().await.expect("enqueued")
    };
    for _ in 0..20 {
        enqueue(&left, "to the left").await;
        enqueue(&right, "to the right").await;
    }
    left.eventually("all run", SOON, || left.ended("to the left") == 20);
    right.eventually("all run", SOON, || right.ended("to the right") == 20);
    assert_eq!((left.begun("to the right"), right.begun("to the left")), (0, 0));
    left.drained(SOON);
    right.drained(SOON);
    // What an id names is on one of them.
    let later = act::with("later".into(), Vec::new()).delay(SOON * 10).on(right.client());
    let id = later.enqueue().await.expect("enqueued");
    assert!(left.inspect().find(&id).await.expect("a search").is_none());
    assert!(right.inspect().find(&id).await.expect("a search").is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn sc1_run_at_and_run_in() {
    // Absolute and relative; past time = now.
    let server = TestServer::start();
    let _worker = server.run_worker::<act>();
    let now_ms = || server.redis().time_us() / 1000;
    let job = |name: &str| act::with(name.into(), Vec::new()).on(server.client());
    let (now, ms) = (SystemTime::now(), now_ms());
    let half = Duration::from_millis(500);
    job("in").delay(half).enqueue().await.expect("enqueued");
    job("at").at(now + 2 * half).enqueue().await.expect("enqueued");
    job("in no time").delay(Duration::ZERO).enqueue().await.expect("enqueued");
    job("at a past time").at(now - SOON).enqueue().await.expect("enqueued");
    job("at the beginning of time").at(SystemTime::UNIX_EPOCH).enqueue().await.expect("enqueued");
    let later = job("later").at(now + SOON * 100).enqueue().await.expect("enqueued");
    for name in ["in no time", "at a past time", "at the beginning of time", "in", "at"] {
        server.eventually(name, SOON, || server.ended(name) == 1);
    }
    let begun = |name: &str| server.runs_of(name)[0].at / 1000;
    assert!(begun("in") >= ms + 500, "{} ms", begun("in") - ms);
    // The server is on this machine, and so has its time.
    let second = (now + 2 * half).duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
    let second = second.as_millis() as u64;
    assert!(begun("at") >= second, "{} ms early", second - begun("at"));
    let found = server.inspect().find(&later).await.expect("a search").expect("it waits");
    assert_eq!(found.state, JobState::Scheduled);
    let due = found.at.expect("a due time");
    assert!(due.abs_diff(ms + 1_500_000) < 1_000, "{due} {ms}");
    assert_eq!(server.begun("later"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn sc4_far_future() {
    // A time of years to come is no lease: however many workers come, stay longer than `dead_after`, and die, the job stays
    // scheduled, and when it is due it runs once.
    let server = TestServer::start();
    let mut worker = server.worker_process(&[("HWORKER_DEAD_AFTER", "2s")]);
    let year = Duration::from_secs(365 * 86_400);
    let job = |name: &str| act::with(name.into(), Vec::new()).on(server.client());
    let before = server.redis().time_us() / 1000;
    let id = job("in a year").delay(year).enqueue().await.expect("enqueued");
    job("in a century").at(SystemTime::now() + 100 * year).enqueue().await.expect("enqueued");
    job("never").delay(Duration::MAX).enqueue().await.expect("enqueued");
    let find = async || server.inspect().find(&id).await.expect("a search").expect("it is there");
    assert_eq!(find().await.state, JobState::Scheduled);
    let due = find().await.at.expect("a due time");
    assert!((due - before).abs_diff(year.as_millis() as u64) < 1_000, "{due} {before}");

    let waits = || server.leftovers("default") == [("hworker-scheduled-default".to_owned(), 3)];
    server.holds("they wait", Duration::from_secs(4), waits);
    worker.kill();
    let _worker = server.worker_process(&[("HWORKER_DEAD_AFTER", "2s")]);
    server.holds("they wait", Duration::from_secs(4), waits);

    // A year later.
    let members: Vec<String> =
        server.redis().ask(&["ZRANGE", "hworker-scheduled-default", "0", "0"]);
    let now = (server.redis().time_us() / 1000).to_string();
    let words = ["ZADD", "hworker-scheduled-default", "XX", "CH", &now, &members[0]];
    assert_eq!(server.redis().ask::<u64>(&words), 1);
    server.eventually("it runs", SOON, || server.ended("in a year") == 1);
    server.holds("it runs once, and no other", Duration::from_secs(2), || {
        let begun = ["in a year", "in a century", "never"].map(|name| server.begun(name));
        begun == [1, 0, 0]
    });
    assert_eq!(server.leftovers("default"), [("hworker-scheduled-default".to_owned(), 2)]);
}

/// Enqueues three jobs that have it as their parent, and one that has not.
#[hworker::job]
async fn parent(context: Context) -> Result<(), Error> {
    child::with(1).child_of(&context).meta("tenant", "own").enqueue().await?;
    Bulk::new().add(child::with(2)).child_of(&context).enqueue().await?;
    Bulk::lazy([child::with(3)]).child_of(&context).enqueue().await?;
    child::enqueue(4).await?;
    Ok(())
}

#[hworker::job(queue = "children")]
async fn child(number: u32, context: Context) {
    let _ = (number, context);
}

#[tokio::test(flavor = "multi_thread")]
async fn en20_a_job_knows_its_parent() {
    // A body enqueues jobs as its children, one by one, in a bulk, and in one that is taken from an iterator -> the id of its job is recorded with each, and
    // what was noted of it, but for what the call notes by the same name, and for its tags. It is searched for and shown.
    // Guard: `Notes::inherit`; `Enqueue::inherit`.
    let server = TestServer::start();
    let job = parent::with().meta("tenant", 7).meta("request", "r-1").tag("eu");
    let id = job.on(server.client()).enqueue().await.expect("enqueued");
    let worker = server.run_worker::<parent>();
    let children = server.client().inspect("children");
    server.eventually("four children", SOON, || server.redis().len("hworker-jobs-children") == 4);
    worker.stop().await;

    let of_parent = format!("parent:{id}").parse().expect("a filter");
    let found = children.jobs(JobState::Waiting).filter(of_parent).page().await.expect("a page");
    let mut of_each: Vec<_> =
        found.items.iter().map(|job| (job.args().to_owned(), job.meta())).collect();
    of_each.sort();
    let expected = [("1", r#""own""#), ("2", "7"), ("3", "7")];
    assert_eq!(of_each.len(), 3, "{of_each:?}");
    for ((args, meta), (number, tenant)) in of_each.iter().zip(expected) {
        assert_eq!(*args, format!(r#"{{"number":{number}}}"#));
        assert_eq!((&*meta["tenant"], &*meta["request"]), (tenant, r#""r-1""#));
    }
    assert!(
        found.items.iter().all(|job| job.tags().is_empty() && job.parent().as_ref() == Some(&id))
    );
    let of_child = found.items[0].id.clone().expect("an id");
    let shown = call(&server, &["jobs", "show", "-q", "children", of_child.as_str()]);
    let is_parent = |line: &str| line.starts_with("parent") && line.ends_with(id.as_str());
    assert!(shown.out.lines().any(is_parent), "{}", shown.out);
    let listed = call(
        &server,
        &["jobs", "ls", "-q", "children", "--where", &format!("parent:{id}"), "--json"],
    );
    assert_eq!(
        listed.json().iter().filter(|job| job["parent"] == id.as_str()).count(),
        3,
        "{}",
        listed.out
    );
}
