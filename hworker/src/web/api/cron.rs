//! Cron entries.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;

use super::List;
use super::extract::Path;
use super::queues::Resumed;
use crate::control::{CronInfo, CronRun};
use crate::web::act;
use crate::web::guard::Asked;
use crate::web::problem::Problem;
use crate::web::site::Site;

/// The cron entries of a queue, by their names.
#[utoipa::path(get, path = "/queues/{queue}/cron", tag = "cron", responses((status = 200, body = List<CronInfo>)))]
pub(super) async fn list(
    State(site): State<Arc<Site>>,
    Path(queue): Path<String>,
) -> Result<axum::Json<List<CronInfo>>, Problem> {
    Ok(axum::Json(List::all(site.client.control(&queue).crons().await?)))
}

/// A cron entry with its runs.
#[derive(Serialize, ToSchema)]
pub(super) struct Entry {
    #[serde(rename = "entry")]
    info: CronInfo,
    /// When it is due next, ten times, in milliseconds since 1970.
    next: Vec<u64>,
    /// Its last runs, the latest first.
    history: Vec<CronRun>,
}

/// A cron entry, when it is due and what became of its last runs.
#[utoipa::path(get, path = "/queues/{queue}/cron/{name}", tag = "cron", responses((status = 200, body = Entry)))]
pub(super) async fn show(
    State(site): State<Arc<Site>>,
    Path((queue, name)): Path<(String, String)>,
) -> Result<axum::Json<Entry>, Problem> {
    let cron = site.client.control(&queue).cron(&name);
    let missing = || Problem::not_found(format!("no cron entry {name} on the queue {queue}"));
    let entry = cron.info().await?.ok_or_else(missing)?;
    let (next, history) = (cron.next(10).await?, cron.history().await?);
    Ok(axum::Json(Entry { info: entry, next, history }))
}

/// Removes a cron entry that was set; one that code declares stands again then.
#[utoipa::path(
    delete, path = "/queues/{queue}/cron/{name}", tag = "cron", responses((status = 204, description = "It is gone"))
)]
pub(super) async fn remove(
    State(site): State<Arc<Site>>,
    asked: Asked,
    Path((queue, name)): Path<(String, String)>,
) -> Result<StatusCode, Problem> {
    act::cron::remove(&site, &asked, &queue, &name).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Serialize, ToSchema)]
pub(super) struct Paused {
    /// Whether it ran until now.
    was_running: bool,
}

/// Pauses a cron entry.
#[utoipa::path(post, path = "/queues/{queue}/cron/{name}/pause", tag = "cron", responses((status = 200, body = Paused)))]
pub(super) async fn pause(
    State(site): State<Arc<Site>>,
    asked: Asked,
    Path((queue, name)): Path<(String, String)>,
) -> Result<axum::Json<Paused>, Problem> {
    let was_running = act::cron::pause(&site, &asked, &queue, &name).await?;
    Ok(axum::Json(Paused { was_running }))
}

/// Resumes a cron entry.
#[utoipa::path(post, path = "/queues/{queue}/cron/{name}/resume", tag = "cron", responses((status = 200, body = Resumed)))]
pub(super) async fn resume(
    State(site): State<Arc<Site>>,
    asked: Asked,
    Path((queue, name)): Path<(String, String)>,
) -> Result<axum::Json<Resumed>, Problem> {
    let was_paused = act::cron::resume(&site, &asked, &queue, &name).await?;
    Ok(axum::Json(Resumed { was_paused }))
}

#[derive(Serialize, ToSchema)]
pub(super) struct Ran {
    /// The id of its job; none where the run before goes on and this one is left out.
    id: Option<String>,
}

/// Runs a cron entry now, beside its times.
#[utoipa::path(post, path = "/queues/{queue}/cron/{name}/run", tag = "cron", responses((status = 200, body = Ran)))]
pub(super) async fn run(
    State(site): State<Arc<Site>>,
    asked: Asked,
    Path((queue, name)): Path<(String, String)>,
) -> Result<axum::Json<Ran>, Problem> {
    let id = act::cron::run(&site, &asked, &queue, &name).await?;
    Ok(axum::Json(Ran { id: id.map(|id| id.to_string()) }))
}
