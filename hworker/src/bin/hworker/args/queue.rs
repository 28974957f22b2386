//! What several commands take.

use std::time::Duration;

use clap::Args as Flags;
use hworker::Filter;

use crate::stop::Stop;

#[derive(Debug, Flags)]
pub(crate) struct Queue {
    /// The queue [default: that of the filter, or `default`]
    #[arg(long, short)]
    queue: Option<String>,
}

impl Queue {
    pub(crate) fn name(&self) -> &str {
        self.queue.as_deref().unwrap_or(hworker::defaults::QUEUE)
    }

    /// The queue, or the one that the filter asks for.
    pub(crate) fn named_by<'a>(&'a self, filter: &'a Filter) -> Result<&'a str, Stop> {
        match (self.queue.as_deref(), filter.queue()) {
            (Some(name), Some(asked)) if name != asked => Err(Stop::usage(format!(
                "the filter asks for the queue {asked}, and -q for {name}"
            ))),
            (_, Some(asked)) => Ok(asked),
            (_, None) => Ok(self.name()),
        }
    }
}

/// Which queues are looked at.
#[derive(Debug, Flags)]
pub(crate) struct QueueNames {
    /// Of queues that have this in their names
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) name: String,
    /// How many queues at most, by their names
    #[arg(long, default_value_t = 100)]
    pub(crate) limit: usize,
}

pub(super) fn duration(text: &str) -> Result<Duration, String> {
    hworker::parse_duration(text)
}
