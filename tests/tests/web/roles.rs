//! Rows IS7 and IS8: roles, what one may not see, and the audit.

use hworker::web::{Access, Operator, Role, Web};
use hworker_tests::{Act, InProcess, TestServer, act};
use serde_json::json;

use crate::SOON;
use crate::site::{Answer, Site};

/// A site whose operators say by a header who they are.
fn site(server: &TestServer, read_only: bool) -> Site {
    let access = Access::custom(|request| {
        let name = request.headers.get("x-user")?.to_str().ok()?;
        Some(match name {
            "viewer" => Operator::new(name, Role::Viewer),
            "blind" => Operator::new(name, Role::Admin).hide_args(),
            "operator" => Operator::new(name, Role::Operator),
            "admin" => Operator::new(name, Role::Admin),
            "mail" => Operator::new(name, Role::Admin).only(|_, queue| queue == "mail"),
            _ => return None,
        })
    });
    let mut web = Web::new(server.client().clone()).access(access);
    if read_only {
        web = web.read_only();
    }
    Site::serve(web.router())
}

fn ask(site: &Site, user: &str, method: &str, path: &str) -> Answer {
    let asked = site.ask(method, path).header("x-user", user);
    let asked = asked.header("sec-fetch-site", "same-origin");
    if method == "GET" { asked.send() } else { asked.json(&json!({})).send() }
}

#[test]
fn is7_roles_bound_what_one_may_do() {
    // Each role at each kind of action -> 403 with who it was, or what the action says; a rule per queue too; nothing for a stranger.
    // Guard: `Site::act` asks `Operator::may`.
    let server = TestServer::start();
    let site = site(&server, false);
    let pause = "/api/v1/queues/mail/pause";
    let destroy = "/api/v1/queues/mail";
    for (user, pauses, destroys) in [
        ("viewer", 403, 403),
        ("operator", 204, 403),
        ("admin", 204, 200),
        ("mail", 204, 200),
        ("nobody", 401, 401),
    ] {
        ask(&site, user, "POST", pause).expect(pauses);
        ask(&site, user, "DELETE", destroy).expect(destroys);
    }
    let refused = ask(&site, "mail", "POST", "/api/v1/queues/other/pause").expect(403);
    assert!(refused.json()["detail"].as_str().is_some_and(|why| why.contains("mail (admin)")));
    ask(&site, "viewer", "GET", "/api/v1/queues").expect(200);
}

#[test]
fn is7_read_only_changes_nothing_whoever_asks() {
    let server = TestServer::start();
    let site = site(&server, true);
    let refused = ask(&site, "admin", "POST", "/api/v1/queues/mail/pause").expect(403);
    assert_eq!(refused.problem(), "read-only");
    ask(&site, "admin", "GET", "/api/v1/audit").expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn is7_who_may_not_see_arguments_does_not_learn_them() {
    // Fault 36: arguments, errors, keys of limits and locks, and searches for them -> hidden or refused.
    // Guard: `shown::job`, `check_filter`.
    let server = TestServer::start();
    let site = site(&server, false);
    let plan = vec![vec![Act::Failure("canary in an error".into())]];
    let job = act::with("canary".into(), plan).on(server.client());
    job.unique(hworker::Unique::by("canary").lasting(std::time::Duration::from_secs(3600)))
        .submit()
        .await
        .expect("submitted");
    let running = InProcess::run(server.worker().registry(hworker_tests::common_jobs()));
    let failed = "/api/v1/queues/default/jobs?state=failed";
    server
        .eventually("it failed", SOON, || ask(&site, "admin", "GET", failed).json()["total"] == 1);
    let seen = ask(&site, "admin", "GET", failed).expect(200);
    assert!(seen.body.contains("canary in an error"), "{seen:?}");
    let id = seen.json()["items"][0]["id"].as_str().unwrap_or_default().to_owned();
    for path in [
        failed.to_owned(),
        format!("/api/v1/queues/default/jobs/{id}"),
        format!("/api/v1/jobs/{id}"),
        "/api/v1/queues/default/groups".into(),
        "/api/v1/queues/default/locks".into(),
        "/api/v1/queues/default/limits".into(),
        "/api/v1/audit".into(),
    ] {
        let shown = ask(&site, "blind", "GET", &path).expect(200);
        assert!(!shown.body.contains("canary"), "{path}: {shown:?}");
    }
    for filter in ["args~canary", "args.name=canary", "error:canary", "meta.tenant=7"] {
        ask(&site, "blind", "GET", &format!("{failed}&filter={filter}")).expect(403);
        ask(&site, "viewer", "GET", &format!("{failed}&filter={filter}")).expect(200);
    }
    running.stop().await;
}

#[test]
fn is8_no_action_without_an_entry_in_the_audit() {
    // Each action has an entry before and after; where the audit cannot be written the action is refused, and reading goes on.
    // Guard: `Site::act` writes first.
    let server = TestServer::start();
    let site = site(&server, false);
    ask(&site, "operator", "POST", "/api/v1/queues/mail/pause").expect(204);
    let entries = ask(&site, "viewer", "GET", "/api/v1/audit").expect(200).json();
    let of = |at: usize| {
        let entry = &entries["items"][at];
        [&entry["who"], &entry["action"], &entry["queue"], &entry["result"]]
            .map(|text| text.as_str().unwrap_or_default().to_owned())
    };
    assert_eq!(of(0), ["operator", "pause", "mail", "paused"]);
    assert_eq!(of(1), ["operator", "pause", "mail", "asked"]);
    // What was not allowed has none.
    ask(&site, "viewer", "POST", "/api/v1/queues/mail/resume").expect(403);
    assert_eq!(ask(&site, "viewer", "GET", "/api/v1/audit").json()["total"], 2);
    let _: u64 = server.redis().ask(&["DEL", "hworker-meta:audit"]);
    let _: String = server.redis().ask(&["SET", "hworker-meta:audit", "no stream"]);
    let refused = ask(&site, "admin", "POST", "/api/v1/queues/mail/resume");
    assert!(refused.status >= 500, "{refused:?}");
    let queue = ask(&site, "viewer", "GET", "/api/v1/queues/mail").expect(200).json();
    assert!(queue["paused"].is_object(), "{queue}");
}

#[tokio::test(flavor = "multi_thread")]
async fn is7_a_rule_by_queue_holds_for_the_queue_to_which_a_job_moves() {
    // Who may act on `mail` alone moves a job of it to `payments`, and edits what he may not see -> 403, nothing has moved.
    // Guard: `check_target`; the right is asked before arguments are looked at.
    let server = TestServer::start();
    let site = site(&server, false);
    let job = act::with("m".into(), vec![]).queue("mail").on(server.client());
    let id = job.enqueue().await.expect("enqueued");
    let path = format!("/api/v1/queues/mail/jobs/{id}");
    let moved = |to: &str| {
        let asked = site.ask("POST", &format!("{path}/move")).header("x-user", "mail");
        asked.header("sec-fetch-site", "same-origin").json(&json!({ "to": to })).send()
    };
    moved("payments").expect(403);
    ask(&site, "admin", "GET", &path).expect(200);
    let edit = site.ask("PATCH", &path).header("x-user", "viewer");
    let edit = edit.header("sec-fetch-site", "same-origin");
    edit.json(&json!({ "args": { "name": 1 } })).send().expect(403);
}
