//! Faults: what is left of jobs, leases and workers when processes are killed or stopped, connections break, and the
//! server is away, full or busy. Tests that are named after a row of the conformance table perform its check.
//!
//! The first comment of a test is its check, and the second one names the guard: what, when it is taken away, makes the
//! test fail.

// Tests that measure say what they measured, and what was skipped.
#![allow(clippy::print_stdout)]

mod ahead;
mod clocks;
mod confirmed;
mod deploys;
mod hostile;
mod idle;
mod inbox;
mod interleavings;
mod limited;
mod limits;
mod loading;
mod lost;
mod matrix;
mod outages;
mod panics;
mod records;
mod recovery;
mod slow_line;
mod stopping;
mod support;
mod timeouts;
mod too_large;
