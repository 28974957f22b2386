//! Crashes: which workers died, and of what?

use axum::response::Html;
use maud::{Markup, html};

use super::columns::columns;
use super::figures::{NONE, count, instant, number};
use super::link::encode;
use super::text::{cut, foreign, name, plain};
use super::view::{View, empty, head};
use crate::dead_workers::DeadWorker;
use crate::web::problem::Problem;

/// So many of the jobs that a dead worker held are shown, and so many suspects.
const HELD: usize = 5;
const SUSPECTS: usize = 8;

pub(super) async fn show(view: View) -> Result<Html<String>, Problem> {
    let dead = view.site.client.dead_workers().await?;
    let crashed = dead.iter().filter(|dead| !dead.stopping).count() as u64;
    let verdict = html! {
        @if dead.is_empty() { "No worker has died." }
        @else {
            (count(crashed, "worker", "workers")) " died unasked, of the last " (dead.len()) " deaths that are kept."
            @if let Some(last) = dead.first() {
                " The last was " (instant(last.at, view.now)) "."
            }
        }
    };
    let content = html! {
        (head(&html! { "Crashes" }, &verdict, &html! {}))
        @if dead.is_empty() {
            section.panel { (empty("done", "No worker has died", &html! { "One that stops in order is none that died." })) }
        } @else {
            div.two { (table(&view, &dead)) (suspects(&view, &dead)) }
        }
    };
    Ok(view.page("/crashes", "Crashes", &content))
}

fn table(view: &View, dead: &[DeadWorker]) -> Markup {
    html! {
        section.panel {
            header { h2 { "Dead workers" } p { "their jobs were given to others" } }
            table.tall {
                (columns(&[("w4", "Worker"), ("n w3", "Died"), ("n w1 ge-s", "Held"), ("ge-s", "Jobs")]))
                tbody data-live="dead" { @for one in dead { (line(view, one)) } }
            }
        }
    }
}

fn line(view: &View, dead: &DeadWorker) -> Markup {
    html! {
        tr {
            th scope="row" {
                span.cut title=(plain(&dead.worker)) { @if dead.name.is_empty() { (cut(&dead.worker, 13)) } @else { (name(&dead.name)) } }
                span.cut.sub title=(plain(&dead.host)) { (foreign(&dead.host)) " · " (cut(&dead.version, 12)) }
            }
            td.n { span.cut { (instant(dead.at, view.now)) } @if dead.stopping { span.cut.sub { "while it stopped" } } }
            td.n.ge-s { (number(dead.jobs)) }
            td.ge-s {
                @if dead.held.is_empty() { span.faint { (NONE) } }
                @for (at, held) in dead.held.iter().take(HELD).enumerate() {
                    @if at > 0 { ", " }
                    @match &held.id {
                        Some(id) => a href={ (view.at("/find")) "?id=" (encode(id)) } title=(plain(id)) { (cut(&held.job, 40)) },
                        None => (cut(&held.job, 40)),
                    }
                    @if held.crashes > 1 { span.bad { " ×" (held.crashes) } }
                }
                @if dead.held.len() > HELD { " …" }
            }
        }
    }
}

fn suspects(view: &View, dead: &[DeadWorker]) -> Markup {
    let suspects: Vec<_> = DeadWorker::suspects(dead).into_iter().take(SUSPECTS).collect();
    html! {
        section.panel {
            header { h2 { "Suspects" } p { "types at more deaths than chance explains" } }
            @if suspects.is_empty() { p.body.faint { "None." } }
            @else {
                table {
                    (columns(&[("", "Type"), ("n w2", "Deaths"), ("n w2", "By chance")]))
                    tbody {
                        @for one in &suspects {
                            tr {
                                th scope="row" { a.name href=(view.type_link(&one.job)) { (name(&one.job)) } }
                                td.n { (number(one.deaths)) }
                                td.n.faint { "≈ " (format!("{:.1}", one.expected)) }
                            }
                        }
                    }
                }
            }
        }
    }
}
