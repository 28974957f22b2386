//! Jobs whose errors and policies panic, hang, or have no end.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Wake, Waker};
use std::time::Duration;

use hworker::{Context, OnFault};
use serde::{Deserialize, Serialize};

/// What an error does, beside being one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum How {
    /// `Display` returns an error of its own; the backoff is an hour.
    DisplayFails,
    /// `Display` panics; `on_error` says that the job has failed.
    DisplayPanics,
    /// `Display` does not return.
    DisplayHangs,
    /// `Display` writes a million bytes, and more as long as it may.
    DisplayGoesOn,
    /// `source` panics; the backoff is an hour.
    SourcePanics,
    /// `source` does not return.
    SourceHangs,
    /// Its source is the error itself.
    SourceOfItself,
    /// The same, with another text each time.
    SourcesGoOn,
    /// It panics when it is dropped.
    DropPanics,
    /// It does not come to the end of its drop.
    DropHangs,
    /// `on_error` does not return.
    OnErrorHangs,
    /// `backoff` does not return.
    BackoffHangs,
}

/// The error of these jobs.
#[derive(Debug)]
pub struct Strange {
    how: How,
    read: AtomicU32,
}

impl fmt::Display for Strange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let read = self.read.fetch_add(1, Ordering::Relaxed);
        match self.how {
            How::DisplayFails => Err(fmt::Error),
            How::DisplayPanics => panic!("on purpose"),
            How::DisplayHangs => hang(),
            How::DisplayGoesOn => (0..1_000_000).try_for_each(|_| f.write_str("x")),
            How::SourcesGoOn => write!(f, "text {read}"),
            _ => f.write_str("strange"),
        }
    }
}

impl Error for Strange {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self.how {
            How::SourcePanics => panic!("on purpose"),
            How::SourceHangs => hang(),
            How::SourceOfItself | How::SourcesGoOn => Some(self),
            _ => None,
        }
    }
}

impl Drop for Strange {
    fn drop(&mut self) {
        match self.how {
            How::DropPanics => panic!("on purpose"),
            How::DropHangs => hang(),
            _ => {}
        }
    }
}

/// Returns such an error after so many milliseconds, for which it blocks its thread.
#[hworker::job(backoff = pause, on_error = judge)]
// It would be blocking otherwise, and get a thread of its own.
#[allow(clippy::unused_async)]
pub async fn strange(how: How, after_ms: u64) -> Result<(), Strange> {
    fails(how, after_ms)
}

/// The same on a thread of its own.
#[hworker::job(backoff = pause, on_error = judge)]
pub fn strange_blocking(how: How, after_ms: u64) -> Result<(), Strange> {
    fails(how, after_ms)
}

fn fails(how: How, after_ms: u64) -> Result<(), Strange> {
    std::thread::sleep(Duration::from_millis(after_ms));
    Err(Strange { how, read: AtomicU32::new(0) })
}

fn judge(error: &(dyn Error + Send + Sync + 'static)) -> OnFault {
    match error.downcast_ref::<Strange>().map(|error| error.how) {
        Some(How::OnErrorHangs) => hang(),
        Some(How::DisplayPanics) => OnFault::Fail,
        _ => OnFault::Retry,
    }
}

fn pause(_: u32, error: &(dyn Error + Send + Sync + 'static)) -> Duration {
    match error.downcast_ref::<Strange>().map(|error| error.how) {
        Some(How::BackoffHangs) => hang(),
        _ => Duration::from_secs(3_600),
    }
}

/// Has somebody await the end of the attempt whose waker panics, then blocks its thread for so many milliseconds.
#[hworker::job]
#[allow(clippy::unused_async)]
pub async fn wakes_with_a_panic(block_ms: u64, context: Context) {
    let mut waits = Box::pin(async move { context.cancelled().await });
    let waker = Waker::from(Arc::new(Panics));
    let _ = waits.as_mut().poll(&mut std::task::Context::from_waker(&waker));
    // It waits for as long as the process runs.
    Box::leak(Box::new(waits));
    std::thread::sleep(Duration::from_millis(block_ms));
}

struct Panics;

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        panic!("on purpose")
    }
}

fn hang() -> ! {
    loop {
        std::thread::park();
    }
}
