//! What has changed of job types since they were printed into a file, and what of it would break jobs that wait.

use hworker::JobType;

use crate::Context;
use crate::enqueue::read;
use crate::stop::Stop;

pub(crate) fn run(context: &Context, file: &str, now: &[JobType]) -> Result<(), Stop> {
    let text = read(&if file == "-" { file.to_owned() } else { format!("@{file}") })?;
    let before = parse(&text).map_err(|why| Stop::usage(format!("{file}, {why}")))?;
    if before.is_empty() {
        return Err(Stop::usage(format!("{file} has no job types; was it written to its end?")));
    }
    let changes = JobType::changes(&before, now);
    context.output.rows(&["JOB", "CHANGE", "BREAKS", "WHAT"], &changes, |change| {
        let breaks = if change.breaks { "yes" } else { "-" };
        vec![change.job.clone(), change.change.into(), breaks.into(), change.what.clone()]
    })?;
    match changes.iter().filter(|change| change.breaks).count() {
        0 => Ok(()),
        breaking => Err(Stop::failed(format!(
            "{breaking} of {} changes would break jobs that wait",
            changes.len()
        ))),
    }
}

/// The job types in what `hworker --json schema ls` prints.
fn parse(text: &str) -> Result<Vec<JobType>, String> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let job = |(at, line)| {
        let wrong = |error| {
            format!("line {}: no job type as `hworker --json schema ls` prints it: {error}", at + 1)
        };
        serde_json::from_str(line).map_err(wrong)
    };
    lines.map(job).collect()
}
