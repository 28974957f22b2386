//! The texts of the scripts. The tests compile this file too, so it uses nothing of the crate.
//!
//! A line `-- include <name>` in a Lua file is replaced by the text of that part when the crate is compiled: the text stands where the line
//! was, so a part costs a script no function, no call, and nothing before the line is reached. A part has no `KEYS` and no `ARGV`; its
//! first lines say which locals it needs and which it makes.

/// Gives all scripts to a macro, each with the name of its file.
macro_rules! every_script {
    ($to:ident) => {
        $to! {
            BREAK_PARKED = "break_parked";
            BURY = "bury";
            HEARTBEAT = "heartbeat";
            LOOK_PARKED = "look_parked";
            PROMOTE = "promote";
            RECONCILE = "reconcile";
            RECOVER = "recover";
            RELEASE = "release";
            REQUEUE_BROKEN = "requeue_broken";
            RESERVE = "reserve";
            RETIRE = "retire";
            REVOKE = "revoke";
            SCHEDULE = "schedule";
            SETTLE = "settle";
            SETTLE_AND_RESERVE = "settle_and_reserve";
            TAKE_PARKED = "take_parked";
        }
    };
}

macro_rules! texts {
    ($($name:ident = $file:literal;)*) => {
        /// Each script: the name of its file, and its text with all parts.
        pub(crate) const SCRIPTS: &[(&str, &str)] = &[$(($file, {
            const SOURCE: &[u8] = include_str!(concat!($file, ".lua")).as_bytes();
            const LENGTH: usize = put(SOURCE, &mut [], 0);
            const TEXT: [u8; LENGTH] = {
                let mut text = [0; LENGTH];
                put(SOURCE, &mut text, 0);
                text
            };
            match std::str::from_utf8(&TEXT) {
                Ok(text) => text,
                Err(_) => panic!("no UTF-8"),
            }
        })),*];
    };
}

every_script!(texts);

/// What scripts include.
const PARTS: &[(&str, &str)] = &[
    ("clock", include_str!("lib/clock.lua")),
    ("count", include_str!("lib/count.lua")),
    ("quarantine", include_str!("lib/quarantine.lua")),
    ("token", include_str!("lib/token.lua")),
    ("wake", include_str!("lib/wake.lua")),
    ("reserve", include_str!("reserve.lua")),
    ("settle", include_str!("settle.lua")),
];

const INCLUDE: &[u8] = b"-- include ";

/// Puts a text with its parts into `to`, from `at` on, as far as there is room. Gives where it ends.
const fn put(text: &[u8], to: &mut [u8], mut at: usize) -> usize {
    let mut rest = text;
    while !rest.is_empty() {
        let (line, after) = rest.split_at(first_line(rest));
        rest = after;
        if let Some(part) = included(line) {
            at = put(part.as_bytes(), to, at);
            continue;
        }
        let mut i = 0;
        while i < line.len() {
            if at < to.len() {
                to[at] = line[i];
            }
            at += 1;
            i += 1;
        }
    }
    at
}

/// The length of the first line, with its end.
const fn first_line(text: &[u8]) -> usize {
    let mut i = 0;
    while i < text.len() {
        i += 1;
        if text[i - 1] == b'\n' {
            break;
        }
    }
    i
}

/// The part that this line stands for.
const fn included(line: &[u8]) -> Option<&'static str> {
    let line = line.trim_ascii();
    if line.len() < INCLUDE.len() {
        return None;
    }
    let (sign, name) = line.split_at(INCLUDE.len());
    if !is_same(sign, INCLUDE) {
        return None;
    }
    let mut i = 0;
    while i < PARTS.len() {
        if is_same(PARTS[i].0.as_bytes(), name) {
            return Some(PARTS[i].1);
        }
        i += 1;
    }
    panic!("a script includes what is no part")
}

const fn is_same(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    let mut i = 0;
    while i < one.len() {
        if one[i] != other[i] {
            return false;
        }
        i += 1;
    }
    true
}
