//! Rows S9 to S14, SC7 to SC17: what runs again and again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use hworker::{
    BoxError, CatchUp, Context, CronControl, CronRun, Error, JobId, JobState, Outcome, Overlap,
    Registry, Schedule, Unique,
};
use hworker_tests::{Act, InProcess, Runner, Runs, TestServer, act, act_by_twos};

use crate::cli::call;
use crate::{SOON, command};

const SECOND: Duration = Duration::from_secs(1);

fn worker(server: &TestServer) -> InProcess {
    InProcess::run(server.worker().registry(hworker_tests::common_jobs()).concurrency(8))
}

fn entry(server: &TestServer, name: &str) -> CronControl {
    server.client().control("default").cron(name)
}

/// Of jobs that end at once.
fn job(name: &str) -> hworker::Enqueue<act> {
    act::with(name.into(), Vec::new())
}

/// Of one that goes on until the gate `go` is open.
fn long(name: &str) -> hworker::Enqueue<act> {
    act::with(name.into(), vec![vec![Act::Gate("go".into())]])
}

async fn set(server: &TestServer, name: &str, schedule: Schedule) {
    entry(server, name).upsert(schedule).await.expect("set");
}

async fn history(server: &TestServer, name: &str) -> Vec<CronRun> {
    let mut runs = entry(server, name).history().await.expect("its runs");
    runs.reverse();
    runs
}

fn words(runs: &[CronRun]) -> Vec<&str> {
    runs.iter().map(|run| run.state.as_str()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn s9_sc8_an_interval_runs_once_each_time_until_it_is_removed() {
    // Each second has one run, none is left out; each has its line; after the removal there is none, and what was submitted stays.
    let server = TestServer::start();
    let _worker = worker(&server);
    set(&server, "tick", job("tick").every(SECOND)).await;
    server.eventually("it ran five times", SOON, || server.ended("tick") >= 5);
    entry(&server, "tick").pause().await.expect("paused");
    server
        .eventually_async("all have ended", SOON, async || {
            history(&server, "tick").await.iter().all(|run| run.state == "done")
        })
        .await;
    let runs = history(&server, "tick").await;
    let dues: Vec<_> = runs.iter().map(|run| run.due).collect();
    assert!(dues.iter().all(|due| due % 1_000 == 0), "{dues:?}");
    assert!(dues.windows(2).all(|pair| pair[1] - pair[0] == 1_000), "{dues:?}");
    let ran: Vec<_> =
        server.runs_of("tick").into_iter().filter(|run| run.what == "begin").collect();
    let ids: BTreeSet<_> = ran.iter().map(|run| run.id.clone()).collect();
    assert_eq!((ids.len(), ran.len()), (runs.len(), runs.len()));
    assert!(runs.iter().all(|run| ids.contains(run.id.as_str())));
    let late = ran.iter().map(|run| {
        let due = run.id.rsplit(':').next().and_then(|due| due.parse::<u64>().ok());
        run.at / 1_000 - due.expect("when it was due")
    });
    assert!(late.max().is_some_and(|late| late < 1_500), "a run is late");
    entry(&server, "tick").resume().await.expect("resumed");
    entry(&server, "tick").remove().await.expect("removed");
    assert!(entry(&server, "tick").info().await.expect("looked").is_none());
    assert_eq!(history(&server, "tick").await, []);
    let (begun, mut redis) = (server.begun("tick"), server.redis());
    assert_eq!(redis.len("hworker-jobs-default:timers"), 0);
    drop(redis);
    server.holds("none after", 2 * SECOND, || server.begun("tick") == begun);
    server.drained(SOON);
}

#[tokio::test(flavor = "multi_thread")]
async fn s10_s11_sc7_three_processes_that_die_run_each_occurrence_once() {
    // Three processes set the same entries again and again, and one after the other is killed: each occurrence is submitted once. For so many
    // kills as `HWORKER_TEST_TURNS` says: 460 are ten minutes.
    // Guard: the comparison in fire.lua.
    let server = TestServer::start();
    let expressions = ["* * * * * *", "*/2 * * * * *", "*/3 * * * * *"];
    let schedule = |i: usize| job(&format!("e{i}")).cron(expressions[i]).catch_up(CatchUp::All);
    for i in 0..3 {
        set(&server, &format!("e{i}"), schedule(i)).await;
    }
    let dead_after = [("HWORKER_DEAD_AFTER", "2s")];
    let mut workers: Vec<_> = (0..3).map(|_| server.worker_process(&dead_after)).collect();
    for turn in 0..hworker_tests::scale("HWORKER_TEST_TURNS", 6) {
        // So that each has fired some.
        tokio::time::sleep(Duration::from_millis(1_300)).await;
        workers[turn % 3].kill();
        workers[turn % 3] = server.worker_process(&dead_after);
        for i in 0..3 {
            set(&server, &format!("e{i}"), schedule(i)).await;
        }
    }
    for (i, every) in [1_000, 2_000, 3_000].into_iter().enumerate() {
        let name = format!("e{i}");
        entry(&server, &name).pause().await.expect("paused");
        let fired = entry(&server, &name).info().await.expect("asked").map_or(0, |info| info.fired);
        let ran = || -> BTreeSet<String> {
            let runs = server.runs_of(&name).into_iter();
            runs.filter(|run| run.what == "end").map(|run| run.id).collect()
        };
        server.eventually("each ran", SOON, || ran().len() as u64 == fired);
        let due = |id: &String| id.rsplit(':').next().and_then(|ms| ms.parse().ok());
        let dues: Vec<u64> = ran().iter().filter_map(due).collect();
        assert!(dues.windows(2).all(|pair| pair[1] - pair[0] == every), "{name}: {dues:?}");
        assert!(fired >= 7_000 / every, "{name}: {dues:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s12_sc12_an_entry_that_is_set_again_goes_on_and_one_that_changes_is_new() {
    // As it is: the next time stays. Another time, or other arguments: they hold at once. What is wrong is refused, and changes nothing.
    let server = TestServer::start();
    set(&server, "e", job("one").cron("0 0 1 1 *")).await;
    let next = entry(&server, "e").info().await.expect("looked").expect("set").next;
    set(&server, "e", job("one").cron("0 0 1 1 *")).await;
    let info = entry(&server, "e").info().await.expect("looked").expect("set");
    assert_eq!((info.next, info.is_set, info.job.as_str()), (next, true, "act"));
    let wrong = [
        (job("x").cron("nonsense"), "five fields"),
        (job("x").cron("0 9 * * *").timezone("Europe/Berlim"), "Europe/Berlin"),
        (job("x").cron("@reboot"), "run_now"),
        (job("x").every(Duration::ZERO), "100 ms"),
        (job("x").delay(SECOND).every(SECOND), "time of its own"),
        (job("x").id("mine").every(SECOND), "time of its own"),
        (job("x").unique(Unique::by("k")).every(SECOND).overlap(Overlap::Skip), "overlap"),
        (job("x").every(SECOND).count(0), "count"),
        (job("x").cron("0 9 * * *").skip_days("sunday, funday"), "days of the week"),
        (job("x").cron("0 9 * * *").start("2027-01-01").end("2026-01-01"), "before"),
    ];
    for (schedule, what) in wrong {
        let refused = entry(&server, "e").upsert(schedule).await;
        let why = refused.expect_err("refused");
        assert!(matches!(why, Error::Config(_)) && why.to_string().contains(what), "{why}");
    }
    for name in ["", "a#b", "a\nb", &"x".repeat(151)] {
        let refused = entry(&server, name).upsert(job("x").every(SECOND)).await;
        assert!(matches!(refused, Err(Error::Config(_))), "{name:?}: {refused:?}");
    }
    let _worker = worker(&server);
    set(&server, "e", job("two").every(SECOND)).await;
    server.eventually("the new one runs", SOON, || server.ended("two") >= 2);
    set(&server, "e", job("three").every(SECOND)).await;
    server.eventually("the newest runs", SOON, || server.ended("three") >= 2);
    assert_eq!(server.begun("one"), 0);
    let missing = entry(&server, "none").pause().await;
    assert!(matches!(missing, Err(Error::NotFound { .. })), "{missing:?}");
    assert!(matches!(
        job("x").id("cron:e:1").on(server.client()).enqueue().await,
        Err(Error::Config(_))
    ));
}

#[tokio::test(flavor = "multi_thread")]
async fn s13_sc16_a_run_that_goes_on_is_joined_left_alone_waited_for_or_cancelled() {
    // Each overlap policy, with runs by hand while the first goes on; what each became stands in the history.
    // Guard: what `Entry::place` holds, and `give_way` in cron/fire.rs.
    let server = TestServer::start();
    let _worker = worker(&server);
    let far = "0 0 1 1 *";
    for (overlap, name) in [
        (Overlap::Allow, "allow"),
        (Overlap::Skip, "skip"),
        (Overlap::Queue, "queue"),
        (Overlap::Cancel, "cancel"),
    ] {
        set(&server, name, long(name).cron(far).overlap(overlap)).await;
        let first = entry(&server, name).run_now().await.expect("run").expect("taken");
        server.eventually("it runs", SOON, || server.begun(name) == 1);
        let second = entry(&server, name).run_now().await.expect("run");
        assert_eq!(second.is_some(), overlap != Overlap::Skip, "{name}");
        assert_ne!(Some(first), second);
    }
    server.eventually("both run", SOON, || server.begun("allow") == 2);
    server.eventually("the new one runs", SOON, || server.begun("cancel") == 2);
    assert_eq!([server.begun("skip"), server.begun("queue")], [1, 1]);
    assert_eq!(words(&history(&server, "skip").await), ["running", "skipped"]);
    assert_eq!(words(&history(&server, "queue").await), ["running", "waiting"]);
    assert_eq!(words(&history(&server, "cancel").await), ["cancelled", "running"]);
    // Of those that wait there is one.
    let third = entry(&server, "queue").run_now().await.expect("run");
    assert!(third.is_some());
    assert_eq!(words(&history(&server, "queue").await), ["running", "replaced", "waiting"]);
    server.open("go");
    server.eventually("what waited runs", SOON, || server.ended("queue") == 2);
    server
        .eventually_async("all is done", SOON, async || {
            let became = async |name| words(&history(&server, name).await).join(" ");
            became("queue").await == "done replaced done"
                && became("skip").await == "done skipped"
                && became("cancel").await == "cancelled done"
        })
        .await;
    assert_eq!(server.ended("cancel"), 1);
    server.eventually("nothing is held", SOON, || {
        server.redis().len("hworker-jobs-default:unique") == 0
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn s14_sc9_sc14_a_count_bounds_and_zones() {
    // So many runs and no more; none before its start and after its end; by the clock of its zone; the next times are told.
    let server = TestServer::start();
    let _worker = worker(&server);
    set(&server, "twice", job("twice").every(SECOND).count(2)).await;
    server.eventually("it ran twice", SOON, || server.ended("twice") == 2);
    let info = entry(&server, "twice").info().await.expect("looked").expect("there");
    assert_eq!((info.next, info.fired, info.count), (None, 2, Some(2)));
    assert_eq!(entry(&server, "twice").next(5).await.expect("its times"), [0; 0]);
    // By hand it may run still, and that does not count.
    assert!(entry(&server, "twice").run_now().await.expect("run").is_some());
    server.eventually("by hand", SOON, || server.ended("twice") == 3);
    let weekdays = job("w").cron("0 9 * * MON-FRI").timezone("Europe/Berlin");
    set(&server, "weekdays", weekdays.start("2030-06-01").end("2030-06-04")).await;
    // 1 June 2030 is a Saturday; Berlin is two hours ahead of UTC then.
    let monday = 1_906_700_400_000;
    let two = [monday, monday + 86_400_000];
    assert_eq!(entry(&server, "weekdays").next(5).await.expect("its times"), two);
    set(&server, "later", job("later").every(SECOND).start("2100-01-01")).await;
    set(&server, "often", job("often").every(SECOND)).await;
    server.eventually("others run", SOON, || server.ended("often") >= 2);
    assert_eq!((server.begun("later"), server.begun("twice")), (0, 3));
    let over = entry(&server, "over").upsert(job("o").every(SECOND).end("2020-01-01")).await;
    assert!(over.is_err_and(|why| why.to_string().contains("never comes")));
}

/// As if an entry had been due since then.
fn due_since(server: &TestServer, name: &str, since: u64) {
    let since = since.to_string();
    command(server, &["HSET", "hworker-jobs-default:cron", &format!("next:{name}"), &since], []);
    command(server, &["ZADD", "hworker-jobs-default:timers", &since, &format!("@{name}")], []);
}

#[tokio::test(flavor = "multi_thread")]
async fn sc11_what_was_missed_is_made_up_for_as_asked() {
    // Nobody is there for a while: afterwards all of it runs, or the last, or what is on time.
    // Guard: `plan` in cron/plan.rs.
    let server = TestServer::start();
    let entries = [
        (CatchUp::All, "all", SECOND),
        (CatchUp::One, "one", 10 * SECOND),
        (CatchUp::Skip, "skip", 10 * SECOND),
    ];
    for (catch_up, name, every) in entries {
        set(&server, name, job(name).every(every).catch_up(catch_up)).await;
    }
    let begin = entry(&server, "all").info().await.expect("looked").expect("there").next;
    let begin = begin.expect("a time");
    // As if each had been due for an hour and a half.
    let hour = 5_400_000;
    for name in ["all", "one", "skip"] {
        due_since(&server, name, begin - hour);
    }
    let _worker = worker(&server);
    server.eventually("it goes on", 2 * SOON, || {
        server.ended("skip") >= 2 && server.ended("one") >= 2
    });
    server.eventually("a hundred were made up for", SOON, || server.ended("all") >= 100);
    let all = history(&server, "all").await;
    assert_eq!(all.len(), 60, "the last are known");
    let fired = entry(&server, "all").info().await.expect("looked").expect("there").fired;
    assert!(fired < 200, "{fired}");
    for (name, on_time) in [("one", 11_000), ("skip", 72_000)] {
        let runs = history(&server, name).await;
        assert_eq!((runs[0].due, runs[0].state.as_str()), (begin - hour, "missed"), "{name}");
        assert!(runs[1].due > begin - on_time, "{name}: {runs:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sc11_of_a_month_a_hundred_runs_are_made_up_for() {
    // Nobody was there for a month, in which two entries were due each second, one by its interval and one by its expression -> the last hundred
    // runs of each are made up for, and they go on.
    // Guard: `MOST` in cron/plan.rs.
    let server = TestServer::start();
    let names = ["interval", "expression"];
    set(&server, names[0], job(names[0]).every(SECOND).catch_up(CatchUp::All)).await;
    set(&server, names[1], job(names[1]).cron("* * * * * *").catch_up(CatchUp::All)).await;
    let begin = entry(&server, names[1]).info().await.expect("looked").expect("there").next;
    let begin = begin.expect("a time");
    let month = 30 * 86_400_000;
    for name in names {
        due_since(&server, name, begin - month);
    }
    let _worker = worker(&server);
    let ran = || names.iter().all(|name| server.ended(name) > 100);
    server.eventually("a hundred of each ran, and more", 2 * SOON, ran);
    for name in names {
        let info = entry(&server, name).info().await.expect("looked").expect("there");
        assert!(info.fired < 200, "{info:?}");
        let due = |id: &str| id.rsplit(':').next().and_then(|due| due.parse::<u64>().ok());
        let first = server.runs_of(name).iter().filter_map(|run| due(&run.id)).min();
        assert!(first > Some(begin - 300_000), "{name}: {first:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn control_25_what_is_left_out_of_a_month_is_logged() {
    // Nobody was there for a month, in which an entry that makes up for all was due each minute, 43,000 times -> the last hundred runs, no older one,
    // and the log says once since when runs were missed, of which entry, and how many of them were made up for.
    // Guard: `notes.missed` in cron/fire.rs, `MOST` and `missed` in cron/plan.rs.
    let server = TestServer::start();
    set(&server, "minutes", job("minutes").cron("* * * * *").catch_up(CatchUp::All)).await;
    let next = entry(&server, "minutes").info().await.expect("looked").expect("there").next;
    let since = next.expect("a time") - 30 * 86_400_000;
    due_since(&server, "minutes", since);
    let _worker = server.worker_process(&[]);
    let due = |run: &hworker_tests::Run| run.id.rsplit(':').next().and_then(|due| due.parse().ok());
    let ran = || -> BTreeSet<u64> {
        let runs = server.runs_of("minutes").into_iter();
        runs.filter(|run| run.what == "end").filter_map(|run| due(&run)).collect()
    };
    server.eventually("a hundred ran", 2 * SOON, || ran().len() >= 100);
    let dues: Vec<_> = ran().into_iter().collect();
    // A minute may begin meanwhile.
    assert!(dues.len() <= 102, "{dues:?}");
    assert!(dues.windows(2).all(|pair| pair[1] - pair[0] == 60_000), "the last: {dues:?}");
    let log = || std::fs::read_to_string(server.dir().join("process-0.log")).expect("the log");
    let said = || -> Vec<String> {
        let is_it = |line: &&str| line.contains("runs of a cron entry were missed");
        log().lines().filter(is_it).map(str::to_owned).collect()
    };
    server.eventually("it is logged", SOON, || !said().is_empty());
    let said = said();
    let all = ["WARN", "entry=minutes", &format!("missed_since={since}"), "runs=100"];
    assert!(said.len() == 1 && all.iter().all(|part| said[0].contains(part)), "{said:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn sc13_an_entry_is_paused_resumed_run_and_looked_at() {
    // Paused, it does not run, and what comes due meanwhile is not made up for; it runs by hand all the same. Each end has its word.
    let server = TestServer::start();
    let _worker = worker(&server);
    set(&server, "e", job("e").every(SECOND).catch_up(CatchUp::All)).await;
    server.eventually("it runs", SOON, || server.ended("e") >= 1);
    assert!(entry(&server, "e").pause().await.expect("paused"));
    assert!(!entry(&server, "e").pause().await.expect("paused again"));
    let paused = entry(&server, "e").info().await.expect("looked").expect("there");
    assert!(paused.paused.is_some());
    server
        .eventually_async("what ran has ended", SOON, async || {
            history(&server, "e").await.iter().all(|run| run.state == "done")
        })
        .await;
    let before = server.begun("e");
    server.holds("it does not run", Duration::from_millis(2_200), || server.begun("e") == before);
    assert!(entry(&server, "e").run_now().await.expect("run").is_some());
    server.eventually("by hand", SOON, || server.begun("e") == before + 1);
    assert!(entry(&server, "e").resume().await.expect("resumed"));
    assert!(!entry(&server, "e").resume().await.expect("resumed again"));
    server.eventually("it goes on", SOON, || server.ended("e") >= before + 2);
    let runs = history(&server, "e").await;
    let missed = runs.windows(2).filter(|pair| pair[1].due - pair[0].due > 2_000).count();
    assert!(missed <= 1 && runs.len() <= before + 5, "{runs:?}");
    let fails = act::with("fails".into(), vec![vec![Act::Fail("no".into())]]);
    set(&server, "fails", fails.cron("0 0 1 1 *")).await;
    let id = entry(&server, "fails").run_now().await.expect("run").expect("taken");
    server
        .eventually_async("it failed", SOON, async || {
            words(&history(&server, "fails").await) == ["failed"]
        })
        .await;
    let record = server.inspect().find(&id).await.expect("looked").expect("a record");
    assert_eq!((record.state, record.id), (JobState::Failed, Some(id)));
}

#[tokio::test(flavor = "multi_thread")]
async fn sc17_a_splay_is_the_same_for_one_entry_and_another_for_others() {
    let server = TestServer::start();
    let mut seconds = BTreeSet::new();
    for i in 0..20 {
        let name = format!("e{i}");
        let hourly = || job("x").cron("0 * * * *").splay(Duration::from_secs(600));
        set(&server, &name, hourly()).await;
        let times = entry(&server, &name).next(3).await.expect("its times");
        let splay = times[0] % 3_600_000;
        assert!(splay <= 600_000 && times.iter().all(|at| at % 3_600_000 == splay), "{times:?}");
        set(&server, &name, hourly()).await;
        assert_eq!(entry(&server, &name).next(3).await.expect("its times"), times);
        seconds.insert(splay);
    }
    assert!(seconds.len() > 15, "{seconds:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_obey_limits_and_priorities_also_where_the_type_is_known_by_its_name_alone() {
    // Of a type that runs two at once, as the program knows it, and by its name: two run, whoever set the entry.
    let server = TestServer::start();
    let _worker = worker(&server);
    let plan = || vec![vec![Act::Gate("go".into())]];
    set(&server, "typed", act_by_twos::with("x".into(), plan()).cron("0 0 1 1 *")).await;
    let args = r#"{"name":"x","plan":[[{"Gate":"go"}]]}"#;
    set(&server, "named", server.client().job_by_name("act_by_twos", args).cron("0 0 1 1 *")).await;
    for name in ["typed", "named", "typed", "named"] {
        assert!(entry(&server, name).run_now().await.expect("run").is_some());
    }
    server.eventually("two run", SOON, || server.begun("x") == 2);
    server.holds("and no more", SECOND, || server.begun("x") == 2);
    server.open("go");
    server.eventually("all run", SOON, || server.ended("x") == 4);
    for name in ["typed", "named"] {
        entry(&server, name).remove().await.expect("removed");
    }
    server.drained(SOON);
}

#[hworker::job(encrypted)]
async fn secret(name: String, context: Context, #[inject] runs: Runs) -> Result<Outcome, BoxError> {
    runs.note(&name, "end", 0, Runner::from(&context));
    Ok(Outcome::Success)
}

#[tokio::test(flavor = "multi_thread")]
async fn arguments_of_an_entry_are_encrypted_too() {
    let server = TestServer::start();
    let client = server.client_with_keys(&[("k1", [7; 32])]);
    let registry = Registry::new().with::<secret>();
    let worker = hworker::Worker::builder().client(&client).registry(registry);
    let _worker = InProcess::run(worker.state(server.runs().clone()).concurrency(2));
    let control = client.control("default").cron("a:b");
    control.upsert(secret::with("4111-s3cret".into()).every(SECOND)).await.expect("set");
    server.eventually("it runs", SOON, || server.ended("4111-s3cret") >= 2);
    let text =
        || -> String { server.redis().ask(&["HGET", "hworker-jobs-default:cron", "set:a:b"]) };
    let first = text();
    assert!(first.contains("$sealed") && !first.contains("s3cret"), "{first}");
    // Encrypted anew it is another text, and says the same: it goes on as it was.
    control.upsert(secret::with("4111-s3cret".into()).every(SECOND)).await.expect("set");
    assert_eq!(text(), first);
    control.upsert(secret::with("another".into()).every(SECOND)).await.expect("set");
    assert_ne!(text(), first);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_somebody_made_of_the_entries_stops_nobody() {
    // Entries that are none, times that are none, a timer without an entry: others run, and the log says what is wrong.
    let server = TestServer::start();
    set(&server, "good", job("good").every(SECOND)).await;
    let cron = "hworker-jobs-default:cron";
    for (name, text, next) in [
        ("nonsense", "{", "1"),
        ("null", "null", "1"),
        ("list", r#"{"when":{"every":1000},"job":"act","args":{},"list":"x*y#"}"#, "1"),
        (
            "unknown",
            r#"{"when":{"cron":"0 9 * * *","timezone":"Mars/Base"},"job":"act","args":{},"list":"*"}"#,
            "1",
        ),
        ("time", r#"{"when":{"every":1000},"job":"act","args":{},"list":"*"}"#, "soon"),
    ] {
        command(
            &server,
            &["HSET", cron, &format!("set:{name}"), text, &format!("next:{name}"), next],
            [],
        );
        command(&server, &["ZADD", "hworker-jobs-default:timers", "1", &format!("@{name}")], []);
    }
    command(&server, &["ZADD", "hworker-jobs-default:timers", "1", "@gone"], []);
    let mut process = server.worker_process(&[]);
    server.eventually("others run", SOON, || server.ended("good") >= 3);
    let job_of_another = server.enqueue("plain", Vec::new()).await;
    server.eventually("plain jobs run", SOON, || server.ended("plain") == 1);
    drop(job_of_another);
    let crons = server.client().control("default").crons().await.expect("listed");
    let problems: BTreeMap<_, _> =
        crons.iter().map(|entry| (entry.name.as_str(), entry.problem.is_some())).collect();
    assert_eq!(problems.get("good"), Some(&false));
    assert_eq!(problems.get("nonsense"), Some(&true));
    let log = std::fs::read_to_string(server.dir().join("process-0.log")).expect("the log");
    assert!(log.contains("a cron entry that is due cannot be fired here"), "{log}");
    process.kill();
    // A key of another type: jobs run, and whoever asks is told.
    command(&server, &["DEL", cron], []);
    command(&server, &["SET", cron, "x"], []);
    let _process = server.worker_process(&[]);
    server.enqueue("after", Vec::new()).await;
    server.eventually("jobs run", SOON, || server.ended("after") == 1);
    assert!(server.client().control("default").crons().await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_somebody_removed_of_an_entry_is_there_again() {
    // Its timer, which says that it is due: a heartbeat brings it back. How many runs it had, as a text: it is counted anew.
    // Guard: the look at timers in heartbeat.lua.
    let server = TestServer::start();
    let _worker = worker(&server);
    let keeps = async {
        let crons = control_with_an_entry_of_code(&server).await;
        assert!(crons.contains(&"kept".to_owned()), "{crons:?}");
    };
    keeps.await;
    set(&server, "e", job("e").every(SECOND)).await;
    server.eventually("it runs", SOON, || server.ended("e") >= 1);
    command(&server, &["HSET", "hworker-jobs-default:cron", "fired:e", "many"], []);
    command(&server, &["DEL", "hworker-jobs-default:timers"], []);
    let before = server.ended("e");
    server.eventually("it goes on", SOON, || server.ended("e") >= before + 3);
    let fired = entry(&server, "e").info().await.expect("looked").expect("there").fired;
    assert!(fired <= 2 + (server.ended("e") - before) as u64, "{fired}");
    let ran: Vec<_> = server.runs_of("e").into_iter().filter(|run| run.what == "begin").collect();
    let ids: BTreeSet<_> = ran.iter().map(|run| &run.id).collect();
    assert_eq!(ids.len(), ran.len(), "none ran twice");
}

#[hworker::job(every = "3650d")]
async fn kept() {}

/// A worker that declares an entry, so that its heartbeats look after entries; the names of all.
async fn control_with_an_entry_of_code(server: &TestServer) -> Vec<String> {
    let registry = Registry::new().with::<kept>();
    std::mem::forget(InProcess::run(server.worker().registry(registry).app("keeper")));
    let control = server.client().control("default");
    server
        .eventually_async("it is declared", SOON, async || {
            !control.crons().await.expect("listed").is_empty()
        })
        .await;
    control.crons().await.expect("listed").into_iter().map(|entry| entry.name).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn s14_a_run_that_is_skipped_does_not_count() {
    let server = TestServer::start();
    let _worker = worker(&server);
    set(&server, "e", long("e").every(SECOND).overlap(Overlap::Skip).count(2)).await;
    server.eventually("it runs", SOON, || server.begun("e") == 1);
    server
        .eventually_async("one is skipped", SOON, async || {
            words(&history(&server, "e").await).contains(&"skipped")
        })
        .await;
    let info = entry(&server, "e").info().await.expect("looked").expect("there");
    assert!(info.next.is_some() && info.fired == 1, "{info:?}");
    server.open("go");
    server.eventually("the second runs", SOON, || server.ended("e") == 2);
    let info = entry(&server, "e").info().await.expect("looked").expect("there");
    assert_eq!((info.next, info.fired), (None, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn en9_a_job_that_is_known_by_its_name_has_an_id_of_the_callers_and_is_unique() {
    let server = TestServer::start();
    let args = r#"{"name":"n","plan":[]}"#;
    let job = || server.client().job_by_name("act", args);
    let first = job().id("order-7").submit().await.expect("submitted");
    let second = job().id("order-7").submit().await.expect("submitted");
    assert_eq!((first.id.as_str(), second.id.as_str()), ("order-7", "order-7"));
    let unique = job().unique(Unique::by("k")).submit().await.expect("submitted");
    let kept = job().unique(Unique::by("k")).submit().await.expect("submitted");
    assert_eq!(kept.id, unique.id);
    let said = call(&server, &["enqueue", "act", "--args", args, "--no-check", "--id", "order-8"]);
    assert_eq!((said.code, said.out.trim()), (0, "order-8"), "{}", said.err);
    let wrong = job().id("a#b").enqueue().await;
    assert!(matches!(wrong, Err(Error::Config(_))), "{wrong:?}");
    let _worker = worker(&server);
    server.eventually("all run", SOON, || server.ended("n") == 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_is_seen_and_steered_from_the_terminal() {
    let server = TestServer::start();
    let _worker = worker(&server);
    server
        .eventually_async("its types are known", SOON, async || {
            server.client().job_types().await.expect("listed").iter().any(|job| job.name == "act")
        })
        .await;
    let args = r#"{"name":"shell","plan":[]}"#;
    let add = ["--json", "cron", "add", "nightly", "--job", "act", "--args", args];
    let rest = [
        "--cron",
        "0 2 * * *",
        "--timezone",
        "Europe/Berlin",
        "--overlap",
        "skip",
        "--skip-days",
        "sun",
    ];
    let added = call(&server, &[&add[..], &rest].concat());
    assert_eq!(added.code, 0, "{}", added.err);
    assert_eq!(added.json()[0]["times"].as_array().map(Vec::len), Some(3));
    let wrong = call(
        &server,
        &["cron", "add", "x", "--job", "act", "--args", args, "--cron", "0 25 * * *"],
    );
    assert_eq!(wrong.code, 2, "{}", wrong.err);
    let unknown = call(&server, &["cron", "add", "x", "--job", "acct", "--cron", "@daily"]);
    assert_eq!(unknown.code, 3, "{}", unknown.err);
    let listed = call(&server, &["cron", "ls"]);
    let rows = listed.lines();
    assert_eq!(
        (rows[0][0], rows[0][1], rows[0][2], rows[0][6]),
        ("nightly", "act", "0 2 * * *", "set")
    );
    let ran = call(&server, &["cron", "run", "nightly"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    server.eventually("it runs", SOON, || server.ended("shell") == 1);
    assert_eq!(call(&server, &["cron", "pause", "nightly"]).code, 0);
    let shown = call(&server, &["--json", "cron", "show", "nightly"]);
    assert!(shown.json()[0]["paused"].is_u64() && shown.json()[0]["runs"][0]["due"].is_u64());
    assert_eq!(call(&server, &["cron", "resume", "nightly"]).code, 0);
    assert_eq!(call(&server, &["cron", "rm", "nightly"]).code, 0);
    assert_eq!(call(&server, &["cron", "rm", "nightly"]).code, 3);
    assert_eq!(call(&server, &["cron", "show", "nightly"]).code, 3);
    let audit = server.client().audit_log(20).await.expect("read");
    let verbs: Vec<_> = audit.iter().map(|entry| entry.action.as_str()).collect();
    for verb in ["set", "run", "pause", "resume", "remove"] {
        assert!(verbs.contains(&verb), "{verb} in {verbs:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_waits_is_cancelled_and_changed_by_its_id() {
    let server = TestServer::start();
    set(&server, "e", job("e").cron("0 0 1 1 *")).await;
    let id: JobId = entry(&server, "e").run_now().await.expect("run").expect("taken");
    assert_eq!(server.inspect().cancel(&id).await.expect("cancelled"), JobState::Waiting);
    assert_eq!(words(&history(&server, "e").await), ["cancelled"]);
    let second = entry(&server, "e").run_now().await.expect("run").expect("taken");
    let page = server.inspect().jobs(JobState::Waiting).page().await.expect("a page");
    assert_eq!(page.items.iter().filter_map(|job| job.id.clone()).collect::<Vec<_>>(), [second]);
}

#[tokio::test(flavor = "multi_thread")]
async fn sc16_a_run_that_cancels_the_one_before_does_not_wait_for_its_retry() {
    // Each run fails and would be tried again in an hour: the next takes its place at once.
    // Guard: `cancel` in lib/unique.lua.
    let server = TestServer::start();
    let _worker = worker(&server);
    let again = act::with("again".into(), vec![vec![Act::RetryIn(3_600_000)]]);
    let every = again.every(SECOND).overlap(Overlap::Cancel);
    set(&server, "e", every).await;
    server.eventually("three runs have begun", SOON, || server.runs_of("again").len() >= 3);
}
