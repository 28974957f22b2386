//! Queues: which there are, and how each stands.

use axum::response::Html;
use maud::html;
use serde::Deserialize;

use super::figures::{count, number};
use super::queue_rows::{rows, table};
use super::text::foreign;
use super::view::{View, empty, head, summaries};
use crate::web::api::extract::Query;
use crate::web::each::QUEUES;
use crate::web::problem::Problem;

#[derive(Deserialize)]
pub(super) struct Asks {
    /// Only queues with this in their names.
    #[serde(default)]
    name: String,
}

pub(super) async fn show(view: View, Query(asks): Query<Asks>) -> Result<Html<String>, Problem> {
    let name = asks.name.trim();
    let is_asked = !name.is_empty();
    let queues = if is_asked {
        let names = view.site.queue_names().await?.into_iter().filter(|known| known.contains(name));
        summaries(&view.site, names.take(QUEUES)).await?
    } else {
        view.queues.clone()
    };
    let rows = rows(&view, &queues).await?;
    let waiting: u64 = queues.iter().map(|queue| queue.counts.waiting).sum();
    let paused = queues.iter().filter(|queue| queue.paused.is_some()).count() as u64;
    let verdict = html! {
        (count(rows.len() as u64, "queue", "queues")) ", " (count(waiting, "job waits", "jobs wait")) "."
        @if paused > 0 { " " (count(paused, "is paused.", "are paused.")) }
        @if view.known > QUEUES && !is_asked {
            " The first " (QUEUES) " of " (number(view.known as u64)) " are shown: say what is in the name of others."
        }
    };
    let content = html! {
        (head(&html! { "Queues" }, &verdict, &html! {}))
        form.filter role="search" method="get" action=(view.at("/queues")) {
            div.query {
                i.i.search aria-hidden="true" {}
                input name="name" value=(name) aria-label="Part of a name" placeholder="Part of a name" autocomplete="off";
            }
            button.btn type="submit" { "Find" }
        }
        section.panel {
            @if rows.is_empty() && is_asked {
                @let text = html! {
                    "Looked through " (number(view.known as u64)) " queues for " code { (foreign(name)) } ". "
                    a href=(view.at("/queues")) { "Show all" }
                };
                (empty("search", "No queue matches", &text))
            } @else if rows.is_empty() {
                (empty("waiting", "No queues yet", &html! { "A queue appears with its first job or its first worker." }))
            } @else {
                (table(&view, &rows))
            }
        }
    };
    Ok(view.page("/queues", "Queues", &content))
}
