//! Enqueues from code that is not async, and the runtime that they run in.

use std::sync::LazyLock;

use tokio::runtime::{self, Runtime};

#[cfg(feature = "testing")]
use crate::client::Recorder;
use crate::error::Error;

/// The runtime that this is called in; says what to call instead where there is none.
pub(crate) fn in_a_runtime() -> Result<runtime::Id, Error> {
    crate::runtime::current(
        "enqueue was called outside a tokio runtime; call `.enqueue_blocking()` there",
    )
}

/// Awaits an enqueue in code that is not async, in or outside a runtime.
pub(crate) fn block_on<T: Send + 'static>(
    enqueue: impl Future<Output = Result<T, Error>> + Send + 'static,
) -> Result<T, Error> {
    #[cfg(feature = "testing")]
    let enqueue = Recorder::carried(enqueue);
    let (done, result) = std::sync::mpsc::channel();
    blocking_runtime()?.spawn(async move {
        let _ = done.send(enqueue.await);
    });
    result.recv().unwrap_or_else(|_| {
        Err(Error::config("the runtime for blocking enqueues has ended; is the process exiting?"))
    })
}

/// The runtime of blocking enqueues, started with the first of them.
fn blocking_runtime() -> Result<&'static Runtime, Error> {
    // Made under its lock: a second one could not be dropped again where the caller is in a runtime himself.
    static RUNTIME: LazyLock<(u32, std::io::Result<Runtime>)> = LazyLock::new(|| {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("hworker-enqueue")
            .enable_all()
            .build();
        (std::process::id(), runtime)
    });
    let (process, runtime) = &*RUNTIME;
    if *process != std::process::id() {
        return Err(Error::config(
            "this process was forked after the first blocking enqueue, and has none of its threads; fork before it, or exec",
        ));
    }
    runtime
        .as_ref()
        .map_err(|error| Error::config(format!("no thread for blocking enqueues: {error}")))
}
