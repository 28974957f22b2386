//! Jobs that a worker fetches ahead of its slots: that it does, for short ones alone, and that nobody waits or suffers for
//! it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hworker::{Bulk, WorkerBuilder};
use hworker_tests::{
    Act, Fault, InProcess, Machine, Process, Proxy, TestServer, act, act_unless_crashed,
};

use crate::support::{SOON, begins, counter, now_us, put, put_on, shortest, waits_by};

fn put_many(server: &TestServer, count: usize, name: &str, plan: &[Vec<Act>]) {
    let jobs = (0..count).map(|_| act::with(name.to_owned(), plan.to_vec()).on(server.client()));
    for job in jobs {
        job.enqueue_blocking().expect("enqueued");
    }
}

/// How many jobs all workers hold.
fn leased(server: &TestServer) -> u64 {
    let mut redis = server.redis();
    let keys = redis.keys("hworker-progress-default:*");
    keys.iter().map(|key| redis.len(key)).sum()
}

/// The most that a worker with two slots was seen to hold while it runs so many of these jobs.
fn most_leased(
    settings: impl FnOnce(WorkerBuilder) -> WorkerBuilder,
    count: usize,
    plan: &[Vec<Act>],
) -> u64 {
    let server = TestServer::start();
    let bulk: Bulk = (0..count).map(|_| act::with("job".into(), plan.to_vec())).collect();
    bulk.on(server.client()).enqueue_blocking().expect("enqueued");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let _worker = {
        let _context = runtime.enter();
        InProcess::run(settings(server.worker().concurrency(2).register::<act>()))
    };
    let mut most = 0;
    server.eventually("all run", 3 * SOON, || {
        most = most.max(leased(&server));
        counter(&server, "processed") == count as u64
    });
    assert_eq!(server.ended("job"), count, "each once");
    most
}

/// Runs at most once, on a queue of its own.
#[hworker::job(queue = "ahead-once", on_crash = "fail")]
fn once() {}

#[test]
fn short_jobs_are_fetched_ahead_and_long_ones_are_not() {
    // More are leased than there are slots while short ones run, also where a job type of another queue runs at most once. Where bodies
    // take longer than the time for which is fetched ahead, where it is switched off, or a
    // job type of the queue runs at most once, never.
    // Guard: `Pace`; `Consumer::fetches_ahead`.
    let short = [vec![]];
    // So many that they take longer than a look at the server, which may come between any two of them.
    for most in [
        most_leased(|worker| worker, 5_000, &short),
        most_leased(WorkerBuilder::register::<once>, 5_000, &short),
    ] {
        println!("at most {most} short jobs were leased for two slots");
        assert!(most > 4, "{most}");
    }
    // What has finished is leased until it is settled, so there may be twice as many as slots.
    for most in [
        most_leased(|worker| worker, 300, &[vec![Act::Sleep(30)]]),
        most_leased(|worker| worker.prefetch(false), 300, &short),
        most_leased(WorkerBuilder::register::<act_unless_crashed>, 300, &short),
    ] {
        assert!(most <= 4, "{most}");
    }
}

#[test]
fn beside_a_job_that_runs_at_most_once_nothing_is_ahead_wherever_it_was_sent() {
    // A job that runs at most once is sent to a queue that none of its kind names; then come short ones -> for 10 s no more are leased
    // there than run.
    // Guard: `admit::check` notes it.
    let server = TestServer::start();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let _worker = {
        let _context = runtime.enter();
        let worker = server.worker().concurrency(2).register::<act>().register::<once>();
        InProcess::run(worker)
    };
    let sent = once::with().queue("default").on(server.client());
    sent.enqueue_blocking().expect("enqueued");
    server.eventually("it ran", SOON, || counter(&server, "processed") == 1);
    let bulk: Bulk = (0..2_000).map(|_| act::with("job".into(), vec![])).collect();
    bulk.on(server.client()).enqueue_blocking().expect("enqueued");
    let (began, mut most) = (Instant::now(), 0);
    server.eventually("the others run", 3 * SOON, || {
        if began.elapsed() < Duration::from_secs(8) {
            most = most.max(leased(&server));
        }
        counter(&server, "processed") == 2_001
    });
    assert!(most <= 4, "{most}");
}

#[test]
fn what_may_be_ahead_is_all_of_the_one_queue_that_has_jobs() {
    // A worker serves sixty queues, and jobs wait on one of them -> it has as many of them ahead as if that were its only one.
    // Guard: `Paces` in `Pace::ahead`.
    let idle = |worker| {
        (0..59).fold(worker, |worker: WorkerBuilder, n| worker.extra_queue(format!("idle-{n}")))
    };
    let most = most_leased(idle, 5_000, &[vec![]]);
    println!("at most {most} jobs were leased for two slots");
    assert!(most > 4, "{most}");
}

#[test]
fn a_worker_takes_nothing_ahead_before_a_body_has_ended() {
    // A worker with four slots starts, and twenty jobs wait, each of a minute -> it holds the four that run, and no others.
    // Guard: `mean` in `Pace::ahead`.
    let server = TestServer::start();
    put_many(&server, 20, "long", &[vec![Act::Sleep(60_000)]]);
    let _worker = server.worker_process(&[("HWORKER_CONCURRENCY", "4")]);
    let mut most = 0;
    server.eventually("four run", SOON, || {
        most = most.max(leased(&server));
        server.begun("long") == 4
    });
    server.holds("it takes no more", Duration::from_millis(500), || leased(&server) == 4);
    assert_eq!(most, 4);
}

#[test]
fn many_slots_are_filled_by_two_calls_at_a_time() {
    // A thousand slots and as many jobs, and the answer of the first call does not come yet -> a second call is sent, each takes
    // 300; then all run.
    // Guard: `CALL_JOBS`, and that a full call is worth a second one, in `intake/plan.rs`.
    let server = TestServer::start();
    let bulk: Bulk = (0..1_000).map(|_| act::with("job".into(), vec![])).collect();
    bulk.on(server.client()).enqueue_blocking().expect("enqueued");
    let proxy = Proxy::before(&server);
    proxy.fault(1, "reserve", Fault::HoldReply);
    let settings = [("HWORKER_REDIS_URL", &*proxy.url()), ("HWORKER_CONCURRENCY", "1000")];
    let _worker = server.worker_process(&settings);
    server.eventually("two calls are under way", SOON, || leased(&server) == 600);
    proxy.release();
    server.eventually("all run", SOON, || server.ended("job") == 1_000);
    server.drained(SOON);
}

#[test]
fn what_waits_behind_a_long_body_runs_elsewhere_in_order() {
    // A worker with one slot, used to short jobs, has one of twelve that block their threads for 400 ms, and the others ahead; another
    // starts when they are given back -> each runs once, in order, and both take part.
    // Guard: `take_late`; that the youngest are first in a release.
    let _machine = Machine::claim();
    let server = TestServer::start();
    let proxy = Proxy::before(&server);
    let url = proxy.url();
    let settings = [("HWORKER_CONCURRENCY", "1")];
    let through = [&settings[..], &[("HWORKER_REDIS_URL", &*url)]].concat();
    let _worker = server.worker_process(&through);
    // Beside other tests a short job may take so long that none is fetched ahead. Then it is tried again.
    let given_back = |round: u32| {
        let short = format!("short-{round}");
        put_many(&server, 400, &short, &[vec![]]);
        server.eventually("it is used to short jobs", SOON, || server.ended(&short) == 400);
        server.drained(SOON);
        let names: Vec<_> = (0..12).map(|number| format!("long-{round}-{number}")).collect();
        let long = |name: &String| act::with(name.clone(), vec![vec![Act::Block(400)]]);
        let bulk: Bulk = names.iter().map(long).collect();
        let released = proxy.count("release");
        bulk.on(server.client()).enqueue_blocking().expect("enqueued");
        let mut are_back = false;
        server.eventually("they are given back, or have run", SOON, || {
            are_back = proxy.count("release") > released && leased(&server) <= 1;
            are_back || names.iter().all(|name| server.ended(name) == 1)
        });
        are_back.then_some(names)
    };
    let names = (0..5).find_map(given_back).expect("some are fetched ahead");
    let _other = server.worker_process(&settings);
    server.eventually("all run", SOON, || names.iter().all(|name| server.ended(name) == 1));
    let mut runs: Vec<_> = names.iter().flat_map(|name| begins(&server, name)).collect();
    let order: Vec<_> = runs.iter().map(|run| run.at).collect();
    // Two run at a time, and may begin in either order.
    assert!(order.windows(3).all(|three| three[0] < three[2]), "{order:?}");
    runs.sort_by_key(|run| run.pid);
    runs.dedup_by_key(|run| run.pid);
    assert_eq!(runs.len(), 2, "both took part");
}

#[test]
fn what_has_a_slot_goes_elsewhere_while_a_body_blocks_the_runtime() {
    // A worker with one thread and ten slots has ten jobs, of which the first blocks its thread for 3 s -> the others go back within
    // moments, and run in another worker meanwhile; the first takes no more, once or twice at most, until its thread is free.
    // Guard: `stalled`, `runs_at`: what has a slot goes back too, and nothing is reserved until a runner runs.
    let server = TestServer::start();
    let proxy = Proxy::before(&server);
    let settings = [
        ("TOKIO_WORKER_THREADS", "1"),
        ("HWORKER_CONCURRENCY", "10"),
        ("HWORKER_REDIS_URL", &proxy.url()),
    ];
    put(&server, "blocks", vec![vec![Act::Block(3_000)]]);
    put_many(&server, 9, "short", &[vec![]]);
    let blocked = server.worker_process(&settings);
    server.eventually("it blocks", SOON, || server.begun("blocks") == 1);
    server.eventually("the others are given back", SOON, || {
        leased(&server) == 1 && server.redis().len("hworker-jobs-default") == 9
    });
    let other = server.worker_process(&[]);
    server.eventually("they run elsewhere", SOON, || server.ended("short") == 9);
    assert_eq!(server.ended("blocks"), 0, "it blocks still");
    assert!(begins(&server, "short").iter().all(|run| run.pid != blocked.pid()));
    let released = proxy.count("release");
    assert!(released <= 2, "{released} times");
    // It goes on when its thread is free.
    server.eventually("it is over", SOON, || server.ended("blocks") == 1);
    drop(other);
    put(&server, "next", vec![]);
    server.eventually("it runs again", SOON, || server.ended("next") == 1);
}

#[test]
fn one_that_kills_its_worker_does_not_condemn_what_was_fetched_ahead() {
    // A worker that fetches ahead dies with a killer and its neighbours in its hands, again and again -> the killer has failed
    // after four deaths; every neighbour runs, and none fails.
    // Guard: `Suspects`: nothing is fetched ahead while there are any, and they start when their neighbours have been given
    // back.
    let server = TestServer::start();
    let settings = [("HWORKER_CONCURRENCY", "4"), ("HWORKER_DEAD_AFTER", "2s")];
    let worker = server.worker_process(&settings);
    put_many(&server, 300, "short", &[vec![]]);
    server.eventually("it is used to short jobs", SOON, || server.ended("short") == 300);
    server.drained(SOON);
    worker.stop();
    put(&server, "killer", vec![vec![Act::Sleep(2), Act::Kill]]);
    put_many(&server, 200, "neighbour", &[vec![]]);
    worker.go_on();

    let (deaths, held) = deaths_until_over(&server, &settings, worker, 501);
    println!("{held} jobs were leased when it died");
    assert_eq!(deaths, 4);
    assert_eq!(counter(&server, "failed"), 1);
    assert_eq!((server.begun("killer"), server.ended("killer")), (4, 0));
    assert!(server.ended("neighbour") >= 200);
}

/// How often workers die, one after the other, until so many jobs have come to their end, and how many the first of them held.
fn deaths_until_over(
    server: &TestServer,
    settings: &[(&str, &str)],
    mut worker: Process,
    jobs: u64,
) -> (usize, u64) {
    let give_up = Instant::now() + Duration::from_secs(90);
    let (mut deaths, mut held) = (0, 0);
    while counter(server, "failed") + counter(server, "processed") < jobs {
        assert!(Instant::now() < give_up, "{}", server.report());
        if worker.exited().is_some() {
            deaths += 1;
            if deaths == 1 {
                held = leased(server);
            }
            worker = server.worker_process(settings);
        }
        // The next look at the process.
        std::thread::sleep(Duration::from_millis(20));
    }
    (deaths, held)
}

/// A job that is a death from failing.
fn suspect(server: &TestServer, name: &str, plan: &[Vec<Act>]) -> String {
    let crash = format!(r#"{{"at":{},"worker":"w"}}"#, now_us(server) / 1_000);
    let plan = serde_json::to_string(plan).expect("a plan");
    format!(
        r#"{{"job":"act","id":"{name}","args":{{"name":"{name}","plan":{plan}}},"crashes":[{crash},{crash},{crash}]}}"#
    )
}

#[test]
fn a_suspect_does_not_begin_before_its_neighbours_are_back() {
    // One call brings three jobs that are a death from failing, of which one may run, and what gives the others back does not
    // arrive -> none begins; when it does, all run.
    // Guard: that nothing is under way or to be settled when `Suspects::begin` is called.
    let server = TestServer::start();
    let proxy = Proxy::before(&server);
    proxy.fault(1, "release", Fault::HoldRequest);
    let names = ["a", "b", "c"];
    let [a, b, c] = names.map(|name| suspect(&server, name, &[vec![]]));
    let _: u64 = server.redis().ask(&["LPUSH", "hworker-jobs-default", &a, &b, &c]);
    let settings = [("HWORKER_REDIS_URL", &*proxy.url()), ("HWORKER_CONCURRENCY", "4")];
    let _worker = server.worker_process(&settings);
    server.eventually("it gives two back", SOON, || proxy.held() > 0);
    let begun = || names.iter().map(|name| server.begun(name)).sum::<usize>();
    server.holds("none begins", Duration::from_millis(500), || begun() == 0);
    proxy.release();
    server.eventually("all run", SOON, || names.iter().all(|name| server.ended(name) == 1));
    server.drained(SOON);
}

#[test]
fn what_waits_behind_a_suspect_is_not_taken_when_it_begins() {
    // Four jobs, each a death from failing, come to a worker with room for all; the first kills it soon after it began, and what
    // it gives back does not arrive before that -> it dies with that one alone, which has failed, and the others run.
    // Guard: `Suspects::alone_until`: else the worker has all four under leases when it dies.
    let _machine = Machine::claim();
    let server = TestServer::start();
    let proxy = Proxy::before(&server);
    proxy.fault(1, "release", Fault::HoldRequest);
    let settings = [("HWORKER_CONCURRENCY", "4"), ("HWORKER_DEAD_AFTER", "2s")];
    let through = [settings[0], settings[1], ("HWORKER_REDIS_URL", &*proxy.url())];
    let mut worker = server.worker_process(&through);
    server.eventually("it waits", SOON, || waits_by(&server, "blmove"));

    let killer = suspect(&server, "killer", &[vec![Act::Sleep(40), Act::Kill]]);
    let _: u64 = server.redis().ask(&["LPUSH", "hworker-jobs-default", &killer]);
    let give_up = Instant::now() + SOON;
    while server.begun("killer") == 0 {
        assert!(Instant::now() < give_up, "{}", server.report());
    }
    let neighbours = ["a", "b", "c"].map(|name| suspect(&server, name, &[vec![]]));
    let [a, b, c] = &neighbours;
    let _: u64 = server.redis().ask(&["LPUSH", "hworker-jobs-default", a, b, c]);
    assert!(worker.exited().is_none(), "they come while it runs");
    server.eventually("it died", SOON, || worker.exited().is_some());
    assert_eq!(leased(&server), 1);

    let _worker = server.worker_process(&settings);
    let over = || counter(&server, "failed") + counter(&server, "processed") == 4;
    server.eventually("all are over", 3 * SOON, over);
    assert_eq!((counter(&server, "failed"), server.begun("killer")), (1, 1));
}

#[test]
fn a_suspect_keeps_its_slot_until_it_begins() {
    // A worker with one slot serves three queues; in two there is always another job, at the front of the third one that is a death from
    // failing -> that one begins when it is its queue's turn, and so does the one behind it.
    // Guard: `Suspects::hold_back` keeps the slot too: else a queue that waits for it has it first, and the suspect goes back.
    let server = TestServer::start();
    let busy = ["busy-0", "busy-1"];
    for (queue, number) in (0..15).flat_map(|number| busy.map(|queue| (queue, number))) {
        put_on(&server, queue, &format!("{queue} {number}"), vec![vec![Act::Sleep(1_000)]]);
    }
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let worker = {
        let _context = runtime.enter();
        let builder = server.worker().concurrency(1).register::<act>();
        let builder = busy.iter().fold(builder, |builder, queue| builder.extra_queue(*queue));
        InProcess::run(builder.shutdown_grace(Duration::ZERO))
    };
    let begun = |number| busy.iter().any(|queue| server.begun(&format!("{queue} {number}")) > 0);
    server.eventually("the slot is taken", SOON, || begun(0));
    let suspect = suspect(&server, "suspect", &[vec![]]);
    let _: u64 = server.redis().ask(&["LPUSH", "hworker-jobs-default", &suspect]);
    put(&server, "behind", vec![vec![]]);
    let both = || server.ended("suspect") == 1 && server.ended("behind") == 1;
    server.eventually("both ran", SOON, both);
    assert!(!begun(14), "the others had more to do");
    runtime.block_on(worker.stop());
}

/// Over before a call to the server is, and so long that one call brings all that there are.
#[hworker::job]
// It would be blocking otherwise, and get a thread of its own.
#[allow(clippy::unused_async)]
async fn short() {
    let start = Instant::now();
    while start.elapsed() < Duration::from_micros(20) {
        std::hint::spin_loop();
    }
}

#[test]
fn what_comes_after_many_short_jobs_is_found() {
    // Many short jobs come at once, and when they are over one more, again and again -> the worker finds it; at the end it waits at
    // the server again.
    let server = TestServer::start();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let _worker = {
        let _context = runtime.enter();
        InProcess::run(server.worker().concurrency(1).register::<short>())
    };
    let enqueue = |count| {
        let jobs: Bulk = (0..count).map(|_| short::with().on(server.client())).collect();
        jobs.enqueue_blocking().expect("enqueued");
    };
    let mut all = 0;
    for count in [50, 1].repeat(30) {
        enqueue(count);
        all += count;
        server.eventually("all have run", SOON, || counter(&server, "processed") == all);
    }
    server.eventually("it waits", SOON, || waits_by(&server, "blmove"));
}

/// Blocks the thread that starts it, until it is let go.
#[hworker::job]
#[allow(clippy::unused_async)]
async fn blocks() {
    let start = Instant::now();
    while BLOCKS.load(Ordering::Acquire) && start.elapsed() < 2 * SOON {
        // The body blocks until the test says so.
        std::thread::sleep(Duration::from_millis(1));
    }
}

static BLOCKS: AtomicBool = AtomicBool::new(false);

#[test]
fn one_that_blocks_among_the_shortest_holds_up_none_of_them() {
    // While one thread alone drains a backlog of jobs that are over at once, one of them blocks it until all others have run -> another
    // thread starts those that were in its hands, and all that come behind; without fetching ahead too, where each comes alone. Many
    // times, since each time it meets the threads in another state.
    // Guard: `call_all_runners`, those that yield too; that each hand-over tells of what may wait (`job_waits`). That a runner gives way
    // to whoever it woke on its thread (`let_others_run`). In the last round: `Pace::set_blocked`, without which each of the 4,000 waits
    // to be looked at.
    for (count, slots, prefetch, rounds) in
        [(1_000, 100, true, 20), (100, 2, false, 60), (2_000, 2, false, 1)]
    {
        let server = TestServer::start();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("a runtime");
        let _worker = {
            let _context = runtime.enter();
            let worker = server.worker().concurrency(slots).prefetch(prefetch);
            InProcess::run(worker.register::<shortest>().register::<blocks>())
        };
        let processed = || usize::try_from(counter(&server, "processed")).unwrap_or(0);
        for round in 0..rounds {
            BLOCKS.store(true, Ordering::Release);
            let shortest = || (0..count).map(|_| shortest::with().on(server.client()));
            let mut jobs: Bulk = shortest().collect();
            jobs.extend([blocks::with().on(server.client())]);
            jobs.extend(shortest());
            jobs.enqueue_blocking().expect("enqueued");
            let before = round * (2 * count + 1);
            server.reaches("others have run", before + 2 * count, SOON, processed);
            BLOCKS.store(false, Ordering::Release);
            let all = before + 2 * count + 1;
            server.eventually("it has run", SOON, || processed() == all);
        }
    }
}
