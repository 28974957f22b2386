//! Oxana as its README has it, with a connection for each job at once. An idle queue is looked at every 10 ms; with its
//! defaults it is every 10 s.

use std::time::Duration;

use contender::{Args, Contender, Options};
use oxana::{JobContext, Storage};
use serde::{Deserialize, Serialize};

struct Oxana;

fn storage(options: &Options) -> Storage {
    let builder = Storage::builder().max_pool_size(options.concurrency.max(50) + 10);
    builder.build_from_redis_url(options.url.as_str()).expect("the URL of the server")
}

impl Contender for Oxana {
    async fn producer(options: &Options) -> impl contender::Producer {
        Enqueue(storage(options))
    }

    async fn work(options: &Options) {
        let runtime = storage(options)
            .runtime(Nothing)
            .dequeue_timeout(Duration::from_millis(10))
            .queue_with_concurrency::<Queue>(options.concurrency)
            .worker::<RunWorker, RunJob>();
        runtime.run().await.expect("the runtime runs");
    }
}

#[derive(Debug, Deserialize, Serialize, oxana::Job)]
struct RunJob(Args);

/// What the workers share.
#[derive(Clone, Debug)]
struct Nothing;

#[derive(oxana::Worker)]
#[oxana(context = Nothing, job = RunJob, error = std::convert::Infallible, registry = None)]
struct RunWorker;

impl RunWorker {
    async fn process(&self, job: RunJob, _: &JobContext) -> Result<(), std::convert::Infallible> {
        contender::body(job.0.n, job.0.at).await;
        Ok(())
    }
}

#[derive(oxana::Queue, Serialize)]
#[oxana(key = "bench", concurrency = 10, registry = None)]
struct Queue;

#[derive(Clone)]
struct Enqueue(Storage);

impl contender::Producer for Enqueue {
    async fn one(&self, job: Args) {
        self.0.enqueue(Queue, RunJob(job)).await.expect("the server has it");
    }

    async fn bulk(&self, jobs: Vec<Args>) {
        let jobs = jobs.into_iter().map(RunJob);
        self.0.enqueue_list(Queue, jobs).await.expect("the server has them");
    }
}

fn main() {
    contender::main::<Oxana>();
}
