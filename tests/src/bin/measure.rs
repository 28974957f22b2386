//! Measures how an idle worker learns of a job, the ways that were weighed and the one that was taken:
//! `cargo run --release -p hworker-tests --bin measure`. The figures of `ARCHITECTURE.md` come from it.

// A program that prints is what this is, and a job without an await is the least that can be run.
#![allow(clippy::print_stdout, clippy::unused_async)]

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use hworker::embedded::Server;
use hworker::{Client, Registry, Worker};

/// When each body started.
static STARTED: Mutex<Vec<Instant>> = Mutex::new(Vec::new());

#[hworker::job]
async fn note_start() {
    STARTED.lock().expect("no body panics").push(Instant::now());
}

const ENVELOPE: &str = r#"{"job":"note_start","args":{}}"#;
const LIST: &str = "hworker-jobs-default";

/// A connection that speaks just enough of the protocol.
struct Raw(UnixStream);

impl Raw {
    fn connect(server: &Server) -> Self {
        let url = server.url();
        let path = url.strip_prefix("redis+unix://").expect("a unix socket");
        Self(UnixStream::connect(path).expect("the server"))
    }

    fn send(&mut self, words: &[&str]) {
        let mut bytes = Vec::new();
        let written = write!(bytes, "*{}\r\n", words.len()).and_then(|()| {
            words.iter().try_for_each(|word| write!(bytes, "${}\r\n{word}\r\n", word.len()))
        });
        written.and_then(|()| self.0.write_all(&bytes)).expect("the server reads");
    }

    /// Whatever comes next.
    fn read(&mut self) -> Vec<u8> {
        let mut buffer = vec![0; 64 * 1024];
        let length = self.0.read(&mut buffer).unwrap_or(0);
        buffer.truncate(length);
        buffer
    }

    fn call(&mut self, words: &[&str]) -> Vec<u8> {
        self.send(words);
        self.read()
    }
}

/// Counts the commands that clients send for a while, not those inside scripts.
fn commands(server: &Server, during: Duration) -> f64 {
    let mut monitor = Raw::connect(server);
    monitor.call(&["MONITOR"]);
    monitor.0.set_read_timeout(Some(Duration::from_millis(100))).expect("a timeout");
    let (start, mut text) = (Instant::now(), Vec::new());
    while start.elapsed() < during {
        text.extend(monitor.read());
    }
    let text = String::from_utf8_lossy(&text);
    let sent = text.lines().filter(|line| line.starts_with('+') && !line.contains(" lua]")).count();
    sent as f64 / start.elapsed().as_secs_f64()
}

fn percentiles(name: &str, mut latencies: Vec<Duration>) {
    latencies.sort();
    let at = |share: f64| latencies[((latencies.len() - 1) as f64 * share) as usize];
    println!(
        "{name:<58} p50 {:>9.1?}  p99 {:>9.1?}  ({} times)",
        at(0.5),
        at(0.99),
        latencies.len()
    );
}

/// `waiters` connections wait, one job comes at a time: how long until the first of them knows, and how many woke.
fn wake_ups(
    name: &str,
    waiters: usize,
    times: usize,
    wait: fn(&mut Raw, usize),
    arm: fn(&mut Raw),
) {
    let server = Server::start().expect("a server");
    let woken = Arc::new(AtomicUsize::new(0));
    let (tell, told) = mpsc::channel();
    for waiter in 0..waiters {
        let mut connection = Raw::connect(&server);
        let (woken, tell) = (Arc::clone(&woken), tell.clone());
        std::thread::spawn(move || {
            arm(&mut connection);
            loop {
                wait(&mut connection, waiter);
                woken.fetch_add(1, Ordering::Relaxed);
                if tell.send(Instant::now()).is_err() {
                    return;
                }
            }
        });
    }
    std::thread::sleep(Duration::from_millis(300));
    let mut producer = Raw::connect(&server);
    let mut latencies = Vec::new();
    for _ in 0..times {
        let pushed = Instant::now();
        producer.call(&["LPUSH", LIST, ENVELOPE]);
        latencies.push(told.recv().expect("a waiter").saturating_duration_since(pushed));
        std::thread::sleep(Duration::from_millis(10));
        while told.try_recv().is_ok() {}
    }
    percentiles(&format!("{name}, {waiters} waiting"), latencies);
    println!(
        "{:<58} {:.1} wake-ups for one job",
        "",
        woken.load(Ordering::Relaxed) as f64 / times as f64
    );
}

fn worker(client: &Client) -> Worker {
    let jobs = Registry::new().with::<note_start>();
    Worker::builder().client(client).registry(jobs).build().expect("a worker")
}

/// From a plain `LPUSH` of another connection to the start of the body, on an idle worker.
async fn pick_up(server: &Server, times: usize) -> Vec<Duration> {
    let mut producer = Raw::connect(server);
    let mut latencies = Vec::new();
    STARTED.lock().expect("no body panics").clear();
    for done in 0..times {
        tokio::time::sleep(Duration::from_millis(10)).await;
        let pushed = Instant::now();
        producer.call(&["LPUSH", LIST, ENVELOPE]);
        while STARTED.lock().expect("no body panics").len() <= done {
            tokio::time::sleep(Duration::from_micros(200)).await;
        }
        latencies.push(STARTED.lock().expect("no body panics")[done] - pushed);
    }
    latencies
}

async fn workers(count: usize) {
    let server = Server::start().expect("a server");
    let mut stop = Vec::new();
    let mut running = Vec::new();
    for _ in 0..count {
        let worker = worker(&Client::new(server.url()).expect("a client"));
        stop.push(worker.handle());
        running.push(tokio::spawn(worker.run_until(std::future::pending())));
    }
    tokio::time::sleep(Duration::from_secs(3)).await;

    let idle = tokio::task::block_in_place(|| commands(&server, Duration::from_secs(15)));
    println!("{:<58} {idle:.2} commands/s", format!("{count} idle hworker worker(s)"));
    percentiles(
        &format!("LPUSH to body, {count} idle hworker worker(s)"),
        pick_up(&server, 500).await,
    );

    let mut producer = Raw::connect(&server);
    let pushes = std::thread::spawn(move || {
        for _ in 0..15 {
            producer.call(&["LPUSH", LIST, ENVELOPE]);
            std::thread::sleep(Duration::from_secs(1));
        }
    });
    let busy = tokio::task::block_in_place(|| commands(&server, Duration::from_secs(15)));
    let _ = pushes.join();
    println!(
        "{:<58} {busy:.2} commands/s, of which 1 is the LPUSH",
        format!("{count} worker(s), one job a second")
    );
    stop.iter().for_each(hworker::WorkerHandle::stop);
    for worker in running {
        let _ = worker.await;
    }
}

#[tokio::main]
async fn main() {
    tokio::task::block_in_place(|| {
        for waiters in [1, 100] {
            wake_ups(
                "BLMOVE into an inbox of its own",
                waiters,
                300,
                |on, waiter| {
                    let inbox = format!("inbox:{waiter}");
                    on.call(&["BLMOVE", LIST, &inbox, "RIGHT", "LEFT", "0"]);
                },
                |_| {},
            );
            wake_ups(
                "RESP3 client tracking, armed again by a read",
                waiters,
                300,
                |on, _| {
                    on.call(&["LLEN", LIST]);
                    on.read();
                },
                |on| {
                    on.call(&["HELLO", "3"]);
                    on.call(&["CLIENT", "TRACKING", "ON"]);
                },
            );
        }
    });
    for count in [1, 100] {
        workers(count).await;
    }
}
