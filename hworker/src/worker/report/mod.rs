//! What a worker tells of itself: health, outages, queues that no worker serves.

pub(crate) mod census;
#[cfg(feature = "health")]
pub(crate) mod endpoint;
pub(crate) mod health;
pub(crate) mod log_every;
pub(crate) mod log_outage;
