//! What bodies note while they run, in plain lists outside hworker's prefix, so that a test sees the runs in all
//! processes.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hworker::{BoxError, Context, Inject, State};
use serde::{Deserialize, Serialize};

use crate::redis_side::RedisSide;

/// Notes one line with the server's time; what was noted under the same mark already is not noted again.
const NOTE: &str = "
    local time = redis.call('TIME')
    if redis.call('SADD', KEYS[2], ARGV[1]) == 0 then return 0 end
    redis.call('RPUSH', KEYS[1], string.format('%d ', time[1] * 1000000 + time[2]) .. ARGV[2])
    return 1";

const BEGIN: &str = "
    redis.call('HSETNX', KEYS[1], ARGV[1], redis.call('HLEN', KEYS[1]))
    return tonumber(redis.call('HGET', KEYS[1], ARGV[1]))";

/// A body that cannot note its run gives up after this.
const NOTE_WITHIN: Duration = Duration::from_secs(20);

/// Where bodies note their runs. A job takes it under `#[inject]`.
#[derive(Clone)]
pub struct Runs {
    redis: Arc<Mutex<RedisSide>>,
}

/// One line of a body.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Run {
    /// When, in microseconds by the server's clock.
    #[serde(skip)]
    pub at: u64,
    /// `begin`, `end`, or what the body says.
    pub what: String,
    /// The job's id.
    pub id: String,
    /// How many times the job was begun before, crashes included.
    pub number: u64,
    /// The attempt, from 1.
    pub attempt: u32,
    /// The fencing token.
    pub token: u64,
    /// The worker's id.
    pub worker: String,
    /// The process.
    pub pid: u32,
    /// Which run of a body it is in that process.
    pub run: u64,
}

impl Run {
    /// What tells the line from every other, but not from itself where it is written again. A token alone does not: those of
    /// two queues can be the same, since each counts from the time in microseconds, and a body that were run twice under one
    /// lease would be taken for one run.
    fn mark(&self) -> String {
        let Self { what, id, number, token, pid, run, .. } = self;
        format!("{id}:{token}:{number}:{pid}:{run}:{what}")
    }
}

/// Whose run a line is about.
#[derive(Clone)]
pub struct Runner {
    id: String,
    attempt: u32,
    token: u64,
    worker: String,
    run: u64,
}

/// Made for each run of a body, and not for each of its notes.
impl From<&Context> for Runner {
    fn from(context: &Context) -> Self {
        Self {
            run: fresh_run(),
            id: context.id().to_string(),
            attempt: context.attempt(),
            token: context.token(),
            worker: context.worker().to_owned(),
        }
    }
}

impl From<&Self> for Runner {
    fn from(runner: &Self) -> Self {
        runner.clone()
    }
}

impl Runner {
    /// A run of which the body knows no more than the name of the job.
    pub fn of(name: &str) -> Self {
        let run = fresh_run();
        // Other processes run jobs of that name too.
        let of_process = u64::from(std::process::id()) << 32;
        Self {
            id: name.to_owned(),
            attempt: 0,
            token: of_process + run,
            worker: String::new(),
            run,
        }
    }
}

/// Counts the runs of bodies in this process.
fn fresh_run() -> u64 {
    static RUNS: AtomicU64 = AtomicU64::new(0);
    RUNS.fetch_add(1, Ordering::Relaxed)
}

impl Runs {
    /// At the server with this URL.
    pub fn new(url: &str) -> Self {
        Self { redis: Arc::new(Mutex::new(RedisSide::new(url))) }
    }

    /// Counts a start of this job, from 0; once, however often it has to be asked.
    pub fn begin(&self, runner: &Runner) -> u64 {
        let (key, token) = (format!("test:starts:{}", runner.id), runner.token.to_string());
        self.insist(|redis| redis.try_ask(&["EVAL", BEGIN, "1", &key, &token]))
    }

    /// Notes a line about a run.
    pub fn note(&self, name: &str, what: &str, number: u64, runner: impl Into<Runner>) {
        let Runner { id, attempt, token, worker, run } = runner.into();
        let pid = std::process::id();
        let run =
            Run { at: 0, what: what.to_owned(), id, number, attempt, token, worker, pid, run };
        let line = serde_json::to_string(&run).expect("a run is JSON");
        let mark = run.mark();
        let (list, marks) = (format!("test:runs:{name}"), format!("test:marks:{name}"));
        let words = ["EVAL", NOTE, "2", &list, &marks, &mark, &line];
        let _: u64 = self.insist(|redis| redis.try_ask(&words));
    }

    /// What was noted under a name.
    pub fn of(&self, name: &str) -> Vec<Run> {
        let list = format!("test:runs:{name}");
        let lines: Vec<String> = self.insist(|redis| redis.try_ask(&["LRANGE", &list, "0", "-1"]));
        let run = |line: &String| {
            let (at, run) = line.split_once(' ').expect("a line of a run");
            let run: Run = serde_json::from_str(run).expect("a line of a run");
            Run { at: at.parse().expect("a time"), ..run }
        };
        lines.iter().map(run).collect()
    }

    /// Lets everyone pass who waits at the gate.
    pub fn open(&self, gate: &str) {
        let key = format!("test:gate:{gate}");
        let _: String = self.insist(|redis| redis.try_ask(&["SET", &key, "open"]));
    }

    /// Whether the gate is open.
    pub fn is_open(&self, gate: &str) -> bool {
        let key = format!("test:gate:{gate}");
        self.insist::<u64>(|redis| redis.try_ask(&["EXISTS", &key])) == 1
    }

    /// The server may be away for a while; a body waits for it.
    fn insist<T>(&self, mut ask: impl FnMut(&mut RedisSide) -> redis::RedisResult<T>) -> T {
        let give_up = Instant::now() + NOTE_WITHIN;
        loop {
            let mut redis = self.redis.lock().unwrap_or_else(PoisonError::into_inner);
            match ask(&mut redis) {
                Ok(value) => return value,
                Err(error) if Instant::now() > give_up => panic!("a note of a test: {error}"),
                Err(_) => {
                    drop(redis);
                    std::thread::sleep(Duration::from_millis(50));
                }
            }
        }
    }
}

impl Inject for Runs {
    /// The worker's state or, in a worker process, the server that its environment names.
    fn inject(context: &Context) -> Result<Self, BoxError> {
        static OF_THE_PROCESS: std::sync::OnceLock<Runs> = std::sync::OnceLock::new();
        if let Ok(State(runs)) = State::<Self>::inject(context) {
            return Ok(runs);
        }
        let url = std::env::var("HWORKER_TEST_URL")?;
        Ok(OF_THE_PROCESS.get_or_init(|| Self::new(&url)).clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(id: &str, run: u64) -> Run {
        Run {
            at: 0,
            what: "end".to_owned(),
            id: id.to_owned(),
            number: 0,
            attempt: 1,
            token: 7,
            worker: "w".to_owned(),
            pid: 1,
            run,
        }
    }

    #[test]
    fn jobs_of_two_queues_with_the_same_token_are_both_noted() {
        assert_ne!(line("a", 0).mark(), line("b", 0).mark());
    }

    #[test]
    fn two_runs_of_one_lease_are_both_noted() {
        assert_ne!(line("a", 0).mark(), line("a", 1).mark());
        assert_eq!(line("a", 1).mark(), line("a", 1).mark(), "one that is written again");
    }
}
