//! What must hold for a comparison to be worth something: who can take part, and that `limit` is one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::contenders::Contender;
use crate::options::Run;
use crate::results::{Results, Spread};
use crate::server::Server;
use crate::workloads::{Bench, Sample, Scale, shards};
use crate::{Failure, fail};

/// `redis-benchmark` with the script and the batch of `limit`: a client in C that does nothing with what it is told.
pub const BENCHMARK: &str = "redis-benchmark";

/// `limit` has to reach this share of it.
pub const SHARE: f64 = 0.9;

const SCRIPT: &str = include_str!("../../contenders/limit/settle_and_reserve.lua");

/// Those that are to run: hworker, then those it is held against.
pub fn contenders(run: &Run, server_version: &str) -> Result<Vec<Contender>, Failure> {
    let program = std::env::current_exe()?;
    let programs = program.parent().unwrap_or(Path::new("."));
    let mut there = Contender::all(programs, &scripts());
    if let Some(against) = &run.against {
        for name in against {
            if name != BENCHMARK && !Contender::names().any(|known| known == name) {
                let known: Vec<_> = Contender::names().collect();
                return Err(fail(format!("no contender {name}; there are {}", known.join(", "))));
            }
            if name != BENCHMARK && !there.iter().any(|contender| contender.name == *name) {
                return Err(fail(format!(
                    "{name} is not built; script/bench builds what it is told"
                )));
            }
        }
        // A name stands for its variants, too; but hworker's own run beside it only where they are asked for.
        there.retain(|contender| {
            let base = contender.name.split(':').next().unwrap_or_default();
            let named = |name: &str| against.iter().any(|one| one == name);
            contender.name == "hworker"
                || named(&contender.name)
                || (base != "hworker" && named(base))
        });
    }
    there.splice(1.min(there.len())..1.min(there.len()), run.also.iter().cloned());
    let version = major_and_minor(server_version);
    there.retain(|contender| {
        let (major, minor) = contender.server;
        let why = if version < contender.server {
            format!("needs Redis {major}.{minor}")
        } else if run.setup.unix && contender.name.starts_with("chasquimq") {
            "knows no unix sockets".into()
        } else {
            return true;
        };
        eprintln!("bench: without {}, which {why}", contender.name);
        false
    });
    if there.iter().any(|contender| contender.name == "limit") && redis_benchmark(run).is_some() {
        there.push(Contender::yardstick(BENCHMARK, &redis_benchmark(run).unwrap_or_default()));
    }
    Ok(there)
}

/// The one on the `PATH`, or the one beside the server.
fn redis_benchmark(run: &Run) -> Option<PathBuf> {
    let beside = run.setup.program.with_file_name(BENCHMARK);
    let works = |path: &PathBuf| Command::new(path).arg("--version").output().is_ok();
    [BENCHMARK.into(), beside].into_iter().find(works)
}

fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../contenders")
}

pub fn server_version(program: &Path) -> Result<String, Failure> {
    let output = Command::new(program)
        .arg("--version")
        .output()
        .map_err(|error| fail(format!("{}: {error}", program.display())))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let kind = if text.contains("alkey") { "Valkey" } else { "Redis" };
    let number = text.split_whitespace().find_map(|word| word.strip_prefix("v="));
    number
        .map(|number| format!("{kind} {number}"))
        .ok_or_else(|| fail(format!("no version in {text}")))
}

/// Of `Redis 8.6.3`. Valkey has its own numbers, and the commands of Redis 7.2.
fn major_and_minor(version: &str) -> (u32, u32) {
    let Some((_, number)) = version.split_once("Redis ") else { return (7, 2) };
    let mut parts = number.split('.').map(|part| part.parse().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0))
}

/// What the contenders were built from, as the lock file of the benchmark says.
pub fn versions() -> BTreeMap<String, String> {
    let lock = include_str!("../../Cargo.lock");
    let wanted = [
        "hworker",
        "redis",
        "apalis-redis",
        "rusty-sidekiq",
        "oxana",
        "chasquimq",
        "bullmq-rs",
        "tokio",
    ];
    let mut lines = lock.lines();
    let mut versions = BTreeMap::new();
    while let Some(line) = lines.next() {
        let quoted = |line: &str| line.split('"').nth(1).unwrap_or_default().to_owned();
        if line.starts_with("name = ") && wanted.contains(&quoted(line).as_str()) {
            versions.insert(quoted(line), lines.next().map(quoted).unwrap_or_default());
        }
    }
    let bullmq = scripts().join("bullmq-node/node_modules/bullmq/package.json");
    if let Ok(text) = std::fs::read(bullmq)
        && let Ok(package) = serde_json::from_slice::<serde_json::Value>(&text)
    {
        versions.insert("bullmq".into(), package["version"].as_str().unwrap_or("unknown").into());
    }
    versions
}

/// Lets `redis-benchmark` drain what `limit` has enqueued.
pub fn drain(
    bench: &Bench,
    server: &mut Server,
    concurrency: u64,
    jobs: u64,
) -> Result<Sample, Failure> {
    let limit = bench.contenders.iter().find(|contender| contender.name == "limit");
    bench.fill(limit.ok_or_else(|| fail("it needs the contender limit"))?, server, jobs)?;
    let hash: String = redis::cmd("SCRIPT").arg("LOAD").arg(SCRIPT).query(server.redis())?;
    let program = bench.contenders.iter().find(|contender| contender.name == BENCHMARK);
    let mut command = program.ok_or_else(|| fail("no redis-benchmark"))?.bare_command();
    let calls = (jobs / concurrency).max(1);
    command
        .args(server.place())
        .args([
            "-c",
            "1",
            "-n",
            &calls.to_string(),
            "EVALSHA",
            &hash,
            "2",
            "bench-progress",
            "bench",
        ])
        .args((0..concurrency).map(|slot| format!("0:{slot}")));
    let output = command.output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let rate = text.lines().find_map(|line| {
        let rest = line.trim().strip_prefix("throughput summary:")?;
        rest.split_whitespace().next()?.parse::<f64>().ok()
    });
    let rate = rate.ok_or_else(|| fail(format!("redis-benchmark said {text}")))?;
    Ok(Sample::from([("jobs_per_s", rate * concurrency as f64)]))
}

/// Why the figures are void, if they are.
pub fn void(results: &Results) -> Vec<String> {
    let of = |name: &str| results.rounds("w2", "100", name);
    let limit = of("limit");
    let mut reasons = Vec::new();
    if let Some(ratio) =
        Spread::ratio(limit, of(BENCHMARK), "jobs_per_s").filter(|ratio| ratio.high < SHARE)
    {
        let median = ratio.median;
        reasons.push(format!(
            "limit reaches only {median:.2} of redis-benchmark with the same script and batch"
        ));
    }
    reasons.extend(too_low(results));
    reasons
}

/// W9 holds shards against as many queues apart. Those have to be worth something too: as fast as their masters let them be, and not far
/// from so many times one queue alone, which a machine that does less else runs a little faster.
fn too_low(results: &Results) -> Vec<String> {
    let of = |setting: &str| results.rounds("w9", setting, "hworker");
    let mut reasons = Vec::new();
    if results.settings.scale == Scale::Smoke.name() {
        return reasons;
    }
    for (setting, number) in [("apart-2", 2.0), ("apart-3", 3.0), ("apart-6", 6.0)] {
        let used = Spread::metric(of(setting), "master_cpu_percent");
        if let Some(used) = used.filter(|used| used.high < 95.0 * shards::SHARE) {
            let median = used.median;
            reasons.push(format!(
                "masters of {setting} use {median:.1} % of a core, and may use more"
            ));
        }
        let times = Spread::ratio(of(setting), of("one"), "jobs_per_s");
        if let Some(times) = times.filter(|times| times.high < 0.85 * number) {
            let median = times.median;
            reasons.push(format!("{setting} is only {median:.2} times one queue alone"));
        }
    }
    reasons
}
