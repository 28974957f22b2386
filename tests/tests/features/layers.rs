//! Rows I10, I12, EN15, RT10, RS7, TS1 to TS3: code of the user around bodies, before an enqueue, and behind a failure.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use hworker::{
    Around, BoxError, Bulk, Client, Context, Ending, Enqueue, Error, Event, EventKind, Failed,
    JobState, Layer, Next, WorkerBuilder,
};
use hworker_tests::{Act, InProcess, Runner, Runs, TestServer, act, act_blocking, act_once};

use crate::SOON;

/// What was noted in this process.
#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Vec<String>>>);

impl Notes {
    fn add(&self, note: impl Into<String>) {
        self.0.lock().expect("no panic").push(note.into());
    }

    fn all(&self) -> Vec<String> {
        self.0.lock().expect("no panic").clone()
    }
}

/// What a layer does.
#[derive(Clone, Copy, PartialEq)]
enum Does {
    Notes,
    PanicsWhenCalled,
    PanicsBefore,
    PanicsAfter,
    DropsTheBody,
    Fails,
    FailsAfter,
}

struct Noting(&'static str, Does, Notes);

impl Layer for Noting {
    fn around<'a>(&'a self, attempt: &'a Context, next: Next<'a>) -> Around<'a> {
        let Self(name, does, notes) = self;
        assert!(*does != Does::PanicsWhenCalled, "on purpose");
        Box::pin(async move {
            notes.add(format!("{name} before {}", attempt.job()));
            match does {
                Does::PanicsBefore => panic!("on purpose"),
                Does::Fails => return Ending::because(hworker::fail("of the layer")),
                Does::DropsTheBody => {
                    let body = tokio::time::timeout(Duration::from_millis(50), next.run());
                    drop(body.await);
                    panic!("on purpose");
                }
                _ => {}
            }
            let ending = next.run().await;
            notes.add(format!("{name} after {}", ending.kind()));
            match does {
                Does::PanicsAfter => panic!("on purpose"),
                Does::FailsAfter => Ending::because(hworker::fail("of the layer")),
                _ => ending,
            }
        })
    }
}

fn worker(server: &TestServer) -> WorkerBuilder {
    let jobs = hworker_tests::common_jobs().with::<falls>().with::<falls_loudly>();
    server.worker().registry(jobs.with::<cleanup>().with::<alert>().with::<tenant>())
}

/// Fails for good, and has something enqueued then.
#[hworker::job(max_attempts = 2, backoff = "0s", on_failed = cleanup)]
async fn falls(name: String) -> Result<(), BoxError> {
    Err(format!("{name} fell").into())
}

/// The same, of which what is enqueued cannot be made.
#[hworker::job(max_attempts = 1, on_failed = unmade::cleanup)]
async fn falls_loudly() -> Result<(), BoxError> {
    Err("it fell".into())
}

mod unmade {
    use hworker::{Enqueue, Failed};

    /// As a job looks from outside.
    #[allow(non_camel_case_types)]
    pub(crate) struct cleanup;

    impl cleanup {
        pub(crate) fn with(failed: Failed) -> Enqueue<super::cleanup> {
            panic!("{} on purpose", failed.id)
        }
    }
}

#[hworker::job]
async fn cleanup(failed: Failed, #[inject] runs: Runs) {
    let told = format!("{} {} {} {}", failed.job, failed.attempt, failed.kind, failed.message);
    runs.note("cleanup", &told, 0, Runner::of(failed.id.as_str()));
}

#[hworker::job]
async fn alert(failed: Failed, channel: String, #[inject] runs: Runs) {
    let told = format!("{channel}: {} {}", failed.job, failed.message);
    runs.note("alert", &told, 0, Runner::of(failed.id.as_str()));
}

#[hworker::job]
async fn tenant(name: String, context: Context, #[inject] runs: Runs) {
    let told = format!("{:?} {:?}", context.meta("tenant"), context.tags());
    runs.note(&name, &told, 0, Runner::from(&context));
}

fn notes(server: &TestServer, name: &str) -> Vec<String> {
    server.runs_of(name).into_iter().map(|run| run.what).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn ts1_i12_layers_run_around_every_body_in_their_order() {
    // Two layers, and bodies that succeed, fail, panic and block a thread -> each goes through both, the first outside, which see how it ended.
    // Guard: `wrap`.
    let server = TestServer::start();
    for (number, name, plan, kind) in [
        (0, "done", vec![], "done"),
        (1, "error", vec![Act::Error("no".into())], "error"),
        (2, "panic", vec![Act::Panic("no".into())], "panic"),
    ] {
        let seen = Notes::default();
        let of = |name| Noting(name, Does::Notes, seen.clone());
        let _worker = InProcess::run(worker(&server).layer(of("outer")).layer(of("inner")));
        let job = act_once::with(name.into(), vec![plan]).on(server.client());
        job.enqueue().await.expect("enqueued");
        server.eventually("it has ended", SOON, || seen.all().len() == 4);
        server.eventually("it is told", SOON, || {
            server.counter("processed") + server.counter("failed") == number + 1
        });
        let expected = [
            "outer before act_once".to_owned(),
            "inner before act_once".to_owned(),
            format!("inner after {kind}"),
            format!("outer after {kind}"),
        ];
        assert_eq!(seen.all(), expected);
    }
    let failed = server.inspect().jobs(JobState::Failed).page().await.expect("looked");
    let panicked = failed.items.iter().find(|job| job.kind.as_deref() == Some("panic"));
    assert!(panicked.is_some_and(|job| job.place.is_some()), "the place is kept: {failed:?}");
    let seen = Notes::default();
    let _worker = InProcess::run(worker(&server).layer(Noting("a", Does::Notes, seen.clone())));
    let job = act_blocking::with("blocks".into(), Vec::new()).on(server.client());
    job.enqueue().await.expect("enqueued");
    server.eventually("it is done", SOON, || server.ended("blocks") == 1);
    assert_eq!(seen.all(), ["a before act_blocking", "a after done"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn i12_a_layer_that_panics_changes_no_outcome() {
    // Where it panics before the body, that runs without it; where it panics later, the ending of the body stands. Where it has dropped the body, the
    // attempt has failed.
    // Guard: `Inner` in worker/layers.rs.
    let server = TestServer::start();
    for (number, (name, does)) in [
        ("called", Does::PanicsWhenCalled),
        ("before", Does::PanicsBefore),
        ("after", Does::PanicsAfter),
    ]
    .into_iter()
    .enumerate()
    {
        let seen = Notes::default();
        let builder = worker(&server).layer(Noting("bad", does, seen.clone()));
        let _worker = InProcess::run(builder.layer(Noting("good", Does::Notes, seen.clone())));
        server.enqueue(name, Vec::new()).await;
        server.eventually("it is done", SOON, || server.ended(name) == 1);
        server.eventually("the other layer too", SOON, || {
            seen.all().contains(&"good after done".to_owned())
        });
        server.eventually("it is told", SOON, || server.counter("processed") == number as u64 + 1);
    }
    let builder = worker(&server).layer(Noting("bad", Does::DropsTheBody, Notes::default()));
    let _worker = InProcess::run(builder);
    let waits = act_once::with("dropped".into(), vec![vec![Act::Gate("never".into())]]);
    waits.on(server.client()).enqueue().await.expect("enqueued");
    server.eventually("it has failed", SOON, || server.counter("failed") == 1);
    assert_eq!(server.counter("retried"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn i12_a_layer_may_end_an_attempt_on_purpose() {
    // Instead of the body, or behind it -> the job fails with what the layer says.
    // Guard: `Ending::because`.
    let server = TestServer::start();
    for (name, does, begun) in [("instead", Does::Fails, 0), ("behind", Does::FailsAfter, 1)] {
        let builder = worker(&server).layer(Noting("x", does, Notes::default()));
        let _worker = InProcess::run(builder);
        let before = server.counter("failed");
        let id = server.enqueue(name, Vec::new()).await;
        server.eventually("it has failed", SOON, || server.counter("failed") > before);
        let found = server.inspect().find(&id).await.expect("looked").expect("a record");
        assert_eq!(found.message.as_deref(), Some("of the layer"));
        assert_eq!(server.begun(name), begun);
    }
}

fn asking(
    server: &TestServer,
    ask: impl Fn(&mut hworker::Outgoing<'_>) -> Result<(), BoxError> + Send + Sync + 'static,
) -> Client {
    let client = Client::builder().redis_url(server.url()).outgoing(ask);
    client.build().expect("a client")
}

#[tokio::test(flavor = "multi_thread")]
async fn ts3_what_is_noted_at_the_enqueue_reaches_the_body() {
    // A tenant and a tag that the client adds to every job, by type, by name and in a bulk -> bodies find them. What a call says itself stands.
    // Guard: `Notes::add`.
    let server = TestServer::start();
    let _worker = InProcess::run(worker(&server));
    let client = asking(&server, |job| {
        job.meta("tenant", format!("acme of {}", job.queue()));
        job.tag("eu");
        Ok(())
    });
    let one = tenant::with("typed".into()).on(&client).enqueue();
    one.await.expect("enqueued");
    let own = tenant::with("own".into()).on(&client).meta("tenant", "me").tag("eu");
    own.enqueue().await.expect("enqueued");
    let named = client.job_by_name("tenant", r#"{"name":"named"}"#);
    named.enqueue().await.expect("enqueued");
    let bulk = Bulk::new().add(tenant::with("bulk".into()));
    bulk.on(&client).enqueue().await.expect("enqueued");
    server.eventually("all are done", SOON, || server.counter("processed") == 4);
    for name in ["typed", "named", "bulk"] {
        assert_eq!(notes(&server, name), [r#"Some("acme of default") ["eu"]"#], "{name}");
    }
    assert_eq!(notes(&server, "own"), [r#"Some("me") ["eu"]"#]);
}

#[tokio::test(flavor = "multi_thread")]
async fn en15_i12_code_before_an_enqueue_may_refuse_it() {
    // A veto -> an error that says why, and nothing is written: of one job, of one by its name, and of a bulk of which one is refused.
    // Guard: `ask_outgoing` in `encode`.
    let server = TestServer::start();
    let client =
        asking(&server, |job| if job.job() == "act" { Err("not today".into()) } else { Ok(()) });
    let vetoed = |result: Result<(), Error>| match result {
        Err(Error::Vetoed { job, source }) => job == "act" && source.to_string() == "not today",
        Err(Error::Invalid { jobs }) => {
            matches!(&jobs[..], [(1, Error::Vetoed { job, .. })] if job == "act")
        }
        _ => false,
    };
    let refused: Enqueue<act> = act::with("x".into(), Vec::new()).on(&client);
    assert!(vetoed(refused.enqueue().await.map(drop)));
    let refused = client.job_by_name("act", "{}").enqueue().await;
    assert!(vetoed(refused.map(drop)));
    let bulk = Bulk::new().add(tenant::with("fine".into()));
    let bulk = bulk.add(act::with("x".into(), Vec::new()));
    let refused = bulk.on(&client).enqueue().await.map(drop);
    assert!(vetoed(refused));
    assert!(server.redis().keys("hworker-jobs-*").is_empty());
    let panics = asking(&server, |_| panic!("on purpose"));
    tenant::with("fine".into()).on(&panics).enqueue().await.expect("it is enqueued all the same");
    assert_eq!(server.redis().len("hworker-jobs-default"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn i10_rs7_an_observer_is_told_what_happens_in_order() {
    // A worker with one slot: a job that is done, one that is retried and fails, one that is snoozed, cancelled, expired, broken -> each event once, in
    // order, between the start and the stop of the worker. Another observer panics each time, which harms nothing.
    // Guard: the `tell`s of `core.hooks.events`.
    let server = TestServer::start();
    let events: Arc<Mutex<Vec<Event>>> = Arc::default();
    let told = Arc::clone(&events);
    let builder = worker(&server).concurrency(1).observe(|_| panic!("on purpose"));
    let running = InProcess::run(builder.observe(move |event| {
        told.lock().expect("no panic").push(event.clone());
    }));
    server.enqueue("done", Vec::new()).await;
    server.eventually("it is done", SOON, || server.counter("processed") == 1);
    let failed = falls::with("x".into()).on(server.client()).enqueue().await.expect("enqueued");
    server.eventually("what follows is done", SOON, || server.counter("processed") == 2);
    server.enqueue("snoozed", vec![vec![Act::Snooze(1)], vec![]]).await;
    server.eventually("it is done", SOON, || server.counter("processed") == 3);
    let cancelled = act::with("cancelled".into(), Vec::new()).delay(Duration::from_secs(3600));
    let cancelled = cancelled.on(server.client()).enqueue().await.expect("enqueued");
    server.inspect().cancel(&cancelled).await.expect("cancelled");
    let late = r#"{"id":"late","job":"act","args":{"name":"late","plan":[]},"expires_at":1}"#;
    for payload in [late, "{"] {
        let _: u64 = server.redis().ask(&["LPUSH", "hworker-jobs-default", payload]);
    }
    server.eventually("it is broken", SOON, || server.redis().len("hworker-broken-default") == 1);
    running.stop().await;
    let events = events.lock().expect("no panic").clone();
    let of = |id: &str| -> Vec<_> {
        let own =
            events.iter().filter(|event| event.id.as_ref().is_some_and(|own| own.as_str() == id));
        own.map(|event| event.kind.name()).collect()
    };
    assert_eq!(of(failed.as_str()), ["started", "retried", "started", "failed"]);
    assert_eq!(of("late"), ["expired"]);
    let kinds: Vec<_> = events.iter().map(|event| event.kind).collect();
    assert_eq!(kinds.first(), Some(&EventKind::WorkerStarted));
    assert_eq!(kinds.last(), Some(&EventKind::WorkerStopped));
    let count = |kind| kinds.iter().filter(|other| **other == kind).count();
    assert_eq!((count(EventKind::Done), count(EventKind::Snoozed)), (3, 1), "{kinds:?}");
    assert_eq!(count(EventKind::Broken), 1);
    let end = events.iter().find(|event| event.kind == EventKind::Failed).expect("a failure");
    assert_eq!(end.message.as_deref(), Some("x fell"));
    assert_eq!((end.attempt, end.job.as_deref()), (Some(2), Some("falls")));
    assert!(end.elapsed.is_some() && end.worker.is_some());
    assert!(events.windows(2).all(|two| two[0].at <= two[1].at), "{events:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn rt10_a_job_follows_each_failure_once() {
    // A type with `on_failed`, 40 jobs of it, a worker that is killed meanwhile -> for each that has failed for good one job comes, with its last error,
    // on its queue; none for an attempt that is retried, or a job that is done or cancelled.
    // Guard: the duty `enqueue`.
    let server = TestServer::start();
    let _worker = InProcess::run(worker(&server).extra_queue("other"));
    let mut bulk = Bulk::new();
    bulk.extend((0..40).map(|n| falls::with(format!("j{n}")).queue("other")));
    let ids = bulk.on(server.client()).enqueue().await.expect("enqueued");
    server.enqueue("fine", Vec::new()).await;
    let of_other =
        |what: &str| -> Option<u64> { server.redis().ask(&["HGET", "hworker-stat-other", what]) };
    server.eventually("all have followed", SOON, || of_other("processed") == Some(40));
    let told = server.runs_of("cleanup");
    assert_eq!(told.len(), 40);
    let mut failed: Vec<_> = told.iter().map(|run| run.id.clone()).collect();
    failed.sort();
    let mut expected: Vec<_> = ids.iter().map(ToString::to_string).collect();
    expected.sort();
    assert_eq!(failed, expected);
    assert!(told.iter().all(|run| run.what.starts_with("falls 2 error j")), "{told:?}");
    assert_eq!(of_other("failed"), Some(40));
}

#[tokio::test(flavor = "multi_thread")]
async fn rt10_a_worker_may_have_one_for_all_types() {
    // `on_failed` of the worker -> for types that have none of their own; also where a job dies by the crashes of its workers.
    // Guard: `OnAnyFailed`.
    let server = TestServer::start();
    let builder = worker(&server).on_failed(|failed| alert::with(failed, "ops".into()));
    let _worker = InProcess::run(builder.crash_limit(1));
    falls::with("own".into()).on(server.client()).enqueue().await.expect("enqueued");
    act_once::with("any".into(), vec![vec![Act::Fail("gone".into())]])
        .on(server.client())
        .enqueue()
        .await
        .expect("enqueued");
    let now = server.redis().time_us() / 1_000;
    let crashed = format!(
        r#"{{"id":"crashed","job":"act","args":{{"name":"c","plan":[]}},"crashes":[{{"at":{now},"worker":"w"}}]}}"#
    );
    let _: u64 = server.redis().ask(&["LPUSH", "hworker-jobs-default", &crashed]);
    server.eventually("all have followed", SOON, || server.counter("processed") == 3);
    assert_eq!(notes(&server, "cleanup"), ["falls 2 error own fell"]);
    let mut told = notes(&server, "alert");
    told.sort();
    assert_eq!(told.len(), 2);
    assert!(told[0].starts_with("ops: act its workers died 1 times"), "{told:?}");
    assert_eq!(told[1], "ops: act_once gone");
}

#[tokio::test(flavor = "multi_thread")]
async fn rt10_nothing_follows_the_failure_of_what_follows() {
    // `on_failed` of the worker enqueues a job that fails for good too -> it runs once, and none follows it.
    // Guard: the name of the type in `WorkerBuilder::on_failed`.
    let server = TestServer::start();
    let jobs = hworker_tests::common_jobs().with::<alert_fails>();
    let worker = server.worker().registry(jobs).on_failed(alert_fails::with);
    let _worker = InProcess::run(worker);
    let job = act_once::with("any".into(), vec![vec![Act::Fail("gone".into())]]);
    job.on(server.client()).enqueue().await.expect("enqueued");
    server.eventually("both have failed", SOON, || server.counter("failed") >= 2);
    server
        .eventually_async("nothing is left", SOON, async || {
            let counts = server.inspect().counts().await.expect("counted");
            counts.waiting + counts.running + counts.scheduled == 0
        })
        .await;
    assert_eq!(server.counter("failed:alert_fails"), 1);
}

#[hworker::job(max_attempts = 1)]
async fn alert_fails(failed: Failed) -> Result<(), BoxError> {
    Err(format!("nobody hears of {}", failed.id).into())
}

#[tokio::test(flavor = "multi_thread")]
async fn rt10_what_follows_never_changes_the_end() {
    // `on_failed` panics -> the job has failed all the same, and nothing follows.
    // Guard: `panic::catch` in worker/follows.rs.
    let server = TestServer::start();
    let _worker = InProcess::run(worker(&server));
    falls_loudly::with().on(server.client()).enqueue().await.expect("enqueued");
    server.eventually("it has failed", SOON, || server.counter("failed") == 1);
    let counts = server.inspect().counts().await.expect("counted");
    assert_eq!((counts.waiting, counts.failed), (0, 1));
}
