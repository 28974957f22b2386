//! Enqueues a job by its name.

use std::sync::Arc;

use axum::extract::{DefaultBodyLimit, State};
use axum::http::StatusCode;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::extract::{Json, Path};
use crate::web::act::{self, Enqueued, NewJob};
use crate::web::guard::Asked;
use crate::web::problem::Problem;
use crate::web::site::Site;

/// The route, which takes as many bytes as a payload may have.
pub(super) fn router(max_payload: usize) -> OpenApiRouter<Arc<Site>> {
    let most = max_payload.saturating_add(64 * 1024);
    OpenApiRouter::new().routes(routes!(enqueue)).layer(DefaultBodyLimit::max(most))
}

/// Enqueues a job, if its arguments fit its type as workers wrote it down.
#[utoipa::path(
    post, path = "/queues/{queue}/jobs", tag = "jobs", request_body = NewJob,
    responses((status = 201, body = Enqueued), (status = 200, body = Enqueued, description = "One with its id was there"))
)]
pub(super) async fn enqueue(
    State(site): State<Arc<Site>>,
    asked: Asked,
    Path(queue): Path<String>,
    Json(new): Json<NewJob>,
) -> Result<(StatusCode, axum::Json<Enqueued>), Problem> {
    let enqueued = act::enqueue(&site, &asked, &queue, &new).await?;
    let status = if enqueued.is_new { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, axum::Json(enqueued)))
}
