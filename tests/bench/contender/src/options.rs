//! The arguments of a contender: a role, then `key=value`.

use std::time::Duration;

/// What the process is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Run jobs.
    Work,
    /// Enqueue jobs.
    Produce,
}

/// What the harness asks for.
#[derive(Clone, Debug)]
pub struct Options {
    pub role: Role,
    /// The server's.
    pub url: String,
    pub queue: String,
    /// Another way to use the library than its usual one.
    pub variant: String,
    /// The number of the first job.
    pub first: u64,
    /// How many jobs to enqueue, or after how many the worker is done.
    pub jobs: u64,
    /// Bytes of the arguments of a job, as JSON.
    pub payload: usize,
    pub current_thread: bool,

    /// Jobs at once.
    pub concurrency: usize,
    /// How long each body sleeps.
    pub sleep: Duration,
    /// Whether waits are taken, from the job with this number on.
    pub waits: Option<u64>,
    /// Whether each start and end is reported.
    pub trace: bool,
    /// How often the number of jobs done is reported.
    pub progress: Option<Duration>,
    /// Workers in this process, each on its own.
    pub workers: usize,
    /// Over how many shards the queue is spread.
    pub shards: usize,

    /// Tasks that enqueue at once.
    pub tasks: usize,
    /// Jobs in one bulk call; 0: one call for each.
    pub bulk: usize,
    /// Jobs a second, of all tasks; 0: as fast as it goes.
    pub rate: f64,
    /// Ends the enqueueing, whatever `jobs` says.
    pub seconds: Option<Duration>,
    /// Enqueues no further job while so many are not done.
    pub window: Option<u64>,
}

impl Options {
    pub(crate) fn parse(mut words: impl Iterator<Item = String>) -> Self {
        let role = match words.next().as_deref() {
            Some("work") => Role::Work,
            Some("produce") => Role::Produce,
            other => panic!("the first argument is `work` or `produce`, not {other:?}"),
        };
        let mut options = Self {
            role,
            url: String::new(),
            queue: "bench".into(),
            variant: String::new(),
            first: 1_000_000,
            jobs: u64::MAX,
            payload: 100,
            current_thread: false,
            concurrency: 10,
            sleep: Duration::ZERO,
            waits: None,
            trace: false,
            progress: None,
            workers: 1,
            shards: 1,
            tasks: 1,
            bulk: 0,
            rate: 0.0,
            seconds: None,
            window: None,
        };
        for word in words {
            let (key, value) = word.split_once('=').unwrap_or((&word, ""));
            options.set(key, value);
        }
        assert!(!options.url.is_empty(), "url=... is missing");
        options
    }

    fn set(&mut self, key: &str, value: &str) {
        let number =
            || -> u64 { value.parse().unwrap_or_else(|_| panic!("{key}={value} is no number")) };
        match key {
            "url" => self.url = value.into(),
            "queue" => self.queue = value.into(),
            "variant" => self.variant = value.into(),
            "first" => self.first = number(),
            "jobs" => self.jobs = number(),
            "payload" => self.payload = number() as usize,
            "current_thread" => self.current_thread = number() == 1,
            "concurrency" => self.concurrency = number() as usize,
            "sleep_ms" => self.sleep = Duration::from_millis(number()),
            "waits" => self.waits = Some(number()),
            "trace" => self.trace = number() == 1,
            "progress_ms" => self.progress = Some(Duration::from_millis(number())),
            "workers" => self.workers = number() as usize,
            "shards" => self.shards = number() as usize,
            "tasks" => self.tasks = number() as usize,
            "bulk" => self.bulk = number() as usize,
            "rate" => self.rate = number() as f64,
            "seconds" => self.seconds = Some(Duration::from_secs(number())),
            "window" => self.window = Some(number()),
            _ => panic!("unknown argument {key}"),
        }
    }
}
