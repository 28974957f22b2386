//! Finds a job of which only the id is known.

use axum::response::{Html, IntoResponse, Redirect, Response};
use maud::html;
use serde::Deserialize;

use super::ask::input;
use super::frame::icon;
use super::link::overview;
use super::view::View;
use crate::envelope::JobId;
use crate::web::api::extract::Query;
use crate::web::problem::Problem;

#[derive(Deserialize)]
pub(super) struct Asks {
    #[serde(default)]
    id: String,
}

pub(super) async fn show(view: View, Query(asks): Query<Asks>) -> Result<Response, Problem> {
    let id = asks.id.trim();
    if id.is_empty() {
        return Ok(form(&view).into_response());
    }
    let wanted = JobId::from(id);
    // The queues one after the other: it is known by its id in a call, unless it has to be looked for.
    for queue in view.names() {
        if view.site.find(&queue, &wanted).await?.is_some() {
            return Ok(Redirect::to(&view.job_link(&queue, id)).into_response());
        }
    }
    Err(Problem::not_found(format!(
        "no job {id} on any of the {} queues that were looked through",
        view.queues.len()
    )))
}

fn form(view: &View) -> Html<String> {
    let content = html! {
        section.panel.question aria-labelledby="question" {
            form method="get" action=(view.at("/find")) {
                h1 id="question" { "Find a job" }
                (input("id", "Its id", "on any queue", "019a4f…", ""))
                footer.row {
                    a.btn.push href=(overview(&view.base)) data-close="" { "Cancel" }
                    button.btn.main type="submit" { (icon("search")) "Find" }
                }
            }
        }
    };
    view.page("", "Find a job", &content)
}
