//! Payloads that somebody pushed to harm: they end as broken with a reason, or run, and cost neither a worker nor its other
//! jobs anything.

use std::time::{Duration, Instant};

use hworker_tests::{Act, Process, TestServer};
use serde_json::json;

use crate::support::{SOON, counter, put, serving, wait_for_workers};

/// What a worker takes at most of payloads that it refuses, or that it runs, beside what it has anyway.
const MEMORY: u64 = 300_000_000;

fn push(server: &TestServer, payload: &[u8]) {
    let mut command = redis::cmd("LPUSH");
    command.arg("hworker-jobs-default").arg(payload);
    server.redis().run::<u64>(&command).expect("pushed");
}

/// The most memory that a process has used so far, in bytes.
fn peak_memory(process: &Process) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.pid()));
    let status = status.expect("the status of the worker");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("its memory");
    let kilobytes = line.split_whitespace().next().and_then(|number| number.parse().ok());
    kilobytes.unwrap_or(u64::MAX / 1024) * 1024
}

/// The worker is the one that it was, and runs what comes next.
fn goes_on(server: &TestServer, worker: &mut Process, within: Duration) {
    put(server, "after", vec![]);
    server.eventually("the worker goes on", within, || server.ended("after") == 1);
    assert!(worker.exited().is_none());
    assert_eq!(counter(server, "recovered"), 0, "nobody took it for dead");
    let memory = peak_memory(worker);
    assert!(memory < MEMORY, "{} MB", memory / 1_000_000);
}

fn nested(depth: usize) -> String {
    "[".repeat(depth) + &"]".repeat(depth)
}

/// An envelope whose arguments are those of `act` and something more, and which has these fields beside.
fn with(name: &str, args: &str, fields: &str) -> String {
    format!(r#"{{"job":"act","id":"{name}","args":{{"name":"{name}","plan":[]{args}}}{fields}}}"#)
}

#[test]
fn payloads_that_are_broken_say_why() {
    // Deep nesting, duplicate keys, bytes that are not UTF-8, NUL bytes, numbers that no type holds, in the envelope and in
    // the arguments -> broken with a reason that says what is wrong, and the jobs beside them run.
    // Guard: `Envelope::decode` and the decoding of arguments end in an error, whatever comes.
    let server = TestServer::start();
    // Arguments that do not fit are parked before.
    let mut worker = server.worker_process(&[("HWORKER_UNKNOWN_FOR", "1ms")]);
    wait_for_workers(&server, 1);
    let deep =
        format!(r#"{{"id":"1","job":"act","args":{{"name":"x","plan":{}}}}}"#, nested(1_000_000));
    let cases: Vec<(Vec<u8>, &str)> = vec![
        (deep.into(), "the arguments do not fit the job"),
        (nested(1_000_000).into(), "invalid type: sequence"),
        (r#"{"job":"#.repeat(200_000).into(), "invalid type: map"),
        (b"{\"job\":\"act\",\"args\":{\"name\":\"\xff\xfe\",\"plan\":[]}}".to_vec(), "not UTF-8"),
        (b"{\"job\":\"act\",\"args\":{\"name\":\"\0\",\"plan\":[]}}".to_vec(), "control character"),
        (with("x", r#","plan":[]"#, "").into(), "duplicate field `plan`"),
        (with("x", "", r#","job":"act""#).into(), "duplicate field `job`"),
        (with("x", "", r#","attempt":1e400"#).into(), "number out of range"),
        (with("x", "", r#","timeout":-1"#).into(), "invalid value: integer"),
        (with("x", "", r#","max_attempts":99999999999"#).into(), "invalid value: integer"),
        (with("x", "", r#","backoff":"99999999999999999999d""#).into(), "the field `backoff`"),
        (with(&"x".repeat(100_000), "", "").into(), "1 to 200 bytes"),
        (
            br#"{"id":"2","job":"act","args":{"name":"x","plan":[[{"Sleep":1e999}]]}}"#.to_vec(),
            "out of range",
        ),
        (
            br#"{"id":"3","job":"act","args":{"name":"\ud800","plan":[]}}"#.to_vec(),
            "end of hex escape",
        ),
    ];
    for (payload, _) in &cases {
        push(&server, payload);
    }
    put(&server, "beside", vec![]);
    let broken = || server.redis().len("hworker-broken-default");
    server.eventually("all are broken", SOON, || broken() == cases.len() as u64);
    server.eventually("the one beside them ran", SOON, || server.ended("beside") == 1);
    for (payload, reason) in &cases {
        let mut ask = redis::cmd("HGET");
        ask.arg("hworker-broken-default").arg(payload);
        let kept: String = server.redis().run(&ask).expect("kept byte for byte");
        assert!(kept.contains(reason), "{kept} does not say {reason}");
        assert!(kept.len() < 700, "{kept}");
    }
    goes_on(&server, &mut worker, SOON);
}

#[test]
fn payloads_that_are_strange_but_right_run() {
    // What an envelope may say: fields that nobody knows, deep, twice or with numbers beyond every type; limits at their
    // ends; a million attempts in its plan; 16 MB less one byte -> each runs, is retried with all of it kept, and is done.
    // Guard: what is not known is passed over and never parsed into a value; times are added without overflow.
    let server = TestServer::start();
    let mut worker = server.worker_process(&[]);
    wait_for_workers(&server, 1);
    let most = u64::MAX;
    let strange = [
        with("deep", "", &format!(r#","x":{}"#, nested(100_000))),
        with("twice", "", r#","x":1,"x":[1,2 ,3]"#),
        with("beyond", "", r#","x":1e999,"y":-0.000e-999999,"z":123456789012345678901234567890"#),
        with(
            "long",
            "",
            &format!(r#","timeout":{most},"retry_until":{most},"enqueued_at":{most}"#),
        ),
        with("short", "", r#","max_attempts":0"#),
        with("last", "", r#","attempt":4294967295,"max_attempts":4294967295"#),
        with("future", "", &format!(r#","crashes":[{{"at":{most},"worker":"w"}}]"#)),
        with("escaped", "", r#","\u0078":"\u0000","later":18446744073709551615"#),
        with("more", &format!(r#","more":{}"#, nested(100_000)), ""),
        with("wide", &format!(r#","more":[0{}]"#, ",0".repeat(1_000_000)), ""),
    ];
    for payload in &strange {
        push(&server, payload.as_bytes());
    }
    // Retried once, so it is rewritten.
    let plan = json!([[Act::Retry("again".into())], []]);
    let fields = format!(r#","x":1e999,"y":{},"timeout":{most}"#, nested(1_000));
    let again =
        format!(r#"{{"job":"act","id":"again","args":{{"name":"again","plan":{plan}}}{fields}}}"#);
    push(&server, again.as_bytes());
    let attempts = vec![Vec::<Act>::new(); 1_000_000];
    put(&server, "attempts", attempts);
    let limit = 16 * 1024 * 1024;
    let large = |bytes: usize| {
        let rest = with("large", r#","more":"""#, "").len();
        with("large", &format!(r#","more":"{}""#, "x".repeat(bytes - rest)), "")
    };
    push(&server, large(limit - 1).as_bytes());

    let names = ["deep", "twice", "beyond", "long", "short", "last", "future", "escaped", "more"];
    for name in names.iter().chain(&["wide", "again", "attempts", "large"]) {
        server.eventually(name, 2 * SOON, || server.ended(name) == 1);
    }
    assert_eq!((server.begun("again"), counter(&server, "broken")), (2, 0));
    goes_on(&server, &mut worker, SOON);
}

#[test]
fn payloads_of_hundreds_of_megabytes_are_never_read_by_a_worker() {
    // One that is larger than all that a worker has, pushed while it waits at the server, and several that are more than a
    // script should hold at once, pushed while it is busy -> all are broken, the worker has read no more of one than a job
    // may have, and what waits behind them runs.
    // Guard: `reserve.lua` sets aside what is larger than `max_payload`, and pops few at a time; the answer of a wait, which
    // would bring the payload, is left out or bounded.
    let server = TestServer::start();
    let mut worker = server.worker_process(&[("HWORKER_CONCURRENCY", "1")]);
    wait_for_workers(&server, 1);
    let waits = || {
        let list: String = server.redis().ask(&["CLIENT", "LIST", "TYPE", "normal"]);
        list.contains("cmd=blmove")
    };
    server.eventually("it waits", SOON, waits);
    let broken = || server.redis().len("hworker-broken-default");
    push(&server, &vec![b'x'; 200_000_000]);
    server.eventually("it is set aside", 3 * SOON, || broken() == 1);
    let _: u64 = server.redis().ask(&["DEL", "hworker-broken-default"]);

    put(&server, "busy", vec![vec![Act::Gate("go".into())]]);
    server.eventually("it is busy", SOON, || server.begun("busy") == 1);
    for number in 0..12 {
        push(&server, &vec![b'a' + number; 24_000_000]);
    }
    put(&server, "behind", vec![]);
    server.open("go");
    let start = Instant::now();
    server.eventually("the one behind them runs", 3 * SOON, || server.ended("behind") == 1);
    println!("12 payloads of 24 MB were set aside within {:?}", start.elapsed());
    assert_eq!(broken(), 12);
    goes_on(&server, &mut worker, SOON);
    let memory = peak_memory(&worker);
    assert!(memory < 150_000_000, "{} MB", memory / 1_000_000);
    assert_eq!(serving(&server).len(), 1);
}

#[test]
fn a_key_of_another_type_holds_up_only_what_needs_it() {
    // Somebody makes another type of a key that a job at its end needs -> that job waits under its lease, a hundred others come to their
    // ends meanwhile; what is wrong is logged; when the key is gone the job ends as it was to, once.
    // Guard: `Queue::settle` sends ends apart by their needs, settle.lua and release.lua look at no more than these.
    let plan = |act| Some(vec![vec![act], vec![]]);
    for (key, plan, counter_of_end) in [
        ("failed", plan(Act::Failure("no".into())), "failed"),
        ("scheduled", plan(Act::RetryIn(100)), "retried"),
        ("bell", plan(Act::RetryIn(100)), "retried"),
        ("broken", None, "broken"),
        ("parked", None, "parked"),
    ] {
        let server = TestServer::start();
        let _worker =
            server.worker_process(&[("HWORKER_CONCURRENCY", "2"), ("HWORKER_LOG", "info")]);
        wait_for_workers(&server, 1);
        let wrong = format!("hworker-{key}-default");
        // The bell comes and goes.
        server.eventually("it is set", SOON, || {
            server.redis().ask::<u64>(&["DEL", &wrong]);
            server.redis().ask::<u64>(&["SETNX", &wrong, "somebody else's"]) == 1
        });
        match plan {
            Some(plan) => drop(put(&server, "held up", plan)),
            None if key == "parked" => push(&server, br#"{"id":"1","job":"nobody","args":{}}"#),
            None => push(&server, b"{"),
        }
        let leased = || {
            let mut redis = server.redis();
            let keys = redis.keys("hworker-progress-default:*");
            keys.iter().map(|key| redis.len(key)).sum::<u64>()
        };
        let log =
            || std::fs::read_to_string(server.dir().join("process-0.log")).unwrap_or_default();
        server.eventually("it is refused", SOON, || log().contains("results cannot be written"));
        assert!(log().contains(&wrong), "{}", log());
        let start = Instant::now();
        for _ in 0..100 {
            put(&server, "other", vec![]);
        }
        server.eventually("the others end", SOON, || counter(&server, "processed") == 100);
        println!("{key}: a hundred ended within {:?}", start.elapsed());
        assert_eq!((leased(), counter(&server, counter_of_end)), (1, 0), "{key}");
        server.redis().ask::<u64>(&["DEL", &wrong]);
        server.eventually("it ends", SOON, || counter(&server, counter_of_end) == 1);
        server.eventually("no lease is left", SOON, || leased() == 0);
    }
}

#[test]
fn a_payload_that_is_too_large_and_cannot_be_set_aside_waits() {
    // The hash of broken payloads is of another type, and a payload comes that is larger than a worker takes -> it waits, nothing is
    // lost, and what was before it runs; when the key is gone it is set aside, and what is behind it runs.
    // Guard: `sets_aside` in reserve.lua.
    let server = TestServer::start();
    let broken = "hworker-broken-default";
    server.redis().ask::<String>(&["SET", broken, "somebody else's"]);
    put(&server, "before", vec![]);
    push(&server, &[b'x'; 12_000]);
    put(&server, "behind", vec![]);
    let _worker =
        server.worker_process(&[("HWORKER_MAX_PAYLOAD", "1000"), ("HWORKER_LOG", "info")]);
    server.eventually("the first runs", SOON, || server.ended("before") == 1);
    let waits = || server.redis().len("hworker-jobs-default") == 2 && server.begun("behind") == 0;
    server.eventually("it waits", SOON, waits);
    server.holds("it waits", Duration::from_secs(1), || server.begun("behind") == 0);
    server.redis().ask::<u64>(&["DEL", broken]);
    server.eventually("it is set aside", SOON, || server.redis().len(broken) == 1);
    server.eventually("the last runs", SOON, || server.ended("behind") == 1);
}

#[test]
fn counters_that_cannot_be_counted_up_begin_anew() {
    // The counters are of another type, a text, or at the end of the numbers -> jobs go on as fast as ever, the counters begin anew, and
    // that is logged once for each.
    // Guard: `count_up` in settle.lua.
    let server = TestServer::start();
    let worker = server.worker_process(&[("HWORKER_LOG", "info")]);
    wait_for_workers(&server, 1);
    let stat = "hworker-stat-default";
    let log = || std::fs::read_to_string(server.dir().join("process-0.log")).unwrap_or_default();
    let most = i64::MAX.to_string();
    let wrong: [&[&str]; 4] = [
        &["SET", stat, "somebody else's"],
        &["HSET", stat, "processed", "many"],
        &["HSET", stat, "processed", "1.5"],
        &["HSET", stat, "processed", &most],
    ];
    for (times, wrong) in (1..).zip(wrong) {
        redis_any(&server, wrong);
        put(&server, "first", vec![]);
        server.eventually("it is counted anew", SOON, || {
            server.ended("first") == times && counter_text(&server) == "1"
        });
        for _ in 0..20 {
            put(&server, "after", vec![]);
        }
        server.eventually("all are counted", SOON, || counter_text(&server) == "21");
        let told = log().matches("begins anew: hworker-stat-default processed").count();
        assert_eq!(told, times, "{}", log());
    }
    drop(worker);
}

/// Asks the server, whatever it answers.
fn redis_any(server: &TestServer, command: &[&str]) {
    let _: redis::Value = server.redis().ask(command);
}

/// The counter as it is there, whatever that is.
fn counter_text(server: &TestServer) -> String {
    let mut redis = server.redis();
    let kind: String = redis.ask(&["TYPE", "hworker-stat-default"]);
    let hash = kind == "hash";
    let text: Option<String> =
        if hash { redis.ask(&["HGET", "hworker-stat-default", "processed"]) } else { None };
    text.unwrap_or_default()
}

/// The lines of a log that say this, as how many jobs each is about.
fn told(log: &str, says: &str) -> Vec<u64> {
    let lines = log.lines().filter(|line| line.contains(says));
    let jobs = |line: &str| {
        let (_, jobs) = line.rsplit_once(" jobs=")?;
        jobs.split_whitespace().next()?.parse().ok()
    };
    lines.map(|line| jobs(line).unwrap_or_else(|| panic!("how many is not said: {line}"))).collect()
}

#[test]
fn payloads_that_are_too_large_are_told_of() {
    // More than `max_payload`, one by one to an idle worker, which waits for them -> one line says how large they may be, and all
    // lines together how many there were; that the server sets them aside is not taken for a wait that is refused.
    // Guard: `reserve.lua` counts them, `report_set_aside` is called for what waits bring too.
    let server = TestServer::start();
    let settings = [("HWORKER_LOG", "info"), ("HWORKER_MAX_PAYLOAD", "1000")];
    let mut worker = server.worker_process(&settings);
    wait_for_workers(&server, 1);
    let start = Instant::now();
    for number in 1..=20 {
        push(&server, format!("{number}{}", "s3cret".repeat(2_000)).as_bytes());
        server.eventually("it is set aside", SOON, || counter(&server, "broken") == number);
    }
    worker.terminate();
    assert!(worker.wait(SOON).expect("it ends").success());
    let log = std::fs::read_to_string(server.dir().join("process-0.log")).unwrap_or_default();
    let told = told(&log, "it is larger than max_payload (1000 bytes)");
    assert_eq!((told.first(), told.iter().sum::<u64>()), (Some(&1), 20), "{log}");
    // One at once, one every 5 s, and what is left at the end.
    let at_most = start.elapsed().as_secs() as usize / 5 + 2;
    assert!(told.len() <= at_most, "{} lines, not {at_most}: {log}", told.len());
    assert!(!log.contains("s3cret") && !log.contains("wait for jobs"), "{log}");
}

#[test]
fn payloads_that_are_broken_or_unknown_do_not_flood_the_log() {
    // Hundreds at once that cannot be decoded, that no job fits, and of names that nobody knows, different each -> the
    // first of each kind is logged at once, then a line every 5 s at most; together they tell of all, also of the last, for
    // which no other comes. Nothing of the payloads is in them. What is left when the worker stops is told then.
    // Guard: `LogLimit::warn` counts what comes too soon, `keep_telling` and `tell_all` write it later.
    const EACH: u64 = 300;
    let server = TestServer::start();
    let mut worker = server.worker_process(&[("HWORKER_LOG", "info")]);
    wait_for_workers(&server, 1);
    let log = || std::fs::read_to_string(server.dir().join("process-0.log")).unwrap_or_default();
    let kinds = [": a job is broken: ", ": the arguments do not fit ", ": unknown job "];
    let flood = |round: u64| {
        for number in 0..EACH {
            push(&server, format!("{{s3cret-{round}-{number}").as_bytes());
            let args = format!(r#"{{"job":"act","args":{{"name":"s3cret-{round}-{number}"}}}}"#);
            push(&server, args.as_bytes());
            let name = format!(r#"{{"job":"n{round}_{number}","args":{{"s3cret":1}}}}"#);
            push(&server, name.as_bytes());
        }
    };
    let start = Instant::now();
    flood(1);
    let at_once = || kinds.iter().all(|kind| told(&log(), kind).first() == Some(&1));
    server.eventually("the first of each is told", SOON, at_once);
    let all = |rounds: u64| {
        move |log: &str| {
            kinds.iter().all(|kind| told(log, kind).iter().sum::<u64>() == rounds * EACH)
        }
    };
    server.eventually("all are told", 2 * SOON, || all(1)(&log()));
    let at_most = start.elapsed().as_secs() / 5 + 2;
    for kind in kinds {
        let lines = told(&log(), kind).len() as u64;
        assert!((2..=at_most).contains(&lines), "{lines} lines of `{kind}`, not {at_most}");
    }

    flood(2);
    let settled = || {
        let parked = server.redis().len("hworker-parked-default");
        counter(&server, "broken") == 2 * EACH && parked == 4 * EACH
    };
    server.eventually("all are settled", SOON, settled);
    worker.terminate();
    assert!(worker.wait(SOON).expect("it ends").success());
    assert!(all(2)(&log()), "{}", log());
    assert!(!log().contains("s3cret"), "{}", log());
}
