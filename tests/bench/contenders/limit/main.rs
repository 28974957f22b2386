//! What at-least-once costs at the least. A job goes from a list to a hash, and one script call settles the last batch and
//! reserves the next, over a socket and nothing around it. Nobody recovers, retries or counts, and arguments are not decoded.
//! Jobs are enqueued by commands of the redis crate, and with the variant `crate` settled and reserved by them too: the least that an
//! asynchronous program does, which shares its connection and its threads with others.
//! With bodies that sleep there is no queue at all: tasks that do what the bodies do.

mod wire;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use contender::{Args, Contender, Options, Producer};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd};
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
        if options.variant == "crate" {
            let work = tokio::spawn(work_by_the_crate(options.clone()));
            return work.await.expect("the connection works");
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

/// What a worker sends: settle and reserve from its queue, the same from where the server hands jobs to it, and the wait for one.
struct Calls {
    next: Cmd,
    handed: Cmd,
    wait: Cmd,
}

impl Calls {
    /// `hash` is the script's.
    fn new(options: &Options, number: usize, hash: &str) -> Self {
        let leases: Vec<String> =
            (0..options.concurrency).map(|slot| format!("{number}:{slot}")).collect();
        let progress = format!("{}-progress", options.queue);
        let inbox = format!("{}-inbox-{number}", options.queue);
        let call = |from: &str| {
            let mut call = redis::cmd("EVALSHA");
            call.arg(hash).arg(2).arg(&progress).arg(from).arg(&leases);
            call
        };
        let mut wait = redis::cmd("BLMOVE");
        wait.arg(&options.queue).arg(&inbox).arg("RIGHT").arg("LEFT").arg(0);
        Self { next: call(&options.queue), handed: call(&inbox), wait }
    }
}

fn load() -> Cmd {
    let mut load = redis::cmd("SCRIPT");
    load.arg("LOAD").arg(SCRIPT);
    load
}

async fn work(options: Options, number: usize) {
    let mut wire = Wire::connect(&options.url);
    let hash = wire.text(&load().get_packed_command());
    let calls = Calls::new(&options, number, &hash);
    let [next, handed, wait] =
        [calls.next, calls.handed, calls.wait].map(|call| call.get_packed_command());
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
        let (n, at) = wire.bulk(|job| looked_at(job, options));
        contender::body(n, at).await;
    }
    jobs > 0
}

async fn work_by_the_crate(options: Options) {
    let mut connection = connect(&options.url).await;
    let hash: String = load().query_async(&mut connection).await.expect("the script");
    let Calls { next, handed, wait } = Calls::new(&options, 0, &hash);
    loop {
        if !take_by_the_crate(&mut connection, &next, &options).await {
            let _: Vec<u8> = wait.query_async(&mut connection).await.expect("a job");
            take_by_the_crate(&mut connection, &handed, &options).await;
        }
    }
}

async fn take_by_the_crate(
    connection: &mut MultiplexedConnection,
    call: &Cmd,
    options: &Options,
) -> bool {
    let jobs: Vec<redis::Value> = call.query_async(connection).await.expect("the script runs");
    for job in &jobs {
        let redis::Value::BulkString(job) = job else { panic!("a job is a string") };
        let (n, at) = looked_at(job, options);
        contender::body(n, at).await;
    }
    !jobs.is_empty()
}

/// The least is not to look at a job; but without its time none has waited.
fn looked_at(job: &[u8], options: &Options) -> (u64, u64) {
    options.waits.map_or((0, 0), |_| number_and_time(job))
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
