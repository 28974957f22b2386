//! Batches, and the notes by which they learn of their members.

use redis::Value;

use crate::store::net::{Call, Connection, Fault};
use crate::store::queue::Queue;
use crate::store::reply::Reply;
use crate::store::{CALL_WITHIN, Script};

/// So many notes are kept that no batch took.
const MOST_UNDELIVERED: i64 = 1_000;

/// A callback of a batch that is to be pushed; or what its parent is to be told: that in `queue`, its number there in `list`, and how it ended in
/// `at_once`.
#[derive(Debug, Clone)]
pub(crate) struct DueCallback {
    pub(crate) name: String,
    /// The label of the shard.
    pub(crate) queue: String,
    pub(crate) list: String,
    pub(crate) at_once: String,
    pub(crate) envelope: Vec<u8>,
}

impl DueCallback {
    /// Of what the parent of a batch is to be told: whether it ended well.
    pub(crate) fn of_parent(&self) -> Option<bool> {
        Some(self.name.strip_prefix("parent:")? == "good")
    }

    /// As `push_once` takes it. No bound keeps it out.
    fn terms(&self) -> String {
        let has_key = self.list.contains(['=', '~']);
        if !has_key {
            return String::new();
        }
        let at_once = if self.at_once.is_empty() { "-" } else { &self.at_once };
        format!("{at_once} - callback")
    }
}

/// What a batch begins with.
#[derive(Debug, Default)]
pub(crate) struct NewBatch {
    /// Empty for one that is never to begin.
    pub(crate) name: String,
    /// Its parent and its number there.
    pub(crate) parent: Option<(String, u64)>,
    pub(crate) depth: u64,
    pub(crate) lasts_ms: Option<u64>,
    /// JSON, or empty.
    pub(crate) tags: String,
    pub(crate) meta: String,
    pub(crate) callbacks: Vec<DueCallback>,
}

/// What there is of a batch.
#[derive(Debug)]
pub(crate) struct BatchEntry {
    pub(crate) name: String,
    pub(crate) state: String,
    pub(crate) stop: String,
    pub(crate) at: u64,
    pub(crate) total: u64,
    pub(crate) ended: u64,
    pub(crate) bad: u64,
    pub(crate) cancelled: u64,
    /// How many numbers it gave out.
    pub(crate) given: u64,
    pub(crate) expires: Option<u64>,
    pub(crate) children: u64,
    /// Its parent and its number there.
    pub(crate) parent: Option<(String, u64)>,
    /// The labels of the queues of its members.
    pub(crate) queues: Vec<String>,
    /// JSON, or empty.
    pub(crate) tags: String,
    pub(crate) meta: String,
    /// How each of its callbacks ended that did not end well.
    pub(crate) failed: [Option<String>; 3],
    /// How each of its callbacks stands, where it has it: failure, settled, success.
    pub(crate) callbacks: [Option<String>; 3],
    /// Members that did not end well: their numbers, how they ended and their ids.
    pub(crate) fails: Vec<String>,
}

pub(super) fn due(mut reply: Reply) -> Result<Vec<DueCallback>, Fault> {
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

/// What became of a batch that was to begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Begun {
    New,
    Exists,
    /// It was given up.
    Void,
}

/// Begins a batch, unless there is one.
pub(crate) async fn create_batch(
    on: &Connection,
    [batch, ..]: &[String; 5],
    new: &NewBatch,
) -> Result<Begun, Fault> {
    let mut call = Call::new(Script::CreateBatch, &[batch]);
    let parent = new.parent.as_ref().map(|(parent, number)| format!("{parent} {number}"));
    call.arg(&new.name).arg(parent.unwrap_or_default()).number(new.depth);
    call.arg(new.lasts_ms.map_or_else(String::new, |ms| ms.to_string()));
    call.arg(&new.tags).arg(&new.meta);
    for callback in &new.callbacks {
        call.arg(&callback.name).arg(&callback.queue).arg(&callback.list);
        call.arg(&callback.at_once).arg(&callback.envelope);
    }
    let mut reply = on.run(&call, CALL_WITHIN).await?;
    match reply.text()?.as_str() {
        "ok" => Ok(Begun::New),
        "exists" => Ok(Begun::Exists),
        "void" => Ok(Begun::Void),
        word => Err(reply.unknown(word)),
    }
}

/// Tells a batch what became of members: of each the number, `good` or `bad`, how it ended, and its id. Gives the callbacks that are to be pushed.
pub(crate) async fn apply_batch(
    on: &Connection,
    keys: &[String; 5],
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
    keys: &[String; 5],
    names: impl Iterator<Item = &str>,
) -> Result<Vec<DueCallback>, Fault> {
    let mut call = Call::new(Script::DidBatch, &keys.each_ref().map(String::as_str));
    for name in names {
        call.arg(name);
    }
    due(on.run(&call, CALL_WITHIN).await?)
}

/// The fields of a batch that are read of it.
const FIELDS: [&str; 21] = [
    "name",
    "state",
    "stop",
    "at",
    "total",
    "ended",
    "bad",
    "cancelled",
    "given",
    "expires",
    "children",
    "parent",
    "queues",
    "tags",
    "meta",
    "failure",
    "settled",
    "success",
    "failed:failure",
    "failed:settled",
    "failed:success",
];

/// What there is of a batch, if there is one.
pub(crate) async fn read_batch(
    on: &Connection,
    [batch, _, _, fails, _]: &[String; 5],
) -> Result<Option<BatchEntry>, Fault> {
    let mut ask = redis::Pipeline::new();
    ask.cmd("HMGET").arg(batch);
    for field in FIELDS {
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
    let mut fields = lists.pop().unwrap_or_default().into_iter();
    // In the order of `FIELDS`.
    let mut field = || fields.next().flatten();
    let number = |text: Option<String>| text.and_then(|text| text.parse::<u64>().ok());
    let (name, state, stop) = (field().unwrap_or_default(), field(), field().unwrap_or_default());
    let Some(state) = state.filter(|state| state != "void") else { return Ok(None) };
    Ok(Some(BatchEntry {
        name,
        state,
        stop,
        at: number(field()).unwrap_or(0),
        total: number(field()).unwrap_or(0),
        ended: number(field()).unwrap_or(0),
        bad: number(field()).unwrap_or(0),
        cancelled: number(field()).unwrap_or(0),
        given: number(field()).unwrap_or(0),
        expires: number(field()),
        children: number(field()).unwrap_or(0),
        parent: field().and_then(|text| {
            let (parent, number) = text.split_once(' ')?;
            Some((parent.to_owned(), number.parse().ok()?))
        }),
        queues: field().unwrap_or_default().split_whitespace().map(str::to_owned).collect(),
        tags: field().unwrap_or_default(),
        meta: field().unwrap_or_default(),
        callbacks: [field(), field(), field()],
        failed: [field(), field(), field()],
        fails: fails.into_iter().flatten().collect(),
    }))
}

/// The bits of the members that have ended.
pub(crate) async fn done_bits(
    on: &Connection,
    [_, done, ..]: &[String; 5],
) -> Result<Vec<u8>, Fault> {
    let mut reply = on.ask("GET", done).await?;
    if reply.left() == 0 { Ok(Vec::new()) } else { reply.bytes() }
}

/// Of what is being added the first number, and how many.
pub(crate) async fn adding_of(
    on: &Connection,
    [batch, ..]: &[String; 5],
) -> Result<Vec<(u64, u64)>, Fault> {
    let fields = on.ask("HGETALL", batch).await?.rest(Reply::pair)?;
    let adding = |(field, says): (String, String)| {
        field.strip_prefix("add:")?;
        let mut words = says.split(' ').skip(1).map(str::parse);
        Some((words.next()?.ok()?, words.next()?.ok()?))
    };
    Ok(fields.into_iter().filter_map(adding).collect())
}

/// Sets the counts to those of the bits. Gives what follows.
pub(crate) async fn recount_batch(
    on: &Connection,
    keys: &[String; 5],
) -> Result<Vec<DueCallback>, Fault> {
    let call = Call::new(Script::RecountBatch, &keys.each_ref().map(String::as_str));
    due(on.run(&call, CALL_WITHIN).await?)
}

impl Queue {
    /// Enqueues the callback of a batch, unless it was enqueued before.
    pub(crate) async fn push_callback(
        &self,
        on: &Connection,
        batch: &str,
        callback: &DueCallback,
    ) -> Result<(), Fault> {
        let mut call = self.push_once(batch, &callback.name);
        call.arg(&callback.list).arg(callback.terms()).arg("").arg("LPUSH").number(1);
        call.arg(&callback.envelope);
        on.run(&call, CALL_WITHIN).await.map(drop)
    }

    pub(super) fn push_once(&self, batch: &str, field: &str) -> Call {
        let keys = &self.keys;
        let of = [&*keys.jobs, &*keys.token, &*keys.bell, &*keys.scheduled];
        let mut call = Call::new(Script::PushOnce, &of);
        call.arg(batch).arg(field);
        call
    }

    /// Members of a paused batch that were met, from this one on.
    pub(crate) async fn read_paused(
        &self,
        on: &Connection,
        batch: &str,
        from: usize,
    ) -> Result<Vec<Vec<u8>>, Fault> {
        let range = (self.keys.paused_of(batch), from, from + 199);
        let members = on.ask("LRANGE", range).await?.rest(Reply::bytes)?;
        // One of a list beside the plain one says which, see lib/lists.lua.
        let envelope = |member: Vec<u8>| match member.iter().position(|byte| *byte == b'\n') {
            Some(end) if member.first() == Some(&b':') => member[end + 1..].to_vec(),
            _ => member,
        };
        Ok(members.into_iter().map(envelope).collect())
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

    /// Notes of batches that refuse them, by their leases, go to where people see them.
    pub(crate) async fn set_undelivered(
        &self,
        on: &Connection,
        notes: &[(String, String)],
    ) -> Result<(), Fault> {
        let leases: Vec<_> = notes.iter().map(|(lease, _)| lease.clone()).collect();
        let texts: Vec<_> = notes.iter().map(|(_, text)| text).collect();
        let undelivered = self.keys.undelivered();
        on.ask("LPUSH", (&undelivered, texts)).await?;
        on.ask("LTRIM", (&undelivered, 0, MOST_UNDELIVERED - 1)).await?;
        self.drop_notes(on, &leases).await
    }

    /// How many notes no batch took.
    pub(crate) async fn count_undelivered(&self, on: &Connection) -> Result<u64, Fault> {
        on.ask("LLEN", self.keys.undelivered()).await?.count()
    }

    /// Drops notes of which all that follows is in.
    pub(crate) async fn drop_notes(&self, on: &Connection, leases: &[String]) -> Result<(), Fault> {
        on.ask("HDEL", (self.keys.notes(), leases)).await.map(drop)
    }
}
