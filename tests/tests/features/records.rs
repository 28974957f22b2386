//! What is kept of ended jobs: how much of it, what it tells, and that its parts fit together.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use hworker::{Action, Bulk, Changed, Error, Filter, JobInfo, JobState, Outcome};
use hworker_tests::{Act, InProcess, Proxy, TestServer, act};
use serde_json::json;

use crate::{SOON, command, ids, pages};

const HOUR: Duration = Duration::from_secs(3600);

/// Fails for good with this text, unless it is empty.
#[hworker::job]
async fn refuses(text: String) -> Outcome {
    if text.is_empty() { Outcome::Success } else { Outcome::Failure(text) }
}

async fn enqueue(server: &TestServer, texts: impl IntoIterator<Item = String>) {
    let job = |text| refuses::with(text).on(server.client());
    texts.into_iter().map(job).collect::<Bulk>().enqueue().await.expect("enqueued");
}

/// A number as a word without a digit, which no group takes for one that differs from job to job.
fn spelled(number: usize) -> String {
    number.to_string().bytes().map(|digit| char::from(digit - b'0' + b'k')).collect()
}

async fn failed(server: &TestServer) -> Vec<JobInfo> {
    pages(server.inspect().jobs(JobState::Failed).limit(1000)).await.1
}

async fn statistic(server: &TestServer, name: &str) -> u64 {
    let counters = server.inspect().statistics(None).await.expect("the counters");
    counters.get(name).copied().unwrap_or(0)
}

/// Looks that there is a record for each place and no other, and that the bytes of each outcome and, below 500 groups, the members of
/// each group are counted.
#[track_caller]
fn fits_together(server: &TestServer) {
    let mut redis = server.redis();
    let mut left: HashMap<String, Vec<u8>> = redis.ask(&["HGETALL", "hworker-record-default"]);
    let mut groups: HashMap<String, String> = redis.ask(&["HGETALL", "hworker-groups-default"]);
    let mut members_of = HashMap::<String, u64>::new();
    for outcome in ["failed", "cancelled", "expired", "done"] {
        let key = format!("hworker-{outcome}-default");
        let members: Vec<String> = redis.ask(&["ZRANGE", &key, "0", "-1"]);
        let mut bytes = 0;
        for member in members {
            let parts: Vec<_> = member.splitn(3, ' ').collect();
            bytes += left.remove(parts[2]).expect("its record").len();
            if parts[0] != "-" {
                *members_of.entry(parts[0].to_owned()).or_default() += 1;
            }
        }
        let counted = groups.remove(&format!("|{outcome}"));
        assert_eq!(counted.map_or(0, |bytes| bytes.parse().expect("a number")), bytes, "{outcome}");
    }
    assert!(left.is_empty(), "{} records without a place", left.len());
    let counted: HashMap<_, u64> = groups
        .iter()
        .map(|(name, entry)| (name.clone(), entry.split(' ').next().and_then(|n| n.parse().ok())))
        .map(|(name, count)| (name, count.expect("a number")))
        .collect();
    assert_eq!(counted, members_of);
}

#[tokio::test(flavor = "multi_thread")]
async fn i9_lc2_the_newest_records_are_kept() {
    // 30 failures and 30 successes under bounds of 10 and 5 -> the last 10 and the last 5; what made room is counted for failures alone.
    // Guard: `drop_surplus` in `lib/records.lua`; `keep_done`.
    let server = TestServer::start();
    let worker = server.worker().register::<refuses>().concurrency(1);
    let _worker = InProcess::run(worker.failed_limit(10).keep_done(5));
    for number in 0..30 {
        enqueue(&server, [format!("no {number}"), String::new()]).await;
    }
    server.eventually("all end", SOON, || {
        (server.counter("failed"), server.counter("processed")) == (30, 30)
    });
    let counts = server.inspect().counts().await.expect("counts");
    assert_eq!((counts.failed, counts.done), (10, 5));
    let messages: Vec<_> =
        failed(&server).await.into_iter().filter_map(|job| job.message).collect();
    assert_eq!(messages, (20..30).rev().map(|number| format!("no {number}")).collect::<Vec<_>>());
    let done = pages(server.inspect().jobs(JobState::Done)).await.1;
    assert!(done.iter().all(|job| job.group.is_none() && job.kind.is_none()), "{done:?}");
    assert!(done.iter().all(|job| job.started_at <= job.at && job.worker.is_some()), "{done:?}");
    assert_eq!(statistic(&server, "dropped").await, 20);
    fits_together(&server);
}

#[tokio::test(flavor = "multi_thread")]
async fn i9_lc2_records_are_bounded_in_bytes() {
    // 40 failures of about 1 KB each under a bound of 10 KB -> the newest that fit, and no more bytes than that; one larger than the
    // bound is not kept.
    // Guard: `most_bytes` in `drop_surplus`.
    let server = TestServer::start();
    let worker = server.worker().register::<refuses>().concurrency(1).failed_bytes(10_000);
    let _worker = InProcess::run(worker);
    for number in 0..40 {
        enqueue(&server, [format!("{number} {}", "x".repeat(300))]).await;
    }
    server.eventually("all fail", SOON, || server.counter("failed") == 40);
    let bytes: u64 = server.redis().ask(&["HGET", "hworker-groups-default", "|failed"]);
    assert!((8_000..=10_000).contains(&bytes), "{bytes}");
    let kept = failed(&server).await;
    assert!((5..20).contains(&kept.len()), "{}", kept.len());
    assert!(kept[0].message.as_ref().is_some_and(|text| text.starts_with("39 ")), "{kept:?}");
    fits_together(&server);
    enqueue(&server, ["y".repeat(11_000)]).await;
    server.eventually("it fails", SOON, || server.counter("failed") == 41);
    assert!(failed(&server).await.is_empty());
    fits_together(&server);
}

#[tokio::test(flavor = "multi_thread")]
async fn i9_records_that_are_too_old_go() {
    // Half of 20 failures are made two hours old, and a worker keeps them for one -> they go, are counted, and the others stay.
    // Guard: `trim.lua`.
    let server = TestServer::start();
    let worker = server.run_worker::<refuses>();
    enqueue(&server, (0..20).map(|number| format!("no {}", spelled(number)))).await;
    server.eventually("all fail", SOON, || server.counter("failed") == 20);
    worker.stop().await;
    let old = (server.redis().time_us() / 1000 - 7_200_000).to_string();
    let members: Vec<String> = server.redis().ask(&["ZRANGE", "hworker-failed-default", "0", "9"]);
    for member in &members {
        let words = ["ZADD", "hworker-failed-default", "XX", "CH", &old, member];
        assert_eq!(server.redis().ask::<u64>(&words), 1);
    }
    let worker = server.worker().register::<refuses>().failed_for(HOUR);
    let _worker = InProcess::run(worker);
    let kept = || server.redis().len("hworker-failed-default");
    server.eventually("the old ones go", SOON, || kept() == 10);
    assert_eq!(statistic(&server, "dropped").await, 10);
    assert!(failed(&server).await.iter().all(|job| job.at.is_some_and(|at| at.to_string() > old)));
    fits_together(&server);
}

#[tokio::test(flavor = "multi_thread")]
async fn i9_broken_payloads_that_are_too_old_go_where_that_is_asked() {
    // Two broken payloads, one of them two hours old: both stay, until a worker is told to keep them for one hour.
    // Guard: `broken_for` in trim.lua.
    let server = TestServer::start();
    let worker = server.run_worker::<refuses>();
    for payload in ["{old", "{new"] {
        let _: u64 = server.redis().ask(&["LPUSH", "hworker-jobs-default", payload]);
    }
    let kept = || server.redis().len("hworker-broken-default");
    server.eventually("both are broken", SOON, || kept() == 2);
    worker.stop().await;
    let old = server.redis().time_us() / 1000 - 7_200_000;
    let note = format!("1 {old} it is no JSON");
    let _: u64 = server.redis().ask(&["HSET", "hworker-broken-default", "{old", &note]);
    let worker = server.run_worker::<refuses>();
    enqueue(&server, std::iter::once("no".to_owned())).await;
    server.eventually("it works", SOON, || server.counter("failed") == 1);
    assert_eq!(kept(), 2);
    worker.stop().await;
    let worker = server.worker().register::<refuses>().broken_for(HOUR);
    let _worker = InProcess::run(worker);
    server.eventually("the old one goes", SOON, || kept() == 1);
    let left: Vec<String> = server.redis().ask(&["HKEYS", "hworker-broken-default"]);
    assert_eq!(left, ["{new"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn operate_22_many_distinct_messages_fill_no_memory() {
    // 3,000 failures, each with another text, from many slots at once -> at most 500 groups, and no more bytes of records than the bound.
    // Guard: `write_groups`; `failed_bytes`.
    let server = TestServer::start();
    let worker = server.worker().register::<refuses>().concurrency(500);
    let worker = worker.failed_limit(usize::MAX).failed_bytes(1 << 20);
    let _worker = InProcess::run(worker);
    for thousand in 0..3 {
        let numbers = thousand * 1000..(thousand + 1) * 1000;
        enqueue(&server, numbers.map(|number| format!("no {}", spelled(number)))).await;
    }
    server.eventually("all fail", SOON * 2, || server.counter("failed") == 3_000);
    let groups = server.inspect().groups().await.expect("groups");
    assert!((300..=500).contains(&groups.len()), "{}", groups.len());
    let bytes: u64 = server.redis().ask(&["HGET", "hworker-groups-default", "|failed"]);
    assert!(bytes <= 1 << 20, "{bytes}");
    assert!(statistic(&server, "dropped").await > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn operate_23_records_places_bytes_and_groups_never_part() {
    // Random limits, ends, second records of one id, retries and deletions, a dozen rounds -> what is kept fits together after each.
    // Guard: `drop_record` goes with each place that leaves.
    let server = TestServer::start();
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    for round in 0..12 {
        let worker = server.worker().register::<refuses>().keep_done(random.usize(0..20));
        let worker = worker.failed_limit(random.usize(0..40));
        let bytes = if random.bool() { random.usize(0..20_000) } else { usize::MAX };
        let worker = InProcess::run(worker.failed_bytes(bytes).concurrency(random.usize(1..30)));
        let settled = || server.counter("failed") + server.counter("processed");
        let before = settled();
        let texts: Vec<_> = (0..random.usize(1..60))
            .map(|_| spelled(random.usize(0..8)).repeat(random.usize(0..100)))
            .collect();
        let mut count = texts.len() as u64;
        enqueue(&server, texts).await;
        for _ in 0..2 {
            let twice = json!({"id": "twice", "job": "refuses", "args": {"text": "again"}});
            server.redis().ask::<u64>(&["LPUSH", "hworker-jobs-default", &twice.to_string()]);
            count += 1;
        }
        server.eventually("all end", SOON, || settled() == before + count);
        worker.stop().await;
        fits_together(&server);
        let mut kept = failed(&server).await;
        random.shuffle(&mut kept);
        kept.truncate(random.usize(0..5));
        let action = if round % 2 == 0 { Action::Delete } else { Action::Retry };
        let done = server.inspect().change(&kept, &action).await.expect("changed");
        assert!(done.iter().all(|done| *done == Changed::Done), "{done:?}");
        fits_together(&server);
        // What runs again is none of the next round's.
        server.redis().ask::<u64>(&["DEL", "hworker-jobs-default"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn operate_24_a_lowered_limit_drops_a_few_at_a_time() {
    // 5,000 records, then a limit of 10 while jobs go on to fail -> they go, and no call of the worker drops more than some hundred.
    // Guard: `at_most` in `drop_surplus`; `DROPPED_AT_MOST`.
    let server = TestServer::start();
    let all = server.worker().register::<refuses>().concurrency(100).failed_limit(usize::MAX);
    let all = InProcess::run(all);
    for _ in 0..5 {
        enqueue(&server, (0..1000).map(|number| format!("no {number}"))).await;
    }
    server.eventually("all fail", SOON * 2, || server.counter("failed") == 5_000);
    all.stop().await;
    let proxy = Proxy::before(&server);
    let few = server.worker().client(&proxy.client()).register::<refuses>().failed_limit(10);
    let few = InProcess::run(few);
    server
        .eventually_async("they go", SOON * 2, async || {
            enqueue(&server, ["no more".to_owned()]).await;
            server.redis().len("hworker-failed-default") == 10
        })
        .await;
    few.stop().await;
    let dropped = statistic(&server, "dropped").await as usize;
    let (settles, trims) = (proxy.count("settle"), proxy.count("trim"));
    assert!(
        dropped >= 4_990 && dropped <= 350 * settles + 500 * trims,
        "{dropped} {settles} {trims}"
    );
    fits_together(&server);
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_that_differ_in_numbers_are_one_group() {
    // The same text with other numbers, ids and quoted names is one group, another text and another kind are others; a group is a
    // condition, tells of its last job, and goes with its last record.
    // Guard: `in_common`; `write_groups`.
    let server = TestServer::start();
    let _worker = InProcess::run(server.worker().register::<refuses>().register::<act>());
    let alike = [17, 4711, 5].map(|user| format!("user {user} of `{}` is unknown", spelled(user)));
    enqueue(&server, alike).await;
    enqueue(&server, ["order is unknown".to_owned()]).await;
    for text in ["one", "another"] {
        let job = act::with("panics".into(), vec![vec![Act::Panic(text.into())]]);
        job.max_attempts(1).on(server.client()).enqueue().await.expect("enqueued");
    }
    server.eventually("all fail", SOON, || server.counter("failed") == 6);
    let groups = server.inspect().groups().await.expect("groups");
    assert_eq!(groups.iter().map(|group| group.count).collect::<Vec<_>>(), [3, 2, 1], "{groups:?}");
    assert_eq!((&*groups[0].job, &*groups[0].kind), ("refuses", "failure"));
    assert_eq!((&*groups[1].job, &*groups[1].kind), ("act", "panic"));
    assert!(groups[0].message.ends_with("is unknown") && groups[0].first <= groups[0].last);
    for group in &groups {
        let filter: Filter = format!("group:{}", group.name).parse().expect("a filter");
        let queue = server.inspect();
        let of_it = pages(queue.jobs(JobState::Failed).filter(filter)).await.1;
        assert_eq!(of_it.len() as u64, group.count, "{group:?}");
        assert!(
            ids(&of_it).contains(&&*group.id)
                && of_it.iter().all(|job| job.job.as_ref() == Some(&group.job))
        );
        let done = queue.change(&of_it[..1], &Action::Delete).await.expect("changed");
        assert_eq!(done, [Changed::Done]);
    }
    let left = server.inspect().groups().await.expect("groups");
    assert_eq!(left.iter().map(|group| group.count).collect::<Vec<_>>(), [2, 1]);
    fits_together(&server);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_jobs_with_one_id_have_a_record_each() {
    // A job that was enqueued twice fails twice -> two records with its id and its own arguments each; each can be changed, and what is
    // found by the id is one of them.
    // Guard: `add_record` in `lib/records.lua`.
    let server = TestServer::start();
    let _worker = InProcess::run(server.worker().register::<refuses>());
    for text in ["one", "two"] {
        let job = json!({"id": "twice", "job": "refuses", "args": {"text": text}});
        server.redis().ask::<u64>(&["LPUSH", "hworker-jobs-default", &job.to_string()]);
    }
    server.eventually("both fail", SOON, || server.counter("failed") == 2);
    let kept = failed(&server).await;
    assert_eq!(ids(&kept), ["twice", "twice"]);
    let mut messages: Vec<_> =
        kept.iter().map(|job| job.message.as_deref().expect("a text")).collect();
    messages.sort_unstable();
    assert_eq!(messages, ["one", "two"]);
    assert!(kept.iter().all(|job| job.args().contains(job.message.as_deref().expect("a text"))));
    let filter: Filter = "id:twice".parse().expect("a filter");
    assert_eq!(pages(server.inspect().jobs(JobState::Failed).filter(filter)).await.1.len(), 2);
    fits_together(&server);
    for job in &kept {
        let queue = server.inspect();
        let done = queue.change(std::slice::from_ref(job), &Action::Delete).await.expect("changed");
        assert_eq!(done, [Changed::Done]);
        fits_together(&server);
    }
    assert!(failed(&server).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_tells_the_story_of_its_job() {
    // An error, then a panic, with backtraces asked for -> both attempts with when they started and ended, the worker, kind and text; of
    // the panic its place and backtrace, which the record has too.
    // Guard: `attempt_error` and `recorded` in `record.rs`.
    let server = TestServer::start();
    let before = server.redis().time_us() / 1000;
    let _worker = server.worker_process(&[("RUST_BACKTRACE", "1"), ("HWORKER_NAME", "teller")]);
    let plan = vec![
        vec![Act::Sleep(30), Act::Error("first".into())],
        vec![Act::Sleep(30), Act::Panic("second".into())],
    ];
    let job = act::with("story".into(), plan).max_attempts(2).on(server.client());
    let id = job.enqueue().await.expect("enqueued");
    server.eventually("it has failed", SOON, || server.counter("failed") == 1);
    let after = server.redis().time_us() / 1000;
    let found = server.inspect().find(&id).await.expect("asked").expect("found");
    let [listed] = &failed(&server).await[..] else { panic!("one record") };
    for job in [&found, listed] {
        assert_eq!(
            (job.state, job.attempt, job.job.as_deref()),
            (JobState::Failed, 2, Some("act"))
        );
        assert_eq!((job.kind.as_deref(), job.message.as_deref()), (Some("panic"), Some("second")));
        assert!(job.worker.as_ref().is_some_and(|worker| worker.starts_with("teller.")), "{job:?}");
        assert!(job.place.as_ref().is_some_and(|place| place.contains("jobs.rs:")));
        assert!(job.backtrace.as_ref().is_some_and(|trace| trace.contains("src/jobs.rs:")));
        let (started, at) = (job.started_at.expect("it started"), job.at.expect("it ended"));
        assert!(before <= started && started + 20 <= at && at <= after, "{started} {at}");
        let errors = job.errors();
        let told: Vec<_> = errors.iter().map(|it| (it.attempt, &*it.kind, &*it.message)).collect();
        assert_eq!(told, [(1, "error", "first"), (2, "panic", "second")]);
        for error in &errors {
            let started = error.started_at.expect("it started");
            assert!(
                before <= started && started + 20 <= error.at && error.at <= after,
                "{error:?}"
            );
            assert!(error.worker.starts_with("teller."), "{error:?}");
        }
        assert!(errors[1].backtrace.is_some() && errors[0].backtrace.is_none());
        assert!(job.enqueued_at().is_some() && job.args().contains("story"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn en14_tags_and_notes_travel_with_the_job() {
    // Two tags and two notes -> they are there while it waits, while it waits for its next attempt, and in its record, and each is found
    // by them; jobs with others are not.
    // Guard: `Enqueue::tag` and `Enqueue::meta`; a rewrite keeps what it does not know.
    let server = TestServer::start();
    let plan = vec![vec![Act::RetryIn(3_600_000)], vec![Act::Failure("no".into())]];
    let job = act::with("tagged".into(), plan).tag("eu").tag("größe 2");
    let job = job.meta("tenant", 7).meta("who", json!({"name": "Ada \"A\" L.", "ids": [1, 2]}));
    let id = job.on(server.client()).enqueue().await.expect("enqueued");
    let other =
        act::with("other".into(), vec![vec![Act::RetryIn(3_600_000)]]).tag("us").meta("tenant", 70);
    other.on(server.client()).enqueue().await.expect("enqueued");
    let is_found_in = async |state: JobState| {
        for filter in [
            "tag:eu",
            "tag:\"größe 2\"",
            "meta.tenant=7",
            "meta.who.name=\"Ada \\\"A\\\" L.\"",
            "meta.who.ids.1=2 tag:eu",
        ] {
            let queue = server.inspect();
            let filter = filter.parse().expect(filter);
            let found = pages(queue.jobs(state).filter(filter)).await.1;
            assert_eq!(ids(&found), [id.as_str()], "{state}");
            assert_eq!(found[0].tags(), ["eu", "größe 2"]);
            assert_eq!(found[0].meta()["tenant"], "7");
            assert_eq!(found[0].meta()["who"], r#"{"ids":[1,2],"name":"Ada \"A\" L."}"#);
        }
    };
    is_found_in(JobState::Waiting).await;
    let _worker = server.run_worker::<act>();
    server.eventually("both wait again", SOON, || server.counter("retried") == 2);
    is_found_in(JobState::Scheduled).await;
    server.inspect().change_by_id(&id, &Action::Promote).await.expect("promoted");
    server.eventually("it has failed", SOON, || server.counter("failed") == 1);
    is_found_in(JobState::Failed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn en14_wrong_tags_and_notes_are_refused() {
    // Too many, empty or long tags, control characters, notes that are too large or cannot be JSON -> an error of the program that names
    // each, and nothing is enqueued.
    // Guard: `check_tags` and `check_meta`.
    let server = TestServer::start();
    let job = || act::with("no".into(), Vec::new()).on(server.client());
    let many = (0..17).fold(job(), |job, number| job.tag(format!("t{number}")));
    let keys: HashMap<(u8, u8), u8> = [((1, 2), 3)].into();
    for (wrong, said) in [
        (many, "17 tags are too many"),
        (job().tag(""), "the tag \"\""),
        (job().tag("x".repeat(65)), "is not of 1 to 64 bytes"),
        (job().tag("a\nb"), "without control characters"),
        (job().meta("large", "x".repeat(5000)), "at most 4096"),
        (job().meta("pairs", keys), "meta `pairs`"),
    ] {
        let error = wrong.enqueue().await.expect_err(said);
        assert!(matches!(error, Error::Config(_)) && error.to_string().contains(said), "{error}");
    }
    assert!(server.leftovers("default").is_empty());
    let most = (0..16).fold(job(), |job, number| job.tag(format!("{number:064}")));
    most.meta("large", "x".repeat(4000)).enqueue().await.expect("enqueued");
}

#[tokio::test(flavor = "multi_thread")]
async fn records_of_another_type_hold_up_nothing_else() {
    // The keys of records are texts: a job that is done is settled, what a dead worker held is taken back; and when they are gone, what
    // failed meanwhile is recorded.
    // Guard: `trim` is the last that follows a heartbeat; `End::needs`.
    let server = TestServer::start();
    let mut dead = server.worker_process(&[("HWORKER_DEAD_AFTER", "2s")]);
    server.enqueue("held", vec![vec![Act::Gate("never".into())], vec![]]).await;
    server.eventually("it runs", SOON, || server.begun("held") == 1);
    let keys = ["record", "groups"].map(|kind| format!("hworker-{kind}-default"));
    for key in &keys {
        command(&server, &["SET", key, "text"], []);
    }
    dead.kill();
    let _worker = InProcess::run(server.worker().register::<act>().register::<refuses>());
    enqueue(&server, ["no".to_owned()]).await;
    server.enqueue("beside", vec![vec![]]).await;
    server.eventually("others are done", SOON, || server.counter("processed") == 2);
    assert_eq!((server.ended("held"), server.counter("recovered")), (1, 1));
    let _: u64 = server.redis().ask(&["DEL", &keys[0], &keys[1]]);
    server.eventually("it is recorded", SOON, || server.counter("failed") == 1);
    fits_together(&server);
    let seen: HashSet<_> =
        failed(&server).await.into_iter().filter_map(|job| job.message).collect();
    assert!(seen.contains("no"), "{seen:?}");
}
