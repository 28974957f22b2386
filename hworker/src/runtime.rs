//! The tokio runtime that something is awaited in.

use std::cell::Cell;
use std::net::{Ipv4Addr, UdpSocket};
use std::panic::catch_unwind;
use std::time::Duration;

use tokio::runtime::{Handle, Id};

use crate::error::Error;

/// The runtime that this is called in, if it has what connections need. `outside` says what to do where there is none.
pub(crate) fn current(outside: &str) -> Result<Id, Error> {
    thread_local! {
        /// The one that was looked at last on this thread, and has it.
        static SERVES: Cell<Option<Id>> = const { Cell::new(None) };
    }
    let runtime = Handle::try_current().map_err(|_| Error::config(outside))?;
    if SERVES.get() != Some(runtime.id()) {
        match missing().as_slice() {
            [] => SERVES.set(Some(runtime.id())),
            missing => {
                return Err(Error::config(format!(
                    "this tokio runtime has no {}, which connections need; call `enable_all()` on the builder that makes it",
                    missing.join(" and no ")
                )));
            }
        }
    }
    Ok(runtime.id())
}

/// What the builder of this runtime was not told to enable. tokio answers that only by a panic, which is better met here than in a task
/// of which nobody hears.
fn missing() -> Vec<&'static str> {
    let timers = || drop(tokio::time::sleep(Duration::ZERO));
    let io = || {
        // Where no socket can be had it is not known.
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0));
        let socket = socket.and_then(|socket| socket.set_nonblocking(true).map(|()| socket));
        let _ = socket.and_then(tokio::net::UdpSocket::from_std);
    };
    let mut missing = Vec::new();
    missing.extend(catch_unwind(timers).is_err().then_some("timers"));
    missing.extend(catch_unwind(io).is_err().then_some("I/O"));
    missing
}
