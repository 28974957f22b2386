//! Catches panics of bodies, with their message, place and backtrace.
//!
//! Only the panic hook knows the place and the backtrace. So one hook is installed once. It notes both for a thread that runs a body, then
//! calls the previous hook.

use std::any::Any;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind, set_hook, take_hook};
use std::pin::Pin;
use std::sync::Once;
use std::task::{Context, Poll, ready};

use crate::log::{one_line, say};

/// A panic that was caught.
#[derive(Debug, Clone)]
pub(crate) struct Panic {
    pub(crate) message: String,
    pub(crate) place: Option<String>,
    pub(crate) backtrace: Option<String>,
}

impl Panic {
    /// Goes on with it, for the next that catches it here.
    pub(crate) fn resume(self) -> ! {
        NOTED.set(Some((self.place, self.backtrace)));
        resume_unwind(Box::new(self.message))
    }
}

thread_local! {
    static IN_BODY: Cell<bool> = const { Cell::new(false) };
    static NOTED: RefCell<Option<(Option<String>, Option<String>)>> = const { RefCell::new(None) };
}

/// Installs the hook, once per process.
pub(crate) fn install_hook() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let previous = take_hook();
        set_hook(Box::new(move |info| {
            if IN_BODY.get() {
                let place = info.location().map(ToString::to_string);
                let backtrace = Backtrace::capture();
                let captured = backtrace.status() == BacktraceStatus::Captured;
                let noted = (place, captured.then(|| own_frames(&backtrace.to_string())));
                // A panic during unwinding aborts the process; then there is nothing to note.
                let _ = NOTED
                    .try_with(|slot| slot.try_borrow_mut().map(|mut slot| *slot = Some(noted)));
            }
            previous(info);
        }));
    });
}

/// Runs a piece of a body; a panic in it becomes an error.
pub(crate) fn catch<R>(piece: impl FnOnce() -> R) -> Result<R, Panic> {
    let outer = IN_BODY.replace(true);
    let result = catch_unwind(AssertUnwindSafe(piece));
    IN_BODY.set(outer);
    result.map_err(|payload| {
        let (place, backtrace) = NOTED.take().unwrap_or_default();
        Panic { message: message(payload), place, backtrace }
    })
}

/// A body, or another value of the user. Its panics stay inside, while it runs and when it is dropped.
#[derive(Debug)]
pub(crate) struct Caught<T>(Option<T>);

impl<T> Caught<T> {
    pub(crate) fn new(inner: T) -> Self {
        Self(Some(inner))
    }

    /// `None` if it was taken out before.
    pub(crate) fn take(&mut self) -> Option<T> {
        self.0.take()
    }
}

impl<F: Future + Unpin> Future for Caught<F> {
    type Output = Result<F::Output, Panic>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(body) = &mut self.0 else { return Poll::Pending };
        match catch(|| Pin::new(body).poll(cx)) {
            Ok(poll) => Poll::Ready(Ok(ready!(poll))),
            Err(panic) => Poll::Ready(Err(panic)),
        }
    }
}

impl<T> Drop for Caught<T> {
    fn drop(&mut self) {
        let inner = self.0.take();
        if let Err(panic) = catch(|| drop(inner)) {
            say!(
                WARN,
                "a value of a job panicked while it was dropped: {}",
                one_line(&panic.message)
            );
        }
    }
}

/// The text of a panic. If its payload panics when it is dropped, the new payload is leaked.
fn message(payload: Box<dyn Any + Send>) -> String {
    let text = if let Some(text) = payload.downcast_ref::<&str>() {
        (*text).to_owned()
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text.clone()
    } else {
        "a panic with a payload that is not a text".to_owned()
    };
    if let Err(another) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        // It may panic again when it is dropped; a leak ends that.
        std::mem::forget(another);
    }
    text
}

/// The frames of the body: those between the panic machinery above and the function below that caught the panic.
fn own_frames(backtrace: &str) -> String {
    const ABOVE: [&str; 3] = ["rust_begin_unwind", "core::panicking::", "begin_panic"];
    // With line tables alone, names come without their modules.
    const BELOW: [&str; 2] = ["catch_unwind", "do_call<core::panic::unwind_safe::AssertUnwindSafe"];
    let is_frame = |line: &str| {
        let number = line.trim_start().split(':').next().unwrap_or_default();
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    };
    let mut frames: Vec<Vec<&str>> = Vec::new();
    for line in backtrace.lines() {
        match frames.last_mut() {
            Some(frame) if !is_frame(line) => frame.push(line),
            _ => frames.push(vec![line]),
        }
    }
    let is_one_of =
        |frame: &[&str], names: &[&str]| names.iter().any(|name| frame[0].contains(name));
    let to = frames.iter().position(|frame| is_one_of(frame, &BELOW)).unwrap_or(frames.len());
    let last = frames[..to].iter().rposition(|frame| is_one_of(frame, &ABOVE));
    let from = last.map_or(0, |last| last + 1);
    frames[from..to].iter().flatten().copied().collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::own_frames;

    #[test]
    fn only_the_frames_of_the_body_are_kept() {
        let backtrace = "   0: hworker::worker::panic::install_hook::{{closure}}\n             at panic.rs:1\n   \
                         1: std::panicking::panic_with_hook\n   2: __rustc::rust_begin_unwind\n   \
                         3: core::panicking::panic_fmt\n   4: app::charge\n             at app.rs:7\n   5: app::pay\n   \
                         6: std::panicking::catch_unwind\n   7: hworker::worker::panic::catch\n   8: std::panicking::catch_unwind";
        assert_eq!(
            own_frames(backtrace),
            "   4: app::charge\n             at app.rs:7\n   5: app::pay"
        );
        assert_eq!(own_frames(""), "");
        assert_eq!(own_frames("   0: app::main"), "   0: app::main");
    }
}
