//! Runs the contenders of the benchmark against each other, one private server for each run, and reports what it measured.

mod check;
mod cluster;
mod contenders;
mod floors;
mod operate;
mod options;
mod others;
mod plot;
mod process;
mod report;
mod results;
mod server;
mod throttle;
mod workloads;

use std::process::ExitCode;

use options::{Command, Run};
use others::Since;
use results::{Case, Results};
use workloads::{Bench, Scale};

/// Why a run, or the harness, came to nothing: for people.
#[derive(Debug)]
pub struct Failure(String);

pub fn fail(why: impl Into<String>) -> Failure {
    Failure(why.into())
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

fn main() -> ExitCode {
    let done = match options::parse() {
        Ok(Command::Run(run)) => compare(&run),
        Ok(Command::Operate(run)) => operate(&run),
        Ok(Command::Report(file)) => report::write(&file).map(|()| true),
        Ok(Command::Picture(file)) => report::picture(&file).map(|()| true),
        Err(failure) => Err(failure),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(Failure(why)) => {
            eprintln!("bench: {why}");
            ExitCode::FAILURE
        }
    }
}

fn operate(run: &Run) -> Result<bool, Failure> {
    let _alone = (run.scale != Scale::Smoke).then(others::alone).transpose()?;
    operate::run(run)
}

/// Runs everything that was asked for, interleaved. False when a run failed.
fn compare(run: &Run) -> Result<bool, Failure> {
    // What is only to be seen to work needs nobody to be quiet.
    let _alone = (run.scale != Scale::Smoke).then(others::alone).transpose()?;
    let bench = Bench::new(run)?;
    let mut plan: Vec<_> =
        run.workloads.iter().flat_map(|workload| bench.plan(*workload)).collect();
    let mut results = Results::new(run, &bench)?;
    if run.setup.pinned {
        server::leave_their_core()?;
    }
    let (start, mut well) = (Since::now()?, true);
    for round in 1..=run.rounds {
        if round > 1 {
            // Whoever comes after another finds the machine as that one left it: each is the first in its turn.
            for contenders in plan.chunk_by_mut(|one, next| one.case.is_beside(&next.case)) {
                contenders.rotate_left(1);
            }
        }
        for (number, unit) in plan.iter().enumerate() {
            let Case { workload, setting, contender } = &unit.case;
            eprint!(
                "round {round} of {}, {}/{}: {workload} {setting} {contender} ... ",
                run.rounds,
                number + 1,
                plan.len()
            );
            let sample = bench.measure(unit);
            match &sample {
                Ok(sample) => eprintln!("{}", results::brief(sample)),
                Err(Failure(why)) => eprintln!("failed: {why}"),
            }
            well &= sample.is_ok();
            results.add(&unit.case, sample);
            results.others = Some(start.others()?);
            if let Some(file) = &run.json {
                results.save(file)?;
            }
        }
    }
    print!("{}", report::text(&results));
    Ok(well)
}
