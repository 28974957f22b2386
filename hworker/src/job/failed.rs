//! What is enqueued when a job has failed for good.

use std::any::Any;

use serde::{Deserialize, Serialize};

use crate::envelope::JobId;
use crate::error::BoxError;

/// A job that has failed for good, as an argument of the job that is enqueued then: see
/// [`on_failed`](macro@crate::job#options). Its arguments are not in it; [`Inspect::find`](crate::Inspect::find) has them as long as its record is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Failed {
    /// Its id.
    pub id: JobId,
    /// The name of its type.
    pub job: String,
    /// The queue that it was taken from.
    pub queue: String,
    /// The number of its last attempt.
    pub attempt: u32,
    /// As in [`AttemptError::kind`](crate::AttemptError): `error`, `panic`, `timeout`, `retry`, `failure`, `crash`, `killed` or `deadline`.
    pub kind: String,
    /// The text of its last error; at most about 4,000 bytes.
    pub message: String,
    /// When it failed, in milliseconds since 1970 by the server's clock.
    pub at: u64,
    /// Its tags.
    pub tags: Vec<String>,
}

/// Makes the envelope of the job that is enqueued, for the client of the worker, which is nothing to this module.
pub type OnFailed = fn(Failed, &dyn Any) -> Result<Vec<u8>, BoxError>;
