//! Queues.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::List;
use super::extract::{Json, Path, Query};
use crate::inspect::{Counts, Group, QueueInfo};
use crate::job_state::JobState;
use crate::web::act::{self, Cleared};
use crate::web::guard::Asked;
use crate::web::problem::Problem;
use crate::web::schema::Positive;
use crate::web::shown;
use crate::web::site::Site;

/// A page of queues has so many.
const PAGE: usize = 100;

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Which {
    /// Only queues with this in their name.
    #[serde(default)]
    name: String,
    /// `next` of the page before; empty for the first page.
    cursor: Option<String>,
}

/// The queues that have jobs, workers or a pause, by name, up to 100.
#[utoipa::path(get, path = "/queues", tag = "queues", params(Which), responses((status = 200, body = List<QueueInfo>)))]
pub(super) async fn list(
    State(site): State<Arc<Site>>,
    Query(which): Query<Which>,
) -> Result<axum::Json<List<QueueInfo>>, Problem> {
    let names = site.queue_names().await?;
    let total = names.len() as u64;
    let after = which.cursor.unwrap_or_default();
    let mut meant =
        names.into_iter().filter(|name| name.contains(&which.name) && *name > after).peekable();
    let (mut items, mut next, mut scanned) = (Vec::new(), None, 0);
    while let Some(name) = meant.next() {
        scanned += 1;
        let queue = site.client.inspect(&name).summary().await?;
        if queue.counts != Counts::default() || queue.workers > 0 || queue.paused.is_some() {
            items.push(queue);
        }
        if items.len() == PAGE && meant.peek().is_some() {
            next = Some(name);
            break;
        }
    }
    Ok(axum::Json(List { items, next, scanned, total, complete: true }))
}

/// A queue.
#[utoipa::path(get, path = "/queues/{queue}", tag = "queues", responses((status = 200, body = QueueInfo)))]
pub(super) async fn show(
    State(site): State<Arc<Site>>,
    Path(queue): Path<String>,
) -> Result<axum::Json<QueueInfo>, Problem> {
    Ok(axum::Json(site.client.inspect(&queue).summary().await?))
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Force {
    /// Also while workers serve the queue: they lose what they run.
    #[serde(default)]
    force: bool,
}

#[derive(Serialize, ToSchema)]
pub(super) struct Destroyed {
    /// How many keys there were.
    keys: u64,
}

/// Deletes a queue with all that belongs to it.
#[utoipa::path(delete, path = "/queues/{queue}", tag = "queues", params(Force), responses((status = 200, body = Destroyed)))]
pub(super) async fn destroy(
    State(site): State<Arc<Site>>,
    asked: Asked,
    Path(queue): Path<String>,
    Query(Force { force }): Query<Force>,
) -> Result<axum::Json<Destroyed>, Problem> {
    let keys = act::queues::destroy(&site, &asked, &queue, force).await?;
    Ok(axum::Json(Destroyed { keys }))
}

#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PauseFor {
    /// For so many milliseconds; without, until it is resumed.
    #[schema(inline)]
    pub(super) for_ms: Option<Positive>,
}

/// Pauses a queue: its workers take no more of its jobs.
#[utoipa::path(
    post, path = "/queues/{queue}/pause", tag = "queues", request_body = PauseFor, responses((status = 204, description = "It is paused"))
)]
pub(super) async fn pause(
    State(site): State<Arc<Site>>,
    asked: Asked,
    Path(queue): Path<String>,
    Json(PauseFor { for_ms }): Json<PauseFor>,
) -> Result<StatusCode, Problem> {
    let duration = for_ms.map(|ms| Duration::from_millis(ms.0));
    act::queues::pause(&site, &asked, &queue, duration).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Serialize, ToSchema)]
pub(super) struct Resumed {
    /// Whether it was paused.
    pub(super) was_paused: bool,
}

/// Resumes a queue.
#[utoipa::path(post, path = "/queues/{queue}/resume", tag = "queues", responses((status = 200, body = Resumed)))]
pub(super) async fn resume(
    State(site): State<Arc<Site>>,
    asked: Asked,
    Path(queue): Path<String>,
) -> Result<axum::Json<Resumed>, Problem> {
    let was_paused = act::queues::resume(&site, &asked, &queue).await?;
    Ok(axum::Json(Resumed { was_paused }))
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Clear {
    /// Jobs in this state are deleted: waiting, scheduled, parked, or one in which they have ended.
    #[schema(pattern = "^(waiting|scheduled|parked|failed|cancelled|expired|done|broken)$")]
    state: String,
}

/// Deletes all jobs in one state. A pause, limits and cron entries stay.
#[utoipa::path(
    post, path = "/queues/{queue}/clear", tag = "queues", request_body = Clear, responses((status = 200, body = Cleared))
)]
pub(super) async fn clear(
    State(site): State<Arc<Site>>,
    asked: Asked,
    Path(queue): Path<String>,
    Json(Clear { state }): Json<Clear>,
) -> Result<axum::Json<Cleared>, Problem> {
    let state: JobState = state.parse().map_err(Problem::invalid)?;
    Ok(axum::Json(act::queues::clear(&site, &asked, &queue, state).await?))
}

/// The failures of a queue by what they have in common, those with the most records first.
#[utoipa::path(get, path = "/queues/{queue}/groups", tag = "queues", responses((status = 200, body = List<Group>)))]
pub(super) async fn groups(
    State(site): State<Arc<Site>>,
    asked: Asked,
    Path(queue): Path<String>,
) -> Result<axum::Json<List<Group>>, Problem> {
    let groups = site.client.inspect(&queue).groups().await?;
    let groups = groups.into_iter().map(|group| shown::group(group, &asked)).collect();
    Ok(axum::Json(List::all(groups)))
}
