//! Measures what a process of its own costs a job: `cargo run --release -p hworker-tests --bin measure-isolate`. The figures of
//! `docs/isolation.md` come from it.

// A program that prints is what this is.
#![allow(clippy::print_stdout)]

use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use hworker::embedded::Server;
use hworker::{Client, Enqueue, Job};

/// Where bodies say that they run.
const SOCKET: &str = "HWORKER_TEST_SOCKET";

/// So many of each, in turn, behind as many that warm up.
const JOBS: usize = 2_000;

#[hworker::job]
fn plain() {
    say();
}

#[hworker::job(isolate = "process")]
fn isolated() {
    say();
}

/// Sends a byte to who measures.
fn say() {
    static TO: LazyLock<UnixDatagram> = LazyLock::new(|| {
        let socket = UnixDatagram::unbound().expect("a socket");
        socket.connect(std::env::var_os(SOCKET).expect("it is set")).expect("somebody measures");
        socket
    });
    TO.send(b".").expect("it is sent");
}

#[tokio::main]
async fn main() -> Result<(), hworker::Error> {
    if std::env::args().nth(1).is_some() {
        // The processes for bodies come here too.
        return hworker::run_all().await;
    }
    let server = Server::start()?;
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("bodies");
    let bodies = UnixDatagram::bind(&path).expect("a socket");
    bodies.set_read_timeout(Some(Duration::from_secs(30))).expect("a time");
    let mut worker = Command::new(std::env::current_exe().expect("a program"))
        .arg("worker")
        .env("HWORKER_REDIS_URL", server.url())
        .env("HWORKER_LOG", "error")
        .env(SOCKET, &path)
        .stdin(Stdio::null())
        .spawn()
        .expect("a worker");
    let measured = measure_both(&server, &bodies).await;
    worker.kill().and_then(|()| worker.wait()).expect("it ends");
    measured
}

async fn measure_both(server: &Server, bodies: &UnixDatagram) -> Result<(), hworker::Error> {
    let client = Client::new(server.url())?;
    let (mut of_plain, mut of_isolated) = (Vec::new(), Vec::new());
    for _ in 0..2 * JOBS {
        of_plain.push(measure(&client, bodies, plain::with()).await?);
        of_isolated.push(measure(&client, bodies, isolated::with()).await?);
    }
    let of_plain = percentiles("plain", of_plain.split_off(JOBS));
    let of_isolated = percentiles("isolated", of_isolated.split_off(JOBS));
    println!("more in the median: {:?}", of_isolated.saturating_sub(of_plain));
    Ok(())
}

/// From before its enqueue until its body runs.
async fn measure<J: Job>(
    client: &Client,
    bodies: &UnixDatagram,
    job: Enqueue<J>,
) -> Result<Duration, hworker::Error> {
    let start = Instant::now();
    job.on(client).enqueue().await?;
    tokio::task::block_in_place(|| bodies.recv(&mut [0])).expect("its body runs");
    let took = start.elapsed();
    // The worker ends the attempt, and waits for the next.
    tokio::time::sleep(Duration::from_millis(2)).await;
    Ok(took)
}

fn percentiles(name: &str, mut times: Vec<Duration>) -> Duration {
    times.sort();
    let at = |share: usize| times[times.len() * share / 100];
    println!("{name}: {:?} in the median, {:?} in 95 of 100, {:?} in 99", at(50), at(95), at(99));
    at(50)
}
