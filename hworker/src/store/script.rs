//! The Lua files, one for each operation that moves a job, and one script of two of them.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// A script and its hash.
#[derive(Debug)]
pub(crate) struct Script {
    inner: LazyLock<redis::Script>,
    text: &'static str,
    number: Number,
}

macro_rules! scripts {
    ($($name:ident = $file:literal;)*) => {
        $(pub(crate) static $name: Script = Script {
            inner: LazyLock::new(|| redis::Script::new(include_str!($file))),
            text: include_str!($file),
            number: Number::$name,
        };)*

        #[derive(Debug, Clone, Copy)]
        #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
        enum Number {
            $($name,)*
            SETTLE_AND_RESERVE,
        }

        #[cfg(test)]
        const FILES: &[(&str, &str)] = &[$(($file, include_str!($file))),*];
    };
}

scripts! {
    BREAK_PARKED = "break_parked.lua";
    BURY = "bury.lua";
    HEARTBEAT = "heartbeat.lua";
    LOOK_PARKED = "look_parked.lua";
    PROMOTE = "promote.lua";
    RECONCILE = "reconcile.lua";
    RECOVER = "recover.lua";
    RELEASE = "release.lua";
    REQUEUE_BROKEN = "requeue_broken.lua";
    RESERVE = "reserve.lua";
    RETIRE = "retire.lua";
    REVOKE = "revoke.lua";
    SCHEDULE = "schedule.lua";
    SETTLE = "settle.lua";
    TAKE_PARKED = "take_parked.lua";
}

const SETTLE_AND_RESERVE_TEXT: &str = include!("settle_and_reserve.rs");

/// Both in one call.
pub(crate) static SETTLE_AND_RESERVE: Script = Script {
    inner: LazyLock::new(|| redis::Script::new(SETTLE_AND_RESERVE_TEXT)),
    text: SETTLE_AND_RESERVE_TEXT,
    number: Number::SETTLE_AND_RESERVE,
};

impl Script {
    pub(crate) fn hash(&self) -> &str {
        self.inner.get_hash()
    }

    pub(crate) fn text(&self) -> &'static str {
        self.text
    }
}

/// The scripts that a server was sent by their text. There are fewer than 32.
#[derive(Debug, Default)]
pub(super) struct Sent(AtomicU32);

impl Sent {
    /// Whether this one was not sent before. It counts as sent from now on.
    pub(super) fn is_first(&self, script: &Script) -> bool {
        let bit = 1 << script.number as u32;
        // Read alone first: that is all that any but the first call needs.
        self.0.load(Ordering::Relaxed) & bit == 0
            && self.0.fetch_or(bit, Ordering::Relaxed) & bit == 0
    }
}

#[cfg(test)]
mod tests {
    use super::FILES;

    fn documented(text: &str, what: &str) -> Vec<usize> {
        let numbers = text.lines().filter_map(|line| {
            let rest = line.strip_prefix("-- ")?.strip_prefix(what)?.strip_prefix('[')?;
            rest.split(']').next()?.parse().ok()
        });
        numbers.collect()
    }

    #[test]
    fn every_script_documents_what_it_uses() {
        for (file, text) in FILES {
            let name = file.trim_end_matches(".lua");
            assert!(text.starts_with(&format!("-- {name}: ")), "{file}: first line");
            assert!(text.contains("\n-- Returns "), "{file}: says what it returns");
            let code: String =
                text.lines().filter(|line| !line.starts_with("--")).collect::<Vec<_>>().join("\n");
            for what in ["KEYS", "ARGV"] {
                let said = documented(text, what);
                assert_eq!(said, (1..=said.len()).collect::<Vec<_>>(), "{file}: {what} in order");
                if what == "KEYS" {
                    for number in 1..=said.len() {
                        assert!(
                            code.contains(&format!("KEYS[{number}]")),
                            "{file}: KEYS[{number}] is used"
                        );
                    }
                }
            }
            // Only a look and a figure may fail without a word.
            let caught = ["'HINCRBY'", "'HLEN'", "'ZCARD'", "'ZCOUNT'", "'ZRANGE'"]
                .map(|what| format!("redis.pcall({what}"));
            let code = caught.iter().fold(code, |code, caught| code.replace(caught, ""));
            for word in ["cjson", "cmsgpack", "#!lua", "redis.pcall"] {
                assert!(!code.contains(word), "{file}: no {word}");
            }
            assert!(!code.contains("] .."), "{file}: builds no key");
        }
    }
}
