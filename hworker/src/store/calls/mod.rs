//! One typed call for each operation.

mod admin;
mod batch;
mod batch_orders;
mod broadcast;
mod charts;
mod control;
mod counts;
#[cfg(feature = "cron")]
mod cron;
mod doctor;
mod edit;
mod enqueue;
mod events;
mod heartbeat;
mod held;
mod ids;
mod inspect;
mod lease;
mod lists;
mod members;
mod meta;
mod parked;
mod read;
mod records;
mod recover;
mod remember;
mod reserve;
mod scan;
mod schedule;
mod session;
mod settle;
mod settlement;
mod staged;
mod submit;
mod tables;
mod wait;
mod watch;

pub(crate) use batch::{
    BatchEntry, Begun, DueCallback, NewBatch, adding_of, apply_batch, create_batch, did_batch,
    done_bits, read_batch, recount_batch,
};
pub(crate) use batch_orders::{Ordered as BatchOrdered, mind_batch, order_batch};
pub(crate) use broadcast::{BroadcastEntry, Each, MOST_BROADCASTS, Taken};
pub(crate) use control::lock;
pub(crate) use counts::{Load, is_ticket};
#[cfg(feature = "cron")]
pub(crate) use cron::{Firing, KnownEntry, Ordered, Run};
pub(crate) use doctor::{info, own_user, refused, set_aside, slow_calls, types, users};
pub(crate) use edit::{Duty, Edited, From, HUSK, Keeping};
pub(crate) use enqueue::{Bound, NoRoom};
pub(crate) use events::EventEntry;
pub(crate) use heartbeat::{Asked, Beat, Declares, Heard, MOST_SLOTS, Orders};
pub(crate) use ids::{HeldKey, Stand};
pub(crate) use inspect::{BrokenEntry, RunningEntry, WorkerEntry};
pub(crate) use lease::{Lease, LeaseMap};
pub(crate) use members::{Given, Member, NumbersFor, Pushed, add_batch, added_batch, children_of};
pub(crate) use meta::{ListedQueues, Meta, MetaKey};
pub(crate) use parked::{Overdue, ParkedEntry};
pub(crate) use read::{DEEPEST, Places, Range, read_set};
pub(crate) use records::{Place, Trimmed};
pub(crate) use recover::{Recovered, Who};
pub(crate) use remember::Remembered;
pub(crate) use reserve::{Listed, Reserved, Want};
#[cfg(feature = "cron")]
pub(crate) use schedule::DueEntry;
pub(crate) use schedule::{Due, Promoted, of_scheduled};
pub(crate) use session::Reconciled;
pub(crate) use settle::Settled;
pub(crate) use settlement::{Concluded, End, NewLock, NewRecord, Settlement};
pub(crate) use staged::Staged;
pub(crate) use submit::{Answer, Submission, Word};
#[cfg(feature = "cron")]
pub(crate) use tables::NewEntry;
pub(crate) use tables::{Declaration, Declared};
pub(crate) use wait::{connection_id, end_wait, lengths};
pub(crate) use watch::Serving;
