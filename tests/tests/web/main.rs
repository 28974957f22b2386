//! The page for operators and the REST API, over HTTP.
//!
//! The first comment of a test is its check, and the second one names the guard: what, when it is taken away, makes the
//! test fail.

mod access;
mod alone;
mod api;
mod browser;
mod deploys;
mod document;
mod live;
mod living;
mod metrics;
mod reports;
mod roles;
mod schemathesis;
mod site;

use std::time::Duration;

/// Long enough on a busy machine.
const SOON: Duration = Duration::from_secs(20);
