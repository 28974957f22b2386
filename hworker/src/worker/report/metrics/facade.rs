//! Gives the same figures to the recorder that the program has installed for the `metrics` crate. A recorder is code of the user: it is
//! called on the thread of the log, which nothing waits for.

use std::sync::Arc;
use std::time::{Duration, Instant};

use metrics::{counter, gauge, histogram};

use super::now::Now;
use crate::charts::{Times, Totals};
use crate::log;
use crate::worker::state::Session;

/// So often, where there are jobs; else with the heartbeats.
const EVERY: Duration = Duration::from_secs(1);

/// When the recorder was last told.
pub(crate) struct Facade(Instant);

impl Default for Facade {
    fn default() -> Self {
        Self(Instant::now())
    }
}

impl Facade {
    /// Tells the recorder what is new, where it is time for that.
    pub(crate) fn tell_in_time(&mut self, session: &Session) {
        if self.0.elapsed() >= EVERY {
            self.0 = Instant::now();
            tell(&session.core.totals, Now::of(session));
        }
    }
}

/// Tells the recorder what is new when the worker is over.
pub(crate) fn tell_last(totals: &Arc<Totals>) {
    tell(totals, Now::default());
}

fn tell(totals: &Arc<Totals>, now: Now) {
    let totals = Arc::clone(totals);
    // What is new is looked up there: nothing is missed where the log has no room for this.
    log::beside(move || record(&totals, &now));
}

/// Without a recorder this does nothing, and makes no text: the facade does not say whether there is one.
fn record(totals: &Totals, now: &Now) {
    let news = totals.news();
    for (queue, job, of_type) in news.of_types() {
        for (outcome, count) in of_type.outcomes().filter(|(_, count)| *count > 0) {
            let queue = Arc::clone(queue);
            counter!("hworker_jobs_total", "queue" => queue, "job" => job, "outcome" => outcome)
                .increment(count);
        }
        let (run, wait) = (&of_type.tally.run, &of_type.tally.wait);
        record_parts(
            run,
            1_000.0,
            || histogram!("hworker_job_run_seconds", "queue" => Arc::clone(queue), "job" => job),
        );
        record_parts(
            wait,
            1_000.0,
            || histogram!("hworker_job_wait_seconds", "queue" => Arc::clone(queue), "job" => job),
        );
    }
    record_parts(&news.calls, 10_000.0, || histogram!("hworker_server_call_seconds"));
    if news.fenced > 0 {
        counter!("hworker_fenced_total").increment(news.fenced);
    }
    for (state, count) in now.of_slots() {
        gauge!("hworker_slots", "state" => state).set(count as f64);
    }
    for (queue, age) in &now.heartbeats {
        gauge!("hworker_heartbeat_age_seconds", "queue" => Arc::clone(queue))
            .set(age.as_secs_f64());
    }
}

/// Each of a part counts as its upper bound, and those of the last as its lower one.
fn record_parts(times: &Times, of_a_second: f64, series: impl FnOnce() -> metrics::Histogram) {
    if times.count() == 0 {
        return;
    }
    let series = series();
    let mut last = 0.0;
    for (bound, count) in times.parts(of_a_second) {
        last = if bound.is_finite() { bound } else { last };
        if count > 0 {
            series.record_many(last, usize::try_from(count).unwrap_or(usize::MAX));
        }
    }
}
