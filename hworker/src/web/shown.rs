//! What is shown of a job, and to whom: without arguments that no tool shows, and for some without any.

use serde_json::Value;

use super::guard::Asked;
use super::problem::Problem;
use super::site::Site;
use crate::control::{LimitInfo, LockInfo};
use crate::inspect::{Filter, Group, JobInfo};
use crate::manifest::{HIDDEN, JobType};
use crate::reports::LogLine;

/// The fields of a job that hold arguments, or may.
const TELLING: &[&str] = &["args", "result", "meta", "message", "backtrace", "errors", "crashes"];

impl Site {
    /// The job types that workers wrote down, to hide what is not to be shown.
    pub(super) async fn types(&self) -> Result<Vec<JobType>, Problem> {
        Ok(self.client.job_types().await?)
    }
}

/// A job in JSON, as this operator may see it.
pub(super) fn job(job: &JobInfo, types: &[JobType], asked: &Asked) -> Value {
    let mut value = serde_json::to_value(job).unwrap_or_default();
    let name = job.job.as_deref().unwrap_or_default();
    if !asked.operator.sees_args {
        for field in TELLING {
            if let Some(told) = value.get_mut(field).filter(|told| !told.is_null()) {
                *told = match told {
                    Value::Array(_) => Value::Array(Vec::new()),
                    Value::Object(_) if *field == "meta" => Value::Object(serde_json::Map::new()),
                    _ => HIDDEN.into(),
                };
            }
        }
        if let Some(note) = value.pointer_mut("/progress/note").filter(|note| !note.is_null()) {
            *note = HIDDEN.into();
        }
        return value;
    }
    if let Some(args) = value.get_mut("args") {
        match types.iter().find(|known| known.is_called(name)) {
            Some(known) => known.hide(args),
            // None where no worker has written down which they are: then none is shown.
            None => *args = HIDDEN.into(),
        }
    }
    if let Some(result) = value.get_mut("result").filter(|result| !result.is_null())
        && !types.iter().any(|known| known.is_called(name))
    {
        *result = HIDDEN.into();
    }
    value
}

/// A line of the log of a job.
pub(super) fn line(line: LogLine, asked: &Asked) -> LogLine {
    if asked.operator.sees_args { line } else { LogLine { text: HIDDEN.into(), ..line } }
}

/// A group of failures; the text of its error may have arguments in it.
pub(super) fn group(group: Group, asked: &Asked) -> Group {
    if asked.operator.sees_args { group } else { Group { message: HIDDEN.into(), ..group } }
}

/// A limit; the value of a key is one of the arguments.
pub(super) fn limit(limit: LimitInfo, asked: &Asked) -> LimitInfo {
    match limit.name.split_once('=') {
        Some((name, key)) if !asked.operator.sees_args && !key.is_empty() => {
            LimitInfo { name: format!("{name}={HIDDEN}"), ..limit }
        }
        _ => limit,
    }
}

/// A key that a job holds, which is made of its arguments.
pub(super) fn lock(lock: LockInfo, asked: &Asked) -> LockInfo {
    if asked.operator.sees_args { lock } else { LockInfo { key: HIDDEN.into(), ..lock } }
}

/// What is wrong with arguments, which names some of them.
pub(super) fn problem(problem: Problem, asked: &Asked) -> Problem {
    if asked.operator.sees_args { problem } else { problem.wrong(Vec::new()) }
}

/// Who may not see arguments may not look for them either: what is found would tell.
pub(super) fn check_filter(filter: &Filter, asked: &Asked) -> Result<(), Problem> {
    if asked.operator.sees_args || !filter.asks_for_args() && !filter.asks_for_errors() {
        return Ok(());
    }
    Err(Problem::forbidden(
        "who may not see arguments may not look for them, nor for texts of errors",
    ))
}
