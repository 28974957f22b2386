//! The scripts as they are called; their texts are in `lua`.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};

use super::lua::SCRIPTS;

/// A script and its hash.
#[derive(Debug)]
pub(crate) struct Script {
    inner: LazyLock<redis::Script>,
    number: Number,
}

macro_rules! scripts {
    ($($name:ident = $file:literal;)*) => {
        $(pub(crate) static $name: Script = Script {
            inner: LazyLock::new(|| redis::Script::new($name.text())),
            number: Number::$name,
        };)*

        /// The place of each in `SCRIPTS`.
        #[derive(Debug, Clone, Copy)]
        #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
        enum Number {
            $($name,)*
        }
    };
}

every_script!(scripts);

impl Script {
    pub(crate) fn hash(&self) -> &str {
        self.inner.get_hash()
    }

    pub(crate) fn text(&self) -> &'static str {
        SCRIPTS[self.number as usize].1
    }
}

/// Which scripts a server was sent by their text.
#[derive(Debug)]
pub(super) struct Sent([AtomicBool; SCRIPTS.len()]);

impl Default for Sent {
    fn default() -> Self {
        Self([const { AtomicBool::new(false) }; SCRIPTS.len()])
    }
}

impl Sent {
    /// Whether this one was not sent before. It counts as sent from now on.
    pub(super) fn is_first(&self, script: &Script) -> bool {
        let sent = &self.0[script.number as usize];
        // Read alone first: that is all that any but the first call needs.
        !sent.load(Ordering::Relaxed) && !sent.swap(true, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod lint;
