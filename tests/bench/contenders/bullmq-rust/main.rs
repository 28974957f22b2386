//! `bullmq-rs`, a port of BullMQ to Rust, as its README has it.

use std::sync::Arc;

use bullmq_rs::{Queue, QueueBuilder, RedisConnection, WorkerBuilder};
use contender::{Args, Contender, Options};

struct Bullmq;

impl Contender for Bullmq {
    async fn producer(options: &Options) -> impl contender::Producer {
        let queue = QueueBuilder::new(&options.queue)
            .connection(RedisConnection::new(&options.url))
            .build()
            .await
            .expect("a connection");
        Enqueue(Arc::new(queue))
    }

    async fn work(options: &Options) {
        let worker = WorkerBuilder::new(&options.queue)
            .connection(RedisConnection::new(&options.url))
            .concurrency(options.concurrency)
            .build::<Args>();
        let handle = worker.start(|job| async move {
            contender::body(job.data.n, job.data.at).await;
            Ok(())
        });
        handle.await.expect("it starts").wait().await.expect("it works");
    }
}

#[derive(Clone)]
struct Enqueue(Arc<Queue<Args>>);

impl contender::Producer for Enqueue {
    async fn one(&self, job: Args) {
        self.0.add("run", job, None).await.expect("the server has it");
    }

    async fn bulk(&self, jobs: Vec<Args>) {
        let jobs = jobs.into_iter().map(|job| ("run".into(), job, None)).collect();
        self.0.add_bulk(jobs).await.expect("the server has them");
    }
}

fn main() {
    contender::main::<Bullmq>();
}
