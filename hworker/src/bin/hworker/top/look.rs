//! A look at the server: the calls of `stats` for each queue, and for the selected one its workers and groups of failures. The lines of the tables are
//! made here, once for each look, so ages stand still while the server does not answer.

use hworker::{Group, RunningJob, WorkerInfo};

use super::panel::{Cell, Line};
use crate::Context;
use crate::args::{Past, QueueNames};
use crate::jobs::group_cells;
use crate::output::Tone;
use crate::queues::{self, Row};
use crate::rows::{millis, now, number, span};
use crate::stop::Stop;
use crate::workers;

/// All queues.
#[derive(Debug, Default)]
pub(super) struct Overview {
    pub(super) queues: Vec<Queue>,
    pub(super) totals: Totals,
    /// What the server refused to say, or that there are more queues.
    pub(super) notice: Option<String>,
}

#[derive(Debug)]
pub(super) struct Queue {
    pub(super) line: Line,
    /// How many attempts ended in each minute of the last hour, the oldest first.
    pub(super) ended: Vec<u64>,
    pub(super) is_paused: bool,
}

/// Over all queues.
#[derive(Debug, Default)]
pub(super) struct Totals {
    pub(super) done_per_min: u64,
    pub(super) waiting: u64,
    pub(super) failed: u64,
}

/// The selected queue.
#[derive(Debug, Default)]
pub(super) struct Detail {
    pub(super) queue: String,
    /// None where they are not known; so are those that follow.
    pub(super) workers: Option<Vec<Line>>,
    pub(super) running: Option<Vec<Line>>,
    pub(super) failed: Option<Vec<Line>>,
    /// Why some of it is not known.
    pub(super) refused: Option<String>,
}

pub(super) async fn overview(context: &Context, which: &QueueNames) -> Result<Overview, Stop> {
    let look = queues::look(context, None, which, Past::Minutes).await?;
    let mut totals = Totals::default();
    for row in &look.rows {
        totals.done_per_min += row.lately.ended_per_min.round() as u64;
        totals.waiting += row.counts.waiting;
        totals.failed += row.counts.failed;
    }
    let queues = look.rows.into_iter().map(Queue::new).collect();
    Ok(Overview { queues, totals, notice: look.notices.into_iter().next() })
}

pub(super) async fn detail(context: &Context, queue: String, with_failed: bool) -> Detail {
    let inspect = context.client.inspect(&queue);
    let mut detail = Detail { queue, ..Detail::default() };
    match inspect.workers().await {
        Ok(workers) => {
            detail.workers = Some(workers.iter().map(worker).collect());
            detail.running = Some(workers.iter().flat_map(running).collect());
        }
        Err(error) => detail.refused = Some(error.to_string()),
    }
    if with_failed {
        match inspect.groups().await {
            Ok(groups) => detail.failed = Some(groups.iter().map(failed).collect()),
            Err(error) => detail.refused = Some(error.to_string()),
        }
    }
    detail
}

impl Queue {
    fn new(row: Row) -> Self {
        let [name, wait, oldest, run, sched, _, failed, _, serving, done, _, p95, empty_in, state] =
            queues::cells(&row);
        let is_paused = row.paused.is_some();
        let (state, tone) = match row.counts.waiting {
            _ if is_paused => (state, Tone::Doubtful),
            1.. if row.workers == 0 => ("no workers".to_owned(), Tone::Bad),
            _ => (state, Tone::Plain),
        };
        let counts = &row.counts;
        let cells = vec![
            name.clone().into(),
            Cell::new(wait, counts.waiting),
            Cell::new(oldest, age(row.oldest)),
            Cell::new(run, counts.running),
            Cell::new(sched, counts.scheduled),
            Cell::new(failed, counts.failed),
            Cell::new(serving, row.workers as u64),
            Cell::new(done, row.lately.ended_per_min.round() as u64),
            Cell::new(p95, row.wait_p95_ms.unwrap_or(0)),
            Cell::new(empty_in, row.empty_in_ms.unwrap_or(0)),
            // Those that have a state first.
            Cell::new(state, u64::from(tone != Tone::Plain)),
        ];
        Self { line: Line { name, cells, tone }, ended: row.ended, is_paused }
    }
}

fn age(since: Option<u64>) -> u64 {
    since.map_or(0, |since| now().saturating_sub(since))
}

fn worker(worker: &WorkerInfo) -> Line {
    let longest = worker.running.iter().min_by_key(|job| job.since);
    let ran = longest.map_or(0, |job| age(Some(job.since)));
    let longest = longest.map(|job| format!("{} {}", span(ran), name_of(job)));
    let state = workers::state(worker);
    let heard = millis(worker.heard);
    let slots = worker.concurrency as u64;
    let cells = vec![
        worker.id.clone().into(),
        worker.host.clone().into(),
        Cell::new(number(worker.running.len() as u64), worker.running.len() as u64),
        Cell::new(number(slots), slots),
        Cell::new(span(heard), heard),
        Cell::new(longest.unwrap_or_else(|| "-".to_owned()), ran),
        Cell::new(state.to_owned(), u64::from(!state.is_empty())),
    ];
    let tone = if state.is_empty() { Tone::Plain } else { Tone::Doubtful };
    Line { name: worker.id.clone(), cells, tone }
}

fn running(worker: &WorkerInfo) -> impl Iterator<Item = Line> {
    worker.running.iter().map(|job| {
        let ran = age(Some(job.since));
        let id = job.id.as_ref().map_or("-", |id| id.as_str()).to_owned();
        let cells = vec![
            Cell::new(span(ran), ran),
            name_of(job).to_owned().into(),
            Cell::new(job.attempt.to_string(), job.attempt.into()),
            id.clone().into(),
            worker.id.clone().into(),
        ];
        Line { name: id, cells, tone: Tone::Plain }
    })
}

fn name_of(job: &RunningJob) -> &str {
    job.job.as_deref().unwrap_or("-")
}

fn failed(group: &Group) -> Line {
    let [name, count, job, first, last, message] = group_cells(group);
    let cells = vec![
        name.clone().into(),
        Cell::new(count, group.count),
        job.into(),
        Cell::new(first, age(Some(group.first))),
        // The latest first.
        Cell::new(last, group.last),
        message.into(),
    ];
    Line { name, cells, tone: Tone::Plain }
}
