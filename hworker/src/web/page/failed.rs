//! Failed: what is broken? Groups of failures, the largest first.

use axum::response::Html;
use maud::{Markup, html};
use serde::Deserialize;

use super::figures::{NONE, clock, count, instant, number, share};
use super::history::{History, Past};
use super::link::with;
use super::overview::failing;
use super::row::kind_icon;
use super::text::{cut, name};
use super::view::{View, empty, head, windows};
use crate::inspect::Group;
use crate::web::api::extract::Query;
use crate::web::problem::Problem;

#[derive(Deserialize)]
pub(super) struct Asks {
    #[serde(default)]
    queue: String,
    #[serde(default)]
    w: String,
}

/// So many groups are on the page.
const GROUPS: usize = 100;

pub(super) async fn show(view: View, Query(asks): Query<Asks>) -> Result<Html<String>, Problem> {
    let past = Past::named(&asks.w)?;
    let queue = &*asks.queue;
    let mut groups = failing(&view).await?;
    if !queue.is_empty() {
        groups.retain(|(of, _)| of == queue);
    }
    let history = History::of(&view, &past, queue).await?.0.marked(&view).await?;
    let failed = match view.queue(queue) {
        _ if queue.is_empty() => view.sum(|counts| counts.failed),
        known => known.map_or(0, |known| known.counts.failed),
    };
    let path = view.at("/failed");
    let content = html! {
        (head(&html! { "Failed" }, &verdict(&groups, failed), &windows(&path, &[("queue", queue)], past.name)))
        (history.failures(&past))
        div.filter { (view.picker("/failed", queue, &[("w", past.name)], true)) }
        section.panel {
            header {
                h2 { "Groups" } p.hide-s { "jobs that failed with the same message, type and place" }
                @if failed > 0 {
                    a.push.dim href=(view.jobs_link(view.chosen(queue, |counts| counts.failed), "failed", "")) { "Job by job" }
                }
            }
            @if groups.is_empty() && failed == 0 {
                (empty("done", "Nothing failed", &html! { "No record of a failed job is kept." }))
            } @else if groups.is_empty() {
                @let text = html! { (count(failed, "job", "jobs")) " failed, and no group says of what: look at them job by job." };
                (empty("failed", "No groups", &text))
            } @else {
                ol.list.err role="list" data-live="groups" {
                    @for (queue, group) in groups.iter().take(GROUPS) { (line(&view, queue, group)) }
                }
                @if groups.len() > GROUPS { p.pages { (GROUPS) " of " (groups.len()) " groups are shown." } }
            }
        }
        (history.footnote(&view))
    };
    Ok(view.page("/failed", &format!("Failed {}", number(failed)), &content))
}

fn verdict(groups: &[(String, Group)], failed: u64) -> Markup {
    let Some((_, largest)) = groups.first() else {
        return html! { @if failed == 0 { "No job has failed." } @else { (count(failed, "job has", "jobs have")) " failed." } };
    };
    html! {
        (count(failed, "job", "jobs")) " in " (count(groups.len() as u64, "group", "groups")) "."
        @if groups.len() > 1 { " The largest is " (share(largest.count, failed)) " of them." }
    }
}

fn line(view: &View, queue: &str, group: &Group) -> Markup {
    let link = view.jobs_link(queue, "failed", &format!("group:{}", group.name));
    // As many as can be changed at once.
    let link = with(&link, &[("limit", "100")]);
    html! {
        li data-href=(link) {
            (kind_icon(&group.kind, "failed"))
            div {
                a.msg href=(link) { @if group.message.is_empty() { (NONE) } @else { (cut(&group.message, 300)) } }
                p.meta {
                    b { (name(&group.job)) } span { (name(queue)) } span { (cut(&group.kind, 20)) }
                    span {
                        "first " time datetime=(super::figures::iso(group.first)) title=(super::figures::full(group.first)) {
                            (super::figures::date(group.first)) ", " (clock(group.first))
                        }
                    }
                    span { "last " (instant(group.last, view.now)) }
                }
            }
            span {}
            span.count { (number(group.count)) }
            span.row { a.btn.low.hide-s href=(link) { "Show jobs" } }
        }
    }
}
