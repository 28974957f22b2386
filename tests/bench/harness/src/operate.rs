//! How long an operator waits for the first rows of each look into a queue on which a million jobs wait and a million have failed, while a
//! worker drains a thousand a second and as many come.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::contenders::Contender;
use crate::options::Run;
use crate::process::Process;
use crate::server::{Host, Server};
use crate::workloads::{Bench, PATIENCE};
use crate::{Failure, fail};

const TYPES: [&str; 5] = ["run", "never", "mail", "pay", "export"];
const GROUPS: u64 = 50;
/// A command that takes the server longer is named.
const SLOW_MS: f64 = 10.0;
/// The median of a look may be this.
const BOUND_MS: f64 = 100.0;

/// Each as it is typed. In place of a word in capitals comes the id of such a job, and a space of an underscore.
const LOOKS: &[&str] = &[
    "stats",
    "queues ls",
    "queues show bench",
    "jobs ls",
    "jobs ls --order newest",
    "jobs ls --job never",
    "jobs ls --since 5m",
    "jobs ls --args nobody",
    "jobs show WAITING",
    "jobs ls --state running",
    "failed ls",
    "failed groups",
    "failed ls --group abc000000011",
    "failed ls --job pay",
    "failed ls --error region_17",
    "failed ls --error nobody",
    "failed show FAILED",
    "scheduled ls",
    "jobs show SCHEDULED",
    "broken ls",
    "jobs show BROKEN",
    "workers ls",
    "crashes",
];

pub fn run(run: &Run) -> Result<bool, Failure> {
    let bench = Bench::new(run)?;
    let hworker = bench.contenders.iter().find(|contender| contender.is_hworker());
    let hworker = hworker.ok_or_else(|| fail("hworker is not built"))?;
    let many = bench.scale.pick(1_000_000, 100_000, 2_000);
    let mut server = Server::start(&bench.server)?;
    let began = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis() as u64 - many;
    fill(&server, many, began)?;
    let (_worker, _producer) = busy(hworker, &server, many)?;
    redis::cmd("CONFIG").arg(&["SET", "slowlog-max-len", "1000000"]).exec(server.redis())?;
    server.forget_slow()?;
    let cli =
        Cli { program: std::env::current_exe()?.with_file_name("hworker"), url: server.url() };
    // In the middle of each.
    let ids = [("WAITING", 1), ("SCHEDULED", 2), ("FAILED", 3), ("BROKEN", 4)]
        .map(|(name, kind)| (name, id(began, kind, many / 2)));
    let measured = cli.measure(&ids, bench.scale.pick(20, 5, 1));
    let (script, any) = server.slowest()?;
    println!("\nms; slowest script {script:.1}, slowest command {any:.1}");
    for (ms, command) in server.slower_than(SLOW_MS)? {
        println!("{ms:.1} ms: {command}");
    }
    measured
}

/// The program `hworker`.
struct Cli {
    program: PathBuf,
    url: String,
}

impl Cli {
    /// Prints a row for each look. False where a median is above the bound.
    fn measure(&self, ids: &[(&str, String)], times: usize) -> Result<bool, Failure> {
        let mut starts = Vec::new();
        for _ in 0..times {
            starts.push(self.ask(&["--version".to_owned()])?);
        }
        let (start, _) = median_and_worst(starts);
        println!("A start of the program: {start:.1} ms, which is taken off\n");
        println!("| `hworker` | median | worst |\n|---|---|---|");
        let mut well = true;
        for look in LOOKS {
            let mut took = Vec::new();
            for _ in 0..times {
                let known = |word| ids.iter().find(|(name, _)| *name == word);
                let words = look.split(' ').map(|word| {
                    known(word).map_or_else(|| word.replace('_', " "), |(_, id)| id.clone())
                });
                let mut words: Vec<_> = words.collect();
                let of_one = !["stats", "queues", "workers", "crashes"].contains(&&*words[0]);
                words.extend(
                    of_one.then_some(["-q", "bench"]).into_iter().flatten().map(str::to_owned),
                );
                took.push(self.ask(&words)? - start);
            }
            let (median, worst) = median_and_worst(took);
            well &= median <= BOUND_MS;
            println!("| {look} | {median:.1} | {worst:.1} |");
        }
        Ok(well)
    }

    /// How many ms it takes.
    fn ask(&self, words: &[String]) -> Result<f64, Failure> {
        let began = Instant::now();
        let mut command = Command::new(&self.program);
        let out = command.args(["--url", &self.url, "--json"]).args(words).output()?;
        if !out.status.success() {
            let said = String::from_utf8_lossy(&out.stderr).into_owned();
            return Err(fail(format!("hworker {words:?}: {}: {said}", out.status)));
        }
        Ok(began.elapsed().as_secs_f64() * 1000.0)
    }
}

fn median_and_worst(mut times: Vec<f64>) -> (f64, f64) {
    times.sort_by(f64::total_cmp);
    (times[times.len() / 2], times[times.len() - 1])
}

/// A UUIDv7 of the time that the job with this number has.
fn id(began: u64, kind: u64, n: u64) -> String {
    let at = began + n;
    format!("{:08x}-{:04x}-7000-8000-{kind}{n:011}", at >> 16, at & 0xffff)
}

fn envelope(began: u64, kind: u64, n: u64, job: &str) -> String {
    let (id, at) = (id(began, kind, n), began + n);
    let args = match job {
        "never" => "{}".to_owned(),
        _ => format!(r#"{{"n":{n},"at":{at}000,"text":"{}"}}"#, "x".repeat(60)),
    };
    format!(r#"{{"v":1,"id":"{id}","job":"{job}","args":{args},"enqueued_at":{at}}}"#)
}

fn group(n: u64) -> String {
    format!("{:012x}", 0xabc0_0000_0000 + n % GROUPS)
}

fn job(n: u64) -> &'static str {
    TYPES[(n % 5) as usize]
}

/// Writes jobs in all states, a millisecond apart, past the library.
fn fill(server: &Server, many: u64, began: u64) -> Result<(), Failure> {
    // Of each five one that ends at once.
    let waits = |n: u64| if n.is_multiple_of(5) { "never" } else { "run" };
    server.fill(["LPUSH", "hworker-jobs-bench"], many, |n| [envelope(began, 1, n, waits(n))])?;
    server.fill(["ZADD", "hworker-scheduled-bench"], many / 100, |n| {
        [(4_102_444_800_000 + n).to_string(), envelope(began, 2, n * 100, job(n))]
    })?;
    server.fill(["HSET", "hworker-record-bench"], many, |n| {
        let (id, at, job, group) = (id(began, 3, n), began + n, job(n), group(n));
        let region = n % GROUPS;
        let envelope = envelope(began, 3, n, job);
        let record = format!(
            r#"{{"v":1,"id":"{id}","job":"{job}","queue":"bench","outcome":"failed","worker":"host.0123456789ab","group":"{group}","kind":"error","message":"cannot reach the server of region {region}: timed out after 5 s","started_at":{at},"ended_at":{at},"attempts":3,"envelope":{envelope}}}"#
        );
        [id, record]
    })?;
    server.fill(["ZADD", "hworker-failed-bench"], many, |n| {
        [(began + n).to_string(), format!("{} {} {}", group(n), job(n), id(began, 3, n))]
    })?;
    server.fill(["HSET", "hworker-groups-bench"], GROUPS, |n| {
        let (count, last, job) = (many / GROUPS, began + many - GROUPS + n, job(n));
        let sample = format!(
            r#"{{"job":"{job}","kind":"error","message":"cannot reach the server of region {n}: timed out after 5 s","id":"{}"}}"#,
            id(began, 3, many - GROUPS + n)
        );
        [group(n), format!("{count} {} {last} {sample}", began + n)]
    })?;
    server.fill(["HSET", "hworker-broken-bench"], 1000, |n| {
        let payload = envelope(began, 4, n * many / 1000, "gone");
        [payload, format!("1 {} no worker knows its name", began + n)]
    })
}

/// A worker that runs about a thousand jobs a second, and a producer of as many.
fn busy(hworker: &Contender, server: &Server, many: u64) -> Result<(Process, Process), Failure> {
    let start = |role: &str, arguments: &[&str]| {
        let mut command = hworker.command(role);
        command.arg(format!("url={}", server.url())).args(arguments);
        // All records are kept.
        command.env("HWORKER_FAILED_LIMIT", "off").env("HWORKER_FAILED_BYTES", "off");
        Process::start(command, server.dir())
    };
    let mut worker = start("work", &["concurrency=8", "sleep_ms=10"])?;
    worker.await_event("ready", PATIENCE)?;
    let mut producer = start("produce", &["rate=1000", &format!("first={}", 10 * many)])?;
    producer.await_event("ready", PATIENCE)?;
    producer.tell("go")?;
    std::thread::sleep(Duration::from_secs(2));
    Ok((worker, producer))
}
