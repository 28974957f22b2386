//! Workers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::List;
use super::extract::{Json, Path, Query};
use crate::client::Client;
use crate::inspect::WorkerInfo;
use crate::web::act;
use crate::web::each::{QUEUES, each};
use crate::web::guard::Asked;
use crate::web::problem::Problem;
use crate::web::schema::{QueueName, Whole};
use crate::web::site::Site;

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct OfQueue {
    /// Those that serve this queue; without, those of the first 100 queues.
    #[param(value_type = Option<QueueName>)]
    queue: Option<String>,
}

/// The workers of each of these queues, with what they run on it.
pub(crate) async fn by_queue(
    site: &Site,
    names: Vec<String>,
) -> Result<Vec<(String, Vec<WorkerInfo>)>, Problem> {
    let read = |client: Client, name: String| async move { client.inspect(&name).workers().await };
    each(&site.client, names, read).await
}

/// The workers of these queues, by their ids, with what they run on them.
pub(crate) async fn of_queues(
    site: &Site,
    queue: Option<String>,
) -> Result<BTreeMap<String, WorkerInfo>, Problem> {
    let names = match queue {
        Some(queue) => vec![queue],
        None => site.queue_names().await?.into_iter().take(QUEUES).collect(),
    };
    let mut workers: BTreeMap<String, WorkerInfo> = BTreeMap::new();
    for worker in by_queue(site, names).await?.into_iter().flat_map(|(_, workers)| workers) {
        match workers.get_mut(&worker.id) {
            Some(known) => known.add(worker),
            None => _ = workers.insert(worker.id.clone(), worker),
        }
    }
    Ok(workers)
}

/// The workers that were heard of lately, with what they run.
#[utoipa::path(get, path = "/workers", tag = "workers", params(OfQueue), responses((status = 200, body = List<WorkerInfo>)))]
pub(super) async fn list(
    State(site): State<Arc<Site>>,
    Query(OfQueue { queue }): Query<OfQueue>,
) -> Result<axum::Json<List<WorkerInfo>>, Problem> {
    let workers = of_queues(&site, queue).await?;
    Ok(axum::Json(List::all(workers.into_values().collect())))
}

/// A worker.
#[utoipa::path(get, path = "/workers/{id}", tag = "workers", responses((status = 200, body = WorkerInfo)))]
pub(super) async fn show(
    State(site): State<Arc<Site>>,
    Path(id): Path<String>,
) -> Result<axum::Json<WorkerInfo>, Problem> {
    let worker = of_queues(&site, None).await?.remove(&id);
    let missing = || Problem::not_found(format!("no worker {id} was heard of lately"));
    Ok(axum::Json(worker.ok_or_else(missing)?))
}

#[derive(Serialize, ToSchema)]
pub(super) struct Told {
    /// So many live workers were told. They learn of it with their next heartbeat, within 2 s.
    workers: usize,
}

/// Has a worker take no more jobs.
#[utoipa::path(post, path = "/workers/{id}/quiet", tag = "workers", responses((status = 200, body = Told)))]
pub(super) async fn quiet(
    State(site): State<Arc<Site>>,
    asked: Asked,
    Path(id): Path<String>,
) -> Result<axum::Json<Told>, Problem> {
    Ok(axum::Json(Told { workers: act::workers::quiet(&site, &asked, &id).await? }))
}

/// Has a worker take jobs again.
#[utoipa::path(post, path = "/workers/{id}/resume", tag = "workers", responses((status = 200, body = Told)))]
pub(super) async fn resume(
    State(site): State<Arc<Site>>,
    asked: Asked,
    Path(id): Path<String>,
) -> Result<axum::Json<Told>, Problem> {
    Ok(axum::Json(Told { workers: act::workers::resume(&site, &asked, &id).await? }))
}

#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Stop {
    /// So long jobs may finish; without, as long as the worker's own settings say.
    #[schema(inline)]
    grace_ms: Option<Whole>,
}

/// Stops a worker, as SIGTERM does.
#[utoipa::path(post, path = "/workers/{id}/stop", tag = "workers", request_body = Stop, responses((status = 200, body = Told)))]
pub(super) async fn stop(
    State(site): State<Arc<Site>>,
    asked: Asked,
    Path(id): Path<String>,
    Json(Stop { grace_ms }): Json<Stop>,
) -> Result<axum::Json<Told>, Problem> {
    let grace = grace_ms.map(|ms| Duration::from_millis(ms.0));
    Ok(axum::Json(Told { workers: act::workers::stop(&site, &asked, &id, grace).await? }))
}
