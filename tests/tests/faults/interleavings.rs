//! Interleavings that an early draft of the protocol got wrong, each by name, as far as a test can force them from
//! outside. Others of that list are elsewhere: a full server that refuses heartbeats but answers the monitor is
//! `outages::misconf`; a settlement that was executed and whose reply was lost is `lost::lost_settlements_are_sent_again`; a queued
//! heartbeat of a monitor that executes before that of a worker is `outages::server_stalls`.

use std::time::{Duration, Instant};

use hworker::{JobState, OnConflict, Submitted, Unique};
use hworker_tests::Records as _;
use hworker_tests::{Act, Fault, Process, Proxy, TestServer, act};

use crate::support::{
    Dead, HOUR_MS, RECOVERED, SOON, begins, block_on, counter, envelope, first_run_hangs,
    ms_between, now_us, put, serving, time_until, wait_for_workers,
};

#[test]
fn t10_fresh_attempt_is_never_stolen() {
    // Retry and re-start between monitor read and requeue -> not re-queued. Here the worker was stopped, and goes on
    // before the monitor's call arrives, which waits in the network: it lives.
    // Guard: `recover.lua` acts only while the heartbeat is the one that the monitor saw.
    let server = TestServer::start();
    let first = server.worker_process(&[]);
    put(&server, "job", vec![vec![Act::Gate("go".into())]]);
    server.eventually("it runs", SOON, || server.begun("job") == 1);
    let (proxy, second) = stopped_before_its_recovery(&server, &first, 1);
    first.go_on();
    let id = begins(&server, "job")[0].worker.clone();
    let heard = |server: &TestServer| -> String {
        server.redis().ask(&["ZSCORE", "hworker-workers-default", &id])
    };
    let before = heard(&server);
    server.eventually("it beats again", SOON, || heard(&server) != before);
    proxy.release();
    server.holds("it keeps its lease", Duration::from_secs(3), || {
        counter(&server, "recovered") == 0 && server.redis().len("hworker-jobs-default") == 0
    });
    server.open("go");
    server.drained(SOON);
    assert_eq!((server.begun("job"), server.ended("job")), (1, 1));
    drop(second);
}

/// Stops a worker, and lets another that looks after it get as far as the `nth` call to recover it, which is held.
fn stopped_before_its_recovery(
    server: &TestServer,
    worker: &Process,
    nth: u32,
) -> (Proxy, Process) {
    let proxy = Proxy::before(server);
    let url = proxy.url();
    proxy.fault(nth, "recover", Fault::HoldRequest);
    let monitor = server.worker_process(&[("HWORKER_REDIS_URL", &url)]);
    wait_for_workers(server, 2);
    worker.stop();
    server.eventually("the monitor is about to recover it", 2 * RECOVERED, || {
        proxy.count("recover") >= nth as usize
    });
    (proxy, monitor)
}

#[test]
fn t10_a_retry_between_the_list_of_leases_and_their_chunk() {
    // The same, later: the worker is marked, its leases were read, and before they are given back it goes on and settles
    // one with a retry -> that job is not given back a second time.
    // Guard: each lease is given back only if it is there.
    let server = TestServer::start();
    let first = server.worker_process(&[("TOKIO_WORKER_THREADS", "2")]);
    // It is in the middle of a body that returns as soon as the process goes on.
    put(&server, "job", vec![vec![Act::Block(4_000), Act::Retry("again".into())], vec![]]);
    server.eventually("it runs", SOON, || server.begun("job") == 1);
    let (proxy, second) = stopped_before_its_recovery(&server, &first, 2);
    first.go_on();
    server.eventually("its retry or its death was first", SOON, || {
        counter(&server, "retried") == 1
            || serving(&server).iter().any(|worker| worker.pid == first.pid())
    });
    proxy.release();
    server.eventually("it runs again", SOON, || server.ended("job") == 1);
    server.drained(SOON);
    // Its wait may have captured the retried job, which is then recovered from its inbox; the lease is gone.
    server.holds("once", Duration::from_secs(2), || server.begun("job") == 2);
    assert_eq!(counter(&server, "processed"), 1);
    drop(second);
}

#[test]
fn a_recover_in_chunks_with_the_stopped_worker_waking_in_the_middle() {
    // 450 leases are three chunks; while the second waits in the network the stopped worker goes on and is void -> each
    // job runs exactly once more.
    // Guard: the mark in the same step as the first move: every reserve and heartbeat under that id is void from then on.
    let server = TestServer::start();
    let first = server.worker_process(&[("HWORKER_CONCURRENCY", "450")]);
    for _ in 0..450 {
        put(&server, "job", first_run_hangs());
    }
    server.eventually("all run", 2 * SOON, || server.begun("job") == 450);
    let (proxy, second) = stopped_before_its_recovery(&server, &first, 3);
    first.go_on();
    server.eventually("it comes back under a new id", SOON, || {
        serving(&server).iter().any(|worker| worker.pid == first.pid())
    });
    proxy.release();
    server.eventually("all run again", 2 * SOON, || server.ended("job") == 450);
    server.drained(SOON);
    assert_eq!((server.begun("job"), counter(&server, "recovered")), (900, 450));
    drop(second);
}

#[test]
fn a_reserve_that_executes_after_the_worker_has_reconciled() {
    // A reserve waits in the network, the worker gives up and reconciles on a new connection, and then it executes, with
    // jobs waiting -> it takes nothing, no job is stranded.
    // Guard: the session at reserve.
    let server = TestServer::start();
    let proxy = Proxy::before(&server);
    let url = proxy.url();
    let settings = [("HWORKER_REDIS_URL", url.as_str()), ("HWORKER_CONCURRENCY", "2")];
    let _worker = server.worker_process(&settings);
    server.eventually("it waits", SOON, || proxy.waits() >= 1);
    // The first comes with the wait, whose own reserve is at the server already; the next reserve is for the second.
    proxy.fault(1, "reserve", Fault::HoldRequest);
    let both = ["first", "second"].map(|name| envelope(name, &[vec![Act::Gate("go".into())]]));
    let _: u64 = server.redis().ask(&["LPUSH", "hworker-jobs-default", &both[0], &both[1]]);
    server.eventually("both run after all", SOON, || {
        server.begun("first") == 1 && server.begun("second") == 1
    });
    assert!(proxy.count("reconcile") >= 2);
    for name in ["third", "fourth"] {
        put(&server, name, vec![]);
    }
    proxy.release();
    server.holds("the old reserve takes nothing", Duration::from_secs(1), || {
        server.redis().len("hworker-jobs-default") == 2
    });
    server.open("go");
    server.drained(SOON);
    for name in ["first", "second", "third", "fourth"] {
        assert_eq!((server.begun(name), server.ended(name)), (1, 1), "{name}");
    }
}

#[test]
fn an_answer_to_a_wait_that_arrives_after_the_worker_has_reconciled() {
    // The reserve that goes along with a wait is executed and its answer is slow; the heartbeat finds a lease that the
    // worker never saw, a new connection reconciles and gives it back, and then the answer arrives, and names a lease that
    // is another's by now -> nothing starts under it.
    // Guard: what a reserve of an older session brings is left out once a younger one has compared.
    let server = TestServer::start();
    let proxy = Proxy::before(&server);
    // The first is the one that finds nothing.
    proxy.fault(2, "reserve", Fault::HoldReply);
    let url = proxy.url();
    let settings = [("HWORKER_REDIS_URL", url.as_str()), ("HWORKER_CONCURRENCY", "2")];
    let _worker = server.worker_process(&settings);
    server.eventually("it waits", SOON, || proxy.waits() >= 1);
    put(&server, "job", vec![vec![Act::Gate("go".into())]]);
    server.eventually("it is given back and runs under another lease", SOON, || {
        proxy.count("release") >= 1 && server.begun("job") >= 1
    });
    proxy.release();
    server.holds("nothing starts under the first one", Duration::from_secs(1), || {
        server.begun("job") == 1
    });
    server.open("go");
    server.drained(SOON);
    assert!(proxy.all_happened() && proxy.count("reconcile") >= 2);
    assert_eq!((server.begun("job"), server.ended("job")), (1, 1), "{}", server.report());
}

#[test]
fn a_worker_restarted_under_the_same_label() {
    // A worker dies and is started again at once under the same label -> its jobs are recovered, once; those that the new
    // one took meanwhile are left alone.
    // Guard: the random part of the id.
    let server = TestServer::start();
    let settings = [("HWORKER_NAME", "same")];
    let mut first = server.worker_process(&settings);
    put(&server, "of the first", first_run_hangs());
    server.eventually("it runs", SOON, || server.begun("of the first") == 1);
    first.kill();
    let _second = server.worker_process(&settings);
    put(&server, "of the second", vec![vec![Act::Gate("go".into())]]);
    server.eventually("it runs", SOON, || server.begun("of the second") == 1);
    server
        .eventually("the other runs again", RECOVERED + SOON, || server.ended("of the first") == 1);
    server.open("go");
    server.drained(SOON);
    assert_eq!((server.begun("of the first"), server.begun("of the second")), (2, 1));
    assert_eq!(counter(&server, "recovered"), 1);
}

#[test]
fn two_equal_foreign_envelopes_without_ids_that_both_fail() {
    // -> two attempts each after a backoff, and two records of failed jobs.
    // Guard: an envelope gets an id before it is written anywhere but back to its list.
    let server = TestServer::start();
    let plan = vec![vec![Act::RetryIn(300)], vec![Act::Failure("twice".into())]];
    let equal = envelope("equal", &plan);
    let _: u64 = server.redis().ask(&["LPUSH", "hworker-jobs-default", &equal, &equal]);
    let _worker = server.worker_process(&[]);
    server.eventually("both fail", SOON, || counter(&server, "failed") == 2);
    assert_eq!((server.begun("equal"), counter(&server, "retried")), (4, 2));
    let failed = block_on(server.inspect().failed(0, 10)).expect("the failed jobs");
    assert!(failed.len() == 2 && failed[0].id != failed[1].id, "{failed:?}");

    // Two that nobody knows are parked, and equal ones that a crash gives back stay two.
    let unknown = equal.replace("\"act\"", "\"nobody\"");
    let _: u64 = server.redis().ask(&["LPUSH", "hworker-jobs-default", &unknown, &unknown]);
    server.eventually("both wait", SOON, || server.redis().len("hworker-parked-default") == 2);
    let dead = Dead { server: &server, id: "dead.1" };
    dead.last_heard(0);
    let equal = envelope("given back", &[]);
    dead.holds("1", &equal);
    dead.holds("2", &equal);
    server.eventually("both run", RECOVERED + SOON, || server.ended("given back") == 2);
}

#[test]
fn a_killer_job_among_99_innocents() {
    // A job kills its worker each time; 99 others run beside it -> it fails after 4 deaths, with the evidence, and all
    // others succeed; nobody's attempts are used up.
    // Guard: suspects run a few at a time, and then alone.
    let server = TestServer::start();
    // In the middle of the others, which take longer than it takes the killer to strike.
    for number in 0..100 {
        let plan = if number == 50 {
            vec![vec![Act::Sleep(400), Act::Kill]]
        } else {
            vec![vec![Act::Sleep(1_000)]]
        };
        let name = if number == 50 { "killer".to_owned() } else { format!("job-{number}") };
        put(&server, &name, plan);
    }
    let settings = [("HWORKER_CONCURRENCY", "100"), ("HWORKER_DEAD_AFTER", "2s")];
    let mut worker = server.worker_process(&settings);
    let mut deaths = 0;
    let give_up = Instant::now() + Duration::from_secs(90);
    while counter(&server, "failed") == 0 || counter(&server, "processed") < 99 {
        if worker.exited().is_some() {
            deaths += 1;
            worker = server.worker_process(&settings);
        }
        assert!(Instant::now() < give_up, "{}", server.report());
        // The next look at the process.
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!((deaths, counter(&server, "failed"), counter(&server, "processed")), (4, 1, 99));
    let failed = block_on(server.inspect().failed(0, 10)).expect("the failed jobs").remove(0);
    assert_eq!((failed.kind.as_str(), failed.attempts, failed.crashes.len()), ("crash", 1, 4));
    assert_eq!(server.begun("killer"), 4);
}

#[test]
fn a_worker_with_a_longer_dead_after_than_the_monitors() {
    // `dead_after` 12 s, watched by one with 2 s: stopped for 8 s it is not dead; killed it is, after 12 s.
    // Guard: a worker's own `dead_after`, from its record.
    let server = TestServer::start();
    let mut patient = server.worker_process(&[("HWORKER_DEAD_AFTER", "12s")]);
    put(&server, "job", vec![vec![Act::Gate("go".into())]]);
    server.eventually("it runs", SOON, || server.begun("job") == 1);
    let _monitor = server.worker_process(&[("HWORKER_DEAD_AFTER", "2s")]);
    wait_for_workers(&server, 2);
    patient.stop();
    server.holds("it is not dead", Duration::from_secs(8), || counter(&server, "recovered") == 0);
    patient.go_on();
    let id = begins(&server, "job")[0].worker.clone();
    server.eventually("it beats again", SOON, || {
        serving(&server)
            .iter()
            .any(|worker| worker.id == id && worker.heard < Duration::from_secs(1))
    });
    let killed = now_us(&server);
    patient.kill();
    server.eventually("it is recovered", 2 * SOON, || server.begun("job") == 2);
    let after = ms_between(killed, begins(&server, "job")[1].at);
    assert!((10_000..15_000).contains(&after), "{after} ms");
}

#[test]
fn a_failover_that_brings_a_settled_lease_back() {
    // The lease and the envelope of a job that was acked are in progress again, as on a replica that lagged behind -> it is
    // settled again, and does not run again; one that nobody here knows runs.
    // Guard: acknowledged settlements are remembered.
    let server = TestServer::start();
    let _worker = server.worker_process(&[]);
    let plan = vec![vec![Act::Gate("go".into())]];
    put(&server, "job", plan);
    server.eventually("it runs", SOON, || server.begun("job") == 1);
    let id = begins(&server, "job")[0].worker.clone();
    let own = Dead { server: &server, id: &id };
    let held: Vec<String> = server.redis().ask(&["HGETALL", &own.progress()]);
    server.open("go");
    server.drained(SOON);
    own.holds(&held[0], &held[1]);
    own.holds("1", &envelope("unknown", &[]));
    server.eventually("both are settled", SOON, || own.left() == 0 && server.ended("unknown") == 1);
    server.holds("it does not run again", Duration::from_secs(2), || server.begun("job") == 1);
    // Also where the connection ends with it, as in a failover.
    own.holds(&held[0], &held[1]);
    let _: u64 = server.redis().ask(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
    server.eventually("it is settled again", SOON, || own.left() == 0);
    server.drained(SOON);
    assert_eq!(server.begun("job"), 1);
}

#[test]
fn control_27_a_ghost_of_a_failover_swallows_one_that_is_kept_and_not_one_that_follows() {
    // A unique job has ended; a failover to a replica that lagged behind brings back its lease, its id and its key, and before its worker has settled
    // it again, others of its key come -> one that is to be kept is told that the first runs, and never runs itself, as docs/unique.md says;
    // one that follows runs, once. Each time the worker settles the first again, it does not run again, and its key is free.
    // Guard: acknowledged settlements are remembered; `hand_on` in lib/finish.lua.
    let server = TestServer::start();
    let worker = server.worker_process(&[]);
    let submit = |name: &str, plan, unique| {
        let job = act::with(name.into(), plan).unique(unique).on(server.client());
        block_on(job.submit()).expect("submitted")
    };
    let key = || Unique::by("k");
    let first = submit("first", vec![vec![Act::Gate("go".into())]], key());
    server.eventually("it runs", SOON, || server.begun("first") == 1);
    let id = begins(&server, "first")[0].worker.clone();
    let own = Dead { server: &server, id: &id };
    let unique = "hworker-jobs-default:unique";
    let hashes = [own.progress(), "hworker-jobs-default:ids".to_owned(), unique.to_owned()];
    let held: [Vec<String>; 3] =
        std::array::from_fn(|i| server.redis().ask(&["HGETALL", &hashes[i]]));
    server.open("go");
    server.drained(SOON);
    // The worker hears of nothing before the other has come.
    let after_a_failover = |name: &str, unique| {
        worker.stop();
        for (hash, fields) in hashes.iter().zip(&held) {
            let fields = fields.iter().map(String::as_str);
            let words: Vec<_> = ["HSET", hash.as_str()].into_iter().chain(fields).collect();
            let _: u64 = server.redis().ask(&words);
        }
        let receipt = submit(name, vec![], unique);
        worker.go_on();
        receipt
    };
    let is_free = || own.left() == 0 && server.redis().len(unique) == 0;

    let kept = after_a_failover("kept", key());
    assert_eq!(kept.submitted, Submitted::Exists(Some(JobState::Running)));
    assert_eq!(kept.id, first.id);
    let took = time_until(&server, "it is settled again", SOON, is_free);
    println!("a job that a failover brought back was settled again after {took:?}");
    server.drained(SOON);

    let follows = after_a_failover("follows", key().on_conflict(OnConflict::Follow));
    assert_eq!(follows.submitted, Submitted::Follows(first.id));
    server.eventually("what follows runs", SOON, || server.ended("follows") == 1 && is_free());
    assert_eq!(submit("next", vec![], key()).submitted, Submitted::New);
    server.eventually("and the next", SOON, || server.ended("next") == 1);
    server.drained(SOON);
    let begun = ["first", "kept", "follows", "next"].map(|name| server.begun(name));
    assert_eq!((begun, counter(&server, "recovered")), ([1, 0, 1, 1], 0));
}

#[test]
fn a_half_open_connection_captures_a_job_after_its_worker_was_recovered() {
    // A worker is cut off; its wait is still at the server, the first in line. It is recovered, and then a job comes ->
    // the dead one gets it, and it runs elsewhere about a heartbeat later.
    // Guard: the sweep of dead entries.
    let server = TestServer::start();
    let proxy = Proxy::before(&server);
    let url = proxy.url();
    let _cut = server.worker_process(&[("HWORKER_REDIS_URL", &url), ("HWORKER_NAME", "cut")]);
    server.eventually("it waits", SOON, || proxy.waits() >= 1);
    let _other = server.worker_process(&[]);
    wait_for_workers(&server, 2);
    proxy.unreachable(true);
    server.eventually("it is marked", 2 * RECOVERED, || {
        let record = server.redis().keys("hworker-worker-default:cut.*").remove(0);
        let dead: Option<u64> = server.redis().ask(&["HGET", &record, "dead"]);
        dead.is_some()
    });
    put(&server, "captured", vec![]);
    let took = time_until(&server, "it runs", SOON, || server.ended("captured") == 1);
    println!("a captured job ran after {took:?}");
    assert!(took < Duration::from_secs(3), "{took:?}");
    server.drained(SOON);
}

#[test]
fn a_worker_that_wakes_minutes_after_it_was_recovered() {
    // Its wait has long ended when it goes on, and its inbox is looked at once a minute only -> it sends no new wait before
    // it has beaten, so it captures nothing.
    // Guard: a wait is sent only if a heartbeat that was sent in the last 4 s was accepted.
    let server = TestServer::start();
    let proxy = Proxy::before(&server);
    let url = proxy.url();
    let settings = [("HWORKER_NAME", "sleeper"), ("HWORKER_REDIS_URL", url.as_str())];
    let sleeper = server.worker_process(&settings);
    wait_for_workers(&server, 1);
    let id = serving(&server)[0].id.clone();
    let _other = server.worker_process(&[]);
    wait_for_workers(&server, 2);
    sleeper.stop();
    // Longer than a wait lasts.
    std::thread::sleep(Duration::from_secs(22));
    let long_ago = (now_us(&server) / 1000 - 600_000).to_string();
    let _: u64 = server.redis().ask(&["ZADD", "hworker-workers-default", &long_ago, &id]);
    // It learns that it is void a little later: its next heartbeat is held up, and so would be a reserve.
    proxy.fault(1, "heartbeat", Fault::HoldRequest);
    proxy.fault(1, "reserve", Fault::HoldRequest);
    sleeper.go_on();
    for number in 0..40 {
        let name = format!("job-{number}");
        put(&server, &name, vec![]);
        let took = time_until(&server, "it runs", SOON, || server.ended(&name) == 1);
        assert!(took < Duration::from_secs(1), "{took:?}");
    }
    proxy.release();
    server.eventually("the sleeper is back", SOON, || serving(&server).len() == 2);
    server.drained(SOON);
}

#[test]
fn a_refusal_of_2_seconds_that_hits_two_beats_of_a_worker() {
    // The server refuses every script of one worker for 2 s, and nothing of the monitor's -> nobody is declared dead: it goes on
    // beating meanwhile, and one beat is accepted soon after.
    // Guard: a refused heartbeat is repeated after 0.5 s (`REFUSED_AGAIN`).
    let server = TestServer::start();
    let proxy = Proxy::before(&server);
    let rules = ["ACL", "SETUSER", "refused", "on", ">secret", "~*", "&*", "+@all"];
    let _: String = server.redis().ask(&rules);
    let url = format!("{}?user=refused&pass=secret", proxy.url());
    let _worker = server.worker_process(&[("HWORKER_REDIS_URL", &url)]);
    put(&server, "job", vec![vec![Act::Gate("go".into())]]);
    server.eventually("it runs", SOON, || server.begun("job") == 1);
    let id = serving(&server)[0].id.clone();
    let last_beat = || server.redis().ask::<u64>(&["ZSCORE", "hworker-workers-default", &id]);
    let _monitor = server.worker_process(&[]);
    wait_for_workers(&server, 2);
    for _ in 0..3 {
        let _: String = server.redis().ask(&["ACL", "SETUSER", "refused", "-evalsha", "-eval"]);
        let before = proxy.count("heartbeat");
        server.eventually("a beat is refused", SOON, || proxy.count("heartbeat") > before);
        // The longest that it can be without an accepted beat: from one that is refused first.
        let (before, since) = (proxy.count("heartbeat"), Instant::now());
        std::thread::sleep(Duration::from_secs(2));
        let refused = proxy.count("heartbeat") - before;
        // One in 0.5 s; a sleep that lasts longer has more.
        let most = usize::try_from(since.elapsed().as_millis() / 500).expect("few");
        assert!((3..=most).contains(&refused), "{refused} of {most} beats were refused");
        let _: String = server.redis().ask(&["ACL", "SETUSER", "refused", "+evalsha", "+eval"]);
        let over = now_us(&server) / 1000;
        // Seen as soon as it is there: it beats on.
        let mut accepted = 0;
        server.eventually("a beat is accepted", SOON, || {
            accepted = last_beat();
            accepted >= over
        });
        assert!(accepted < over + 900, "{} ms later", accepted - over);
        // Faults are at least 3 s apart.
        server.holds("nobody is recovered", Duration::from_secs(4), || {
            counter(&server, "recovered") == 0
        });
    }
    server.open("go");
    server.drained(SOON);
    assert_eq!(server.begun("job"), 1);
}

#[test]
fn time_going_back_after_a_crash() {
    // The dead entry lies an hour in the future by `TIME` -> it is recovered within 8 s all the same; an entry of a live
    // worker is written anew with its next heartbeat.
    // Guard: an entry in the future counts as old.
    let server = TestServer::start();
    let _worker = server.worker_process(&[]);
    wait_for_workers(&server, 1);
    let live = serving(&server)[0].id.clone();
    let dead = Dead { server: &server, id: "dead.1" };
    dead.last_heard(-3_600_000);
    dead.holds("1", &envelope("job", &[]));
    let future = (now_us(&server) / 1000 + 3_600_000).to_string();
    let _: u64 = server.redis().ask(&["ZADD", "hworker-workers-default", &future, &live]);
    server.eventually("it is recovered", RECOVERED, || server.ended("job") == 1);
    assert_eq!((serving(&server).len(), counter(&server, "recovered")), (1, 1));
}

#[test]
fn the_supervisor_settling_between_a_reconciles_execution_and_its_reply() {
    // The connection breaks, `reconcile` lists a lease, and before its answer arrives the supervisor settles that lease,
    // since its body blocks the runtime beyond its deadline -> settled once, and it runs once more.
    // Guard: acknowledged settlements are remembered, the supervisor's too; a lease that is ending is never started.
    let server = TestServer::start();
    let proxy = Proxy::before(&server);
    let client = proxy.client();
    let worker = server.worker().client(&client).register::<act>().build().expect("a worker");
    let handle = worker.handle();
    let thread = std::thread::spawn(move || block_on(worker.run_until(std::future::pending())));
    server.eventually("it waits", SOON, || proxy.waits() >= 1);
    let plan = vec![vec![Act::Sleep(1_000), Act::Block(7_000)], vec![]];
    let job = act::with("job".into(), plan).on(server.client()).timeout(Duration::from_secs(2));
    job.enqueue_blocking().expect("enqueued");
    server.eventually("it runs", SOON, || server.begun("job") == 1);
    proxy.fault(1, "reconcile", Fault::Delay(Duration::from_secs(5)));
    let before = proxy.count("reconcile");
    proxy.cut();
    server.eventually("it reconciles", SOON, || proxy.count("reconcile") > before);
    server.eventually("the supervisor settles", SOON, || counter(&server, "retried") == 1);
    server
        .eventually("it runs again", SOON, || server.ended("job") == 2 || server.ended("job") == 1);
    server.eventually("it is acked", SOON, || counter(&server, "processed") == 1);
    server.drained(SOON);
    assert_eq!((server.begun("job"), counter(&server, "retried")), (2, 1));
    handle.stop();
    thread.join().expect("no panic").expect("it stops");
}

#[test]
fn a_release_that_executes_late() {
    // A release waits in the network, the connection is given up, `reconcile` lists the lease, the release is sent again and
    // executed, the job runs again, and then the first release arrives -> it changes nothing.
    // Guard: a lease for which a release was ever sent is never started; a release acts only on its own lease.
    let server = TestServer::start();
    let proxy = Proxy::before(&server);
    let url = proxy.url();
    proxy.fault(1, "release", Fault::HoldRequest);
    let _worker = server.worker_process(&[("HWORKER_REDIS_URL", &url)]);
    let plan = vec![vec![Act::Snooze(50)], vec![Act::Gate("go".into())]];
    put(&server, "job", plan);
    server.eventually("it runs again", 2 * SOON, || server.begun("job") == 2);
    assert!(proxy.count("reconcile") >= 2 && proxy.count("release") >= 2);
    proxy.release();
    server.holds("it changes nothing", Duration::from_secs(2), || {
        server.begun("job") == 2
            && server.redis().len("hworker-jobs-default") == 0
            && server.redis().len("hworker-scheduled-default") == 0
    });
    server.open("go");
    server.drained(SOON);
    assert_eq!((server.begun("job"), counter(&server, "processed")), (2, 1));
    let _ = HOUR_MS;
}
