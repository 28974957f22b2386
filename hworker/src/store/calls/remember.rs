//! What bodies report of their jobs.

use redis::Value;

use crate::context::{MOST_BYTES, MOST_LINES};
use crate::keys::WorkerKeys;
use crate::store::net::{Call, Connection, Fault};
use crate::store::queue::Queue;
use crate::store::{CALL_WITHIN, Script};

/// What a body reports of its job.
pub(crate) struct Remembered<'a> {
    pub(crate) lease: String,
    /// The id under which it is kept.
    pub(crate) id: &'a str,
    /// When the job was enqueued, in ms: it tells it from another of its id.
    pub(crate) job: u64,
    /// For how many seconds it is kept.
    pub(crate) kept_s: u64,
    /// The job is done: nothing goes on from its checkpoints.
    pub(crate) is_done: bool,
    /// Those without a value are removed.
    pub(crate) fields: Vec<(&'a str, &'a [u8])>,
    pub(crate) lines: Vec<&'a [u8]>,
}

impl Queue {
    /// Writes what a body reports; false where its lease is held no more.
    pub(crate) async fn remember(
        &self,
        on: &Connection,
        worker: &WorkerKeys,
        what: &Remembered<'_>,
    ) -> Result<bool, Fault> {
        let (live, log) = (self.keys.live_of(what.id), self.keys.log_of(what.id));
        let mut call = Call::new(Script::Remember, &[&worker.progress, &live, &log]);
        call.arg(&what.lease).number(what.kept_s);
        call.number(MOST_LINES as u64).number(MOST_BYTES as u64).number(what.job);
        call.arg(if what.is_done { "1" } else { "" }).number(what.fields.len() as u64);
        for (field, value) in &what.fields {
            call.arg(field).arg(value);
        }
        for line in &what.lines {
            call.arg(line);
        }
        Ok(on.run(&call, CALL_WITHIN).await?.text()? == "ok")
    }

    /// A field of what this job has reported, and not another of its id.
    pub(crate) async fn reported(
        &self,
        on: &Connection,
        (id, job): (&str, u64),
        field: &str,
    ) -> Result<Option<Vec<u8>>, Fault> {
        let mut reply = on.ask("HMGET", (self.keys.live_of(id), "job", field)).await?;
        let own = reply.maybe_payload()?.is_some_and(|own| own == job.to_string().as_bytes());
        Ok(reply.maybe_payload()?.filter(|_| own))
    }

    /// How far a job is, and how many lines its log has.
    pub(crate) async fn progress(
        &self,
        on: &Connection,
        id: &str,
    ) -> Result<(Option<Vec<u8>>, u64), Fault> {
        let mut ask = redis::pipe();
        ask.cmd("HGET").arg(self.keys.live_of(id)).arg("progress");
        ask.cmd("LLEN").arg(self.keys.log_of(id));
        let (mut progress, mut lines) = (None, 0);
        for (at, reply) in on.ask_all(&ask).await?.into_iter().enumerate() {
            let mut reply = reply?;
            match at {
                0 if reply.left() == 0 => {}
                0 => progress = Some(reply.payload()?),
                _ => lines = reply.count()?,
            }
        }
        Ok((progress, lines))
    }

    /// The lines of the log of a job, the oldest first.
    pub(crate) async fn log(&self, on: &Connection, id: &str) -> Result<Vec<Vec<u8>>, Fault> {
        let mut reply = on.ask("LRANGE", (self.keys.log_of(id), 0, -1)).await?;
        reply.rest(|reply| match reply.value()? {
            Value::BulkString(line) => Ok(line),
            _ => Err(reply.fault("no line")),
        })
    }
}
