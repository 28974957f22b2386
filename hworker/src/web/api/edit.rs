//! Changes of what a job carries, of its time, priority and queue.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use axum::extract::State;
use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::extract::{Json, Path, Query};
use super::jobs::Seen;
use crate::inspect::{Action, Edit, When};
use crate::priority::Priority;
use crate::web::act;
use crate::web::guard::Asked;
use crate::web::problem::Problem;
use crate::web::schema::{Tag, Whole};
use crate::web::shown;
use crate::web::site::Site;

/// One of these.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Changes {
    /// Arguments by their names, or paths as `to.city`; the others stay. An ended job runs again with them.
    #[serde(default)]
    #[schema(value_type = Option<BTreeMap<String, Value>>)]
    args: Option<BTreeMap<String, Box<RawValue>>>,
    /// All its tags; may be given with `args`.
    #[schema(value_type = Option<Vec<Tag>>, max_items = 16)]
    tags: Option<Vec<String>>,
    /// When it is due, in milliseconds since 1970.
    #[schema(inline)]
    due: Option<Whole>,
    /// In how many milliseconds it is due.
    #[schema(inline)]
    delay_ms: Option<Whole>,
    /// Its priority.
    #[schema(value_type = Option<Priority>)]
    priority: Option<String>,
}

impl Changes {
    fn action(self) -> Result<(&'static str, Action), Problem> {
        let Self { args, tags, due, delay_ms, priority } = self;
        let edits = args.is_some() || tags.is_some();
        let given = [edits, due.is_some(), delay_ms.is_some(), priority.is_some()];
        if given.iter().filter(|given| **given).count() != 1 {
            return Err(Problem::invalid(
                "change one thing at a time: `args` and `tags`, `due`, `delay_ms`, or `priority`",
            ));
        }
        if let Some(priority) = priority {
            let priority = priority.parse().map_err(Problem::invalid)?;
            return Ok(("set priority", Action::SetPriority(priority)));
        }
        let due = due.map(|ms| UNIX_EPOCH.checked_add(Duration::from_millis(ms.0)));
        match (due, delay_ms) {
            (Some(Some(time)), _) => return Ok(("reschedule", Action::Reschedule(When::At(time)))),
            (Some(None), _) => return Err(Problem::invalid("`due` is too late")),
            (None, Some(ms)) => {
                let delay = Duration::from_millis(ms.0);
                return Ok(("reschedule", Action::Reschedule(When::In(delay))));
            }
            (None, None) => {}
        }
        let mut edit = Edit::new();
        for (path, json) in args.unwrap_or_default() {
            edit = edit.arg(path, json.get());
        }
        Ok(("edit", Action::Edit(tags.into_iter().fold(edit, Edit::tags))))
    }
}

/// Changes the arguments, tags, time or priority of a job.
#[utoipa::path(
    patch, path = "/queues/{queue}/jobs/{id}", tag = "jobs", params(Seen), request_body = Changes,
    responses((status = 204, description = "It is changed"))
)]
pub(super) async fn edit(
    State(site): State<Arc<Site>>,
    asked: Asked,
    Path((queue, id)): Path<(String, String)>,
    Query(seen): Query<Seen>,
    Json(changes): Json<Changes>,
) -> Result<StatusCode, Problem> {
    let which = seen.of(&id);
    let args = changes.args.clone();
    let (verb, action) = changes.action()?;
    // Before its arguments are looked at: what does not fit tells of them.
    site.check_may(&asked, verb, &queue)?;
    if let Some(args) = &args {
        let checked = act::check_edit(&site, &queue, &which, args).await;
        checked.map_err(|problem| shown::problem(problem, &asked))?;
    }
    act::change_one(&site, &asked, &queue, &which, (verb, &action)).await?;
    Ok(StatusCode::NO_CONTENT)
}
