//! What Schemathesis finds: it makes requests of all that the OpenAPI document allows and forbids, and holds the answers against it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use axum::Router;
use axum::extract::{ConnectInfo, Request};
use axum::middleware::map_request;
use hworker::web::{Access, Web};
use hworker::{Batch, Unique};
use hworker_tests::{TestServer, act, program, scale};
use serde_json::{Value, json};

use crate::living::Living;
use crate::site::{Site, TOKEN};

const CONFIG: &str = include_str!("../../schemathesis/schemathesis.toml");
const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/openapi.json");

/// For whoever has the token. It is asked with wrong ones too, which are not to shut out the address of this machine.
fn app(web: Web) -> Router {
    let forget = async |mut request: Request| {
        request.extensions_mut().remove::<ConnectInfo<SocketAddr>>();
        request
    };
    web.access(Access::token(TOKEN)).router().layer(map_request(forget))
}

/// A request that it made, and the status of the answer.
#[derive(Debug)]
struct Exchange {
    method: String,
    path: String,
    status: u64,
}

struct Schemathesis {
    program: PathBuf,
}

impl Schemathesis {
    /// `None`, with a word, where it is not here.
    fn find() -> Option<Self> {
        Some(Self { program: program("schemathesis")? })
    }

    /// Asks a site, with the `schemathesis.toml` of the directory if there is one. Gives all that it asked.
    #[track_caller]
    fn ask(&self, site: &Site, dir: &Path, more: &[&str]) -> Vec<Exchange> {
        let mut command = Command::new(&self.program);
        // What it writes is gone with the test.
        command.current_dir(dir).args(["--no-color", "run", DOCUMENT, "--request-timeout", "20"]);
        command.args(["--report", "har", "--report-har-path", "asked.har"]);
        let number = |variable, otherwise| scale(variable, otherwise).to_string();
        command.args(["--seed", &number("HWORKER_TEST_SEED", 1)]);
        command.args(["--max-examples", &number("HWORKER_TEST_EXAMPLES", 20)]);
        let output =
            command.args(["--url", &format!("http://{}", site.address)]).args(more).output();
        let output = output.expect("schemathesis runs");
        let said = String::from_utf8_lossy(&output.stdout);
        let failed = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}{failed}");
        let report = std::fs::read(dir.join("asked.har")).expect("its report");
        let report: Value = serde_json::from_slice(&report).expect("JSON");
        let entries = report["log"]["entries"].as_array().expect("entries").iter();
        let own = format!("http://{}", site.address);
        let exchange = |entry: &Value| {
            let url = entry["request"]["url"].as_str().expect("a URL");
            let path = url.strip_prefix(&own).expect("a path").split('?').next();
            Exchange {
                method: entry["request"]["method"].as_str().expect("a method").to_lowercase(),
                path: path.unwrap_or_default().to_owned(),
                status: entry["response"]["status"].as_u64().unwrap_or_default(),
            }
        };
        entries.map(exchange).collect()
    }
}

/// The operations of the document, as `get /api/v1/queues/{queue}`.
fn operations() -> BTreeSet<String> {
    let document: Value = serde_json::from_str(&hworker::web::openapi()).expect("the document");
    let paths = document["paths"].as_object().expect("paths").iter();
    let of_path = |(path, methods): (&String, &Value)| {
        let methods = methods.as_object().expect("methods").keys();
        let methods = methods.filter(|method| *method != "parameters");
        methods.map(|method| format!("{method} {path}")).collect::<Vec<_>>()
    };
    paths.flat_map(of_path).collect()
}

/// Whether this was asked of the operation.
fn is_of(exchange: &Exchange, operation: &str) -> bool {
    let Some((method, template)) = operation.split_once(' ') else { return false };
    let (asked, parts) = (exchange.path.split('/'), template.split('/'));
    method == exchange.method
        && asked.clone().count() == parts.clone().count()
        && asked.zip(parts).all(|(asked, part)| part.starts_with('{') || asked == part)
}

/// The operations without an exchange of this kind.
fn without(exchanges: &[Exchange], kind: impl Fn(&Exchange) -> bool) -> Vec<String> {
    let has = |operation: &String| {
        exchanges.iter().any(|exchange| kind(exchange) && is_of(exchange, operation))
    };
    operations().into_iter().filter(|operation| !has(operation)).collect()
}

/// The queues that it is told of.
const QUEUES: [&str; 5] = ["default", "mail", "idle", "old", "evil"];

/// What leaves little of all that, so that it comes last.
const LAST: [&str; 3] = ["delete_queues_queue", "post_queues_queue_clear", "post_workers_id_stop"];

/// What is called the same on each queue, so that it meets some whichever queue it asks for.
async fn fill(living: &Living) {
    let (server, client) = (&living.server, living.server.client());
    for queue in QUEUES {
        for number in 0..10 {
            let job = act::with(format!("order {number}"), vec![]).queue(queue).tag("order");
            let job = job.id(format!("order-{number}")).on(client);
            let job = if number % 2 == 0 { job } else { job.delay(Duration::from_secs(3600)) };
            job.submit().await.expect("enqueued");
        }
        let unique = act::with("unique".into(), vec![]).queue(queue).delay(Duration::from_secs(60));
        unique.unique(Unique::by("k")).on(client).submit().await.expect("enqueued");
        for _ in 0..5 {
            let each = act::with("each".into(), vec![]).queue(queue).on_each();
            each.on(client).enqueue().await.expect("enqueued");
        }
        let member = |number| act::with(format!("member {number}"), vec![]).queue(queue);
        let batch = Batch::new("orders").add((0..3).map(member)).on(client);
        batch.enqueue().await.expect("enqueued");
        for number in 0..5 {
            let nightly = act::with("nightly".into(), vec![]).cron("0 2 * * *");
            let entry = client.control(queue).cron(&format!("nightly-{number}"));
            entry.upsert(nightly).await.expect("set");
        }
        let broken = format!("hworker-broken-{queue}");
        for number in 0..10 {
            let (payload, what) = (format!("no job of {number}"), "1 1795261234567 no JSON");
            let _: u64 = server.redis().ask(&["HSET", &broken, &payload, what]);
        }
    }
}

/// The names of what there is, as a part of the configuration.
fn names(site: &Site) -> String {
    let mut names: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for (what, path, field) in [
        ("jobs", "queues/default/jobs?state=failed", "id"),
        ("jobs", "queues/default/jobs?state=running", "id"),
        ("jobs", "queues/idle/jobs?filter=tag:order", "id"),
        ("jobs", "queues/idle/jobs?state=scheduled&filter=tag:order", "id"),
        ("digests", "queues/idle/broken", "digest"),
        ("digests", "queues/default/broken", "digest"),
        ("broadcasts", "queues/idle/broadcasts", "id"),
        ("broadcasts", "queues/default/broadcasts", "id"),
        ("broadcasts", "queues/mail/broadcasts", "id"),
        ("batches", "batches", "id"),
        ("entries", "queues/idle/cron", "name"),
        ("keys", "queues/default/locks", "key"),
        ("workers", "workers", "id"),
    ] {
        let mut found = Vec::new();
        let mut next = Some(format!("/api/v1/{path}"));
        // A page of a filter may be empty where the machine is busy, and another follows.
        while let Some(page) = next.take_if(|_| found.is_empty()) {
            let page = site.get(&page).expect(200).json();
            let items = page["items"].as_array().expect("items").iter();
            found.extend(items.filter_map(|item| item[field].as_str().map(str::to_owned)));
            let cursor = page["next"].as_str();
            next = cursor.map(|cursor| format!("/api/v1/{path}&cursor={cursor}"));
        }
        assert!(!found.is_empty(), "nothing at {path}");
        names.entry(what).or_default().extend(found);
    }
    names.entry("queues").or_default().extend(QUEUES.map(str::to_owned));
    // An array of texts is written in TOML as in JSON.
    let dictionary =
        |(what, names)| format!("\n[dictionaries.{what}]\nvalues = {}\n", json!(names));
    names.into_iter().map(dictionary).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn i15_answers_are_as_the_document_says() {
    // All operations, with what the document allows and what it forbids, on queues that have jobs in every state and hostile texts in every field ->
    // no 5xx, answers as they are described, what is allowed is not refused, what is forbidden is; without the token, or with a wrong one, 401.
    // Guard: the annotations of the handlers, `add_rules` of the document, `schema.rs`.
    let Some(schemathesis) = Schemathesis::find() else { return };
    let living = Living::start(app).await;
    living.fill_with_hostile().await;
    fill(&living).await;
    let (site, dir) = (&living.site, living.server.dir());
    let token = format!("\n[auth.openapi.token]\nbearer = {}\n", json!(TOKEN));
    let config = [CONFIG, &token, &names(site)].concat();
    std::fs::write(dir.join("schemathesis.toml"), config).expect("written");
    let last = LAST.map(|id| ["--exclude-operation-id", id]);
    let mut asked = schemathesis.ask(site, dir, last.as_flattened());
    let last = LAST.map(|id| ["--include-operation-id", id]);
    asked.extend(schemathesis.ask(site, dir, last.as_flattened()));
    let unmet = without(&asked, |exchange| (200..300).contains(&exchange.status));
    let (looks, changes): (Vec<_>, Vec<_>) =
        unmet.iter().partition(|unmet| unmet.starts_with("get "));
    assert_eq!(looks, ["get /api/v1/events"], "never asked with success");
    // Which jobs a change meets is by chance: not all can be done with each.
    assert!(changes.len() <= 5, "never done: {changes:?}");
}

#[test]
fn is9_the_whole_api_is_shut_without_credentials() {
    // All operations and all methods, without credentials and with wrong ones -> 401, and nothing else.
    // Guard: `Gate::let_in`.
    let Some(schemathesis) = Schemathesis::find() else { return };
    let server = TestServer::start();
    let site = Site::serve(app(Web::new(server.client().clone())));
    let more = ["--phases", "coverage", "--checks", "not_a_server_error"];
    let asked = schemathesis.ask(&site, server.dir(), &more);
    let open: Vec<_> = asked.iter().filter(|exchange| exchange.status != 401).collect();
    assert!(open.is_empty(), "{open:?}");
    assert_eq!(without(&asked, |_| true), <[String; 0]>::default(), "never asked");
}
