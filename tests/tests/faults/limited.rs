//! Limits under faults: holders that die, very many keys, what is used up, and what somebody else wrote.

use std::collections::HashMap;
use std::time::Duration;

use hworker::{Action, Bulk, JobState};
use hworker_tests::{Act, Proxy, TestServer, act, act_by_rate, act_by_twos, act_of_key};

use crate::support::{
    RECOVERED, SOON, block_on, counter, now_us, put, time_until, wait_for_workers,
};

fn of_key(name: &str, key: u32, plan: Vec<Vec<Act>>) -> hworker::Enqueue<act_of_key> {
    act_of_key::with(name.into(), Some(key.to_string()), plan)
}

fn enqueue<J: hworker::Job>(
    server: &TestServer,
    jobs: impl IntoIterator<Item = hworker::Enqueue<J>>,
) {
    let bulk: Bulk = jobs.into_iter().collect();
    block_on(bulk.on(server.client()).enqueue()).expect("enqueued");
}

fn by_twos(server: &TestServer, name: &str, plan: Vec<Vec<Act>>) {
    act_by_twos::with(name.into(), plan).on(server.client()).enqueue_blocking().expect("enqueued");
}

/// The most leases that hold one limit.
fn most_held(server: &TestServer) -> usize {
    let held: Vec<String> = server.redis().ask(&["ZRANGE", "hworker-jobs-default:held", "0", "-1"]);
    let mut holds: HashMap<&str, usize> = HashMap::new();
    for member in &held {
        let (limit, _) = member.rsplit_once(' ').expect("a limit and a token");
        *holds.entry(limit).or_default() += 1;
    }
    holds.into_values().max().unwrap_or(0)
}

/// Nothing is left of keys and limits but what code declares.
fn nothing_stays(server: &TestServer) {
    server.drained(SOON);
    let keys = server.redis().keys("hworker-jobs-default*");
    // The last two expire.
    let stays = [":control", ":tables", ":gate", ":rates"];
    let mut left = keys.iter().filter(|key| !stays.iter().any(|end| key.ends_with(end)));
    assert_eq!(left.next(), None, "{keys:?}");
}

#[test]
fn ten_thousand_keys_whose_holders_are_killed() {
    // 10,000 keys, two at once of each; two of three workers are killed -> no key ever has more, their slots are back in time, all jobs
    // run, and nothing stays of a key.
    // Guard: `free` in recover.lua, `room_of` in lib/limits.lua.
    let server = TestServer::start();
    let held_up =
        (0..4).map(|_| of_key("held", 20_000, vec![vec![Act::Gate("never".into())], vec![]]));
    enqueue(&server, held_up);
    enqueue(&server, (0..10_000).map(|key| of_key("once", key, vec![])));
    let often = (0..6).flat_map(|_| 0..100);
    enqueue(&server, often.map(|key| of_key("often", key, vec![vec![Act::Sleep(100)]])));
    let mut most = 0;
    let mut doomed = [server.worker_process(&[]), server.worker_process(&[])];
    server.eventually("the key is used up", SOON, || server.begun("held") == 2);
    let _other = server.worker_process(&[]);
    server.eventually("some run", SOON, || server.ended("once") > 500);
    for worker in &mut doomed {
        worker.kill();
    }
    let took = time_until(&server, "their jobs are given back", RECOVERED, || {
        most = most.max(most_held(&server));
        counter(&server, "recovered") > 0
    });
    server.reaches("all run", 10_600, SOON, || {
        most = most.max(most_held(&server));
        server.ended("once").min(10_000) + server.ended("often").min(600)
    });
    println!("the slots of two killed workers were back after {took:?}; {most} at once of a key");
    assert_eq!(most, 2);
    server.open("never");
    server.eventually("the others too", SOON, || server.ended("held") == 4);
    nothing_stays(&server);
}

#[test]
fn a_used_up_limit_before_ten_thousand_keys() {
    // Jobs of 10,000 keys wait, all paused -> others go on, and no call takes the server long.
    // Guard: what is looked at in one call is bounded, in reserve.lua.
    let server = TestServer::start();
    let _worker = server.worker_process(&[]);
    wait_for_workers(&server, 1);
    let limit = server.client().control("default").limit("act_of_key");
    block_on(limit.pause()).expect("paused");
    enqueue(&server, (0..10_000).map(|key| of_key("keyed", key, vec![])));
    let _: String = server.redis().ask(&["CONFIG", "SET", "slowlog-log-slower-than", "30000"]);
    let _: String = server.redis().ask(&["SLOWLOG", "RESET"]);
    for number in 0..100 {
        let name = format!("plain-{number}");
        put(&server, &name, vec![]);
        let took = time_until(&server, "it runs", SOON, || server.ended(&name) == 1);
        assert!(took < Duration::from_secs(1), "{took:?}");
    }
    let slow: u64 = server.redis().ask(&["SLOWLOG", "LEN"]);
    assert_eq!(slow, 0, "calls of more than 30 ms");
    assert_eq!(server.begun("keyed"), 0);
    block_on(limit.resume()).expect("resumed");
    server.reaches("all run", 10_000, SOON, || server.ended("keyed"));
    nothing_stays(&server);
}

#[test]
fn enqueues_of_a_used_up_key_cost_no_looks() {
    // A key is used up, and 500 more of its jobs come, one by one -> idle workers are not told of each in vain.
    // Guard: `is_open` in push of lib/lists.lua.
    let server = TestServer::start();
    let proxy = Proxy::before(&server);
    let url = proxy.url();
    let _worker = server.worker_process(&[("HWORKER_REDIS_URL", &url)]);
    enqueue(&server, (0..2).map(|_| of_key("held", 1, vec![vec![Act::Gate("go".into())]])));
    server.eventually("it is used up", SOON, || server.begun("held") == 2);
    enqueue(&server, [of_key("keyed", 1, vec![])]);
    server.holds("it waits", Duration::from_secs(2), || server.begun("keyed") == 0);
    let before = proxy.count("reserve");
    for _ in 0..500 {
        of_key("keyed", 1, vec![]).on(server.client()).enqueue_blocking().expect("enqueued");
    }
    let looks = proxy.count("reserve") - before;
    assert!(looks < 50, "{looks} looks");
    server.open("go");
    server.eventually("all run", 2 * SOON, || server.ended("keyed") == 501);
    nothing_stays(&server);
}

#[test]
fn a_place_of_a_queue_comes_free_by_a_recovery() {
    // The worker that has used up the limit of the queue is killed -> one that waits for room takes its job, and a plain job after it.
    // Guard: `tell_of_room` in recover.lua.
    let server = TestServer::start();
    let queue = server.client().control("default").queue_limit();
    block_on(queue.set(1)).expect("set");
    let mut doomed = server.worker_process(&[]);
    put(&server, "first", vec![vec![Act::Gate("never".into())], vec![]]);
    server.eventually("it runs", SOON, || server.begun("first") == 1);
    let _other = server.worker_process(&[]);
    wait_for_workers(&server, 2);
    put(&server, "second", vec![]);
    server.holds("there is no room", Duration::from_secs(2), || server.begun("second") == 0);
    doomed.kill();
    let took = time_until(&server, "both run", 2 * SOON, || {
        server.ended("first") == 1 && server.ended("second") == 1
    });
    assert!(took < RECOVERED + Duration::from_secs(2), "{took:?}");
    block_on(queue.unset()).expect("unset");
    nothing_stays(&server);
}

#[test]
fn jobs_with_a_limit_are_not_taken_ahead() {
    // Two workers of two slots, and four long jobs of a limit of two, behind which shorter ones wait -> the second worker is not left without
    // any because the first has them in front of its slots: what a worker holds of them runs.
    // Guard: `slots` in reserve.lua.
    let server = TestServer::start();
    let slots = [("HWORKER_CONCURRENCY", "2")];
    let _first = server.worker_process(&slots);
    wait_for_workers(&server, 1);
    enqueue(&server, (0..20).map(|key| of_key("held", key, vec![vec![Act::Gate("go".into())]])));
    server.eventually("its slots are full", SOON, || server.begun("held") == 2);
    let held = server.redis().len("hworker-jobs-default:held");
    assert_eq!(held, 2, "what it holds runs");
    let _second = server.worker_process(&slots);
    server.eventually("the others are for the second", SOON, || server.begun("held") == 4);
    server.open("go");
    server.eventually("all run", SOON, || server.ended("held") == 20);
    nothing_stays(&server);
}

#[test]
fn a_rate_of_a_server_whose_clock_was_ahead() {
    // The time of the next start lies an hour ahead -> it is no further than a period, and jobs go on.
    // Guard: `latest` in lib/limits.lua.
    let server = TestServer::start();
    let ahead = (now_us(&server) + 3_600_000_000).to_string();
    let _: u64 = server.redis().ask(&["ZADD", "hworker-jobs-default:rates", &ahead, "act_by_rate"]);
    let _worker = server.worker_process(&[]);
    enqueue(&server, (0..5).map(|_| act_by_rate::with("rated".into(), vec![])));
    server.eventually("they run", SOON, || server.ended("rated") == 5);
    nothing_stays(&server);
}

#[test]
fn a_job_with_a_limit_that_is_deleted_while_it_waits() {
    // Deleted in the middle of its list, found by its id, or moved to the front -> the others run, once each, in the order that is left.
    // Guard: husks are dropped by the worker that takes them, and hold no limit then.
    let server = TestServer::start();
    for name in ["a", "b", "c", "d", "e", "f"] {
        by_twos(&server, name, vec![]);
    }
    let inspect = server.inspect();
    let waiting = block_on(inspect.jobs(JobState::Waiting).limit(10).page()).expect("a page");
    let of = |name: &str| {
        let is_it = |job: &&hworker::JobInfo| {
            String::from_utf8_lossy(job.payload()).contains(&format!(r#""name":"{name}""#))
        };
        waiting.items.iter().find(is_it).expect("it waits").clone()
    };
    let gone = [of("b"), of("c"), of("f")];
    block_on(inspect.change(&gone, &Action::Delete)).expect("deleted");
    let found = block_on(server.client().doctor()).expect("examined");
    assert!(!found.iter().any(|finding| finding.text.contains("deleted")), "{found:?}");
    block_on(inspect.change(&[of("e")], &Action::Promote)).expect("moved");
    let _worker = server.worker_process(&[("HWORKER_CONCURRENCY", "1")]);
    server.eventually("the others run", SOON, || {
        ["a", "d", "e"].iter().all(|name| server.ended(name) == 1)
    });
    nothing_stays(&server);
    assert_eq!(server.begun("b") + server.begun("c") + server.begun("f"), 0);
    let at = |name: &str| server.runs_of(name)[0].at;
    assert!(at("e") < at("a") && at("a") < at("d"));
    assert_eq!(counter(&server, "husks"), 0);
}

#[test]
fn a_plain_job_while_all_workers_have_used_up_a_limit_of_their_own() {
    // A worker that may take no more of a limit for each worker is not woken again and again, and takes other jobs at once.
    // Guard: a ticket is passed on three times, see reserve.lua.
    let server = TestServer::start();
    let proxy = Proxy::before(&server);
    let url = proxy.url();
    let _worker = server.worker_process(&[("HWORKER_REDIS_URL", &url)]);
    wait_for_workers(&server, 1);
    let control = server.client().control("default");
    block_on(control.limit("act_of_each@").set(1)).expect("set");
    for _ in 0..5 {
        let envelope =
            r#"{"job":"act","args":{"name":"each","plan":[[{"Gate":"go"}],[{"Gate":"go"}]]}}"#;
        let list = "hworker-jobs-default:+act_of_each@";
        let _: u64 = server.redis().ask(&["LPUSH", list, envelope]);
    }
    let lists = ["ZADD", "hworker-jobs-default:lists", "3000000000000000", "+act_of_each@"];
    let _: u64 = server.redis().ask(&lists);
    let _: u64 = server.redis().ask(&["LPUSH", "hworker-jobs-default", "!"]);
    server.eventually("one runs", SOON, || server.begun("each") == 1);
    // What a heartbeat looks at is in there.
    let before = proxy.count("reserve");
    server.holds("no other does", Duration::from_secs(3), || server.begun("each") == 1);
    let looks = proxy.count("reserve") - before;
    assert!(looks <= 15, "{looks} looks in 3 s");
    act::with("plain".into(), vec![]).on(server.client()).enqueue_blocking().expect("enqueued");
    let took = time_until(&server, "it runs", SOON, || server.ended("plain") == 1);
    assert!(took < Duration::from_secs(1), "{took:?}");
    server.open("go");
    server.eventually("all run", SOON, || server.ended("each") == 5);
    nothing_stays(&server);
}
