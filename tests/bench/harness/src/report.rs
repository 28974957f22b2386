//! What the results say: as text for the terminal, and as the table of floors in `docs/benchmarks.md`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::floors::{self, Floor};
use crate::others::Others;
use crate::results::{Measured, Results, Round, Spread, figure};
use crate::{Failure, check, fail, plot};

/// What the figures are called, in the order of the columns.
const COLUMNS: &[(&str, &str)] = &[
    ("jobs_per_s", "jobs/s"),
    ("share_of_ideal", "share of 100k/s"),
    ("wait_p50_us", "wait p50 µs"),
    ("wait_p90_us", "p90"),
    ("wait_p99_us", "p99"),
    ("wait_max_us", "max"),
    ("half_load_wait_p50_us", "at half load p50 µs"),
    ("half_load_wait_p99_us", "p99"),
    ("half_load_wait_max_us", "max"),
    ("idle_commands_per_s", "idle commands/s"),
    ("idle_cpu_percent", "idle CPU %"),
    ("last_back_after_s", "last back after s"),
    ("jobs_not_back", "not back"),
    ("jobs_run_twice_more", "run twice after that"),
    ("worker_cpu_s_per_100k", "worker CPU s/100k"),
    ("producer_cpu_s_per_100k", "producer CPU s/100k"),
    ("server_cpu_s_per_100k", "server CPU s/100k"),
    ("master_cpu_percent", "a master's CPU %"),
    ("worker_rss_mb", "worker RSS MB"),
    ("server_bytes_per_waiting_job", "server B/waiting job"),
    ("server_bytes_per_finished_job", "B/finished job"),
    ("slowest_script_ms", "slowest script ms"),
    ("slowest_command_ms", "slowest command ms"),
];

/// What a run looked like, for the terminal.
pub fn text(results: &Results) -> String {
    let mut text = String::new();
    for workload in workloads(results) {
        for setting in settings(results, workload) {
            let _ = write!(text, "\n{workload} {setting}\n{}", table(results, workload, setting));
        }
    }
    text + "\n" + &others(results) + &verdict(results)
}

/// What else the machine did, if that was looked at.
fn others(results: &Results) -> String {
    let told = results.others.map(|Others { on_machine, on_host }| {
        format!("Meanwhile other processes had {on_machine:.1} % of all cores, and the host withheld {on_host:.1} %.\n")
    });
    told.unwrap_or_default()
}

/// The floors, and why all of it is void, if it is.
fn verdict(results: &Results) -> String {
    let mut text = String::from("\n") + &floors(results);
    for why in check::void(results) {
        let _ = writeln!(text, "\n**This run is void:** {why}.");
    }
    text
}

/// The table of floors.
fn floors(results: &Results) -> String {
    let mut text = String::from("| | floor | measured |\n|---|---|---|\n");
    for Floor { of, bound, measured, met } in floors::check(results) {
        let measured = measured.unwrap_or_else(|| "to be measured on this build".into());
        let missed = if met == Some(false) { " **missed**" } else { "" };
        let _ = writeln!(text, "| {of} | {bound} | {measured}{missed} |");
    }
    text
}

pub fn workloads(results: &Results) -> Vec<&str> {
    unique(results.cases.iter().map(|measured| measured.case.workload.as_str()))
}

pub fn settings<'a>(results: &'a Results, workload: &str) -> Vec<&'a str> {
    let of_it = results.cases.iter().filter(|measured| measured.case.workload == workload);
    unique(of_it.map(|measured| measured.case.setting.as_str()))
}

pub fn cases<'a>(results: &'a Results, workload: &str, setting: &str) -> Vec<&'a Measured> {
    let fits = |measured: &&Measured| {
        measured.case.workload == workload && measured.case.setting == setting
    };
    results.cases.iter().filter(fits).collect()
}

fn unique<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = Vec::new();
    for name in names {
        if !seen.contains(&name) {
            seen.push(name);
        }
    }
    seen
}

/// A line for each contender: medians, of the first figure its quartiles, and how many times of it hworker reaches.
fn table(results: &Results, workload: &str, setting: &str) -> String {
    let cases = cases(results, workload, setting);
    let has =
        |metric: &str| cases.iter().any(|case| Spread::metric(&case.rounds, metric).is_some());
    let columns: Vec<_> = COLUMNS.iter().filter(|(metric, _)| has(metric)).collect();
    let hworker = results.rounds(workload, setting, "hworker");
    let rates = has("jobs_per_s");

    let mut text = String::from("| |");
    for (number, (_, label)) in columns.iter().enumerate() {
        let _ = write!(text, " {label} |");
        if number == 0 && rates {
            text += " hworker reaches |";
        }
    }
    let _ = writeln!(text, "\n|---|{}", "---|".repeat(columns.len() + usize::from(rates)));
    for case in cases {
        let _ = write!(text, "| {} |", case.case.contender);
        for (number, (metric, _)) in columns.iter().enumerate() {
            let spread = Spread::metric(&case.rounds, metric);
            let shown = match spread {
                None => "–".into(),
                Some(spread) if number == 0 => {
                    format!(
                        "{} ({}–{})",
                        figure(spread.median),
                        figure(spread.low),
                        figure(spread.high)
                    )
                }
                Some(spread) => figure(spread.median),
            };
            let _ = write!(text, " {shown} |");
            if number == 0 && rates {
                let ratio = Spread::ratio(hworker, &case.rounds, metric);
                let own = case.case.contender == "hworker";
                let shown = ratio.filter(|_| !own).map(times);
                let _ = write!(text, " {} |", shown.unwrap_or_default());
            }
        }
        text.push('\n');
    }
    for case in self::cases(results, workload, setting) {
        let mut failures = case.rounds.iter().filter_map(|round| match round {
            Round::Failed { failed } => Some(failed),
            Round::Done(_) => None,
        });
        if let Some(first) = failures.next() {
            let (who, count) = (&case.case.contender, failures.count() + 1);
            let _ = writeln!(
                text,
                "\n{who} failed in {count} of {} rounds: {first}",
                case.rounds.len()
            );
        }
    }
    text
}

/// `0.95 × (0.93–0.97)`.
fn times(Spread { median, low, high }: Spread) -> String {
    format!("{median:.2} × ({low:.2}–{high:.2})")
}

const BEGIN: &str = "<!-- floors: written by `script/bench report` -->\n";
const END: &str = "<!-- end of floors -->";

/// Writes the floors of a run into `docs/benchmarks.md`, between its markers.
pub fn write(file: &Path) -> Result<(), Failure> {
    let page = docs().join("benchmarks.md");
    let old = std::fs::read_to_string(&page)?;
    let (head, rest) = old.split_once(BEGIN).ok_or_else(|| fail(format!("{BEGIN} is missing")))?;
    let (_, tail) = rest.split_once(END).ok_or_else(|| fail(format!("{END} is missing")))?;
    let results = Results::load(file)?;
    let Results { date, machine, server, settings: with, .. } = &results;
    let (cpu, cores) = (&machine.cpu, machine.cores);
    let ran = format!(
        "{date}: {server}, {cores} cores of {cpu}, {} rounds ({}).",
        with.rounds, with.scale
    );
    let floors = floors(&results);
    Ok(std::fs::write(page, format!("{head}{BEGIN}{floors}\n{ran}\n{END}{tail}"))?)
}

/// Draws the one picture of `docs/benchmarks.md`.
pub fn picture(file: &Path) -> Result<(), Failure> {
    plot::draw(&Results::load(file)?, &docs().join("benchmarks/peers-w2.svg"))
}

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs")
}
