//! Functions of the user that are told what became of jobs. Each has a thread of its own, for which nothing waits: one that blocks or panics
//! harms neither the jobs nor the log nor another one.

#[cfg(feature = "cron")]
mod checkin;
mod error_report;
mod event;

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Builder;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use tracing::dispatcher::{self, Dispatch};

use crate::guarded::guarded;
use crate::join::join_all;
use crate::log::say;

#[cfg(feature = "cron")]
pub use checkin::{Checkin, CheckinState};
pub use error_report::ErrorReport;
pub use event::{Event, EventKind, Events};

/// So many reports wait for a function; what comes beyond is dropped, and counted.
const ROOM: usize = 1_000;

/// The functions get so long at the end of the worker for what waits.
const FLUSH_WITHIN: Duration = Duration::from_secs(1);

/// A line about a function is written so often at most.
const SAID_EVERY: Duration = Duration::from_secs(60);

/// All functions of one worker.
#[derive(Debug, Default)]
pub(crate) struct Hooks {
    pub(crate) errors: HooksOf<ErrorReport>,
    pub(crate) events: HooksOf<Event>,
    #[cfg(feature = "cron")]
    pub(crate) checkins: HooksOf<Checkin>,
}

impl Hooks {
    /// Starts their threads, which end when these hooks are dropped.
    ///
    /// # Errors
    /// The process cannot start threads.
    pub(crate) fn start(&self) -> io::Result<()> {
        self.errors.start()?;
        self.events.start()?;
        #[cfg(feature = "cron")]
        self.checkins.start()?;
        Ok(())
    }

    /// Waits until all was told, for a while: the program may end now.
    pub(crate) async fn flush(&self) {
        let flush = async { tokio::join!(self.errors.flush(), self.events.flush()) };
        #[cfg(feature = "cron")]
        let flush = async { tokio::join!(flush, self.checkins.flush()) };
        let _ = timeout(FLUSH_WITHIN, flush).await;
    }
}

/// The functions that are told the same.
#[derive(Debug)]
pub(crate) struct HooksOf<T>(Vec<Hook<T>>);

impl<T> Default for HooksOf<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: Send + Sync + 'static> HooksOf<T> {
    pub(crate) fn add(&mut self, name: &'static str, function: impl FnMut(&T) + Send + 'static) {
        self.0.push(Hook::new(name, Box::new(function)));
    }

    /// Tells all of them, if there are any.
    pub(crate) fn tell(&self, what: impl FnOnce() -> T) {
        if self.is_empty() {
            return;
        }
        let what = Arc::new(what());
        for hook in &self.0 {
            hook.tell(Arc::clone(&what));
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn start(&self) -> io::Result<()> {
        self.0.iter().try_for_each(Hook::start)
    }

    async fn flush(&self) {
        join_all(self.0.iter().map(Hook::flush)).await;
    }
}

type Function<T> = Box<dyn FnMut(&T) + Send>;

/// What the thread begins with: where it is told, and whom it calls.
type Begin<T> = (mpsc::Receiver<Message<T>>, Function<T>);

enum Message<T> {
    Tell(Arc<T>),
    /// All that came before is told.
    Flush(oneshot::Sender<()>),
}

struct Hook<T> {
    /// The method of the builder that it was given to.
    name: &'static str,
    messages: mpsc::Sender<Message<T>>,
    /// For its thread.
    begin: Mutex<Option<Begin<T>>>,
    dropped: AtomicU64,
    said: Seldom,
}

impl<T: Send + Sync + 'static> Hook<T> {
    fn new(name: &'static str, function: Function<T>) -> Self {
        let (messages, waiting) = mpsc::channel(ROOM);
        let begin = Mutex::new(Some((waiting, function)));
        Self { name, messages, begin, dropped: AtomicU64::new(0), said: Seldom::default() }
    }

    fn start(&self) -> io::Result<()> {
        let begin = self.begin.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some((waiting, function)) = begin else { return Ok(()) };
        // The thread of the worker may have another one than the process.
        let (name, subscriber) = (self.name, dispatcher::get_default(Dispatch::clone));
        let run = move || dispatcher::with_default(&subscriber, || run(name, waiting, function));
        Builder::new().name("hworker-hook".into()).spawn(run).map(drop)
    }

    fn tell(&self, what: Arc<T>) {
        if self.messages.try_send(Message::Tell(what)).is_ok() {
            return;
        }
        let dropped = self.dropped.fetch_add(1, Ordering::Relaxed) + 1;
        if self.said.is_due() {
            say!(
                WARN,
                { hook = self.name },
                hook,
                dropped,
                "reports are dropped: they come faster than the function takes them"
            );
        }
    }

    async fn flush(&self) {
        let (flush, flushed) = oneshot::channel();
        if self.messages.send(Message::Flush(flush)).await.is_ok() {
            let _ = flushed.await;
        }
    }
}

/// What the thread of a function does.
fn run<T>(name: &'static str, mut waiting: mpsc::Receiver<Message<T>>, mut function: Function<T>) {
    let said = Seldom::default();
    while let Some(message) = waiting.blocking_recv() {
        match message {
            Message::Tell(what) => {
                if !guarded(|| function(&what)) && said.is_due() {
                    say!(
                        WARN,
                        hook = name,
                        "the function has panicked; it is called again with the next report"
                    );
                }
            }
            // Who has waited for too long is gone.
            Message::Flush(flush) => drop(flush.send(())),
        }
    }
    // It may own what panics.
    guarded(|| drop(function));
}

impl<T> fmt::Debug for Hook<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Hook").field(&self.name).finish()
    }
}

/// When a line was written last.
#[derive(Default)]
struct Seldom(Mutex<Option<Instant>>);

impl Seldom {
    /// Whether to write one now.
    fn is_due(&self) -> bool {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = last.is_none_or(|last| last.elapsed() >= SAID_EVERY);
        if is_due {
            *last = Some(Instant::now());
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_has_no_room_is_counted_and_a_panic_ends_nothing() {
        // Guard: `ROOM`; `guarded` in `run`.
        let (go, gate) = std::sync::mpsc::channel::<()>();
        let (sender, heard) = std::sync::mpsc::channel();
        let mut hooks = HooksOf::default();
        hooks.add("test", move |number: &usize| {
            let _ = gate.recv();
            assert!(*number > 0, "on purpose");
            let _ = sender.send(*number);
        });
        hooks.start().expect("a thread");
        // One may have been taken out already.
        (0..ROOM + 3).for_each(|number| hooks.tell(|| number));
        let dropped = hooks.0[0].dropped.load(Ordering::Relaxed);
        assert!((2..=3).contains(&dropped), "{dropped}");
        drop(go);
        hooks.flush().await;
        assert_eq!(heard.try_iter().count() as u64 + dropped, ROOM as u64 + 2);
    }
}
