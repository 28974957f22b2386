//! W8: a worker with 100 running jobs is killed while a second one is alive.

use std::collections::HashMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::{Bench, FIRST, Sample};
use crate::contenders::Contender;
use crate::process::Process;
use crate::server::Server;
use crate::{Failure, fail};

pub const SETTINGS: &[&str] = &["kill"];

const RUNNING: u64 = 100;
/// Jobs that are enqueued while both workers live. The first one has no slot for them.
const BESIDE: u64 = 50;
const BESIDE_FIRST: u64 = FIRST + 1_000_000;

pub fn run(bench: &Bench, contender: &Contender) -> Result<Sample, Failure> {
    let server = Server::start(&bench.server)?;
    let patience = bench.scale.pick(130, 60, 20);
    let body =
        |seconds: u64| [("concurrency", RUNNING), ("sleep_ms", seconds * 1000), ("trace", 1)];
    let mut first = bench.start(contender, &server, "work", &body(3600))?;
    bench.produce(contender, &server, &[("jobs", RUNNING), ("first", FIRST)])?;
    let mut begun = Runs::default();
    begun
        .listen(&mut first, Duration::from_secs(30), |runs| runs.started.len() as u64 == RUNNING)?;
    if (begun.started.len() as u64) < RUNNING {
        return Err(fail(format!("only {} of 100 jobs ran at once", begun.started.len())));
    }

    let mut second = bench.start(contender, &server, "work", &body(1))?;
    // It makes itself known.
    std::thread::sleep(Duration::from_secs(3));
    bench.produce(contender, &server, &[("jobs", BESIDE), ("first", BESIDE_FIRST)])?;
    std::thread::sleep(Duration::from_millis(500));
    let killed = micros();
    first.kill();

    let mut runs = Runs::default();
    let patience = Duration::from_secs(patience);
    runs.listen(&mut second, patience, |runs| runs.ended.len() as u64 == RUNNING + BESIDE)?;
    // What runs twice may do so a little later.
    runs.listen(&mut second, Duration::from_secs(2), |_| false)?;

    let all = (FIRST..FIRST + RUNNING).chain(BESIDE_FIRST..BESIDE_FIRST + BESIDE);
    let lost = all.filter(|n| !runs.ended.contains_key(n)).count();
    let twice = runs.started.values().filter(|times| times.len() > 1).count();
    let back =
        runs.started.iter().filter(|(n, _)| **n < BESIDE_FIRST).map(|(_, times)| times[0]).max();
    let mut sample =
        Sample::from([("jobs_not_back", lost as f64), ("jobs_run_twice_more", twice as f64)]);
    if let Some(back) = back.filter(|_| lost == 0) {
        sample.insert("last_back_after_s", back.saturating_sub(killed) as f64 / 1e6);
    }
    Ok(sample)
}

/// When each job started and ended, in microseconds since 1970.
#[derive(Default)]
struct Runs {
    started: HashMap<u64, Vec<u64>>,
    ended: HashMap<u64, u64>,
}

impl Runs {
    /// Takes down what a worker reports, until it is enough or the time is over.
    fn listen(
        &mut self,
        worker: &mut Process,
        within: Duration,
        enough: impl Fn(&Self) -> bool,
    ) -> Result<(), Failure> {
        let give_up = Instant::now() + within;
        while !enough(self) {
            let left = give_up.saturating_duration_since(Instant::now());
            let Some(line) = worker.hear(left)? else { return Ok(()) };
            let (Some(n), Some(at)) = (line["n"].as_u64(), line["at"].as_u64()) else { continue };
            if line["event"] == "start" {
                self.started.entry(n).or_default().push(at);
            } else {
                self.ended.insert(n, at);
            }
        }
        Ok(())
    }
}

fn micros() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64)
}
