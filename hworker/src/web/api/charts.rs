//! Charts.

use std::sync::Arc;

use axum::extract::State;
use serde::Deserialize;
use utoipa::IntoParams;

use super::extract::Query;
use crate::charts::{Chart, Window};
use crate::web::problem::Problem;
use crate::web::schema::QueueName;
use crate::web::site::Site;

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Which {
    /// The queue.
    #[param(value_type = QueueName)]
    queue: String,
    /// Only this type of jobs.
    job: Option<String>,
    /// `1h` by the minute, `24h` by ten minutes, `30d` by the hour.
    #[param(pattern = "^(1h|24h|30d)$")]
    window: Option<String>,
}

/// The window of this name.
pub(crate) fn window(text: &str) -> Result<Window, Problem> {
    match text {
        "1h" => Ok(Window::Hour),
        "24h" => Ok(Window::Day),
        "30d" => Ok(Window::Month),
        _ => Err(Problem::invalid(format!("`{text}` is no window: `1h`, `24h`, `30d`"))),
    }
}

/// What the jobs of a queue did over a time, point by point. What workers did in the last ten seconds is not in it yet.
#[utoipa::path(get, path = "/charts", tag = "charts", params(Which), responses((status = 200, body = Chart)))]
pub(super) async fn show(
    State(site): State<Arc<Site>>,
    Query(which): Query<Which>,
) -> Result<axum::Json<Chart>, Problem> {
    let window = window(which.window.as_deref().unwrap_or("1h"))?;
    let mut chart = site.client.inspect(&which.queue).chart(window).await?;
    if let Some(job) = &which.job {
        for point in &mut chart.points {
            point.jobs.retain(|name, _| name == job);
        }
    }
    Ok(axum::Json(chart))
}
