//! A worker inside the process of the test.

use hworker::{Job, Registry, Stopped, Worker, WorkerBuilder, WorkerHandle};
use tokio::task::JoinHandle;

use crate::server::TestServer;

/// A worker that runs as a task of the test; dropping it ends it as a crash would.
pub struct InProcess {
    handle: WorkerHandle,
    task: JoinHandle<Result<Stopped, hworker::Error>>,
}

impl TestServer {
    /// Settings of a worker on this server that knows no job yet.
    pub fn worker(&self) -> WorkerBuilder {
        Worker::builder().client(self.client()).registry(Registry::new()).state(self.runs().clone())
    }

    /// A worker with four slots that knows one job.
    pub fn run_worker<J: Job>(&self) -> InProcess {
        InProcess::run(self.worker().concurrency(4).register::<J>())
    }
}

impl InProcess {
    /// Runs it.
    pub fn run(builder: WorkerBuilder) -> Self {
        let worker = builder.build().unwrap_or_else(|error| panic!("{error}"));
        let handle = worker.handle();
        Self { handle, task: tokio::spawn(worker.run_until(std::future::pending())) }
    }

    /// Stops it and waits for its end.
    pub async fn stop(mut self) -> Stopped {
        self.handle.stop();
        let stopped = (&mut self.task).await.expect("the worker does not panic");
        stopped.unwrap_or_else(|error| panic!("{error}"))
    }

    /// Whether it goes on.
    pub fn is_alive(&self) -> bool {
        !self.task.is_finished()
    }
}

impl Drop for InProcess {
    fn drop(&mut self) {
        self.task.abort();
    }
}
