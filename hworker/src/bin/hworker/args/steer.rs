//! The part of the command line that steers workers and limits.

use std::time::Duration;

use clap::{Args as Flags, Subcommand};
use hworker::{BatchId, Rate};

use super::queue::{Queue, duration};

#[derive(Debug, Subcommand)]
pub(crate) enum Workers {
    /// The workers of all queues
    Ls,
    /// One worker, with what it runs
    Show { id: String },
    /// Has workers take no more jobs; what runs goes on
    Quiet {
        #[command(flatten)]
        whom: Whom,
    },
    /// Has them take jobs again
    Resume {
        #[command(flatten)]
        whom: Whom,
    },
    /// Has each run so many jobs at once
    Scale {
        #[command(flatten)]
        whom: Whom,
        /// How many [default: as their settings say]
        #[arg(long)]
        slots: Option<usize>,
    },
    /// Stops them as SIGTERM does
    Stop {
        #[command(flatten)]
        whom: Whom,
        /// How long running jobs may take to finish [default: as their settings say]
        #[arg(long, value_name = "TIME", value_parser = duration)]
        grace: Option<Duration>,
    },
}

/// A worker, or all of a label.
#[derive(Debug, Flags)]
pub(crate) struct Whom {
    #[arg(required_unless_present = "label")]
    pub(crate) id: Option<String>,
    /// All workers with this `HWORKER_NAME`, also those that start later
    #[arg(long, conflicts_with = "id")]
    pub(crate) label: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Limits {
    /// All limits of a queue. A name ends with `=` where the limit has a key, and with `@` where each worker has one; `NAME=KEY` is one key,
    /// `*` the queue's own limit
    Ls {
        #[command(flatten)]
        queue: Queue,
    },
    /// One limit, or one key of it
    Show {
        #[command(flatten)]
        which: WhichLimit,
    },
    /// Sets a limit, which wins over what code declares until it is unset; what runs goes on
    Set {
        #[command(flatten)]
        which: WhichLimit,
        /// So many jobs may run at once, at least 1
        #[arg(long, value_name = "N", required_unless_present_any = ["rate", "max_waiting"])]
        at_once: Option<u32>,
        /// So many jobs may start in a time: `100/m`, `10/30s`, `10/s+20`
        #[arg(long)]
        rate: Option<Rate>,
        /// So many jobs may wait, of each key or in the queue, at least 1
        #[arg(long, value_name = "N")]
        max_waiting: Option<u32>,
    },
    /// Has what code declares hold again
    Unset {
        #[command(flatten)]
        which: WhichLimit,
    },
    /// Has workers take no jobs of a limit, or of a job type; what runs goes on
    Pause {
        #[command(flatten)]
        which: LimitOrJob,
        /// For so long, as `1h` [default: until it is resumed]
        #[arg(long = "for", value_name = "TIME", value_parser = duration)]
        duration: Option<Duration>,
    },
    /// Has them take its jobs again
    Resume {
        #[command(flatten)]
        which: LimitOrJob,
    },
    /// Unsets and resumes all limits and job types of a queue
    Reset {
        #[command(flatten)]
        queue: Queue,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Locks {
    /// The keys that jobs hold, and which jobs; at most 1,000
    Ls {
        #[command(flatten)]
        queue: Queue,
    },
    /// Frees a key; the job that held it goes on
    Free {
        #[command(flatten)]
        queue: Queue,
        /// As `locks ls` shows it
        key: String,
    },
}

/// A limit, one key of it, or that of the queue.
#[derive(Debug, Flags)]
pub(crate) struct WhichLimit {
    #[command(flatten)]
    pub(crate) queue: Queue,
    /// Its name; a limit without one is called as its job type
    #[arg(required_unless_present = "of_queue")]
    pub(crate) name: Option<String>,
    /// Of this key alone
    #[arg(long, conflicts_with = "of_queue")]
    pub(crate) key: Option<String>,
    /// The queue's own limit, in place of NAME
    #[arg(long, conflicts_with = "name")]
    pub(crate) of_queue: bool,
}

/// A limit, one key of it, or a job type.
#[derive(Debug, Flags)]
pub(crate) struct LimitOrJob {
    #[command(flatten)]
    pub(crate) queue: Queue,
    /// Its name; a limit without one is called as its job type
    #[arg(required_unless_present = "job")]
    pub(crate) name: Option<String>,
    /// Of this key alone
    #[arg(long, conflicts_with = "job")]
    pub(crate) key: Option<String>,
    /// All jobs of this type, in place of NAME; the type needs no limit
    #[arg(long, value_name = "TYPE", conflicts_with = "name")]
    pub(crate) job: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Batches {
    /// Those that are not finished, at most 1,000; they may be a minute behind
    Ls,
    /// How one stands
    Show {
        /// As the program that enqueued it was given it
        id: BatchId,
    },
    /// Has no member of it start any more, and cancels those that run
    Cancel {
        /// As `batches ls` shows it
        id: BatchId,
    },
    /// Has no member of it start; what runs goes on
    Pause {
        /// As `batches ls` shows it
        id: BatchId,
    },
    /// Has its members start again
    Resume {
        /// As `batches ls` shows it
        id: BatchId,
    },
    /// Looks for members that have not ended and are nowhere; where any is missing, again after a minute
    Verify {
        /// As `batches ls` shows it
        id: BatchId,
    },
    /// The same, and has missing members count as ended, and as bad
    Repair {
        /// As `batches ls` shows it
        id: BatchId,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Broadcasts {
    /// Those of a queue that have not expired
    Ls {
        #[command(flatten)]
        queue: Queue,
    },
    /// Has no more workers begin one or try it again, and tells those that run it to end it
    Cancel {
        #[command(flatten)]
        queue: Queue,
        /// The id of the job
        id: String,
    },
}
