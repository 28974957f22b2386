//! hworker as its README has it: the settings of `run_all`, and nothing but the public interface.

use contender::{Args, Contender, Options, Producer};
use hworker::{Bulk, Client, Worker};

#[hworker::job(queue = "bench")]
async fn run(n: u64, at: u64, text: String) {
    drop(text);
    contender::body(n, at).await;
}

/// Nobody enqueues it: for workers that wait on a queue of their own.
#[hworker::job(queue = "other")]
#[allow(clippy::unused_async)]
async fn never() {}

struct Hworker;

fn client(options: &Options) -> Client {
    let client = Client::builder().redis_url(&options.url).shards(&options.queue, options.shards);
    client.build().expect("the URL of the server")
}

impl Contender for Hworker {
    async fn producer(options: &Options) -> impl Producer {
        Enqueue(client(options))
    }

    async fn work(options: &Options) {
        let client = client(options);
        let workers: Vec<_> = (0..options.workers)
            .map(|_| {
                let worker = Worker::builder()
                    .client(&client)
                    .queues([options.queue.as_str()])
                    .concurrency(options.concurrency)
                    .build()
                    .unwrap_or_else(|error| panic!("{error}"));
                tokio::spawn(worker.run())
            })
            .collect();
        for worker in workers {
            let stopped = worker.await.expect("the worker does not panic");
            stopped.unwrap_or_else(|error| panic!("{error}"));
        }
    }
}

#[derive(Clone)]
struct Enqueue(Client);

impl Producer for Enqueue {
    async fn one(&self, job: Args) {
        let call = run::with(job.n, job.at, job.text).on(&self.0);
        call.enqueue().await.unwrap_or_else(|error| panic!("{error}"));
    }

    async fn bulk(&self, jobs: Vec<Args>) {
        let jobs = jobs.into_iter().map(|job| run::with(job.n, job.at, job.text));
        let bulk: Bulk = jobs.collect();
        bulk.on(&self.0).enqueue().await.unwrap_or_else(|error| panic!("{error}"));
    }
}

fn main() {
    contender::main::<Hworker>();
}
