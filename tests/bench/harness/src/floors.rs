//! The floors: what a build must reach, and whether this one did. The median of the rounds decides.

use crate::check::BENCHMARK;
use crate::contenders::Contender;
use crate::report::cases;
use crate::results::{Results, Spread, figure};
use crate::workloads::{Scale, drain};

/// A line of the table of floors.
pub struct Floor {
    pub of: &'static str,
    pub bound: &'static str,
    /// `None` if the run did not measure it.
    pub measured: Option<String>,
    /// `None` also where there is no floor.
    pub met: Option<bool>,
}

/// All floors, in the order of the table in `docs/benchmarks.md`.
pub fn check(results: &Results) -> Vec<Floor> {
    let sheet = Sheet { results };
    [sheet.throughput(), sheet.beside_peers(), sheet.size_and_crash()]
        .into_iter()
        .flatten()
        .collect()
}

struct Sheet<'a> {
    results: &'a Results,
}

impl Sheet<'_> {
    fn throughput(&self) -> Vec<Floor> {
        let (limit, chasquimq) = (&["limit".to_owned()], &["chasquimq".to_owned()]);
        let rate = "jobs_per_s";
        vec![
            at_least(
                "W2 at 100, of the bare client's one connection",
                ("0.95", 0.95),
                self.ratios("w2", "100", rate, limit),
            ),
            at_least(
                "W2 at 100, of ChasquiMQ with its events off",
                ("2.25", 2.25),
                self.ratios("w2", "100", rate, chasquimq),
            ),
            at_least(
                "W2 at 100, of every peer's defaults",
                ("8", 8.0),
                self.ratios("w2", "100", rate, &self.defaults("w2", "100")),
            ),
            at_least(
                "W2 at 1, of ChasquiMQ with its events off",
                ("3", 3.0),
                self.ratios("w2", "1", rate, chasquimq),
            ),
            at_least(
                "W1 one at a time, of a bare `LPUSH` round trip",
                ("0.9", 0.9),
                self.ratios("w1", "one", rate, limit),
            ),
            at_least(
                "W1 64 producers, of the bare client's 64 tasks",
                ("1", 1.0),
                self.ratios("w1", "64", rate, limit),
            ),
            at_least(
                "W1 bulk, of the variadic `LPUSH`",
                ("0.7", 0.7),
                self.ratios("w1", "bulk", rate, limit),
            ),
        ]
    }

    fn beside_peers(&self) -> Vec<Floor> {
        let rate = "jobs_per_s";
        vec![
            at_most(
                "W3 p50, of the best peer's in the same run",
                "at most 1.5",
                &[(
                    greatest(self.ratios(
                        "w3",
                        "pickup",
                        "wait_p50_us",
                        &self.peers("w3", "pickup"),
                    )),
                    1.5,
                )],
            ),
            at_most("W3 p99", "under 1 ms", &[(self.own("w3", "pickup", "wait_p99_us", 1e3), 1.0)]),
            at_most(
                "W3, commands/s of an idle worker for each queue; of 100 idle workers",
                "under 1; under 100",
                &[
                    (self.own("w3", "pickup", "idle_commands_per_s", 1.0), 1.0),
                    (self.own("w3", "idle-100", "idle_commands_per_s", 1.0), 100.0),
                ],
            ),
            at_least(
                "W4, of the best peer",
                ("2", 2.0),
                self.ratios("w4", "both", rate, &self.peers("w4", "both")),
            ),
            at_most(
                "W4, p99 wait at half load",
                "under 20 ms",
                &[(self.own("w4", "both", "half_load_wait_p99_us", 1e3), 20.0)],
            ),
            at_least(
                "W5, of the best peer",
                ("0.95", 0.95),
                self.ratios("w5", "1000", rate, &self.peers("w5", "1000")),
            ),
        ]
    }

    fn size_and_crash(&self) -> Vec<Floor> {
        vec![
            at_least(
                "W6, a million waiting, a million scheduled, 1,000 idle workers beside, of W2",
                ("0.8", 0.8),
                self.settings("w6", &["1m", "scheduled-1m", "idle-1000"], "100k"),
            ),
            at_most(
                "W6, slowest script with a million waiting",
                "under 5 ms",
                &[(self.own("w6", "1m", "slowest_script_ms", 1.0), 5.0)],
            ),
            self.persistence(),
            at_most(
                "W8, all jobs back; lost; run twice but those that were running",
                "within 8 s; 0; 0",
                &[
                    (self.own("w8", "kill", "last_back_after_s", 1.0), 8.0),
                    (self.own("w8", "kill", "jobs_not_back", 1.0), 0.0),
                    (self.own("w8", "kill", "jobs_run_twice_more", 1.0), 0.0),
                ],
            ),
            at_most(
                "worker memory at 100 slots",
                "under 32 MB",
                &[(self.own("w2", "100", "worker_rss_mb", 1.0), 32.0)],
            ),
            // The envelope is the arguments and 99 bytes around them. Less than a byte left for each finished job is none.
            at_most(
                "server bytes for each waiting job; left for each finished job",
                "envelope + 40; 0",
                &[
                    (
                        self.own("w2", "100", "server_bytes_per_waiting_job", 1.0),
                        self.results.settings.payload as f64 + 99.0 + 40.0,
                    ),
                    (self.left_behind(), 1.0),
                ],
            ),
        ]
    }

    /// The contenders of this setting that are neither hworker nor a yardstick.
    fn peers(&self, workload: &str, setting: &str) -> Vec<String> {
        let names = cases(self.results, workload, setting).into_iter();
        let names = names.map(|case| case.case.contender.clone());
        let known: Vec<_> = Contender::names().collect();
        let is_ours = |name: &String| {
            name.starts_with("hworker") || name.starts_with("limit") || name == BENCHMARK
        };
        names.filter(|name| known.contains(&name.as_str()) && !is_ours(name)).collect()
    }

    /// The peers with their default settings.
    fn defaults(&self, workload: &str, setting: &str) -> Vec<String> {
        let is_tuned =
            |name: &String| Contender::names().any(|known| known == format!("{name}:defaults"));
        self.peers(workload, setting).into_iter().filter(|name| !is_tuned(name)).collect()
    }

    /// hworker's ratio to each of these.
    fn ratios(&self, workload: &str, setting: &str, metric: &str, to: &[String]) -> Vec<Spread> {
        let of = |name: &str| self.results.rounds(workload, setting, name);
        to.iter().filter_map(|name| Spread::ratio(of("hworker"), of(name), metric)).collect()
    }

    /// The ratio of hworker's rate in each of these settings to that in another.
    fn settings(&self, workload: &str, settings: &[&str], other: &str) -> Vec<Spread> {
        let of = |setting: &str| self.results.rounds(workload, setting, "hworker");
        let ratio = |setting: &&str| Spread::ratio(of(setting), of(other), "jobs_per_s");
        settings.iter().filter_map(ratio).collect()
    }

    /// A figure of hworker itself, divided by this.
    fn own(&self, workload: &str, setting: &str, metric: &str, by: f64) -> Option<Spread> {
        let Spread { low, median, high } =
            Spread::metric(self.results.rounds(workload, setting, "hworker"), metric)?;
        Some(Spread { low: low / by, median: median / by, high: high / by })
    }

    /// Server bytes for each further finished job. Scripts and counters are kept once, so two runs of different lengths are compared.
    fn left_behind(&self) -> Option<Spread> {
        let scale = Scale::named(&self.results.settings.scale)?;
        let left = |setting: &'static str, concurrency: u64| {
            let jobs = drain::jobs(scale, concurrency) as f64;
            let rounds = self.results.rounds("w2", setting, "hworker").iter();
            let of_each = rounds.filter_map(|round| round.get("server_bytes_per_finished_job"));
            (jobs, of_each.map(|bytes| bytes * jobs).collect::<Vec<_>>())
        };
        let ((few, after_few), (many, after_many)) = (left("1", 1), left("100", 100));
        let more = after_few.iter().zip(&after_many).map(|(few, many)| many - few);
        Spread::of(more.map(|bytes| (bytes / (many - few)).max(0.0)))
    }

    /// W7 has no floor: what the disk leaves of the rate is stated.
    fn persistence(&self) -> Floor {
        let of = |setting| self.settings("w7", &[setting], "drain-none").pop();
        let shares = of("drain-everysec").zip(of("drain-always"));
        let measured = shares.map(|(everysec, always)| {
            format!("drain: everysec {:.2}, always {:.2}", everysec.median, always.median)
        });
        Floor { of: "W7", bound: "stated, no floor: a disk decides", measured, met: None }
    }
}

/// The least of these ratios is not under the floor.
fn at_least(of: &'static str, (bound, least): (&'static str, f64), ratios: Vec<Spread>) -> Floor {
    let ratio = ratios.into_iter().min_by(|a, b| a.median.total_cmp(&b.median));
    let met = ratio.map(|ratio| ratio.median >= least);
    Floor { of, bound, measured: ratio.map(shown), met }
}

/// None of these figures is above its bound.
fn at_most(of: &'static str, bound: &'static str, figures: &[(Option<Spread>, f64)]) -> Floor {
    let all: Option<Vec<_>> =
        figures.iter().map(|(spread, most)| Some(((*spread)?, *most))).collect();
    let met = all.as_ref().map(|all| all.iter().all(|(spread, most)| spread.median <= *most));
    let measured = all
        .map(|all| all.into_iter().map(|(spread, _)| shown(spread)).collect::<Vec<_>>().join("; "));
    Floor { of, bound, measured, met }
}

fn greatest(ratios: Vec<Spread>) -> Option<Spread> {
    ratios.into_iter().max_by(|a, b| a.median.total_cmp(&b.median))
}

fn shown(Spread { low, median, high }: Spread) -> String {
    format!("{} ({}–{})", figure(median), figure(low), figure(high))
}
