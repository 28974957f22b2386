//! Rows S7, G6, CT2 to CT4, CT16, PR7, LC1: cancelling jobs wherever they are, changing when they run, and those that expire.

use std::time::Duration;

use hworker::{Action, Bulk, Context, Error, JobId, JobState, Priority, Unique};
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
