//! The figures as OpenMetrics text.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

use super::now::Now;
use crate::charts::{Counts, Tally, Times};
use crate::open_metrics::text_of;

/// So many units of a histogram are a second: of most, and of that of calls.
const MS: f64 = 1_000.0;
const TENTHS_OF_MS: f64 = 10_000.0;

static SECONDS: Unit = Unit::Seconds;

pub(super) fn text(counts: Counts, now: Now) -> String {
    text_of(Figures { counts, now })
}

#[derive(Debug)]
struct Figures {
    counts: Counts,
    now: Now,
}

impl Collector for Figures {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let version = [("version", env!("CARGO_PKG_VERSION"))];
        encoder
            .encode_descriptor("build", "The version of hworker.", None, MetricType::Info)?
            .encode_info(&version)?;
        self.encode_jobs(&mut encoder)?;
        let help = "How long the bodies of jobs ran.";
        self.encode_times(&mut encoder, "job_run", help, |tally| &tally.run)?;
        let help = "How long jobs had waited when they started, since they were enqueued, due, or to be tried again.";
        self.encode_times(&mut encoder, "job_wait", help, |tally| &tally.wait)?;
        self.encode_server(&mut encoder)?;
        self.encode_now(&mut encoder)
    }
}

impl Figures {
    fn encode_jobs(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "What became of jobs and attempts in this worker.";
        let mut family = encoder.encode_descriptor("jobs", help, None, MetricType::Counter)?;
        for (queue, job, of_type) in self.counts.of_types() {
            for (outcome, count) in of_type.outcomes() {
                let labels = [("queue", &**queue), ("job", job), ("outcome", outcome)];
                ConstCounter::new(count).encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }

    fn encode_times(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        name: &str,
        help: &str,
        times: fn(&Tally) -> &Times,
    ) -> fmt::Result {
        let kind = MetricType::Histogram;
        let mut family = encoder.encode_descriptor(name, help, Some(&SECONDS), kind)?;
        for (queue, job, of_type) in self.counts.of_types() {
            let times = times(&of_type.tally);
            // Most job types run on one queue of several.
            if times.count() > 0 {
                let labels = [("queue", &**queue), ("job", job)];
                encode_histogram(family.encode_family(&labels)?, times, MS)?;
            }
        }
        Ok(())
    }

    fn encode_server(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "How long calls took that take jobs and tell how they ended.";
        let kind = MetricType::Histogram;
        let calls = encoder.encode_descriptor("server_call", help, Some(&SECONDS), kind)?;
        encode_histogram(calls, &self.counts.calls, TENTHS_OF_MS)?;
        let help = "How often the server had declared this worker dead, or lost its data, and the worker began anew.";
        let fenced = encoder.encode_descriptor("fenced", help, None, MetricType::Counter)?;
        ConstCounter::new(self.counts.fenced).encode(fenced)
    }

    fn encode_now(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let (kind, help) = (MetricType::Gauge, "Slots of this worker, for all its queues.");
        let mut slots = encoder.encode_descriptor("slots", help, None, kind)?;
        for (state, count) in self.now.of_slots() {
            let labels = [("state", state)];
            ConstGauge::new(count as u64).encode(slots.encode_family(&labels)?)?;
        }
        let help = "How long ago the last heartbeat was sent that the server accepted.";
        let mut ages = encoder.encode_descriptor("heartbeat_age", help, Some(&SECONDS), kind)?;
        for (queue, age) in &self.now.heartbeats {
            let labels = [("queue", &**queue)];
            ConstGauge::new(age.as_secs_f64()).encode(ages.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

fn encode_histogram(
    mut encoder: MetricEncoder<'_>,
    times: &Times,
    of_a_second: f64,
) -> fmt::Result {
    let parts: Vec<_> = times.parts(of_a_second).collect();
    let sum = times.sum_ms as f64 / of_a_second;
    encoder.encode_histogram::<NoLabelSet>(sum, times.count(), &parts, None)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::charts::{Charts, Counted, Rare, Totals, UNKNOWN};

    #[test]
    fn the_text_of_a_known_state() {
        // Counters, histograms and gauges of two types -> the very text. One that differs may be one that Prometheus does not read.
        // Guard: `encode_histogram`; `outcomes` of `OfType`.
        let totals = Totals::default();
        let queue = totals.queue(&"mail".into());
        queue.expect(["send", "idle"].into_iter());
        let charts = Charts::of(Arc::clone(&queue));
        let ran = Some(Duration::from_millis(40));
        for counted in [Counted::Ok, Counted::Ok, Counted::Failed] {
            charts.count("send", counted, ran, Some(1_500));
        }
        queue.add(UNKNOWN, Rare::Parked, 2);
        totals.called(Duration::from_micros(250));
        let heartbeats = [("mail".into(), Duration::from_millis(750))].into();
        let now = Now { slots: Some((3, 7)), heartbeats };
        let text = text(totals.read(), now);
        let expected = include_str!("metrics.txt").replace("VERSION", env!("CARGO_PKG_VERSION"));
        assert_eq!(text, expected, "{text}");
    }

    #[test]
    fn before_and_after_a_session_there_are_totals_alone() {
        let text = text(Totals::default().read(), Now::default());
        assert!(text.contains("\nhworker_fenced_total 0\n"), "{text}");
        assert!(!text.contains("\nhworker_slots"), "{text}");
        assert!(text.ends_with("# EOF\n"), "{text}");
    }
}
