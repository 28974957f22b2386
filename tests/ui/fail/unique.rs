//! Unique jobs that are wrong in themselves or together, each at its place, all at once.

use hworker::State;

#[hworker::job(unique = "key", debounce, throttle)]
fn alone(key: u8) { let _ = key; }

#[hworker::job(unique(key = "key", until = "end", on_conflict = "drop", scope = "a b", kay = key))]
fn values(key: u8) { let _ = key; }

#[hworker::job(debounce(key = key), unique)]
fn missing(key: u8) { let _ = key; }

#[hworker::job(throttle(key = key))]
fn without_a_period(key: u8) { let _ = key; }

#[hworker::job(debounce(wait = "0s", max = "1 minute"))]
fn times() {}

#[hworker::job(debounce(wait = "5s", max = "1s"))]
fn too_short() {}

#[hworker::job(unique(until = "start", on_conflict = "follow"))]
fn follows() {}

#[hworker::job(throttle = "soon")]
fn no_duration() {}

#[hworker::job(redact = "card", unique(key = (pool, card, nothing)))]
fn no_arguments(card: u8, pool: State<u8>) { let _ = (card, pool); }

#[hworker::job(unique, concurrency(limit = 1, key = key, when_full = "keep_newest"))]
fn two_ways(key: u8) { let _ = key; }

fn main() {}
