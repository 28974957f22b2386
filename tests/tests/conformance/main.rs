//! The rows of the conformance table, each as a test that is named after it, against a real server.
//!
//! The first comment of a test is its row's check, and after it stands the guard: what, when it is taken away, makes the
//! test fail.

// A job is async, and owns its arguments, because it is a job, and not because its body needs it.
#![allow(clippy::unused_async, clippy::needless_pass_by_value)]

mod arguments;
mod bulk;
mod coalesced;
mod concurrency;
mod crashes;
mod dispatch;
mod edges;
mod enqueue;
mod failure;
mod foreign;
mod garbage;

mod harness;
mod lost_lease;
mod refused;
mod retries;
mod schedule;
mod startup;
mod store;
mod streamed;
mod verdicts;
mod wire_format;

use std::time::Duration;

/// What should take no time at all is given so long, on a machine that is busy with other tests.
const SOON: Duration = Duration::from_secs(15);

/// A dead worker's jobs are back within 8 s, and run soon after.
const RECOVERED: Duration = Duration::from_secs(20);
