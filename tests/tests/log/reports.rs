//! Rows OB10 and OB14: functions that are told of failed attempts, and of runs of cron entries.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hworker::{Checkin, CheckinState, ErrorReport, WorkerBuilder};
use hworker_tests::{Act, InProcess, TestServer, act, act_once, act_unless_crashed};
use tracing_subscriber::layer::SubscriberExt as _;

use crate::{Notes, SOON, fail, run};

/// What a function was told.
#[derive(Clone)]
struct Told<T>(Arc<Mutex<Vec<T>>>);

impl<T: Clone> Told<T> {
    fn new() -> Self {
        Self(Arc::default())
    }

    /// Another function that notes what it is told.
    fn noting(&self) -> impl FnMut(&T) + Send + use<T>
    where
        T: Send + 'static,
    {
        let told = Arc::clone(&self.0);
        move |one| told.lock().unwrap_or_else(PoisonError::into_inner).push(one.clone())
    }

    fn all(&self) -> Vec<T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A worker that knows the jobs of these tests.
fn worker(server: &TestServer) -> WorkerBuilder {
    let worker = server.worker().concurrency(4).dead_after(Duration::from_secs(2));
    worker.register::<act>().register::<act_once>().register::<act_unless_crashed>()
}

#[tokio::test(flavor = "multi_thread")]
async fn ob10_each_failed_attempt_is_reported_and_the_last_one_says_so() {
    // An error, a panic and a failure of one job, and a timeout of another: each is reported to each function, with the job, the attempt and the
    // worker; the last one says that it is. A job that is done is not reported. The arguments are in no report.
    // Guard: `concluded` and `report` in `tell.rs`.
    let server = TestServer::start();
    let (told, also) = (Told::<ErrorReport>::new(), Told::<ErrorReport>::new());
    let builder = worker(&server).report_errors(told.noting()).report_errors(also.noting());
    let worker = InProcess::run(builder);
    let plan =
        [Act::Error("refused".into()), Act::Panic("on purpose".into()), Act::Failure("no".into())];
    let plan = plan.map(|act| vec![act]).to_vec();
    let id = act::with("top-secret".into(), plan).max_attempts(5).tag("eu").on(server.client());
    let id = id.enqueue().await.expect("enqueued");
    let late = act_once::with("top-secret".into(), vec![vec![Act::Gate("never".into())]]);
    let late = late.timeout(Duration::from_millis(200)).on(server.client());
    let late = late.enqueue().await.expect("enqueued");
    act::with("done".into(), Vec::new()).on(server.client()).enqueue().await.expect("enqueued");
    server.eventually("all have ended", SOON, || {
        server.counter("failed") == 2 && server.counter("processed") == 1
    });
    let of_server = server.inspect().workers().await.expect("the workers").remove(0).id;
    worker.stop().await;

    let all = told.all();
    assert_eq!(all.len(), 4, "{all:?}");
    assert!(!format!("{all:?}").contains("top-secret"), "{all:?}");
    let (of_late, of_job): (Vec<_>, Vec<_>) = all.into_iter().partition(|one| one.id == late);
    let facts: Vec<_> = of_job
        .iter()
        .map(|one| {
            assert_eq!((&one.id, &*one.job, &*one.queue), (&id, "act", "default"));
            assert_eq!(
                (one.max_attempts, &*one.tags, &one.worker),
                (5, &["eu".to_owned()][..], &of_server)
            );
            assert!(one.elapsed.is_some(), "{one:?}");
            (one.attempt, one.kind, &*one.message, one.is_last)
        })
        .collect();
    let expected = [
        (1, "error", "refused", false),
        (2, "panic", "on purpose", false),
        (3, "failure", "no", true),
    ];
    assert_eq!(facts, expected);
    assert!(of_job[1].place.as_ref().is_some_and(|place| place.contains("jobs.rs")), "{of_job:?}");
    assert!((of_late[0].kind, of_late[0].is_last) == ("timeout", true), "{of_late:?}");
    assert!(of_late[0].elapsed >= Some(Duration::from_millis(200)), "{of_late:?}");
    assert_eq!(also.all().len(), 4);
}

#[test]
fn ob10_a_function_that_panics_or_blocks_for_ever_harms_nothing() {
    // Of three functions one panics each time, which is said once, and one does not return: jobs fail as they should, the third is told of all of
    // them, and the worker ends when it is told to.
    // Guard: `Hook::start` gives each a thread; `guarded` and `SAID_EVERY` in `hooks`; `FLUSH_WITHIN`.
    let server = TestServer::start();
    let (told, notes) = (Told::<ErrorReport>::new(), Notes::default());
    let (_held, gate): (Sender<()>, Receiver<()>) = channel();
    let builder = worker(&server)
        .report_errors(|report| panic!("of the function: {}", report.id))
        .report_errors(move |_| {
            let _ = gate.recv();
        })
        .report_errors(told.noting());
    let subscriber = tracing_subscriber::registry().with(notes.clone());
    run(builder.build().expect("a worker"), subscriber, || {
        fail(&server, 40, "no");
        server.eventually("all have failed", SOON, || server.counter("failed") == 40);
        server.eventually("all were told", SOON, || told.all().len() == 40);
        server.eventually("it is said", SOON, || !notes.with("has panicked").is_empty());
    });
    let said = notes.with("has panicked");
    assert_eq!((said.len(), said[0].fields.get("hook")), (1, "report_errors"));
    assert!(told.all().iter().all(|report| report.is_last), "{:?}", told.all());
}

#[tokio::test(flavor = "multi_thread")]
async fn ob10_who_recovers_a_job_reports_that_its_worker_died() {
    // A worker dies with a job that runs at most once: the worker that gives it back reports the crash, and says who died; the job fails, and
    // that report says that it is the last.
    // Guard: `tell` in `recovery.rs`; `concluded` in `tell.rs`.
    let server = TestServer::start();
    let settings = [("HWORKER_TEST_JOBS", "all"), ("HWORKER_DEAD_AFTER", "2s")];
    let mut first = server.worker_process(&settings);
    let job = act_unless_crashed::with("held".into(), vec![vec![Act::Gate("never".into())]]);
    let id = job.tag("eu").max_attempts(7).on(server.client()).enqueue().await.expect("enqueued");
    server.eventually("it runs", SOON, || server.begun("held") == 1);
    let dead = server.inspect().workers().await.expect("the workers").remove(0).id;
    let told = Told::<ErrorReport>::new();
    let second = InProcess::run(worker(&server).report_errors(told.noting()));
    first.kill();
    server.eventually("it has failed", SOON, || server.counter("failed") == 1);
    let own = server.inspect().workers().await.expect("the workers");
    let own = own.into_iter().map(|worker| worker.id).find(|id| *id != dead).expect("it lives");
    second.stop().await;
    let mut facts: Vec<_> = told
        .all()
        .into_iter()
        .map(|one| {
            assert_eq!((&one.id, &*one.job, &*one.queue), (&id, "act_unless_crashed", "default"));
            assert_eq!((one.attempt, one.max_attempts, one.tags), (1, 7, vec!["eu".to_owned()]));
            (one.kind, one.is_last, one.worker)
        })
        .collect();
    // What has been given back may end before the crash is told.
    facts.sort_by_key(|(_, is_last, _)| *is_last);
    assert_eq!(facts, [("crash", false, dead), ("crash", true, own)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn ob14_runs_of_cron_entries_check_in_when_they_begin_and_end() {
    // One entry whose runs are done at their second attempt, one whose runs fail: each run checks in once when it begins, and once when it has
    // ended, with the entry, its times, and when it was due. A job that is no run of an entry does not.
    // Guard: `begins` and `check_in` in `tell.rs`; `When` in the envelope of a run.
    let server = TestServer::start();
    let told = Told::<Checkin>::new();
    let worker = InProcess::run(worker(&server).on_checkin(told.noting()));
    act::with("alone".into(), Vec::new()).on(server.client()).enqueue().await.expect("enqueued");
    let control = server.client().control("default");
    let good = act::with("good".into(), vec![vec![Act::Error("refused".into())], vec![]]);
    let good = good.cron("* * * * * *").timezone("Europe/Berlin");
    control.cron("a good: one").upsert(good).await.expect("set");
    let bad = act::with("bad".into(), vec![vec![Act::Failure("no".into())]]);
    control.cron("bad").upsert(bad.every(Duration::from_secs(1))).await.expect("set");
    let of = |entry: &str| told.all().into_iter().filter(|one| one.entry == entry).count();
    server.eventually("both have run", SOON, || of("a good: one") >= 4 && of("bad") >= 4);
    for name in ["a good: one", "bad"] {
        control.cron(name).remove().await.expect("removed");
    }
    // Runs that have begun come to their end.
    worker.stop().await;

    let mut runs: BTreeMap<String, Vec<Checkin>> = BTreeMap::new();
    for checkin in told.all() {
        runs.entry(checkin.id.to_string()).or_default().push(checkin);
    }
    for (id, checkins) in runs {
        let [began, ended] = checkins.try_into().expect("a begin and an end");
        let expected = match &*began.entry {
            "bad" => (CheckinState::Failed, None, Some(1_000), None),
            _ => (CheckinState::Ok, Some("* * * * * *"), None, Some("Europe/Berlin")),
        };
        for one in [&began, &ended] {
            assert_eq!(id, format!("cron:{}:{}", one.entry, one.due));
            assert_eq!((&*one.queue, &*one.job, one.due % 1_000), ("default", "act", 0));
            let when = (one.cron.as_deref(), one.every_ms, one.timezone.as_deref());
            assert_eq!(when, (expected.1, expected.2, expected.3));
        }
        assert_eq!((began.state, ended.state), (CheckinState::Started, expected.0));
        assert!(began.elapsed.is_none() && ended.elapsed.is_some(), "{ended:?}");
    }
}
