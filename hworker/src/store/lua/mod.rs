//! The scripts and their texts. The tests compile this file too, so it uses nothing of the crate.
//!
//! A line `-- include <name>` in a Lua file is replaced by the text of that part when the crate is compiled: the text stands where the line
//! was, so a part costs a script no function, no call, and nothing before the line is reached. A part has no `KEYS` and no `ARGV`; its
//! first lines say which locals it needs and which it makes.

macro_rules! scripts {
    ($($name:ident = $file:literal;)*) => {
        /// A script; as a number its place in [`SCRIPTS`].
        #[derive(Debug, Clone, Copy)]
        pub(crate) enum Script {
            $($name,)*
        }

        /// Each script: the name of its file, and its text with all parts.
        pub(crate) const SCRIPTS: &[(&str, &str)] = &[$(($file, {
            const SOURCE: &[u8] = include_str!(concat!($file, ".lua")).as_bytes();
            const TEXT: [u8; put(SOURCE, &mut [], 0)] = {
                let mut text = [0; put(SOURCE, &mut [], 0)];
                put(SOURCE, &mut text, 0);
                text
            };
            match std::str::from_utf8(&TEXT) {
                Ok(text) => text,
                Err(_) => panic!("no UTF-8"),
            }
        }),)*];
    };
}

scripts! {
    AddBatch = "add_batch";
    AddedBatch = "added_batch";
    ApplyBatch = "apply_batch";
    Audit = "audit";
    BreakParked = "break_parked";
    Broadcast = "broadcast";
    Bury = "bury";
    Cancel = "cancel";
    CancelBroadcast = "cancel_broadcast";
    Chart = "chart";
    Commit = "commit";
    CreateBatch = "create_batch";
    Cron = "cron";
    Declare = "declare";
    DidBatch = "did_batch";
    Edit = "edit";
    FindBroadcasts = "find_broadcasts";
    Fire = "fire";
    Heartbeat = "heartbeat";
    Limit = "limit";
    Lock = "lock";
    LookBroadcasts = "look_broadcasts";
    LookParked = "look_parked";
    MendRecords = "mend_records";
    MindBatch = "mind_batch";
    Order = "order";
    OrderBatch = "order_batch";
    Orphans = "orphans";
    Pause = "pause";
    Promote = "promote";
    Push = "push";
    PushOnce = "push_once";
    ReadHash = "read_hash";
    ReadList = "read_list";
    ReadSet = "read_set";
    Reconcile = "reconcile";
    Recount = "recount";
    RecountBatch = "recount_batch";
    Recover = "recover";
    Release = "release";
    Relist = "relist";
    Remember = "remember";
    RequeueBroken = "requeue_broken";
    Reserve = "reserve";
    Resume = "resume";
    Retire = "retire";
    Revoke = "revoke";
    Room = "room";
    Schedule = "schedule";
    SetAside = "set_aside";
    Settle = "settle";
    SettleAndReserve = "settle_and_reserve";
    Stage = "stage";
    StopBatch = "stop_batch";
    Submit = "submit";
    TakeBroadcast = "take_broadcast";
    TakeParked = "take_parked";
    Trim = "trim";
    Unlock = "unlock";
}

/// What scripts include.
const PARTS: &[(&str, &str)] = &[
    ("batch", include_str!("lib/batch.lua")),
    ("broadcast", include_str!("lib/broadcast.lua")),
    ("cancel", include_str!("lib/cancel.lua")),
    ("clock", include_str!("lib/clock.lua")),
    ("count", include_str!("lib/count.lua")),
    ("cron", include_str!("lib/cron.lua")),
    ("due", include_str!("lib/due.lua")),
    ("duties", include_str!("lib/duties.lua")),
    ("finish", include_str!("lib/finish.lua")),
    ("full", include_str!("lib/full.lua")),
    ("gate", include_str!("lib/gate.lua")),
    ("ids", include_str!("lib/ids.lua")),
    ("keys", include_str!("lib/keys.lua")),
    ("lease", include_str!("lib/lease.lua")),
    ("left", include_str!("lib/left.lua")),
    ("levels", include_str!("lib/levels.lua")),
    ("limits", include_str!("lib/limits.lua")),
    ("lists", include_str!("lib/lists.lua")),
    ("mark", include_str!("lib/mark.lua")),
    ("open_broadcasts", include_str!("lib/open_broadcasts.lua")),
    ("ordered", include_str!("lib/ordered.lua")),
    ("pause", include_str!("lib/pause.lua")),
    ("place", include_str!("lib/place.lua")),
    ("portion", include_str!("lib/portion.lua")),
    ("quarantine", include_str!("lib/quarantine.lua")),
    ("records", include_str!("lib/records.lua")),
    ("serve", include_str!("lib/serve.lua")),
    ("staged", include_str!("lib/staged.lua")),
    ("tables", include_str!("lib/tables.lua")),
    ("timers", include_str!("lib/timers.lua")),
    ("token", include_str!("lib/token.lua")),
    ("types", include_str!("lib/types.lua")),
    ("unique", include_str!("lib/unique.lua")),
    ("wake", include_str!("lib/wake.lua")),
    ("whole", include_str!("lib/whole.lua")),
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
    while i < text.len() && text[i] != b'\n' {
        i += 1;
    }
    if i < text.len() { i + 1 } else { i }
}

/// The part that this line stands for.
const fn included(line: &[u8]) -> Option<&'static str> {
    let line = line.trim_ascii();
    let Some((sign, name)) = line.split_at_checked(INCLUDE.len()) else { return None };
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
    let mut i = 0;
    while i < one.len() && i < other.len() && one[i] == other[i] {
        i += 1;
    }
    i == one.len() && i == other.len()
}
