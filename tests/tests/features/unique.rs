//! Rows Q13 to Q15, EN9, EN10 and UQ1 to UQ12: one job of a key, and ids of the caller's.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hworker::State;
use hworker::{
    Action, Bulk, Control, Error, Fate, JobId, JobState, OnConflict, Priority, Receipt, Submitted,
    Unique, When,
};
use hworker_tests::{Act, InProcess, TestServer, act, act_alone, act_of_key};

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
