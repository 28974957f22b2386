//! Rows I15, G5 and G6: queues, jobs and workers over HTTP, with credentials.

use hworker::web::{Access, Web};
use hworker::{Args, Batch, BoxError, Client, Context};
use hworker_tests::{Act, InProcess, Runs, TestServer, act};
use serde_json::{Value, json};

use crate::SOON;
use crate::site::{Site, TOKEN};

fn put(server: &TestServer, name: &str, plan: Vec<Vec<Act>>) -> String {
    let job = act::with(name.to_owned(), plan).on(server.client());
    job.enqueue_blocking().expect("enqueued").to_string()
}

fn worker(server: &TestServer) -> InProcess {
    InProcess::run(server.worker().registry(hworker_tests::common_jobs()))
}

/// A worker has written its types down.
async fn know_types(server: &TestServer, site: &Site) {
    let running = worker(server);
    server.eventually("the type is known", SOON, || site.get("/api/v1/types/act").status == 200);
    running.stop().await;
}

/// The results in the audit of an action, the newest first.
fn audited(site: &Site, action: &str) -> Vec<String> {
    let entries = site.get("/api/v1/audit").expect(200).json();
    let entries = entries["items"].as_array().expect("entries").iter();
    let of_action = entries.filter(|entry| entry["action"] == action && entry["who"] == "token");
    of_action.map(|entry| entry["result"].as_str().unwrap_or_default().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn i15_enqueue_list_requeue_cancel_and_pause_by_http() {
    // The whole way of a job by HTTP: enqueued with arguments that are checked, seen waiting, run, failed, retried, deleted.
    // Guard: each handler; the audit has an entry before and after each change.
    let server = TestServer::start();
    let site = Site::of(&server);
    let running = worker(&server);
    server.eventually("the type is known", SOON, || site.get("/api/v1/types/act").status == 200);
    site.post("/api/v1/queues/default/pause", &json!({})).expect(204);
    let new =
        json!({ "job": "act", "args": { "name": "one", "plan": [[{ "Failure": "no" }], []] } });
    let enqueued = site.post("/api/v1/queues/default/jobs", &new).expect(201).json();
    assert_eq!(enqueued["is_new"], true);
    let id = enqueued["id"].as_str().expect("an id").to_owned();
    let page = site.get("/api/v1/queues/default/jobs?state=waiting").expect(200).json();
    assert_eq!((&page["total"], &page["complete"]), (&json!(1), &json!(true)), "{page}");
    let job = &page["items"][0];
    assert_eq!(
        (&job["id"], &job["job"], &job["args"]["name"]),
        (&json!(id), &json!("act"), &json!("one"))
    );
    let resumed = site.post("/api/v1/queues/default/resume", &json!({})).expect(200).json();
    assert_eq!(resumed["was_paused"], true);
    let path = format!("/api/v1/queues/default/jobs/{id}");
    server.eventually("it failed", SOON, || site.get(&path).json()["state"] == "failed");
    let failed = site.get(&path).expect(200).json();
    assert_eq!((&failed["kind"], &failed["message"]), (&json!("failure"), &json!("no")));
    let groups = site.get("/api/v1/queues/default/groups").expect(200).json();
    assert_eq!(groups["items"][0]["count"], 1);
    // It was seen when it failed, and no other time.
    let seen = failed["at"].as_u64().expect("a time");
    let stale = site.post(&format!("{path}/retry?seen={}", seen - 1), &json!({})).expect(409);
    assert_eq!(stale.problem(), "changed");
    site.post(&format!("{path}/retry?seen={seen}"), &json!({})).expect(204);
    server.eventually("it ran again", SOON, || server.ended("one") == 1);
    assert_eq!(audited(&site, "retry"), ["done 1", "asked", "failed: Changed meanwhile", "asked"]);
    assert_eq!(audited(&site, "enqueue"), [format!("enqueued {id}"), "asked".into()]);
    let queue = site.get("/api/v1/queues/default").expect(200).json();
    assert_eq!((&queue["counts"]["failed"], &queue["workers"]), (&json!(0), &json!(1)), "{queue}");
    let queues = site.get("/api/v1/queues").expect(200).json();
    assert_eq!(queues["items"][0]["name"], "default");
    running.stop().await;
}

fn in_cents(_: u32, mut args: Args) -> Result<Args, BoxError> {
    let euros: u64 = args.get("euros")?;
    args.set("cents", euros * 100)?;
    Ok(args)
}

#[allow(clippy::unused_async)] // as most jobs are
#[hworker::job(version = 2, upgrade = in_cents)]
async fn donate(cents: u64, context: Context, #[inject] runs: Runs) {
    runs.note("donate", &cents.to_string(), 0, &context);
}

#[tokio::test(flavor = "multi_thread")]
async fn lc4_a_job_by_http_is_of_the_version_of_today() {
    // Enqueued by HTTP, checked and not -> it is of the version that workers wrote down; its version is shown, with that of its type; one of an older
    // version can be edited as it is stored.
    // Guard: `ready` in act/enqueue.rs gets the version of the type; `check_edit` leaves other versions alone.
    let server = TestServer::start();
    let site = Site::of(&server);
    let running = server.run_worker::<donate>();
    server.eventually("the type is known", SOON, || site.get("/api/v1/types/donate").status == 200);
    let known = site.get("/api/v1/types/donate").expect(200).json();
    assert_eq!((&known["version"], &known["upgrades"]), (&json!(2), &json!(true)), "{known}");
    assert_eq!(known["parameters"], json!([{ "name": "cents", "type": "u64" }]));
    running.stop().await;
    let jobs = "/api/v1/queues/default/jobs";
    let of_the_first = json!({ "job": "donate", "args": { "euros": 1 } });
    site.post(jobs, &of_the_first).expect(422);
    for unchecked in [false, true] {
        let new = json!({ "job": "donate", "args": { "cents": 5 }, "unchecked": unchecked });
        let id = site.post(jobs, &new).expect(201).json()["id"].clone();
        let job = site.get(&format!("{jobs}/{}", id.as_str().expect("an id"))).expect(200).json();
        assert_eq!(job["args_v"], 2, "{job}");
    }
    let old = r#"{"id":"old","job":"donate","args":{"euros":1}}"#;
    let _: u64 = server.redis().ask(&["LPUSH", "hworker-jobs-default", old]);
    assert_eq!(site.get(&format!("{jobs}/old")).expect(200).json()["args_v"], 1);
    let edit = site.with_token("PATCH", &format!("{jobs}/old"));
    edit.json(&json!({ "args": { "euros": 3 } })).send().expect(204);
    let page = site.get("/types/donate").expect(200).body;
    assert!(page.contains("older arguments are upgraded"), "{page}");
    let _running = server.run_worker::<donate>();
    server.eventually("all run", SOON, || server.runs_of("donate").len() == 3);
    let mut ran: Vec<_> = server.runs_of("donate").into_iter().map(|run| run.what).collect();
    ran.sort();
    assert_eq!(ran, ["300", "5", "5"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn g6_cancel_a_running_job_by_http() {
    // A running job -> it ends within a second or so, its record says cancelled; then it is not there to be cancelled.
    let server = TestServer::start();
    let site = Site::of(&server);
    let running = worker(&server);
    let id = put(&server, "long", vec![vec![Act::Gate("never".into())]]);
    server.eventually("it runs", SOON, || server.begun("long") == 1);
    let path = format!("/api/v1/queues/default/jobs/{id}");
    let met = site.post(&format!("{path}/cancel"), &json!({})).expect(200).json();
    assert_eq!(met["state"], "running");
    server.eventually("it is cancelled", SOON, || site.get(&path).json()["state"] == "cancelled");
    site.post(&format!("{path}/cancel"), &json!({})).expect(409);
    site.post("/api/v1/queues/default/jobs/nobody/cancel", &json!({})).expect(404);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn g5_workers_are_quiet_and_stop_by_http() {
    let server = TestServer::start();
    let site = Site::of(&server);
    let mut process = server.worker_process(&[]);
    let id = || site.get("/api/v1/workers").json()["items"][0]["id"].as_str().map(str::to_owned);
    server.eventually("it is listed", SOON, || id().is_some());
    let path = format!("/api/v1/workers/{}", id().expect("a worker"));
    assert_eq!(site.post(&format!("{path}/quiet"), &json!({})).expect(200).json()["workers"], 1);
    server.eventually("it is quiet", SOON, || site.get(&path).json()["quiet"] == true);
    site.post(&format!("{path}/resume"), &json!({})).expect(200);
    server.eventually("it is not", SOON, || site.get(&path).json()["quiet"] == false);
    site.post(&format!("{path}/stop"), &json!({ "grace_ms": 1000 })).expect(200);
    assert!(process.wait(SOON).is_some_and(|ended| ended.success()));
    server.eventually("it is gone", SOON, || site.get(&path).status == 404);
    site.post(&format!("{path}/stop"), &json!({})).expect(404);
}

#[test]
fn i15_what_is_wrong_is_told_with_its_place() {
    // Wrong bodies, filters, cursors, states, ids -> 422 or 404 with what would be right; nothing is written.
    let server = TestServer::start();
    let site = Site::of(&server);
    let jobs = "/api/v1/queues/default/jobs";
    for (path, status, kind) in [
        (format!("{jobs}?state=nonsense"), 422, "invalid"),
        (format!("{jobs}?filter=nonsense"), 422, "invalid"),
        (format!("{jobs}?limit=0"), 422, "invalid"),
        (format!("{jobs}?limit=x"), 422, "invalid"),
        (format!("{jobs}?cursor=x"), 422, "invalid"),
        // As deep as an address may be.
        (format!("{jobs}?cursor={}", "w..".repeat(20_000)), 422, "invalid"),
        (format!("{jobs}?order=x"), 422, "invalid"),
        (format!("{jobs}/nobody"), 404, "not-found"),
        ("/api/v1/jobs/nobody".into(), 404, "not-found"),
        ("/api/v1/queues/a%20b/jobs".into(), 422, "invalid"),
        ("/api/v1/charts?queue=default&window=1y".into(), 422, "invalid"),
        ("/api/v1/charts".into(), 422, "invalid"),
        ("/api/v1/types/nobody".into(), 404, "not-found"),
        ("/api/v1/queues/default/broken/0".into(), 404, "not-found"),
        ("/api/v1/queues/default/cron/nobody".into(), 404, "not-found"),
        ("/api/v1/workers/nobody".into(), 404, "not-found"),
    ] {
        let answer = site.get(&path).expect(status);
        assert_eq!(answer.problem(), kind, "{path}");
    }
    for (body, status) in [
        (json!({}), 422),
        (json!({ "job": "nobody", "args": {} }), 422),
        (json!({ "job": "nobody", "args": {}, "unchecked": true, "at": 1, "delay_ms": 1 }), 422),
        (json!({ "job": "nobody", "args": {}, "unchecked": true, "priority": "urgent" }), 422),
        (json!({ "job": "nobody", "args": {}, "surprise": 1 }), 422),
        (json!([]), 422),
    ] {
        site.post(jobs, &body).expect(status);
    }
    site.with_token("POST", jobs).header("content-type", "application/json").send().expect(422);
    assert_eq!(server.redis().len("hworker-jobs-default"), 0);
}

#[test]
fn i15_a_body_is_an_object_by_name() {
    // A list, whose parts serde would take for the fields in their order -> 422, and nothing is done.
    // Guard: `Json` looks at the first character.
    let server = TestServer::start();
    let site = Site::of(&server);
    let id = put(&server, "one", vec![]);
    let path = format!("/api/v1/queues/default/jobs/{id}");
    for (to, body) in [
        (format!("{path}/retry"), json!([true])),
        (format!("{path}/retry"), json!([])),
        (format!("{path}/move"), json!(["other"])),
        ("/api/v1/queues/default/pause".into(), json!([null])),
        ("/api/v1/queues/default/clear".into(), json!(["waiting"])),
        ("/api/v1/deploys".into(), json!(["1.4.2"])),
    ] {
        assert_eq!(site.post(&to, &body).expect(422).problem(), "invalid", "{to} {body}");
    }
    let queue = site.get("/api/v1/queues/default").expect(200).json();
    assert_eq!((&queue["counts"]["waiting"], &queue["paused"]), (&json!(1), &json!(null)));
}

#[test]
fn i15_a_whole_number_may_be_written_with_a_point() {
    // `60000.0` is an integer in JSON Schema -> taken as 60000; `0.5`, and one out of its bounds -> 422.
    // Guard: `visit_f64` of `Number`.
    let server = TestServer::start();
    let site = Site::of(&server);
    for (to, body, status) in [
        ("queues/default/pause", r#"{"for_ms":60000.0}"#, 204),
        ("queues/default/pause", r#"{"for_ms":0.5}"#, 422),
        ("queues/default/pause", r#"{"for_ms":0.0}"#, 422),
        ("queues/default/pause", r#"{"for_ms":-1.0}"#, 422),
        ("queues/default/pause", r#"{"for_ms":1e300}"#, 422),
        (
            "queues/default/jobs",
            r#"{"job":"x","args":{},"unchecked":true,"max_attempts":3.0}"#,
            201,
        ),
        ("queues/default/jobs", r#"{"job":"x","args":{},"unchecked":true,"max_attempts":0}"#, 422),
        (
            "queues/default/jobs",
            r#"{"job":"x","args":{},"unchecked":true,"max_attempts":1e10}"#,
            422,
        ),
    ] {
        let asked = site.with_token("POST", &format!("/api/v1/{to}"));
        let answer = asked.body("application/json", body.to_owned()).send();
        assert_eq!(answer.status, status, "{to} {body}: {answer:?}");
    }
}

#[test]
fn i15_an_edit_is_no_deeper_than_workers_read() {
    // 200 lists one inside the other, a number that is none, a path of 80,000 names into objects that are as deep -> 422, and the job stays.
    // Guard: `check_edit` reads each value; `edit_args` bounds the path.
    let server = TestServer::start();
    let site = Site::of(&server);
    let id = put(&server, "one", vec![]);
    let path = format!("/api/v1/queues/default/jobs/{id}");
    let payload = || server.redis().ask::<String>(&["LINDEX", "hworker-jobs-default", "0"]);
    let before = payload();
    let lists = "[".repeat(200) + &"]".repeat(200);
    let objects = r#"{"a":"#.repeat(80_000) + "1" + &"}".repeat(80_000);
    let name = vec!["a"; 80_000].join(".");
    for body in [
        format!(r#"{{"args":{{"name":{lists}}}}}"#),
        r#"{"args":{"name":1e999}}"#.to_owned(),
        format!(r#"{{"args":{{"a":{objects},"{name}":2}}}}"#),
        format!(r#"{{"args":{{"{name}":2}}}}"#),
    ] {
        let edited = site.with_token("PATCH", &path).body("application/json", body).send();
        assert_eq!(edited.expect(422).problem(), "invalid");
    }
    assert_eq!(payload(), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn i15_what_is_refused_here_is_no_fault_of_the_server() {
    // A queue that workers serve, a job with too many bytes -> 409 and 413, which say what to do; not 503.
    // Guard: `Refusal` of the error.
    let server = TestServer::start();
    let client = Client::builder().redis_url(server.url()).max_payload(2_000).build();
    let client = client.expect("a client");
    let site = Site::serve(Web::new(client).access(Access::token(TOKEN)).router());
    let running = worker(&server);
    server.eventually("the type is known", SOON, || site.get("/api/v1/types/act").status == 200);
    assert_eq!(site.delete("/api/v1/queues/default").expect(409).problem(), "served");
    running.stop().await;
    let jobs = "/api/v1/queues/default/jobs";
    let large = json!({ "job": "act", "args": { "name": "x".repeat(2_000), "plan": [] } });
    assert_eq!(site.post(jobs, &large).expect(413).problem(), "too-large");
    let id = put(&server, "one", vec![]);
    let edit = site.with_token("PATCH", &format!("{jobs}/{id}"));
    let edited = edit.json(&json!({ "args": { "name": "x".repeat(2_000) } })).send();
    assert_eq!(edited.expect(413).problem(), "too-large");
    site.delete("/api/v1/queues/default").expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn is9_enqueue_is_checked_by_the_schema() {
    // Fault 40: a text where a number was, a type that is none -> 422 with a pointer, without the value; `unchecked` enqueues it all the same.
    let server = TestServer::start();
    let site = Site::of(&server);
    know_types(&server, &site).await;
    let jobs = "/api/v1/queues/default/jobs";
    let wrong = json!({ "job": "act", "args": { "name": 4111, "plan": [] } });
    let refused = site.post(jobs, &wrong).expect(422).json();
    assert_eq!(refused["errors"][0]["pointer"], "/name", "{refused}");
    assert!(!refused.to_string().contains("4111"), "{refused}");
    let unknown =
        json!({ "job": "nobody", "args": {}, "unchecked": true, "id": "order-7", "tags": ["eu"] });
    site.post(jobs, &unknown).expect(201);
    let again = site.post(jobs, &unknown).expect(200).json();
    assert_eq!(again, json!({ "id": "order-7", "is_new": false }));
    let job = site.get(&format!("{jobs}/order-7")).expect(200).json();
    // No worker has written down which of its arguments may be shown.
    assert_eq!((&job["args"], &job["tags"]), (&json!("•••"), &json!(["eu"])));
}

#[tokio::test(flavor = "multi_thread")]
async fn i15_a_job_is_edited_moved_put_off_and_deleted() {
    let server = TestServer::start();
    let site = Site::of(&server);
    know_types(&server, &site).await;
    let id = put(&server, "one", vec![vec![]]);
    let path = format!("/api/v1/queues/default/jobs/{id}");
    let edit = |body: Value| site.with_token("PATCH", &path).json(&body).send();
    edit(json!({ "args": { "name": "two" }, "tags": ["eu"] })).expect(204);
    let misfit = edit(json!({ "args": { "name": 1 } })).expect(422).json();
    assert_eq!(misfit["errors"][0]["pointer"], "/name");
    edit(json!({ "args": {}, "priority": "high" })).expect(422);
    edit(json!({ "priority": "high" })).expect(204);
    let job = site.get(&path).expect(200).json();
    let seen = (&job["args"]["name"], &job["tags"], &job["priority"]);
    assert_eq!(seen, (&json!("two"), &json!(["eu"]), &json!("high")));
    edit(json!({ "delay_ms": 3_600_000 })).expect(204);
    assert_eq!(site.get(&path).expect(200).json()["state"], "scheduled");
    site.post(&format!("{path}/promote"), &json!({})).expect(204);
    site.post(&format!("{path}/move"), &json!({ "to": "other" })).expect(204);
    site.get(&path).expect(404);
    let moved = site.get(&format!("/api/v1/jobs/{id}")).expect(200).json();
    assert_eq!((&moved["queue"], &moved["state"]), (&json!("other"), &json!("waiting")));
    site.delete(&format!("/api/v1/queues/other/jobs/{id}")).expect(204);
    site.delete(&format!("/api/v1/queues/other/jobs/{id}")).expect(404);
    for number in 0..250 {
        put(&server, &number.to_string(), vec![]);
    }
    let cleared = site.post("/api/v1/queues/default/clear", &json!({ "state": "waiting" }));
    assert_eq!(cleared.expect(200).json(), json!({ "deleted": 250, "more": false }));
    site.post("/api/v1/queues/default/clear", &json!({ "state": "running" })).expect(422);
    site.delete("/api/v1/queues/default").expect(200);
}

#[test]
fn i15_broken_payloads_are_shown_requeued_and_deleted() {
    let server = TestServer::start();
    let site = Site::of(&server);
    for payload in ["not JSON", "neither"] {
        let _: u64 = server.redis().ask(&["LPUSH", "hworker-jobs-default", payload]);
    }
    let process = server.worker_process(&[]);
    let broken = || site.get("/api/v1/queues/default/broken").expect(200).json();
    server.eventually("they are broken", SOON, || broken()["total"] == 2);
    drop(process);
    let digest =
        |at: usize| broken()["items"][at]["digest"].as_str().unwrap_or_default().to_owned();
    let first = format!("/api/v1/queues/default/broken/{}", digest(0));
    assert!(site.get(&first).expect(200).json()["message"].is_string());
    site.post(&format!("{first}/requeue"), &json!({})).expect(204);
    site.delete(&format!("/api/v1/queues/default/broken/{}", digest(0))).expect(204);
    assert_eq!(broken()["total"], 0);
    site.delete(&first).expect(404);
}

#[test]
fn i15_cron_limits_and_locks_by_http() {
    let server = TestServer::start();
    let site = Site::of(&server);
    let control = server.client().control("default");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let nightly =
            act::with("nightly".into(), vec![]).cron("0 2 * * *").timezone("Europe/Berlin");
        control.cron("nightly").upsert(nightly).await.expect("an entry");
        let unique = act::with("u".into(), vec![]).on(server.client());
        unique.unique(hworker::Unique::by("customer-7")).submit().await.expect("submitted");
    });
    let path = "/api/v1/queues/default/cron";
    assert_eq!(site.get(path).expect(200).json()["items"][0]["name"], "nightly");
    let entry = site.get(&format!("{path}/nightly")).expect(200).json();
    assert_eq!(entry["next"].as_array().map(Vec::len), Some(10), "{entry}");
    assert_eq!(
        site.post(&format!("{path}/nightly/pause"), &json!({})).expect(200).json()["was_running"],
        true
    );
    assert_eq!(
        site.post(&format!("{path}/nightly/resume"), &json!({})).expect(200).json()["was_paused"],
        true
    );
    let ran = site.post(&format!("{path}/nightly/run"), &json!({})).expect(200).json();
    assert!(ran["id"].is_string(), "{ran}");
    site.delete(&format!("{path}/nightly")).expect(204);
    site.get(&format!("{path}/nightly")).expect(404);
    let limits = "/api/v1/queues/default/limits";
    let set = site.with_token("PUT", &format!("{limits}/*"));
    set.json(&json!({ "at_once": 5, "rate": "100/m" })).send().expect(204);
    let listed = site.get(limits).expect(200).json();
    let limit = &listed["items"][0];
    assert_eq!((&limit["at_once"], &limit["rate"]), (&json!(5), &json!("100/m")), "{listed}");
    site.post(&format!("{limits}/db@/pause"), &json!({ "for_ms": 60_000 })).expect(204);
    site.post(&format!("{limits}/db@/resume"), &json!({})).expect(200);
    site.with_token("PUT", &format!("{limits}/*")).json(&json!({})).send().expect(422);
    assert_eq!(site.delete(&format!("{limits}/*")).expect(200).json()["was_set"], true);
    let locks = "/api/v1/queues/default/locks";
    let held = site.get(locks).expect(200).json();
    let key = held["items"][0]["key"].as_str().expect("a key").to_owned();
    assert!(key.contains("customer-7"), "{held}");
    let key: Vec<_> = key.bytes().map(|byte| format!("%{byte:02x}")).collect();
    let key = key.concat();
    assert_eq!(site.delete(&format!("{locks}?key={key}")).expect(200).json()["was_held"], true);
    assert_eq!(site.delete(&format!("{locks}?key={key}")).expect(200).json()["was_held"], false);
}

#[test]
fn i15_jobs_for_each_worker_by_http() {
    // Enqueued for each worker, or for some -> listed with what became of them; one is cancelled, and a second time there is none.
    let server = TestServer::start();
    let site = Site::of(&server);
    let jobs = "/api/v1/queues/default/jobs";
    let new = |each: serde_json::Value| {
        let mut job =
            json!({ "job": "act", "args": { "name": "a", "plan": [] }, "unchecked": true });
        let fields = each.as_object().cloned().expect("fields");
        job.as_object_mut().expect("an object").extend(fields);
        job
    };
    site.post(jobs, &new(json!({ "on_each": true, "on_each_of": 2 }))).expect(422);
    site.post(jobs, &new(json!({ "on_each": true, "delay_ms": 5 }))).expect(422);
    site.post(jobs, &new(json!({ "on_each": true, "id": "own" }))).expect(422);
    let id = site.post(jobs, &new(json!({ "on_each": true }))).expect(201).json()["id"].clone();
    site.post(jobs, &new(json!({ "on_each_of": 2 }))).expect(201);
    let path = "/api/v1/queues/default/broadcasts";
    let listed = site.get(path).expect(200).json();
    assert_eq!(listed["items"].as_array().map(Vec::len), Some(2), "{listed}");
    let first = &listed["items"][0];
    assert_eq!((&first["id"], &first["workers"], &first["ended"]), (&id, &json!(null), &json!(0)));
    assert_eq!(listed["items"][1]["workers"], 2);
    let page = site.get("/queues/default").expect(200).body;
    assert!(page.contains("For each worker"), "{page}");
    let of = format!("{path}/{}", id.as_str().expect("a text"));
    assert_eq!(site.delete(&of).expect(200).json()["told"], 0);
    site.delete(&of).expect(404);
    let audit = site.get("/api/v1/audit").expect(200).json().to_string();
    assert!(audit.contains("for each worker"), "{audit}");
}

#[test]
fn en20_the_parent_of_a_job_is_shown() {
    // By HTTP, and on the page, where it leads to that job on whatever queue it is.
    let server = TestServer::start();
    let site = Site::of(&server);
    let child = r#"{"id":"child","job":"act","args":{"name":"n","plan":[]},"parent":"order-7"}"#;
    let _: u64 = server.redis().ask(&["LPUSH", "hworker-jobs-default", child]);
    let shown = site.get("/api/v1/queues/default/jobs/child").expect(200).json();
    assert_eq!(shown["parent"], "order-7");
    let page = site.get("/queues/default/jobs/child").expect(200).body;
    assert!(page.contains("Parent") && page.contains("/find?id=order-7"), "{page}");
}

#[tokio::test(flavor = "multi_thread")]
async fn i15_batches_by_http() {
    // Rows BA6 and BA7: a batch is listed and shown, paused, resumed and cancelled, each once; no member is missing. What is no id, and what is none.
    let server = TestServer::start();
    let site = Site::of(&server);
    let member = |name: &str| act::with(name.to_owned(), vec![]);
    let batch = Batch::new("import").on(server.client()).meta("customer", 7);
    let id = batch.add([member("a"), member("b")]).enqueue().await.expect("enqueued");
    let listed = site.get("/api/v1/batches").expect(200).json();
    assert_eq!(listed["items"][0]["id"], id.as_str(), "{listed}");
    let path = format!("/api/v1/batches/{id}");
    let shown = site.get(&path).expect(200).json();
    assert_eq!((&shown["state"], &shown["total"]), (&json!("sealed"), &json!(2)), "{shown}");
    assert_eq!(shown["meta"], json!({ "customer": 7 }));
    for (order, changed, state) in [
        ("pause", true, "paused"),
        ("pause", false, "paused"),
        ("resume", true, "sealed"),
        ("cancel", true, "cancelled"),
        ("resume", false, "cancelled"),
    ] {
        let answer = site.post(&format!("{path}/{order}"), &json!({})).expect(200).json();
        assert_eq!(answer, json!({ "changed": changed, "state": state }), "{order}");
    }
    let audit = site.get(&format!("{path}/audit")).expect(200).json();
    assert_eq!((&audit["alive"], &audit["missing"]), (&json!(2), &json!([])));
    assert_eq!(site.post(&format!("{path}/repair"), &json!({})).expect(200).json()["alive"], 2);
    site.get("/api/v1/batches/none").expect(422);
    site.get("/api/v1/batches/0190a6c2f3d47b8e9a1b2c3d4e5f6071").expect(404);
    site.post("/api/v1/batches/0190a6c2f3d47b8e9a1b2c3d4e5f6071/cancel", &json!({})).expect(404);
    assert_eq!(audited(&site, "cancel").len(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn cc9_what_an_autoscaler_asks() {
    // Row CC9, fault 45: jobs wait -> slots are wanted, no more than asked for; a paused queue wants none.
    let server = TestServer::start();
    let site = Site::of(&server);
    for number in 0..100 {
        put(&server, &number.to_string(), vec![]);
    }
    let scale = |query: &str| site.get(&format!("/api/v1/scale/default{query}")).expect(200).json();
    let wanted = scale("");
    assert_eq!((&wanted["waiting"], &wanted["wanted_slots"]), (&json!(100), &json!(2)), "{wanted}");
    assert_eq!(scale("?most=1")["wanted_slots"], 1);
    site.post("/api/v1/queues/default/pause", &json!({})).expect(204);
    assert_eq!(scale("")["wanted_slots"], 0);
    for path in [
        "crashes",
        "doctor",
        "types",
        "charts?queue=default",
        "charts?queue=default&window=30d&job=act",
    ] {
        site.get(&format!("/api/v1/{path}")).expect(200);
    }
}

#[test]
fn i15_a_server_that_is_gone_is_told_as_unreachable() {
    // The server is killed -> 503 `unreachable`, nothing was changed; no path hangs.
    let server = TestServer::start();
    let site = Site::of(&server);
    site.get("/api/v1/queues").expect(200);
    server.process().kill();
    for path in ["/api/v1/queues", "/api/v1/queues/default", "/api/v1/audit", "/api/v1/types"] {
        assert_eq!(site.get(path).expect(503).problem(), "unreachable", "{path}");
    }
    let paused = site.post("/api/v1/queues/default/pause", &json!({})).expect(503);
    assert_eq!(paused.problem(), "unreachable");
}
