//! The REST API, `/api/v1`. Its OpenAPI document is made of the handlers themselves.

mod batches;
mod broadcasts;
mod charts;
mod cron;
mod deploys;
mod document;
mod edit;
mod enqueue;
mod events;
pub(super) mod extract;
mod jobs;
pub(super) mod limits;
mod list;
mod live;
mod queues;
mod scale;
mod server;
mod types;
pub(super) mod workers;

use std::sync::Arc;

use axum::Router;
use axum::http::{StatusCode, Uri};
use axum::routing::get;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::problem::Problem;
use super::site::Site;

pub(super) use charts::window;
pub(super) use live::{Live, Tick};

use list::List;

/// All that there is below `/api/v1`.
pub(super) fn router(site: &Site) -> Router<Arc<Site>> {
    let (router, document) = documented(site.client.max_payload()).split_for_parts();
    let document = Arc::new(document);
    router.route("/api/v1/openapi.json", get(move |at| document::serve(Arc::clone(&document), at)))
}

/// The OpenAPI document, as `docs/openapi.json` has it.
#[must_use]
pub fn openapi() -> String {
    let document = documented(0).into_openapi();
    serde_json::to_string_pretty(&document).unwrap_or_default()
}

fn documented(max_payload: usize) -> OpenApiRouter<Arc<Site>> {
    let api = OpenApiRouter::new()
        .routes(routes!(queues::list))
        .routes(routes!(queues::show, queues::destroy))
        .routes(routes!(queues::pause))
        .routes(routes!(queues::resume))
        .routes(routes!(queues::clear))
        .routes(routes!(queues::groups))
        .routes(routes!(jobs::list))
        .merge(enqueue::router(max_payload))
        .routes(routes!(jobs::show, edit::edit, jobs::delete))
        .routes(routes!(jobs::log))
        .routes(routes!(jobs::retry))
        .routes(routes!(jobs::promote))
        .routes(routes!(jobs::cancel))
        .routes(routes!(jobs::move_to))
        .routes(routes!(jobs::anywhere))
        .routes(routes!(jobs::broken))
        .routes(routes!(jobs::show_broken, jobs::delete_broken))
        .routes(routes!(jobs::requeue_broken))
        .routes(routes!(broadcasts::list))
        .routes(routes!(broadcasts::cancel))
        .routes(routes!(batches::list))
        .routes(routes!(batches::show))
        .routes(routes!(batches::cancel))
        .routes(routes!(batches::pause))
        .routes(routes!(batches::resume))
        .routes(routes!(batches::verify))
        .routes(routes!(batches::repair))
        .routes(routes!(workers::list))
        .routes(routes!(workers::show))
        .routes(routes!(workers::quiet))
        .routes(routes!(workers::resume))
        .routes(routes!(workers::stop))
        .routes(routes!(charts::show))
        .routes(routes!(deploys::list, deploys::mark))
        .routes(routes!(types::list))
        .routes(routes!(types::show))
        .routes(routes!(scale::show))
        .routes(routes!(server::audit))
        .routes(routes!(server::crashes))
        .routes(routes!(server::doctor))
        .routes(routes!(cron::list))
        .routes(routes!(cron::show, cron::remove))
        .routes(routes!(cron::pause))
        .routes(routes!(cron::resume))
        .routes(routes!(cron::run))
        .routes(routes!(limits::list))
        .routes(routes!(limits::set, limits::unset))
        .routes(routes!(limits::pause))
        .routes(routes!(limits::resume))
        .routes(routes!(limits::locks))
        .routes(routes!(limits::unlock))
        .routes(routes!(events::events));
    let mut all = OpenApiRouter::with_openapi(document::head()).nest("/api/v1", api);
    document::complete(all.get_openapi_mut());
    all
}

/// A path that is none.
pub(super) async fn no_such_path(uri: Uri) -> Problem {
    Problem::not_found(format!("there is nothing at {}", uri.path()))
}

/// A path that knows other methods.
pub(super) async fn no_such_method() -> Problem {
    Problem::of_rejection(StatusCode::METHOD_NOT_ALLOWED, "this path knows other methods".into())
}
