#![forbid(unsafe_code)]
//! What the tests of hworker share: private servers, worker processes that can be killed and stopped, jobs that note
//! their runs where every process can see them, and a proxy that loses requests and replies.
//!
//! Everything here uses the public API of hworker and nothing else of it, but for the texts of its scripts, by which the
//! proxy knows their calls.

// What a body is told to return is no error of its job, and what a test does not look at it need not be told of.
#![allow(clippy::missing_errors_doc, clippy::must_use_candidate, clippy::return_self_not_must_use)]

// The documentation of `#[hworker::job]` stands in the crate of the macro, which cannot use `hworker`.
#[cfg(doctest)]
#[doc = include_str!("../../hworker-macros/src/job.md")]
mod job {}

mod clock;
mod cluster;
mod deployment;
mod errors;
mod eventually;
mod isolated;
mod jobs;
#[allow(missing_docs, reason = "results say what they are")]
mod kept;
mod node;
mod open_metrics;
mod process;
mod proxy;
#[allow(missing_docs, reason = "the fields are those of `JobInfo`")]
mod records;
mod redis_side;
mod relay;
#[allow(missing_docs, reason = "what a body says is said by its name")]
mod reports;
mod resp;
mod runs;
mod sentinel;
mod server;
mod several;
mod worker;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use clock::Clock;
pub use cluster::TestCluster;
pub use deployment::Deployment;
pub use errors::{How, strange, strange_blocking, wakes_with_a_panic};
pub use isolated::{
    Harm, act_bounded, act_isolated, act_isolated_blocking, act_until_cancelled, isolated_jobs,
};
pub use jobs::{
    Act, act, act_alone, act_blocking, act_by_rate, act_by_twos, act_in_order, act_of_key,
    act_once, act_unless_crashed, act_without_context, common_jobs, weigh,
};
pub use kept::{Ending, NoSum, Sum, keep, keep_isolated, wait_for};
pub use open_metrics::open_metrics;
pub use process::{Process, binary, produce};
pub use proxy::{Fault, Proxy, SCRIPTS};
pub use records::{Broken, Failed, Records};
pub use redis_side::RedisSide;
pub use reports::{Say, report, report_isolated, tell, walk, walk_isolated};
pub use runs::{Run, Runner, Runs};
pub use sentinel::{TestSentinels, TestSentinelsBuilder};
pub use server::{DOCUMENTED_KEY, TestServer, TestServerBuilder, program, servers};
pub use several::Several;
pub use worker::InProcess;

/// The machine to oneself, among the tests that ask for it: those that load it, and those that measure time.
pub struct Machine {
    _held: MutexGuard<'static, ()>,
}

impl Machine {
    /// Waits until no other test has it.
    pub fn claim() -> Self {
        static MACHINE: Mutex<()> = Mutex::new(());
        Self { _held: MACHINE.lock().unwrap_or_else(PoisonError::into_inner) }
    }
}

/// How large a test is: what this variable says, or else so much. Longer runs than those of CI set it.
#[must_use]
pub fn scale(variable: &str, otherwise: usize) -> usize {
    std::env::var(variable).ok().and_then(|number| number.parse().ok()).unwrap_or(otherwise)
}

/// Shows the log of hworker with the output of the test, where `HWORKER_LOG` asks for it.
pub(crate) fn show_log() {
    if let Some(level) = std::env::var("HWORKER_LOG").ok().and_then(|level| level.parse().ok()) {
        let level: tracing_subscriber::filter::LevelFilter = level;
        let _ = tracing_subscriber::fmt().with_max_level(level).with_test_writer().try_init();
    }
}

/// The examples of the document are compiled.
#[cfg(doctest)]
#[doc = include_str!("../../docs/reliability.md")]
struct Reliability;

#[cfg(doctest)]
#[doc = include_str!("../../docs/high-availability.md")]
struct HighAvailability;

#[cfg(doctest)]
#[doc = include_str!("../../docs/health.md")]
struct Health;

#[cfg(doctest)]
#[doc = include_str!("../../docs/control.md")]
struct Control;

#[cfg(doctest)]
#[doc = include_str!("../../docs/unique.md")]
struct Unique;

#[cfg(doctest)]
#[doc = include_str!("../../docs/scheduling.md")]
struct Scheduling;

#[cfg(doctest)]
#[doc = include_str!("../../docs/metrics.md")]
struct Metrics;

#[cfg(doctest)]
#[doc = include_str!("../../docs/logs.md")]
struct Logs;

#[cfg(doctest)]
#[doc = include_str!("../../docs/configuration.md")]
struct Configuration;

#[cfg(doctest)]
#[doc = include_str!("../../docs/isolation.md")]
struct Isolation;

#[cfg(doctest)]
#[doc = include_str!("../../docs/batches.md")]
struct Batches;

#[cfg(doctest)]
#[doc = include_str!("../../docs/bulk.md")]
struct Bulks;

#[cfg(doctest)]
#[doc = include_str!("../../docs/events.md")]
struct Events;

#[cfg(doctest)]
#[doc = include_str!("../../docs/testing.md")]
struct Testing;

#[cfg(doctest)]
#[doc = include_str!("../../docs/results.md")]
struct Results;

#[cfg(doctest)]
#[doc = include_str!("../../docs/deploys.md")]
struct Deploys;
