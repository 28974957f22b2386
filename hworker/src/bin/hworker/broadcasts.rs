//! The jobs that each worker runs.

use hworker::JobId;
use serde_json::json;

use crate::Context;
use crate::args::Broadcasts;
use crate::rows::utc;
use crate::stop::Stop;

pub(crate) async fn run(context: &Context, command: Broadcasts) -> Result<(), Stop> {
    match command {
        Broadcasts::Ls { queue } => ls(context, queue.name()).await,
        Broadcasts::Cancel { queue, id } => cancel(context, queue.name(), id.into()).await,
    }
}

async fn ls(context: &Context, queue: &str) -> Result<(), Stop> {
    let broadcasts = context.client.control(queue).broadcasts().await?;
    let titles = ["ID", "JOB", "WORKERS", "RUNNING", "RETRYING", "ENDED", "UNTIL"];
    context.output.rows(&titles, &broadcasts, |broadcast| {
        vec![
            broadcast.id.to_string(),
            broadcast.job.clone(),
            broadcast.workers.map_or_else(|| "all".to_owned(), |workers| workers.to_string()),
            broadcast.running.to_string(),
            broadcast.retrying.to_string(),
            broadcast.ended.to_string(),
            utc(broadcast.expires_at),
        ]
    })
}

async fn cancel(context: &Context, queue: &str, id: JobId) -> Result<(), Stop> {
    let what = format!("the job {id} for each worker");
    let told = context
        .audited("cancel", queue, &what, async {
            let told = context.client.control(queue).cancel_broadcast(&id).await?;
            Ok((told, format!("cancelled, {told} told")))
        })
        .await?;
    let json = json!({ "queue": queue, "id": id, "told": told });
    let lines = [("queue", queue.to_owned()), ("id", id.to_string()), ("told", told.to_string())];
    context.output.one(&json, &lines)
}
