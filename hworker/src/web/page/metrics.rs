//! Metrics: which types run how often, how long, and how long they wait.

use std::collections::BTreeMap;

use axum::response::Html;
use maud::{Markup, html};
use serde::Deserialize;

use super::columns::columns;
use super::figures::{count, number, share, span_of};
use super::history::{History, Past};
use super::text::{name, plain};
use super::view::{View, empty, head, windows};
use crate::charts::{Chart, Tally};
use crate::web::api::extract::Query;
use crate::web::problem::Problem;

#[derive(Deserialize)]
pub(super) struct Asks {
    #[serde(default)]
    queue: String,
    #[serde(default)]
    w: String,
}

/// So many types are in the table.
const TYPES: usize = 200;

pub(super) async fn show(view: View, Query(asks): Query<Asks>) -> Result<Html<String>, Problem> {
    let past = Past::named(&asks.w)?;
    let (history, charts) = History::of(&view, &past, &asks.queue).await?;
    let history = history.marked(&view).await?;
    let types = by_type(&charts);
    let total = history.total();
    let verdict = html! {
        (count(total.ended(), "attempt", "attempts")) " ended in the last " (past.words) ", of " (count(types.len() as u64, "type", "types")) ". "
        (share(total.failed, total.ended())) " failed for good, " (share(total.retried, total.ended())) " are tried again."
    };
    let path = view.at("/charts");
    let actions = html! {
        (view.picker("/charts", &asks.queue, &[("w", past.name)], true))
        (windows(&path, &[("queue", &asks.queue)], past.name))
    };
    let content = html! {
        (head(&html! { "Metrics" }, &verdict, &actions))
        div.half { (history.throughput(&past)) (history.failures(&past)) (history.runs(&past)) (history.waits(&past)) }
        section.panel {
            header { h2 { "Types" } p { "by how often they ran" } }
            @if history.is_empty() { (empty("waiting", "Nothing ran", &html! { "No job ended in the last " (past.words) "." })) }
            @else { (table(&view, &types, total.ended())) }
        }
        (history.footnote(&view))
    };
    Ok(view.page("/charts", "Metrics", &content))
}

/// What the jobs of each type did, those that ran most often first.
fn by_type(charts: &[Chart]) -> Vec<(&str, Tally)> {
    let mut types: BTreeMap<&str, Tally> = BTreeMap::new();
    for (job, tally) in charts.iter().flat_map(|chart| &chart.points).flat_map(|point| &point.jobs)
    {
        types.entry(job).or_default().add(tally);
    }
    let mut types: Vec<_> = types.into_iter().collect();
    types.sort_by_key(|(_, tally)| std::cmp::Reverse(tally.ended()));
    types
}

fn table(view: &View, types: &[(&str, Tally)], all: u64) -> Markup {
    html! {
        table {
            (columns(&[
                ("flex-s", "Type"), ("n w2", "Ended"), ("n w2 ge-m", "Share"), ("n w2 ge-s", "Failed"),
                ("n w2 ge-m", "Retried"), ("n w2 ge-s", "Run p50"), ("n w2", "Run p95"), ("n w2 ge-m", "Run p99"),
                ("n w3 ge-l", "Wait p95"),
            ]))
            tbody data-live="types" {
                @for (job, tally) in types.iter().take(TYPES) {
                    tr data-href=(view.type_link(job)) {
                        th scope="row" { span.cut { a.name href=(view.type_link(job)) title=(plain(job)) { (name(job)) } } }
                        td.n { (number(tally.ended())) }
                        td.n.ge-m.faint { (share(tally.ended(), all)) }
                        td.n.ge-s class=[(tally.failed > 0).then_some("bad")] { (number(tally.failed)) }
                        td.n.ge-m { (number(tally.retried)) }
                        td.n.ge-s { (span_of(tally.run.quantile(0.5))) }
                        td.n { (span_of(tally.run.quantile(0.95))) }
                        td.n.ge-m { (span_of(tally.run.quantile(0.99))) }
                        td.n.ge-l { (span_of(tally.wait.quantile(0.95))) }
                    }
                }
            }
        }
    }
}
