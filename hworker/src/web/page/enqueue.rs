//! Enqueues a job as the form of its type says.

use std::time::UNIX_EPOCH;

use axum::response::{IntoResponse, Response};
use serde_json::value::RawValue;

use super::deeds::Deed;
use super::fields::Fields;
use super::link::with;
use super::note::Note;
use super::view::View;
use super::{schema, types, when};
use crate::inspect::When;
use crate::manifest::JobType;
use crate::time::{local_unix_ms, millis};
use crate::web::act::{self, NewJob};
use crate::web::problem::Problem;
use crate::web::schema::Number;

/// Enqueues a job and goes to its page; where that cannot be, the form comes again with what is wrong.
pub(super) async fn enqueue(
    view: &View,
    deed: &Deed,
    fields: &Fields,
) -> Result<Response, Problem> {
    let (types, job) = (view.site.types().await?, fields.one("job"));
    let missing = || Problem::not_found(format!("no worker knows a job `{job}`"));
    let known = types.iter().find(|known| known.is_called(job)).ok_or_else(missing)?;
    let queue = fields.given("queue").unwrap_or(&known.queue);
    let enqueued = match new_job(known, fields) {
        Ok(new) => act::enqueue(&view.site, &view.asked, queue, &new).await,
        Err(problem) => Err(problem),
    };
    match enqueued {
        Ok(enqueued) => {
            let note = Note::new(deed, &[u64::from(enqueued.is_new)]);
            let job = with(&view.job_link(queue, &enqueued.id), &[("done", &note.text())]);
            Ok(axum::response::Redirect::to(&job).into_response())
        }
        Err(problem) if problem.status == 422 => {
            let is_json = fields.one("form") == "json";
            let page = types::page(view, &types, job, fields, is_json, Some(&problem)).await?;
            Ok((problem.status(), page).into_response())
        }
        Err(problem) => Err(problem),
    }
}

fn new_job(known: &JobType, fields: &Fields) -> Result<NewJob, Problem> {
    let args = match schema::arguments(&known.schema).filter(|_| fields.one("form") != "json") {
        Some(arguments) => schema::given(&arguments, fields)?,
        None => RawValue::from_string(fields.one("args").trim().to_owned()).map_err(|error| {
            Problem::invalid(format!("the arguments cannot be read as JSON: {error}"))
        })?,
    };
    let due = fields.given("at").map(when::when).transpose()?;
    let tags = fields.one("tags").split(',').map(str::trim).filter(|tag| !tag.is_empty());
    Ok(NewJob {
        job: known.name.clone(),
        args,
        at: match due {
            Some(When::At(time)) if time >= UNIX_EPOCH => Some(Number(local_unix_ms(time))),
            _ => None,
        },
        delay_ms: match due {
            Some(When::In(delay)) => Some(Number(millis(delay))),
            _ => None,
        },
        priority: fields.given("priority").map(str::to_owned),
        front: false,
        on_each: false,
        on_each_of: None,
        id: fields.given("id").map(str::to_owned),
        tags: tags.map(str::to_owned).collect(),
        max_attempts: fields.number("max_attempts")?,
        unchecked: false,
    })
}
