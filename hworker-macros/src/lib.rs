//! The `#[hworker::job]` attribute; use it through the `hworker` crate.

mod args;
mod attributes;
mod brackets;
mod calendar;
mod duration;
mod errors;
mod expand;
mod fallback;
mod isolate;
mod keys;
mod limits;
mod model;
mod params;
mod schedule;
mod schema;
#[cfg(test)]
mod snapshots;
mod test;
mod unique;

use proc_macro::TokenStream;

use crate::args::Args;
use crate::errors::Errors;
use crate::model::{Function, JobModel};

#[doc = include_str!("job.md")]
#[proc_macro_attribute]
pub fn job(args: TokenStream, item: TokenStream) -> TokenStream {
    job_tokens(args.into(), item.into()).into()
}

/// A test of jobs, or of what enqueues them; see `hworker::testing`.
///
/// The function is async, and may take a `hworker::testing::Kit`. What it enqueues, by whichever client, is kept in the process: no server is needed, and
/// tests that run beside each other see nothing of each other. It runs on one thread; `flavor = "multi_thread"` and `worker_threads = 2` are those of
/// tokio.
#[proc_macro_attribute]
pub fn test(args: TokenStream, item: TokenStream) -> TokenStream {
    test::expand(args.into(), item.into()).unwrap_or_else(syn::Error::into_compile_error).into()
}

fn job_tokens(
    args: proc_macro2::TokenStream,
    item: proc_macro2::TokenStream,
) -> proc_macro2::TokenStream {
    let mut errors = Errors::default();
    let args = Args::parse(args, &mut errors);
    match syn::parse2::<Function>(item.clone()) {
        Ok(function) => {
            let model = JobModel::new(function, args, &mut errors);
            let job = if model.sound { expand::job(&model) } else { fallback::job(&model) };
            [job, errors.into_tokens()].into_iter().collect()
        }
        Err(error) => {
            errors.push(error);
            [item, errors.into_tokens()].into_iter().collect()
        }
    }
}
