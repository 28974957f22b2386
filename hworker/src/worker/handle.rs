//! What is told to a worker from elsewhere, and how it says that it stopped.

use std::sync::Weak;

use tokio_util::sync::CancellationToken;

use super::state::core::Core;
use crate::error::Error;
use crate::keys::is_name;

/// Stops a worker from elsewhere, and changes which queues it serves; clones do so to the same worker.
#[derive(Debug, Clone, Default)]
pub struct WorkerHandle {
    pub(super) stop: CancellationToken,
    pub(super) now: CancellationToken,
    pub(super) core: Weak<Core>,
}

impl WorkerHandle {
    /// Stops the worker: it takes no more jobs, lets those that run finish within the grace, and gives the rest back.
    pub fn stop(&self) {
        self.stop.cancel();
    }

    /// Stops the worker without the grace: what runs is given back at once.
    pub fn stop_now(&self) {
        self.stop.cancel();
        self.now.cancel();
    }

    /// Serves this queue too, from now on, beside those that it serves. Without an effect where it is served, or the worker is gone.
    ///
    /// ```no_run
    /// # async fn demo() -> Result<(), hworker::Error> {
    /// let worker = hworker::Worker::builder().build()?;
    /// let handle = worker.handle();
    /// let running = tokio::spawn(worker.run());
    /// handle.add_queue("tenant-7")?;
    /// // Later: those of its jobs that run end here, the rest is for other workers.
    /// handle.remove_queue("tenant-7");
    /// # let _ = running; Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::Config`] where the name is not of the form `[A-Za-z0-9._-]{1,100}`.
    pub fn add_queue(&self, name: &str) -> Result<(), Error> {
        if !is_name(name) {
            return Err(Error::config(format!(
                "the queue's name `{name}` is not of the form [A-Za-z0-9._-]{{1,100}}"
            )));
        }
        if let Some(core) = self.core.upgrade() {
            core.add_queue(name);
        }
        Ok(())
    }

    /// Serves this queue no more: takes no more of its jobs, gives back those that have not started, and lets those that run end, however
    /// long they take. Without an effect where it is not served.
    pub fn remove_queue(&self, name: &str) {
        if let Some(core) = self.core.upgrade() {
            core.remove_queue(name);
        }
    }

    pub(super) fn is_told_to_stop(&self) -> bool {
        self.stop.is_cancelled()
    }
}

/// How a worker stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stopped {
    /// Blocking bodies that have not returned: their jobs were given back or settled, their threads still run.
    pub blocking_bodies_left: usize,
    /// Whether any body still ran when the grace was over, or blocked a thread that was given up before. Dropping the runtime
    /// then may wait for ever: for that thread, or for what a body gave to `tokio::task::spawn_blocking`.
    pub cut_off: bool,
}

impl Stopped {
    /// Whether something may still run for which the end of the runtime would wait.
    pub(crate) fn left_something(self) -> bool {
        self.cut_off || self.blocking_bodies_left > 0
    }
}
