//! Functions for `on_error` and `backoff` that are missing or have another signature, at their path.

use std::error::Error;
use std::time::Duration;

fn decides_nothing(_: &(dyn Error + Send + Sync + 'static)) {}

fn takes_no_attempt(_: &(dyn Error + Send + Sync + 'static)) -> Duration {
    Duration::ZERO
}

#[hworker::job(on_error = decides_nothing)]
fn first() {}

#[hworker::job(backoff = takes_no_attempt)]
fn second() {}

#[hworker::job(on_error = missing, backoff = policies::missing)]
fn third() {}

fn main() {}
