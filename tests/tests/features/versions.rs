//! Rows LC4, LC5 and LC6: versions of arguments, renamed job types, and jobs that a worker does not know. Old and new builds beside each other are
//! in `faults::deploys`, what a file of job types is compared with in the library.

use std::time::Duration;

use hworker::{
    Action, Args, BoxError, Bulk, Changed, Context, Edit, Error, JobInfo, JobState, Outcome,
};
use hworker_tests::{DOCUMENTED_KEY, InProcess, Records as _, Runs, TestServer, weigh};
use serde_json::{Value, json};

use crate::cli::call;
use crate::{SOON, pages};

const JOBS: &str = "hworker-jobs-default";
const AT_ONCE: Duration = Duration::from_millis(1);

/// Version 2 calls `user` what it is, version 3 counts in cents.
fn upgrade(from: u32, mut args: Args) -> Result<Args, BoxError> {
    if from < 2 {
        args.rename("user", "user_id");
    }
    if from < 3 {
        let euros: u64 = args.get("euros")?;
        assert_ne!(euros, 13, "an unlucky number");
        args.set("cents", euros * 100)?;
        args.remove("euros");
    }
    Ok(args)
}

/// Fails in its first attempt.
#[hworker::job(version = 3, upgrade = upgrade, backoff = "0s")]
async fn charge(user_id: u64, cents: u64, context: Context, #[inject] runs: Runs) -> Outcome {
    runs.note("charge", &format!("{user_id} {cents}"), 0, &context);
    if context.attempt() == 1 {
        Outcome::Retry("the bank is closed".into())
    } else {
        Outcome::Success
    }
}

/// One of a user at a time, and at most two of a user.
#[hworker::job(version = 3, upgrade = upgrade, unique(key = user_id))]
async fn claim(user_id: u64, cents: u64, context: Context, #[inject] runs: Runs) {
    runs.note("claim", &format!("{user_id} {cents}"), 0, &context);
}

#[hworker::job(version = 3, upgrade = upgrade, concurrency(limit = 1, key = user_id))]
async fn limited(user_id: u64, cents: u64, context: Context, #[inject] runs: Runs) {
    runs.note("limited", &format!("{user_id} {cents}"), 0, &context);
}

#[hworker::job(name = "seal", type = SealOnce, encrypted)]
async fn seal_once(user: u64, euros: u64) {
    let _ = (user, euros);
}

#[hworker::job(name = "seal", type = SealNow, encrypted, version = 3, upgrade = upgrade)]
async fn seal_now(user_id: u64, cents: u64, context: Context, #[inject] runs: Runs) {
    runs.note("seal", &format!("{user_id} {cents}"), 0, &context);
}

/// Of a version that reads what the first one wrote.
#[hworker::job(version = 2, aliases = ["spelled_once"])]
async fn spelled(text: String, context: Context, #[inject] runs: Runs) {
    runs.note("spelled", &text, 0, &context);
}

#[hworker::job(name = "spelled", type = SpelledLater, version = 3)]
async fn spelled_later(text: String, context: Context, #[inject] runs: Runs) {
    runs.note("spelled later", &text, 0, &context);
}

/// As another program, or a producer of an older release, would enqueue it.
fn push(server: &TestServer, envelope: &str) {
    let _: u64 = server.redis().ask(&["LPUSH", JOBS, envelope]);
}

fn args_of(job: &JobInfo) -> Value {
    serde_json::from_str(job.args()).expect("JSON")
}

async fn listed(server: &TestServer, state: JobState) -> Vec<JobInfo> {
    pages(server.inspect().jobs(state)).await.1
}

#[tokio::test(flavor = "multi_thread")]
async fn lc4_older_arguments_are_upgraded_for_each_attempt() {
    // Jobs of all versions, each of which fails once -> each body has arguments of the newest, in both attempts, and what is stored stays as it
    // was enqueued.
    // Guard: `upgraded` in decode.rs.
    let server = TestServer::start();
    let first = r#"{"id":"1","job":"charge","args":{"euros":1,"user":7}}"#;
    let second = r#"{"id":"2","job":"charge","args_v":2,"args":{"user_id":7,"euros":2}}"#;
    push(&server, first);
    push(&server, second);
    charge::with(7, 300).on(server.client()).enqueue().await.expect("enqueued");
    let _worker = InProcess::run(server.worker().register::<charge>().keep_done(10));
    server.eventually("all run twice", SOON, || server.runs_of("charge").len() == 6);
    let mut ran: Vec<_> = server.runs_of("charge").into_iter().map(|run| run.what).collect();
    ran.sort();
    assert_eq!(ran, ["7 100", "7 100", "7 200", "7 200", "7 300", "7 300"]);
    server.eventually("all are done", SOON, || server.redis().len("hworker-done-default") == 3);
    let mut done = listed(&server, JobState::Done).await;
    done.sort_by_key(JobInfo::args_version);
    let kept: Vec<_> = done.iter().map(|job| (job.args_version(), args_of(job))).collect();
    let expected = [
        (1, json!({ "euros": 1, "user": 7 })),
        (2, json!({ "user_id": 7, "euros": 2 })),
        (3, json!({ "user_id": 7, "cents": 300 })),
    ];
    assert_eq!(kept, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn lc4_an_upgrade_that_fails_parks_the_job_and_hurts_nobody() {
    // Arguments that cannot be upgraded, and some at which it panics -> parked and then broken as arguments that do not fit, with the reason and
    // without their values, and the worker goes on; an operator mends and requeues them.
    // Guard: `panic::catch` in `upgraded` of decode.rs; `unfit` in run.rs.
    let server = TestServer::start();
    let missing = r#"{"id":"1","job":"charge","args":{"user":90210}}"#;
    let wrong = r#"{"id":"2","job":"charge","args":{"user":7,"euros":"s3cret"}}"#;
    let panics = r#"{"id":"3","job":"charge","args":{"user":7,"euros":13}}"#;
    let unfit = r#"{"id":"4","job":"claim","args":{"user":"s3cret","euros":1}}"#;
    for job in [missing, wrong, panics, unfit] {
        push(&server, job);
    }
    let worker = server.worker().register::<charge>().register::<claim>().register::<weigh>();
    let _worker = InProcess::run(worker.unknown_for(AT_ONCE));
    let broken = async || server.inspect().broken().await.expect("the broken");
    server.eventually_async("all are broken", SOON, async || broken().await.len() == 4).await;
    for (payload, why) in [
        (missing, "their upgrade from version 1 failed: there is no argument `euros`"),
        (
            wrong,
            "failed: the argument `euros`: invalid type: string, expected u64 at line 1 column 8",
        ),
        (panics, "failed: it panicked: assertion `left != right` failed: an unlucky number"),
        (unfit, "the arguments do not fit the job: invalid type: string, expected u64"),
    ] {
        let broken = broken().await;
        let found = broken.iter().find(|broken| broken.payload == payload.as_bytes());
        let reason = &found.expect("byte for byte").reason;
        assert!(
            reason.contains(why) && !reason.contains("s3cret") && !reason.contains("90210"),
            "{reason}"
        );
    }
    weigh::with("goes on".into(), "1".into())
        .on(server.client())
        .enqueue()
        .await
        .expect("enqueued");
    server.eventually("the worker goes on", SOON, || server.runs_of("goes on").len() == 1);
    // What is set is what the stored version calls it, and has to be upgraded.
    let find = async || {
        listed(&server, JobState::Broken)
            .await
            .into_iter()
            .filter(|job| job.payload() == missing.as_bytes())
            .collect::<Vec<_>>()
    };
    let edit = |value: &str| Action::Edit(Edit::new().arg("euros", value));
    let refused = server.inspect().change(&find().await, &edit("\"one\"")).await;
    assert!(matches!(refused, Err(Error::Config(_))), "{refused:?}");
    let mended = server.inspect().change(&find().await, &edit("1")).await.expect("changed");
    assert_eq!(mended, [Changed::Done]);
    server.eventually("it runs", SOON, || server.runs_of("charge").len() == 2);
    assert!(server.runs_of("charge").iter().all(|run| run.what == "90210 100"));
}

#[tokio::test(flavor = "multi_thread")]
async fn lc4_keys_of_older_arguments_are_those_of_the_newest() {
    // A job of today holds its key, and older ones, which call it otherwise, are pushed by hand -> the one of the same key gives way, and that of
    // another runs; one with a limit by key is routed to its list and runs.
    // Guard: `submitted` and `elsewhere` in admit.rs take the arguments from `Job::args`.
    let server = TestServer::start();
    let holder = claim::with(7, 300).delay(Duration::from_secs(3600)).on(server.client());
    holder.enqueue().await.expect("enqueued");
    push(&server, r#"{"id":"same","job":"claim","args":{"user":7,"euros":1}}"#);
    push(&server, r#"{"id":"other","job":"claim","args_v":2,"args":{"user_id":8,"euros":2}}"#);
    push(&server, r#"{"id":"limited","job":"limited","args":{"user":9,"euros":4}}"#);
    let worker = server.worker().register::<claim>().register::<limited>();
    let _worker = InProcess::run(worker.keep_done(10));
    let ended = async |state: JobState| {
        let jobs = listed(&server, state).await;
        let mut ids: Vec<_> =
            jobs.iter().filter_map(|job| job.id.as_ref()).map(ToString::to_string).collect();
        ids.sort();
        ids
    };
    server
        .eventually_async("all end", SOON, async || {
            ended(JobState::Done).await == ["limited", "other"]
                && ended(JobState::Cancelled).await == ["same"]
        })
        .await;
    let what =
        |name: &str| server.runs_of(name).into_iter().map(|run| run.what).collect::<Vec<_>>();
    assert_eq!((what("claim"), what("limited")), (vec!["8 200".into()], vec!["9 400".to_owned()]));
}

#[tokio::test(flavor = "multi_thread")]
async fn lc4_encrypted_arguments_are_upgraded_too() {
    // Enqueued encrypted by an older build -> decrypted, then upgraded; one of this build says its version and is encrypted.
    // Guard: `Opened` before `upgraded` in decode.rs.
    let server = TestServer::start();
    let client = server.client_with_keys(&[DOCUMENTED_KEY]);
    SealOnce::with(7, 3).on(&client).enqueue().await.expect("enqueued");
    SealNow::with(8, 500).on(&client).enqueue().await.expect("enqueued");
    let stored: Vec<String> = server.redis().ask(&["LRANGE", JOBS, "0", "-1"]);
    assert!(stored.iter().all(|job| job.contains("$sealed")), "{stored:?}");
    let versions: Vec<_> = stored.iter().map(|job| job.contains(r#","args_v":3,"#)).collect();
    assert_eq!(versions, [true, false]);
    let _worker = InProcess::run(server.worker().client(&client).register::<SealNow>());
    server.eventually("both run", SOON, || server.runs_of("seal").len() == 2);
    let mut ran: Vec<_> = server.runs_of("seal").into_iter().map(|run| run.what).collect();
    ran.sort();
    assert_eq!(ran, ["7 300", "8 500"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn lc4_the_version_is_written_where_it_is_not_the_first() {
    // One job, a bulk, an entry of cron, by name -> `args_v` says the version of the type; of a type without one there is no such field.
    // Guard: `Definition::args_v`.
    let server = TestServer::start();
    let client = server.client();
    let bulk = Bulk::new().add(charge::with(7, 1)).add(spelled::with("x".into()));
    bulk.add(weigh::with("x".into(), "x".into())).on(client).enqueue().await.expect("enqueued");
    let by_name = |args: &str| client.job_by_name("charge", args);
    let now = r#"{"user_id":7,"cents":1}"#;
    by_name(r#"{"user":7,"euros":1}"#).enqueue().await.expect("enqueued");
    by_name(now).args_version(3).enqueue().await.expect("enqueued");
    let none = by_name(now).args_version(0).enqueue().await;
    assert!(matches!(none, Err(Error::Config(_))), "{none:?}");
    let mut waiting: Vec<String> = server.redis().ask(&["LRANGE", JOBS, "0", "-1"]);
    waiting.reverse();
    let version =
        |job: &String| serde_json::from_str::<Value>(job).expect("JSON").get("args_v").cloned();
    let versions: Vec<_> = waiting.iter().map(version).collect();
    assert_eq!(versions, [Some(json!(3)), Some(json!(2)), None, None, Some(json!(3))]);

    let cron = |name: &str| client.control("default").cron(name);
    let hour = Duration::from_secs(3600);
    cron("typed").upsert(charge::with(7, 1).every(hour)).await.expect("set");
    cron("named").upsert(by_name(now).args_version(3).every(hour)).await.expect("set");
    cron("old").upsert(by_name(r#"{"user":7,"euros":1}"#).every(hour)).await.expect("set");
    for (name, version) in [("typed", 3), ("named", 3), ("old", 1)] {
        let id = cron(name).run_now().await.expect("asked").expect("enqueued");
        let run = server.inspect().find(&id).await.expect("looked for").expect("it waits");
        assert_eq!(run.args_version(), version, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lc4_tools_show_the_version_and_enqueue_the_one_of_today() {
    // The program `hworker` knows the version from the manifest: it enqueues that, shows it, and checks an edit only where it is the stored one.
    // Guard: `enqueue::checked`; `check_edits` in schema.rs.
    let server = TestServer::start();
    let worker = InProcess::run(server.worker().register::<charge>());
    server.eventually("its type is written down", SOON, || {
        server.redis().len("hworker-meta:jobs") == 1
    });
    worker.stop().await;
    let types = server.client().job_types().await.expect("job types");
    assert_eq!((types[0].version, types[0].upgrades), (3, true));
    let parameters: Vec<_> = types[0].parameters.iter().map(|one| (&*one.name, &*one.ty)).collect();
    assert_eq!(parameters, [("user_id", "u64"), ("cents", "u64")]);
    let listed_types = call(&server, &["schema", "ls"]);
    assert_eq!(listed_types.lines()[0][..2], ["charge", "3"], "{}", listed_types.out);
    let shown = call(&server, &["schema", "show", "charge"]);
    assert!(shown.out.contains("3, older arguments are upgraded"), "{}", shown.out);

    let old = call(&server, &["enqueue", "charge", "--args", r#"{"user":7,"euros":1}"#]);
    assert_eq!(old.code, 2, "{}", old.err);
    let now = r#"{"user_id":7,"cents":1}"#;
    let unchecked = ["--no-check", "--args-version", "3"];
    for how in [&[][..], &unchecked] {
        let words = [&["enqueue", "charge", "--args", now], how].concat();
        assert_eq!(call(&server, &words).code, 0, "{words:?}");
    }
    let jobs = listed(&server, JobState::Waiting).await;
    assert_eq!(jobs.iter().map(JobInfo::args_version).collect::<Vec<_>>(), [3, 3]);
    let id = jobs[0].id.as_ref().expect("an id").as_str();
    let shown = call(&server, &["jobs", "show", id]);
    assert!(shown.out.contains("\nargs_v    3\n"), "{}", shown.out);

    push(&server, r#"{"id":"old","job":"charge","args":{"user":7,"euros":1}}"#);
    let shown = call(&server, &["jobs", "show", "old"]);
    assert!(shown.out.contains("\nargs_v    1\n"), "{}", shown.out);
    let edited = call(&server, &["jobs", "edit", "old", "--set", "args.euros=5", "--yes"]);
    assert!(edited.code == 0 && edited.err.contains("is not checked"), "{}", edited.err);
    let wrong = call(&server, &["jobs", "edit", id, "--set", "args.cents=x", "--yes"]);
    assert_eq!(wrong.code, 2, "{}", wrong.err);
    let _worker = InProcess::run(server.worker().register::<charge>());
    server.eventually("all run", SOON, || server.runs_of("charge").len() == 6);
    assert_eq!(server.runs_of("charge").iter().filter(|run| run.what == "7 500").count(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn lc5_a_renamed_job_runs_under_its_old_name() {
    // A job waits and one is delayed under the name that the type had -> both run, and are counted under the new name.
    // Guard: `Registry::by_name`.
    let server = TestServer::start();
    let once = |text: &str| {
        server.client().job_by_name("spelled_once", json!({ "text": text }).to_string())
    };
    once("waits").enqueue().await.expect("enqueued");
    once("comes").delay(Duration::from_millis(50)).enqueue().await.expect("enqueued");
    let _worker = server.run_worker::<spelled>();
    server.eventually("both run", SOON, || server.runs_of("spelled").len() == 2);
    server.drained(SOON);
    let counters = server.inspect().statistics(None).await.expect("the counters");
    assert_eq!(counters.get("processed:spelled"), Some(&2), "{counters:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn lc6_what_a_worker_does_not_know_is_parked_and_loses_nothing() {
    // An unknown type and a newer version of the arguments -> parked, with no attempt and no error in them; a worker that knows them runs them. If
    // none comes they are broken, with the reason.
    // Guard: `newer` in decode.rs, `record::parked`.
    let server = TestServer::start();
    let newer = r#"{"id":"newer","job":"spelled","args_v":3,"args":{"text":"of tomorrow"}}"#;
    let unknown = r#"{"id":"unknown","job":"charge","args_v":3,"args":{"user_id":7,"cents":1}}"#;
    let nobody = r#"{"id":"nobody","job":"spelled","args_v":4,"args":{"text":"of next year"}}"#;
    for job in [newer, unknown, nobody] {
        push(&server, job);
    }
    let old = server.run_worker::<spelled>();
    let parked =
        || -> Vec<String> { server.redis().ask(&["ZRANGE", "hworker-parked-default", "0", "-1"]) };
    server.eventually("all are parked", SOON, || parked().len() == 3);
    assert!(parked().iter().all(|job| [newer, unknown, nobody].contains(&job.as_str())));
    let new = server.worker().register::<SpelledLater>().register::<charge>();
    let new = InProcess::run(new.unknown_for(SOON * 10));
    server.eventually("what is known runs", SOON, || {
        server.runs_of("spelled later").len() == 1 && server.runs_of("charge").len() == 2
    });
    assert_eq!(server.runs_of("charge")[0].attempt, 1);
    assert_eq!(server.runs_of("spelled").len(), 0);
    assert_eq!(parked(), [nobody]);
    old.stop().await;
    new.stop().await;

    let _impatient =
        InProcess::run(server.worker().register::<SpelledLater>().unknown_for(AT_ONCE));
    let broken = async || server.inspect().broken().await.expect("the broken");
    server.eventually_async("it is broken", SOON, async || broken().await.len() == 1).await;
    let reason = &broken().await[0].reason;
    assert!(
        reason.contains("version 4 of the arguments of job `spelled` is unknown, 3 is known"),
        "{reason}"
    );
}
