//! hworker on a master with replicas and three sentinels: failovers, and how the master is found.
//!
//! The first comment of a test says what is checked, and after it stands the guard: what, when it is taken away, makes the
//! test fail.

// Tests that count say what they counted.
#![allow(clippy::print_stdout)]

mod durability;
mod failover;
mod finding;

use std::time::Duration;

/// What should take no time at all is given so long, on a machine that is busy with other tests.
const SOON: Duration = Duration::from_secs(20);

/// From the death of a master until jobs run again, with sentinels that notice after 2 s.
const GOES_ON: Duration = Duration::from_secs(40);
