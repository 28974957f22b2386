//! Job types, as workers wrote them down.

use std::sync::Arc;

use axum::extract::State;

use super::List;
use super::extract::Path;
use crate::manifest::JobType;
use crate::web::problem::Problem;
use crate::web::site::Site;

/// The job types that workers of the last 30 days know.
#[utoipa::path(get, path = "/types", tag = "types", responses((status = 200, body = List<JobType>)))]
pub(super) async fn list(
    State(site): State<Arc<Site>>,
) -> Result<axum::Json<List<JobType>>, Problem> {
    Ok(axum::Json(List::all(site.types().await?)))
}

/// A job type.
#[utoipa::path(get, path = "/types/{name}", tag = "types", responses((status = 200, body = JobType)))]
pub(super) async fn show(
    State(site): State<Arc<Site>>,
    Path(name): Path<String>,
) -> Result<axum::Json<JobType>, Problem> {
    let known = site.types().await?.into_iter().find(|known| known.is_called(&name));
    let missing = || Problem::not_found(format!("no worker knows a job `{name}`"));
    Ok(axum::Json(known.ok_or_else(missing)?))
}
