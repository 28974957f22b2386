//! Rows P1 to P4, PR3, PR4 and PR6: which waiting job runs next.

use std::time::{Duration, Instant};

use hworker::{Action, Bulk, Changed, JobState, Priority, When};
use hworker_tests::{Act, InProcess, Machine, TestServer, act, act_once};
use redis::Value;

use crate::{SOON, ids};

/// Runs before others wherever its producer knows nothing of priorities.
#[hworker::job(priority = "high", backoff = "0s")]
async fn urgent(name: String, context: hworker::Context, #[inject] runs: hworker_tests::Runs) {
    runs.note(&name, "begin", 0, &context);
}

/// Puts a job into the low list, and does one thing more.
const PUSH: &str = "
    redis.call('LPUSH', KEYS[1], ARGV[1])
    redis.call('ZADD', KEYS[2], 4e15, 'low')
    return redis.call(unpack(ARGV, 2))";

/// Enqueues a job that does this.
async fn enqueue(server: &TestServer, name: &str, priority: Priority, plan: Vec<Vec<Act>>) {
    let job = act::with(name.to_owned(), plan).on(server.client()).priority(priority);
    job.enqueue().await.expect("enqueued");
}

/// The names in the order in which their bodies began first.
fn in_order<'a>(server: &TestServer, names: &[&'a str]) -> Vec<&'a str> {
    let mut names = names.to_vec();
    names.sort_by_key(|name| server.runs_of(name).first().map(|run| run.at));
    names
}

/// The names in the order in which their bodies began last.
fn in_last_order<'a>(server: &TestServer, names: &[&'a str]) -> Vec<&'a str> {
    let last = |name: &str| {
        server.runs_of(name).iter().filter(|run| run.what == "begin").map(|run| run.at).max()
    };
    let mut names = names.to_vec();
    names.sort_by_key(|name| last(name));
    names
}

#[tokio::test(flavor = "multi_thread")]
async fn p1_priority() {
    // Enqueue low b, low c, high a: they run as a, b, c.
    let server = TestServer::start();
    for (name, priority) in [("b", Priority::Low), ("c", Priority::Low), ("a", Priority::High)] {
        enqueue(&server, name, priority, Vec::new()).await;
    }
    let _worker = InProcess::run(server.worker().register::<act>().concurrency(1));
    server.drained(SOON);
    assert_eq!(in_order(&server, &["a", "b", "c"]), ["a", "b", "c"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn p2_five_priorities_are_strict_and_each_is_in_order() {
    // A lower one runs only when none of a higher one is ready; those of one run in the order in which they were enqueued, however they
    // were enqueued.
    let server = TestServer::start();
    let mut expected = Vec::new();
    for priority in Priority::ALL.into_iter().rev() {
        let names: Vec<_> = (0..4).map(|number| format!("{priority}-{number}")).collect();
        for name in &names[..2] {
            enqueue(&server, name, priority, Vec::new()).await;
        }
        let bulk: Bulk = names[2..]
            .iter()
            .map(|name| act::with(name.clone(), Vec::new()).priority(priority))
            .collect();
        bulk.on(server.client()).enqueue().await.expect("enqueued");
        expected.splice(0..0, names);
    }
    let counts = server.inspect().counts().await.expect("counts");
    assert_eq!(counts.waiting, 20, "a ticket is no job");
    let worker = server.worker().register::<act>().concurrency(1).aging(Duration::MAX);
    let _worker = InProcess::run(worker);
    server.drained(SOON);
    let names: Vec<_> = expected.iter().map(String::as_str).collect();
    assert_eq!(in_order(&server, &names), names);
}

#[tokio::test(flavor = "multi_thread")]
async fn p3_priority_survives_retry_delay_and_release() {
    // A high job that is retried, delayed or given back still runs before low ones, and a low one behind the normal ones.
    let server = TestServer::start();
    let gate = || vec![vec![Act::Gate("go".into())]];
    // What is fetched ahead is not overtaken.
    let worker = || {
        let worker = server.worker().register::<act>().concurrency(1).prefetch(false);
        worker.aging(Duration::MAX)
    };
    let first = InProcess::run(worker().shutdown_grace(Duration::ZERO));
    enqueue(&server, "held", Priority::High, gate()).await;
    server.eventually("it runs", SOON, || server.begun("held") == 1);
    let delayed = act::with("delayed".into(), Vec::new()).on(server.client());
    let delayed = delayed.priority(Priority::High).delay(Duration::from_millis(50));
    delayed.enqueue().await.expect("enqueued");
    let retried = vec![vec![Act::Error("no".into())], vec![]];
    enqueue(&server, "retried", Priority::High, retried.clone()).await;
    enqueue(&server, "low-retried", Priority::Low, retried).await;
    for name in ["normal-1", "normal-2"] {
        enqueue(&server, name, Priority::Normal, Vec::new()).await;
    }
    server.eventually("it is due", SOON, || server.redis().len("hworker-scheduled-default") == 0);
    // It gives the job back, to the front of its own list.
    first.stop().await;
    let seen = server.inspect().jobs(JobState::Waiting).page().await.expect("a page").items;
    let held = seen.iter().position(|job| job.args().contains("held"));
    assert_eq!((held, seen[0].priority), (Some(0), Priority::High), "{seen:?}");
    server.open("go");
    let _second = InProcess::run(worker());
    server.drained(SOON);
    let names = ["held", "delayed", "retried", "normal-1", "normal-2", "low-retried"];
    let mut order = in_last_order(&server, &names);
    order[1..3].sort_unstable();
    assert_eq!(order, names);
    assert_eq!(server.begun("retried"), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn p3_priority_survives_the_death_of_the_worker() {
    let server = TestServer::start();
    let kill = vec![vec![Act::Kill], vec![]];
    enqueue(&server, "crashed", Priority::High, kill).await;
    let mut first = server.worker_process(&[("HWORKER_CONCURRENCY", "1")]);
    assert!(first.wait(SOON).is_some_and(|status| !status.success()));
    let leases = || -> Vec<String> {
        let key = server.redis().keys("hworker-progress-default:*").remove(0);
        server.redis().ask(&["HKEYS", &key])
    };
    assert_eq!(leases()[0].split('.').nth(1), Some("high"));
    // Its slot is taken while the dead one's job comes back.
    enqueue(&server, "held", Priority::Highest, vec![vec![Act::Gate("go".into())]]).await;
    let _other = InProcess::run(server.worker().register::<act>().concurrency(1).prefetch(false));
    server.eventually("it runs", SOON, || server.begun("held") == 1);
    for name in ["normal-1", "normal-2"] {
        enqueue(&server, name, Priority::Normal, Vec::new()).await;
    }
    server.eventually("it is back in its list", 2 * SOON, || {
        server.redis().len("hworker-jobs-default:high") == 1
    });
    server.open("go");
    server.drained(SOON);
    let names = ["held", "crashed", "normal-1", "normal-2"];
    assert_eq!(in_last_order(&server, &names), names);
    assert_eq!(server.begun("crashed"), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn p4_pr6_push_to_front() {
    // The job in front is the next of its priority, the last one put there the very next.
    let server = TestServer::start();
    for name in ["a", "b"] {
        enqueue(&server, name, Priority::Normal, Vec::new()).await;
        enqueue(&server, &format!("low-{name}"), Priority::Low, Vec::new()).await;
    }
    let with = |name: &str| act::with(name.to_owned(), Vec::new()).on(server.client()).front();
    with("front").enqueue().await.expect("enqueued");
    with("low-front").priority(Priority::Low).enqueue().await.expect("enqueued");
    let bulk: Bulk = ["first", "second"].map(with).into_iter().collect();
    bulk.enqueue().await.expect("enqueued");
    let error = with("later").delay(SOON).enqueue().await.expect_err("refused");
    assert!(error.to_string().contains("leave out `.front()`, or the delay"), "{error}");
    let _worker = InProcess::run(server.worker().register::<act>().concurrency(1));
    server.drained(SOON);
    let names = ["first", "second", "front", "a", "b", "low-front", "low-a", "low-b"];
    assert_eq!(in_order(&server, &names), names);
    assert_eq!(server.begun("later"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn pr4_control_41_no_priority_starves_and_none_comes_before_its_time() {
    // One that was passed over for `HWORKER_AGING` has a share of what is taken, until it is its turn.
    let server = TestServer::start();
    let short = || vec![vec![Act::Sleep(2)]];
    let high: Bulk =
        (0..3_000).map(|_| act::with("high".into(), short()).priority(Priority::High)).collect();
    high.on(server.client()).enqueue().await.expect("enqueued");
    enqueue(&server, "low", Priority::Low, Vec::new()).await;
    enqueue(&server, "lowest", Priority::Lowest, Vec::new()).await;
    let aging = Duration::from_millis(200);
    let _worker = InProcess::run(server.worker().register::<act>().concurrency(2).aging(aging));
    server.eventually("both run", 2 * SOON, || {
        server.begun("low") == 1 && server.begun("lowest") == 1
    });
    let left = server.inspect().counts().await.expect("counts").waiting;
    assert!(left > 0, "they ran when their turn had come");
    let begun = server.runs_of("high").len();
    assert!(begun > 50, "not before their time: {begun}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_was_pushed_without_its_priority_waits_where_it_belongs() {
    // Guard: `End::Routed`.
    let server = TestServer::start();
    let foreign = [
        r#"{"job":"act","args":{"name":"low","plan":[]},"priority":"low"}"#,
        r#"{"job":"act","args":{"name":"normal","plan":[]}}"#,
        r#"{"job":"urgent","args":{"name":"by its type"}}"#,
        r#"{"job":"act","args":{"name":"broken","plan":[]},"priority":"soon"}"#,
    ];
    for payload in foreign {
        let _: u64 = server.redis().ask(&["LPUSH", "hworker-jobs-default", payload]);
    }
    let by_name = server.client().job_by_name("urgent", r#"{"name":"by its name"}"#);
    by_name.enqueue().await.expect("enqueued");
    let by_name = server.client().job_by_name("act", r#"{"name":"lowest","plan":[]}"#);
    by_name.priority(Priority::Lowest).enqueue().await.expect("enqueued");
    let worker = server.worker().register::<act>().register::<urgent>().concurrency(1);
    // What is fetched ahead is not overtaken.
    let _worker = InProcess::run(worker.prefetch(false));
    server.eventually("all have run", SOON, || server.begun("lowest") == 1);
    server.eventually("one is broken", SOON, || server.redis().len("hworker-broken-default") == 1);
    let note: Vec<String> = server.redis().ask(&["HVALS", "hworker-broken-default"]);
    assert!(note[0].contains("`highest`, `high`, `normal`, `low` or `lowest`"), "{note:?}");
    // The low one stood first in the list.
    let names = ["normal", "by its type", "by its name", "low", "lowest"];
    let order = in_order(&server, &names);
    assert_eq!(order[3..], ["low", "lowest"], "{order:?}");
    assert_eq!(server.counter("retried"), 0);
    let error = "soon".parse::<Priority>().expect_err("none");
    assert!(error.contains("`highest`"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_worker_is_woken_for_every_priority() {
    // By a ticket, as soon as for a plain job: its heartbeats come every 1.5 s.
    // Guard: `leave_ticket` in `push`.
    let _machine = Machine::claim();
    let server = TestServer::start();
    let _worker = InProcess::run(server.worker().register::<act>().concurrency(2));
    let mut took = Vec::new();
    for number in 0..15 {
        let name = format!("woken-{number}");
        let priority = [Priority::High, Priority::Lowest][number % 2];
        server.drained(SOON);
        let began = Instant::now();
        enqueue(&server, &name, priority, Vec::new()).await;
        server.eventually("it runs", SOON, || server.begun(&name) == 1);
        took.push(began.elapsed());
    }
    took.sort_unstable();
    assert!(took[7] < Duration::from_millis(300), "{took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_tells_of_a_list_may_be_lost() {
    // The ticket, the mark, the set of lists, even of another type: heartbeats bring them again, and no job is lost.
    // Guard: `leave_ticket` and the mark in heartbeat.lua.
    let server = TestServer::start();
    let worker = InProcess::run(server.worker().register::<act>().concurrency(1));
    enqueue(&server, "before", Priority::High, Vec::new()).await;
    server.drained(SOON);
    for (number, lose) in [
        &["DEL", "hworker-jobs-default"][..],
        &["DEL", "hworker-token-default"],
        &["DEL", "hworker-jobs-default:lists"],
        &["SET", "hworker-jobs-default:control", "no hash"],
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("lost-{number}");
        let envelope =
            format!(r#"{{"job":"act","args":{{"name":"{name}","plan":[]}},"priority":"low"}}"#);
        // As a push of ours, in one step, and what is lost with it.
        let words = [
            "EVAL",
            PUSH,
            "2",
            "hworker-jobs-default:low",
            "hworker-jobs-default:lists",
            &envelope,
        ];
        let _: Value = server.redis().ask(&[&words[..], lose].concat());
        server.eventually("it runs", SOON, || server.begun(&name) == 1);
        let _: u64 = server.redis().ask(&["DEL", "hworker-jobs-default:control"]);
    }
    let _: String = server.redis().ask(&["SET", "hworker-jobs-default:lists", "no set"]);
    enqueue(&server, "plain", Priority::Normal, Vec::new()).await;
    server.eventually("others go on", SOON, || server.begun("plain") == 1);
    let refused =
        act::with("refused".into(), Vec::new()).on(server.client()).priority(Priority::Low);
    let error = refused.enqueue().await.expect_err("refused");
    assert!(format!("{error:?}").contains("WRONGTYPE"), "{error:?}");
    assert!(worker.is_alive());
    let _: u64 = server.redis().ask(&["DEL", "hworker-jobs-default:lists"]);
    server.drained(SOON);
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_of_every_priority_are_seen_and_changed() {
    let server = TestServer::start();
    let queue = server.inspect();
    for priority in Priority::ALL.into_iter().rev() {
        for number in 0..3 {
            enqueue(&server, &format!("{priority} {number}"), priority, Vec::new()).await;
        }
        let later = act::with(format!("{priority} later"), Vec::new()).on(server.client());
        later.priority(priority).delay(SOON * 100).enqueue().await.expect("enqueued");
    }
    let waiting = || queue.jobs(JobState::Waiting);
    let (sizes, all) = crate::pages(waiting().limit(4)).await;
    assert_eq!((sizes, all.len()), (vec![4, 4, 4, 3], 15));
    assert!(all.is_sorted_by_key(|job| job.priority), "{all:?}");
    let (_, newest) = crate::pages(waiting().order(hworker::Order::Newest).limit(4)).await;
    assert_eq!(newest.len(), 15);
    assert_eq!(newest[0].priority, Priority::Highest, "the last that was enqueued");
    let (_, scheduled) = crate::pages(queue.jobs(JobState::Scheduled).limit(2)).await;
    assert_eq!(scheduled.len(), 5);
    for job in &scheduled {
        assert!(job.args().contains(&format!("{} later", job.priority)), "{job:?}");
        assert!(job.payload().starts_with(b"{"), "without its list");
    }
    let oldest = queue.oldest().await.expect("asked");
    assert_eq!(oldest, all[0].at, "the next one's");

    // Each goes on with its priority, but for what the action says.
    let of = |priority: Priority| all.iter().filter(move |job| job.priority == priority);
    for priority in Priority::ALL {
        let [first, second, third] = of(priority).collect::<Vec<_>>()[..] else { panic!("three") };
        for (job, action) in [
            (third, Action::Promote),
            (second, Action::Reschedule(When::In(SOON * 100))),
            (first, Action::Delete),
        ] {
            let id = job.id.clone().expect("an id");
            let found = queue.find(&id).await.expect("asked").expect("found");
            assert_eq!((found.priority, found.state), (priority, JobState::Waiting));
            let changed = queue.change(&[found], &action).await.expect("changed");
            assert_eq!(changed, [Changed::Done], "{priority} {action:?}");
        }
        let ready = scheduled.iter().find(|job| job.priority == priority).expect("one");
        let changed = queue.change(std::slice::from_ref(ready), &Action::Promote).await;
        assert_eq!(changed.expect("changed"), [Changed::Done]);
    }
    let (_, left) = crate::pages(waiting()).await;
    let expected: Vec<_> = Priority::ALL
        .into_iter()
        .flat_map(|priority| {
            let later = scheduled.iter().find(|job| job.priority == priority);
            [later, of(priority).nth(2)].map(|job| job.expect("one"))
        })
        .collect();
    assert_eq!(ids(&left), ids(expected));
    let counts = queue.counts().await.expect("counts");
    assert_eq!((counts.waiting, counts.scheduled), (10, 5));
    let (_, later) = crate::pages(queue.jobs(JobState::Scheduled)).await;
    assert!(
        later.iter().all(|job| job.args().contains(&format!("{} 1", job.priority))),
        "{later:?}"
    );
    let _worker = InProcess::run(server.worker().register::<act>().concurrency(1));
    server.eventually("all run", SOON, || {
        Priority::ALL.iter().all(|priority| server.begun(&format!("{priority} later")) == 1)
    });
    server.eventually("no husk is left", SOON, || {
        let husks: Option<i64> = server.redis().ask(&["HGET", "hworker-stat-default", "husks"]);
        husks.unwrap_or(0) == 0
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_job_of_a_priority_runs_again_with_it() {
    let server = TestServer::start();
    let plan = vec![vec![Act::Failure("no".into())], vec![]];
    let job = act_once::with("again".into(), plan).on(server.client()).priority(Priority::Lowest);
    let id = job.enqueue().await.expect("enqueued");
    let worker = server.worker().register::<act_once>().register::<act>().concurrency(1);
    let worker = InProcess::run(worker);
    server.eventually("it failed", SOON, || server.redis().len("hworker-failed-default") == 1);
    worker.stop().await;
    server.inspect().change_by_id(&id, &Action::Retry).await.expect("changed");
    let waiting = server.inspect().find(&id).await.expect("asked").expect("found");
    assert_eq!((waiting.state, waiting.priority), (JobState::Waiting, Priority::Lowest));
    assert_eq!(server.redis().len("hworker-jobs-default:lowest"), 1);
    let _worker = InProcess::run(server.worker().register::<act_once>().concurrency(1));
    server.eventually("it ran again", SOON, || server.ended("again") == 1);
    server.drained(SOON);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ticket_of_a_list_that_is_empty_is_no_job() {
    // A low job has run. Then a ticket, which told of a list that is empty by now, stands among plain jobs -> they run, and nothing is broken.
    // Guard: `mark and size` in reserve.lua.
    let server = TestServer::start();
    enqueue(&server, "low", Priority::Low, Vec::new()).await;
    let worker = InProcess::run(server.worker().register::<act>());
    server.drained(SOON);
    worker.stop().await;
    assert_eq!(server.redis().len("hworker-jobs-default:lists"), 0);
    enqueue(&server, "before", Priority::Normal, Vec::new()).await;
    let _: u64 = server.redis().ask(&["LPUSH", "hworker-jobs-default", "!"]);
    enqueue(&server, "behind", Priority::Normal, Vec::new()).await;
    let _worker = InProcess::run(server.worker().register::<act>());
    server.drained(SOON);
    assert_eq!((server.ended("before"), server.ended("behind")), (1, 1));
    assert_eq!((server.counter("broken"), server.redis().len("hworker-broken-default")), (0, 0));
}
