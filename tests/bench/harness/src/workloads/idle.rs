//! W3: an idle worker, how soon it starts a job, and what it costs while there is none.

use std::time::Duration;

use super::{Bench, FIRST, Rate, Sample, add_waits};
use crate::Failure;
use crate::contenders::Contender;
use crate::server::Server;

/// `pickup`: one worker and a job every 10 ms; `idle-100`: 100 idle workers.
pub const SETTINGS: &[&str] = &["pickup", "idle-100"];

/// Jobs that warm up both sides and do not count.
const WARM: u64 = 50;

pub fn takes(setting: &str, contender: &Contender) -> bool {
    setting == "pickup" || contender.is_hworker()
}

pub fn run(bench: &Bench, setting: &str, contender: &Contender) -> Result<Sample, Failure> {
    let server = Server::start(&bench.server)?;
    if setting == "idle-100" {
        let arguments = [("concurrency", 10), ("workers", 100)];
        let worker = bench.start(contender, &server, "work", &arguments)?;
        std::thread::sleep(Duration::from_secs(bench.scale.pick(5, 5, 1)));
        return idle(bench, &server, || Ok(worker.used()?.cpu));
    }
    let arguments = [("concurrency", 10), ("waits", FIRST + WARM)];
    let mut worker = bench.start(contender, &server, "work", &arguments)?;
    // It connects and comes to rest.
    std::thread::sleep(Duration::from_secs(2));
    let jobs = WARM + bench.scale.pick(1000, 300, 50);
    bench.produce(contender, &server, &[("jobs", jobs), ("rate", 100)])?;
    std::thread::sleep(Duration::from_millis(500));
    worker.tell("report")?;
    let done = worker.await_event("done", Duration::from_secs(10))?;
    Rate::of(&done)?;
    let mut sample = idle(bench, &server, || Ok(worker.used()?.cpu))?;
    add_waits(&mut sample, &done)?;
    Ok(sample)
}

/// What is sent and used while nothing happens.
fn idle(
    bench: &Bench,
    server: &Server,
    cpu: impl Fn() -> Result<f64, Failure>,
) -> Result<Sample, Failure> {
    let seconds = bench.scale.pick(10, 5, 1);
    let before = cpu()?;
    let commands = server.commands(Duration::from_secs(seconds))?;
    let used = cpu()? - before;
    let seconds = seconds as f64;
    // In whole ticks of the clock of processes: a tick in 5 s is 0.2, and not more by what a fraction cannot say.
    let percent = (used * 1e6).round() / 1e4 / seconds;
    Ok(Sample::from([
        ("idle_commands_per_s", commands as f64 / seconds),
        ("idle_cpu_percent", percent),
    ]))
}
