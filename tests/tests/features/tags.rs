//! Row P8: jobs for workers with a tag.

use hworker_tests::{InProcess, TestServer, act};

use crate::SOON;
use crate::cli::call;

async fn enqueue(server: &TestServer, name: &str, tag: &str) {
    let job = act::with(name.into(), vec![]).to(tag).on(server.client());
    job.enqueue().await.expect("enqueued");
}

#[tokio::test(flavor = "multi_thread")]
async fn p8_a_job_for_a_worker_waits_for_it() {
    // A job for the worker "bbb", while "aaa" is there -> "aaa" runs others and never that one; it starts when "bbb" comes. By a tag the same, also
    // from a tool; and a worker that serves every queue runs none for tags that it does not have.
    // Guard: `WorkerConfig::with_tags`, `WorkerConfig::excludes`.
    let server = TestServer::start();
    let named = |name: &str| {
        let worker = server.worker().registry(hworker_tests::common_jobs()).name(name);
        worker.answers_to_name(true)
    };
    let _aaa = InProcess::run(named("aaa").queues(["*"]));
    enqueue(&server, "for bbb", "bbb").await;
    enqueue(&server, "for gpu", "gpu").await;
    call(
        &server,
        &[
            "enqueue",
            "act",
            "--args",
            r#"{"name":"by hand","plan":[]}"#,
            "--to",
            "gpu",
            "--no-check",
        ],
    );
    for number in 0..20 {
        let name = format!("for aaa or any {number}");
        if number % 2 == 0 {
            enqueue(&server, &name, "aaa").await;
        } else {
            server.enqueue(&name, vec![]).await;
        }
        server.eventually("it runs", SOON, || server.ended(&name) == 1);
    }
    let waiting = async |queue: &str| {
        let counts = server.client().inspect(queue).counts().await.expect("counted");
        counts.waiting
    };
    assert_eq!((waiting("default@bbb").await, waiting("default@gpu").await), (1, 2));
    let _bbb = InProcess::run(named("bbb").tags(["gpu"]));
    server.eventually("they run", SOON, || {
        ["for bbb", "for gpu", "by hand"].iter().all(|name| server.ended(name) == 1)
    });
    assert!(server.runs_of("for bbb")[0].worker.starts_with("bbb."));
    assert!(server.runs_of("by hand")[0].worker.starts_with("bbb."));
}

#[tokio::test(flavor = "multi_thread")]
async fn p8_what_is_no_tag_is_refused() {
    // A tag with a blank, and one on a cron entry, which has its queue -> errors that say so, and nothing is written.
    let server = TestServer::start();
    let job = || act::with("a".into(), vec![]).on(server.client());
    let wrong = job().to("a b").enqueue().await.expect_err("refused").to_string();
    assert!(wrong.contains("the queue's name `default@a b`"), "{wrong}");
    let twice = job().queue("mail@eu").to("gpu").enqueue().await.expect_err("refused");
    assert!(twice.to_string().contains("mail@eu@gpu"), "{twice}");
    let entry = server.client().control("default").cron("entry");
    let wrong = entry.upsert(job().to("gpu").cron("0 2 * * *")).await.expect_err("refused");
    assert!(wrong.to_string().contains("mail@gpu"), "{wrong}");
    assert!(server.leftovers("default").is_empty());
}
