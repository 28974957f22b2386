//! Unique jobs in random order: no two of a key run at once, none is lost, and nothing is held at the end.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fastrand::Rng;
use hworker::{Client, Context, Error, JobId, OnConflict, State, Submitted, Unique};
use hworker_tests::{InProcess, TestServer};

use crate::SOON;

/// How many there are, and of how many keys: 20,000 of 100, or as many as `HWORKER_TEST_SUBMITS` says and up to 1,000 keys.
fn submits() -> (u32, u32) {
    let submits = hworker_tests::scale("HWORKER_TEST_SUBMITS", 20_000) as u32;
    (submits, (submits / 200).clamp(100, 1_000))
}

/// Tasks that submit.
const TASKS: u64 = 8;

/// What bodies do, and what is wrong with it.
#[derive(Clone, Default)]
struct Board(Arc<Mutex<Seen>>);

#[derive(Default)]
struct Seen {
    running: HashMap<u32, JobId>,
    ended: HashMap<JobId, u32>,
    wrong: Vec<String>,
}

#[hworker::job(backoff = "0s")]
async fn on_the_board(
    key: u32,
    ms: u64,
    fails: bool,
    State(board): State<Board>,
    context: Context,
) -> Result<(), String> {
    if let Some(other) = board.0.lock().expect("no panic").running.insert(key, context.id().clone())
    {
        let wrong = format!("{other} and {} run with the key {key}", context.id());
        board.0.lock().expect("no panic").wrong.push(wrong);
    }
    // Its work.
    tokio::time::sleep(Duration::from_millis(ms)).await;
    let mut seen = board.0.lock().expect("no panic");
    seen.running.remove(&key);
    if fails && context.attempt() == 1 {
        return Err("once".into());
    }
    *seen.ended.entry(context.id().clone()).or_default() += 1;
    Ok(())
}

/// What became of jobs, as their producers were told.
#[derive(Default)]
struct Told {
    in_force: HashSet<JobId>,
    replaced: HashSet<JobId>,
    follow: HashSet<JobId>,
}

async fn submit_some(client: Client, seed: u64, told: Arc<Mutex<Told>>) {
    let mut rng = Rng::with_seed(seed);
    let (submits, keys) = submits();
    for _ in 0..submits / TASKS as u32 {
        let key = rng.u32(..keys);
        let on_conflict = match rng.u8(..6) {
            0 => OnConflict::Keep,
            1 => OnConflict::Refuse,
            2 => OnConflict::Follow,
            3 => OnConflict::Replace,
            4 => OnConflict::Reschedule,
            _ => OnConflict::ReplaceAndReschedule,
        };
        let unique = Unique::by(key.to_string()).on_conflict(on_conflict);
        let job =
            on_the_board::with(key, rng.u64(..3), rng.u8(..10) == 0).unique(unique).on(&client);
        let job = match rng.u64(..40) {
            late @ 1..20 => job.delay(Duration::from_millis(late)),
            _ => job,
        };
        let receipt = match job.submit().await {
            Ok(receipt) => receipt,
            Err(Error::Conflict { .. }) => continue,
            Err(error) => panic!("{error}"),
        };
        let mut told = told.lock().expect("no panic");
        match receipt.submitted {
            Submitted::New => _ = told.in_force.insert(receipt.id),
            Submitted::Replaced(old) => {
                told.in_force.insert(receipt.id);
                told.replaced.insert(old);
            }
            Submitted::Follows(_) => _ = told.follow.insert(receipt.id),
            _ => {}
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn uq2_uq6_uq9_uq11_in_random_order() {
    // Eight producers, and workers that come and go: a job that is in force runs once, or another has taken its place; a follower at most
    // once.
    // Guard: each script that ends a job, or gives it back.
    let server = TestServer::start();
    let board = Board::default();
    let worker = || {
        let worker = server.worker().register::<on_the_board>().state(board.clone());
        InProcess::run(worker.concurrency(10))
    };
    let told = Arc::new(Mutex::new(Told::default()));
    let seed = fastrand::u64(..);
    let submits: Vec<_> = (0..TASKS)
        .map(|task| {
            tokio::spawn(submit_some(server.client().clone(), seed ^ task, Arc::clone(&told)))
        })
        .collect();
    let mut workers = vec![worker(), worker()];
    while !submits.iter().all(tokio::task::JoinHandle::is_finished) {
        // Stopped in the middle of bodies, it gives back what it has.
        tokio::time::sleep(Duration::from_millis(100)).await;
        workers.push(worker());
        workers.remove(0).stop().await;
    }
    for submit in submits {
        submit.await.expect("no panic");
    }
    server.drained(8 * SOON);
    let mut redis = server.redis();
    let held = ["ids", "unique"].map(|what| redis.len(&format!("hworker-jobs-default:{what}")));
    assert_eq!(held, [0, 0], "seed {seed}");
    let (board, told) = (board.0.lock().expect("no panic"), told.lock().expect("no panic"));
    assert_eq!(board.wrong, Vec::<String>::new(), "seed {seed}");
    let times = |id: &JobId| board.ended.get(id).copied().unwrap_or(0);
    for id in &told.in_force {
        let expected = u32::from(!told.replaced.contains(id));
        assert_eq!(times(id), expected, "seed {seed}: {id}");
    }
    assert!(told.follow.iter().all(|id| times(id) <= 1), "seed {seed}");
    let known = |id: &JobId| told.in_force.contains(id) || told.follow.contains(id);
    assert!(board.ended.keys().all(known), "seed {seed}");
    assert!(told.in_force.len() > 100 && told.follow.len() > 100 && told.replaced.len() > 100);
}
