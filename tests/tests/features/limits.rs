//! Rows C2, C3, CC3 to CC8, CC11 to CC13, PR5, PR10, RL1 to RL3, RL6 to RL9, EN21 and CT14: how many jobs run at once, how fast, in which
//! order, and which are held up.

use std::time::{Duration, Instant};

use hworker::{
    Action, BoxError, Bulk, Context, Control, Error, JobState, Outcome, Priority, Rate, When,
};
use hworker_tests::Records as _;
use hworker_tests::{
    Act, InProcess, Run, Runs, TestServer, act, act_by_rate, act_by_twos, act_in_order, act_of_key,
};

use crate::SOON;

const LONG: Duration = Duration::from_millis(2_500);

fn control(server: &TestServer) -> Control {
    server.client().control("default")
}

fn sleep(ms: u64) -> Vec<Vec<Act>> {
    vec![vec![Act::Sleep(ms)]]
}

fn gate() -> Vec<Vec<Act>> {
    vec![vec![Act::Gate("go".into())]]
}

/// How many of these bodies ran at the same time at most.
fn most_at_once(runs: &[Run]) -> usize {
    let mut steps: Vec<(u64, i32)> = Vec::new();
    for run in runs {
        match run.what.as_str() {
            "begin" => steps.push((run.at, 1)),
            "end" => steps.push((run.at, -1)),
            _ => {}
        }
    }
    steps.sort_unstable();
    let (mut now, mut most) = (0, 0);
    for (_, step) in steps {
        now += step;
        most = most.max(now);
    }
    usize::try_from(most).expect("as many begin as end")
}

/// The most bodies that began within this time.
fn most_in(runs: &[Run], window: Duration) -> usize {
    // A token is the time. A note may reach the server late where the machine is busy, and the next one not.
    let mut begins: Vec<u64> =
        runs.iter().filter(|run| run.what == "begin").map(|run| run.token).collect();
    begins.sort_unstable();
    let window = u64::try_from(window.as_micros()).expect("short");
    let within = |first: &u64| {
        let first = *first;
        begins.iter().filter(|at| (first..first + window).contains(*at)).count()
    };
    begins.iter().map(within).max().unwrap_or(0)
}

async fn by_twos(server: &TestServer, name: &str, plan: Vec<Vec<Act>>) {
    act_by_twos::with(name.into(), plan).on(server.client()).enqueue().await.expect("enqueued");
}

async fn of_key(server: &TestServer, name: &str, key: &str, plan: Vec<Vec<Act>>) {
    let job = act_of_key::with(name.into(), Some(key.into()), plan);
    job.on(server.client()).enqueue().await.expect("enqueued");
}

fn worker(server: &TestServer, slots: usize) -> InProcess {
    InProcess::run(server.worker().registry(hworker_tests::common_jobs()).concurrency(slots))
}

#[tokio::test(flavor = "multi_thread")]
async fn c2_cc4_cc6_a_job_type_over_all_workers() {
    // At most 2 of the type at once over two workers; jobs that wait for it hold no slot: others run meanwhile.
    // Guard: room_of in lib/limits.lua.
    let server = TestServer::start();
    for _ in 0..30 {
        by_twos(&server, "limited", sleep(20)).await;
    }
    let _workers = [worker(&server, 4), worker(&server, 4)];
    server.eventually("two run", SOON, || server.begun("limited") >= 2);
    for _ in 0..20 {
        server.enqueue("other", sleep(1)).await;
    }
    server.eventually("others run", SOON, || server.ended("other") == 20);
    assert!(server.ended("limited") < 30, "they did not wait for the limited ones");
    server.drained(2 * SOON);
    let runs = server.runs_of("limited");
    assert_eq!((most_at_once(&runs), server.ended("limited")), (2, 30));
}

#[tokio::test(flavor = "multi_thread")]
async fn cc5_pr5_a_key() {
    // At most 2 of a key at once. Keys take turns: one with a hundred jobs does not hold up one with five that came later.
    let server = TestServer::start();
    for _ in 0..100 {
        of_key(&server, "many", "a", sleep(10)).await;
    }
    for key in ["b", "c"] {
        for _ in 0..5 {
            of_key(&server, key, key, sleep(10)).await;
        }
    }
    let keyless = act_of_key::with("keyless".into(), None, sleep(1)).on(server.client());
    keyless.enqueue().await.expect("enqueued");
    let counts = server.inspect().counts().await.expect("counts");
    assert_eq!(counts.waiting, 111);
    let _worker = worker(&server, 6);
    server.eventually("the few are done", SOON, || {
        server.ended("b") == 5 && server.ended("c") == 5 && server.ended("keyless") == 1
    });
    assert!(server.ended("many") < 60, "{}", server.ended("many"));
    server.drained(2 * SOON);
    for name in ["many", "b", "c"] {
        assert!(most_at_once(&server.runs_of(name)) <= 2, "{name}");
    }
    assert_eq!(server.ended("many"), 100);
}

#[tokio::test(flavor = "multi_thread")]
async fn pr5_a_key_does_not_wait_for_all_that_come_after_it() {
    // One slot; 100 keys with a job each come after the key `z` -> it is served before them, whatever its name.
    // Guard: the turn of a key that joins, in push of lib/lists.lua.
    let server = TestServer::start();
    of_key(&server, "last", "z", vec![]).await;
    for key in 0..100 {
        of_key(&server, "first", &format!("a{key}"), vec![]).await;
    }
    let _worker = worker(&server, 1);
    server.eventually("all run", SOON, || server.ended("first") == 100);
    let at = server.runs_of("last")[0].at;
    let before = server.runs_of("first").iter().filter(|run| run.at < at).count();
    assert!(before < 5, "{before} lines of others before it");
    server.drained(SOON);
}

#[tokio::test(flavor = "multi_thread")]
async fn cc3_a_queue() {
    // At most 3 jobs of the queue at once, of any type, over two workers; unset -> all slots are used.
    let server = TestServer::start();
    control(&server).queue_limit().set(3).await.expect("set");
    let _workers = [worker(&server, 4), worker(&server, 4)];
    for _ in 0..15 {
        server.enqueue("any", sleep(20)).await;
        of_key(&server, "any", "k", sleep(20)).await;
    }
    server.eventually("all run", 2 * SOON, || server.ended("any") == 30);
    assert_eq!(most_at_once(&server.runs_of("any")), 3);
    let limits = control(&server).limits().await.expect("limits");
    let queue = limits.iter().find(|limit| limit.name == "*").expect("the queue's");
    assert_eq!((queue.at_once, queue.is_set), (Some(3), true));
    assert!(control(&server).queue_limit().unset().await.expect("unset"));
    for _ in 0..6 {
        server.enqueue("free", gate()).await;
    }
    server.eventually("all slots are used", SOON, || server.begun("free") == 6);
    server.open("go");
    server.drained(SOON);
}

#[test]
fn cc7_the_slots_of_a_dead_worker_come_with_its_recovery() {
    // The worker that holds both slots is killed: they are free when its jobs are given back, not before.
    // Guard: free in recover.lua.
    let server = TestServer::start();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        for name in ["first", "second"] {
            by_twos(&server, name, vec![vec![Act::Gate("never".into())], vec![]]).await;
        }
        let mut doomed = server.worker_process(&[]);
        server.eventually("both run", SOON, || server.begun("first") + server.begun("second") == 2);
        by_twos(&server, "third", sleep(1)).await;
        let _other = server.worker_process(&[]);
        doomed.kill();
        server
            .holds("its slots are its own", Duration::from_secs(3), || server.begun("third") == 0);
        server.eventually("all run", 2 * SOON, || {
            ["first", "second", "third"].iter().all(|name| server.ended(name) == 1)
        });
        server.drained(SOON);
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn cc8_a_limit_is_changed_while_jobs_run() {
    // Raised -> what may start now starts, without waiting for an end; lowered -> what runs goes on, and fewer run afterwards; unset -> what
    // code says. By key too. 0 is refused.
    let server = TestServer::start();
    let limit = control(&server).limit("act_by_twos");
    let _worker = worker(&server, 20);
    for _ in 0..6 {
        by_twos(&server, "held", gate()).await;
    }
    server.eventually("two run", SOON, || server.begun("held") == 2);
    limit.set(5).await.expect("set");
    server.eventually("five run", SOON, || server.begun("held") == 5);
    let shown = control(&server).limits().await.expect("limits");
    let shown = shown.iter().find(|limit| limit.name == "act_by_twos").expect("it is there");
    assert_eq!((shown.at_once, shown.is_set, shown.running), (Some(5), true, 5));
    limit.set(1).await.expect("set");
    by_twos(&server, "after", sleep(5)).await;
    server.open("go");
    server.drained(SOON);
    for _ in 0..5 {
        by_twos(&server, "after", sleep(20)).await;
    }
    server.drained(SOON);
    assert_eq!(most_at_once(&server.runs_of("after")), 1);
    assert!(limit.unset().await.expect("unset") && !limit.unset().await.expect("no error"));
    for _ in 0..6 {
        by_twos(&server, "again", sleep(20)).await;
    }
    server.drained(SOON);
    assert_eq!(most_at_once(&server.runs_of("again")), 2);
    let refused = limit.set(0).await.expect_err("no limit");
    assert!(matches!(&refused, Error::Config(_)) && refused.to_string().contains("pause"));
    // Of one key, and of all: keys that are shut are opened.
    let keys = control(&server).limit("act_of_key");
    for key in ["a", "b"] {
        for _ in 0..4 {
            of_key(&server, key, key, vec![vec![Act::Gate("keys".into())]]).await;
        }
    }
    server.eventually("two each", SOON, || server.begun("a") + server.begun("b") == 4);
    keys.of_key("a").set(4).await.expect("set");
    server.eventually("all of one", SOON, || server.begun("a") == 4);
    assert_eq!(server.begun("b"), 2);
    keys.set(3).await.expect("set");
    server.eventually("one more of the other", SOON, || server.begun("b") == 3);
    server.open("keys");
    server.drained(SOON);
}

/// How many at once its arguments say.
#[hworker::job(concurrency(limit = at_once, key = user))]
async fn as_told(
    name: &str,
    user: &str,
    at_once: u32,
    context: Context,
    #[inject] runs: Runs,
) -> Result<(), BoxError> {
    let _ = (user, at_once);
    runs.note(name, "begin", 0, &context);
    // The body takes a while.
    tokio::time::sleep(Duration::from_millis(20)).await;
    runs.note(name, "end", 0, &context);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn cc11_a_limit_from_the_arguments() {
    // The last value of a key wins, and is visible; another key has its own; nothing is left of it when the jobs have ended. 0 is refused.
    let server = TestServer::start();
    let enqueue = async |name: &str, user: &str, at_once| {
        as_told::with(name, user, at_once).on(server.client()).enqueue().await
    };
    for at_once in [1, 3, 3, 3, 3, 3, 3, 3] {
        enqueue("three", "u3", at_once).await.expect("enqueued");
        enqueue("one", "u1", 1).await.expect("enqueued");
    }
    let limits = control(&server).limits().await.expect("limits");
    let of = |name: &str| limits.iter().find(|limit| limit.name == name).and_then(|it| it.at_once);
    assert_eq!([of("as_told=u3"), of("as_told=u1")], [Some(3), Some(1)]);
    let later = as_told::with("later", "u7", 2).on(server.client());
    later.delay(Duration::from_millis(200)).enqueue().await.expect("enqueued");
    let _worker = InProcess::run(server.worker().register::<as_told>().concurrency(20));
    server.eventually("all run", SOON, || {
        server.ended("three") == 8 && server.ended("one") == 8 && server.ended("later") == 1
    });
    server.drained(SOON);
    assert_eq!(most_at_once(&server.runs_of("three")), 3);
    assert_eq!(most_at_once(&server.runs_of("one")), 1);
    assert_eq!(server.redis().len("hworker-jobs-default:overrides"), 0);
    // What a person sets wins over the arguments.
    control(&server).limit("as_told").set(2).await.expect("set");
    for _ in 0..6 {
        enqueue("six", "u6", 6).await.expect("enqueued");
    }
    server.drained(SOON);
    assert_eq!(most_at_once(&server.runs_of("six")), 2);
    let refused = enqueue("none", "u0", 0).await.expect_err("no limit");
    assert!(matches!(refused, Error::Config(_)), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn cc11_a_limit_from_the_arguments_lasts_as_long_as_its_jobs() {
    // Jobs of one key in two priorities, delayed ones, and ones from elsewhere: never more at once than the arguments say, also when one of its
    // lists is empty; and nothing is left behind.
    // Guard: `forget_arguments` in lib/lists.lua, `note_arguments` for routed jobs.
    let server = TestServer::start();
    let job =
        |name: &str, priority| as_told::with(name, "u", 1).priority(priority).on(server.client());
    for number in 0..6 {
        let priority = if number == 0 { Priority::High } else { Priority::Normal };
        job("one", priority).enqueue().await.expect("enqueued");
    }
    for _ in 0..2 {
        let later = job("later", Priority::Normal).delay(Duration::from_millis(1));
        later.enqueue().await.expect("enqueued");
    }
    let _worker = InProcess::run(server.worker().register::<as_told>().concurrency(8));
    server.drained(SOON);
    let mut runs = server.runs_of("one");
    runs.extend(server.runs_of("later"));
    assert_eq!(most_at_once(&runs), 1, "of one key");
    for number in 0..4 {
        let args = r#"{"name":"foreign","user":"v","at_once":1}"#;
        let envelope = format!(r#"{{"job":"as_told","id":"f{number}","args":{args}}}"#);
        let _: u64 = server.redis().ask(&["LPUSH", "hworker-jobs-default", &envelope]);
    }
    server.drained(SOON);
    assert_eq!(most_at_once(&server.runs_of("foreign")), 1, "from elsewhere");
    assert_eq!(server.redis().len("hworker-jobs-default:overrides"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scheduled_job_with_a_limit_from_its_arguments_can_be_changed() {
    let server = TestServer::start();
    let later = |name: &str| {
        as_told::with(name, "u", 1).on(server.client()).delay(Duration::from_secs(3600))
    };
    let mut ids = Vec::new();
    for name in ["promoted", "promoted too", "moved", "deleted"] {
        ids.push(later(name).enqueue().await.expect("enqueued"));
    }
    let soon = Action::Reschedule(When::In(Duration::from_millis(1)));
    let actions = [Action::Promote, Action::Promote, soon, Action::Delete];
    for (id, action) in ids.iter().zip(&actions) {
        let changed = server.inspect().change_by_id(id, action).await;
        changed.unwrap_or_else(|error| panic!("{action:?}: {error}"));
    }
    let _worker = InProcess::run(server.worker().register::<as_told>().concurrency(8));
    server.drained(SOON);
    assert_eq!(server.counter("processed"), 3);
}

/// Shares its limit with another type.
#[hworker::job(concurrency(limit = 1, name = "db"))]
async fn reads(context: Context, #[inject] runs: Runs) {
    runs.note("db", "begin", 0, &context);
    // The body takes a while.
    tokio::time::sleep(Duration::from_millis(10)).await;
    runs.note("db", "end", 0, &context);
}

/// Has a limit of its own for each key besides.
#[hworker::job(concurrency(limit = 1, name = "db"), concurrency(limit = 5, key = table))]
async fn writes(table: String, context: Context, #[inject] runs: Runs) {
    drop(table);
    runs.note("db", "begin", 0, &context);
    // The body takes a while.
    tokio::time::sleep(Duration::from_millis(10)).await;
    runs.note("db", "end", 0, &context);
}

#[tokio::test(flavor = "multi_thread")]
async fn cc12_one_limit_over_several_job_types() {
    // Two types share a limit of 1, one of them with a key besides: never two at once, and both get on.
    let server = TestServer::start();
    for number in 0..10 {
        reads::with().on(server.client()).enqueue().await.expect("enqueued");
        let job = writes::with(format!("t{}", number % 3)).on(server.client());
        job.enqueue().await.expect("enqueued");
    }
    let registry = hworker::Registry::new().with::<reads>().with::<writes>();
    let _worker = InProcess::run(server.worker().registry(registry).concurrency(8));
    server.drained(SOON);
    let runs = server.runs_of("db");
    assert_eq!((runs.len(), most_at_once(&runs)), (40, 1));
}

/// Runs one of a key at a time; the newest waits.
#[hworker::job(concurrency(limit = 1, key = doc, when_full = "keep_newest"))]
async fn newest(name: &str, doc: &str, context: Context, #[inject] runs: Runs) {
    let _ = doc;
    runs.note(name, "begin", 0, &context);
    while !runs.is_open("go") {
        // The body takes a while.
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Runs one of a key at a time; the oldest waits.
#[hworker::job(concurrency(limit = 1, key = doc, when_full = "keep_oldest"))]
async fn oldest(name: &str, doc: &str, context: Context, #[inject] runs: Runs) {
    let _ = doc;
    runs.note(name, "begin", 0, &context);
    while !runs.is_open("go") {
        // The body takes a while.
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cc13_what_happens_at_the_limit() {
    // While one of the key runs: the newest that waits is kept, or the oldest; the others end as cancelled, and none runs.
    let server = TestServer::start();
    let registry = hworker::Registry::new().with::<newest>().with::<oldest>();
    let _worker = InProcess::run(server.worker().registry(registry).concurrency(8));
    let new = async |name: &str, doc: &str| {
        newest::with(name, doc).on(server.client()).enqueue().await.expect("enqueued")
    };
    new("n0", "d").await;
    let old = oldest::with("o0", "d").on(server.client());
    old.enqueue().await.expect("enqueued");
    server.eventually("they run", SOON, || server.begun("n0") + server.begun("o0") == 2);
    for number in 1..5 {
        new(&format!("n{number}"), "d").await;
        let old = oldest::with(format!("o{number}"), "d").on(server.client());
        old.enqueue().await.expect("enqueued");
    }
    new("other", "e").await;
    server.eventually("another key is none of it", SOON, || server.begun("other") == 1);
    let inspect = server.inspect();
    server
        .eventually_async("the others are cancelled", SOON, async || {
            inspect.counts().await.expect("counts").cancelled == 6
        })
        .await;
    let page = inspect.jobs(JobState::Cancelled).page().await.expect("a page");
    assert!(page.items.iter().all(|job| job.kind.as_deref() == Some("superseded")), "{page:?}");
    server.open("go");
    server.eventually("the kept ones run", SOON, || server.begun("n4") + server.begun("o1") == 2);
    for name in ["n1", "n2", "n3", "o2", "o3", "o4"] {
        assert_eq!(server.begun(name), 0, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pr10_strict_order_of_a_key() {
    // Those of a key run one after the other in the order in which they were enqueued; one that is to run again is waited for; one that
    // failed for good is not.
    // Guard: hold_up in lib/limits.lua.
    let server = TestServer::start();
    let _worker = worker(&server, 8);
    let mut expected = Vec::new();
    for number in 0..6 {
        for key in ["a", "b"] {
            let plan = match number {
                1 => vec![vec![Act::Error("once".into())], vec![]],
                3 => vec![vec![Act::Fail("for good".into())]],
                4 => vec![vec![Act::Snooze(100)], vec![]],
                _ => vec![vec![]],
            };
            let job = act_in_order::with(format!("{key}{number}"), key.into(), plan);
            job.on(server.client()).enqueue().await.expect("enqueued");
        }
        expected.push(number);
    }
    server.eventually("all have run", 2 * SOON, || {
        server.ended("a5") == 1 && server.ended("b5") == 1
    });
    for key in ["a", "b"] {
        let last =
            |number: &i32| server.runs_of(&format!("{key}{number}")).last().map(|run| run.at);
        let first = |number: &i32| server.runs_of(&format!("{key}{number}"))[0].at;
        for pair in expected.windows(2) {
            assert!(last(&pair[0]) < Some(first(&pair[1])), "{key}: {pair:?}");
        }
        assert_eq!(server.begun(&format!("{key}1")), 2);
        assert_eq!(server.begun(&format!("{key}4")), 2);
    }
}

/// In order, where a failure holds up those behind it.
#[hworker::job(concurrency(key = account, order = "strict", after_failure = "halt"))]
async fn booked(name: &str, account: &str, context: Context, #[inject] runs: Runs) -> Outcome {
    let _ = account;
    runs.note(name, "begin", 0, &context);
    if name.starts_with("bad") && !runs.is_open("mended") {
        return Outcome::Failure("no such account".into());
    }
    Outcome::Success
}

#[tokio::test(flavor = "multi_thread")]
async fn pr10_a_failure_halts_its_key() {
    // A job fails for good -> those behind it wait, with other workers too; other keys go on. An operator lets it run again and resumes the
    // key -> it is the first, and the others follow in order. Another outcome than a failure halts nothing.
    // Guard: the duty `halt` in lib/duties.lua.
    let server = TestServer::start();
    let registry = || hworker::Registry::new().with::<booked>();
    let start = || InProcess::run(server.worker().registry(registry()).concurrency(4));
    let _workers = [start(), start()];
    for name in ["first", "bad", "second", "third"] {
        booked::with(name, "a 1").on(server.client()).enqueue().await.expect("enqueued");
        let other = format!("other-{}", name.trim_start_matches("bad"));
        booked::with(&other, "b").on(server.client()).enqueue().await.expect("enqueued");
    }
    server.eventually("it failed", SOON, || server.counter("failed") == 1);
    server.eventually("others go on", SOON, || server.begun("other-third") == 1);
    server.holds("those behind it wait", LONG, || server.begun("second") == 0);
    let key = control(&server).limit("booked").of_key("a 1");
    assert!(key.info().await.expect("known")[0].paused.is_some());
    server.open("mended");
    let failed = server.inspect().failed(0, 10).await.expect("failed");
    let id = failed[0].id.parse().expect("an id");
    server.inspect().change_by_id(&id, &Action::Retry).await.expect("retried");
    server.eventually("it is where it belongs", SOON, || {
        server.redis().ask::<u64>(&["LLEN", "hworker-jobs-default:+booked~a%201"]) == 3
    });
    assert!(key.resume().await.expect("resumed"));
    server.drained(SOON);
    let at = |name: &str| server.runs_of(name).last().expect("it ran").at;
    assert!(at("bad") < at("second") && at("second") < at("third"));
    assert_eq!(server.begun("bad"), 2);
}

/// At most two on each worker.
#[hworker::job(concurrency(limit = 2, per = "worker"))]
async fn on_each(name: &str, context: Context, #[inject] runs: Runs) -> Outcome {
    runs.note(name, "begin", 0, &context);
    while !runs.is_open("go") {
        // The body takes a while.
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Outcome::Success
}

#[tokio::test(flavor = "multi_thread")]
async fn cc2_so_many_on_each_worker() {
    // Two on each of two workers, whose other slots run others; idle workers at their own limit do not spin (fault 11).
    let server = TestServer::start();
    let registry = || hworker::Registry::new().with::<on_each>().with::<act>();
    let start = || InProcess::run(server.worker().registry(registry()).concurrency(5));
    let _workers = [start(), start()];
    for _ in 0..7 {
        on_each::with("each").on(server.client()).enqueue().await.expect("enqueued");
    }
    server.eventually("two on each", SOON, || server.begun("each") == 4);
    server.enqueue("other", sleep(1)).await;
    server.eventually("another runs", SOON, || server.ended("other") == 1);
    let calls = || -> u64 {
        let stats: String = server.redis().ask(&["INFO", "commandstats"]);
        let line = stats.lines().find(|line| line.starts_with("cmdstat_evalsha:")).expect("calls");
        let calls = line.split(['=', ',']).nth(1).expect("a number");
        calls.parse().expect("a number")
    };
    let before = calls();
    server.holds("no more", LONG, || server.begun("each") == 4);
    assert!(calls() - before < 60, "{} scripts while nothing could be done", calls() - before);
    let mut by_worker: Vec<_> = server.runs_of("each").into_iter().map(|run| run.worker).collect();
    by_worker.sort_unstable();
    assert!(by_worker[1] != by_worker[2] && by_worker[0] == by_worker[1], "{by_worker:?}");
    server.open("go");
    server.drained(SOON);
}

/// No more than three of a key wait.
#[hworker::job(concurrency(limit = 1, key = tenant, max_waiting = 3))]
async fn bounded(tenant: &str) {
    let _ = tenant;
}

#[tokio::test(flavor = "multi_thread")]
async fn en21_a_ceiling_of_waiting_jobs() {
    // The fourth of a key is refused with key, depth and ceiling, and nothing is written; other keys go on. In a bulk none of its chunk is in.
    let server = TestServer::start();
    let enqueue = async |tenant: &str| bounded::with(tenant).on(server.client()).enqueue().await;
    for _ in 0..3 {
        enqueue("t 1").await.expect("enqueued");
    }
    match enqueue("t 1").await {
        Err(Error::Full { key, waiting: 3, max_waiting: 3, .. }) => {
            assert_eq!(key.as_deref(), Some("t%201"));
        }
        other => panic!("{other:?}"),
    }
    enqueue("t2").await.expect("enqueued");
    let bulk: Bulk = ["t3", "t2", "t1", "t 1"].into_iter().map(bounded::with).collect();
    let refused = bulk.on(server.client()).enqueue().await.expect_err("full");
    assert!(matches!(&refused, Error::Full { .. }), "{refused}");
    let counts = server.inspect().counts().await.expect("counts");
    assert_eq!(counts.waiting, 4, "nothing was written");
    let _worker = InProcess::run(server.worker().register::<bounded>());
    server.drained(SOON);
}

#[tokio::test(flavor = "multi_thread")]
async fn en21_a_ceiling_that_a_person_set() {
    // For all keys, and for one, which wins; a job type without one in code has it too. Unset -> what code says. For what counts no waiting jobs
    // it is refused.
    let server = TestServer::start();
    let registry = || hworker::Registry::new().with::<bounded>().with::<act_of_key>().with::<act>();
    let worker = InProcess::run(server.worker().registry(registry().with::<act_by_twos>()));
    server.eventually("its limits are known", SOON, || {
        server.redis().len("hworker-jobs-default:control") >= 4
    });
    worker.stop().await;
    let fits = async |key: &str| match bounded::with(key).on(server.client()).enqueue().await {
        Ok(_) => true,
        Err(Error::Full { .. }) => false,
        Err(error) => panic!("{error}"),
    };
    let limit = control(&server).limit("bounded");
    limit.set_max_waiting(1).await.expect("set");
    limit.of_key("b").set_max_waiting(5).await.expect("set");
    assert!(fits("a").await && !fits("a").await);
    let high = bounded::with("a").priority(Priority::High).on(server.client()).enqueue().await;
    assert!(matches!(high, Err(Error::Full { .. })), "of all priorities together: {high:?}");
    for _ in 0..5 {
        assert!(fits("b").await);
    }
    assert!(!fits("b").await);
    assert!(limit.unset().await.expect("unset") && limit.of_key("b").unset().await.expect("unset"));
    assert!(fits("a").await && fits("a").await && !fits("a").await, "three, as code says");
    assert!(!fits("b").await, "it has five already");

    control(&server).limit("act_of_key").set_max_waiting(1).await.expect("set");
    of_key(&server, "one", "k", vec![]).await;
    let another = act_of_key::with("another".into(), Some("k".into()), vec![]);
    let refused = another.on(server.client()).enqueue().await.expect_err("one waits");
    assert!(matches!(refused, Error::Full { waiting: 1, max_waiting: 1, .. }), "{refused}");
    let other = control(&server).limit("boundet").of_key("a");
    assert!(matches!(other.set(3).await, Err(Error::Config(_))), "a misspelt name");
    assert!(matches!(control(&server).queue_limit().pause().await, Err(Error::Config(_))));
    for wrong in [
        limit.set_max_waiting(0).await,
        control(&server).job("act_by_twos").set_max_waiting(5).await,
    ] {
        assert!(matches!(wrong, Err(Error::Config(_))), "{wrong:?}");
    }
    let shown = control(&server).limits().await.expect("limits");
    let shown = shown.iter().find(|limit| limit.name == "act_of_key=").expect("it is there");
    assert_eq!((shown.max_waiting, shown.is_set), (Some(1), true));
}

#[tokio::test(flavor = "multi_thread")]
async fn en21_a_ceiling_of_a_queue() {
    // As many as may wait: of each priority, with keys and without, and delayed ones; nothing more, from each way to enqueue, and nothing is
    // written. Some are done -> as many more may. A client that has enqueued before knows it within 2 s. Unset -> all may.
    let server = TestServer::start();
    let old = server.client();
    let enqueue = async |client: &hworker::Client| {
        act::with("plain".into(), vec![]).on(client).enqueue().await
    };
    enqueue(old).await.expect("enqueued");
    let queue = control(&server).queue_limit();
    queue.set_max_waiting(6).await.expect("set");
    of_key(&server, "key", "k", vec![]).await;
    of_key(&server, "key", "l", vec![]).await;
    let high = act::with("high".into(), vec![]).on(old).priority(Priority::High);
    high.enqueue().await.expect("enqueued");
    let later = || act::with("later".into(), vec![]).on(old).delay(Duration::from_secs(3600));
    later().enqueue().await.expect("enqueued");
    act::with("front".into(), vec![]).on(old).front().enqueue().await.expect("enqueued");
    let is_full = |result: Result<hworker::JobId, Error>| match result {
        Err(Error::Full { key: None, waiting: 6.., max_waiting: 6, .. }) => true,
        Ok(_) => false,
        Err(error) => panic!("{error}"),
    };
    let new = &hworker::Client::new(server.url()).expect("a client");
    let by_name = new.job_by_name("act", r#"{"name":"n","plan":[]}"#);
    assert!(is_full(by_name.enqueue().await), "a new client knows it at once");
    assert!(is_full(enqueue(new).await));
    let newer = &hworker::Client::new(server.url()).expect("a client");
    let bulk = (0..3).map(|_| act::with("bulk".into(), vec![])).collect::<Bulk>().on(newer);
    assert!(matches!(bulk.enqueue().await, Err(Error::Full { waiting: 6, .. })));
    let keyed = || act_of_key::with("key".into(), Some("m".into()), vec![]).on(new);
    assert!(is_full(keyed().enqueue().await));
    assert!(is_full(later().on(new).enqueue().await));
    let front = act::with("front".into(), vec![]).on(new).front();
    assert!(is_full(front.enqueue().await));
    let bulk = || (0..3).map(|_| act::with("bulk".into(), vec![])).collect::<Bulk>().on(new);
    assert!(matches!(bulk().enqueue().await, Err(Error::Full { waiting: 6, .. })));
    let waiting = async || {
        let counts = server.inspect().counts().await.expect("counts");
        counts.waiting + counts.scheduled
    };
    assert_eq!(waiting().await, 6, "nothing was written");
    let began = Instant::now();
    while !is_full(enqueue(old).await) {
        assert!(began.elapsed() < Duration::from_secs(2), "an old one knows it soon");
        // It asks once a second.
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    queue.set_max_waiting(3).await.expect("set");
    let worker = worker(&server, 2);
    // What its worker holds and has not begun would wait again when that stops.
    let done = async || {
        let counts = server.inspect().counts().await.expect("counts");
        (counts.waiting, counts.running, counts.scheduled) == (0, 0, 1)
    };
    server.eventually_async("the delayed one alone is left", SOON, done).await;
    worker.stop().await;
    assert!(matches!(bulk().enqueue().await, Err(Error::Full { waiting: 1, .. })), "one too many");
    enqueue(new).await.expect("there is room for two");
    assert!(queue.unset().await.expect("unset"));
    bulk().enqueue().await.expect("enqueued");
    assert_eq!(waiting().await, 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn ct14_pause_one_job_type() {
    // Jobs of the type are held up, with a limit and without; others of the queue go on; enqueue works; a worker that starts later knows
    // it. Resume -> all run. So it is with one key of a limit.
    let server = TestServer::start();
    let first = worker(&server, 6);
    let job = async |name: &str| {
        let job = hworker_tests::act_without_context::with(name.into(), vec![]);
        job.on(server.client()).enqueue().await.expect("enqueued")
    };
    let plain = control(&server).job("act_without_context");
    plain.pause().await.expect("paused");
    control(&server).job("act_by_twos").pause().await.expect("paused");
    control(&server).limit("act_of_key").of_key("t7").pause().await.expect("paused");
    let starts = |what: &str| server.begun(what);
    for _ in 0..3 {
        job("plain").await;
        by_twos(&server, "limited", sleep(1)).await;
        of_key(&server, "key", "t7", sleep(1)).await;
        of_key(&server, "other-key", "t8", sleep(1)).await;
        server.enqueue("other", sleep(1)).await;
    }
    server.eventually("others go on", SOON, || {
        server.ended("other") == 3 && server.ended("other-key") == 3
    });
    first.stop().await;
    let _second = worker(&server, 6);
    job("plain").await;
    server.holds("none starts", LONG, || starts("plain") + starts("limited") + starts("key") == 0);
    let counts = server.inspect().counts().await.expect("counts");
    assert_eq!(counts.waiting, 10);
    let limits = control(&server).limits().await.expect("limits");
    assert_eq!(limits.iter().filter(|limit| limit.paused.is_some()).count(), 3, "{limits:?}");
    // What is set, or no longer, on the limits of a type leaves its pause.
    assert!(!plain.unset().await.expect("nothing was set"));
    assert!(plain.resume().await.expect("resumed") && !plain.resume().await.expect("no error"));
    assert!(control(&server).job("act_by_twos").resume().await.expect("resumed"));
    let key = control(&server).limit("act_of_key").of_key("t7");
    assert!(key.resume().await.expect("resumed"));
    server.eventually("all run", SOON, || {
        server.ended("plain") == 4 && server.ended("limited") == 3 && server.ended("key") == 3
    });
    job("plain").await;
    server.eventually("and those that come", SOON, || server.ended("plain") == 5);
    server.drained(SOON);
}

#[tokio::test(flavor = "multi_thread")]
async fn c3_rl2_rl7_a_rate_over_all_workers() {
    // 20 in a second, of any second, over two workers; nothing is dropped or counted as a failure, and those that wait hold no slot.
    let server = TestServer::start();
    let _workers = [worker(&server, 4), worker(&server, 4)];
    let bulk: Bulk = (0..50).map(|_| act_by_rate::with("rated".into(), sleep(1))).collect();
    bulk.on(server.client()).enqueue().await.expect("enqueued");
    server.enqueue("other", sleep(1)).await;
    server.eventually("another runs", SOON, || server.ended("other") == 1);
    assert!(server.ended("rated") < 40);
    server.eventually("all run", SOON, || server.ended("rated") == 50);
    server.drained(SOON);
    let runs = server.runs_of("rated");
    // A body begins some ms after its job was taken.
    let most = most_in(&runs, Duration::from_millis(950));
    assert!((15..=20).contains(&most), "{most}");
    assert_eq!(server.counter("retried"), 0);
}

/// In bursts of ten.
#[hworker::job(rate_limit(rate = "10/s", burst = 10, key = shop))]
async fn in_bursts(shop: &str, context: Context, #[inject] runs: Runs) {
    runs.note(shop, "begin", 0, &context);
}

#[tokio::test(flavor = "multi_thread")]
async fn rl3_rl6_bursts_by_key() {
    // After a quiet time 11 start at once, then one every 100 ms; keys do not hold each other up.
    let server = TestServer::start();
    let bulk = (0..20).flat_map(|_| ["a", "b"]).map(in_bursts::with).collect::<Bulk>();
    bulk.on(server.client()).enqueue().await.expect("enqueued");
    let _worker = InProcess::run(server.worker().register::<in_bursts>().concurrency(30));
    server.drained(SOON);
    for shop in ["a", "b"] {
        let runs = server.runs_of(shop);
        assert_eq!(runs.len(), 20);
        let at_once = most_in(&runs, Duration::from_millis(95));
        assert!((9..=12).contains(&at_once), "{at_once}");
        assert!(most_in(&runs, Duration::from_secs(1)) <= 21);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rl1_a_rate_is_set_while_jobs_run() {
    let server = TestServer::start();
    let rate = control(&server).limit("act_by_twos");
    let slow = Rate::new(1, Duration::from_millis(500));
    assert!(matches!(rate.set_rate(slow).await, Err(Error::Config(_))), "nobody has told of it");
    let _worker = worker(&server, 4);
    server
        .eventually("it is known", SOON, || server.redis().len("hworker-jobs-default:control") > 0);
    rate.set_rate(slow).await.expect("set");
    for _ in 0..8 {
        by_twos(&server, "rated", vec![]).await;
    }
    server.eventually("three run", SOON, || server.ended("rated") == 3);
    assert!(most_in(&server.runs_of("rated"), Duration::from_millis(450)) == 1);
    rate.unset().await.expect("unset");
    server.eventually("the others run at once", Duration::from_secs(1), || {
        server.ended("rated") == 8
    });
    server.drained(SOON);
}

#[tokio::test(flavor = "multi_thread")]
async fn rl8_rl9_a_body_asks_to_slow_down() {
    // 429: the job comes again after the time, no attempt is counted, and nothing that shares its limit starts before; of a type without a
    // limit none of the type. Others go on.
    let server = TestServer::start();
    let _worker = worker(&server, 6);
    let slow = || vec![vec![Act::SlowDown(1_000)], vec![]];
    of_key(&server, "limited", "k", slow()).await;
    server.enqueue("typed", slow()).await;
    server.eventually("both asked", SOON, || server.begun("limited") + server.begun("typed") == 2);
    // The settlement has to be in.
    server.eventually("they wait", SOON, || server.redis().len("hworker-jobs-default:timers") == 2);
    of_key(&server, "same-key", "k", vec![]).await;
    of_key(&server, "other-key", "o", vec![]).await;
    server.enqueue("same-type", vec![]).await;
    by_twos(&server, "other-type", vec![]).await;
    server.eventually("others go on", SOON, || {
        server.ended("other-key") == 1 && server.ended("other-type") == 1
    });
    assert_eq!(server.begun("same-key") + server.begun("same-type"), 0);
    server.eventually("all run", SOON, || {
        ["limited", "typed", "same-key", "same-type"].iter().all(|name| server.ended(name) == 1)
    });
    server.drained(SOON);
    for (slow, same) in [("limited", "same-key"), ("typed", "same-type")] {
        let runs = server.runs_of(slow);
        assert_eq!(runs.iter().map(|run| run.attempt).collect::<Vec<_>>(), [1, 1, 1]);
        let asked = runs[0].at;
        for at in [runs[1].at, server.runs_of(same)[0].at] {
            assert!(at - asked >= 1_000_000, "{slow}: {} us", at - asked);
        }
    }
    assert_eq!(server.counter("retried"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn ct14_many_keys_go_on_after_a_pause() {
    // 600 keys that a pause has shut -> all run soon after it is resumed, and so after one whose time is over, which is then none that could
    // be resumed.
    // Guard: `open_keys` in promote.lua.
    let server = TestServer::start();
    let _worker = worker(&server, 8);
    let limit = control(&server).limit("act_of_key");
    for (name, until) in [("resumed", None), ("over", Some(Duration::from_secs(3)))] {
        match until {
            None => limit.pause().await.expect("paused"),
            Some(until) => limit.pause_for(until).await.expect("paused"),
        }
        for key in 0..600 {
            of_key(&server, name, &format!("{key}"), vec![]).await;
        }
        let keys = "hworker-jobs-default:keys:+act_of_key=";
        server.eventually("all are shut", SOON, || {
            server.redis().ask::<u64>(&["ZCOUNT", keys, "1e15", "+inf"]) == 600
        });
        assert_eq!(server.begun(name), 0);
        if until.is_none() {
            assert!(limit.resume().await.expect("resumed"));
        }
        let since = Instant::now();
        server.eventually("all run", SOON, || server.ended(name) == 600);
        assert!(since.elapsed() < Duration::from_secs(8), "{:?}", since.elapsed());
        assert!(!limit.resume().await.expect("asked"), "it is not paused");
        server.drained(SOON);
    }
    let left = server.redis().keys("hworker-jobs-default*");
    let stays = ["hworker-jobs-default:control", "hworker-jobs-default:tables"];
    assert_eq!(left, stays, "nothing stays of a key");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_push_of_a_job_that_has_a_limit() {
    // A producer that knows nothing of limits pushes to the queue: each job is put where it belongs, and the limit holds.
    // Guard: `elsewhere` in admit.rs.
    let server = TestServer::start();
    let _workers = [worker(&server, 4), worker(&server, 4)];
    for number in 0..20 {
        let envelope = format!(
            r#"{{"v":1,"id":"f{number}","job":"act_of_key","args":{{"name":"foreign","key":"k","plan":[[{{"Sleep":10}}]]}}}}"#
        );
        let _: u64 = server.redis().ask(&["LPUSH", "hworker-jobs-default", &envelope]);
    }
    server.eventually("all run", SOON, || server.ended("foreign") == 20);
    server.drained(SOON);
    assert_eq!(most_at_once(&server.runs_of("foreign")), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn control_42_keys_of_every_form() {
    // Empty, with a NUL, with marks of ours, of 10 MB: jobs run, each key by itself; waiting ones are listed, found and deleted.
    let server = TestServer::start();
    let long = "x".repeat(10_000_000);
    let keys = ["", "a\0b", "a=b+c~d#e@", "größe 7", "*", &long];
    for key in keys {
        for _ in 0..2 {
            of_key(&server, "keyed", key, sleep(5)).await;
        }
    }
    let inspect = server.inspect();
    let mut seen = Vec::new();
    let mut asked = inspect.jobs(JobState::Waiting).limit(5);
    loop {
        let page = asked.page().await.expect("a page");
        assert_eq!(page.total, 12);
        seen.extend(page.items);
        let Some(next) = page.next else { break };
        asked = inspect.jobs(JobState::Waiting).limit(5).after(next);
    }
    assert_eq!(seen.len(), 12);
    let id = seen[3].id.clone().expect("an id");
    assert!(inspect.find(&id).await.is_ok());
    let _worker = worker(&server, 8);
    server.eventually("all run", 2 * SOON, || server.ended("keyed") == 12);
    server.drained(SOON);
}

#[tokio::test(flavor = "multi_thread")]
async fn damage_by_hand_is_mended() {
    // Members, leases and tickets that somebody made or removed: nothing is lost, and nothing stands still for longer than a minute.
    // Guard: `free_left` in supervisor/holds.rs.
    let server = TestServer::start();
    for _ in 0..4 {
        of_key(&server, "keyed", "k", vec![]).await;
        by_twos(&server, "typed", vec![]).await;
    }
    let ask = |words: &[&str]| -> u64 { server.redis().ask(words) };
    // Nobody opens it: its reason is gone.
    ask(&["ZADD", "hworker-jobs-default:keys:+act_of_key=", "1000000000000009", "k"]);
    ask(&["DEL", "hworker-jobs-default"]);
    // Held by leases that nobody has.
    for held in ["act_by_twos 1", "act_by_twos 2", "act_of_key=k 3", "act_of_key=k 4", "x", "y z"] {
        ask(&["ZADD", "hworker-jobs-default:held", "0", held]);
    }
    let _worker = worker(&server, 4);
    server.eventually("all run", SOON, || server.ended("keyed") == 4 && server.ended("typed") == 4);
    server.eventually("nothing is held", SOON, || {
        server.redis().len("hworker-jobs-default:held") == 0
    });
    // What code declares is written again.
    ask(&["DEL", "hworker-jobs-default:control"]);
    server.eventually("declared", SOON, || server.redis().len("hworker-jobs-default:control") > 0);
    for _ in 0..9 {
        by_twos(&server, "again", sleep(10)).await;
    }
    server.eventually("all run", SOON, || server.ended("again") == 9);
    assert_eq!(most_at_once(&server.runs_of("again")), 2);
    // Values that are none count as not set.
    let control = [
        "HSET",
        "hworker-jobs-default:control",
        "set:act_by_twos",
        "many",
        "set_rate:act_by_twos",
        "0 0 0",
    ];
    ask(&control);
    ask(&["HSET", "hworker-jobs-default:overrides", "set:act_of_key=n", "-5"]);
    for _ in 0..5 {
        by_twos(&server, "unread", sleep(10)).await;
        of_key(&server, "negative", "n", sleep(10)).await;
    }
    server.eventually("all run", SOON, || {
        server.ended("unread") == 5 && server.ended("negative") == 5
    });
    assert_eq!(most_at_once(&server.runs_of("unread")), 2);
    assert_eq!(most_at_once(&server.runs_of("negative")), 2);
    ask(&["DEL", "hworker-jobs-default:overrides"]);
    ask(&["DEL", "hworker-jobs-default:held"]);
    let _: String = server.redis().ask(&["SET", "hworker-jobs-default:held", "somebody else's"]);
    server.enqueue("plain", vec![]).await;
    server.eventually("plain jobs go on", SOON, || server.ended("plain") == 1);
    ask(&["DEL", "hworker-jobs-default:held"]);
    // In the hands of a worker while somebody makes its limits another type: each end reaches its place.
    for plan in
        [vec![vec![Act::RetryIn(10)], vec![]], vec![vec![Act::Snooze(10)], vec![]], sleep(1)]
    {
        let mut plan = plan;
        plan[0].insert(0, Act::Gate("damaged".into()));
        of_key(&server, "held", "h", plan).await;
    }
    server.eventually("two run", SOON, || server.begun("held") == 2);
    ask(&["DEL", "hworker-jobs-default:held"]);
    let _: String = server.redis().ask(&["SET", "hworker-jobs-default:held", "somebody else's"]);
    server.open("damaged");
    let ended = async || server.inspect().counts().await.expect("counts").running == 0;
    server.eventually_async("they ended", SOON, ended).await;
    ask(&["DEL", "hworker-jobs-default:held"]);
    by_twos(&server, "last", vec![]).await;
    server.eventually("so do the others", SOON, || server.ended("last") == 1);
    server.drained(SOON);
    assert_eq!(server.begun("held"), 5);
}
