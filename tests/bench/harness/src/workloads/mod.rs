//! The workloads, each in a module of its own, and what they share.

mod crash;
pub mod drain;
mod durable;
mod enqueue;
mod idle;
pub mod shards;
mod size;
mod sleeping;
mod sustained;

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use crate::contenders::Contender;
use crate::options::Run;
use crate::process::{Process, Used};
use crate::results::Case;
use crate::server::{Host, Setup};
use crate::{Failure, fail};

/// What one run measured.
pub type Sample = BTreeMap<&'static str, f64>;

/// The number of the first job.
pub const FIRST: u64 = 1_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    Enqueue,
    Drain,
    Idle,
    Sustained,
    Sleeping,
    Size,
    Durable,
    Crash,
    Shards,
}

impl Workload {
    pub const ALL: [Self; 9] = [
        Self::Enqueue,
        Self::Drain,
        Self::Idle,
        Self::Sustained,
        Self::Sleeping,
        Self::Size,
        Self::Durable,
        Self::Crash,
        Self::Shards,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Enqueue => "w1",
            Self::Drain => "w2",
            Self::Idle => "w3",
            Self::Sustained => "w4",
            Self::Sleeping => "w5",
            Self::Size => "w6",
            Self::Durable => "w7",
            Self::Crash => "w8",
            Self::Shards => "w9",
        }
    }

    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|workload| workload.name() == word)
    }

    fn settings(self) -> &'static [&'static str] {
        match self {
            Self::Enqueue => enqueue::SETTINGS,
            Self::Drain => drain::SETTINGS,
            Self::Idle => idle::SETTINGS,
            Self::Sustained => sustained::SETTINGS,
            Self::Sleeping => sleeping::SETTINGS,
            Self::Size => size::SETTINGS,
            Self::Durable => durable::SETTINGS,
            Self::Crash => crash::SETTINGS,
            Self::Shards => shards::SETTINGS,
        }
    }

    /// Whether a setting differs enough from the others to see whether it works.
    fn smoke(self, setting: &str) -> bool {
        match self {
            Self::Enqueue | Self::Drain => !["one", "10"].contains(&setting),
            Self::Size => {
                ["10k-refilled", "1m", "scheduled-1m", "idle-1000", "100kb"].contains(&setting)
            }
            Self::Durable => setting.ends_with("-always"),
            Self::Shards => ["apart-2", "shards-6-on-3"].contains(&setting),
            Self::Idle | Self::Sustained | Self::Sleeping | Self::Crash => true,
        }
    }

    /// Whether a contender can be asked for it.
    fn takes(self, setting: &str, scale: Scale, contender: &Contender) -> bool {
        // `redis-benchmark`, and variants that make a difference where jobs are drained, and there alone.
        if contender.only_drains {
            let picks_up = self == Self::Idle && setting == "pickup" && contender.is_hworker();
            return self == Self::Drain || picks_up;
        }
        if scale == Scale::Smoke && !self.smoke(setting) {
            return false;
        }
        match self {
            Self::Enqueue => enqueue::takes(setting, contender),
            Self::Idle => idle::takes(setting, contender),
            Self::Size => size::takes(setting, scale, contender),
            // Without a queue nothing comes back, and `limit` is no program that runs for long.
            Self::Crash => !contender.is_limit(),
            Self::Shards => shards::takes(contender),
            Self::Drain | Self::Sustained | Self::Sleeping | Self::Durable => true,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    Full,
    Quick,
    Smoke,
}

impl Scale {
    pub fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Quick => "quick",
            Self::Smoke => "smoke",
        }
    }

    pub fn named(name: &str) -> Option<Self> {
        [Self::Full, Self::Quick, Self::Smoke].into_iter().find(|scale| scale.name() == name)
    }

    pub fn pick<T>(self, full: T, quick: T, smoke: T) -> T {
        match self {
            Self::Full => full,
            Self::Quick => quick,
            Self::Smoke => smoke,
        }
    }
}

/// A case and who runs it.
pub struct Unit {
    pub case: Case,
    workload: Workload,
    contender: Contender,
}

/// What the workloads run with.
#[derive(Clone)]
pub struct Bench {
    pub contenders: Vec<Contender>,
    pub server: Setup,
    pub server_version: String,
    pub scale: Scale,
    pub payload: u64,
    only: Option<Vec<String>>,
}

impl Bench {
    pub fn new(run: &Run) -> Result<Self, Failure> {
        let server_version = crate::check::server_version(&run.setup.program)?;
        let contenders = crate::check::contenders(run, &server_version)?;
        Ok(Self {
            contenders,
            server: run.setup.clone(),
            server_version,
            scale: run.scale,
            payload: run.payload,
            only: run.only.clone(),
        })
    }

    /// The runs of one round of a workload: contender after contender in each setting.
    pub fn plan(&self, workload: Workload) -> Vec<Unit> {
        if workload == Workload::Shards && !shards::can_run(&self.server) {
            eprintln!("bench: without w9, whose masters are reached over TCP and share all cores");
            return Vec::new();
        }
        let wanted = |setting: &&str| {
            self.only.as_ref().is_none_or(|only| only.iter().any(|one| one == *setting))
        };
        let settings = workload.settings().iter().copied().filter(|setting| wanted(setting));
        settings
            .flat_map(|setting| {
                let able = self
                    .contenders
                    .iter()
                    .filter(move |who| workload.takes(setting, self.scale, who));
                able.map(move |contender| Unit {
                    case: Case {
                        workload: workload.name().into(),
                        setting: setting.into(),
                        contender: contender.name.clone(),
                    },
                    workload,
                    contender: contender.clone(),
                })
            })
            .collect()
    }

    pub fn measure(&self, unit: &Unit) -> Result<Sample, Failure> {
        let (setting, contender) = (unit.case.setting.as_str(), &unit.contender);
        match unit.workload {
            Workload::Enqueue => enqueue::run(self, setting, contender),
            Workload::Drain => drain::run(self, setting, contender),
            Workload::Idle => idle::run(self, setting, contender),
            Workload::Sustained => sustained::run(self, contender),
            Workload::Sleeping => sleeping::run(self, contender),
            Workload::Size => size::run(self, setting, contender),
            Workload::Durable => durable::run(self, setting, contender),
            Workload::Crash => crash::run(self, contender),
            Workload::Shards => shards::run(self, setting, contender),
        }
    }

    /// Starts a contender's process with arguments `key=value`.
    pub fn start(
        &self,
        contender: &Contender,
        host: &impl Host,
        role: &str,
        arguments: &[(&str, u64)],
    ) -> Result<Process, Failure> {
        let mut command = contender.command(role);
        command.arg(format!("url={}", host.url())).arg(format!("payload={}", self.payload));
        for (key, value) in arguments {
            command.arg(format!("{key}={value}"));
        }
        let mut process = Process::start(command, host.dir())?;
        process.await_event("ready", Duration::from_secs(30))?;
        Ok(process)
    }

    /// Fills the queue through the contender's own fastest way.
    pub fn fill(&self, contender: &Contender, host: &impl Host, jobs: u64) -> Result<(), Failure> {
        let how = if contender.has_bulk { ("bulk", 1000) } else { ("tasks", 64) };
        self.produce(contender, host, &[("jobs", jobs), how]).map(|_| ())
    }

    /// Enqueues, and returns what the producer said and used.
    pub fn produce(
        &self,
        contender: &Contender,
        host: &impl Host,
        arguments: &[(&str, u64)],
    ) -> Result<(Rate, Used), Failure> {
        let mut producer = self.start(contender, host, "produce", arguments)?;
        producer.tell("go")?;
        let done = producer.await_event("done", PATIENCE)?;
        Ok((Rate::of(&done)?, producer.used()?))
    }
}

/// How long anything may take that ends by itself.
pub const PATIENCE: Duration = Duration::from_secs(180);

/// Jobs and the time they took.
#[derive(Clone, Copy)]
pub struct Rate {
    pub jobs: f64,
    pub seconds: f64,
}

impl Rate {
    pub fn of(done: &Value) -> Result<Self, Failure> {
        match (done["jobs"].as_f64(), done["seconds"].as_f64()) {
            (Some(0.0), _) => Err(fail("not a single job ran")),
            (Some(jobs), Some(seconds)) => Ok(Self { jobs, seconds }),
            _ => Err(fail(format!("a contender said {done}"))),
        }
    }

    pub fn per_second(self) -> f64 {
        self.jobs / self.seconds
    }
}

/// Adds the waits that a worker reported, in microseconds.
fn add_waits(sample: &mut Sample, done: &Value) -> Result<(), Failure> {
    let names = [
        ("p50", "wait_p50_us"),
        ("p90", "wait_p90_us"),
        ("p99", "wait_p99_us"),
        ("max", "wait_max_us"),
    ];
    for (field, name) in names {
        let wait = done["wait_us"][field].as_f64();
        sample.insert(name, wait.ok_or_else(|| fail(format!("a contender said {done}")))?);
    }
    Ok(())
}
