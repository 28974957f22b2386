//! Workers: who works, who hangs?

use std::collections::BTreeMap;

use axum::response::Html;
use maud::{Markup, html};
use serde::Deserialize;

use super::chart::meter;
use super::columns::columns;
use super::figures::{NONE, count, number, since, span};
use super::frame::icon;
use super::text::{cut, foreign, name, plain};
use super::view::{Button, View, empty, head};
use crate::dead_workers::DeadWorker;
use crate::inspect::{RunningJob, WorkerInfo};
use crate::time::millis;
use crate::web::api::extract::Query;
use crate::web::api::workers::by_queue;
use crate::web::problem::Problem;

#[derive(Deserialize)]
pub(super) struct Asks {
    #[serde(default)]
    queue: String,
}

/// So many workers, and running jobs, are on the page.
const WORKERS: usize = 100;
const RUNNING: usize = 10;

/// A worker that was not heard of for so long, in ms, is late.
const LATE: u64 = 5_000;

/// A day, in ms.
const DAY: u64 = 86_400_000;

/// Workers, and what each runs on which queue.
pub(super) struct Fleet {
    pub(super) workers: BTreeMap<String, WorkerInfo>,
    /// The queue, the worker's id, and the job.
    pub(super) running: Vec<(String, String, RunningJob)>,
}

impl Fleet {
    pub(super) async fn of(view: &View, names: Vec<String>) -> Result<Self, Problem> {
        let mut fleet = Self { workers: BTreeMap::new(), running: Vec::new() };
        for (queue, workers) in by_queue(&view.site, names).await? {
            for worker in workers {
                let jobs = worker.running.iter().cloned();
                fleet.running.extend(jobs.map(|job| (queue.clone(), worker.id.clone(), job)));
                match fleet.workers.get_mut(&worker.id) {
                    Some(known) => known.add(worker),
                    None => _ = fleet.workers.insert(worker.id.clone(), worker),
                }
            }
        }
        fleet.running.sort_by_key(|(_, _, job)| job.since);
        Ok(fleet)
    }
}

pub(super) async fn show(view: View, Query(asks): Query<Asks>) -> Result<Html<String>, Problem> {
    let names = if asks.queue.is_empty() { view.names() } else { vec![asks.queue.clone()] };
    let fleet = Fleet::of(&view, names).await?;
    let dead = view.site.client.dead_workers().await?;
    let dead: Vec<_> =
        dead.into_iter().filter(|dead| view.now.saturating_sub(dead.at) < DAY).collect();
    let content = html! {
        (head(&html! { "Workers" }, &verdict(&fleet), &view.picker("/workers", &asks.queue, &[], true)))
        (tiles(&view, &fleet, &dead))
        section.panel {
            header { h2 { "Workers" } @if fleet.workers.len() > WORKERS { p { "the first " (WORKERS) " of " (fleet.workers.len()) } } }
            @if fleet.workers.is_empty() {
                (empty("waiting", "No worker lives", &html! { "Start one: jobs wait until then. " a href=(view.at("/crashes")) { "Which died" } }))
            } @else { (table(&view, &fleet)) }
        }
        (longest(&view, &fleet))
    };
    Ok(view.page("/workers", "Workers", &content))
}

fn verdict(fleet: &Fleet) -> Markup {
    let workers = || fleet.workers.values();
    let slots: usize = workers().map(|worker| worker.concurrency).sum();
    let quiet = workers().filter(|worker| worker.quiet && !worker.stopping).count() as u64;
    let stopping = workers().filter(|worker| worker.stopping).count() as u64;
    html! {
        (count(fleet.workers.len() as u64, "worker", "workers")) ", "
        (number(workers().map(|worker| busy(worker).0).sum())) " of " (number(slots as u64)) " slots busy."
        @if quiet > 0 { " " (count(quiet, "is quiet.", "are quiet.")) }
        @if stopping > 0 { " " (count(stopping, "stops.", "stop.")) }
    }
}

/// How many slots have a job, and how many there are. What is fetched ahead waits for one.
pub(super) fn busy(worker: &WorkerInfo) -> (u64, u64) {
    let slots = worker.concurrency as u64;
    (slots.min(worker.running.len() as u64), slots)
}

fn tiles(view: &View, fleet: &Fleet, dead: &[DeadWorker]) -> Markup {
    let workers = || fleet.workers.values();
    let slots: usize = workers().map(|worker| worker.concurrency).sum();
    let take = workers().filter(|worker| !worker.quiet && !worker.stopping).count();
    let mut versions: Vec<&str> = workers().map(|worker| worker.version.as_str()).collect();
    versions.sort_unstable();
    versions.dedup();
    let slowest = workers().map(|worker| millis(worker.heard)).max();
    let crashed = dead.iter().filter(|dead| !dead.stopping);
    html! {
        dl.panel.tiles data-live="tiles" {
            div { dt { "Workers" } dd { (fleet.workers.len()) } dd { (take) " take jobs" } }
            div {
                dt { "Slots busy" }
                dd { (workers().map(|worker| busy(worker).0).sum::<u64>()) small { "of " (slots) } }
                dd { (number(view.sum(|counts| counts.waiting))) " jobs wait" }
            }
            div {
                dt { "hworker" }
                dd { @if let Some(newest) = versions.last() { (cut(newest, 12)) } @else { (NONE) } }
                dd class=[(versions.len() > 1).then_some("warn")] { (count(versions.len() as u64, "version", "versions")) }
            }
            div { dt { "Heartbeat" } dd { @if let Some(slowest) = slowest { (span(slowest)) } @else { (NONE) } } dd { "the longest ago" } }
            div {
                dt { "Longest run" }
                dd { @if let Some((_, _, job)) = fleet.running.first() { (span(view.now.saturating_sub(job.since))) } @else { (NONE) } }
                dd { @if let Some(job) = fleet.running.first().and_then(|(_, _, job)| job.job.as_deref()) { (name(job)) } }
            }
            div { dt { "Died today" } dd { (crashed.count()) } dd { a href=(view.at("/crashes")) { "All crashes" } } }
        }
    }
}

/// How a worker stands: its icon, and a word.
pub(super) fn state(worker: &WorkerInfo) -> (&'static str, &'static str) {
    match worker {
        worker if worker.stopping => ("cancelled", "stops"),
        worker if millis(worker.heard) > LATE => ("failed", "late"),
        worker if worker.blocked_since.is_some() => ("failed", "blocked"),
        worker if worker.quiet => ("paused", "quiet"),
        worker if worker.running.is_empty() => ("waiting", "idle"),
        _ => ("running", "busy"),
    }
}

/// The name of a worker: its id as far as it tells workers apart.
fn label(worker: &WorkerInfo) -> Markup {
    html! { (cut(&worker.id, 13)) }
}

fn table(view: &View, fleet: &Fleet) -> Markup {
    html! {
        table.tall {
            (columns(&[
                ("flex-s", "Worker"), ("w3", "State"), ("w4 ge-s", "Slots"), ("w4 ge-m", "Queues"),
                ("w2 ge-s", "Version"), ("n w2 ge-m", "Heartbeat"), ("n w2 ge-l", "Done"), ("n w2 ge-l", "Failed"),
                ("n w3 ge-m", "Up"), ("act", ""),
            ]))
            tbody data-live="workers" { @for worker in fleet.workers.values().take(WORKERS) { (line(view, worker)) } }
        }
    }
}

fn line(view: &View, worker: &WorkerInfo) -> Markup {
    let (runs, slots) = busy(worker);
    let ((mark, word), link) = (state(worker), view.worker_link(&worker.id));
    let queues = worker.queues.join(", ");
    html! {
        tr data-href=(link) {
            th scope="row" {
                span.cut { a.name href=(link) title=(plain(&worker.id)) { (label(worker)) } }
                span.cut.sub title=(plain(&worker.host)) { (foreign(&worker.host)) " · " (worker.pid) }
            }
            td { span.row.tight { (icon(mark)) span { (word) } } span.sub.lt-s { (runs) " / " (slots) } }
            td.ge-s {
                span.row.load { (meter(runs, slots, "", &format!("{runs} of {slots} slots busy"))) span { (runs) small { " / " (slots) } } }
            }
            td.ge-m { span title=(plain(&queues)) { (cut(&queues, 100)) } }
            td.ge-s { (cut(&worker.version, 12)) }
            td.n.ge-m class=[(millis(worker.heard) > LATE).then_some("bad")] { (span(millis(worker.heard))) }
            td.n.ge-l { (number(worker.processed)) }
            td.n.ge-l { (number(worker.failed)) }
            td.n.ge-m { (since(worker.started, view.now)) }
            td.act { (actions(view, worker, "bare low")) }
        }
    }
}

/// What can be done to a worker.
pub(super) fn actions(view: &View, worker: &WorkerInfo, class: &str) -> Markup {
    let fields = [("id", &*worker.id)];
    let one = if worker.quiet { "wake" } else { "quiet" };
    let buttons: Vec<_> = [one, "stop"]
        .into_iter()
        .map(|deed| Button { deed, fields: &fields, ..Button::default() })
        .collect();
    html! { @if !worker.stopping { (view.menu(class, &buttons)) } }
}

fn longest(view: &View, fleet: &Fleet) -> Markup {
    html! {
        @if !fleet.running.is_empty() {
            section.panel {
                header { h2 { "Running longest" } p { (fleet.running.len().min(RUNNING)) " of " (fleet.running.len()) } }
                (running(view, &fleet.running[..fleet.running.len().min(RUNNING)]))
            }
        }
    }
}

/// Running jobs in lines.
pub(super) fn running(view: &View, jobs: &[(String, String, RunningJob)]) -> Markup {
    html! {
        table {
            (columns(&[("flex-s", "Job"), ("w4 ge-s", "Queue"), ("w4 ge-m", "Worker"), ("n w2 ge-s", "Attempt"), ("n w3", "Runs for")]))
            tbody data-live="running" {
                @for (queue, worker, job) in jobs {
                    @let title = job.job.as_deref().unwrap_or("not readable");
                    tr {
                        th scope="row" {
                            span.cut {
                                @if let Some(id) = &job.id {
                                    a.name href=(view.job_link(queue, id.as_str())) title=(plain(title)) { (name(title)) }
                                } @else {
                                    (name(title))
                                }
                            }
                            span.cut.sub.lt-s { (name(queue)) }
                        }
                        td.ge-s { a href=(view.queue_link(queue)) { (name(queue)) } }
                        td.ge-m { a href=(view.worker_link(worker)) title=(plain(worker)) { (cut(worker, 13)) } }
                        td.n.ge-s { (job.attempt) }
                        td.n { (since(job.since, view.now)) }
                    }
                }
            }
        }
    }
}
