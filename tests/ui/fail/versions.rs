//! An upgrade without an older version, and functions that upgrade nothing, each at its place.

use hworker::{Args, BoxError};

fn up(_: u32, args: Args) -> Result<Args, BoxError> { Ok(args) }

fn takes_no_version(args: Args) -> Result<Args, BoxError> { Ok(args) }

fn never_fails(_: u32, args: Args) -> Args { args }

#[hworker::job(upgrade = up)]
fn without_a_version(to: u8) { let _ = to; }

#[hworker::job(version = 1, upgrade = up)]
fn of_the_first(to: u8) { let _ = to; }

#[hworker::job(version = 2, upgrade = takes_no_version)]
fn first(to: u8) { let _ = to; }

#[hworker::job(version = 2, upgrade = never_fails)]
fn second(to: u8) { let _ = to; }

#[hworker::job(version = 2, upgrade = missing)]
fn third(to: u8) { let _ = to; }

#[hworker::job(version, upgrade)]
fn without_values(to: u8) { let _ = to; }

fn main() {}
