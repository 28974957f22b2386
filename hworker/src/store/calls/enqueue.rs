//! Puts jobs into a queue.

use std::time::Duration;

use crate::store::Script;
use crate::store::net::{Call, Connection, Fault};
use crate::store::queue::Queue;

/// More would wait than may.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NoRoom {
    /// Which of the jobs is the first without room.
    pub(crate) which: usize,
    pub(crate) waiting: u64,
    /// How many may wait.
    pub(crate) most: u64,
}

/// Whether more jobs may wait on a queue.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Bound {
    /// Nobody set how many may wait.
    None,
    /// There is room.
    Kept,
    Over(NoRoom),
}

impl Queue {
    /// Whether somebody set how many jobs may wait on the queue.
    pub(crate) async fn is_bound(&self, on: &Connection) -> Result<bool, Fault> {
        let mut set = on.ask("HMGET", (self.keys.control(), "max:*")).await?;
        Ok(!matches!(set.value()?, redis::Value::Nil))
    }

    /// Whether there is room for so many more jobs on the queue.
    pub(crate) async fn room(
        &self,
        on: &Connection,
        jobs: usize,
        within: Duration,
    ) -> Result<Bound, Fault> {
        let call = Call::new(Script::Room, &[&self.keys.jobs, &self.keys.scheduled]);
        let mut reply = on.run(&call, within).await?;
        if reply.left() == 0 {
            return Ok(Bound::None);
        }
        let (most, waiting) = (reply.count()?, reply.count()?);
        let free = usize::try_from(most.saturating_sub(waiting)).unwrap_or(usize::MAX);
        let no_room = NoRoom { which: free, waiting, most };
        Ok(if free < jobs { Bound::Over(no_room) } else { Bound::Kept })
    }

    /// Puts envelopes at the back of their list, the first of them ahead of the others.
    pub(crate) async fn enqueue(
        &self,
        to: &Connection,
        envelopes: &[impl AsRef<[u8]>],
        within: Duration,
    ) -> Result<(), Fault> {
        if !self.list.is_plain() {
            return self.push(to, envelopes, "LPUSH", within).await;
        }
        // Made in one piece: growing would copy the jobs again and again.
        let bytes: usize = envelopes.iter().map(|envelope| envelope.as_ref().len()).sum();
        let mut command = redis::Cmd::with_capacity(2 + envelopes.len(), 100 + bytes);
        command.arg("LPUSH").arg(&self.keys.jobs);
        for envelope in envelopes {
            command.arg(envelope.as_ref());
        }
        to.call(&command, within).await.map(drop)
    }

    /// Puts envelopes at the front of their list, the first of them ahead of the others.
    pub(crate) async fn enqueue_in_front(
        &self,
        to: &Connection,
        envelopes: &[impl AsRef<[u8]>],
        within: Duration,
    ) -> Result<(), Fault> {
        self.push(to, envelopes, "RPUSH", within).await
    }

    async fn push(
        &self,
        to: &Connection,
        envelopes: &[impl AsRef<[u8]>],
        how: &str,
        within: Duration,
    ) -> Result<(), Fault> {
        let list = self.list.to_string();
        let placed = envelopes.iter().map(|envelope| (&*list, "", envelope.as_ref()));
        self.push_each(to, placed, how, within).await.map(drop)
    }

    /// Puts envelopes into lists, each with its terms, or none of them where there is no room for one.
    pub(crate) async fn push_each<'a>(
        &self,
        to: &Connection,
        placed: impl Iterator<Item = (&'a str, &'a str, &'a [u8])>,
        how: &str,
        within: Duration,
    ) -> Result<Option<NoRoom>, Fault> {
        let keys = &self.keys;
        let mut call = Call::new(Script::Push, &[&keys.jobs, &keys.token, &keys.bell]);
        call.arg(how);
        for (list, terms, envelope) in placed {
            call.arg(list).arg(terms).arg(envelope);
        }
        let mut reply = to.run(&call, within).await?;
        match reply.text()?.as_str() {
            "full" => Ok(Some(NoRoom {
                which: reply.count()? as usize,
                waiting: reply.count()?,
                most: reply.count()?,
            })),
            _ => Ok(None),
        }
    }
}
