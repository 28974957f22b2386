//! What is left of `Worker::run` when it is over. In a program of its own, which hears no SIGTERM or SIGINT from then on.

use std::time::Duration;

use hworker::Worker;
use hworker_tests::{TestServer, act};

const SOON: Duration = Duration::from_secs(15);

#[test]
fn no_task_waits_for_signals_when_the_worker_has_stopped() {
    // One worker after the other runs and stops in a runtime -> there are not more and more tasks; some connections stay.
    // Guard: `Worker::run` waits for signals itself, and has no task for it.
    let server = TestServer::start();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let tasks = || runtime.metrics().num_alive_tasks();
    let run = || {
        let worker: Worker = server.worker().register::<act>().build().expect("a worker");
        worker.handle().stop();
        runtime.block_on(worker.run()).expect("it stops");
    };
    run();
    let before = tasks();
    (0..20).for_each(|_| run());
    server.eventually("its tasks have ended", SOON, || tasks() < before + 10);
}
