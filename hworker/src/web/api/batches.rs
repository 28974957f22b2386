//! Batches: jobs that belong together.

use std::sync::Arc;

use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use super::List;
use super::extract::Path;
use crate::batch::{BatchHandle, BatchId, BatchState, BatchStatus};
use crate::inspect::BatchAudit;
use crate::web::act;
use crate::web::guard::Asked;
use crate::web::problem::Problem;
use crate::web::site::Site;

/// So many are listed.
const MOST: usize = 1_000;

/// The batches that are not finished, at most 1,000; they may be a minute behind.
#[utoipa::path(get, path = "/batches", tag = "batches", responses((status = 200, body = List<BatchStatus>)))]
pub(super) async fn list(
    State(site): State<Arc<Site>>,
) -> Result<axum::Json<List<BatchStatus>>, Problem> {
    Ok(axum::Json(List::all(site.client.batches(MOST).await?)))
}

/// How a batch stands. It is kept for a day after it is finished, or for 14 days if any member ended badly.
#[utoipa::path(get, path = "/batches/{id}", tag = "batches", responses((status = 200, body = BatchStatus)))]
pub(super) async fn show(
    State(site): State<Arc<Site>>,
    Path(id): Path<String>,
) -> Result<axum::Json<BatchStatus>, Problem> {
    let batch = batch(&site, &id)?.status().await?;
    batch.map(axum::Json).ok_or_else(|| none(&id))
}

#[derive(Serialize, ToSchema)]
pub(super) struct OrderedBatch {
    /// Whether it was not so before.
    changed: bool,
    /// How it stands.
    state: BatchState,
}

/// Cancels a batch: no member starts any more, and those that run are cancelled.
#[utoipa::path(post, path = "/batches/{id}/cancel", tag = "batches", responses((status = 200, body = OrderedBatch)))]
pub(super) async fn cancel(
    State(site): State<Arc<Site>>,
    asked: Asked,
    Path(id): Path<String>,
) -> Result<axum::Json<OrderedBatch>, Problem> {
    order(&site, &asked, "cancel", &id).await
}

/// Pauses a batch: no member starts; what runs goes on.
#[utoipa::path(post, path = "/batches/{id}/pause", tag = "batches", responses((status = 200, body = OrderedBatch)))]
pub(super) async fn pause(
    State(site): State<Arc<Site>>,
    asked: Asked,
    Path(id): Path<String>,
) -> Result<axum::Json<OrderedBatch>, Problem> {
    order(&site, &asked, "pause", &id).await
}

/// Resumes a batch.
#[utoipa::path(post, path = "/batches/{id}/resume", tag = "batches", responses((status = 200, body = OrderedBatch)))]
pub(super) async fn resume(
    State(site): State<Arc<Site>>,
    asked: Asked,
    Path(id): Path<String>,
) -> Result<axum::Json<OrderedBatch>, Problem> {
    order(&site, &asked, "resume", &id).await
}

/// Looks for members that have not ended and are nowhere. Where any is missing it looks again after a minute, and answers then.
#[utoipa::path(get, path = "/batches/{id}/audit", tag = "batches", responses((status = 200, body = BatchAudit)))]
pub(super) async fn verify(
    State(site): State<Arc<Site>>,
    Path(id): Path<String>,
) -> Result<axum::Json<BatchAudit>, Problem> {
    let audit = batch(&site, &id)?.verify().await?;
    audit.map(axum::Json).ok_or_else(|| none(&id))
}

/// The same, and has missing members count as ended, and as bad.
#[utoipa::path(post, path = "/batches/{id}/repair", tag = "batches", responses((status = 200, body = BatchAudit)))]
pub(super) async fn repair(
    State(site): State<Arc<Site>>,
    asked: Asked,
    Path(id): Path<String>,
) -> Result<axum::Json<BatchAudit>, Problem> {
    let audit = act::batches::repair(&site, &asked, &batch(&site, &id)?).await?;
    audit.map(axum::Json).ok_or_else(|| none(&id))
}

fn batch(site: &Site, id: &str) -> Result<BatchHandle, Problem> {
    Ok(site.client.batch(&id.parse::<BatchId>()?))
}

fn none(id: &str) -> Problem {
    Problem::not_found(format!("there is no batch {id}"))
}

async fn order(
    site: &Site,
    asked: &Asked,
    order: &str,
    id: &str,
) -> Result<axum::Json<OrderedBatch>, Problem> {
    let batch = batch(site, id)?;
    let (changed, state) = act::batches::order(site, asked, order, &batch).await?;
    Ok(axum::Json(OrderedBatch { changed, state }))
}
