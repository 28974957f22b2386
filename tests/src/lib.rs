//! Tests of hworker that use only its public API; they are under `tests`.

// The documentation of `#[hworker::job]` stands in the crate of the macro, which cannot use `hworker`.
#[cfg(doctest)]
#[doc = include_str!("../../hworker-macros/src/job.md")]
mod job {}
