//! What was measured, and with what: kept as JSON, read back by the report.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::options::Run;
use crate::others::Others;
use crate::workloads::{Bench, Sample};
use crate::{Failure, fail};

/// What one line of a table is about.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Case {
    pub workload: String,
    pub setting: String,
    pub contender: String,
}

impl Case {
    /// Whether both are the same, of two contenders.
    pub fn is_beside(&self, other: &Self) -> bool {
        (&self.workload, &self.setting) == (&other.workload, &other.setting)
    }
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Results {
    pub date: String,
    pub machine: Machine,
    pub server: String,
    pub settings: Settings,
    /// While it was measured.
    #[serde(default)]
    pub others: Option<Others>,
    pub versions: std::collections::BTreeMap<String, String>,
    pub cases: Vec<Measured>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Machine {
    pub cpu: String,
    pub cores: usize,
    pub memory_gb: u64,
    pub kernel: String,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Settings {
    pub scale: String,
    pub rounds: usize,
    pub payload: u64,
    pub persistence: String,
    pub socket: String,
    /// Servers had a core of their own.
    #[serde(default)]
    pub pinned: bool,
}

/// The rounds of one case; a round that failed says why.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Measured {
    #[serde(flatten)]
    pub case: Case,
    pub rounds: Vec<Round>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(untagged)]
pub enum Round {
    Failed { failed: String },
    Done(std::collections::BTreeMap<String, f64>),
}

impl Results {
    pub fn new(run: &Run, bench: &Bench) -> Result<Self, Failure> {
        Ok(Self {
            date: command("date", &["-u", "+%Y-%m-%d %H:%M UTC"])?,
            machine: Machine {
                cpu: proc_field("/proc/cpuinfo", "model name"),
                cores: std::thread::available_parallelism()?.get(),
                memory_gb: proc_field("/proc/meminfo", "MemTotal")
                    .split_whitespace()
                    .next()
                    .and_then(|kb| kb.parse::<u64>().ok())
                    .map_or(0, |kb| kb.div_ceil(1 << 20)),
                // Its release, without what a distribution or a host adds.
                kernel: command("uname", &["-sr"])?
                    .split('.')
                    .take(2)
                    .collect::<Vec<_>>()
                    .join("."),
            },
            server: bench.server_version.clone(),
            settings: Settings {
                scale: bench.scale.name().into(),
                rounds: run.rounds,
                payload: bench.payload,
                persistence: bench.server.persistence.name().into(),
                socket: if bench.server.unix { "unix" } else { "tcp" }.into(),
                pinned: bench.server.pinned,
            },
            others: None,
            versions: crate::check::versions(),
            cases: Vec::new(),
        })
    }

    pub fn add(&mut self, case: &Case, sample: Result<Sample, Failure>) {
        let round = match sample {
            Ok(sample) => Round::Done(
                sample.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
            ),
            Err(Failure(failed)) => Round::Failed { failed },
        };
        match self.cases.iter_mut().find(|measured| measured.case == *case) {
            Some(measured) => measured.rounds.push(round),
            None => self.cases.push(Measured { case: case.clone(), rounds: vec![round] }),
        }
    }

    pub fn save(&self, file: &Path) -> Result<(), Failure> {
        let mut text = serde_json::to_vec_pretty(self)?;
        text.push(b'\n');
        Ok(std::fs::write(file, text)?)
    }

    pub fn load(file: &Path) -> Result<Self, Failure> {
        let text =
            std::fs::read(file).map_err(|error| fail(format!("{}: {error}", file.display())))?;
        serde_json::from_slice(&text).map_err(|error| fail(format!("{}: {error}", file.display())))
    }

    /// The rounds of a case.
    pub fn rounds(&self, workload: &str, setting: &str, contender: &str) -> &[Round] {
        let found = self.cases.iter().find(|measured| {
            let case = &measured.case;
            case.workload == workload && case.setting == setting && case.contender == contender
        });
        found.map_or(&[], |measured| &measured.rounds)
    }
}

impl Round {
    pub fn get(&self, metric: &str) -> Option<f64> {
        match self {
            Self::Failed { .. } => None,
            Self::Done(metrics) => metrics.get(metric).copied(),
        }
    }
}

/// The middle of what was measured, and the quartiles around it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    pub low: f64,
    pub median: f64,
    pub high: f64,
}

impl Spread {
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
        values.sort_by(f64::total_cmp);
        let last = values.len().checked_sub(1)?;
        let at = |share: f64| {
            let place = share * last as f64;
            let (below, above) = (values[place.floor() as usize], values[place.ceil() as usize]);
            below + (above - below) * place.fract()
        };
        Some(Self { low: at(0.25), median: at(0.5), high: at(0.75) })
    }

    /// Of one metric over rounds.
    pub fn metric(rounds: &[Round], metric: &str) -> Option<Self> {
        Self::of(rounds.iter().filter_map(|round| round.get(metric)))
    }

    /// Of the ratio of one contender's rounds to those of another, round by round.
    pub fn ratio(rounds: &[Round], to: &[Round], metric: &str) -> Option<Self> {
        let pairs = rounds.iter().zip(to);
        Self::of(pairs.filter_map(|(one, other)| Some(one.get(metric)? / other.get(metric)?)))
    }
}

/// The figure that says most about a run, for whoever watches.
pub fn brief(sample: &Sample) -> String {
    let shown: Vec<String> = sample
        .iter()
        .filter(|(name, _)| !name.contains("cpu") && !name.contains("bytes"))
        .map(|(name, value)| format!("{name} {}", figure(*value)))
        .collect();
    shown.join(", ")
}

/// A number with three digits that matter, for people.
pub fn figure(value: f64) -> String {
    match value.abs() {
        size if size >= 10_000.0 => format!("{:.1}k", value / 1000.0),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        0.0 => "0".into(),
        _ => format!("{value:.2}"),
    }
}

fn proc_field(file: &str, field: &str) -> String {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    let found = lines.find(|(name, _)| name.trim() == field);
    found.map_or_else(|| "unknown".into(), |(_, value)| value.trim().to_owned())
}

fn command(program: &str, arguments: &[&str]) -> Result<String, Failure> {
    let output = std::process::Command::new(program).args(arguments).output()?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::Spread;

    #[test]
    fn quartiles_lie_between_what_was_measured() {
        let spread = Spread::of([4.0, 1.0, 3.0, 2.0, 5.0]);
        assert_eq!(spread, Some(Spread { low: 2.0, median: 3.0, high: 4.0 }));
        assert_eq!(Spread::of([]), None);
        assert_eq!(Spread::of([7.0]), Some(Spread { low: 7.0, median: 7.0, high: 7.0 }));
    }
}
