//! Figures as OpenMetrics text, which Prometheus reads.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

/// Of which type the text is.
pub(crate) const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The figures of a collector, as metrics whose names begin with `hworker_`.
pub(crate) fn text_of(figures: impl Collector) -> String {
    // Of this text alone: nothing is registered in the process.
    let mut registry = Registry::with_prefix("hworker");
    registry.register_collector(Box::new(figures));
    let mut text = String::new();
    // A `String` takes all that is written.
    let _ = encode(&mut text, &registry);
    text
}
