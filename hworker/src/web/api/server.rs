//! What was done by hand, which workers died, and what the doctor says.

use std::sync::Arc;

use axum::extract::State;
use serde::Deserialize;
use utoipa::IntoParams;

use super::List;
use super::extract::Query;
use crate::audit::AuditEntry;
use crate::dead_workers::DeadWorker;
use crate::doctor::Finding;
use crate::web::problem::Problem;
use crate::web::schema::OnPage;
use crate::web::site::Site;

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Latest {
    /// How many; 100 by default.
    #[param(inline)]
    limit: Option<OnPage>,
}

/// What was done by hand, the latest first.
#[utoipa::path(get, path = "/audit", tag = "server", params(Latest), responses((status = 200, body = List<AuditEntry>)))]
pub(super) async fn audit(
    State(site): State<Arc<Site>>,
    Query(Latest { limit }): Query<Latest>,
) -> Result<axum::Json<List<AuditEntry>>, Problem> {
    let count = limit.map_or(100, |limit| limit.0 as usize);
    Ok(axum::Json(List::all(site.client.audit_log(count).await?)))
}

/// The workers that died last, with what they held.
#[utoipa::path(get, path = "/crashes", tag = "server", responses((status = 200, body = List<DeadWorker>)))]
pub(super) async fn crashes(
    State(site): State<Arc<Site>>,
) -> Result<axum::Json<List<DeadWorker>>, Problem> {
    Ok(axum::Json(List::all(site.client.dead_workers().await?)))
}

/// What is wrong with the server and the queues, and what mends it.
#[utoipa::path(get, path = "/doctor", tag = "server", responses((status = 200, body = List<Finding>)))]
pub(super) async fn doctor(
    State(site): State<Arc<Site>>,
) -> Result<axum::Json<List<Finding>>, Problem> {
    Ok(axum::Json(List::all(site.client.doctor().await?)))
}
