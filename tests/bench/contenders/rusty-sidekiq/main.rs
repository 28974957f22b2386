//! rusty-sidekiq as its README has it. A job that runs when its worker dies is lost.

use async_trait::async_trait;
use contender::{Args, Contender, Options};
use sidekiq::{Processor, ProcessorConfig, RedisConnectionManager, RedisPool, Worker};

struct Sidekiq;

async fn pool(options: &Options, size: u32) -> RedisPool {
    let manager = RedisConnectionManager::new(options.url.as_str()).expect("the URL of the server");
    bb8::Pool::builder().max_size(size).build(manager).await.expect("a connection")
}

impl Contender for Sidekiq {
    async fn producer(options: &Options) -> impl contender::Producer {
        Enqueue(pool(options, 10).await, options.queue.clone())
    }

    async fn work(options: &Options) {
        // Each of its workers blocks a connection; the others are for what it does beside.
        let pool = pool(options, options.concurrency as u32 + 10).await;
        let config = ProcessorConfig::default().num_workers(options.concurrency);
        let mut processor = Processor::new(pool, vec![options.queue.clone()]).with_config(config);
        processor.register(Run);
        processor.run().await;
    }
}

#[derive(Clone)]
struct Run;

#[async_trait]
impl Worker<Args> for Run {
    async fn perform(&self, job: Args) -> sidekiq::Result<()> {
        contender::body(job.n, job.at).await;
        Ok(())
    }
}

#[derive(Clone)]
struct Enqueue(RedisPool, String);

impl contender::Producer for Enqueue {
    async fn one(&self, job: Args) {
        let call = Run::opts().queue(self.1.as_str());
        call.perform_async(&self.0, job).await.expect("the server has it");
    }

    async fn bulk(&self, jobs: Vec<Args>) {
        for job in jobs {
            self.one(job).await;
        }
    }
}

fn main() {
    contender::main::<Sidekiq>();
}
