//! Cron: what runs next, what did not run?

use axum::response::Html;
use maud::{Markup, html};
use serde::Deserialize;

use super::chart::marks;
use super::columns::columns;
use super::figures::{NONE, count, instant, number, span};
use super::frame::icon;
use super::text::{cut, foreign, name, plain};
use super::view::{Button, View, empty, head};
use super::words::schedule;
use crate::calendar::{CatchUp, Overlap};
use crate::control::{CronInfo, CronRun};
use crate::error::Error;
use crate::web::api::extract::{Path, Query};
use crate::web::each::{each, readable};
use crate::web::problem::Problem;

#[derive(Deserialize)]
pub(super) struct Asks {
    #[serde(default)]
    queue: String,
}

/// So many entries are in the list, and of so many their last runs.
const ENTRIES: usize = 200;
const WITH_RUNS: usize = 30;

/// So many last runs are drawn, and so many next ones listed.
const RUNS: usize = 30;
const NEXT: usize = 10;

/// One that is due for so long, in ms, is late.
const LATE: u64 = 10_000;

/// An entry of a queue, with its last runs where they were read.
struct Row {
    queue: String,
    entry: CronInfo,
    runs: Option<Vec<CronRun>>,
}

pub(super) async fn list(view: View, Query(asks): Query<Asks>) -> Result<Html<String>, Problem> {
    let names = if asks.queue.is_empty() {
        view.site.queue_names().await?
    } else {
        vec![asks.queue.clone()]
    };
    let (mut rows, all) = rows(&view, names).await?;
    read_runs(&view, &mut rows).await?;
    let late: Vec<_> = rows.iter().filter(|row| is_late(&row.entry, view.now)).collect();
    let paused = rows.iter().filter(|row| row.entry.paused.is_some()).count() as u64;
    let verdict = html! {
        (count(all as u64, "entry", "entries")) "."
        @if !late.is_empty() { " " (count(late.len() as u64, "is late.", "are late.")) }
        @if paused > 0 { " " (count(paused, "is paused.", "are paused.")) }
    };
    let content = html! {
        (head(&html! { "Cron" }, &verdict, &view.picker("/cron", &asks.queue, &[], true)))
        div.stack data-live="late" {
            @if let Some(row) = late.first() {
                div.banner.failed {
                    (icon("broken"))
                    p {
                        b {
                            (name(&row.entry.name)) " should have run " @if let Some(next) = row.entry.next { (instant(next, view.now)) }
                            "."
                        }
                        " Workers of " (name(&row.queue)) " see to it: does one live?"
                    }
                    a.btn.low href=(link(&view, row)) { "Show the entry" }
                }
            }
        }
        section.panel {
            @if rows.is_empty() {
                (empty("scheduled", "No cron entries", &html! { "An attribute declares one: " code { "#[hworker::job(cron = \"0 2 * * *\")]" } }))
            }
            @else { (table(&view, &rows)) }
            @if all > rows.len() { p.pages { "The first " (rows.len()) " of " (all) " are shown." } }
        }
        p.sub { "When clocks change, an hour that does not exist runs at the first instant after it; one that comes twice runs once." }
    };
    Ok(view.page("/cron", "Cron", &content))
}

/// The entries of these queues, those that are late or next first, and how many there are.
async fn rows(view: &View, names: Vec<String>) -> Result<(Vec<Row>, usize), Problem> {
    let read = |client: crate::Client, name: String| async move {
        readable(client.control(&name).crons().await)
    };
    let names = names.into_iter().take(crate::web::each::QUEUES);
    let answers = each(&view.site.client, names, read).await?;
    let mut rows: Vec<_> = answers
        .into_iter()
        .flat_map(|(queue, entries)| {
            entries.into_iter().map(move |entry| Row { queue: queue.clone(), entry, runs: None })
        })
        .collect();
    rows.sort_by_key(|row| (row.entry.paused.is_some(), row.entry.next.unwrap_or(u64::MAX)));
    let all = rows.len();
    rows.truncate(ENTRIES);
    Ok((rows, all))
}

async fn read_runs(view: &View, rows: &mut [Row]) -> Result<(), Problem> {
    let first: Vec<_> = rows.iter().take(WITH_RUNS).map(|row| row.entry.name.clone()).collect();
    let queues: Vec<_> = rows.iter().take(WITH_RUNS).map(|row| row.queue.clone()).collect();
    let mut names = first.into_iter();
    // One after the other they take a call each; at once they are one wait.
    let asked: Vec<_> =
        queues.iter().filter_map(|queue| Some((queue.clone(), names.next()?))).collect();
    let read = |client: crate::Client, both: String| async move {
        // No name of a queue has a `/`.
        let (queue, name) = both.split_once('/').unwrap_or_default();
        match client.control(queue).cron(name).history().await {
            // By a name that is none nobody can ask; another program may have written it.
            Err(Error::Config(_)) => Ok(Vec::new()),
            runs => readable(runs),
        }
    };
    let both = asked.iter().map(|(queue, name)| format!("{queue}/{name}"));
    for (row, (_, runs)) in rows.iter_mut().zip(each(&view.site.client, both, read).await?) {
        row.runs = Some(runs);
    }
    Ok(())
}

fn is_late(entry: &CronInfo, now: u64) -> bool {
    entry.paused.is_none() && entry.next.is_some_and(|next| next.saturating_add(LATE) < now)
}

fn link(view: &View, row: &Row) -> String {
    format!("{}/cron/{}", view.queue_link(&row.queue), super::link::encode(&row.entry.name))
}

fn table(view: &View, rows: &[Row]) -> Markup {
    html! {
        table.tall {
            thead {
                tr {
                    th.flex-s scope="col" { "Entry" }
                    th.w6.ge-s scope="col" { "Schedule" }
                    th.w4 scope="col" { "Next run" }
                    th.w3.ge-s scope="col" { "Last run" }
                    th.w4.ge-m scope="col" { "Last " (RUNS) " runs" }
                    th.act { span.sr { "Actions" } }
                }
            }
            tbody data-live="entries" { @for row in rows { (line(view, row)) } }
        }
    }
}

fn line(view: &View, row: &Row) -> Markup {
    let (entry, link) = (&row.entry, link(view, row));
    let last = row.runs.as_ref().and_then(|runs| runs.first());
    html! {
        tr data-href=(link) {
            th scope="row" {
                span.cut { a.name href=(link) title=(plain(&entry.name)) { (name(&entry.name)) } }
                @if let Some(problem) = &entry.problem { span.cut.sub.warn { (cut(problem, 200)) } }
                @else { span.cut.sub { (name(&entry.job)) " on " (name(&row.queue)) } }
            }
            td.ge-s { span.cut { (cut(&schedule(entry), 100)) } span.cut.sub { (written(entry)) } }
            td {
                @if entry.paused.is_some() {
                    span.cut.warn { "paused" } @if let Some(since) = entry.paused { span.cut.sub { (instant(since, view.now)) } }
                }
                @else if let Some(next) = entry.next {
                    @if is_late(entry, view.now) {
                        span.cut.bad { (span(view.now - next)) " late" }
                    } @else {
                        span.cut { (instant(next, view.now)) }
                    }
                    span.cut.sub { (super::figures::full(next)) }
                } @else { span.faint { "over" } }
            }
            td.ge-s {
                @if let Some(run) = last {
                    span.row.tight { (icon(run_mark(&run.state))) span { (foreign(&run.state)) } }
                    span.cut.sub { (instant(run.due, view.now)) }
                }
                @else { (NONE) }
            }
            td.ge-m { @if let Some(runs) = &row.runs { (drawn(runs)) } }
            td.act { (view.menu("bare low", &buttons(&row.queue, entry, &[("name", &entry.name)]))) }
        }
    }
}

/// The expression as it is written, and its zone.
fn written(entry: &CronInfo) -> Markup {
    html! {
        @if let Some(cron) = &entry.cron { code { (cut(cron, 60)) } " " }
        @if let Some(every) = entry.every_ms { code { "every " (span(every)) } " " }
        (cut(entry.timezone.as_deref().unwrap_or("UTC"), 40))
    }
}

fn run_mark(state: &str) -> &'static str {
    match state {
        "missed" | "deleted" => "cancelled",
        "skipped" | "replaced" => "cancelled expired",
        other => super::row::mark(other),
    }
}

/// The last runs, the latest at the right.
fn drawn(runs: &[CronRun]) -> Markup {
    let runs: Vec<_> = runs.iter().take(RUNS).rev().collect();
    let bar = |run: &&CronRun| match &*run.state {
        "failed" | "broken" => ("failed", 100.0),
        "done" => ("done", 70.0),
        "skipped" | "missed" | "replaced" | "cancelled" | "expired" | "deleted" => {
            ("cancelled", 30.0)
        }
        _ => ("running", 70.0),
    };
    let failed = runs.iter().filter(|run| run.state == "failed").count();
    let bars: Vec<_> = runs.iter().map(bar).collect();
    marks(&bars, RUNS, &format!("the last {} runs, {failed} failed", runs.len()))
}

fn buttons<'a>(
    queue: &'a str,
    entry: &CronInfo,
    fields: &'a [(&'a str, &'a str)],
) -> Vec<Button<'a>> {
    let pause = if entry.paused.is_some() { "cron-resume" } else { "cron-pause" };
    let mut deeds = vec!["cron-run", pause];
    if entry.is_set {
        deeds.push("cron-remove");
    }
    deeds.into_iter().map(|deed| Button { deed, queue, fields, ..Button::default() }).collect()
}

pub(super) async fn show(
    view: View,
    Path((queue, entry)): Path<(String, String)>,
) -> Result<Html<String>, Problem> {
    let control = view.site.client.control(&queue).cron(&entry);
    let missing = || Problem::not_found(format!("no cron entry {entry} on the queue {queue}"));
    let info = control.info().await?.ok_or_else(missing)?;
    // One that this version cannot read has no times.
    let next = if info.problem.is_some() { Vec::new() } else { control.next(NEXT).await? };
    let history = control.history().await?;
    let fields = [("name", &*info.name)];
    let back = view.at("/cron");
    let mut all = buttons(&queue, &info, &fields);
    if let Some(remove) = all.get_mut(2) {
        remove.back = Some(&back);
    }
    let actions = html! {
        @for (at, button) in all.into_iter().enumerate() {
            (view.button(&Button { class: if at == 0 { "btn main" } else { "btn" }, ..button }))
        }
    };
    let verdict = html! {
        (cut(&schedule(&info), 100)) ". "
        @if let Some(problem) = &info.problem { span.warn { (cut(problem, 300)) } }
        @else if info.paused.is_some() { "It is paused." }
        @else if let Some(next) = info.next { "It is due " (instant(next, view.now)) "." }
        @else { "It is over." }
    };
    let content = html! {
        p.crumb { a href=(view.at("/cron")) { "Cron" } }
        (head(&html! { (name(&info.name)) }, &verdict, &actions))
        div.two {
            div.stack { (runs(&view, &queue, &history)) }
            div.stack { (facts(&view, &queue, &info)) (times(&view, &next)) }
        }
    };
    Ok(view.page("/cron", &info.name, &content))
}

fn runs(view: &View, queue: &str, history: &[CronRun]) -> Markup {
    html! {
        section.panel {
            header { h2 { "Runs" } p { "the last " (history.len()) } span.push { (drawn(history)) } }
            @if history.is_empty() { p.body.faint { "It has not run yet." } }
            @else {
                table data-live="runs" {
                    (columns(&[("", "Due"), ("w4", "Became"), ("", "Job")]))
                    tbody {
                        @for run in history {
                            tr {
                                td { (instant(run.due, view.now)) }
                                td { span.row.tight { (icon(run_mark(&run.state))) span { (foreign(&run.state)) } } }
                                th scope="row" {
                                    a.name href=(view.job_link(queue, run.id.as_str())) { code { (cut(run.id.as_str(), 60)) } }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn facts(view: &View, queue: &str, info: &CronInfo) -> Markup {
    let overlap = match info.overlap {
        Overlap::Allow => "both run",
        Overlap::Skip => "the new one is left out",
        Overlap::Queue => "the new one waits",
        Overlap::Cancel => "the one before is cancelled",
    };
    let missed = match info.catch_up {
        CatchUp::Skip => "are left out",
        CatchUp::One => "the last one runs",
        CatchUp::All => "all run",
    };
    html! {
        section.panel {
            header { h2 { "Facts" } }
            div.body {
                dl.facts {
                    // One that cannot be read names none.
                    dt { "Type" } dd { @if info.job.is_empty() { (NONE) } @else { a href=(view.type_link(&info.job)) { (name(&info.job)) } } }
                    dt { "Queue" } dd { a href=(view.queue_link(queue)) { (name(queue)) } }
                    dt { "Schedule" } dd { (written(info)) }
                    @for (label, value) in [("Not on", &info.skip_days), ("From", &info.start), ("Until", &info.end)] {
                        @if let Some(value) = value { dt { (label) } dd { (cut(value, 100)) } }
                    }
                    @if let Some(splay) = info.splay_ms { dt { "Spread" } dd { "up to " (span(splay)) } }
                    dt { "If late runs" } dd { (missed) }
                    dt { "If one runs" } dd { (overlap) }
                    dt { "Had" } dd { (count(info.fired, "run", "runs")) @if let Some(of) = info.count { " of " (number(of.into())) } }
                    dt { "Set by" } dd { @if info.is_set { "a person, or code that ran" } @else { "an attribute" } }
                }
            }
        }
    }
}

fn times(view: &View, next: &[u64]) -> Markup {
    html! {
        section.panel {
            header { h2 { "Next runs" } }
            div.body {
                @if next.is_empty() { p.faint { "None." } }
                dl.facts data-live="next" { @for at in next { dt { (instant(*at, view.now)) } dd { (super::figures::full(*at)) } } }
            }
        }
    }
}
