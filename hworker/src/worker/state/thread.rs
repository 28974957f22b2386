//! A thread of one session, with a runtime of its own that no body can block.

use std::io;
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Builder;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::liveness::Liveness;
use super::session::Session;
use crate::store::name_connections;

/// A thread that is told to end does so within milliseconds, unless a waker of the user's hangs on it.
const ENDS_WITHIN: Duration = Duration::from_secs(1);

/// Dropping this ends the thread and waits for its end. A thread that ended later could be the last to hold the user's states, and would
/// drop them outside their runtime.
pub(crate) struct Thread {
    ends: CancellationToken,
    ended: CancellationToken,
    /// Closed when the thread holds nothing any more.
    held: Mutex<Receiver<()>>,
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
        let (holds, held) = sync_channel(0);
        let session = Arc::clone(session);
        Builder::new().name(name.to_owned()).spawn(move || {
            // Dropped last.
            let _has_ended = (has_ended, holds);
            let session = session;
            let _vital = session.vital();
            name_connections(&session.id);
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
        Ok(Self { ends, ended, held: Mutex::new(held) })
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
        let held = self.held.get_mut().unwrap_or_else(PoisonError::into_inner);
        // Nothing is ever sent: this ends when the thread does, or by the time.
        let _ = held.recv_timeout(ENDS_WITHIN);
    }
}
