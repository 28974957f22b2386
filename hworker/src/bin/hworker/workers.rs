//! Workers, dead ones, and what people did.

use std::time::Duration;

use hworker::{AuditEntry, DeadWorker, WorkerInfo};
use serde::Serialize;

use crate::Context;
use crate::args::{Whom, Workers};
use crate::output::{Form, cut};
use crate::rows::{from_now, now, number, span, utc};
use crate::stop::Stop;

pub(crate) async fn run(context: &Context, command: Workers) -> Result<(), Stop> {
    match command {
        Workers::Ls => ls(context).await,
        Workers::Show { id } => show(context, &id).await,
        Workers::Quiet { whom } => order(context, "quiet", &whom, Order::Quiet).await,
        Workers::Resume { whom } => order(context, "resume", &whom, Order::Resume).await,
        Workers::Scale { whom, slots } => order(context, "scale", &whom, Order::Scale(slots)).await,
        Workers::Stop { whom, grace } => order(context, "stop", &whom, Order::Stop(grace)).await,
    }
}

/// What workers are ordered.
enum Order {
    Quiet,
    Resume,
    /// Without a number as many as their settings say.
    Scale(Option<usize>),
    Stop(Option<Duration>),
}

async fn order(context: &Context, verb: &str, whom: &Whom, order: Order) -> Result<(), Stop> {
    let (control, shown) = match (&whom.id, &whom.label) {
        (Some(id), _) => (context.client.worker(id), id.clone()),
        (None, Some(label)) => {
            (context.client.workers_of_label(label), format!("all of the label {label}"))
        }
        (None, None) => return Err(Stop::usage("say which worker: its id, or --label web-1")),
    };
    let what = match order {
        Order::Scale(Some(slots)) => format!("{shown} to {slots}"),
        _ => shown,
    };
    if matches!(order, Order::Stop(_)) {
        context.ask(&format!("stop {what}"), "", 1).await?;
    }
    let told = context
        .audited(verb, "", &what, async {
            let told = match order {
                Order::Quiet => control.quiet().await?,
                Order::Resume => control.resume().await?,
                Order::Scale(Some(slots)) => control.scale(slots).await?,
                Order::Scale(None) => control.unscale().await?,
                Order::Stop(grace) => control.stop(grace).await?,
            };
            Ok((told, format!("told {told}")))
        })
        .await?;
    context.output.one(&serde_json::json!({ "told": told }), &[("told", told.to_string())])
}

/// `quiet`, `stopping` or `blocked`.
pub(crate) fn state(worker: &WorkerInfo) -> &'static str {
    match worker {
        worker if worker.stopping => "stopping",
        worker if worker.blocked_since.is_some() => "blocked",
        worker if worker.quiet => "quiet",
        _ => "",
    }
}

/// The workers of all queues, each once.
async fn all(context: &Context) -> Result<Vec<WorkerInfo>, Stop> {
    let mut workers: Vec<WorkerInfo> = Vec::new();
    for queue in context.client.queues().await? {
        for worker in context.client.inspect(&queue.name).workers().await? {
            match workers.iter_mut().find(|known| known.id == worker.id) {
                None => workers.push(worker),
                Some(known) => {
                    known.processed += worker.processed;
                    known.failed += worker.failed;
                    known.running.extend(worker.running);
                }
            }
        }
    }
    workers.sort_by(|one, other| one.id.cmp(&other.id));
    Ok(workers)
}

async fn ls(context: &Context) -> Result<(), Stop> {
    let head = [
        "WORKER", "HOST", "PID", "QUEUES", "RUN", "SLOTS", "UP", "HEARD", "DONE", "FAILED", "STATE",
    ];
    context.output.rows(&head, &all(context).await?, |worker| {
        vec![
            worker.id.clone(),
            worker.host.clone(),
            worker.pid.to_string(),
            worker.queues.join(","),
            worker.running.len().to_string(),
            worker.concurrency.to_string(),
            from_now(Some(worker.started)),
            span(u64::try_from(worker.heard.as_millis()).unwrap_or(u64::MAX)),
            number(worker.processed),
            number(worker.failed),
            state(worker).to_owned(),
        ]
    })
}

async fn show(context: &Context, id: &str) -> Result<(), Stop> {
    let worker = all(context).await?.into_iter().find(|worker| worker.id == id);
    let worker = worker.ok_or_else(|| Stop::not_found(format!("no live worker {id}")))?;
    let mut running = worker.running.clone();
    running.sort_by_key(|job| job.since);
    let line = |job: &hworker::RunningJob| {
        let id = job.id.as_ref().map_or("-", |id| id.as_str());
        let name = job.job.as_deref().unwrap_or("-");
        format!("{id} {name} attempt {} for {}", job.attempt, span(now().saturating_sub(job.since)))
    };
    let lines = [
        ("worker", worker.id.clone()),
        ("host", worker.host.clone()),
        ("pid", worker.pid.to_string()),
        ("version", worker.version.clone()),
        ("queues", worker.queues.join(", ")),
        ("slots", format!("{} of {} run", worker.running.len(), worker.concurrency)),
        ("state", state(&worker).to_owned()),
        ("started", utc(worker.started)),
        ("running", running.iter().map(line).collect::<Vec<_>>().join("\n")),
    ];
    context.output.one(&worker, &lines)
}

/// Dead workers, the latest first, and what they may have died of.
pub(crate) async fn crashes(context: &Context) -> Result<(), Stop> {
    let dead = context.client.dead_workers().await?;
    let head = ["WHEN", "WORKER", "PID", "QUEUES", "JOBS", "OF", "MOST CRASHES"];
    context.output.rows(&head, &dead, |dead| {
        let mut types: Vec<_> = dead.types.iter().collect();
        types.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let types = types.iter().map(|(job, count)| format!("{job} {count}"));
        // One crash says nothing: all that it held have that.
        let most = dead.held.first().filter(|job| job.crashes > 1);
        let most = most
            .map(|job| format!("{} {} {}", job.crashes, job.job, job.id.as_deref().unwrap_or("-")));
        vec![
            utc(dead.at),
            dead.worker.clone(),
            dead.pid.clone(),
            dead.queues.join(","),
            if dead.stopping { "stopping".to_owned() } else { number(dead.jobs) },
            cut(&types.collect::<Vec<_>>().join(", "), 60),
            most.unwrap_or_default(),
        ]
    })?;
    if context.output.form != Form::Table {
        return Ok(());
    }
    let beyond = DeadWorker::suspects(&dead);
    for suspect in beyond.iter().filter(|suspect| suspect.deaths as f64 > suspect.expected + 0.5) {
        context.output.say(&format!(
            "{} of {} dead workers held a job {}; by chance it would be {:.1}",
            suspect.deaths,
            dead.len(),
            suspect.job,
            suspect.expected
        ))?;
    }
    Ok(())
}

#[derive(Debug, Serialize)]
struct Row {
    at: u64,
    #[serde(flatten)]
    entry: AuditEntry,
}

/// What people did, the newest first.
pub(crate) async fn audit(context: &Context, limit: usize) -> Result<(), Stop> {
    let entries = context.client.audit_log(limit).await?;
    let rows: Vec<_> = entries
        .into_iter()
        .map(|entry| {
            let at = entry.id.split('-').next().and_then(|ms| ms.parse().ok()).unwrap_or(0);
            Row { at, entry }
        })
        .collect();
    let head = ["WHEN", "WHO", "ACTION", "QUEUE", "WHAT", "RESULT"];
    context.output.rows(&head, &rows, |Row { at, entry }| {
        vec![
            utc(*at),
            entry.who.clone(),
            entry.action.clone(),
            entry.queue.clone(),
            entry.what.clone(),
            entry.result.clone(),
        ]
    })
}
