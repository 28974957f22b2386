//! Marks of deploys.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use serde::Deserialize;
use utoipa::ToSchema;

use super::List;
use super::extract::Json;
use crate::deploys::DeployMark;
use crate::web::act;
use crate::web::guard::Asked;
use crate::web::problem::Problem;
use crate::web::site::Site;

/// The marks that charts show, the latest first. 200 are kept.
#[utoipa::path(get, path = "/deploys", tag = "charts", responses((status = 200, body = List<DeployMark>)))]
pub(super) async fn list(
    State(site): State<Arc<Site>>,
) -> Result<axum::Json<List<DeployMark>>, Problem> {
    Ok(axum::Json(List::all(site.client.deploys().await?)))
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewMark {
    /// What changed, in one line, as `1.4.2`.
    #[schema(
        min_length = 1,
        max_length = 200,
        pattern = r"^[^\x00-\x1f\x7f-\x9f]*[^\s\x00-\x1f\x7f-\x9f][^\x00-\x1f\x7f-\x9f]*$"
    )]
    text: String,
}

/// Marks now in the charts of all queues, as that a release came.
#[utoipa::path(post, path = "/deploys", tag = "charts", request_body = NewMark, responses((status = 201, body = DeployMark)))]
pub(super) async fn mark(
    State(site): State<Arc<Site>>,
    asked: Asked,
    Json(NewMark { text }): Json<NewMark>,
) -> Result<(StatusCode, axum::Json<DeployMark>), Problem> {
    let mark = act::deploys::mark(&site, &asked, &text).await?;
    Ok((StatusCode::CREATED, axum::Json(mark)))
}
