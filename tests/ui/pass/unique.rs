//! Every form of a unique job, in a crate that has every lint on which the generated code could be blamed, and what each becomes.
#![forbid(unsafe_code, missing_docs)]
#![deny(
    warnings,
    unused,
    future_incompatible,
    nonstandard_style,
    rust_2018_idioms,
    rust_2024_compatibility,
    let_underscore_drop,
    missing_debug_implementations,
    missing_copy_implementations,
    single_use_lifetimes,
    trivial_casts,
    unnameable_types,
    unreachable_pub,
    unused_extern_crates,
    unused_import_braces,
    unused_lifetimes,
    unused_qualifications,
    unused_results,
    variant_size_differences,
    rustdoc::all,
    clippy::all,
    clippy::pedantic,
    clippy::nursery
)]
#![allow(unused_crate_dependencies)]
// Of these functions as they are written here.
#![allow(
    clippy::missing_const_for_fn,
    clippy::needless_pass_by_value,
    clippy::ref_option,
    clippy::unused_async
)]

use hworker::__private::unique::{OnConflict, Uniqueness, Until};
use hworker::Job;

fn both(job: &by_both) -> String {
    format!("{}-{}", job.a, job.b)
}

/// By all arguments.
#[hworker::job(unique)]
pub async fn by_all(a: u8, b: &str) {
    let _ = (a, b);
}

/// By one argument, which may be missing.
#[hworker::job(unique(key = a, until = "start", on_conflict = "replace_and_reschedule"))]
pub async fn by_one(a: Option<u8>, b: u8) {
    let _ = (a, b);
}

/// By what a function gives, with a limit beside it.
#[hworker::job(unique(key = both, scope = "shared", until = "24h", on_conflict = "refuse"), concurrency(limit = 2, key = a))]
pub fn by_both(a: u8, b: u8) {
    let _ = (a, b);
}

/// After the last of many.
#[hworker::job(name = "wire.name", debounce(wait = "5s", max = "1m", key = (a, b)))]
pub async fn last(a: u8, b: String) {
    let _ = a;
    drop(b);
}

/// The first of many.
#[hworker::job(throttle = "1m")]
pub async fn first(a: u8) {
    let _ = a;
}

/// One after the other.
#[hworker::job(unique(on_conflict = "follow"))]
pub async fn follows() {}

fn main() {
    let unique = |scope, until, on_conflict, debounce| {
        Some(Uniqueness { scope, until, on_conflict, debounce })
    };
    let of_all = unique("by_all", Until::Finish, OnConflict::Keep, None);
    assert_eq!(by_all::DEFINITION.unique, of_all);
    let of_one = unique("by_one", Until::Start, OnConflict::ReplaceAndReschedule, None);
    assert_eq!(by_one::DEFINITION.unique, of_one);
    let of_both = unique("shared", Until::Period(86_400_000), OnConflict::Refuse, None);
    assert_eq!(by_both::DEFINITION.unique, of_both);
    let debounce = Some((5_000, Some(60_000)));
    let of_last = unique("wire.name", Until::Start, OnConflict::ReplaceAndReschedule, debounce);
    assert_eq!(last::DEFINITION.unique, of_last);
    let of_first = unique("first", Until::Period(60_000), OnConflict::Keep, None);
    assert_eq!(first::DEFINITION.unique, of_first);
    let following = unique("follows", Until::Finish, OnConflict::Follow, None);
    assert_eq!(follows::DEFINITION.unique, following);
    assert_eq!(by_one { a: Some(7), b: 1 }.unique_key().as_deref(), Some("7"));
    assert_eq!(by_one { a: None, b: 1 }.unique_key(), None);
    assert_eq!(by_both { a: 1, b: 2 }.unique_key().as_deref(), Some("1-2"));
    assert_eq!(last { a: 1, b: "x".into() }.unique_key().as_deref(), Some("1|x"));
    let by_args = (by_all::DEFINITION.unique_key)(r#"{"b":"x","a":1}"#).expect("arguments");
    assert_eq!(by_args, by_all { a: 1, b: "x".into() }.unique_key());
}
