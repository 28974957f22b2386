#![forbid(unsafe_code)]
// Without the feature some of what calls read and write of cron entries is for nobody.
#![cfg_attr(
    not(feature = "cron"),
    allow(dead_code, clippy::unused_async, clippy::unnecessary_wraps)
)]
#![doc = include_str!("../README.md")]

// Generated code says `::hworker`, also in this crate's own tests and examples.
#[allow(unused_extern_crates)]
extern crate self as hworker;

mod args;
mod audit;
mod backoff;
mod batch;
mod calendar;
mod charts;
mod client;
mod config;
mod context;
mod control;
#[cfg(feature = "cron")]
mod cron;
mod dead_workers;
mod deploys;
mod doctor;
mod durability;
#[cfg(feature = "embedded")]
pub mod embedded;
mod encryption;
mod enqueue;
mod envelope;
mod error;
mod events;
mod fnv;
mod fresh_uuid;
mod guarded;
mod hooks;
mod inspect;
mod job;
mod job_state;
mod join;
mod kept;
mod keys;
mod limit;
mod lock;
mod log;
mod manifest;
mod monitor;
#[cfg(feature = "metrics")]
mod open_metrics;
mod outcome;
mod pause;
mod priority;
// For `script/fuzz`; no other build of the library has it.
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod properties;
mod reconnect;
mod registry;
mod relay;
mod reports;
mod results;
mod runtime;
mod scheduler;
mod shards;
mod spelling;
mod store;
mod strict_json;
mod table;
#[cfg(feature = "testing")]
pub mod testing;
mod time;
mod unique;
#[cfg(feature = "web")]
pub mod web;
mod worker;

#[doc(hidden)]
pub mod __private;

pub use args::Args;
pub use audit::AuditEntry;
pub use batch::{
    BatchChange, BatchFailure, BatchHandle, BatchId, BatchState, BatchStatus, CallbackState,
};
#[cfg(feature = "cron")]
pub use calendar::{CatchUp, Overlap};
pub use charts::{Chart, ChartPoint, Gauges, Lately, Tally, Times, Window};
pub use client::{Client, ClientBuilder, Outgoing};
pub use config::defaults;
pub use context::{Context, Inject, Needs, State};
pub use control::{
    BroadcastInfo, Control, LimitControl, LimitInfo, LockInfo, TableInfo, WorkerControl,
};
#[cfg(feature = "cron")]
pub use control::{CronControl, CronInfo, CronRun};
#[cfg(feature = "cron")]
pub use cron::Schedule;
pub use dead_workers::{DeadWorker, HeldJob, Suspect};
pub use deploys::DeployMark;
pub use doctor::{Finding, Repair, Severity};
pub use durability::Durability;
pub use enqueue::{Abort, Batch, Bulk, Enqueue, EnqueueByName, LazyBulk};
pub use envelope::{AttemptError, Crash, JobId};
pub use error::{BoxError, Cause, Error, Fate, Problems};
pub use events::{EventPosition, EventReader};
#[cfg(feature = "cron")]
pub use hooks::{Checkin, CheckinState};
pub use hooks::{ErrorReport, Event, EventKind, Events};
pub use hworker_macros::job;
#[cfg(feature = "testing")]
pub use hworker_macros::test;
pub use inspect::{
    Action, BatchAudit, Changed, Counts, Edit, Filter, Group, Inspect, JobInfo, Jobs, Order, Page,
    QueueInfo, RunningJob, When, WorkerInfo,
};
pub use job::{Failed, Job, OnFault};
pub use job_state::JobState;
pub use limit::Rate;
pub use lock::Lock;
pub use manifest::{JobType, Parameter, TypeChange, check_manifest};
pub use outcome::{JobError, JobOutput, Outcome, Verdict, fail, retry_in, slow_down, snooze};
pub use pause::Pause;
pub use priority::Priority;
pub use registry::Registry;
pub use reports::{Each, LogLine, Progress, ProgressNote};
pub use results::{Handle, JobFailure, RawResult, ResultError};
pub use time::parse_duration;
pub use unique::{OnConflict, Receipt, Submitted, Unique};
pub use worker::{
    Around, Ending, Health, Layer, Next, Stopped, Unhealthy, Worker, WorkerBuilder, WorkerHandle,
    is_child,
};

/// Runs every job that the program links, on every queue that they name, until SIGTERM, SIGINT or SIGHUP.
///
/// Like `Worker::builder().build()?.run().await` (see [`Worker::run`]), with one difference: if jobs are still running when the shutdown
/// grace ends, it gives them back and exits the process with code 0, because dropping a tokio runtime could wait for them forever.
/// Otherwise it returns.
///
/// It takes these signals from the whole process: with `tokio::spawn(hworker::run_all())` beside a web server, SIGTERM stops the worker and
/// the server goes on. Such a program handles signals itself and calls [`Worker::run_until`].
///
/// # Errors
/// [`Error::Config`] lists everything that is wrong: settings, names, missing states, no linked job, a server that is too old.
/// [`Error::Refused`] if the server does not let the worker in, does not run its scripts, is no Redis server, or cannot confirm what
/// [`Durability`] asks.
pub async fn run_all() -> Result<(), Error> {
    log::install();
    let stopped = Worker::builder().build()?.run().await?;
    if stopped.left_something() {
        std::process::exit(0);
    }
    Ok(())
}
