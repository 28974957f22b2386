//! The state of a worker, a session and its queues. Nothing here uses the other folders.

mod broadcasts;
mod buffer;
mod claims;
mod consumer;
mod core;
mod events;
mod freshness;
mod job;
mod leases;
mod liveness;
mod log_limit;
mod notes;
mod outages;
mod outbox;
mod pace;
mod parked;
mod recent;
mod session;
mod slots;
mod stopped;
mod suspects;
mod thread;

pub(crate) use buffer::{Next, WaitingJob};
pub(crate) use consumer::Consumer;
pub(crate) use core::Core;
pub(crate) use job::{Admitted, Job, Running};
pub(crate) use liveness::STUCK;
pub(crate) use log_limit::{LogLimit, Reason, Warning};
pub(crate) use outages::{News, Outages, Side};
pub(crate) use outbox::{WakeAt, is_large};
pub(crate) use pace::{AHEAD_AT_MOST, Paces};
pub(crate) use session::Session;
pub(crate) use slots::Slot;
pub(crate) use stopped::Stop;
pub(crate) use thread::Thread;
