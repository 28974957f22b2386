//! What the code that `#[hworker::job]` writes calls. Not for use by hand: it changes without notice.

pub use inventory;
pub use serde;

pub use crate::backoff::Backoff;
pub use crate::config::defaults::QUEUE as DEFAULT_QUEUE;
pub use crate::context::{Inject, Needs};
pub use crate::encryption::Encrypted;
pub use crate::enqueue::Enqueue;
pub use crate::envelope::JobId;
pub use crate::error::Error;
pub use crate::job::{
    Argument, Arguments, Body, Definition, Invocation, Job, OnError, OnFault, Place, Policy,
    Registration, StartError,
};
pub use crate::outcome::{IsNested, IsOutcome, IsResult, IsValue, Returned, tag};

/// What `encrypted` in the attribute stands for.
#[cfg(feature = "encryption")]
pub mod encryption {
    use super::Encrypted;

    pub const YES: Encrypted = Encrypted::Yes;
    pub const ONLY: Encrypted = Encrypted::Only;
}
