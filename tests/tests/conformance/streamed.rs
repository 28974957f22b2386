//! Bulks that are taken one job after the other, and bulks of which all jobs come or none.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hworker::{Abort, Bulk, Error, Fate, OnConflict, Priority, Unique};
use hworker_tests::{Fault, InProcess, Proxy, TestServer, act_of_key};
use serde_json::Value;

use crate::SOON;

#[hworker::job]
async fn element(number: u64, weight: f64) {
    let _ = (number, weight);
}

/// As many of a page wait as its arguments say.
#[hworker::job(concurrency(limit = most, key = page))]
async fn draw(page: u64, most: u32) {
    let _ = (page, most);
}

/// At most two of a page wait.
#[hworker::job(concurrency(limit = 1, key = page, max_waiting = 2))]
async fn draw_few(page: u64) {
    let _ = page;
}

fn job(number: u64) -> hworker::Enqueue<element> {
    element::with(number, 0.5)
}

/// The numbers of the jobs in a list, the next to run first.
fn numbers(server: &TestServer, key: &str) -> Vec<u64> {
    let envelopes: Vec<String> = server.redis().ask(&["LRANGE", key, "0", "-1"]);
    let number = |envelope: &String| {
        let envelope: Value = serde_json::from_str(envelope).ok()?;
        envelope["args"]["number"].as_u64()
    };
    envelopes.iter().rev().filter_map(number).collect()
}

fn waiting(server: &TestServer) -> Vec<u64> {
    numbers(server, "hworker-jobs-default")
}

/// What is put aside of bulks: jobs, and marks of those that have come.
fn staged(server: &TestServer) -> u64 {
    server.redis().total("hworker-jobs-*:staged:*")
}

/// Yields so many jobs, and then an error.
fn aborting(count: u64) -> impl AsyncFnMut() -> Result<Option<hworker::Enqueue<element>>, Abort> {
    let mut next = 0;
    async move || {
        tokio::task::yield_now().await;
        next += 1;
        if next > count {
            return Err("the file ends in the middle".into());
        }
        Ok(Some(job(next - 1)))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn q10_streamed_enqueue() {
    // Producer yields 20 then aborts -> 0 pending; ends ok with 50 -> 50. The same beyond a chunk: nothing is left of what was put aside; and without
    // all or nothing what was in whole portions before is in, and the error says how many that are.
    // Guard: `jobs.truncate` in `fill` of `lazy.rs`; `Staging`.
    let server = TestServer::start();
    let client = server.client();
    for (count, all_or_nothing, expected) in
        [(20, true, 0), (20, false, 0), (2_020, true, 0), (2_020, false, 2_000)]
    {
        let bulk = Bulk::from_async(aborting(count)).on(client);
        let bulk = if all_or_nothing { bulk.all_or_nothing() } else { bulk };
        let error = bulk.enqueue().await.expect_err("it gives up");
        let text = error.to_string();
        let Error::Stopped { enqueued, jobs, index: None, .. } = error else { panic!("{text}") };
        assert_eq!((enqueued, jobs.len()), (expected, 0), "{text}");
        assert!(text.contains("the file ends in the middle"), "{text}");
        assert_eq!(waiting(&server).len() as u64, expected);
        assert_eq!(staged(&server), 0);
    }
    let _: u64 = server.redis().ask(&["DEL", "hworker-jobs-default"]);
    for (count, all_or_nothing) in
        [(50, true), (50, false), (0, true), (2_500, true), (9_001, false)]
    {
        let mut numbers = 0..count;
        let bulk = Bulk::from_async(async move || {
            tokio::task::yield_now().await;
            Ok(numbers.next().map(job))
        });
        let bulk = if all_or_nothing { bulk.all_or_nothing() } else { bulk }.on(client);
        // In a task, as a handler of a server has it.
        let enqueued = tokio::spawn(async move { bulk.enqueue().await });
        assert_eq!(enqueued.await.expect("no panic").expect("enqueued"), count);
        assert_eq!(waiting(&server), (0..count).collect::<Vec<_>>());
        let _: u64 = server.redis().ask(&["DEL", "hworker-jobs-default"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn q10_who_dies_leaves_nothing_or_all() {
    // The producer goes, as if it had died, when 2,000 of its jobs are put aside -> none ever comes, and they expire. It goes when its commit is with the
    // server, and nobody has moved any -> all come, moved by a worker, in their order.
    // Guards: `EXPIRE` in `stage.lua`; `set_timer` in `lib/staged.lua`.
    let server = TestServer::start();
    let (proxy, other) = (Proxy::before(&server), Proxy::before(&server));
    let bulk = |count, by: &Proxy| {
        Bulk::lazy((0..count).map(job)).all_or_nothing().on(&by.client()).enqueue()
    };

    proxy.fault(3, "stage", Fault::HoldRequest);
    let dies = tokio::spawn(bulk(5_000, &proxy));
    server.eventually("two are put aside, and one is held", SOON, || {
        proxy.held() == 1 && staged(&server) == 2_000
    });
    dies.abort();
    assert!(dies.await.is_err_and(|error| error.is_cancelled()));
    let key = server.redis().keys("hworker-jobs-default:staged:*").remove(0);
    let ttl: i64 = server.redis().ask(&["TTL", &key]);
    assert!((3_500..=3_600).contains(&ttl), "{ttl}");
    let worker = server.run_worker::<element>();
    // What was on its way arrives now: that changes nothing.
    proxy.release();
    server.eventually("a worker has looked", SOON, || {
        !server.redis().keys("hworker-workers-*").is_empty()
    });
    assert_eq!(server.counter("processed"), 0);
    worker.stop().await;
    let _: u64 = server.redis().ask(&["DEL", &key]);

    other.fault(1, "commit", Fault::HoldReply);
    let dies = tokio::spawn(bulk(2_500, &other));
    server.eventually("it is committed", SOON, || other.held() == 1 && staged(&server) == 2_501);
    dies.abort();
    assert!(dies.await.is_err_and(|error| error.is_cancelled()));
    assert_eq!(waiting(&server).len(), 0);
    server.client().control("default").pause().await.expect("paused");
    let _worker = server.run_worker::<element>();
    server.eventually("all come", SOON, || waiting(&server).len() == 2_500);
    assert_eq!(waiting(&server), (0..2_500).collect::<Vec<_>>());
    server.client().control("default").resume().await.expect("resumed");
    server.eventually("all run", SOON, || server.counter("processed") == 2_500);
    assert_eq!(server.redis().len("hworker-jobs-default:timers"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn q9_all_or_nothing_beyond_a_chunk() {
    // 2,500 with one wrong, or without room -> 0 enqueued; all right -> 2,500 in order, also where each answer of the server is lost once; none is there
    // before all are.
    // Guards: `OneQueue::check`; `until_answered`; the commit apart from the moves.
    let server = TestServer::start();
    let proxy = Proxy::before(&server);
    let client = proxy.client();
    let bulk = || Bulk::new().all_or_nothing().on(&client);
    let many = |count| -> Bulk {
        let jobs: Bulk = (0..count).map(job).collect();
        jobs.all_or_nothing().on(&client)
    };
    let wrong =
        many(2_500).add(element::with(0, f64::NAN)).enqueue().await.expect_err("one is wrong");
    assert!(matches!(&wrong, Error::Invalid { jobs } if jobs[0].0 == 2_500), "{wrong}");
    let unique = Unique::by("k").on_conflict(OnConflict::Keep);
    let refused = bulk()
        .add(job(0))
        .add(job(1).unique(unique))
        .add(job(2).front())
        .add(job(3).queue("other"))
        .add(draw_few::with(4))
        .add(job(5).id("order-5"));
    let error = refused.enqueue().await.expect_err("five cannot be there");
    let Error::Invalid { jobs } = &error else { panic!("{error}") };
    assert_eq!(
        jobs.iter().map(|(index, _)| *index).collect::<Vec<_>>(),
        [1, 2, 3, 4, 5],
        "{error}"
    );
    assert!(error.to_string().contains("is for one queue"), "{error}");
    let error = Bulk::lazy((0..2_500).map(|n| if n < 2_000 { job(n) } else { job(n).front() }));
    let error = error.all_or_nothing().on(&client).enqueue().await.expect_err("it is not alone");
    assert!(matches!(error, Error::Stopped { enqueued: 0, index: Some(2_000), .. }), "{error}");
    server.client().control("default").queue_limit().set_max_waiting(2_000).await.expect("set");
    let full = many(2_500).enqueue().await.expect_err("there is no room");
    assert!(matches!(full, Error::Full { max_waiting: 2_000, .. }), "{full}");
    server.client().control("default").queue_limit().unset().await.expect("unset");
    assert_eq!((waiting(&server).len(), staged(&server)), (0, 0));

    for (nth, script) in [(1, "stage"), (3, "stage"), (1, "commit"), (2, "commit")] {
        proxy.fault(nth, script, Fault::LoseReply);
        let told = Arc::new(AtomicU64::new(0));
        let tell = Arc::clone(&told);
        let before = server.redis().total("hworker-jobs-default");
        let lazy = Bulk::lazy((0..2_500).map(job)).all_or_nothing().on(&client);
        let lazy = lazy.on_progress(move |count| tell.store(count, Ordering::Relaxed));
        assert_eq!(lazy.enqueue().await.expect("enqueued"), 2_500);
        assert_eq!((before, told.load(Ordering::Relaxed)), (0, 2_500));
        assert!(proxy.all_happened(), "{script} {nth}");
        assert_eq!(waiting(&server), (0..2_500).collect::<Vec<_>>());
        let _: u64 = server.redis().ask(&["DEL", "hworker-jobs-default"]);
    }
    let ids = many(2_500).enqueue().await.expect("enqueued");
    assert_eq!((ids.len(), waiting(&server).len()), (2_500, 2_500));
    // The marks of those that have come, for who asks once more; and nobody is to go on.
    assert_eq!((staged(&server), server.redis().len("hworker-jobs-default:timers")), (5, 0));

    // A full server takes none of them, and says so.
    let _: u64 = server.redis().ask(&["DEL", "hworker-jobs-default"]);
    let _: String = server.redis().ask(&["CONFIG", "SET", "maxmemory", "1"]);
    let error = many(2_500).enqueue().await.expect_err("no memory");
    assert!(matches!(error, Error::Refused { .. }), "{error}");
    let _: String = server.redis().ask(&["CONFIG", "SET", "maxmemory", "0"]);
    assert_eq!(waiting(&server).len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn q9_each_comes_to_its_list_and_at_its_time() {
    // Of priorities, with limits of keys and from arguments, delayed -> each is where it would be without all or nothing, and all run.
    // Guard: `move_staged`.
    let server = TestServer::start();
    let in_an_hour = Duration::from_secs(3_600);
    let bulk = Bulk::new()
        .add(job(1))
        .add(job(2).priority(Priority::High))
        .add(job(3).delay(in_an_hour))
        .add(job(4).priority(Priority::Low).delay(in_an_hour))
        .add(act_of_key::with("keyed".into(), Some("k".into()), Vec::new()))
        .add(draw::with(7, 2))
        .add(job(5));
    let ids = bulk.all_or_nothing().on(server.client()).enqueue().await.expect("enqueued");
    assert_eq!(ids.len(), 7);
    assert_eq!(waiting(&server), [1, 5]);
    assert_eq!(numbers(&server, "hworker-jobs-default:high"), [2]);
    let scheduled: Vec<String> =
        server.redis().ask(&["ZRANGE", "hworker-scheduled-default", "0", "-1", "WITHSCORES"]);
    let now = server.redis().time_us() / 1_000;
    for due in scheduled.iter().skip(1).step_by(2) {
        let due: u64 = due.parse().expect("a time");
        assert!(due <= now + 3_600_000 && due > now + 3_500_000, "{due}");
    }
    assert!(scheduled.iter().any(|member| member.starts_with(":low\n{")), "{scheduled:?}");
    assert_eq!(scheduled.len(), 4);
    let registry = hworker_tests::common_jobs().with::<element>().with::<draw>();
    let _worker = InProcess::run(server.worker().registry(registry));
    server.eventually("five run", SOON, || server.counter("processed") == 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn en5_a_bulk_that_need_not_fit_into_memory() {
    // 100,000 jobs of an iterator -> all are in, in their order; it is never further ahead of what is in than two windows are; progress tells what the
    // server has. While the server says nothing the iterator is not asked.
    // Guard: `fill` takes at most 8 portions while others are sent.
    let server = TestServer::start();
    let taken = Arc::new(AtomicU64::new(0));
    let jobs = |count| {
        let taken = Arc::clone(&taken);
        taken.store(0, Ordering::Relaxed);
        (0..count).map(move |number| {
            taken.fetch_add(1, Ordering::Relaxed);
            job(number)
        })
    };
    let (mut told, mut ahead) = (Vec::new(), 0);
    let bulk = Bulk::lazy(jobs(100_000)).on(server.client()).on_progress(|count| {
        ahead = ahead.max(taken.load(Ordering::Relaxed) - told.last().copied().unwrap_or(0));
        told.push(count);
    });
    assert_eq!(bulk.enqueue().await.expect("enqueued"), 100_000);
    assert!(told.is_sorted() && told.len() > 12 && told.last() == Some(&100_000), "{told:?}");
    assert!(ahead <= 16_000, "{ahead}");
    assert_eq!(waiting(&server), (0..100_000).collect::<Vec<_>>());

    let proxy = Proxy::before(&server);
    proxy.fault(1, "LPUSH", Fault::HoldReply);
    let bulk = Bulk::lazy(jobs(100_000)).on(&proxy.client());
    let enqueuing = tokio::spawn(async move { bulk.enqueue().await });
    server.eventually("it waits", SOON, || {
        proxy.held() == 1 && taken.load(Ordering::Relaxed) == 9_000
    });
    server.holds("nothing is taken", Duration::from_millis(300), || {
        taken.load(Ordering::Relaxed) == 9_000
    });
    proxy.release();
    assert_eq!(enqueuing.await.expect("no panic").expect("enqueued"), 100_000);
    assert_eq!(server.redis().len("hworker-jobs-default"), 200_000);
}

#[test]
fn en5_enqueue_many() {
    // The short form, by the default client of a body as anywhere; and from code that is not async.
    let server = TestServer::start();
    let jobs = || (0..1_500).map(job);
    let count = Bulk::lazy(jobs()).on(server.client()).enqueue_blocking().expect("enqueued");
    assert_eq!((count, waiting(&server).len()), (1_500, 1_500));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let client = server.client().clone();
        let jobs = jobs().map(move |job| job.on(&client));
        assert_eq!(element::enqueue_many(jobs).await.expect("enqueued"), 1_500);
    });
    assert_eq!(waiting(&server).len(), 3_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn en6_which_failed_and_why() {
    // Element 1,500 of 3,000 cannot be encoded -> what is before its portion is in, nothing of it and behind it, no more is asked for, and the error names its
    // place, the reason and how many are in. An answer is lost -> the error tells of those of which it is not known.
    // Guards: `stopped_at`, `stopped_after`.
    let server = TestServer::start();
    let taken = AtomicU64::new(0);
    let jobs = (0..3_000).map(|number| {
        taken.fetch_add(1, Ordering::Relaxed);
        element::with(number, if number == 1_500 { f64::NAN } else { 0.5 })
    });
    let error = Bulk::lazy(jobs).on(server.client()).enqueue().await.expect_err("one is wrong");
    let text = error.to_string();
    let Error::Stopped { enqueued: 1_000, index: Some(1_500), jobs, .. } = error else {
        panic!("{text}")
    };
    assert!(jobs.is_empty() && text.contains("NaN") && text.contains("job 1500"), "{text}");
    assert_eq!(waiting(&server), (0..1_000).collect::<Vec<_>>());
    assert_eq!(taken.load(Ordering::Relaxed), 1_501);
    let _: u64 = server.redis().ask(&["DEL", "hworker-jobs-default"]);

    let proxy = Proxy::before(&server);
    proxy.fault(2, "LPUSH", Fault::LoseReply);
    let error = Bulk::lazy((0..10_000).map(job)).on(&proxy.client()).enqueue().await;
    let error = error.expect_err("an answer is lost");
    let text = error.to_string();
    let Error::Stopped { enqueued: 1_000, index: None, jobs, .. } = error else { panic!("{text}") };
    assert!(jobs.iter().any(|(_, fate)| *fate == Fate::Uncertain), "{text}");
}
