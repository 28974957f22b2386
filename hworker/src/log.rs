//! The log. While a worker runs no thread of it waits for a line to be written: a pipe that nobody reads, or a slow disk, would
//! hold up heartbeats and jobs. A thread of its own writes what waits here, within bounds.

mod escaped;
mod json;

use std::cell::Cell;
use std::io::{self, Write};
use std::mem::take;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;
use tracing::Level;
use tracing::dispatcher::{self, Dispatch};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use escaped::escaped;
pub(crate) use escaped::one_line;

/// What waits to be written takes no more; what comes beyond is dropped, and counted.
const ROOM: usize = 4 << 20;

/// About what an event takes that waits for a subscriber.
const EVENT_BYTES: usize = 1 << 10;

/// At the end of a worker what waits has so long to be written.
const FLUSH_WITHIN: Duration = Duration::from_secs(1);

/// The target of the span around a body.
const JOB_SPAN: &str = "hworker::job";

static LOG: Log = Log { state: Mutex::new(State::new()), changed: Condvar::new() };

/// Whether the subscriber of the process is the one below, which waits for nothing.
static IS_OWN: AtomicBool = AtomicBool::new(false);

/// While there are none, lines are written at once: nobody would wait for the rest at the end of the program.
static WORKERS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static WRITES: Cell<bool> = const { Cell::new(false) };
}

/// An event for which its thread does not wait, whatever the subscriber does: `say!(WARN, { queue = .. }, %queue, "text")`. What stands in
/// braces becomes the event's own, and is made only where the level is heard.
macro_rules! say {
    ($level:ident, { $($name:ident = $value:expr),* $(,)? }, $($event:tt)+) => {
        // No more of a filter is asked here: it is the subscriber's code too.
        if tracing::Level::$level <= tracing::level_filters::LevelFilter::current() {
            $(let $name = $value;)*
            $crate::log::hand_over(move || tracing::event!(tracing::Level::$level, $($event)+));
        }
    };
    ($level:ident, $($event:tt)+) => {
        $crate::log::say!($level, {}, $($event)+)
    };
}
pub(crate) use say;

/// What [`say`] does.
pub(crate) fn hand_over(event: impl FnOnce() + Send + 'static) {
    if IS_OWN.load(Ordering::Acquire) {
        return event();
    }
    // The thread may have another one than the process.
    let subscriber = dispatcher::get_default(Dispatch::clone);
    LOG.add(Waiting::Event(subscriber, Box::new(event)));
}

/// Calls what may be the user's on the thread that writes: nothing else waits for that, and it survives a panic.
#[cfg(feature = "metrics")]
pub(crate) fn beside(call: impl FnOnce() + Send + 'static) {
    LOG.add(Waiting::Event(dispatcher::get_default(Dispatch::clone), Box::new(call)));
}

/// Sends events to standard error, filtered by `HWORKER_LOG`, in the format of `HWORKER_LOG_FORMAT`; does nothing where a subscriber is set
/// already.
pub(crate) fn install() {
    let variable = |name| std::env::var(name).unwrap_or_default().trim().to_owned();
    let (wanted, format) = (variable("HWORKER_LOG"), variable("HWORKER_LOG_FORMAT"));
    let is_json = format == "json";
    let filter = filter(&wanted);
    let understood = wanted.is_empty() || filter.is_some();
    let filter = filter.unwrap_or_else(|| Targets::new().with_default(LevelFilter::INFO));
    let filter = with_spans(filter, &wanted, is_json);
    let lines = if is_json {
        json::Json(|line| _ = Lines.write_all(line)).boxed()
    } else {
        // Colours would be on where another crate has their feature, into files too.
        tracing_subscriber::fmt::layer().with_ansi(false).with_writer(|| Lines).boxed()
    };
    if tracing_subscriber::registry().with(lines).with(filter).try_init().is_err() {
        return;
    }
    IS_OWN.store(true, Ordering::Release);
    if !understood {
        tracing::warn!(
            "HWORKER_LOG `{wanted}` is not understood; write a level, or `hworker=debug,my_app=info`"
        );
    }
    if !["", "text", "json"].contains(&&*format) {
        tracing::warn!("HWORKER_LOG_FORMAT `{format}` is not understood; write `text` or `json`");
    }
}

/// A level, or targets with levels. A lone word that is no level would be a target with every level, and everything
/// else silent: it is a typing error.
fn filter(wanted: &str) -> Option<Targets> {
    let lone_word = !wanted.contains(['=', ',']);
    if wanted.is_empty() || (lone_word && wanted.parse::<LevelFilter>().is_err()) {
        return None;
    }
    wanted.parse().ok()
}

/// To make the span around a body costs more than many bodies: lines of text have it where it is asked for, or at `debug`. In JSON its fields
/// are by what the lines of a job are found, so it is there at every level.
fn with_spans(filter: Targets, wanted: &str, is_json: bool) -> Targets {
    if wanted.contains(JOB_SPAN) {
        return filter;
    }
    if is_json && !wanted.eq_ignore_ascii_case("off") {
        return filter.with_target(JOB_SPAN, LevelFilter::INFO);
    }
    if filter.would_enable(JOB_SPAN, &Level::DEBUG) {
        return filter;
    }
    filter.with_target(JOB_SPAN, LevelFilter::OFF)
}

/// While it is there, lines are left to the thread that writes.
pub(crate) struct WorkerRuns(());

impl WorkerRuns {
    pub(crate) fn begin() -> Self {
        WORKERS.fetch_add(1, Ordering::AcqRel);
        Self(())
    }

    /// Waits until all is written, for a while: the program may end now.
    pub(crate) async fn end(self) {
        if !LOG.is_flushed(FLUSH_WITHIN).await {
            // Nor is what comes yet to wait for it.
            std::mem::forget(self);
        }
    }
}

impl Drop for WorkerRuns {
    fn drop(&mut self) {
        WORKERS.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Where the lines of our own subscriber go.
struct Lines;

impl Write for Lines {
    /// A whole line.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if WRITES.get() || WORKERS.load(Ordering::Acquire) == 0 {
            write(line);
        } else {
            LOG.add(Waiting::Line(line.to_vec()));
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Where standard error is gone there is nobody to tell.
fn write(line: &[u8]) {
    let line = escaped(&String::from_utf8_lossy(line), |c| !matches!(c, '\n' | '\t'));
    let _ = io::stderr().write_all(line.as_bytes());
}

/// What is to be written.
enum Waiting {
    Line(Vec<u8>),
    Event(Dispatch, Box<dyn FnOnce() + Send>),
}

impl Waiting {
    fn bytes(&self) -> usize {
        match self {
            Self::Line(line) => line.len(),
            Self::Event(..) => EVENT_BYTES,
        }
    }

    fn write(self) {
        match self {
            Self::Line(line) => write(&line),
            Self::Event(subscriber, event) => dispatcher::with_default(&subscriber, event),
        }
    }
}

struct Log {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    waiting: Vec<Waiting>,
    bytes: usize,
    /// How many there was no room for since the last were taken out.
    dropped: u64,
    /// Who is to be told when all of it is written.
    flushes: Vec<oneshot::Sender<()>>,
    has_thread: bool,
}

impl State {
    const fn new() -> Self {
        Self { waiting: Vec::new(), bytes: 0, dropped: 0, flushes: Vec::new(), has_thread: false }
    }

    fn add(&mut self, one: Waiting) {
        if self.bytes >= ROOM {
            self.dropped += 1;
        } else {
            self.bytes += one.bytes();
            self.waiting.push(one);
        }
    }
}

impl Log {
    fn add(&'static self, one: Waiting) {
        let mut state = self.state();
        state.add(one);
        if !state.has_thread {
            // Without one it is tried again with the next line.
            let thread = std::thread::Builder::new().name("hworker-log".into());
            state.has_thread = thread.spawn(|| self.keep_writing()).is_ok();
        }
        drop(state);
        self.changed.notify_one();
    }

    async fn is_flushed(&self, within: Duration) -> bool {
        let (flush, flushed) = oneshot::channel();
        {
            let mut state = self.state();
            if !state.has_thread {
                return true;
            }
            state.flushes.push(flush);
        }
        self.changed.notify_one();
        timeout(within, flushed).await.is_ok()
    }

    fn keep_writing(&self) {
        WRITES.set(true);
        loop {
            let mut state = self.state();
            while state.waiting.is_empty() && state.flushes.is_empty() {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            let (waiting, flushes) = (take(&mut state.waiting), take(&mut state.flushes));
            let dropped = take(&mut state.dropped);
            state.bytes = 0;
            drop(state);
            for one in waiting {
                // A subscriber that panics has said so.
                let _ = catch_unwind(AssertUnwindSafe(|| one.write()));
            }
            if dropped > 0 {
                let _ = catch_unwind(|| say_dropped(dropped));
            }
            for flush in flushes {
                // Who has waited for too long is gone.
                let _ = flush.send(());
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn say_dropped(lines: u64) {
    tracing::warn!(lines, "log lines were dropped: they came faster than they were read");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_and_targets_are_understood_and_typing_errors_are_not() {
        for wanted in ["debug", "Info", "off", "hworker=debug", "hworker=debug,app=info"] {
            assert!(filter(wanted).is_some(), "{wanted}");
        }
        for wanted in ["", "verbose", "wran", "hworker=loud"] {
            assert!(filter(wanted).is_none(), "{wanted}");
        }
    }

    #[test]
    fn the_span_around_a_body_is_there_where_it_is_asked_for() {
        let has = |wanted| {
            let filter =
                filter(wanted).unwrap_or_else(|| Targets::new().with_default(LevelFilter::INFO));
            [false, true].map(|is_json| {
                with_spans(filter.clone(), wanted, is_json).would_enable(JOB_SPAN, &Level::INFO)
            })
        };
        for wanted in ["debug", "info,hworker=debug", "warn,hworker::job=info"] {
            assert_eq!(has(wanted), [true, true], "{wanted}");
        }
        for wanted in ["", "info", "warn", "info,app=debug", "debug,hworker=info"] {
            assert_eq!(has(wanted), [false, true], "{wanted}");
        }
        for wanted in ["off", "info,hworker::job=off"] {
            assert_eq!(has(wanted), [false, false], "{wanted}");
        }
    }

    #[test]
    fn what_comes_beyond_the_room_is_counted() {
        let mut state = State::new();
        let lines = ROOM / 1000 + 1;
        (0..lines + 7).for_each(|_| state.add(Waiting::Line(vec![b'x'; 1000])));
        assert_eq!((state.waiting.len(), state.dropped), (lines, 7));
    }
}
