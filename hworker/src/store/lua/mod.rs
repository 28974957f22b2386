//! The scripts and their texts. The tests compile this file too, so it uses nothing of the crate.
//!
//! A line `-- include <name>` in a Lua file is replaced by the text of that part: the text stands where the line
//! was, so a part costs a script no function, no call, and nothing before the line is reached. A part has no `KEYS` and no `ARGV`; its
//! first lines say which locals it needs and which it makes.

use std::sync::LazyLock;

macro_rules! scripts {
    ($($name:ident = $file:literal;)*) => {
        /// A script; as a number its place in [`SCRIPTS`].
        #[derive(Debug, Clone, Copy)]
        pub(crate) enum Script {
            $($name,)*
        }

        /// Each script: the name of its file, and its text with all parts.
        pub(crate) static SCRIPTS: LazyLock<Vec<(&str, &str)>> = LazyLock::new(|| {
            vec![$(($file, &*with_parts(include_str!(concat!($file, ".lua"))).leak()),)*]
        });
    };
}

scripts! {
    BreakParked = "break_parked";
    Bury = "bury";
    Heartbeat = "heartbeat";
    LookParked = "look_parked";
    Promote = "promote";
    Reconcile = "reconcile";
    Recover = "recover";
    Release = "release";
    RequeueBroken = "requeue_broken";
    Reserve = "reserve";
    Retire = "retire";
    Revoke = "revoke";
    Schedule = "schedule";
    Settle = "settle";
    SettleAndReserve = "settle_and_reserve";
    TakeParked = "take_parked";
}

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

fn with_parts(text: &str) -> String {
    let lines = text.split_inclusive('\n');
    let texts = lines.map(|line| match line.trim().strip_prefix("-- include ") {
        None => line.to_owned(),
        Some(name) => {
            let part = PARTS.iter().find(|(part, _)| *part == name);
            with_parts(part.expect("a script includes a part").1)
        }
    });
    texts.collect()
}
