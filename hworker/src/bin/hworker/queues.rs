//! Queues in lines, and one of them.

use std::collections::BTreeMap;

use hworker::{Counts, Error, Group};
use serde::Serialize;

use crate::Context;
use crate::args::Queues;
use crate::output::{shown, tell};
use crate::rows::{from_now, number};
use crate::stop::Stop;

/// A queue in a line.
#[derive(Debug, Serialize)]
struct Row {
    name: String,
    /// When the job that is next was enqueued, in ms since 1970 by its producer's clock.
    oldest: Option<u64>,
    workers: usize,
    #[serde(flatten)]
    counts: Counts,
    /// Of today, in UTC.
    processed: u64,
}

const HEAD: [&str; 9] =
    ["QUEUE", "WAIT", "OLDEST", "RUN", "SCHED", "FAILED", "BROKEN", "WORKERS", "DONE"];

fn cells(row: &Row) -> Vec<String> {
    vec![
        row.name.clone(),
        number(row.counts.waiting),
        from_now(row.oldest),
        number(row.counts.running),
        number(row.counts.scheduled),
        number(row.counts.failed),
        number(row.counts.broken),
        number(row.workers as u64),
        number(row.processed),
    ]
}

pub(crate) async fn run(context: &Context, command: Queues) -> Result<(), Stop> {
    match command {
        Queues::Ls => stats(context, None).await,
        Queues::Show { queue } => show(context, &queue).await,
        Queues::Destroy { queue, force } => destroy(context, &queue, force).await,
    }
}

/// Every queue in a line, or one.
pub(crate) async fn stats(context: &Context, queue: Option<&str>) -> Result<(), Stop> {
    let mut rows = Vec::new();
    for found in context.client.queues().await? {
        if queue.is_none_or(|queue| queue == found.name) {
            let inspect = context.client.inspect(&found.name);
            let oldest = readable(inspect.oldest().await)?;
            let statistics = readable(inspect.statistics(None).await)?;
            let processed = statistics.get("processed").copied().unwrap_or(0);
            let (name, counts) = (found.name, found.counts);
            rows.push(Row { name, oldest, workers: found.workers, counts, processed });
        }
    }
    match queue {
        Some(queue) if rows.is_empty() => {
            Err(Stop::not_found(format!("the queue {queue} has no jobs and no workers")))
        }
        _ => context.output.rows(&HEAD, &rows, cells),
    }
}

/// What a look gave; nothing where the server refused it, as where another program wrote to that key.
fn readable<T: Default>(answer: Result<T, Error>) -> Result<T, Stop> {
    match answer {
        Err(Error::Refused { doing, source }) => {
            tell(&shown(&format!("could not {doing}: {source}; hworker doctor says more")));
            Ok(T::default())
        }
        answer => Ok(answer?),
    }
}

/// A queue with all that is counted.
#[derive(Debug, Serialize)]
struct Shown {
    name: String,
    oldest: Option<u64>,
    counts: Counts,
    statistics: BTreeMap<String, u64>,
    groups: Vec<Group>,
}

async fn show(context: &Context, queue: &str) -> Result<(), Stop> {
    let inspect = context.client.inspect(queue);
    let shown = Shown {
        name: queue.to_owned(),
        oldest: readable(inspect.oldest().await)?,
        counts: inspect.counts().await?,
        statistics: readable(inspect.statistics(None).await)?,
        groups: readable(inspect.groups().await)?,
    };
    let counts = &shown.counts;
    let mut lines = vec![
        ("queue", queue.to_owned()),
        ("waiting", format!("{}, the oldest {}", number(counts.waiting), from_now(shown.oldest))),
        ("running", number(counts.running)),
        ("scheduled", number(counts.scheduled)),
        ("parked", number(counts.parked)),
        ("failed", number(counts.failed)),
        ("cancelled", number(counts.cancelled)),
        ("expired", number(counts.expired)),
        ("done kept", number(counts.done)),
        ("broken", number(counts.broken)),
    ];
    let counted = |(name, count): (&String, &u64)| format!("{name} {}", number(*count));
    lines.push(("counted", shown.statistics.iter().map(counted).collect::<Vec<_>>().join("\n")));
    let group = |group: &Group| {
        format!(
            "{} {} {} {}: {}",
            group.name,
            number(group.count),
            group.job,
            group.kind,
            group.message
        )
    };
    let groups: Vec<_> = shown.groups.iter().take(10).map(group).collect();
    lines.push(("groups", groups.join("\n")));
    context.output.one(&shown, &lines)
}

async fn destroy(context: &Context, queue: &str, force: bool) -> Result<(), Stop> {
    // By its name, whatever is in it.
    context
        .ask(&format!("destroy the queue {queue} with all its jobs and records"), queue, u64::MAX)
        .await?;
    let deleted = context
        .audited("destroy", queue, "the queue", async {
            let deleted = context.client.inspect(queue).destroy(force).await?;
            Ok((deleted, format!("{deleted} keys")))
        })
        .await?;
    context.output.one(&serde_json::json!({ "keys": deleted }), &[("keys", deleted.to_string())])
}
