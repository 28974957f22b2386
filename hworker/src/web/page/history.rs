//! What queues did over a time, added up, and the charts of it.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::chart::{Plot, Series, Shape, plot};
use super::figures::{rate, span, span_of};
use super::view::View;
use crate::charts::{Chart, ChartPoint, Gauges, Tally, Times, Window};
use crate::deploys::DeployMark;
use crate::web::api::window;
use crate::web::each::{each, readable};
use crate::web::problem::Problem;

/// A window by its name in an address.
pub(super) struct Past {
    pub(super) window: Window,
    pub(super) name: &'static str,
    /// As in `in the last hour`.
    pub(super) words: &'static str,
    /// So many queues are read for it: a point of each is a key of its own.
    most: usize,
}

impl Past {
    pub(super) fn named(name: &str) -> Result<Self, Problem> {
        let window = window(if name.is_empty() { "1h" } else { name })?;
        let (name, words, most) = match window {
            Window::Hour => ("1h", "hour", 100),
            Window::Day => ("24h", "24 hours", 40),
            Window::Month => ("30d", "30 days", 10),
        };
        Ok(Self { window, name, words, most })
    }
}

/// What queues did, point by point.
#[derive(Default)]
pub(super) struct History {
    pub(super) begins: Vec<u64>,
    pub(super) tallies: Vec<Tally>,
    gauges: Vec<Gauges>,
    /// Deploys within this time, the first one first.
    marks: Vec<DeployMark>,
    step_ms: u64,
    /// Of so many queues it is.
    pub(super) queues: usize,
}

impl History {
    /// That of one queue, or of those of the view that do most.
    pub(super) async fn of(
        view: &View,
        past: &Past,
        queue: &str,
    ) -> Result<(Self, Vec<Chart>), Problem> {
        let mut names = vec![queue.to_owned()];
        if queue.is_empty() {
            let mut busy: Vec<_> = view.queues.iter().collect();
            busy.sort_by_key(|queue| {
                std::cmp::Reverse((queue.counts.running, queue.counts.waiting, queue.workers))
            });
            names = busy.into_iter().take(past.most).map(|queue| queue.name.clone()).collect();
        }
        let window = past.window;
        let read = move |client: crate::Client, name: String| async move {
            readable(client.inspect(&name).chart(window).await.map(Some))
        };
        let charts = each(&view.site.client, names, read).await?;
        let charts: Vec<Chart> = charts.into_iter().filter_map(|(_, chart)| chart).collect();
        Ok((Self::sum(&charts), charts))
    }

    /// The same point of all, added up.
    pub(super) fn sum<'a>(charts: impl IntoIterator<Item = &'a Chart>) -> Self {
        let mut points: BTreeMap<u64, (Tally, Gauges)> = BTreeMap::new();
        let (mut step_ms, mut queues) = (60_000, 0);
        for chart in charts {
            (step_ms, queues) = (chart.step_ms, queues + 1);
            for point in &chart.points {
                let (tally, gauges) = points.entry(point.at).or_default();
                tally.add(&point.total());
                add(gauges, point);
            }
        }
        let mut history = Self { step_ms, queues, ..Self::default() };
        for (at, (tally, gauges)) in points {
            history.begins.push(at);
            history.tallies.push(tally);
            history.gauges.push(gauges);
        }
        history
    }

    /// The same with the deploys that were marked in this time.
    pub(super) async fn marked(mut self, view: &View) -> Result<Self, Problem> {
        let marks: Vec<DeployMark> = readable(view.site.client.deploys().await)?;
        let since = self.begins.first().copied().unwrap_or(u64::MAX);
        self.marks = marks.into_iter().filter(|mark| mark.at >= since).rev().collect();
        Ok(self)
    }

    pub(super) fn total(&self) -> Tally {
        let mut total = Tally::default();
        self.tallies.iter().for_each(|tally| total.add(tally));
        total
    }

    /// Whether jobs ended at all.
    pub(super) fn is_empty(&self) -> bool {
        self.tallies.iter().all(|tally| tally.ended() == 0)
    }

    /// How many a minute.
    pub(super) fn a_minute(&self, of: impl Fn(&Tally) -> u64) -> Vec<f64> {
        let minutes = self.step_ms.max(1) as f64 / 60_000.0;
        self.tallies.iter().map(|tally| of(tally) as f64 / minutes).collect()
    }

    /// A quantile in ms; none where nothing ended.
    fn quantiles(&self, of: impl Fn(&Tally) -> &Times, part: f64) -> Vec<Option<f64>> {
        let ms = |tally: &Tally| of(tally).quantile(part).map(|time| time.as_secs_f64() * 1e3);
        self.tallies.iter().map(ms).collect()
    }

    /// How many ended, and how.
    pub(super) fn throughput(&self, past: &Past) -> Markup {
        let total = self.total();
        let done = self.a_minute(|tally| tally.ok);
        let most = done.iter().copied().fold(0.0, f64::max);
        plot(&Plot {
            id: "done",
            title: "Throughput",
            unit: "jobs a minute",
            says: format!(
                "{} jobs were done in the last {}, at most {} a minute.",
                total.ok,
                past.words,
                rate(most)
            ),
            begins: &self.begins,
            marks: &self.marks,
            series: vec![Series {
                name: "done",
                class: "done",
                shape: Shape::Area,
                values: known(done),
            }],
        })
    }

    pub(super) fn waits(&self, past: &Past) -> Markup {
        let says = format!(
            "95 of 100 jobs of the last {} waited at most {}.",
            past.words,
            span_of(self.total().wait.quantile(0.95))
        );
        self.times("wait", "Wait", says, "waiting", |tally| &tally.wait)
    }

    pub(super) fn runs(&self, past: &Past) -> Markup {
        let says = format!(
            "95 of 100 jobs of the last {} ran at most {}.",
            past.words,
            span_of(self.total().run.quantile(0.95))
        );
        self.times("run", "Run time", says, "running", |tally| &tally.run)
    }

    fn times(
        &self,
        id: &str,
        title: &str,
        says: String,
        class: &'static str,
        of: impl Fn(&Tally) -> &Times + Copy,
    ) -> Markup {
        let (mut most, mut half) = (self.quantiles(of, 0.95), self.quantiles(of, 0.5));
        let is_long = most.iter().flatten().any(|ms| *ms > 1_000.0);
        if is_long {
            most.iter_mut().chain(&mut half).flatten().for_each(|ms| *ms /= 1_000.0);
        }
        plot(&Plot {
            id,
            title,
            unit: if is_long { "seconds" } else { "ms" },
            says,
            begins: &self.begins,
            marks: &self.marks,
            series: vec![
                Series { name: "p95", class, shape: Shape::Area, values: most },
                Series { name: "p50", class, shape: Shape::Dash, values: half },
            ],
        })
    }

    pub(super) fn failures(&self, past: &Past) -> Markup {
        let total = self.total();
        plot(&Plot {
            id: "failed",
            title: "Failed",
            unit: "jobs a minute",
            says: format!("{} jobs failed for good in the last {}.", total.failed, past.words),
            begins: &self.begins,
            marks: &self.marks,
            series: vec![Series {
                name: "failed",
                class: "failed",
                shape: Shape::Bars,
                values: known(self.a_minute(|tally| tally.failed)),
            }],
        })
    }

    /// How many waited.
    pub(super) fn backlog(&self) -> Markup {
        let waiting: Vec<f64> = self.gauges.iter().map(|gauges| gauges.waiting as f64).collect();
        let last = self.gauges.last().map_or(0, |gauges| gauges.waiting);
        plot(&Plot {
            id: "waiting",
            title: "Waiting",
            unit: "jobs",
            says: format!("{last} jobs waited at the last look."),
            begins: &self.begins,
            marks: &self.marks,
            series: vec![Series {
                name: "waiting",
                class: "waiting",
                shape: Shape::Area,
                values: known(waiting),
            }],
        })
    }

    /// What the charts leave out.
    pub(super) fn footnote(&self, view: &View) -> Markup {
        let step = span(self.step_ms);
        html! {
            p.sub {
                "A point is " (step) ". What workers did in the last 10 s is not in it yet."
                @if self.queues < view.known { " The " (self.queues) " busiest of " (view.known) " queues are in these charts." }
            }
        }
    }
}

fn known(values: Vec<f64>) -> Vec<Option<f64>> {
    values.into_iter().map(Some).collect()
}

fn add(gauges: &mut Gauges, point: &ChartPoint) {
    let Some(more) = point.gauges else { return };
    gauges.waiting += more.waiting;
    gauges.scheduled += more.scheduled;
    gauges.running += more.running;
    gauges.failed += more.failed;
}
