//! Jobs in any state, and those that failed or are scheduled.

use std::time::Duration;

use hworker::{
    Action, Edit, Group, Inspect, JobId, JobInfo, JobState, JobType, LogLine, Progress, When,
};
use serde_json::{Value, json};

use crate::Context;
use crate::args::{Failed, Jobs, List, Scheduled};
use crate::output::{Form, hide, tell, without};
use crate::rows::{self, from_now, utc};
use crate::select::Of;
use crate::stop::Stop;

pub(crate) async fn run(context: &Context, command: Jobs) -> Result<(), Stop> {
    match command {
        Jobs::Ls(list) => ls(context, &list, JobState::Waiting).await,
        Jobs::Show { queue, id, dump } => show(context, queue.name(), &id, dump).await,
        Jobs::Log { queue, id, follow } => log(context, queue.name(), &id, follow).await,
        Jobs::Retry { select, reset } => {
            context.change("retry", &select, Of::Any(JobState::Failed), retry(reset)).await
        }
        Jobs::Delete { select } => {
            context.change("delete", &select, Of::Any(JobState::Failed), Action::Delete).await
        }
        Jobs::Cancel { select } => {
            context.change("cancel", &select, Of::Any(JobState::Waiting), Action::Cancel).await
        }
        Jobs::At { select, delay } => {
            let at = Action::Reschedule(When::In(delay));
            context.change("reschedule", &select, Of::Any(JobState::Waiting), at).await
        }
        Jobs::Priority { select, to } => {
            let action = Action::SetPriority(to);
            context
                .change("give another priority to", &select, Of::Any(JobState::Waiting), action)
                .await
        }
        Jobs::Promote { select } => {
            context.change("promote", &select, Of::Any(JobState::Scheduled), Action::Promote).await
        }
        Jobs::Move { select, to } => {
            context.change("move", &select, Of::Any(JobState::Waiting), Action::MoveTo(to)).await
        }
        Jobs::Edit { select, set, tag, no_check } => {
            let edit = edit(&set, tag)?;
            let selected = context.select(&select, Of::Any(JobState::Waiting)).await?;
            if !no_check {
                crate::schema::check_edits(context, &selected.jobs, &set).await?;
            }
            context.change_selected("edit", &selected, Action::Edit(edit), select.dry_run).await
        }
    }
}

pub(crate) async fn failed(context: &Context, command: Failed) -> Result<(), Stop> {
    match command {
        Failed::Ls(list) => ls(context, &list, JobState::Failed).await,
        Failed::Show { queue, id } => show(context, queue.name(), &id, false).await,
        Failed::Groups { queue } => groups(context, queue.name()).await,
        Failed::Retry { select, reset } => {
            context.change("retry", &select, Of::Only(JobState::Failed), retry(reset)).await
        }
        Failed::Delete { select } => {
            context.change("delete", &select, Of::Only(JobState::Failed), Action::Delete).await
        }
    }
}

pub(crate) async fn scheduled(context: &Context, command: Scheduled) -> Result<(), Stop> {
    match command {
        Scheduled::Ls(list) => ls(context, &list, JobState::Scheduled).await,
        Scheduled::Promote { select } => {
            context.change("promote", &select, Of::Only(JobState::Scheduled), Action::Promote).await
        }
        Scheduled::Delete { select } => {
            context.change("delete", &select, Of::Only(JobState::Scheduled), Action::Delete).await
        }
        Scheduled::At { select, delay } => {
            let at = Action::Reschedule(When::In(delay));
            context.change("reschedule", &select, Of::Only(JobState::Scheduled), at).await
        }
    }
}

fn retry(reset: bool) -> Action {
    if reset { Action::Reset } else { Action::Retry }
}

/// `args.user_id=42` of the command line, in JSON or else as text.
pub(crate) fn assignment(set: &str) -> Result<(String, String), Stop> {
    let wrong = || Stop::usage(format!("`{set}` is not of the form `args.user_id=42`"));
    let (path, value) = set.split_once('=').ok_or_else(wrong)?;
    let path = path.strip_prefix("args.").filter(|path| !path.is_empty()).ok_or_else(wrong)?;
    let json = match serde_json::from_str::<Value>(value) {
        Ok(_) => value.to_owned(),
        Err(_) => Value::String(value.to_owned()).to_string(),
    };
    Ok((path.to_owned(), json))
}

fn edit(set: &[String], tags: Vec<String>) -> Result<Edit, Stop> {
    if set.is_empty() && tags.is_empty() {
        return Err(Stop::usage("say what changes: --set args.user_id=42, or --tag eu"));
    }
    let mut edit = Edit::new();
    for set in set {
        let (path, json) = assignment(set)?;
        edit = edit.arg(path, json);
    }
    Ok(if tags.is_empty() { edit } else { edit.tags(tags) })
}

/// A page.
pub(crate) async fn ls(context: &Context, list: &List, state: JobState) -> Result<(), Stop> {
    let filter = list.which.filter()?;
    let queue = context.client.inspect(list.queue.named_by(&filter)?);
    let state = list.state.or(filter.state()).unwrap_or(state);
    let mut asked = queue.jobs(state).filter(filter).limit(list.limit);
    if let Some(order) = list.order {
        asked = asked.order(order);
    }
    if let Some(cursor) = &list.cursor {
        asked = asked.after(cursor);
    }
    let page = asked.page().await?;
    let types = context.types(&page.items).await?;
    let rows: Vec<_> =
        page.items.iter().map(|job| in_json(job, &types)).collect::<Result<_, _>>()?;
    if context.output.form == Form::Json {
        context.output.rows(&[], &rows, |_| Vec::new())?;
    } else {
        context.output.rows(&rows::HEAD, &page.items, rows::cells)?;
    }
    if let Some(next) = page.next {
        let looked = if page.scanned > page.items.len() as u64 {
            format!("; {} of {} looked at", rows::number(page.scanned), rows::number(page.total))
        } else {
            String::new()
        };
        tell(&format!("more: --cursor {next}{looked}"));
    }
    if !page.complete {
        tell("not all of this list can be reached");
    }
    Ok(())
}

impl Context {
    /// The job types that workers wrote down, to hide what is not to be shown.
    pub(crate) async fn types(&self, jobs: &[JobInfo]) -> Result<Vec<JobType>, Stop> {
        if jobs.is_empty() { Ok(Vec::new()) } else { Ok(self.client.job_types().await?) }
    }
}

/// The arguments that are not shown. `None` where no worker has written down which those are: then none is.
fn redacted<'a>(job: &JobInfo, types: &'a [JobType]) -> Option<&'a [String]> {
    let name = job.job.as_deref().unwrap_or_default();
    types.iter().find(|known| known.is_called(name)).map(|known| &*known.redact)
}

/// A job in JSON, without the arguments that no tool shows.
pub(crate) fn in_json(job: &JobInfo, types: &[JobType]) -> Result<Value, Stop> {
    let mut value = serde_json::to_value(job).map_err(|error| Stop::failed(error.to_string()))?;
    if let Some(args) = value.get_mut("args") {
        match redacted(job, types) {
            Some(redacted) => hide(args, redacted),
            None => *args = Value::String("•••".to_owned()),
        }
    }
    if let Some(result) = value.get_mut("result").filter(|result| !result.is_null())
        && redacted(job, types).is_none()
    {
        *result = Value::String("•••".to_owned());
    }
    Ok(value)
}

async fn groups(context: &Context, queue: &str) -> Result<(), Stop> {
    let groups = context.client.inspect(queue).groups().await?;
    let head = ["GROUP", "COUNT", "JOB", "FIRST", "LAST", "MESSAGE"];
    context.output.rows(&head, &groups, |group| group_cells(group).into())
}

/// A group of failures in a line.
pub(crate) fn group_cells(group: &Group) -> [String; 6] {
    [
        group.name.clone(),
        rows::number(group.count),
        group.job.clone(),
        from_now(Some(group.first)),
        from_now(Some(group.last)),
        crate::output::cut(&format!("{}: {}", group.kind, group.message), 80),
    ]
}

/// How far a job is, in a line.
fn how_far(progress: &Progress) -> String {
    let Progress { done, of, at, .. } = progress;
    let left = progress.time_left().filter(|_| done < of);
    let left = left.map(|left| {
        format!(", about {} left", rows::span(u64::try_from(left.as_millis()).unwrap_or(u64::MAX)))
    });
    let note = progress.note.as_ref().map(|note| format!(": {note}")).unwrap_or_default();
    let (left, since) = (left.unwrap_or_default(), from_now(Some(*at)));
    format!("{:.0} %, {done} of {of}{left} ({since}){note}", progress.percent())
}

/// So often it is looked what a body has logged.
const LOOKS: Duration = Duration::from_secs(1);

/// The log of a job.
async fn log(context: &Context, queue: &str, id: &str, follow: bool) -> Result<(), Stop> {
    let inspect = context.client.inspect(queue);
    let id = JobId::from(id);
    let mut last: Option<LogLine> = None;
    loop {
        let found = if follow { inspect.find(&id).await? } else { None };
        let state = found.map(|job| job.state);
        let mut lines = inspect.log(&id).await?;
        let is_unknown = last.is_none() && lines.is_empty() && state.is_none();
        if is_unknown && (follow || inspect.find(&id).await?.is_none()) {
            return Err(Stop::not_found(format!(
                "job {id} is not on the queue {queue}; another queue is named with -q"
            )));
        }
        if let Some(at) = lines.iter().rposition(|line| last.as_ref() == Some(line)) {
            lines.drain(..=at);
        }
        for line in &lines {
            let text = format!("{} #{} {}", utc(line.at), line.attempt, line.text);
            context.output.line(line, &text)?;
        }
        last = lines.pop().or(last);
        let goes_on = state.is_some_and(|state| !has_ended(state));
        if !goes_on {
            return Ok(());
        }
        tokio::time::sleep(LOOKS).await;
    }
}

fn has_ended(state: JobState) -> bool {
    use JobState::{Broken, Cancelled, Done, Expired, Failed};
    matches!(state, Done | Failed | Cancelled | Expired | Broken)
}

/// All that is known of a job.
async fn show(context: &Context, queue: &str, id: &str, dump: bool) -> Result<(), Stop> {
    let inspect: Inspect = context.client.inspect(queue);
    let id = JobId::from(id);
    let found = inspect.find(&id).await?;
    let job = found.ok_or_else(|| {
        Stop::not_found(format!(
            "job {id} is not on the queue {queue}; another queue is named with -q"
        ))
    })?;
    let types = context.types(std::slice::from_ref(&job)).await?;
    let value = in_json(&job, &types)?;
    let time = |ms: Option<u64>| ms.map(|ms| format!("{} ({})", utc(ms), from_now(Some(ms))));
    let mut lines = vec![
        ("id", id.as_str().to_owned()),
        ("job", job.job.clone().unwrap_or_default()),
        ("queue", job.queue.clone()),
        ("state", job.state.to_string()),
        ("priority", job.priority.to_string()),
        ("when", time(job.at).unwrap_or_default()),
        ("enqueued", time(job.enqueued_at()).unwrap_or_default()),
        ("attempt", job.attempt.to_string()),
        ("worker", job.worker.clone().unwrap_or_default()),
        ("tags", job.tags().join(", ")),
        ("group", job.group.clone().unwrap_or_default()),
        (
            "args",
            match redacted(&job, &types) {
                Some(redacted) => without(job.args(), redacted),
                None => "••• (no worker has written down which of them may be shown)".to_owned(),
            },
        ),
    ];
    if let Some(result) = job.result() {
        let is_shown = redacted(&job, &types).is_some();
        lines.push(("result", if is_shown { result.to_owned() } else { "•••".to_owned() }));
    } else if job.state == JobState::Done {
        lines.push(("message", job.message.clone().unwrap_or_default()));
    }
    if let Some(progress) = &job.progress {
        lines.push(("progress", how_far(progress)));
    }
    if job.log_lines > 0 {
        lines.push(("log", format!("{} lines: hworker jobs log -q {queue} {id}", job.log_lines)));
    }
    let name = job.job.as_deref().unwrap_or_default();
    let has_versions = types.iter().any(|known| known.is_called(name) && known.version > 1);
    if has_versions || job.args_version() > 1 {
        lines.push(("args_v", job.args_version().to_string()));
    }
    lines.push(("parent", job.parent().map(|id| id.to_string()).unwrap_or_default()));
    for (name, value) in job.meta() {
        lines.push(("meta", format!("{name} = {value}")));
    }
    for error in job.errors() {
        let took = error
            .started_at
            .map(|at| format!(" after {}", rows::span(error.at.saturating_sub(at))));
        let place = error.place.as_ref().map(|place| format!(" at {place}")).unwrap_or_default();
        lines.push((
            "error",
            format!(
                "attempt {}, {}{}, {}\n{}: {}{place}",
                error.attempt,
                utc(error.at),
                took.unwrap_or_default(),
                error.worker,
                error.kind,
                error.message
            ),
        ));
    }
    for crash in &job.crashes {
        lines.push(("crash", format!("{}, {}", utc(crash.at), crash.worker)));
    }
    lines.push(("place", job.place.clone().unwrap_or_default()));
    lines.push(("backtrace", job.backtrace.clone().unwrap_or_default()));
    let mut value = value;
    if dump {
        let known = types.iter().find(|known| Some(known.name.as_str()) == job.job.as_deref());
        let summary = inspect.summary().await?;
        value = json!({
            "job": value,
            "type": known,
            "queue": summary,
            "hworker": env!("CARGO_PKG_VERSION"),
        });
        lines.push(("dump", serde_json::to_string_pretty(&value).unwrap_or_default()));
    }
    context.output.one(&value, &lines)
}
