//! What can be done by the page's forms: what each is called there, in the audit, and to whoever reads.

/// When the page asks before it does something.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Asks {
    Never,
    /// Where it is done to several jobs.
    Several,
    Always,
}

/// Something that can be done.
pub(super) struct Deed {
    /// The value of the field `action`.
    pub(super) name: &'static str,
    /// As the audit and the rules of access call it.
    pub(super) verb: &'static str,
    /// On a button.
    pub(super) label: &'static str,
    pub(super) icon: &'static str,
    pub(super) asks: Asks,
    /// It cannot be undone.
    pub(super) is_final: bool,
    /// What came of it, in a word: `3 retried`.
    pub(super) done: &'static str,
}

const fn deed(
    [name, verb, label, icon, done]: [&'static str; 5],
    asks: Asks,
    is_final: bool,
) -> Deed {
    Deed { name, verb, label, icon, asks, is_final, done }
}

use Asks::{Always, Never, Several};

pub(super) const DEEDS: &[Deed] = &[
    // Jobs.
    deed(["retry", "retry", "Retry", "retry", "retried"], Several, false),
    deed(["reset", "retry", "Retry from attempt 1", "retry", "retried"], Several, false),
    deed(["promote", "promote", "Run next", "play", "put in front"], Several, false),
    deed(["cancel", "cancel", "Cancel", "cancelled", "cancelled"], Always, true),
    deed(["delete", "delete", "Delete", "trash", "deleted"], Always, true),
    deed(["move", "move", "Move", "move", "moved"], Always, false),
    deed(["reschedule", "reschedule", "Change the time", "expired", "rescheduled"], Always, false),
    deed(
        ["priority", "set priority", "Change the priority", "bars", "given a priority"],
        Always,
        false,
    ),
    deed(["edit", "edit", "Edit", "edit", "changed"], Always, false),
    deed(["enqueue", "enqueue", "Enqueue", "plus", "enqueued"], Never, false),
    deed(["broadcast-cancel", "cancel", "Cancel", "cancelled", "cancelled"], Always, true),
    // Broken payloads.
    deed(["broken-requeue", "retry", "Put back", "retry", "put back"], Never, false),
    deed(["broken-delete", "delete", "Delete", "trash", "deleted"], Always, true),
    // Queues.
    deed(["pause", "pause", "Pause", "bars", "paused"], Always, false),
    deed(["resume", "resume", "Resume", "play", "resumed"], Never, false),
    deed(["clear", "clear", "Clear", "trash", "deleted"], Always, true),
    deed(["destroy", "destroy", "Destroy", "close", "destroyed"], Always, true),
    // Workers.
    deed(["quiet", "quiet", "Quiet", "bars", "told to take no more jobs"], Never, false),
    deed(["wake", "resume", "Resume", "play", "told to take jobs again"], Never, false),
    deed(["stop", "stop", "Stop", "close", "told to stop"], Always, true),
    // Cron entries.
    deed(["cron-run", "run", "Run now", "play", "enqueued"], Never, false),
    deed(["cron-pause", "pause", "Pause", "bars", "paused"], Never, false),
    deed(["cron-resume", "resume", "Resume", "play", "resumed"], Never, false),
    deed(["cron-remove", "delete", "Remove", "trash", "removed"], Always, true),
    // Limits and keys.
    deed(["limit-set", "set limit", "Change", "edit", "set"], Always, false),
    deed(["limit-unset", "unset limit", "Take back", "retry", "taken back"], Always, false),
    deed(["limit-pause", "pause", "Pause", "bars", "paused"], Never, false),
    deed(["limit-resume", "resume", "Resume", "play", "resumed"], Never, false),
    deed(["unlock", "free", "Free", "close", "freed"], Always, true),
];

impl Deed {
    /// The deed of this name.
    pub(super) fn named(name: &str) -> Option<&'static Self> {
        DEEDS.iter().find(|deed| deed.name == name)
    }

    /// Whether the page asks before it does this to so many jobs.
    pub(super) fn asks_for(&self, jobs: usize) -> bool {
        match self.asks {
            Never => false,
            Several => jobs > 1,
            Always => true,
        }
    }
}
