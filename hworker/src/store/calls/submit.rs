//! Takes in jobs that are known by their ids.

use std::time::Duration;

use super::enqueue::NoRoom;
use super::schedule::Due;
use crate::envelope::JobId;
use crate::limit::List;
use crate::store::Script;
use crate::store::net::{Call, Connection, Fault};
use crate::store::queue::Queue;
use crate::store::reply::Reply;
use crate::unique::KeyLock;

/// A job to be taken in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Submission<'a> {
    pub(crate) list: &'a List,
    pub(crate) id: &'a JobId,
    pub(crate) front: bool,
    pub(crate) due: Option<Due>,
    pub(crate) lock: &'a KeyLock,
    /// As `push` has them.
    pub(crate) terms: &'a str,
    pub(crate) envelope: &'a [u8],
}

/// What became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) word: Word,
    /// The other; empty where there is none.
    pub(crate) id: String,
    /// How the other stands: `w`aiting, `s`cheduled, `p`arked, `f`ollowing or `r`unning; `None` where it has ended.
    pub(crate) stands: Option<char>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Word {
    New,
    Exists,
    Refused,
    Replaced,
    Moved,
    Follows,
}

impl Word {
    pub(super) fn read(reply: &mut Reply) -> Result<Self, Fault> {
        Ok(match &*reply.text()? {
            "new" => Self::New,
            "exists" => Self::Exists,
            "refused" => Self::Refused,
            "replaced" => Self::Replaced,
            "moved" => Self::Moved,
            "follows" => Self::Follows,
            word => return Err(reply.unknown(word)),
        })
    }
}

impl Call {
    /// As the scripts read it.
    pub(super) fn lock(&mut self, lock: &KeyLock) -> &mut Self {
        let text = |ms: Option<u64>| ms.map_or_else(String::new, |ms| ms.to_string());
        self.arg(&lock.held_by).arg(&*lock.conflict).arg(text(lock.lasts)).arg(text(lock.latest))
    }
}

impl Queue {
    /// Takes in jobs, each on its own, or none of them where there is no room for one.
    pub(crate) async fn submit(
        &self,
        to: &Connection,
        jobs: &[Submission<'_>],
        within: Duration,
    ) -> Result<Result<Vec<Answer>, NoRoom>, Fault> {
        let keys = &self.keys;
        let all = [&keys.jobs, &keys.scheduled, &keys.token, &keys.bell, &keys.stat];
        let mut call = Call::new(Script::Submit, &all.map(String::as_str));
        for job in jobs {
            call.arg(if job.front { "RPUSH" } else { "LPUSH" });
            call.arg(format!("{}#{}", job.list, job.id.as_str()));
            match job.due {
                Some(Due::In(ms)) => call.arg(format!("in {ms}")),
                Some(Due::At(ms)) => call.arg(format!("at {ms}")),
                None => call.arg(""),
            };
            call.lock(job.lock).arg(job.terms).arg(job.envelope);
        }
        let mut reply = to.run(&call, within).await?;
        if reply.text()? == "full" {
            let no_room = NoRoom {
                which: reply.count()? as usize,
                waiting: reply.count()?,
                most: reply.count()?,
            };
            return Ok(Err(no_room));
        }
        let answers = reply.rest(|reply| {
            let word = Word::read(reply)?;
            Ok(Answer { word, id: reply.text()?, stands: reply.text()?.chars().next() })
        })?;
        Ok(Ok(answers))
    }
}
