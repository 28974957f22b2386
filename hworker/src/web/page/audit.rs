//! Audit: who did what by hand?

use axum::response::Html;
use maud::{Markup, html};
use serde::Deserialize;

use super::columns::columns;
use super::figures::{NONE, count, instant};
use super::frame::icon;
use super::link::with;
use super::text::{cut, foreign, name, plain};
use super::view::{View, empty, head};
use crate::audit::AuditEntry;
use crate::web::api::extract::Query;
use crate::web::problem::Problem;

#[derive(Deserialize)]
pub(super) struct Asks {
    limit: Option<usize>,
}

/// So many entries are on the page, and at most so many.
const ENTRIES: usize = 200;
const MOST: usize = 1_000;

pub(super) async fn show(view: View, Query(asks): Query<Asks>) -> Result<Html<String>, Problem> {
    let most = asks.limit.unwrap_or(ENTRIES).clamp(1, MOST);
    let entries = view.site.client.audit_log(most).await?;
    let verdict = html! {
        "The last " (count(entries.len() as u64, "entry", "entries"))
        ". Each thing that is done stands here before it is done, and with what came of it after."
    };
    let content = html! {
        (head(&html! { "Audit" }, &verdict, &html! {}))
        section.panel {
            @if entries.is_empty() { (empty("shield", "Nothing was done by hand", &html! { "The last 10,000 entries are kept." })) }
            @else {
                (table(&view, &entries))
                @if entries.len() == most && most < MOST {
                    p.pages { a.btn.low href=(with(&view.at("/audit"), &[("limit", "1000")])) { "Show 1,000" } }
                }
            }
        }
    };
    Ok(view.page("/audit", "Audit", &content))
}

fn table(view: &View, entries: &[AuditEntry]) -> Markup {
    html! {
        table {
            (columns(&[("w3", "When"), ("w4", "Who"), ("w3", "Did"), ("w4 ge-m", "Queue"), ("ge-s", "To"), ("w5 ge-s", "Result")]))
            tbody data-live="audit" { @for entry in entries { (line(view, entry)) } }
        }
    }
}

fn line(view: &View, entry: &AuditEntry) -> Markup {
    let at = entry.id.split('-').next().and_then(|ms| ms.parse().ok());
    html! {
        tr {
            td { @if let Some(at) = at { (instant(at, view.now)) } @else { (NONE) } }
            th scope="row" title=(plain(&entry.who)) { (cut(&entry.who, 60)) }
            td { (foreign(&entry.action)) }
            td.ge-m {
                @if entry.queue.is_empty() {
                    span.faint { (NONE) }
                } @else {
                    a href=(view.queue_link(&entry.queue)) { (name(&entry.queue)) }
                }
            }
            td.ge-s title=(plain(&entry.what)) { (cut(&entry.what, 200)) }
            td.ge-s {
                @if entry.result.starts_with("failed") { (icon("failed")) " " }
                span title=(plain(&entry.result)) { (cut(&entry.result, 100)) }
            }
        }
    }
}
