//! Finding the workers that died, and giving back what they held.
//!
//! A worker is dead when its heartbeat is old by the server's clock *and* this monitor has watched it unchanged over
//! heartbeats of its own that the server accepted. A server that stalls or refuses writes stops the monitor's own
//! heartbeats too, so it makes nobody look dead.

mod recover;
mod watch;

pub(crate) use recover::{Death, Held, Recovery, recover};
pub(crate) use watch::{Monitor, Sweeps, Task, silent_for};
