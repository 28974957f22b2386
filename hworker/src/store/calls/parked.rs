//! Parked jobs: those that some worker could not run, for one that can.

use super::lease::Lease;
use super::reserve::Reserved;
use crate::kept::Kept;
use crate::keys::WorkerKeys;
use crate::store::net::{Call, Connection, Fault};
use crate::store::queue::Queue;
use crate::store::{CALL_WITHIN, DAY_TTL_S, SCRIPT_BYTES, Script};

/// So many are looked at by one call.
const PAGE: u64 = 100;

/// A parked job.
#[derive(Debug)]
pub(crate) struct ParkedEntry {
    /// Grows from job to job; a time in us by the server's clock.
    pub(crate) token: u64,
    /// `None` where it is larger than a worker takes.
    pub(crate) payload: Option<Vec<u8>>,
}

/// A parked job that no worker could run for long.
#[derive(Debug)]
pub(crate) struct Overdue {
    pub(crate) token: u64,
    pub(crate) reason: String,
    /// What is kept of it, where its result is.
    pub(crate) kept: Option<Box<Kept>>,
    /// What its batch is to be told.
    pub(crate) note: Option<String>,
}

impl Queue {
    /// The next parked jobs behind a token; `up_to` leaves out those of greater ones.
    pub(crate) async fn look_parked(
        &self,
        on: &Connection,
        after: u64,
        up_to: Option<u64>,
    ) -> Result<Vec<ParkedEntry>, Fault> {
        let mut call = Call::new(Script::LookParked, &[&self.keys.parked, &self.keys.jobs]);
        call.number(after);
        match up_to {
            Some(token) => call.number(token),
            None => call.arg("+inf"),
        };
        call.number(PAGE).number(SCRIPT_BYTES as u64).number(self.largest() as u64);
        on.run(&call, CALL_WITHIN).await?.rest(|reply| {
            let token = token(&reply.text()?).ok_or_else(|| reply.fault("not a token"))?;
            let payload = Some(reply.bytes()?).filter(|payload| !payload.is_empty());
            Ok(ParkedEntry { token, payload })
        })
    }

    /// Takes parked jobs, each under a lease; those that are gone are left out.
    pub(crate) async fn take_parked(
        &self,
        on: &Connection,
        worker: &WorkerKeys,
        session: u64,
        wanted: Vec<(u64, Vec<u8>)>,
    ) -> Result<Reserved, Fault> {
        let keys = &self.keys;
        let mut call = Call::new(
            Script::TakeParked,
            &[&worker.record, &worker.progress, &keys.parked, &keys.token, &keys.jobs],
        );
        call.number(session);
        for (token, _) in &wanted {
            call.number(*token);
        }
        let mut reply = on.run(&call, CALL_WITHIN).await?;
        match reply.text()?.as_str() {
            "ok" => {}
            "void" => return Ok(Reserved::Void),
            "stale" => return Ok(Reserved::Stale),
            "closed" => return Ok(Reserved::Closed { left: None }),
            word => return Err(reply.unknown(word)),
        }
        let mut jobs = Vec::with_capacity(wanted.len());
        for (_, payload) in wanted {
            let lease = reply.text()?;
            if !lease.is_empty() {
                jobs.push((Lease::parse(&lease), payload));
            }
        }
        Ok(Reserved::Jobs { jobs, left: 0, set_aside: 0, listed: None })
    }

    /// Puts parked jobs among the broken ones, each with its reason. False where there is no room for all of them; the others stay
    /// parked.
    pub(crate) async fn break_parked(
        &self,
        on: &Connection,
        day: &str,
        overdue: &[Overdue],
    ) -> Result<bool, Fault> {
        let keys = &self.keys;
        let stat_of_day = keys.stat_of(day);
        let all: [&str; _] = [
            &keys.parked,
            &keys.broken,
            &keys.stat,
            &stat_of_day,
            &keys.jobs,
            &keys.bell,
            &keys.kept,
        ];
        let mut call = Call::new(Script::BreakParked, &all);
        call.number(self.limits.broken as u64).number(DAY_TTL_S);
        for Overdue { token, reason, kept, note } in overdue {
            call.number(*token).arg(reason);
            match kept {
                Some(kept) => call.arg(&kept.id).number(kept.ms).arg(&kept.text),
                None => call.arg("").arg("").arg(""),
            };
            call.arg(note.as_deref().unwrap_or_default());
        }
        let mut reply = on.run(&call, CALL_WITHIN).await?;
        match reply.text()?.as_str() {
            "ok" => Ok(true),
            "full" => Ok(false),
            word => Err(reply.unknown(word)),
        }
    }
}

/// A score, which some servers spell as a power of ten. One that is no whole number is somebody else's; the look goes on behind it.
fn token(score: &str) -> Option<u64> {
    let token = score.parse::<f64>().ok().filter(|token| *token >= 0.0);
    token.map(|token| token.ceil() as u64)
}
