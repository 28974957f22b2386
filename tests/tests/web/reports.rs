//! Rows D11, RS1, RS4, RS5: what a job reports and returns, in the REST API and on its page, and who may see it.

use hworker::web::{Access, Operator, Role, Web};
use hworker_tests::{Ending, InProcess, Say, Sum, TestServer, isolated_jobs, keep, report};
use serde_json::json;

use crate::SOON;
use crate::site::{Answer, Site};

fn site(server: &TestServer) -> Site {
    let access = Access::custom(|request| {
        let name = request.headers.get("x-user")?.to_str().ok()?.to_owned();
        let operator = Operator::new(name.clone(), Role::Viewer);
        Some(if name == "blind" { operator.hide_args() } else { operator })
    });
    Site::serve(Web::new(server.client().clone()).access(access).router())
}

fn ask(site: &Site, who: &str, path: &str) -> Answer {
    site.ask("GET", path).header("x-user", who).send().expect(200)
}

#[tokio::test(flavor = "multi_thread")]
async fn rs4_rs5_progress_and_log_are_shown_while_the_job_runs() {
    // A running job with a note and a line that would be markup -> the API has both, the page too, escaped; who may not see arguments sees how far it
    // is, and neither text.
    // Guard: `shown::line`, and `/progress/note` in shown.rs.
    let server = TestServer::start();
    let _worker = InProcess::run(server.worker().registry(isolated_jobs()));
    let site = site(&server);
    let say = vec![
        Say::Progress(1, 4, "<b>canary".into()),
        Say::Log("<i>canary".into()),
        Say::Gate("go".into()),
    ];
    let job = report::with("a".into(), vec![say]).on(server.client());
    let id = job.enqueue().await.expect("enqueued");
    let path = format!("/api/v1/queues/default/jobs/{id}");
    server.eventually("it is written", SOON, || ask(&site, "ada", &path).json()["log_lines"] == 1);
    let job = ask(&site, "ada", &path).json();
    assert_eq!((&job["progress"]["done"], &job["progress"]["of"]), (&json!(1), &json!(4)));
    assert_eq!(job["progress"]["note"], "<b>canary");
    let log = ask(&site, "ada", &format!("{path}/log")).json();
    assert_eq!((&log[0]["text"], &log[0]["attempt"]), (&json!("<i>canary"), &json!(1)));
    let page = ask(&site, "ada", &format!("/queues/default/jobs/{id}")).body;
    assert!(page.contains("&lt;b&gt;canary") && page.contains("&lt;i&gt;canary"), "{page}");
    assert!(page.contains("1 of 4") && page.contains("value=\"25.0\""), "{page}");
    for path in [path.clone(), format!("{path}/log"), format!("/queues/default/jobs/{id}")] {
        let blind = ask(&site, "blind", &path).body;
        assert!(!blind.contains("canary"), "{path}: {blind}");
    }
    assert_eq!(ask(&site, "blind", &path).json()["progress"]["done"], 1);
    let none = ask(&site, "ada", "/api/v1/queues/default/jobs/nobody/log").json();
    assert_eq!(none, json!([]));
    server.open("go");
    server.eventually("it is done", SOON, || server.counter("processed") == 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn rs1_a_result_is_shown_by_the_id() {
    // A job whose result is kept -> the API and the page have it; who may not see arguments does not see it.
    // Guard: `TELLING` in shown.rs.
    let server = TestServer::start();
    let _worker = InProcess::run(server.worker().registry(isolated_jobs()));
    let site = site(&server);
    let gives = vec![Ending::Gives(Sum::saying("canary"))];
    let job = keep::with("a".into(), None, gives).on(server.client());
    let handle = job.enqueue().await.expect("enqueued");
    handle.within(SOON).await.expect("a result");
    server.eventually("the worker is known", SOON, || {
        let path = format!("/api/v1/queues/default/jobs/{}", handle.as_str());
        ask(&site, "ada", &path).body.contains("canary")
    });
    for path in [
        format!("/api/v1/queues/default/jobs/{}", handle.as_str()),
        format!("/queues/default/jobs/{}", handle.as_str()),
    ] {
        assert!(ask(&site, "ada", &path).body.contains("canary"), "{path}");
        let blind = ask(&site, "blind", &path).body;
        assert!(!blind.contains("canary"), "{path}: {blind}");
    }
}
