//! Orders to batches, and who looks after them.

use crate::store::net::{Call, Connection, Fault};
use crate::store::queue::Queue;
use crate::store::reply::Reply;
use crate::store::{CALL_WITHIN, Script};

/// What became of an order.
#[derive(Debug)]
pub(crate) struct Ordered {
    pub(crate) is_changed: bool,
    /// How it stood.
    pub(crate) state: String,
    /// The labels of its queues.
    pub(crate) queues: Vec<String>,
}

/// What is to be done for a batch.
#[derive(Debug)]
pub(crate) struct Minded {
    /// The order in force: `cancelled`, `paused`, or nothing.
    pub(crate) stop: String,
    /// All that follows from it is done.
    pub(crate) is_done: bool,
    /// The labels of its queues.
    pub(crate) queues: Vec<String>,
    /// How many batches are its members.
    pub(crate) children: u64,
    /// What is to be given up: its name, its first number, and where it went.
    pub(crate) left: Vec<(String, u64, String)>,
}

fn labels(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// Cancels, pauses, resumes or drops a batch; `None` where there is none.
pub(crate) async fn order_batch(
    on: &Connection,
    keys: &[String; 5],
    order: &str,
) -> Result<Option<Ordered>, Fault> {
    let mut call = Call::new(Script::OrderBatch, &keys.each_ref().map(String::as_str));
    call.arg(order);
    let mut reply = on.run(&call, CALL_WITHIN).await?;
    let word = reply.text()?;
    match word.as_str() {
        "gone" => Ok(None),
        "changed" | "unchanged" => {
            let (state, queues) = (reply.text()?, labels(&reply.text()?));
            Ok(Some(Ordered { is_changed: word == "changed", state, queues }))
        }
        word => Err(reply.unknown(word)),
    }
}

/// What is to be done for a batch: what is being added for so many ms is given up, and one that is open and did not grow for so many is cancelled.
/// `None` where there is none.
pub(crate) async fn mind_batch(
    on: &Connection,
    keys: &[String; 5],
    (adds_for, open_for): (u64, u64),
) -> Result<Option<Minded>, Fault> {
    let mut call = Call::new(Script::MindBatch, &keys.each_ref().map(String::as_str));
    call.number(adds_for).number(open_for);
    let mut reply = on.run(&call, CALL_WITHIN).await?;
    match reply.text()?.as_str() {
        "gone" => Ok(None),
        "ok" => Ok(Some(Minded {
            stop: reply.text()?,
            is_done: reply.count()? == 1,
            queues: labels(&reply.text()?),
            children: reply.count()?,
            left: reply.rest(|reply| Ok((reply.text()?, reply.count()?, reply.text()?)))?,
        })),
        word => Err(reply.unknown(word)),
    }
}

impl Queue {
    /// Has workers start no member of a batch any more (`cancelled` or `paused`), or again (nothing), and the batch looked at so many ms later; `None`
    /// where it is to be forgotten. Gives how many members that were met still stand beside the queue.
    pub(crate) async fn stop_batch(
        &self,
        on: &Connection,
        batch: &str,
        stop: &str,
        look_ms: Option<u64>,
    ) -> Result<u64, Fault> {
        let keys = &self.keys;
        let mut call = Call::new(Script::StopBatch, &[&keys.jobs, &keys.token, &keys.bell]);
        call.arg(batch).arg(stop).arg(look_ms.map_or_else(String::new, |ms| ms.to_string()));
        on.run(&call, CALL_WITHIN).await?.count()
    }

    /// How often the batches have changed of which no member starts here, and these, each with why, where that is not as often as is known.
    pub(crate) async fn read_stopped(
        &self,
        on: &Connection,
        known: u64,
    ) -> Result<(u64, Vec<(String, String)>), Fault> {
        let stopped = self.keys.stopped();
        let changes = on.ask("HGET", (&stopped, "v")).await?.rest(Reply::maybe_text)?;
        let changes = changes.into_iter().flatten().next();
        let changes = changes.and_then(|changes| changes.parse().ok()).unwrap_or(0);
        if changes == known {
            return Ok((changes, Vec::new()));
        }
        let mut pairs = on.ask("HGETALL", &stopped).await?.rest(Reply::pair)?;
        pairs.retain(|(field, _)| field != "v");
        Ok((changes, pairs))
    }

    /// The batches that are looked after from here.
    pub(crate) async fn read_batches(
        &self,
        on: &Connection,
        at_most: usize,
    ) -> Result<Vec<String>, Fault> {
        let last = at_most.saturating_sub(1);
        let mut reply = on.ask("ZRANGE", (self.keys.batches(), 0, last)).await?;
        reply.rest(Reply::text)
    }
}
