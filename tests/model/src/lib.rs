#![forbid(unsafe_code)]
//! The protocol of hworker as a small model: a server, processes, and every fault that the two are said to survive, in
//! every order.
//!
//! [`Server`] is what Redis does, one method for each Lua file in `hworker/src/store`; the tests of the scripts hold the
//! real ones against it. [`Model`] adds the processes and the faults; the program in `check` visits every state that they can
//! reach.
//! A guard of the protocol can be taken out ([`Guards`]): then a state must be found in which a job is lost, settled
//! twice, started after its settlement, run twice without a reason, or stuck.

pub mod broadcast;
pub mod control;
pub mod cron;
pub mod grow;
pub mod known;
pub mod relay;
pub mod server;
pub mod staged;
pub mod tables;

mod calls;
mod calm;
mod faults;
mod guards;
mod model;
mod moves;
mod names;
mod possible;
mod state;

pub use calls::{Answered, Call};
pub use guards::Guards;
pub use server::Server;
pub use state::{Action, Allowed, Model, State};
