//! The scripts as they are called; their texts are in `lua`, where each operation has a file of its own, `lib` what they include.
//!
//! What every Lua file keeps to, and `hworker/tests/lua.rs` checks:
//!
//! - Its first line is `-- <name>: ` and a purpose. Then it lists each key, `-- KEYS[<n>] <name>  <type>  <meaning>`, and each argument,
//!   `-- ARGV[<n>] <name>  <meaning>`, and what it `Returns`. The type is `STRING`, `LIST`, `HASH`, `ZSET`, `STREAM` or `PREFIX`; `KEYS[<n>..<m>]` are
//!   those of a script that it includes. A `LIST+` is a list, and a prefix too.
//! - **A key is declared, or built from a declared prefix.** `-- KEYS[3] line  PREFIX  hworker-line-<q>:, then a gate: a LIST of ids` lets the
//!   script write `line .. gate`, or `KEYS[3] .. gate`, and do nothing else with it. From no other key, and not from words of its own, is a key
//!   built. So as many keys as there are limited keys have their names in one script, and a server still knows of each script which slot
//!   it belongs to: the caller passes a prefix with the whole hash tag (`hworker-line-{<q>}:`), whatever follows then is in that slot.
//! - An envelope is opaque: no `cjson`, no `cmsgpack`. Only a look or a figure may fail without a word (`redis.pcall`).
//! - A part, in `lua/lib`, has no `KEYS` and no `ARGV`: its head says which locals it `Needs` and `Makes`. It never ends a script.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};

use super::lua::{SCRIPTS, Script};

static HASHES: LazyLock<Vec<String>> = LazyLock::new(|| {
    let hash = |(_, text): &(&str, &str)| redis::Script::new(text).get_hash().to_owned();
    SCRIPTS.iter().map(hash).collect()
});

impl Script {
    pub(crate) fn name(self) -> &'static str {
        SCRIPTS[self as usize].0
    }

    pub(crate) fn hash(self) -> &'static str {
        &HASHES[self as usize]
    }

    pub(crate) fn text(self) -> &'static str {
        SCRIPTS[self as usize].1
    }
}

/// Which scripts a server was sent by their text.
#[derive(Debug)]
pub(crate) struct Sent([AtomicBool; SCRIPTS.len()]);

impl Default for Sent {
    fn default() -> Self {
        Self([const { AtomicBool::new(false) }; SCRIPTS.len()])
    }
}

impl Sent {
    /// Whether this one was not sent before. It counts as sent from now on.
    pub(crate) fn is_first(&self, script: Script) -> bool {
        let sent = &self.0[script as usize];
        // Read alone first: that is all that any but the first call needs.
        !sent.load(Ordering::Relaxed) && !sent.swap(true, Ordering::Relaxed)
    }
}
