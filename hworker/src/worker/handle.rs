//! Controls a worker from elsewhere, and tells how it stopped.

use std::sync::Weak;

use tokio_util::sync::CancellationToken;

use super::state::Core;
use crate::error::Error;
use crate::keys::check_queue;

/// Stops a worker from elsewhere and changes its queues; clones control the same worker.
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

    /// Stops the worker without the grace: running jobs are given back at once.
    pub fn stop_now(&self) {
        self.stop.cancel();
        self.now.cancel();
    }

    /// Serves this queue from now on, beside the others. No effect if it is served already, or the worker is gone.
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
    /// [`Error::Config`] if the name is not of the form `[A-Za-z0-9._-]{1,100}`.
    pub fn add_queue(&self, name: &str) -> Result<(), Error> {
        check_queue(name).map_err(Error::config)?;
        if let Some(core) = self.core.upgrade() {
            core.add_queue(name);
        }
        Ok(())
    }

    /// Stops serving this queue: takes no more of its jobs, gives back those that have not started, and lets running jobs end, however long
    /// they take. No effect if it is not served.
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
    /// Whether a body still ran when the grace was over, or blocked a thread that was given up before. Dropping the runtime may then wait
    /// for ever: for that thread, or for a task that a body gave to `tokio::task::spawn_blocking`.
    pub cut_off: bool,
}

impl Stopped {
    /// Whether something may still run that the end of the runtime would wait for.
    pub(crate) fn left_something(self) -> bool {
        self.cut_off || self.blocking_bodies_left > 0
    }
}
