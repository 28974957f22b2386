//! Queue: when is it empty, and who serves it?

use axum::response::Html;
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::Value;

use super::broadcasts;
use super::chart::meter;
use super::columns::columns;
use super::figures::{NONE, count, from_now, number, rate, share, since, span, span_of};
use super::frame::icon;
use super::history::{History, Past};
use super::link::with;
use super::queue_rows::{Row, rows};
use super::row::{args, in_state, text};
use super::text::{cut, name, plain};
use super::view::{Button, View, head, windows};
use crate::control::LimitInfo;
use crate::inspect::{QueueInfo, WorkerInfo};
use crate::job_state::JobState;
use crate::web::api::extract::{Path, Query};
use crate::web::each::readable;
use crate::web::problem::Problem;
use crate::web::shown;

#[derive(Deserialize)]
pub(super) struct Asks {
    #[serde(default)]
    w: String,
}

/// So many jobs that are next are shown.
const NEXT: usize = 5;

pub(super) async fn show(
    view: View,
    Path(queue): Path<String>,
    Query(asks): Query<Asks>,
) -> Result<Html<String>, Problem> {
    let past = Past::named(&asks.w)?;
    let inspect = view.site.client.inspect(&queue);
    let info = inspect.summary().await?;
    let mut found = rows(&view, std::slice::from_ref(&info)).await?;
    let Some(row) = found.pop() else {
        return Err(Problem::not_found(format!("no queue {queue}")));
    };
    let history = History::of(&view, &past, &queue).await?.0.marked(&view).await?;
    let workers: Vec<WorkerInfo> = readable(inspect.workers().await)?;
    let limits: Vec<LimitInfo> = readable(view.site.client.control(&queue).limits().await)?;
    let broadcasts = readable(view.site.client.control(&queue).broadcasts().await)?;
    let next = next(&view, &queue).await?;
    let title = html! { (name(&queue)) " " (badge(&info)) };
    let content = html! {
        p.crumb { a href=(view.at("/queues")) { "Queues" } }
        (head(&title, &verdict(&view, &row), &html! { (windows(&view.queue_link(&queue), &[], past.name)) (actions(&view, &info)) }))
        (tiles(&view, &row, &history, &past))
        div.half { (history.backlog()) (history.throughput(&past)) }
        div.two {
            div.stack { (types(&view, &queue, &history, &past, &row)) (next) (broadcasts::panel(&view, &queue, &broadcasts)) }
            div.stack { (served(&view, &workers)) (limited(&view, &queue, &limits)) (facts(&view, &info)) }
        }
    };
    Ok(view.page("/queues", &queue, &content))
}

fn badge(info: &QueueInfo) -> Markup {
    let (class, word) = match (info.paused, info.workers) {
        (Some(_), _) => ("paused", "Paused"),
        (None, 0) => ("cancelled", "Not served"),
        (None, _) => ("running", "Active"),
    };
    html! { span class={ "badge " (class) } { (icon("")) (word) } }
}

fn verdict(view: &View, row: &Row) -> Markup {
    let (info, waiting) = (&row.info, row.info.counts.waiting);
    html! {
        @if waiting == 0 { "No job waits." } @else { (count(waiting, "job waits.", "jobs wait.")) }
        @if let Some(pause) = info.paused {
            @match pause.until {
                Some(at) => { " It is paused; that ends " (from_now(at, view.now)) "." },
                None => " It is paused until somebody resumes it."
            }
        } @else if info.workers == 0 {
            " No worker serves it: start one."
        } @else if let Some(time) = row.lately.empty_in(waiting) {
            " If all goes on so, the queue is empty in " (span_of(Some(time))) "."
        } @else if let Some(growth) = row.growth() {
            " They become more, by " (rate(growth)) " a second."
        }
    }
}

fn actions(view: &View, info: &QueueInfo) -> Markup {
    let queue = &*info.name;
    let deed = if info.paused.is_some() { "resume" } else { "pause" };
    let states: Vec<JobState> = JobState::ALL
        .into_iter()
        .filter(|state| *state != JobState::Running && in_state(info, *state) > 0)
        .collect();
    let labels: Vec<String> = states.iter().map(|state| format!("Clear {state}")).collect();
    let fields: Vec<_> = states.iter().map(|state| [("state", state.name())]).collect();
    let mut buttons: Vec<_> = labels
        .iter()
        .zip(&fields)
        .map(|(label, fields)| Button {
            deed: "clear",
            queue,
            fields,
            label: Some(label),
            ..Button::default()
        })
        .collect();
    let back = view.at("/queues");
    buttons.push(Button { deed: "destroy", queue, back: Some(&back), ..Button::default() });
    html! {
        (view.button(&Button { deed, queue, class: "btn", ..Button::default() }))
        @if view.may("enqueue", queue) { a.btn href=(view.at("/types")) { (icon("plus")) "Enqueue" } }
        (view.menu("", &buttons))
    }
}

fn tiles(view: &View, row: &Row, history: &History, past: &Past) -> Markup {
    let (counts, total, lately) = (row.info.counts, history.total(), &row.lately);
    let ended = total.ended();
    html! {
        dl.panel.tiles data-live="tiles" {
            div {
                dt { "Waiting" } dd { (number(counts.waiting)) }
                dd { @if let Some(oldest) = row.oldest { "oldest " (since(oldest, view.now)) } @else { "none waits" } }
            }
            div { dt { "Running" } dd { (number(counts.running)) } dd { (count(row.info.workers as u64, "worker", "workers")) } }
            div {
                dt { "Ended" }
                dd { (rate(lately.ended_per_min / 60.0)) small { "/s" } }
                dd { (number(total.ok)) " in the last " (past.words) }
            }
            div {
                dt { "Failed" }
                dd { a.name href=(with(&view.at("/failed"), &[("queue", &row.info.name)])) { (number(counts.failed)) } }
                dd { (share(total.failed, ended)) " of what ended" }
            }
            div { dt { "Run p95" } dd { (span_of(total.run.quantile(0.95))) } dd { "p50 " (span_of(total.run.quantile(0.5))) } }
            div { dt { "Wait p95" } dd { (span_of(total.wait.quantile(0.95))) } dd { "p50 " (span_of(total.wait.quantile(0.5))) } }
        }
    }
}

/// What jobs of which types ended, the most first.
fn types(view: &View, queue: &str, history: &History, past: &Past, row: &Row) -> Markup {
    let mut types: std::collections::BTreeMap<&str, u64> = std::collections::BTreeMap::new();
    for point in row.chart.iter().flat_map(|chart| &chart.points) {
        for (job, tally) in &point.jobs {
            *types.entry(job).or_default() += tally.ended();
        }
    }
    let all: u64 = types.values().sum();
    let mut types: Vec<_> = types.into_iter().collect();
    types.sort_by_key(|(_, ended)| std::cmp::Reverse(*ended));
    let link = with(&view.at("/charts"), &[("queue", queue), ("w", past.name)]);
    html! {
        section.panel {
            header { h2 { "Types" } p { "of the last hour" } a.push.dim href=(link) { "All figures" } }
            @if types.is_empty() || history.begins.is_empty() {
                p.body.faint { "No job has ended in the last hour." }
            } @else {
                table data-live="types" {
                    (columns(&[("", "Type"), ("n w3", "Ended"), ("n w2", "Share")]))
                    tbody {
                        @for (job, ended) in types.into_iter().take(8) {
                            tr {
                                th scope="row" { a.name href=(view.type_link(job)) { (name(job)) } }
                                td.n { (number(ended)) }
                                td.n.faint { (share(ended, all)) }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The jobs whose turn is next.
async fn next(view: &View, queue: &str) -> Result<Markup, Problem> {
    let inspect = view.site.client.inspect(queue);
    let page = inspect.jobs(JobState::Waiting).limit(NEXT).page().await?;
    let known = if page.items.is_empty() { Vec::new() } else { view.site.types().await? };
    let jobs: Vec<Value> =
        page.items.iter().map(|job| shown::job(job, &known, &view.asked)).collect();
    Ok(html! {
        section.panel {
            header { h2 { "Next to run" } a.push.dim href=(view.jobs_link(queue, "waiting", "")) { "All waiting" } }
            @if jobs.is_empty() {
                p.body.faint { "No job waits." }
            } @else {
                table data-live="next" {
                    (columns(&[("w1", "Place"), ("w4 flex-s", "Job"), ("ge-s", "Arguments"), ("n w3", "Waits")]))
                    tbody {
                        @for (place, job) in jobs.iter().enumerate() {
                            tr {
                                td.faint { (place + 1) }
                                th scope="row" {
                                    @if let Some(id) = text(job, "id") {
                                        a.name href=(view.job_link(queue, id)) { (name(text(job, "job").unwrap_or(NONE))) }
                                    }
                                    @else { (name(text(job, "job").unwrap_or(NONE))) }
                                }
                                td.ge-s { (args(job)) }
                                td.n { @if let Some(at) = job["at"].as_u64() { (since(at, view.now)) } @else { (NONE) } }
                            }
                        }
                    }
                }
            }
        }
    })
}

fn served(view: &View, workers: &[WorkerInfo]) -> Markup {
    html! {
        section.panel {
            header { h2 { "Served by" } p { (count(workers.len() as u64, "worker", "workers")) } }
            div.body {
                @if workers.is_empty() { p.faint { "No worker serves this queue." } }
                dl.facts data-live="served" {
                    @for worker in workers.iter().take(20) {
                        @let (runs, slots) = super::workers::busy(worker);
                        dt { a href=(view.worker_link(&worker.id)) title=(plain(&worker.id)) { (cut(&worker.host, 14)) } }
                        dd {
                            span.row.load {
                                (meter(runs, slots, "", &format!("{runs} of {slots} slots run its jobs"))) span {
                                    (runs) small { " / " (slots) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn limited(view: &View, queue: &str, limits: &[LimitInfo]) -> Markup {
    html! {
        section.panel {
            header { h2 { "Limits" } a.push.dim href=(with(&view.at("/limits"), &[("queue", queue)])) { "Change" } }
            div.body {
                @if limits.is_empty() { p.faint { "None." } }
                dl.facts {
                    @for limit in limits.iter().take(12).map(|limit| shown::limit(limit.clone(), &view.asked)) {
                        dt { @if limit.name == "*" { "Queue" } @else { (super::limits::label(&limit.name)) } }
                        dd { (super::limits::says(&limit)) }
                    }
                }
            }
        }
    }
}

fn facts(view: &View, info: &QueueInfo) -> Markup {
    let counts = info.counts;
    let rows = [
        ("Scheduled", counts.scheduled, "scheduled"),
        ("Parked", counts.parked, "parked"),
        ("Done, kept", counts.done, "done"),
        ("Cancelled", counts.cancelled, "cancelled"),
        ("Expired", counts.expired, "expired"),
        ("Broken", counts.broken, "broken"),
    ];
    html! {
        section.panel {
            header { h2 { "Facts" } }
            div.body {
                dl.facts data-live="facts" {
                    @for (label, jobs, state) in rows {
                        dt { (label) } dd { a href=(view.jobs_link(&info.name, state, "")) { (number(jobs)) } }
                    }
                    @if let Some(until) = info.paused.and_then(|pause| pause.until) {
                        dt { "Paused for" } dd { (span(until.saturating_sub(view.now))) }
                    }
                }
            }
        }
    }
}
