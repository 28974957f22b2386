//! Limits, and the keys that unique jobs hold.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::List;
use super::extract::{Json, Path, Query};
use super::queues::{PauseFor, Resumed};
use crate::control::{LimitInfo, LockInfo};
use crate::web::act::{self, OfLimit, Values};
use crate::web::guard::Asked;
use crate::web::problem::Problem;
use crate::web::shown;
use crate::web::site::Site;

/// The limits of a queue as they are in force, with what they hold.
#[utoipa::path(get, path = "/queues/{queue}/limits", tag = "limits", responses((status = 200, body = List<LimitInfo>)))]
pub(super) async fn list(
    State(site): State<Arc<Site>>,
    asked: Asked,
    Path(queue): Path<String>,
) -> Result<axum::Json<List<LimitInfo>>, Problem> {
    let limits = site.client.control(&queue).limits().await?;
    Ok(axum::Json(List::all(limits.into_iter().map(|limit| shown::limit(limit, &asked)).collect())))
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct OfKey {
    /// Of this value of its key alone.
    #[param(min_length = 1)]
    key: Option<String>,
}

impl OfKey {
    fn of<'a>(&'a self, queue: &'a str, name: &'a str) -> OfLimit<'a> {
        OfLimit { queue, name, key: self.key.as_deref() }
    }
}

/// Sets a limit for all workers at once; it wins over what code declares.
#[utoipa::path(
    put, path = "/queues/{queue}/limits/{name}", tag = "limits", params(OfKey), request_body = Values,
    responses((status = 204, description = "It is set"))
)]
pub(super) async fn set(
    State(site): State<Arc<Site>>,
    asked: Asked,
    Path((queue, name)): Path<(String, String)>,
    Query(of): Query<OfKey>,
    Json(values): Json<Values>,
) -> Result<StatusCode, Problem> {
    act::limits::set(&site, &asked, of.of(&queue, &name), &values).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Serialize, ToSchema)]
pub(super) struct Unset {
    /// Whether it was set.
    was_set: bool,
}

/// Takes back what was set; what code declares is in force again.
#[utoipa::path(
    delete, path = "/queues/{queue}/limits/{name}", tag = "limits", params(OfKey), responses((status = 200, body = Unset))
)]
pub(super) async fn unset(
    State(site): State<Arc<Site>>,
    asked: Asked,
    Path((queue, name)): Path<(String, String)>,
    Query(of): Query<OfKey>,
) -> Result<axum::Json<Unset>, Problem> {
    let was_set = act::limits::unset(&site, &asked, of.of(&queue, &name)).await?;
    Ok(axum::Json(Unset { was_set }))
}

/// Pauses the jobs of a limit.
#[utoipa::path(
    post, path = "/queues/{queue}/limits/{name}/pause", tag = "limits", params(OfKey), request_body = PauseFor,
    responses((status = 204, description = "They are paused"))
)]
pub(super) async fn pause(
    State(site): State<Arc<Site>>,
    asked: Asked,
    Path((queue, name)): Path<(String, String)>,
    Query(of): Query<OfKey>,
    Json(PauseFor { for_ms }): Json<PauseFor>,
) -> Result<StatusCode, Problem> {
    let duration = for_ms.map(|ms| Duration::from_millis(ms.0));
    act::limits::pause(&site, &asked, of.of(&queue, &name), duration).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Resumes the jobs of a limit.
#[utoipa::path(
    post, path = "/queues/{queue}/limits/{name}/resume", tag = "limits", params(OfKey), responses((status = 200, body = Resumed))
)]
pub(super) async fn resume(
    State(site): State<Arc<Site>>,
    asked: Asked,
    Path((queue, name)): Path<(String, String)>,
    Query(of): Query<OfKey>,
) -> Result<axum::Json<Resumed>, Problem> {
    let was_paused = act::limits::resume(&site, &asked, of.of(&queue, &name)).await?;
    Ok(axum::Json(Resumed { was_paused }))
}

/// So many keys are listed.
pub(crate) const LOCKS: usize = 500;

/// The keys that unique jobs of a queue hold, up to 500.
#[utoipa::path(get, path = "/queues/{queue}/locks", tag = "limits", responses((status = 200, body = List<LockInfo>)))]
pub(super) async fn locks(
    State(site): State<Arc<Site>>,
    asked: Asked,
    Path(queue): Path<String>,
) -> Result<axum::Json<List<LockInfo>>, Problem> {
    let locks = site.client.control(&queue).locks(LOCKS).await?;
    Ok(axum::Json(List::all(locks.into_iter().map(|lock| shown::lock(lock, &asked)).collect())))
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Key {
    /// As the list of keys has it.
    key: String,
}

#[derive(Serialize, ToSchema)]
pub(super) struct Unlocked {
    /// Whether a job held it.
    was_held: bool,
}

/// Frees a key that a unique job holds.
#[utoipa::path(delete, path = "/queues/{queue}/locks", tag = "limits", params(Key), responses((status = 200, body = Unlocked)))]
pub(super) async fn unlock(
    State(site): State<Arc<Site>>,
    asked: Asked,
    Path(queue): Path<String>,
    Query(Key { key }): Query<Key>,
) -> Result<axum::Json<Unlocked>, Problem> {
    let was_held = act::limits::unlock(&site, &asked, &queue, &key).await?;
    Ok(axum::Json(Unlocked { was_held }))
}
