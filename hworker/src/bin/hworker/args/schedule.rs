//! The part of the command line about cron entries, and tables of programs.

use std::time::Duration;

use clap::{Args as Flags, Subcommand};
use hworker::Priority;

use super::queue::{Queue, duration};

#[derive(Debug, Subcommand)]
pub(crate) enum Cron {
    /// The entries of a queue
    Ls {
        #[command(flatten)]
        queue: Queue,
    },
    /// One entry, with its next times and its last runs
    Show {
        #[command(flatten)]
        which: WhichEntry,
        /// How many times, and how many runs; at most 1,000
        #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1_000))]
        limit: u16,
    },
    /// Pauses an entry until it is resumed, over deploys too
    Pause {
        #[command(flatten)]
        which: WhichEntry,
    },
    /// Resumes it, from its next time on
    Resume {
        #[command(flatten)]
        which: WhichEntry,
    },
    /// Starts a run now
    Run {
        #[command(flatten)]
        which: WhichEntry,
    },
    /// Adds an entry, or changes it; it wins over what code declares under this name
    Add(Box<AddEntry>),
    /// Removes what was added; an entry that code declares is as it says there again
    Rm {
        #[command(flatten)]
        which: WhichEntry,
    },
}

#[derive(Debug, Flags)]
pub(crate) struct WhichEntry {
    #[command(flatten)]
    pub(crate) queue: Queue,
    /// The name of the entry
    pub(crate) name: String,
}

#[derive(Debug, Flags)]
pub(crate) struct AddEntry {
    #[command(flatten)]
    pub(crate) which: WhichEntry,
    /// The name of the job type
    #[arg(long, value_name = "TYPE")]
    pub(crate) job: String,
    /// Its arguments as JSON; `@file` reads a file, `-` the standard input
    #[arg(long, default_value = "{}", value_name = "JSON")]
    pub(crate) args: String,
    /// A cron expression, as "0 9 * * MON-FRI"
    #[arg(long, value_name = "EXPRESSION", required_unless_present = "every")]
    pub(crate) cron: Option<String>,
    /// An interval, as `30s`
    #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with = "cron")]
    pub(crate) every: Option<Duration>,
    /// The zone of its times, as Europe/Berlin [default: UTC]
    #[arg(long, value_name = "ZONE")]
    pub(crate) timezone: Option<String>,
    /// What is done about runs that are missed: skip, one or all
    #[arg(long, default_value = "skip")]
    pub(crate) catch_up: CatchUp,
    /// What is done while the run before goes on: allow, skip, queue or cancel
    #[arg(long, default_value = "allow")]
    pub(crate) overlap: Overlap,
    /// Up to so much later than written
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) splay: Option<Duration>,
    /// Not before, as 2026-12-01 or 2026-12-01T09:00
    #[arg(long, value_name = "WHEN")]
    pub(crate) start: Option<String>,
    /// Not after
    #[arg(long, value_name = "WHEN")]
    pub(crate) end: Option<String>,
    /// So many runs in all
    #[arg(long, value_name = "N")]
    pub(crate) count: Option<u32>,
    /// Days of the week on which it does not run, as "sat, sun"
    #[arg(long, value_name = "DAYS")]
    pub(crate) skip_days: Option<String>,
    /// Before which others it runs: highest, high, normal, low or lowest [default: that of the job type]
    #[arg(long)]
    pub(crate) priority: Option<Priority>,
    /// A tag; may be given several times
    #[arg(long)]
    pub(crate) tag: Vec<String>,
    /// Does not check the name and the arguments against what workers wrote down
    #[arg(long)]
    pub(crate) no_check: bool,
    /// The version of arguments that are not checked; the first if it is not said
    #[arg(long, requires = "no_check", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) args_version: Option<u32>,
}

/// As the library has it.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum CatchUp {
    Skip,
    One,
    All,
}

/// As the library has it.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum Overlap {
    Allow,
    Skip,
    Queue,
    Cancel,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Tables {
    /// What programs declare in their code on a queue, and which of it is in force
    Ls {
        #[command(flatten)]
        queue: Queue,
    },
    /// Holds a program at one of its tables, as while a canary runs
    Pin {
        #[command(flatten)]
        queue: Queue,
        /// The name of the program
        app: String,
        /// As `tables ls` shows it
        #[arg(required_unless_present = "newest")]
        hash: Option<String>,
        /// Holds it no more: the newest is in force again
        #[arg(long, conflicts_with = "hash")]
        newest: bool,
    },
}
