//! The suite where the server changes: a master that sentinels watch, or a cluster whose slots move and whose masters die.
//!
//! Enqueues ask for every replica (`replicated`), so that no change of the master may lose an accepted job. A master that is
//! killed may take results along, which is what explains a second run; one that hands over in good order, and a slot that
//! moves, explain none.

use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, sleep};
use std::time::{Duration, Instant, SystemTime};

use fastrand::Rng;
use hworker::{Client, Durability, Error, JobId};
use hworker_tests::{
    Act, Deployment, Process, Several, TestCluster, TestSentinels, TestServer, act, servers,
};

use crate::options::Options;
use crate::outside::{History, Struck};
use crate::report::Failure;
use crate::stage::lock;

/// Where bodies note their runs.
const NOTES: &str = "fire";

const PRODUCERS: usize = 4;

/// Jobs a second: each notes its begin and end, and waits for every replica.
const MOST: u32 = 200;

/// Everything has come to its end so long after the last fault.
const DRAINED_WITHIN: Duration = Duration::from_secs(120);

/// The kinds of faults, in the order in which they are told.
const KINDS: [&str; 4] = ["hand-over", "master-kill", "worker-kill", "worker-stop"];

/// The servers that are struck.
enum Servers {
    Watched(TestSentinels),
    Cluster(TestCluster),
}

struct Worker {
    name: String,
    process: Process,
}

impl fmt::Display for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name, self.process.pid())
    }
}

impl Servers {
    fn start(deployment: Deployment, keep: Option<&Path>) -> Result<Self, Failure> {
        match deployment {
            Deployment::Sentinel => {
                let builder = TestSentinels::builder().replicas(2).keep_in(keep);
                Ok(Self::Watched(builder.arg("min-replicas-to-write", "1").start()))
            }
            Deployment::Cluster => {
                let program = servers().into_iter().next().flatten();
                let program = program.unwrap_or_else(|| "redis-server".into());
                Ok(Self::Cluster(TestCluster::with_replicas_in(&program, keep)))
            }
            Deployment::Single => Err("one server has a suite of its own".into()),
        }
    }

    fn all(&self) -> &Several {
        match self {
            Self::Watched(all) => all,
            Self::Cluster(all) => all,
        }
    }

    fn notes(&self) -> &TestServer {
        self.all().notes()
    }

    fn queues(&self) -> Vec<String> {
        match self {
            Self::Watched(_) => vec!["default".to_owned()],
            Self::Cluster(all) => all.queue_on_each_master(),
        }
    }

    fn durable(&self) -> Result<Client, Failure> {
        let replicas = match self {
            Self::Watched(_) => 2,
            Self::Cluster(_) => 1,
        };
        let builder = self.all().client_builder();
        Ok(builder.durability(Durability::replicated(replicas)).build()?)
    }

    /// Starts a worker that is named after its log.
    fn worker(&self) -> Worker {
        static STARTED: AtomicUsize = AtomicUsize::new(0);
        let name = format!("process-{}", STARTED.fetch_add(1, Ordering::Relaxed));
        let queues: Vec<_> = self.queues().iter().map(|queue| format!("+{queue}")).collect();
        let process = self.all().worker_process(&[
            ("HWORKER_NAME", &name),
            ("HWORKER_QUEUES", &queues.join(",")),
            ("HWORKER_CONCURRENCY", "20"),
        ]);
        Worker { name, process }
    }

    /// Another server takes over, and the old one has handed over all that it had; says what went where.
    fn hand_over(&self, rng: &mut Rng) -> String {
        match self {
            Self::Watched(all) => {
                all.wait_until_whole();
                let Some(from) = all.master() else { return "nobody: no master".to_owned() };
                let to = all.hand_over(from);
                all.wait_until_whole();
                format!("server-{from} to server-{to}")
            }
            Self::Cluster(all) => {
                let queues = self.queues();
                let queue = &queues[rng.usize(..queues.len())];
                let jobs = format!("hworker-jobs-{{{queue}}}");
                let (slot, from) = (all.slot(&jobs), all.owner(&jobs));
                let to = (from + rng.usize(1..all.masters())) % all.masters();
                all.move_slot(slot, from, to);
                format!("slot {slot} of {queue} from master-{from} to master-{to}")
            }
        }
    }

    /// A master dies, another server takes over, and it comes back as a replica, or takes its place again; says which.
    fn kill_master(&self, rng: &mut Rng) -> String {
        match self {
            Self::Watched(all) => {
                all.wait_until_whole();
                let Some(master) = all.master() else { return "nobody: no master".to_owned() };
                all.kill(master);
                let next = all.failed_over_from(master);
                sleep(Duration::from_millis(rng.u64(0..2_000)));
                all.start_again(master);
                all.wait_until_whole();
                format!("server-{master}, followed by server-{next}")
            }
            Self::Cluster(all) => {
                let master = rng.usize(..all.masters());
                all.kill(master);
                all.failed_over(master);
                sleep(Duration::from_millis(rng.u64(0..2_000)));
                all.start_again(master);
                all.take_back(master);
                all.wait_until_replicated();
                all.wait_until_ok();
                format!("master-{master}, for a while followed by replica-{master}")
            }
        }
    }
}

/// A run of the suite; says whether all is as it should be.
pub(crate) fn run(options: &Options, deployment: Deployment) -> Result<bool, Failure> {
    println!("fire: {}", options.command());
    let servers = Servers::start(deployment, options.keep.as_deref())?;
    let stop = Arc::new(AtomicBool::new(false));
    let began = servers.notes().redis().time_us();
    let history = Arc::new(Mutex::new(History { began, ..History::default() }));
    let mut producing = Vec::new();
    for number in 0..PRODUCERS {
        let producer = Producer {
            client: servers.durable()?,
            queues: servers.queues(),
            rng: Rng::with_seed(options.seed.wrapping_add(number as u64)),
            pause: Duration::from_secs(1) * PRODUCERS as u32 / options.rate.clamp(1, MOST),
            history: Arc::clone(&history),
        };
        let stop = Arc::clone(&stop);
        producing.push(thread::spawn(move || producer.run(&stop)));
    }
    let faults = play(&servers, options, &history);
    stop.store(true, Ordering::Release);
    for producer in producing {
        producer.join().map_err(|_| "a producer panicked")??;
    }
    let mut workers: Vec<_> = (0..2).map(|_| servers.worker()).collect();
    look_at_the_end(&servers, &history)?;
    for worker in &mut workers {
        worker.process.terminate();
        let _ = worker.process.wait(Duration::from_secs(40));
    }
    let history = lock(&history);
    let found = history.check();
    println!(
        "{} faults, {} jobs accepted, {} settled",
        faults.len(),
        history.accepted.len(),
        found.jobs
    );
    println!(
        "{} enqueues uncertain; {} runs again, each after a fault",
        history.uncertain.len(),
        found.again
    );
    println!("\n| fault | struck | no enqueue accepted | no body begun |\n|---|---|---|---|");
    for (number, kind) in KINDS.iter().enumerate() {
        let of_kind = faults.iter().filter(|(which, ..)| *which == number);
        let (accepts, begins): (Vec<_>, Vec<_>) =
            of_kind.map(|(_, from, until)| history.outage(*from, *until)).unzip();
        println!("| {kind} | {} | {} | {} |", accepts.len(), spread(accepts), spread(begins));
    }
    println!("Seconds in the queue that it hit hardest, median / worst.\n");
    println!("{} violations", found.violations.len());
    for violation in found.violations.iter().take(20) {
        println!("    {violation}");
    }
    Ok(found.violations.is_empty() != options.until_violation)
}

/// Median and worst, in seconds, of times in microseconds.
fn spread(mut times: Vec<u64>) -> String {
    times.sort_unstable();
    let Some(worst) = times.last() else { return "-".to_owned() };
    let seconds = |time: u64| time as f64 / 1e6;
    format!("{:.1} / {:.1}", seconds(times[times.len() / 2]), seconds(*worst))
}

/// Lets one fault after the other strike, each kind as often as the others; gives the kind of each, and from when until when it
/// did.
fn play(servers: &Servers, options: &Options, history: &Mutex<History>) -> Vec<(usize, u64, u64)> {
    let mut rng = Rng::with_seed(options.seed);
    let mut workers: Vec<_> = (0..options.workers).map(|_| servers.worker()).collect();
    let mut faults = Vec::new();
    let (start, mut deck) = (Instant::now(), Vec::new());
    while start.elapsed() < options.duration {
        sleep(Duration::from_millis(rng.u64(500..3_000)));
        if deck.is_empty() {
            deck = (0..KINDS.len()).collect();
            rng.shuffle(&mut deck);
        }
        let Some(kind) = deck.pop() else { break };
        let victim = &mut workers[rng.usize(..options.workers)];
        let pid = (kind >= 2).then(|| victim.process.pid());
        let from = servers.notes().redis().time_us();
        let struck = match kind {
            0 => servers.hand_over(&mut rng),
            1 => servers.kill_master(&mut rng),
            2 => {
                victim.process.kill();
                let dead = std::mem::replace(victim, servers.worker());
                format!("{dead}, followed by {victim}")
            }
            _ => {
                victim.process.stop();
                sleep(Duration::from_millis(rng.u64(6_000..10_000)));
                victim.process.go_on();
                victim.to_string()
            }
        };
        let until = servers.notes().redis().time_us();
        faults.push((kind, from, until));
        if kind > 0 {
            lock(history).struck.push(Struck { from, until, pid });
        }
        for worker in &mut workers {
            if let Some(status) = worker.process.exited() {
                let died = format!("a worker died by itself: {worker}, {status}");
                lock(history).wrong.push(died);
                *worker = servers.worker();
            }
        }
        let (from, until) = {
            let history = lock(history);
            (history.seconds(from), history.seconds(until))
        };
        println!("{from:6.1} to {until:6.1} s: {} of {struck}", KINDS[kind]);
    }
    // Those that end here are killed, and others bring everything to its end.
    for worker in &mut workers {
        let from = servers.notes().redis().time_us();
        let pid = Some(worker.process.pid());
        worker.process.kill();
        lock(history).struck.push(Struck { from, until: from, pid });
    }
    faults
}

/// Who enqueues one job after the other.
struct Producer {
    client: Client,
    queues: Vec<String>,
    rng: Rng,
    pause: Duration,
    history: Arc<Mutex<History>>,
}

impl Producer {
    fn run(mut self, stop: &AtomicBool) -> Result<(), Failure> {
        while !stop.load(Ordering::Acquire) {
            sleep(self.pause);
            let (plan, fails) = self.plan();
            let queue = &self.queues[self.rng.usize(..self.queues.len())];
            let job = act::with(NOTES.to_owned(), plan).on(&self.client).queue(queue);
            match job.enqueue_blocking() {
                Ok(id) => self.note(&id, Some(queue), fails),
                Err(Error::Uncertain { id, .. } | Error::NotDurable { id, .. }) => {
                    self.note(&id, None, fails);
                }
                Err(Error::Unavailable { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Notes a job, and the queue that has accepted it.
    fn note(&self, id: &JobId, accepted: Option<&String>, fails: bool) {
        let mut history = lock(&self.history);
        if let Some(queue) = accepted {
            // The clock of the notes is that of this machine.
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            let accepted = history.by_queue.entry(queue.clone()).or_default();
            accepted.push((now.as_micros() as u64, id.to_string()));
        }
        if fails {
            history.to_fail.insert(id.to_string());
        }
        let jobs = if accepted.is_some() { &mut history.accepted } else { &mut history.uncertain };
        jobs.insert(id.to_string());
    }

    /// What a job does, and whether it fails by that.
    fn plan(&mut self) -> (Vec<Vec<Act>>, bool) {
        let sleeps = Act::Sleep(self.rng.u64(0..50));
        match self.rng.u8(..20) {
            0 => (vec![vec![Act::Retry("again".to_owned())], vec![]], false),
            1 => (vec![vec![sleeps, Act::RetryIn(100)], vec![]], false),
            2 => {
                let fails = vec![Act::Note("fails".to_owned()), Act::Failure("meant".to_owned())];
                (vec![fails], true)
            }
            3 => (vec![vec![Act::Sleep(3_000)]], false),
            _ => (vec![vec![sleeps]], false),
        }
    }
}

/// Waits until all jobs have ended, and reads what is left.
fn look_at_the_end(servers: &Servers, history: &Mutex<History>) -> Result<(), Failure> {
    let runtime = tokio::runtime::Runtime::new()?;
    let client = servers.durable()?;
    let give_up = Instant::now() + DRAINED_WITHIN;
    loop {
        let (mut left, mut processed, mut failed) = (Vec::new(), 0, 0);
        for queue in servers.queues() {
            let inspect = client.inspect(&queue);
            let counts = runtime.block_on(inspect.counts())?;
            let waiting = [counts.waiting, counts.running, counts.scheduled, counts.parked];
            let named = ["pending", "running", "scheduled", "parked"].into_iter().zip(waiting);
            left.extend(
                named.filter(|(_, n)| *n > 0).map(|(what, n)| (format!("{queue}: {what}"), n)),
            );
            let statistics = runtime.block_on(inspect.statistics(None))?;
            processed += statistics.get("processed").copied().unwrap_or(0);
            failed += statistics.get("failed").copied().unwrap_or(0);
        }
        if left.is_empty() || Instant::now() > give_up {
            let mut history = lock(history);
            (history.left, history.processed, history.failed) = (left, processed, failed);
            history.runs = servers.notes().runs_of(NOTES);
            if history.missing() == 0 || Instant::now() > give_up {
                return Ok(());
            }
        }
        sleep(Duration::from_millis(200));
    }
}
