//! What at-least-once costs at the least. A job goes from a list to a hash, and one script call settles the last batch and
//! reserves the next, over a socket and nothing around it. Nobody recovers, retries or counts, and arguments are not decoded.
//! Jobs are enqueued by commands of the redis crate.
//! With bodies that sleep there is no queue at all: tasks that do what the bodies do.

mod wire;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use contender::{Args, Contender, Options, Producer};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client};
use tokio::runtime::Handle;

use self::wire::Wire;

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
        // Each has a thread of its own, which it blocks.
        let threads = (0..connections).map(|number| {
            let (options, runtime) = (options.clone(), Handle::current());
            tokio::task::spawn_blocking(move || runtime.block_on(work(options, number)))
        });
        let tasks: Vec<_> = threads.collect();
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
    let mut wire = Wire::connect(&options.url);
    let hash = wire.text(&redis::cmd("SCRIPT").arg("LOAD").arg(SCRIPT).get_packed_command());
    let leases: Vec<String> =
        (0..options.concurrency).map(|slot| format!("{number}:{slot}")).collect();
    let progress = format!("{}-progress", options.queue);
    let inbox = format!("{}-inbox-{number}", options.queue);
    let call = |from: &str| {
        let mut call = redis::cmd("EVALSHA");
        call.arg(&hash).arg(2).arg(&progress).arg(from).arg(&leases).get_packed_command()
    };
    let (next, handed) = (call(&options.queue), call(&inbox));
    let mut wait = redis::cmd("BLMOVE");
    wait.arg(&options.queue).arg(&inbox).arg("RIGHT").arg("LEFT").arg(0);
    let wait = wait.get_packed_command();
    loop {
        if !take(&mut wire, &next, &options).await {
            wire.text(&wait);
            take(&mut wire, &handed, &options).await;
        }
    }
}

/// Reserves jobs and runs them; says whether there were any.
async fn take(wire: &mut Wire, call: &[u8], options: &Options) -> bool {
    let jobs = wire.array(call);
    for _ in 0..jobs {
        // The least is not to look at them; but without its time no job has waited.
        let (n, at) = wire.bulk(|job| options.waits.map_or((0, 0), |_| number_and_time(job)));
        contender::body(n, at).await;
    }
    jobs > 0
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
