//! Batches, and the notes by which they learn of their members.

use redis::Value;

use crate::store::net::{Call, Connection, Fault};
use crate::store::queue::Queue;
use crate::store::reply::Reply;
use crate::store::{CALL_WITHIN, Script};

/// A callback of a batch that is to be pushed.
#[derive(Debug, Clone)]
pub(crate) struct DueCallback {
    pub(crate) name: String,
    /// The label of the shard.
    pub(crate) queue: String,
    pub(crate) list: String,
    pub(crate) at_once: String,
    pub(crate) envelope: Vec<u8>,
}

/// What there is of a batch.
#[derive(Debug)]
pub(crate) struct BatchEntry {
    pub(crate) name: String,
    pub(crate) state: String,
    pub(crate) at: u64,
    pub(crate) total: Option<u64>,
    pub(crate) ended: u64,
    pub(crate) bad: u64,
    /// How each of its callbacks stands, where it has it: failure, settled, success.
    pub(crate) callbacks: [Option<String>; 3],
    /// Members that did not end well: their numbers, how they ended and their ids.
    pub(crate) fails: Vec<String>,
}

fn due(mut reply: Reply) -> Result<Vec<DueCallback>, Fault> {
    match reply.text()?.as_str() {
        // Nobody asks for what follows any more.
        "gone" => Ok(Vec::new()),
        "ok" => reply.rest(|reply| {
            Ok(DueCallback {
                name: reply.text()?,
                queue: reply.text()?,
                list: reply.text()?,
                at_once: reply.text()?,
                envelope: reply.bytes()?,
            })
        }),
        word => Err(reply.unknown(word)),
    }
}

/// Begins a batch; false where there is one.
pub(crate) async fn create_batch(
    on: &Connection,
    [batch, ..]: &[String; 4],
    name: &str,
    callbacks: &[DueCallback],
) -> Result<bool, Fault> {
    let mut call = Call::new(Script::CreateBatch, &[batch]);
    call.arg(name);
    for callback in callbacks {
        call.arg(&callback.name).arg(&callback.queue).arg(&callback.list);
        call.arg(&callback.at_once).arg(&callback.envelope);
    }
    Ok(on.run(&call, CALL_WITHIN).await?.text()? == "ok")
}

/// Tells a batch what became of members: of each the number, `good` or `bad`, how it ended, and its id. Gives the callbacks that are to be pushed.
pub(crate) async fn apply_batch(
    on: &Connection,
    keys: &[String; 4],
    ends: impl Iterator<Item = [&str; 4]>,
) -> Result<Vec<DueCallback>, Fault> {
    let mut call = Call::new(Script::ApplyBatch, &keys.each_ref().map(String::as_str));
    for word in ends.flatten() {
        call.arg(word);
    }
    due(on.run(&call, CALL_WITHIN).await?)
}

/// Notes that callbacks were pushed. Gives those that still are to be.
pub(crate) async fn did_batch(
    on: &Connection,
    keys: &[String; 4],
    names: impl Iterator<Item = &str>,
) -> Result<Vec<DueCallback>, Fault> {
    let mut call = Call::new(Script::DidBatch, &keys.each_ref().map(String::as_str));
    for name in names {
        call.arg(name);
    }
    due(on.run(&call, CALL_WITHIN).await?)
}

/// What there is of a batch, if there is one.
pub(crate) async fn read_batch(
    on: &Connection,
    [batch, _, _, fails]: &[String; 4],
) -> Result<Option<BatchEntry>, Fault> {
    let mut ask = redis::Pipeline::new();
    ask.cmd("HMGET").arg(batch);
    for field in ["name", "state", "at", "total", "ended", "bad", "failure", "settled", "success"] {
        ask.arg(field);
    }
    ask.cmd("LRANGE").arg(fails).arg(0).arg(99);
    let text = |reply: &mut Reply| -> Result<_, Fault> {
        Ok(match reply.value()? {
            Value::BulkString(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
            _ => None,
        })
    };
    let mut lists = Vec::new();
    for reply in on.ask_all(&ask).await? {
        let mut reply = reply?;
        lists.push(reply.rest(text)?);
    }
    let fails = lists.pop().unwrap_or_default();
    let fields = lists.pop().unwrap_or_default();
    let field = |at: usize| fields.get(at).cloned().flatten();
    let number = |at: usize| field(at).and_then(|text| text.parse::<u64>().ok());
    let Some(state) = field(1) else { return Ok(None) };
    Ok(Some(BatchEntry {
        name: field(0).unwrap_or_default(),
        state,
        at: number(2).unwrap_or(0),
        total: number(3),
        ended: number(4).unwrap_or(0),
        bad: number(5).unwrap_or(0),
        callbacks: [field(6), field(7), field(8)],
        fails: fails.into_iter().flatten().collect(),
    }))
}

impl Queue {
    /// Enqueues the callback of a batch, unless it was enqueued before.
    pub(crate) async fn push_once(
        &self,
        on: &Connection,
        batch: &str,
        callback: &DueCallback,
    ) -> Result<(), Fault> {
        let keys = &self.keys;
        let mut call = Call::new(Script::PushOnce, &[&keys.jobs, &keys.token, &keys.bell]);
        call.arg(batch).arg(&callback.name).arg(&callback.list);
        call.arg(&callback.at_once).arg(&callback.envelope);
        on.run(&call, CALL_WITHIN).await.map(drop)
    }

    /// Writes a note.
    pub(crate) async fn add_note(
        &self,
        on: &Connection,
        lease: &str,
        note: &str,
    ) -> Result<(), Fault> {
        on.ask("HSET", (self.keys.notes(), lease, note)).await.map(drop)
    }

    /// Some of the notes, by their leases.
    pub(crate) async fn read_notes(
        &self,
        on: &Connection,
        cursor: u64,
    ) -> Result<(u64, Vec<(String, String)>), Fault> {
        let mut reply = on.ask("HSCAN", (self.keys.notes(), cursor, "COUNT", 500)).await?;
        let next = reply.text()?.parse().unwrap_or(0);
        let Value::Array(values) = reply.value()? else {
            return Err(reply.fault("no notes"));
        };
        let texts = values.into_iter().map(|value| match value {
            Value::BulkString(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            _ => String::new(),
        });
        let texts: Vec<_> = texts.collect();
        let (pairs, _) = texts.as_chunks::<2>();
        Ok((next, pairs.iter().map(|[lease, note]| (lease.clone(), note.clone())).collect()))
    }

    /// Drops notes of which all that follows is in.
    pub(crate) async fn drop_notes(&self, on: &Connection, leases: &[String]) -> Result<(), Fault> {
        on.ask("HDEL", (self.keys.notes(), leases)).await.map(drop)
    }
}
