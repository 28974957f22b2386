//! Lost requests and lost replies, of each script and command, at the first, a middle and the last job of a batch.

use std::collections::HashSet;
use std::future::pending;
use std::time::Duration;

use hworker::{Client, Error};
use hworker_tests::{Act, Fault, Proxy, TestServer, act, act_once};

use crate::support::{
    Dead, HOUR_MS, RECOVERED, SOON, block_on, counter, envelope, first_run_hangs, ms_between,
    now_us, put, wait_for_workers,
};

/// About a heartbeat, the look again, and a new connection.
const NOTICED_MS: u64 = 3_000;

/// Every way to lose something.
const LOSSES: [Fault; 4] =
    [Fault::LoseRequest, Fault::LoseReply, Fault::HangRequest, Fault::HangReply];

/// A call that hangs is given up after 5 s where nothing tells earlier that it does.
const HANGS_FOR: Duration = Duration::from_secs(6);

/// Runs a check with each loss, all at once: what takes long is waiting.
fn with_each_loss(check: impl Fn(Fault) + Sync) {
    std::thread::scope(|all| {
        for loss in LOSSES {
            let check = &check;
            all.spawn(move || check(loss));
        }
    });
}

/// A server, a proxy before it, and the settings of workers that go through it.
fn through_a_proxy() -> (TestServer, Proxy, String) {
    let server = TestServer::start();
    let proxy = Proxy::before(&server);
    let url = proxy.url();
    (server, proxy, url)
}

/// Ten jobs, enqueued while nobody works; gives their names.
fn ten(server: &TestServer, plan: &[Vec<Act>]) -> Vec<String> {
    let names: Vec<_> = (0..10).map(|number| format!("job-{number}")).collect();
    for name in &names {
        put(server, name, plan.to_vec());
    }
    names
}

/// Each ran once and was acked, and nothing is left.
#[track_caller]
fn each_ran_once(server: &TestServer, names: &[String], within: Duration) {
    server.eventually("all ran", within, || names.iter().all(|name| server.ended(name) >= 1));
    server.drained(within);
    for name in names {
        assert_eq!(server.begun(name), 1, "{name}\n{}", server.report());
    }
    assert_eq!(counter(server, "processed"), names.len() as u64, "{}", server.report());
    assert_eq!(counter(server, "recovered"), 0);
}

#[test]
fn an_answer_that_is_arriving_is_not_taken_for_lost() {
    // The answers that bring a job take two seconds, as one does that is large for the network -> the job is waited for, and runs.
    // Guard: `verify` leaves what a call may bring whose answer is arriving; else the job goes back at each heartbeat, and is taken again.
    let (server, proxy, url) = through_a_proxy();
    for nth in 1..=20 {
        proxy.fault(nth, "reserve", Fault::Trickle(Duration::from_secs(2)));
    }
    put(&server, "job", vec![vec![]]);
    let _worker = server.worker_process(&[("HWORKER_REDIS_URL", &url)]);
    server.eventually("it ran", SOON, || server.ended("job") == 1);
    assert_eq!(proxy.count("reconcile"), 1, "{}", server.report());
}

#[test]
fn a_lost_reply_of_reserve_strands_no_job() {
    // The server executes a reserve and the answer is lost -> no job stranded for longer than about a heartbeat, none
    // lost, none run twice.
    // Guard: the comparison of leases with the heartbeat, and `reconcile`.
    with_each_loss(|loss| {
        let (server, proxy, url) = through_a_proxy();
        let _other =
            server.worker_process(&[("HWORKER_REDIS_URL", &url), ("HWORKER_CONCURRENCY", "4")]);
        wait_for_workers(&server, 1);
        // The first reserve of an idle worker finds nothing; this is that of a job, and it takes four of ten.
        server.eventually("it waits", SOON, || proxy.waits() >= 1);
        proxy.fault(1, "reserve", loss);
        let start = now_us(&server);
        let names = ten(&server, &[vec![]]);
        each_ran_once(&server, &names, SOON);
        assert!(proxy.all_happened());
        let worst = names.iter().map(|name| ms_between(start, server.runs_of(name)[0].at)).max();
        println!("{loss:?} of reserve: the last job began after {worst:?} ms");
        // A request that never arrives leaves no trace at the server; its connection is given up after 5 s.
        let limit = if loss == Fault::HangRequest { 6_000 } else { NOTICED_MS };
        assert!(worst < Some(limit), "{loss:?}: {worst:?}");
    });
}

#[test]
fn a_lost_wait_strands_no_job() {
    // The same for the wait: what the server handed into the inbox counts as the worker's lease.
    // Guard: the look at the inbox, and at jobs that wait in vain, with the heartbeat.
    with_each_loss(|loss| {
        let (server, proxy, url) = through_a_proxy();
        proxy.fault(1, "BLMOVE", loss);
        let _worker = server.worker_process(&[("HWORKER_REDIS_URL", &url)]);
        server.eventually("it waits", SOON, || proxy.count("BLMOVE") >= 1);
        // A wait that is lost with its connection is sent again at once, also a reply that comes later.
        let start = now_us(&server);
        put(&server, "job", vec![]);
        each_ran_once(&server, &["job".to_owned()], SOON);
        let after = ms_between(start, server.runs_of("job")[0].at);
        println!("{loss:?} of BLMOVE: the job began after {after} ms");
        assert!(after < NOTICED_MS, "{loss:?}: {after} ms");
        assert!(proxy.all_happened());
    });
}

/// Loses something of the `nth` settle, and gives the server when all is over.
fn lose_at_settle(loss: Fault, nth: u32, concurrency: &str) {
    let (server, proxy, url) = through_a_proxy();
    proxy.fault(nth, "settle", loss);
    // One that succeeds, one that is retried, one that fails, one that is broken, in turn.
    for number in 0..12 {
        let name = format!("job-{number}");
        match number % 4 {
            0 => put(&server, &name, vec![vec![Act::Sleep(20)]]),
            1 => put(&server, &name, vec![vec![Act::Retry("again".into())], vec![]]),
            2 => put(&server, &name, vec![vec![Act::Failure("never".into())]]),
            _ => {
                let wrong = format!(r#"{{"job":"act","id":"{name}","attempt":0,"args":{{}}}}"#);
                let _: u64 = server.redis().ask(&["LPUSH", "hworker-jobs-default", &wrong]);
                continue;
            }
        };
    }
    let settings = [("HWORKER_REDIS_URL", url.as_str()), ("HWORKER_CONCURRENCY", concurrency)];
    let worker = server.worker_process(&settings);
    let counters =
        || ["processed", "failed", "retried", "broken"].map(|name| counter(&server, name));
    server.eventually("all are settled", SOON + HANGS_FOR, || counters() == [6, 3, 3, 3]);
    server.holds("each once", Duration::from_secs(2), || counters() == [6, 3, 3, 3]);
    assert!(proxy.all_happened(), "{loss:?} at {nth}");
    for number in [0, 4, 8, 2, 6, 10] {
        assert_eq!(server.begun(&format!("job-{number}")), 1, "{}", server.report());
    }
    for number in [1, 5, 9] {
        assert_eq!(server.begun(&format!("job-{number}")), 2, "{}", server.report());
    }
    server.eventually("nothing is left under a lease", SOON, || {
        let left = server.leftovers("default");
        let left: Vec<_> = left.iter().map(|(key, count)| (key.as_str(), *count)).collect();
        left == [("hworker-failed-default", 3), ("hworker-broken-default", 3)]
    });
    drop(worker);
}

#[test]
fn lost_settlements_are_sent_again() {
    // Loss of a settle: success, retry, failure and broken alike count once, and no body runs again for it; at the
    // first, a middle and the last, each alone (one slot) and in batches.
    // Guard: the outbox keeps a settlement until the server has it; a lease is removed before anything is done in its name.
    with_each_loss(|loss| {
        std::thread::scope(|all| {
            for nth in [1, 7] {
                all.spawn(move || lose_at_settle(loss, nth, "1"));
            }
            // In one batch or two, with reserves in between.
            all.spawn(move || lose_at_settle(loss, 2, "12"));
        });
    });
}

#[test]
fn a_lost_release_gives_back_once() {
    // Loss of a release: a worker that stops gives back what runs; the jobs run elsewhere, once each.
    // Guard: what was ever sent is never started, and sent again.
    with_each_loss(|loss| {
        let (server, proxy, url) = through_a_proxy();
        proxy.fault(1, "release", loss);
        let settings = [
            ("HWORKER_REDIS_URL", url.as_str()),
            ("HWORKER_SHUTDOWN_GRACE", "0s"),
            ("HWORKER_CONCURRENCY", "3"),
        ];
        let mut worker = server.worker_process(&settings);
        let names = ["first", "middle", "last"];
        for name in names {
            put(&server, name, first_run_hangs());
        }
        server.eventually("all run", SOON, || names.iter().all(|name| server.begun(name) == 1));
        worker.terminate();
        assert!(worker.wait(2 * SOON).expect("it ends").success());
        assert!(proxy.all_happened());
        let _other = server.worker_process(&[("HWORKER_CONCURRENCY", "1")]);
        server.eventually("all run elsewhere", 2 * SOON, || {
            names.iter().all(|name| server.ended(name) == 1)
        });
        server.drained(SOON);
        assert!(names.iter().all(|name| server.begun(name) == 2), "{}", server.report());
    });
}

#[test]
fn a_lost_reconcile_is_made_again() {
    // Loss of a reconcile, of the first and of one after a break while jobs are held.
    // Guard: a session that was raised without an answer is raised again; leases are listed by each.
    with_each_loss(|loss| {
        let (server, proxy, url) = through_a_proxy();
        proxy.fault(1, "reconcile", loss);
        let _worker = server.worker_process(&[("HWORKER_REDIS_URL", &url)]);
        put(&server, "held", vec![vec![Act::Gate("go".into())]]);
        server.eventually("it runs", SOON + HANGS_FOR, || server.begun("held") == 1);
        // A connection that breaks brings on the next.
        proxy.fault(1, "reconcile", loss);
        proxy.fault(1, "reserve", Fault::LoseReply);
        let names = ten(&server, &[vec![]]);
        server.eventually("all ran", SOON + HANGS_FOR, || {
            names.iter().all(|name| server.ended(name) == 1)
        });
        assert!(proxy.all_happened());
        server.open("go");
        server.drained(SOON + HANGS_FOR);
        assert_eq!((server.begun("held"), counter(&server, "processed")), (1, 11));
        assert!(names.iter().all(|name| server.begun(name) == 1));
        assert_eq!(counter(&server, "recovered"), 0);
    });
}

#[test]
fn a_lost_heartbeat_harms_nobody() {
    // Loss of a heartbeat: the first one and a later one; nobody is declared dead, no job stands still.
    // Guard: one without an answer is given up after 3 s, and the next is sent at once.
    with_each_loss(|loss| {
        let (server, proxy, url) = through_a_proxy();
        proxy.fault(1, "heartbeat", loss);
        let _monitors = [server.worker_process(&[]), server.worker_process(&[])];
        let worker =
            server.worker_process(&[("HWORKER_REDIS_URL", &url), ("HWORKER_NAME", "watched")]);
        wait_for_workers(&server, 3);
        proxy.fault(4, "heartbeat", loss);
        server.eventually("both happened", 2 * SOON, || proxy.all_happened());
        server.holds("it is alive", Duration::from_secs(7), || counter(&server, "recovered") == 0);
        let dead: Vec<_> = server.redis().keys("hworker-worker-default:watched.*");
        assert_eq!(dead.len(), 1, "it goes on under its id: {dead:?}");
        let mark: Option<u64> = server.redis().ask(&["HGET", &dead[0], "dead"]);
        assert_eq!(mark, None);
        drop(worker);
    });
}

#[test]
fn lost_calls_after_a_heartbeat_do_not_delay_the_next() {
    // Whatever a worker asks after its heartbeat may hang: the records of others, their inboxes, its own leases. It is
    // not declared dead for it.
    // Guard: what follows a heartbeat ends when the next is due.
    std::thread::scope(|all| {
        for request in ["HMGET", "EXISTS", "HKEYS"] {
            all.spawn(move || {
                let (server, proxy, url) = through_a_proxy();
                let settings = [("HWORKER_NAME", "watched"), ("HWORKER_REDIS_URL", &url)];
                let _worker = server.worker_process(&settings);
                wait_for_workers(&server, 1);
                let id = crate::support::serving(&server)[0].id.clone();
                let _monitors = [server.worker_process(&[]), server.worker_process(&[])];
                wait_for_workers(&server, 3);
                proxy.fault(1, request, Fault::HangReply);
                // Somebody to look at, and a lease that the worker does not know.
                Dead { server: &server, id: "dead.1" }.last_heard(10_000);
                Dead { server: &server, id: &id }.holds("1", &envelope("unseen", &[]));
                server.eventually("it happened", SOON, || proxy.all_happened());
                let record = format!("hworker-worker-default:{id}");
                server.holds("it is alive", Duration::from_secs(9), || {
                    let dead: Option<u64> = server.redis().ask(&["HGET", &record, "dead"]);
                    dead.is_none()
                });
                server.eventually("the job ran", SOON, || server.ended("unseen") == 1);
                server.drained(SOON);
            });
        }
    });
}

#[test]
fn a_lost_promote_promotes_once() {
    // Loss of a promote: what is due runs once, no later than about a heartbeat.
    // Guard: an envelope leaves `scheduled` and enters `jobs` in the same script; heartbeats promote too.
    with_each_loss(|loss| {
        let (server, proxy, url) = through_a_proxy();
        let _worker = server.worker_process(&[("HWORKER_REDIS_URL", &url)]);
        server.eventually("the timer runs", SOON, || proxy.count("BLPOP") >= 1);
        let due = now_us(&server) + 1_000_000;
        for name in ["first", "middle", "last"] {
            let job =
                act::with(name.into(), vec![]).on(server.client()).delay(Duration::from_secs(1));
            job.enqueue_blocking().expect("enqueued");
        }
        // One when the bell rang, the next when they are due.
        proxy.fault(2, "promote", loss);
        let names = ["first", "middle", "last"].map(str::to_owned);
        each_ran_once(&server, &names, SOON);
        let worst = names.iter().map(|name| ms_between(due, server.runs_of(name)[0].at)).max();
        println!("{loss:?} of promote: the last began {worst:?} ms late");
        assert!(worst < Some(NOTICED_MS), "{worst:?}");
    });
}

#[test]
fn a_lost_recover_recovers_once() {
    // Loss of a recover, the mark and a chunk: each job runs exactly once more.
    // Guard: each lease is given back once; a worker that is marked is swept by everyone.
    with_each_loss(|loss| {
        std::thread::scope(|all| {
            for nth in [1, 2, 3] {
                all.spawn(move || {
                    let (server, proxy, url) = through_a_proxy();
                    proxy.fault(nth, "recover", loss);
                    let mut first = server.worker_process(&[]);
                    let names = ten(&server, &first_run_hangs());
                    let begun = |times| names.iter().all(|name| server.begun(name) == times);
                    server.eventually("all run", SOON, || begun(1));
                    let _second = server.worker_process(&[("HWORKER_REDIS_URL", &url)]);
                    wait_for_workers(&server, 2);
                    first.kill();
                    server.eventually("all run again", RECOVERED + 2 * HANGS_FOR, || begun(2));
                    assert!(proxy.all_happened());
                    server.drained(SOON);
                    assert_eq!(counter(&server, "recovered"), 10);
                });
            }
        });
    });
}

#[test]
fn a_lost_retire_or_bury_strands_nothing() {
    // Loss of the last word of a worker, and of the call that forgets a dead one.
    // Guard: others find out; both may be repeated.
    with_each_loss(|loss| {
        let (server, proxy, url) = through_a_proxy();
        proxy.fault(1, "retire", loss);
        proxy.fault(1, "bury", loss);
        let dead = Dead { server: &server, id: "dead.1" };
        dead.last_heard(90_000_000);
        let died = (now_us(&server) / 1_000_000 - 90_000).to_string();
        let _: u64 = server.redis().ask(&["HSET", "hworker-worker-default:dead.1", "dead", &died]);
        let mut worker = server.worker_process(&[("HWORKER_REDIS_URL", &url)]);
        server.eventually("it waits", SOON, || proxy.waits() >= 1);
        server.eventually("it forgets", SOON, || proxy.count("bury") >= 1);
        worker.terminate();
        assert!(worker.wait(2 * SOON).expect("it ends").success());
        assert!(proxy.all_happened());
        put(&server, "after", vec![]);
        let _other = server.worker_process(&[]);
        server.eventually("it runs", SOON, || server.ended("after") == 1);
        server.eventually("the dead one is forgotten", SOON, || {
            let entry: Option<u64> =
                server.redis().ask(&["ZSCORE", "hworker-workers-default", "dead.1"]);
            entry.is_none()
        });
        server.drained(SOON);
    });
}

#[test]
fn lost_calls_of_the_inspect_api_change_once() {
    // Loss of a revoke and of a requeue of a broken payload: the caller gets an error, and the job is in one place.
    // Guard: both move in one script.
    with_each_loss(|loss| {
        let (server, proxy, url) = through_a_proxy();
        let _worker = server.worker_process(&[]);
        let inspect = hworker::Client::new(url.as_str()).expect("a client").inspect("default");
        let id = put(&server, "job", vec![vec![Act::Sleep(HOUR_MS)], vec![]]);
        server.eventually("it runs", SOON, || server.begun("job") == 1);
        proxy.fault(1, "revoke", loss);
        let error = block_on(inspect.revoke(&id)).expect_err("it is lost");
        assert!(matches!(error, hworker::Error::Unanswered { .. }), "{error}");
        let executed = matches!(loss, Fault::LoseReply | Fault::HangReply);
        if !executed {
            block_on(inspect.revoke(&id)).expect("it is there still");
        }
        server.eventually("it runs again", SOON, || server.ended("job") == 1);
        // Its end has to be in.
        server.drained(SOON);
        assert!(block_on(inspect.revoke(&id)).is_err());

        let payload = envelope("mended", &[]).replace("act", "unknown");
        let _: u64 = server.redis().ask(&["HSET", "hworker-broken-default", &payload, "1 1 x"]);
        proxy.fault(1, "requeue_broken", loss);
        let error = block_on(inspect.requeue_broken(payload.as_bytes())).expect_err("it is lost");
        assert!(matches!(error, hworker::Error::Unanswered { .. }), "{error}");
        let again = block_on(inspect.requeue_broken(payload.as_bytes()));
        assert_eq!(again.is_err(), executed, "{again:?}");
        let place = || server.leftovers("default").iter().map(|(_, count)| count).sum::<u64>();
        server.eventually("it is in one place", SOON, || place() == 1);
        assert!(proxy.all_happened());
    });
}

#[test]
fn a_recovery_that_fails_behind_its_mark_is_tried_again() {
    // A worker that died long ago is declared dead, and the answer behind that is lost -> what it held comes back with the next
    // heartbeat, by the same worker, which declares nobody dead then.
    // Guard: `Recovery::Failed`.
    let (server, proxy, url) = through_a_proxy();
    let dead = Dead { server: &server, id: "dead.1" };
    dead.holds("1", &envelope("job", &[]));
    dead.last_heard(300_000);
    proxy.fault(1, "HSTRLEN", Fault::LoseReply);
    let _worker = server.worker_process(&[("HWORKER_REDIS_URL", &url)]);
    server.eventually("it runs", RECOVERED, || server.ended("job") == 1);
    assert!(proxy.all_happened());
    assert_eq!((server.begun("job"), counter(&server, "recovered")), (1, 1));
}

#[test]
fn a_connection_that_ends_at_each_reserve_is_not_made_as_often_as_it_can_be() {
    // Whatever is asked for ends the connection, as a server's limit for its answers does -> the worker tries less and less
    // often, and takes the jobs when it is let.
    // Guard: `reconnect` has succeeded when something was answered, or after a second.
    let (server, proxy, url) = through_a_proxy();
    for nth in 1..=200 {
        proxy.fault(nth, "reserve", Fault::LoseReply);
    }
    ten(&server, &[vec![]]);
    let mut worker = server.worker_process(&[("HWORKER_REDIS_URL", &url)]);
    server.eventually("it has tried", SOON, || proxy.count("reserve") >= 3);
    server.holds("it goes on", Duration::from_secs(3), || worker.exited().is_none());
    let tried = proxy.count("reconcile");
    assert!(tried <= 20, "{tried} connections");
}

#[test]
fn a_lost_enqueue_is_uncertain() {
    // LPUSH and schedule: on a lost request or reply after the sending, `Error::Uncertain` with the id that the job has if
    // it is in; never twice, never half; the neighbours are not touched. First, middle and last of several.
    // Guard: what may have been sent is not sent again.
    std::thread::scope(|all| {
        for loss in LOSSES {
            for request in ["LPUSH", "schedule"] {
                for nth in 1..=3 {
                    all.spawn(move || lose_at_enqueue(loss, request, nth));
                }
            }
        }
    });
}

fn lose_at_enqueue(loss: Fault, request: &str, nth: u32) {
    let (server, proxy, url) = through_a_proxy();
    proxy.fault(nth, request, loss);
    let client = hworker::Client::new(url.as_str()).expect("a client");
    let (mut certain, mut uncertain) = (HashSet::new(), HashSet::new());
    for number in 1..=3 {
        let job = act_once::with(format!("job-{number}"), vec![]).on(&client);
        let job = if request == "LPUSH" { job } else { job.delay(Duration::from_millis(HOUR_MS)) };
        match job.enqueue_blocking() {
            Ok(id) => certain.insert(id.to_string()),
            Err(Error::Uncertain { id, .. }) => uncertain.insert(id.to_string()),
            Err(error) => panic!("{loss:?} of {request}: {error}"),
        };
    }
    assert_eq!((certain.len(), uncertain.len()), (2, 1), "{loss:?} of {request} at {nth}");
    let envelopes: Vec<String> = match request {
        "LPUSH" => server.redis().ask(&["LRANGE", "hworker-jobs-default", "0", "-1"]),
        _ => server.redis().ask(&["ZRANGE", "hworker-scheduled-default", "0", "-1"]),
    };
    let id = |envelope: &String| {
        let value: serde_json::Value = serde_json::from_str(envelope).expect("JSON");
        value["id"].as_str().expect("an id").to_owned()
    };
    let there: HashSet<_> = envelopes.iter().map(id).collect();
    assert_eq!(there.len(), envelopes.len(), "none is there twice");
    let executed = matches!(loss, Fault::LoseReply | Fault::HangReply);
    let expected: HashSet<_> =
        if executed { certain.union(&uncertain).cloned().collect() } else { certain };
    assert_eq!(there, expected, "{loss:?} of {request} at {nth}");
}

#[test]
fn the_last_call_for_a_queue_that_is_removed() {
    // It is lost, in each way -> a body of another queue runs on under the same worker and ends once; the queue is served again when it is
    // added.
    // Guard: `Left::Void` ends the session only while the queue is served.
    with_each_loss(|loss| {
        let (server, proxy, url) = through_a_proxy();
        let client = Client::new(&url).expect("a client");
        let worker = server.worker().client(&client).register::<act>().extra_queue("later");
        let worker = worker.build().expect("a worker");
        let handle = worker.handle();
        let thread = std::thread::spawn(move || block_on(worker.run_until(pending())));
        put(&server, "long", vec![vec![Act::Gate("go".into())], vec![]]);
        server.eventually("it runs", SOON, || server.begun("long") == 1);
        proxy.fault(1, "retire", loss);
        handle.remove_queue("later");
        let called_again = || proxy.count("retire") >= 2;
        server.eventually("it is called again", HANGS_FOR + SOON, called_again);
        handle.add_queue("later").expect("a name");
        let job = act::with("again".into(), vec![]).on(server.client()).queue("later");
        job.enqueue_blocking().expect("enqueued");
        server.eventually("it is served again", SOON, || server.ended("again") == 1);
        server.open("go");
        server.eventually("the other has ended", SOON, || server.ended("long") >= 1);
        assert_eq!((server.begun("long"), counter(&server, "recovered")), (1, 0), "{loss:?}");
        let runs = ["long", "again"].map(|name| server.runs_of(name)[0].worker.clone());
        assert!(runs[1].starts_with(&runs[0]), "another session: {runs:?}");
        handle.stop();
        thread.join().expect("no panic").expect("it stops");
    });
}
