//! Writes what a body reports.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use tokio::time::timeout;

use crate::client::{Client, OfWorker};
use crate::context::{Context, Unwritten};
use crate::envelope::enqueued_at;
use crate::log::say;
use crate::store::{Fault, Queue, Remembered};

/// It is written so soon after the first report, with what comes by then.
const FIRST_AFTER: Duration = Duration::from_millis(20);

/// And at most so often.
const EVERY: Duration = Duration::from_secs(1);

/// An attempt that has ended waits so long for its last reports to be written: as long as a blocking body may run past its deadline.
const LAST_WITHIN: Duration = Duration::from_secs(2);

/// How an attempt ends: what it has reported is kept for so long then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ends {
    /// It runs again, or goes on.
    NotYet,
    /// Well, or because somebody cancelled it.
    Done,
    Failed,
}

impl Ends {
    fn kept_s(self) -> u64 {
        match self {
            Self::NotYet => 7 * 86_400,
            Self::Done => 3_600,
            Self::Failed => 30 * 86_400,
        }
    }
}

/// The client of the worker that runs the attempt.
pub(super) fn client_of(context: &Context) -> Option<Client> {
    context.worker_state::<OfWorker>().map(|OfWorker(client)| client)
}

/// The shard that the job was taken from.
pub(super) fn queue_of(context: &Context, client: &Client) -> Queue {
    let shard = &context.attempt_of().scope.shard;
    Queue::of_label(client.key_space(), shard, client.limits())
}

/// Changes what is to be written, and has it written. Nothing of an attempt that has ended.
pub(super) fn changed<T>(context: &Context, change: impl FnOnce(&mut Unwritten) -> T) -> Option<T> {
    let report = context.report();
    let mut unwritten = report.unwritten();
    if unwritten.is_closed {
        return None;
    }
    let changed = change(&mut unwritten);
    if !unwritten.has_writer
        && !unwritten.is_empty()
        && context.attempt_of().held.is_some()
        && let Some(runtime) = &context.attempt_of().scope.runtime
    {
        unwritten.has_writer = true;
        runtime.spawn(keep_writing(context.clone()));
    }
    Some(changed)
}

/// Writes what there is, and what comes, until nothing comes any more for a while.
async fn keep_writing(context: Context) {
    let mut is_told = false;
    let _ = timeout(FIRST_AFTER, context.over()).await;
    loop {
        match write(&context, Ends::NotYet, false).await {
            // Another worker may have it by now.
            Ok(false) => return context.cancel(),
            Err(fault) if !std::mem::replace(&mut is_told, true) => {
                say!(DEBUG, { id = context.id().clone() },
                    job.id = %id, "what the job reports is not written yet, trying again: {fault}");
            }
            Ok(true) | Err(_) => {}
        }
        // At the end of the attempt there is no more for this task to write.
        let _ = timeout(EVERY, context.over()).await;
        let mut unwritten = context.report().unwritten();
        if unwritten.is_closed || unwritten.is_empty() {
            unwritten.has_writer = false;
            return;
        }
    }
}

/// Writes what there is; false where the job is held no more.
async fn write(context: &Context, ends: Ends, is_last: bool) -> Result<bool, Fault> {
    let report = context.report();
    let _order = report.order.lock().await;
    let (fields, lines) = {
        let mut unwritten = report.unwritten();
        // What comes last says for how long all is kept.
        if !is_last && (unwritten.is_closed || unwritten.is_empty()) {
            return Ok(true);
        }
        unwritten.take()
    };
    let written = send(context, ends, &fields, &lines).await;
    if written.is_err() {
        report.unwritten().put_back(fields, lines);
    }
    written
}

async fn send(
    context: &Context,
    ends: Ends,
    fields: &BTreeMap<String, Vec<u8>>,
    lines: &VecDeque<Vec<u8>>,
) -> Result<bool, Fault> {
    let attempt = context.attempt_of();
    let (Some(held), Some(client)) = (&attempt.held, client_of(context)) else { return Ok(true) };
    let queue = queue_of(context, &client);
    let on = client.connection(&queue).await?;
    let what = Remembered {
        lease: held.lease(),
        id: &kept_under(context),
        job: enqueued_at(held.payload()),
        kept_s: ends.kept_s(),
        is_done: ends == Ends::Done,
        fields: fields.iter().map(|(field, value)| (field.as_str(), value.as_slice())).collect(),
        lines: lines.iter().map(Vec::as_slice).collect(),
    };
    queue.remember(&on, &queue.keys.worker(context.worker()), &what).await
}

/// The id under which it is kept what the attempt reports: of a job that each worker runs, each has its own.
pub(super) fn kept_under(context: &Context) -> Cow<'_, str> {
    let attempt = context.attempt_of();
    if attempt.held.as_ref().is_some_and(|held| held.is_copy()) {
        return format!("{}@{}", attempt.id, context.worker()).into();
    }
    attempt.id.as_str().into()
}

/// Writes the last of what an attempt has reported that ends so: before its lease ends.
pub(crate) async fn last(context: &Context, ends: Ends) {
    let Some(report) = context.reported() else { return };
    report.unwritten().is_closed = true;
    let written = timeout(LAST_WITHIN, write(context, ends, true)).await;
    let why = match written {
        Ok(Ok(_)) => return,
        Ok(Err(fault)) => fault.to_string(),
        Err(_) => "the server did not answer in time".to_owned(),
    };
    say!(WARN, { id = context.id().clone() },
        job.id = %id, "the last of what the job reported, and its last checkpoint, could not be written: {why}");
}
