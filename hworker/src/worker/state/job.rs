//! The stages of an attempt: a decoded job, a job that may run, and a running body.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;

use crate::backoff::CallBackoff;
use crate::context::{Context, Held};
use crate::encryption::{Encrypted, Opened};
use crate::envelope::{Crash, JobId, NO_ARGS};
use crate::job::Definition;
use crate::priority::Priority;
use crate::store::Lease;

/// A decoded job that this worker has reserved.
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
    pub(crate) expires_at: Option<u64>,
    /// Since when it waits, in ms; 0 where it does not say.
    pub(crate) waits_since: u64,
    pub(crate) priority: Priority,
    /// The batch that it belongs to, and as what.
    pub(crate) of: Option<Box<str>>,
    /// How long its result is kept, in ms.
    pub(crate) keep: Option<u64>,
    pub(crate) crashes: Vec<Crash>,
    pub(crate) payload: String,
    /// The range of the arguments in the payload, if there are any.
    pub(crate) args: Option<Range<usize>>,
    /// The decrypted arguments, if those in the payload are encrypted.
    pub(crate) opened: Option<Opened>,
    /// Those of an older version as the type upgrades them, or why it cannot.
    pub(crate) upgraded: Option<Result<String, String>>,
}

impl Job {
    /// The arguments as JSON; none where they could not be upgraded.
    pub(crate) fn args(&self) -> Option<&str> {
        match (&self.upgraded, &self.opened, &self.args) {
            (Some(upgraded), ..) => upgraded.as_deref().ok(),
            (None, Some(opened), _) => Some(opened.as_str()),
            (None, None, Some(args)) => self.payload.get(args.clone()),
            (None, None, None) => Some(NO_ARGS),
        }
    }
}

impl Held for Job {
    fn lease(&self) -> String {
        self.lease.to_string()
    }

    fn encrypted(&self) -> Encrypted {
        self.definition.encrypted
    }

    fn is_copy(&self) -> bool {
        self.lease.is_copy()
    }

    fn payload(&self) -> &str {
        &self.payload
    }

    fn of(&self) -> Option<&str> {
        self.of.as_deref()
    }
}

/// A job that may run now.
#[derive(Debug)]
pub(crate) struct Admitted {
    pub(crate) job: Arc<Job>,
    /// Its place among the suspects of crashes, if it is a suspect.
    pub(crate) suspect: Option<OwnedSemaphorePermit>,
}

/// A running body.
#[derive(Debug, Clone)]
pub(crate) struct Running {
    pub(crate) job: Arc<Job>,
    pub(crate) context: Context,
    /// It runs on a thread of its own and cannot be dropped.
    pub(crate) blocking: bool,
}
