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
pub(crate) struct Job {
    pub(crate) lease: Lease,
    pub(crate) id: JobId,
    pub(crate) definition: &'static Definition,
    pub(crate) number: u32,
    pub(crate) max_attempts: u32,
    pub(crate) timeout: Duration,
    pub(crate) backoff: Option<CallBackoff>,
    pub(crate) retry_until: Option<u64>,
    pub(crate) crashes: Vec<Crash>,
    pub(crate) payload: String,
    /// Where in it the arguments are, if there are any.
    pub(crate) args: Option<Range<usize>>,
    /// The arguments, where those in the payload are encrypted.
    pub(crate) opened: Option<Opened>,
}

impl Job {
    /// Whether its arguments came encrypted.
    pub(crate) fn is_encrypted(&self) -> bool {
        self.opened.is_some()
    }

    /// The arguments as JSON.
    pub(crate) fn args(&self) -> Option<&str> {
        match (&self.opened, &self.args) {
            (Some(opened), _) => Some(opened.as_str()),
            (None, Some(args)) => self.payload.get(args.clone()),
            (None, None) => Some(NO_ARGS),
        }
    }
}

/// A job that may run here and now.
#[derive(Debug)]
pub(crate) struct Admitted {
    pub(crate) job: Arc<Job>,
    /// Its place among the suspects of crashes, if it is one.
    pub(crate) suspect: Option<OwnedSemaphorePermit>,
}

/// A body that runs.
#[derive(Debug, Clone)]
pub(crate) struct Running {
    pub(crate) job: Arc<Job>,
    pub(crate) context: Context,
    /// It runs on a thread of its own and cannot be dropped.
    pub(crate) blocking: bool,
}
