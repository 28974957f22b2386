//! A server on which much goes on, and its page: for what looks at all of it.

use std::time::Duration;

use axum::Router;
use hworker::Unique;
use hworker::web::Web;
use hworker_tests::{Act, Process, TestServer, act, act_alone, act_once};
use serde_json::json;

use crate::SOON;
use crate::site::Site;

/// What takes over a page that does not escape it.
const HOSTILE: &str = "\"'></title></textarea><script>hostile=1</script><img src=x onerror=hostile=1><a href=javascript:hostile=1>\u{202e}\u{1b}[31m";

/// A hostile text that tells from which field it came.
fn evil(field: &str) -> String {
    format!("{field}.of.the.enemy{HOSTILE}")
}

/// A server whose queues have jobs in every state, with a worker, and its page.
pub(crate) struct Living {
    pub(crate) server: TestServer,
    pub(crate) site: Site,
    _worker: Process,
}

impl Living {
    /// The page lets in whom `app` says.
    pub(crate) async fn start(app: impl FnOnce(Web) -> Router) -> Self {
        // What is written past hworker has the keys of one server.
        let server = TestServer::alone();
        let mut command = server.command("test-worker");
        command.env("HWORKER_QUEUES", "default,+mail").env("HWORKER_KEEP_DONE", "100");
        let worker = Process::start(command);
        let site = Site::serve(app(Web::new(server.client().clone())));
        let this = Self { server, site, _worker: worker };
        this.fill().await;
        this
    }

    async fn fill(&self) {
        let client = self.server.client();
        let control = client.control("default");
        client.control("mail").pause().await.expect("paused");
        let failure = || vec![vec![Act::Failure("smtp: 421 try again".into())]];
        for number in 0..4 {
            let job = act::with(format!("fails {number}"), failure()).tag("eu");
            job.on(client).enqueue().await.expect("enqueued");
            self.server.enqueue(&format!("done {number}"), vec![]).await;
        }
        let panics = vec![vec![Act::Panic("index out of bounds".into())]];
        act_once::with("panics".into(), panics).on(client).enqueue().await.expect("enqueued");
        let waits = || vec![vec![Act::Gate("never".into())]];
        for number in 0..2 {
            self.server.enqueue(&format!("runs {number}"), waits()).await;
        }
        let alone = act_alone::with("runs alone".into(), Some("k1".into()), waits());
        alone.on(client).enqueue().await.expect("enqueued");
        for (queue, jobs) in [("idle", 10), ("mail", 1), ("old", 1)] {
            for number in 0..jobs {
                let job = act::with(format!("waits {number}"), vec![]).queue(queue).on(client);
                job.enqueue().await.expect("enqueued");
            }
        }
        for number in 0..3 {
            let job = act::with(format!("scheduled {number}"), vec![]).queue("idle");
            job.delay(Duration::from_secs(3600)).on(client).enqueue().await.expect("enqueued");
        }
        let each = act::with("each".into(), vec![]).queue("idle").on_each().on(client);
        each.enqueue().await.expect("enqueued");
        for number in 0..3 {
            self.push("hworker-jobs-default", &format!("no job {number}"));
        }
        let nightly = act::with("nightly".into(), vec![]).cron("0 2 * * *");
        control.cron("nightly").upsert(nightly).await.expect("set");
        let limited = async || control.limit("act_by_twos").set(5).await.is_ok();
        self.server.eventually_async("the worker has told of its limits", SOON, limited).await;
        let settled = async || {
            let counts = client.inspect("default").counts().await.expect("counts");
            (counts.failed, counts.running, counts.broken, counts.done) == (5, 3, 3, 4)
        };
        self.server.eventually_async("all has come about", SOON, settled).await;
    }

    fn push(&self, list: &str, payload: &str) {
        let _: u64 = self.server.redis().ask(&["LPUSH", list, payload]);
    }

    fn score(&self, set: &str, member: &str, score: u64) {
        let _: u64 = self.server.redis().ask(&["ZADD", set, &score.to_string(), member]);
    }

    fn set(&self, hash: &str, field: &str, value: &str) {
        let _: u64 = self.server.redis().ask(&["HSET", hash, field, value]);
    }

    /// Writes hostile texts into every field that anybody may write who reaches the server.
    pub(crate) async fn fill_with_hostile(&self) {
        let now = self.server.redis().time_us() / 1_000;
        let job = act::with(evil("value"), vec![]).queue("evil");
        let job = job.unique(Unique::by("key.of.the.enemy<script>hostile=1</script>"));
        job.on(self.server.client()).submit().await.expect("submitted");
        self.hostile_jobs(now);
        self.hostile_workers(now);
        // A queue by hand, whose name is none.
        self.set(
            "hworker-meta:queues",
            &evil("queue"),
            &json!({ "shards": 1, "seen": now }).to_string(),
        );
        self.push(&format!("hworker-jobs-{}", evil("queue")), "x");
        // What somebody did, cron entries, of which one has a name that is none, and a limit.
        let audit = ["who", "action", "queue", "what", "result"];
        let texts = audit.map(|field| evil(&format!("audit-{field}")));
        let mut words = vec!["XADD", "hworker-meta:audit", "*"];
        words.extend(audit.iter().zip(&texts).flat_map(|(field, text)| [*field, &**text]));
        let _: String = self.server.redis().ask(&words);
        let cron = "hworker-jobs-evil:cron";
        for entry in [evil("no-entry"), "entry.of.the.enemy<script>hostile=1</script>".into()] {
            self.set(cron, &format!("set:{entry}"), &evil("schedule"));
            self.set(cron, &format!("runs:{entry}"), &format!("{now} {}", evil("became")));
        }
        let each = format!("0 {} {}", now + 600_000, evil("broadcast"));
        self.set("hworker-jobs-evil:broadcast", &evil("each"), &each);
        self.set("hworker-jobs-evil:control", &format!("limit:{}", evil("limit")), "3");
    }

    fn hostile_jobs(&self, now: u64) {
        let error = json!({
            "attempt": 1, "at": now, "started_at": now, "kind": evil("kind"), "message": evil("message"),
            "place": evil("place"), "backtrace": format!("  0: {}\n", evil("backtrace")), "worker": evil("worker"),
        });
        let mut envelope = json!({
            "v": 1, "id": evil("id"), "job": "act", "enqueued_at": now,
            "args": { "name": "x", "plan": [], evil("argument"): evil("value") },
            "tags": ["tag.of.the.enemy<script>hostile=1</script>"], "meta": { evil("meta"): evil("noted") },
            "errors": [error], "crashes": [{ "at": now, "worker": evil("worker") }],
        });
        self.push("hworker-jobs-evil", &envelope.to_string());
        self.push("hworker-jobs-evil", &json!({ "v": 1, "job": evil("job") }).to_string());
        envelope["id"] = "failed".into();
        let record = json!({
            "v": 1, "id": "failed", "job": "act", "queue": "evil", "outcome": "failed", "group": "0123456789ab",
            "worker": evil("worker"), "kind": evil("kind"), "message": evil("message"), "place": evil("place"),
            "backtrace": evil("backtrace"), "started_at": now, "ended_at": now, "attempts": 1, "envelope": envelope,
        });
        self.set("hworker-record-evil", "failed", &record.to_string());
        self.score("hworker-failed-evil", "0123456789ab act failed", now);
        let group = json!({ "job": evil("job"), "kind": evil("kind"), "message": evil("message"), "id": evil("id") });
        self.set("hworker-groups-evil", "0123456789ab", &format!("1 {now} {now} {group}"));
        self.set("hworker-broken-evil", &evil("payload"), &format!("1 {now} {}", evil("reason")));
    }

    /// A worker, one that died, and a type as no attribute could declare it.
    fn hostile_workers(&self, now: u64) {
        let key = format!("hworker-worker-evil:{}", evil("worker"));
        for field in ["name", "host", "version", "pid", "queues"] {
            self.set(&key, field, &evil(field));
        }
        for (field, value) in
            [("concurrency", 3), ("dead_after", 600_000), ("session", 1), ("started", now)]
        {
            self.set(&key, field, &value.to_string());
        }
        self.score("hworker-workers-evil", &evil("worker"), now);
        let dead = json!({
            "at": now, "worker": evil("worker"), "name": evil("label"), "host": evil("host"), "pid": evil("pid"),
            "version": evil("version"), "queues": [evil("queues")], "stopping": false, "jobs": 1,
            "types": { evil("job"): 1 }, "held": [{ "id": evil("id"), "job": evil("held"), "attempt": 1, "crashes": 2 }],
        });
        self.push("hworker-meta:deaths", &dead.to_string());
        let schema = json!({
            "title": evil("title"), "type": "object",
            "properties": {
                evil("property"): { "type": "string", "format": evil("format"), "description": evil("description") },
                "choice": { "enum": [evil("choice")] },
            },
        });
        let manifest = json!({
            "name": evil("type"), "aliases": [evil("alias")], "queue": "evil", "timeout_ms": 1_000, "max_attempts": 3,
            "place": evil("source"), "schema": schema.to_string(), "fingerprint": "1", "seen": now,
        });
        self.set("hworker-meta:jobs", &evil("type"), &manifest.to_string());
    }
}
