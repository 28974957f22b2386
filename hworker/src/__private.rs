//! What the code that `#[hworker::job]` writes calls. Not for use by hand: it changes without notice.

pub use inventory;
pub use serde;

pub use crate::__schema as schema;
pub use crate::backoff::Backoff;
pub use crate::config::defaults::QUEUE as DEFAULT_QUEUE;
pub use crate::context::{Inject, Needs};
pub use crate::encryption::Encrypted;
pub use crate::enqueue::{Enqueue, enqueue_many, envelope};
pub use crate::envelope::JobId;
pub use crate::error::Error;
#[cfg(feature = "schema")]
pub use crate::job::Tag;
pub use crate::job::{
    Argument, Arguments, Body, DeclaredCron, Definition, Invocation, Isolation, Job, OnCancel,
    OnError, OnFailed, OnFault, Place, Policy, Registration, Schema, StartError, Upgrade, decode,
    limit_values, unique_key,
};
/// Limits, and what they are in the arguments.
pub mod limit {
    pub use crate::limit::{
        AtOnce, Key, Limit, LimitValues, OfOption, OfValue, Rate, Scope, WhenFull, key, limit,
    };
}
pub use crate::outcome::{IsNested, IsOutcome, IsResult, IsValue, Returned, Returns, tag};
pub use crate::priority::Priority;
pub use crate::results::Handle;

/// Unique jobs.
pub mod unique {
    pub use crate::unique::{OnConflict, Uniqueness, Until, of_arguments};
}

/// Cron entries.
pub mod cron {
    pub use crate::calendar::{CatchUp, Overlap, Timing};

    /// The arguments of a job as JSON.
    ///
    /// # Errors
    /// Where they cannot be written.
    pub fn args<J: super::Job>(
        job: super::Enqueue<J>,
    ) -> serde_json::Result<Box<serde_json::value::RawValue>> {
        serde_json::value::to_raw_value(&job.into_job())
    }
}

/// What `encrypted` in the attribute stands for.
#[cfg(feature = "encryption")]
pub mod encryption {
    use super::Encrypted;

    pub const YES: Encrypted = Encrypted::Yes;
    pub const ONLY: Encrypted = Encrypted::Only;
}

/// The traits by which the type of an argument is asked for its schema, without their names, which a user's type may have.
#[cfg(feature = "schema")]
pub mod deep {
    pub use crate::job::{IsDeep as _, IsShallow as _};
}

/// The schema of a job type. The attribute names each argument with its type and the name under which it is stored, then those that are
/// flattened; without the feature `schema` none of that is compiled.
#[cfg(not(feature = "schema"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __schema {
    ($shallow:literal, $arguments:tt, $flattened:tt) => {
        $crate::__private::Schema::new($shallow)
    };
}

/// The schema of a job type. The attribute names each argument with its type and the name under which it is stored, then those that are
/// flattened.
#[cfg(feature = "schema")]
#[doc(hidden)]
#[macro_export]
macro_rules! __schema {
    ($shallow:literal, [], []) => {
        $crate::__private::Schema::new($shallow, |_| {})
    };
    ($shallow:literal, [$($name:literal: $ty:ty,)*], [$($flattened:ty,)*]) => {
        $crate::__private::Schema::new($shallow, |schema| {
            use $crate::__private::deep::*;
            $((&$crate::__private::Tag::<$ty>::NEW).argument(schema, $name);)*
            $((&$crate::__private::Tag::<$flattened>::NEW).flattened(schema);)*
        })
    };
}
