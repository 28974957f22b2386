//! Rows Q13 to Q15, EN9, EN10 and UQ1 to UQ12: one job of a key, and ids of the caller's.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hworker::State;
use hworker::{
    Action, Bulk, Changed, Control, Enqueue, Error, Fate, Job, JobId, JobState, OnConflict,
    Priority, Receipt, Submitted, Unique, When,
};
use hworker_tests::{Act, InProcess, TestServer, act, act_alone, act_of_key};
use tokio::sync::Semaphore;

use crate::SOON;
use crate::cli::call;

const HOUR: Duration = Duration::from_secs(3600);

fn control(server: &TestServer) -> Control {
    server.client().control("default")
}

fn gate() -> Vec<Vec<Act>> {
    vec![vec![Act::Gate("go".into())]]
}

fn worker(server: &TestServer, slots: usize) -> InProcess {
    InProcess::run(server.worker().registry(hworker_tests::common_jobs()).concurrency(slots))
}

async fn submit(server: &TestServer, name: &str, unique: Unique) -> Receipt {
    let job = act::with(name.into(), Vec::new()).unique(unique);
    job.on(server.client()).submit().await.expect("submitted")
}

/// What is held and known of the queue `default`.
fn held(server: &TestServer) -> (u64, u64) {
    let mut redis = server.redis();
    (redis.len("hworker-jobs-default:unique"), redis.len("hworker-jobs-default:ids"))
}

fn waiting(server: &TestServer) -> u64 {
    counts(server).0
}

/// How many wait and are scheduled.
fn counts(server: &TestServer) -> (u64, u64) {
    tokio::task::block_in_place(|| {
        tokio::runtime::Handle::current().block_on(async {
            let counts = server.inspect().counts().await.expect("counted");
            (counts.waiting, counts.scheduled)
        })
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn q13_uq2_uq12_one_of_a_key_waits_or_runs() {
    // A hundred at once of one key are one job, and each caller is told which. It holds the key while it runs and while it waits to run
    // again; when it has ended, the next is new.
    // Guard: the look at `unique` in lib/unique.lua.
    let server = TestServer::start();
    let submits = (0..100).map(|number| {
        let plan = vec![vec![Act::Gate("go".into()), Act::Error("again".into())], vec![]];
        let job = act_alone::with(format!("n{number}"), Some("k".into()), plan);
        let client = server.client().clone();
        tokio::spawn(async move { job.on(&client).submit().await.expect("submitted") })
    });
    let submits: Vec<_> = submits.collect();
    let (mut new, mut ids) = (0, std::collections::HashSet::new());
    for submit in submits {
        let receipt = submit.await.expect("no panic");
        match receipt.submitted {
            Submitted::New => new += 1,
            Submitted::Exists(state) => assert_eq!(state, Some(JobState::Waiting)),
            other => panic!("{other:?}"),
        }
        ids.insert(receipt.id);
    }
    assert_eq!((new, ids.len(), waiting(&server)), (1, 1, 1));
    let _worker = worker(&server, 4);
    server.eventually("it runs", SOON, || server.redis().total("test:runs:*") == 1);
    let again = act_alone::with("late".into(), Some("k".into()), Vec::new());
    let receipt = again.on(server.client()).submit().await.expect("submitted");
    assert_eq!(receipt.submitted, Submitted::Exists(Some(JobState::Running)));
    // Another key, and none at all.
    for key in [Some("other".to_owned()), None, None] {
        let job = act_alone::with("beside".into(), key, Vec::new());
        let receipt = job.on(server.client()).submit().await.expect("submitted");
        assert_eq!(receipt.submitted, Submitted::New);
    }
    server.open("go");
    server.eventually("all ran", SOON, || held(&server) == (0, 0));
    server.drained(SOON);
    assert_eq!(server.ended("beside"), 3);
    let receipt = act_alone::with("next".into(), Some("k".into()), Vec::new()).on(server.client());
    assert_eq!(receipt.submit().await.expect("submitted").submitted, Submitted::New);
    server.drained(SOON);
    assert_eq!((server.ended("next"), server.ended("late")), (1, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn uq1_until_it_starts() {
    // The key is free when the first starts, and neither its retry nor a crash takes it again: both run, side by side.
    // Guard: `unlock` in lib/lease.lua.
    let server = TestServer::start();
    let plan = vec![vec![Act::Gate("go".into()), Act::Error("again".into())], vec![]];
    let first = act::with("first".into(), plan).unique(Unique::by("k").until_start());
    first.on(server.client()).enqueue().await.expect("enqueued");
    let kept = submit(&server, "kept", Unique::by("k").until_start()).await;
    assert_eq!(kept.submitted, Submitted::Exists(Some(JobState::Waiting)));
    let worker = worker(&server, 1);
    server.eventually("it runs", SOON, || server.begun("first") == 1);
    let second = submit(&server, "second", Unique::by("k").until_start()).await;
    assert_eq!(second.submitted, Submitted::New);
    let third = submit(&server, "third", Unique::by("k").until_start()).await;
    assert_eq!(
        (third.submitted, third.id),
        (Submitted::Exists(Some(JobState::Waiting)), second.id)
    );
    server.open("go");
    server.eventually("both ran", SOON, || server.ended("second") == 1);
    server.drained(SOON);
    assert_eq!((server.begun("first"), held(&server)), (2, (0, 0)));
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn uq3_uq7_for_a_period() {
    // Whatever becomes of the job: one within the period is kept, in the state in which it is; deleting it frees the key.
    let server = TestServer::start();
    let _worker = worker(&server, 2);
    let day = || Unique::by("k").lasting(24 * HOUR);
    let first = submit(&server, "first", day()).await;
    server.eventually("it ran", SOON, || server.ended("first") == 1 && held(&server) == (1, 0));
    let second = submit(&server, "second", day()).await;
    assert_eq!((second.submitted, second.id), (Submitted::Exists(None), first.id));
    let locks = control(&server).locks(10).await.expect("listed");
    assert_eq!((locks.len(), locks[0].state), (1, None));
    assert!(locks[0].until.is_some());
    // A period that is over.
    let short = || Unique::by("short").lasting(Duration::from_millis(300));
    submit(&server, "short", short()).await;
    server.eventually("its key is forgotten", SOON, || held(&server) == (1, 0));
    assert_eq!(submit(&server, "short", short()).await.submitted, Submitted::New);
    // Deleted.
    let scheduled = act::with("deleted".into(), Vec::new()).unique(Unique::by("d").lasting(HOUR));
    let scheduled = scheduled.delay(HOUR).on(server.client()).submit().await.expect("submitted");
    server.inspect().change_by_id(&scheduled.id, &Action::Delete).await.expect("deleted");
    assert_eq!(submit(&server, "d", Unique::by("d").lasting(HOUR)).await.submitted, Submitted::New);
}

#[tokio::test(flavor = "multi_thread")]
async fn q14_uq6_on_conflict() {
    // What waits is replaced in its place, or is due at another time, or both; what runs is kept; or the new one is refused.
    // Guard: `give_way` and `move` in lib/unique.lua.
    let server = TestServer::start();
    let unique = |on_conflict| Unique::by("k").on_conflict(on_conflict);
    let first = submit(&server, "first", unique(OnConflict::Keep)).await;
    for name in ["behind", "further"] {
        submit(&server, name, Unique::by(name)).await;
    }
    let second = submit(&server, "second", unique(OnConflict::Replace)).await;
    assert_eq!(second.submitted, Submitted::Replaced(first.id.clone()));
    let third = submit(&server, "third", unique(OnConflict::Replace)).await;
    assert_eq!(third.submitted, Submitted::Replaced(second.id.clone()));
    assert_eq!(waiting(&server), 3);
    let page = server.inspect().jobs(JobState::Waiting).page().await.expect("a page");
    let ids: Vec<_> = page.items.iter().filter_map(|job| job.id.clone()).collect();
    assert_eq!(ids[0], third.id, "in its place");
    assert!(server.inspect().find(&first.id).await.expect("looked").is_none());
    let refused = act::with("refused".into(), Vec::new()).unique(unique(OnConflict::Refuse));
    match refused.on(server.client()).enqueue().await {
        Err(Error::Conflict { id, state: Some(JobState::Waiting), .. }) => assert_eq!(id, third.id),
        other => panic!("{other:?}"),
    }
    // Put off, with its own arguments.
    let later = act::with("later".into(), Vec::new()).unique(unique(OnConflict::Reschedule));
    let moved = later.delay(HOUR).on(server.client()).submit().await.expect("submitted");
    assert_eq!((moved.submitted, &moved.id), (Submitted::Moved, &third.id));
    assert_eq!(counts(&server), (2, 1));
    // Replaced where it is scheduled, at the time that it had.
    let fourth = submit(&server, "fourth", unique(OnConflict::Replace)).await;
    assert_eq!(fourth.submitted, Submitted::Replaced(third.id));
    assert_eq!(counts(&server), (2, 1));
    // Instead of it, now.
    let fifth = submit(&server, "fifth", unique(OnConflict::ReplaceAndReschedule)).await;
    assert_eq!(fifth.submitted, Submitted::Replaced(fourth.id));
    assert_eq!(counts(&server), (3, 0));
    let _worker = worker(&server, 1);
    server.drained(SOON);
    let ran = ["first", "second", "third", "fourth", "fifth", "behind", "further"];
    let ran = ran.map(|name| server.ended(name));
    assert_eq!((ran, held(&server)), ([0, 0, 0, 0, 1, 1, 1], (0, 0)));
}

#[tokio::test(flavor = "multi_thread")]
async fn q14_uq6_what_runs_is_kept() {
    // A job of a key waits, and one of another runs. Others of their keys come, to be kept, to replace them, to have them run at another time, or
    // both -> the one that waits is kept, and so is the one that runs, whatever is asked; one that is to be refused is. Only these two ran.
    // Guard: `give_way` and `move` in lib/unique.lua.
    let server = TestServer::start();
    let waits = submit(&server, "waits", Unique::by("w")).await;
    let kept = submit(&server, "beside", Unique::by("w").on_conflict(OnConflict::Keep)).await;
    let exists = |state| Submitted::Exists(Some(state));
    assert_eq!((kept.submitted, kept.id), (exists(JobState::Waiting), waits.id));
    let runs = act::with("runs".into(), gate()).unique(Unique::by("k")).on(server.client());
    let runs = runs.enqueue().await.expect("enqueued");
    let _worker = worker(&server, 2);
    server.eventually("it runs", SOON, || server.begun("runs") == 1);
    let beside = |on_conflict| {
        let job = act::with("beside".into(), Vec::new());
        job.unique(Unique::by("k").on_conflict(on_conflict)).on(server.client())
    };
    for on_conflict in
        [OnConflict::Replace, OnConflict::Reschedule, OnConflict::ReplaceAndReschedule]
    {
        for job in [beside(on_conflict), beside(on_conflict).delay(HOUR)] {
            let kept = job.submit().await.expect("submitted");
            let expected = (exists(JobState::Running), &runs);
            assert_eq!((kept.submitted, &kept.id), expected, "{on_conflict:?}");
        }
    }
    match beside(OnConflict::Refuse).submit().await {
        Err(Error::Conflict { id, state: Some(JobState::Running), .. }) => assert_eq!(id, runs),
        other => panic!("{other:?}"),
    }
    server.open("go");
    server.drained(SOON);
    let ran = ["waits", "runs", "beside"].map(|name| server.begun(name));
    assert_eq!((ran, server.ended("runs"), held(&server)), ([1, 1, 0], 1, (0, 0)));
}

#[tokio::test(flavor = "multi_thread")]
async fn uq2_a_job_that_waits_to_run_again_keeps_its_key() {
    // A job failed and is to run again in an hour -> another of its key is not enqueued, and is told that the first is scheduled. Promoted, the
    // first ends, and its key is free; the other never began.
    // Guard: `later` in lib/lists.lua.
    let server = TestServer::start();
    let plan = vec![vec![Act::RetryIn(3_600_000)], vec![]];
    let first = act_alone::with("first".into(), Some("k".into()), plan).on(server.client());
    let first = first.enqueue().await.expect("enqueued");
    let _worker = worker(&server, 2);
    server.eventually("it waits to run again", SOON, || counts(&server).1 == 1);
    let second = act_alone::with("second".into(), Some("k".into()), Vec::new());
    let second = second.on(server.client()).submit().await.expect("submitted");
    let expected = (Submitted::Exists(Some(JobState::Scheduled)), &first);
    assert_eq!((second.submitted, &second.id), expected);
    server.inspect().change_by_id(&first, &Action::Promote).await.expect("promoted");
    server.eventually("it ends", SOON, || server.ended("first") == 1);
    server.drained(SOON);
    let begun = (server.begun("first"), server.begun("second"));
    assert_eq!((begun, held(&server)), ((2, 0), (0, 0)));
}

#[tokio::test(flavor = "multi_thread")]
async fn uq9_one_follows_with_the_newest_arguments() {
    // While one runs, others of its key come: the last of them runs when it has ended, however it does, and once.
    // Guard: the follower in lib/finish.lua.
    let server = TestServer::start();
    let follow = || Unique::by("k").on_conflict(OnConflict::Follow);
    let first =
        act::with("first".into(), vec![vec![Act::Gate("go".into()), Act::Failure("no".into())]]);
    let first = first.unique(follow()).on(server.client()).submit().await.expect("submitted");
    let _worker = worker(&server, 4);
    server.eventually("it runs", SOON, || server.begun("first") == 1);
    for name in ["second", "third", "fourth"] {
        let receipt = submit(&server, name, follow()).await;
        assert_eq!(receipt.submitted, Submitted::Follows(first.id.clone()));
    }
    let locks = control(&server).locks(10).await.expect("listed");
    assert_eq!((locks.len(), locks[0].state), (1, Some(JobState::Running)));
    assert!(locks[0].follower.is_some());
    server.open("go");
    server.eventually("the last ran", SOON, || {
        server.ended("fourth") == 1 && held(&server) == (0, 0)
    });
    let ran = ["second", "third"].map(|name| server.begun(name));
    assert_eq!((ran, held(&server), server.counter("failed")), ([0, 0], (0, 0), 1));
    // One that is to run later does, and one whose holder is deleted goes on alone.
    let held_back = act::with("held".into(), Vec::new()).unique(follow()).delay(HOUR);
    let holder = held_back.on(server.client()).submit().await.expect("submitted");
    let late =
        act::with("late".into(), Vec::new()).unique(follow()).delay(Duration::from_millis(200));
    late.on(server.client()).enqueue().await.expect("enqueued");
    server.inspect().change_by_id(&holder.id, &Action::Delete).await.expect("deleted");
    server.eventually("it ran", SOON, || server.ended("late") == 1 && held(&server) == (0, 0));
    assert_eq!(server.begun("held"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn uq9_a_follower_stays_when_its_holder_is_replaced() {
    // Guard: `follower` in lib/unique.lua.
    let server = TestServer::start();
    let unique = |on_conflict| Unique::by("k").on_conflict(on_conflict);
    submit(&server, "first", unique(OnConflict::Follow)).await;
    submit(&server, "follows", unique(OnConflict::Follow)).await;
    submit(&server, "second", unique(OnConflict::Replace)).await;
    let _worker = worker(&server, 2);
    server.drained(SOON);
    let ran = ["first", "second", "follows"].map(|name| server.ended(name));
    assert_eq!((ran, held(&server)), ([0, 1, 1], (0, 0)));
}

#[tokio::test(flavor = "multi_thread")]
async fn uq9_a_follower_is_not_lost_however_the_key_becomes_free() {
    // The holder starts and holds it until then; its period passes; or the holder is gone by hand when the next one comes.
    // Guard: `hand_on` in lib/finish.lua, promote.lua and lib/unique.lua.
    let server = TestServer::start();
    let follow = |key: &str| Unique::by(key).on_conflict(OnConflict::Follow);
    submit(&server, "starts", Unique::by("start").until_start()).await;
    let follows = submit(&server, "after_start", follow("start")).await;
    assert!(matches!(follows.submitted, Submitted::Follows(_)), "{follows:?}");
    submit(&server, "lost", Unique::by("lost")).await;
    submit(&server, "after_lost", follow("lost")).await;
    let lost: Vec<String> = server.redis().ask(&["HKEYS", "hworker-jobs-default:ids"]);
    let holder = control(&server).locks(10).await.expect("listed");
    let holder = holder.iter().find(|lock| lock.key == "act:lost").expect("held").id.clone();
    assert!(lost.contains(&holder.to_string()));
    let _: u64 = server.redis().ask(&["HDEL", "hworker-jobs-default:ids", holder.as_str()]);
    let next = submit(&server, "next", Unique::by("lost")).await;
    assert_eq!(next.submitted, Submitted::Exists(Some(JobState::Waiting)));
    let short = Unique::by("period").lasting(Duration::from_millis(500));
    let job = act::with("period".into(), gate()).unique(short);
    job.on(server.client()).enqueue().await.expect("enqueued");
    submit(&server, "after_period", follow("period")).await;
    let _worker = worker(&server, 4);
    let ran = || ["after_start", "after_lost", "after_period"].map(|name| server.ended(name));
    server.eventually("all that follow ran", SOON, || ran() == [1, 1, 1]);
    server.open("go");
    server.eventually("nothing is held", SOON, || held(&server) == (0, 0));
    assert_eq!((server.ended("starts"), server.begun("lost")), (1, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn control_9_a_follower_starts_however_its_holder_ends() {
    // Holders, each with a job that follows: one is of a worker that dies, which fails it; one expires; one is cancelled while it waits; one
    // while it runs; one is broken -> each that follows runs, once, and nothing is held.
    // Guard: `hand_on` in lib/finish.lua.
    let server = TestServer::start();
    let on = server.client();
    let holder = |name: &str, plan: Vec<Vec<Act>>| {
        act::with(name.into(), plan).unique(Unique::by(name)).on(on)
    };
    let follow = async |name: &str, id: &JobId| {
        let unique = Unique::by(name).on_conflict(OnConflict::Follow);
        let receipt = submit(&server, &format!("after {name}"), unique).await;
        assert_eq!(receipt.submitted, Submitted::Follows(id.clone()), "{name}");
    };
    let killed = holder("killed", vec![vec![Act::Kill], vec![]]);
    let killed = killed.enqueue().await.expect("enqueued");
    follow("killed", &killed).await;
    let settings = [("HWORKER_CRASH_LIMIT", "1"), ("HWORKER_DEAD_AFTER", "2s")];
    let mut process = server.worker_process(&settings);
    assert!(process.wait(SOON).is_some(), "it kills its worker");
    let expired = holder("expired", Vec::new()).expires_in(Duration::from_millis(1));
    let expired = expired.enqueue().await.expect("enqueued");
    let waits = holder("waits", Vec::new()).enqueue().await.expect("enqueued");
    let runs = holder("runs", gate()).enqueue().await.expect("enqueued");
    let broken = on.job_by_name("nobody", "{}").unique(Unique::by("broken").scope("act"));
    let broken = broken.enqueue().await.expect("enqueued");
    for (name, id) in
        [("expired", &expired), ("waits", &waits), ("runs", &runs), ("broken", &broken)]
    {
        follow(name, id).await;
    }
    let queue = server.inspect();
    assert_eq!(queue.cancel(&waits).await.expect("cancelled"), JobState::Waiting);
    let worker = server.worker().registry(hworker_tests::common_jobs()).concurrency(4);
    let worker = worker.crash_limit(1).dead_after(Duration::from_secs(2));
    let _worker = InProcess::run(worker.unknown_for(Duration::from_secs(1)));
    server.eventually("it runs", SOON, || server.begun("runs") == 1);
    assert_eq!(queue.cancel(&runs).await.expect("cancelled"), JobState::Running);
    let all = ["killed", "expired", "waits", "runs", "broken"];
    let ended = || all.iter().all(|name| server.ended(&format!("after {name}")) == 1);
    server.eventually("each that follows ran", 4 * SOON, ended);
    server.eventually("nothing is held", SOON, || held(&server) == (0, 0));
    let begun = all.map(|name| (server.begun(name), server.begun(&format!("after {name}"))));
    assert_eq!(begun, [(1, 1), (0, 1), (0, 1), (1, 1), (0, 1)]);
    let counted = ["failed", "expired", "cancelled", "broken"].map(|name| server.counter(name));
    assert_eq!(counted, [1, 1, 2, 1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn en9_en10_ids_of_the_caller() {
    // While a job of that id lives, in whatever state, another is that one; afterwards it is new. In a bulk too, with what became of each.
    // Guard: the look at `ids` in lib/unique.lua.
    let server = TestServer::start();
    let order = |name: &str| act::with(name.into(), gate()).id("order-7").on(server.client());
    assert_eq!(order("first").enqueue().await.expect("enqueued").as_str(), "order-7");
    let again = order("second").submit().await.expect("submitted");
    assert_eq!(again.submitted, Submitted::Exists(Some(JobState::Waiting)));
    assert_eq!(again.id.as_str(), "order-7");
    let running = worker(&server, 2);
    server.eventually("it runs", SOON, || server.begun("first") == 1);
    let again = order("third").submit().await.expect("submitted");
    assert_eq!(again.submitted, Submitted::Exists(Some(JobState::Running)));
    let found = server.inspect().find(&"order-7".into()).await.expect("looked").expect("there");
    assert_eq!((found.state, found.worker.is_some()), (JobState::Running, true));
    let bulk: Bulk = ["fourth", "fifth"].into_iter().map(order).collect();
    let ids = bulk.add(act::with("plain".into(), Vec::new()).on(server.client()));
    let ids = ids.enqueue().await.expect("enqueued");
    assert_eq!(ids[..2], [JobId::from("order-7"), JobId::from("order-7")]);
    let refused = act::with("no".into(), Vec::new()).id("order-8").on(server.client());
    let unique = Unique::by("k").on_conflict(OnConflict::Refuse);
    let bulk = Bulk::new().add(refused.unique(unique.clone()));
    let bulk = bulk.add(act::with("no".into(), Vec::new()).unique(unique).on(server.client()));
    match bulk.enqueue().await {
        Err(Error::Bulk { jobs, .. }) => {
            assert_eq!([jobs[0].1, jobs[1].1], [Fate::Enqueued, Fate::NotEnqueued]);
        }
        other => panic!("{other:?}"),
    }
    server.open("go");
    server.drained(SOON);
    assert_eq!((server.ended("first"), server.begun("fourth"), held(&server)), (1, 0, (0, 0)));
    assert_eq!(order("sixth").submit().await.expect("submitted").submitted, Submitted::New);
    for wrong in ["", "a#b", "a\nb", &"x".repeat(201)] {
        let wrong = act::with("wrong".into(), Vec::new()).id(wrong).on(server.client());
        assert!(matches!(wrong.enqueue().await, Err(Error::Config(_))));
    }
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn uq4_uq5_keys_and_scopes() {
    // By the arguments of a type that others push in another order; two types that share a scope; and queues, which are scopes of their own.
    let server = TestServer::start();
    let shared = |key: &str| Unique::by(key).scope("shared");
    assert_eq!(submit(&server, "one", shared("k")).await.submitted, Submitted::New);
    let other = act_of_key::with("other".into(), Some("a".into()), Vec::new()).unique(shared("k"));
    let other = other.on(server.client()).submit().await.expect("submitted");
    assert_eq!(other.submitted, Submitted::Exists(Some(JobState::Waiting)));
    let elsewhere = act::with("elsewhere".into(), Vec::new()).unique(shared("k")).queue("mail");
    let elsewhere = elsewhere.on(server.client()).submit().await.expect("submitted");
    assert_eq!(elsewhere.submitted, Submitted::New);
    // A key that is long, or has signs of ours.
    for key in ["a#b=c+d~e\n", &"x".repeat(100_000)] {
        assert_eq!(submit(&server, "odd", Unique::by(key)).await.submitted, Submitted::New);
        let again = submit(&server, "odd", Unique::by(key)).await;
        assert_eq!(again.submitted, Submitted::Exists(Some(JobState::Waiting)));
    }
    let locks = control(&server).locks(10).await.expect("listed");
    assert!(locks.iter().all(|lock| lock.key.len() < 120), "{locks:?}");
    let wrong =
        [Unique::by(""), Unique::by("k").scope("a b"), Unique::by("k").lasting(Duration::ZERO)];
    for wrong in wrong {
        let wrong = act::with("wrong".into(), Vec::new()).unique(wrong).on(server.client());
        assert!(matches!(wrong.enqueue().await, Err(Error::Config(_))));
    }
    let _worker = worker(&server, 2);
    server.drained(SOON);
}

#[tokio::test(flavor = "multi_thread")]
async fn uq5_types_have_scopes_of_their_own() {
    // Two types, each with a job of the same key and without a scope -> both are new, the key is held once for each type, another job of one of
    // them is kept, and both run.
    // Guard: `Unique::lock`.
    let server = TestServer::start();
    let one = submit(&server, "one", Unique::by("k")).await;
    let other = submit_of(&server).await;
    assert_eq!([&one.submitted, &other.submitted], [&Submitted::New, &Submitted::New]);
    let locks = control(&server).locks(10).await.expect("listed");
    let mut keys: Vec<_> = locks.iter().map(|lock| lock.key.as_str()).collect();
    keys.sort_unstable();
    assert_eq!(keys, ["act:k", "act_of_key:k"]);
    let again = submit(&server, "again", Unique::by("k")).await;
    let expected = (Submitted::Exists(Some(JobState::Waiting)), one.id);
    assert_eq!((again.submitted, again.id), expected);
    let _worker = worker(&server, 2);
    server.drained(SOON);
    let ran = ["one", "other", "again"].map(|name| server.ended(name));
    assert_eq!((ran, held(&server)), ([1, 1, 0], (0, 0)));
}

/// Unique by all its arguments; it goes on until the test lets it end.
#[hworker::job(unique)]
async fn by_everything(
    a: u32,
    b: String,
    State(seen): State<Seen>,
    State(end): State<Arc<Semaphore>>,
) {
    seen.note(format!("{a} {b}"));
    drop(end.acquire().await);
}

/// Unique by two of three arguments.
#[hworker::job(unique(key = (a, b)))]
async fn by_two(a: u32, b: String, c: u32) {
    let _ = (a, b, c);
}

mod keys {
    /// Large and small letters are the same.
    pub(super) fn folded(job: &super::by_function) -> String {
        job.b.to_lowercase()
    }
}

/// Unique by what a function makes of its arguments.
#[hworker::job(unique(key = keys::folded))]
async fn by_function(a: u32, b: String) {
    let _ = (a, b);
}

/// What became of a job.
async fn became<J: Job>(job: Enqueue<J>) -> Submitted {
    job.submit().await.expect("submitted").submitted
}

#[tokio::test(flavor = "multi_thread")]
async fn uq4_a_key_is_all_arguments_or_some_or_what_a_function_gives() {
    // Three types, one for each way -> a job is new if what its key is made of differs, and only then. One whose arguments are pushed in another
    // order is cancelled, as it is the same by all of them.
    // Guard: `of_arguments` in unique/arguments.rs.
    let server = TestServer::start();
    let on = server.client();
    let exists = || Submitted::Exists(Some(JobState::Waiting));
    for (a, b, expected) in [
        (1, "x", Submitted::New),
        (1, "x", exists()),
        (2, "x", Submitted::New),
        (1, "y", Submitted::New),
    ] {
        assert_eq!(became(by_everything::with(a, b.into()).on(on)).await, expected, "{a} {b}");
    }
    for (a, b, c, expected) in [
        (1, "x", 1, Submitted::New),
        (1, "x", 2, exists()),
        (2, "x", 1, Submitted::New),
        (1, "y", 1, Submitted::New),
    ] {
        assert_eq!(became(by_two::with(a, b.into(), c).on(on)).await, expected, "{a} {b} {c}");
    }
    for (a, b, expected) in [(1, "X", Submitted::New), (2, "x", exists()), (1, "z", Submitted::New)]
    {
        assert_eq!(became(by_function::with(a, b.into()).on(on)).await, expected, "{a} {b}");
    }
    let (seen, end) = (Seen::default(), Arc::new(Semaphore::new(0)));
    let worker = server.worker().register::<by_everything>().register::<by_two>();
    let worker = worker.register::<by_function>().concurrency(8);
    let _worker = InProcess::run(worker.state(seen.clone()).state(Arc::clone(&end)));
    server.eventually("they run", SOON, || seen.all().len() == 3);
    let pushed = r#"{"id":"pushed","job":"by_everything","args":{"b":"x","a":1}}"#;
    let _: u64 = server.redis().ask(&["LPUSH", "hworker-jobs-default", pushed]);
    server.eventually("it is cancelled", SOON, || server.counter("cancelled") == 1);
    end.add_permits(8);
    server.eventually("nothing is held", SOON, || held(&server) == (0, 0));
    let mut ran = seen.all();
    ran.sort_unstable();
    assert_eq!(ran, ["1 x", "1 y", "2 x"]);
    assert_eq!(server.counter("processed"), 8, "of all three types");
}

#[tokio::test(flavor = "multi_thread")]
async fn uq12_a_job_that_is_pushed_without_its_key_is_taken_in_by_the_worker() {
    // A producer in another language pushes jobs of a unique type to the plain list: the first holds its key, and those that come while it
    // does are cancelled.
    // Guard: `submitted` in admit.rs.
    let server = TestServer::start();
    let push = |name: &str, key: &str| {
        let args = serde_json::json!({"plan": gate(), "key": key, "name": name});
        let job = serde_json::json!({"id": name, "job": "act_alone", "args": args}).to_string();
        let _: u64 = server.redis().ask(&["LPUSH", "hworker-jobs-default", &job]);
    };
    let _worker = worker(&server, 4);
    push("first", "k");
    server.eventually("it runs", SOON, || server.begun("first") == 1);
    push("second", "k");
    push("third", "other");
    server.eventually("the other runs", SOON, || server.begun("third") == 1);
    server.eventually("the second is cancelled", SOON, || server.counter("cancelled") == 1);
    let again = act_alone::with("again".into(), Some("k".into()), Vec::new());
    let again = again.on(server.client()).submit().await.expect("submitted");
    assert_eq!(again.submitted, Submitted::Exists(Some(JobState::Running)));
    server.open("go");
    server.eventually("all ended", SOON, || held(&server) == (0, 0));
    assert_eq!((server.ended("first"), server.begun("second")), (1, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn uq12_a_failed_job_that_is_to_run_again_is_refused_while_another_holds_its_key() {
    // Let run again by its id, and in a list: refused, with who holds the key, and its record stays. When the key is free it has it again, and
    // another is refused. One of which the period goes on has its key itself.
    // Guard: `again` in edit.lua.
    let server = TestServer::start();
    let _worker = worker(&server, 4);
    let fails = act_alone::with(
        "fails".into(),
        Some("k".into()),
        vec![vec![Act::Fail("no".into())], gate().remove(0)],
    );
    let fails = fails.on(server.client()).enqueue().await.expect("enqueued");
    server.eventually("it fails", SOON, || server.counter("failed") == 1);
    let holder =
        act_alone::with("holds".into(), Some("k".into()), vec![vec![Act::Gate("held".into())]]);
    let holder = holder.on(server.client()).enqueue().await.expect("enqueued");
    server.eventually("another runs", SOON, || server.begun("holds") == 1);
    let queue = server.inspect();
    let refused = queue.change_by_id(&fails, &Action::Retry).await;
    match refused {
        Err(Error::Conflict { id, state: Some(JobState::Running), .. }) => assert_eq!(id, holder),
        other => panic!("{other:?}"),
    }
    let seen = queue.find(&fails).await.expect("looked").expect("its record");
    let changed = queue.change(std::slice::from_ref(&seen), &Action::Reset).await;
    assert_eq!(changed.expect("asked"), [Changed::Conflict]);
    let told = call(&server, &["failed", "retry", fails.as_str()]);
    assert!(told.out.contains("others hold their keys"), "{}{}", told.out, told.err);
    assert_eq!(
        queue.find(&fails).await.expect("looked").map(|job| job.state),
        Some(JobState::Failed)
    );
    server.open("held");
    server.eventually("the other ends", SOON, || held(&server) == (0, 0));
    queue.change_by_id(&fails, &Action::Retry).await.expect("it runs again");
    server.eventually("it runs", SOON, || server.begun("fails") == 2);
    let late = act_alone::with("late".into(), Some("k".into()), Vec::new()).on(server.client());
    let late = late.submit().await.expect("submitted");
    assert_eq!((late.id, late.submitted), (fails, Submitted::Exists(Some(JobState::Running))));
    server.open("go");
    server.eventually("all ended", SOON, || held(&server) == (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn uq10_uq11_a_lock_cannot_outlive_its_job() {
    // However a job ends: deleted while it waits, is scheduled, or is parked; broken; failed. And a lock that somebody left behind by hand
    // holds nothing.
    // Guard: `finish` in each of them.
    let server = TestServer::start();
    let keyed = |name: &str| {
        act::with(name.into(), Vec::new()).unique(Unique::by(name)).on(server.client())
    };
    let waits = keyed("waits").submit().await.expect("submitted");
    let scheduled = keyed("scheduled").delay(HOUR).submit().await.expect("submitted");
    let promoted = keyed("promoted").delay(HOUR).submit().await.expect("submitted");
    let put_off = keyed("put_off").submit().await.expect("submitted");
    assert_eq!(held(&server), (4, 4));
    let queue = server.inspect();
    for id in [&waits.id, &scheduled.id] {
        queue.change_by_id(id, &Action::Delete).await.expect("deleted");
    }
    assert_eq!((held(&server), counts(&server)), ((2, 2), (1, 1)));
    queue.change_by_id(&promoted.id, &Action::Promote).await.expect("promoted");
    let later = Action::Reschedule(When::In(HOUR));
    queue.change_by_id(&put_off.id, &later).await.expect("rescheduled");
    assert_eq!((held(&server), counts(&server)), ((2, 2), (1, 1)));
    queue.change_by_id(&put_off.id, &Action::Promote).await.expect("promoted");
    // Unknown here, so it is parked, and what the keeper breaks at last is free.
    let unknown = serde_json::json!({"id": "u", "job": "nobody", "args": {}}).to_string();
    let _: u64 = server.redis().ask(&[
        "HSET",
        "hworker-jobs-default:ids",
        "u",
        &format!("w*\nfx:u\n{unknown}"),
    ]);
    let _: u64 = server.redis().ask(&["HSET", "hworker-jobs-default:unique", "x:u", "u####"]);
    let _: u64 = server.redis().ask(&["LPUSH", "hworker-jobs-default:*", "u"]);
    let running = InProcess::run(
        server.worker().registry(hworker_tests::common_jobs()).unknown_for(Duration::from_secs(2)),
    );
    server.eventually("it is parked", SOON, || server.redis().len("hworker-parked-default") == 1);
    server.eventually("both ran", SOON, || server.ended("promoted") + server.ended("put_off") == 2);
    let parked = queue.jobs(JobState::Parked).page().await.expect("a page");
    assert_eq!(parked.items[0].job.as_deref(), Some("nobody"));
    server.eventually("it is broken", SOON, || server.redis().len("hworker-broken-default") == 1);
    server.eventually("nothing is held", SOON, || held(&server) == (0, 0));
    let _: u64 = server.redis().ask(&["DEL", "hworker-broken-default"]);
    server.drained(SOON);
    running.stop().await;
    // By hand.
    submit(&server, "lost", Unique::by("lost")).await;
    let _: u64 = server.redis().ask(&["DEL", "hworker-jobs-default:ids", "hworker-jobs-default:*"]);
    assert_eq!(control(&server).locks(10).await.expect("listed").len(), 0);
    assert_eq!(submit(&server, "lost", Unique::by("lost")).await.submitted, Submitted::New);
    let locks = control(&server).locks(10).await.expect("listed");
    assert_eq!(locks[0].state, Some(JobState::Waiting));
    assert!(control(&server).unlock(&locks[0].key).await.expect("freed"));
    assert!(!control(&server).unlock(&locks[0].key).await.expect("free already"));
    assert_eq!(submit(&server, "beside", Unique::by("lost")).await.submitted, Submitted::New);
}

#[tokio::test(flavor = "multi_thread")]
async fn uq11_a_killed_worker_and_one_that_stops_keep_the_key() {
    // The job comes back under its lease, holds its key all the while, and waits where its priority and its limits have it.
    let server = TestServer::start();
    let plan = vec![vec![Act::Gate("never".into())], vec![]];
    let job = act_of_key::with("job".into(), Some("a".into()), plan.clone());
    let job = job.unique(Unique::by("k")).priority(Priority::High).on(server.client());
    job.enqueue().await.expect("enqueued");
    let mut first = server.worker_process(&[("HWORKER_CONCURRENCY", "2")]);
    server.eventually("it runs", SOON, || server.begun("job") == 1);
    first.kill();
    let kept = submit_of(&server).await;
    assert_eq!(kept.submitted, Submitted::Exists(Some(JobState::Running)));
    let second = worker(&server, 2);
    server.eventually("it ran again", 4 * SOON, || server.ended("job") == 1);
    server.drained(SOON);
    assert_eq!(held(&server), (0, 0));
    // Given back.
    let job = act::with("given".into(), vec![vec![Act::Gate("never".into())], vec![]]);
    job.unique(Unique::by("k")).on(server.client()).enqueue().await.expect("enqueued");
    server.eventually("it runs", SOON, || server.begun("given") == 1);
    second.stop().await;
    assert_eq!((held(&server), waiting(&server)), ((1, 1), 1));
    let _third = worker(&server, 2);
    server.eventually("it ran", SOON, || server.ended("given") == 1);
    server.drained(SOON);
    assert_eq!(held(&server), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn control_21_one_that_is_unique_until_its_start_never_takes_its_key_again() {
    // One that held its key until it started comes back from a worker that died, and another waits to run again while a second of its key is
    // scheduled -> both run again beside those that have their keys now, and take these from nobody.
    // Guard: `unlock` in lib/lease.lua.
    let server = TestServer::start();
    let unique = |key: &str| Unique::by(key).until_start();
    let plan = vec![vec![Act::Gate("never".into())], vec![]];
    let first = act::with("first".into(), plan).unique(unique("k")).on(server.client());
    first.enqueue().await.expect("enqueued");
    let settings = [("HWORKER_CONCURRENCY", "1"), ("HWORKER_DEAD_AFTER", "2s")];
    let mut process = server.worker_process(&settings);
    server.eventually("it runs", SOON, || server.begun("first") == 1);
    let second = submit(&server, "second", unique("k")).await;
    assert_eq!(second.submitted, Submitted::New);
    process.kill();
    let _worker = worker(&server, 2);
    let both = || server.ended("first") == 1 && server.ended("second") == 1;
    server.eventually("both ran", 4 * SOON, both);
    server.drained(SOON);
    assert_eq!((server.begun("first"), held(&server)), (2, (0, 0)));
    // By a retry.
    let plan = vec![vec![Act::Gate("go".into()), Act::RetryIn(300)], vec![]];
    let again = act::with("again".into(), plan).unique(unique("r")).on(server.client());
    again.enqueue().await.expect("enqueued");
    server.eventually("it runs", SOON, || server.begun("again") == 1);
    let late = act::with("late".into(), Vec::new()).unique(unique("r")).delay(HOUR);
    let late = late.on(server.client()).submit().await.expect("submitted");
    assert_eq!(late.submitted, Submitted::New);
    server.open("go");
    server.eventually("it ran again", SOON, || server.ended("again") == 1);
    server.eventually("it is no more", SOON, || held(&server) == (1, 1));
    let locks = control(&server).locks(10).await.expect("listed");
    assert_eq!((&locks[0].id, locks[0].state), (&late.id, Some(JobState::Scheduled)));
    assert_eq!((server.begun("late"), counts(&server)), (0, (0, 1)));
    server.inspect().change_by_id(&late.id, &Action::Promote).await.expect("promoted");
    server.eventually("it ran", SOON, || server.ended("late") == 1);
    server.drained(SOON);
    assert_eq!((server.begun("again"), held(&server)), (2, (0, 0)));
}

#[tokio::test(flavor = "multi_thread")]
async fn control_28_a_period_that_ends_while_its_job_waits() {
    // The period of a job is over while it waits still -> another of its key is new, both wait, both run, and nothing is held when its period is
    // over too.
    // Guard: `is_free` in lib/unique.lua.
    let server = TestServer::start();
    let short = || Unique::by("k").lasting(Duration::from_millis(300));
    submit(&server, "first", short()).await;
    server
        .eventually_async("its period is over", SOON, async || {
            control(&server).locks(10).await.expect("listed").is_empty()
        })
        .await;
    assert_eq!(submit(&server, "second", short()).await.submitted, Submitted::New);
    assert_eq!(waiting(&server), 2);
    let _worker = worker(&server, 2);
    server.drained(SOON);
    let ran = ["first", "second"].map(|name| server.ended(name));
    assert_eq!((ran, held(&server)), ([1, 1], (0, 0)));
}

/// What bodies saw, in their order.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<String>>>);

impl Seen {
    fn note(&self, text: String) {
        self.0.lock().expect("no panic").push(text);
    }

    fn all(&self) -> Vec<String> {
        self.0.lock().expect("no panic").clone()
    }
}

#[hworker::job(debounce(wait = "400ms", max = "2s", key = key))]
async fn put_off(key: String, text: String, State(seen): State<Seen>) {
    seen.note(format!("{key}: {text}"));
}

#[hworker::job(throttle(period = "1h", key = key))]
async fn throttled(key: String, text: String, State(seen): State<Seen>) {
    seen.note(format!("{key}: {text}"));
}

/// Fails the first time.
#[hworker::job(on_error = "fail", throttle(period = "1h", key = key))]
async fn fails_at_first(key: String, State(seen): State<Seen>) -> Result<(), String> {
    seen.note(key);
    if seen.all().len() == 1 { Err("no".into()) } else { Ok(()) }
}

#[tokio::test(flavor = "multi_thread")]
async fn uq3_control_21_a_period_holds_whatever_becomes_of_its_job() {
    // A job has its key for an hour, by the call -> another is kept while it waits, while it runs, when it has failed, and when an operator has
    // let it run again, which is no conflict. The same of a type that has its keys for an hour.
    // Guard: `finish` in lib/finish.lua, `is_free` in lib/unique.lua.
    let server = TestServer::start();
    let hour = || Unique::by("k").lasting(HOUR);
    let plan = vec![vec![Act::Gate("go".into()), Act::Fail("no".into())], vec![]];
    let first = act::with("first".into(), plan).unique(hour()).on(server.client());
    let first = first.enqueue().await.expect("enqueued");
    let is_kept = async |state: Option<JobState>| {
        let kept = submit(&server, "beside", hour()).await;
        assert_eq!((kept.submitted, &kept.id), (Submitted::Exists(state), &first));
    };
    is_kept(Some(JobState::Waiting)).await;
    let seen = Seen::default();
    let registry = hworker_tests::common_jobs().with::<fails_at_first>();
    let worker = server.worker().registry(registry).concurrency(2);
    let _worker = InProcess::run(worker.state(seen.clone()));
    server.eventually("it runs", SOON, || server.begun("first") == 1);
    is_kept(Some(JobState::Running)).await;
    server.open("go");
    server.eventually("it fails", SOON, || server.counter("failed") == 1);
    is_kept(None).await;
    let queue = server.inspect();
    queue.change_by_id(&first, &Action::Retry).await.expect("no conflict");
    server.eventually("it ends", SOON, || server.counter("processed") == 1);
    is_kept(None).await;
    assert_eq!(server.begun("beside"), 0);
    // By its type.
    let job = || fails_at_first::with("t".into()).on(server.client());
    let id = job().enqueue().await.expect("enqueued");
    server.eventually("it fails", SOON, || server.counter("failed") == 2);
    let kept = job().submit().await.expect("submitted");
    assert_eq!((kept.submitted, &kept.id), (Submitted::Exists(None), &id));
    queue.change_by_id(&id, &Action::Retry).await.expect("no conflict");
    let processed = || server.counter("processed:fails_at_first") == 1;
    server.eventually("it ends", SOON, processed);
    let kept = job().submit().await.expect("submitted");
    assert_eq!((kept.submitted, &kept.id), (Submitted::Exists(None), &id));
    assert_eq!((seen.all(), held(&server)), (vec!["t".to_owned(); 2], (2, 0)));
}

#[tokio::test(flavor = "multi_thread")]
async fn q15_uq7_uq8_debounce_and_throttle() {
    // Many within the wait are one, with the last arguments; it is not put off for longer than the most; the first within a period runs at
    // once, and the others do not.
    // Guard: `put_off` in lib/unique.lua.
    let server = TestServer::start();
    let seen = Seen::default();
    let worker = server.worker().register::<put_off>().register::<throttled>();
    let _worker = InProcess::run(worker.state(seen.clone()));
    for number in 0..5 {
        put_off::with("a".into(), number.to_string())
            .on(server.client())
            .enqueue()
            .await
            .expect("in");
        throttled::with("t".into(), number.to_string())
            .on(server.client())
            .enqueue()
            .await
            .expect("in");
    }
    server.eventually("both ran", SOON, || seen.all().len() == 2);
    assert_eq!(seen.all(), ["t: 0", "a: 4"]);
    // One comes every 100 ms, so that none would run if it were put off each time.
    let began = Instant::now();
    while seen.all().len() < 3 {
        assert!(began.elapsed() < SOON, "it is put off without end");
        put_off::with("b".into(), "x".into()).on(server.client()).enqueue().await.expect("in");
        // The time between two changes of a person.
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(began.elapsed() >= Duration::from_millis(1_900), "{:?}", began.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn uq10_locks_from_the_command_line() {
    // Listed with who holds them; freed, with a word in the audit; and who is none.
    let server = TestServer::start();
    submit(&server, "one", Unique::by("k")).await;
    let follower = submit(&server, "two", Unique::by("k").on_conflict(OnConflict::Follow)).await;
    let listed = call(&server, &["locks", "ls", "--json"]).json();
    assert_eq!((listed.len(), &listed[0]["key"]), (1, &"act:k".into()));
    assert_eq!(listed[0]["state"], "waiting");
    assert_eq!(listed[0]["follower"], follower.id.as_str());
    assert_eq!(call(&server, &["locks", "free", "act:k"]).code, 0);
    assert_eq!(call(&server, &["locks", "free", "act:k"]).code, 3);
    assert!(call(&server, &["audit"]).out.contains("unlock"), "it is in the audit");
    assert_eq!(submit(&server, "three", Unique::by("k")).await.submitted, Submitted::New);
    let _worker = worker(&server, 2);
    let ended = || ["one", "two", "three"].iter().all(|name| server.ended(name) == 1);
    server.eventually("all ran", SOON, ended);
    server.drained(SOON);
}

async fn submit_of(server: &TestServer) -> Receipt {
    let job = act_of_key::with("other".into(), Some("b".into()), Vec::new());
    job.unique(Unique::by("k")).on(server.client()).submit().await.expect("submitted")
}

#[hworker::job(debounce(wait = "20ms", max = "60ms", key = key))]
async fn saves(key: String, text: String, State(seen): State<Seen>) {
    drop(key);
    seen.note(text);
}

#[tokio::test(flavor = "multi_thread")]
async fn uq8_what_was_put_off_for_long_enough_keeps_its_place() {
    // The queue is behind, and the text changes all the time: its job stays where it stands, with the newest text, and leaves nothing behind.
    // Guard: `moves` in lib/unique.lua.
    let server = TestServer::start();
    let on = server.client();
    control(&server).pause().await.expect("paused");
    let seen = Seen::default();
    let worker = server.worker().register::<saves>().state(seen.clone());
    let _worker = InProcess::run(worker);
    let save = |text: &str| saves::with("page".into(), text.into()).on(on);
    save("first").enqueue().await.expect("enqueued");
    server.eventually("it waits", SOON, || waiting(&server) == 1);
    let list = "hworker-jobs-default:*";
    for number in 0..20 {
        let save = save(&format!("{number}")).delay(Duration::ZERO);
        save.enqueue().await.expect("enqueued");
    }
    assert_eq!((server.redis().len(list), counts(&server)), (1, (1, 0)));
    control(&server).resume().await.expect("resumed");
    server.eventually("it ran", SOON, || seen.all() == ["19"]);
    server.eventually("nothing is held", SOON, || held(&server) == (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn uq9_a_job_that_took_a_place_and_moved_is_replaced_where_it_is() {
    // B takes the place of A, somebody raises its priority, and C takes its place: C runs, and nothing is held.
    // Guard: `place` in edit.lua.
    let server = TestServer::start();
    let by = || Unique::by("k").on_conflict(OnConflict::Replace);
    submit(&server, "a", by()).await;
    let second = submit(&server, "b", by()).await;
    assert!(matches!(second.submitted, Submitted::Replaced(_)));
    let raise = Action::SetPriority(Priority::High);
    server.inspect().change_by_id(&second.id, &raise).await.expect("raised");
    let third = act::with("c".into(), Vec::new()).priority(Priority::High).unique(by());
    let third = third.on(server.client()).submit().await.expect("submitted");
    assert_eq!(third.submitted, Submitted::Replaced(second.id));
    let _worker = worker(&server, 2);
    server.eventually("it ran", SOON, || server.ended("c") == 1);
    server.eventually("nothing is held", SOON, || held(&server) == (0, 0));
    assert_eq!((server.begun("a"), server.begun("b")), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn uq10_keys_of_another_type_lose_no_job() {
    // Somebody made a text of what says who holds a key, or where jobs stand: plain jobs run, those that are known by their ids wait, and
    // run when it is gone.
    // Guard: `can_take` in lib/lease.lua.
    let server = TestServer::start();
    for (round, key) in
        ["hworker-jobs-default:unique", "hworker-jobs-default:ids"].iter().enumerate()
    {
        let unique = |n: usize| format!("unique {round} {n}");
        for n in 0..5 {
            submit(&server, &unique(n), Unique::by(unique(n)).until_start()).await;
            server.enqueue(&format!("plain {round} {n}"), Vec::new()).await;
        }
        let aside = format!("{key}:aside");
        let _: String = server.redis().ask(&["RENAME", key, &aside]);
        let _: String = server.redis().ask(&["SET", key, "somebody else's"]);
        let running = worker(&server, 4);
        let ran = |what: &str| {
            (0..5).filter(|n| server.ended(&format!("{what} {round} {n}")) == 1).count()
        };
        server.eventually("plain jobs run", SOON, || ran("plain") == 5);
        assert_eq!(ran("unique"), 0);
        let _: String = server.redis().ask(&["RENAME", &aside, key]);
        server.eventually("the others run", SOON, || ran("unique") == 5);
        running.stop().await;
    }
    server.eventually("nothing is held", SOON, || held(&server) == (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn en9_a_job_with_an_id_of_its_own_is_known_by_it_when_it_runs_again() {
    // It fails, and somebody lets it run again: another of its id is not enqueued.
    // Guard: `holds` in record.rs.
    let server = TestServer::start();
    let _worker = worker(&server, 2);
    let order = |plan| act::with("order".into(), plan).id("order-7").on(server.client());
    let plan = vec![vec![Act::Fail("no".into())], gate().remove(0)];
    let id = order(plan).enqueue().await.expect("enqueued");
    server.eventually("it fails", SOON, || server.counter("failed") == 1);
    server.inspect().change_by_id(&id, &Action::Retry).await.expect("it runs again");
    server.eventually("it runs", SOON, || server.begun("order") == 2);
    let again = order(Vec::new()).submit().await.expect("submitted");
    assert_eq!(again.submitted, Submitted::Exists(Some(JobState::Running)));
    server.open("go");
    server.eventually("nothing is held", SOON, || held(&server) == (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn uq12_a_unique_job_that_is_pushed_without_an_id_can_be_found_and_cancelled() {
    // Its worker gives it an id, which it keeps: through a retry, and when somebody looks for it, and cancels it.
    // Guard: `with_id` in record.rs, and the id of the lease in decode.rs.
    let server = TestServer::start();
    let _worker = worker(&server, 2);
    let plan = vec![vec![Act::RetryIn(3_600_000)], vec![]];
    for id in [None, Some("cron:odd:1")] {
        let name = format!("pushed {id:?}");
        let args = serde_json::json!({"plan": plan, "key": name, "name": name});
        let mut job = serde_json::json!({"job": "act_alone", "args": args});
        if let Some(id) = id {
            job["id"] = id.into();
        }
        let _: u64 = server.redis().ask(&["LPUSH", "hworker-jobs-default", &job.to_string()]);
        server.eventually("it is tried again", SOON, || counts(&server) == (0, 1));
        let page = server.inspect().jobs(JobState::Scheduled).page().await.expect("a page");
        let id = page.items[0].id.clone().expect("an id");
        server.inspect().cancel(&id).await.expect("cancelled");
        assert_eq!((held(&server), counts(&server)), ((0, 0), (0, 0)));
    }
    assert_eq!(server.counter("cancelled"), 2);
}
