//! The end of an attempt, and everything that has to learn of it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::guarded::guarded;

/// The end of an attempt, shared by all clones of its context. Most attempts end without anybody having asked, so nothing is allocated
/// before.
#[derive(Default)]
pub(crate) struct End {
    reached: AtomicBool,
    /// Somebody cancelled the job, so it is to come to its end.
    ordered: AtomicBool,
    /// The body asked for its end, and the job runs again after this.
    suspended: OnceLock<Duration>,
    /// Made under the lock of `holders`, so that an end which came before it is seen.
    notice: OnceLock<Notify>,
    holders: Mutex<Holders>,
}

/// What has to learn of the end, apart from tasks that wait for the notice.
#[derive(Default)]
struct Holders {
    /// The task that runs the body: for it a notice would be another allocation, and a lock at each poll.
    task: Option<Waker>,
    children: Option<JoinSet<()>>,
}

impl End {
    pub(super) fn notice(&self) -> &Notify {
        self.notice.get().unwrap_or_else(|| {
            let _holders = self.holders();
            self.notice.get_or_init(Notify::new)
        })
    }

    fn holders(&self) -> MutexGuard<'_, Holders> {
        self.holders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends it for all but the task that runs the body; gives that task's waker.
    pub(super) fn reach(&self) -> Option<Waker> {
        let mut holders = self.holders();
        self.reached.store(true, Ordering::Release);
        if let Some(notice) = self.notice.get() {
            // A waker may be the user's code.
            guarded(|| notice.notify_waiters());
        }
        if let Some(children) = &mut holders.children {
            children.abort_all();
        }
        holders.task.take()
    }

    /// Tells all who ask that it is to end: somebody cancelled the job. The body goes on.
    pub(super) fn order(&self) {
        let _holders = self.holders();
        self.ordered.store(true, Ordering::Release);
        if let Some(notice) = self.notice.get() {
            guarded(|| notice.notify_waiters());
        }
    }

    pub(super) fn suspend(&self, delay: Duration) {
        let _ = self.suspended.set(delay);
    }

    pub(super) fn suspended(&self) -> Option<Duration> {
        self.suspended.get().copied()
    }

    /// Whether somebody cancelled the job.
    pub(super) fn is_ordered(&self) -> bool {
        self.ordered.load(Ordering::Acquire)
    }

    /// Whether the attempt is over.
    pub(super) fn is_reached(&self) -> bool {
        self.reached.load(Ordering::Acquire)
    }

    /// Starts a task that is aborted at the end; none after it.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut holders = self.holders();
        if !self.is_reached() {
            let children = holders.children.get_or_insert_default();
            // Finished tasks would be kept until the job ends.
            while children.try_join_next().is_some() {}
            children.spawn(task);
        }
    }

    /// Whether the attempt is over; if not, the task that runs the body is woken when it is.
    pub(super) fn poll_reached(&self, cx: &std::task::Context<'_>) -> Poll<()> {
        let mut holders = self.holders();
        if self.is_reached() {
            return Poll::Ready(());
        }
        holders.task = Some(cx.waker().clone());
        Poll::Pending
    }
}
