//! Overview: is anything wrong, and since when?

use axum::response::Html;
use maud::{Markup, html};
use serde::Deserialize;

use super::figures::{NONE, count, from_now, number, rate, span, span_of};
use super::frame::icon;
use super::history::{History, Past};
use super::link::{overview, with};
use super::queue_rows::{Row, rows, table};
use super::text::{cut, name};
use super::view::{Button, View, head, windows};
use super::welcome;
use crate::charts::{Tally, Window};
use crate::inspect::Group;
use crate::web::api::extract::Query;
use crate::web::each::{each, readable};
use crate::web::problem::Problem;
use crate::web::shown;

#[derive(Deserialize)]
pub(super) struct Asks {
    #[serde(default)]
    w: String,
}

/// A group of failures lately is worth a word for so long, in ms.
const LATELY: u64 = 3_600_000;

/// So many queues are in the table, and so many groups are alerts.
const QUEUES: usize = 10;
const GROUPS: usize = 3;

/// Jobs that have waited for so long, in ms, and become more.
const LONG: u64 = 30_000;

pub(super) async fn show(view: View, Query(asks): Query<Asks>) -> Result<Html<String>, Problem> {
    let past = Past::named(&asks.w)?;
    if view.queues.is_empty() {
        return welcome::show(&view).await;
    }
    let rows = rows(&view, &view.queues).await?;
    let history = match past.window {
        Window::Hour => History::sum(rows.iter().filter_map(|row| row.chart.as_ref())),
        _ => History::of(&view, &past, "").await?.0,
    };
    let history = history.marked(&view).await?;
    let alerts = alerts(&view, &rows).await?;
    let verdict = match alerts.len() {
        0 => html! { "Nothing needs attention." },
        1 => html! { "One thing needs attention. Everything else runs." },
        more => html! { (more) " things need attention. Everything else runs." },
    };
    let content = html! {
        (head(&html! { "Overview" }, &verdict, &windows(overview(&view.base), &[], past.name)))
        div.stack data-live="alerts" {
            @if !alerts.is_empty() {
                section.panel aria-label="Needs attention" { ul.list.alerts role="list" { @for alert in &alerts { (alert) } } }
            }
        }
        (tiles(&view, &rows, &history, &past))
        div.three { (history.throughput(&past)) (history.waits(&past)) (history.failures(&past)) }
        section.panel {
            header { h2 { "Queues" } a.push.dim href=(view.at("/queues")) { "All " (number(view.known as u64)) } }
            (table(&view, &rows[..rows.len().min(QUEUES)]))
        }
        (history.footnote(&view))
    };
    Ok(view.page("/", "Overview", &content))
}

fn tiles(view: &View, rows: &[Row], history: &History, past: &Past) -> Markup {
    let (total, mut lately) = (history.total(), Tally::default());
    for row in rows {
        lately.add(&row.lately.jobs);
    }
    let done: f64 = rows.iter().map(|row| row.lately.ended_per_min).sum::<f64>() / 60.0;
    let growth: f64 = rows.iter().filter_map(|row| row.lately.growth_per_min).sum::<f64>() / 60.0;
    let slowest = rows.iter().max_by_key(|row| row.lately.jobs.wait.quantile(0.95));
    html! {
        dl.panel.tiles data-live="tiles" {
            div { dt { "Ended" } dd { (rate(done)) small { "/s" } } dd { (number(total.ok)) " in the last " (past.words) } }
            div {
                dt { "Failed" } dd { (number(lately.failed)) small { "in 5 min" } }
                dd class=[(total.failed > 0).then_some("bad")] { (number(total.failed)) " in the last " (past.words) }
            }
            div {
                dt { "Waiting" } dd { (number(view.sum(|counts| counts.waiting))) }
                dd {
                    @if growth >= 0.1 {
                        "grows by " (rate(growth)) "/s"
                    } @else if growth <= -0.1 {
                        "shrinks by " (rate(-growth)) "/s"
                    } @else {
                        "steady"
                    }
                }
            }
            div {
                dt { "Running" }
                dd { (number(view.sum(|counts| counts.running))) }
                dd { "on " (count(view.queues.len() as u64, "queue", "queues")) }
            }
            div {
                dt { "Wait p95" } dd { (span_of(lately.wait.quantile(0.95))) }
                dd { @if let Some(row) = slowest { "longest on " (name(&row.info.name)) } @else { (NONE) } }
            }
            div {
                dt { "Scheduled" }
                dd { (number(view.sum(|counts| counts.scheduled))) }
                dd { (number(view.sum(|counts| counts.parked))) " parked" }
            }
        }
    }
}

/// What is wrong, the worst first, each with one thing to do.
async fn alerts(view: &View, rows: &[Row]) -> Result<Vec<Markup>, Problem> {
    let mut alerts: Vec<Markup> = Vec::new();
    for row in rows {
        let (info, waiting) = (&row.info, row.info.counts.waiting);
        if info.workers == 0 && waiting > 0 && info.paused.is_none() {
            alerts.push(alert(
                "broken failed",
                &html! { "Nobody serves " (name(&info.name)) },
                &html! { (count(waiting, "job waits", "jobs wait")) ", and no worker serves the queue" },
                &show_queue(view, row),
            ));
        }
    }
    for (queue, group) in lately(view).await? {
        let filter = format!("group:{}", group.name);
        let button = html! { a.btn.low href=(view.jobs_link(&queue, "failed", &filter)) { "Show the group" } };
        let text = html! {
            (count(group.count, "time", "times")) ", last " (from_now(group.last, view.now)) ", with “" (cut(&group.message, 120)) "”"
        };
        alerts.push(alert("failed", &html! { (name(&group.job)) " fails" }, &text, &button));
    }
    for row in rows {
        let (info, waiting) = (&row.info, row.info.counts.waiting);
        let oldest = row.oldest.map_or(0, |at| view.now.saturating_sub(at));
        if let Some(pause) = info.paused {
            let button = view.button(&Button {
                deed: "resume",
                queue: &info.name,
                class: "btn low",
                ..Button::default()
            });
            let text = html! {
                @match pause.until { Some(at) => { "ends " (from_now(at, view.now)) ". " }, None => "until somebody resumes it. " }
                (count(waiting, "job waits", "jobs wait"))
            };
            alerts.push(alert(
                "paused",
                &html! { (name(&info.name)) " is paused" },
                &text,
                &button,
            ));
        } else if let Some(growth) = row.growth().filter(|_| oldest >= LONG && info.workers > 0) {
            let text = html! { "The oldest waits " (span(oldest)) "; " (count(info.workers as u64, "worker serves", "workers serve")) " it" };
            alerts.push(alert(
                "expired paused",
                &html! { (name(&info.name)) " grows by " (rate(growth)) " jobs a second" },
                &text,
                &show_queue(view, row),
            ));
        }
        if info.counts.broken > 0 {
            let link = with(&view.at("/broken"), &[("queue", &info.name)]);
            let button = html! { a.btn.low href=(link) { "Show them" } };
            let what = html! { (count(info.counts.broken, "payload", "payloads")) " on " (name(&info.name)) " cannot be run" };
            alerts.push(alert(
                "broken paused",
                &what,
                &html! { "Not decoded, or of a type that no worker knew" },
                &button,
            ));
        }
    }
    Ok(alerts)
}

fn alert(mark: &str, what: &Markup, text: &Markup, button: &Markup) -> Markup {
    html! { li { (icon(mark)) p { b { (what) } " " span.dim { (text) } } div.row { (button) } } }
}

fn show_queue(view: &View, row: &Row) -> Markup {
    html! { a.btn.low href=(view.queue_link(&row.info.name)) { "Show the queue" } }
}

/// The largest groups of failures of the last hour.
async fn lately(view: &View) -> Result<Vec<(String, Group)>, Problem> {
    let mut groups: Vec<_> = failing(view).await?;
    groups.retain(|(_, group)| view.now.saturating_sub(group.last) < LATELY);
    groups.truncate(GROUPS);
    Ok(groups)
}

/// The groups of failures of all queues that are shown, the largest first.
pub(super) async fn failing(view: &View) -> Result<Vec<(String, Group)>, Problem> {
    let failed = view.queues.iter().filter(|queue| queue.counts.failed > 0);
    let names: Vec<_> = failed.map(|queue| queue.name.clone()).collect();
    let read = |client: crate::Client, name: String| async move {
        readable(client.inspect(&name).groups().await)
    };
    let answers = each(&view.site.client, names, read).await?;
    let mut groups: Vec<_> = answers
        .into_iter()
        .flat_map(|(queue, groups)| groups.into_iter().map(move |group| (queue.clone(), group)))
        .map(|(queue, group)| (queue, shown::group(group, &view.asked)))
        .collect();
    groups.sort_by_key(|(_, group)| std::cmp::Reverse((group.count, group.last)));
    Ok(groups)
}
