//! What the results say, as text for the terminal, and as `docs/benchmarks.md` with its pictures.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::others::Others;
use crate::results::{Measured, Results, Round, Spread, figure};
use crate::{Failure, check, fail, plot, targets};

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

fn title(workload: &str) -> &'static str {
    match workload {
        "w1" => "W1: enqueue",
        "w2" => "W2: drain what waits",
        "w3" => "W3: an idle worker",
        "w4" => "W4: producers and a worker at once",
        "w5" => "W5: bodies that await 10 ms, 1,000 at once",
        "w6" => "W6: more that waits, is scheduled, idles; larger payloads",
        "w7" => "W7: on a server that writes to disk",
        "w8" => "W8: a worker with 100 running jobs is killed",
        _ => "W9: a queue on several masters, which have a tenth of a core each",
    }
}

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

/// The targets, and why all of it is void, if it is.
fn verdict(results: &Results) -> String {
    let mut text = String::new();
    let targets = targets::check(results);
    if !targets.is_empty() {
        text += "\n| target | measured | |\n|---|---|---|\n";
    }
    for target in targets {
        let met = if target.met { "met" } else { "**missed**" };
        let _ = writeln!(text, "| {} | {} | {met} |", target.text, target.measured);
    }
    for why in check::void(results) {
        let _ = writeln!(text, "\n**This run is void:** {why}.");
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
fn times(ratio: Spread) -> String {
    spelled(ratio, 2)
}

/// The same, with three digits where two do not tell on which side of the bound a quartile is.
pub fn times_beside(ratio: Spread, bound: f64) -> String {
    let close = |quartile: f64| (quartile - bound).abs() < 0.01;
    spelled(ratio, if close(ratio.low) || close(ratio.high) { 3 } else { 2 })
}

fn spelled(Spread { median, low, high }: Spread, digits: usize) -> String {
    format!("{median:.digits$} × ({low:.digits$}–{high:.digits$})")
}

const BEGIN: &str = "<!-- results: written by `script/bench report` -->";
const END: &str = "<!-- end of results -->";
/// Before the section of a file; its name follows.
const SECTION: &str = "<!-- section: ";

/// Writes what the files hold into `docs/benchmarks.md`, between its markers, and draws the pictures beside it. The sections of
/// other files stay as they are.
pub fn write(files: &[PathBuf]) -> Result<(), Failure> {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs");
    let page = docs.join("benchmarks.md");
    let old = std::fs::read_to_string(&page)?;
    let (head, rest) = old.split_once(BEGIN).ok_or_else(|| fail(format!("{BEGIN} is missing")))?;
    let (old, tail) = rest.split_once(END).ok_or_else(|| fail(format!("{END} is missing")))?;
    std::fs::create_dir_all(docs.join("benchmarks"))?;
    let mut sections = sections(old);
    for file in files {
        let results = Results::load(file)?;
        let name =
            file.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
        let text = section(&results, &name, &docs)?;
        match sections.iter_mut().find(|(old, _)| *old == name) {
            Some((_, old)) => *old = text,
            None => sections.push((name, text)),
        }
    }
    let mut text = String::new();
    for (name, section) in &sections {
        let _ = write!(text, "\n{SECTION}{name} -->\n{section}");
    }
    Ok(std::fs::write(page, format!("{head}{BEGIN}\n{text}\n{END}{tail}"))?)
}

/// The sections of a page, with their names.
fn sections(text: &str) -> Vec<(String, String)> {
    let named = text.split(SECTION).skip(1).filter_map(|section| section.split_once(" -->\n"));
    named.map(|(name, text)| (name.into(), format!("{}\n", text.trim_end()))).collect()
}

/// One file of results.
fn section(results: &Results, stem: &str, docs: &Path) -> Result<String, Failure> {
    let Results { date, machine, server, settings: with, versions, .. } = results;
    let pinned = if with.pinned { ", servers on a core of their own" } else { "" };
    let mut text =
        format!("\n## {server}, persistence {}, {}{pinned}\n\n", with.persistence, with.socket);
    let versions: Vec<_> =
        versions.iter().map(|(name, version)| format!("{name} {version}")).collect();
    let _ = writeln!(
        text,
        "{date}. {}, {} cores, {} GB, {}. {} rounds ({}), arguments of {} bytes. {}.",
        machine.cpu,
        machine.cores,
        machine.memory_gb,
        machine.kernel,
        with.rounds,
        with.scale,
        with.payload,
        versions.join(", "),
    );
    text += &others(results);
    text += &verdict(results);
    for workload in workloads(results) {
        let _ = writeln!(text, "\n### {}\n", title(workload));
        let picture = format!("benchmarks/{stem}-{workload}.svg");
        if plot::draw(results, workload, title(workload), &docs.join(&picture))? {
            let _ = writeln!(text, "![{}]({picture})", title(workload));
        }
        for setting in settings(results, workload) {
            let _ = write!(text, "\n**{setting}**\n\n{}", table(results, workload, setting));
        }
    }
    Ok(text)
}
