//! What the server knows of other workers: who is silent, what their records say, and whether they hold anything.

use std::time::Duration;

use super::heartbeat::MOST_SLOTS;
use crate::keys::WorkerKeys;
use crate::store::net::{Connection, Fault, server_time};
use crate::store::queue::Queue;
use crate::store::reply::Reply;
use crate::time::millis;

/// Workers that are read with one command, or asked about in one write.
const SILENT_AT_ONCE: usize = 1000;

/// The workers that serve a queue.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Serving {
    pub(crate) workers: u64,
    /// How many jobs they run at once, of all their queues.
    pub(crate) slots: u64,
    /// In how many of these slots there is a job of this queue.
    pub(crate) busy: u64,
}

impl Serving {
    /// Adds a worker of which this is known: the number of slots that it was ordered, with which it began, and when it was declared dead; how
    /// many jobs it has under leases, and in its inbox.
    fn add(&mut self, mut record: Reply, held: u64) -> Result<(), Fault> {
        let (ordered, own) = (record.maybe_text()?, record.maybe_text()?);
        if record.maybe_payload()?.is_some() {
            return Ok(());
        }
        let number = |text: Option<String>| text.and_then(|text| text.parse::<u64>().ok());
        let slots = number(ordered).or(number(own)).unwrap_or(0).min(MOST_SLOTS as u64);
        self.workers += 1;
        self.slots += slots;
        self.busy += held.min(slots);
        Ok(())
    }
}

/// What another worker's record says to a monitor.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Remembered {
    pub(crate) dead: bool,
    pub(crate) dead_after: Option<Duration>,
    /// It was told to stop.
    pub(crate) stopping: bool,
}

impl Remembered {
    fn read(mut reply: Reply) -> Result<Self, Fault> {
        let dead = reply.maybe_payload()?.is_some();
        let dead_after = reply.maybe_payload()?;
        let dead_after = dead_after.and_then(|ms| String::from_utf8(ms).ok()?.parse().ok());
        let stopping = reply.maybe_payload()?.is_some();
        Ok(Self { dead, dead_after: dead_after.map(Duration::from_millis), stopping })
    }
}

impl Queue {
    /// What the records of these workers say of their deaths, in their order; one that is missing, or is not ours, says nothing.
    pub(crate) async fn remembered(
        &self,
        on: &Connection,
        workers: &[&str],
    ) -> Result<Vec<Remembered>, Fault> {
        let replies = self.ask_of_each(on, workers, |keys, ask| {
            ask.cmd("HMGET").arg(keys.record).arg("dead").arg("dead_after").arg("stopping");
        });
        let read = |reply: Result<_, _>| reply.and_then(Remembered::read).unwrap_or_default();
        Ok(replies.await?.into_iter().map(read).collect())
    }

    /// The workers that were heard of within this time. What somebody made another type counts for nothing.
    pub(crate) async fn served_by(
        &self,
        on: &Connection,
        within: Duration,
    ) -> Result<Serving, Fault> {
        let since = server_time(on).await?.saturating_sub(millis(within));
        let range = (&self.keys.workers, since, "+inf");
        let ids = on.ask("ZRANGEBYSCORE", range).await?.rest(Reply::text)?;
        let ids: Vec<_> = ids.iter().map(String::as_str).collect();
        let replies = self.ask_of_each(on, &ids, |keys, ask| {
            ask.cmd("HMGET").arg(keys.record).arg("slots").arg("concurrency").arg("dead");
            ask.cmd("HLEN").arg(keys.progress).cmd("LLEN").arg(keys.inbox);
        });
        let mut replies = replies.await?.into_iter();
        let count = |reply: Result<Reply, Fault>| reply.and_then(|mut reply| reply.count());
        let mut serving = Serving::default();
        while let (Some(record), Some(held), Some(handed)) =
            (replies.next(), replies.next(), replies.next())
        {
            let held = count(held).unwrap_or(0) + count(handed).unwrap_or(0);
            if let Ok(record) = record {
                serving.add(record, held)?;
            }
        }
        Ok(serving)
    }

    /// The workers that were last heard of more than 2 s before `now`, and no longer ago than `window`, or after it, however many
    /// there are.
    pub(crate) async fn silent(
        &self,
        on: &Connection,
        now: u64,
        window: Option<Duration>,
    ) -> Result<Vec<(String, String)>, Fault> {
        let from = |window| now.saturating_sub(millis(window)).to_string();
        let ranges = [
            (window.map_or_else(|| "-inf".to_owned(), from), now.saturating_sub(2_000).to_string()),
            (format!("({now}"), "+inf".to_owned()),
        ];
        let mut silent = Vec::new();
        for (from, to) in &ranges {
            for offset in (0..).step_by(SILENT_AT_ONCE) {
                let limits = ("LIMIT", offset, SILENT_AT_ONCE);
                let range = (&self.keys.workers, from, to, "WITHSCORES", limits);
                let some =
                    on.ask("ZRANGEBYSCORE", range).await?.rest(|entry| entry.list()?.pair())?;
                let last = some.len() < SILENT_AT_ONCE;
                silent.extend(some);
                if last {
                    break;
                }
            }
        }
        Ok(silent)
    }

    /// Whether each of these workers has a lease or something in its inbox.
    pub(crate) async fn hold_anything(
        &self,
        on: &Connection,
        workers: &[&str],
    ) -> Result<Vec<bool>, Fault> {
        let replies = self.ask_of_each(on, workers, |keys, ask| {
            ask.cmd("EXISTS").arg(keys.inbox).arg(keys.progress);
        });
        replies.await?.into_iter().map(|reply| Ok(reply?.count()? > 0)).collect()
    }

    /// Asks one thing of each of these workers.
    async fn ask_of_each(
        &self,
        on: &Connection,
        workers: &[&str],
        add: impl Fn(WorkerKeys, &mut redis::Pipeline),
    ) -> Result<Vec<Result<Reply, Fault>>, Fault> {
        let mut replies = Vec::with_capacity(workers.len());
        for some in workers.chunks(SILENT_AT_ONCE) {
            let mut ask = redis::pipe();
            for worker in some {
                add(self.keys.worker(worker), &mut ask);
            }
            replies.extend(on.ask_all(&ask).await?);
        }
        Ok(replies)
    }
}
