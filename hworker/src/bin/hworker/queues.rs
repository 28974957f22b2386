//! Queues in lines, and one of them.

use std::collections::BTreeMap;
use std::time::Duration;

use hworker::{Chart, Counts, Error, Group, Lately, Pause, QueueInfo, Times, Window};
use serde::Serialize;

use crate::Context;
use crate::args::{ALL, OneOrAll, Past, QueueNames, Queues, Stats};
use crate::change::Audited;
use crate::output::{shown, tell};
use crate::rows::{from_now, millis, now, number, span};
use crate::stop::Stop;

/// A queue in a line.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) name: String,
    /// Since when the job that is next waits, in ms since 1970.
    pub(crate) oldest: Option<u64>,
    pub(crate) workers: usize,
    pub(crate) paused: Option<Pause>,
    #[serde(flatten)]
    pub(crate) counts: Counts,
    /// Ever.
    processed: u64,
    /// Of the time for which `--window` asks.
    pub(crate) lately: Lately,
    run_p95_ms: Option<u64>,
    pub(crate) wait_p95_ms: Option<u64>,
    /// When nothing waits any more, in ms, if all goes on so.
    pub(crate) empty_in_ms: Option<u64>,
    /// How many attempts ended in each point of the chart, the oldest first.
    #[serde(skip)]
    pub(crate) ended: Vec<u64>,
}

/// What a look at queues found.
#[derive(Debug, Default)]
pub(crate) struct Look {
    pub(crate) rows: Vec<Row>,
    /// What the server refused to say, and how many queues were left out.
    pub(crate) notices: Vec<String>,
}

impl Row {
    fn new(
        name: String,
        info: &QueueInfo,
        oldest: Option<u64>,
        processed: u64,
        chart: &Chart,
        points: usize,
    ) -> Self {
        let lately = chart.lately(points, now(), info.counts.waiting);
        let p95 = |times: &Times| times.quantile(0.95).map(millis);
        Self {
            name,
            oldest,
            workers: info.workers,
            paused: info.paused,
            counts: info.counts,
            processed,
            run_p95_ms: p95(&lately.jobs.run),
            wait_p95_ms: p95(&lately.jobs.wait),
            empty_in_ms: lately.empty_in(info.counts.waiting).map(millis),
            ended: chart.points.iter().map(|point| point.total().ended()).collect(),
            lately,
        }
    }
}

const HEAD: [&str; 14] = [
    "QUEUE", "WAIT", "OLDEST", "RUN", "SCHED", "PARKED", "FAILED", "BROKEN", "WORKERS", "DONE/MIN",
    "RUN P95", "WAIT P95", "EMPTY IN", "STATE",
];

/// In the order of `HEAD`.
pub(crate) fn cells(row: &Row) -> [String; 14] {
    [
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
        number(row.lately.ended_per_min.round() as u64),
        row.run_p95_ms.map_or_else(none, span),
        row.wait_p95_ms.map_or_else(none, span),
        row.empty_in_ms.map_or_else(none, span),
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

/// Every queue in a line, or some; with `--watch` again and again, until that is interrupted.
pub(crate) async fn stats(context: &Context, which: &Stats) -> Result<(), Stop> {
    let Some(every) = which.watch else { return stats_once(context, which).await };
    loop {
        context.output.clear()?;
        stats_once(context, which).await?;
        tokio::time::sleep(every).await;
    }
}

async fn stats_once(context: &Context, which: &Stats) -> Result<(), Stop> {
    let past = which.window.unwrap_or(Past::Minutes);
    let look = look(context, which.queue.as_deref(), &which.names, past).await?;
    if let (Some(queue), true) = (&which.queue, look.rows.is_empty()) {
        return Err(Stop::not_found(format!("the queue {queue} has no jobs and no workers")));
    }
    context.output.rows(&HEAD, &look.rows, |row| cells(row).into())?;
    tell_all(&look.notices);
    Ok(())
}

/// Looks at one queue, or at all that are meant.
pub(crate) async fn look(
    context: &Context,
    queue: Option<&str>,
    which: &QueueNames,
    past: Past,
) -> Result<Look, Stop> {
    let mut names = match queue {
        Some(queue) => vec![queue.to_owned()],
        None => context.client.list_queues().await?,
    };
    names.retain(|name| name.contains(&which.name));
    let mut look = Look::default();
    let mut left = names.into_iter();
    while look.rows.len() < which.limit
        && let Some(name) = left.next()
    {
        let row = row(context, name, past, &mut look.notices).await?;
        look.rows.extend(row);
    }
    match left.len() {
        0 => {}
        more => look
            .notices
            .push(format!("{more} more queues: --name TEXT or --limit {}", which.limit * 10)),
    }
    Ok(look)
}

/// The row of a queue; none for one without jobs and workers.
async fn row(
    context: &Context,
    name: String,
    past: Past,
    notices: &mut Vec<String>,
) -> Result<Option<Row>, Stop> {
    let inspect = context.client.inspect(&name);
    let info = inspect.summary().await?;
    if info.counts == Counts::default() && info.workers == 0 && info.paused.is_none() {
        return Ok(None);
    }
    let oldest = readable(inspect.oldest().await, notices)?;
    let statistics = readable(inspect.statistics(None).await, notices)?;
    let processed = statistics.get("processed").copied().unwrap_or(0);
    let (window, points) = past.points();
    let chart = inspect.chart(window).await?;
    Ok(Some(Row::new(name, &info, oldest, processed, &chart, points)))
}

impl Past {
    fn points(self) -> (Window, usize) {
        match self {
            Self::Minutes => (Window::Hour, 5),
            Self::Hour => (Window::Hour, 60),
            Self::Day => (Window::Day, 144),
            Self::Month => (Window::Month, 720),
        }
    }
}

fn none() -> String {
    "-".to_owned()
}

/// What a look gave; nothing, with a notice, where the server refused it, as where another program wrote to that key.
fn readable<T: Default>(answer: Result<T, Error>, notices: &mut Vec<String>) -> Result<T, Stop> {
    match answer {
        Err(Error::Refused { doing, source }) => {
            notices.push(format!("could not {doing}: {source}; hworker doctor says more"));
            Ok(T::default())
        }
        answer => Ok(answer?),
    }
}

fn tell_all(notices: &[String]) {
    for notice in notices {
        tell(&shown(notice));
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
    let mut notices = Vec::new();
    let shown = Shown {
        name: queue.to_owned(),
        oldest: readable(inspect.oldest().await, &mut notices)?,
        counts: inspect.counts().await?,
        statistics: readable(inspect.statistics(None).await, &mut notices)?,
        groups: readable(inspect.groups().await, &mut notices)?,
    };
    tell_all(&notices);
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
    pause_silently(context, which.queue.as_deref(), duration).await.told()?;
    let value = serde_json::json!({ "queue": which.shown(), "paused": true });
    let lines = [("queue", which.shown().to_owned()), ("state", "paused".to_owned())];
    context.output.one(&value, &lines)
}

/// Pauses a queue, or all of them, which stands in the audit. It prints nothing.
pub(crate) async fn pause_silently(
    context: &Context,
    queue: Option<&str>,
    duration: Option<Duration>,
) -> Audited<()> {
    let what = duration.map_or_else(
        || "until it is resumed".to_owned(),
        |duration| format!("for {}", span(millis(duration))),
    );
    let doing = async {
        match queue {
            None => context.client.pause_all(duration).await?,
            Some(queue) => {
                let control = context.client.control(queue);
                match duration {
                    None => control.pause().await?,
                    Some(duration) => control.pause_for(duration).await?,
                }
            }
        }
        Ok(((), "paused".to_owned()))
    };
    context.audited_silently("pause", queue.unwrap_or(ALL), &what, doing).await
}

async fn resume(context: &Context, which: &OneOrAll) -> Result<(), Stop> {
    let resumed = resume_silently(context, which.queue.as_deref()).await.told()?;
    let value = serde_json::json!({ "queue": which.shown(), "resumed": resumed });
    let state = if resumed > 0 { "resumed" } else { "was not paused" };
    context.output.one(&value, &[("queue", which.shown().to_owned()), ("state", state.to_owned())])
}

/// Resumes a queue, or all of them, which stands in the audit. It prints nothing, and gives how many were paused.
pub(crate) async fn resume_silently(context: &Context, queue: Option<&str>) -> Audited<usize> {
    let doing = async {
        let resumed = match queue {
            None => context.client.resume_all().await?,
            Some(queue) => usize::from(context.client.control(queue).resume().await?),
        };
        Ok((resumed, format!("resumed {resumed}")))
    };
    context.audited_silently("resume", queue.unwrap_or(ALL), "", doing).await
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
