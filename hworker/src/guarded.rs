//! Calls of what may be the user's, where nothing else catches its panics.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Calls it, and goes on where it panics; the panic hook has told of it. Gives whether it came to its end.
pub(crate) fn guarded(call: impl FnOnce()) -> bool {
    let result = catch_unwind(AssertUnwindSafe(call));
    // What it panicked with may panic when it is dropped; a leak is the end of it.
    result.map_err(std::mem::forget).is_ok()
}
