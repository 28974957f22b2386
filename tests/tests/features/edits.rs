//! Changes of jobs in place: each is made once, to the very job that was seen, and to no other.

use std::collections::HashSet;
use std::time::{Duration, SystemTime};

use hworker::{
    Action, Bulk, Changed, Client, Edit, Error, JobId, JobInfo, JobState, Order, Outcome, When,
};
use hworker_tests::{Act, InProcess, Records as _, TestServer, act, weigh};
use serde_json::json;

use crate::cli::call;
use crate::{SOON, command, ids, pages};

const JOBS: &str = "hworker-jobs-default";
const HOUR_MS: u64 = 3_600_000;

/// Always fails for good, with this text.
#[hworker::job]
async fn objects(text: String) -> Outcome {
    Outcome::Failure(text)
}

/// Its arguments are encrypted.
#[hworker::job(encrypted)]
async fn whispers(text: String) {
    let _ = text;
}

/// Takes even numbers, and panics at one of them.
#[derive(serde::Serialize, serde::Deserialize)]
#[serde(try_from = "u32", into = "u32")]
#[derive(Clone)]
struct Even(u32);

impl From<Even> for u32 {
    fn from(even: Even) -> Self {
        even.0
    }
}

impl TryFrom<u32> for Even {
    type Error = String;

    fn try_from(number: u32) -> Result<Self, String> {
        assert_ne!(number, 90_213, "a bug");
        if number.is_multiple_of(2) { Ok(Self(number)) } else { Err(format!("{number} is odd")) }
    }
}

#[hworker::job(aliases = ["picky_once"])]
async fn picky(n: u8, even: Even) {
    let _ = (n, even);
}

async fn change(server: &TestServer, jobs: &[JobInfo], action: Action) -> Vec<Changed> {
    let changed = server.inspect().change(jobs, &action).await;
    changed.unwrap_or_else(|error| panic!("{error}"))
}

async fn listed(server: &TestServer, state: JobState) -> Vec<JobInfo> {
    pages(server.inspect().jobs(state).order(Order::Next).limit(1000)).await.1
}

async fn find(server: &TestServer, id: &JobId) -> Option<JobInfo> {
    server.inspect().find(id).await.expect("asked")
}

/// A job of a type that no worker knows, and nobody takes.
fn envelope(number: usize) -> Vec<u8> {
    let id = format!("job-{number:04}");
    json!({"v": 1, "id": id, "job": "elsewhere", "args": {"n": number}}).to_string().into_bytes()
}

fn fill(server: &TestServer, numbers: std::ops::Range<usize>) {
    command(server, &["LPUSH", JOBS], numbers.map(envelope));
}

/// What waits, the next first.
fn waiting(server: &TestServer) -> Vec<String> {
    let mut all: Vec<String> = server.redis().ask(&["LRANGE", JOBS, "0", "-1"]);
    all.reverse();
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn f11_a_failed_job_runs_again_once() {
    // Retry by id -> it leaves the failed ones, runs as the next attempt, once; a second retry finds nothing. With `Reset` it begins with
    // attempt 1 and without its errors.
    // Guard: `again` in `change.rs`; `edit.lua`.
    let server = TestServer::start();
    let _worker = server.run_worker::<act>();
    let queue = server.inspect();
    for (name, action, attempt) in [("retried", Action::Retry, 2), ("reset", Action::Reset, 1)] {
        let plan = vec![vec![Act::Failure("no".into())], vec![Act::RetryIn(HOUR_MS)]];
        let id = server.enqueue(name, plan).await;
        let is_failed =
            async || find(&server, &id).await.is_some_and(|job| job.state == JobState::Failed);
        server.eventually_async("it fails", SOON, is_failed).await;
        queue.change_by_id(&id, &action).await.expect("changed");
        server.eventually("it runs again", SOON, || server.begun(name) == 2);
        server.eventually("and is tried later", SOON, || {
            server.redis().len("hworker-scheduled-default") == 1
        });
        assert_eq!(server.runs_of(name)[1].attempt, attempt, "{name}");
        assert_eq!(server.redis().total("hworker-record-default*"), 0);
        let job = find(&server, &id).await.expect("it is tried later");
        assert_eq!((job.attempt, job.errors().len()), (attempt + 1, attempt as usize), "{name}");
        assert!(job.envelope().contains(r#""requeues":1"#), "{}", job.envelope());
        queue.change_by_id(&id, &Action::Delete).await.expect("deleted");
        for action in [Action::Retry, Action::Delete, Action::Promote] {
            let error = queue.change_by_id(&id, &action).await.expect_err("it is not there");
            assert!(matches!(error, Error::NotFound { .. }), "{error}");
        }
    }
    assert!(server.leftovers("default").is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn operate_6_a_hundred_retries_are_one_run() {
    // 100 operators retry one failed job at once, 100 others a waiting one -> one is done, the others are told, and it runs once more.
    // Guard: the `ZREM` and `LSET` of `edit.lua`.
    let server = TestServer::start();
    let worker = server.run_worker::<act>();
    server.enqueue("failed", vec![vec![Act::Failure("no".into())], vec![]]).await;
    server.eventually("it fails", SOON, || server.counter("failed") == 1);
    worker.stop().await;
    server.enqueue("waits", vec![vec![]]).await;
    let both = [listed(&server, JobState::Failed).await, listed(&server, JobState::Waiting).await];
    for (jobs, action) in both.into_iter().zip([Action::Retry, Action::MoveTo("elsewhere".into())])
    {
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..100 {
            let (queue, jobs, action) = (server.inspect(), jobs.clone(), action.clone());
            tasks.spawn(async move { queue.change(&jobs, &action).await.expect("changed")[0] });
        }
        let changed = tasks.join_all().await;
        assert_eq!(changed.iter().filter(|it| **it == Changed::Done).count(), 1);
        assert_eq!(changed.iter().filter(|it| **it == Changed::Missing).count(), 99);
    }
    assert_eq!(server.redis().len("hworker-jobs-elsewhere"), 1);
    let _worker = InProcess::run(server.worker().register::<act>().extra_queue("elsewhere"));
    server
        .eventually("they run", SOON, || (server.ended("failed"), server.ended("waits")) == (1, 1));
    assert_eq!((server.begun("failed"), server.begun("waits")), (2, 1));
    assert_eq!(server.inspect().counts().await.expect("counts"), hworker::Counts::default());
}

#[tokio::test(flavor = "multi_thread")]
async fn operate_7_what_changed_since_it_was_seen_is_left_alone() {
    // A failed job was retried and failed again, a scheduled one has another time, a waiting one started -> a change from the old page does
    // nothing and says so; one from a new page is made.
    // Guard: `seen` in `edit.lua`.
    let server = TestServer::start();
    let worker = server.run_worker::<objects>();
    objects::with("no".into()).on(server.client()).enqueue().await.expect("enqueued");
    server.eventually("it fails", SOON, || server.counter("failed") == 1);
    let seen = listed(&server, JobState::Failed).await;
    assert_eq!(change(&server, &seen, Action::Retry).await, [Changed::Done]);
    server.eventually("it fails again", SOON, || server.counter("failed") == 2);
    for action in [Action::Retry, Action::Delete, Action::Reset, Action::MoveTo("x".into())] {
        assert_eq!(change(&server, &seen, action).await, [Changed::Changed]);
    }
    let seen = listed(&server, JobState::Failed).await;
    assert_eq!(seen[0].attempt, 2);
    assert_eq!(change(&server, &seen, Action::Delete).await, [Changed::Done]);

    let job = act::with("later".into(), Vec::new()).delay(Duration::from_secs(600));
    job.on(server.client()).enqueue().await.expect("enqueued");
    let seen = listed(&server, JobState::Scheduled).await;
    let at = Action::Reschedule(When::In(Duration::from_secs(900)));
    assert_eq!(change(&server, &seen, at.clone()).await, [Changed::Done]);
    // With the time its bytes changed, so it is not known for the same.
    for action in [Action::Promote, Action::Delete, at] {
        assert_eq!(change(&server, &seen, action).await, [Changed::Missing]);
    }
    worker.stop().await;

    server.enqueue("waits", vec![vec![]]).await;
    let seen = listed(&server, JobState::Waiting).await;
    let _worker = server.run_worker::<act>();
    server.eventually("it runs", SOON, || server.ended("waits") == 1);
    for action in [Action::Delete, Action::Promote, Action::Edit(Edit::new().tags(["x"]))] {
        assert_eq!(change(&server, &seen, action).await, [Changed::Missing]);
    }
    assert_eq!(server.inspect().counts().await.expect("counts").waiting, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn f12_exactly_the_jobs_that_are_meant_go() {
    // Every third of 30 jobs in each state is deleted -> those are gone, with their records, and the others stand in their order and with
    // their bytes.
    // Guard: `edit.lua` takes by exact bytes.
    let server = TestServer::start();
    let worker = server.run_worker::<objects>();
    let jobs = (0..30).map(|number| objects::with(format!("no {number}")).on(server.client()));
    jobs.collect::<Bulk>().enqueue().await.expect("enqueued");
    server.eventually("all fail", SOON, || server.counter("failed") == 30);
    worker.stop().await;
    fill(&server, 0..30);
    for number in 0..30 {
        let payload = envelope(number + 100);
        let score = (4_000_000_000_000 + number).to_string();
        command(&server, &["ZADD", "hworker-scheduled-default", &score], [payload.clone()]);
        command(&server, &["ZADD", "hworker-parked-default", &score], [payload.clone()]);
        command(&server, &["HSET", "hworker-broken-default"], [payload, b"1 1 x".to_vec()]);
    }
    for state in [
        JobState::Failed,
        JobState::Waiting,
        JobState::Scheduled,
        JobState::Parked,
        JobState::Broken,
    ] {
        let all = listed(&server, state).await;
        let (gone, stay): (Vec<_>, Vec<_>) =
            all.into_iter().enumerate().partition(|(index, _)| index % 3 == 0);
        let gone: Vec<_> = gone.into_iter().map(|(_, job)| job).collect();
        assert_eq!(change(&server, &gone, Action::Delete).await, [Changed::Done; 10], "{state}");
        assert_eq!(change(&server, &gone, Action::Delete).await, [Changed::Missing; 10], "{state}");
        let left = listed(&server, state).await;
        let bytes = |job: &JobInfo| job.payload().to_vec();
        assert!(left.iter().map(bytes).eq(stay.iter().map(|(_, job)| bytes(job))), "{state}");
    }
    assert_eq!(server.redis().len("hworker-record-default"), 20);
    let counts = server.inspect().counts().await.expect("counts");
    let counts = [counts.failed, counts.waiting, counts.scheduled, counts.parked, counts.broken];
    assert_eq!(counts, [20; 5]);
}

#[tokio::test(flavor = "multi_thread")]
async fn rt15_ct11_ct13_a_page_of_jobs_is_retried_deleted_or_moved() {
    // Of 300 failed and 300 waiting jobs a page of 100 each is retried, deleted, and moved -> each is where it should be, once, and a page
    // of 101 is refused before anything is changed.
    // Guard: `Inspect::change`.
    let server = TestServer::start();
    let worker = server.run_worker::<objects>();
    let jobs = (0..300).map(|number| objects::with(format!("no {number}")).on(server.client()));
    jobs.collect::<Bulk>().enqueue().await.expect("enqueued");
    server.eventually("all fail", SOON, || server.counter("failed") == 300);
    worker.stop().await;
    let failed = listed(&server, JobState::Failed).await;
    let error = server.inspect().change(&failed[..101], &Action::Delete).await;
    assert!(matches!(error, Err(Error::Config(_))), "{error:?}");
    let error = server.client().inspect("another").change(&failed[..1], &Action::Delete).await;
    assert!(matches!(error, Err(Error::Config(_))), "{error:?}");
    let error = server.inspect().change(&failed[..1], &Action::MoveTo("no name".into())).await;
    assert!(matches!(error, Err(Error::Config(_))), "{error:?}");
    assert_eq!(server.redis().len("hworker-failed-default"), 300);
    for (page, action) in
        failed.chunks(100).zip([Action::Retry, Action::Delete, Action::MoveTo("elsewhere".into())])
    {
        assert_eq!(change(&server, page, action).await, [Changed::Done; 100]);
    }
    let elsewhere = server.client().inspect("elsewhere");
    assert_eq!(server.inspect().counts().await.expect("counts").failed, 0);
    let retried = listed(&server, JobState::Waiting).await;
    assert_eq!(ids(&retried), ids(&failed[..100]));
    let moved = pages(elsewhere.jobs(JobState::Waiting)).await.1;
    assert_eq!(ids(&moved), ids(&failed[200..]));
    assert!(moved.iter().chain(&retried).all(|job| job.attempt == 2));
    let named = server.client().queues().await.expect("queues");
    assert!(named.iter().any(|queue| queue.name == "elsewhere" && queue.counts.waiting == 100));

    let action = Action::MoveTo("elsewhere".into());
    assert_eq!(change(&server, &retried, action.clone()).await, [Changed::Done; 100]);
    assert_eq!(server.inspect().counts().await.expect("counts").waiting, 0);
    let job = act::with("later".into(), Vec::new()).delay(Duration::from_secs(600));
    let id = job.on(server.client()).enqueue().await.expect("enqueued");
    let due = find(&server, &id).await.and_then(|job| job.at);
    server.inspect().change_by_id(&id, &action).await.expect("moved");
    let there = elsewhere.find(&id).await.expect("asked").expect("it is there");
    assert_eq!((there.state, there.at), (JobState::Scheduled, due));
    assert_eq!(elsewhere.counts().await.expect("counts").waiting, 200);
    // The husks of those that waited are nothing to a worker.
    let worker = InProcess::run(server.worker().register::<objects>().extra_queue("elsewhere"));
    let failed = async || elsewhere.counts().await.expect("counts").failed;
    server.eventually_async("all fail again", SOON, async || failed().await == 200).await;
    worker.stop().await;
    assert_eq!(server.counter("broken"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn ct12_arguments_of_a_waiting_job_are_edited() {
    // Arguments, a deeper one and tags of a job in the middle of a list -> it stays in its place, all other bytes stay as they were, and it
    // runs with the new ones. What does not fit is refused and changes nothing.
    // Guard: `Duty::Stay`; `edit_args`.
    let server = TestServer::start();
    let written = r#"{"v":1,"id":"mid","job":"weigh","args":{"name":"edited","text":"old","more":{"a":[1.50,2],"b":1e3}},"x":[1, 2.0,"größe"],"tags":["a"],"timeout":90000}"#;
    let expected = r#"{"v":1,"id":"mid","job":"weigh","args":{"name":"edited","text":"longer","more":{"a":[1.50,2],"b":{"c": 1}}},"x":[1, 2.0,"größe"],"tags":["b","c"],"timeout":90000}"#;
    fill(&server, 0..100);
    command(&server, &["LPUSH", JOBS, written], []);
    fill(&server, 100..200);
    let mid = JobId::from("mid");
    let seen = [find(&server, &mid).await.expect("it is there")];
    for wrong in [
        Edit::new().arg("text", "not JSON"),
        Edit::new().arg("text.deeper", "1"),
        Edit::new().arg("none.deeper", "1"),
        Edit::new().tags([""]),
    ] {
        let error = server.inspect().change(&seen, &Action::Edit(wrong.clone())).await;
        assert!(matches!(error, Err(Error::Config(_))), "{wrong:?} {error:?}");
    }
    assert_eq!(waiting(&server)[100], written);
    let edit = Edit::new().arg("text", r#""longer""#).arg("more.b", r#"{"c": 1}"#).tags(["b", "c"]);
    assert_eq!(change(&server, &seen, Action::Edit(edit)).await, [Changed::Done]);
    let all = waiting(&server);
    assert_eq!(all[100], expected);
    assert_eq!(all.len(), 201);
    let others = all[..100].iter().chain(&all[101..]).map(|payload| payload.clone().into_bytes());
    assert!(others.eq((0..200).map(envelope)));
    let again = change(&server, &seen, Action::Edit(Edit::new().arg("text", r#""1""#))).await;
    assert_eq!(again, [Changed::Missing], "it is not as it was seen");
    let worker = InProcess::run(server.worker().register::<weigh>());
    let ran = || server.runs_of("edited").iter().any(|run| run.what == "6 bytes");
    server.eventually("it runs", SOON, ran);
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ct12_arguments_of_jobs_elsewhere_are_edited() {
    // A scheduled job keeps its time, a failed one runs again with the new ones, a broken and a parked one go to the queue.
    // Guard: `duty` in `change.rs`.
    let server = TestServer::start();
    let worker = server.run_worker::<objects>();
    objects::with("old".into()).on(server.client()).enqueue().await.expect("enqueued");
    server.eventually("it fails", SOON, || server.counter("failed") == 1);
    worker.stop().await;
    let job = objects::with("old".into()).delay(Duration::from_secs(600)).on(server.client());
    job.enqueue().await.expect("enqueued");
    let foreign = r#"{"job":"objects","id":"one","args":{"test":1}}"#;
    command(&server, &["HSET", "hworker-broken-default", foreign, "1 1 missing field `text`"], []);
    let parked = foreign.replace("one", "two");
    command(&server, &["ZADD", "hworker-parked-default", "1700000000000000", &parked], []);
    let due = listed(&server, JobState::Scheduled).await[0].at;
    let edit = || Action::Edit(Edit::new().arg("text", r#""new""#));
    for state in [JobState::Scheduled, JobState::Failed, JobState::Broken, JobState::Parked] {
        let jobs = listed(&server, state).await;
        assert_eq!(change(&server, &jobs, edit()).await, [Changed::Done], "{state}");
        assert_eq!(change(&server, &jobs, edit()).await, [Changed::Missing], "{state}");
    }
    let scheduled = listed(&server, JobState::Scheduled).await;
    assert_eq!((scheduled.len(), scheduled[0].at), (1, due));
    assert!(scheduled[0].args().contains("new"));
    let _worker = server.run_worker::<objects>();
    server.eventually("the others run", SOON, || server.counter("failed") == 4);
    let failed = listed(&server, JobState::Failed).await;
    assert!(failed.iter().all(|job| job.message.as_deref() == Some("new")), "{failed:?}");
    assert_eq!(failed.iter().filter(|job| job.attempt == 2).count(), 1);
    assert_eq!(server.inspect().counts().await.expect("counts").broken, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn operate_15_edited_arguments_fit_their_type() {
    // An argument of another type, one that a type refuses, and a type that panics, in each state and under an alias -> the edit is refused
    // with id and argument, no value is in the error, and nothing is changed, also of the other jobs of the call. A type that the program
    // does not link is not checked.
    // Guard: `fits` in `change.rs`.
    let server = TestServer::start();
    let good =
        |id: &str| json!({"id": id, "job": "picky", "args": {"n": 1, "even": 2}}).to_string();
    command(&server, &["LPUSH", JOBS, &good("first"), &good("second")], []);
    let aliased = good("third").replace("picky", "picky_once");
    command(&server, &["ZADD", "hworker-scheduled-default", "4000000000000", &aliased], []);
    command(&server, &["HSET", "hworker-broken-default", &good("fourth"), "1 1 x"], []);
    let before = server.report();
    for (path, value, why) in [
        ("n", r#""s3cret""#, "`n`: invalid type: string, expected u8 at line 1 column"),
        ("n", "90210", "`n`: invalid value: integer, expected u8 at line 1 column"),
        ("even", "90211", "`even`: its type refuses the value at line 1 column"),
        ("even", "90213", "`even`: their type panics"),
        ("even", "null", "`even`: invalid type: null, expected u32"),
    ] {
        let edit = Action::Edit(Edit::new().arg(path, value));
        for state in [JobState::Waiting, JobState::Scheduled, JobState::Broken] {
            let jobs = listed(&server, state).await;
            let error = server.inspect().change(&jobs, &edit).await.expect_err("it does not fit");
            let id = jobs[0].id.as_ref().expect("an id");
            let text = error.to_string();
            let told =
                format!("the arguments of the job {id} would not fit `picky` with this {why}");
            assert!(matches!(error, Error::Config(_)) && text.starts_with(&told), "{text}");
            assert!(!text.contains("s3cret") && !text.contains("902"), "{text}");
        }
    }
    assert_eq!(server.report(), before);
    let edit = Action::Edit(Edit::new().arg("n", "7").arg("even", "8"));
    for state in [JobState::Waiting, JobState::Scheduled, JobState::Broken] {
        let jobs = listed(&server, state).await;
        assert!(change(&server, &jobs, edit.clone()).await.iter().all(|it| *it == Changed::Done));
    }
    fill(&server, 0..1);
    let unknown = [find(&server, &JobId::from("job-0000")).await.expect("it is there")];
    let edit = Action::Edit(Edit::new().arg("n", "\"text\""));
    assert_eq!(change(&server, &unknown, edit).await, [Changed::Done]);
}

#[tokio::test(flavor = "multi_thread")]
async fn operate_15_an_edit_makes_no_payload_too_large() {
    // An argument of 2 KB for a client whose largest payload is 1 KB -> refused, and nothing is changed; errors of earlier attempts make
    // room; a payload that is too large already may be made smaller.
    // Guard: `Inspect::check_edit`.
    let server = TestServer::start();
    let client =
        Client::builder().redis_url(server.url()).max_payload(1024).build().expect("a client");
    let queue = client.inspect("default");
    let large = "x".repeat(3000);
    let payload = json!({"id": "large", "job": "elsewhere", "args": {"text": large}}).to_string();
    let error =
        json!({"attempt": 1, "at": 1, "kind": "error", "message": "e".repeat(400), "worker": "w"});
    let failed = json!({"id": "failed", "job": "elsewhere", "args": {"text": "a"}, "errors": [error, error]});
    command(&server, &["LPUSH", JOBS, &payload, &failed.to_string()], []);
    let seen =
        async |id: &str| [queue.find(&JobId::from(id)).await.expect("asked").expect("there")];
    let edit =
        |bytes: usize| Action::Edit(Edit::new().arg("text", format!("\"{}\"", "y".repeat(bytes))));
    let before = server.report();
    for (id, bytes) in [("failed", 2000), ("large", 3001)] {
        let error = queue.change(&seen(id).await, &edit(bytes)).await.expect_err("too large");
        let text = error.to_string();
        assert!(matches!(error, Error::Refused { .. }), "{text}");
        assert!(text.contains(&format!("edit the job {id}")), "{text}");
        assert!(text.contains("more than max_payload (1024)") && !text.contains("yy"), "{text}");
    }
    assert_eq!(server.report(), before);
    assert_eq!(
        queue.change(&seen("large").await, &edit(2000)).await.expect("made"),
        [Changed::Done]
    );
    assert_eq!(
        queue.change(&seen("failed").await, &edit(300)).await.expect("made"),
        [Changed::Done]
    );
    let edited = &seen("failed").await[0];
    assert!(edited.payload().len() <= 1024 && edited.errors().len() == 1, "{}", edited.envelope());
}

#[tokio::test(flavor = "multi_thread")]
async fn encrypted_arguments_are_not_edited() {
    // A job with encrypted arguments -> an edit of them is refused and changes nothing; its tags can be changed.
    // Guard: `is_sealed` in `edited`.
    let server = TestServer::start();
    let client = server.client_with_keys(&[("new", [2; 32])]);
    whispers::with("secret".into()).on(&client).enqueue().await.expect("enqueued");
    let before = waiting(&server);
    let jobs = listed(&server, JobState::Waiting).await;
    let edit = Action::Edit(Edit::new().arg("text", "1"));
    let error = server.inspect().change(&jobs, &edit).await.expect_err("refused");
    assert!(
        matches!(error, Error::Config(_)) && error.to_string().contains("encrypted"),
        "{error}"
    );
    assert_eq!(waiting(&server), before);
    let edit = Action::Edit(Edit::new().tags(["eu"]));
    assert_eq!(change(&server, &jobs, edit).await, [Changed::Done]);
    let now = waiting(&server).remove(0);
    assert!(now.starts_with(before[0].trim_end_matches('}')) && now.contains(r#""tags":["eu"]"#));
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_are_promoted_and_rescheduled() {
    // A job behind 50 others and a scheduled one are promoted -> they are the next, the later one first. A waiting and a scheduled one get
    // another time -> they are due then, and run when it is over; of a time that is over at once.
    // Guard: `duties.push` and `duties.at` in `edit.lua`.
    let server = TestServer::start();
    fill(&server, 0..51);
    let job = act::with("later".into(), Vec::new()).delay(Duration::from_secs(600));
    let later = job.on(server.client()).enqueue().await.expect("enqueued");
    let queue = server.inspect();
    queue.change_by_id(&JobId::from("job-0050"), &Action::Promote).await.expect("promoted");
    queue.change_by_id(&later, &Action::Promote).await.expect("promoted");
    let next = listed(&server, JobState::Waiting).await;
    assert_eq!(ids(&next)[..3], [later.as_str(), "job-0050", "job-0000"]);
    assert_eq!(next.len(), 52);

    let now = server.redis().time_us() / 1000;
    let at = SystemTime::now() + Duration::from_secs(1800);
    for (id, when, due) in [
        (&later, When::In(Duration::from_secs(900)), now + 900_000),
        (&later, When::At(at), now + 1_800_000),
        (&JobId::from("job-0003"), When::In(Duration::MAX), 1 << 53),
    ] {
        queue.change_by_id(id, &Action::Reschedule(when)).await.expect("rescheduled");
        let job = find(&server, id).await.expect("it is there");
        assert_eq!(job.state, JobState::Scheduled);
        assert!(job.at.is_some_and(|at| at.abs_diff(due) < 10_000), "{job:?} {due}");
    }
    let _worker = server.run_worker::<act>();
    // The timer sleeps until the first is due, and is woken.
    let soon = server.enqueue("soon", vec![vec![Act::RetryIn(HOUR_MS)], vec![]]).await;
    server.eventually("it waits", SOON, || server.counter("retried") == 1);
    let action = Action::Reschedule(When::In(Duration::from_millis(100)));
    queue.change_by_id(&soon, &action).await.expect("rescheduled");
    let past = Action::Reschedule(When::At(SystemTime::UNIX_EPOCH));
    queue.change_by_id(&later, &past).await.expect("rescheduled");
    for name in ["soon", "later"] {
        server.eventually(name, SOON, || server.ended(name) == 1);
    }
    assert_eq!(queue.counts().await.expect("counts").scheduled, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn s8_a_delayed_job_is_promoted_to_an_idle_worker() {
    // A worker has nothing to do, and a job is delayed by ten minutes; it is promoted by its id, in code and from the command line -> it runs at
    // once, and once.
    // Guard: `duties.push` in `edit.lua`.
    let server = TestServer::start();
    let _worker = server.run_worker::<act>();
    server.enqueue("before", Vec::new()).await;
    server.eventually("it is idle", SOON, || server.leftovers("default").is_empty());
    let delayed = async |name: &str| {
        let job = act::with(name.into(), Vec::new()).delay(Duration::from_secs(600));
        let id = job.on(server.client()).enqueue().await.expect("enqueued");
        assert_eq!(find(&server, &id).await.map(|job| job.state), Some(JobState::Scheduled));
        id
    };
    let in_code = delayed("in code").await;
    server.inspect().change_by_id(&in_code, &Action::Promote).await.expect("promoted");
    server.eventually("it runs", SOON, || server.ended("in code") == 1);
    let by_hand = delayed("by hand").await;
    let said = call(&server, &["jobs", "promote", by_hand.as_str()]);
    assert_eq!(said.code, 0, "{}", said.err);
    server.eventually("it runs", SOON, || server.ended("by hand") == 1);
    server.drained(SOON);
    assert_eq!(["in code", "by hand"].map(|name| server.begun(name)), [1, 1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn sc6_jobs_are_rescheduled_together() {
    // Four jobs that wait and four that are scheduled get another time in one call -> each is due then. From the command line those that wait and
    // have a tag get one, and all that are scheduled and have it are promoted -> others stay as they are, and all run, once.
    // Guard: `duties.at` in `edit.lua`.
    let server = TestServer::start();
    let tagged = async |number: usize, is_delayed: bool| {
        let job = act::with(format!("n{number}"), Vec::new()).tag("acme").on(server.client());
        let job = if is_delayed { job.delay(Duration::from_secs(600)) } else { job };
        job.enqueue().await.expect("enqueued");
    };
    for number in 0..8 {
        tagged(number, number % 2 == 1).await;
    }
    let waits = listed(&server, JobState::Waiting).await;
    let all = [waits, listed(&server, JobState::Scheduled).await].concat();
    let now = server.redis().time_us() / 1000;
    let later = Action::Reschedule(When::In(Duration::from_millis(HOUR_MS)));
    assert_eq!(change(&server, &all, later).await, [Changed::Done; 8]);
    let due_in = async |hours: u64| {
        let due = now + hours * HOUR_MS;
        let jobs = listed(&server, JobState::Scheduled).await;
        let is_due = |job: &&JobInfo| job.at.is_some_and(|at| at.abs_diff(due) < 60_000);
        jobs.iter().filter(is_due).count()
    };
    assert_eq!(due_in(1).await, 8);
    for number in 8..10 {
        tagged(number, false).await;
    }
    server.enqueue("other", Vec::new()).await;
    let counts = async || {
        let counts = server.inspect().counts().await.expect("counts");
        (counts.waiting, counts.scheduled)
    };
    let at = ["jobs", "at", "--with-tag", "acme", "--in", "2h", "--yes"];
    let said = call(&server, &at);
    assert_eq!((said.code, counts().await), (0, (1, 10)), "{}", said.err);
    assert_eq!((due_in(1).await, due_in(2).await), (8, 2));
    let said = call(&server, &["scheduled", "promote", "--with-tag", "acme", "--yes"]);
    assert_eq!((said.code, counts().await), (0, (11, 0)), "{}", said.err);
    let _worker = server.run_worker::<act>();
    server.drained(SOON);
    for number in 0..10 {
        let name = format!("n{number}");
        assert_eq!((server.begun(&name), server.ended(&name)), (1, 1), "{name}");
    }
    assert_eq!(server.ended("other"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_job_cannot_be_changed() {
    // Each action on a job that runs -> it is missing, and goes on.
    // Guard: `Stands::Running`.
    let server = TestServer::start();
    let _worker = server.run_worker::<act>();
    let id = server.enqueue("runs", vec![vec![Act::Gate("go".into())]]).await;
    server.eventually("it runs", SOON, || server.begun("runs") == 1);
    let running = listed(&server, JobState::Running).await;
    for action in [
        Action::Retry,
        Action::Reset,
        Action::Delete,
        Action::Promote,
        Action::Reschedule(When::In(SOON)),
        Action::MoveTo("elsewhere".into()),
        Action::Edit(Edit::new().tags(["x"])),
    ] {
        assert_eq!(change(&server, &running, action.clone()).await, [Changed::Missing]);
        let error = server.inspect().change_by_id(&id, &action).await.expect_err("it runs");
        assert!(matches!(error, Error::NotFound { .. }), "{error}");
    }
    server.open("go");
    server.eventually("it ends", SOON, || server.ended("runs") == 1);
    server.drained(SOON);
    assert_eq!(server.begun("runs"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn operate_11_what_a_deleted_job_leaves_is_dropped() {
    // Husks between jobs, which a worker takes ahead, gives back when it stops, holds when it is killed, and finds in its inbox -> every job
    // runs once, no husk is counted, is broken, is shown, or is left.
    // Guard: `End::Husk`; `duties.husk`.
    let server = TestServer::start();
    let holds =
        |gate: &str| vec![vec![Act::Gate(gate.into())], vec![Act::Gate(gate.into())], vec![]];
    let queue = server.inspect();
    let put = async |name: &str, count: usize| {
        let mut ids = Vec::new();
        for _ in 0..count {
            ids.push(server.enqueue(name, vec![vec![]]).await);
        }
        ids
    };
    let first = server.enqueue("held", holds("go")).await;
    let jobs = put("rest", 20).await;
    for id in jobs.iter().step_by(2) {
        queue.change_by_id(id, &Action::Delete).await.expect("deleted");
    }
    assert_eq!(queue.counts().await.expect("counts").waiting, 11);
    assert_eq!(listed(&server, JobState::Waiting).await.len(), 11);
    let one_slot = [("HWORKER_CONCURRENCY", "1"), ("HWORKER_SHUTDOWN_GRACE", "100ms")];
    let mut stopped = server.worker_process(&one_slot);
    server.eventually("the first runs", SOON, || server.begun("held") == 1);
    stopped.terminate();
    assert!(stopped.wait(SOON).expect("it ends").success());
    assert_eq!(queue.counts().await.expect("counts").waiting, 11);
    let mut killed = server.worker_process(&one_slot);
    server.eventually("it runs again", SOON, || server.begun("held") == 2);
    killed.kill();
    // What the dead one held comes back with husks among it.
    let dead = server.redis().keys("hworker-progress-default:*").remove(0);
    let inbox = dead.replace("progress", "inbox");
    command(&server, &["HSET", &dead, "77", "-"], []);
    command(&server, &["LPUSH", &inbox, "-"], []);
    command(&server, &["HINCRBY", "hworker-stat-default", "husks", "2"], []);
    let worker = InProcess::run(server.worker().register::<act>().concurrency(1));
    server.eventually("all end", SOON * 2, || server.ended("rest") == 10);
    server.drained(SOON);
    assert_eq!((server.begun("rest"), server.ended("held")), (10, 1));
    assert_eq!((server.counter("broken"), server.counter("processed")), (0, 11));
    assert_eq!(server.redis().ask::<i64>(&["HGET", "hworker-stat-default", "husks"]), 0);
    let counters = queue.statistics(None).await.expect("counters");
    assert!(!counters.contains_key("husks"), "{counters:?}");
    assert!(find(&server, &first).await.is_none());
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn operate_12_a_payload_that_looks_like_a_husk_is_broken() {
    // A producer pushes `-` beside two jobs that are deleted -> two of the three are dropped without a word, one is broken; counts are
    // never below 0, also when the counters are lost.
    // Guard: `duties.husk`; `saturating_sub` in `Queue::counts`.
    let server = TestServer::start();
    let queue = server.inspect();
    let counts = async || queue.counts().await.expect("counts");
    fill(&server, 0..2);
    let jobs = listed(&server, JobState::Waiting).await;
    assert_eq!(change(&server, &jobs, Action::Delete).await, [Changed::Done; 2]);
    assert_eq!(counts().await.waiting, 0);
    command(&server, &["LPUSH", JOBS, "-"], []);
    assert_eq!(counts().await.waiting, 1);
    let worker = server.run_worker::<act>();
    server.eventually("one is broken", SOON, || server.counter("broken") == 1);
    server.eventually("none is left", SOON, || server.redis().len(JOBS) == 0);
    let broken = queue.broken().await.expect("broken ones");
    assert_eq!((broken.len(), &*broken[0].payload, broken[0].times), (1, &b"-"[..], 1));
    assert_eq!(counts().await, counts_of_broken(1));
    worker.stop().await;
    // More husks are counted than there are, or none.
    server.redis().ask::<u64>(&["HSET", "hworker-stat-default", "husks", "7"]);
    assert_eq!(counts().await.waiting, 0);
    for garbage in ["text", "-5", "1e3", "99999999999999999999"] {
        server.redis().ask::<u64>(&["HSET", "hworker-stat-default", "husks", garbage]);
        let _ = queue.counts().await;
        assert_eq!(server.client().queues().await.map(|queues| queues.len()).expect(garbage), 1);
    }
    fill(&server, 0..2);
    let jobs = listed(&server, JobState::Waiting).await;
    assert_eq!(change(&server, &jobs, Action::Delete).await, [Changed::Done; 2]);
    server.redis().ask::<u64>(&["DEL", "hworker-stat-default"]);
    let _worker = server.run_worker::<act>();
    server.eventually("none is left", SOON, || server.redis().len(JOBS) == 0);
    server.eventually("they are broken", SOON, || server.counter("broken") == 2);
    assert_eq!(counts().await, counts_of_broken(1));
}

fn counts_of_broken(broken: u64) -> hworker::Counts {
    let mut counts = hworker::Counts::default();
    counts.broken = broken;
    counts
}

#[tokio::test(flavor = "multi_thread")]
async fn operate_13_jobs_are_edited_while_workers_take_them() {
    // 400 jobs are taken by a worker while every second is edited from a page that grows old -> each job runs once, the edited ones with
    // their new text, the others with their own, and those whose edit came too late with the old one.
    // Guard: `index_of` in `edit.lua` compares bytes, and not places.
    let server = TestServer::start();
    let jobs: Bulk = (0..400)
        .map(|number| weigh::with(format!("job {number}"), "x".repeat(3)).on(server.client()))
        .collect();
    jobs.enqueue().await.expect("enqueued");
    let seen = listed(&server, JobState::Waiting).await;
    let worker = InProcess::run(server.worker().register::<weigh>().concurrency(1).prefetch(false));
    let mut done = HashSet::new();
    // From the last to the first: so they meet.
    for (index, job) in seen.iter().enumerate().rev().filter(|(index, _)| index % 2 == 1) {
        let edit = Action::Edit(Edit::new().arg("text", r#""edited""#));
        let changed = change(&server, std::slice::from_ref(job), edit).await;
        match changed[0] {
            Changed::Done => _ = done.insert(index),
            other => assert_eq!(other, Changed::Missing),
        }
    }
    server.eventually("all run", SOON * 2, || server.counter("processed") == 400);
    worker.stop().await;
    for index in 0..400 {
        let runs = server.runs_of(&format!("job {index}"));
        let expected = if done.contains(&index) { "6 bytes" } else { "3 bytes" };
        assert_eq!(runs.len(), 1, "job {index}");
        assert_eq!(runs[0].what, expected, "job {index}");
    }
    assert!(done.len() > 50, "{}", done.len());
    assert!(server.leftovers("default").is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn operate_28_a_full_server_lets_jobs_be_deleted_and_retried() {
    // The server is full and refuses enqueues -> jobs in each state can be deleted, retried, promoted and moved, and none is lost.
    // Guard: `edit.lua` begins with a removal.
    let server = TestServer::builder().alone().arg("--maxmemory-policy", "noeviction").start();
    let worker = server.run_worker::<objects>();
    let jobs = (0..10).map(|number| objects::with(format!("no {number}")).on(server.client()));
    jobs.collect::<Bulk>().enqueue().await.expect("enqueued");
    server.eventually("all fail", SOON, || server.counter("failed") == 10);
    worker.stop().await;
    fill(&server, 0..10);
    for number in 0..10 {
        let payload = envelope(number + 100);
        let score = (4_000_000_000_000 + number).to_string();
        command(&server, &["ZADD", "hworker-scheduled-default", &score], [payload.clone()]);
        command(&server, &["ZADD", "hworker-parked-default", &score], [payload.clone()]);
        command(&server, &["HSET", "hworker-broken-default"], [payload, b"1 1 x".to_vec()]);
    }
    let _: String = server.redis().ask(&["CONFIG", "SET", "maxmemory", "1"]);
    let refused = objects::with("no".into()).on(server.client()).enqueue().await;
    assert!(matches!(refused, Err(Error::Refused { .. })), "{refused:?}");
    for state in [
        JobState::Waiting,
        JobState::Failed,
        JobState::Scheduled,
        JobState::Parked,
        JobState::Broken,
    ] {
        let jobs = listed(&server, state).await;
        assert_eq!(jobs.len(), 10, "{state}");
        for (two, action) in jobs.chunks(2).zip([
            Action::Retry,
            Action::Promote,
            Action::MoveTo("elsewhere".into()),
            Action::Edit(Edit::new().tags(["x"])),
            Action::Delete,
        ]) {
            let changed = change(&server, two, action.clone()).await;
            assert_eq!(changed, [Changed::Done; 2], "{state} {action:?}");
        }
    }
    let _: String = server.redis().ask(&["CONFIG", "SET", "maxmemory", "0"]);
    let elsewhere = server.client().inspect("elsewhere").counts().await.expect("counts");
    assert_eq!((elsewhere.waiting, elsewhere.scheduled), (8, 2));
    let counts = server.inspect().counts().await.expect("counts");
    assert_eq!((counts.waiting, counts.scheduled), (6 + 6 + 4 + 6 + 6, 2));
    assert_eq!((counts.failed, counts.parked, counts.broken), (0, 0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_time_at_the_end_of_64_bits_is_a_time() {
    // A producer writes the largest number as the time of its enqueue; the job has gone when it is to be changed.
    // Guard: `waiting_again` adds to that time without going over its end.
    let server = TestServer::start();
    let envelope = format!(r#"{{"id":"1","job":"elsewhere","enqueued_at":{}}}"#, u64::MAX);
    let _: u64 = server.redis().ask(&["LPUSH", "hworker-jobs-default", &envelope]);
    let queue = server.inspect();
    let jobs = queue.jobs(JobState::Waiting).page().await.expect("a page").items;
    assert_eq!(jobs[0].at, Some(u64::MAX));
    let _: String = server.redis().ask(&["RPOP", "hworker-jobs-default"]);
    let changed = queue.change(&jobs, &Action::Delete).await.expect("asked");
    assert_eq!(changed, [Changed::Missing]);
}
