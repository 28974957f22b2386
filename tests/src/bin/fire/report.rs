//! What a run says: a line now and then, and at the end a table and a file.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use crate::checker::Checker;
use crate::diary::now;
use crate::faults::Kind;
use crate::options::Options;
use crate::strikes::{Strike, Strikes};
use crate::verdict::Totals;

/// What keeps the suite itself from going on.
pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// A fault should strike while at least so many leases are held.
const MANY_LEASES: usize = 50;

/// Violations that are printed.
const SHOWN: usize = 30;

/// Says how far a run is.
pub(crate) fn progress(phase: &str, checker: &Checker, after: Duration) {
    println!(
        "{phase} {:>5} s  {} bodies begun, {} faults, {} leases, {} jobs open, {} violations",
        after.as_secs(),
        checker.begun,
        checker.strikes.iter().count(),
        checker.ledger.held(),
        checker.ledger.open(),
        checker.violations().len(),
    );
}

/// The faults of one kind.
#[derive(Debug, Default)]
struct Row {
    struck: u64,
    while_many: u64,
    /// Where no fault of the server came in between, and where one did.
    noticed: Vec<u64>,
    noticed_late: Vec<u64>,
    again: Vec<u64>,
    again_late: Vec<u64>,
    resumed: Vec<u64>,
    taken_back: u64,
    second_starts: u64,
}

impl Row {
    fn add(&mut self, strike: &Strike, strikes: &Strikes) {
        let since = |at: u64| at.saturating_sub(strike.at) / 1_000_000;
        self.struck += 1;
        self.while_many += u64::from(strike.leases >= MANY_LEASES);
        let of = |at: Option<u64>, undisturbed: bool| {
            at.filter(|at| strikes.undisturbed(strike, *at) == undisturbed).map(since)
        };
        self.noticed.extend(of(strike.noticed, true));
        self.noticed_late.extend(of(strike.noticed, false));
        self.again.extend(of(strike.again, true));
        self.again_late.extend(of(strike.again, false));
        let over = strike.until.unwrap_or(strike.at);
        self.resumed.extend(strike.resumed.map(|at| at.saturating_sub(over) / 1_000_000));
        self.taken_back += strike.taken_back;
        self.second_starts += strike.second_starts;
    }

    fn to_json(&self) -> Value {
        let times = |values: &[u64]| {
            let sorted = sorted(values);
            json!({
                "count": sorted.len(),
                "median_ms": sorted.get(sorted.len() / 2),
                "worst_ms": sorted.last(),
            })
        };
        json!({
            "struck": self.struck,
            "with_50_leases": self.while_many,
            "noticed": times(&self.noticed),
            "noticed_while_the_server_was_struck": times(&self.noticed_late),
            "running_again": times(&self.again),
            "running_again_while_the_server_was_struck": times(&self.again_late),
            "work_goes_on": times(&self.resumed),
            "jobs_taken_back": self.taken_back,
            "second_starts": self.second_starts,
        })
    }
}

fn sorted(values: &[u64]) -> Vec<u64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    sorted
}

/// The median and the worst, in seconds.
fn shown(values: &[u64]) -> String {
    let sorted = sorted(values);
    match (sorted.get(sorted.len() / 2), sorted.last()) {
        (Some(median), Some(worst)) => {
            format!("{:.1} / {:.1}", *median as f64 / 1e3, *worst as f64 / 1e3)
        }
        _ => "-".into(),
    }
}

/// The summary of a run.
pub(crate) struct Report {
    options: Options,
    skipped: Vec<&'static str>,
    began: u64,
    faults_ended: u64,
    took: Duration,
    totals: Totals,
    begun: u64,
    late_starts: u64,
    plain: u64,
    rows: BTreeMap<Kind, Row>,
    violations: BTreeMap<&'static str, Vec<String>>,
}

impl Report {
    pub(crate) fn begin(options: &Options, skipped: Vec<&'static str>) -> Self {
        Self {
            options: options.clone(),
            skipped,
            began: now(),
            faults_ended: 0,
            took: Duration::ZERO,
            totals: Totals::default(),
            begun: 0,
            late_starts: 0,
            plain: 0,
            rows: BTreeMap::new(),
            violations: BTreeMap::new(),
        }
    }

    pub(crate) fn began_at(&self) -> u64 {
        self.began
    }

    /// No more faults are to come.
    pub(crate) fn faults_end(&mut self) {
        self.faults_ended = now();
    }

    /// Takes what the checker found.
    pub(crate) fn conclude(&mut self, checker: &Checker, took: Duration) {
        self.took = took;
        self.totals = checker.totals();
        self.begun = checker.begun;
        self.late_starts = checker.late_starts;
        let plain = &checker.plain;
        self.plain = plain.begun;
        for strike in checker.strikes.iter() {
            self.rows.entry(strike.kind).or_default().add(strike, &checker.strikes);
        }
        for violation in checker.violations() {
            let at = violation.at.saturating_sub(self.began) as f64 / 1e9;
            let detail = format!("{at:.1} s: {}", violation.detail);
            self.violations.entry(violation.rule).or_default().push(detail);
        }
    }

    fn faults(&self) -> u64 {
        let planned = self.rows.iter().filter(|(kind, _)| **kind != Kind::Busy);
        planned.map(|(_, row)| row.struck).sum()
    }

    fn violations(&self) -> usize {
        self.violations.values().map(Vec::len).sum()
    }

    /// Prints it, and writes it where that was asked for.
    pub(crate) fn write(&self) -> Result<(), Failure> {
        self.print();
        if let Some(path) = &self.options.json {
            std::fs::write(path, serde_json::to_string_pretty(&self.to_json())? + "\n")?;
        }
        Ok(())
    }

    fn print(&self) {
        let totals = &self.totals;
        println!();
        println!(
            "| fault | struck | with 50 leases | noticed | running again | noticed* | running again* | work goes on | taken back | second starts |"
        );
        println!("|---|---|---|---|---|---|---|---|---|---|");
        for (kind, row) in &self.rows {
            println!(
                "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
                kind.name(),
                row.struck,
                row.while_many,
                shown(&row.noticed),
                shown(&row.again),
                shown(&row.noticed_late),
                shown(&row.again_late),
                shown(&row.resumed),
                row.taken_back,
                row.second_starts,
            );
        }
        println!(
            "Seconds, median / worst; with * where the server was struck before it was noticed.\n"
        );
        for kind in &self.skipped {
            println!("skipped: {kind}, which this machine cannot have");
        }
        println!(
            "{} faults in {} s over {} jobs: {} accepted, {} refused, {} uncertain of which {} were in",
            self.faults(),
            self.faults_ended.saturating_sub(self.began) / 1_000_000_000,
            totals.settled,
            totals.accepted,
            totals.refused,
            totals.uncertain,
            totals.uncertain_in,
        );
        println!(
            "{} done, {} failed, {} broken; {} bodies begun, {} of them late under a lost lease; {} recoveries",
            totals.done,
            totals.failed,
            totals.broken,
            self.begun,
            self.late_starts,
            totals.recoveries
        );
        println!("{} bodies knew no lease", self.plain);
        println!(
            "operators cancelled {} jobs, deleted {}, promoted {} and let {} run again that had failed",
            totals.cancelled, totals.deleted, totals.promoted, totals.run_again
        );
        for (rule, details) in &self.violations {
            println!("\nVIOLATED {} times: {rule}", details.len());
            for detail in details.iter().take(SHOWN) {
                println!("    {detail}");
            }
        }
        println!("\n{} violations after {} s", self.violations(), self.took.as_secs());
        if self.violations() > 0 {
            println!("again: {}", self.options.command());
        }
    }

    fn to_json(&self) -> Value {
        let totals = &self.totals;
        let rows: serde_json::Map<_, _> =
            self.rows.iter().map(|(kind, row)| (kind.name().to_owned(), row.to_json())).collect();
        json!({
            "command": self.options.command(),
            "seed": self.options.seed,
            "seconds": self.took.as_secs(),
            "faults": self.faults(),
            "jobs": {
                "settled": totals.settled,
                "accepted": totals.accepted,
                "refused": totals.refused,
                "uncertain": totals.uncertain,
                "uncertain_in": totals.uncertain_in,
                "done": totals.done,
                "failed": totals.failed,
                "broken": totals.broken,
                "cancelled": totals.cancelled,
                "deleted": totals.deleted,
                "promoted": totals.promoted,
                "run_again": totals.run_again,
                "recoveries": totals.recoveries,
            },
            "bodies_begun": self.begun,
            "late_starts": self.late_starts,
            "bodies_that_know_no_lease": self.plain,
            "skipped": self.skipped,
            "by_kind": rows,
            "violations": self.violations,
        })
    }
}
