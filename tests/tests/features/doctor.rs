//! What the doctor finds, says and mends, as the program `hworker` shows it.

use hworker::{OnConflict, Submitted, Unique};
use hworker_tests::{Act, InProcess, TestServer, act, act_once};
use serde_json::{Value, json};

use crate::SOON;
use crate::cli::{Said, call};

/// What the doctor says, as `severity about: text`.
fn findings(said: &Said) -> Vec<String> {
    let text = |row: &Value, field: &str| row[field].as_str().unwrap_or_default().to_owned();
    said.json()
        .iter()
        .map(|row| {
            format!("{} {}: {}", text(row, "severity"), text(row, "about"), text(row, "text"))
        })
        .collect()
}

#[track_caller]
fn has(said: &Said, severity: &str, words: &[&str]) {
    let found = findings(said);
    let all =
        |line: &&String| line.starts_with(severity) && words.iter().all(|word| line.contains(word));
    assert!(found.iter().any(|line| all(&line)), "{severity} {words:?}: {found:#?}");
}

fn doctor(server: &TestServer) -> Said {
    call(server, &["doctor", "--json"])
}

/// A server without anything to warn of.
fn sound() -> TestServer {
    let server = TestServer::builder().append_only().arg("--maxmemory", "1gb");
    // A busy machine is no fault of the server.
    server.arg("--slowlog-log-slower-than", "5000000").start()
}

#[tokio::test(flavor = "multi_thread")]
async fn ts16_nothing_is_wrong() {
    // Exit code 0, and a word on each thing that was looked at.
    // Guard: each check.
    let server = sound();
    let _worker = InProcess::run(server.worker().register::<act>());
    server.enqueue("runs", Vec::new()).await;
    server.eventually("it ran", SOON, || server.ended("runs") == 1);
    let said = doctor(&server);
    assert_eq!(said.code, 0, "{}{}", said.out, said.err);
    for about in
        ["server", "eviction", "persistence", "memory", "connections", "slow calls", "clock"]
    {
        has(&said, "ok", &[about]);
    }
    has(&said, "ok", &["rights of default"]);
    has(&said, "ok", &["default: nothing is wrong"]);
    assert_eq!(call(&server, &["doctor", "--repair"]).code, 0, "nothing to mend");
    assert_eq!(call(&server, &["audit"]).out, "");
}

#[test]
fn ts16_the_server_and_its_users() {
    // Eviction, no append only file, no limit of memory, a slow call, a user without its rights.
    // Guard: `server::look` and `rights::look`.
    let server = TestServer::builder().arg("--maxmemory-policy", "allkeys-lru").start();
    let mut redis = server.redis();
    let _: String = redis.ask(&["CONFIG", "SET", "slowlog-log-slower-than", "0"]);
    let _: String = redis.ask(&["ACL", "SETUSER", "hworker-producer", "on", "~*", "+lpush"]);
    drop(redis);
    let said = doctor(&server);
    assert_eq!(said.code, 9, "{}", said.err);
    has(&said, "fail", &["eviction", "allkeys-lru", "CONFIG SET maxmemory-policy noeviction"]);
    has(&said, "warn", &["persistence", "CONFIG SET appendonly yes"]);
    has(&said, "warn", &["memory", "no limit", "CONFIG SET maxmemory"]);
    has(&said, "warn", &["slow calls", "within the hour"]);
    has(&said, "warn", &["rights of hworker-producer", "evalsha", "hset"]);
    assert_eq!(call(&server, &["doctor", "--url", "redis://127.0.0.1:1"]).code, 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn ts16_operate_42_queues_that_nobody_serves_and_jobs_that_nobody_can_run() {
    // Guard: `queue::look`.
    let server = sound();
    let ahead = server.redis().time_us() / 1000 + 3_600_000;
    let job = json!({"id": "1", "job": "act", "args": {}, "enqueued_at": ahead}).to_string();
    let _: u64 = server.redis().ask(&["LPUSH", "hworker-jobs-mail", &job]);
    let unknown = json!({"id": "2", "job": "send_invoice", "args": {}}).to_string();
    let _: u64 = server.redis().ask(&["LPUSH", "hworker-jobs-default", &unknown]);
    // In a shard that these settings do not have; and a queue of which another program has more.
    let _: u64 = server.redis().ask(&["LPUSH", "hworker-jobs-wide#3.7", &job]);
    let entry = r#"{"shards":8,"seen":1}"#;
    let _: u64 = server.redis().ask(&["HSET", "hworker-meta:queues", "spread", entry]);
    let worker = InProcess::run(server.worker().register::<act>());
    server.eventually("it is parked", SOON, || server.redis().len("hworker-parked-default") == 1);
    let said = doctor(&server);
    assert_eq!(said.code, 9, "{}", said.err);
    has(&said, "fail", &["mail: waiting: 1, and no worker serves it", "HWORKER_QUEUES=mail"]);
    has(&said, "warn", &["mail: a producer's clock is", "ahead"]);
    has(&said, "warn", &["default: parked: 1 of `send_invoice`", "min they are broken"]);
    has(&said, "fail", &["wide: jobs are in its shard 3", "wide=4"]);
    has(&said, "warn", &["spread: another program has 8 shards"]);
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ts16_operate_12_operate_23_repair_mends_what_it_can() {
    // Overdue jobs, records and places that lost each other, husks that are counted wrong, keys of another type: each shown, asked for,
    // mended, and in the audit.
    // Guard: `Repair::mend`.
    let server = sound();
    let worker = InProcess::run(server.worker().register::<act>());
    for name in ["first", "second"] {
        let fails = act::with(name.into(), vec![vec![Act::Failure("no".into())]]);
        fails.on(server.client()).enqueue().await.expect("enqueued");
    }
    server.eventually("both failed", SOON, || server.counter("failed") == 2);
    worker.stop().await;
    let members: Vec<String> = server.redis().ask(&["ZRANGE", "hworker-failed-default", "0", "-1"]);
    let id = |member: &str| member.rsplit(' ').next().expect("an id").to_owned();
    // One has no record, the other no place, and one is missing of both.
    let _: u64 = server.redis().ask(&["HDEL", "hworker-record-default", &id(&members[0])]);
    let _: u64 = server.redis().ask(&["ZREM", "hworker-failed-default", &members[1]]);
    let _: u64 = server.redis().ask(&["ZADD", "hworker-failed-default", "7", "g act lost"]);
    let due = json!({"id": "due", "job": "act", "args": {"name": "due", "plan": []}}).to_string();
    let _: u64 = server.redis().ask(&["ZADD", "hworker-scheduled-default", "1", &due]);
    let _: u64 = server.redis().ask(&["HSET", "hworker-stat-default", "husks", "7"]);
    let _: u64 = server.redis().ask(&["LPUSH", "hworker-jobs-default", "-"]);
    let _: String = server.redis().ask(&["SET", "hworker-scheduled-other", "x"]);
    let _: u64 = server.redis().ask(&["HSET", "hworker-meta:queues", "other", "1"]);
    let _: String = server.redis().ask(&["SET", "hworker-meta:deaths", "x"]);

    let found = doctor(&server);
    assert_eq!(found.code, 9, "{}", found.err);
    has(&found, "fail", &["scheduled and due for more than 5 s: 1"]);
    has(&found, "warn", &["default: records of ended jobs: 1, places of records: 2"]);
    has(&found, "warn", &["deleted jobs among the waiting ones: 1, counted: 7"]);
    has(&found, "fail", &["other: the key hworker-scheduled-other is a string and no zset"]);
    has(&found, "fail", &["keys: the key hworker-meta:deaths is a string and no list"]);
    // Nothing is mended without a yes.
    let before = server.redis().dump();
    assert_eq!(call(&server, &["doctor", "--repair"]).code, 6);
    assert_eq!(server.redis().dump(), before);

    let mended = call(&server, &["doctor", "--repair", "--yes", "--json"]);
    let left: Vec<_> = findings(&mended)
        .into_iter()
        .filter(|line| !line.starts_with("ok") && !line.contains("no worker serves it"))
        .collect();
    assert_eq!(left, Vec::<String>::new());
    let places: Vec<String> = server.redis().ask(&["ZRANGE", "hworker-failed-default", "0", "-1"]);
    assert_eq!(places, [members[1].clone()]);
    assert_eq!(server.redis().len("hworker-scheduled-default"), 0);
    assert_eq!(server.redis().len("hworker-jobs-default"), 2);
    assert_eq!(server.redis().keys("hworker-scheduled-other*").len(), 1, "its bytes are kept");
    let shown = call(&server, &["failed", "show", &id(&members[1])]);
    assert!(shown.code == 0 && shown.out.contains("no"), "{}", shown.err);
    let groups = call(&server, &["failed", "groups", "--json"]).json();
    assert_eq!(groups.iter().map(|group| group["count"].as_u64()).sum::<Option<u64>>(), Some(1));
    let audit = call(&server, &["audit", "--json"]).json();
    assert_eq!(audit.iter().filter(|entry| entry["action"] == "repair").count(), 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn ts16_lists_that_workers_do_not_see_are_found_and_entered_again() {
    // Somebody removed what says which lists have jobs, or made another type of it and let `--repair` set that aside -> their jobs stand
    // still until the doctor has them entered again.
    // Guard: `relist`, and the types of `:keys:` in `look_at_keys`.
    let server = sound();
    let lists = ["hworker-jobs-default:high+db", "hworker-jobs-default:low+mail=acme"];
    for (number, list) in lists.iter().enumerate() {
        let args = json!({"name": format!("n{number}"), "plan": []});
        let job = json!({"id": number.to_string(), "job": "act", "args": args}).to_string();
        let _: u64 = server.redis().ask(&["LPUSH", list, &job]);
    }
    let _worker = InProcess::run(server.worker().register::<act>());
    server.eventually("it is there", SOON, || server.redis().len("hworker-workers-default") == 1);
    has(&doctor(&server), "fail", &["lists that have jobs and into which no worker looks: 2"]);
    let _: String = server.redis().ask(&["SET", "hworker-jobs-default:keys:low+mail=", "x"]);
    has(&doctor(&server), "fail", &["the key hworker-jobs-default:keys:low+mail= is a string"]);
    let mended = call(&server, &["doctor", "--repair", "--yes", "--json"]);
    has(&mended, "ok", &["default: nothing is wrong"]);
    server.eventually("all ran", SOON, || server.ended("n0") == 1 && server.ended("n1") == 1);
    has(&doctor(&server), "ok", &["default: nothing is wrong"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn ts16_jobs_that_stand_nowhere_wait_again_or_free_their_keys() {
    // Somebody removed the list of jobs that are known by their ids, what was scheduled, and what a worker held: a list and a time can be
    // restored, of what ran only the key is left, which is freed. What stands where its id says is left alone, and so is what replaced another.
    // Guard: `orphans.lua`.
    let server = sound();
    let job = |name: &str| {
        act::with(name.into(), Vec::new()).unique(Unique::by(name)).on(server.client())
    };
    let _worker = server.worker_process(&[("HWORKER_CONCURRENCY", "1")]);
    let runs = act::with("runs".into(), vec![vec![Act::Gate("never".into())]]);
    let runs = runs.unique(Unique::by("runs")).on(server.client()).enqueue().await.expect("in");
    server.eventually("it runs", SOON, || server.begun("runs") == 1);
    let replaced = || {
        act::with("replaced".into(), Vec::new())
            .unique(Unique::by("replaced").on_conflict(OnConflict::Replace))
    };
    job("waits").enqueue().await.expect("enqueued");
    for _ in 0..2 {
        replaced().on(server.client()).enqueue().await.expect("enqueued");
    }
    job("later").delay(SOON * 100).enqueue().await.expect("enqueued");
    has(&doctor(&server), "ok", &["default: nothing is wrong"]);
    let worker: Vec<String> = server.redis().ask(&["ZRANGE", "hworker-workers-default", "0", "-1"]);
    let held = format!("hworker-progress-default:{}", worker[0]);
    for key in ["hworker-jobs-default:*", "hworker-scheduled-default", &held] {
        let _: u64 = server.redis().ask(&["DEL", key]);
    }
    let found = doctor(&server);
    has(&found, "fail", &["stand nowhere: 4", "3 can wait again", "of 1 nothing is left"]);
    let mended = findings(&call(&server, &["doctor", "--repair", "--yes", "--json"]));
    assert!(!mended.iter().any(|found| found.contains("stand nowhere")), "{mended:?}");
    assert!(server.inspect().find(&runs).await.expect("looked").is_none());
    let again = job("runs").submit().await.expect("submitted");
    assert_eq!(again.submitted, Submitted::New);
    let names = ["waits", "replaced", "later"];
    server.eventually("all ran", SOON, || names.iter().all(|name| server.ended(name) == 1));
    has(&doctor(&server), "ok", &["default: nothing is wrong"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn ts16_a_user_with_few_rights_sees_what_it_may() {
    // As the operator of `SECURITY.md`: the server is skipped, queues are looked at and mended.
    // Guard: `Findings::look`.
    let server = sound();
    let line = include_str!("../../../SECURITY.md")
        .lines()
        .find(|line| line.starts_with("ACL SETUSER hworker-operator "))
        .expect("the operator");
    let _: String = server.redis().ask(&line.split(' ').collect::<Vec<_>>());
    let _: String = server.redis().ask(&["SET", "hworker-groups-default", "x"]);
    let _: u64 = server.redis().ask(&["HSET", "hworker-meta:queues", "default", "1"]);
    let _: u64 = server.redis().ask(&["HSET", "hworker-stat-default", "husks", "3"]);
    let url = format!("{}?user=hworker-operator&pass=operator-password", server.url());
    let said = call(&server, &["doctor", "--repair", "--yes", "--json", "--url", &url]);
    assert_eq!(said.code, 0, "{}{}", said.out, said.err);
    has(&said, "skip", &["server", "info"]);
    has(&said, "skip", &["rights"]);
    has(&said, "ok", &["default: nothing is wrong"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn ts16_each_shard_is_looked_at() {
    // A queue over three shards: what is wrong in the last is found there, and mended once.
    // Guard: the loop over shards in `queue::look`.
    let server = sound();
    let client = hworker::Client::builder().redis_url(server.url()).shards("mail", 3);
    let client = client.build().expect("a client");
    let scheduled = "hworker-scheduled-mail#2.176";
    let _: u64 = server.redis().ask(&["ZADD", scheduled, "1", "{}"]);
    let _: u64 = server.redis().ask(&["HSET", "hworker-meta:queues", "mail", "1"]);
    let found = client.doctor().await.expect("looked");
    let repairs: Vec<_> = found.iter().filter_map(|finding| finding.repair.as_ref()).collect();
    assert_eq!(repairs.len(), 1, "{found:?}");
    assert_eq!(client.repair(repairs[0]).await.expect("mended"), 1);
    assert_eq!(server.redis().len(scheduled), 0);
    assert_eq!(client.repair(repairs[0]).await.expect("mended before"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn ts16_a_repair_that_comes_late_changes_nothing() {
    // Between the look and the repair a key of another type went, and jobs came under its name -> they stay.
    // Guard: the type in `set_aside.lua`.
    let server = sound();
    let _: String = server.redis().ask(&["SET", "hworker-jobs-default", "x"]);
    let _: String = server.redis().ask(&["SET", "hworker-meta:deaths", "x"]);
    let _: u64 = server.redis().ask(&["HSET", "hworker-meta:queues", "default", "1"]);
    let found = server.client().doctor().await.expect("looked");
    let repairs: Vec<_> = found.iter().filter_map(|finding| finding.repair.as_ref()).collect();
    assert_eq!(repairs.len(), 2, "{found:?}");
    for key in ["hworker-jobs-default", "hworker-meta:deaths"] {
        let _: u64 = server.redis().ask(&["DEL", key]);
        let _: u64 = server.redis().ask(&["LPUSH", key, "{}"]);
    }
    for repair in repairs {
        assert_eq!(server.client().repair(repair).await.expect("nothing to mend"), 0);
    }
    assert_eq!(server.redis().len("hworker-jobs-default"), 1);
    assert_eq!(server.redis().len("hworker-meta:deaths"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn crashes_what_a_dead_worker_held_is_written_down() {
    // A worker that is killed, beside one that goes on: its host and process, what it held, and the type that it died of.
    // Guard: `Client::write_death`.
    let server = sound();
    server.enqueue("neighbour", vec![vec![Act::Sleep(60_000)]]).await;
    let kill = act_once::with("killer".into(), vec![vec![Act::Sleep(300), Act::Kill], vec![]]);
    let killer = kill.on(server.client()).enqueue().await.expect("enqueued").to_string();
    let mut first = server.worker_process(&[("HWORKER_CONCURRENCY", "4")]);
    let pid = first.pid().to_string();
    assert!(first.wait(SOON).is_some(), "it kills itself");
    let second = server.worker_process(&[("HWORKER_CONCURRENCY", "4")]);
    server
        .eventually("it is written down", SOON, || server.redis().len("hworker-meta:deaths") == 1);
    let dead = call(&server, &["crashes", "--json"]).json();
    assert_eq!(dead.len(), 1);
    assert_eq!((dead[0]["pid"].as_str(), &dead[0]["jobs"]), (Some(&*pid), &2.into()));
    assert_eq!(dead[0]["types"], json!({"act": 1, "act_once": 1}));
    let held = dead[0]["held"].as_array().expect("a list");
    assert!(held.iter().any(|job| job["id"] == *killer && job["crashes"] == 1), "{held:?}");
    let said = call(&server, &["crashes"]);
    assert!(said.out.contains("\t2\tact 1, act_once 1"), "{}", said.out);
    // Garbage is left out.
    let _: u64 = server.redis().ask(&["LPUSH", "hworker-meta:deaths", "garbage", "{}"]);
    assert_eq!(call(&server, &["crashes", "--json"]).json().len(), 1);
    drop(second);
}

#[test]
fn ts16_an_audit_of_another_type_is_mended_first() {
    // Nothing can be written to the audit, so every other change is refused -> the repair of the audit needs no entry, and the others
    // have theirs.
    // Guard: `Repair::is_of_audit`.
    let server = sound();
    let _: String = server.redis().ask(&["SET", "hworker-meta:audit", "x"]);
    let _: String = server.redis().ask(&["SET", "hworker-jobs-default", "x"]);
    let _: u64 = server.redis().ask(&["HSET", "hworker-meta:queues", "default", "1"]);
    let said = call(&server, &["doctor", "--repair", "--yes"]);
    assert!(matches!(said.code, 0 | 8), "{}{}", said.out, said.err);
    for key in ["hworker-meta:audit", "hworker-jobs-default"] {
        let kind: String = server.redis().ask(&["TYPE", key]);
        assert_ne!(kind, "string", "{key}");
    }
    let entries: u64 = server.redis().ask(&["XLEN", "hworker-meta:audit"]);
    assert_eq!(entries, 2, "asked and done of the list");
}

#[tokio::test(flavor = "multi_thread")]
async fn ts16_a_delayed_follower_whose_holder_has_ended_is_where_it_should_be() {
    // It holds the key itself by now, and waits until it is due.
    // Guard: the timer in orphans.lua.
    let server = sound();
    let _worker = InProcess::run(server.worker().register::<act>());
    let by = || Unique::by("k").on_conflict(OnConflict::Follow);
    let holder = act::with("holds".into(), vec![vec![Act::Gate("go".into())]]).unique(by());
    holder.on(server.client()).enqueue().await.expect("enqueued");
    let late = act::with("late".into(), Vec::new()).unique(by()).delay(SOON * 100);
    late.on(server.client()).enqueue().await.expect("enqueued");
    server.open("go");
    server.eventually("the holder ends", SOON, || server.ended("holds") == 1);
    let follows = || server.redis().len("hworker-jobs-default:ids") == 1;
    server.eventually("one is left", SOON, follows);
    has(&doctor(&server), "ok", &["default: nothing is wrong"]);
}
