//! What an attempt is: a job that was decoded, one that may run, and one that runs.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;

use crate::backoff::CallBackoff;
use crate::context::Context;
use crate::encryption::Opened;
use crate::envelope::{Crash, JobId, NO_ARGS};
use crate::job::Definition;
use crate::store::Lease;

/// A job that is this worker's, decoded.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) lease: Lease,
    pub(super) id: JobId,
    pub(super) definition: &'static Definition,
    pub(super) number: u32,
    pub(super) max_attempts: u32,
    pub(super) timeout: Duration,
    pub(super) backoff: Option<CallBackoff>,
    pub(super) retry_until: Option<u64>,
    pub(super) crashes: Vec<Crash>,
    pub(super) payload: String,
    /// Where in it the arguments are, if there are any.
    pub(super) args: Option<Range<usize>>,
    /// The arguments, where those in the payload are encrypted.
    pub(super) opened: Option<Opened>,
}

impl Job {
    /// Whether its arguments came encrypted.
    pub(super) fn is_encrypted(&self) -> bool {
        self.opened.is_some()
    }

    /// The arguments as JSON.
    pub(super) fn args(&self) -> Option<&str> {
        match (&self.opened, &self.args) {
            (Some(opened), _) => Some(opened.as_str()),
            (None, Some(args)) => self.payload.get(args.clone()),
            (None, None) => Some(NO_ARGS),
        }
    }
}

/// A job that may run here and now.
#[derive(Debug)]
pub(super) struct Admitted {
    pub(super) job: Arc<Job>,
    /// Its place among the suspects of crashes, if it is one.
    pub(super) suspect: Option<OwnedSemaphorePermit>,
}

/// A body that runs.
#[derive(Debug, Clone)]
pub(super) struct Running {
    pub(super) job: Arc<Job>,
    pub(super) context: Context,
    /// It runs on a thread of its own and cannot be dropped.
    pub(super) blocking: bool,
}
