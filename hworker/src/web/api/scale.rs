//! How many slots a queue wants, for an autoscaler.

use std::sync::Arc;

use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::extract::{Path, Query};
use crate::charts::{Chart, Window};
use crate::inspect::QueueInfo;
use crate::web::problem::Problem;
use crate::web::schema::Whole;
use crate::web::site::Site;

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Bound {
    /// Never more slots than this.
    #[param(inline)]
    most: Option<Whole>,
}

/// What an autoscaler needs of a queue.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub(crate) struct Scale {
    /// How long the next job has waited, in seconds.
    pub(crate) oldest_seconds: f64,
    /// How many jobs wait. 0 where the queue is paused, as more workers would do nothing.
    pub(crate) waiting: u64,
    /// How many jobs came in a second, over the last five minutes.
    pub(crate) arrivals_per_s: f64,
    /// How many slots would keep up with what comes, four fifths busy, and be through with what waits in a minute.
    pub(crate) wanted_slots: u64,
}

/// Minutes that are looked back upon.
const MINUTES: usize = 5;

impl Scale {
    fn of(queue: &QueueInfo, oldest_ms: u64, chart: &Chart, now: u64, bound: Option<u64>) -> Self {
        let waiting = queue.counts.waiting;
        let lately = chart.lately(MINUTES, now, waiting);
        let growth = lately.growth_per_min.unwrap_or(0.0);
        let arrivals = (lately.ended_per_min + growth).max(0.0) / 60.0;
        if queue.paused.is_some() {
            return Self {
                oldest_seconds: 0.0,
                waiting: 0,
                arrivals_per_s: arrivals,
                wanted_slots: 0,
            };
        }
        // Where no job has ended yet, as where no worker was, a second is as good a guess as any.
        let run = lately.jobs.run.mean().map_or(1.0, |mean| mean.as_secs_f64().max(0.001));
        let wanted = arrivals * run / 0.8 + waiting as f64 * run / 60.0;
        // What works through a backlog that does not shrink, or is empty, still wants one slot.
        let least = u64::from(waiting > 0);
        let wanted = (wanted.ceil() as u64).max(least).min(bound.unwrap_or(u64::MAX));
        Self {
            oldest_seconds: oldest_ms as f64 / 1_000.0,
            waiting,
            arrivals_per_s: arrivals,
            wanted_slots: wanted,
        }
    }
}

/// How many slots a queue wants: for KEDA's `metrics-api` and others.
#[utoipa::path(get, path = "/scale/{queue}", tag = "charts", params(Bound), responses((status = 200, body = Scale)))]
pub(super) async fn show(
    State(site): State<Arc<Site>>,
    Path(queue): Path<String>,
    Query(Bound { most }): Query<Bound>,
) -> Result<axum::Json<Scale>, Problem> {
    let inspect = site.client.inspect(&queue);
    let (summary, oldest) = (inspect.summary().await?, inspect.oldest().await?);
    let chart = inspect.chart(Window::Hour).await?;
    let now = crate::time::local_unix_ms(std::time::SystemTime::now());
    let oldest_ms = oldest.map_or(0, |since| now.saturating_sub(since));
    Ok(axum::Json(Scale::of(&summary, oldest_ms, &chart, now, most.map(|most| most.0))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::charts::{ChartPoint, GAUGES};
    use crate::inspect::Counts;
    use crate::pause::Pause;

    fn queue(waiting: u64) -> QueueInfo {
        let counts = Counts { waiting, ..Counts::default() };
        QueueInfo { name: "mail".into(), counts, workers: 1, paused: None }
    }

    /// 600 jobs a minute of 100 ms each, and as many waiting at each look.
    fn chart(waiting: u64) -> Chart {
        let point = |minute: u64| {
            let mut point = ChartPoint { at: minute * 60_000, ..ChartPoint::default() };
            point.add("job", "600 0 0 60000 0|6:600|6:600");
            point.add(GAUGES, &format!("{waiting} 0 0 0 1"));
            point
        };
        Chart { step_ms: 60_000, points: (0..6).map(point).collect() }
    }

    #[test]
    fn slots_for_what_comes_and_for_what_waits() {
        let now = 6 * 60_000;
        let steady = Scale::of(&queue(0), 0, &chart(0), now, None);
        assert_eq!((steady.arrivals_per_s.round(), steady.wanted_slots), (10.0, 2));
        // 12,000 that wait are 20 slots for a minute.
        let late = Scale::of(&queue(12_000), 41_000, &chart(12_000), now, None);
        assert_eq!((late.oldest_seconds, late.wanted_slots), (41.0, 22));
        assert_eq!(Scale::of(&queue(12_000), 0, &chart(12_000), now, Some(5)).wanted_slots, 5);
    }

    #[test]
    fn a_paused_queue_wants_none() {
        let paused = QueueInfo { paused: Some(Pause::until(0)), ..queue(12_000) };
        let scale = Scale::of(&paused, 41_000, &chart(12_000), 360_000, None);
        assert_eq!((scale.wanted_slots, scale.waiting), (0, 0));
    }

    #[test]
    fn a_queue_of_which_nothing_is_known_wants_one_slot_for_what_waits() {
        let none = Chart { step_ms: 60_000, points: Vec::new() };
        assert_eq!(Scale::of(&queue(1), 0, &none, 0, None).wanted_slots, 1);
        assert_eq!(Scale::of(&queue(0), 0, &none, 0, None).wanted_slots, 0);
    }
}
