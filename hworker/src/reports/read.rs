//! Reads what a body reported.

use serde_json::value::RawValue;

use super::progress::{LogLine, Progress, StoredLine, StoredProgress};
use super::write::{client_of, kept_under, queue_of};
use crate::client::Client;
use crate::context::Context;
use crate::encryption::{self, Owner, Unopened, What, is_sealed};
use crate::envelope::enqueued_at;
use crate::error::Error;
use crate::store::{Connection, Fault, Queue};

/// What a job has reported.
#[derive(Debug, Default)]
pub(crate) struct Reports {
    pub(crate) progress: Option<Progress>,
    /// How many lines its log has.
    pub(crate) lines: u64,
}

/// A field of what the job of this attempt has reported, here or at the server.
pub(super) async fn checkpoint_of(
    context: &Context,
    field: &str,
) -> Result<Option<Vec<u8>>, Error> {
    // What is being written is not to be read before it is there.
    let report = context.report();
    let _order = report.order.lock().await;
    if let Some(value) = report.unwritten().fields.get(field) {
        return Ok(Some(value.clone()).filter(|value| !value.is_empty()));
    }
    let attempt = context.attempt_of();
    let (Some(held), Some(client)) = (&attempt.held, client_of(context)) else { return Ok(None) };
    let queue = queue_of(context, &client);
    let found = async {
        let on = client.connection(&queue).await?;
        let job = (&*kept_under(context), enqueued_at(held.payload()));
        queue.reported(&on, job, field).await
    };
    found.await.map_err(|fault: Fault| {
        let doing = format!("read the checkpoint of job {} {}", context.job(), context.id());
        fault.at(client.address()).into_error(doing)
    })
}

/// What was stored, decrypted where it is encrypted.
pub(super) fn opened(
    client: Option<&Client>,
    what: What,
    id: &str,
    raw: Box<RawValue>,
) -> Result<String, String> {
    if !(raw.get().starts_with('{') && is_sealed(raw.get())) {
        return Ok(Box::<str>::from(raw).into());
    }
    let keys = client.and_then(Client::keys);
    match encryption::open(keys, raw.get(), Owner { what, job: "", id }) {
        Ok(opened) => Ok(opened.as_str().to_owned()),
        Err(Unopened::Refused(why)) => Err(why),
        Err(Unopened::Lacking(what)) => Err(format!("it is {what}")),
    }
}

/// A text for those who look; in its place, why it cannot be read.
fn text(client: &Client, what: What, id: &str, raw: Box<RawValue>) -> String {
    let text = opened(Some(client), what, id, raw).and_then(|json| {
        serde_json::from_str::<String>(&json).map_err(|_| "it is no text".to_owned())
    });
    text.unwrap_or_else(|why| format!("[{why}]"))
}

/// What a body has reported that no server has: its progress and the lines of its log.
#[cfg(feature = "testing")]
pub(crate) fn unwritten(context: &Context) -> (Option<Progress>, Vec<String>) {
    let unwritten = context.report().unwritten();
    let opened = |raw| opened(None, What::Log, context.id().as_str(), raw);
    let text = |raw| opened(raw).ok().and_then(|json| serde_json::from_str::<String>(&json).ok());
    let stored = unwritten.fields.get("progress");
    let stored = stored.and_then(|text| serde_json::from_slice::<StoredProgress>(text).ok());
    let progress = stored.map(|stored| Progress {
        done: stored.done,
        of: stored.of,
        note: stored.note.and_then(text),
        at: stored.at,
        attempt: stored.attempt,
        first_done: stored.first_done,
        first_at: stored.first_at,
    });
    let lines = unwritten.lines.iter();
    let lines = lines.filter_map(|line| serde_json::from_slice::<StoredLine>(line).ok());
    (progress, lines.filter_map(|line| text(line.text)).collect())
}

impl Client {
    /// What a job has reported in this shard.
    pub(crate) async fn reports(
        &self,
        queue: &Queue,
        on: &Connection,
        id: &str,
    ) -> Result<Reports, Fault> {
        let (progress, lines) = queue.progress(on, id).await?;
        let stored = progress.and_then(|text| serde_json::from_slice::<StoredProgress>(&text).ok());
        let progress = stored.map(|stored| Progress {
            done: stored.done,
            of: stored.of,
            note: stored.note.map(|note| text(self, What::Progress, id, note)),
            at: stored.at,
            attempt: stored.attempt,
            first_done: stored.first_done,
            first_at: stored.first_at,
        });
        Ok(Reports { progress, lines })
    }

    /// The lines of the log of a job in this shard, the oldest first.
    pub(crate) async fn log_of(
        &self,
        queue: &Queue,
        on: &Connection,
        id: &str,
    ) -> Result<Vec<LogLine>, Fault> {
        let lines = queue.log(on, id).await?;
        let read = |line: Vec<u8>| {
            let stored: StoredLine = serde_json::from_slice(&line).ok()?;
            let text = text(self, What::Log, id, stored.text);
            Some(LogLine { at: stored.at, attempt: stored.attempt, text })
        };
        Ok(lines.into_iter().filter_map(read).collect())
    }
}
