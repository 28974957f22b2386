//! The rows of the conformance table, each as a test that is named after it, against a real server.
//!
//! The first comment of a test is its row's check, and the second one names the guard: what, when it is taken away, makes
//! the test fail.

mod enqueue;
mod foreign;
mod harness;
mod wire_format;
