//! Versions of arguments, in a crate that has every lint on which the generated code could be blamed, and what each becomes.
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

use hworker::{Args, BoxError, Job};

fn older(from: u32, mut args: Args) -> Result<Args, BoxError> {
    if from < 2 {
        args.rename("user", "user_id");
    }
    if from < 3 {
        let euros: u64 = args.get("euros")?;
        args.set("cents", euros * 100)?;
        args.remove("euros");
    }
    Ok(args)
}

/// Of a version, with a function for those before.
#[hworker::job(version = 3, upgrade = older)]
pub async fn charge(user_id: u64, cents: u64, #[serde(default)] note: Option<String>) {
    let _ = (user_id, cents);
    drop(note);
}

/// Older arguments are read as they are.
#[hworker::job(version = 2)]
pub async fn told_apart(user_id: u64) {
    let _ = user_id;
}

/// Of the first version.
#[hworker::job(version = 1)]
pub async fn plain() {}

fn main() {
    let version = |job: &hworker::__private::Definition| (job.version, job.upgrade.is_some());
    assert_eq!(version(charge::DEFINITION), (3, true));
    assert_eq!(version(told_apart::DEFINITION), (2, false));
    assert_eq!(version(plain::DEFINITION), (1, false));
    let upgrade = charge::DEFINITION.upgrade.expect("the function");
    let old = r#"{"user":7,"euros":3}"#.parse().expect("arguments");
    let new = upgrade(1, old).expect("upgraded");
    assert_eq!(new.get::<u64>("user_id").ok(), Some(7));
    assert_eq!(new.get::<u64>("cents").ok(), Some(300));
    let half = r#"{"user_id":7,"euros":"3"}"#.parse().expect("arguments");
    assert!(upgrade(2, half).is_err());
}
