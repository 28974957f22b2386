//! `hworker`: looks into queues and mends them from a terminal. It uses the public API of the library and nothing else of it.

mod args;
mod batches;
mod broadcasts;
mod broken;
mod change;
mod cron;
mod deploy;
mod doctor;
mod enqueue;
mod events;
mod jobs;
mod limits;
mod locks;
mod output;
mod queues;
mod rows;
mod schema;
mod schema_diff;
mod select;
mod stop;
mod tables;
mod top;
#[cfg(feature = "web")]
mod web;
mod workers;

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use hworker::Client;

use crate::args::{Args, Command};
use crate::output::Output;
use crate::stop::Stop;

/// What every command gets.
pub(crate) struct Context {
    pub(crate) client: Client,
    pub(crate) output: Output,
    /// The server and the prefix, as questions name them.
    pub(crate) place: String,
    /// Answers every question with yes.
    pub(crate) yes: bool,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let ended = match runtime {
        Ok(runtime) => {
            let within = args.timeout;
            let ended = runtime.block_on(async {
                tokio::select! {
                    ended = run(args) => ended,
                    _ = tokio::signal::ctrl_c() => Err(Stop::interrupted()),
                    () = tokio::time::sleep(within.unwrap_or(Duration::MAX)), if within.is_some() => {
                        Err(if change::CHANGES.load(std::sync::atomic::Ordering::Relaxed) {
                            Stop::unknown("no answer in time; look before you try again")
                        } else {
                            Stop::unreached("no answer in time")
                        })
                    }
                }
            });
            runtime.shutdown_background();
            ended
        }
        Err(error) => Err(Stop::failed(error.to_string())),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(stop) => stop.say(),
    }
}

async fn run(args: Args) -> Result<(), Stop> {
    let output = Output::new(&args);
    // These need no server.
    match &args.command {
        Command::Completions { shell } => return args::completions(*shell),
        Command::Man => return args::man(),
        #[cfg(feature = "web")]
        Command::Web(which) => return Box::pin(web::run(&args, which)).await,
        _ => {}
    }
    let (client, place) = args.connect()?;
    let context = Context { client, output, place, yes: args.yes };
    // On the heap, as some of them are large.
    match args.command {
        Command::Stats(stats) => Box::pin(queues::stats(&context, &stats)).await,
        Command::Top(which) => Box::pin(top::run(&context, &which)).await,
        Command::Queues(command) => Box::pin(queues::run(&context, command)).await,
        Command::Jobs(command) => Box::pin(jobs::run(&context, command)).await,
        Command::Failed(command) => Box::pin(jobs::failed(&context, command)).await,
        Command::Scheduled(command) => Box::pin(jobs::scheduled(&context, command)).await,
        Command::Broken(command) => Box::pin(broken::run(&context, command)).await,
        Command::Limits(command) => Box::pin(limits::run(&context, command)).await,
        Command::Locks(command) => Box::pin(locks::run(&context, command)).await,
        Command::Broadcasts(command) => Box::pin(broadcasts::run(&context, command)).await,
        Command::Batches(command) => Box::pin(batches::run(&context, command)).await,
        Command::Events(which) => Box::pin(events::run(&context, which)).await,
        Command::Cron(command) => Box::pin(cron::run(&context, command)).await,
        Command::Tables(command) => Box::pin(tables::run(&context, command)).await,
        Command::Workers(command) => Box::pin(workers::run(&context, command)).await,
        Command::Crashes => Box::pin(workers::crashes(&context)).await,
        Command::Enqueue(command) => Box::pin(enqueue::run(&context, command)).await,
        Command::Schema(command) => Box::pin(schema::run(&context, command)).await,
        Command::Audit { limit } => Box::pin(workers::audit(&context, limit)).await,
        Command::Deploy(command) => Box::pin(deploy::run(&context, command)).await,
        Command::Doctor { repair } => Box::pin(doctor::run(&context, repair)).await,
        #[cfg(feature = "web")]
        Command::Web(_) => Ok(()),
        Command::Completions { .. } | Command::Man => Ok(()),
    }
}
