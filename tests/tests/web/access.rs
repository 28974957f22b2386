//! Row IS9, faults 31 to 36 of the tools: nobody gets in without credentials, and no other site has a browser act.

use axum::Router;
use axum::routing::get;
use hworker::web::{Access, Role, Web};
use hworker_tests::TestServer;
use serde_json::json;

use crate::site::{Site, TOKEN};

/// Paths of every kind, those of the document too.
fn paths() -> Vec<String> {
    let document: serde_json::Value =
        serde_json::from_str(&hworker::web::openapi()).expect("the document");
    let of_api = document["paths"].as_object().expect("paths").keys();
    let of_api = of_api.map(|path| path.replace(['{', '}'], ""));
    let pages = [
        "/",
        "/queues",
        "/queues/default",
        "/jobs",
        "/failed",
        "/workers",
        "/broken",
        "/cron",
        "/limits",
        "/charts",
        "/types",
        "/audit",
        "/crashes",
        "/server",
        "/metrics",
        "/act",
        "/assets/0/app.js",
        "/api/v1/openapi.json",
        "/nothing",
        "/api",
        "/api/v1/",
    ];
    of_api.chain(pages.into_iter().map(str::to_owned)).collect()
}

#[test]
fn is9_no_path_is_open_without_credentials() {
    // Every route of the document and of the pages, in six spellings, in an app that nests the router and alone -> 401, and nothing of it.
    // Guard: the guard is the outermost layer, fallback included.
    let server = TestServer::start();
    let _: u64 = server.redis().ask(&["LPUSH", "hworker-jobs-secret-queue", "secret queue"]);
    let router = || Web::new(server.client().clone()).access(Access::token(TOKEN)).router();
    let app = Router::new().route("/", get(|| async { "the app" })).nest("/admin/jobs", router());
    let (nested, alone) = (Site::serve(app), Site::serve(router()));
    for path in paths() {
        let spellings = [
            path.clone(),
            format!("{path}/"),
            format!("/{path}"),
            path.replacen('/', "/%2e/", 1),
            path.replacen('/', "/./", 1),
            path.to_uppercase(),
        ];
        for spelling in spellings {
            for method in ["GET", "POST", "HEAD", "DELETE", "PUT", "OPTIONS"] {
                let answer = alone.ask(method, &spelling).send();
                assert_eq!(answer.status, 401, "{method} {spelling}: {answer:?}");
                let below = nested.ask(method, &format!("/admin/jobs{spelling}")).send();
                assert!(matches!(below.status, 401 | 404), "{method} {spelling}: {below:?}");
                assert!(!below.body.contains("secret-queue"), "{method} {spelling}: {below:?}");
            }
        }
    }
    assert_eq!(nested.ask("GET", "/").send().expect(200).body, "the app");
    nested.with_token("GET", "/admin/jobs/api/v1/queues").send().expect(200);
    alone.ask("GET", "/api/v1/queues").header("authorization", "Bearer wrong").send().expect(401);
}

#[test]
fn is9_answers_have_headers_that_bind_browsers() {
    // Any answer, a refusal too -> a policy without inline code, no sniffing, no framing, nothing kept.
    let site = Site::of(&TestServer::start());
    for answer in [site.get("/api/v1/queues"), site.ask("GET", "/").send(), site.get("/nothing")] {
        for header in [
            "content-security-policy: default-src 'none'; script-src 'self'; style-src 'self'",
            "frame-ancestors 'none'",
            "x-content-type-options: nosniff",
            "cache-control: no-store",
            "referrer-policy: same-origin",
        ] {
            assert!(answer.head.contains(header), "{header}: {answer:?}");
        }
    }
    let asked = site.ask("GET", "/").send();
    assert!(asked.head.contains("www-authenticate: basic realm=\"hworker\""), "{asked:?}");
}

#[test]
fn is9_no_other_site_has_a_browser_act() {
    // Fault 33: a password is sent by the browser to anybody's form -> what does not come from this site is refused; JSON as text too.
    // Guard: `is_of_this_site`.
    let server = TestServer::start();
    let people = Access::basic([("ada", "a", Role::Admin)]);
    let site = Site::serve(Web::new(server.client().clone()).access(people).router());
    let pause = || {
        let asked = site.ask("POST", "/api/v1/queues/mail/pause");
        asked.header("authorization", "Basic YWRhOmE=").json(&json!({}))
    };
    for (name, value) in [
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
        ("origin", "http://evil.example"),
        ("origin", "null"),
        ("x-nothing", ""),
    ] {
        let refused = pause().header(name, value).send().expect(403);
        assert_eq!(refused.problem(), "forbidden");
    }
    let text = site.ask("POST", "/api/v1/queues/mail/pause");
    let text =
        text.header("authorization", "Basic YWRhOmE=").header("sec-fetch-site", "same-origin");
    text.header("content-type", "text/plain").send().expect(415);
    pause().header("sec-fetch-site", "same-origin").send().expect(204);
    let own = format!("http://{}", site.address);
    pause().header("origin", &own).send().expect(204);
}

#[test]
fn is9_a_website_does_not_read_the_page_of_this_machine() {
    // Fault 35: DNS rebinding to loopback -> 421 for a host that is not this machine.
    let server = TestServer::start();
    let site = Site::serve(Web::new(server.client().clone()).access(Access::local()).router());
    for path in ["/", "/api/v1/queues", "/api/v1/events"] {
        site.ask("GET", path).header("host", "evil.example").send().expect(421);
        site.ask("GET", path).header("host", "evil.example:7700").send().expect(421);
    }
    site.ask("GET", "/api/v1/queues").send().expect(200);
    let port = site.address.port();
    site.ask("GET", "/api/v1/queues")
        .header("host", &format!("localhost:{port}"))
        .send()
        .expect(200);
}

#[test]
fn is9_wrong_logins_shut_an_address_out() {
    // Five wrong tokens -> the sixth, and the right one, are refused with 429 for a minute.
    let site = Site::of(&TestServer::start());
    for _ in 0..5 {
        site.ask("GET", "/").header("authorization", "Bearer guess").send().expect(401);
    }
    let shut = site.get("/api/v1/queues").expect(429);
    assert_eq!(shut.problem(), "limited");
    assert!(shut.head.contains("retry-after: 60"), "{shut:?}");
}

#[test]
fn is9_bodies_are_bounded() {
    // 2 MB to pause a queue -> 413, nothing is kept; a path that is none -> 404; a method that is none -> 405.
    let site = Site::of(&TestServer::start());
    let large = json!({ "x": "y".repeat(2 << 20) });
    assert_eq!(site.post("/api/v1/queues/mail/pause", &large).expect(413).problem(), "too-large");
    assert_eq!(site.get("/api/v1/nothing").expect(404).problem(), "not-found");
    assert_eq!(site.with_token("PUT", "/api/v1/queues").send().expect(405).problem(), "method");
}
