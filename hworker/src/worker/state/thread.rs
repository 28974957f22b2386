//! A thread of one session, with a runtime of its own that no body can block.

use std::io;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

use tokio_util::sync::CancellationToken;

use crate::worker::state::session::Session;

/// Dropping this ends the thread and waits for its end. Otherwise the thread could be the last owner of the user's states, and drop them on
/// a runtime that is not theirs.
pub(crate) struct Thread {
    ends: CancellationToken,
    ended: CancellationToken,
    handle: Option<JoinHandle<()>>,
}

impl Thread {
    /// Starts a thread that runs this future, until it completes or the thread is told to end.
    pub(crate) fn spawn<F: Future<Output = ()>>(
        name: &str,
        session: &Arc<Session>,
        run: impl FnOnce(Arc<Session>) -> F + Send + 'static,
    ) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (ends, ended) = (CancellationToken::new(), CancellationToken::new());
        let (told, has_ended) = (ends.clone(), ended.clone().drop_guard());
        let session = Arc::clone(session);
        let thread = Builder::new().name(name.to_owned()).spawn(move || {
            let _has_ended = has_ended;
            let _vital = session.vital();
            runtime.block_on(async {
                tokio::select! {
                    () = told.cancelled() => {}
                    () = run(Arc::clone(&session)) => {}
                }
            });
            // Dropping it would wait for a look-up of a host name.
            runtime.shutdown_background();
        })?;
        Ok(Self { ends, ended, handle: Some(thread) })
    }

    /// Completes when the thread has ended, also by a panic. Cancel safe.
    pub(crate) async fn ended(&self) {
        self.ended.cancelled().await;
    }

    /// Tells the thread to end.
    pub(crate) fn end(&self) {
        self.ends.cancel();
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.end();
        // The panic hook has reported a panic.
        let _ = self.handle.take().map(JoinHandle::join);
    }
}
