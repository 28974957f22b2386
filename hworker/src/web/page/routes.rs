//! Which page is where.

use std::sync::Arc;

use axum::Router;
use axum::routing::{get, post};

use super::{
    act, audit, broken, crashes, cron, failed, find, job, jobs, limits, metrics, overview, queue,
    queues, server, types, worker, workers,
};
use crate::web::site::Site;

/// The pages of a server.
pub(in crate::web) fn router() -> Router<Arc<Site>> {
    Router::new()
        .route("/", get(overview::show))
        .route("/act", post(act::act))
        .route("/find", get(find::show))
        .route("/queues", get(queues::show))
        .route("/queues/{queue}", get(queue::show))
        .route("/queues/{queue}/jobs/{id}", get(job::show))
        .route("/queues/{queue}/broken/{digest}", get(broken::show))
        .route("/queues/{queue}/broken/{digest}/raw", get(broken::raw))
        .route("/queues/{queue}/cron/{name}", get(cron::show))
        .route("/jobs", get(jobs::show))
        .route("/failed", get(failed::show))
        .route("/workers", get(workers::show))
        .route("/workers/{id}", get(worker::show))
        .route("/broken", get(broken::list))
        .route("/scheduled", get(jobs::scheduled))
        .route("/cron", get(cron::list))
        .route("/limits", get(limits::show))
        .route("/charts", get(metrics::show))
        .route("/types", get(types::list))
        .route("/types/{name}", get(types::show))
        .route("/audit", get(audit::show))
        .route("/crashes", get(crashes::show))
        .route("/server", get(server::show))
}
