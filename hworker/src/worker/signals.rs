//! The signals that stop a worker.

use std::convert::Infallible;

use super::WorkerHandle;
use crate::error::Error;

/// SIGTERM, SIGINT and SIGHUP, from `listen` on.
pub(super) struct Signals {
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    #[cfg(unix)]
    hang_up: Option<tokio::signal::unix::Signal>,
}

impl Signals {
    #[cfg(unix)]
    pub(super) fn listen() -> Result<Self, Error> {
        use tokio::signal::unix::{SignalKind, signal};
        let listen = |kind| {
            signal(kind)
                .map_err(|error| Error::config(format!("signals cannot be handled: {error}")))
        };
        Ok(Self {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
            hang_up: (!ignores_hang_up()).then(|| listen(SignalKind::hangup())).transpose()?,
        })
    }

    #[cfg(not(unix))]
    pub(super) fn listen() -> Result<Self, Error> {
        Ok(Self {})
    }

    /// Waits for the next signal that a person or a service manager sends.
    #[cfg(unix)]
    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }

    /// Waits for the first signal.
    #[cfg(unix)]
    async fn first(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
            Some(()) = async { self.hang_up.as_mut()?.recv().await } => {}
        }
    }

    #[cfg(not(unix))]
    async fn next(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            // No signal will come.
            std::future::pending().await
        }
    }

    #[cfg(not(unix))]
    async fn first(&mut self) {
        self.next().await;
    }

    /// Stops the worker at the first signal, and ends its grace at the next one that is no SIGHUP: a closing terminal sends two of those,
    /// and systemd may send one right after SIGTERM.
    pub(super) async fn tell(mut self, worker: WorkerHandle) -> Infallible {
        self.first().await;
        worker.stop();
        loop {
            self.next().await;
            worker.stop_now();
        }
    }
}

/// Whether the process was started with SIGHUP ignored, as by `nohup`; a handler would undo that. Only Linux tells.
#[cfg(unix)]
fn ignores_hang_up() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    // The lowest bit is that of signal 1.
    ignored.is_some_and(|mask| u64::from_str_radix(mask.trim(), 16).is_ok_and(|mask| mask & 1 == 1))
}
