//! Rows S7, G6, CT2 to CT4, CT16, PR7, LC1: cancelling jobs wherever they are, changing when they run, and those that expire.

use std::time::{Duration, Instant};

use hworker::{
    Action, Bulk, Context, Error, JobId, JobState, OnConflict, Priority, Submitted, Unique,
};
use hworker_tests::{Act, InProcess, Runs, TestServer, act, act_blocking, act_of_key};

use crate::SOON;
use crate::cli::call;

const HOUR: Duration = Duration::from_secs(3600);

fn worker(server: &TestServer, slots: usize) -> InProcess {
    let worker = server.worker().registry(hworker_tests::common_jobs().with::<goes_on>());
    InProcess::run(worker.concurrency(slots))
}

fn gate() -> Vec<Vec<Act>> {
    vec![vec![Act::Gate("never".into())]]
}

/// Goes on until somebody cancels it, and does then as it is told.
#[hworker::job(on_cancel = "token", backoff = "0s")]
async fn goes_on(
    name: String,
    succeeds: bool,
    context: Context,
    #[inject] runs: Runs,
) -> Result<(), String> {
    let runner = hworker_tests::Runner::from(&context);
    let number = runs.begin(&runner);
    runs.note(&name, "begin", number, &runner);
    context.cancelled().await;
    runs.note(&name, "end", number, &runner);
    if succeeds { Ok(()) } else { Err("no".into()) }
}

async fn cancelled(server: &TestServer, id: &JobId) -> JobState {
    server.inspect().cancel(id).await.expect("cancelled")
}

/// The record of a job that was cancelled.
async fn record_of(server: &TestServer, id: &JobId) -> (JobState, Option<String>) {
    let found = server.inspect().find(id).await.expect("looked").expect("a record");
    (found.state, found.kind)
}

#[tokio::test(flavor = "multi_thread")]
async fn s7_ct2_what_waits_or_is_delayed_does_not_run() {
    // In the plain list, in one with limits, by its id, and delayed: cancelled, each with its record; again, and one that has ended, is an
    // error that says so.
    // Guard: `Duty::Cancel`.
    let server = TestServer::start();
    let on = server.client();
    let plain = act::with("plain".into(), Vec::new()).on(on).enqueue().await.expect("enqueued");
    let limited = act_of_key::with("limited".into(), Some("k".into()), Vec::new());
    let limited = limited.priority(Priority::Low).on(on).enqueue().await.expect("enqueued");
    let unique = act::with("unique".into(), Vec::new()).unique(Unique::by("k")).on(on);
    let unique = unique.enqueue().await.expect("enqueued");
    let delayed = act::with("delayed".into(), Vec::new()).delay(HOUR).on(on);
    let delayed = delayed.enqueue().await.expect("enqueued");
    for (id, state) in [
        (&plain, JobState::Waiting),
        (&limited, JobState::Waiting),
        (&unique, JobState::Waiting),
        (&delayed, JobState::Scheduled),
    ] {
        assert_eq!(cancelled(&server, id).await, state);
        let expected = (JobState::Cancelled, Some("cancelled".to_owned()));
        assert_eq!(record_of(&server, id).await, expected);
        let again = server.inspect().cancel(id).await;
        assert!(matches!(again, Err(Error::NotFound { .. })), "{again:?}");
    }
    let counts = server.inspect().counts().await.expect("counted");
    assert_eq!((counts.waiting, counts.scheduled, counts.cancelled), (0, 0, 4));
    assert_eq!(server.counter("cancelled"), 4);
    assert_eq!(server.redis().len("hworker-jobs-default:unique"), 0);
    let _worker = worker(&server, 2);
    let after = act::with("after".into(), Vec::new()).on(on).enqueue().await.expect("enqueued");
    server.eventually("others run", SOON, || server.ended("after") == 1);
    let ran = ["plain", "limited", "unique", "delayed"].map(|name| server.begun(name));
    assert_eq!(ran, [0; 4]);
    assert!(matches!(server.inspect().cancel(&after).await, Err(Error::NotFound { .. })));
}

#[tokio::test(flavor = "multi_thread")]
async fn g6_ct3_a_running_body_is_dropped_or_told() {
    // An async body is dropped; one that asks for the token goes on and is done if it succeeds, and cancelled else; what blocks sees it. None
    // is retried.
    // Guard: `Leases::cancel`, and the look at the order in `Started::end`.
    let server = TestServer::start();
    let on = server.client();
    let _worker = worker(&server, 8);
    let dropped = act::with("dropped".into(), gate()).on(on).enqueue().await.expect("enqueued");
    let done = goes_on::with("done".into(), true).on(on).enqueue().await.expect("enqueued");
    let told = goes_on::with("told".into(), false).on(on).enqueue().await.expect("enqueued");
    let blocks = vec![vec![Act::BlockUntilCancelled, Act::Error("no".into())]];
    let blocks = act_blocking::with("blocks".into(), blocks).on(on).enqueue().await.expect("in");
    let all = ["dropped", "done", "told", "blocks"];
    server.eventually("they run", SOON, || all.iter().all(|name| server.begun(name) == 1));
    for id in [&dropped, &done, &told, &blocks] {
        assert_eq!(cancelled(&server, id).await, JobState::Running);
    }
    server.eventually("all ended", SOON, || {
        server.counter("cancelled") == 3 && server.counter("processed") == 1
    });
    for id in [&dropped, &told, &blocks] {
        assert_eq!(record_of(&server, id).await, (JobState::Cancelled, Some("cancelled".into())));
    }
    assert_eq!(server.ended("dropped"), 0);
    assert!(all.iter().all(|name| server.begun(name) == 1), "none is retried");
    assert_eq!((server.counter("failed"), server.counter("retried")), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn ct3_a_body_hears_of_it_within_a_second() {
    // Ordered right after a heartbeat, several times, since a busy machine delays what it will: the shortest is held against the bound.
    // Guard: `BUSY_BEAT_EVERY`.
    let server = TestServer::start();
    let _worker = worker(&server, 8);
    let beat = || -> Vec<String> {
        let all = ["ZRANGE", "hworker-workers-default", "0", "-1", "WITHSCORES"];
        server.redis().ask(&all)
    };
    let mut shortest = SOON;
    for round in 1..=4 {
        let name = format!("round {round}");
        let job = act::with(name.clone(), gate()).on(server.client()).enqueue().await.expect("in");
        server.eventually("it runs", SOON, || server.begun(&name) == 1);
        let before = beat();
        server.eventually("a heartbeat", SOON, || beat() != before);
        let ordered = Instant::now();
        cancelled(&server, &job).await;
        server.eventually("it ends", SOON, || server.counter("cancelled") == round);
        shortest = shortest.min(ordered.elapsed());
    }
    assert!(shortest < Duration::from_millis(1_250), "{shortest:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn ct4_a_cancel_cannot_be_missed() {
    // The worker is stopped when it is ordered: it obeys when it goes on. It dies: the next worker does not run the job again.
    // Guard: `cancel` in heartbeat.lua and recover.lua.
    let server = TestServer::start();
    let on = server.client();
    let first = act::with("first".into(), gate()).on(on).enqueue().await.expect("enqueued");
    let unique = act::with("second".into(), gate()).unique(Unique::by("k")).on(on);
    let second = unique.enqueue().await.expect("enqueued");
    let mut process = server.worker_process(&[("HWORKER_CONCURRENCY", "4")]);
    let run = || server.begun("first") == 1 && server.begun("second") == 1;
    server.eventually("they run", SOON, run);
    process.stop();
    assert_eq!(cancelled(&server, &first).await, JobState::Running);
    process.go_on();
    server.eventually("it is cancelled", SOON, || server.counter("cancelled") == 1);
    process.stop();
    assert_eq!(cancelled(&server, &second).await, JobState::Running);
    process.kill();
    let _next = worker(&server, 4);
    server.eventually("it does not run again", 4 * SOON, || server.counter("cancelled") == 2);
    assert_eq!((server.begun("first"), server.begun("second")), (1, 1));
    assert_eq!(record_of(&server, &second).await.0, JobState::Cancelled);
    assert_eq!(server.redis().len("hworker-jobs-default:unique"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn ct4_a_cancel_that_the_worker_has_not_heard_of_holds() {
    // Ordered, and before the next heartbeat the body returns an error, is snoozed, or the worker stops and gives the job back: none of them
    // runs again.
    // Guard: `goes_to` in settle.lua and release.lua.
    let server = TestServer::start();
    let on = server.client();
    let ends = |act: Act| vec![vec![Act::Gate("go".into()), act], vec![]];
    let error = act::with("error".into(), ends(Act::Error("no".into()))).on(on);
    let error = error.enqueue().await.expect("enqueued");
    let snoozed = act::with("snoozed".into(), ends(Act::Snooze(1))).unique(Unique::by("k")).on(on);
    let snoozed = snoozed.enqueue().await.expect("enqueued");
    let running = worker(&server, 4);
    let all = ["error", "snoozed"];
    server.eventually("they run", SOON, || all.iter().all(|name| server.begun(name) == 1));
    // As if no heartbeat came in between: the order is there, and the worker knows nothing of it.
    let workers: Vec<String> =
        server.redis().ask(&["ZRANGE", "hworker-workers-default", "0", "-1"]);
    let record = format!("hworker-worker-default:{}", workers[0]);
    let progress = format!("hworker-progress-default:{}", workers[0]);
    let leases: Vec<String> = server.redis().ask(&["HKEYS", &progress]);
    server.open("go");
    let order = ["HSET", &record, "cancel", &leases.join("\n")];
    let _: u64 = server.redis().ask(&order);
    server.eventually("both are cancelled", SOON, || server.counter("cancelled") == 2);
    assert!(all.iter().all(|name| server.begun(name) == 1), "none runs again");
    for id in [&error, &snoozed] {
        assert_eq!(record_of(&server, id).await.0, JobState::Cancelled);
    }
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ct16_pr7_from_the_command_line() {
    // By filter with a dry run; another time; another priority, which a worker keeps.
    let server = TestServer::start();
    let on = server.client();
    for number in 0..5 {
        let job = act::with(format!("n{number}"), Vec::new()).tag("acme").on(on);
        job.enqueue().await.expect("enqueued");
    }
    let last = act::with("last".into(), Vec::new()).on(on).enqueue().await.expect("enqueued");
    let filter = ["jobs", "cancel", "--with-tag", "acme"];
    let dry = call(&server, &[&filter[..], &["--dry-run"]].concat());
    assert_eq!(dry.code, 0, "{}", dry.err);
    assert_eq!(server.counter("cancelled"), 0);
    let to_high = ["jobs", "priority", last.as_str(), "--to", "high", "--yes"];
    assert_eq!(call(&server, &to_high).code, 0);
    let page = server.inspect().jobs(JobState::Waiting).page().await.expect("a page");
    assert_eq!((page.items[0].id.as_ref(), page.items[0].priority), (Some(&last), Priority::High));
    let later = ["jobs", "at", last.as_str(), "--in", "1h", "--yes"];
    assert_eq!(call(&server, &later).code, 0);
    let found = server.inspect().find(&last).await.expect("looked").expect("there");
    assert_eq!((found.state, found.priority), (JobState::Scheduled, Priority::High));
    assert_eq!(call(&server, &[&filter[..], &["--yes"]].concat()).code, 0);
    assert_eq!(server.counter("cancelled"), 5);
    let running = act::with("running".into(), gate()).on(on).enqueue().await.expect("enqueued");
    let _worker = worker(&server, 2);
    server.eventually("it runs", SOON, || server.begun("running") == 1);
    assert_eq!(call(&server, &["jobs", "cancel", running.as_str(), "--yes"]).code, 0);
    server.eventually("it is cancelled", SOON, || server.counter("cancelled") == 6);
    server.inspect().change_by_id(&last, &Action::Promote).await.expect("promoted");
    server.eventually("it ran", SOON, || server.ended("last") == 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn ct16_by_the_key_that_a_unique_job_holds() {
    // One of a key waits, another follows it, and one of another key waits. By the key: a dry run says which job is meant and changes nothing; then
    // the holder alone is cancelled, and the follower has the key; that runs, and is cancelled by the key too -> the key is free. Nobody's key, one
    // whose holder has ended and whose period has not, a key beside ids or a filter: told, and nothing is cancelled.
    // Guard: `holder` in select.rs, `held_key` in store/calls/ids.rs.
    let server = TestServer::start();
    let on = server.client();
    let control = on.control("default");
    let job = |name: &str, unique| act::with(name.into(), gate()).unique(unique).on(on);
    let holder = job("holder", Unique::by("k")).enqueue().await.expect("enqueued");
    let follows = Unique::by("k").on_conflict(OnConflict::Follow);
    let follower = job("follower", follows).enqueue().await.expect("enqueued");
    let other = job("other", Unique::by("other")).delay(HOUR).enqueue().await.expect("enqueued");
    let by_key =
        |key, more: &[&str]| call(&server, &[&["jobs", "cancel", "--key", key], more].concat());
    let dry = by_key("act:k", &["--dry-run"]);
    assert_eq!(dry.code, 0, "{}", dry.err);
    assert!(dry.out.contains("would cancel 1 jobs") && dry.err.contains(holder.as_str()));
    let lock = control.lock("act:k").await.expect("looked").expect("held");
    assert_eq!((&lock.id, lock.state), (&holder, Some(JobState::Waiting)));
    assert_eq!((lock.follower, server.counter("cancelled")), (Some(follower.clone()), 0));
    for wrong in [&["--all", "--yes"][..], &["--job", "act", "--yes"], &[other.as_str(), "--yes"]] {
        assert_eq!(by_key("act:k", wrong).code, 2, "{wrong:?}");
    }
    assert_eq!((by_key("act:none", &["--yes"]).code, server.counter("cancelled")), (3, 0));
    assert_eq!(by_key("act:k", &["--yes"]).code, 0);
    assert_eq!(record_of(&server, &holder).await.0, JobState::Cancelled);
    let _worker = worker(&server, 2);
    server.eventually("the follower runs", SOON, || server.begun("follower") == 1);
    let lock = control.lock("act:k").await.expect("looked").expect("held");
    assert_eq!((lock.id, lock.state), (follower.clone(), Some(JobState::Running)));
    assert_eq!(by_key("act:k", &["--yes"]).code, 0);
    server.eventually("it is cancelled", SOON, || server.counter("cancelled") == 2);
    assert_eq!(record_of(&server, &follower).await.0, JobState::Cancelled);
    assert!(control.lock("act:k").await.expect("looked").is_none(), "the key is free");
    assert_eq!(server.begun("holder"), 0);
    let found = server.inspect().find(&other).await.expect("looked").expect("there");
    assert_eq!(found.state, JobState::Scheduled, "one of another key");
    let ended = act::with("ended".into(), Vec::new()).unique(Unique::by("day").lasting(HOUR));
    ended.on(on).enqueue().await.expect("enqueued");
    server.eventually("it ends", SOON, || server.ended("ended") == 1);
    server
        .eventually_async("its period has not", SOON, async || {
            let lock = control.lock("act:day").await.expect("looked").expect("held");
            lock.state.is_none()
        })
        .await;
    assert_eq!((by_key("act:day", &["--yes"]).code, server.counter("cancelled")), (3, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bulk_is_spread_over_a_time() {
    // Due at equal distances in the order of the bulk, the first now; no time, or a job with one of its own, is refused.
    let server = TestServer::start();
    let jobs = |count: usize| (0..count).map(|number| act::with(format!("n{number}"), Vec::new()));
    let bulk: Bulk = jobs(5).collect();
    let ids = bulk.spread(HOUR).on(server.client()).enqueue().await.expect("enqueued");
    let page = server.inspect().jobs(JobState::Scheduled).page().await.expect("a page");
    let due: Vec<_> = ids
        .iter()
        .map(|id| page.items.iter().find(|job| job.id.as_ref() == Some(id)).and_then(|job| job.at))
        .map(|at| at.expect("it is scheduled"))
        .collect();
    assert!(due.windows(2).all(|two| two[1] - two[0] == 720_000), "{due:?}");
    for wrong in [
        jobs(2).collect::<Bulk>().spread(Duration::ZERO),
        jobs(2).map(|job| job.delay(HOUR)).collect::<Bulk>().spread(HOUR),
    ] {
        assert!(matches!(wrong.on(server.client()).enqueue().await, Err(Error::Config(_))));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lc1_a_job_that_is_not_started_in_time_expires() {
    // Its record says so, and it is not failed; one that is delayed has its time from when it is due; one that has started once goes on.
    // Guard: the look at `expires_at` in admit.rs.
    let server = TestServer::start();
    let on = server.client();
    let short = Duration::from_millis(1);
    let late = act::with("late".into(), Vec::new()).expires_in(short).on(on);
    let late = late.enqueue().await.expect("enqueued");
    let fits = act::with("fits".into(), Vec::new()).expires_in(HOUR).on(on);
    fits.enqueue().await.expect("enqueued");
    let delayed = act::with("delayed".into(), Vec::new()).delay(Duration::from_secs(1));
    let delayed = delayed.expires_in(HOUR).unique(Unique::by("k")).on(on);
    delayed.enqueue().await.expect("enqueued");
    let plan = vec![vec![Act::RetryIn(1_500)], vec![]];
    let again = act::with("again".into(), plan).expires_in(Duration::from_secs(1)).on(on);
    let _worker = worker(&server, 4);
    again.enqueue().await.expect("enqueued");
    let plan = vec![vec![Act::Snooze(1_500)], vec![]];
    let snoozed = act::with("snoozed".into(), plan).expires_in(Duration::from_secs(1)).on(on);
    snoozed.enqueue().await.expect("enqueued");
    let ended = || ["fits", "delayed"].iter().all(|name| server.ended(name) == 1);
    let again = || ["again", "snoozed"].iter().all(|name| server.begun(name) == 2);
    server.eventually("the others ran", SOON, || ended() && again());
    assert_eq!(
        (server.begun("late"), server.counter("expired"), server.counter("failed")),
        (0, 1, 0)
    );
    let found = server.inspect().find(&late).await.expect("looked").expect("a record");
    assert_eq!((found.state, found.kind.as_deref()), (JobState::Expired, Some("expired")));
    // An operator lets it run all the same.
    server.inspect().change_by_id(&late, &Action::Retry).await.expect("changed");
    server.eventually("it ran", SOON, || server.ended("late") == 1);
    let none = act::with("none".into(), Vec::new()).expires_in(Duration::ZERO).on(on);
    assert!(matches!(none.enqueue().await, Err(Error::Config(_))));
}

/// It has a second to start, and there is one of each name.
#[hworker::job(expires = "1s", unique)]
async fn within_a_second(name: String, context: Context, #[inject] runs: Runs) {
    runs.note(&name, "begin", 0, &context);
}

#[tokio::test(flavor = "multi_thread")]
async fn lc1_uq11_a_unique_job_that_its_type_lets_expire_frees_its_key() {
    // Of a type that expires after a second, and is unique, one waits for longer than that, and one is pushed that is too old already -> neither
    // begins, both are expired, and their keys are free: another is new, and runs.
    // Guard: the look at `expires_at` in admit.rs.
    let server = TestServer::start();
    let job = |name: &str| within_a_second::with(name.into()).on(server.client());
    let late = job("late").enqueue().await.expect("enqueued");
    let kept = job("late").submit().await.expect("submitted");
    assert_eq!(kept.submitted, Submitted::Exists(Some(JobState::Waiting)));
    let enqueued = server.redis().time_us();
    let pushed =
        r#"{"id":"pushed","job":"within_a_second","args":{"name":"pushed"},"expires_at":1}"#;
    let _: u64 = server.redis().ask(&["LPUSH", "hworker-jobs-default", pushed]);
    server.eventually("both are too old", SOON, || server.redis().time_us() > enqueued + 1_100_000);
    let _worker = server.run_worker::<within_a_second>();
    server.eventually("they expire", SOON, || server.counter("expired") == 2);
    for id in [&late, &JobId::from("pushed")] {
        assert_eq!(record_of(&server, id).await, (JobState::Expired, Some("expired".into())));
    }
    assert_eq!(["late", "pushed"].map(|name| server.begun(name)), [0, 0]);
    assert_eq!(server.redis().len("hworker-jobs-default:unique"), 0);
    let again = job("late").expires_in(HOUR).submit().await.expect("submitted");
    assert_eq!(again.submitted, Submitted::New);
    server.eventually("it runs", SOON, || server.begun("late") == 1);
    assert_eq!(server.counter("failed"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn ct2_a_job_with_a_name_that_is_none_is_cancelled_with_its_record() {
    // A producer wrote a name with a blank: its record and the place of it go together.
    // Guard: `is_name` in cancel.rs.
    let server = TestServer::start();
    let job = r#"{"id":"odd","job":"Send Mail","args":{}}"#;
    let _: u64 = server.redis().ask(&["LPUSH", "hworker-jobs-default", job]);
    cancelled(&server, &"odd".into()).await;
    assert_eq!(record_of(&server, &"odd".into()).await.0, JobState::Cancelled);
    let places: Vec<String> =
        server.redis().ask(&["ZRANGE", "hworker-cancelled-default", "0", "-1"]);
    assert_eq!(places, ["- ? odd"]);
    server.inspect().change_by_id(&"odd".into(), &Action::Delete).await.expect("deleted");
    assert_eq!(server.redis().len("hworker-record-default"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn lc1_a_job_that_is_put_off_by_hand_expires_as_much_later() {
    // It would expire 10 s after it is due: put off by a day, it does so 10 s after that.
    // Guard: `expires_later`.
    let server = TestServer::start();
    let job = act::with("late".into(), Vec::new()).expires_in(Duration::from_secs(10));
    let id = job.on(server.client()).enqueue().await.expect("enqueued");
    let put_off = Action::Reschedule(hworker::When::In(24 * HOUR));
    server.inspect().change_by_id(&id, &put_off).await.expect("put off");
    let job = server.inspect().find(&id).await.expect("looked").expect("it is there");
    let envelope: serde_json::Value = serde_json::from_slice(job.payload()).expect("an envelope");
    let [ready, expires] = ["ready_at", "expires_at"].map(|field| envelope[field].as_u64());
    assert_eq!(expires, ready.map(|ready| ready + 10_000));
}
