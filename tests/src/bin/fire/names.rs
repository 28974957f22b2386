//! What the keys of a queue and the payloads in them say: `docs/wire-format.md` describes both.

use crate::beats;
use crate::jobs::QUEUES;

/// The number of the queue on which a cron entry beats: of that the ledger knows the workers alone.
pub(crate) const BEATS: u8 = QUEUES.len() as u8;

/// The number of what stands where a job was deleted.
pub(crate) const HUSK: u32 = u32::MAX;

/// The number of what has an idle worker look at the lists beside the plain one.
pub(crate) const TICKET: u32 = u32::MAX - 1;

/// The number of what moves as a job does: a husk has one too, and a ticket.
pub(crate) fn number_of(payload: &[u8]) -> Option<u32> {
    match payload {
        b"-" => Some(HUSK),
        // With how many workers looked in vain.
        [b'!'] | [b'!', _] => Some(TICKET),
        payload => number_in(payload),
    }
}

/// The list that a lease, or what stands among the scheduled jobs, names; none is the plain one.
pub(crate) fn list_in(name: &[u8]) -> Option<&str> {
    let name = str::from_utf8(name).ok()?;
    let scheduled = name.strip_prefix(':').and_then(|rest| rest.split_once('\n'));
    let lease = || Some(name.split_once('.')?.1).filter(|_| !name.starts_with('{'));
    let scheduled =
        scheduled.map(|(list, _)| list.trim_start_matches(|digit: char| digit.is_ascii_digit()));
    // Of a job that is known by its id.
    scheduled.or_else(lease).map(|list| list.split('#').next().unwrap_or(list))
}

/// The number of the job that a payload is about; all payloads of the suite have one.
pub(crate) fn number_in(payload: &[u8]) -> Option<u32> {
    const FIELD: &[u8] = b"\"n\":";
    let at = payload.windows(FIELD.len()).position(|window| window == FIELD)? + FIELD.len();
    let digits = payload[at..].iter().take_while(|byte| byte.is_ascii_digit());
    let mut digits = digits.map(|digit| u32::from(digit - b'0')).peekable();
    digits.peek()?;
    digits.try_fold(0_u32, |number, digit| number.checked_mul(10)?.checked_add(digit))
}

/// A key of a queue: what kind, of which queue, and what belongs to a part of it.
pub(crate) struct Key {
    pub(crate) kind: Kind,
    pub(crate) queue: u8,
    pub(crate) part: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Jobs,
    /// How jobs stand that are known by their ids.
    Ids,
    /// What is in force on it.
    Control,
    Inbox,
    Progress,
    Scheduled,
    Parked,
    Record,
    Broken,
    Workers,
    Worker,
    Stat,
}

impl Key {
    pub(crate) fn of(name: &[u8]) -> Option<Self> {
        let name = str::from_utf8(name).ok()?.strip_prefix("hworker-")?;
        let (kind, rest) = name.split_once('-')?;
        let kind = match kind {
            "jobs" => Kind::Jobs,
            "inbox" => Kind::Inbox,
            "progress" => Kind::Progress,
            "scheduled" => Kind::Scheduled,
            "parked" => Kind::Parked,
            "record" => Kind::Record,
            "broken" => Kind::Broken,
            "workers" => Kind::Workers,
            "worker" => Kind::Worker,
            "stat" => Kind::Stat,
            _ => return None,
        };
        let (queue, part) = rest.split_once(':').unwrap_or((rest, ""));
        let kind = match part {
            "lists" | "gate" | "held" | "timers" | "rates" | "overrides" | "unique" | "tables"
                if kind == Kind::Jobs =>
            {
                return None;
            }
            "ids" if kind == Kind::Jobs => Kind::Ids,
            part if kind == Kind::Jobs && part.starts_with("keys:") => return None,
            "control" if kind == Kind::Jobs => Kind::Control,
            _ => kind,
        };
        let queue = match QUEUES.iter().position(|name| *name == queue) {
            Some(queue) => queue as u8,
            // A worker that is dead there ends itself everywhere.
            None if queue == beats::QUEUE && matches!(kind, Kind::Workers | Kind::Worker) => BEATS,
            None => return None,
        };
        Some(Self { kind, queue, part: part.to_owned() })
    }
}
