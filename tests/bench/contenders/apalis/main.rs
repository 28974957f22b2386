//! apalis-redis with its events and locks off and batches as large as the concurrency, and with its defaults.
//! `persist_results(false)` would turn the acknowledgement off, so results stay. Both look for jobs every 10 ms: without a
//! strategy of polling, a worker that is idle does not find them, and with the one for intervals that comes with apalis it
//! stops looking when the time is over while it looks.

use std::task::{Context, Poll};
use std::time::Duration;

use apalis::layers::WorkerBuilderExt as _;
use apalis::prelude::*;
use apalis_redis::{Config, RedisStorage};
use contender::{Args, Contender, Options};

struct Apalis;

async fn storage(options: &Options) -> RedisStorage<Args> {
    let connection = apalis_redis::connect(options.url.as_str()).await.expect("a connection");
    let mut config = Config::default().queue(&options.queue);
    if options.variant != "defaults" {
        config =
            config.emit_events(false).lock_tasks(false).batch_size(options.concurrency.max(10));
    }
    RedisStorage::new(connection).with_config(config)
}

impl Contender for Apalis {
    async fn producer(options: &Options) -> impl contender::Producer {
        Enqueue(storage(options).await)
    }

    async fn work(options: &Options) {
        let worker = WorkerBuilder::new(format!("bench-{}", std::process::id()))
            .backend(
                storage(options)
                    .await
                    .poll_with_strategy(Every(tokio::time::interval(Duration::from_millis(10)))),
            )
            .concurrency(options.concurrency)
            .parallelize(tokio::spawn)
            .build(run);
        worker.run().await.expect("the worker runs");
    }
}

struct Every(tokio::time::Interval);

impl PollStrategy for Every {
    fn poll_drive(&mut self, context: &mut Context<'_>, _: &PollSnapshot) -> Poll<Option<()>> {
        let mut over = Poll::Pending;
        // Until it is pending, or nobody would be woken by it.
        while self.0.poll_tick(context).is_ready() {
            over = Poll::Ready(Some(()));
        }
        over
    }
}

async fn run(job: Args) -> Result<(), BoxDynError> {
    contender::body(job.n, job.at).await;
    Ok(())
}

#[derive(Clone)]
struct Enqueue(RedisStorage<Args>);

impl contender::Producer for Enqueue {
    async fn one(&self, job: Args) {
        self.0.clone().push(job).await.expect("the server has it");
    }

    async fn bulk(&self, jobs: Vec<Args>) {
        self.0.clone().push_bulk(jobs).await.expect("the server has them");
    }
}

fn main() {
    contender::main::<Apalis>();
}
