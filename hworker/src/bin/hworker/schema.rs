//! Job types as workers wrote them down, and whether arguments fit them.

use hworker::{JobInfo, JobType};
use serde_json::Value;

use crate::Context;
use crate::args::Schema;
use crate::output::tell;
use crate::rows::{from_now, span};
use crate::schema_diff;
use crate::stop::Stop;

pub(crate) async fn run(context: &Context, command: Schema) -> Result<(), Stop> {
    let types = context.client.job_types().await?;
    match command {
        Schema::Ls => {
            let head = ["JOB", "VERSION", "QUEUE", "TIMEOUT", "ATTEMPTS", "SEEN", "ARGUMENTS"];
            context.output.rows(&head, &types, |job| {
                vec![
                    job.name.clone(),
                    job.version.to_string(),
                    job.queue.clone(),
                    span(job.timeout_ms),
                    job.max_attempts.to_string(),
                    from_now(Some(job.seen)),
                    arguments(job),
                ]
            })
        }
        Schema::Show { name } => {
            let job = find(&types, &name)?;
            let schema: Value = serde_json::from_str(&job.schema).unwrap_or_default();
            let lines = [
                ("job", job.name.clone()),
                ("aliases", job.aliases.join(", ")),
                ("version", version(job)),
                ("queue", job.queue.clone()),
                ("timeout", span(job.timeout_ms)),
                ("attempts", job.max_attempts.to_string()),
                ("encrypted", if job.encrypted { "yes".into() } else { String::new() }),
                ("hidden", job.redact.join(", ")),
                ("place", job.place.clone()),
                ("seen", from_now(Some(job.seen))),
                ("schema", serde_json::to_string_pretty(&schema).unwrap_or_default()),
            ];
            context.output.one(job, &lines)
        }
        Schema::Diff { file } => schema_diff::run(context, &file, &types),
    }
}

fn version(job: &JobType) -> String {
    match job.version {
        1 => "1".to_owned(),
        version if job.upgrades => format!("{version}, older arguments are upgraded"),
        version => format!("{version}, older arguments are read as they are"),
    }
}

/// The job type of this name, or the nearest names.
pub(crate) fn find<'a>(types: &'a [JobType], name: &str) -> Result<&'a JobType, Stop> {
    types.iter().find(|job| job.is_called(name)).ok_or_else(|| {
        let names: Vec<_> = types.iter().map(|job| job.name.as_str()).take(20).collect();
        Stop::not_found(format!(
            "no worker knows a job `{name}`; they know: {}; --no-check enqueues it all the same",
            names.join(", ")
        ))
    })
}

/// The names of the arguments, those that may be left out with a question mark.
fn arguments(job: &JobType) -> String {
    let schema: Value = serde_json::from_str(&job.schema).unwrap_or_default();
    let required: Vec<_> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let names = schema["properties"].as_object().into_iter().flat_map(|names| names.keys());
    let mark = |name: &String| {
        if required.contains(&name.as_str()) { name.clone() } else { format!("{name}?") }
    };
    names.map(mark).collect::<Vec<_>>().join(", ")
}

/// Whether arguments fit a job type: each that does not, with a pointer to it.
pub(crate) fn check(job: &JobType, args: &Value) -> Result<(), Stop> {
    if job.encrypted {
        return Err(Stop::usage(format!(
            "the arguments of `{}` are encrypted, so only a program with its key can write them",
            job.name
        )));
    }
    let wrong: Vec<_> = job
        .misfits(args)
        .into_iter()
        .map(|(pointer, why)| format!("\n  {pointer}: {why}"))
        .collect();
    if wrong.is_empty() {
        return Ok(());
    }
    Err(Stop::usage(format!("the arguments do not fit `{}`:{}", job.name, wrong.concat())))
}

/// Checks what edits would make of arguments.
pub(crate) async fn check_edits(
    context: &Context,
    jobs: &[JobInfo],
    set: &[String],
) -> Result<(), Stop> {
    let types = context.types(jobs).await?;
    for job in jobs {
        let name = job.job.as_deref().unwrap_or_default();
        let Some(known) = types.iter().find(|known| known.is_called(name)) else { continue };
        if job.args_version() != known.version {
            let id = job.id.as_ref().map_or("without an id", |id| id.as_str());
            let (is, known) = (job.args_version(), known.version);
            tell(&format!(
                "the job {id} is not checked: its arguments are of version {is}, and workers wrote down {known}"
            ));
            continue;
        }
        let mut args: Value = serde_json::from_str(job.args()).unwrap_or_default();
        for set in set {
            let (path, json) = crate::jobs::assignment(set)?;
            let value = serde_json::from_str(&json).unwrap_or_default();
            let mut place = &mut args;
            for name in path.split('.') {
                place = &mut place[name];
            }
            *place = value;
        }
        check(known, &args)?;
    }
    Ok(())
}
