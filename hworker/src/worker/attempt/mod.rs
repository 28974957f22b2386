//! One attempt, from reserved bytes to the end of its lease.
//!
//! `runner` takes a job from the buffer and calls `run::start`, which admits it (`admit`, with `decode`; `stopped` says whether its batch lets it
//! start). It polls the body once, starts it on a thread (`blocking`), or has a process of its own run it (`../isolate`), inside the `../layers` of
//! the worker. `panic` catches what it throws. When it has ended, `finish` asks `decide` what becomes of the job, ends the lease, has `tell` log it,
//! and lets `record` write the end, with its `group` of failures. The settlement goes to the outbox of the queue; `intake` sends it.

pub(crate) mod admit;
pub(crate) mod blocking;
pub(crate) mod decide;
pub(crate) mod decode;
pub(crate) mod finish;
pub(crate) mod group;
pub(crate) mod kept;
pub(crate) mod panic;
pub(crate) mod record;
pub(crate) mod run;
pub(crate) mod runner;
pub(crate) mod stopped;
mod tell;
