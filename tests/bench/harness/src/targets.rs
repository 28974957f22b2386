//! What hworker is to reach, and whether it did: a target is met when it lies within the quartiles or below.

use crate::check::BENCHMARK;
use crate::report::times_beside;
use crate::results::{Results, Spread, figure};
use crate::server::Persistence;
use crate::workloads::{Scale, drain};

/// A target and what became of it.
pub struct Checked {
    pub text: String,
    pub measured: String,
    pub met: bool,
}

/// The targets for which something was measured.
pub fn check(results: &Results) -> Vec<Checked> {
    let mut sheet = Sheet { results, checked: Vec::new() };
    sheet.enqueue();
    sheet.drain();
    sheet.idle();
    sheet.sustained();
    sheet.others();
    sheet.checked
}

struct Sheet<'a> {
    results: &'a Results,
    checked: Vec<Checked>,
}

impl Sheet<'_> {
    fn enqueue(&mut self) {
        self.at_least("w1", "one", "hworker", "limit", 0.9);
        self.at_least("w1", "one-current", "hworker", "limit", 0.9);
        self.at_least("w1", "64", "hworker", "limit", 1.3);
        self.at_least("w1", "64-current", "hworker", "limit", 1.3);
        self.at_least("w1", "bulk", "hworker", "limit", 0.75);
    }

    fn drain(&mut self) {
        let unix = self.results.settings.socket == "unix";
        self.at_least("w2", "100", "hworker", "limit", if unix { 0.87 } else { 0.95 });
        self.at_least("w2", "100", "hworker", "limit:two", if unix { 0.65 } else { 0.72 });
        self.at_least("w2", "100", "hworker", "chasquimq", 2.25);
        for peer in self.peers("w2", "100") {
            let tuned = ["chasquimq", "apalis"].contains(&peer.as_str());
            if !tuned {
                self.at_least("w2", "100", "hworker", &peer, 8.0);
            }
        }
        self.at_least("w2", "1", "hworker", "chasquimq", 3.0);
        // A bare client that is asynchronous too: what a round trip costs beside one that blocks a thread is not the queue's.
        self.at_least("w2", "1", "hworker:prefetch-off", "limit:crate", 0.6);
        self.at_most("w2", "100", "worker_rss_mb", 20.0);
        // The envelope is the arguments and 99 bytes around them.
        let envelope = self.results.settings.payload as f64 + 99.0;
        self.at_most("w2", "100", "server_bytes_per_waiting_job", envelope + 40.0);
        self.left_behind();
    }

    /// Scripts and counters the server keeps once. What it keeps of each job shows in what more of them leave behind.
    fn left_behind(&mut self) {
        let Some(scale) = Scale::named(&self.results.settings.scale) else { return };
        let left = |setting: &'static str, concurrency: u64| {
            let jobs = drain::jobs(scale, concurrency) as f64;
            let rounds = self.results.rounds("w2", setting, "hworker").iter();
            let of_each = rounds.filter_map(|round| round.get("server_bytes_per_finished_job"));
            (jobs, of_each.map(|bytes| bytes * jobs).collect::<Vec<_>>())
        };
        let ((few, after_few), (many, after_many)) = (left("1", 1), left("100", 100));
        let more = after_few.iter().zip(&after_many).map(|(few, many)| many - few);
        let Some(each) = Spread::of(more.map(|bytes| bytes / (many - few))) else { return };
        let measured = format!("{:.2} ({:.2}–{:.2})", each.median, each.low, each.high);
        let text = "w2: the server keeps at most 1 byte more of each further job that is finished";
        self.add(text.into(), measured, each.low <= 1.0);
    }

    fn idle(&mut self) {
        for metric in ["wait_p50_us", "wait_p99_us"] {
            self.below("w3", "pickup", metric, "limit");
            for peer in self.peers("w3", "pickup") {
                self.below("w3", "pickup", metric, &peer);
            }
        }
        self.at_most("w3", "pickup", "wait_p99_us", 1000.0);
        self.at_most("w3", "pickup", "idle_commands_per_s", 1.0);
        self.at_most("w3", "pickup", "idle_cpu_percent", 0.2);
        self.at_most("w3", "idle-100", "idle_commands_per_s", 100.0);
    }

    fn sustained(&mut self) {
        let rate = |workload: &str, setting: &str| {
            Spread::metric(self.results.rounds(workload, setting, "hworker"), "jobs_per_s")
        };
        if let (Some(one), Some(two), Some(both)) =
            (rate("w1", "64"), rate("w2", "100"), rate("w4", "both"))
        {
            let ideal = 1.0 / (1.0 / one.median + 1.0 / two.median);
            let share = Spread {
                low: both.low / ideal,
                median: both.median / ideal,
                high: both.high / ideal,
            };
            self.add(
                "w4: at least 0.9 of 1/(1/W1 + 1/W2)".into(),
                times_beside(share, 0.9),
                share.high >= 0.9,
            );
        }
        for peer in self.peers("w4", "both") {
            self.at_least("w4", "both", "hworker", &peer, 2.0);
        }
        self.at_most("w4", "both", "half_load_wait_p99_us", 20_000.0);
    }

    fn others(&mut self) {
        self.at_least("w5", "1000", "hworker", "limit", 0.97);
        for peer in self.peers("w5", "1000") {
            self.at_least("w5", "1000", "hworker", &peer, 1.0);
        }
        for setting in
            ["10k", "10k-refilled", "1m", "1m-bg-thread-off", "10m", "scheduled-1m", "idle-1000"]
        {
            self.settings("w6", setting, "100k", 0.9);
            self.at_most("w6", setting, "slowest_script_ms", 5.0);
        }
        for setting in ["1kb", "10kb", "100kb", "1mb"] {
            self.at_most("w6", setting, "slowest_script_ms", 5.0);
        }
        for (persistence, share) in [(Persistence::Everysec, 0.8), (Persistence::Always, 0.4)] {
            for what in ["drain", "both"] {
                for rewriting in ["", "-rewriting"] {
                    self.settings(
                        "w7",
                        &format!("{what}-{}{rewriting}", persistence.name()),
                        &format!("{what}-none"),
                        share,
                    );
                }
            }
        }
        self.at_most("w8", "kill", "last_back_after_s", 8.0);
        self.at_most("w8", "kill", "jobs_not_back", 0.0);
        self.at_most("w8", "kill", "jobs_run_twice_more", 0.0);
        for (setting, apart, times_one) in [
            ("shards-2", "apart-2", 1.7),
            ("shards-3", "apart-3", 2.55),
            ("shards-6-on-3", "apart-3", 2.55),
            ("shards-6", "apart-6", 5.1),
        ] {
            self.settings("w9", setting, "one", times_one);
            self.settings("w9", setting, apart, 0.85);
            self.at_most("w9", setting, "worker_rss_mb", 20.0);
        }
    }

    /// Who was measured that is neither hworker nor a yardstick.
    fn peers(&self, workload: &str, setting: &str) -> Vec<String> {
        let cases = crate::report::cases(self.results, workload, setting);
        let names = cases.into_iter().map(|case| case.case.contender.clone());
        let known: Vec<_> = crate::contenders::Contender::names().collect();
        names
            .filter(|name| known.contains(&name.as_str()) && name != BENCHMARK)
            .filter(|name| !name.starts_with("hworker") && !name.starts_with("limit"))
            .collect()
    }

    fn add(&mut self, text: String, measured: String, met: bool) {
        self.checked.push(Checked { text, measured, met });
    }

    /// `who` does at least so many times the jobs of another contender.
    fn at_least(&mut self, workload: &str, setting: &str, who: &str, other: &str, factor: f64) {
        let of = |name: &str| self.results.rounds(workload, setting, name);
        let Some(ratio) = Spread::ratio(of(who), of(other), "jobs_per_s") else { return };
        let text = format!("{workload} {setting}: {who} at least {factor} × {other}");
        self.add(text, times_beside(ratio, factor), ratio.high >= factor);
    }

    /// hworker does at least such a share of its own jobs in another setting.
    fn settings(&mut self, workload: &str, setting: &str, other: &str, share: f64) {
        let of = |setting: &str| self.results.rounds(workload, setting, "hworker");
        let Some(ratio) = Spread::ratio(of(setting), of(other), "jobs_per_s") else { return };
        let text = format!("{workload}: {setting} at least {share} × {other}");
        self.add(text, times_beside(ratio, share), ratio.high >= share);
    }

    /// A figure of hworker is not above another contender's.
    fn below(&mut self, workload: &str, setting: &str, metric: &str, other: &str) {
        let of = |name: &str| self.results.rounds(workload, setting, name);
        let Some(ratio) = Spread::ratio(of("hworker"), of(other), metric) else { return };
        self.add(
            format!("{workload} {setting}: {metric} under {other}"),
            times_beside(ratio, 1.0),
            ratio.low <= 1.0,
        );
    }

    /// A figure of hworker is not above a bound.
    fn at_most(&mut self, workload: &str, setting: &str, metric: &str, bound: f64) {
        let rounds = self.results.rounds(workload, setting, "hworker");
        let Some(spread) = Spread::metric(rounds, metric) else { return };
        let measured =
            format!("{} ({}–{})", figure(spread.median), figure(spread.low), figure(spread.high));
        self.add(
            format!("{workload} {setting}: {metric} at most {bound}"),
            measured,
            spread.low <= bound,
        );
    }
}
