//! The command line.

#![allow(
    clippy::doc_markdown,
    clippy::large_enum_variant,
    rustdoc::bare_urls,
    reason = "the comments are the help, and a command line is read once"
)]

mod queue;
mod steer;

use std::time::Duration;

use clap::{Args as Flags, CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use hworker::{Client, Filter, JobState, Order, Priority};

pub(crate) use self::queue::Queue;
use self::queue::duration;
pub(crate) use self::steer::{LimitOrJob, Limits, Locks, WhichLimit, Whom, Workers};
use crate::output::print;
use crate::stop::Stop;

/// Looks into queues and mends them.
///
/// The server is that of `--url`, else of HWORKER_REDIS_URL, then REDIS_URL, then redis://127.0.0.1:6379.
///
/// Exit codes: 0 done, 1 failed or done in part, 2 wrong usage, 3 not found, 4 the server was not reached and nothing changed,
/// 5 not known whether it was done, 6 refused, 8 the doctor warns, 9 the doctor finds what fails, 130 interrupted.
#[derive(Debug, Parser)]
#[command(name = "hworker", version, max_term_width = 120)]
pub(crate) struct Args {
    /// The server: `redis://`, `rediss://`, `redis+unix://`, `redis-sentinel://`, `redis-cluster://`
    #[arg(long, global = true, value_name = "URL")]
    url: Option<String>,
    /// What every key begins with [default: HWORKER_PREFIX, then hworker]
    #[arg(long, global = true, value_name = "PREFIX")]
    prefix: Option<String>,
    /// Queues that are spread: `mail=8,reports=2` [default: HWORKER_SHARDS]
    #[arg(long, global = true, value_name = "SHARDS")]
    shards: Option<String>,
    /// Prints one JSON object a line
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Prints lines of tabs without a head, as where the output is no terminal
    #[arg(long, global = true, conflicts_with = "json")]
    pub(crate) plain: bool,
    /// Colours: where the output is a terminal and NO_COLOR is not set, always, or never
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: Color,
    /// Answers every question with yes
    #[arg(long, short, global = true)]
    pub(crate) yes: bool,
    /// How long a command may take in all, as `5s` [default: no limit]
    #[arg(long, global = true, value_name = "TIME", value_parser = duration)]
    pub(crate) timeout: Option<Duration>,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// When colours are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Color {
    Auto,
    Always,
    Never,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Every queue in a line: what waits, since when, what runs, is scheduled, failed, is broken
    Stats(Stats),
    /// Queues
    #[command(subcommand)]
    Queues(Queues),
    /// Jobs in any state
    #[command(subcommand)]
    Jobs(Jobs),
    /// Jobs that will not run again by themselves
    #[command(subcommand)]
    Failed(Failed),
    /// Jobs that wait for a time
    #[command(subcommand)]
    Scheduled(Scheduled),
    /// Payloads that could not be decoded, or that no worker could run
    #[command(subcommand)]
    Broken(Broken),
    /// Limits of a queue: how many jobs run at once and how many start in a time, over all workers
    #[command(subcommand)]
    Limits(Limits),
    /// The keys that unique jobs hold
    #[command(subcommand)]
    Locks(Locks),
    /// Workers
    #[command(subcommand)]
    Workers(Workers),
    /// Workers that died, with what they held, and the job types that they died of more often than chance explains
    Crashes,
    /// Enqueues a job by the name of its type
    Enqueue(Enqueue),
    /// Job types, as workers wrote them down
    #[command(subcommand)]
    Schema(Schema),
    /// What people did by hand, the newest first
    Audit {
        /// How many entries
        #[arg(long, default_value_t = 50)]
        limit: usize,
    },
    /// Looks for what is wrong with the server, the rights and the queues, and says what to do. Exit code 8: there are warnings;
    /// 9: something fails
    Doctor {
        /// Mends what it can, each mend shown first
        #[arg(long)]
        repair: bool,
    },
    /// Prints completions for a shell
    Completions { shell: Shell },
    /// Prints the manual page
    Man,
}

/// Which queues.
#[derive(Debug, Flags)]
pub(crate) struct Stats {
    /// Of this queue alone
    #[arg(long)]
    pub(crate) queue: Option<String>,
    /// Of queues that have this in their names
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) name: String,
    /// How many queues at most, by their names
    #[arg(long, default_value_t = 100)]
    pub(crate) limit: usize,
}

/// A queue, or all of them.
#[derive(Debug, Flags)]
pub(crate) struct OneOrAll {
    #[arg(required_unless_present = "all")]
    pub(crate) queue: Option<String>,
    /// All queues, also those that come later
    #[arg(long, conflicts_with = "queue")]
    all: bool,
}

impl OneOrAll {
    pub(crate) fn shown(&self) -> &str {
        self.queue.as_deref().unwrap_or("*")
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Queues {
    /// All queues
    Ls(Stats),
    /// One queue, with its counters and groups of failures
    Show { queue: String },
    /// Has the workers of a queue take none of its jobs; what runs goes on
    Pause {
        #[command(flatten)]
        which: OneOrAll,
        /// For so long, as `1h` [default: until it is resumed]
        #[arg(long = "for", value_name = "TIME", value_parser = duration)]
        duration: Option<Duration>,
    },
    /// Has them take jobs again
    Resume {
        #[command(flatten)]
        which: OneOrAll,
    },
    /// Deletes a queue with everything that belongs to it
    Destroy {
        queue: String,
        /// Also while workers serve it: they lose what they run
        #[arg(long)]
        force: bool,
    },
}

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

#[derive(Debug, Subcommand)]
pub(crate) enum Schema {
    /// All job types
    Ls,
    /// One job type, with the schema of its arguments
    Show { name: String },
    /// What has changed since `hworker --json schema ls` was printed into a file; exit code 1 where jobs that wait would break
    Diff {
        /// That file; `-` is the standard input
        file: String,
    },
}

#[derive(Debug, Flags)]
pub(crate) struct Enqueue {
    /// The name of the job type
    pub(crate) name: String,
    /// Its arguments as JSON; `@file` reads a file, `-` the standard input
    #[arg(long, default_value = "{}", value_name = "JSON")]
    pub(crate) args: String,
    /// The queue [default: that of the job type]
    #[arg(long)]
    pub(crate) queue: Option<String>,
    /// So long from now, as `10m`
    #[arg(long = "in", value_name = "TIME", value_parser = duration)]
    pub(crate) delay: Option<Duration>,
    /// Before which others it runs: highest, high, normal, low or lowest [default: that of the job type]
    #[arg(long)]
    pub(crate) priority: Option<Priority>,
    /// As the next of its priority
    #[arg(long)]
    pub(crate) front: bool,
    /// A tag; may be given several times
    #[arg(long)]
    pub(crate) tag: Vec<String>,
    /// How many of it
    #[arg(long, default_value_t = 1)]
    pub(crate) count: u32,
    /// Does not check the name and the arguments against what workers wrote down
    #[arg(long)]
    pub(crate) no_check: bool,
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

impl Args {
    /// The client, and how the server is named in questions.
    pub(crate) fn connect(&self) -> Result<(Client, String), Stop> {
        let mut client = Client::builder();
        if let Some(url) = &self.url {
            client = client.redis_url(url);
        }
        if let Some(prefix) = &self.prefix {
            client = client.prefix(prefix);
        }
        for shard in self.shards.iter().flat_map(|shards| shards.split(',')) {
            let wrong = || Stop::usage(format!("`{shard}` is not of the form `mail=8`"));
            let (queue, count) = shard.split_once('=').ok_or_else(wrong)?;
            client = client.shards(queue.trim(), count.trim().parse().map_err(|_| wrong())?);
        }
        let client = client.build()?;
        let place = client.place();
        Ok((client, place))
    }
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

/// Prints completions.
pub(crate) fn completions(shell: Shell) -> Result<(), Stop> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "hworker", &mut text);
    print(&String::from_utf8_lossy(&text))
}

/// Prints the manual page, with those of all commands behind it.
pub(crate) fn man() -> Result<(), Stop> {
    let mut text = Vec::new();
    let mut command = Args::command();
    command.build();
    let mut pages = vec![command];
    while let Some(page) = pages.pop() {
        pages.extend(page.get_subcommands().filter(|sub| sub.get_name() != "help").cloned());
        clap_mangen::Man::new(page)
            .render(&mut text)
            .map_err(|error| Stop::failed(error.to_string()))?;
    }
    print(&String::from_utf8_lossy(&text))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Args::command().debug_assert();
    }

    #[test]
    fn flags_become_conditions_whatever_they_hold() {
        let which = |arguments: &[&str]| {
            let all = ["hworker", "failed", "ls"].iter().chain(arguments);
            let args = Args::try_parse_from(all).expect("arguments");
            let Command::Failed(Failed::Ls(list)) = args.command else { panic!("another command") };
            list.which.filter()
        };
        let filter = which(&["--error", "a \"b\" \\c", "--where", "attempt>=3"]).expect("a filter");
        assert_eq!(filter, r#"error:"a \"b\" \\c" attempt>=3"#.parse().expect("a filter"));
        assert!(which(&[]).expect("none").is_empty());
        assert!(which(&["--where", "nonsense"]).is_err());
    }
}
