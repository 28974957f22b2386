//! Jobs in a crate that has every lint on which the generated code could be blamed.
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
    clippy::fn_params_excessive_bools,
    clippy::missing_const_for_fn,
    clippy::too_many_arguments,
    clippy::unused_async
)]

use std::io::Error;

use hworker::{Context, State};

/// Something that the worker is given.
#[derive(Clone, Copy, Debug)]
pub struct Pool;

/// Public.
///
/// # Errors
/// None.
#[hworker::job(
    timeout = "2m",
    on_panic = "fail",
    on_error = "fail",
    on_timeout = "fail",
    isolate(memory = "1GiB", cpu = "90s", recycle = 1000)
)]
pub async fn everything(
    to: String,
    from: &str,
    numbers: &[u64],
    #[serde(default)] mut page: u32,
    State(pool): State<Pool>,
    context: Context,
) -> Result<(), Error> {
    page += 1;
    println!("{to} {from} {numbers:?} {page} {pool:?} {context:?}");
    Ok(())
}

/// A module.
pub mod inner {
    /// For the crate only.
    #[hworker::job]
    pub(crate) async fn within(n: u8) {
        println!("{n}");
    }

    /// For the module above only.
    #[hworker::job(type = NamedOtherwise)]
    pub(super) fn above() -> u8 {
        0
    }
}

// Nothing enqueues it here, since a foreign producer does.
#[hworker::job]
fn only_run_here(
    a: bool,
    b: bool,
    c: bool,
    d: bool,
    #[serde(rename = "e")] _e: u8,
    #[serde(default, rename = "f")] _f: u8,
    #[serde(rename(serialize = "_g", deserialize = "_g"))] _g: u8,
    #[serde(skip)] _h: u8,
) -> bool {
    a && b && c && d
}

// The warning of the underscore goes as others do.
#[allow(deprecated)]
#[hworker::job]
fn only_run_here_too(_a: u8) {}

#[hworker::job]
async fn nothing() {}

fn main() {
    drop(inner::within::enqueue(1));
    drop(inner::NamedOtherwise::with());
    drop(everything::with(String::new(), "", Vec::new(), 1).enqueue());
}
