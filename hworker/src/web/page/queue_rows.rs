//! Queues in lines.

use maud::{Markup, html};

use super::chart::spark;
use super::columns::columns;
use super::figures::{NONE, count, number, rate, since, span, span_of};
use super::frame::icon;
use super::history::History;
use super::text::{name, plain};
use super::view::View;
use crate::charts::{Chart, Lately, Window};
use crate::inspect::QueueInfo;
use crate::web::each::{each, readable};
use crate::web::problem::Problem;

/// A queue with what it did in the last hour.
pub(super) struct Row {
    pub(super) info: QueueInfo,
    /// Since when the next job waits, in ms since 1970.
    pub(super) oldest: Option<u64>,
    pub(super) chart: Option<Chart>,
    pub(super) lately: Lately,
}

/// So many minutes are lately.
const LATELY: usize = 5;

/// The rows of these queues, those with the most waiting jobs first.
pub(super) async fn rows(view: &View, queues: &[QueueInfo]) -> Result<Vec<Row>, Problem> {
    let names = queues.iter().map(|queue| queue.name.clone());
    let read = |client: crate::Client, name: String| async move {
        let inspect = client.inspect(&name);
        let oldest = readable(inspect.oldest().await)?;
        Ok((oldest, readable(inspect.chart(Window::Hour).await.map(Some))?))
    };
    let answers = each(&view.site.client, names, read).await?;
    let mut rows: Vec<_> = queues
        .iter()
        .zip(answers)
        .map(|(info, (_, (oldest, chart)))| Row::new(info, oldest, chart, view.now))
        .collect();
    rows.sort_by(|one, other| {
        let order =
            |row: &Row| std::cmp::Reverse((row.info.counts.waiting, row.info.counts.running));
        order(one).cmp(&order(other)).then_with(|| one.info.name.cmp(&other.info.name))
    });
    Ok(rows)
}

impl Row {
    fn new(info: &QueueInfo, oldest: Option<u64>, chart: Option<Chart>, now: u64) -> Self {
        let none = || Chart { step_ms: 60_000, points: Vec::new() };
        let lately = chart.clone().unwrap_or_else(none).lately(LATELY, now, info.counts.waiting);
        // A producer's clock may be ahead.
        Self { info: info.clone(), oldest: oldest.map(|at| at.min(now)), chart, lately }
    }

    /// By how many its waiting jobs become more in a second, where that is to be noticed.
    pub(super) fn growth(&self) -> Option<f64> {
        self.lately.growth_per_min.map(|growth| growth / 60.0).filter(|growth| *growth >= 0.1)
    }

    /// When it is empty, in words.
    pub(super) fn empty_in(&self) -> Markup {
        let waiting = self.info.counts.waiting;
        html! {
            @if self.info.paused.is_some() { span.warn { "paused" } }
            @else if waiting == 0 { span.faint { (NONE) } }
            @else if let Some(time) = self.lately.empty_in(waiting) { (span_of(Some(time))) }
            @else if let Some(growth) = self.growth() { span.warn { "grows " (rate(growth)) "/s" } }
            @else { span.faint { (NONE) } }
        }
    }
}

/// A table of queues.
pub(super) fn table(view: &View, rows: &[Row]) -> Markup {
    html! {
        table {
            (columns(&[
                ("", "Queue"), ("w3 ge-m", "Last hour"), ("n w2", "Waiting"), ("n w2 ge-s", "Oldest"),
                ("n w2 ge-s", "Running"), ("n w2 ge-l", "Scheduled"), ("n w2 ge-s", "Done / min"), ("n w2 ge-l", "Run p95"),
                ("n w2 ge-m", "Wait p95"), ("n w2 ge-m", "Workers"), ("n w3 ge-m", "Empty in"), ("n w2", "Failed"),
            ]))
            tbody data-live="queues" { @for row in rows { (line(view, row)) } }
        }
    }
}

fn line(view: &View, row: &Row) -> Markup {
    let Row { info, oldest, lately, .. } = row;
    let (counts, link) = (info.counts, view.queue_link(&info.name));
    let done: Vec<f64> = row
        .chart
        .as_ref()
        .map(|chart| History::sum([chart]).a_minute(|tally| tally.ok))
        .unwrap_or_default();
    let zero =
        |count: u64| html! { @if count == 0 { span.faint { "0" } } @else { (number(count)) } };
    let quantile = |time: Option<std::time::Duration>| span_of(time);
    html! {
        tr data-href=(link) {
            th scope="row" {
                span.cut.row.tight {
                    a.name href=(link) title=(plain(&info.name)) { (name(&info.name)) }
                    @if info.paused.is_some() { span.badge.paused { (icon("")) "paused" } }
                }
                span.cut.sub.lt-s {
                    @if let Some(oldest) = oldest { "oldest " (span(view.now.saturating_sub(*oldest))) " · " }
                    (count(info.workers as u64, "worker", "workers"))
                }
            }
            td.ge-m { (spark(&done, "done", "done in the last hour")) }
            td.n { a.name href=(view.jobs_link(&info.name, "waiting", "")) { (number(counts.waiting)) } }
            td.n.ge-s { @if let Some(oldest) = oldest { (since(*oldest, view.now)) } @else { span.faint { (NONE) } } }
            td.n.ge-s { (zero(counts.running)) }
            td.n.ge-l { (zero(counts.scheduled)) }
            td.n.ge-s { (rate(lately.ended_per_min)) }
            td.n.ge-l { (quantile(lately.jobs.run.quantile(0.95))) }
            td.n.ge-m { (quantile(lately.jobs.wait.quantile(0.95))) }
            td.n.ge-m { @if info.workers == 0 && counts.waiting > 0 { span.bad { "none" } } @else { (info.workers) } }
            td.n.ge-m { (row.empty_in()) }
            td.n {
                @if counts.failed == 0 { span.faint { "0" } }
                @else { a.name.failed href=(super::link::with(&view.at("/failed"), &[("queue", &info.name)])) { (number(counts.failed)) } }
            }
        }
    }
}
