//! Jobs that each worker runs.

use std::sync::Arc;

use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use super::List;
use super::extract::Path;
use crate::control::BroadcastInfo;
use crate::web::act;
use crate::web::guard::Asked;
use crate::web::problem::Problem;
use crate::web::site::Site;

/// The jobs for each worker that have not expired, the oldest first.
#[utoipa::path(get, path = "/queues/{queue}/broadcasts", tag = "jobs", responses((status = 200, body = List<BroadcastInfo>)))]
pub(super) async fn list(
    State(site): State<Arc<Site>>,
    Path(queue): Path<String>,
) -> Result<axum::Json<List<BroadcastInfo>>, Problem> {
    Ok(axum::Json(List::all(site.client.control(&queue).broadcasts().await?)))
}

#[derive(Serialize, ToSchema)]
pub(super) struct CancelledBroadcast {
    /// How many workers that run it were told to end it.
    told: u64,
}

/// Cancels a job for each worker: none begins it or tries it again, and those that run it are told to end it.
#[utoipa::path(delete, path = "/queues/{queue}/broadcasts/{id}", tag = "jobs", responses((status = 200, body = CancelledBroadcast)))]
pub(super) async fn cancel(
    State(site): State<Arc<Site>>,
    asked: Asked,
    Path((queue, id)): Path<(String, String)>,
) -> Result<axum::Json<CancelledBroadcast>, Problem> {
    let told = act::broadcasts::cancel(&site, &asked, &queue, &id).await?;
    Ok(axum::Json(CancelledBroadcast { told }))
}
