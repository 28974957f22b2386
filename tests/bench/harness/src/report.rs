//! What the results say, as text for the terminal, and as `docs/benchmarks.md` with its pictures.

use std::fmt::Write as _;
use std::path::PathBuf;

use crate::Failure;
use crate::check;
use crate::results::{Results, Round, Spread, figure};

/// The tables for the terminal.
pub fn text(results: &Results) -> String {
    let mut text = String::new();
    let mut sections: Vec<(&str, &str)> = Vec::new();
    for measured in &results.cases {
        let section = (measured.case.workload.as_str(), measured.case.setting.as_str());
        if !sections.contains(&section) {
            sections.push(section);
        }
    }
    for (workload, setting) in sections {
        section(&mut text, results, workload, setting);
    }
    if let Some(why) = check::void(results) {
        let _ = writeln!(text, "\n{why}");
    }
    text
}

/// A line for each contender and each of its metrics, with the ratio of `hworker` and to `limit`.
fn section(text: &mut String, results: &Results, workload: &str, setting: &str) {
    let _ = writeln!(text, "\n{workload} {setting}");
    let of = |name: &str| results.rounds(workload, setting, name);
    for measured in &results.cases {
        let case = &measured.case;
        if case.workload != workload || case.setting != setting {
            continue;
        }
        let mut line = format!("  {:<20}", case.contender);
        for metric in metrics(&measured.rounds) {
            let Some(spread) = Spread::metric(&measured.rounds, metric) else { continue };
            let _ = write!(
                line,
                "  {metric} {} [{} {}]",
                figure(spread.median),
                figure(spread.low),
                figure(spread.high)
            );
            if metric == "jobs_per_s" {
                for to in ["limit", "limit:two"] {
                    if let Some(ratio) = Spread::ratio(&measured.rounds, of(to), metric)
                        .filter(|_| case.contender != to)
                    {
                        let _ = write!(line, " = {} of {to}", range(ratio));
                    }
                }
            }
        }
        for round in &measured.rounds {
            if let Round::Failed { failed } = round {
                let _ = write!(line, "  failed: {failed}");
            }
        }
        let _ = writeln!(text, "{line}");
    }
}

fn range(ratio: Spread) -> String {
    format!("{:.2} [{:.2} {:.2}]", ratio.median, ratio.low, ratio.high)
}

fn metrics(rounds: &[Round]) -> Vec<&str> {
    let first = rounds.iter().find_map(|round| match round {
        Round::Done(metrics) => Some(metrics),
        Round::Failed { .. } => None,
    });
    let mut names: Vec<&str> =
        first.into_iter().flat_map(|metrics| metrics.keys()).map(String::as_str).collect();
    names.sort_by_key(|name| *name != "jobs_per_s");
    names
}

pub fn write(_files: &[PathBuf]) -> Result<(), Failure> {
    Err(crate::fail("not yet"))
}
