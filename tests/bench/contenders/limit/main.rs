//! What at-least-once costs at the least: commands of the redis crate and nothing around them. A job goes from a list to
//! a hash, and one script call settles the last batch and reserves the next. Nobody recovers, retries or counts, and
//! arguments are not decoded.
//! With bodies that sleep there is no queue at all: tasks that do what the bodies do.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use contender::{Args, Contender, Options, Producer};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd};

/// Also run by `redis-benchmark`; the harness reads it from this file.
const SCRIPT: &str = include_str!("settle_and_reserve.lua");

struct Limit;

impl Contender for Limit {
    async fn producer(options: &Options) -> impl Producer {
        Bare { connection: connect(&options.url).await, queue: options.queue.clone().into() }
    }

    async fn work(options: &Options) {
        if !options.sleep.is_zero() {
            return without_a_queue(options).await;
        }
        let connections = if options.variant == "two" { 2 } else { 1 };
        let tasks: Vec<_> =
            (0..connections).map(|number| tokio::spawn(work(options.clone(), number))).collect();
        for task in tasks {
            task.await.expect("the connection works");
        }
    }
}

async fn connect(url: &str) -> MultiplexedConnection {
    let config = AsyncConnectionConfig::new().set_response_timeout(None);
    let client = Client::open(url).expect("the URL of the server");
    client.get_multiplexed_async_connection_with_config(&config).await.expect("a connection")
}

async fn work(options: Options, number: usize) {
    let mut connection = connect(&options.url).await;
    let hash: String = redis::cmd("SCRIPT")
        .arg("LOAD")
        .arg(SCRIPT)
        .query_async(&mut connection)
        .await
        .expect("the script");
    let leases: Vec<String> =
        (0..options.concurrency).map(|slot| format!("{number}:{slot}")).collect();
    let progress = format!("{}-progress", options.queue);
    let inbox = format!("{}-inbox-{number}", options.queue);
    let call = |from: &str| {
        let mut call = redis::cmd("EVALSHA");
        call.arg(&hash).arg(2).arg(&progress).arg(from).arg(&leases);
        call
    };
    let (next, handed) = (call(&options.queue), call(&inbox));
    let mut wait = redis::cmd("BLMOVE");
    wait.arg(&options.queue).arg(&inbox).arg("RIGHT").arg("LEFT").arg(0);
    loop {
        let mut taken = reserve(&next, &mut connection).await;
        if taken.is_empty() {
            let _: Vec<u8> = wait.query_async(&mut connection).await.expect("a job");
            taken = reserve(&handed, &mut connection).await;
        }
        for job in taken {
            let redis::Value::BulkString(job) = job else { panic!("a job is a string") };
            // The least is not to look at them; but without its time no job has waited.
            let (n, at) = if options.waits.is_some() { number_and_time(&job) } else { (0, 0) };
            contender::body(n, at).await;
        }
    }
}

async fn reserve(call: &Cmd, connection: &mut MultiplexedConnection) -> Vec<redis::Value> {
    call.query_async(connection).await.expect("the script runs")
}

async fn without_a_queue(options: &Options) {
    let left = Arc::new(AtomicU64::new(options.jobs));
    let tasks: Vec<_> = (0..options.concurrency)
        .map(|_| {
            let left = Arc::clone(&left);
            tokio::spawn(async move {
                let more = |n: u64| n.checked_sub(1);
                while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok() {
                    contender::body(0, 0).await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("no body panics");
    }
    std::future::pending::<()>().await;
}

/// A job as it lies in the list: the least is an id beside the arguments.
#[derive(serde::Deserialize, serde::Serialize)]
struct Stored {
    id: String,
    args: Args,
}

fn number_and_time(job: &[u8]) -> (u64, u64) {
    let job: Stored = serde_json::from_slice(job).expect("a job");
    (job.args.n, job.args.at)
}

fn encode(job: Args) -> Vec<u8> {
    let id = format!("0198f3c2-7c3a-7000-8000-{:012}", job.n);
    serde_json::to_vec(&Stored { id, args: job }).expect("plain data")
}

#[derive(Clone)]
struct Bare {
    connection: MultiplexedConnection,
    queue: Arc<str>,
}

impl Producer for Bare {
    async fn one(&self, job: Args) {
        self.push([job]).await;
    }

    async fn bulk(&self, jobs: Vec<Args>) {
        for hundred in jobs.chunks(100) {
            self.push(hundred.iter().cloned()).await;
        }
    }
}

impl Bare {
    async fn push(&self, jobs: impl IntoIterator<Item = Args>) {
        let mut push = redis::cmd("LPUSH");
        push.arg(&*self.queue);
        for job in jobs {
            push.arg(encode(job));
        }
        let _: u64 =
            push.query_async(&mut self.connection.clone()).await.expect("the server has it");
    }
}

fn main() {
    contender::main::<Limit>();
}
