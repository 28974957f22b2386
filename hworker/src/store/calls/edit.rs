//! Changes of one job in place.

use super::records::Place;
use super::schedule::scheduled;
use crate::envelope::JobId;
use crate::kept::Kept;
use crate::keys::Ended;
use crate::limit::List;
use crate::store::net::{Call, Connection, Fault};
use crate::store::queue::Queue;
use crate::store::reply::Reply;
use crate::store::{CALL_WITHIN, DAY_TTL_S, Script};
use crate::unique::{KeyLock, own_id};

/// What stands in the list for a job that was taken out of it by hand, until a worker gets it.
pub(crate) const HUSK: &[u8] = b"-";

/// Where a job stands, as it was seen.
#[derive(Debug, Clone, Copy)]
pub(crate) enum From<'a> {
    /// So many are taken before it.
    Waiting {
        payload: &'a [u8],
        before: u64,
    },
    Scheduled {
        payload: &'a [u8],
        due: u64,
        /// How many jobs of its key run at once, where it stands there with that.
        at_once: Option<u32>,
    },
    Parked {
        payload: &'a [u8],
        token: u64,
    },
    Ended {
        ended: Ended,
        place: &'a Place,
        /// What it holds when it runs again.
        holds: Option<&'a KeyLock>,
    },
    Broken {
        payload: &'a [u8],
    },
}

/// What becomes of it.
#[derive(Debug)]
pub(crate) enum Duty {
    /// It is gone.
    Nothing,
    /// It stays in its place in the list, as this.
    Stay(Vec<u8>),
    /// It waits, as the next that is taken or as the last.
    Push { front: bool, envelope: Vec<u8> },
    /// It is scheduled for this time in ms.
    At { due: u64, envelope: Vec<u8> },
    /// It is cancelled: the name of its type, its id, and its record.
    Cancel { job: String, id: String, record: Vec<u8> },
}

/// What becomes of what is kept of its end, for those who wait for its result.
#[derive(Debug)]
pub(crate) enum Keeping {
    Nothing,
    /// It does not run, and this is kept.
    Keep(Box<Kept>),
    /// It runs again.
    Forget(JobId),
}

/// What an edit did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Edited {
    Done,
    Missing,
    Changed,
    /// Another holds its key; how that stands, `None` where it has ended.
    Conflict {
        id: JobId,
        stands: Option<char>,
    },
}

impl Queue {
    /// Takes a job of this id from where it was seen, in its list if it waits, and does its duty, which may be on another queue, or in
    /// another list.
    pub(crate) async fn edit(
        &self,
        on: &Connection,
        day: &str,
        (id, from): (Option<&JobId>, From<'_>),
        to: &Self,
        (duty, keeping, note): (&Duty, &Keeping, Option<&str>),
    ) -> Result<Edited, Fault> {
        let keys = &self.keys;
        let stat_of_day = keys.stat_of(day);
        let targets: [&str; _] = [&to.keys.jobs, &to.keys.scheduled, &to.keys.bell];
        let own: [&str; _] = [&keys.broken, &keys.stat, &stat_of_day, &keys.parked, &keys.token];
        let list = keys.list(&self.list);
        let places: [&str; _] = [&list, &keys.scheduled, &to.keys.token, &keys.kept];
        let all = [&targets[..], &own, &keys.records(), &places].concat();
        let mut call = Call::new(Script::Edit, &all);
        let instead = if let Duty::Stay(envelope) = duty { envelope } else { HUSK };
        let named = |list: &List| match id {
            Some(id) if list.by_id => format!("{list}#{}", id.as_str()),
            _ => list.to_string(),
        };
        let member = || format!(":{}\n", named(&self.list)).into_bytes();
        match from {
            From::Waiting { payload, .. } if self.list.by_id => {
                let seen = format!("={}", named(&self.list));
                call.arg("waiting").arg(payload).arg(seen).arg(instead)
            }
            From::Scheduled { due, .. } if self.list.by_id => {
                call.arg("scheduled").arg(member()).number(due).arg("")
            }
            From::Parked { token, .. } if self.list.by_id => {
                call.arg("parked").arg(member()).number(token).arg("")
            }
            From::Waiting { payload, before } => {
                call.arg("waiting").arg(payload).number(before).arg(instead)
            }
            From::Scheduled { payload, due, at_once } => {
                let member = scheduled(&self.list, at_once, payload);
                call.arg("scheduled").arg(member).number(due).arg("")
            }
            From::Parked { payload, token } => {
                call.arg("parked").arg(payload).number(token).arg("")
            }
            From::Ended { ended, place, .. } => {
                call.arg(ended.name()).arg(&place.member).number(place.ended_at).arg("")
            }
            From::Broken { payload } => call.arg("broken").arg(payload).arg("").arg(""),
        };
        call.number(self.limits.broken as u64).number(DAY_TTL_S);
        let at_once = match from {
            From::Scheduled { at_once: Some(at_once), .. } => at_once.to_string(),
            _ => String::new(),
        };
        if let From::Ended { holds: Some(lock), .. } = from
            && let Some(id) = id.and_then(|id| own_id(id.as_str()).ok())
            && let Duty::Push { envelope, .. } | Duty::At { envelope, .. } = duty
        {
            let due = if let Duty::At { due, .. } = duty { due.to_string() } else { String::new() };
            call.arg("again").arg(due).arg(format!("{}#{}", to.list.clone().by_id(), id.as_str()));
            call.lock(lock).arg(envelope);
            keeping.add_to(&mut call);
            if let Some(note) = note {
                call.arg("note").arg(note);
            }
            return edited(&mut on.run(&call, CALL_WITHIN).await?);
        }
        match duty {
            Duty::Nothing | Duty::Stay(_) => {}
            Duty::Cancel { job, id, record } => {
                // How many are kept is the workers' to say, and they trim.
                call.arg("cancel").arg(job).arg(id).number(1 << 53).number(1 << 53).arg(record);
            }
            Duty::Push { front, envelope } => {
                call.arg("push").arg(if *front { "RPUSH" } else { "LPUSH" });
                call.arg(named(&to.list)).arg(at_once).arg(envelope);
            }
            Duty::At { due, envelope } => {
                call.arg("at").number(*due).arg(named(&to.list)).arg(at_once).arg(envelope);
            }
        }
        keeping.add_to(&mut call);
        if let Some(note) = note {
            call.arg("note").arg(note);
        }
        edited(&mut on.run(&call, CALL_WITHIN).await?)
    }
}

impl Keeping {
    fn add_to(&self, call: &mut Call) {
        match self {
            Self::Nothing => call,
            Self::Keep(kept) => call.arg("keep").arg(&kept.id).number(kept.ms).arg(&kept.text),
            Self::Forget(id) => call.arg("forget").arg(id.as_str()),
        };
    }
}

fn edited(reply: &mut Reply) -> Result<Edited, Fault> {
    Ok(match reply.text()?.as_str() {
        "done" => Edited::Done,
        "missing" => Edited::Missing,
        "changed" => Edited::Changed,
        "conflict" => {
            Edited::Conflict { id: reply.text()?.into(), stands: reply.text()?.chars().next() }
        }
        word => return Err(reply.unknown(word)),
    })
}
