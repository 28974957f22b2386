//! Queues in lines, and one of them.

use std::collections::BTreeMap;
use std::time::Duration;

use hworker::{Counts, Error, Group, Pause, QueueInfo};
use serde::Serialize;

use crate::Context;
use crate::args::{OneOrAll, Queues, Stats};
use crate::output::{shown, tell};
use crate::rows::{from_now, millis, now, number, span};
use crate::stop::Stop;

/// A queue in a line.
#[derive(Debug, Serialize)]
struct Row {
    name: String,
    /// Since when the job that is next waits, in ms since 1970.
    oldest: Option<u64>,
    workers: usize,
    paused: Option<Pause>,
    #[serde(flatten)]
    counts: Counts,
    /// Of today, in UTC.
    processed: u64,
}

const HEAD: [&str; 11] = [
    "QUEUE", "WAIT", "OLDEST", "RUN", "SCHED", "PARKED", "FAILED", "BROKEN", "WORKERS", "DONE",
    "STATE",
];

fn cells(row: &Row) -> Vec<String> {
    vec![
        row.name.clone(),
        number(row.counts.waiting),
        // A producer's clock may be ahead.
        from_now(row.oldest.map(|at| at.min(now()))),
        number(row.counts.running),
        number(row.counts.scheduled),
        number(row.counts.parked),
        number(row.counts.failed),
        number(row.counts.broken),
        number(row.workers as u64),
        number(row.processed),
        state(row.paused),
    ]
}

/// `paused`, and until when that is.
fn state(paused: Option<Pause>) -> String {
    match paused {
        None => String::new(),
        Some(pause) => match pause.until {
            None => "paused".to_owned(),
            until => format!("paused, ends {}", from_now(until)),
        },
    }
}

pub(crate) async fn run(context: &Context, command: Queues) -> Result<(), Stop> {
    match command {
        Queues::Ls(which) => stats(context, &which).await,
        Queues::Show { queue } => show(context, &queue).await,
        Queues::Pause { which, duration } => pause(context, &which, duration).await,
        Queues::Resume { which } => resume(context, &which).await,
        Queues::Destroy { queue, force } => destroy(context, &queue, force).await,
    }
}

/// Every queue in a line, or some.
pub(crate) async fn stats(context: &Context, which: &Stats) -> Result<(), Stop> {
    let mut names = match &which.queue {
        Some(queue) => vec![queue.clone()],
        None => context.client.list_queues().await?,
    };
    names.retain(|name| name.contains(&which.name));
    let mut rows = Vec::new();
    let mut left = names.into_iter();
    while rows.len() < which.limit
        && let Some(name) = left.next()
    {
        let inspect = context.client.inspect(&name);
        let QueueInfo { counts, workers, paused, .. } = inspect.summary().await?;
        if counts == Counts::default() && workers == 0 && paused.is_none() {
            continue;
        }
        let oldest = readable(inspect.oldest().await)?;
        let statistics = readable(inspect.statistics(None).await)?;
        let processed = statistics.get("processed").copied().unwrap_or(0);
        rows.push(Row { name, oldest, workers, paused, counts, processed });
    }
    if let (Some(queue), true) = (&which.queue, rows.is_empty()) {
        return Err(Stop::not_found(format!("the queue {queue} has no jobs and no workers")));
    }
    context.output.rows(&HEAD, &rows, cells)?;
    match left.len() {
        0 => {}
        more => tell(&format!("{more} more queues: --name TEXT or --limit {}", which.limit * 10)),
    }
    Ok(())
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
    let is_empty = *counts == Counts::default() && shown.statistics.is_empty();
    if is_empty && !context.client.list_queues().await?.iter().any(|name| name == queue) {
        return Err(Stop::not_found(format!("no queue {queue} is known")));
    }
    let mut lines = vec![
        ("queue", queue.to_owned()),
        (
            "waiting",
            format!(
                "{}, the oldest {}",
                number(counts.waiting),
                from_now(shown.oldest.map(|at| at.min(now())))
            ),
        ),
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

async fn pause(
    context: &Context,
    which: &OneOrAll,
    duration: Option<Duration>,
) -> Result<(), Stop> {
    let what = duration.map_or_else(
        || "until it is resumed".to_owned(),
        |duration| format!("for {}", span(millis(duration))),
    );
    let paused = context
        .audited("pause", which.shown(), &what, async {
            match &which.queue {
                None => context.client.pause_all(duration).await?,
                Some(queue) => {
                    let control = context.client.control(queue);
                    match duration {
                        None => control.pause().await?,
                        Some(duration) => control.pause_for(duration).await?,
                    }
                }
            }
            Ok(("paused".to_owned(), "paused".to_owned()))
        })
        .await?;
    let value = serde_json::json!({ "queue": which.shown(), "paused": true });
    context.output.one(&value, &[("queue", which.shown().to_owned()), ("state", paused)])
}

async fn resume(context: &Context, which: &OneOrAll) -> Result<(), Stop> {
    let resumed = context
        .audited("resume", which.shown(), "", async {
            let resumed = match &which.queue {
                None => context.client.resume_all().await?,
                Some(queue) => usize::from(context.client.control(queue).resume().await?),
            };
            Ok((resumed, format!("resumed {resumed}")))
        })
        .await?;
    let value = serde_json::json!({ "queue": which.shown(), "resumed": resumed });
    let state = if resumed > 0 { "resumed" } else { "was not paused" };
    context.output.one(&value, &[("queue", which.shown().to_owned()), ("state", state.to_owned())])
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
