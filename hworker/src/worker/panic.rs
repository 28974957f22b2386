//! Panics of bodies: caught, with their message, place and backtrace.
//!
//! The place and the backtrace are only known to the panic hook, so one is installed once; it notes them for the
//! thread that is running a body, then calls the hook that was there before.

use std::any::Any;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

/// A panic that was caught.
#[derive(Debug)]
pub(super) struct Panic {
    pub(super) message: String,
    pub(super) place: Option<String>,
    pub(super) backtrace: Option<String>,
}

thread_local! {
    static IN_BODY: Cell<bool> = const { Cell::new(false) };
    static NOTED: RefCell<Option<(Option<String>, Option<String>)>> = const { RefCell::new(None) };
}

/// Installs the hook, once in a process.
pub(super) fn install_hook() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let previous = take_hook();
        set_hook(Box::new(move |info| {
            if IN_BODY.get() {
                let place = info.location().map(ToString::to_string);
                let backtrace = Backtrace::capture();
                let captured = backtrace.status() == BacktraceStatus::Captured;
                let noted = (place, captured.then(|| backtrace.to_string()));
                // A panic while unwinding aborts; nothing to note then.
                let _ = NOTED
                    .try_with(|slot| slot.try_borrow_mut().map(|mut slot| *slot = Some(noted)));
            }
            previous(info);
        }));
    });
}

/// Runs a piece of a body; a panic in it is an error.
pub(super) fn catch<R>(piece: impl FnOnce() -> R) -> Result<R, Panic> {
    let outer = IN_BODY.replace(true);
    let result = catch_unwind(AssertUnwindSafe(piece));
    IN_BODY.set(outer);
    result.map_err(|payload| {
        let (place, backtrace) = NOTED.take().unwrap_or_default();
        Panic { message: message(payload), place, backtrace }
    })
}

/// The text of a panic; a payload of another type that panics in its own drop is let go.
fn message(payload: Box<dyn Any + Send>) -> String {
    let text = if let Some(text) = payload.downcast_ref::<&str>() {
        (*text).to_owned()
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text.clone()
    } else {
        "a panic with a payload that is not a text".to_owned()
    };
    if catch_unwind(AssertUnwindSafe(|| drop(payload))).is_err() {
        tracing::debug!("the payload of a panic panicked when it was dropped");
    }
    text
}
