//! hworker as its README has it: the settings of `run_all`, and nothing but the public interface.

use contender::{Args, Contender, Options, Producer};
use hworker::{Bulk, Client, Priority, Worker};

#[hworker::job(queue = "bench")]
async fn run(n: u64, at: u64, text: String) {
    drop(text);
    contender::body(n, at).await;
}

/// The same with a limit, which is never used up.
#[hworker::job(queue = "bench", concurrency = 100_000)]
async fn run_limited(n: u64, at: u64, text: String) {
    drop(text);
    contender::body(n, at).await;
}

/// The same with a limit for each of many keys.
#[hworker::job(queue = "bench", concurrency(limit = 2, key = key))]
async fn run_of_key(n: u64, at: u64, text: String, key: u64) {
    drop((text, key));
    contender::body(n, at).await;
}

/// How many there are.
const KEYS: u64 = 10_000;

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
        Enqueue(client(options), options.variant.clone())
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

/// What enqueues, and in which lists.
#[derive(Clone)]
struct Enqueue(Client, String);

impl Enqueue {
    fn add(&self, bulk: &mut Bulk, Args { n, at, text }: Args) {
        match &*self.1 {
            "priority" => bulk.extend([run::with(n, at, text).priority(Priority::High)]),
            "limit" => bulk.extend([run_limited::with(n, at, text)]),
            "keys" => bulk.extend([run_of_key::with(n, at, text, n % KEYS)]),
            _ => bulk.extend([run::with(n, at, text)]),
        }
    }
}

impl Producer for Enqueue {
    async fn one(&self, job: Args) {
        if !self.1.is_empty() {
            return self.bulk(vec![job]).await;
        }
        let call = run::with(job.n, job.at, job.text).on(&self.0);
        call.enqueue().await.unwrap_or_else(|error| panic!("{error}"));
    }

    async fn bulk(&self, jobs: Vec<Args>) {
        let mut bulk = Bulk::new();
        jobs.into_iter().for_each(|job| self.add(&mut bulk, job));
        bulk.on(&self.0).enqueue().await.unwrap_or_else(|error| panic!("{error}"));
    }
}

fn main() {
    contender::main::<Hworker>();
}
