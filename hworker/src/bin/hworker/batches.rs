//! Batches: jobs that belong together.

use hworker::{BatchAudit, BatchChange, BatchHandle, BatchId, BatchStatus, CallbackState};
use serde_json::json;

use crate::Context;
use crate::args::Batches;
use crate::rows::utc;
use crate::stop::Stop;

/// So many are listed.
const MOST: usize = 1_000;

pub(crate) async fn run(context: &Context, command: Batches) -> Result<(), Stop> {
    match command {
        Batches::Ls => ls(context).await,
        Batches::Show { id } => show(context, &id).await,
        Batches::Cancel { id } => order(context, "cancel", &id).await,
        Batches::Pause { id } => order(context, "pause", &id).await,
        Batches::Resume { id } => order(context, "resume", &id).await,
        Batches::Verify { id } => {
            let audit = context.client.batch(&id).verify().await?;
            tell(context, &id, audit)
        }
        Batches::Repair { id } => {
            let repairing = async {
                let audit = context.client.batch(&id).repair().await?;
                let missing = audit.as_ref().map_or(0, |audit| audit.missing.len());
                Ok((audit, format!("{missing} were missing")))
            };
            let audit =
                context.audited("repair", "", &format!("the batch {id}"), repairing).await?;
            tell(context, &id, audit)
        }
    }
}

fn none(id: &BatchId) -> Stop {
    Stop::not_found(format!("there is no batch {id}"))
}

/// A word of the library, as its JSON has it.
fn word(value: impl serde::Serialize) -> String {
    let json = serde_json::to_value(value).unwrap_or_default();
    json.as_str().map_or_else(|| "-".to_owned(), str::to_owned)
}

async fn ls(context: &Context) -> Result<(), Stop> {
    let batches = context.client.batches(MOST).await?;
    let titles = ["ID", "NAME", "STATE", "MEMBERS", "ENDED", "BAD", "BEGUN"];
    context.output.rows(&titles, &batches, |batch| {
        vec![
            batch.id.to_string(),
            batch.name.clone(),
            word(batch.state),
            batch.total.to_string(),
            batch.ended.to_string(),
            batch.bad.to_string(),
            utc(batch.created_at),
        ]
    })
}

async fn show(context: &Context, id: &BatchId) -> Result<(), Stop> {
    let Some(batch) = context.client.batch(id).status().await? else { return Err(none(id)) };
    let json = serde_json::to_value(&batch).unwrap_or_default();
    context.output.one(&json, &lines(&batch))
}

fn lines(batch: &BatchStatus) -> Vec<(&'static str, String)> {
    let callback = |stands: Option<CallbackState>| stands.map_or_else(|| "-".to_owned(), word);
    let mut lines = vec![
        ("id", batch.id.to_string()),
        ("name", batch.name.clone()),
        ("state", word(batch.state)),
        ("members", batch.total.to_string()),
        ("ended", batch.ended.to_string()),
        ("bad", batch.bad.to_string()),
        ("cancelled", batch.cancelled.to_string()),
        ("begun", utc(batch.created_at)),
        ("queues", batch.queues.join(",")),
        ("on failure", callback(batch.on_failure)),
        ("on settled", callback(batch.on_settled)),
        ("on success", callback(batch.on_success)),
    ];
    if batch.is_abandoned {
        lines.push(("abandoned", "it was open, and did not grow for an hour".to_owned()));
    }
    lines.extend(batch.parent.as_ref().map(|parent| ("parent", parent.to_string())));
    lines.extend(batch.expires_at.map(|at| ("expires", utc(at))));
    if !batch.tags.is_empty() {
        lines.push(("tags", batch.tags.join(",")));
    }
    lines.extend(batch.meta.iter().map(|(name, value)| ("meta", format!("{name}={value}"))));
    let failures = batch.failures.iter();
    lines.extend(failures.map(|failure| {
        ("failure", format!("{} {} {}", failure.member, failure.outcome, failure.id))
    }));
    lines
}

async fn order(context: &Context, order: &str, id: &BatchId) -> Result<(), Stop> {
    let batch: BatchHandle = context.client.batch(id);
    let ordering = async {
        let change = match order {
            "cancel" => batch.cancel().await?,
            "pause" => batch.pause().await?,
            _ => batch.resume().await?,
        };
        let result = match change {
            BatchChange::Unchanged(state) => format!("unchanged: {}", word(state)),
            _ => "changed".to_owned(),
        };
        Ok((change, result))
    };
    let change = context.audited(order, "", &format!("the batch {id}"), ordering).await?;
    let (is_changed, state) = match change {
        BatchChange::Unchanged(state) => (false, word(state)),
        _ => {
            (true, batch.status().await?.map_or_else(|| "-".to_owned(), |batch| word(batch.state)))
        }
    };
    let json = json!({ "id": id, "changed": is_changed, "state": state });
    let lines =
        [("id", id.to_string()), ("changed", is_changed.to_string()), ("state", state.clone())];
    context.output.one(&json, &lines)
}

fn tell(context: &Context, id: &BatchId, audit: Option<BatchAudit>) -> Result<(), Stop> {
    let Some(audit) = audit else { return Err(none(id)) };
    let some = |numbers: &[u64]| {
        let shown: Vec<_> = numbers.iter().take(20).map(u64::to_string).collect();
        let more = if numbers.len() > 20 { ", .." } else { "" };
        format!("{}{more}", shown.join(", "))
    };
    let lines = [
        ("id", id.to_string()),
        ("not ended", audit.alive.to_string()),
        ("missing", audit.missing.len().to_string()),
        ("numbers", some(&audit.missing)),
        ("repaired", audit.is_repaired.to_string()),
    ];
    context.output.one(&serde_json::to_value(&audit).unwrap_or_default(), &lines)
}
