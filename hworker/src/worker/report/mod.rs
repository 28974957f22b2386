//! What a worker tells of itself: health, metrics, outages, queues that no worker serves.

pub(crate) mod census;
pub(crate) mod charts;
#[cfg(feature = "health")]
pub(crate) mod endpoint;
pub(crate) mod health;
pub(crate) mod log_every;
pub(crate) mod log_outage;
#[cfg(feature = "metrics")]
pub(crate) mod metrics;
