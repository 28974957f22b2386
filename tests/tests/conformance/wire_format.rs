//! What `docs/wire-format.md` says, its schemas, the golden files and what is really written are the same.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use hworker::{Context, Outcome, Priority, Unique};
use hworker_tests::{
    Act, DOCUMENTED_KEY, InProcess, Runs, TestServer, act, act_by_twos, act_of_key, act_once,
};
use jsonschema::{Registry, RegistryBuilder, Validator};
use serde_json::{Value, json};

const SOON: Duration = Duration::from_secs(10);
/// A worker that was killed is recovered within 8 s.
const RECOVERED: Duration = Duration::from_secs(15);
const HOUR: Duration = Duration::from_secs(3600);

/// The job of the document and of the golden files.
#[hworker::job]
pub(crate) async fn send_welcome(to: String, user_id: u64, context: Context, #[inject] runs: Runs) {
    runs.note("send_welcome", &format!("{to} {user_id}"), 0, &context);
}

/// Takes no arguments.
#[hworker::job]
pub(crate) async fn tick(context: Context, #[inject] runs: Runs) {
    runs.note("tick", "tick", 0, &context);
}

/// Is tried again much later, whatever it was asked.
#[hworker::job(backoff = "1h", aliases = ["decline"])]
fn refuse(to: String, user_id: u64) -> Outcome {
    let _ = (to, user_id);
    Outcome::Retry("not today".into())
}

/// A file of the repository.
pub(crate) fn repository(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

fn text(path: &str) -> String {
    std::fs::read_to_string(repository(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn golden(name: &str) -> String {
    text(&format!("tests/golden/{name}.json"))
}

/// What follows a heading of the document, up to the next one.
fn section(heading: &str) -> String {
    let document = text("docs/wire-format.md");
    let (_, rest) = document.split_once(&format!("\n## {heading}\n")).expect("the heading");
    rest.split("\n## ").next().unwrap_or(rest).to_owned()
}

fn schema(name: &str) -> Value {
    serde_json::from_str(&text(&format!("docs/{name}.schema.json"))).expect("a schema")
}

fn validator(name: &str) -> Validator {
    let envelope = schema("envelope");
    let uri = envelope["$id"].as_str().expect("an id").to_owned();
    let registry = Registry::new().add(uri, envelope).and_then(RegistryBuilder::prepare);
    let registry = registry.expect("the schemas can be resolved");
    let options = jsonschema::options().with_registry(&registry).offline();
    options.build(&schema(name)).expect("a schema")
}

/// The value, if it fits the schema.
#[track_caller]
fn fits(validator: &Validator, payload: &str) -> Value {
    let value = serde_json::from_str(payload).expect("JSON");
    let wrong: Vec<_> = validator
        .iter_errors(&value)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(wrong.is_empty(), "{}\n{payload}", wrong.join("\n"));
    value
}

fn scheduled(server: &TestServer, queue: &str) -> Vec<String> {
    let key = format!("hworker-scheduled-{queue}");
    server.redis().ask(&["ZRANGE", &key, "0", "-1"])
}

/// Of `send_welcome`; `bare` is of `tick`.
const ENVELOPES: [&str; 6] = ["minimal", "full", "retried", "crashed", "snoozed", "encrypted"];

#[test]
fn golden_files_fit_the_schemas_and_the_schemas_the_document() {
    let envelope = validator("envelope");
    for name in ENVELOPES.into_iter().chain(["bare"]) {
        fits(&envelope, &golden(name));
    }
    let full = fits(&envelope, &golden("full"));
    let failed = fits(&validator("record"), &golden("failed"));

    for (name, example, heading) in
        [("envelope", full, "The envelope"), ("record", failed, "The record of an ended job")]
    {
        let described = section(heading);
        for field in schema(name)["properties"].as_object().expect("fields").keys() {
            assert!(described.contains(&format!("`{field}`")), "`{field}` is described");
            assert!(example.get(field).is_some(), "`{field}` is in a golden file");
        }
    }
    let error = schema("envelope")["$defs"]["error"]["properties"].clone();
    for field in error.as_object().expect("fields").keys() {
        assert!(section("The envelope").contains(&format!("\n| `{field}` |")), "`{field}`");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn o10_golden_envelopes_run() {
    // Jobs queued by the previous release run: every form of an envelope that there ever was.
    // Guard: the defaults in `Envelope`.
    let server = TestServer::start();
    for name in ENVELOPES.into_iter().chain(["bare"]) {
        let _: u64 = server.redis().ask(&["LPUSH", "hworker-jobs-default", &golden(name)]);
    }
    let client = server.client_with_keys(&[DOCUMENTED_KEY]);
    let worker = server.worker().client(&client).register::<send_welcome>().register::<tick>();
    let _worker = InProcess::run(worker);
    server.eventually("all run", SOON, || server.runs_of("send_welcome").len() == ENVELOPES.len());
    server.eventually("without arguments too", SOON, || server.runs_of("tick").len() == 1);
    server.drained(SOON);
    let runs = server.runs_of("send_welcome");
    for name in ENVELOPES {
        let expected: Value = serde_json::from_str(&golden(name)).expect("JSON");
        let run = runs.iter().find(|run| expected["id"].as_str().is_none_or(|id| run.id == id));
        let run = run.unwrap_or_else(|| panic!("{name}: {runs:?}"));
        assert_eq!(run.what, "ada@example.org 42");
        if name != "minimal" {
            assert_eq!(u64::from(run.attempt), expected["attempt"].as_u64().unwrap_or(1), "{name}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_enqueue_writes_fits_the_schema() {
    let server = TestServer::start();
    let (envelope, client) = (validator("envelope"), server.client());
    let id = act::with("plain".into(), Vec::new()).on(client).enqueue().await.expect("enqueued");
    let plain: String = server.redis().ask(&["LINDEX", "hworker-jobs-default", "0"]);
    let plain = fits(&envelope, &plain);
    let enqueued_at = plain["enqueued_at"].clone();
    assert_eq!(
        plain,
        json!({
            "v": 1, "id": id.as_str(), "job": "act", "args": {"name": "plain", "plan": []},
            "enqueued_at": enqueued_at,
        })
    );

    let until = SystemTime::now() + HOUR;
    let all = act::with("all".into(), Vec::new()).on(client).queue("mail").delay(HOUR);
    let all = all.max_attempts(3).timeout(SOON).backoff("exp(1s, 10m)").retry_until(until);
    let all = all.priority(Priority::Low);
    let id = all.enqueue().await.expect("enqueued");
    let all = scheduled(&server, "mail").remove(0);
    let all = fits(&envelope, all.strip_prefix(":low\n").expect("its list"));
    let until = until.duration_since(SystemTime::UNIX_EPOCH).expect("a time").as_millis();
    let enqueued_at = all["enqueued_at"].clone();
    assert_eq!(
        all,
        json!({
            "v": 1, "id": id.as_str(), "job": "act", "args": {"name": "all", "plan": []},
            "ready_at": enqueued_at.as_u64().map(|at| at + 3_600_000),
            "enqueued_at": enqueued_at, "max_attempts": 3, "timeout": 10_000, "backoff": "exp(1s, 10m)",
            "retry_until": u64::try_from(until).expect("a time"), "priority": "low",
        })
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_worker_writes_back_fits_the_schema() {
    let server = TestServer::start();
    let later = u64::try_from(HOUR.as_millis()).expect("a time");
    let cases = [
        ("error", Act::Error("no route".into())),
        ("panic", Act::Panic("no index".into())),
        ("retry", Act::Retry("not yet".into())),
        ("timeout", Act::Sleep(later)),
        ("long", Act::Error("é".repeat(5_000))),
        ("snooze", Act::Snooze(later)),
    ];
    for (name, what) in &cases {
        let job = act::with((*name).into(), vec![vec![what.clone()]]).on(server.client());
        let timeout = if *name == "timeout" { Duration::from_millis(50) } else { HOUR };
        job.timeout(timeout).backoff("1h").enqueue().await.expect("enqueued");
    }
    let _worker = server.run_worker::<act>();
    server.eventually("all wait", SOON, || scheduled(&server, "default").len() == cases.len());
    let envelope = validator("envelope");
    for written in scheduled(&server, "default") {
        let written = fits(&envelope, &written);
        let name = written["args"]["name"].as_str().expect("a name");
        if name == "snooze" {
            assert_eq!((&written["snoozes"], &written["attempt"]), (&json!(1), &Value::Null));
            continue;
        }
        let error = &written["errors"][0];
        assert_eq!((&written["attempt"], &error["attempt"]), (&json!(2), &json!(1)), "{written}");
        let kind = if name == "long" { "error" } else { name };
        assert_eq!(error["kind"], kind, "{written}");
        assert_eq!(error["place"].is_string(), name == "panic", "{written}");
        if name == "long" {
            assert_eq!(error["message"], format!("{} [cut]", "é".repeat(2_000)));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_worker_parks_fits_the_schema() {
    let server = TestServer::start();
    let newer = r#"{"v":2,"id":"newer","job":"act_once","args":{}}"#;
    for payload in [&golden("minimal"), newer] {
        let _: u64 = server.redis().ask(&["LPUSH", "hworker-jobs-default", payload]);
    }
    let _worker = server.run_worker::<act_once>();
    let parked =
        || -> Vec<String> { server.redis().ask(&["ZRANGE", "hworker-parked-default", "0", "-1"]) };
    server.eventually("both wait", SOON, || parked().len() == 2);
    let envelope = validator("envelope");
    for written in parked() {
        if written.contains(r#""v":2"#) {
            assert_eq!(written, newer, "byte for byte");
        } else {
            // It came without an id, and equal ones would collapse.
            assert!(fits(&envelope, &written)["id"].is_string(), "{written}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_monitor_writes_fits_the_schema() {
    let server = TestServer::start();
    let waits = vec![vec![Act::Gate("go".into())]];
    let job = act::with("crashed".into(), waits).on(server.client());
    job.enqueue().await.expect("enqueued");
    let mut first = server.worker_process(&[("HWORKER_NAME", "first")]);
    server.eventually("it runs", SOON, || server.begun("crashed") == 1);
    first.kill();
    let _second = server.worker_process(&[("HWORKER_NAME", "second")]);
    server.eventually("it runs again", RECOVERED, || server.begun("crashed") == 2);
    let worker = server.runs_of("crashed")[1].worker.clone();
    let held: Vec<String> =
        server.redis().ask(&["HVALS", &format!("hworker-progress-default:{worker}")]);
    let held = fits(&validator("envelope"), &held[0]);
    assert_eq!(held["crashes"].as_array().map(Vec::len), Some(1), "{held}");
    assert!(held["crashes"][0]["worker"].as_str().is_some_and(|id| id.starts_with("first.")));
    assert_eq!(held.get("attempt"), None, "a crash costs no attempt");
    server.open("go");
    server.drained(SOON);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_kept_of_failed_jobs_fits_the_schema() {
    let server = TestServer::start();
    let client = server.client();
    let plan = |what: Act| vec![vec![what]];
    let panic = act_once::with("panic".into(), plan(Act::Panic("no index".into())));
    panic.on(client).enqueue().await.expect("enqueued");
    for (kind, what) in [
        ("failure", Act::Failure("declined".into())),
        ("error", Act::Fail("no such card".into())),
        ("retry", Act::Retry("busy".into())),
        ("timeout", Act::Sleep(60_000)),
    ] {
        let job = act::with(kind.into(), plan(what)).on(client).max_attempts(2);
        job.timeout(Duration::from_millis(500)).enqueue().await.expect("enqueued");
    }
    let late = act::with("deadline".into(), Vec::new()).on(client);
    late.retry_until(SystemTime::UNIX_EPOCH).enqueue().await.expect("enqueued");
    let mut first = server.worker_process(&[("RUST_BACKTRACE", "1")]);
    server.eventually("six failed", SOON, || server.redis().len("hworker-failed-default") == 6);
    act::with("crash".into(), plan(Act::Kill)).on(client).enqueue().await.expect("enqueued");
    assert!(first.wait(SOON).is_some_and(|status| !status.success()));
    let _second = server.worker_process(&[("HWORKER_CRASH_LIMIT", "1")]);
    let failed = || server.redis().len("hworker-failed-default");
    server.eventually("the seventh failed", RECOVERED, || failed() == 7);

    let records: Vec<String> = server.redis().ask(&["HVALS", "hworker-record-default"]);
    let validator = validator("record");
    let mut kinds = BTreeSet::new();
    for record in &records {
        let record = fits(&validator, record);
        let kind = record["kind"].as_str().expect("a kind").to_owned();
        assert_eq!(record["envelope"]["args"]["name"], kind, "{record}");
        let tried = if matches!(&*kind, "retry" | "timeout") { 2 } else { 1 };
        assert_eq!(record["attempts"], tried, "{record}");
        let errors = record["envelope"]["errors"].as_array().expect("errors");
        assert_eq!(errors.last().map(|error| &error["kind"]), Some(&record["kind"]), "{record}");
        assert_eq!(record["backtrace"].is_string(), kind == "panic", "{record}");
        assert_eq!(record["crashes"].is_array(), kind == "crash", "{record}");
        kinds.insert(kind);
    }
    assert_eq!(kinds.len(), 7, "{kinds:?}");
    for kind in kinds {
        assert!(section("The envelope").contains(&format!("`{kind}`")), "`{kind}` is described");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rewrite_keeps_every_byte_that_it_does_not_mean_to_change() {
    // Guard: `Rewrite` takes each value as it came, instead of reading and writing it.
    let server = TestServer::start();
    let before = golden("full").replace(r#""job":"send_welcome""#, r#""job":"decline""#);
    let _: u64 = server.redis().ask(&["LPUSH", "hworker-jobs-default", &before]);
    let _worker = server.run_worker::<refuse>();
    server.eventually("it waits", SOON, || scheduled(&server, "default").len() == 1);

    let after = scheduled(&server, "default").remove(0);
    // Of the list into which the worker has put it first.
    let after = after.strip_prefix(":high\n").expect("its list").to_owned();
    let before = before.replace(r#""attempt":2,"errors""#, r#""attempt":3,"errors""#);
    let ready_at = |text: &str| text.rsplit_once(r#""ready_at":"#).expect("a time").1.to_owned();
    let before = before.replace(&ready_at(&before), &ready_at(&after));
    let (head, tail) = before.split_once(r#"],"crashes""#).expect("errors, then crashes");
    let tail = format!(r#"],"crashes"{tail}"#);
    let added = after.strip_prefix(head).and_then(|rest| rest.strip_suffix(&*tail));
    let added = added.and_then(|added| added.strip_prefix(','));
    let added: Value = added.and_then(|added| serde_json::from_str(added).ok()).unwrap_or_default();
    assert_eq!((&added["attempt"], &added["kind"]), (&json!(2), &json!("retry")), "{after}");
    // An alias is counted under the name of its type.
    let counters = server.inspect().statistics(None).await.expect("statistics");
    assert_eq!(counters.get("retried:refuse"), Some(&1), "{counters:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_values_are_broken_and_do_not_fit_the_schema() {
    let server = TestServer::start();
    let schema = validator("envelope");
    let long = format!(r#""id":"{}""#, "x".repeat(201));
    let args = r#""args":{"to":"ada@example.org","user_id":42}"#;
    let with = |field: &str| format!(r#"{{"job":"send_welcome",{args},{field}}}"#);
    let mut wrong: Vec<String> = [
        r#""v":"1""#,
        r#""v":0"#,
        r#""id":"""#,
        r#""id":7"#,
        &long,
        r#""attempt":0"#,
        r#""attempt":"2""#,
        r#""args_v":0"#,
        r#""args_v":"2""#,
        r#""max_attempts":-1"#,
        r#""timeout":"5s""#,
        r#""backoff":"soon""#,
        r#""backoff":30"#,
        r#""priority":"soon""#,
        r#""priority":1"#,
        r#""retry_until":"tomorrow""#,
        r#""crashes":{}"#,
        r#""crashes":[1]"#,
    ]
    .map(with)
    .to_vec();
    wrong.push(format!("{{{args}}}"));
    wrong.push(r#"{"job":"send_welcome","args":null}"#.into());
    wrong.push(r#"{"job":"send_welcome","args":["ada@example.org",42]}"#.into());
    wrong.push(r#"[1,"id","send_welcome",{"to":"ada@example.org","user_id":42}]"#.into());
    for payload in &wrong {
        let value = serde_json::from_str(payload).expect("JSON");
        assert!(!schema.is_valid(&value), "{payload}");
    }
    // What no schema can see.
    wrong.push(r#"{"id":"7","job":"send_welcome"}"#.into());
    wrong.push(with(r#""job":"send_welcome""#));
    wrong.push(r#"{"id":"8","job":"send_welcome","args":{"to":"ada@example.org"}}"#.into());
    wrong.push(
        r#"{"id":"9","job":"send_welcome","args":{"to":"ada@example.org","user_id":-1}}"#.into(),
    );
    wrong.push("{".into());

    let nothing = [
        r#""id":null"#,
        r#""args_v":null"#,
        r#""max_attempts":null"#,
        r#""timeout":null"#,
        r#""backoff":null"#,
        r#""retry_until":null"#,
        r#""priority":null"#,
    ];
    let nothing = nothing.join(",");
    let fine = [r#""max_attempts":0"#, r#""snoozes":"x""#, r#""errors":"x""#, &nothing];
    let fine = fine.map(|field| format!(" {}\n", with(field)));

    for payload in wrong.iter().chain(&fine) {
        let _: u64 = server.redis().ask(&["LPUSH", "hworker-jobs-default", payload]);
    }
    // What does not fit is parked, and soon among the broken.
    let soon = server.worker().register::<send_welcome>().unknown_for(Duration::from_millis(1));
    let _worker = InProcess::run(soon);
    let broken = || server.redis().len("hworker-broken-default");
    server.eventually("all are set aside", SOON, || broken() == wrong.len() as u64);
    server
        .eventually("the others run", SOON, || server.runs_of("send_welcome").len() == fine.len());
    for payload in &wrong {
        let note: String = server.redis().ask(&["HGET", "hworker-broken-default", payload]);
        let mut parts = note.splitn(3, ' ');
        assert_eq!(parts.next(), Some("1"), "{note}");
        let at: u64 = parts.next().and_then(|at| at.parse().ok()).expect("a time");
        assert!(at.abs_diff(server.redis().time_us() / 1000) < 60_000, "{note}");
        let reason = parts.next().unwrap_or_default();
        assert!(!reason.is_empty() && !reason.contains("ada@"), "{note}");
    }
}

/// Of the worker whose keys are described.
const DESCRIBED: [(&str, &str); 3] =
    [("HWORKER_NAME", "web-1"), ("HWORKER_CONCURRENCY", "3"), ("HWORKER_KEEP_DONE", "1")];

/// A job that gave way to another of its key, which the worker has cancelled, and one that holds a limit.
async fn limit(server: &TestServer) {
    let superseded = "highest+!superseded";
    let envelope = r#"{"id":"superseded","job":"act","args":{"name":"none","plan":[]}}"#;
    let list = format!("hworker-jobs-default:{superseded}");
    let _: u64 = server.redis().ask(&["LPUSH", &list, envelope]);
    let lists = ["ZADD", "hworker-jobs-default:lists", "1000000000000000", superseded];
    let _: u64 = server.redis().ask(&lists);
    let cancelled = || server.redis().len("hworker-cancelled-default") == 1;
    server.eventually("it is cancelled", SOON, cancelled);
    let late = r#"{"id":"late","job":"act","args":{"name":"late","plan":[]},"expires_at":1,"keep":3600000}"#;
    let _: u64 = server.redis().ask(&["LPUSH", "hworker-jobs-default", late]);
    let expired = || server.redis().len("hworker-expired-default") == 1;
    server.eventually("it expired", SOON, expired);
    let holds = act_by_twos::with("holds".into(), vec![vec![Act::Gate("go".into())]]);
    holds.on(server.client()).enqueue().await.expect("enqueued");
    server.eventually("it runs", SOON, || server.begun("holds") == 1);
}

/// Jobs that stand in lists of their own, and what a worker notes of them; an order to workers; a lock.
async fn steer(server: &TestServer) {
    server.client().workers_of_label("another").scale(2).await.expect("ordered");
    let lock = server.client().lock("import", HOUR).await.expect("asked");
    assert!(lock.is_some());
    let low = act::with("low".into(), Vec::new()).on(server.client()).priority(Priority::Low);
    low.enqueue().await.expect("enqueued");
    // Known by its id, behind one that stands in the plain list.
    let unique = act::with("unique".into(), Vec::new()).unique(Unique::by("k"));
    unique.on(server.client()).enqueue().await.expect("enqueued");
    let each = act::with("each".into(), Vec::new()).on(server.client()).on_each();
    each.enqueue().await.expect("enqueued");
    // A batch as its keys are while a callback of it waits, and a note.
    let member = || act::with("member".into(), Vec::new());
    let batch = hworker::Batch::new("import").on(server.client()).on_settled(member());
    let batch = batch.enqueue().await.expect("enqueued");
    for (what, value) in [("done", "\u{1}"), ("bad", "\u{1}")] {
        let _: () = server.redis().ask(&["SET", &format!("hworker-batch-{batch}:{what}"), value]);
    }
    let fails = format!("hworker-batch-{batch}:fails");
    let _: u64 = server.redis().ask(&["RPUSH", &fails, "0 failed id"]);
    let note = format!("{batch} 0 good done id");
    let _: u64 = server.redis().ask(&["HSET", "hworker-jobs-default:notes", "1", &note]);
    let event = r#"{"kind":"done","job":"act","id":"1"}"#;
    let _: String =
        server.redis().ask(&["XADD", "hworker-jobs-default:events", "*", "w", "", "e", event]);
    // As of a body that reports.
    let _: u64 = server.redis().ask(&["HSET", "hworker-live-default:id", "each:1", "7"]);
    let _: u64 = server.redis().ask(&["RPUSH", "hworker-log-default:id", "{}"]);
    let undelivered = ["RPUSH", "hworker-jobs-default:undelivered", &note];
    let _: u64 = server.redis().ask(&undelivered);
    // One that is paused, of which a member was met.
    let open = hworker::Batch::new("open").on(server.client()).open().await.expect("opened");
    open.add("one", [member()]).await.expect("added");
    open.pause().await.expect("paused");
    let paused = format!("hworker-jobs-default:paused:{}", open.id());
    let _: u64 = server.redis().ask(&["RPUSH", &paused, "{}"]);
    // A bulk that is not committed.
    let staged = ["RPUSH", "hworker-jobs-default:staged:0190a6c2", "{}"];
    let _: u64 = server.redis().ask(&staged);
    let since = ["HSET", "hworker-jobs-default:control", "since:4", "1798761600000"];
    let _: u64 = server.redis().ask(&since);
    let of_key = act_of_key::with("key".into(), Some("k".into()), Vec::new());
    of_key.on(server.client()).enqueue().await.expect("enqueued");
    let limit = server.client().control("default").limit("act_of_key").of_key("k");
    limit.set(5).await.expect("set");
    let daily = act::with("daily".into(), Vec::new()).cron("@daily");
    server.client().control("default").cron("daily").upsert(daily).await.expect("set");
    server.client().mark_deploy("ada", "1.4.2").await.expect("marked");
    // As a rate is used up.
    for key in ["timers", "rates"] {
        let key = format!("hworker-jobs-default:{key}");
        let _: u64 = server.redis().ask(&["ZADD", &key, "1798761600000000", "act_by_rate"]);
    }
    // As it is resumed.
    let _: u64 = server.redis().ask(&["RPUSH", "hworker-jobs-default:gate", "!"]);
}

/// Each key has a row, and each row a key.
fn all_are_described(keys: &[String], worker: &str) {
    let described = section("Keys");
    let mut seen = BTreeSet::new();
    for key in keys {
        let digits = |part: &str| part.len() == 8 && part.bytes().all(|byte| byte.is_ascii_digit());
        let name = key.replace(worker, "<w>").replace("default", "<q>").replace("slow", "<q>");
        let name = name.replace("import", "<name>");
        let name = match name.split_once("-batch-") {
            Some((_, rest)) => format!("hworker-batch-<id>{}", &rest[32..]),
            None => name,
        };
        let name = match name.rsplit_once(':') {
            Some((stem, _)) if stem.ends_with(":pushed") || stem.ends_with(":paused") => {
                format!("{stem}:<batch>")
            }
            Some((stem, _)) if stem.ends_with(":staged") => format!("{stem}:<bulk>"),
            Some((stem, day)) if digits(day) => format!("{stem}:<YYYYMMDD>"),
            Some((stem, _)) if stem.contains("-chart-") => {
                "hworker-chart-<q>:<minutes>:<s>".to_owned()
            }
            Some((stem, "low" | "*" | "+act_of_key=k")) => format!("{stem}:<list>"),
            Some((stem, _))
                if ["job", "live", "log"]
                    .iter()
                    .any(|kind| stem == format!("hworker-{kind}-<q>")) =>
            {
                format!("{stem}:<id>")
            }
            Some((stem, _)) if stem.ends_with(":broadcast") => format!("{stem}:<id>"),
            Some((stem, "+act_of_key=")) => format!("{stem}:<group>"),
            _ => name,
        };
        assert!(described.contains(&format!("\n| `{name}` |")), "{key} is described as {name}");
        seen.insert(name);
    }
    let rows = described.lines().filter(|line| line.starts_with("| `")).count();
    assert_eq!(seen.len(), rows, "every key that is described exists: {seen:?}");
}

fn fields_of_limits_are_described(server: &TestServer) {
    let limits = section("Limits");
    for key in ["control", "overrides"] {
        let fields: Vec<String> =
            server.redis().ask(&["HKEYS", &format!("hworker-jobs-default:{key}")]);
        for field in fields.iter().filter(|field| !field.starts_with("since:")) {
            let what = field.split_once(':').map_or(&**field, |(what, _)| what);
            assert!(limits.contains(&format!("`{what}:<")), "{key} {field}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_and_fields_are_as_described() {
    let server = TestServer::start();
    let client = server.client();
    let mut worker = server.worker_process(&DESCRIBED);
    let push = |payload: &str| {
        let _: u64 = server.redis().ask(&["LPUSH", "hworker-jobs-default", payload]);
    };
    push("{");
    push(r#"{"id":"of-tomorrow","job":"of_tomorrow","args":{}}"#);
    for (name, what) in [
        ("done", Act::Note("done".into())),
        ("failed", Act::Failure("declined".into())),
        ("again", Act::RetryIn(3_600_000)),
        ("held", Act::Gate("go".into())),
    ] {
        act::with(name.into(), vec![vec![what]]).on(client).enqueue().await.expect("enqueued");
    }
    let settled = || {
        ["failed", "broken", "parked", "scheduled"]
            .iter()
            .all(|kind| server.redis().len(&format!("hworker-{kind}-default")) == 1)
    };
    server.eventually("all are settled", SOON, || settled() && server.begun("held") == 1);
    limit(&server).await;
    server.eventually("it waits", SOON, || {
        let clients: String = server.redis().ask(&["CLIENT", "LIST"]);
        clients.lines().any(|client| client.contains("flags=b") && client.contains("cmd=blmove"))
    });
    worker.stop();
    let beat = || -> String {
        let all: Vec<String> =
            server.redis().ask(&["ZRANGE", "hworker-workers-default", "0", "0", "WITHSCORES"]);
        all[1].clone()
    };
    let mut last = (beat(), Instant::now());
    server.eventually("it stands still, for more than a beat", SOON, || {
        if beat() != last.0 {
            last = (beat(), Instant::now());
        }
        last.1.elapsed() > Duration::from_secs(2)
    });
    let id = server.runs_of("held")[0].worker.clone();
    // One stays where it is, one the server hands to the worker, which cannot take it: its call to do so, sent along with
    // its wait, has been answered by the first of three.
    for _ in 0..3 {
        push(&golden("minimal"));
    }
    let inbox = format!("hworker-inbox-default:{id}");
    let _: String = server.redis().ask(&["LMOVE", "hworker-jobs-default", &inbox, "RIGHT", "LEFT"]);
    let later = act::with("later".into(), Vec::new()).on(client).queue("slow").delay(HOUR);
    later.enqueue().await.expect("enqueued");
    steer(&server).await;

    let entry = hworker::AuditEntry::new("ada", "retry", "default", "a job");
    client.audit(&entry).await.expect("written");
    // What is written when a worker dies is in `features::doctor`.
    let _: u64 = server.redis().ask(&["LPUSH", "hworker-meta:deaths", "{}"]);

    let keys = server.redis().keys("hworker-*");
    all_are_described(&keys, &id);

    let (label, random) = id.rsplit_once('.').expect("an id");
    assert_eq!((label, random.len()), ("web-1", 12), "{id}");
    let leases: Vec<String> =
        server.redis().ask(&["HKEYS", &format!("hworker-progress-default:{id}")]);
    let token: String = server.redis().ask(&["GET", "hworker-token-default"]);
    assert!(leases.contains(&server.runs_of("held")[0].token.to_string()), "{leases:?}");
    let token = token.strip_suffix('+').expect("it is marked");
    assert!(leases.iter().any(|lease| lease == token) && leases.len() == 3, "{leases:?}");
    let holds = format!("{}.+act_by_twos", server.runs_of("holds")[0].token);
    assert!(leases.contains(&holds), "{leases:?}");
    let held: Vec<String> = server.redis().ask(&["ZRANGE", "hworker-jobs-default:held", "0", "-1"]);
    assert_eq!(held, [holds.split('.').rev().collect::<Vec<_>>().join(" ").replace('+', "")]);
    fields_of_limits_are_described(&server);
    assert!(token.parse::<u64>().expect("a number") >= server.runs_of("held")[0].token);
    let ttl: i64 = server
        .redis()
        .ask(&["TTL", keys.iter().find(|key| key.contains("stat-default:")).expect("a day")]);
    assert!((89 * 86_400..=90 * 86_400).contains(&ttl), "{ttl}");

    worker.go_on();
    server.open("go");
    worker.terminate();
    assert!(worker.wait(SOON).is_some_and(|status| status.success()));
    let record = format!("hworker-worker-default:{id}");
    let started: u64 = server.redis().ask(&["HGET", &record, "started"]);
    assert!(started <= server.runs_of("held")[0].token / 1000, "{started}");
    for (key, heading) in [
        (format!("hworker-worker-default:{id}"), "Workers"),
        ("hworker-stat-default".to_owned(), "Statistics"),
    ] {
        let described = section(heading);
        let fields: Vec<String> = server.redis().ask(&["HKEYS", &key]);
        for field in fields.iter().map(|field| field.split(':').next().unwrap_or(field)) {
            assert!(described.contains(&format!("`{field}`")), "{key} {field}");
        }
    }
    let dead: u64 = server.redis().ask(&["HGET", &format!("hworker-worker-default:{id}"), "dead"]);
    assert!(dead.abs_diff(server.redis().time_us() / 1_000_000) < 60, "{dead}");
}
