//! Results of jobs: what was kept of a job that has ended, for whoever waits for it.

mod error;
mod handle;

pub use error::{JobFailure, RawResult, ResultError};
pub use handle::Handle;
