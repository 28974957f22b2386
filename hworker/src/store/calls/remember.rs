//! What bodies report of their jobs.

use redis::Value;

use crate::context::{MOST_BYTES, MOST_LINES};
use crate::keys::WorkerKeys;
use crate::store::net::{Call, Connection, Fault};
use crate::store::queue::Queue;
use crate::store::{CALL_WITHIN, Script};

impl Queue {
    /// Writes what a body reports; false where its lease is held no more.
    pub(crate) async fn remember(
        &self,
        on: &Connection,
        (worker, lease): (WorkerKeys, String),
        id: &str,
        kept_s: u64,
        fields: &[(&String, &Vec<u8>)],
        lines: &[&Vec<u8>],
    ) -> Result<bool, Fault> {
        let (live, log) = (self.keys.live_of(id), self.keys.log_of(id));
        let mut call = Call::new(Script::Remember, &[&worker.progress, &live, &log]);
        call.arg(lease).number(kept_s).number(MOST_LINES as u64).number(MOST_BYTES as u64);
        call.number(fields.len() as u64);
        for (field, value) in fields {
            call.arg(field.as_bytes()).arg(value);
        }
        for line in lines {
            call.arg(line);
        }
        Ok(on.run(&call, CALL_WITHIN).await?.text()? == "ok")
    }

    /// A field of what a job has reported.
    pub(crate) async fn reported(
        &self,
        on: &Connection,
        id: &str,
        field: &str,
    ) -> Result<Option<Vec<u8>>, Fault> {
        let mut reply = on.ask("HGET", (self.keys.live_of(id), field)).await?;
        if reply.left() == 0 { Ok(None) } else { reply.payload().map(Some) }
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
