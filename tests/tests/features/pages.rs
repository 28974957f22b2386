//! Lists of jobs in pages: each job once, whatever comes and goes, and no more at once than the server can bear.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use hworker::{
    Action, Bulk, Changed, Client, Error, Filter, JobId, JobInfo, JobState, Order, Outcome,
};
use hworker_tests::{Act, Fault, InProcess, Proxy, TestServer, act};
use serde_json::json;

use crate::{SOON, command, ids, pages};

const JOBS: &str = "hworker-jobs-default";
const SCHEDULED: &str = "hworker-scheduled-default";
const PARKED: &str = "hworker-parked-default";
const BROKEN: &str = "hworker-broken-default";
const FAILED: &str = "hworker-failed-default";
const RECORD: &str = "hworker-record-default";

/// In ms since 1970: when the first of the jobs of a test was enqueued.
const BEGAN: u64 = 1_795_000_000_000;

/// Always fails for good, with this text.
#[hworker::job]
async fn declines(text: String) -> Outcome {
    Outcome::Failure(text)
}

fn envelope(number: u64) -> Vec<u8> {
    let at = BEGAN + number;
    format!(
        r#"{{"v":1,"id":"job-{number:04}","job":"elsewhere","args":{{"n":{number}}},"enqueued_at":{at}}}"#
    )
    .into_bytes()
}

/// Jobs that wait, the first in front.
fn fill(server: &TestServer, numbers: std::ops::Range<u64>) {
    command(server, &["LPUSH", JOBS], numbers.map(envelope));
}

/// So many jobs that have failed with these texts.
async fn fail(server: &TestServer, texts: impl IntoIterator<Item = String>) {
    let worker = InProcess::run(server.worker().register::<declines>().failed_limit(usize::MAX));
    let before = server.counter("failed");
    let jobs = texts.into_iter().map(|text| declines::with(text).on(server.client()));
    let jobs: Bulk = jobs.collect();
    let count = jobs.enqueue().await.expect("enqueued").len() as u64;
    server.eventually("all fail", SOON * 2, || server.counter("failed") == before + count);
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn i1_jobs_of_each_state_are_listed_in_pages() {
    // 45 jobs in each state, some of which nobody can decode, in pages of 10 -> 10, 10, 10, 10, 5, all of them, each once, in the same
    // order when they are asked for again.
    // Guard: `Reader` goes on behind the last row of the page before.
    let server = TestServer::start();
    fail(&server, (0..45).map(|number| format!("no {number}"))).await;
    let records: Vec<String> = server.redis().ask(&["HKEYS", RECORD]);
    let _: u64 = server.redis().ask(&["HSET", RECORD, &records[7], "no record"]);
    let _: u64 = server.redis().ask(&["HDEL", RECORD, &records[9]]);
    let garbage = [b"{\"job\":".to_vec(), vec![0xff, 0xfe, 0], b"- ".to_vec(), Vec::new()];
    let payloads: Vec<_> = (0..41).map(envelope).chain(garbage).collect();
    command(&server, &["LPUSH", JOBS], payloads.clone());
    for (number, payload) in (0_u64..).zip(payloads) {
        let due = (4_000_000_000_000 + number).to_string();
        command(&server, &["ZADD", SCHEDULED, &due], [payload.clone()]);
        let token = (1_700_000_000_000_000 + 1_000 * number).to_string();
        command(&server, &["ZADD", PARKED, &token], [payload.clone()]);
        command(&server, &["HSET", BROKEN], [payload.clone(), b"1 1 a reason".to_vec()]);
        let worker = format!("w{}", number % 3);
        command(&server, &["ZADD", "hworker-workers-default", "1", &worker], []);
        let progress = format!("hworker-progress-default:{worker}");
        command(&server, &["HSET", &progress, &token], [payload]);
    }
    let queue = server.inspect();
    for state in [
        JobState::Waiting,
        JobState::Scheduled,
        JobState::Running,
        JobState::Failed,
        JobState::Broken,
        JobState::Parked,
    ] {
        let asked = queue.jobs(state).limit(10);
        let (sizes, jobs) = pages(asked.clone()).await;
        assert_eq!(sizes, [10, 10, 10, 10, 5], "{state}");
        let page = asked.clone().page().await.expect("a page");
        assert_eq!((page.total, page.complete), (45, true), "{state}");
        let shown = |jobs: &[JobInfo]| -> Vec<_> {
            jobs.iter().map(|job| (job.id.clone(), job.payload().to_vec())).collect()
        };
        assert_eq!(shown(&jobs), shown(&pages(asked.clone()).await.1), "{state}");
        assert_eq!(shown(&jobs).into_iter().collect::<HashSet<_>>().len(), 45, "{state}");
        assert!(jobs.iter().all(|job| job.state == state));
        if state == JobState::Failed {
            let messages: Vec<_> = jobs.iter().filter_map(|job| job.message.as_deref()).collect();
            assert!(messages.contains(&"its record is gone"), "{messages:?}");
            assert!(messages.contains(&"its record cannot be read"), "{messages:?}");
            continue;
        }
        let undecodable = jobs.iter().filter(|job| job.id.is_none() && job.message.is_some());
        assert_eq!(undecodable.count(), 4, "{state}");
        if state == JobState::Broken {
            continue;
        }
        let mut other = pages(asked.order(Order::Newest)).await.1;
        if state != JobState::Parked {
            assert_eq!(jobs[0].id, Some(JobId::from("job-0000")), "{state}");
            other.reverse();
        }
        assert_eq!(shown(&jobs), shown(&other), "{state}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn i2_counts_are_what_there_is() {
    // Jobs in every state -> the counts are the lengths of the pages and of the keys, and the queue is among the queues with them.
    // Guard: `Queue::counts`.
    let server = TestServer::start();
    let worker = server.worker().register::<act>().register::<declines>().concurrency(3);
    let _worker = InProcess::run(worker.prefetch(false).keep_done(100));
    for number in 0..8 {
        server.enqueue("done", vec![vec![]]).await;
        server.redis().ask::<u64>(&[
            "LPUSH",
            JOBS,
            &format!(r#"{{"job":"none","id":"{number}"}}"#),
        ]);
    }
    for text in ["a", "b", "c", "d"] {
        declines::with(text.into()).on(server.client()).enqueue().await.expect("enqueued");
        command(&server, &["LPUSH", JOBS], [format!("{{{text}").into_bytes()]);
    }
    let settled = ["processed", "parked", "failed", "broken"];
    server.eventually("all end", SOON, || settled.map(|it| server.counter(it)) == [8, 8, 4, 4]);
    for _ in 0..3 {
        server.enqueue("runs", vec![vec![Act::Gate("never".into())]]).await;
    }
    server.eventually("three run", SOON, || server.begun("runs") == 3);
    for number in 0..7 {
        server.enqueue("waits", vec![vec![]]).await;
        let job = act::with(number.to_string(), Vec::new()).delay(SOON * 100);
        job.on(server.client()).enqueue().await.expect("enqueued");
    }
    let counts = server.inspect().counts().await.expect("counts");
    let expected = [
        (JobState::Waiting, counts.waiting, 7),
        (JobState::Scheduled, counts.scheduled, 7),
        (JobState::Parked, counts.parked, 8),
        (JobState::Running, counts.running, 3),
        (JobState::Failed, counts.failed, 4),
        (JobState::Cancelled, counts.cancelled, 0),
        (JobState::Expired, counts.expired, 0),
        (JobState::Done, counts.done, 8),
        (JobState::Broken, counts.broken, 4),
    ];
    for (state, counted, there) in expected {
        let listed = pages(server.inspect().jobs(state)).await.1.len() as u64;
        assert_eq!((counted, listed), (there, there), "{state}");
    }
    let keys: BTreeMap<_, _> = server.leftovers("default").into_iter().collect();
    let progress =
        keys.iter().filter(|(key, _)| key.contains("-progress-")).map(|(_, count)| count);
    assert_eq!(progress.sum::<u64>(), 3);
    assert_eq!([JOBS, SCHEDULED, PARKED, FAILED, BROKEN].map(|key| keys[key]), [7, 7, 8, 4, 4]);
    let queues = server.client().queues().await.expect("queues");
    assert_eq!(
        (queues[0].name.as_str(), queues[0].counts, queues[0].workers),
        ("default", counts, 1)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn i6_a_job_by_its_id_in_each_state() {
    // One job in each state -> found by its id in that state and in no other, with what there is to tell: due time, worker, attempt,
    // error. One that is done and not kept, or was never there -> none.
    // Guard: `find` in `find.rs`.
    let server = TestServer::start();
    let worker = server.worker().register::<act>().concurrency(1).prefetch(false).name("finder");
    let worker = InProcess::run(worker.keep_done(10));
    let done = server.enqueue("done", vec![vec![]]).await;
    let failed = server.enqueue("failed", vec![vec![Act::Failure("no".into())]]).await;
    let again = server.enqueue("again", vec![vec![Act::RetryIn(3_600_000)]]).await;
    command(&server, &["LPUSH", JOBS], [envelope(1)]);
    let ended = || server.leftovers("default").iter().map(|(_, count)| count).sum::<u64>();
    server.eventually("all are where they go", SOON, || ended() == 4);
    let job = act::with("later".into(), Vec::new()).delay(SOON * 100);
    let later = job.on(server.client()).enqueue().await.expect("enqueued");
    let running = server.enqueue("running", vec![vec![Act::Gate("never".into())]]).await;
    server.eventually("it runs", SOON, || server.begun("running") == 1);
    let waiting = server.enqueue("waiting", vec![vec![]]).await;
    let broken = String::from_utf8(envelope(2)).expect("text");
    let _: u64 = server.redis().ask(&["HSET", BROKEN, &broken, "3 5 it is wrong"]);
    let parked = JobId::from("job-0001");
    let found = async |id: &JobId| server.inspect().find(id).await.expect("asked");
    for (id, state, attempt) in [
        (&done, JobState::Done, 1),
        (&failed, JobState::Failed, 1),
        (&again, JobState::Scheduled, 2),
        (&parked, JobState::Parked, 1),
        (&later, JobState::Scheduled, 1),
        (&running, JobState::Running, 1),
        (&waiting, JobState::Waiting, 1),
        (&JobId::from("job-0002"), JobState::Broken, 1),
    ] {
        let job = found(id).await.expect("it is there");
        assert_eq!((job.id.as_ref(), job.state, job.attempt), (Some(id), state, attempt));
        assert!(job.at.is_some(), "{job:?}");
        let held = [JobState::Done, JobState::Failed, JobState::Running].contains(&state);
        let by_finder = job.worker.as_ref().is_some_and(|worker| worker.starts_with("finder."));
        assert_eq!(by_finder, held, "{job:?}");
        for other in JobState::ALL {
            let listed = pages(server.inspect().jobs(other)).await.1;
            assert_eq!(ids(&listed).contains(&id.as_str()), other == state, "{id} {other}");
        }
    }
    let job = found(&JobId::from("job-0002")).await.expect("it is there");
    assert_eq!(
        (job.times, job.at, job.message.as_deref()),
        (Some(3), Some(5), Some("it is wrong"))
    );
    assert!(found(&JobId::from("none")).await.is_none());
    server.open("never");
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn i7_when_the_oldest_was_enqueued() {
    // No job, then several -> none, then the time of the one that is next; when that is deleted by hand, of the one behind it.
    // Guard: `Inspect::oldest` and `next_waiting` pass over what an edit left.
    let server = TestServer::start();
    let queue = server.inspect();
    assert_eq!(queue.oldest().await.expect("asked"), None);
    fill(&server, 0..5);
    assert_eq!(queue.oldest().await.expect("asked"), Some(BEGAN));
    let first = queue.jobs(JobState::Waiting).limit(2).page().await.expect("a page").items;
    let done = queue.change(&first, &Action::Delete).await.expect("changed");
    assert_eq!(done, [Changed::Done; 2]);
    assert_eq!(queue.oldest().await.expect("asked"), Some(BEGAN + 2));
    command(&server, &["RPUSH", JOBS], [br#"{"job":"elsewhere"}"#.to_vec()]);
    assert_eq!(queue.oldest().await.expect("asked"), None, "it does not say");
}

#[tokio::test(flavor = "multi_thread")]
async fn s15_scheduled_jobs_are_listed_with_their_due_times() {
    // Jobs of several delays, one for ever -> listed by due time, the earliest first, each with its time.
    // Guard: `fill_from_set`.
    let server = TestServer::start();
    let now = server.redis().time_us() / 1000;
    let mut due = Vec::new();
    for minutes in [50, 10, 40, 20, 30] {
        let delay = Duration::from_secs(60 * minutes);
        let job = act::with(minutes.to_string(), Vec::new()).delay(delay);
        let id = job.on(server.client()).enqueue().await.expect("enqueued");
        due.push((60_000 * minutes, id));
    }
    let job = act::with("never".into(), Vec::new()).delay(Duration::MAX);
    let never = job.on(server.client()).enqueue().await.expect("enqueued");
    due.sort();
    let (sizes, jobs) = pages(server.inspect().jobs(JobState::Scheduled).limit(4)).await;
    assert_eq!(sizes, [4, 2]);
    for (job, (delay, id)) in jobs.iter().zip(&due) {
        assert_eq!(job.id.as_ref(), Some(id));
        assert!(job.at.is_some_and(|at| at.abs_diff(now + delay) < 10_000), "{job:?}");
    }
    assert_eq!(jobs[5].id, Some(never));
}

#[tokio::test(flavor = "multi_thread")]
async fn operate_10_pages_of_a_list_that_shrinks_skip_nothing() {
    // 1,000 failed, 1,000 waiting, and 1,000 broken jobs, deleted page by page with one cursor -> none is left, nor a record, a group or a
    // byte.
    // Guard: a `Position` names the last row, and no place in what shrinks.
    let server = TestServer::start();
    fail(&server, (0..1000).map(|number| format!("no {number}"))).await;
    fill(&server, 0..1000);
    for number in 0..1000 {
        command(&server, &["HSET", BROKEN], [envelope(number), b"1 1 a reason".to_vec()]);
    }
    let queue = server.inspect();
    for state in [JobState::Failed, JobState::Waiting, JobState::Broken] {
        let mut asked = queue.jobs(state).limit(100);
        let mut deleted = 0;
        loop {
            let page = asked.page().await.expect("a page");
            let done = queue.change(&page.items, &Action::Delete).await.expect("changed");
            assert!(done.iter().all(|done| *done == Changed::Done), "{done:?}");
            deleted += done.len();
            let Some(next) = page.next else { break };
            asked = asked.after(next);
        }
        assert_eq!(deleted, 1000, "{state}");
        let page = queue.jobs(state).page().await.expect("a page");
        assert_eq!((page.total, page.items.len()), (0, 0), "{state}");
    }
    assert_eq!(queue.counts().await.expect("counts"), hworker::Counts::default());
    assert!(queue.groups().await.expect("groups").is_empty());
    assert_eq!(server.redis().len(RECORD), 0);
    let bytes: u64 = server.redis().ask(&["HGET", "hworker-groups-default", "|failed"]);
    assert_eq!(bytes, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cursor_goes_on_though_rows_around_it_are_changed() {
    // 100 jobs in each of four states, by pages of 10; after each page its last two rows, one before them and one that was not shown yet
    // are deleted -> all others are shown once.
    // Guard: `sorted` in `budget.rs` and `behind` in `budget/list.rs`.
    let server = TestServer::start();
    fail(&server, (0..100).map(|number| format!("no {number}"))).await;
    fill(&server, 0..100);
    for number in 100..200 {
        // Four have the same score.
        let score = (4_000_000_000_000 + number / 4).to_string();
        command(&server, &["ZADD", SCHEDULED, &score], [envelope(number)]);
        command(&server, &["ZADD", PARKED, &(score + "000")], [envelope(number + 100)]);
    }
    let queue = server.inspect();
    for state in [JobState::Failed, JobState::Scheduled, JobState::Parked, JobState::Waiting] {
        let all = pages(queue.jobs(state).limit(1000)).await.1;
        assert_eq!(all.len(), 100);
        let mut asked = queue.jobs(state).limit(10);
        let (mut shown, mut unseen) = (Vec::new(), Vec::new());
        while let page = asked.page().await.expect("a page")
            && let Some(next) = page.next
        {
            shown.extend(page.items.iter().filter_map(|job| job.id.clone()));
            let mut gone = [&page.items[3..4], &page.items[8..]].concat();
            if let Some(at) = all.iter().position(|job| job.id == page.items[9].id)
                && let Some(later) = all.get(at + 5)
            {
                unseen.extend(later.id.clone());
                gone.push(later.clone());
            }
            let done = queue.change(&gone, &Action::Delete).await.expect("changed");
            assert!(done.iter().all(|done| *done == Changed::Done), "{state} {done:?}");
            asked = asked.after(next);
            if asked.page().await.expect("a page").items.len() < 10 {
                break;
            }
        }
        shown
            .extend(asked.page().await.expect("a page").items.into_iter().filter_map(|job| job.id));
        let distinct: HashSet<_> = shown.iter().collect();
        assert_eq!(distinct.len(), shown.len(), "{state}: none twice: {shown:?}");
        let expected = all.iter().filter_map(|job| job.id.clone());
        let expected: Vec<_> = expected.filter(|id| !unseen.contains(id)).collect();
        assert_eq!(shown, expected, "{state}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cursor_goes_on_while_waiting_jobs_are_taken_and_come() {
    // 1,000 waiting jobs in pages of 50; after each page 40 are taken in front and 60 come, in both orders -> each that was there and is not
    // taken before its turn is shown once.
    // Guard: `behind`, and `place_of_time` where the row is taken.
    for order in [Order::Next, Order::Newest] {
        let server = TestServer::start();
        fill(&server, 0..1000);
        let queue = server.inspect();
        let mut asked = queue.jobs(JobState::Waiting).order(order).limit(50);
        let (mut shown, mut taken) = (Vec::new(), HashSet::new());
        let mut fresh = 1000;
        loop {
            let page = asked.page().await.expect("a page");
            shown.extend(page.items.iter().filter_map(|job| job.id.clone()));
            let Some(next) = page.next else { break };
            asked = asked.after(next);
            let gone: Vec<String> = server.redis().ask(&["RPOP", JOBS, "40"]);
            for payload in gone {
                let job: serde_json::Value = serde_json::from_str(&payload).expect("JSON");
                taken.insert(JobId::from(job["id"].as_str().expect("an id")));
            }
            // No more than one goes through in the end.
            if fresh < 2000 {
                fill(&server, fresh..fresh + 60);
                fresh += 60;
            }
        }
        let distinct: HashSet<_> = shown.iter().cloned().collect();
        assert_eq!(distinct.len(), shown.len(), "{order:?}: none twice");
        let missed: Vec<_> = (0..1000)
            .map(|number| JobId::from(format!("job-{number:04}").as_str()))
            .filter(|id| !distinct.contains(id) && !taken.contains(id))
            .collect();
        assert!(missed.is_empty(), "{order:?}: {missed:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cursor_goes_on_among_jobs_of_one_time() {
    // 2,000 jobs of one millisecond, as a bulk has them, in pages of 50; after each page its last row is deleted, and in front or behind come
    // and go more than a row is looked for around its place, in both orders -> each that is not taken before its turn is shown once.
    // Guard: `next` of `Position::List`; `behind` looks through the jobs of a time.
    for order in [Order::Next, Order::Newest] {
        let server = TestServer::start();
        let bulk = (0..2000).map(|number| {
            let time = format!("\"enqueued_at\":{}", BEGAN + number);
            let payload = String::from_utf8(envelope(number)).expect("text");
            payload.replace(&time, &format!("\"enqueued_at\":{BEGAN}")).into_bytes()
        });
        command(&server, &["LPUSH", JOBS], bulk);
        let queue = server.inspect();
        let mut asked = queue.jobs(JobState::Waiting).order(order).limit(50);
        let (mut shown, mut fresh) = (Vec::new(), 2000);
        loop {
            let page = asked.page().await.expect("a page");
            shown.extend(page.items.iter().filter_map(|job| job.id.clone()));
            let Some(next) = page.next else { break };
            asked = asked.after(next);
            if let Some(last) = page.items.last() {
                let last = std::slice::from_ref(last);
                let done = queue.change(last, &Action::Delete).await.expect("changed");
                assert_eq!(done, [Changed::Done]);
            }
            if order == Order::Newest && fresh < 3000 {
                fill(&server, fresh..fresh + 100);
                fresh += 100;
            } else if shown.len() == 500 {
                let _: Vec<String> = server.redis().ask(&["RPOP", JOBS, "200"]);
            }
        }
        let all: Vec<_> = (0..2000).map(|number| format!("job-{number:04}")).collect();
        let mut shown: Vec<_> = shown.iter().map(|id| id.as_str().to_owned()).collect();
        if order == Order::Newest {
            shown.reverse();
        }
        assert!(shown == all, "{order:?}: {shown:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn conditions_choose_among_jobs_that_are_there() {
    // Failed, scheduled, waiting, running and broken jobs of several types, texts and ages -> each condition gives exactly those that it
    // means, alone and together.
    // Guard: `Condition::holds`; `excludes_by_place`.
    let server = TestServer::start();
    let worker = server.worker().register::<act>().register::<declines>().name("chooser");
    let worker = InProcess::run(worker.concurrency(4).prefetch(false));
    for text in ["timed out after 5s", "no such user 17", "no such user 4711"] {
        let job = declines::with(text.into()).tag("eu").meta("tenant", json!({"id": 7}));
        job.on(server.client()).enqueue().await.expect("enqueued");
    }
    let plan = vec![vec![Act::Error("soft".into())], vec![Act::Panic("hard".into())]];
    let job = act::with("panics".into(), plan).max_attempts(2).tag("us");
    let panics = job.on(server.client()).enqueue().await.expect("enqueued");
    server.eventually("all fail", SOON, || server.counter("failed") == 4);
    let running = server.enqueue("running", vec![vec![Act::Gate("go".into())]]).await;
    server.eventually("it runs", SOON, || server.begun("running") == 1);
    let queue = server.inspect();
    let count = async |state: JobState, filter: &str| {
        let filter: Filter = filter.parse().expect(filter);
        pages(queue.jobs(state).filter(filter)).await.1.len()
    };
    let group = queue.groups().await.expect("groups")[0].name.clone();
    for (filter, there) in [
        ("job:declines", 3),
        ("job:act", 1),
        ("job:acts", 0),
        ("state:failed", 4),
        ("state:done", 0),
        ("queue:default", 4),
        ("queue:other", 0),
        ("error:\"no such user\"", 2),
        ("error:soft", 1),
        ("error:SOFT", 0),
        ("kind:panic", 1),
        ("kind:failure", 3),
        (&format!("group:{group}"), 2),
        ("group:000000000000", 0),
        ("args.text=\"no such user 17\"", 1),
        ("args~4711", 1),
        ("args.name=panics", 1),
        ("tag:eu", 3),
        ("tag:e", 0),
        ("meta.tenant.id=7", 3),
        ("meta.tenant=7", 0),
        ("worker:chooser.", 4),
        ("worker:hooser", 0),
        ("attempt>=2", 1),
        ("attempt<2", 3),
        ("attempt=2 kind:panic", 1),
        ("age<1h", 4),
        ("age>1h", 0),
        ("since:1h", 4),
        ("until:1h", 0),
        (&format!("until:{}", u64::MAX / 2), 4),
        ("since:2026-01-01 until:2526-01-01", 4),
        (&format!("id:{panics}"), 1),
        ("id:none", 0),
        ("job:declines error:\"no such user\" args~4711 tag:eu age<1h", 1),
    ] {
        assert_eq!(count(JobState::Failed, filter).await, there, "{filter}");
    }
    assert_eq!(count(JobState::Running, &format!("id:{running} worker:chooser age<1h")).await, 1);
    assert_eq!(count(JobState::Running, "age>1h").await, 0);
    server.open("go");
    worker.stop().await;
    fill(&server, 0..500);
    let some = format!("since:{} until:{}", BEGAN + 100, BEGAN + 199);
    assert_eq!(count(JobState::Waiting, &some).await, 100);
    for order in [Order::Next, Order::Newest] {
        let filter: Filter = some.parse().expect("a filter");
        let asked = queue.jobs(JobState::Waiting).filter(filter).order(order).limit(30);
        let (sizes, jobs) = pages(asked).await;
        assert_eq!(jobs.len(), 100, "{sizes:?}");
    }
    assert_eq!(count(JobState::Waiting, "args.n=321").await, 1);
    assert_eq!(count(JobState::Waiting, "job:elsewhere args.n=321 id:job-0321").await, 1);
    command(&server, &["HSET", BROKEN], [b"{".to_vec(), b"2 5 cut off".to_vec()]);
    assert_eq!(count(JobState::Broken, "error:cut").await, 1);
    assert_eq!(count(JobState::Broken, "error:other").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_cursors_and_limits_are_refused() {
    // Limits of 0 and 1,001, and cursors that are none or of a queue with other shards -> an error of the program; good ones of another
    // page are taken.
    // Guard: `Jobs::page`; `Position::of_places`.
    let server = TestServer::start();
    fill(&server, 0..20);
    let queue = server.inspect();
    let asked = || queue.jobs(JobState::Waiting);
    for wrong in [
        asked().limit(0),
        asked().limit(1001),
        asked().after(""),
        asked().after("x"),
        asked().after("b~b"),
        asked().after("l.1.2.3"),
        asked().after("s.1.2.3.ff"),
        asked().after(format!("l.{}.0.0.0", "f".repeat(17))),
    ] {
        let error = wrong.page().await.expect_err("refused");
        assert!(matches!(error, Error::Config(_)), "{error}");
    }
    // Those of other states, or made up, are no reason to panic.
    for strange in [
        "l.fffffffffffff.0.0.0",
        "l.fffffffffffff.ffffffffffffffff.ffffffffffffffff.ffffffffffffffff",
        "s.ffffffffffffffff.ffffffffffffffff.0.",
        "s.0.0.0.00",
        "h.ffffffffffffffff.fffffffffffff.0",
        "e",
    ] {
        for state in JobState::ALL {
            for order in [Order::Next, Order::Newest] {
                let page = queue.jobs(state).order(order).after(strange).page().await;
                let is_none = matches!(page, Err(Error::Config(_)));
                assert!(page.is_ok() || is_none, "{state} {strange}: {page:?}");
            }
        }
    }
    assert_eq!(asked().limit(1000).page().await.expect("a page").items.len(), 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_over_several_shards_is_one_list() {
    // 60 jobs over three shards -> pages in the order of their times, each job once, found by its id and changed where it is; and the same
    // of failed ones.
    // Guard: `next_of` in `page.rs`; `Guard::of` a shard.
    let server = TestServer::start();
    let client = Client::builder().redis_url(server.url()).shards("default", 3);
    let client = client.build().expect("a client");
    for number in 0..60 {
        declines::with(format!("no {number}")).on(&client).enqueue().await.expect("enqueued");
    }
    let queue = client.inspect("default");
    for (state, is_next_first) in [(JobState::Waiting, true), (JobState::Failed, false)] {
        if state == JobState::Failed {
            let worker = server.worker().client(&client).register::<declines>();
            let worker = InProcess::run(worker);
            let failed = async || queue.counts().await.expect("counts").failed;
            server.eventually_async("all fail", SOON, async || failed().await == 58).await;
            worker.stop().await;
        }
        let (sizes, jobs) = pages(queue.jobs(state).limit(7)).await;
        let there = if is_next_first { 60 } else { 58 };
        assert_eq!((sizes[0], jobs.len()), (7, there), "{sizes:?}");
        let mut times: Vec<_> = jobs.iter().map(|job| job.at).collect();
        if !is_next_first {
            times.reverse();
        }
        assert!(times.is_sorted(), "{times:?}");
        assert_eq!(ids(&jobs).into_iter().collect::<HashSet<_>>().len(), there);
        let id = jobs[17].id.clone().expect("an id");
        assert_eq!(queue.find(&id).await.expect("asked").expect("found").state, state);
        queue.change_by_id(&id, &Action::Delete).await.expect("deleted");
        assert!(queue.find(&id).await.expect("asked").is_none());
        let done = queue.change(&jobs[30..31], &Action::Delete).await.expect("changed");
        assert_eq!(done, [Changed::Done]);
        assert_eq!(pages(queue.jobs(state).limit(9)).await.1.len(), there - 2);
    }
    assert_eq!(queue.groups().await.expect("groups")[0].count, 56);
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_in_records_and_members_is_shown_or_skipped() {
    // Members, scores, records and groups of no form, as somebody else may have written them -> the good ones are shown, the others are
    // shown with a word or left out, and each that is shown can be deleted.
    // Guard: `JobInfo::of_record`; `Group::parse`; `Place::parts`.
    let server = TestServer::start();
    fail(&server, (0..3).map(|number| format!("no {number}"))).await;
    let good: Vec<String> = server.redis().ask(&["ZRANGE", FAILED, "0", "-1"]);
    for (score, member) in [
        ("5", "x"),
        ("6", ""),
        ("7.5", "- no record"),
        ("8", "a b c d"),
        ("9", "- declines of-garbage"),
        ("10", "- declines of-another-form"),
        ("11", "- declines #"),
        ("1e300", "- later than-all"),
        ("-3", "- before all"),
    ] {
        command(&server, &["ZADD", FAILED, score, member], []);
        command(&server, &["ZADD", SCHEDULED, score, member], []);
        command(&server, &["ZADD", PARKED, score, member], []);
    }
    command(&server, &["ZADD", FAILED, "12"], [vec![0xff, b' ', 0xfe, b' ', 0]]);
    command(&server, &["HSET", RECORD, "of-garbage"], [vec![0xff, 0, b'{']]);
    command(&server, &["HSET", RECORD, "of-another-form", r#"{"v":1,"id":5,"envelope":[]}"#], []);
    command(&server, &["HSET", RECORD, "without-a-place", r#"{"id":"x"}"#], []);
    for entry in ["", "x", "1 2 3", "1 2 3 {}", "-1 2 3 {\"job\":1}", "9 9 9 {\"job\":\"a\"}"] {
        command(
            &server,
            &["HSET", "hworker-groups-default", &format!("g{}", entry.len()), entry],
            [],
        );
    }
    command(&server, &["HSET", "hworker-groups-default"], [vec![0xff], vec![0xfe]]);
    command(&server, &["HSET", BROKEN, "a", ""], []);
    command(&server, &["HSET", BROKEN, "b", "many times over"], []);
    let queue = server.inspect();
    assert_eq!(queue.groups().await.expect("groups").len(), 1);
    for id in ["of-garbage", "without-a-place", "record", "#"] {
        let _ = queue.find(&JobId::from(id)).await.expect("asked");
    }
    let _ = queue.counts().await.expect("counts");
    for state in JobState::ALL {
        for order in [Order::Next, Order::Newest] {
            let jobs = pages(queue.jobs(state).order(order).limit(2)).await.1;
            assert!(jobs.iter().all(|job| serde_json::to_string(job).is_ok()));
            let there = match state {
                JobState::Failed => good.len() + 10,
                JobState::Scheduled | JobState::Parked => 9,
                JobState::Broken => 2,
                _ => 0,
            };
            assert_eq!(jobs.len(), there, "{state} {order:?}: {jobs:?}");
        }
        let jobs = pages(queue.jobs(state)).await.1;
        let is_good = |job: &&JobInfo| job.message.as_ref().is_some_and(|it| it.starts_with("no "));
        let good_ones = jobs.iter().filter(is_good).count();
        assert_eq!(good_ones, if state == JobState::Failed { 3 } else { 0 }, "{jobs:?}");
        for action in [Action::Retry, Action::Reset, Action::Delete] {
            for job in jobs.iter().filter(|job| !is_good(job)) {
                let _ = queue.change(std::slice::from_ref(job), &action).await.expect("changed");
            }
        }
        if state == JobState::Failed {
            let left = pages(queue.jobs(state)).await.1;
            // Bytes that are no text have no name by which they could be deleted.
            assert_eq!(left.len(), 4, "{left:?}");
        }
    }
    let _ = queue.counts().await.expect("counts");
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_of_another_type_are_an_error_where_they_are_read() {
    // Each key of the queue is a text in turn -> what reads it fails with an error that is no panic, what does not goes on.
    // Guard: `Fault::is_of_another_type`.
    let server = TestServer::start();
    let kinds = [
        "jobs",
        "scheduled",
        "parked",
        "failed",
        "done",
        "record",
        "groups",
        "broken",
        "workers",
        "stat",
    ];
    for kind in kinds {
        command(&server, &["SET", &format!("hworker-{kind}-default"), "text"], []);
    }
    let queue = server.inspect();
    for state in JobState::ALL {
        let page = queue.jobs(state).page().await;
        let is_missing = [JobState::Cancelled, JobState::Expired].contains(&state);
        assert_eq!(page.is_err(), !is_missing, "{state}: {page:?}");
    }
    // Counts of what can be counted go on.
    assert!(queue.counts().await.is_ok() && queue.groups().await.is_err());
    assert!(queue.find(&JobId::from("x")).await.is_err() && queue.oldest().await.is_err());
    for kind in kinds {
        let _: u64 = server.redis().ask(&["DEL", &format!("hworker-{kind}-default")]);
    }
    fail(&server, ["no".to_owned()]).await;
    let page = queue.jobs(JobState::Failed).page().await.expect("a page");
    for kind in ["jobs", "parked", "scheduled", "broken", "stat", "token"] {
        let _: u64 = server.redis().ask(&["DEL", &format!("hworker-{kind}-default")]);
        command(&server, &["SET", &format!("hworker-{kind}-default"), "text"], []);
    }
    let retried = queue.change(&page.items, &Action::Retry).await;
    assert!(retried.is_err(), "the list is none");
    assert_eq!(queue.jobs(JobState::Failed).page().await.expect("a page").items.len(), 1);
    let done = queue.change(&page.items, &Action::Delete).await.expect("changed");
    assert_eq!(done, [Changed::Done], "what it does not need holds it up");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_goes_on_however_far_the_server_is() {
    // The first answer takes longer than a page looks for jobs of a filter -> it has the job all the same, or pages would begin in the same place for ever.
    // Guard: `has_any` in `next_of`.
    let server = TestServer::alone();
    let proxy = Proxy::before(&server);
    let job = json!({"v": 1, "id": "job-1", "job": "elsewhere", "args": {}}).to_string();
    command(&server, &["LPUSH", JOBS], [job.into_bytes()]);
    proxy.fault(1, "read_list", Fault::Delay(Duration::from_millis(100)));
    let queue = proxy.client().inspect("default");
    let filter = "id:job-1".parse().expect("a filter");
    let page = queue.jobs(JobState::Waiting).filter(filter).page().await.expect("a page");
    assert_eq!(page.items.len(), 1);
    assert!(proxy.all_happened());
}

#[tokio::test(flavor = "multi_thread")]
async fn operate_18_no_reply_holds_up_the_server() {
    // 60 payloads of 1 MB in each state, looked at in pages, by a filter and by an id -> no reply has more than one payload and 1 MB, and
    // large records are not read for a list at all.
    // Guard: what a script of `read.rs` stops at; `fields`; `LARGE_RECORD`.
    const MB: usize = 1_000_000;
    let server = TestServer::alone();
    let proxy = Proxy::before(&server);
    let queue = proxy.client().inspect("default");
    let large = |number: u64| {
        let text = "x".repeat(MB);
        let job = json!({"v": 1, "id": format!("job-{number:04}"), "job": "elsewhere", "args": {"text": text}});
        job.to_string().into_bytes()
    };
    for state in [
        JobState::Waiting,
        JobState::Scheduled,
        JobState::Parked,
        JobState::Running,
        JobState::Broken,
        JobState::Failed,
    ] {
        for number in 0..60 {
            let payload = large(number);
            let (word, score) = (format!("{number}"), (4_000_000_000_000 + number).to_string());
            match state {
                JobState::Waiting => command(&server, &["LPUSH", JOBS], [payload]),
                JobState::Scheduled => command(&server, &["ZADD", SCHEDULED, &score], [payload]),
                JobState::Parked => command(&server, &["ZADD", PARKED, &score], [payload]),
                JobState::Running => {
                    command(&server, &["ZADD", "hworker-workers-default", "1", "w"], []);
                    command(&server, &["HSET", "hworker-progress-default:w", &score], [payload]);
                }
                JobState::Broken => {
                    command(&server, &["HSET", BROKEN], [payload, b"1 1 x".to_vec()]);
                }
                _ => {
                    let job: serde_json::Value = serde_json::from_slice(&payload).expect("JSON");
                    let id = job["id"].as_str().expect("an id");
                    let record = json!({"v": 1, "id": id, "job": "elsewhere", "outcome": "failed", "envelope": job});
                    command(&server, &["HSET", RECORD, id], [record.to_string().into_bytes()]);
                    command(&server, &["ZADD", FAILED, &word, &format!("- elsewhere {id}")], []);
                }
            }
        }
        proxy.take_largest_reply();
        let mut asked = queue.jobs(state).order(Order::Next).limit(100);
        let mut shown = 0;
        loop {
            let page = asked.page().await.expect("a page");
            shown += page.items.len();
            let Some(next) = page.next else { break };
            asked = asked.after(next);
        }
        assert_eq!(shown, 60, "{state}");
        let most = match state {
            JobState::Failed => MB + 100_000,
            _ => 2 * MB + 100_000,
        };
        let largest = proxy.take_largest_reply();
        assert!(largest <= most, "{state}: {largest}");
        let found = queue.find(&JobId::from("job-0030")).await.expect("asked").expect("found");
        assert_eq!((found.state, found.args().len() > MB), (state, true));
        let largest = proxy.take_largest_reply();
        assert!(largest <= most.max(2 * MB + 100_000), "{state}: {largest} for one id");
        let _: String = server.redis().ask(&["FLUSHALL"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn operate_18_large_payloads_behind_small_ones() {
    // 3,000 payloads of 100 bytes with some of 100 KB and 1 MB among the later ones and 64 behind, in each state, in pages, both orders,
    // and by an id that is not there -> no reply has more than one payload and 1 MB, and no command takes the server 10 ms.
    // Guard: what `lib/portion.lua` stops at and grows by; `fields`.
    const MB: usize = 1_000_000;
    let server = TestServer::alone();
    let proxy = Proxy::before(&server);
    let queue = proxy.client().inspect("default");
    let payload = |number: u64| {
        let size = match number {
            _ if number == 1999 || number == 2599 || number >= 3060 => MB,
            _ if number > 1500 && number % 100 == 99 || number >= 3000 => MB / 10,
            _ => 0,
        };
        let text = "x".repeat(size);
        let job = json!({"v": 1, "id": format!("job-{number:04}"), "job": "elsewhere", "args": {"text": text}});
        job.to_string().into_bytes()
    };
    for state in [
        JobState::Waiting,
        JobState::Scheduled,
        JobState::Parked,
        JobState::Running,
        JobState::Broken,
    ] {
        command(&server, &["ZADD", "hworker-workers-default", "1", "w"], []);
        for number in 0..3064 {
            let (payload, score) = (payload(number), (4_000_000_000_000 + number).to_string());
            match state {
                JobState::Waiting => command(&server, &["LPUSH", JOBS], [payload]),
                JobState::Scheduled => command(&server, &["ZADD", SCHEDULED, &score], [payload]),
                JobState::Parked => command(&server, &["ZADD", PARKED, &score], [payload]),
                JobState::Running => {
                    command(&server, &["HSET", "hworker-progress-default:w", &score], [payload]);
                }
                _ => command(&server, &["HSET", BROKEN], [payload, b"1 1 x".to_vec()]),
            }
        }
        proxy.take_largest_reply();
        let mut slow: Option<HashSet<Vec<String>>> = None;
        // A machine that is busy with other tests may hold up any command, but not the same each time.
        for _ in 0..20 {
            let _: String = server.redis().ask(&["SLOWLOG", "RESET"]);
            for order in [Order::Next, Order::Newest] {
                let jobs = pages(queue.jobs(state).order(order).limit(1000)).await.1;
                assert_eq!(ids(&jobs).into_iter().collect::<HashSet<_>>().len(), 3064, "{state}");
                let asked = queue.jobs(state).order(order).limit(50);
                let page = asked.clone().page().await.expect("a page");
                asked.after(page.next.expect("more")).page().await.expect("a page");
            }
            assert!(queue.find(&JobId::from("none")).await.expect("asked").is_none());
            let seen: Vec<(u64, u64, u64, Vec<String>, String, String)> =
                server.redis().ask(&["SLOWLOG", "GET", "-1"]);
            let seen: HashSet<_> = seen.into_iter().map(|entry| entry.3).collect();
            slow = Some(slow.map_or(seen.clone(), |slow| &slow & &seen));
            // A hash gives at once what it has in one of its buckets.
            if state == JobState::Broken || slow.as_ref().is_some_and(HashSet::is_empty) {
                break;
            }
        }
        let largest = proxy.take_largest_reply();
        assert!(largest <= (1 << 20) + MB, "{state}: {largest}");
        assert!(state == JobState::Broken || slow == Some(HashSet::new()), "{state}: {slow:?}");
        let _: String = server.redis().ask(&["FLUSHALL"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn operate_18_a_page_of_large_jobs_is_short_and_goes_on() {
    // 20 jobs of 1 MB each -> a page ends behind 8 MB whatever its limit, and all pages together have each job once.
    // Guard: `BYTES` in inspect/page.rs.
    let server = TestServer::start();
    let text = "x".repeat(1_000_000);
    let large = |number: u64| {
        format!(r#"{{"v":1,"id":"large-{number}","job":"elsewhere","args":{{"text":"{text}"}}}}"#)
            .into_bytes()
    };
    command(&server, &["LPUSH", JOBS], (0..20).map(large));
    let queue = server.inspect();
    let first = queue.jobs(JobState::Waiting).limit(100).page().await.expect("a page");
    assert!(first.items.len() == 9 && first.next.is_some(), "{} jobs", first.items.len());
    let (_, all) = pages(queue.jobs(JobState::Waiting).limit(100)).await;
    let seen: HashSet<_> = ids(&all).into_iter().collect();
    assert_eq!((all.len(), seen.len()), (20, 20));
}
