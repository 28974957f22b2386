//! Whether a worker is live and whether it is ready, for the platform that runs its process.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use crate::worker::WorkerHandle;
use crate::worker::state::{STUCK, Session};

/// Tells whether a worker is live and whether it is ready; clones tell the same. [`Worker::health`](crate::Worker::health) gives it, for a
/// web server of your own. With the feature `health` the worker answers probes itself, see [`WorkerBuilder::health`](crate::WorkerBuilder).
///
/// ```no_run
/// # async fn demo() -> Result<(), hworker::Error> {
/// let worker = hworker::Worker::builder().build()?;
/// let health = worker.health();
/// tokio::spawn(async move {
///     // In the handler of a probe:
///     if let Err(why) = health.ready() {
///         println!("503: {why}");
///     }
/// });
/// worker.run().await?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Health {
    stage: Arc<Mutex<Stage>>,
    handle: WorkerHandle,
    /// Also when the worker is over.
    #[cfg(feature = "metrics")]
    pub(super) totals: Arc<crate::charts::Totals>,
}

/// The stage of the worker.
#[derive(Debug, Default)]
pub(crate) enum Stage {
    #[default]
    NotBegun,
    /// Weak: the states and connections of a session go when it ends, even if its health is still asked for.
    Runs(Weak<Session>),
    Over,
}

/// Why a worker is not live, or not ready.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unhealthy {
    /// It is about to begin, or to begin again under another id.
    Starting,
    /// It was told to stop, or has stopped.
    Stopping,
    /// The server has accepted no heartbeat in time, so no body starts.
    NoServer {
        /// The queue that has waited longest for one.
        queue: String,
        /// How long ago the last accepted one was sent; `None` before the first.
        silent: Option<Duration>,
    },
    /// No process for jobs with `isolate` can be started, for this reason; jobs of other types run.
    NoProcess(String),
    /// The runtime of the bodies has not run for this long: bodies that block hold all its threads.
    RuntimeStuck(Duration),
    /// The thread that reserves jobs and settles them has not run for this long.
    IntakeStuck(Duration),
    /// The thread that sends heartbeats and keeps deadlines has not run for this long.
    SupervisorStuck(Duration),
    /// A part of it ended by a panic: it gives its jobs back, and begins again under another id.
    Panicked,
    /// It ended without being told to: its future was dropped, or it could not start.
    Ended,
}

impl fmt::Display for Unhealthy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Starting => f.write_str("the worker is starting"),
            Self::Stopping => f.write_str("the worker was told to stop"),
            Self::NoServer { queue, silent: None } => {
                write!(f, "the server has not accepted a heartbeat of the queue {queue} yet")
            }
            Self::NoServer { queue, silent: Some(silent) } => write!(
                f,
                "the server has accepted no heartbeat of the queue {queue} for {silent:.1?}"
            ),
            Self::NoProcess(why) => {
                write!(f, "no process for jobs with `isolate` can be started: {why}")
            }
            Self::RuntimeStuck(silent) => write!(
                f,
                "the runtime of the bodies has not run for {silent:.1?}: bodies block its threads"
            ),
            Self::IntakeStuck(silent) => {
                write!(f, "the thread that takes and settles jobs has not run for {silent:?}")
            }
            Self::SupervisorStuck(silent) => {
                write!(f, "the supervisor's thread has not run for {silent:.1?}")
            }
            Self::Panicked => f.write_str(
                "a part of the worker has ended by a panic: it gives its jobs back and begins anew",
            ),
            Self::Ended => f.write_str("the worker has ended without having been told to"),
        }
    }
}

impl std::error::Error for Unhealthy {}

impl Health {
    pub(crate) fn new(handle: WorkerHandle) -> Self {
        #[cfg(feature = "metrics")]
        let totals = handle.core.upgrade().map(|core| Arc::clone(&core.totals)).unwrap_or_default();
        Self {
            stage: Arc::default(),
            handle,
            #[cfg(feature = "metrics")]
            totals,
        }
    }

    /// Whether the process is worth keeping: all its runtimes run. A server out of reach makes no difference, since another process would
    /// not reach it either. Nor does a request to stop.
    ///
    /// # Errors
    /// [`Unhealthy::RuntimeStuck`], [`Unhealthy::IntakeStuck`] and [`Unhealthy::SupervisorStuck`] after 10 s, [`Unhealthy::Panicked`] until
    /// it begins again, [`Unhealthy::Ended`].
    pub fn live(&self) -> Result<(), Unhealthy> {
        let session = match &*self.stage() {
            Stage::NotBegun => return Ok(()),
            Stage::Runs(session) => session.upgrade(),
            Stage::Over if self.handle.is_told_to_stop() => return Ok(()),
            Stage::Over => return Err(Unhealthy::Ended),
        };
        // Between two sessions there is none to ask for a moment. The session may be dropped here, with the user's states.
        session.map_or(Ok(()), |session| {
            if session.broken.is_cancelled() {
                return Err(Unhealthy::Panicked);
            }
            live(session.runtime.silent(), session.intake.silent(), session.supervisor.silent())
        })
    }

    /// Whether a job that is enqueued now would start here, as far as the worker itself is concerned: it is live, in touch with the server
    /// in each of its queues, and not stopping. The freshness of the heartbeat decides, as for the start of a body: one that was sent in
    /// the last 4 s must have been accepted.
    ///
    /// # Errors
    /// The first reason against it.
    pub fn ready(&self) -> Result<(), Unhealthy> {
        self.live()?;
        if self.handle.is_told_to_stop() {
            return Err(Unhealthy::Stopping);
        }
        let Some(session) = self.running_session().filter(|session| !session.void.is_cancelled())
        else {
            return Err(Unhealthy::Starting);
        };
        let children = session.core.children.as_ref();
        if let Some(why) = children.and_then(|children| children.why_not()) {
            return Err(Unhealthy::NoProcess(why));
        }
        let consumers = session.consumers();
        let silent = consumers.iter().filter(|consumer| !consumer.freshness.is_fresh());
        // A queue without any accepted heartbeat has waited longest.
        let longest =
            silent.max_by_key(|consumer| consumer.freshness.age().unwrap_or(Duration::MAX));
        longest.map_or(Ok(()), |consumer| {
            Err(Unhealthy::NoServer {
                queue: consumer.queue.name.to_string(),
                silent: consumer.freshness.age(),
            })
        })
    }

    /// Asks this session from now on.
    pub(crate) fn begins(&self, session: &Arc<Session>) {
        *self.stage() = Stage::Runs(Arc::downgrade(session));
    }

    pub(crate) fn running_session(&self) -> Option<Arc<Session>> {
        match &*self.stage() {
            Stage::Runs(session) => session.upgrade(),
            Stage::NotBegun | Stage::Over => None,
        }
    }

    /// Dropping the returned value tells that the worker has ended.
    pub(crate) fn until_dropped(&self) -> impl Drop + use<> {
        Ends(self.clone())
    }

    pub(crate) fn stage(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Ends(Health);

impl Drop for Ends {
    fn drop(&mut self) {
        *self.0.stage() = Stage::Over;
    }
}

fn live(runtime: Duration, intake: Duration, supervisor: Duration) -> Result<(), Unhealthy> {
    if supervisor >= STUCK {
        return Err(Unhealthy::SupervisorStuck(supervisor));
    }
    if intake >= STUCK {
        return Err(Unhealthy::IntakeStuck(intake));
    }
    if runtime >= STUCK {
        return Err(Unhealthy::RuntimeStuck(runtime));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_is_live_while_all_its_runtimes_go_round() {
        let (soon, late) = (Duration::from_secs(9), Duration::from_secs(10));
        assert_eq!(live(soon, soon, soon), Ok(()));
        assert_eq!(live(late, soon, soon), Err(Unhealthy::RuntimeStuck(late)));
        assert_eq!(live(soon, late, soon), Err(Unhealthy::IntakeStuck(late)));
        assert_eq!(live(soon, soon, late), Err(Unhealthy::SupervisorStuck(late)));
    }

    #[test]
    fn a_worker_that_ended_untold_is_not_live() {
        let health = Health::new(WorkerHandle::default());
        assert_eq!((health.live(), health.ready()), (Ok(()), Err(Unhealthy::Starting)));
        drop(health.until_dropped());
        assert_eq!((health.live(), health.ready()), (Err(Unhealthy::Ended), Err(Unhealthy::Ended)));
        health.handle.stop();
        assert_eq!((health.live(), health.ready()), (Ok(()), Err(Unhealthy::Stopping)));
    }
}
