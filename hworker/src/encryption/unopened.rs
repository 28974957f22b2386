//! Why encrypted arguments cannot be read.

use crate::envelope::bounded;

/// Why arguments cannot be opened.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unopened {
    /// Another worker may have what is missing here.
    Lacking(String),
    /// They will never open.
    Refused(String),
}

/// A text of an envelope, which anybody may have written.
pub(super) fn shown(name: &str) -> String {
    bounded(name, 100).escape_debug().to_string()
}
