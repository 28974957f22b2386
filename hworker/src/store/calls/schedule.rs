//! Jobs for later, and the timer that moves them to the queue when they are due.

use std::borrow::Cow;
use std::time::Duration;

use crate::limit::List;
use crate::store::net::{Call, Connection, Fault};
use crate::store::queue::Queue;
use crate::store::reply::Reply;
use crate::store::{CALL_WITHIN, SCRIPT_BYTES, SCRIPT_JOBS, Script};

/// When a scheduled job is due, in ms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    In(u64),
    At(u64),
}

impl Due {
    /// When that is by a clock that says this now.
    pub(crate) fn by_clock(self, now: u64) -> u64 {
        match self {
            Self::In(ms) => now.saturating_add(ms),
            Self::At(ms) => ms,
        }
    }
}

/// An entry that is due.
#[derive(Debug)]
pub(crate) struct DueEntry {
    pub(crate) name: String,
    pub(crate) text: String,
    /// When it was due, in ms.
    pub(crate) due: u64,
    /// How many runs it had.
    pub(crate) fired: u64,
}

impl DueEntry {
    /// As `promote` tells of it.
    fn read(reply: &mut Reply) -> Result<Self, Fault> {
        Ok(Self {
            name: reply.text()?,
            text: reply.text()?,
            due: reply.text()?.parse().unwrap_or(0),
            fired: reply.text()?.parse().unwrap_or(0),
        })
    }
}

/// What was moved, and what is due.
#[derive(Debug)]
pub(crate) struct Promoted {
    /// How many jobs.
    pub(crate) moved: u64,
    /// How long until the next is due, if there is one.
    pub(crate) next_due: Option<Duration>,
    /// The server's time in ms.
    pub(crate) now: u64,
    /// To be fired.
    pub(crate) entries: Vec<DueEntry>,
}

/// What stands for a job of this list among the scheduled ones: `:<list>`, a line feed and its envelope; of the plain one that alone. Before
/// the list may stand how many of its key run at once. Of one that is known by its id `:<list>#<id>` and a line feed.
pub(super) fn scheduled<'a>(
    list: &List,
    at_once: Option<u32>,
    envelope: &'a [u8],
) -> Cow<'a, [u8]> {
    if list.is_plain() {
        return Cow::Borrowed(envelope);
    }
    let at_once = at_once.map(|at_once| at_once.to_string()).unwrap_or_default();
    Cow::Owned([format!(":{at_once}{list}\n").as_bytes(), envelope].concat())
}

/// The list and the envelope of what stands there, or among the parked jobs, and how many of its key run at once.
pub(crate) fn of_scheduled(member: &[u8]) -> (List, Option<u32>, &[u8]) {
    let marked = member.strip_prefix(b":").and_then(|rest| {
        let end = rest.iter().take(1_000).position(|byte| *byte == b'\n')?;
        let name = std::str::from_utf8(&rest[..end]).ok()?;
        let list = name.trim_start_matches(|c: char| c.is_ascii_digit());
        let at_once = name[..name.len() - list.len()].parse().ok();
        let list = List::parse(list.split('#').next()?)?;
        (!list.is_plain()).then_some((list, at_once, &rest[end + 1..]))
    });
    marked.unwrap_or((List::default(), None, member))
}

impl Queue {
    /// Schedules envelopes, all or none: each with how many of its key run at once, where its arguments say so.
    pub(crate) async fn schedule(
        &self,
        to: &Connection,
        envelopes: &[(Due, Option<u32>, &[u8])],
        within: Duration,
    ) -> Result<(), Fault> {
        let mut call = Call::new(Script::Schedule, &[&self.keys.scheduled, &self.keys.bell]);
        for (due, at_once, envelope) in envelopes {
            match due {
                Due::In(ms) => call.arg("in").number(*ms),
                Due::At(ms) => call.arg("at").number(*ms),
            };
            call.arg(scheduled(&self.list, *at_once, envelope));
        }
        let within = to.free_to_write(within).await?;
        let (_, confirmed) = to.run_beside(&call, within, || to.confirm(1)).await?;
        confirmed
    }

    /// Moves up to 1000 due jobs to the queue. `left`: the names of cron entries that the caller does not fire; none where it fires no entry at
    /// all.
    pub(crate) async fn promote(
        &self,
        on: &Connection,
        left: Option<&[&str]>,
    ) -> Result<Promoted, Fault> {
        let keys = &self.keys;
        let keys = [&keys.scheduled, &keys.jobs, &keys.token, &keys.bell];
        let mut call = Call::new(Script::Promote, &keys.map(String::as_str));
        call.number(SCRIPT_JOBS as u64).number(SCRIPT_BYTES as u64);
        call.number(u64::from(left.is_some()));
        left.unwrap_or_default().iter().for_each(|name| _ = call.arg(*name));
        let mut reply = on.run(&call, CALL_WITHIN).await?;
        Ok(Promoted {
            moved: reply.count()?,
            next_due: u64::try_from(reply.number()?).ok().map(Duration::from_millis),
            now: reply.count()?,
            entries: reply.rest(DueEntry::read)?,
        })
    }

    /// Waits until the bell is rung, at most so long.
    pub(crate) async fn await_bell(&self, on: &Connection, at_most: Duration) -> Result<(), Fault> {
        let mut command = redis::cmd("BLPOP");
        // Zero would wait for ever.
        let seconds = at_most.as_secs_f64().max(0.001);
        command.arg(&self.keys.bell).arg(format!("{seconds:.3}"));
        on.call(&command, at_most + CALL_WITHIN).await.map(drop)
    }
}
