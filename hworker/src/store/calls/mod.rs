//! One typed call for each operation.

mod admin;
mod counts;
mod edit;
mod enqueue;
mod heartbeat;
mod held;
mod inspect;
mod lease;
mod meta;
mod parked;
mod records;
mod recover;
mod reserve;
mod scan;
mod schedule;
mod session;
mod settle;
mod settlement;
mod wait;
mod watch;

pub(crate) use counts::Load;
pub(crate) use edit::{Duty, Edited, From, HUSK};
pub(crate) use heartbeat::{Asked, Beat, Heard};
pub(crate) use inspect::{Range, RunningEntry, WorkerEntry};
pub(crate) use lease::{Lease, LeaseMap};
pub(crate) use meta::{Meta, MetaKey};
pub(crate) use parked::ParkedEntry;
pub(crate) use records::{Place, Trimmed};
pub(crate) use recover::Recovered;
pub(crate) use reserve::Reserved;
pub(crate) use scan::Portion;
pub(crate) use schedule::Due;
pub(crate) use session::Reconciled;
pub(crate) use settle::Settled;
pub(crate) use settlement::{End, NewRecord, Settlement};
pub(crate) use wait::{connection_id, end_wait, lengths};
