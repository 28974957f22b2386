//! Values at the edges of what is allowed.

use std::time::Duration;

use hworker_tests::{InProcess, TestServer, act};

const SOON: Duration = Duration::from_secs(10);

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_given_back_keeps_the_id_that_its_body_saw() {
    // Guard: `settle::identified` writes the job's id, not a fresh one.
    let server = TestServer::start();
    let foreign = r#"{"job":"act","args":{"name":"given","plan":[[{"Gate":"never"}],[]]}}"#;
    let _: u64 = server.redis().ask(&["LPUSH", "hworker-jobs-default", foreign]);
    let settings = server.worker().register::<act>().shutdown_grace(Duration::ZERO);
    let worker = InProcess::run(settings);
    server.eventually("it runs", SOON, || server.begun("given") == 1);
    worker.stop().await;
    let _worker = server.run_worker::<act>();
    server.eventually("it ends", SOON, || server.ended("given") == 1);
    let runs = server.runs_of("given");
    assert!(runs.iter().all(|run| run.id == runs[0].id), "{runs:?}");
}
