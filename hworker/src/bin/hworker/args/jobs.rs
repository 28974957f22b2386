//! The part of the command line that is about jobs, and says which are meant.

use std::time::Duration;

use clap::{Args as Flags, Subcommand};
use hworker::{Filter, JobState, Order, Priority};

use super::queue::{Queue, duration};
use crate::stop::Stop;

#[derive(Debug, Subcommand)]
pub(crate) enum Jobs {
    /// A page of jobs
    Ls(List),
    /// All that is known of one job
    Show {
        #[command(flatten)]
        queue: Queue,
        id: String,
        /// Prints all that is known of it, its type and its queue, without what is hidden, for a bug report
        #[arg(long)]
        dump: bool,
    },
    /// What its body has logged: the newest 1,000 lines
    Log {
        #[command(flatten)]
        queue: Queue,
        id: String,
        /// Goes on, line by line, until the job has ended
        #[arg(long, short)]
        follow: bool,
    },
    /// Lets jobs run again: one attempt more than they had
    Retry {
        #[command(flatten)]
        select: Select,
        /// From the first attempt
        #[arg(long)]
        reset: bool,
    },
    /// Deletes jobs
    Delete {
        #[command(flatten)]
        select: Select,
    },
    /// Cancels jobs: they do not run, and their records say so. A running body is dropped, or told, as its type says
    Cancel {
        #[command(flatten)]
        select: Select,
    },
    /// Has jobs run at another time
    At {
        #[command(flatten)]
        select: Select,
        /// So long from now
        #[arg(long = "in", value_name = "TIME", value_parser = duration)]
        delay: std::time::Duration,
    },
    /// Gives jobs that wait, or are scheduled, another priority
    Priority {
        #[command(flatten)]
        select: Select,
        /// `highest`, `high`, `normal`, `low` or `lowest`
        #[arg(long)]
        to: Priority,
    },
    /// Makes jobs the next to run
    Promote {
        #[command(flatten)]
        select: Select,
    },
    /// Moves jobs to another queue
    Move {
        #[command(flatten)]
        select: Select,
        /// That queue
        #[arg(long, value_name = "QUEUE")]
        to: String,
    },
    /// Changes arguments or tags; an ended job runs again with them
    Edit {
        #[command(flatten)]
        select: Select,
        /// An argument by its path, and its value in JSON, or as text: `args.user_id=42`
        #[arg(long, value_name = "args.NAME=VALUE")]
        set: Vec<String>,
        /// The tags that it has from now on
        #[arg(long, value_name = "TAG")]
        tag: Vec<String>,
        /// Does not check the arguments against the job type
        #[arg(long)]
        no_check: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Failed {
    /// A page of failed jobs, the newest first
    Ls(List),
    /// Failures that have something in common
    Groups {
        #[command(flatten)]
        queue: Queue,
    },
    /// All that is known of one job
    Show {
        #[command(flatten)]
        queue: Queue,
        id: String,
    },
    /// Lets failed jobs run again: one attempt more than they had
    Retry {
        #[command(flatten)]
        select: Select,
        /// From the first attempt
        #[arg(long)]
        reset: bool,
    },
    /// Deletes records of failed jobs
    Delete {
        #[command(flatten)]
        select: Select,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Scheduled {
    /// A page of scheduled jobs, the earliest due first
    Ls(List),
    /// Lets scheduled jobs run now
    Promote {
        #[command(flatten)]
        select: Select,
    },
    /// Deletes scheduled jobs
    Delete {
        #[command(flatten)]
        select: Select,
    },
    /// Gives scheduled jobs another time
    At {
        #[command(flatten)]
        select: Select,
        /// So long from now, as `10m`
        #[arg(long = "in", value_name = "TIME", value_parser = duration)]
        delay: Duration,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Broken {
    /// A page of broken payloads
    Ls(List),
    /// One payload
    Show {
        #[command(flatten)]
        queue: Queue,
        /// Its digest
        digest: String,
        /// Its bytes as they are, which goes into a file or a pipe alone
        #[arg(long)]
        raw: bool,
    },
    /// Puts broken payloads back to their queue
    Requeue {
        #[command(flatten)]
        select: SelectBroken,
    },
    /// Deletes broken payloads
    Delete {
        #[command(flatten)]
        select: SelectBroken,
    },
}

/// Which jobs, as a filter.
#[derive(Debug, Flags)]
pub(crate) struct Which {
    /// Of this job type
    #[arg(long)]
    job: Option<String>,
    /// Whose error has this in its text
    #[arg(long)]
    error: Option<String>,
    /// Of this group of failures
    #[arg(long)]
    group: Option<String>,
    /// That ended so: error, panic, timeout, ..
    #[arg(long)]
    kind: Option<String>,
    /// Whose arguments have this in their JSON
    #[arg(long)]
    args: Option<String>,
    /// With this tag
    #[arg(long)]
    with_tag: Option<String>,
    /// Of this worker
    #[arg(long)]
    worker: Option<String>,
    /// Later than this: `2h` ago, `2026-12-24`, `2026-12-24T18:00`
    #[arg(long)]
    since: Option<String>,
    /// Earlier than this
    #[arg(long)]
    until: Option<String>,
    /// Older than this: `2h`
    #[arg(long)]
    older: Option<String>,
    /// A filter as it is written elsewhere: `job:send_welcome args.user_id=42 attempt>=3`
    #[arg(long = "where", value_name = "FILTER")]
    filter: Option<String>,
}

#[derive(Debug, Flags)]
pub(crate) struct List {
    #[command(flatten)]
    pub(crate) queue: Queue,
    /// The state [default: waiting, or that of the filter]
    #[arg(long, value_parser = state)]
    pub(crate) state: Option<JobState>,
    #[command(flatten)]
    pub(crate) which: Which,
    /// `next` begins with the one whose turn it is, `newest` with the newest
    #[arg(long, value_parser = order)]
    pub(crate) order: Option<Order>,
    /// How many, 1 to 1000
    #[arg(long, default_value_t = 50)]
    pub(crate) limit: usize,
    /// Goes on behind a page, with what it said
    #[arg(long)]
    pub(crate) cursor: Option<String>,
}

#[derive(Debug, Flags)]
pub(crate) struct Select {
    #[command(flatten)]
    pub(crate) queue: Queue,
    /// Their ids; without them a filter
    pub(crate) ids: Vec<String>,
    /// The unique one that holds this key, as `hworker locks ls` has it
    #[arg(long, conflicts_with_all = ["ids", "all"])]
    pub(crate) key: Option<String>,
    /// The state [default: failed, or that of the command or filter]
    #[arg(long, value_parser = state)]
    pub(crate) state: Option<JobState>,
    #[command(flatten)]
    pub(crate) which: Which,
    /// All of that state, where no filter is given
    #[arg(long)]
    pub(crate) all: bool,
    /// How many at most, 1 to 1000
    #[arg(long, default_value_t = 100)]
    pub(crate) limit: usize,
    /// Says what would be done, and does nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Flags)]
pub(crate) struct SelectBroken {
    #[command(flatten)]
    pub(crate) queue: Queue,
    /// Their digests; without them a reason
    pub(crate) digests: Vec<String>,
    /// Those whose reason has this in it
    #[arg(long)]
    pub(crate) reason: Option<String>,
    /// All of them
    #[arg(long)]
    pub(crate) all: bool,
    /// Says what would be done, and does nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

impl Which {
    /// The filter, and whether it is empty but for what is written out.
    pub(crate) fn filter(&self) -> Result<Filter, Stop> {
        let conditions = [
            ("job:", &self.job),
            ("error:", &self.error),
            ("group:", &self.group),
            ("kind:", &self.kind),
            ("args~", &self.args),
            ("tag:", &self.with_tag),
            ("worker:", &self.worker),
            ("since:", &self.since),
            ("until:", &self.until),
            ("age>", &self.older),
        ];
        let given = conditions.into_iter().filter_map(|(name, value)| {
            let value = value.as_ref()?.replace('\\', "\\\\").replace('"', "\\\"");
            Some(format!("{name}\"{value}\""))
        });
        let mut text = given.collect::<Vec<_>>().join(" ");
        if let Some(filter) = &self.filter {
            text = format!("{text} {filter}");
        }
        text.parse().map_err(Stop::usage)
    }
}

fn state(text: &str) -> Result<JobState, String> {
    text.parse()
}

fn order(text: &str) -> Result<Order, String> {
    match text {
        "next" => Ok(Order::Next),
        "newest" => Ok(Order::Newest),
        _ => Err("it is `next` or `newest`".to_owned()),
    }
}
