#![forbid(unsafe_code)]
//! Everything under fire: workers and producers as processes, a real server, faults at random from a seed, and a checker that
//! holds the history of all of it against what hworker promises. `script/fire` runs it; `docs/reliability.md` says what it
//! does and what it found.

// A program that prints is what this is.
#![allow(clippy::print_stdout)]

mod aof;
mod beats;
mod broadcasts;
mod change;
mod checker;
#[cfg(test)]
mod checker_tests;
mod children;
mod debounced;
mod deployed;
mod diary;
mod faults;
mod guards;
mod jobs;
mod judge;
mod ledger;
mod limits;
mod names;
mod operator;
mod options;
mod outside;
mod plain;
mod producer;
mod report;
mod room;
mod run;
mod stage;
mod strike;
mod strikes;
mod tally;
mod verdict;
mod worker;

use std::path::Path;
use std::process::ExitCode;

use hworker_tests::Deployment;

use crate::faults::Kind;
use crate::options::{HELP, Options};
use crate::report::Failure;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let ended =
        match args.first().map(String::as_str) {
            Some("worker") => in_runtime(worker::run()).map(|()| true),
            Some("producer") => produce(&args[1..]).map(|()| true),
            Some("--help" | "-h") => {
                print!("{HELP}");
                Ok(true)
            }
            Some("--kinds") => {
                Kind::all().for_each(|kind| println!("{}", kind.name()));
                Ok(true)
            }
            Some("--guards") => guards::list(Path::new(".")).map(|()| true),
            Some("--check-guards") => guards::check(Path::new(".")).map(|count| {
                println!("each of {count} guards can be taken out");
                true
            }),
            Some("--take-out") => {
                let name = args.get(1).map_or("", String::as_str);
                guards::take_out(Path::new("."), name).map(|()| true)
            }
            _ => Options::parse(args.into_iter()).map_err(Failure::from).and_then(|options| {
                match options.deployment {
                    Deployment::Single => run::run(&options),
                    deployment => deployed::run(&options, deployment),
                }
            }),
        };
    match ended {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("fire: {error}");
            ExitCode::FAILURE
        }
    }
}

fn in_runtime<T>(future: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    tokio::runtime::Runtime::new()?.block_on(future)
}

fn produce(args: &[String]) -> Result<(), Failure> {
    let [first, seed, rate] = args else { return Err("a producer has three arguments".into()) };
    in_runtime(producer::run(first.parse()?, seed.parse()?, rate.parse()?))
}
