//! The state of a worker, a session and its queues. Nothing here uses the other folders.

pub(crate) mod buffer;
pub(crate) mod census;
pub(crate) mod claims;
pub(crate) mod consumer;
pub(crate) mod core;
pub(crate) mod freshness;
pub(crate) mod job;
pub(crate) mod leases;
pub(crate) mod liveness;
pub(crate) mod log_limit;
pub(crate) mod outages;
pub(crate) mod outbox;
pub(crate) mod pace;
pub(crate) mod parked;
pub(crate) mod recent;
pub(crate) mod session;
pub(crate) mod slots;
pub(crate) mod suspects;
pub(crate) mod thread;
