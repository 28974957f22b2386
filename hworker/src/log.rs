//! The log of a program that has not set up one of its own.

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// Sends events to standard error, filtered by `HWORKER_LOG`; does nothing where a subscriber is set already.
pub(crate) fn install() {
    let wanted = std::env::var("HWORKER_LOG").unwrap_or_default();
    let wanted = wanted.trim();
    let filter = filter(wanted);
    let understood = wanted.is_empty() || filter.is_some();
    let filter = filter.unwrap_or_else(|| Targets::new().with_default(LevelFilter::INFO));
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let installed = tracing_subscriber::registry().with(lines).with(filter).try_init().is_ok();
    if installed && !understood {
        tracing::warn!(
            "HWORKER_LOG `{wanted}` is not understood; write a level, or `hworker=debug,my_app=info`"
        );
    }
}

/// A level, or targets with levels. A lone word that is no level would be a target with every level, and everything
/// else silent: it is a typing error.
fn filter(wanted: &str) -> Option<Targets> {
    let lone_word = !wanted.contains(['=', ',']);
    if wanted.is_empty() || (lone_word && wanted.parse::<LevelFilter>().is_err()) {
        return None;
    }
    wanted.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::filter;

    #[test]
    fn levels_and_targets_are_understood_and_typing_errors_are_not() {
        for wanted in ["debug", "Info", "off", "hworker=debug", "hworker=debug,app=info"] {
            assert!(filter(wanted).is_some(), "{wanted}");
        }
        for wanted in ["", "verbose", "wran", "hworker=loud"] {
            assert!(filter(wanted).is_none(), "{wanted}");
        }
    }
}
