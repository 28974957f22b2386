//! The program `hworker`, as a person or a script calls it.

use std::io::Write;
use std::process::Stdio;

use hworker_tests::{Act, InProcess, TestServer, act};
use serde_json::Value;

use crate::SOON;

/// What must be shown nowhere.
const SECRET: &str = "4111-s3cret";

#[hworker::job(redact = "card")]
#[allow(clippy::unused_async)]
async fn pay(card: String, amount: u32) -> Result<(), String> {
    let _ = card;
    Err(format!("{amount} were declined"))
}

/// How a call ended, and what it said.
pub(crate) struct Said {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Said {
    pub(crate) fn lines(&self) -> Vec<Vec<&str>> {
        self.out.lines().map(|line| line.split('\t').collect()).collect()
    }

    pub(crate) fn json(&self) -> Vec<Value> {
        self.out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }
}

pub(crate) fn call(server: &TestServer, arguments: &[&str]) -> Said {
    call_with(server, arguments, "")
}

fn call_with(server: &TestServer, arguments: &[&str], input: &str) -> Said {
    let mut command = server.command("hworker");
    command.args(arguments).env("USER", "ada").env("HOSTNAME", "desk");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    let mut stdin = child.stdin.take().expect("its input");
    // It need not read it.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    let output = child.wait_with_output().expect("it ends");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    let code = output.status.code().expect("a code");
    Said { code, out: text(output.stdout), err: text(output.stderr) }
}

/// Of `act`, which fails with this message.
async fn fail(server: &TestServer, message: &str) -> String {
    let before = server.counter("failed");
    let plan = vec![vec![Act::Failure(message.into())]];
    let id = server.enqueue("fails", plan).await.to_string();
    server.eventually("it has failed", SOON, || server.counter("failed") > before);
    id
}

#[tokio::test(flavor = "multi_thread")]
async fn ts12_stats_queues_and_workers() {
    // Every queue, and every worker, in a line; as JSON with the fields that are documented.
    // Guard: `queues::stats`.
    let server = TestServer::start();
    let _worker = InProcess::run(server.worker().register::<act>().concurrency(2));
    fail(&server, "declined").await;
    server.enqueue("held", vec![vec![Act::Gate("end".into())]]).await;
    server.eventually("it runs", SOON, || server.begun("held") == 1);
    let later = act::with("later".into(), Vec::new()).on(server.client());
    later.delay(std::time::Duration::from_secs(3600)).enqueue().await.expect("enqueued");

    let said = call(&server, &["stats"]);
    assert_eq!((said.code, said.err.as_str()), (0, ""));
    // How much ends, and how long it takes, is known some seconds later: `charts` tests it.
    let line = said.lines().remove(0);
    assert_eq!(line[..9], ["default", "0", "-", "1", "1", "0", "1", "0", "1"]);
    assert_eq!((line.len(), line[13]), (14, ""));
    let row = &call(&server, &["stats", "--json"]).json()[0];
    assert_eq!(
        (&row["name"], &row["running"], &row["failed"]),
        (&"default".into(), &1.into(), &1.into())
    );
    let shown = call(&server, &["queues", "show", "default"]);
    assert!(shown.out.contains("declined") && shown.out.contains("scheduled  1"), "{}", shown.out);

    let workers = call(&server, &["workers", "ls"]);
    let id = workers.lines()[0][0].to_owned();
    assert_eq!(workers.lines()[0][4..6], ["1", "2"]);
    let shown = call(&server, &["workers", "show", &id]);
    assert!(shown.out.contains("act attempt 1 for"), "{}", shown.out);
    assert_eq!(call(&server, &["workers", "show", "nobody"]).code, 3);
    assert_eq!(call(&server, &["stats", "--queue", "nothing"]).code, 3);
    server.open("end");
}

#[tokio::test(flavor = "multi_thread")]
async fn ct1_queues_are_paused_and_resumed() {
    // By name, for some time, and all; each stands in the audit; to do it twice is no error.
    // Guard: `queues::pause`.
    let server = TestServer::start();
    let _worker = InProcess::run(server.worker().register::<act>().concurrency(2));
    let ok = |arguments: &[&str]| {
        let said = call(&server, arguments);
        assert_eq!((said.code, said.err.as_str()), (0, ""), "{arguments:?}");
        said.out
    };
    for _ in 0..2 {
        assert!(ok(&["queues", "pause", "default"]).contains("paused"));
    }
    server.enqueue("waits", Vec::new()).await;
    assert_eq!(call(&server, &["stats"]).lines()[0][13], "paused");
    ok(&["queues", "pause", "default", "--for", "1h"]);
    let row = &call(&server, &["stats", "--json"]).json()[0];
    assert!(row["paused"]["until"].is_u64(), "{row}");
    let shown = call(&server, &["stats"]).lines()[0][13].to_owned();
    assert!(shown.starts_with("paused, ends in "), "{shown}");
    assert!(ok(&["queues", "resume", "default"]).contains("resumed"));
    server.eventually("it runs", SOON, || server.ended("waits") == 1);
    assert!(ok(&["queues", "resume", "default"]).contains("was not paused"));
    ok(&["queues", "pause", "--all"]);
    server.enqueue("all wait", Vec::new()).await;
    let resumed = call(&server, &["queues", "resume", "--all", "--json"]).json();
    assert_eq!(resumed[0]["resumed"], 1);
    server.eventually("it runs", SOON, || server.ended("all wait") == 1);
    for wrong in
        [&["queues", "pause"][..], &["queues", "pause", "a", "--all"], &["queues", "pause", "a b"]]
    {
        assert_eq!(call(&server, wrong).code, 2, "{wrong:?}");
    }
    let id = call(&server, &["workers", "ls"]).lines()[0][0].to_owned();
    for order in [&["quiet"][..], &["scale", "--slots", "3"], &["scale"], &["resume"]] {
        let told = ok(&[&["workers", order[0], &id], &order[1..]].concat());
        assert!(told.contains('1'), "{order:?}: {told}");
    }
    assert_eq!(call(&server, &["workers", "quiet", "nobody.0123456789ab"]).code, 3);
    assert_eq!(call(&server, &["workers", "quiet"]).code, 2);
    assert_ne!(call(&server, &["workers", "stop", &id]).code, 0, "without --yes");
    let audit = call(&server, &["audit", "--json", "--limit", "100"]).json();
    let actions: Vec<_> = audit.iter().filter_map(|entry| entry["action"].as_str()).collect();
    assert_eq!(actions.iter().filter(|action| **action == "pause").count(), 10, "{actions:?}");
    assert!(audit.iter().any(|entry| entry["what"] == "for 60m" && entry["queue"] == "default"));
    let id = call(
        &server,
        &[
            "enqueue",
            "act",
            "--args",
            r#"{"name":"x","plan":[]}"#,
            "--priority",
            "high",
            "--no-check",
        ],
    );
    assert_eq!(id.code, 0, "{}", id.err);
    server.eventually("it runs with its priority", SOON, || server.ended("x") == 1);
    assert_eq!(call(&server, &["enqueue", "act", "--priority", "soon"]).code, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn ts12_exit_codes() {
    // Guard: `Stop`; of the last two `CHANGES`.
    let server = TestServer::start();
    // It takes connections, and answers nothing.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let silent = format!("redis://{}", listener.local_addr().expect("an address"));
    let codes = [
        (0, vec!["stats"]),
        (2, vec!["stat"]),
        (2, vec!["top"]),
        (2, vec!["failed", "ls", "--limit", "0"]),
        (2, vec!["failed", "ls", "--cursor", "x"]),
        (2, vec!["failed", "ls", "--where", "nonsense"]),
        (2, vec!["failed", "retry"]),
        (3, vec!["jobs", "show", "none"]),
        (3, vec!["failed", "retry", "none"]),
        (4, vec!["stats", "--url", "redis://127.0.0.1:1"]),
        (2, vec!["stats", "--url", "nonsense://x"]),
        (4, vec!["stats", "--url", &silent, "--timeout", "300ms"]),
        (
            5,
            vec![
                "enqueue",
                "act",
                "--args",
                "{}",
                "--no-check",
                "--url",
                &silent,
                "--timeout",
                "300ms",
            ],
        ),
    ];
    for (code, arguments) in codes {
        let said = call(&server, &arguments);
        assert_eq!(said.code, code, "{arguments:?}: {}", said.err);
        assert_eq!(said.err.is_empty(), code == 0, "{arguments:?}: {}", said.err);
    }
    // Nothing is drawn where there is no terminal.
    let top = call(&server, &["top"]);
    assert!(top.out.is_empty() && top.err.contains("`hworker stats --watch`"), "{}", top.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn ts12_enqueue_is_checked_by_what_workers_wrote_down() {
    // Guard: `schema::check`.
    let server = TestServer::start();
    let _worker = InProcess::run(server.worker().register::<act>());
    server.eventually("its types are written down", SOON, || {
        server.redis().len("hworker-meta:jobs") == 1
    });
    let unknown = call(&server, &["enqueue", "atc", "--args", "{}"]);
    assert!(unknown.code == 3 && unknown.err.contains("they know: act"), "{}", unknown.err);
    for (args, said) in [
        ("{\"name\":\"x\"}", "\"plan\" is a required property"),
        ("{\"name\":7,\"plan\":[]}", "/name"),
        ("{", "no JSON"),
    ] {
        let wrong = call(&server, &["enqueue", "act", "--args", args]);
        assert!(wrong.code == 2 && wrong.err.contains(said), "{args}: {}", wrong.err);
    }
    let args = "{\"name\":\"by hand\",\"plan\":[]}";
    let enqueued = call_with(&server, &["enqueue", "act", "--args", "-", "--tag", "eu"], args);
    assert_eq!(enqueued.code, 0, "{}", enqueued.err);
    server.eventually("it ran", SOON, || server.ended("by hand") == 1);
    let unchecked = call(&server, &["enqueue", "of_tomorrow", "--no-check", "--queue", "later"]);
    assert_eq!(unchecked.code, 0, "{}", unchecked.err);
    assert_eq!(server.redis().len("hworker-jobs-later"), 1);
    let schema = call(&server, &["schema", "show", "act"]);
    assert!(schema.out.contains("tests/src/jobs.rs"), "{}", schema.out);
}

#[tokio::test(flavor = "multi_thread")]
async fn ts12_what_a_deploy_changes_of_job_types() {
    // What production printed is compared with what the workers of the new build wrote down; what breaks jobs that wait is code 1.
    // Guard: `JobType::changes`.
    let server = TestServer::start();
    let _worker = InProcess::run(server.worker().register::<act>().register::<pay>());
    server.eventually("its types are written down", SOON, || {
        server.redis().len("hworker-meta:jobs") == 2
    });
    let now = call(&server, &["schema", "ls", "--json"]);
    let diff = |before: &str| call_with(&server, &["schema", "diff", "-", "--json"], before);
    let same = diff(&now.out);
    assert_eq!((same.code, same.out.as_str(), same.err.as_str()), (0, "", ""));

    // Nothing that waits breaks: a type is new, and `pay` was called otherwise, took less time and one argument more.
    let [act, pay] = now.json().try_into().expect("two types");
    let change = |change: &dyn Fn(&mut Value, &mut Value)| {
        let mut pay = pay.clone();
        let mut schema = serde_json::from_str(pay["schema"].as_str().expect("text")).expect("JSON");
        change(&mut pay, &mut schema);
        pay["schema"] = schema.to_string().into();
        pay.to_string()
    };
    let before = change(&|pay, schema| {
        pay["timeout_ms"] = 1000.into();
        schema["properties"]["gone"] = true.into();
        let gone = serde_json::json!({ "name": "gone", "type": "bool", "optional": true });
        pay["parameters"].as_array_mut().expect("a list").push(gone);
    });
    let rows = diff(&before);
    assert_eq!((rows.code, rows.err.as_str()), (0, ""));
    let told: Vec<_> = rows.json().iter().map(Value::to_string).collect();
    let expected = [
        r#"{"breaks":false,"change":"changed","job":"pay","what":"timeout 120s, was 1s"}"#,
        r#"{"breaks":false,"change":"changed","job":"pay","what":"argument gone is gone"}"#,
        r#"{"breaks":false,"change":"new","job":"act","what":"on the queue default"}"#,
    ];
    assert_eq!(told, expected);

    // All that breaks them, from a file and as lines.
    let gone = act.to_string().replace("\"act\"", "\"other\"");
    let broken = change(&|pay, schema| {
        pay["aliases"] = vec!["charge"].into();
        pay["queue"] = "payments".into();
        schema["properties"]["amount"]["type"] = "string".into();
        schema["required"] = Value::Array(vec!["amount".into()]);
        pay["parameters"][0]["optional"] = true.into();
    });
    let file = server.dir().join("production.jsonl");
    std::fs::write(&file, format!("{broken}\n\n{gone}\n")).expect("written");
    let rows = call(&server, &["schema", "diff", file.to_str().expect("a path")]);
    assert_eq!(rows.code, 1, "{}", rows.err);
    assert_eq!(rows.err, "hworker: 5 of 6 changes would break jobs that wait\n");
    let expected = [
        ["pay", "changed", "yes", "alias charge is gone"],
        ["pay", "changed", "yes", "queue default, was payments, which no job type names any more"],
        ["pay", "changed", "yes", "argument card must be there now"],
        ["pay", "changed", "yes", "argument amount is integer, was string"],
        ["other", "gone", "yes", "no job type has this name or alias"],
        ["act", "new", "-", "on the queue default"],
    ];
    assert_eq!(rows.lines(), expected);

    for (text, why) in [("garbage", "-, line 1: no job type"), ("{}\n", "missing field `name`")] {
        let wrong = diff(text);
        assert!(wrong.code == 2 && wrong.err.contains(why), "{text}: {}", wrong.err);
    }
    let wrong = diff(&format!("{pay}\n\n{{\"name\":1}}"));
    assert!(wrong.code == 2 && wrong.err.contains("line 3: "), "{}", wrong.err);
    assert_eq!(call(&server, &["schema", "diff", "/nowhere"]).code, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn f11_f12_failed_jobs_are_mended_and_each_action_is_in_the_audit() {
    // Guard: `Context::audited` and `Context::confirm`.
    let server = TestServer::start();
    let _worker = InProcess::run(server.worker().register::<act>());
    let first = fail(&server, "smtp: 421 try again later").await;
    fail(&server, "another").await;
    fail(&server, "another").await;

    let listed = call(&server, &["failed", "ls", "--error", "421"]);
    assert_eq!(listed.lines().len(), 1);
    assert_eq!(listed.lines()[0][0], first);
    let groups = call(&server, &["failed", "groups", "--json"]).json();
    assert_eq!((groups.len(), &groups[0]["count"]), (2, &2.into()));

    // Two need a confirmation; without it, and in a dry run, nothing happens.
    let group = groups[0]["name"].as_str().expect("a name");
    assert_eq!(call(&server, &["failed", "delete", "--group", group]).code, 6);
    let dry = call(&server, &["failed", "delete", "--group", group, "--dry-run"]);
    assert!(dry.code == 0 && dry.out.contains("would delete 2 jobs"), "{}", dry.out);
    assert_eq!(server.redis().len("hworker-failed-default"), 3);
    let deleted = call(&server, &["failed", "delete", "--group", group, "--yes", "--json"]);
    assert_eq!((deleted.code, &deleted.json()[0]["done"]), (0, &2.into()));
    assert_eq!(server.redis().len("hworker-failed-default"), 1);

    // One is retried without a question, once.
    assert_eq!(call(&server, &["failed", "retry", &first]).code, 0);
    server.eventually("it ran again", SOON, || server.begun("fails") == 4);
    server.eventually("it failed again", SOON, || server.counter("failed") == 4);

    let audit = call(&server, &["audit", "--json"]).json();
    let told: Vec<_> = audit
        .iter()
        .rev()
        .map(|entry| (entry["action"].as_str(), entry["result"].as_str()))
        .map(|(action, result)| format!("{} {}", action.expect("a text"), result.expect("a text")))
        .collect();
    let expected = [
        "delete asked",
        "delete done 2, missing 0, changed 0",
        "retry asked",
        "retry done 1, missing 0, changed 0",
    ];
    assert_eq!(told, expected);
    assert!(audit.iter().all(|entry| entry["who"] == "ada@desk"), "{audit:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn en18_ts17_operate_37_what_a_job_type_hides_is_shown_nowhere() {
    // Guard: `output::hide`, and the audit's `what`.
    let server = TestServer::start();
    let _worker = InProcess::run(server.worker().register::<pay>());
    server.eventually("its types are written down", SOON, || {
        server.redis().len("hworker-meta:jobs") == 1
    });
    let pays = pay::with(SECRET.into(), 17).on(server.client()).max_attempts(1).tag("eu");
    let id = pays.meta("tenant", 7).enqueue().await.expect("enqueued").to_string();
    server.eventually("it has failed", SOON, || server.counter("failed") == 1);

    let dump = call(&server, &["jobs", "show", &id, "--dump"]);
    for told in ["17 were declined", "\"amount\":17", "eu", "tenant = 7", "attempt 1", "•••"]
    {
        assert!(dump.out.contains(told), "{told}: {}", dump.out);
    }
    let set = format!("args.card={SECRET}");
    let all = [
        dump,
        call(&server, &["failed", "ls"]),
        call(&server, &["failed", "ls", "--json"]),
        call(&server, &["failed", "show", &id, "--json"]),
        call(
            &server,
            &["jobs", "ls", "--state", "failed", "--where", &format!("args.card={SECRET}")],
        ),
        call(&server, &["jobs", "edit", &id, "--set", &set, "--yes"]),
        call(&server, &["audit", "--json"]),
        call(&server, &["audit"]),
    ];
    for said in all {
        assert_eq!(said.code, 0, "{}", said.err);
        assert!(
            !said.out.contains(SECRET) && !said.err.contains(SECRET),
            "{}{}",
            said.out,
            said.err
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn operate_39_nothing_rewrites_the_terminal() {
    // An escape sequence in every field that anybody may write.
    // Guard: `output::shown`.
    let server = TestServer::start();
    let evil = "\\u001b]52;c;ZXZpbA==\\u0007\\u009b31m\\u202e";
    let envelope = format!(
        r#"{{"id":"{evil}","job":"{evil}","args":{{"x":"{evil}"}},"tags":["{evil}"],"meta":{{"{evil}":1}},"errors":[{{"attempt":1,"at":1,"kind":"{evil}","message":"{evil}","worker":"{evil}"}}]}}"#
    );
    let id = "\u{1b}]52;c;ZXZpbA==\u{7}\u{9b}31m\u{202e}";
    let _: u64 = server.redis().ask(&["LPUSH", "hworker-jobs-default", &envelope]);
    let _: u64 = server.redis().ask(&["HSET", "hworker-broken-default", id, &format!("1 1 {id}")]);
    let _: u64 = server.redis().ask(&["HSET", "hworker-meta:queues", "default", "1"]);
    for arguments in [
        vec!["jobs", "ls"],
        vec!["jobs", "ls", "--json"],
        vec!["jobs", "show", id],
        vec!["jobs", "show", id, "--dump"],
        vec!["broken", "ls"],
        vec!["broken", "ls", "--json"],
        vec!["jobs", "show", "no\u{1b}ne"],
    ] {
        let said = call(&server, &arguments);
        for text in [&said.out, &said.err] {
            let raw = |c: char| (c.is_control() && c != '\n' && c != '\t') || c == '\u{202e}';
            assert!(!text.contains(raw), "{arguments:?}: {text:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn f13_broken_payloads_by_their_digests() {
    // Guard: `JobInfo::digest`.
    let server = TestServer::start();
    for payload in ["{\"one\"", "{\"two\"", "three"] {
        let _: u64 =
            server.redis().ask(&["HSET", "hworker-broken-default", payload, "2 5 no JSON"]);
    }
    let listed = call(&server, &["broken", "ls", "--json"]).json();
    assert_eq!(listed.len(), 3);
    let digest = listed[0]["digest"].as_str().expect("a digest");
    let raw = call(&server, &["broken", "show", digest, "--raw"]);
    assert!(["{\"one\"", "{\"two\"", "three"].contains(&&*raw.out), "{}", raw.out);
    assert_eq!(call(&server, &["broken", "requeue", digest, "--yes"]).code, 0);
    let queued: String = server.redis().ask(&["LINDEX", "hworker-jobs-default", "0"]);
    assert_eq!(queued, raw.out);
    assert_eq!(call(&server, &["broken", "requeue", digest, "--yes"]).code, 3);
    assert_eq!(call(&server, &["broken", "delete", "--reason", "no JSON"]).code, 6);
    assert_eq!(call(&server, &["broken", "delete", "--reason", "no JSON", "--yes"]).code, 0);
    assert_eq!(server.redis().len("hworker-broken-default"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn operate_38_what_others_wrote_is_shown_or_skipped() {
    // Keys of other types, garbage in every structure, and a manifest that is none.
    // Guard: `JobType::parse` and `Meta::jobs`.
    let server = TestServer::start();
    let mut redis = server.redis();
    let _: u64 = redis.ask(&["LPUSH", "hworker-jobs-default", "garbage", "{}", "[1]"]);
    let _: u64 = redis.ask(&["ZADD", "hworker-failed-default", "1", "no member of ours", "2", "x"]);
    let _: u64 = redis.ask(&["HSET", "hworker-record-default", "ours", "garbage"]);
    let _: u64 = redis.ask(&["HSET", "hworker-groups-default", "g", "garbage", "|failed", "x"]);
    let _: u64 = redis.ask(&["HSET", "hworker-meta:queues", "no name", "1", "default", "1"]);
    let large = "x".repeat(10 << 20);
    let _: u64 = redis.ask(&["HSET", "hworker-meta:jobs", "large", &large, "garbage", "{}"]);
    for arguments in [
        vec!["stats"],
        vec!["queues", "show", "default"],
        vec!["jobs", "ls"],
        vec!["failed", "ls"],
        vec!["failed", "groups"],
        vec!["schema", "ls"],
        vec!["workers", "ls"],
    ] {
        let said = call(&server, &arguments);
        assert_eq!(said.code, 0, "{arguments:?}: {}", said.err);
    }
    assert_eq!(call(&server, &["jobs", "ls"]).lines().len(), 3);
    let _: String = redis.ask(&["SET", "hworker-scheduled-default", "x"]);
    let said = call(&server, &["scheduled", "ls"]);
    assert!(said.code != 0 && said.err.contains("WRONGTYPE"), "{}", said.err);
}

#[test]
fn operate_38_a_manifest_is_no_weapon() {
    // A pattern that takes some engines for ever, and a schema that is somewhere else: anybody may have written them.
    // Guard: `schema::check`.
    let server = TestServer::start();
    let seen = server.redis().time_us() / 1000;
    let write = |name: &str, schema: &str| {
        let entry = serde_json::json!({
            "name": name, "queue": "default", "timeout_ms": 1, "max_attempts": 1, "schema": schema, "fingerprint": "", "seen": seen,
        });
        let entry = entry.to_string();
        let _: u64 = server.redis().ask(&["HSET", "hworker-meta:jobs", name, &entry]);
    };
    write("slow", r#"{"properties":{"x":{"pattern":"^(?=a)((a+)+)+$"}}}"#);
    write("far", r#"{"$ref":"http://127.0.0.1:1/schema.json"}"#);
    let args = format!(r#"{{"x":"{}!"}}"#, "a".repeat(5000));
    let began = std::time::Instant::now();
    assert_eq!(call(&server, &["enqueue", "slow", "--args", &args]).code, 2);
    assert_eq!(call(&server, &["enqueue", "far", "--args", &args]).code, 0);
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn operate_47_ten_thousand_queues() {
    // A queue for each tenant: a page of a hundred, others by their names, and nobody waits for it.
    // Guard: the limit in `queues::stats`.
    let server = TestServer::start();
    let mut fill = redis::pipe();
    for tenant in 0..10_000 {
        fill.hset("hworker-meta:queues", format!("tenant-{tenant}"), "1");
        fill.lpush(format!("hworker-jobs-tenant-{tenant}"), "{}");
    }
    let mut connection = redis::Client::open(server.url()).expect("a client");
    fill.query::<redis::Value>(&mut connection).expect("filled");
    let began = std::time::Instant::now();
    let said = call(&server, &["stats"]);
    assert_eq!((said.code, said.lines().len()), (0, 100));
    assert!(said.err.contains("9900 more queues"), "{}", said.err);
    assert_eq!(call(&server, &["queues", "ls", "--name", "tenant-777"]).lines().len(), 11);
    assert_eq!(call(&server, &["stats", "--queue", "tenant-42"]).lines().len(), 1);
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn operate_41_operate_42_how_long_a_job_waits() {
    // A job that is tried again, was delayed, put off, or let run by hand waits since it was due, and not since its first attempt; what
    // a producer's clock says of the future is no wait.
    // Guard: `ready_at` in `record::end`, `Enqueue::ready` and `change::ready`.
    let server = TestServer::start();
    let days_ago = server.redis().time_us() / 1000 - 3 * 86_400_000;
    let old = format!(
        r#"{{"id":"old","job":"act","args":{{"name":"old","plan":[[{{"RetryIn":600000}}],[]]}},"enqueued_at":{days_ago}}}"#
    );
    let _: u64 = server.redis().ask(&["LPUSH", "hworker-jobs-default", &old]);
    let waits = || {
        let said = call(&server, &["stats", "--json"]).json();
        let now = server.redis().time_us() / 1000;
        said[0]["oldest"].as_u64().map(|oldest| now.saturating_sub(oldest))
    };
    assert!(waits() >= Some(3 * 86_400_000), "{:?}", waits());
    let worker = InProcess::run(server.worker().register::<act>());
    server.eventually("it is to be tried again", SOON, || {
        server.redis().len("hworker-scheduled-default") == 1
    });
    worker.stop().await;
    assert_eq!(call(&server, &["scheduled", "promote", "old"]).code, 0);
    assert!(waits().is_some_and(|ms| ms < 60_000), "{:?}", waits());
    let ahead = server.redis().time_us() / 1000 + 3_600_000;
    let new = format!(r#"{{"id":"new","job":"act","args":{{}},"enqueued_at":{ahead}}}"#);
    let _: u64 = server.redis().ask(&["LPUSH", "hworker-jobs-ahead", &new]);
    let said = call(&server, &["stats", "--queue", "ahead"]);
    assert_eq!(said.lines()[0][2], "0ms", "{}", said.out);
    let delayed = act::with("delayed".into(), Vec::new()).queue("later").on(server.client());
    delayed.delay(std::time::Duration::from_millis(1)).enqueue().await.expect("enqueued");
    let envelope: Vec<String> =
        server.redis().ask(&["ZRANGE", "hworker-scheduled-later", "0", "0"]);
    let envelope: Value = serde_json::from_str(&envelope[0]).expect("JSON");
    let apart = envelope["ready_at"].as_u64().zip(envelope["enqueued_at"].as_u64());
    assert_eq!(apart.map(|(ready, enqueued)| ready - enqueued), Some(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn ob7_deploys_are_marked() {
    // A mark by hand -> it is listed with who set it, and in the audit; a text that is none is refused; of 250 the last 200 are kept.
    // Guard: `check_text` in deploys.rs; `DEPLOYS` in meta.rs.
    let server = TestServer::start();
    let said = call(&server, &["deploy", "mark", "1.4.2", "--json"]);
    assert_eq!((said.code, said.err.as_str()), (0, ""));
    let mark = &said.json()[0];
    assert_eq!((&mark["text"], &mark["who"]), (&"1.4.2".into(), &"ada@desk".into()));
    let listed = call(&server, &["deploy", "ls"]);
    assert_eq!(listed.lines()[0][1..], ["ada@desk", "1.4.2"]);
    let audit = call(&server, &["audit"]);
    assert_eq!(audit.lines()[0][1..], ["ada@desk", "mark", "", "1.4.2", "marked"]);
    for wrong in ["", "two\nlines"] {
        assert_eq!(call(&server, &["deploy", "mark", wrong]).code, 2, "{wrong:?}");
    }
    for number in 0..250 {
        server.client().mark_deploy("ci", &number.to_string()).await.expect("marked");
    }
    let marks = server.client().deploys().await.expect("the deploys");
    let texts: Vec<_> = marks.iter().map(|mark| mark.text.clone()).collect();
    assert_eq!(texts, (50..250).rev().map(|number| number.to_string()).collect::<Vec<_>>());
    assert!(marks.is_sorted_by_key(|mark| std::cmp::Reverse(mark.at)) && marks[199].at > 0);
}

#[test]
fn ts12_completions_and_the_manual_page() {
    let server = TestServer::start();
    for arguments in [vec!["completions", "bash"], vec!["completions", "zsh"], vec!["man"]] {
        let said = call(&server, &arguments);
        assert!(said.code == 0 && said.out.contains("failed"), "{arguments:?}");
    }
}

/// A record of a failed job, as a worker writes it, and its place.
fn record(server: &TestServer, id: &str, group: &str, at: u64, error: &str, args: &str) {
    let envelope = format!(r#"{{"v":1,"id":"{id}","job":"pay","args":{args}}}"#);
    let error = serde_json::to_string(error).expect("JSON");
    let record = format!(
        r#"{{"v":1,"id":"{id}","job":"pay","queue":"default","outcome":"failed","worker":"w","group":"{group}","kind":"error","message":{error},"ended_at":{at},"attempts":2,"envelope":{envelope}}}"#
    );
    let _: u64 = server.redis().ask(&["HSET", "hworker-record-default", id, &record]);
    let member = format!("{group} pay {id}");
    let _: u64 = server.redis().ask(&["ZADD", "hworker-failed-default", &at.to_string(), &member]);
}

#[test]
fn f11_an_id_means_a_job_in_the_state_of_the_command() {
    // Of two operators one lets a failed job run again, and the other deletes `the failed one` -> it waits still. What of several ids is
    // there is done.
    // Guard: `Of::Only`, and `missing` in `select`.
    let server = TestServer::start();
    record(&server, "one", "abc000000001", 1000, "declined", "{}");
    record(&server, "two", "abc000000001", 1000, "declined", "{}");
    assert_eq!(call(&server, &["failed", "retry", "one"]).code, 0);
    let late = call(&server, &["failed", "delete", "one", "--yes"]);
    assert!(
        late.code == 3 && late.err.contains("job one is waiting, and not failed"),
        "{}",
        late.err
    );
    assert_eq!(server.redis().len("hworker-jobs-default"), 1);
    assert_eq!(call(&server, &["scheduled", "delete", "two", "--yes"]).code, 3);
    let some = call(&server, &["--json", "failed", "retry", "one", "two"]);
    assert_eq!((some.code, &some.json()[0]["done"]), (1, &1.into()), "{}", some.err);
    assert_eq!(some.json()[0]["missing"], 1);
    assert_eq!(server.redis().len("hworker-jobs-default"), 2);
    let none = call(&server, &["failed", "retry", "--group", "abc000000001"]);
    assert!(none.code == 3 && none.err.contains("no job matches"), "{}", none.err);
}

#[test]
fn f13_a_filter_means_large_records_and_those_before_their_group() {
    // A record of 100 KB is found by its error, and records are found that are older than what is known of their group, as where it was
    // left out of the 500 for a while.
    // Guard: `asks_for_contents`, and the times of a group in `page.rs`.
    let server = TestServer::start();
    let large = format!(r#"{{"card":"{}"}}"#, "x".repeat(100_000));
    record(&server, "large", "abc000000001", 1000, "timed out", &large);
    record(&server, "early", "abc000000002", 1000, "declined", "{}");
    record(&server, "late", "abc000000002", 9000, "declined", "{}");
    let sample = r#"1 9000 9000 {"job":"pay","kind":"error","message":"declined","id":"late"}"#;
    let _: u64 = server.redis().ask(&["HSET", "hworker-groups-default", "abc000000002", sample]);
    let ids = |arguments: &[&str]| {
        let said = call(&server, &[&["failed", "ls"], arguments].concat());
        said.lines().iter().map(|row| row[0].to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(ids(&["--error", "timed out"]), ["large"]);
    assert_eq!(ids(&["--where", "attempt>=2 kind:error worker:w"]).len(), 3);
    assert_eq!(ids(&["--group", "abc000000002"]), ["late", "early"]);
    // The filter names the queue, and contradicts no other.
    assert_eq!(ids(&["--where", "queue:default error:declined"]).len(), 2);
    assert!(ids(&["--where", "queue:other error:declined"]).is_empty());
    let both = call(&server, &["failed", "ls", "-q", "mail", "--where", "queue:default"]);
    assert_eq!(both.code, 2, "{}", both.err);
}

#[test]
fn operate_38_half_a_character_blocks_no_page() {
    // Arguments and notes with half of a surrogate pair, as a producer in JavaScript cuts a text -> the job is listed without them, and all
    // others with theirs.
    // Guard: `readable`.
    let server = TestServer::start();
    for (id, rest) in [
        ("arguments", r#""args":{"card":"\ud83d"}"#),
        ("notes", r#""args":{},"meta":{"a":"\ud83d"}"#),
        ("whole", r#""args":{"amount":1}"#),
    ] {
        let envelope = format!(r#"{{"v":1,"id":"{id}","job":"pay",{rest}}}"#);
        let _: u64 = server.redis().ask(&["LPUSH", "hworker-jobs-default", &envelope]);
    }
    let said = call(&server, &["--json", "jobs", "ls"]);
    assert_eq!((said.code, said.json().len()), (0, 3), "{}", said.err);
    assert_eq!(call(&server, &["jobs", "ls"]).lines().len(), 3);
    for id in ["arguments", "notes"] {
        assert_eq!(call(&server, &["jobs", "show", id]).code, 0);
    }
}

#[test]
fn operate_37_arguments_of_an_unknown_type_are_not_shown() {
    // No worker has written down what may be shown, or somebody made that unreadable -> nothing is.
    // Guard: `None` of `redacted`.
    let server = TestServer::start();
    let _: u64 = server.redis().ask(&["HSET", "hworker-meta:jobs", "pay", "garbage"]);
    record(&server, "one", "abc000000001", 1000, "declined", &format!(r#"{{"card":"{SECRET}"}}"#));
    for arguments in [
        &["failed", "ls"][..],
        &["--json", "failed", "ls"],
        &["failed", "show", "one"],
        &["--json", "jobs", "show", "one"],
        &["jobs", "show", "one", "--dump"],
        &["failed", "retry", "one", "--dry-run"],
    ] {
        let said = call(&server, arguments);
        assert_eq!(said.code, 0, "{arguments:?}: {}", said.err);
        assert!(!(said.out + &said.err).contains(SECRET), "{arguments:?}");
    }
    let dump = call(&server, &["--json", "jobs", "show", "one", "--dump"]);
    assert_eq!(dump.json()[0]["job"]["id"], "one");
    assert_eq!(dump.json()[0]["queue"]["counts"]["failed"], 1);
}

#[test]
fn operate_39_previews_rewrite_no_terminal() {
    // What is to be changed is shown before, an id with a line end on one line.
    // Guard: `shown` in `confirm`, and in `tell`.
    let server = TestServer::start();
    let evil = "a\u{1b}]52;c;aGk=\u{7}b\u{9b}31m\u{202e}";
    record(&server, "forged\nline", "abc000000001", 1000, evil, "{}");
    record(&server, evil, "abc000000001", 1000, evil, "{}");
    for (arguments, code) in [
        (&["failed", "retry", "--all", "--dry-run"][..], 0),
        (&["failed", "delete", "--all"], 6),
        (&["failed", "delete", "--all", "--yes"], 0),
        (&["failed", "retry", evil], 3),
    ] {
        let said = call(&server, arguments);
        assert_eq!(said.code, code, "{arguments:?}: {}", said.err);
        let all = said.out + &said.err;
        let raw = |c: char| (c.is_control() && c != '\n' && c != '\t') || c == '\u{202e}';
        assert!(!all.contains(raw), "{arguments:?}: {all:?}");
        assert!(!all.lines().any(|line| line.starts_with("line")), "{all}");
    }
}

#[test]
fn operate_39_a_cell_of_megabytes_is_cut() {
    // The name of a job has 12 MB, and a terminal shows the table at once.
    // Guard: `CELL`.
    let server = TestServer::start();
    let envelope =
        format!(r#"{{"v":1,"id":"one","job":"{}","args":{{}}}}"#, "x".repeat(12_000_000));
    let _: u64 = server.redis().ask(&["LPUSH", "hworker-jobs-default", &envelope]);
    if !cfg!(target_os = "linux") {
        // There `script` is called otherwise.
        return;
    }
    let mut command = std::process::Command::new("script");
    let program = hworker_tests::binary("hworker");
    let line = format!("{} --url '{}' jobs ls", program.display(), server.url());
    let began = std::time::Instant::now();
    // Where there is no `script`, there is no terminal either.
    let Ok(output) = command.args(["-qec", &line, "/dev/null"]).stdin(Stdio::null()).output()
    else {
        return;
    };
    assert!(output.status.success());
    assert!(output.stdout.len() < 100_000, "{}", output.stdout.len());
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
}

#[test]
fn ts12_scripts_are_told_what_is_missing() {
    // An empty file is no list of job types, an unknown queue is not found, and what is enqueued is an object.
    let server = TestServer::start();
    let empty = call_with(&server, &["schema", "diff", "-"], "");
    assert!(empty.code == 2 && empty.err.contains("has no job types"), "{}", empty.err);
    assert_eq!(call(&server, &["queues", "show", "nothing"]).code, 3);
    let said = call(&server, &["--json", "enqueue", "any", "--args", "{}", "--no-check"]);
    assert!(said.json()[0]["id"].is_string(), "{}", said.out);
    assert_eq!(call(&server, &["queues", "show", "default"]).code, 0);
}
