//! Jobs that come all or none: they are put aside, and then committed.

use std::time::Duration;

use super::schedule::{Due, scheduled};
use crate::limit::List;
use crate::store::net::{Call, Connection, Fault};
use crate::store::queue::Queue;
use crate::store::{SCRIPT_BYTES, Script};

/// A job that is put aside.
#[derive(Debug)]
pub(crate) struct Staged<'a> {
    pub(crate) list: &'a List,
    pub(crate) due: Option<Due>,
    /// How many of its key run at once, where its arguments say so.
    pub(crate) at_once: Option<u32>,
    pub(crate) envelope: &'a [u8],
}

impl Queue {
    /// Puts jobs aside behind `before` others. False where not so many are there any more.
    pub(crate) async fn stage(
        &self,
        to: &Connection,
        (bulk, before): (&str, usize),
        jobs: impl Iterator<Item = Staged<'_>>,
        within: Duration,
    ) -> Result<bool, Fault> {
        let mut call = Call::new(Script::Stage, &[&self.keys.jobs]);
        call.arg(bulk).number(before as u64);
        for job in jobs {
            let member = scheduled(job.list, job.at_once, job.envelope);
            match job.due {
                None => call.arg(member),
                Some(Due::In(ms)) => call.arg([format!("in {ms}\n").as_bytes(), &member].concat()),
                Some(Due::At(ms)) => call.arg([format!("at {ms}\n").as_bytes(), &member].concat()),
            };
        }
        let mut reply = to.run(&call, within).await?;
        match reply.text()?.as_str() {
            "ok" => Ok(true),
            "gone" => Ok(false),
            word => Err(reply.unknown(word)),
        }
    }

    /// Has all that were put aside come, and moves so many of them to their lists. Gives how many are left; nothing where not so many were put
    /// aside as the caller says.
    pub(crate) async fn commit(
        &self,
        to: &Connection,
        (bulk, count): (&str, usize),
        want: usize,
        within: Duration,
    ) -> Result<Option<u64>, Fault> {
        let keys = &self.keys;
        let keys = [&*keys.jobs, &*keys.scheduled, &*keys.token, &*keys.bell];
        let mut call = Call::new(Script::Commit, &keys);
        call.arg(bulk).number(count as u64).number(want as u64).number(SCRIPT_BYTES as u64);
        let mut reply = to.run(&call, within).await?;
        match reply.text()?.as_str() {
            "ok" => Ok(Some(reply.count()?)),
            "gone" => Ok(None),
            word => Err(reply.unknown(word)),
        }
    }

    /// Takes away what was put aside and will never be committed.
    pub(crate) async fn unstage(&self, on: &Connection, bulk: &str) -> Result<(), Fault> {
        on.ask("EXPIRE", (self.keys.staged(bulk), 0)).await.map(drop)
    }
}
