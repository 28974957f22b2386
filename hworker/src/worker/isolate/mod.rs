//! Bodies in processes of their own.
//!
//! A worker that has such job types starts its own program again: `main` runs there too, up to `run_all()`, which serves jobs instead of
//! reserving them (`serve`). The worker keeps the lease, the heartbeat and the deadline; `run` sends a job to one of these processes (`child`) out of
//! the `pool`, as `frame`s over its standard input, and waits for its end.

#[cfg(any(target_os = "linux", target_os = "macos"))]
mod child;
#[cfg(any(target_os = "linux", target_os = "macos"))]
mod frame;
#[cfg(any(target_os = "linux", target_os = "macos"))]
mod marker;
#[cfg(any(target_os = "linux", target_os = "macos"))]
mod pool;
#[cfg(any(target_os = "linux", target_os = "macos"))]
mod run;
#[cfg(any(target_os = "linux", target_os = "macos"))]
mod serve;
#[cfg(not(any(target_os = "linux", target_os = "macos")))]
mod without;
#[cfg(not(any(target_os = "linux", target_os = "macos")))]
mod without_bodies;

#[cfg(any(target_os = "linux", target_os = "macos"))]
pub use marker::is_child;
#[cfg(not(any(target_os = "linux", target_os = "macos")))]
pub use without::is_child;
#[cfg(any(target_os = "linux", target_os = "macos"))]
pub(crate) use {pool::Pool, run::run, serve::serve};
#[cfg(not(any(target_os = "linux", target_os = "macos")))]
pub(crate) use {
    without::Pool,
    without_bodies::{run, serve},
};

use crate::worker::attempt::decide::Finish;

/// What became of a body in another process.
pub(crate) enum Isolated {
    /// It ended; none if it was cut off.
    Finished(Option<Finish>),
    /// The arguments do not fit.
    Unfit(String),
    /// No process could be started.
    NoProcess(String),
}
