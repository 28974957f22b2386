//! Whether a worker is live and ready, and what it does, as probes and scrapes over HTTP and a program of the user's learn it.
//!
//! The first comment of a test is its check, and the second one names the guard: what, when it is taken away, makes the
//! test fail.

mod endpoint;
mod metrics;
mod probe;
mod process;
mod supervisor;
