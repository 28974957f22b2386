//! A thread of one session, with a runtime of its own that no body can block.

use std::io;
use std::sync::Arc;
use std::thread::{Builder, sleep};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::liveness::Liveness;
use super::session::Session;

/// A thread that is told to end does so within milliseconds, unless a waker of the user's hangs on it.
const ENDS_WITHIN: Duration = Duration::from_secs(1);

/// Dropping this ends the thread and waits for its end. A thread that ended later could be the last to hold the user's states, and would
/// drop them outside their runtime.
pub(crate) struct Thread {
    ends: CancellationToken,
    /// The thread holds nothing any more.
    ended: CancellationToken,
}

impl Thread {
    /// Starts a thread that runs this future, until it completes or the thread is told to end.
    pub(crate) fn spawn<F: Future<Output = ()>>(
        name: &str,
        session: &Arc<Session>,
        liveness: fn(&Session) -> &Liveness,
        run: impl FnOnce(Arc<Session>) -> F + Send + 'static,
    ) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (ends, ended) = (CancellationToken::new(), CancellationToken::new());
        let (told, has_ended) = (ends.clone(), ended.clone().drop_guard());
        let session = Arc::clone(session);
        Builder::new().name(name.to_owned()).spawn(move || {
            // Dropped last.
            let _has_ended = has_ended;
            let session = session;
            let _vital = session.vital();
            runtime.block_on(async {
                tokio::select! {
                    () = told.cancelled() => {}
                    () = liveness(&session).show_with_beats(&session.beat) => {}
                    () = run(Arc::clone(&session)) => {}
                }
            });
            // Dropping it would wait for a look-up of a host name.
            runtime.shutdown_background();
        })?;
        Ok(Self { ends, ended })
    }

    /// Completes when the thread has ended, also by a panic. Cancel safe.
    pub(crate) async fn ended(&self) {
        self.ended.cancelled().await;
    }

    pub(crate) fn end(&self) {
        self.ends.cancel();
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.end();
        let told = Instant::now();
        while !self.ended.is_cancelled() && told.elapsed() < ENDS_WITHIN {
            sleep(Duration::from_millis(1));
        }
    }
}
