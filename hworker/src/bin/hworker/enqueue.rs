//! Enqueues a job by its name.

use std::io::Read;

use hworker::JobType;
use serde_json::Value;

use crate::Context;
use crate::args::Enqueue;
use crate::schema;
use crate::stop::Stop;

/// As it is printed.
#[derive(serde::Serialize)]
struct Enqueued {
    id: String,
}

pub(crate) async fn run(context: &Context, command: Enqueue) -> Result<(), Stop> {
    let args = read(&command.args)?;
    let value: Value = serde_json::from_str(&args)
        .map_err(|error| Stop::usage(format!("the arguments are no JSON: {error}")))?;
    let mut known: Option<JobType> = None;
    if !command.no_check {
        known = Some(checked(context, &command.name, &value).await?);
    }
    let version = known.as_ref().map(|job| job.version).or(command.args_version);
    let queue = command.queue.clone().or(known.map(|job| job.queue));
    let queue = queue.unwrap_or_else(|| hworker::defaults::QUEUE.to_owned());
    let what = format!("{} of {}", command.count, command.name);
    // On the heap, as an enqueue is large.
    let enqueued = Box::pin(async {
        let mut ids: Vec<String> = Vec::new();
        for _ in 0..command.count {
            let mut job = context.client.job_by_name(&command.name, &args).queue(&queue);
            if let Some(version) = version {
                job = job.args_version(version);
            }
            if let Some(delay) = command.delay {
                job = job.delay(delay);
            }
            if let Some(priority) = command.priority {
                job = job.priority(priority);
            }
            if command.front {
                job = job.front();
            }
            if let Some(id) = &command.id {
                job = job.id(id);
            }
            if let Some(tag) = &command.to {
                job = job.to(tag);
            }
            if command.on_each {
                job = job.on_each();
            }
            if let Some(workers) = command.on_each_of {
                job = job.on_each_of(workers);
            }
            for tag in &command.tag {
                job = job.tag(tag);
            }
            let id = job.enqueue().await.map_err(|error| match ids.len() {
                0 => Stop::from(error),
                _ => Stop::from(error).after(&format!("enqueued {}", ids.join(" "))),
            })?;
            ids.push(id.to_string());
        }
        let result = format!("enqueued {}", ids.join(" "));
        Ok((ids, crate::output::cut(&result, 1000)))
    });
    let ids = context.audited("enqueue", &queue, &what, enqueued).await?;
    let ids: Vec<_> = ids.into_iter().map(|id| Enqueued { id }).collect();
    context.output.rows(&["ID"], &ids, |job| vec![job.id.clone()])
}

/// The job type as workers wrote it down, where the arguments fit it.
pub(crate) async fn checked(context: &Context, name: &str, args: &Value) -> Result<JobType, Stop> {
    let types = context.client.job_types().await?;
    let job = schema::find(&types, name)?;
    schema::check(job, args)?;
    Ok(job.clone())
}

/// A text that is given as it is, as `@file`, or as `-` for the standard input.
pub(crate) fn read(args: &str) -> Result<String, Stop> {
    let failed =
        |what: &str, error: std::io::Error| Stop::usage(format!("could not read {what}: {error}"));
    if args == "-" {
        let mut text = String::new();
        std::io::stdin()
            .read_to_string(&mut text)
            .map_err(|error| failed("the standard input", error))?;
        return Ok(text);
    }
    match args.strip_prefix('@') {
        Some(file) => std::fs::read_to_string(file).map_err(|error| failed(file, error)),
        None => Ok(args.to_owned()),
    }
}
