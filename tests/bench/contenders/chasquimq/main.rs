//! ChasquiMQ with its events off, as its guide to throughput has it, and with its defaults.

use std::sync::Arc;

use bytes::Bytes;
use chasquimq::{Consumer, ConsumerConfig, Job, Producer, ProducerConfig};
use contender::{Args, Contender, Options};
use tokio_util::sync::CancellationToken;

struct Chasquimq;

impl Contender for Chasquimq {
    async fn producer(options: &Options) -> impl contender::Producer {
        // Beyond so many it drops the oldest without a word.
        let room = options.jobs.saturating_add(1_000_000).min(i64::MAX as u64);
        let config = ProducerConfig {
            queue_name: options.queue.clone(),
            max_stream_len: room,
            ..Default::default()
        };
        Enqueue(Arc::new(Producer::connect(&options.url, config).await.expect("a connection")))
    }

    async fn work(options: &Options) {
        let mut config = ConsumerConfig {
            queue_name: options.queue.clone(),
            concurrency: options.concurrency,
            ..Default::default()
        };
        if options.variant != "defaults" {
            config.batch = 256;
            config.events_enabled = false;
        }
        let consumer = Consumer::<Args>::new(&options.url, config);
        let run = consumer.run(run, CancellationToken::new());
        run.await.expect("the consumer runs");
    }
}

async fn run(job: Job<Args>) -> Result<Bytes, chasquimq::HandlerError> {
    contender::body(job.payload.n, job.payload.at).await;
    Ok(Bytes::new())
}

#[derive(Clone)]
struct Enqueue(Arc<Producer<Args>>);

impl contender::Producer for Enqueue {
    async fn one(&self, job: Args) {
        self.0.add(job).await.expect("the server has it");
    }

    async fn bulk(&self, jobs: Vec<Args>) {
        self.0.add_bulk(jobs).await.expect("the server has them");
    }
}

fn main() {
    contender::main::<Chasquimq>();
}
