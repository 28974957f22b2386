//! The command line.

#![allow(
    clippy::doc_markdown,
    clippy::large_enum_variant,
    rustdoc::bare_urls,
    reason = "the comments are the help, and a command line is read once"
)]

mod jobs;
mod queue;
mod schedule;
mod steer;

use std::time::Duration;

use clap::{Args as Flags, CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use hworker::{Client, Priority};

pub(crate) use self::jobs::{Broken, Failed, Jobs, List, Scheduled, Select, SelectBroken};
pub(crate) use self::queue::QueueNames;
use self::queue::duration;
pub(crate) use self::schedule::{AddEntry, CatchUp, Cron, Overlap, Tables, WhichEntry};
pub(crate) use self::steer::{
    Batches, Broadcasts, LimitOrJob, Limits, Locks, WhichLimit, Whom, Workers,
};
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
    /// Every queue in a line: what waits, since when, what runs, is scheduled, failed, is broken, how much ends, how long jobs run and wait, and
    /// when nothing waits any more if all goes on so
    Stats(Stats),
    /// Queues, their workers and what runs, in the whole terminal and live
    ///
    /// Keys: up and down select a queue; 1 queues, 2 workers, 3 running jobs and 4 groups of failures of the selected queue, or Tab for the next
    /// of them; s sorts by the next column; p pauses or resumes the selected queue, after a question; ? shows the keys; q quits.
    ///
    /// Rates and times are of the last five minutes. Where the output is no terminal, `hworker stats --watch` prints lines.
    Top(Top),
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
    /// Jobs that each worker runs once, or each of so many
    #[command(subcommand)]
    Broadcasts(Broadcasts),
    /// Batches: jobs that belong together, and what runs when they have ended
    #[command(subcommand)]
    Batches(Batches),
    /// What happens to the jobs of a queue, where its workers tell it: all that is kept, and with -f what comes
    Events(Events),
    /// Cron entries: jobs that run by a cron expression or at an interval
    #[command(subcommand)]
    Cron(Cron),
    /// What programs declare in their code: limits and cron entries
    #[command(subcommand)]
    Tables(Tables),
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
    /// Marks in the charts, as that a release came
    #[command(subcommand)]
    Deploy(Deploy),
    /// Looks for what is wrong with the server, the rights and the queues, and says what to do. Exit code 8: there are warnings;
    /// 9: something fails
    Doctor {
        /// Mends what it can, each mend shown first
        #[arg(long)]
        repair: bool,
    },
    /// Serves the page for operators and the REST API, for this server or several
    #[cfg(feature = "web")]
    Web(WebArgs),
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
    #[command(flatten)]
    pub(crate) names: QueueNames,
    /// Over which time rates and times are [default: 5m]
    #[arg(long, value_name = "TIME")]
    pub(crate) window: Option<Past>,
    /// Again and again, so often [default: 2s]
    #[arg(long, value_name = "EVERY", value_parser = duration, num_args = 0..=1, default_missing_value = "2s")]
    pub(crate) watch: Option<Duration>,
}

#[derive(Debug, Flags)]
pub(crate) struct Top {
    #[command(flatten)]
    pub(crate) names: QueueNames,
    /// How often it looks, as `5s`; 100ms at least
    #[arg(long, value_name = "EVERY", value_parser = duration, default_value = "2s")]
    pub(crate) every: Duration,
}

/// The last minutes, hour, day or month.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Past {
    #[value(name = "5m")]
    Minutes,
    #[value(name = "1h")]
    Hour,
    #[value(name = "24h")]
    Day,
    #[value(name = "30d")]
    Month,
}

/// How the audit and the output name all queues.
pub(crate) const ALL: &str = "*";

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
        self.queue.as_deref().unwrap_or(ALL)
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

#[derive(Debug, Subcommand)]
pub(crate) enum Deploy {
    /// Marks now in the charts of all queues
    Mark {
        /// What changed, in one line, as `1.4.2`
        text: String,
    },
    /// The marks, the latest first
    Ls,
}

#[derive(Debug, Flags)]
pub(crate) struct Events {
    #[command(flatten)]
    pub(crate) queue: queue::Queue,
    /// Of these kinds alone, as `failed,cancelled`
    #[arg(long = "kind", value_name = "KINDS", value_delimiter = ',')]
    pub(crate) kinds: Vec<hworker::EventKind>,
    /// Behind this position, which stands in what --json prints; `now`, or a time in ms since 1970
    #[arg(long, value_name = "POSITION", default_value = "0")]
    pub(crate) from: hworker::EventPosition,
    /// Goes on with what comes
    #[arg(long, short)]
    pub(crate) follow: bool,
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
    /// The tag of the workers that it is for
    #[arg(long, value_name = "TAG")]
    pub(crate) to: Option<String>,
    /// For each worker of the queue: all that live, and that start within 5 min
    #[arg(long, conflicts_with = "on_each_of")]
    pub(crate) on_each: bool,
    /// For so many workers, each another one
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) on_each_of: Option<u32>,
    /// So long from now, as `10m`
    #[arg(long = "in", value_name = "TIME", value_parser = duration)]
    pub(crate) delay: Option<Duration>,
    /// Before which others it runs: highest, high, normal, low or lowest [default: that of the job type]
    #[arg(long)]
    pub(crate) priority: Option<Priority>,
    /// As the next of its priority
    #[arg(long)]
    pub(crate) front: bool,
    /// Its id: while a job of that id lives on the queue, another is not enqueued
    #[arg(long, conflicts_with = "count")]
    pub(crate) id: Option<String>,
    /// A tag; may be given several times
    #[arg(long)]
    pub(crate) tag: Vec<String>,
    /// How many of it
    #[arg(long, default_value_t = 1)]
    pub(crate) count: u32,
    /// Does not check the name and the arguments against what workers wrote down
    #[arg(long)]
    pub(crate) no_check: bool,
    /// The version of arguments that are not checked; the first if it is not said
    #[arg(long, requires = "no_check", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) args_version: Option<u32>,
}

/// Where and for whom the page is.
#[cfg(feature = "web")]
#[derive(Debug, Flags)]
pub(crate) struct WebArgs {
    /// Where it listens; an address that others can reach needs a token
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7700")]
    pub(crate) listen: std::net::SocketAddr,
    /// A file with a secret: a browser asks for a name and a password, which is the secret, and programs send it as a bearer token
    #[arg(long, value_name = "FILE", env = "HWORKER_WEB_TOKEN_FILE")]
    pub(crate) token_file: Option<String>,
    /// A server with a short name, as `prod=redis://prod.internal:6379`; may be given several times
    #[arg(long, value_name = "NAME=URL")]
    pub(crate) server: Vec<String>,
    /// Shows, and changes nothing
    #[arg(long)]
    pub(crate) read_only: bool,
    /// The path under which a proxy has it, where the proxy takes that off
    #[arg(long, value_name = "PATH")]
    pub(crate) mount: Option<String>,
}

impl Args {
    /// The client, and how the server is named in questions.
    pub(crate) fn connect(&self) -> Result<(Client, String), Stop> {
        self.connect_to(self.url.as_deref())
    }

    /// The same for another server.
    pub(crate) fn connect_to(&self, url: Option<&str>) -> Result<(Client, String), Stop> {
        let mut client = Client::builder();
        if let Some(url) = url {
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
