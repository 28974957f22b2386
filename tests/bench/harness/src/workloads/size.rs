//! W6: whether the cost of a job stays what it is with more that waits, more scheduled, more workers, larger payloads.

use std::time::{Duration, Instant};

use super::{Bench, FIRST, PATIENCE, Rate, Sample, Scale, drain};
use crate::contenders::Contender;
use crate::process::Process;
use crate::server::{Host, Server, Setup};
use crate::{Failure, fail};

/// How many wait, `100k` being what the others are held against; ten times as many in turn, for a worker that runs already; once with
/// a server whose allocator gives memory back in the thread that runs the commands; what lies beside those 100,000; the payload.
pub const SETTINGS: &[&str] = &[
    "100k",
    "10k",
    "10k-refilled",
    "1m",
    "1m-bg-thread-off",
    "10m",
    "scheduled-1m",
    "idle-1000",
    "1kb",
    "10kb",
    "100kb",
    "1mb",
];

/// Where the server's allocator has a thread that gives memory back, that holds its lock meanwhile, for up to ten milliseconds.
const BG_THREAD_OFF: [&str; 2] = ["jemalloc-bg-thread", "no"];

struct Plan {
    waiting: u64,
    drained: u64,
    scheduled: u64,
    idle_workers: u64,
    payload: u64,
}

pub fn takes(setting: &str, scale: Scale, contender: &Contender) -> bool {
    let fits = scale == Scale::Full || setting != "10m";
    // Others' workers and schedules are not the harness's to write.
    fits && contender.stores_plainly() && (setting != "idle-1000" || contender.is_hworker())
}

fn plan(bench: &Bench, setting: &str) -> Plan {
    let small = bench.scale.pick(1, 1, 100);
    let base = Plan {
        waiting: 100_000 / small,
        drained: 100_000 / small,
        scheduled: 0,
        idle_workers: 0,
        payload: bench.payload,
    };
    let payload = |bytes: u64| {
        let jobs = (200_000_000 / bytes).min(100_000) / small;
        Plan { waiting: jobs, drained: jobs, payload: bytes, ..base }
    };
    match setting {
        "10k" | "10k-refilled" => Plan { waiting: 10_000 / small, drained: 10_000 / small, ..base },
        "1m" | "1m-bg-thread-off" => Plan { waiting: 1_000_000 / small, ..base },
        "10m" => Plan { waiting: 10_000_000 / small, ..base },
        "scheduled-1m" => Plan { scheduled: 1_000_000 / small, ..base },
        "idle-1000" => Plan { idle_workers: 1000 / small, ..base },
        "1kb" => payload(1_000),
        "10kb" => payload(10_000),
        "100kb" => payload(100_000),
        "1mb" => payload(1_000_000),
        _ => base,
    }
}

pub fn run(bench: &Bench, setting: &str, contender: &Contender) -> Result<Sample, Failure> {
    let plan = plan(bench, setting);
    // A rewrite of the file takes a core, and comes about where a million waits but not where 100,000 do; W7 tells what it costs.
    let mut server = Server::start(&Setup { rewrites: false, ..bench.server.clone() })?;
    if setting.ends_with("-bg-thread-off") {
        redis::cmd("CONFIG").arg("SET").arg(&BG_THREAD_OFF).exec(server.redis())?;
    }
    let waiting = contender.waiting();
    let empty = server.used_memory()?;
    server.fill(["LPUSH", waiting.list], plan.waiting, |n| {
        [waiting.envelope(FIRST + n, plan.payload)]
    })?;
    let full = server.used_memory()?;
    server.fill(["ZADD", waiting.scheduled], plan.scheduled, |n| {
        // The year 2100.
        [(4_102_444_800_000 + n).to_string(), waiting.envelope(50_000_000 + n, plan.payload)]
    })?;
    let _idle = match plan.idle_workers {
        0 => None,
        workers => Some(idle(contender, &mut server, workers)?),
    };
    server.forget_slow()?;
    let mut sample = match setting {
        "10k-refilled" => refilled(bench, contender, &mut server, &plan)?,
        _ => drain::measure(bench, contender, &mut server, 100, plan.drained)?,
    };
    let (script, any) = server.slowest()?;
    sample.insert("slowest_script_ms", script);
    sample.insert("slowest_command_ms", any);
    sample.insert("server_bytes_per_waiting_job", (full - empty) / plan.waiting as f64);
    Ok(sample)
}

/// Drains what waits with a worker that starts, as all other settings do, and then the same number again and again; gives the pace of
/// those that follow, without what the start of a process takes.
fn refilled(
    bench: &Bench,
    contender: &Contender,
    server: &mut Server,
    plan: &Plan,
) -> Result<Sample, Failure> {
    const PREPARED: &str = "prepared";
    let waiting = contender.waiting();
    let arguments = [("concurrency", 100), ("jobs", plan.waiting)];
    let mut worker = bench.start(contender, server, "work", &arguments)?;
    worker.await_event("done", PATIENCE)?;
    let (mut jobs, mut seconds) = (0.0, 0.0);
    for turn in 1..=bench.scale.pick(10, 10, 1) {
        server.fill(["LPUSH", PREPARED], plan.waiting, |n| {
            [waiting.envelope(FIRST + turn * plan.waiting + n, plan.payload)]
        })?;
        drain::settle_down(server)?;
        worker.tell("again")?;
        worker.await_event("ready", PATIENCE)?;
        // All of them wait at once.
        redis::cmd("RENAME").arg(PREPARED).arg(waiting.list).exec(server.redis())?;
        let rate = Rate::of(&worker.await_event("done", PATIENCE)?)?;
        jobs += rate.jobs;
        seconds += rate.seconds;
    }
    drain::settle_down(server)?;
    Ok(Sample::from([("jobs_per_s", jobs / seconds), ("worker_rss_mb", worker.used()?.peak)]))
}

/// Workers that wait on another queue, all in one process.
fn idle(contender: &Contender, server: &mut Server, workers: u64) -> Result<Process, Failure> {
    let mut command = contender.command("work");
    command
        .arg(format!("url={}", server.url()))
        .arg(format!("workers={workers}"))
        .args(["queue=other", "concurrency=1"]);
    let mut process = Process::start(command, server.dir())?;
    process.await_event("ready", Duration::from_secs(30))?;
    let give_up = Instant::now() + Duration::from_secs(60);
    let (mut last, mut same) = (0, 0);
    while same < 4 {
        std::thread::sleep(Duration::from_millis(500));
        let clients: u64 = server.info("connected_clients")?.parse()?;
        same = if clients == last && clients > workers { same + 1 } else { 0 };
        last = clients;
        if Instant::now() > give_up {
            return Err(fail(format!(
                "{workers} idle workers have {clients} connections after 60 s"
            )));
        }
    }
    Ok(process)
}
