//! hworker on a real cluster of three masters: routing, queues that are spread over shards, failovers and resharding.
//!
//! The first comment of a test says what is checked, and after it stands the guard: what, when it is taken away, makes the
//! test fail.

// Tests that count say what they counted.
#![allow(clippy::print_stdout)]

mod failover;
mod routing;
mod shards;
mod work;

use std::time::Duration;

/// What should take no time at all is given so long, on a machine that is busy with other tests.
const SOON: Duration = Duration::from_secs(20);

/// A dead worker's jobs are back within 8 s, and run soon after.
const RECOVERED: Duration = Duration::from_secs(25);
