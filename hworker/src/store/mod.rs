//! Typed operations on what is in Redis, one function per script: the only module that knows keys, Lua and the
//! redis crate. What to do when a call fails is decided by the callers.

mod calls;
mod limits;
mod lua;
mod net;
mod queue;
mod reply;
mod script;

pub(crate) use calls::{
    Asked, Beat, BrokenEntry, Due, End, Heard, Lease, Load, ParkedEntry, Portion, QueueRegistry,
    Reconciled, Recovered, Reserved, RunningEntry, Settled, Settlement, WorkerEntry, connection_id,
    end_wait, lengths,
};
use limits::DAY_TTL_S;
pub(crate) use limits::{
    CALL_WITHIN, LAST_MOMENT, SCRIPT_BYTES, SCRIPT_JOBS, SCRIPT_MOVES, WRITE_BYTES,
};
use lua::Script;
pub(crate) use net::{
    Address, Connection, Fault, FaultKind, Home, Meter, runs_scripts, server_info, server_time,
    without_secrets,
};
pub(crate) use queue::Queue;
