//! Calls of what may be the user's, where nothing else catches its panics.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Calls it, and goes on where it panics; the panic hook has told of it.
pub(crate) fn guarded(call: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(call)) {
        // It may panic when it is dropped; a leak is the end of it.
        std::mem::forget(payload);
    }
}
