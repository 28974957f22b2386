//! A producer: it enqueues so many jobs a second, in every way in which jobs are enqueued, and notes what it was told.

use std::io::BufRead;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use fastrand::Rng;
use hworker::{Bulk, Error, Fate};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::diary::{Note, What};
use crate::jobs::{Desk, Drawn, QUEUES, draw};
use crate::report::Failure;

/// Jobs whose enqueue has not ended, at most.
const UNDER_WAY: u32 = 3_000;

/// Largest bulk.
const BULK: usize = 200;

/// Runs until its input says `stop`, or ends.
pub(crate) async fn run(first: u32, seed: u64, per_second: u32) -> Result<(), Failure> {
    let diary = &Desk::get().diary;
    diary.note(Note::of(What::Up, 0, std::process::id()));
    let orders = Arc::new(Orders::default());
    listen(Arc::clone(&orders));
    let redis = redis::Client::open(std::env::var("HWORKER_REDIS_URL")?)?;
    let under_way = Arc::new(Semaphore::new(UNDER_WAY as usize));
    let (mut rng, mut n, mut due) = (Rng::with_seed(seed), first, 0.0);
    let (mut last, mut tasks) = (Instant::now(), JoinSet::new());
    while !orders.stop.load(Ordering::Acquire) {
        tokio::time::sleep(Duration::from_millis(20)).await;
        while tasks.try_join_next().is_some() {}
        // What could not be enqueued in time is made up for, slowly.
        due += last.elapsed().as_secs_f64() * f64::from(per_second);
        due = due.min(f64::from(per_second) * 20.0);
        last = Instant::now();
        if orders.hold.load(Ordering::Acquire) {
            due = 0.0;
        }
        let mut now = (due as u32).min(per_second / 15);
        while now > 0 {
            let count = if rng.bool() { 1 } else { rng.u32(1..=now).min(BULK as u32) };
            let Ok(permit) = Arc::clone(&under_way).try_acquire_many_owned(count) else { break };
            let mut jobs: Vec<_> = (n..n + count).map(|n| draw(n, &mut rng)).collect();
            let (from, redis) = (n, redis.clone());
            n += count;
            now -= count;
            due -= f64::from(count);
            tasks.spawn(async move {
                diary.note(Note::of(What::Trying, from, count));
                match jobs.pop() {
                    Some(job) if jobs.is_empty() => enqueue(from, job, &redis).await,
                    Some(job) => {
                        jobs.push(job);
                        enqueue_bulk(from, jobs, &redis).await;
                    }
                    None => {}
                }
                drop(permit);
            });
        }
    }
    while tasks.join_next().await.is_some() {}
    diary.note(Note::of(What::Done, 0, 0));
    Ok(())
}

/// What the suite tells a producer to do.
#[derive(Default)]
struct Orders {
    hold: AtomicBool,
    stop: AtomicBool,
}

fn listen(orders: Arc<Orders>) {
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            match line.as_str() {
                "hold" => orders.hold.store(true, Ordering::Release),
                "go" => orders.hold.store(false, Ordering::Release),
                "stop" => orders.stop.store(true, Ordering::Release),
                _ => {}
            }
        }
        if !orders.stop.load(Ordering::Acquire) {
            // The suite is gone.
            std::process::exit(9);
        }
    });
}

async fn enqueue(n: u32, job: Drawn, redis: &redis::Client) {
    let what = match job {
        Drawn::Ours(job) => told(job.enqueue().await.err().as_ref()),
        Drawn::Raw(queue, bytes) => push(queue, bytes, redis.clone()).await,
    };
    Desk::get().diary.note(Note::of(what, n, 1));
}

fn told(error: Option<&Error>) -> What {
    match error {
        None | Some(Error::NotDurable { .. }) => What::Accepted,
        Some(Error::Uncertain { .. }) => What::Uncertain,
        Some(Error::Unavailable { .. } | Error::Refused { .. } | Error::Conflict { .. }) => {
            What::Refused
        }
        Some(other) => {
            static SAID: AtomicU32 = AtomicU32::new(0);
            if SAID.fetch_add(1, Ordering::Relaxed) < 10 {
                eprintln!("unexpected: {other}");
            }
            What::Refused
        }
    }
}

/// Enqueues jobs `n` and those that follow as one bulk, but for those that a foreign producer pushes.
async fn enqueue_bulk(n: u32, jobs: Vec<Drawn>, redis: &redis::Client) {
    let (mut bulk, mut numbers) = (Bulk::new(), Vec::new());
    for (number, job) in (n..).zip(jobs) {
        match job {
            Drawn::Ours(job) => job.add_to(&mut bulk),
            raw @ Drawn::Raw(..) => {
                enqueue(number, raw, redis).await;
                continue;
            }
        }
        numbers.push(number);
    }
    let diary = &Desk::get().diary;
    let note = |n: u32, what| diary.note(Note::of(what, n, 1));
    match bulk.enqueue().await {
        // As one record, where nothing is missing in between.
        Ok(_) if numbers.len() == (numbers.last().map_or(0, |last| last - n + 1)) as usize => {
            diary.note(Note::of(What::Accepted, n, numbers.len() as u32));
        }
        Ok(_) => numbers.iter().for_each(|n| note(*n, What::Accepted)),
        Err(Error::Bulk { jobs, .. }) => {
            for (n, (_, fate)) in numbers.iter().zip(jobs) {
                note(
                    *n,
                    match fate {
                        Fate::Enqueued | Fate::NotDurable => What::Accepted,
                        Fate::NotEnqueued => What::Refused,
                        Fate::Uncertain => What::Uncertain,
                    },
                );
            }
        }
        Err(error) => {
            // With every other error none is.
            let _ = told(Some(&error));
            for n in numbers {
                note(n, What::Refused);
            }
        }
    }
}

/// As a producer in another language does it; what it knows afterwards is less than what hworker's client knows.
async fn push(queue: &'static str, bytes: String, redis: redis::Client) -> What {
    debug_assert!(QUEUES.contains(&queue));
    let push = move || -> redis::RedisResult<i64> {
        let mut connection = redis.get_connection_with_timeout(Duration::from_secs(2))?;
        connection.set_read_timeout(Some(Duration::from_secs(5)))?;
        redis::cmd("LPUSH").arg(format!("hworker-jobs-{queue}")).arg(bytes).query(&mut connection)
    };
    match tokio::task::spawn_blocking(push).await {
        Ok(Ok(_)) => What::Accepted,
        _ => What::Uncertain,
    }
}
