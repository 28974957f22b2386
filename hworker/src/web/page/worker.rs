//! Worker: what does this one do?

use axum::response::Html;
use maud::html;

use super::figures::{instant, number, span};
use super::frame::icon;
use super::text::{cut, foreign, name};
use super::view::{View, empty, head};
use super::workers::{Fleet, actions, busy, running, state};
use crate::time::millis;
use crate::web::api::extract::Path;
use crate::web::problem::Problem;

/// So many running jobs are on the page.
const RUNNING: usize = 200;

pub(super) async fn show(view: View, Path(id): Path<String>) -> Result<Html<String>, Problem> {
    let fleet = Fleet::of(&view, view.names()).await?;
    let Some(worker) = fleet.workers.get(&id) else { return missing(&view, &id).await };
    let jobs: Vec<_> =
        fleet.running.iter().filter(|(_, of, _)| *of == id).take(RUNNING).cloned().collect();
    let (mark, word) = state(worker);
    let title = html! { (cut(&id, 40)) " " span class={ "badge " (mark) } { (icon(mark)) (word) } };
    let (runs, slots) = busy(worker);
    let verdict = html! {
        (number(runs)) " of " (number(slots)) " slots busy on " (foreign(&worker.host))
        ". Heard of " (span(millis(worker.heard))) " ago."
        @if let Some(since) = worker.blocked_since {
            " A body has blocked the runtime of its jobs for " (span(view.now.saturating_sub(since)))
            ": no other async job of this worker goes on. Make such a job a fn that is not async."
        }
    };
    let content = html! {
        p.crumb { a href=(view.at("/workers")) { "Workers" } }
        (head(&title, &verdict, &actions(&view, worker, "")))
        div.two {
            section.panel {
                header { h2 { "It runs" } p { (jobs.len()) " of " (worker.running.len()) } }
                @if jobs.is_empty() { (empty("waiting", "Nothing", &html! { "Its slots are free." })) } @else { (running(&view, &jobs)) }
            }
            section.panel {
                header { h2 { "Facts" } }
                div.body {
                    dl.facts data-live="facts" {
                        dt { "Host" } dd { (foreign(&worker.host)) }
                        dt { "Process" } dd { (worker.pid) }
                        dt { "hworker" } dd { (foreign(&worker.version)) }
                        dt { "Started" } dd { (instant(worker.started, view.now)) }
                        dt { "Slots" } dd { (worker.concurrency) }
                        dt { "Done" } dd { (number(worker.processed)) }
                        dt { "Failed" } dd { (number(worker.failed)) }
                        dt { "Queues" }
                        dd {
                            @for (at, queue) in worker.queues.iter().enumerate() {
                                @if at > 0 { ", " } a href=(view.queue_link(queue)) { (name(queue)) }
                            }
                        }
                    }
                }
            }
        }
    };
    Ok(view.page("/workers", "Worker", &content))
}

/// One that does not live; it may have died.
async fn missing(view: &View, id: &str) -> Result<Html<String>, Problem> {
    let dead = view.site.client.dead_workers().await?;
    let died = dead.iter().find(|dead| dead.worker == id).map(|dead| dead.at);
    let text = html! {
        @match died {
            Some(at) => { "It died " (instant(at, view.now)) ". " a href=(view.at("/crashes")) { "What it held" } },
            None => "It stopped, or was never there."
        }
    };
    let content = html! {
        p.crumb { a href=(view.at("/workers")) { "Workers" } }
        (head(&html! { (cut(id, 40)) }, &html! { "No such worker was heard of lately." }, &html! {}))
        section.panel { (empty("crash", "It does not live", &text)) }
    };
    Ok(view.page("/workers", "Worker", &content))
}
