//! The protocol of hworker as a small model: a server, processes, and every fault that the two are said to survive, in
//! every order.
//!
//! [`Server`] is what Redis does, one method for each Lua file in `hworker/src/store`; the tests of the scripts hold the
//! real ones against it. [`Model`] adds the processes and the faults, and `stateright` visits every state that they can reach.
//! A guard of the protocol can be taken out ([`Guards`]): then a state must be found in which a job is lost, settled
//! twice, started after its settlement, run twice without a reason, or stuck.

pub mod server;

#[cfg(feature = "check")]
mod calm;
#[cfg(feature = "check")]
mod check;
#[cfg(feature = "check")]
mod faults;
#[cfg(feature = "check")]
mod moves;
#[cfg(feature = "check")]
mod state;
#[cfg(feature = "check")]
mod symmetry;

#[cfg(feature = "check")]
pub use check::{Checked, check};
#[cfg(feature = "check")]
pub use state::{Action, Allowed, Model, State};

pub use server::{Guards, Server};
