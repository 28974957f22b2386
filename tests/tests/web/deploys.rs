//! Row OB7: marks of deploys, in the REST API and on the charts of the page.

use hworker::web::{Access, Operator, Role, Web};
use hworker_tests::{InProcess, TestServer, act};
use serde_json::{Value, json};

use crate::SOON;
use crate::site::{Answer, Site};

/// Asks as somebody of this role.
fn ask(site: &Site, role: &str, method: &str, path: &str, body: Option<&Value>) -> Answer {
    let asked = site.ask(method, path).header("x-user", role);
    let asked = asked.header("sec-fetch-site", "same-origin");
    match body {
        Some(body) => asked.json(body).send(),
        None => asked.send(),
    }
}

fn site(server: &TestServer) -> Site {
    let access = Access::custom(|request| {
        let role = match request.headers.get("x-user")?.to_str().ok()? {
            "viewer" => Role::Viewer,
            "operator" => Role::Operator,
            _ => return None,
        };
        Some(Operator::new("ada", role))
    });
    Site::serve(Web::new(server.client().clone()).access(access).router())
}

#[test]
fn ob7_deploys_are_marked_over_http() {
    // Marks by an operator, by a viewer, and with texts that are none -> the first alone is there, with who and when, and in the audit; a
    // viewer lists them.
    // Guard: `check_may` and `check_text` in web/act/deploys.rs.
    let server = TestServer::start();
    let site = site(&server);
    let path = "/api/v1/deploys";
    let mark =
        |role: &str, text: &str| ask(&site, role, "POST", path, Some(&json!({ "text": text })));
    let made = mark("operator", " 1.4.2 ").expect(201).json();
    assert_eq!((&made["text"], &made["who"]), (&json!("1.4.2"), &json!("ada")));
    assert_eq!(mark("viewer", "1.4.3").expect(403).problem(), "forbidden");
    for wrong in ["", "  ", "two\nlines", &"x".repeat(201)] {
        assert_eq!(mark("operator", wrong).expect(422).problem(), "invalid");
    }
    ask(&site, "nobody", "POST", path, Some(&json!({ "text": "1" }))).expect(401);
    let list = ask(&site, "viewer", "GET", path, None).expect(200).json();
    assert_eq!((&list["total"], &list["items"][0]), (&json!(1), &made));
    let audit = ask(&site, "viewer", "GET", "/api/v1/audit", None).expect(200).json();
    let entry = |at: usize| {
        let entry = &audit["items"][at];
        ["who", "action", "what", "result"]
            .map(|field| entry[field].as_str().unwrap_or("").to_owned())
    };
    assert_eq!(entry(0), ["ada", "mark", "1.4.2", "marked"]);
    assert_eq!(entry(1), ["ada", "mark", "1.4.2", "asked"]);
    assert_eq!(audit["total"], 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn ob7_charts_show_the_deploys_of_their_time() {
    // A mark of now whose text would be markup, and one of long ago -> each chart of the overview, a queue and the metrics has a line for the
    // first, with its text escaped in a title and in the table; the other one is in none.
    // Guard: `marked` of `History`; `places` in chart.rs.
    let server = TestServer::start();
    let site = site(&server);
    let _worker = InProcess::run(server.worker().register::<act>());
    server.enqueue("one", Vec::new()).await;
    server.eventually("it is done", SOON, || server.counter("processed") == 1);
    let old = ["XADD", "hworker-meta:deploys", "1-1", "who", "ada", "text", "long ago"];
    let _: String = server.redis().ask(&old);
    server.client().mark_deploy("ci", "<b>\"1.4.2\" of the shop").await.expect("marked");
    for (path, charts) in [("/", 3), ("/queues/default", 2), ("/charts", 4), ("/charts?w=30d", 4)] {
        server.eventually(path, SOON, || {
            let page = ask(&site, "viewer", "GET", path, None).expect(200).body;
            page.matches("class=\"mark\"").count() == charts
        });
        let page = ask(&site, "viewer", "GET", path, None).expect(200).body;
        assert!(!page.contains("<b>") && !page.contains("long ago"), "{path}: {page}");
        let whole = "&lt;b&gt;&quot;1.4.2&quot; of the shop";
        assert!(page.contains(&format!("<title>{whole}, ")), "{path}: {page}");
        let rows = page.matches(&format!("<bdi>{whole}</bdi></td>")).count();
        assert_eq!(rows, charts, "{path}: {page}");
    }
}
