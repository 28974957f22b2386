//! A pause of a queue.

use serde::Serialize;

/// A queue is paused: its workers take none of its jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "web", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct Pause {
    /// Until when, in milliseconds since 1970 by the server's clock; `None` until it is resumed.
    pub until: Option<u64>,
}

impl Pause {
    /// As it is stored: 0 until it is resumed.
    pub(crate) fn until(ms: u64) -> Self {
        Self { until: Some(ms).filter(|ms| *ms > 0) }
    }
}
