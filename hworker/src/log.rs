//! The log of a program that has not set up one of its own.

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// Sends events to standard error, filtered by `HWORKER_LOG`; does nothing where a subscriber is set already.
pub(crate) fn install() {
    let wanted = std::env::var("HWORKER_LOG").unwrap_or_default();
    let filter = wanted.parse::<Targets>();
    let understood = filter.is_ok();
    let filter = match filter {
        Ok(filter) if !wanted.is_empty() => filter,
        _ => Targets::new().with_default(LevelFilter::INFO),
    };
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let installed = tracing_subscriber::registry().with(lines).with(filter).try_init().is_ok();
    if installed && !understood {
        tracing::warn!(
            "HWORKER_LOG `{wanted}` is not understood; write a level, or `hworker=debug,my_app=info`"
        );
    }
}
