//! How a call gets to the server.

mod address;
mod advice;
mod barrier;
mod call;
mod cluster;
mod confirm;
mod connection;
mod fault;
mod line;
mod meter;
mod name;
mod open;
mod probe;
mod sentinel;
mod sentinel_url;
mod server;
mod slots;
#[cfg_attr(not(feature = "tls"), path = "tls/without.rs")]
mod tls;
mod tracking;
mod url;

pub(crate) use address::{Address, Home};
pub(crate) use call::Call;
pub(crate) use connection::Connection;
pub(crate) use fault::{Fault, FaultKind};
pub(crate) use meter::Meter;
pub(crate) use name::name_connections;
pub(crate) use server::{runs_scripts, server_info, server_time};
pub(crate) use url::without_secrets;
