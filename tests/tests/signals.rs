//! What is left of `Worker::run` when it is over. In a program of its own, which hears no SIGTERM or SIGINT from then on.

use std::time::Duration;

use hworker::Worker;
use hworker_tests::{TestServer, act};

const SOON: Duration = Duration::from_secs(15);

#[test]
fn no_task_waits_for_signals_when_the_worker_has_stopped() {
    // A worker that runs and stops, and another one beside whose connections nothing new is needed -> the second leaves no task.
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
    // The connection of the client stays; that of the worker ends.
    std::thread::sleep(Duration::from_secs(1));
    let before = tasks();
    run();
    server.eventually("its tasks have ended", SOON, || tasks() <= before);
}
