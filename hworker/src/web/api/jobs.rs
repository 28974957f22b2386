//! Jobs: pages of them, one of them, and what is done to one.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use super::List;
use super::extract::{Json, Path, Query};
use crate::envelope::JobId;
use crate::inspect::{Action, Filter, JobInfo, Order};
use crate::job_state::JobState;
use crate::priority::Priority;
use crate::reports::{LogLine, Progress};
use crate::web::act::{self, Which};
use crate::web::guard::Asked;
use crate::web::problem::Problem;
use crate::web::schema::{OnPage, QueueName, Whole};
use crate::web::shown;
use crate::web::site::Site;

/// A job as the document describes it: how [`JobInfo`] is written.
#[derive(Serialize, ToSchema)]
#[schema(as = Job)]
#[allow(dead_code, reason = "the document alone is made of it")]
pub(super) struct JobSchema {
    id: Option<String>,
    /// The name of its type; none where it cannot be decoded.
    job: Option<String>,
    queue: String,
    state: JobState,
    priority: Priority,
    /// When it is due, since when it waits or runs, or when it ended.
    at: Option<u64>,
    /// The number of its current, next or last attempt, from 1.
    attempt: u32,
    worker: Option<String>,
    /// Why it ended, of a failed job.
    kind: Option<String>,
    /// Its last error, or what is wrong with a broken payload.
    message: Option<String>,
    place: Option<String>,
    backtrace: Option<String>,
    /// The group of failures to which it belongs.
    group: Option<String>,
    started_at: Option<u64>,
    /// How many times a broken payload came.
    times: Option<u64>,
    crashes: Vec<Value>,
    bytes: u64,
    enqueued_at: Option<u64>,
    snoozes: u64,
    tags: Vec<String>,
    meta: Option<BTreeMap<String, Value>>,
    /// The id of the job whose body enqueued it.
    parent: Option<String>,
    errors: Vec<Value>,
    /// Its arguments; `•••` stands for what is not shown.
    args: Value,
    /// The version of the arguments.
    args_v: u32,
    /// What it returned, where its type keeps that and it was asked for by its id; `•••` where it is not shown.
    result: Option<Value>,
    /// How far it is, where its body says so and it was asked for by its id.
    progress: Option<Progress>,
    /// How many lines its body has logged, where it was asked for by its id.
    log_lines: u64,
    /// What names a broken payload.
    digest: Option<String>,
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Page {
    /// The state, where the filter does not say it: `waiting` by default.
    #[param(value_type = Option<JobState>)]
    state: Option<String>,
    /// As in `job:send_welcome error:"timed out" age>2h`; see the documentation of `hworker::Filter`.
    #[serde(default)]
    filter: String,
    /// `next`, the one whose turn comes next first, or `newest`.
    #[param(pattern = "^(next|newest)$")]
    order: Option<String>,
    /// `next` of the page before; empty for the first page.
    cursor: Option<String>,
    /// How many; 50 by default.
    #[param(inline)]
    limit: Option<OnPage>,
}

fn order(text: &str) -> Result<Order, Problem> {
    match text {
        "next" => Ok(Order::Next),
        "newest" => Ok(Order::Newest),
        _ => Err(Problem::invalid(format!("`{text}` is no order: `next`, `newest`"))),
    }
}

async fn page(
    site: &Site,
    asked: &Asked,
    queue: &str,
    page: Page,
    only: Option<JobState>,
) -> Result<List<Value>, Problem> {
    let filter: Filter = page.filter.parse().map_err(Problem::invalid)?;
    shown::check_filter(&filter, asked)?;
    let named = page.state.map(|state| state.parse().map_err(Problem::invalid)).transpose()?;
    let state = only.or(named).or(filter.state()).unwrap_or(JobState::Waiting);
    let inspect = site.client.inspect(queue);
    let mut jobs =
        inspect.jobs(state).filter(filter).limit(page.limit.map_or(50, |limit| limit.0 as usize));
    if let Some(text) = page.order {
        jobs = jobs.order(order(&text)?);
    }
    if let Some(cursor) = page.cursor.filter(|cursor| !cursor.is_empty()) {
        jobs = jobs.after(cursor);
    }
    let found = jobs.page().await?;
    let types = if found.items.is_empty() { Vec::new() } else { site.types().await? };
    let items = found.items.iter().map(|job| shown::job(job, &types, asked)).collect();
    let (next, scanned, total, complete) = (found.next, found.scanned, found.total, found.complete);
    Ok(List { items, next, scanned, total, complete })
}

/// A page of jobs in one state.
#[utoipa::path(get, path = "/queues/{queue}/jobs", tag = "jobs", params(Page), responses((status = 200, body = List<JobSchema>)))]
pub(super) async fn list(
    State(site): State<Arc<Site>>,
    asked: Asked,
    Path(queue): Path<String>,
    Query(query): Query<Page>,
) -> Result<axum::Json<List<Value>>, Problem> {
    Ok(axum::Json(page(&site, &asked, &queue, query, None).await?))
}

async fn in_json(site: &Site, asked: &Asked, job: &JobInfo) -> Result<axum::Json<Value>, Problem> {
    Ok(axum::Json(shown::job(job, &site.types().await?, asked)))
}

/// A job, wherever on the queue it is.
#[utoipa::path(get, path = "/queues/{queue}/jobs/{id}", tag = "jobs", responses((status = 200, body = JobSchema)))]
pub(super) async fn show(
    State(site): State<Arc<Site>>,
    asked: Asked,
    Path((queue, id)): Path<(String, String)>,
) -> Result<axum::Json<Value>, Problem> {
    let found = site.find(&queue, &JobId::from(&*id)).await?;
    let missing = || Problem::not_found(format!("no job {id} on the queue {queue}"));
    in_json(&site, &asked, &found.ok_or_else(missing)?).await
}

/// The lines that the body of a job has logged, the oldest first; none of one that there is not.
#[utoipa::path(get, path = "/queues/{queue}/jobs/{id}/log", tag = "jobs", responses((status = 200, body = Vec<LogLine>)))]
pub(super) async fn log(
    State(site): State<Arc<Site>>,
    asked: Asked,
    Path((queue, id)): Path<(String, String)>,
) -> Result<axum::Json<Vec<LogLine>>, Problem> {
    let lines = site.client.inspect(&queue).log(&JobId::from(&*id)).await?;
    Ok(axum::Json(lines.into_iter().map(|line| shown::line(line, &asked)).collect()))
}

/// So many queues are looked through for a job of which only the id is known.
const QUEUES: usize = 100;

/// A job, on whichever queue it is; the first 100 queues are looked through.
#[utoipa::path(get, path = "/jobs/{id}", tag = "jobs", responses((status = 200, body = JobSchema)))]
pub(super) async fn anywhere(
    State(site): State<Arc<Site>>,
    asked: Asked,
    Path(id): Path<String>,
) -> Result<axum::Json<Value>, Problem> {
    let (names, wanted) = (site.queue_names().await?, JobId::from(&*id));
    for name in names.iter().take(QUEUES) {
        if let Some(job) = site.find(name, &wanted).await? {
            return in_json(&site, &asked, &job).await;
        }
    }
    Err(Problem::not_found(format!("no job {id} on any queue that was looked through")))
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Seen {
    /// `at` of the job as it was seen: where it is another by now, nothing is done (409).
    #[param(inline)]
    seen: Option<Whole>,
}

impl Seen {
    pub(super) fn of(&self, id: &str) -> Which {
        Which { id: JobId::from(id), seen: self.seen.map(|at| at.0) }
    }
}

/// Deletes a job with its record. One that runs is cancelled instead.
#[utoipa::path(
    delete, path = "/queues/{queue}/jobs/{id}", tag = "jobs", params(Seen), responses((status = 204, description = "It is gone"))
)]
pub(super) async fn delete(
    State(site): State<Arc<Site>>,
    asked: Asked,
    Path((queue, id)): Path<(String, String)>,
    Query(seen): Query<Seen>,
) -> Result<StatusCode, Problem> {
    act::change_one(&site, &asked, &queue, &seen.of(&id), ("delete", &Action::Delete)).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Retry {
    /// As a new job would, from its first attempt.
    #[serde(default)]
    reset: bool,
}

/// Lets a job run again.
#[utoipa::path(
    post, path = "/queues/{queue}/jobs/{id}/retry", tag = "jobs", params(Seen), request_body = Retry,
    responses((status = 204, description = "It waits"))
)]
pub(super) async fn retry(
    State(site): State<Arc<Site>>,
    asked: Asked,
    Path((queue, id)): Path<(String, String)>,
    Query(seen): Query<Seen>,
    Json(Retry { reset }): Json<Retry>,
) -> Result<StatusCode, Problem> {
    let action = if reset { Action::Reset } else { Action::Retry };
    act::change_one(&site, &asked, &queue, &seen.of(&id), ("retry", &action)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Has a job be the next of its queue.
#[utoipa::path(
    post, path = "/queues/{queue}/jobs/{id}/promote", tag = "jobs", params(Seen),
    responses((status = 204, description = "It is the next"))
)]
pub(super) async fn promote(
    State(site): State<Arc<Site>>,
    asked: Asked,
    Path((queue, id)): Path<(String, String)>,
    Query(seen): Query<Seen>,
) -> Result<StatusCode, Problem> {
    act::change_one(&site, &asked, &queue, &seen.of(&id), ("promote", &Action::Promote)).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Serialize, ToSchema)]
pub(super) struct Cancelled {
    /// The state in which it was met. A running body ends within a second, as its type says.
    state: JobState,
}

/// Cancels a job that has not ended.
#[utoipa::path(
    post, path = "/queues/{queue}/jobs/{id}/cancel", tag = "jobs", params(Seen), responses((status = 200, body = Cancelled))
)]
pub(super) async fn cancel(
    State(site): State<Arc<Site>>,
    asked: Asked,
    Path((queue, id)): Path<(String, String)>,
    Query(seen): Query<Seen>,
) -> Result<axum::Json<Cancelled>, Problem> {
    let cancelled =
        act::change_one(&site, &asked, &queue, &seen.of(&id), ("cancel", &Action::Cancel)).await?;
    Ok(axum::Json(Cancelled { state: cancelled.state }))
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Move {
    /// The other queue.
    #[schema(value_type = QueueName)]
    to: String,
}

/// Moves a job to another queue.
#[utoipa::path(
    post, path = "/queues/{queue}/jobs/{id}/move", tag = "jobs", params(Seen), request_body = Move,
    responses((status = 204, description = "It is there"))
)]
pub(super) async fn move_to(
    State(site): State<Arc<Site>>,
    asked: Asked,
    Path((queue, id)): Path<(String, String)>,
    Query(seen): Query<Seen>,
    Json(Move { to }): Json<Move>,
) -> Result<StatusCode, Problem> {
    let action = Action::MoveTo(to);
    act::change_one(&site, &asked, &queue, &seen.of(&id), ("move", &action)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// A page of payloads that could not be decoded, or that no worker could run.
#[utoipa::path(get, path = "/queues/{queue}/broken", tag = "broken", params(Page), responses((status = 200, body = List<JobSchema>)))]
pub(super) async fn broken(
    State(site): State<Arc<Site>>,
    asked: Asked,
    Path(queue): Path<String>,
    Query(query): Query<Page>,
) -> Result<axum::Json<List<Value>>, Problem> {
    Ok(axum::Json(page(&site, &asked, &queue, query, Some(JobState::Broken)).await?))
}

/// A broken payload by its digest.
#[utoipa::path(get, path = "/queues/{queue}/broken/{digest}", tag = "broken", responses((status = 200, body = JobSchema)))]
pub(super) async fn show_broken(
    State(site): State<Arc<Site>>,
    asked: Asked,
    Path((queue, digest)): Path<(String, String)>,
) -> Result<axum::Json<Value>, Problem> {
    let found = act::find_broken(&site, &queue, &digest).await?;
    in_json(&site, &asked, &found).await
}

/// Deletes a broken payload.
#[utoipa::path(
    delete, path = "/queues/{queue}/broken/{digest}", tag = "broken", responses((status = 204, description = "It is gone"))
)]
pub(super) async fn delete_broken(
    State(site): State<Arc<Site>>,
    asked: Asked,
    Path((queue, digest)): Path<(String, String)>,
) -> Result<StatusCode, Problem> {
    act::broken::delete(&site, &asked, &queue, &digest).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Puts a broken payload back into its queue.
#[utoipa::path(
    post, path = "/queues/{queue}/broken/{digest}/requeue", tag = "broken", responses((status = 204, description = "It waits"))
)]
pub(super) async fn requeue_broken(
    State(site): State<Arc<Site>>,
    asked: Asked,
    Path((queue, digest)): Path<(String, String)>,
) -> Result<StatusCode, Problem> {
    act::broken::requeue(&site, &asked, &queue, &digest).await?;
    Ok(StatusCode::NO_CONTENT)
}
